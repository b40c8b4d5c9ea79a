//! Text for the terminal.
//!
//! Names of tensors, tokens and files come from others. A terminal obeys the control characters in them, so everything that
//! is printed passes through this file.

use core::fmt::Display;
use std::io::{self, IsTerminal as _, Write};

/// Prints a line on standard error. If nobody can read it, the program goes on.
pub(crate) fn tell(line: impl Display) {
    let line = line.to_string().replace('\n', " ");
    drop(writeln!(anstream::stderr(), "{}", escaped(&line)));
}

/// Prints on standard output, with colours where the terminal has them.
///
/// # Errors
/// If the output cannot be written. A reader that stops early (`| head`) is no error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    const START: &str = "\u{1b}[";
    // The program's own escape sequences set colours: ESC, [, numbers, m.
    let mut parts = text.split(START);
    let mut shown = escaped(parts.next().unwrap_or_default());
    for part in parts {
        let numbers = part.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(part.len());
        let is_colour = part[numbers..].starts_with('m');
        shown.push_str(if is_colour { START } else { "\\u{1b}[" });
        shown.push_str(&escaped(part));
    }
    write_to(anstream::stdout().lock(), &shown)
}

/// Prints on standard output a text that is not the program's own. A file or a pipe gets every character of it.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_as_is(text: &str) -> io::Result<()> {
    let out = io::stdout().lock();
    if out.is_terminal() { write_to(out, &escaped(text)) } else { write_to(out, text) }
}

fn write_to(mut out: impl Write, text: &str) -> io::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// The text with `\u{…}` in the place of control characters, and of those that change the direction of writing. Line breaks
/// and tabs stay.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => out.extend(c.escape_unicode()),
            c if c.is_control() => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        let text = "a\u{1b}]0;title\u{7}b\u{9b}31m\u{202e}c\r\n\tgrün 猫";
        let shown = "a\\u{1b}]0;title\\u{7}b\\u{9b}31m\\u{202e}c\\u{d}\n\tgrün 猫";
        assert_eq!(escaped(text), shown);
    }
}
