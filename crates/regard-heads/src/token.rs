//! Tokens as a tokenizer writes them, and in a readable form.

use core::fmt::Write as _;

use regard_figure::Label;
use unicode_general_category::{GeneralCategory, get_general_category};
use unicode_width::UnicodeWidthChar as _;

/// The tokens of one tokenizer as labels with a readable text.
///
/// The readable text differs from the raw text where the tokenizer encodes spaces and bytes:
///
/// | tokenizer | raw | shown |
/// |---|---|---|
/// | byte-level (GPT-2, RoBERTa, Llama 3) | `Ġcat`, `Ċ`, `ĉ`, `Ã©` | `␣cat`, `⏎`, `⇥`, `é` |
/// | byte-level, a part of a character | `âĤ` | `\xE2\x82` |
/// | SentencePiece (T5, Llama 2, Gemma) | `▁cat`, `<0x0A>` | `␣cat`, `⏎` |
/// | WordPiece (BERT) | `##ing` | `##ing` |
/// | any | a space, a line break, a tab, nothing | `␣`, `⏎`, `⇥`, `""` |
///
/// Other characters that cannot be seen become `\u{…}`, by their Unicode category: spaces, separators, controls, and characters that
/// are not assigned or only direct the text. Joiners, selectors of variants and accents stay on a letter. The tokens tell the kind of
/// tokenizer: SentencePiece if a token begins with `▁`, otherwise byte-level if a token begins with `Ġ` or is `Ċ`.
///
/// ```
/// let tokens = regard_heads::readable(["The", "Ġcat", "Ċ"].map(str::to_owned).to_vec());
/// assert_eq!(tokens[1].text, "␣cat");
/// assert_eq!(tokens[2].raw, "Ċ");
/// ```
pub fn readable(raw: Vec<String>) -> Vec<Label> {
    let pieces = raw.iter().any(|t| t.starts_with(SPACE_OF_SENTENCEPIECE));
    let bytes = !pieces && raw.iter().any(|t| t.starts_with('Ġ') || t == "Ċ");
    let text = |t: &str| match (pieces, bytes) {
        (true, _) => visible(&from_sentencepiece(t)),
        (_, true) => from_byte_level(t).unwrap_or_else(|| visible(t)),
        _ => visible(t),
    };
    raw.into_iter().map(|raw| Label { text: text(&raw), raw }).collect()
}

const SPACE_OF_SENTENCEPIECE: char = '▁';

fn from_sentencepiece(token: &str) -> String {
    let byte = token
        .strip_prefix("<0x")
        .and_then(|t| t.strip_suffix('>'))
        .and_then(|t| u8::from_str_radix(t, 16).ok());
    match byte {
        Some(byte) if byte.is_ascii() => char::from(byte).to_string(),
        _ => token.replace(SPACE_OF_SENTENCEPIECE, " "),
    }
}

/// The text that GPT-2's letters for bytes encode. `None` if a letter does not stand for a byte, as in special tokens.
fn from_byte_level(token: &str) -> Option<String> {
    let bytes: Vec<u8> = token.chars().map(byte_of).collect::<Option<_>>()?;
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02X}");
        }
    }
    Some(visible(&text))
}

/// Printable bytes of Latin-1 stand for themselves. The others, in ascending order, are written as U+0100, U+0101, …
fn byte_of(letter: char) -> Option<u8> {
    let stands_for_itself = |b: &u8| matches!(b, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    match u32::from(letter) {
        code @ 0..=0xFF => u8::try_from(code).ok().filter(stands_for_itself),
        code => (0..=u8::MAX).filter(|b| !stands_for_itself(b)).nth(code as usize - 0x100),
    }
}

/// The text with invisible characters made visible.
fn visible(text: &str) -> String {
    if text.is_empty() {
        return "\"\"".to_owned();
    }
    let is_blank = text.chars().all(|c| width(c) == 0);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            ' ' => out.push('␣'),
            '\n' => out.push('⏎'),
            '\t' => out.push('⇥'),
            c if is_blank || is_invisible(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Whether a character is invisible beside letters.
fn is_invisible(c: char) -> bool {
    /// What joins letters or keeps them apart: the property Join_Control.
    const JOINERS: [char; 2] = ['\u{200C}', '\u{200D}'];
    match get_general_category(c) {
        GeneralCategory::SpaceSeparator
        | GeneralCategory::LineSeparator
        | GeneralCategory::ParagraphSeparator
        | GeneralCategory::Control
        | GeneralCategory::Unassigned => true,
        // Some signs of this category are drawn, such as that of an Arabic verse.
        GeneralCategory::Format => width(c) == 0 && !JOINERS.contains(&c),
        _ => false,
    }
}

/// The columns that a character takes in a terminal.
fn width(c: char) -> usize {
    c.width().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(raw: &[&str]) -> Vec<String> {
        readable(raw.iter().map(|t| (*t).to_owned()).collect())
            .into_iter()
            .map(|t| t.text)
            .collect()
    }

    #[test]
    fn byte_level_tokens_are_read_as_text() {
        // As GPT-2's tokenizer writes "The café cost 5€\n\t", with the euro sign in two tokens.
        let raw = ["The", "ĠcafÃ©", "Ġcost", "Ġ5", "âĤ", "¬", "Ċ", "ĉ", "<|endoftext|>"];
        let text =
            ["The", "␣café", "␣cost", "␣5", "\\xE2\\x82", "\\xAC", "⏎", "⇥", "<|endoftext|>"];
        assert_eq!(shown(&raw), text);
        assert_eq!(
            shown(&["Ġ", "Ġç", "｜"]),
            ["␣", "␣\\xE7", "｜"],
            "a letter that is no byte leaves a token as it is"
        );
    }

    #[test]
    fn all_bytes_have_a_letter() {
        let letters: Vec<char> =
            (0..0x144).filter_map(char::from_u32).filter(|c| byte_of(*c).is_some()).collect();
        let mut bytes: Vec<u8> = letters.iter().filter_map(|c| byte_of(*c)).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        assert_eq!(
            ["Ġ", "Ċ", "ĉ", "Ń"].map(|s| s.chars().next().and_then(byte_of)),
            [Some(0x20), Some(0x0A), Some(0x09), Some(0xAD)]
        );
    }

    #[test]
    fn other_scripts_and_tokenizers_stay_as_they_are() {
        assert_eq!(
            shown(&["▁The", "▁", "cat", "<0x0A>", "<0xE2>"]),
            ["␣The", "␣", "cat", "⏎", "<0xE2>"]
        );
        assert_eq!(shown(&["[CLS]", "play", "##ing", "é"]), ["[CLS]", "play", "##ing", "é"]);
        assert_eq!(shown(&["猫", "кот", "قطة", "👩‍🚀"]), ["猫", "кот", "قطة", "👩‍🚀"]);
        assert_eq!(
            shown(&["", " ", "a\nb", "\0", "\u{202E}x"]),
            ["\"\"", "␣", "a⏎b", "\\u{0}", "\\u{202e}x"]
        );
    }

    #[test]
    fn no_token_is_without_a_name() {
        // Spaces, separators, what directs the text, a code point that is no character, fillers, selectors and accents.
        for code in [
            0xA0, 0x3000, 0x2003, 0x200B, 0x200F, 0x2028, 0x2029, 0xFFFE, 0xFFFF, 0xAD, 0x2060,
            0x61C, 0x85, 0x3164, 0x1160, 0xFE0F, 0x34F, 0x301, 0x200D, 0xE0001, 0x378,
        ] {
            let c = char::from_u32(code).unwrap();
            assert_eq!(shown(&[&c.to_string()]), [format!("\\u{{{code:x}}}")]);
        }
        assert_eq!(shown(&["a\u{200B}b", "a\u{A0}"]), ["a\\u{200b}b", "a\\u{a0}"]);
        let kept =
            ["e\u{301}", "می\u{200C}خواهم", "❤\u{FE0F}", "\u{6DD}", "\u{1F469}\u{200D}\u{1F680}"];
        assert_eq!(shown(&kept), kept, "what stands on a letter or joins letters");
    }
}
