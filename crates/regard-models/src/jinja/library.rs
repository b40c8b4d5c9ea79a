//! The filters, tests, methods and functions that templates can call, as in Jinja and Python.
//!
//! These are the ones that the templates of known models use, and others that are as likely in such a template. An unknown name
//! is an error.

use std::rc::Rc;

use super::run::{CallArguments, Run};
use super::text::Json;
use super::value::Value;
use super::{Fault, Result};

/// The most numbers of a range, as in Jinja's sandbox.
const LONGEST_RANGE: i128 = 100_000;

/// The tests that compare, and their operators.
const COMPARISONS: [(&str, &str); 9] = [
    ("eq", "=="),
    ("equalto", "=="),
    ("ne", "!="),
    ("lt", "<"),
    ("le", "<="),
    ("gt", ">"),
    ("ge", ">="),
    ("in", "in"),
    ("sameas", "is"),
];

impl Value<'_> {
    /// Whether a value has a method. Methods that change a list are refused, as in transformers' sandbox.
    pub(super) fn has_method(&self, name: &str) -> bool {
        let methods = match self {
            Self::Text(_) => {
                "capitalize count endswith find format index join lower lstrip removeprefix \
                 removesuffix replace rfind rsplit rstrip split splitlines startswith strip title upper"
            }
            Self::List(_) => "count index",
            Self::Map(_) => "get items keys values",
            _ => "",
        };
        methods.split(' ').any(|method| method == name)
    }

    fn text(&self) -> Result<&str> {
        match self {
            Self::Text(text) => Ok(text),
            other => Err(other.is_no("string")),
        }
    }

    fn text_or<'a>(&'a self, default: &'a str) -> Result<&'a str> {
        self.given().map_or(Ok(default), Self::text)
    }

    fn int_or(&self, default: i64) -> Result<i64> {
        let int = |value: &Self| value.int().ok_or_else(|| value.is_no("whole number"));
        self.given().map_or(Ok(default), int)
    }

    /// The value of an optional parameter.
    fn given(&self) -> Option<&Self> {
        if matches!(self, Self::Undefined(_) | Self::None) { None } else { Some(self) }
    }
}

impl<'s> CallArguments<'s> {
    /// The value of each parameter. It is undefined if the call passes none.
    fn bind<const N: usize>(&self, names: [&'static str; N]) -> Result<[Value<'s>; N]> {
        self.assert_only(&names)?;
        let mut places = 0..;
        Ok(names.map(|name| {
            let value = places.next().and_then(|at| self.get(at, name));
            value.unwrap_or(Value::Undefined(name))
        }))
    }

    /// The values after the first `count`.
    fn after(&self, count: usize) -> Self {
        let positional = self.positional.get(count..).unwrap_or_default().to_vec();
        Self { positional, named: self.named.clone() }
    }
}

/// Text whose words begin with an upper letter. `ends` tells which characters end a word.
fn titled(text: &str, ends: impl Fn(char) -> bool) -> String {
    let mut begins = true;
    let title = |c: char| {
        let upper = core::mem::replace(&mut begins, ends(c));
        if upper { c.to_uppercase().to_string() } else { c.to_lowercase().to_string() }
    };
    text.chars().map(title).collect()
}

impl<'s> Run<'s> {
    pub(super) fn function(&mut self, name: &str, given: &CallArguments<'s>) -> Result<Value<'s>> {
        match name {
            "range" => {
                let [first, stop, step] = given.bind(["start", "stop", "step"])?;
                let (start, stop) = match stop.given() {
                    None => (0, first.int_or(0)?),
                    Some(stop) => (first.int_or(0)?, stop.int_or(0)?),
                };
                let step = step.int_or(1)?;
                // The quotient, rounded up.
                let (start, step) = (i128::from(start), i128::from(step));
                let length = (i128::from(stop) - start + step - step.signum()).checked_div(step);
                let length = length.map(|length| length.max(0));
                let Some(length) = length.filter(|length| *length <= LONGEST_RANGE) else {
                    let what =
                        format!("a range has a step of 0, or more than {LONGEST_RANGE} numbers");
                    return Err(Fault::new(what));
                };
                self.charge(length as usize * size_of::<Value<'_>>())?;
                Value::list((0..length).map(|i| Value::Int((start + i * step) as i64)).collect())
            }
            "dict" => {
                let mut entries = match given.positional.first() {
                    Some(Value::Map(map)) => map.entries.clone(),
                    Some(other) => return Err(other.is_no("dict")),
                    None => Vec::new(),
                };
                let named = given.named.iter();
                entries.extend(named.map(|(name, value)| (Value::from(*name), value.clone())));
                self.map(entries)
            }
            "namespace" => {
                for (_, value) in &given.named {
                    value.assert_plain()?;
                }
                let variables = given.named.iter().cloned().collect();
                Ok(Value::Namespace(Rc::new(core::cell::RefCell::new(variables))))
            }
            "raise_exception" => {
                let [what] = given.bind(["message"])?;
                // A message is a line for people.
                Err(Fault::new(self.text(&what)?.chars().take(1000).collect::<String>()))
            }
            _ => {
                let [format] = given.bind(["format"])?;
                let format = format.text()?;
                self.charge(format.len() * 16)?;
                let text = date(format, self.now)?;
                self.made(&text)
            }
        }
    }

    pub(super) fn method(
        &mut self,
        own: &Value<'s>,
        name: &str,
        given: &CallArguments<'s>,
    ) -> Result<Value<'s>> {
        match own {
            Value::Text(text) => self.text_method(text, name, given),
            Value::List(list) => {
                let [wanted] = given.bind(["value"])?;
                let mut found = Vec::new();
                for (at, item) in list.items.iter().enumerate() {
                    if self.equal(item, &wanted)? {
                        found.push(at as i64);
                    }
                }
                let count = Some(found.len() as i64).filter(|_| name == "count");
                let place = count.or_else(|| found.first().copied());
                place.map(Value::Int).ok_or_else(|| Fault::new("the list lacks the value"))
            }
            Value::Map(map) => match name {
                "get" => {
                    let [key, default] = given.bind(["key", "default"])?;
                    let value = self.entry(map, &key)?.or_else(|| default.defined());
                    Ok(value.unwrap_or(Value::None))
                }
                "keys" => self.filter("list", own, given),
                "values" => self.listed(map.entries.iter().map(|(_, v)| v.clone()).collect()),
                _ => self.filter("items", own, given),
            },
            other => Err(other.is_no("owner of methods")),
        }
    }

    fn text_method(
        &mut self,
        text: &str,
        name: &str,
        given: &CallArguments<'s>,
    ) -> Result<Value<'s>> {
        // A text made from this text alone has at most three times its bytes.
        self.charge(text.len() * 3)?;
        Ok(match name {
            "upper" => Value::from(&*text.to_uppercase()),
            "lower" => Value::from(&*text.to_lowercase()),
            "title" => Value::from(&*titled(text, |c| !c.is_alphabetic())),
            "capitalize" => Value::from(&*titled(text, |_| false)),
            "strip" | "lstrip" | "rstrip" => {
                let [chars] = given.bind(["chars"])?;
                let chars = chars.given().map(Value::text).transpose()?;
                self.charge(text.len().saturating_mul(chars.map_or(0, str::len)))?;
                let strips =
                    |c: char| chars.map_or_else(|| c.is_whitespace(), |chars| chars.contains(c));
                let text = if name == "rstrip" { text } else { text.trim_start_matches(strips) };
                Value::from(if name == "lstrip" { text } else { text.trim_end_matches(strips) })
            }
            "removeprefix" | "removesuffix" => {
                let [part] = given.bind(["part"])?;
                let (part, prefix) = (part.text()?, name == "removeprefix");
                let rest = if prefix { text.strip_prefix(part) } else { text.strip_suffix(part) };
                Value::from(rest.unwrap_or(text))
            }
            "startswith" | "endswith" => {
                let [parts] = given.bind(["part"])?;
                let parts = match &parts {
                    Value::List(list) if list.tuple => &list.items[..],
                    one => core::slice::from_ref(one),
                };
                let mut found = false;
                for part in parts {
                    self.charge(0)?;
                    let part = part.text()?;
                    found |= match name {
                        "startswith" => text.starts_with(part),
                        _ => text.ends_with(part),
                    };
                }
                Value::Bool(found)
            }
            "find" | "rfind" | "index" | "count" => {
                let [part] = given.bind(["part"])?;
                let part = part.text()?;
                if name == "count" {
                    return Ok(Value::Int(text.matches(part).count() as i64));
                }
                let found = if name == "rfind" { text.rfind(part) } else { text.find(part) };
                if name == "index" && found.is_none() {
                    return Err(Fault::new("the part is not found"));
                }
                Value::Int(found.map_or(-1, |at| text[..at].chars().count() as i64))
            }
            "replace" => {
                let [old, new, most] = given.bind(["old", "new", "count"])?;
                let (old, new) = (old.text()?, new.text()?);
                let most = usize::try_from(most.int_or(-1)?).unwrap_or(usize::MAX);
                let count = text.matches(old).take(most).count();
                let grown = new.len().saturating_sub(old.len());
                self.charge(text.len().saturating_add(count.saturating_mul(grown)))?;
                Value::from(&*text.replacen(old, new, most))
            }
            "split" | "rsplit" => {
                let [separator, most] = given.bind(["sep", "maxsplit"])?;
                let most = usize::try_from(most.int_or(-1)?).unwrap_or(usize::MAX);
                let separator = separator.given().map(Value::text).transpose()?;
                return self.split(text, separator, most, name == "rsplit");
            }
            "splitlines" => {
                let [keep] = given.bind(["keepends"])?;
                let mut rest = text;
                let lines = core::iter::from_fn(|| {
                    let end = rest.find(['\n', '\r']).unwrap_or(rest.len());
                    let mut marks = ["\r\n", "\n", "\r"].into_iter();
                    let mark = marks.find(|mark| rest[end..].starts_with(mark));
                    let (line, after) = rest.split_at(end + mark.map_or(0, str::len));
                    rest = after;
                    let kept = if keep.truth() { line } else { &line[..end] };
                    Some(kept).filter(|_| !line.is_empty())
                });
                return self.texts(lines);
            }
            "join" => {
                let [values] = given.bind(["values"])?;
                let items = self.items(&values)?;
                for item in &items {
                    item.text()?;
                }
                return self.joined(&items, text);
            }
            _ => return self.braces(text, given),
        })
    }

    /// A list of texts, each with its counts.
    fn texts<'t>(&mut self, texts: impl Iterator<Item = &'t str>) -> Result<Value<'s>> {
        let mut list = Vec::new();
        for text in texts {
            self.charge(text.len() + 48)?;
            list.push(Value::from(text));
        }
        Value::list(list)
    }

    /// The parts of a text between separators, or between spaces.
    fn split(
        &mut self,
        text: &str,
        separator: Option<&str>,
        most: usize,
        last: bool,
    ) -> Result<Value<'s>> {
        let count = most.saturating_add(1);
        match separator {
            Some("") => Err(Fault::new("the separator is empty")),
            Some(separator) if last => {
                let parts = self.texts(text.rsplitn(count, separator))?;
                self.filter("reverse", &parts, &CallArguments::default())
            }
            Some(separator) => self.texts(text.splitn(count, separator)),
            None if last && most < usize::MAX => {
                Err(Fault::new("rsplit takes a separator with the number of splits"))
            }
            None => {
                let (mut rest, mut left) = (text.trim_start(), most);
                self.texts(core::iter::from_fn(|| {
                    let space = rest.find(char::is_whitespace).filter(|_| left > 0);
                    let (part, after) = rest.split_at(space.unwrap_or(rest.len()));
                    (rest, left) = (after.trim_start(), left.saturating_sub(1));
                    Some(part).filter(|part| !part.is_empty())
                }))
            }
        }
    }

    fn joined(&mut self, items: &[Value<'s>], between: &str) -> Result<Value<'s>> {
        let mut out = String::new();
        for (i, item) in items.iter().enumerate() {
            self.write(&mut out, if i == 0 { "" } else { between })?;
            self.write_text(&mut out, item)?;
        }
        self.made(&out)
    }

    pub(super) fn test(
        &mut self,
        name: &str,
        value: &Value<'s>,
        given: &CallArguments<'s>,
    ) -> Result<bool> {
        let [other] = given.bind(["other"])?;
        let number = || value.int().ok_or_else(|| value.is_no("whole number"));
        let named = COMPARISONS.into_iter().find(|(own, sign)| [*own, *sign].contains(&name));
        if let Some((_, operator)) = named {
            return self.compare(operator, value, &other);
        }
        Ok(match name {
            "defined" => !matches!(value, Value::Undefined(_)),
            "undefined" => matches!(value, Value::Undefined(_)),
            "none" => matches!(value, Value::None),
            "string" => matches!(value, Value::Text(_)),
            "mapping" => matches!(value, Value::Map(_)),
            "iterable" | "sequence" => matches!(
                value,
                Value::Text(_) | Value::List(_) | Value::Map(_) | Value::Undefined(_)
            ),
            "callable" => matches!(value, Value::Macro(..) | Value::Function(..)),
            "number" => value.float().is_some(),
            "integer" => matches!(value, Value::Int(_)),
            "float" => matches!(value, Value::Float(_)),
            "boolean" => matches!(value, Value::Bool(_)),
            "true" => matches!(value, Value::Bool(true)),
            "false" => matches!(value, Value::Bool(false)),
            "odd" => number()?.rem_euclid(2) == 1,
            "even" => number()?.rem_euclid(2) == 0,
            "divisibleby" => !self.binary("%", value, &other)?.truth(),
            _ => return Err(Fault::new(format!("the test {name:?} is not known"))),
        })
    }

    pub(super) fn filter(
        &mut self,
        name: &str,
        value: &Value<'s>,
        given: &CallArguments<'s>,
    ) -> Result<Value<'s>> {
        match name {
            "tojson" => {
                let [ascii, indent, separators, sort] =
                    given.bind(["ensure_ascii", "indent", "separators", "sort_keys"])?;
                let indent = match indent.given() {
                    Some(width) => Some(self.indentation(width)?),
                    None => None,
                };
                let between = if indent.is_some() { "," } else { ", " };
                let separators = self.items(&separators)?;
                let (item, key) = match &separators[..] {
                    [] => (between, ": "),
                    [item, key] => (item.text()?, key.text()?),
                    _ => return Err(Fault::new("separators are two strings")),
                };
                let (ascii, sort) = (ascii.truth(), sort.truth());
                let json = Json { indent: indent.as_deref(), item, key, ascii, sort };
                let mut out = String::new();
                self.write_value(&mut out, value, Some(&json), "")?;
                self.made(&out)
            }
            "upper" | "lower" | "capitalize" | "replace" | "trim" => {
                let text = self.text(value)?;
                let method = if name == "trim" { "strip" } else { name };
                self.text_method(&text, method, given)
            }
            "title" => {
                let text = self.text(value)?;
                let ends = |c: char| c.is_whitespace() || ['-', '(', '{', '[', '<'].contains(&c);
                self.made(&titled(&text, ends))
            }
            "format" => {
                let text = self.text(value)?;
                self.percent(&text, &Value::sequence(given.positional.clone(), true)?)
            }
            "string" => {
                let text = self.text(value)?;
                self.made(&text)
            }
            "safe" => Ok(value.clone()),
            "length" | "count" => {
                let length = match value {
                    Value::Undefined(_) => 0,
                    Value::Text(text) => {
                        self.charge(text.len())?;
                        text.chars().count()
                    }
                    Value::List(list) => list.items.len(),
                    Value::Map(map) => map.entries.len(),
                    other => return Err(other.is_no("value with a length")),
                };
                Ok(Value::Int(length as i64))
            }
            "default" | "d" => {
                let [default, boolean] = given.bind(["default_value", "boolean"])?;
                let missing = matches!(value, Value::Undefined(_));
                if !missing && (value.truth() || !boolean.truth()) {
                    return Ok(value.clone());
                }
                Ok(default.defined().unwrap_or_else(|| Value::from("")))
            }
            "list" => {
                let items = self.items(value)?;
                Value::list(items)
            }
            "items" => {
                let entries = match value {
                    Value::Map(map) => &map.entries[..],
                    Value::Undefined(_) => &[],
                    other => return Err(other.is_no("dict")),
                };
                let mut items = Vec::new();
                for (key, value) in entries {
                    self.charge(4 * size_of::<Value<'_>>())?;
                    items.push(Value::sequence(vec![key.clone(), value.clone()], true)?);
                }
                Value::list(items)
            }
            "first" | "last" => {
                let mut items = self.items(value)?;
                let item = if name == "last" { items.pop() } else { items.into_iter().next() };
                Ok(item.unwrap_or(Value::Undefined("")))
            }
            "reverse" => {
                let mut items = self.items(value)?;
                items.reverse();
                match value {
                    Value::Text(_) => self.joined(&items, ""),
                    _ => Value::list(items),
                }
            }
            "join" => {
                let [between, path] = given.bind(["d", "attribute"])?;
                let mut items = self.items(value)?;
                for item in &mut items {
                    *item = self.at_path(item, &path)?;
                }
                self.joined(&items, between.text_or("")?)
            }
            "int" | "float" => {
                let [default] = given.bind(["default"])?;
                let (whole, number) = match value {
                    Value::Text(text) => {
                        self.charge(text.len())?;
                        (text.trim().parse().ok(), text.trim().parse().ok())
                    }
                    other => (other.int(), other.float()),
                };
                let cut = || number.filter(|n: &f64| n.is_finite()).map(|number| number as i64);
                let whole = whole.or_else(cut);
                let (number, zero) = match name {
                    "int" => (whole.map(Value::Int), Value::Int(0)),
                    _ => (number.map(Value::Float), Value::Float(0.0)),
                };
                Ok(number.or_else(|| default.defined()).unwrap_or(zero))
            }
            "abs" => match (value.int().and_then(i64::checked_abs), value.float()) {
                (Some(number), _) => Ok(Value::Int(number)),
                (None, Some(number)) => Ok(Value::Float(number.abs())),
                (None, None) => Err(value.is_no("number")),
            },
            "round" => {
                let [digits, method] = given.bind(["precision", "method"])?;
                let digits = digits.int_or(0)?.clamp(0, 300) as usize;
                let number = value.float().ok_or_else(|| value.is_no("number"))?;
                let scale = 10_f64.powi(digits as i32);
                Ok(Value::Float(match method.text_or("common")? {
                    "ceil" => (number * scale).ceil() / scale,
                    "floor" => (number * scale).floor() / scale,
                    _ => format!("{number:.digits$}").parse().unwrap_or(number),
                }))
            }
            "map" => self.mapped(value, given),
            "select" | "reject" | "selectattr" | "rejectattr" => self.selected(name, value, given),
            "sort" | "dictsort" | "unique" | "min" | "max" => self.ordered(name, value, given),
            "indent" => {
                let [width, first, blank] = given.bind(["width", "first", "blank"])?;
                let text = self.text(value)?;
                let indent = self.indentation(width.given().unwrap_or(&Value::Int(4)))?;
                let mut out = String::new();
                for (i, line) in text.split('\n').enumerate() {
                    self.write(&mut out, if i == 0 { "" } else { "\n" })?;
                    let indented =
                        if i == 0 { first.truth() } else { blank.truth() || !line.is_empty() };
                    self.write(&mut out, if indented { &indent } else { "" })?;
                    self.write(&mut out, line)?;
                }
                self.made(&out)
            }
            _ => Err(Fault::new(format!("the filter {name:?} is not known"))),
        }
    }

    /// A text, or so many spaces.
    fn indentation(&mut self, width: &Value<'s>) -> Result<String> {
        if let Value::Text(text) = width {
            return self.text(&Value::Text(Rc::clone(text)));
        }
        let count = width.int_or(0)?.max(0) as usize;
        self.charge(count)?;
        Ok(" ".repeat(count))
    }

    /// An attribute such as `a.b.0` of a value; the value itself if no path is given.
    fn at_path(&mut self, value: &Value<'s>, path: &Value<'s>) -> Result<Value<'s>> {
        let mut value = value.clone();
        match path.given() {
            None => {}
            Some(Value::Text(path)) => {
                for part in path.split('.') {
                    let part = part.parse().map_or_else(|_| Value::from(part), Value::Int);
                    self.charge(path.len())?;
                    value = self.item(&value, &part)?;
                }
            }
            Some(index) => value = self.item(&value, index)?,
        }
        Ok(value)
    }

    fn mapped(&mut self, value: &Value<'s>, given: &CallArguments<'s>) -> Result<Value<'s>> {
        let mut items = self.items(value)?;
        if given.positional.is_empty() {
            let [path, default] = given.bind(["attribute", "default"])?;
            for item in &mut items {
                let found = self.at_path(item, &path)?;
                *item = found.defined().unwrap_or_else(|| default.clone());
            }
        } else if let Some(filter) = given.positional.first() {
            let (filter, others) = (filter.text()?, given.after(1));
            if filter == "map" {
                return Err(Fault::new("map does not map itself")); // as deep as it has arguments
            }
            for item in &mut items {
                *item = self.filter(filter, item, &others)?;
            }
        }
        self.listed(items)
    }

    /// `select` and the filters like it: the attribute if the name says so, the test, and the arguments of the test.
    fn selected(
        &mut self,
        name: &str,
        value: &Value<'s>,
        given: &CallArguments<'s>,
    ) -> Result<Value<'s>> {
        let mut places = given.positional.iter();
        let path = if name.ends_with("attr") { places.next() } else { None };
        let test = places.next();
        let others = given.after(given.positional.len() - places.len());
        let mut kept = Vec::new();
        for item in self.items(value)? {
            let tested = self.at_path(&item, path.unwrap_or(&Value::None))?;
            let passes = match test {
                Some(test) => self.test(test.text()?, &tested, &others)?,
                None => tested.truth(),
            };
            if passes == name.starts_with("select") {
                kept.push(item);
            }
        }
        self.listed(kept)
    }

    /// `sort`, `dictsort`, `unique`, `min` and `max`: values by their keys.
    fn ordered(
        &mut self,
        name: &str,
        value: &Value<'s>,
        given: &CallArguments<'s>,
    ) -> Result<Value<'s>> {
        let none = Value::None;
        let [reverse, case, path] = match name {
            "sort" => given.bind(["reverse", "case_sensitive", "attribute"])?,
            "dictsort" => {
                let [case, by, reverse] = given.bind(["case_sensitive", "by", "reverse"])?;
                [reverse, case, Value::Int((by.text_or("key")? == "value").into())]
            }
            _ => {
                let [case, path] = given.bind(["case_sensitive", "attribute"])?;
                [none, case, path]
            }
        };
        let value = if name == "dictsort" {
            self.filter("items", value, &CallArguments::default())?
        } else {
            value.clone()
        };
        let mut keyed = Vec::new();
        for item in self.items(&value)? {
            let key = match self.at_path(&item, &path)? {
                Value::Text(text) if !case.truth() => self.text_method(&text, "lower", given)?,
                key => key,
            };
            keyed.push((key, item));
        }
        if name == "unique" {
            // Among items with equal keys, the first one stays.
            let mut kept: Vec<(Value<'s>, Value<'s>)> = Vec::new();
            for (key, item) in keyed {
                if self.place(&kept, &key)?.is_none() {
                    kept.push((key, item));
                }
            }
            return self.listed(kept.into_iter().map(|(_, item)| item).collect());
        }
        let keyed = self.sorted(keyed, reverse.truth() || name == "max")?;
        let mut sorted = keyed.into_iter().map(|(_, item)| item);
        if name == "min" || name == "max" {
            return Ok(sorted.next().unwrap_or(Value::Undefined("")));
        }
        self.listed(sorted.collect())
    }

    /// Sorts values by their keys, by merging runs of 1, 2, 4, … values. Equal values keep their order. The standard library's
    /// sorts may panic if the order is not consistent, as for 2⁵³ + 1 and numbers with fractions.
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
        let values = match values {
            Value::List(list) if list.tuple => self.items(values)?,
            one => vec![one.clone()],
        };
        let mut values = values.into_iter();
        let mut out = String::new();
        let mut rest = format;
        while let Some((before, after)) = rest.split_once('%') {
            self.write(&mut out, before)?;
            let end = after.find(|c: char| c == '%' || c.is_ascii_alphabetic());
            let end = end.ok_or_else(|| Fault::new("a format has no end"))?;
            let (form, after) = after.split_at(end + 1);
            rest = after;
            if form == "%" {
                self.write(&mut out, "%")?;
            } else {
                let value = values.next();
                let value = value.ok_or_else(|| Fault::new("a format has too few values"))?;
                self.write_formed(&mut out, &value, form)?;
            }
        }
        if values.next().is_some() {
            return Err(Fault::new("a format has too many values"));
        }
        self.write(&mut out, rest)?;
        self.made(&out)
    }

    /// `'{} {name} {0:.2f}'.format(…)`
    fn braces(&mut self, format: &str, given: &CallArguments<'s>) -> Result<Value<'s>> {
        let mut out = String::new();
        let mut rest = format;
        let mut next = 0..;
        while let Some(at) = rest.find(['{', '}']) {
            self.write(&mut out, &rest[..at])?;
            let (brace, after) = rest[at..].split_at(1);
            if let Some(after) = after.strip_prefix(brace) {
                self.write(&mut out, brace)?;
                rest = after;
                continue;
            }
            let field = after.split_once('}').filter(|_| brace == "{");
            let (field, after) =
                field.ok_or_else(|| Fault::new("a brace of a format stands alone"))?;
            let (name, form) = field.split_once(':').unwrap_or((field, ""));
            let place = if name.is_empty() { next.next() } else { name.parse().ok() };
            let value = given.get(place.unwrap_or(usize::MAX), name);
            let value = value.ok_or_else(|| Fault::new(format!("the format lacks {name:?}")))?;
            self.write_formed(&mut out, &value, form)?;
            rest = after;
        }
        self.write(&mut out, rest)?;
        self.made(&out)
    }

    /// A value in one form of `%` or `{}`: `s`, `r`, `d`, `f` or `.2f`.
    fn write_formed(&mut self, out: &mut String, value: &Value<'s>, form: &str) -> Result<()> {
        let number = || value.float().ok_or_else(|| value.is_no("number"));
        match form {
            "" | "s" => self.write_text(out, value),
            "r" => self.write_value(out, value, None, ""),
            "d" | "i" => {
                let number = value.int().map_or_else(|| number().map(|n| n as i64), Ok)?;
                self.write(out, &number.to_string())
            }
            _ => {
                let unknown = || Fault::new(format!("the format {form:?} is not known"));
                let digits = form.strip_suffix('f').ok_or_else(unknown)?;
                let digits = if digits.is_empty() { Some("6") } else { digits.strip_prefix('.') };
                let digits = digits.and_then(|digits| digits.parse::<u16>().ok());
                let digits = usize::from(digits.ok_or_else(unknown)?);
                // A number has at most 309 digits before the point.
                self.charge(digits + 309)?;
                self.write(out, &format!("{:.digits$}", number()?))
            }
        }
    }
}

/// The date and time `now` in UTC, in seconds since 1970, in the format of `strftime`.
fn date(format: &str, now: i64) -> Result<String> {
    const DAYS: &str = "Thursday Friday Saturday Sunday Monday Tuesday Wednesday";
    const MONTHS: &str =
        "January February March April May June July August September October November December";
    // The year 9999 is the last, as in Python.
    let now = now.clamp(0, 253_402_300_799);
    let weekday = DAYS.split(' ').nth((now / 86_400 % 7) as usize).unwrap_or_default();
    let (mut year, mut day) = (1970, now / 86_400);
    let leap = |year: i64| i64::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
    while day >= 365 + leap(year) {
        day -= 365 + leap(year);
        year += 1;
    }
    let (of_year, mut month, mut month_name) = (day + 1, 0, "");
    for (name, days) in MONTHS.split(' ').zip([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]) {
        let days = if name == "February" { days + leap(year) } else { days };
        (month, month_name) = (month + 1, name);
        if day < days {
            break;
        }
        day -= days;
    }
    let (day, hour, minute, second) = (day + 1, now / 3600 % 24, now / 60 % 60, now % 60);

    let mut out = String::new();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        // `%-d` has no zero before a short number.
        let plain = after.strip_prefix('-');
        let mut chars = plain.unwrap_or(after).chars();
        let kind = chars.next().unwrap_or_default();
        rest = chars.as_str();
        let width = if plain.is_some() { 0 } else { 2 };
        let number = |number: i64| format!("{number:0width$}");
        let part = match kind {
            'Y' => year.to_string(),
            'y' => number(year % 100),
            'm' => number(month),
            'd' => number(day),
            'H' => number(hour),
            'I' => number((hour + 11) % 12 + 1),
            'M' => number(minute),
            'S' => number(second),
            'j' => format!("{of_year:03}"),
            'p' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            'A' => weekday.to_owned(),
            'a' => weekday[..3].to_owned(),
            'B' => month_name.to_owned(),
            'b' => month_name[..3].to_owned(),
            '%' => "%".to_owned(),
            _ => return Err(Fault::new(format!("strftime_now does not know %{kind}"))),
        };
        out.push_str(&part);
    }
    out.push_str(rest);
    Ok(out)
}
