use std::path::Path;

use strum::{IntoStaticStr, VariantArray};

use crate::Error;

/// The formats of the files that a matrix can be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
#[non_exhaustive]
pub enum Format {
    /// A figure as pixels: cells, labels and colour bar.
    Png,
    /// A figure as shapes: cells, labels and colour bar.
    Svg,
    /// A figure in a page that shows the number under the pointer. It is one file and needs no network.
    Html,
    /// A table with the raw tokens as headings. Each number is the shortest one that reads back as the same `f32`.
    Csv,
    /// A NumPy array: \[rows, cols\] of `f32`.
    Npy,
    /// A tensor of `f32` with the raw tokens in the metadata. It can be opened as attention again.
    Safetensors,
}

impl Format {
    /// All formats.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// Whether the file shows numbers as colours.
    pub fn is_picture(self) -> bool {
        matches!(self, Self::Png | Self::Svg | Self::Html)
    }

    /// The ending of the file's name: "svg".
    pub fn extension(self) -> &'static str {
        self.into()
    }

    /// The format that belongs to the ending of a file's name.
    ///
    /// # Errors
    /// [`Error::Extension`] if the name has another ending.
    pub fn of(path: &Path) -> Result<Self, Error> {
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        let format = Self::ALL.iter().find(|format| format.extension() == extension);
        format.copied().ok_or_else(|| Error::Extension(path.to_owned()))
    }
}
