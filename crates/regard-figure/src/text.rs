//! Text in SVG: its width and its escapes.

use unicode_width::UnicodeWidthChar;

/// The approximate width of a text, in units of the font's size. The reader's font decides the real width.
pub(super) fn width(text: &str) -> f64 {
    let letter = |c| match UnicodeWidthChar::width(c) {
        None | Some(0) => 0.0,
        Some(1) => 0.62,
        Some(_) => 1.05,
    };
    text.chars().map(letter).sum()
}

/// The text with XML escapes. Characters that XML forbids are left out.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{FFFE}' | '\u{FFFF}' => {}
            c if c.is_control() && !matches!(c, '\t' | '\n' | '\r') => {}
            c => out.push(c),
        }
    }
    out
}

/// The text, cut to `most` characters with "…" at the end if it is longer.
pub fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xml_has_no_control_characters() {
        assert_eq!(escaped("a<b>&\"c\"\u{0}\u{FFFF}猫"), "a&lt;b&gt;&amp;&quot;c&quot;猫");
        assert_eq!([shortened("猫猫猫", 3), shortened("猫猫猫猫", 3)], ["猫猫猫", "猫猫…"]);
    }
}
