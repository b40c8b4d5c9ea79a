//! The choices of the user in this room.

use regard_heads::HeadId;
use regard_models::{Ablation, Change, HeadAddress, Which};
use serde::{Deserialize, Serialize};

use super::STORY;
use crate::heads;

/// The run whose weights are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Version {
    /// The run with the changes.
    #[default]
    Changed,
    /// The run without them.
    Unchanged,
    /// Changed minus unchanged.
    Difference,
}

/// A change in the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    /// The change.
    pub change: Change,
    /// Whether it is made.
    pub on: bool,
}

/// The choices of the user in this room.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// The model: `story`, a folder, a GGUF file, or a name in the cache.
    pub model: String,
    /// The text that the model reads.
    pub text: String,
    /// The changes, in the order in which they were made.
    pub changes: Vec<Listed>,
    /// The run whose weights are shown.
    pub version: Version,
    /// Whether each head is ablated in turn.
    pub sweep: bool,
    /// Whether the logit lens is shown instead of the heads.
    pub lens: bool,
    /// How the heads are shown.
    pub heads: heads::State,
}

impl Default for State {
    fn default() -> Self {
        Self::of(STORY)
    }
}

impl State {
    /// The state of a model that has just been opened.
    pub fn of(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            text: regard_story::TEXT.to_owned(),
            changes: Vec::new(),
            version: Version::default(),
            sweep: true,
            lens: false,
            heads: heads::State::default(),
        }
    }

    /// The choices, which undo and redo change. Zoom, pins and the cursor are not among them.
    pub fn choices(&self) -> Self {
        Self { heads: self.heads.choices(), ..self.clone() }
    }

    /// Takes the choices of another state. Zoom, pins and the cursor stay.
    pub fn take(&mut self, choices: &Self) {
        let mut heads = core::mem::take(&mut self.heads);
        heads.take(&choices.heads);
        *self = Self { heads, ..choices.clone() };
    }

    /// The changes that are on.
    pub fn active(&self) -> Vec<Change> {
        self.changes.iter().filter(|c| c.on).map(|c| c.change.clone()).collect()
    }

    /// What a head's output is set to, if it is.
    pub fn ablation(&self, head: HeadAddress) -> Option<&Ablation> {
        self.changes.iter().filter(|c| c.on).find_map(|c| match &c.change {
            Change::Ablate { head: of, to } if *of == head => Some(to),
            _ => None,
        })
    }

    /// The temperature of a head.
    pub fn temperature(&self, head: HeadAddress) -> f32 {
        let own = |c: &Listed| match c.change {
            Change::Temperature { head: of, temperature } if of == head => Some(temperature),
            _ => None,
        };
        self.changes.iter().filter(|c| c.on).find_map(own).unwrap_or(1.0)
    }

    /// Sets a head's output, or leaves it as the model computes it.
    pub fn ablate(&mut self, head: HeadAddress, to: Option<Ablation>) {
        let is_it =
            |change: &Change| matches!(change, Change::Ablate { head: of, .. } if *of == head);
        self.replace(is_it, to.map(|to| Change::Ablate { head, to }));
    }

    /// Gives a head a temperature of its own. 1 takes it back.
    pub fn set_temperature(&mut self, head: HeadAddress, temperature: f32) {
        let is_it =
            |change: &Change| matches!(change, Change::Temperature { head: of, .. } if *of == head);
        let change = Change::Temperature { head, temperature };
        self.replace(is_it, (temperature != 1.0).then_some(change));
    }

    /// Cuts an edge, or restores it.
    pub fn toggle(&mut self, cut: &Change) {
        let now = self.changes.iter().any(|c| c.on && c.change == *cut);
        let change = (!now).then(|| cut.clone());
        self.replace(|change| change == cut, change);
    }

    /// Puts a change in the place of the one like it, or at the end.
    fn replace(&mut self, is_it: impl Fn(&Change) -> bool, change: Option<Change>) {
        let place = self.changes.iter().position(|c| is_it(&c.change));
        match (place, change) {
            (Some(i), Some(change)) => self.changes[i] = Listed { change, on: true },
            (Some(i), None) => drop(self.changes.remove(i)),
            (None, Some(change)) => self.changes.push(Listed { change, on: true }),
            (None, None) => {}
        }
    }
}

/// The address of a head in a model of one stack.
pub(super) fn address(id: HeadId) -> HeadAddress {
    HeadAddress { attention: Which::Only, layer: id.layer, head: id.head }
}

/// The heads that a change is about.
pub(super) fn head_of(change: &Change) -> Option<HeadId> {
    match change {
        Change::Ablate { head, .. }
        | Change::Temperature { head, .. }
        | Change::Cut { head, .. } => Some(HeadId { layer: head.layer, head: head.head }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_one_output_and_one_temperature() {
        let mut state = State::default();
        let head = address(HeadId { layer: 1, head: 2 });
        state.ablate(head, Some(Ablation::Zero));
        state.set_temperature(head, 0.5);
        state.ablate(head, Some(Ablation::Mean));
        state.set_temperature(head, 2.0);
        assert_eq!(state.changes.len(), 2);
        assert_eq!((state.ablation(head), state.temperature(head)), (Some(&Ablation::Mean), 2.0));
        state.changes[0].on = false;
        assert_eq!((state.ablation(head), state.active().len()), (None, 1));
        state.set_temperature(head, 1.0);
        state.ablate(head, None);
        assert!(state.changes.is_empty());
    }

    #[test]
    fn an_edge_is_cut_and_restored() {
        let mut state = State::default();
        let cut = Change::Cut { head: address(HeadId { layer: 0, head: 0 }), query: 3, key: 1 };
        state.toggle(&cut);
        assert_eq!(state.active(), core::slice::from_ref(&cut));
        state.toggle(&cut);
        assert!(state.changes.is_empty());
    }
}
