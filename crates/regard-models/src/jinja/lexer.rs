//! From a template's characters to tokens, with `trim_blocks` and `lstrip_blocks`.

use std::rc::Rc;

use super::{Fault, Result};

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'s> {
    /// Text between tags.
    Data(&'s str),
    /// `{%`
    Block,
    /// `{{`
    Print,
    /// `%}` or `}}`
    End,
    Name(&'s str),
    Text(Rc<str>),
    Int(i64),
    Float(f64),
    Operator(&'static str),
}

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
            "{%" if self.raw() => self.raw_text(),
            "{%" => self.tag(Token::Block, "%}"),
            _ => self.tag(Token::Print, "}}"),
        }
    }

    /// Skips `raw %}`.
    fn raw(&mut self) -> bool {
        let name = self.rest().trim_start();
        let Some(after) = name.strip_prefix("raw") else { return false };
        let after = after.trim_start();
        let end = after.starts_with("-%}") || after.starts_with("%}");
        if end {
            self.skip(self.rest().len() - after.len());
            if after.starts_with('-') {
                self.end("%}");
            } else {
                self.skip(2);
                self.line_starts = false;
            }
        }
        end
    }

    /// Text up to `{% endraw %}`, as it is.
    fn raw_text(&mut self) -> Result<()> {
        let rest = self.rest();
        for (at, _) in rest.match_indices("{%") {
            let sign = rest[at + 2..].chars().next().filter(|c| ['-', '+'].contains(c));
            let name = &rest[at + 2 + usize::from(sign.is_some())..].trim_start();
            let Some(after) = name.strip_prefix("endraw").map(str::trim_start) else { continue };
            if after.starts_with("%}") || after.starts_with("-%}") || after.starts_with("+%}") {
                let data = self.skip(at);
                self.data(data, sign, false);
                self.skip(self.rest().len() - after.len());
                self.end("%}");
                return Ok(());
            }
        }
        Err(Fault::new("a raw block has no end"))
    }

    /// The tokens of a tag up to its end.
    fn tag(&mut self, start: Token<'s>, end: &str) -> Result<()> {
        self.push(start);
        let mut open = Vec::new();
        loop {
            self.skip_spaces();
            if open.is_empty() && self.end(end) {
                self.push(Token::End);
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
                        "(" | "[" | "{" => open.push(*operator),
                        ")" | "]" | "}" => {
                            let opens = [("(", ")"), ("[", "]"), ("{", "}")];
                            let pair = open.pop().map(|o| (o, *operator));
                            if pair.is_none_or(|pair| !opens.contains(&pair)) {
                                return Err(Fault::new(format!("{operator:?} was not opened")));
                            }
                        }
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
        Ok(Token::Text(unescaped(&text[..end]).into()))
    }

    fn number(&mut self) -> Result<Token<'s>> {
        let after_dot = matches!(self.tokens.last(), Some((Token::Operator("."), _)));
        let rest = self.rest();
        let radix = match rest.get(..2) {
            Some("0x" | "0X") => 16,
            Some("0o" | "0O") => 8,
            Some("0b" | "0B") => 2,
            _ => 10,
        };
        let digits = |text: &str, radix: u32| {
            text.find(|c: char| !c.is_digit(radix) && c != '_').unwrap_or(text.len())
        };
        if radix != 10 {
            let text = self.skip(2 + digits(&rest[2..], radix));
            let number = i64::from_str_radix(&text[2..].replace('_', ""), radix);
            return number.map(Token::Int).map_err(|e| Fault::new(format!("{text}: {e}")));
        }
        let mut end = digits(rest, 10);
        let mut float = false;
        if !after_dot {
            let fraction = rest[end..].strip_prefix('.').map_or(0, |text| digits(text, 10));
            if fraction > 0 {
                (end, float) = (end + 1 + fraction, true);
            }
            if let Some(text) = rest[end..].strip_prefix(['e', 'E']) {
                let sign = usize::from(text.starts_with(['+', '-']));
                let power = digits(&text[sign..], 10);
                if power > 0 {
                    (end, float) = (end + 1 + sign + power, true);
                }
            }
        }
        let text = self.skip(end).replace('_', "");
        let wrong = |e: &dyn core::fmt::Display| Fault::new(format!("the number {text}: {e}"));
        if float {
            return text.parse().map(Token::Float).map_err(|e| wrong(&e));
        }
        text.parse().map(Token::Int).map_err(|e| wrong(&e))
    }
}

/// A string's characters, as Python reads escapes.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(c) = rest.chars().next() else { break };
        let digits = |most: usize, radix: u32| {
            let digits = rest[usize::from(radix == 16)..].chars();
            digits.take(most).take_while(|c| c.is_digit(radix)).count()
        };
        let code = match c {
            'x' if digits(2, 16) == 2 => u32::from_str_radix(&rest[1..3], 16).ok().zip(Some(3)),
            'u' if digits(4, 16) == 4 => u32::from_str_radix(&rest[1..5], 16).ok().zip(Some(5)),
            'U' if digits(8, 16) == 8 => u32::from_str_radix(&rest[1..9], 16).ok().zip(Some(9)),
            '0'..='7' => {
                let count = digits(3, 8);
                u32::from_str_radix(&rest[..count], 8).ok().zip(Some(count))
            }
            _ => None,
        };
        if let Some((code, length)) = code {
            out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            rest = &rest[length..];
            continue;
        }
        match c {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            'a' => out.push('\u{7}'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'v' => out.push('\u{b}'),
            '\n' => {}
            '\\' | '\'' | '"' => out.push(c),
            other => out.extend(['\\', other]),
        }
        rest = &rest[c.len_utf8()..];
    }
    out.push_str(rest);
    out
}
