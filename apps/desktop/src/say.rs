//! Printing: the only place that decides which characters of a text are escaped. The type of the text decides it.
//!
//! | type | for | control characters |
//! |---|---|---|
//! | [`Text`], [`tell`] | people | `\u{…}`, except for the program's own colours |
//! | [`Data::json`] | programs | JSON's escapes, such as `\u0085`: the parsed text stays the same |
//! | [`Data::new`] | programs | unchanged in a file or a pipe; `\u{…}` on a terminal |
//!
//! Names of tensors, tokens and files come from others. A terminal obeys the control characters in them, including DEL, C1 and
//! those that change the direction of writing, which JSON allows within strings. They are escaped wherever JSON is printed,
//! also in a pipe: the output of a program does not depend on its destination, and a pipe may end at a terminal (`| head`).

use core::fmt::{Display, Write as _};
use std::io::{self, IsTerminal as _, Write};

use serde::Serialize;

/// Text for people, with colours if the terminal has them.
pub(crate) struct Text(pub(crate) String);

/// Data for programs.
pub(crate) struct Data(String);

impl Data {
    /// A text that the program did not word itself: a script, a page, or the text of a model.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// A value as JSON on one line.
    pub(crate) fn json(value: &impl Serialize) -> serde_json::Result<Self> {
        Ok(Self(in_json(&serde_json::to_string(value)?)))
    }

    /// A value as JSON, with a line for each element.
    pub(crate) fn pretty_json(value: &impl Serialize) -> serde_json::Result<Self> {
        Ok(Self(in_json(&serde_json::to_string_pretty(value)?)))
    }
}

/// Text or data.
pub(crate) trait Printed {
    /// Prints it on standard output.
    ///
    /// # Errors
    /// If the output cannot be written. It is not an error if a reader stops early (`| head`): the program ends.
    fn print(&self) -> io::Result<()>;
}

impl Printed for Text {
    fn print(&self) -> io::Result<()> {
        const START: &str = "\u{1b}[";
        // The program's own escape sequences set colours: ESC, [, numbers, m.
        let mut parts = self.0.split(START);
        let mut shown = escaped(parts.next().unwrap_or_default());
        for part in parts {
            let numbers =
                part.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(part.len());
            let is_colour = part[numbers..].starts_with('m');
            shown.push_str(if is_colour { START } else { "\\u{1b}[" });
            shown.push_str(&escaped(part));
        }
        write_to(anstream::stdout().lock(), &shown)
    }
}

impl Printed for Data {
    fn print(&self) -> io::Result<()> {
        let out = io::stdout().lock();
        if out.is_terminal() { write_to(out, &escaped(&self.0)) } else { write_to(out, &self.0) }
    }
}

/// Prints a line on standard error. If this fails, the program continues.
pub(crate) fn tell(line: impl Display) {
    let line = line.to_string().replace('\n', " ");
    drop(writeln!(anstream::stderr(), "{}", escaped(&line)));
}

#[expect(
    clippy::exit,
    reason = "nobody reads what a text that is written or a benchmark would still print"
)]
fn write_to(mut out: impl Write, text: &str) -> io::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        done => done,
    }
}

/// Whether a terminal obeys a character instead of showing it. Line breaks and tabs do not count.
fn is_obeyed(c: char) -> bool {
    let turns = matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control() && !matches!(c, '\n' | '\t')
}

/// The text with `\u{…}` in place of characters that a terminal obeys. Line breaks and tabs stay.
fn escaped(text: &str) -> String {
    written(text, |out, c| out.extend(c.escape_unicode()))
}

/// A line of JSON with JSON's escapes in place of characters that a terminal obeys: DEL, C1 and directions, which occur only in
/// strings.
fn in_json(json: &str) -> String {
    let mut out = written(json, |out, c| {
        // All of them have four hexadecimal digits. Writing to a string cannot fail.
        let _ = write!(out, "\\u{:04x}", u32::from(c));
    });
    out.push('\n');
    out
}

/// The text, where `escape` writes the characters that a terminal obeys.
fn written(text: &str, escape: impl Fn(&mut String, char)) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_obeyed(c) { escape(&mut out, c) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{1b}]0;title\u{7}b\u{9b}31m\u{202e}c\r\n\t\u{7f}\"\\\u{2066}grün 猫";

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        let shown =
            "a\\u{1b}]0;title\\u{7}b\\u{9b}31m\\u{202e}c\\u{d}\n\t\\u{7f}\"\\\\u{2066}grün 猫";
        assert_eq!(escaped(HOSTILE), shown);
    }

    #[test]
    fn json_is_the_same_text_and_controls_no_terminal() {
        for Data(json) in [Data::json(&[HOSTILE]).unwrap(), Data::pretty_json(&[HOSTILE]).unwrap()]
        {
            assert_eq!(serde_json::from_str::<[String; 1]>(&json).unwrap(), [HOSTILE]);
            assert_eq!(escaped(&json), json);
        }
    }
}
