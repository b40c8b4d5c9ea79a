//! An image that is drawn for a model of small images.

use regard_models::Description;
use serde::{Deserialize, Serialize};

/// The largest side of an image that is drawn, in pixels.
const LARGEST: usize = 32;

/// An image of grey pixels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drawing {
    /// Its height and width.
    pub size: [usize; 2],
    /// The ink of each pixel, row by row: 0 is none.
    pub ink: Vec<u8>,
}

/// The height and width of the images that are drawn for a model: few pixels of one channel.
pub fn size_for(description: &Description) -> Option<[usize; 2]> {
    let patches = description.embedding.patches.filter(|patches| patches.channels == 1)?;
    let size = [patches.height, patches.width];
    size.iter().all(|side| *side <= LARGEST).then_some(size)
}

/// An image without ink.
pub fn blank(size: [usize; 2]) -> Drawing {
    Drawing { size, ink: vec![0; size[0] * size[1]] }
}

impl Drawing {
    /// The image that training held back, by its number.
    pub fn of_digit(number: usize) -> Option<Self> {
        let digit = regard_digits::held_back().nth(number)?;
        Some(Self { size: [regard_digits::SIDE; 2], ink: digit.pixels.to_vec() })
    }

    /// The next image of a digit that training held back, after this one.
    pub fn next_of(&self, label: u8) -> Option<Self> {
        let all =
            || regard_digits::held_back().enumerate().filter(|(_, digit)| digit.label == label);
        let here = all().find(|(_, digit)| digit.pixels[..] == self.ink).map(|(number, _)| number);
        let next = all().find(|(number, _)| here.is_some_and(|here| *number > here));
        let (number, _) = next.or_else(|| all().next())?;
        Self::of_digit(number)
    }

    /// Whether it is an image of this digit that training held back.
    pub fn is_of(&self, label: u8) -> bool {
        regard_digits::held_back().any(|digit| digit.label == label && digit.pixels[..] == self.ink)
    }

    /// Its height and width, if they agree with the number of pixels.
    pub fn size(&self) -> Option<[usize; 2]> {
        (self.size[0].checked_mul(self.size[1]) == Some(self.ink.len())).then_some(self.size)
    }

    /// The red, green and blue bytes of its pixels.
    pub fn rgb(&self) -> Vec<u8> {
        self.ink.iter().flat_map(|ink| [*ink; 3]).collect()
    }
}
