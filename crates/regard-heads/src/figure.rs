use std::sync::Arc;

use regard_figure::{
    Extent, Figure, Grid, Label, LabelledMatrix, Look, Palette, Signs, Small, largest,
};

use super::error::counted;
use super::{AttentionMaps, Error, MapPart, Progress, Survey};

impl AttentionMaps {
    /// A part of an attention as a figure, in the colours of this look.
    ///
    /// # Errors
    /// Those of [`AttentionMaps::part`].
    pub fn matrix(
        &self,
        part: MapPart,
        look: Look,
        progress: &Progress<'_>,
    ) -> Result<LabelledMatrix, Error> {
        let numbers = self.part(part, progress)?;
        let palette = palette(&numbers, Extent::of(&numbers), look);
        Ok(self.labelled(part, Arc::new(numbers), palette))
    }

    /// The figure of a part whose `values` [`AttentionMaps::part`] has computed.
    pub fn labelled(
        &self,
        part: MapPart,
        values: Arc<Vec<f32>>,
        palette: Palette,
    ) -> LabelledMatrix {
        let [rows, cols] = self.tokens();
        LabelledMatrix {
            title: self.title(part),
            name: "attention".to_owned(),
            values,
            masked: self.masked().unwrap_or(f32::NEG_INFINITY),
            rows,
            cols,
            axes: ["query", "key"],
            palette,
        }
    }
}

/// The colour scale of a picture of many heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorScale {
    /// All heads share one.
    Shared,
    /// Each head has its own.
    Own,
}

impl Survey {
    /// A picture of all heads: a row for each layer, and a matrix for each head. A long text shows the largest weight of each
    /// rectangle of [`factors`](Self::factors).
    pub fn figure(&self, maps: &AttentionMaps, look: Look, scale: ColorScale) -> Figure {
        let shape = maps.shape();
        let heads: Vec<_> = shape.ids().map(|id| (id, self.thumbnail(maps, id))).collect();
        let most = heads.iter().map(|(_, numbers)| largest(numbers)).fold(0.0, f32::max);
        let is_signed = heads.iter().any(|(_, numbers)| Signs::of(numbers) == Signs::Both);
        let signs = if is_signed { Signs::Both } else { Signs::Positive };
        let matrix = |(id, numbers): &(super::HeadId, std::borrow::Cow<'_, [f32]>)| {
            let limit = if scale == ColorScale::Own { largest(numbers) } else { most };
            Small {
                name: format!("head {}", maps.name_of(*id)),
                values: Arc::new(numbers.to_vec()),
                palette: Palette::up_to(limit, signs, look),
            }
        };
        let [queries, keys] = maps.tokens();
        let [rows, cols] = self.factors();
        let labels = [pooled(queries, rows), pooled(keys, cols)];
        let grid = Grid {
            title: [counted(shape.layers, "layer"), counted(shape.heads, "head")].join(" × "),
            rows: (0..shape.layers)
                .map(|layer| format!("{}.x", maps.layer_number(layer)))
                .collect(),
            cols: (0..shape.heads).map(|head| format!("x.{head}")).collect(),
            labels: labels.each_ref().map(Vec::as_slice),
            axes: ["query", "key"],
            matrices: heads.iter().map(matrix).collect(),
        };
        grid.figure()
    }
}

/// Joins the first and the last of every `factor` labels.
fn pooled(labels: Vec<Label>, factor: usize) -> Vec<Label> {
    if factor < 2 {
        return labels;
    }
    let several = |labels: &[Label]| match labels {
        [first, .., last] => Label::plain(&format!("{} … {}", first.text, last.text)),
        one => one.first().cloned().unwrap_or_else(|| Label::plain("")),
    };
    labels.chunks(factor).map(several).collect()
}

/// The palette for weights, or for scores if a number is negative.
pub fn palette(numbers: &[f32], extent: Extent, look: Look) -> Palette {
    Palette::of(extent, Signs::of(numbers), look)
}
