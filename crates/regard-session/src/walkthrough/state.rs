//! The choices of the user in a walkthrough. Everything else follows from them.

use std::collections::{BTreeMap, BTreeSet};

use regard_walkthrough::{Example, Inputs, Selection, Settings, StepKey, Walkthrough};
use serde::{Deserialize, Serialize};

use crate::{Cell, Viewport};

/// The way in which an example is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadingMode {
    /// All steps on a page.
    #[default]
    Page,
    /// One step at a time. Each asks a question before it shows its numbers.
    Guided,
    /// One step at a time, as large as the window.
    Presented,
}

/// The choices of the user in a walkthrough.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WalkthroughState {
    /// The worked example, and the numbers that were typed over.
    pub inputs: Inputs,
    /// The temperature, the mask, and the step that is left out.
    pub settings: Settings,
    /// The cell under the pointer.
    #[serde(skip)]
    pub hovered: Option<At>,
    /// The clicked item. It stays when the pointer leaves.
    pub picked: Option<Picked>,
    /// The zoom and pins of each step, by its key.
    pub views: BTreeMap<StepKey, Viewport>,
    /// Whether each step says how exact it is, and which call computes it.
    pub details: bool,
    /// The steps whose matrix is hidden.
    pub folded: BTreeSet<StepKey>,
    /// The way in which the example is read.
    pub reading: ReadingMode,
    /// The row of steps that is read, unless the page shows all.
    pub at: usize,
    /// Whether the guided path shows the numbers of this row.
    pub revealed: bool,
    /// The answer to the question of this row, and whether it is right, once it is given.
    #[serde(skip)]
    pub said: (String, Option<bool>),
    /// Whether the arrow keys move in the matrix of a presented step, not from step to step.
    #[serde(skip)]
    pub entered: bool,
}

/// An item to follow through all steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Picked {
    /// A token, as a query with all keys that it attends to.
    Token(usize),
    /// A cell, to read its arithmetic.
    Cell(At),
}

/// A cell of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct At {
    /// The key of the step.
    pub step: StepKey,
    /// (row, column).
    pub cell: Cell,
}

impl Default for WalkthroughState {
    fn default() -> Self {
        Self::new(Example::ALL[0])
    }
}

impl WalkthroughState {
    /// An example without changes.
    pub fn new(example: Example) -> Self {
        Self::of(Inputs::new(example), Settings::default())
    }

    fn of(inputs: Inputs, settings: Settings) -> Self {
        Self {
            inputs,
            settings,
            hovered: None,
            picked: None,
            views: BTreeMap::new(),
            details: false,
            folded: BTreeSet::new(),
            reading: ReadingMode::Page,
            at: 0,
            revealed: false,
            said: (String::new(), None),
            entered: false,
        }
    }

    /// Reads the example in another way, from its first step.
    pub fn read(&mut self, reading: ReadingMode) {
        self.reading = reading;
        self.go_to(0, false);
    }

    /// Goes to a row of steps.
    pub fn go_to(&mut self, row: usize, revealed: bool) {
        (self.at, self.revealed) = (row, revealed);
        (self.said, self.entered) = ((String::new(), None), false);
    }

    /// Whether the numbers of the row at [`at`](Self::at) are shown.
    pub fn is_revealed(&self) -> bool {
        self.revealed || self.reading != ReadingMode::Guided
    }

    /// The example.
    pub fn example(&self) -> Example {
        self.inputs.example()
    }

    /// Goes to another example. The settings stay, so that examples can be compared.
    pub fn open(&mut self, example: Example) {
        self.begin_with(Inputs::new(example));
    }

    /// Goes to other inputs.
    pub fn begin_with(&mut self, inputs: Inputs) {
        let (reading, details) = (self.reading, self.details);
        *self = Self { details, reading, ..Self::of(inputs, self.settings) };
    }

    /// Goes `by` examples forward in the list, which wraps around.
    pub fn go_by(&mut self, by: isize) {
        let all = Example::ALL;
        let here = all.iter().position(|example| *example == self.example()).unwrap_or(0);
        self.open(all[(here as isize + by).rem_euclid(all.len() as isize) as usize]);
    }

    /// Shows the matrix of a step again. The same step of all heads is folded together.
    pub fn unfold(&mut self, step: StepKey) {
        let is_same = |key: &StepKey| {
            key.quantity == step.quantity
                && (key.section == step.section || key.head().is_some() && step.head().is_some())
        };
        self.folded.retain(|key| !is_same(key));
    }

    /// The key of the step whose cell was clicked.
    pub fn picked_step(&self) -> Option<StepKey> {
        match &self.picked {
            Some(Picked::Cell(at)) => Some(at.step),
            _ => None,
        }
    }

    /// The cell that is explained: the one under the pointer, or else the picked one.
    pub fn pointed(&self) -> Option<&At> {
        let picked = match &self.picked {
            Some(Picked::Cell(at)) => Some(at),
            _ => None,
        };
        self.hovered.as_ref().or(picked)
    }

    /// The marks in all steps: the tokens of the cell under the pointer, or else the picked token.
    pub fn selection(&self, walkthrough: &Walkthrough) -> Selection {
        match (self.pointed(), &self.picked) {
            (Some(At { step, cell: (row, col) }), _) => walkthrough.select(*step, *row, *col),
            (None, Some(Picked::Token(token))) => walkthrough.select_token(*token),
            _ => Selection::default(),
        }
    }

    /// Takes the choices of another state. Zoom, pins and folds stay.
    pub fn take(&mut self, choices: &Self) {
        if self.example() != choices.example() {
            self.begin_with(choices.inputs.clone());
        }
        self.inputs = choices.inputs.clone();
        self.settings = choices.settings;
    }
}
