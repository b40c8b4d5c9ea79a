//! From a template's characters to tokens, with `trim_blocks` and `lstrip_blocks`.

use super::value::Value;
use super::{Fault, Result};

/// A part of a template.
#[derive(Clone, Debug)]
pub(super) enum Token<'s> {
    /// Text between tags.
    Data(&'s str),
    /// `{%`
    Block,
    /// `{{`
    Print,
    Name(&'s str),
    /// A string or a number.
    Constant(Value<'s>),
    Operator(&'static str),
}

/// The operator that `%}` and `}}` are.
pub(super) const END: &str = "the tag's end";

/// The operators, those that begin others after them.
const OPERATORS: [&str; 26] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}",
    ">", "<", "=", ".", ":", "|", ",", ";",
];

struct Lexer<'s> {
    source: &'s str,
    at: usize,
    line: u32,
    tokens: Vec<(Token<'s>, u32)>,
    /// Whether the tag before ended with a line break, or is the template's start.
    line_starts: bool,
}

/// The tokens of a template, each with its line.
pub(super) fn tokens(source: &str) -> Result<Vec<(Token<'_>, u32)>> {
    let source = source.strip_suffix('\n').unwrap_or(source);
    let mut lexer = Lexer { source, at: 0, line: 1, tokens: Vec::new(), line_starts: true };
    while lexer.at < source.len() {
        lexer.part().map_err(|fault| fault.on(lexer.line))?;
    }
    Ok(lexer.tokens)
}

impl<'s> Lexer<'s> {
    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    /// Skips so many bytes, and counts their lines.
    fn skip(&mut self, bytes: usize) -> &'s str {
        let skipped = &self.rest()[..bytes];
        self.line += skipped.matches('\n').count() as u32;
        self.at += bytes;
        skipped
    }

    fn skip_spaces(&mut self) -> &'s str {
        self.skip(self.rest().len() - self.rest().trim_start().len())
    }

    fn push(&mut self, token: Token<'s>) {
        self.tokens.push((token, self.line));
    }

    /// Text as it stands before a tag with this sign.
    fn data(&mut self, data: &'s str, sign: Option<char>, variable: bool) {
        let mut data = data;
        if sign == Some('-') {
            data = data.trim_end();
        } else if sign.is_none() && !variable {
            let line = data.rfind('\n').map_or(0, |at| at + 1);
            if (line > 0 || self.line_starts) && data[line..].trim().is_empty() {
                data = &data[..line];
            }
        }
        if !data.is_empty() {
            self.push(Token::Data(data));
        }
    }

    /// Skips what ends a tag, such as `-%}`, with the space that belongs to it.
    fn end(&mut self, end: &str) -> bool {
        let sign = self.rest().chars().next().filter(|c| ['-', '+'].contains(c));
        let signed = usize::from(sign.is_some());
        if !self.rest()[signed..].starts_with(end) || (sign == Some('+') && end == "}}") {
            return false;
        }
        self.skip(signed + end.len());
        let skipped = match sign {
            Some('-') => self.skip_spaces(),
            None if end != "}}" && self.rest().starts_with('\n') => self.skip(1),
            _ => "",
        };
        self.line_starts = skipped.ends_with('\n');
        true
    }

    /// Text up to the next tag, and the tag.
    fn part(&mut self) -> Result<()> {
        let rest = self.rest();
        let tags = rest.match_indices('{').map(|(at, _)| at);
        let tag = tags.into_iter().find(|at| rest[at + 1..].starts_with(['{', '%', '#']));
        let Some(at) = tag else {
            self.push(Token::Data(rest));
            self.at = self.source.len();
            return Ok(());
        };
        let data = self.skip(at);
        let kind = self.skip(2);
        let sign = self.rest().chars().next().filter(|c| ['-', '+'].contains(c));
        self.data(data, sign, kind == "{{");
        self.skip(usize::from(sign.is_some()));
        match kind {
            "{#" => {
                let end =
                    self.rest().find("#}").ok_or_else(|| Fault::new("a comment has no end"))?;
                let signed = self.rest()[..end].ends_with(['-', '+']);
                self.skip(end - usize::from(signed));
                self.end("#}");
                Ok(())
            }
            "{%" if self.skip_named("raw") => self.raw_text(),
            "{%" => self.tag(Token::Block, "%}"),
            _ => self.tag(Token::Print, "}}"),
        }
    }

    /// Skips the name of a tag that ends after it; returns whether the tag has this name.
    fn skip_named(&mut self, name: &str) -> bool {
        let after = self.rest().trim_start().strip_prefix(name).map(str::trim_start);
        let after = after.filter(|a| a.trim_start_matches(['-', '+']).starts_with("%}"));
        let length = after.map(|after| self.rest().len() - after.len());
        length.map(|length| self.skip(length)).is_some()
    }

    /// Text after `{% raw` up to `{% endraw %}`, as it is. A line break after `raw %}` stays.
    fn raw_text(&mut self) -> Result<()> {
        if self.rest().starts_with("%}") {
            self.skip(2);
            self.line_starts = false;
        } else {
            self.end("%}");
        }
        let rest = self.rest();
        let start = self.at;
        for (at, _) in rest.match_indices("{%") {
            let sign = rest[at + 2..].chars().next().filter(|c| ['-', '+'].contains(c));
            self.skip(start + at + 2 + usize::from(sign.is_some()) - self.at);
            if self.skip_named("endraw") {
                self.data(&rest[..at], sign, false);
                self.end("%}");
                return Ok(());
            }
        }
        Err(Fault::new("a raw block has no end"))
    }

    /// The tokens of a tag up to its end.
    fn tag(&mut self, start: Token<'s>, end: &str) -> Result<()> {
        self.push(start);
        let mut open = 0_usize;
        loop {
            self.skip_spaces();
            if open == 0 && self.end(end) {
                self.push(Token::Operator(END));
                return Ok(());
            }
            let rest = self.rest();
            let Some(first) = rest.chars().next() else {
                return Err(Fault::new("a tag has no end"));
            };
            let token = match first {
                '\'' | '"' => self.string(first)?,
                '0'..='9' => self.number()?,
                c if c.is_alphabetic() || c == '_' => {
                    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
                    Token::Name(self.skip(end.unwrap_or(rest.len())))
                }
                c => {
                    let operator = OPERATORS.iter().find(|o| rest.starts_with(**o));
                    let operator =
                        operator.ok_or_else(|| Fault::new(format!("{c:?} is no operator")))?;
                    match *operator {
                        "(" | "[" | "{" => open += 1,
                        // The parser says which brackets do not match.
                        ")" | "]" | "}" => open = open.saturating_sub(1),
                        _ => {}
                    }
                    self.skip(operator.len());
                    Token::Operator(operator)
                }
            };
            self.push(token);
        }
    }

    fn string(&mut self, quote: char) -> Result<Token<'s>> {
        let text = &self.rest()[1..];
        let mut escaped = false;
        let end = text.char_indices().find(|(_, c)| {
            let ends = *c == quote && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        });
        let (end, _) = end.ok_or_else(|| Fault::new("a string has no end"))?;
        self.skip(end + 2);
        Ok(Token::Constant(Value::from(&*unescaped(&text[..end]))))
    }

    fn number(&mut self) -> Result<Token<'s>> {
        let after_dot = matches!(self.tokens.last(), Some((Token::Operator("."), _)));
        let rest = self.rest();
        let part = |text: &str| {
            text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())
        };
        let mut end = part(rest);
        let fraction = rest[end..].strip_prefix('.').filter(|_| !after_dot);
        if let Some(text) = fraction.filter(|text| text.starts_with(|c: char| c.is_ascii_digit())) {
            end += 1 + part(text);
        }
        let based = ["0x", "0X", "0o", "0O", "0b", "0B"].iter().position(|p| rest.starts_with(p));
        if based.is_none() && rest[..end].ends_with(['e', 'E']) {
            let signed = rest[end..].strip_prefix(['+', '-']);
            end += signed.map_or(0, |power| 1 + part(power));
        }
        let text = self.skip(end).replace('_', "");
        let number = match based.and_then(|base| [16, 8, 2].get(base / 2)) {
            Some(base) => i64::from_str_radix(&text[2..], *base).map(Value::Int).ok(),
            None if text.contains(['.', 'e', 'E']) => text.parse().map(Value::Float).ok(),
            None => text.parse().map(Value::Int).ok(),
        };
        number
            .map(Token::Constant)
            .ok_or_else(|| Fault::new(format!("{text} is no number, or too large")))
    }
}

/// A string's characters, as Python reads escapes.
fn unescaped(text: &str) -> String {
    const SIGNS: &str = "ntrabfv\\'\"";
    const MEANT: [char; 10] = ['\n', '\t', '\r', '\x07', '\x08', '\x0c', '\x0b', '\\', '\'', '"'];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        // The longest run of digits that the escape may have, and its base.
        let (start, most, base) = match after.chars().next() {
            Some('x') => (1, 2, 16),
            Some('u') => (1, 4, 16),
            Some('U') => (1, 8, 16),
            _ => (0, 3, 8),
        };
        let digits = after.get(start..).unwrap_or_default().chars();
        let count = digits.take(most).take_while(|c| c.is_digit(base)).count();
        rest = after;
        if count == most || (base == 8 && count > 0) {
            let code = u32::from_str_radix(&after[start..start + count], base);
            let c = code.ok().and_then(char::from_u32);
            out.push(c.unwrap_or(char::REPLACEMENT_CHARACTER));
            rest = &after[start + count..];
        } else if let Some(c) = after.chars().next() {
            match SIGNS.find(c).and_then(|at| MEANT.get(at)) {
                Some(meant) => out.push(*meant),
                None if c == '\n' => {}
                None => out.extend(['\\', c]),
            }
            rest = &after[c.len_utf8()..];
        }
    }
    out.push_str(rest);
    out
}
