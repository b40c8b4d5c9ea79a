//! The choices of the user in this room.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::heatmap::{Cell, View};
use regard_heads::{HeadId, Measure, Over, Part, Shape};

/// The sources of attention.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttentionSource {
    /// The sample that is part of the program.
    #[default]
    Sample,
    /// A file.
    File(PathBuf),
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
    MeanOfLayer,
    /// The mean of the heads of one number over all layers.
    MeanOfHead,
    /// The mean of all heads.
    MeanOfAll,
    /// Attention rollout as far as a layer.
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

/// The choices of the user in this room.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// The source of the attention.
    pub source: AttentionSource,
    /// The measure that the heads are sorted by. `None`: the order of the file.
    pub order: Option<Measure>,
    /// Whether the smallest comes first.
    pub smallest_first: bool,
    /// Whether the colours of each small picture are scaled to its own largest weight, not to that of the file.
    pub own_scale: bool,
    /// The matrix that is shown.
    pub shown: Shown,
    /// The layer, by its place in the file.
    pub layer: usize,
    /// The head of the layer.
    pub head: usize,
    /// Whether the matrix is drawn as lines instead of a heatmap.
    pub lines: bool,
    /// The cell that was clicked.
    pub chosen: Option<Cell>,
    /// The visible part of the heatmap.
    pub view: View,
    /// The token whose lines alone are shown.
    pub isolated: Option<(Side, usize)>,
    /// The token in the middle of the lines, if not all tokens fit.
    pub around: usize,
}

impl State {
    /// The state of an attention that has just been opened.
    pub fn of(source: AttentionSource) -> Self {
        Self { source, ..Self::default() }
    }

    /// The choices, which undo and redo change. Zoom, pins and the cursor are not among them.
    pub fn choices(&self) -> Self {
        Self { chosen: None, view: View::default(), isolated: None, around: 0, ..self.clone() }
    }

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

    /// Limits every choice to what the file has. A session file may hold anything.
    pub fn limit(&mut self, shape: Shape, is_self_attention: bool) {
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
}

impl State {
    /// The matrix that is shown. The grid shows none.
    pub(crate) fn part(&self) -> Option<Part> {
        match self.shown {
            Shown::Grid => None,
            Shown::Head => Some(Part::Head(self.id())),
            Shown::MeanOfLayer => Some(Part::Mean(Over::HeadsOf(self.layer))),
            Shown::MeanOfHead => Some(Part::Mean(Over::LayersOf(self.head))),
            Shown::MeanOfAll => Some(Part::Mean(Over::All)),
            Shown::Rollout => Some(Part::Rollout(self.layer)),
        }
    }
}
