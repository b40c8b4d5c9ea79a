#![forbid(unsafe_code)]
//! A labelled matrix as a picture or as a file of numbers.
//!
//! A [`LabelledMatrix`] has numbers, labels, a title and a [`Palette`], so that a file has the colours of the screen. [`Format`]
//! lists the files that can be written: PNG, SVG, HTML, CSV, npy and safetensors. A [`Figure`] is the picture of a matrix, of its
//! weights as lines ([`LabelledMatrix::lines`]), of many matrices ([`Grid`]) or of curves ([`Plot`]). A [`HeadsPage`] has all heads
//! of an attention to look through.

mod encode;
mod error;
mod extent;
mod figure;
pub mod fonts;
mod format;
mod grid;
mod heads;
mod heatmap;
mod html;
mod label;
mod lines;
mod matrix;
pub mod npy;
pub mod numbers;
mod palette;
mod plot;
mod png;
mod svg;
mod text;

pub use self::error::Error;
pub use self::extent::Extent;
pub use self::figure::Figure;
pub use self::format::Format;
pub use self::grid::{Grid, Small, extents};
pub use self::heads::HeadsPage;
pub use self::label::Label;
pub use self::lines::overlaid;
pub use self::matrix::LabelledMatrix;
pub use self::palette::{
    COLORS, Ground, Look, Map, NOT_A_NUMBER, Palette, Signs, TEXELS, curve_color, ink_on, largest,
};
pub use self::plot::{Curve, Plot, Scale};
pub use self::text::shortened;
