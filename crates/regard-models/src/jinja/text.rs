//! Values as text, as Python's `str`, `repr` and `json.dumps` write them.

use super::Result;
use super::run::Run;
use super::value::Value;

/// The layout of the JSON that is written.
pub(super) struct Json<'a> {
    pub(super) indent: Option<&'a str>,
    /// The texts between items, and between a key and its value.
    pub(super) item: &'a str,
    pub(super) key: &'a str,
    pub(super) ascii: bool,
    pub(super) sort: bool,
}

impl<'s> Run<'s> {
    /// Adds text to an output.
    pub(super) fn write(&mut self, out: &mut String, text: &str) -> Result<()> {
        self.charge(text.len())?;
        out.push_str(text);
        Ok(())
    }

    /// A value as `str` writes it.
    pub(super) fn text(&mut self, value: &Value<'s>) -> Result<String> {
        let mut out = String::new();
        self.write_text(&mut out, value)?;
        Ok(out)
    }

    /// Writes a value as `str` does.
    pub(super) fn write_text(&mut self, out: &mut String, value: &Value<'s>) -> Result<()> {
        match value {
            Value::Text(text) => self.write(out, text),
            Value::Undefined(_) => Ok(()),
            other => self.write_value(out, other, None, ""),
        }
    }

    /// Writes a value as `json.dumps` does, or as `repr` does. `line` begins each line of an indented text.
    pub(super) fn write_value(
        &mut self,
        out: &mut String,
        value: &Value<'s>,
        json: Option<&Json<'_>>,
        line: &str,
    ) -> Result<()> {
        let is_json = json.is_some();
        let word = |json, python| if is_json { json } else { python };
        match value {
            Value::None => self.write(out, word("null", "None")),
            Value::Bool(true) => self.write(out, word("true", "True")),
            Value::Bool(false) => self.write(out, word("false", "False")),
            Value::Int(number) => self.write(out, &number.to_string()),
            Value::Float(number) if number.is_finite() || !is_json => {
                self.write(out, &float(*number))
            }
            Value::Text(text) => {
                // A character of one byte has six at most.
                self.charge(text.len() * 6)?;
                match json {
                    Some(json) => out.push_str(&json_string(text, json.ascii)),
                    None => quote(out, text),
                }
                Ok(())
            }
            Value::List(list) => {
                let brackets = if list.tuple && !is_json { ["(", ")"] } else { ["[", "]"] };
                let mut items = Vec::new();
                for item in &list.items {
                    self.charge(size_of::<(Option<Value<'_>>, Value<'_>)>())?;
                    items.push((None, item.clone()));
                }
                let end = if list.tuple && !is_json && items.len() == 1 { "," } else { "" };
                self.write_items(out, brackets, &items, end, json, line)
            }
            Value::Map(map) => {
                let mut items = Vec::new();
                for (key, value) in &map.entries {
                    self.charge(size_of::<(Option<Value<'_>>, Value<'_>)>())?;
                    let mut key = key.clone();
                    if is_json && !matches!(key, Value::Text(_)) {
                        if matches!(key, Value::List(_) | Value::Map(_)) {
                            return Err(key.is_no("key of JSON"));
                        }
                        let mut text = String::new();
                        self.write_value(&mut text, &key, json, "")?;
                        key = self.made(&text)?;
                    }
                    items.push((Some(key), value.clone()));
                }
                if json.is_some_and(|json| json.sort) {
                    let name = |item: &(Option<Value<'s>>, _)| match &item.0 {
                        Some(Value::Text(name)) => name.to_string(),
                        _ => String::new(),
                    };
                    items.sort_by_cached_key(name);
                }
                self.write_items(out, ["{", "}"], &items, "", json, line)
            }
            other if is_json => Err(other.is_no("value of JSON")),
            other => self.write(out, &format!("<{}>", other.kind())),
        }
    }

    /// Writes items, with their keys if they have some. `end` stands after the last one.
    fn write_items(
        &mut self,
        out: &mut String,
        [open, close]: [&str; 2],
        items: &[(Option<Value<'s>>, Value<'s>)],
        end: &str,
        json: Option<&Json<'_>>,
        line: &str,
    ) -> Result<()> {
        let (between, colon) = json.map_or((", ", ": "), |json| (json.item, json.key));
        let indent = json.and_then(|json| json.indent).filter(|_| !items.is_empty());
        let inner = indent.map_or_else(String::new, |indent| format!("\n{line}{indent}"));
        self.charge(inner.len())?;
        self.write(out, open)?;
        for (i, (key, value)) in items.iter().enumerate() {
            self.write(out, if i == 0 { "" } else { between })?;
            self.write(out, &inner)?;
            let line = inner.get(1..).unwrap_or_default();
            if let Some(key) = key {
                self.write_value(out, key, json, line)?;
                self.write(out, colon)?;
            }
            self.write_value(out, value, json, line)?;
        }
        self.write(out, end)?;
        if indent.is_some() {
            self.write(out, "\n")?;
            self.write(out, line)?;
        }
        self.write(out, close)
    }
}

/// A number as Python writes it: the fewest digits that distinguish it from other numbers, with an exponent below 1e-4 and from
/// 1e16 on.
fn float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    let scientific = format!("{number:e}");
    let Some((digits, power)) = scientific.split_once('e') else { return scientific };
    match power.parse::<i32>().unwrap_or_default() {
        -4..16 => format!("{number:?}"),
        power => format!("{digits}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs()),
    }
}

/// Writes a string in Python's quotation marks.
fn quote(out: &mut String, text: &str) {
    let mark = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(mark);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == mark || c == '\\' => out.extend(['\\', c]),
            c if printable(c) => out.push(c),
            c => {
                let code = match c as u32 {
                    code @ 0..0x100 => format!("\\x{code:02x}"),
                    code @ 0x100..0x1_0000 => format!("\\u{code:04x}"),
                    code => format!("\\U{code:08x}"),
                };
                out.push_str(&code);
            }
        }
    }
    out.push(mark);
}

/// Whether `repr` writes a character as it is.
fn printable(c: char) -> bool {
    let spaces = c.is_whitespace() && c != ' ';
    let formats = matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e000}'..='\u{f8ff}');
    !c.is_control() && !spaces && !formats
}

/// A string as JSON. `serde_json` escapes what Python escapes, except that Python may escape all but ASCII.
fn json_string(text: &str, ascii: bool) -> String {
    let json = serde_json::Value::from(text).to_string();
    if !ascii {
        return json;
    }
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c <= '~' {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let code = format!("\\u{unit:04x}");
            out.push_str(&code);
        }
    }
    out
}
