//! Text in SVG: its width and its escapes.

/// About how wide a text is, in parts of the font's size. Only space is made for it: the font is the reader's.
pub(super) fn width(text: &str) -> f64 {
    text.chars().map(|c| if is_wide(c) { 1.05 } else { 0.62 }).sum()
}

/// East Asian letters and emoji, roughly.
fn is_wide(c: char) -> bool {
    matches!(u32::from(c), 0x1100..=0x115F | 0x2E80..=0xA4CF | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF | 0xFE30..=0xFE6F | 0xFF00..=0xFF60 | 0x1F300..=0x1FAFF | 0x20000..=0x3FFFD)
}

/// Text as XML holds it. Characters that XML does not have are left out.
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

/// A text that is not longer than `most` characters.
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
