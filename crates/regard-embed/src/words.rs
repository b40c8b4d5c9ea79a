//! Text to tokens, for tokenizers of which a token is a word.
//!
//! ```text
//! the tokens before every text
//! from the left, until nothing is left of the text:
//!     a special token, the longest that begins here   → its token
//!     white space                                     → nothing
//!     a mark, if marks are words                      → the token of the mark
//!     all up to the next of these, in lower case      → the token of the word, or that of unknown words
//! the tokens after every text
//! ```

use core::slice;
use core::str::Chars;

/// A tokenizer of which a token is a word: the model `WordLevel` of Hugging Face's tokenizers with the pre-tokenizer
/// `BertPreTokenizer` or `WhitespaceSplit`. On every text its tokens are theirs.
///
/// ```
/// use regard_embed::Words;
/// let words = Words {
///     words: &[("light", 3), ("on", 4), ("the", 5), ("turn", 6)],
///     unknown: 1,
///     special: &[("[START]", 2)],
///     lowercase: true,
///     marks: true,
///     before: &[2],
///     after: &[],
/// };
/// assert!(words.tokens("Turn on the light!").eq([2, 6, 4, 5, 3, 1]));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// The words and their tokens, in ascending order of the words. ASCII alone if `lowercase`.
    pub words: &'a [(&'a str, usize)],
    /// The token of a word that is not among them.
    pub unknown: usize,
    /// Texts that are tokens wherever they stand, and the tokens, the longest first.
    pub special: &'a [(&'a str, usize)],
    /// Whether a word is looked up in lower-case letters.
    pub lowercase: bool,
    /// Whether each mark is a word: ASCII's marks, and those of Unicode's category P.
    pub marks: bool,
    /// The tokens that every text begins with.
    pub before: &'a [usize],
    /// The tokens that every text ends with.
    pub after: &'a [usize],
}

impl<'a> Words<'a> {
    /// The tokens of a text.
    #[must_use]
    pub fn tokens<'t>(&self, text: &'t str) -> Tokens<'a, 't> {
        let (before, after) = (self.before.iter(), self.after.iter());
        Tokens { words: *self, before, rest: text.chars(), after }
    }

    /// The token of a word.
    fn token(&self, word: &str) -> usize {
        let letters = || word.chars().map(|c| if self.lowercase { lower(c) } else { c });
        let found = self.words.binary_search_by(|(known, _)| known.chars().cmp(letters()));
        found.ok().and_then(|i| self.words.get(i)).map_or(self.unknown, |(_, token)| *token)
    }

    /// The special token at the beginning of a text, and its length.
    fn special(&self, text: &str) -> Option<(usize, usize)> {
        let starts = |(special, _): &&(&str, usize)| text.starts_with(*special);
        self.special.iter().find(starts).map(|(special, token)| (*token, special.len()))
    }

    /// Whether a word ends before this character.
    fn ends(&self, c: char) -> bool {
        c.is_whitespace() || (self.marks && is_mark(c))
    }
}

/// The tokens of a text: [`Words::tokens`].
#[derive(Clone, Debug)]
pub struct Tokens<'a, 't> {
    words: Words<'a>,
    before: slice::Iter<'a, usize>,
    rest: Chars<'t>,
    after: slice::Iter<'a, usize>,
}

impl Iterator for Tokens<'_, '_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if let Some(token) = self.before.next() {
            return Some(*token);
        }
        loop {
            let text = self.rest.as_str();
            if let Some((token, len)) = self.words.special(text) {
                self.rest = text.get(len..).unwrap_or_default().chars();
                return Some(token);
            }
            let Some(first) = self.rest.next() else { return self.after.next().copied() };
            if first.is_whitespace() {
                continue;
            }
            if !self.words.ends(first) {
                self.skip_word();
            }
            let word = text.len().saturating_sub(self.rest.as_str().len());
            return Some(self.words.token(text.get(..word).unwrap_or_default()));
        }
    }
}

impl Tokens<'_, '_> {
    /// Goes to the end of the word.
    fn skip_word(&mut self) {
        loop {
            let mut rest = self.rest.clone();
            if self.words.special(rest.as_str()).is_some() {
                return;
            }
            match rest.next() {
                Some(c) if !self.words.ends(c) => self.rest = rest,
                _ => return,
            }
        }
    }
}

/// The lower-case letter of a character whose lower case is ASCII. Of all others outside ASCII, none is.
fn lower(c: char) -> char {
    if c == KELVIN { 'k' } else { c.to_ascii_lowercase() }
}

/// The sign of the kelvin.
const KELVIN: char = '\u{212a}';

/// Whether a character is one of ASCII's marks, or of Unicode's category P.
fn is_mark(c: char) -> bool {
    use core::cmp::Ordering::{Equal, Greater, Less};
    let place = |(first, last): &(char, char)| match () {
        () if *last < c => Less,
        () if *first > c => Greater,
        () => Equal,
    };
    c.is_ascii_punctuation() || (!c.is_ascii() && MARKS.binary_search_by(place).is_ok())
}

/// The characters of category P outside ASCII: the first and the last of each range. The Unicode version is the tokenizer's.
#[rustfmt::skip]
const MARKS: [(char, char); 152] = [
    ('\u{a1}', '\u{a1}'), ('\u{a7}', '\u{a7}'), ('\u{ab}', '\u{ab}'), ('\u{b6}', '\u{b7}'), ('\u{bb}', '\u{bb}'),
    ('\u{bf}', '\u{bf}'), ('\u{37e}', '\u{37e}'), ('\u{387}', '\u{387}'), ('\u{55a}', '\u{55f}'), ('\u{589}', '\u{58a}'),
    ('\u{5be}', '\u{5be}'), ('\u{5c0}', '\u{5c0}'), ('\u{5c3}', '\u{5c3}'), ('\u{5c6}', '\u{5c6}'), ('\u{5f3}', '\u{5f4}'),
    ('\u{609}', '\u{60a}'), ('\u{60c}', '\u{60d}'), ('\u{61b}', '\u{61b}'), ('\u{61e}', '\u{61f}'), ('\u{66a}', '\u{66d}'),
    ('\u{6d4}', '\u{6d4}'), ('\u{700}', '\u{70d}'), ('\u{7f7}', '\u{7f9}'), ('\u{830}', '\u{83e}'), ('\u{85e}', '\u{85e}'),
    ('\u{964}', '\u{965}'), ('\u{970}', '\u{970}'), ('\u{af0}', '\u{af0}'), ('\u{df4}', '\u{df4}'), ('\u{e4f}', '\u{e4f}'),
    ('\u{e5a}', '\u{e5b}'), ('\u{f04}', '\u{f12}'), ('\u{f14}', '\u{f14}'), ('\u{f3a}', '\u{f3d}'), ('\u{f85}', '\u{f85}'),
    ('\u{fd0}', '\u{fd4}'), ('\u{fd9}', '\u{fda}'), ('\u{104a}', '\u{104f}'), ('\u{10fb}', '\u{10fb}'),
    ('\u{1360}', '\u{1368}'), ('\u{1400}', '\u{1400}'), ('\u{166d}', '\u{166e}'), ('\u{169b}', '\u{169c}'),
    ('\u{16eb}', '\u{16ed}'), ('\u{1735}', '\u{1736}'), ('\u{17d4}', '\u{17d6}'), ('\u{17d8}', '\u{17da}'),
    ('\u{1800}', '\u{180a}'), ('\u{1944}', '\u{1945}'), ('\u{1a1e}', '\u{1a1f}'), ('\u{1aa0}', '\u{1aa6}'),
    ('\u{1aa8}', '\u{1aad}'), ('\u{1b5a}', '\u{1b60}'), ('\u{1bfc}', '\u{1bff}'), ('\u{1c3b}', '\u{1c3f}'),
    ('\u{1c7e}', '\u{1c7f}'), ('\u{1cc0}', '\u{1cc7}'), ('\u{1cd3}', '\u{1cd3}'), ('\u{2010}', '\u{2027}'),
    ('\u{2030}', '\u{2043}'), ('\u{2045}', '\u{2051}'), ('\u{2053}', '\u{205e}'), ('\u{207d}', '\u{207e}'),
    ('\u{208d}', '\u{208e}'), ('\u{2308}', '\u{230b}'), ('\u{2329}', '\u{232a}'), ('\u{2768}', '\u{2775}'),
    ('\u{27c5}', '\u{27c6}'), ('\u{27e6}', '\u{27ef}'), ('\u{2983}', '\u{2998}'), ('\u{29d8}', '\u{29db}'),
    ('\u{29fc}', '\u{29fd}'), ('\u{2cf9}', '\u{2cfc}'), ('\u{2cfe}', '\u{2cff}'), ('\u{2d70}', '\u{2d70}'),
    ('\u{2e00}', '\u{2e2e}'), ('\u{2e30}', '\u{2e42}'), ('\u{3001}', '\u{3003}'), ('\u{3008}', '\u{3011}'),
    ('\u{3014}', '\u{301f}'), ('\u{3030}', '\u{3030}'), ('\u{303d}', '\u{303d}'), ('\u{30a0}', '\u{30a0}'),
    ('\u{30fb}', '\u{30fb}'), ('\u{a4fe}', '\u{a4ff}'), ('\u{a60d}', '\u{a60f}'), ('\u{a673}', '\u{a673}'),
    ('\u{a67e}', '\u{a67e}'), ('\u{a6f2}', '\u{a6f7}'), ('\u{a874}', '\u{a877}'), ('\u{a8ce}', '\u{a8cf}'),
    ('\u{a8f8}', '\u{a8fa}'), ('\u{a8fc}', '\u{a8fc}'), ('\u{a92e}', '\u{a92f}'), ('\u{a95f}', '\u{a95f}'),
    ('\u{a9c1}', '\u{a9cd}'), ('\u{a9de}', '\u{a9df}'), ('\u{aa5c}', '\u{aa5f}'), ('\u{aade}', '\u{aadf}'),
    ('\u{aaf0}', '\u{aaf1}'), ('\u{abeb}', '\u{abeb}'), ('\u{fd3e}', '\u{fd3f}'), ('\u{fe10}', '\u{fe19}'),
    ('\u{fe30}', '\u{fe52}'), ('\u{fe54}', '\u{fe61}'), ('\u{fe63}', '\u{fe63}'), ('\u{fe68}', '\u{fe68}'),
    ('\u{fe6a}', '\u{fe6b}'), ('\u{ff01}', '\u{ff03}'), ('\u{ff05}', '\u{ff0a}'), ('\u{ff0c}', '\u{ff0f}'),
    ('\u{ff1a}', '\u{ff1b}'), ('\u{ff1f}', '\u{ff20}'), ('\u{ff3b}', '\u{ff3d}'), ('\u{ff3f}', '\u{ff3f}'),
    ('\u{ff5b}', '\u{ff5b}'), ('\u{ff5d}', '\u{ff5d}'), ('\u{ff5f}', '\u{ff65}'), ('\u{10100}', '\u{10102}'),
    ('\u{1039f}', '\u{1039f}'), ('\u{103d0}', '\u{103d0}'), ('\u{1056f}', '\u{1056f}'), ('\u{10857}', '\u{10857}'),
    ('\u{1091f}', '\u{1091f}'), ('\u{1093f}', '\u{1093f}'), ('\u{10a50}', '\u{10a58}'), ('\u{10a7f}', '\u{10a7f}'),
    ('\u{10af0}', '\u{10af6}'), ('\u{10b39}', '\u{10b3f}'), ('\u{10b99}', '\u{10b9c}'), ('\u{11047}', '\u{1104d}'),
    ('\u{110bb}', '\u{110bc}'), ('\u{110be}', '\u{110c1}'), ('\u{11140}', '\u{11143}'), ('\u{11174}', '\u{11175}'),
    ('\u{111c5}', '\u{111c9}'), ('\u{111cd}', '\u{111cd}'), ('\u{111db}', '\u{111db}'), ('\u{111dd}', '\u{111df}'),
    ('\u{11238}', '\u{1123d}'), ('\u{112a9}', '\u{112a9}'), ('\u{114c6}', '\u{114c6}'), ('\u{115c1}', '\u{115d7}'),
    ('\u{11641}', '\u{11643}'), ('\u{1173c}', '\u{1173e}'), ('\u{12470}', '\u{12474}'), ('\u{16a6e}', '\u{16a6f}'),
    ('\u{16af5}', '\u{16af5}'), ('\u{16b37}', '\u{16b3b}'), ('\u{16b44}', '\u{16b44}'), ('\u{1bc9f}', '\u{1bc9f}'),
    ('\u{1da87}', '\u{1da8b}'),
];
