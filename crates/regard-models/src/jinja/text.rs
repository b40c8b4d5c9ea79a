//! Values as text: as Python's `str`, `repr` and `json.dumps` write them.

use super::run::Run;
use super::value::Value;
use super::{Fault, Result};

/// How JSON is written.
pub(super) struct Json<'a> {
    pub(super) indent: Option<&'a str>,
    pub(super) item_separator: &'a str,
    pub(super) key_separator: &'a str,
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
            other => self.write_repr(out, other),
        }
    }

    /// Writes a value as `repr` does.
    pub(super) fn write_repr(&mut self, out: &mut String, value: &Value<'s>) -> Result<()> {
        match value {
            Value::Text(text) => {
                self.charge(text.len() * 2)?;
                quote(out, text);
                Ok(())
            }
            Value::List(list) => {
                self.write(out, if list.tuple { "(" } else { "[" })?;
                for (i, item) in list.items.iter().enumerate() {
                    self.write(out, if i == 0 { "" } else { ", " })?;
                    self.write_repr(out, item)?;
                }
                let end = match (list.tuple, list.items.len()) {
                    (true, 1) => ",)",
                    (true, _) => ")",
                    (false, _) => "]",
                };
                self.write(out, end)
            }
            Value::Map(map) => {
                self.write(out, "{")?;
                for (i, (key, value)) in map.entries.iter().enumerate() {
                    self.write(out, if i == 0 { "" } else { ", " })?;
                    self.write_repr(out, key)?;
                    self.write(out, ": ")?;
                    self.write_repr(out, value)?;
                }
                self.write(out, "}")
            }
            Value::Undefined(_) => self.write(out, "Undefined"),
            Value::None => self.write(out, "None"),
            Value::Bool(truth) => self.write(out, if *truth { "True" } else { "False" }),
            Value::Int(number) => self.write(out, &number.to_string()),
            Value::Float(number) => self.write(out, &float(*number)),
            other => self.write(out, &format!("<{}>", other.kind())),
        }
    }

    /// Writes a value as `json.dumps` does. `line` begins each line of an indented text.
    pub(super) fn write_json(
        &mut self,
        out: &mut String,
        value: &Value<'s>,
        json: &Json<'_>,
        line: &str,
    ) -> Result<()> {
        let inner = json.indent.map(|indent| format!("{line}{indent}"));
        let inner = inner.as_deref();
        self.charge(inner.map_or(0, str::len))?;
        match value {
            Value::None => self.write(out, "null"),
            Value::Bool(truth) => self.write(out, if *truth { "true" } else { "false" }),
            Value::Int(number) => self.write(out, &number.to_string()),
            Value::Float(number) => {
                let text = match number {
                    x if x.is_nan() => "NaN".to_owned(),
                    x if x.is_infinite() && *x > 0.0 => "Infinity".to_owned(),
                    x if x.is_infinite() => "-Infinity".to_owned(),
                    x => float(*x),
                };
                self.write(out, &text)
            }
            Value::Text(text) => {
                self.charge(text.len() * 6)?;
                json_string(out, text, json.ascii);
                Ok(())
            }
            Value::List(list) if list.items.is_empty() => self.write(out, "[]"),
            Value::Map(map) if map.entries.is_empty() => self.write(out, "{}"),
            Value::List(list) => {
                self.write(out, "[")?;
                for (i, item) in list.items.iter().enumerate() {
                    self.separate(out, i == 0, json, inner)?;
                    self.write_json(out, item, json, inner.unwrap_or_default())?;
                }
                self.end(out, "]", inner.map(|_| line))
            }
            Value::Map(map) => {
                let mut entries = Vec::new();
                for (key, value) in &map.entries {
                    let key = match key {
                        Value::Text(key) => key.to_string(),
                        Value::None => "null".to_owned(),
                        Value::Bool(truth) => truth.to_string(),
                        Value::Int(_) | Value::Float(_) => self.text(key)?,
                        other => {
                            let what = format!("keys of JSON are strings, not {}", other.kind());
                            return Err(Fault::new(what));
                        }
                    };
                    self.charge(key.len() + size_of::<(String, &Value<'_>)>())?;
                    entries.push((key, value));
                }
                if json.sort {
                    entries.sort_by(|a, b| a.0.cmp(&b.0));
                }
                self.write(out, "{")?;
                for (i, (key, value)) in entries.iter().enumerate() {
                    self.separate(out, i == 0, json, inner)?;
                    self.charge(key.len() * 6)?;
                    json_string(out, key, json.ascii);
                    self.write(out, json.key_separator)?;
                    self.write_json(out, value, json, inner.unwrap_or_default())?;
                }
                self.end(out, "}", inner.map(|_| line))
            }
            other => Err(Fault::new(format!("a {} cannot be written as JSON", other.kind()))),
        }
    }

    fn separate(
        &mut self,
        out: &mut String,
        first: bool,
        json: &Json<'_>,
        line: Option<&str>,
    ) -> Result<()> {
        self.write(out, if first { "" } else { json.item_separator })?;
        let Some(line) = line else { return Ok(()) };
        self.write(out, "\n")?;
        self.write(out, line)
    }

    fn end(&mut self, out: &mut String, bracket: &str, line: Option<&str>) -> Result<()> {
        if let Some(line) = line {
            self.write(out, "\n")?;
            self.write(out, line)?;
        }
        self.write(out, bracket)
    }
}

/// A number as Python writes it: the fewest digits that tell it from others, with an exponent below 1e-4 and from 1e16.
pub(super) fn float(number: f64) -> String {
    if !number.is_finite() {
        return if number.is_nan() { "nan".to_owned() } else { number.to_string() };
    }
    let scientific = format!("{number:e}");
    let (digits, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = power.parse().unwrap_or_default();
    if (-4..16).contains(&power) {
        return format!("{number:?}");
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", power.abs())
}

/// Writes a string in Python's quotation marks.
fn quote(out: &mut String, text: &str) {
    let mark = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(mark);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == mark => out.extend(['\\', c]),
            c if !printable(c) => {
                let code = match c as u32 {
                    code @ 0..0x100 => format!("\\x{code:02x}"),
                    code @ 0x100..0x1_0000 => format!("\\u{code:04x}"),
                    code => format!("\\U{code:08x}"),
                };
                out.push_str(&code);
            }
            c => out.push(c),
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

/// Writes a string as JSON.
fn json_string(out: &mut String, text: &str, ascii: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' || (ascii && !(' '..='~').contains(&c)) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let code = format!("\\u{unit:04x}");
                    out.push_str(&code);
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
