//! The words for positions, windows, temperatures and stages, as the command line, Python and messages use them.

use core::fmt;
use core::str::FromStr;

use crate::{Position, Stage, Temperature, Window};

/// A text that is none of the words for a value.
///
/// ```
/// use regard_kernels::Stage;
/// assert_eq!("raws".parse::<Stage>().unwrap_err().to_string(), "expected raw, softcapped, masked or weights");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}")]
#[non_exhaustive]
pub struct UnknownWord {
    /// The words that exist.
    pub expected: &'static str,
}

/// ```
/// use regard_kernels::Position;
/// for (word, position) in
///     [("top-left", Position::TopLeft), ("bottom-right", Position::BottomRight), ("-3", Position::Offset(-3))]
/// {
///     assert_eq!((word.parse(), position.to_string()), (Ok(position), word.to_owned()));
/// }
/// ```
impl FromStr for Position {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        const WORDS: UnknownWord =
            UnknownWord { expected: "top-left, bottom-right or a whole number of keys" };
        match text {
            "top-left" => Ok(Self::TopLeft),
            "bottom-right" => Ok(Self::BottomRight),
            offset => offset.parse().map(Self::Offset).map_err(|_e| WORDS),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TopLeft => f.write_str("top-left"),
            Self::BottomRight => f.write_str("bottom-right"),
            Self::Offset(offset) => offset.fmt(f),
        }
    }
}

/// ```
/// use regard_kernels::Window;
/// let near = Window { left: Some(128), right: None };
/// assert_eq!(("128,inf".parse(), near.to_string()), (Ok(near), "128,inf".to_owned()));
/// ```
impl FromStr for Window {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        const WORDS: UnknownWord =
            UnknownWord { expected: "LEFT,RIGHT as in 128,0, two whole numbers or inf" };
        let side = |side: &str| match side.trim() {
            "inf" => Ok(None),
            n => n.parse().map(Some).map_err(|_e| WORDS),
        };
        let (left, right) = text.split_once(',').ok_or(WORDS)?;
        Ok(Self { left: side(left)?, right: side(right)? })
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (before, side) in [("", self.left), (",", self.right)] {
            f.write_str(before)?;
            match side {
                Some(n) => n.fmt(f)?,
                None => f.write_str("inf")?,
            }
        }
        Ok(())
    }
}

/// A finite number that `f32` rounds to ∞ is refused.
///
/// ```
/// use regard_kernels::Temperature;
/// assert_eq!("inf".parse(), Ok(Temperature::INFINITE));
/// assert!("1e50".parse::<Temperature>().is_err() && "-1".parse::<Temperature>().is_err());
/// ```
impl FromStr for Temperature {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        const WORDS: UnknownWord = UnknownWord {
            expected: "a number from 0 (all weight on the largest score) to 3.4e38, or inf (the same weight for all)",
        };
        let t: f32 = text.parse().map_err(|_e| WORDS)?;
        if t.is_infinite() && text.contains(|c: char| c.is_ascii_digit()) {
            return Err(WORDS);
        }
        Self::new(t).map_err(|_e| WORDS)
    }
}

impl Stage {
    /// All stages, in the order of computation.
    pub const ALL: &'static [Self] = &[Self::Raw, Self::Softcapped, Self::Masked, Self::Weights];

    /// The word for the stage.
    ///
    /// ```
    /// use regard_kernels::Stage;
    /// assert!(Stage::ALL.iter().all(|stage| stage.word().parse() == Ok(*stage)));
    /// ```
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Softcapped => "softcapped",
            Self::Masked => "masked",
            Self::Weights => "weights",
        }
    }
}

impl FromStr for Stage {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let words = UnknownWord { expected: "raw, softcapped, masked or weights" };
        Self::ALL.iter().copied().find(|stage| stage.word() == text).ok_or(words)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
