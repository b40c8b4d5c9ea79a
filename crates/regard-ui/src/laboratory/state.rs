//! What the user chose in the laboratory.

use std::path::{Path, PathBuf};

use regard::Temperature;
use serde::{Deserialize, Serialize};

use crate::heatmap::{Cell, View};
use regard_heads::QueriesAndKeys;

/// The most tokens.
pub const MOST_TOKENS: usize = 4096;
/// The most numbers a token.
pub const MOST_DIM: usize = 256;
/// The most squares that can be painted.
const MOST_PAINTED: usize = 4096;

/// Where queries and keys come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenSource {
    /// Random numbers.
    #[default]
    Seed,
    /// A file.
    File {
        /// Where it is.
        path: PathBuf,
        /// The head, of a file that has several.
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

/// What the numbers follow from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaboratoryInputs {
    /// Where queries and keys come from. Of a file, the seed and what makes random numbers less random have no part in it.
    pub source: TokenSource,
    /// How many tokens there are: queries, and as many keys.
    pub tokens: usize,
    /// The numbers of a query and of a key.
    pub dim: usize,
    /// Where the random numbers start.
    pub seed: u32,
    /// How much a key is like its own token's query: 0 to 1.
    pub alike: f32,
    /// How much a token is like the one before it: 0 to 1.
    pub smooth: f32,
    /// What is added to the scaled score of the first key, for every query.
    pub sink: f32,
    /// Divides the scores before softmax.
    pub temperature: Temperature,
    /// Whether scores are multiplied by 1/√d.
    pub scaled: bool,
    /// Whether a token sees itself and what comes before it, nothing after.
    pub causal: bool,
    /// How many tokens one sees to the left and to the right.
    pub window: Option<[usize; 2]>,
    /// How many keys there are; the others are padding.
    pub keys: Option<usize>,
    /// The slope of ALiBi.
    pub alibi: Option<f32>,
    /// Where scores are capped softly.
    pub softcap: Option<f32>,
    /// What was painted, in order.
    pub painted: Vec<Square>,
    /// Whether the first token's weight is taken away, and shared out among the others.
    pub hide_first: bool,
}

/// A painted square of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Square {
    /// Its first row and column.
    pub cell: Cell,
    /// Its rows, and as many columns.
    pub side: usize,
    /// Whether its cells are hidden, or shown again.
    pub hides: bool,
}

/// What is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shown {
    /// The weights of the present state.
    #[default]
    Weights,
    /// Its scores, as softmax gets them.
    Scores,
    /// The weights of the state that was pinned.
    Pinned,
    /// Present weights − pinned weights.
    Difference,
}

/// A request to the [`Engine`](super::Engine).
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The present state.
    pub inputs: LaboratoryInputs,
    /// The state to compare with.
    pub pinned: Option<Box<LaboratoryInputs>>,
    /// What is to be shown.
    pub shown: Shown,
}

/// What dragging over the cells does, instead of moving them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brush {
    /// Rows and columns that it covers.
    pub side: usize,
    /// Whether it hides cells, or shows them again.
    pub hides: bool,
}

/// What the user chose in the laboratory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// What the numbers follow from.
    pub inputs: LaboratoryInputs,
    /// The state to compare with: A.
    pub pinned: Option<Box<LaboratoryInputs>>,
    /// What is shown.
    pub shown: Shown,
    /// Whether dragging paints.
    pub brush: Option<Brush>,
    /// The cell clicked on.
    pub chosen: Option<Cell>,
    /// What of the heatmap is seen.
    pub view: View,
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
    /// What the scores follow from: all but what softmax does with them.
    pub(super) fn of_scores(&self) -> Self {
        Self { temperature: Temperature::ONE, hide_first: false, ..self.clone() }
    }

    /// Brings everything into its limits: a session file may hold anything.
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

    /// All of a file, as far as it can be shown, instead of what there was.
    pub(super) fn of_file(&self, path: &Path) -> Self {
        let source = TokenSource::File { path: path.to_owned(), head: 0 };
        Self { source, tokens: MOST_TOKENS, dim: MOST_DIM, ..self.clone() }
    }

    /// Brings head and sizes to where the file has something: it may have changed since.
    pub(super) fn limit_to(&mut self, file: &QueriesAndKeys) {
        if let TokenSource::File { head, .. } = &mut self.source {
            *head = (*head).min(file.heads() - 1);
        }
        self.tokens = self.tokens.min(file.tokens());
        self.dim = self.dim.min(file.dim());
        self.keys = self.keys.map(|keys| keys.min(self.tokens));
    }

    /// Paints a square, if it is not the one painted last.
    pub fn paint(&mut self, square: Square) {
        if self.painted.last() != Some(&square) && !self.is_all_painted() {
            self.painted.push(square);
        }
    }

    /// Whether nothing more can be painted: a session stays small.
    pub fn is_all_painted(&self) -> bool {
        self.painted.len() >= MOST_PAINTED
    }
}

/// Tokens do not become all the same.
pub const MOST_SMOOTH: f32 = 0.99;
/// A sink that takes all.
pub const MOST_SINK: f32 = 16.0;
/// A soft cap of 0 would be no number.
pub const LEAST_CAP: f32 = 0.1;

impl State {
    /// What is undone and redone: the choices, but not where one looks.
    pub fn choices(&self) -> Self {
        Self { chosen: None, view: View::default(), brush: None, ..self.clone() }
    }

    /// Takes the choices of another state, and goes on looking where one looked.
    pub fn take(&mut self, choices: &Self) {
        let (chosen, view, brush) = (self.chosen, core::mem::take(&mut self.view), self.brush);
        *self = Self { brush, chosen, view, ..choices.clone() };
    }

    /// Brings everything into its limits.
    pub fn limit(&mut self) {
        self.inputs.limit();
        if let Some(pinned) = &mut self.pinned {
            pinned.limit();
        }
        self.brush =
            self.brush.map(|brush| Brush { side: brush.side.clamp(1, MOST_TOKENS), ..brush });
    }

    /// What is to be computed.
    pub fn request(&self) -> Request {
        Request { inputs: self.inputs.clone(), pinned: self.pinned.clone(), shown: self.shown }
    }

    /// Keeps the present inputs as A.
    pub fn pin(&mut self) {
        self.pinned = Some(Box::new(self.inputs.clone()));
    }

    /// Forgets A.
    pub fn unpin(&mut self) {
        self.pinned = None;
        if matches!(self.shown, Shown::Pinned | Shown::Difference) {
            self.shown = Shown::Weights;
        }
    }
}
