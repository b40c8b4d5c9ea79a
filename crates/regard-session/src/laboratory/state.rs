//! The choices of the user in the laboratory.

use std::path::{Path, PathBuf};

use regard::Temperature;
use serde::{Deserialize, Serialize};

use super::TokenFile;
use crate::{Cell, Viewport};

/// The most tokens.
pub const MOST_TOKENS: usize = 4096;
/// The most features.
pub const MOST_DIM: usize = 256;
const MOST_PAINTED: usize = 4096;

/// The sources of queries and keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenSource {
    /// Random numbers.
    #[default]
    Seed,
    /// A file.
    File {
        /// The path of the file.
        path: PathBuf,
        /// The head, if the file has several.
        head: usize,
    },
}

impl TokenSource {
    /// The file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Seed => None,
            Self::File { path, .. } => Some(path),
        }
    }
}

/// The inputs of the computation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaboratoryInputs {
    /// The source of queries and keys. A file makes the seed, the similarities and the sink irrelevant.
    pub source: TokenSource,
    /// The number of tokens: queries, and as many keys.
    pub tokens: usize,
    /// The number of features of a query and of a key.
    pub dim: usize,
    /// The seed of the random numbers.
    pub seed: u32,
    /// The correlation of a key with the query of the same token, from 0 to 1.
    pub alike: f32,
    /// The correlation of a token with the preceding one, from 0 to 1.
    pub smooth: f32,
    /// The number that is added to every query's scaled score of the first key.
    pub sink: f32,
    /// Divides the scores before softmax.
    pub temperature: Temperature,
    /// Whether scores are multiplied by 1/√d.
    pub scaled: bool,
    /// Whether a token attends only to itself and to earlier tokens.
    pub causal: bool,
    /// The number of tokens that a query sees to the left and to the right.
    pub window: Option<[usize; 2]>,
    /// The number of keys that are not padding.
    pub keys: Option<usize>,
    /// The slope of ALiBi.
    pub alibi: Option<f32>,
    /// The bound of the soft cap.
    pub softcap: Option<f32>,
    /// The painted squares, in order.
    pub painted: Vec<Square>,
    /// Whether the first token is hidden, so that the others share its weight.
    pub hide_first: bool,
}

/// A painted square of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Square {
    /// The first row and column.
    pub cell: Cell,
    /// The number of rows, and of columns.
    pub side: usize,
    /// Whether the cells are hidden. Otherwise they are shown again.
    pub hides: bool,
}

/// The matrices that can be shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LaboratoryMatrix {
    /// The weights of the present state.
    #[default]
    Weights,
    /// The scores of the present state, which are the input of softmax.
    Scores,
    /// The weights of the state that was pinned.
    Pinned,
    /// Present weights − pinned weights.
    Difference,
}

/// A request to the [`Engine`](super::Engine).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaboratoryRequest {
    /// The present state.
    pub inputs: LaboratoryInputs,
    /// The state to compare with.
    pub pinned: Option<Box<LaboratoryInputs>>,
    /// The matrix to show.
    pub shown: LaboratoryMatrix,
}

/// The brush that paints while dragging.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brush {
    /// The number of rows and columns that it covers.
    pub side: usize,
    /// Whether it hides cells. Otherwise it shows them again.
    pub hides: bool,
}

/// The choices of the user in the laboratory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaboratoryState {
    /// The inputs of the computation.
    pub inputs: LaboratoryInputs,
    /// The state to compare with: A.
    pub pinned: Option<Box<LaboratoryInputs>>,
    /// The matrix that is shown.
    pub shown: LaboratoryMatrix,
    /// The brush, if dragging paints.
    pub brush: Option<Brush>,
    /// The cell that was clicked.
    pub chosen: Option<Cell>,
    /// The visible part of the matrix.
    pub view: Viewport,
}

impl Default for LaboratoryInputs {
    fn default() -> Self {
        Self {
            source: TokenSource::Seed,
            tokens: 64,
            dim: 64,
            seed: 0,
            alike: 0.6,
            smooth: 0.8,
            sink: 0.0,
            temperature: Temperature::ONE,
            scaled: true,
            causal: true,
            window: None,
            keys: None,
            alibi: None,
            softcap: None,
            painted: Vec::new(),
            hide_first: false,
        }
    }
}

impl LaboratoryInputs {
    /// The inputs that determine queries and keys, with all their dimensions. The others have their default values.
    pub fn of_tokens(&self) -> Self {
        let Self { tokens, seed, alike, smooth, .. } = *self;
        Self { source: self.source.clone(), tokens, seed, alike, smooth, ..Self::default() }
    }

    /// The inputs that determine the scores. The others have their default values.
    pub fn of_scores(&self) -> Self {
        Self { temperature: Temperature::ONE, hide_first: false, ..self.clone() }
    }

    /// Limits every number. A session file may hold anything.
    pub fn limit(&mut self) {
        let normal = Self::default();
        self.tokens = self.tokens.clamp(2, MOST_TOKENS);
        self.dim = self.dim.clamp(1, MOST_DIM);
        let limited = |x: f32, normal: f32, most: f32| {
            if x.is_finite() { x.clamp(0.0, most) } else { normal }
        };
        self.alike = limited(self.alike, normal.alike, 1.0);
        self.smooth = limited(self.smooth, normal.smooth, MOST_SMOOTH);
        self.sink = limited(self.sink, normal.sink, MOST_SINK);
        self.alibi = self.alibi.map(|slope| limited(slope, 0.1, 1.0));
        self.softcap = self.softcap.map(|cap| limited(cap, 1.0, 50.0).max(LEAST_CAP));
        self.keys = self.keys.map(|keys| keys.min(self.tokens));
        self.painted.truncate(MOST_PAINTED);
    }

    /// The inputs with as much of a file as can be shown.
    pub fn of_file(&self, path: &Path) -> Self {
        let source = TokenSource::File { path: path.to_owned(), head: 0 };
        Self { source, tokens: MOST_TOKENS, dim: MOST_DIM, ..self.clone() }
    }

    /// Limits the head and the sizes to those of the file. The file may have changed.
    pub fn limit_to(&mut self, file: &TokenFile) {
        if let TokenSource::File { head, .. } = &mut self.source {
            *head = (*head).min(file.heads - 1);
        }
        self.tokens = self.tokens.min(file.tokens);
        self.dim = self.dim.min(file.dim);
        self.keys = self.keys.map(|keys| keys.min(self.tokens));
    }

    /// Paints a square, unless it is the one that was painted last.
    pub fn paint(&mut self, square: Square) {
        if self.painted.last() != Some(&square) && !self.is_all_painted() {
            self.painted.push(square);
        }
    }

    /// Whether the limit of painted squares is reached. The limit keeps sessions small.
    pub fn is_all_painted(&self) -> bool {
        self.painted.len() >= MOST_PAINTED
    }
}

/// The largest similarity of neighbours. Below 1, tokens differ.
pub const MOST_SMOOTH: f32 = 0.99;
/// The largest strength of the sink, which takes nearly all weight.
pub const MOST_SINK: f32 = 16.0;
/// The smallest soft cap. At 0, scores would be NaN.
pub const LEAST_CAP: f32 = 0.1;

impl LaboratoryState {
    /// Takes the choices of another state. Zoom, pins, the cursor and the brush stay.
    pub fn take(&mut self, choices: &Self) {
        let (chosen, view, brush) = (self.chosen, core::mem::take(&mut self.view), self.brush);
        *self = Self { brush, chosen, view, ..choices.clone() };
    }

    /// Limits every number. A session file may hold anything.
    pub fn limit(&mut self) {
        self.inputs.limit();
        if let Some(pinned) = &mut self.pinned {
            pinned.limit();
        }
        self.brush =
            self.brush.map(|brush| Brush { side: brush.side.clamp(1, MOST_TOKENS), ..brush });
    }

    /// The request that the state makes.
    pub fn request(&self) -> LaboratoryRequest {
        LaboratoryRequest {
            inputs: self.inputs.clone(),
            pinned: self.pinned.clone(),
            shown: self.shown,
        }
    }

    /// Pins the present inputs as A.
    pub fn pin(&mut self) {
        self.pinned = Some(Box::new(self.inputs.clone()));
    }

    /// Forgets A.
    pub fn unpin(&mut self) {
        self.pinned = None;
        if matches!(self.shown, LaboratoryMatrix::Pinned | LaboratoryMatrix::Difference) {
            self.shown = LaboratoryMatrix::Weights;
        }
    }
}
