//! What templates may call: filters, tests, methods and functions, as Jinja and Python have them.

use super::run::{Given, Run};
use super::text::Json;
use super::value::Value;
use super::{Fault, Result};

/// The methods of strings.
pub(super) const TEXT_METHODS: [&str; 33] = [
    "capitalize",
    "casefold",
    "center",
    "count",
    "endswith",
    "find",
    "format",
    "index",
    "isalnum",
    "isalpha",
    "isdecimal",
    "isdigit",
    "islower",
    "isnumeric",
    "isspace",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
];
const MORE_TEXT_METHODS: [&str; 4] = ["swapcase", "title", "upper", "zfill"];
/// The methods of lists. Those that change a list are refused, as in transformers' sandbox.
pub(super) const LIST_METHODS: [&str; 3] = ["copy", "count", "index"];
/// The methods of dictionaries.
pub(super) const MAP_METHODS: [&str; 5] = ["copy", "get", "items", "keys", "values"];

/// The most digits after a decimal point. The standard library panics beyond 65,535.
const MOST_DIGITS: usize = 4096;
/// The most numbers of a range, as in Jinja's sandbox.
const LONGEST_RANGE: i64 = 100_000;

pub(super) fn has_text_method(name: &str) -> bool {
    TEXT_METHODS.contains(&name) || MORE_TEXT_METHODS.contains(&name)
}

impl<'s> Given<'s> {
    /// The value at this place, or of this name.
    fn get(&self, at: usize, name: &str) -> Option<&Value<'s>> {
        let named = || self.named.iter().find(|(own, _)| *own == name).map(|(_, value)| value);
        self.positional.get(at).or_else(named)
    }

    fn text(&self, at: usize, name: &str) -> Result<Option<&str>> {
        match self.get(at, name) {
            None | Some(Value::None) => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(Fault::new(format!("{name} is a {}, not a string", other.kind()))),
        }
    }

    fn int(&self, at: usize, name: &str) -> Result<Option<i64>> {
        match self.get(at, name) {
            None | Some(Value::None) => Ok(None),
            Some(value) => value.int().map(Some).ok_or_else(|| {
                Fault::new(format!("{name} is a {}, not a whole number", value.kind()))
            }),
        }
    }

    fn truth(&self, at: usize, name: &str) -> bool {
        self.get(at, name).is_some_and(Value::truth)
    }

    /// A value that must be there.
    fn needed(&self, at: usize, name: &str) -> Result<&Value<'s>> {
        self.get(at, name).ok_or_else(|| Fault::new(format!("{name} is missing")))
    }

    fn needed_text(&self, at: usize, name: &str) -> Result<&str> {
        self.text(at, name)?.ok_or_else(|| Fault::new(format!("{name} is missing")))
    }

    /// The values after the first `count`.
    fn after(&self, count: usize) -> Self {
        Self {
            positional: self.positional.get(count..).unwrap_or_default().to_vec(),
            named: self.named.clone(),
        }
    }
}

/// Text with its first letter upper and the others lower, as `str.capitalize` does.
fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    [first.unwrap_or_default(), chars.as_str().to_lowercase()].concat()
}

/// Text with each word capitalized; `letters` tells whether words end where letters do, or at spaces and brackets.
fn titled(text: &str, letters: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut begins = true;
    for c in text.chars() {
        if begins {
            out.extend(c.to_uppercase());
        } else {
            out.extend(c.to_lowercase());
        }
        begins = if letters {
            !c.is_alphabetic()
        } else {
            c.is_whitespace() || ['-', '(', '{', '[', '<'].contains(&c)
        };
    }
    out
}

impl<'s> Run<'s> {
    pub(super) fn function(&mut self, name: &str, given: &Given<'s>) -> Result<Value<'s>> {
        match name {
            "range" => {
                let first = given.int(0, "start")?.unwrap_or_default();
                let (start, stop) = given.int(1, "stop")?.map_or((0, first), |stop| (first, stop));
                let step = given.int(2, "step")?.unwrap_or(1);
                if step == 0 {
                    return Err(Fault::new("the step of a range is 0"));
                }
                let length = (i128::from(stop) - i128::from(start)).checked_div(step.into());
                if length.is_none_or(|length| length > LONGEST_RANGE.into()) {
                    let what = format!("a range has more than {LONGEST_RANGE} numbers");
                    return Err(Fault::new(what));
                }
                let mut items = Vec::new();
                let mut at = start;
                while (step > 0 && at < stop) || (step < 0 && at > stop) {
                    self.charge(size_of::<Value<'_>>())?;
                    items.push(Value::Int(at));
                    at = at.saturating_add(step);
                }
                Value::list(items)
            }
            "dict" => {
                let mut pairs = match given.positional.first() {
                    Some(Value::Map(map)) => map.entries.clone(),
                    Some(other) => self.pairs(other)?,
                    None => Vec::new(),
                };
                let named = given.named.iter();
                pairs.extend(named.map(|(name, value)| (Value::from(*name), value.clone())));
                self.map(pairs)
            }
            "raise_exception" => {
                let what = given.positional.first().cloned().unwrap_or(Value::None);
                // A message is a line for people.
                Err(Fault::new(self.text(&what)?.chars().take(1000).collect::<String>()))
            }
            "strftime_now" => {
                let format = given.needed_text(0, "format")?;
                self.charge(format.len() * 16)?;
                let text = date(format, self.now)?;
                self.made(&text)
            }
            other => Err(Fault::new(format!("the function {other} is not known"))),
        }
    }

    /// Pairs of values, as `dict` takes them.
    fn pairs(&mut self, value: &Value<'s>) -> Result<Vec<(Value<'s>, Value<'s>)>> {
        let mut pairs = Vec::new();
        for pair in self.items(value)? {
            match <[Value<'s>; 2]>::try_from(self.items(&pair)?) {
                Ok(pair) => pairs.push(pair.into()),
                Err(_) => return Err(Fault::new("a dictionary is made of pairs")),
            }
        }
        Ok(pairs)
    }

    pub(super) fn method(
        &mut self,
        own: &Value<'s>,
        name: &str,
        given: &Given<'s>,
    ) -> Result<Value<'s>> {
        match own {
            Value::Text(text) => self.text_method(text, name, given),
            Value::List(list) => {
                if name == "copy" {
                    Ok(own.clone())
                } else {
                    let wanted = given.needed(0, "value")?;
                    let mut found = Vec::new();
                    for (at, item) in list.items.iter().enumerate() {
                        if self.equal(item, wanted)? {
                            found.push(at as i64);
                        }
                    }
                    let count = found.len() as i64;
                    let index = found.first().copied();
                    let result = if name == "count" { Some(count) } else { index };
                    result.map(Value::Int).ok_or_else(|| Fault::new("the list lacks the value"))
                }
            }
            Value::Map(map) => match name {
                "get" => {
                    let key = given.needed(0, "key")?;
                    let default = given.get(1, "default").cloned();
                    Ok(self.entry(map, key)?.or(default).unwrap_or(Value::None))
                }
                "copy" => Ok(own.clone()),
                "keys" => {
                    let keys = self.items(own)?;
                    Value::list(keys)
                }
                "values" => {
                    let values = map.entries.iter().map(|(_, value)| value.clone()).collect();
                    self.listed(values)
                }
                _ => self.map_items(own),
            },
            Value::Loop(state) => {
                let count = given.positional.len().max(1);
                let value = given.positional.get(state.index % count).cloned();
                value.ok_or_else(|| Fault::new("loop.cycle takes values"))
            }
            other => Err(Fault::new(format!("a {} has no method {name}", other.kind()))),
        }
    }

    fn map_items(&mut self, value: &Value<'s>) -> Result<Value<'s>> {
        let entries = match value {
            Value::Map(map) => &map.entries[..],
            Value::Undefined(_) => &[],
            other => return Err(Fault::new(format!("a {} has no items", other.kind()))),
        };
        let mut items = Vec::new();
        for (key, value) in entries {
            self.charge(4 * size_of::<Value<'_>>())?;
            items.push(Value::tuple(vec![key.clone(), value.clone()])?);
        }
        Value::list(items)
    }

    fn text_method(&mut self, text: &str, name: &str, given: &Given<'s>) -> Result<Value<'s>> {
        // What is made of a text by itself has at most three times its bytes.
        self.charge(text.len() * 3)?;
        let bounds = || Self::between(text, given);
        let is = |test: fn(char) -> bool| Value::Bool(!text.is_empty() && text.chars().all(test));
        Ok(match name {
            "upper" => Value::from(&*text.to_uppercase()),
            "lower" | "casefold" => Value::from(&*text.to_lowercase()),
            "title" => Value::from(&*titled(text, true)),
            "capitalize" => Value::from(&*capitalized(text)),
            "swapcase" => {
                let swapped = |c: char| {
                    if c.is_uppercase() {
                        c.to_lowercase().to_string()
                    } else {
                        c.to_uppercase().to_string()
                    }
                };
                Value::from(&*text.chars().map(swapped).collect::<String>())
            }
            "strip" => Value::from(stripped(text, given.text(0, "chars")?, true, true)),
            "lstrip" => Value::from(stripped(text, given.text(0, "chars")?, true, false)),
            "rstrip" => Value::from(stripped(text, given.text(0, "chars")?, false, true)),
            "removeprefix" => {
                let part = given.needed_text(0, "prefix")?;
                Value::from(text.strip_prefix(part).unwrap_or(text))
            }
            "removesuffix" => {
                let part = given.needed_text(0, "suffix")?;
                Value::from(text.strip_suffix(part).unwrap_or(text))
            }
            "startswith" | "endswith" => {
                let parts = match given.needed(0, "prefix")? {
                    Value::List(list) if list.tuple => list.items.clone(),
                    one => vec![one.clone()],
                };
                let (from, to) = bounds()?;
                let text = text.get(from..to).unwrap_or_default();
                let mut found = false;
                for part in &parts {
                    self.charge(0)?;
                    let Value::Text(part) = part else {
                        let what = format!("{name} takes strings, not a {}", part.kind());
                        return Err(Fault::new(what));
                    };
                    found |= if name == "startswith" {
                        text.starts_with(&**part)
                    } else {
                        text.ends_with(&**part)
                    };
                }
                Value::Bool(found)
            }
            "find" | "rfind" | "index" => {
                let part = given.needed_text(0, "part")?;
                let (from, to) = bounds()?;
                let within = text.get(from..to).unwrap_or_default();
                let found = if name == "rfind" { within.rfind(part) } else { within.find(part) };
                let found = found.map(|at| text[..from + at].chars().count() as i64);
                if name == "index" && found.is_none() {
                    return Err(Fault::new("the part is not found"));
                }
                Value::Int(found.unwrap_or(-1))
            }
            "count" => {
                let part = given.needed_text(0, "part")?;
                Value::Int(text.matches(part).count() as i64)
            }
            "replace" => {
                let (old, new) = (given.needed_text(0, "old")?, given.needed_text(1, "new")?);
                return self.replaced(text, old, new, given.int(2, "count")?);
            }
            "split" | "rsplit" => {
                let most = given.int(1, "maxsplit")?.and_then(|most| usize::try_from(most).ok());
                return self.split(text, given.text(0, "sep")?, most, name == "rsplit");
            }
            "splitlines" => {
                let keep = given.truth(0, "keepends");
                let mut lines = Vec::new();
                for line in text.split_inclusive(['\n', '\r']) {
                    // "\r\n" is one break.
                    if line == "\n"
                        && text.as_bytes().get(offset(text, line).wrapping_sub(1)) == Some(&b'\r')
                    {
                        continue;
                    }
                    let end = offset(text, line) + line.len();
                    let pair = line.ends_with('\r') && text[end..].starts_with('\n');
                    let whole = &text[offset(text, line)..end + usize::from(pair)];
                    self.charge(64)?;
                    let bare = whole.trim_end_matches(['\n', '\r']);
                    lines.push(Value::from(if keep { whole } else { bare }));
                }
                return self.listed(lines);
            }
            "join" => {
                let value = given.needed(0, "values")?;
                let items = self.items(value)?;
                let wrong = items.iter().find(|item| !matches!(item, Value::Text(_)));
                if let Some(wrong) = wrong {
                    return Err(Fault::new(format!("join takes strings, not a {}", wrong.kind())));
                }
                return self.joined(&items, text);
            }
            "partition" | "rpartition" => {
                let part = given.needed_text(0, "sep")?;
                let last = name == "rpartition";
                let split = if last { text.rsplit_once(part) } else { text.split_once(part) };
                let parts = match split {
                    Some((before, after)) => [before, part, after],
                    None if last => ["", "", text],
                    None => [text, "", ""],
                };
                self.charge(text.len() + part.len() + 128)?;
                Value::tuple(parts.map(Value::from).to_vec())?
            }
            "center" | "ljust" | "rjust" | "zfill" => {
                let width = given.int(0, "width")?.unwrap_or_default();
                let fill =
                    if name == "zfill" { "0" } else { given.text(1, "fill")?.unwrap_or(" ") };
                let side = match name {
                    "center" => Side::Both,
                    "ljust" => Side::Right,
                    _ => Side::Left,
                };
                let sign =
                    if name == "zfill" && text.starts_with(['+', '-']) { &text[..1] } else { "" };
                let width = width.saturating_sub(sign.len() as i64);
                let padded = self.padded(&text[sign.len()..], width, fill, side)?;
                return self.made(&format!("{sign}{padded}"));
            }
            "format" => {
                let text = self.braces(text, given)?;
                return self.made(&text);
            }
            "isdigit" | "isdecimal" | "isnumeric" => is(char::is_numeric),
            "isalpha" => is(char::is_alphabetic),
            "isalnum" => is(char::is_alphanumeric),
            "isspace" => is(char::is_whitespace),
            "isupper" | "islower" => {
                let (upper, lower) = (text.to_uppercase(), text.to_lowercase());
                let same = if name == "isupper" { &upper } else { &lower };
                Value::Bool(upper != lower && text == same)
            }
            other => return Err(Fault::new(format!("a string has no method {other}"))),
        })
    }

    /// The bytes between the optional second and third arguments of `find` and its kind, which count characters.
    fn between(text: &str, given: &Given<'s>) -> Result<(usize, usize)> {
        let at = |index: Option<i64>, default: usize| {
            let Some(index) = index else { return default };
            let length = text.chars().count() as i64;
            let index = if index < 0 { index.saturating_add(length).max(0) } else { index };
            text.char_indices().nth(index.unsigned_abs() as usize).map_or(text.len(), |(at, _)| at)
        };
        let from = at(given.int(1, "start")?, 0);
        Ok((from, at(given.int(2, "end")?, text.len()).max(from)))
    }

    fn replaced(
        &mut self,
        text: &str,
        old: &str,
        new: &str,
        most: Option<i64>,
    ) -> Result<Value<'s>> {
        let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
        let count = text.matches(old).take(most).count();
        let grown = new.len().saturating_sub(old.len());
        self.charge(text.len().saturating_add(count.saturating_mul(grown)))?;
        Ok(Value::from(&*text.replacen(old, new, most)))
    }

    fn split(
        &mut self,
        text: &str,
        separator: Option<&str>,
        most: Option<usize>,
        last: bool,
    ) -> Result<Value<'s>> {
        // Each part is a text of its own, with its counts and its places in two lists.
        let count = match separator {
            Some(separator) => text.matches(separator).count(),
            None => text.chars().filter(|c| c.is_whitespace()).count(),
        };
        self.charge(text.len() + 80 * count.min(most.unwrap_or(count)))?;
        let parts: Vec<&str> = match (separator, most) {
            (Some(""), _) => return Err(Fault::new("the separator is empty")),
            (Some(separator), None) => text.split(separator).collect(),
            (Some(separator), Some(most)) if last => {
                let mut parts: Vec<_> = text.rsplitn(most.saturating_add(1), separator).collect();
                parts.reverse();
                parts
            }
            (Some(separator), Some(most)) => {
                text.splitn(most.saturating_add(1), separator).collect()
            }
            (None, None) => text.split_whitespace().collect(),
            (None, Some(most)) => {
                let (mut parts, mut rest) = (Vec::new(), text);
                loop {
                    rest = if last { rest.trim_end() } else { rest.trim_start() };
                    if rest.is_empty() {
                        break;
                    }
                    let space = if last {
                        rest.rfind(char::is_whitespace)
                    } else {
                        rest.find(char::is_whitespace)
                    };
                    let Some(space) = space.filter(|_| parts.len() < most) else {
                        parts.push(rest);
                        break;
                    };
                    let width = rest[space..].chars().next().map_or(1, char::len_utf8);
                    if last {
                        parts.push(&rest[space + width..]);
                        rest = &rest[..space];
                    } else {
                        parts.push(&rest[..space]);
                        rest = &rest[space + width..];
                    }
                }
                if last {
                    parts.reverse();
                }
                parts
            }
        };
        let parts = parts.into_iter().map(Value::from).collect();
        self.listed(parts)
    }

    fn joined(&mut self, items: &[Value<'s>], between: &str) -> Result<Value<'s>> {
        let mut out = String::new();
        for (i, item) in items.iter().enumerate() {
            self.write(&mut out, if i == 0 { "" } else { between })?;
            self.write_text(&mut out, item)?;
        }
        self.made(&out)
    }

    /// Text with so many characters at least.
    fn padded(&mut self, text: &str, width: i64, fill: &str, side: Side) -> Result<String> {
        let missing = width.saturating_sub(text.chars().count() as i64).max(0) as usize;
        self.charge(missing.saturating_mul(fill.len()).saturating_add(text.len()))?;
        let left = match side {
            Side::Left => missing,
            Side::Right => 0,
            // As Python does: the odd one is at the left if the width is odd.
            Side::Both => missing / 2 + (missing & width as usize & 1),
        };
        Ok([&fill.repeat(left), text, &fill.repeat(missing - left)].concat())
    }

    pub(super) fn test(
        &mut self,
        name: &str,
        value: &Value<'s>,
        given: &Given<'s>,
    ) -> Result<bool> {
        let number = || {
            value.int().ok_or_else(|| Fault::new(format!("a {} is no whole number", value.kind())))
        };
        Ok(match name {
            "defined" => !matches!(value, Value::Undefined(_)),
            "undefined" => matches!(value, Value::Undefined(_)),
            "none" => matches!(value, Value::None),
            "string" => matches!(value, Value::Text(_)),
            "mapping" => matches!(value, Value::Map(_)),
            "sequence" => {
                matches!(
                    value,
                    Value::Text(_) | Value::List(_) | Value::Map(_) | Value::Undefined(_)
                )
            }
            "iterable" => {
                matches!(
                    value,
                    Value::Text(_)
                        | Value::List(_)
                        | Value::Map(_)
                        | Value::Undefined(_)
                        | Value::Loop(_)
                )
            }
            "callable" => matches!(value, Value::Macro(..) | Value::Function(_) | Value::Method(_)),
            "number" => value.float().is_some(),
            "integer" => matches!(value, Value::Int(_)),
            "float" => matches!(value, Value::Float(_)),
            "boolean" => matches!(value, Value::Bool(_)),
            "true" => matches!(value, Value::Bool(true)),
            "false" => matches!(value, Value::Bool(false)),
            "odd" => number()?.rem_euclid(2) == 1,
            "even" => number()?.rem_euclid(2) == 0,
            "divisibleby" => {
                let by = given.int(0, "num")?.filter(|by| *by != 0);
                let by = by.ok_or_else(|| Fault::new("divisibleby takes a number"))?;
                number()?.checked_rem(by).unwrap_or_default() == 0
            }
            "equalto" | "eq" => self.equal(value, given.needed(0, "other")?)?,
            "ne" => !self.equal(value, given.needed(0, "other")?)?,
            "lt" | "lessthan" => self.order(value, given.needed(0, "other")?)?.is_lt(),
            "le" => self.order(value, given.needed(0, "other")?)?.is_le(),
            "gt" | "greaterthan" => self.order(value, given.needed(0, "other")?)?.is_gt(),
            "ge" => self.order(value, given.needed(0, "other")?)?.is_ge(),
            "in" => self.contains(given.needed(0, "seq")?, value)?,
            "sameas" => {
                let other = given.needed(0, "other")?;
                value.kind() == other.kind() && self.equal(value, other)?
            }
            "lower" | "upper" => {
                let text = self.text(value)?;
                let method = if name == "lower" { "islower" } else { "isupper" };
                self.text_method(&text, method, given)?.truth()
            }
            "escaped" => false,
            other => return Err(Fault::new(format!("the test {other:?} is not known"))),
        })
    }

    pub(super) fn filter(
        &mut self,
        name: &str,
        value: &Value<'s>,
        given: &Given<'s>,
    ) -> Result<Value<'s>> {
        match name {
            "tojson" => {
                let spaces;
                let indent = match given.get(1, "indent") {
                    None | Some(Value::None) => None,
                    Some(Value::Text(indent)) => Some(&**indent),
                    Some(_) => {
                        let count = given.int(1, "indent")?.unwrap_or_default().max(0) as usize;
                        self.charge(count)?;
                        spaces = " ".repeat(count);
                        Some(spaces.as_str())
                    }
                };
                let separators = match given.get(2, "separators") {
                    None | Some(Value::None) => None,
                    Some(pair) => Some(self.items(pair)?),
                };
                let (item_separator, key_separator) = match separators.as_deref() {
                    None if indent.is_some() => (",", ": "),
                    None => (", ", ": "),
                    Some([Value::Text(item), Value::Text(key)]) => (&**item, &**key),
                    Some(_) => return Err(Fault::new("separators are two strings")),
                };
                let ascii = given.truth(0, "ensure_ascii");
                let sort = given.truth(3, "sort_keys");
                let json = Json { indent, item_separator, key_separator, ascii, sort };
                let mut out = String::new();
                self.write_json(&mut out, value, &json, "")?;
                self.made(&out)
            }
            "upper" | "lower" | "capitalize" | "trim" | "title" | "center" | "replace"
            | "format" => {
                let text = self.text(value)?;
                match name {
                    "trim" => self.text_method(&text, "strip", given),
                    "title" => {
                        self.charge(text.len() * 3)?;
                        self.made(&titled(&text, false))
                    }
                    "format" => {
                        let values = if given.named.is_empty() {
                            Value::tuple(given.positional.clone())?
                        } else {
                            let named = given.named.iter();
                            let named =
                                named.map(|(name, value)| (Value::from(*name), value.clone()));
                            self.map(named.collect())?
                        };
                        self.percent(&text, &values)
                    }
                    "center" if given.positional.is_empty() => {
                        let width = given.int(0, "width")?.unwrap_or(80);
                        let padded = self.padded(&text, width, " ", Side::Both)?;
                        self.made(&padded)
                    }
                    other => self.text_method(&text, other, given),
                }
            }
            "string" => {
                let text = self.text(value)?;
                self.made(&text)
            }
            "safe" => Ok(value.clone()),
            "e" | "escape" | "forceescape" => {
                let text = self.text(value)?;
                self.charge(text.len() * 5)?;
                let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
                self.made(&text.replace('"', "&#34;").replace('\'', "&#39;"))
            }
            "length" | "count" => {
                let length = match value {
                    Value::Undefined(_) => 0,
                    Value::Text(text) => {
                        self.charge(text.len())?;
                        text.chars().count()
                    }
                    Value::List(list) => list.items.len(),
                    Value::Map(map) => map.entries.len(),
                    Value::Loop(state) => state.length,
                    other => return Err(Fault::new(format!("a {} has no length", other.kind()))),
                };
                Ok(Value::Int(length as i64))
            }
            "default" | "d" => {
                let empty = Value::from("");
                let default = given.get(0, "default_value").unwrap_or(&empty);
                let missing = matches!(value, Value::Undefined(_))
                    || (given.truth(1, "boolean") && !value.truth());
                Ok(if missing { default.clone() } else { value.clone() })
            }
            "list" => {
                let items = self.items(value)?;
                Value::list(items)
            }
            "items" => self.map_items(value),
            "first" | "last" => {
                let mut items = self.items(value)?;
                let item = if name == "last" { items.pop() } else { items.into_iter().next() };
                Ok(item.unwrap_or(Value::Undefined("")))
            }
            "reverse" => {
                let mut items = self.items(value)?;
                items.reverse();
                if matches!(value, Value::Text(_)) {
                    self.joined(&items, "")
                } else {
                    Value::list(items)
                }
            }
            "join" => {
                let items = self.items(value)?;
                let items = self.attributes(items, given.get(1, "attribute").cloned())?;
                self.joined(&items, given.text(0, "d")?.unwrap_or_default())
            }
            "int" => {
                let default = given.get(0, "default").cloned().unwrap_or(Value::Int(0));
                let number = match value {
                    Value::Text(text) => {
                        self.charge(text.len())?;
                        let text = text.trim().replace('_', "");
                        let whole = || text.parse::<f64>().ok().map(|number| number as i64);
                        text.parse().ok().or_else(whole)
                    }
                    Value::Float(number) => number.is_finite().then_some(*number as i64),
                    other => other.int(),
                };
                Ok(number.map_or(default, Value::Int))
            }
            "float" => {
                let default = given.get(0, "default").cloned().unwrap_or(Value::Float(0.0));
                let number = match value {
                    Value::Text(text) => text.trim().parse().ok(),
                    other => other.float(),
                };
                Ok(number.map_or(default, Value::Float))
            }
            "abs" => match value {
                Value::Float(number) => Ok(Value::Float(number.abs())),
                other => {
                    other.int().and_then(i64::checked_abs).map(Value::Int).ok_or_else(|| {
                        Fault::new(format!("a {} has no absolute value", other.kind()))
                    })
                }
            },
            "round" => {
                let number = value.float().ok_or_else(|| Fault::new("round takes a number"))?;
                let digits = given.int(0, "precision")?.unwrap_or_default().clamp(-300, 300) as i32;
                let method = given.text(1, "method")?.unwrap_or("common");
                let scale = 10_f64.powi(digits);
                Ok(Value::Float(match method {
                    "ceil" => (number * scale).ceil() / scale,
                    "floor" => (number * scale).floor() / scale,
                    _ if digits >= 0 => {
                        format!("{number:.*}", digits as usize).parse().unwrap_or(number)
                    }
                    _ => (number * scale).round_ties_even() / scale,
                }))
            }
            "attr" => self.item(value, given.needed(0, "name")?),
            "map" => self.mapped(value, given),
            "select" | "reject" | "selectattr" | "rejectattr" => self.selected(name, value, given),
            "sort" | "dictsort" | "unique" | "min" | "max" | "groupby" => {
                self.ordered(name, value, given)
            }
            "sum" => {
                let items = self.items(value)?;
                let items = self.attributes(items, given.get(0, "attribute").cloned())?;
                let (mut whole, mut float) = (Some(0_i64), None);
                for item in &items {
                    match (item, item.int()) {
                        (_, Some(number)) => whole = whole.and_then(|sum| sum.checked_add(number)),
                        (Value::Float(number), _) => float = Some(float.unwrap_or(0.0) + number),
                        _ => return Err(Fault::new("sum takes numbers")),
                    }
                }
                let whole = whole.ok_or_else(|| Fault::new("a number is too large"))?;
                Ok(float.map_or(Value::Int(whole), |float| Value::Float(float + whole as f64)))
            }
            "batch" | "slice" => {
                let count = given.int(0, "linecount")?.unwrap_or_default();
                let count = usize::try_from(count).ok().filter(|count| *count > 0);
                let count = count.ok_or_else(|| Fault::new(format!("{name} takes a number")))?;
                let items = self.items(value)?;
                let mut parts = Vec::new();
                if name == "batch" {
                    for part in items.chunks(count) {
                        parts.push(self.listed(part.to_vec())?);
                    }
                } else {
                    let (each, more) = (items.len() / count, items.len() % count);
                    let mut rest = items.into_iter();
                    for part in 0..count {
                        let length = each + usize::from(part < more);
                        let part: Vec<_> = rest.by_ref().take(length).collect();
                        parts.push(self.listed(part)?);
                    }
                }
                self.listed(parts)
            }
            "indent" => {
                let text = self.text(value)?;
                let spaces;
                let indent = if let Some(Value::Text(indent)) = given.get(0, "width") {
                    &**indent
                } else {
                    let count = given.int(0, "width")?.unwrap_or(4).max(0) as usize;
                    self.charge(count)?;
                    spaces = " ".repeat(count);
                    &spaces
                };
                let (first, blank) = (given.truth(1, "first"), given.truth(2, "blank"));
                let mut out = String::new();
                for (i, line) in text.split('\n').enumerate() {
                    self.write(&mut out, if i == 0 { "" } else { "\n" })?;
                    let indented = if i == 0 { first } else { blank || !line.is_empty() };
                    self.write(&mut out, if indented { indent } else { "" })?;
                    self.write(&mut out, line)?;
                }
                self.made(&out)
            }
            "wordcount" => {
                let text = self.text(value)?;
                let is_word = |c: char| c.is_alphanumeric() || c == '_';
                let words = text.split(|c| !is_word(c)).filter(|word| !word.is_empty());
                Ok(Value::Int(words.count() as i64))
            }
            "truncate" => {
                let text = self.text(value)?;
                let length = given.int(0, "length")?.unwrap_or(255).max(0) as usize;
                let (kill, end) =
                    (given.truth(1, "killwords"), given.text(2, "end")?.unwrap_or("..."));
                let leeway = given.int(3, "leeway")?.unwrap_or(5).max(0) as usize;
                if text.chars().count() <= length.saturating_add(leeway) {
                    return self.made(&text);
                }
                let kept = length.saturating_sub(end.chars().count());
                let mut kept: String = text.chars().take(kept).collect();
                if !kill && let Some(space) = kept.rfind(' ') {
                    kept.truncate(space);
                }
                self.made(&format!("{kept}{end}"))
            }
            other => Err(Fault::new(format!("the filter {other:?} is not known"))),
        }
    }

    /// An attribute of each value, such as `a.b.0`, or the values.
    fn attributes(
        &mut self,
        items: Vec<Value<'s>>,
        path: Option<Value<'s>>,
    ) -> Result<Vec<Value<'s>>> {
        let Some(path) = path else { return Ok(items) };
        items.iter().map(|item| self.at_path(item, &path)).collect()
    }

    fn at_path(&mut self, value: &Value<'s>, path: &Value<'s>) -> Result<Value<'s>> {
        let Value::Text(path) = path else { return self.item(value, path) };
        let mut value = value.clone();
        for part in path.split('.') {
            let number = part.parse().map(Value::Int);
            let part = number.or_else(|_| self.made(part))?;
            value = self.item(&value, &part)?;
        }
        Ok(value)
    }

    fn mapped(&mut self, value: &Value<'s>, given: &Given<'s>) -> Result<Value<'s>> {
        let items = self.items(value)?;
        let mut out = Vec::new();
        let attribute = given.named.iter().find(|(name, _)| *name == "attribute");
        for item in &items {
            out.push(if let Some((_, path)) = attribute {
                let found = self.at_path(item, path)?;
                let default = given.named.iter().find(|(name, _)| *name == "default");
                found
                    .defined()
                    .or_else(|| default.map(|(_, value)| value.clone()))
                    .unwrap_or(Value::Undefined(""))
            } else {
                let filter = given.needed_text(0, "filter")?;
                if filter == "map" {
                    return Err(Fault::new("map does not map itself")); // as deep as it has arguments
                }
                self.filter(filter, item, &given.after(1))?
            });
        }
        self.listed(out)
    }

    fn selected(&mut self, name: &str, value: &Value<'s>, given: &Given<'s>) -> Result<Value<'s>> {
        let by_attribute = name.ends_with("attr");
        let keep = name.starts_with("select");
        let skipped = usize::from(by_attribute);
        let mut out = Vec::new();
        for item in self.items(value)? {
            let tested = if by_attribute {
                self.at_path(&item, given.needed(0, "attribute")?)?
            } else {
                item.clone()
            };
            let passes = match given.text(skipped, "test")? {
                Some(test) => {
                    let test = match test {
                        "==" => "eq",
                        "!=" => "ne",
                        "<" => "lt",
                        "<=" => "le",
                        ">" => "gt",
                        ">=" => "ge",
                        test => test,
                    };
                    self.test(test, &tested, &given.after(skipped + 1))?
                }
                None => tested.truth(),
            };
            if passes == keep {
                out.push(item);
            }
        }
        self.listed(out)
    }

    /// `sort`, `dictsort`, `unique`, `min`, `max` and `groupby`: values by their keys.
    fn ordered(&mut self, name: &str, value: &Value<'s>, given: &Given<'s>) -> Result<Value<'s>> {
        let (case, path) = match name {
            "sort" => (given.truth(1, "case_sensitive"), given.get(2, "attribute")),
            "dictsort" => (given.truth(0, "case_sensitive"), None),
            "groupby" => (given.truth(2, "case_sensitive"), given.get(0, "attribute")),
            _ => (given.truth(0, "case_sensitive"), given.get(1, "attribute")),
        };
        let items = if name == "dictsort" { self.map_items(value)? } else { value.clone() };
        let by_value = name == "dictsort" && given.text(1, "by")? == Some("value");
        let mut keyed = Vec::new();
        for item in self.items(&items)? {
            let key = match path {
                Some(path) => self.at_path(&item, path)?,
                None if name == "dictsort" => self.item(&item, &Value::Int(by_value.into()))?,
                None => item.clone(),
            };
            let key = match key {
                Value::Text(text) if !case => {
                    self.charge(text.len() * 3)?;
                    self.made(&text.to_lowercase())?
                }
                key => key,
            };
            keyed.push((key, item));
        }
        if name == "unique" {
            let mut kept: Vec<(Value<'s>, Value<'s>)> = Vec::new();
            for (key, item) in keyed {
                let mut seen = false;
                for (other, _) in &kept {
                    seen = seen || self.equal(other, &key)?;
                }
                if !seen {
                    kept.push((key, item));
                }
            }
            return self.listed(kept.into_iter().map(|(_, item)| item).collect());
        }
        let reverse = match name {
            "sort" => given.truth(0, "reverse"),
            "dictsort" => given.truth(2, "reverse"),
            _ => name == "max",
        };
        let keyed = self.sorted(keyed, reverse)?;
        if name == "groupby" {
            let mut groups: Vec<(Value<'s>, Vec<Value<'s>>)> = Vec::new();
            for (key, item) in keyed {
                match groups.last_mut() {
                    Some((last, items)) if self.equal(last, &key)? => items.push(item),
                    _ => groups.push((key, vec![item])),
                }
            }
            let mut out = Vec::new();
            for (key, items) in groups {
                let items = self.listed(items)?;
                out.push(Value::tuple(vec![key, items])?);
            }
            return self.listed(out);
        }
        let mut sorted = keyed.into_iter().map(|(_, item)| item);
        if name == "min" || name == "max" {
            return Ok(sorted.next().unwrap_or(Value::Undefined("")));
        }
        let sorted = sorted.collect();
        self.listed(sorted)
    }

    /// Values in the order of their keys, by merging runs of 1, 2, 4, … values. Equal ones stay as they are. The standard library's
    /// sorts may panic where an order is none, as of 2⁵³ + 1 and numbers with fractions.
    fn sorted(
        &mut self,
        keyed: Vec<(Value<'s>, Value<'s>)>,
        reverse: bool,
    ) -> Result<Vec<(Value<'s>, Value<'s>)>> {
        let mut sorted = keyed;
        let mut run = 1;
        while run < sorted.len() {
            self.charge(sorted.len() * 2 * size_of::<Value<'_>>())?;
            let mut merged = Vec::with_capacity(sorted.len());
            for pair in sorted.chunks(2 * run) {
                let (mut left, mut right) = pair.split_at(run.min(pair.len()));
                while let (Some(a), Some(b)) = (left.first(), right.first()) {
                    let order = self.order(&a.0, &b.0)?;
                    let first = if reverse { order.is_ge() } else { order.is_le() };
                    let side = if first { &mut left } else { &mut right };
                    merged.push(side[0].clone());
                    *side = &side[1..];
                }
                merged.extend_from_slice(left);
                merged.extend_from_slice(right);
            }
            (sorted, run) = (merged, 2 * run);
        }
        Ok(sorted)
    }

    /// `'%s' % value`
    pub(super) fn percent(&mut self, format: &str, values: &Value<'s>) -> Result<Value<'s>> {
        let mut positional = match values {
            Value::List(list) if list.tuple => {
                self.items(&Value::List(std::rc::Rc::clone(list)))?
            }
            one => vec![one.clone()],
        }
        .into_iter();
        let mut out = String::new();
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            self.write(&mut out, &rest[..at])?;
            rest = &rest[at + 1..];
            let mut named = None;
            if let Some(after) = rest.strip_prefix('(') {
                let (name, after) = after
                    .split_once(')')
                    .ok_or_else(|| Fault::new("a name in a format has no end"))?;
                named = Some(self.item(values, &Value::from(name))?);
                rest = after;
            }
            let digits = |text: &str| {
                text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len()
            };
            let flags = rest.len() - rest.trim_start_matches(['-', '+', ' ', '0', '#']).len();
            let (flags, after) = rest.split_at(flags);
            let (width, after) = after.split_at(digits(after));
            let (precision, after) = match after.strip_prefix('.') {
                Some(after) => {
                    let (precision, after) = after.split_at(digits(after));
                    (Some(precision), after)
                }
                None => (None, after),
            };
            let kind = after.chars().next().ok_or_else(|| Fault::new("a format has no end"))?;
            rest = &after[kind.len_utf8()..];
            if kind == '%' {
                self.write(&mut out, "%")?;
                continue;
            }
            let value = named.or_else(|| positional.next());
            let value = value.ok_or_else(|| Fault::new("a format has too few values"))?;
            let number = |text: &str| text.parse::<i64>().unwrap_or(i64::MAX);
            let form = Form {
                fill: if flags.contains('0') && !flags.contains('-') { "0" } else { " " },
                side: if flags.contains('-') { Side::Right } else { Side::Left },
                sign: if flags.contains('+') {
                    "+"
                } else if flags.contains(' ') {
                    " "
                } else {
                    ""
                },
                width: if width.is_empty() { 0 } else { number(width) },
                precision: precision.map(|text| if text.is_empty() { 0 } else { number(text) }),
                group: "",
                kind,
            };
            let text = self.formed(&value, &form)?;
            self.write(&mut out, &text)?;
        }
        if positional.next().is_some() && !matches!(values, Value::Map(_)) {
            return Err(Fault::new("a format has too many values"));
        }
        self.write(&mut out, rest)?;
        self.made(&out)
    }

    /// A value in one form of `%` or `{}`.
    fn formed(&mut self, value: &Value<'s>, form: &Form<'_>) -> Result<String> {
        let wrong =
            || Fault::new(format!("a {} cannot be written as {:?}", value.kind(), form.kind));
        let precision = form.precision.map_or(6, |precision| precision.max(0) as usize);
        if form.kind != 's' && precision > MOST_DIGITS {
            return Err(Fault::new(format!("{precision} digits are more than {MOST_DIGITS}")));
        }
        self.charge(if "fFeEgG%".contains(form.kind) { precision.saturating_add(320) } else { 0 })?;
        let whole =
            || value.int().or_else(|| value.float().map(|number| number as i64)).ok_or_else(wrong);
        let (negative, text) = match form.kind {
            's' | 'r' | 'a' => {
                let mut text = String::new();
                if form.kind == 's' {
                    self.write_text(&mut text, value)?;
                } else {
                    self.write_repr(&mut text, value)?;
                }
                if let Some(precision) = form.precision {
                    text = text.chars().take(precision.max(0) as usize).collect();
                }
                let side = form.side;
                return self.padded(&text, form.width, " ", side);
            }
            'c' => return Ok(char::from_u32(whole()? as u32).ok_or_else(wrong)?.to_string()),
            'd' | 'i' | 'u' => (whole()? < 0, whole()?.unsigned_abs().to_string()),
            'x' => (whole()? < 0, format!("{:x}", whole()?.unsigned_abs())),
            'X' => (whole()? < 0, format!("{:X}", whole()?.unsigned_abs())),
            'o' => (whole()? < 0, format!("{:o}", whole()?.unsigned_abs())),
            'b' => (whole()? < 0, format!("{:b}", whole()?.unsigned_abs())),
            'f' | 'F' | '%' | 'e' | 'E' | 'g' | 'G' => {
                let number = value.float().ok_or_else(wrong)?;
                let number = if form.kind == '%' { number * 100.0 } else { number };
                let size = number.abs();
                let text = match form.kind {
                    'f' | 'F' => format!("{size:.precision$}"),
                    '%' => format!("{size:.precision$}%"),
                    'e' | 'E' => exponent(size, precision),
                    _ => general(size, precision.max(1)),
                };
                (number < 0.0, if form.kind.is_uppercase() { text.to_uppercase() } else { text })
            }
            _ => return Err(wrong()),
        };
        let sign = if negative { "-" } else { form.sign };
        let text = if form.group.is_empty() { text } else { grouped(&text, form.group) };
        if form.fill == "0" && form.side == Side::Left {
            let width = form.width.saturating_sub(sign.len() as i64);
            return Ok(format!("{sign}{}", self.padded(&text, width, "0", Side::Left)?));
        }
        self.padded(&format!("{sign}{text}"), form.width, form.fill, form.side)
    }

    /// `'{} {name:>5}'.format(…)`
    fn braces(&mut self, format: &str, given: &Given<'s>) -> Result<String> {
        let mut out = String::new();
        let mut rest = format;
        let mut next = 0_usize;
        while let Some(at) = rest.find(['{', '}']) {
            self.write(&mut out, &rest[..at])?;
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                self.write(&mut out, brace)?;
                rest = after;
                continue;
            }
            let field = rest.split_once('}').filter(|_| brace == "{");
            let (field, after) =
                field.ok_or_else(|| Fault::new("a brace of a format stands alone"))?;
            rest = after;
            let (field, spec) = field.split_once(':').unwrap_or((field, ""));
            let (field, repr) = match field.split_once('!') {
                Some((field, kind)) => (field, kind == "r"),
                None => (field, false),
            };
            let end = field.find(['.', '[']).unwrap_or(field.len());
            let (name, path) = field.split_at(end);
            let index = if name.is_empty() { Ok(next) } else { name.parse::<usize>() };
            next += usize::from(name.is_empty());
            let value = match index {
                Ok(index) => given.positional.get(index),
                Err(_) => given.named.iter().find(|(own, _)| *own == name).map(|(_, value)| value),
            };
            let mut value =
                value.cloned().ok_or_else(|| Fault::new(format!("the format lacks {name:?}")))?;
            for part in path.split(['.', '[']).skip(1) {
                let part = part.trim_end_matches(']');
                let part = part.parse().map_or_else(|_| Value::from(part), Value::Int);
                value = self.item(&value, &part)?;
            }
            let form = Form::new(spec, &value, repr)?;
            let text = self.formed(&value, &form)?;
            self.write(&mut out, &text)?;
        }
        self.write(&mut out, rest)?;
        Ok(out)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left,
    Right,
    Both,
}

/// How a value is written. `side` is where the padding goes.
struct Form<'a> {
    fill: &'a str,
    side: Side,
    sign: &'a str,
    width: i64,
    precision: Option<i64>,
    group: &'a str,
    kind: char,
}

impl<'a> Form<'a> {
    /// What stands after the colon, such as `>5.2f`.
    fn new(spec: &'a str, value: &Value<'_>, repr: bool) -> Result<Self> {
        let numeric = value.float().is_some() && !matches!(value, Value::Bool(_)) && !repr;
        let mut form = Self {
            fill: " ",
            side: if numeric { Side::Left } else { Side::Right },
            sign: "",
            width: 0,
            precision: None,
            group: "",
            kind: if repr { 'r' } else { 's' },
        };
        let side = |c: Option<char>| match c {
            Some('<') => Some(Side::Right),
            Some('>' | '=') => Some(Side::Left),
            Some('^') => Some(Side::Both),
            _ => None,
        };
        let mut rest = spec;
        let first = rest.chars().next().map_or(0, char::len_utf8);
        if let Some(found) = side(rest[first..].chars().next()) {
            (form.fill, form.side) = (&rest[..first], found);
            rest = &rest[first + 1..];
        } else if let Some(found) = side(rest.chars().next()) {
            form.side = found;
            rest = &rest[1..];
        }
        if rest.starts_with(['+', ' ', '-']) {
            form.sign = if rest.starts_with('-') { "" } else { &rest[..1] };
            rest = &rest[1..];
        }
        if let Some(after) = rest.strip_prefix('0').filter(|_| numeric) {
            (form.fill, rest) = ("0", after);
        }
        let digits =
            |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number = |text: &str| text.parse::<i64>().unwrap_or(i64::MAX);
        let (width, after) = rest.split_at(digits(rest));
        if !width.is_empty() {
            form.width = number(width);
        }
        rest = after;
        if rest.starts_with([',', '_']) {
            (form.group, rest) = rest.split_at(1);
        }
        if let Some(after) = rest.strip_prefix('.') {
            let (precision, after) = after.split_at(digits(after));
            form.precision = Some(number(precision));
            rest = after;
        }
        let mut kind = rest.chars();
        match (kind.next(), kind.next()) {
            (None, _) if matches!(value, Value::Float(_)) && form.precision.is_some() => {
                form.kind = 'g';
            }
            (None, _) if matches!(value, Value::Int(_)) && !repr => form.kind = 'd',
            (None, _) => {}
            (Some(kind), None) => form.kind = kind,
            _ => return Err(Fault::new(format!("the format {spec:?} is not known"))),
        }
        Ok(form)
    }
}

/// Thousands apart.
fn grouped(text: &str, mark: &str) -> String {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let mut out = String::new();
    for (i, c) in text[..end].chars().enumerate() {
        if i > 0 && (end - i) % 3 == 0 {
            out.push_str(mark);
        }
        out.push(c);
    }
    out.push_str(&text[end..]);
    out
}

/// A number with an exponent of two digits at least.
fn exponent(number: f64, precision: usize) -> String {
    let text = format!("{number:.precision$e}");
    let Some((digits, power)) = text.split_once('e') else { return text };
    let power: i32 = power.parse().unwrap_or_default();
    format!("{digits}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs())
}

/// A number as `%g` writes it.
fn general(number: f64, precision: usize) -> String {
    let scientific = exponent(number, precision - 1);
    let power = scientific.split_once('e').and_then(|(_, power)| power.parse::<i64>().ok());
    let power = power.unwrap_or_default();
    let trimmed = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if power < -4 || power >= precision as i64 {
        let (digits, power) = scientific.split_once('e').unwrap_or((&scientific, "+00"));
        return format!("{}e{power}", trimmed(digits));
    }
    let places = (precision as i64 - 1 - power).max(0) as usize;
    trimmed(&format!("{number:.places$}"))
}

/// Where a part of a text begins in it.
fn offset(text: &str, part: &str) -> usize {
    part.as_ptr() as usize - text.as_ptr() as usize
}

fn stripped<'t>(text: &'t str, chars: Option<&str>, start: bool, end: bool) -> &'t str {
    let strips = |c: char| chars.map_or_else(|| c.is_whitespace(), |chars| chars.contains(c));
    let text = if start { text.trim_start_matches(strips) } else { text };
    if end { text.trim_end_matches(strips) } else { text }
}

/// The date and time of so many seconds since 1970 in UTC, in the words of `strftime`.
fn date(format: &str, now: i64) -> Result<String> {
    const DAYS: [&str; 7] =
        ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let (days, seconds) = (now.div_euclid(86_400), now.rem_euclid(86_400));
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    // Days of the proleptic Gregorian calendar, by Howard Hinnant's "chrono-compatible low-level date algorithms".
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let of_year =
        before.get(month as usize - 1).copied().unwrap_or(0) + day + i64::from(leap && month > 2);
    let weekday = DAYS.get((days + 4).rem_euclid(7) as usize).copied().unwrap_or_default();
    let month_name = MONTHS.get(month as usize - 1).copied().unwrap_or_default();
    let hour12 = if hour % 12 == 0 { 12 } else { hour % 12 };
    let half = if hour < 12 { "AM" } else { "PM" };

    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut kind = chars.next();
        let plain = kind == Some('-');
        if plain {
            kind = chars.next();
        }
        let two = |number: i64| if plain { number.to_string() } else { format!("{number:02}") };
        let part = match kind {
            Some('Y') => year.to_string(),
            Some('y') => two(year % 100),
            Some('m') => two(month),
            Some('d') => two(day),
            Some('e') => format!("{day:2}"),
            Some('H') => two(hour),
            Some('I') => two(hour12),
            Some('M') => two(minute),
            Some('S') => two(second),
            Some('p') => half.to_owned(),
            Some('j') => {
                if plain {
                    of_year.to_string()
                } else {
                    format!("{of_year:03}")
                }
            }
            Some('A') => weekday.to_owned(),
            Some('a') => weekday[..3].to_owned(),
            Some('B') => month_name.to_owned(),
            Some('b' | 'h') => month_name[..3].to_owned(),
            Some('F') => format!("{year}-{month:02}-{day:02}"),
            Some('D') => format!("{month:02}/{day:02}/{:02}", year % 100),
            Some('T') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('R') => format!("{hour:02}:{minute:02}"),
            Some('w') => (days + 4).rem_euclid(7).to_string(),
            Some('u') => ((days + 3).rem_euclid(7) + 1).to_string(),
            Some('f') => "000000".to_owned(),
            Some('s') => now.to_string(),
            Some('n') => "\n".to_owned(),
            Some('t') => "\t".to_owned(),
            Some('z' | 'Z') => String::new(),
            Some('%') => "%".to_owned(),
            other => {
                let other = other.map_or_else(String::new, String::from);
                return Err(Fault::new(format!("strftime_now does not know %{other}")));
            }
        };
        out.push_str(&part);
    }
    Ok(out)
}
