use std::sync::Arc;

use regard_figure::{Look, Matrix, Palette, largest};

use super::{AttentionMaps, Error, Part, Progress};

impl AttentionMaps {
    /// A part of an attention as a figure, in the colours of this look.
    ///
    /// # Errors
    /// Those of [`AttentionMaps::part`].
    pub fn matrix(&self, part: Part, look: Look, progress: &Progress<'_>) -> Result<Matrix, Error> {
        let numbers = self.part(part, progress)?;
        let palette = palette(&numbers, largest(&numbers), look);
        Ok(self.labelled(part, Arc::new(numbers), palette))
    }

    /// The figure of a part whose `values` [`AttentionMaps::part`] has computed.
    pub fn labelled(&self, part: Part, values: Arc<Vec<f32>>, palette: Palette) -> Matrix {
        let [rows, cols] = self.tokens();
        Matrix {
            title: self.title(part),
            name: "attention".to_owned(),
            values,
            masked: f32::NEG_INFINITY,
            rows,
            cols,
            axes: ["query", "key"],
            palette,
        }
    }
}

/// The palette for weights, or for scores if a number is negative.
pub fn palette(numbers: &[f32], largest: f32, look: Look) -> Palette {
    Palette::up_to(largest, numbers.iter().any(|x| *x < 0.0 && x.is_finite()), look)
}
