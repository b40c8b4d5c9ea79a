//! The letters of a label: which font has each, in which order they stand, and how they join.
//!
//! A label stands in a left-to-right page. Letters of right-to-left scripts are put in order by Unicode's bidirectional algorithm
//! (UAX #9), reduced to what a label needs: no embeddings, and neutral characters take the direction of the letters on both sides.
//! Each run of one font and one direction is shaped, so that Arabic letters join and accents stand on their letters.

use ab_glyph::{Font as _, FontRef};
use harfrust::{Direction, ShapeOptions, Shaper, ShaperData, UnicodeBuffer};
use unicode_width::UnicodeWidthChar as _;

use crate::Error;

/// A font, to draw and to shape.
pub(super) struct Face<'a> {
    pub(super) outlines: FontRef<'a>,
    tables: harfrust::FontRef<'a>,
    shaping: ShaperData,
}

/// A glyph of a label.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Letter {
    /// The index of the font. `None` for a character that no font has: a box stands for it.
    pub(super) font: Option<usize>,
    pub(super) glyph: u16,
    /// The place of its origin, to the right and upwards, and its width, in ems.
    pub(super) at: [f32; 2],
    pub(super) advance: f32,
}

/// The width of a box in ems.
const BOX: f32 = 0.6;

impl<'a> Face<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let outlines = FontRef::try_from_slice(bytes).map_err(Error::writer)?;
        let tables = harfrust::FontRef::new(bytes).map_err(Error::writer)?;
        Ok(Self { shaping: ShaperData::new(&tables), tables, outlines })
    }

    fn has(&self, letter: char) -> bool {
        self.outlines.glyph_id(letter).0 != 0
    }

    fn shaper(&self) -> Shaper<'_> {
        self.shaping.shaper(&self.tables).build()
    }
}

/// The glyphs of a text from left to right. The first font that has a character shows it.
pub(super) fn letters(fonts: &[Face<'_>], text: &str) -> Vec<Letter> {
    let characters: Vec<char> = text.chars().collect();
    let levels = levels(&characters);
    let mut runs: Vec<Run> = Vec::new();
    for (c, level) in characters.into_iter().zip(levels) {
        let font = fonts.iter().position(|font| font.has(c));
        match runs.last_mut() {
            // An accent or a joiner belongs to the letter before it.
            Some(run) if run.level == level && (run.font == font || c.width() == Some(0)) => {
                run.text.push(c);
            }
            _ if font.is_none() && c.width() == Some(0) => {}
            _ => runs.push(Run { font, level, text: c.to_string() }),
        }
    }
    // From the highest level down, what has at least this level is reversed.
    for level in (1..=2).rev() {
        for part in runs.chunk_by_mut(|a, b| (a.level >= level) == (b.level >= level)) {
            if part.first().is_some_and(|run| run.level >= level) {
                part.reverse();
            }
        }
    }
    let mut pen = 0.0;
    let mut letters = Vec::new();
    for run in runs {
        let Some((index, font)) = run.font.and_then(|i| Some((i, fonts.get(i)?))) else {
            for _ in run.text.chars().filter(|c| c.width() != Some(0)) {
                letters.push(Letter { font: None, glyph: 0, at: [pen, 0.0], advance: BOX });
                pen += BOX;
            }
            continue;
        };
        let mut buffer = UnicodeBuffer::new();
        buffer.push_str(&run.text);
        buffer.guess_segment_properties();
        let is_reversed = run.level % 2 == 1;
        buffer.set_direction(if is_reversed {
            Direction::RightToLeft
        } else {
            Direction::LeftToRight
        });
        let shaped = font.shaper().shape(buffer, ShapeOptions::new());
        let em = font.outlines.units_per_em().unwrap_or(1.0);
        for (info, place) in shaped.glyph_infos().iter().zip(shaped.glyph_positions()) {
            let [x, y, advance] =
                [place.x_offset, place.y_offset, place.x_advance].map(|units| units as f32 / em);
            let glyph = u16::try_from(info.glyph_id).unwrap_or(0);
            letters.push(Letter { font: Some(index), glyph, at: [pen + x, y], advance });
            pen += advance;
        }
    }
    letters
}

/// Characters of one font and one direction.
struct Run {
    font: Option<usize>,
    level: u8,
    text: String,
}

/// The level of each character: 0 for left to right, 1 for right to left, and 2 for a number within the latter.
fn levels(text: &[char]) -> Vec<u8> {
    let strong = |c: &char| match c {
        c if is_right_to_left(*c) && !c.is_numeric() => Some(1),
        c if c.is_alphabetic() => Some(0),
        _ => None,
    };
    let mut levels: Vec<u8> = Vec::with_capacity(text.len());
    let mut before = 0;
    for (i, c) in text.iter().enumerate() {
        let level = match strong(c) {
            Some(level) => level,
            None if c.is_numeric() => 2 * before,
            None => text[i..].iter().find_map(strong).map_or(0, |after: u8| after.min(before)),
        };
        before = strong(c).unwrap_or(before);
        levels.push(level);
    }
    levels
}

/// Whether the character is in a block that Unicode reserves for right-to-left scripts (DerivedBidiClass.txt).
fn is_right_to_left(c: char) -> bool {
    matches!(u32::from(c), 0x590..=0x8FF | 0xFB1D..=0xFDFF | 0xFE70..=0xFEFE | 0x1_0800..=0x1_0FFF | 0x1_E800..=0x1_EFFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_signs_stand_as_in_a_bidirectional_text() {
        let of = |text: &str| levels(&text.chars().collect::<Vec<_>>());
        assert_eq!(of("ab 1"), [0, 0, 0, 0]);
        assert_eq!(of("␣של"), [0, 1, 1]);
        assert_eq!(of("של-ום"), [1, 1, 1, 1, 1], "a sign between two letters");
        assert_eq!(of("של 12 a"), [1, 1, 0, 2, 2, 0, 0]);
        assert_eq!(of("٣٤"), [0, 0], "a number alone");
        assert_eq!(of("م٣٤م"), [1, 2, 2, 1]);
    }

    fn faces() -> [Face<'static>; 2] {
        let others = include_bytes!("../../fonts/DejaVuSans.ttf");
        [crate::fonts::SANS, others].map(|bytes| Face::new(bytes).unwrap())
    }

    #[test]
    fn arabic_letters_join_and_hebrew_stands_from_right_to_left() {
        let fonts = faces();
        let shaped = |text: &str| letters(&fonts, text);
        let alone = |c: char| (Some(1), fonts[1].outlines.glyph_id(c).0);
        let glyphs = |text: &str| -> Vec<_> {
            shaped(text).into_iter().map(|letter| (letter.font, letter.glyph)).collect()
        };
        let hebrew: Vec<_> = "םולש".chars().map(alone).collect();
        assert_eq!(glyphs("שלום"), hebrew);
        // The font has the joined forms as characters of their own: initial, medial, and final of beh.
        let [first, middle, last] = ['\u{FE91}', '\u{FE92}', '\u{FE90}'].map(alone);
        assert_eq!(glyphs("\u{628}\u{628}\u{628}"), [last, middle, first]);
        assert_eq!(glyphs("\u{628}"), [alone('\u{628}')], "an isolated letter");
        assert_eq!(glyphs("\u{644}\u{627}").len(), 1, "lam and alef are one glyph");
        let mixed = shaped("a שב");
        assert_eq!([mixed[0].font, mixed[2].font], [Some(0), Some(1)]);
        assert_eq!(mixed[2].glyph, alone('ב').1, "the last letter is the leftmost");
    }

    #[test]
    fn an_accent_stands_on_its_letter_and_a_character_that_is_missing_is_a_box() {
        let fonts = faces();
        let letter = letters(&fonts, "e\u{301}");
        let width: f32 = letter.iter().map(|letter| letter.advance).sum();
        let alone = letters(&fonts, "e")[0].advance;
        assert!((width - alone).abs() < 1e-6, "{width} {alone}");
        let cat = letters(&fonts, "a猫\u{FE0F}b");
        let fonts_of: Vec<_> = cat.iter().map(|letter| letter.font).collect();
        assert_eq!(
            fonts_of,
            [Some(0), None, Some(0)],
            "a selector of variants is no box of its own"
        );
        let joiner: f32 = letters(&fonts, "\u{200D}").iter().map(|letter| letter.advance).sum();
        assert_eq!(joiner, 0.0, "a joiner alone takes no room");
    }
}
