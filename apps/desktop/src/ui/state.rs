//! What the user chose. Everything else follows from it.

use regard_walkthrough::{Example, Settings};

use super::heatmap::Cell;

/// What the user chose.
#[derive(Clone, Debug)]
pub struct State {
    /// The worked example.
    pub example: Example,
    /// Temperature, mask, and what is left out.
    pub settings: Settings,
    /// The cell under the pointer.
    pub hovered: Option<At>,
    /// The cell clicked on, which stays when the pointer leaves.
    pub chosen: Option<At>,
}

/// A cell of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At {
    /// The key of the step.
    pub step: String,
    /// (row, column).
    pub cell: Cell,
}

impl State {
    /// An example as it is given.
    pub fn new(example: Example) -> Self {
        Self { example, settings: Settings::default(), hovered: None, chosen: None }
    }

    /// Goes to another example. The settings stay, to be compared.
    pub fn open(&mut self, example: Example) {
        *self = Self { settings: self.settings, ..Self::new(example) };
    }

    /// The cell that is explained: the one under the pointer, else the chosen one.
    pub fn pointed(&self) -> Option<&At> {
        self.hovered.as_ref().or(self.chosen.as_ref())
    }
}
