//! The choices of the user about heads.

use core::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Effect, Order};
use crate::{Cell, Viewport};
use regard_figure::LabelledMatrix;
use regard_heads::{AttentionShape, HeadId, MapPart};

/// The sources of attention.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttentionSource {
    /// The sample that is part of the program.
    #[default]
    Sample,
    /// A file. If it has several attentions, the first one that is known by its name.
    File(PathBuf),
    /// An attention of a file that has several, by its name.
    Tensor(PathBuf, String),
}

impl AttentionSource {
    /// The file, if it is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Sample => None,
            Self::File(path) | Self::Tensor(path, _) => Some(path),
        }
    }
}

impl fmt::Display for AttentionSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sample => f.write_str("the sample"),
            Self::File(path) => path.display().fmt(f),
            Self::Tensor(path, name) => write!(f, "{}, {name}", path.display()),
        }
    }
}

/// The matrices that can be shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shown {
    /// All heads as small pictures.
    #[default]
    Grid,
    /// One head.
    Head,
    /// The mean of a layer's heads.
    #[serde(alias = "mean-of-head", alias = "mean-of-all")]
    MeanOfLayer,
    /// Attention rollout up to a layer.
    Rollout,
}

/// A side of the view with lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The queries, at the left.
    Queries,
    /// The keys, at the right.
    Keys,
}

/// The choices of the user about heads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeadsState {
    /// The order of the heads. `None`: layer by layer.
    pub order: Option<Order>,
    /// Whether the smallest number comes first.
    pub smallest_first: bool,
    /// The effect that lies over the small pictures.
    pub tint: Option<Effect>,
    /// The matrix that is shown.
    pub shown: Shown,
    /// The layer, by its place in the file.
    pub layer: usize,
    /// The head of the layer.
    pub head: usize,
    /// Whether the matrix is drawn as lines instead of a heatmap.
    pub lines: bool,
    /// Whether the first token is left out of the small pictures and of the lines.
    pub hide_first: bool,
    /// The number of lines of a query: those of its largest weights. 0: all of them.
    pub most_lines: usize,
    /// The cell that was clicked.
    pub chosen: Option<Cell>,
    /// The visible part of the matrix.
    pub view: Viewport,
    /// The only token whose lines are shown.
    pub isolated: Option<(Side, usize)>,
    /// The token in the middle of the lines, if not all tokens fit.
    pub around: usize,
}

impl HeadsState {
    /// Takes the choices of another state. Zoom, pins and the cursor stay.
    pub fn take(&mut self, choices: &Self) {
        let (chosen, isolated, around) = (self.chosen, self.isolated, self.around);
        *self = Self {
            view: core::mem::take(&mut self.view),
            chosen,
            isolated,
            around,
            ..choices.clone()
        };
    }

    /// The chosen head.
    pub fn id(&self) -> HeadId {
        HeadId { layer: self.layer, head: self.head }
    }

    /// Shows a head.
    pub fn show(&mut self, id: HeadId) {
        (self.layer, self.head, self.shown) = (id.layer, id.head, Shown::Head);
    }

    /// Limits every choice to the contents of the file. A session file may hold anything.
    pub fn limit(&mut self, shape: AttentionShape, is_self_attention: bool) {
        self.layer = self.layer.min(shape.layers - 1);
        self.head = self.head.min(shape.heads - 1);
        self.chosen = self.chosen.filter(|(row, col)| *row < shape.queries && *col < shape.keys);
        self.isolated = self.isolated.filter(|(side, i)| {
            *i < match side {
                Side::Queries => shape.queries,
                Side::Keys => shape.keys,
            }
        });
        self.around = self.around.min(shape.queries.max(shape.keys) - 1);
        if self.shown == Shown::Rollout && !is_self_attention {
            self.shown = Shown::Grid;
        }
    }

    /// The heads whose lines are drawn together, each in its own colour: those of the layer whose mean is chosen.
    pub fn together(&self, shape: AttentionShape) -> Vec<HeadId> {
        let count = if self.shown == Shown::MeanOfLayer { shape.heads } else { 0 };
        (0..count).map(|head| HeadId { layer: self.layer, head }).collect()
    }

    /// Whether the weights of a query have lines, key by key.
    pub fn drawn<'w>(&self, weights: &'w [f32]) -> impl Fn(usize) -> bool + use<'w> {
        let first = usize::from(self.hide_first);
        let size = |key: usize| weights.get(key).filter(|w| w.is_finite()).map_or(0.0, |w| w.abs());
        let mut sizes: Vec<f32> = (first..weights.len()).map(size).collect();
        let least = if self.most_lines == 0 || self.most_lines >= sizes.len() {
            0.0
        } else {
            *sizes.select_nth_unstable_by(self.most_lines - 1, |a, b| b.total_cmp(a)).1
        };
        move |key| key >= first && size(key) >= least
    }

    /// The matrix reduced to the weights that have lines, for export.
    pub fn with_lines(&self, mut matrix: LabelledMatrix) -> LabelledMatrix {
        let cols = matrix.cols.len().max(1);
        let mut numbers = matrix.values.to_vec();
        for row in numbers.chunks_exact_mut(cols) {
            let before = row.to_vec();
            let drawn = self.drawn(&before);
            row.iter_mut().enumerate().filter(|(key, _)| !drawn(*key)).for_each(|(_, w)| *w = 0.0);
        }
        matrix.values = std::sync::Arc::new(numbers);
        matrix
    }

    /// The matrix that is shown. The grid shows none.
    pub fn part(&self) -> Option<MapPart> {
        match self.shown {
            Shown::Grid => None,
            Shown::Head => Some(MapPart::Head(self.id())),
            Shown::MeanOfLayer => Some(MapPart::Mean(self.layer)),
            Shown::Rollout => Some(MapPart::Rollout(self.layer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_weights_have_lines() {
        let weights = [0.5, 0.1, 0.0, 0.3, 0.1];
        let drawn = |hide_first, most_lines| {
            let state = HeadsState { hide_first, most_lines, ..HeadsState::default() };
            let drawn = state.drawn(&weights);
            (0..5).filter(|key| drawn(*key)).collect::<Vec<_>>()
        };
        assert_eq!(drawn(false, 0), [0, 1, 2, 3, 4]);
        assert_eq!(drawn(true, 0), [1, 2, 3, 4]);
        assert_eq!(drawn(false, 2), [0, 3]);
        assert_eq!(drawn(true, 1), [3]);
        assert_eq!(drawn(true, 2), [1, 3, 4], "equal weights go together");
        assert_eq!(drawn(false, 9), [0, 1, 2, 3, 4]);
    }
}
