//! `digits` is a vision transformer of 2 layers that reads a handwritten digit of 8 × 8 pixels.
//!
//! The crate holds the files of a Hugging Face folder, and the images that training held back. README.md is the model card: the data,
//! the training, and what each head looks at.
#![no_std]
#![forbid(unsafe_code)]

/// The files of the model, each with its name in a Hugging Face folder.
pub const FILES: [(&str, &[u8]); 3] = [
    ("config.json", include_bytes!("../config.json")),
    ("preprocessor_config.json", include_bytes!("../preprocessor_config.json")),
    ("model.safetensors", include_bytes!("../model.safetensors")),
];

/// The height and width of an image, in pixels.
pub const SIDE: usize = 8;
/// The pixels of an image.
pub const PIXELS: usize = SIDE * SIDE;
/// The digit, and the pixels.
const BYTES: usize = 1 + PIXELS;

/// An image with its digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digit {
    /// The digit: 0 to 9.
    pub label: u8,
    /// \[8, 8\]: the ink of each pixel, from 0 to 255.
    pub pixels: &'static [u8; PIXELS],
}

/// The 360 images that training held back: every fifth of the handwritten digits of UCI that scikit-learn carries.
///
/// ```
/// assert_eq!(regard_digits::held_back().len(), 360);
/// assert!(regard_digits::held_back().all(|digit| digit.label < 10));
/// ```
#[must_use]
pub fn held_back() -> impl ExactSizeIterator<Item = Digit> {
    include_bytes!("../held-back.bin").as_chunks::<BYTES>().0.iter().map(|bytes| {
        let [label, pixels @ ..] = bytes;
        Digit { label: *label, pixels }
    })
}
