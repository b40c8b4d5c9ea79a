//! The choices of the user in this room.

use std::collections::BTreeSet;
use std::path::PathBuf;

use regard_bundled::{DIGITS, ENGLISH};
use regard_heads::HeadId;
use regard_models::{
    Ablation, Change, Description, HeadAddress, Input, StackName, StreamPlace, Which,
};
use serde::{Deserialize, Serialize};

use super::{Drawing, Record};
use crate::heads::{self, AttentionSource, Shown};

/// The number of the image that `digits` begins with, a 3.
const FIRST: usize = 9;

/// The head of `english` that carries most of the indirect object, which is also an induction head: see its card.
const HEAD: HeadId = HeadId { layer: 5, head: 3 };

/// The sentences to begin with. In each, that head looks from the last word back at the one that comes next.
const SENTENCES: [&str; 4] = [
    "When Mary and John went to the store, John gave a drink to",
    "Tom put the key in the box and the coin in the bag. Later Anna found the coin in the",
    "Mia saw the yellow bag. Mia found the yellow",
    "Attention is all you",
];

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
    /// Run B: the second text, read by model B if there is one.
    Second,
    /// Run A, with the changes, minus run B.
    FirstMinusSecond,
    /// The weights with the changes, each times the norm of its value.
    ValueWeighted,
    /// A, B and A − B at once. B is the second text or model, or else the run without the changes.
    SideBySide,
}

impl Version {
    /// Whether it needs run B.
    pub fn is_of_second(self) -> bool {
        matches!(self, Self::Second | Self::FirstMinusSecond | Self::SideBySide)
    }
}

/// The view in the middle of the room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum View {
    /// The attention of each head.
    #[default]
    Attention,
    /// The model's prediction after each layer.
    Lens,
    /// The contribution of each part of the model to a logit.
    Attribution,
    /// The effect of patching each place of the second text's run into that of the first.
    Patches,
    /// The experts that each token takes, in a model that has them.
    Experts,
}

/// A text as the model wrote it. Other tokens may read the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The whole text.
    pub text: String,
    /// Its tokens.
    pub ids: Vec<u32>,
}

/// The part of the second text's run that a patch puts into that of the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PatchedPart {
    /// The residual stream that enters a layer.
    StreamIn,
    /// The residual stream that leaves a layer.
    #[default]
    StreamOut,
    /// The output of the attention of a layer.
    Attention,
    /// The output of the feed-forward layer.
    FeedForward,
    /// The output of one head.
    Head,
}

impl PatchedPart {
    /// All parts, in the order of the menu.
    pub const ALL: [Self; 5] =
        [Self::StreamOut, Self::StreamIn, Self::Attention, Self::FeedForward, Self::Head];

    /// The name in the menu, before the number of the layer.
    pub fn name(self) -> &'static str {
        match self {
            Self::StreamIn => "Stream into layer",
            Self::StreamOut => "Stream after layer",
            Self::Attention => "Attention output of layer",
            Self::FeedForward => "Feed-forward output of layer",
            Self::Head => "Output of head",
        }
    }

    /// The patch of this part of a layer, or of a head, at a position.
    pub fn patch(
        self,
        head: HeadAddress,
        position: usize,
        from: Input,
        description: &Description,
    ) -> Change {
        let place = match self {
            Self::Head => return Change::PatchHead { head, position: Some(position), from },
            Self::StreamIn => StreamPlace::Pre,
            Self::StreamOut => description.stack.layer_output(),
            Self::Attention => StreamPlace::AttentionOut,
            Self::FeedForward => StreamPlace::FeedForwardOut,
        };
        let place = StackName::Only.place(head.layer, place);
        Change::Patch { place, position, from }
    }
}

/// A change in the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    /// The change.
    pub change: Change,
    /// Whether it is applied.
    pub on: bool,
}

/// The choices of the user in this room.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelState {
    /// The model: a bundled one, a folder, a GGUF file, or a name in the cache.
    pub model: String,
    /// The attention that is shown instead of that of the model.
    pub file: Option<AttentionSource>,
    /// The text that the model reads.
    pub text: String,
    /// The positions of the words that no other word sees, in any head.
    pub hidden: BTreeSet<usize>,
    /// The temperature of all heads that have none of their own.
    pub sharpness: f32,
    /// Whether the temperature was dragged, a word hidden, and a sentence typed. Undo leaves this alone.
    pub tried: [bool; 3],
    /// The changes, in the order in which they were made.
    pub changes: Vec<Listed>,
    /// The run whose weights are shown.
    pub version: Version,
    /// The text as the model wrote it. It counts while `text` is the same.
    pub written: Option<Written>,
    /// The second text, which run B reads. `None`: the first one.
    pub second: Option<String>,
    /// The model of run B. `None`: the same.
    pub second_model: Option<String>,
    /// The text that the decoder of a model with an encoder and a decoder has written.
    pub decoder: String,
    /// The decoder's text as the model wrote it. It counts while `decoder` is the same.
    pub written_decoder: Option<Written>,
    /// The file of the image, or of the recording, that the model reads.
    pub image: Option<PathBuf>,
    /// The image that is drawn for it, if there is no other.
    pub drawing: Option<Drawing>,
    /// The second image that is drawn, which run B reads. `None`: the first one.
    pub second_drawing: Option<Drawing>,
    /// The kind of attention that is shown.
    pub attention: Which,
    /// The view in the middle of the room.
    pub view: View,
    /// The layer whose experts are shown.
    pub mixture: usize,
    /// The tokens whose logits are attributed: the first, or the first minus the second. `None`: the likeliest, or no second.
    pub attributed: [Option<u32>; 2],
    /// The part that a patch takes from the second run.
    pub part: PatchedPart,
    /// The display of the heads.
    pub heads: heads::HeadsState,
    /// The hashes of the latest run, against which a replay is checked.
    pub record: Option<Record>,
    /// Whether dragging over a head's heatmap hides cells, or shows them again. `None`: it moves the visible part.
    pub brush: Option<bool>,
}

impl Default for ModelState {
    fn default() -> Self {
        Self::of(ENGLISH)
    }
}

impl ModelState {
    /// The state for a model that has just been opened.
    pub fn of(model: impl Into<String>) -> Self {
        let model = model.into();
        let drawing = if model == DIGITS { Drawing::of_digit(FIRST) } else { None };
        let mut heads = heads::HeadsState::default();
        if model == DIGITS {
            // The room begins with the weights of one head over the image.
            heads.shown = Shown::Head;
        } else if model == ENGLISH {
            heads.show(HEAD);
        }
        Self {
            text: regard_bundled::text(&model).to_owned(),
            model,
            drawing,
            second_drawing: None,
            file: None,
            hidden: BTreeSet::new(),
            sharpness: 1.0,
            tried: [false; 3],
            changes: Vec::new(),
            version: Version::default(),
            written: None,
            second: None,
            second_model: None,
            decoder: String::new(),
            written_decoder: None,
            image: None,
            attention: Which::Only,
            view: View::default(),
            mixture: 0,
            attributed: [None; 2],
            part: PatchedPart::default(),
            heads,
            record: None,
            brush: None,
        }
    }

    /// The state for a file of attention.
    pub fn of_file(source: AttentionSource) -> Self {
        let mut state = Self::default();
        state.show_file(source);
        state
    }

    /// Shows a file of attention. The choices about the drawing of heads stay.
    pub fn show_file(&mut self, source: AttentionSource) {
        let heads::HeadsState { order, hide_first, .. } = self.heads;
        self.heads = heads::HeadsState { order, hide_first, ..heads::HeadsState::default() };
        (self.file, self.view, self.brush) = (Some(source), View::Attention, None);
        (self.attention, self.version) = (Which::Only, Version::Changed);
    }

    /// Takes a text that was typed. Words stay hidden while it only grows or shrinks at its end. A second text that was
    /// [filled in](Self::to_patch_from) follows.
    pub fn read(&mut self, text: String) {
        if !text.starts_with(&self.text) && !self.text.starts_with(&text) {
            self.hidden.clear();
        }
        let follows = self.second.as_ref().is_some_and(|second| {
            let is_copy = *second == self.text;
            (!is_copy || self.view == View::Patches) && *second == self.to_patch_from()
        });
        self.text = text;
        if follows {
            self.second = Some(self.to_patch_from());
        }
    }

    /// The second text that is filled in for patches: the text with one of its names in place of another, or the text itself.
    pub fn to_patch_from(&self) -> String {
        self.swapped().unwrap_or_else(|| self.text.clone())
    }

    /// The sentence of the list that follows the text, or the first.
    pub fn following(&self) -> &'static str {
        let place = SENTENCES.iter().position(|sentence| *sentence == self.text);
        SENTENCES[place.map_or(0, |place| (place + 1) % SENTENCES.len())]
    }

    /// The text with one of its names in place of another, to patch between the two: the last name of the text becomes another of
    /// its names. `None`: it has no two names.
    fn swapped(&self) -> Option<String> {
        /// Words with which a sentence begins, and which are no names.
        const BEGIN: [&str; 12] =
            ["After", "At", "But", "He", "In", "It", "Later", "She", "The", "Then", "They", "When"];
        let (mut names, mut first): (Vec<(usize, &str)>, Vec<&str>) = Default::default();
        let (mut at, mut begins) = (0, true);
        for word in self.text.split_inclusive(char::is_whitespace) {
            let name = word.trim_matches(|c: char| !c.is_alphanumeric());
            let is_name = name.len() > 1 && name.starts_with(char::is_uppercase);
            // The first word of a sentence is a name if it is one elsewhere.
            if is_name && (!begins || self.text.matches(name).count() > 1) {
                names.push((at + word.find(name)?, name));
            } else if is_name && !BEGIN.contains(&name) {
                first.push(name);
            }
            begins = word.trim_end().ends_with(['.', '!', '?']);
            at += word.len();
        }
        let (at, last) = *names.last()?;
        let mut others = names.iter().map(|(_, name)| *name).chain(first);
        let other = others.find(|name| *name != last)?;
        let mut text = self.text.clone();
        text.replace_range(at..at + last.len(), other);
        Some(text)
    }

    /// Takes the choices of another state. Zoom, pins, the cursor and the brush stay.
    pub fn take(&mut self, choices: &Self) {
        let mut heads = core::mem::take(&mut self.heads);
        heads.take(&choices.heads);
        let (record, brush, tried) = (self.record.take(), self.brush, self.tried);
        *self = Self { tried, heads, record, brush, ..choices.clone() };
    }

    /// Compares with another model.
    pub fn compare_with(&mut self, model: String) {
        self.second_model = Some(model);
        self.follow_second();
    }

    /// Removes model B.
    pub fn stop_comparing(&mut self) {
        self.second_model = None;
        self.follow_second();
    }

    /// Adapts the shown runs after run B has appeared or disappeared.
    pub fn follow_second(&mut self) {
        let is_there =
            self.second.is_some() || self.second_drawing.is_some() || self.second_model.is_some();
        if is_there {
            self.version = Version::SideBySide;
        } else if self.version.is_of_second() {
            self.version = Version::Changed;
        }
    }

    /// The tokens of the text, if the model wrote it.
    pub fn ids(&self) -> Option<&[u32]> {
        self.written.as_ref().filter(|written| written.text == self.text).map(|w| &w.ids[..])
    }

    /// The tokens of the decoder's text, if the model wrote it.
    pub fn decoder_ids(&self) -> Option<&[u32]> {
        let written = self.written_decoder.as_ref();
        written.filter(|written| written.text == self.decoder).map(|w| &w.ids[..])
    }

    /// The address of a head of the attention that is shown.
    pub fn address(&self, id: HeadId) -> HeadAddress {
        HeadAddress { attention: self.attention, layer: id.layer, head: id.head }
    }

    /// The changed heads of the attention that is shown.
    pub fn changed_heads(&self) -> Vec<HeadId> {
        let heads = self.changes.iter().filter(|c| c.on).filter_map(|c| head_of(&c.change));
        let shown = heads.filter(|head| head.attention == self.attention);
        shown.map(|head| HeadId { layer: head.layer, head: head.head }).collect()
    }

    /// The changes that are on.
    pub fn active(&self) -> Vec<Change> {
        self.changes.iter().filter(|c| c.on).map(|c| c.change.clone()).collect()
    }

    /// The temperature of a head: 1 unless a change gives it another.
    pub fn temperature(&self, head: HeadAddress) -> f32 {
        let own = |c: &Listed| match c.change {
            Change::Temperature { head: of, temperature } if of == head => Some(temperature),
            _ => None,
        };
        self.changes.iter().filter(|c| c.on).find_map(own).unwrap_or(1.0)
    }

    /// Sets a head's output, or leaves it as the model computes it.
    pub fn ablate(&mut self, head: HeadAddress, to: Option<Ablation>) {
        self.set_output(head, to.map(|to| Change::Ablate { head, to }));
    }

    /// Changes a head's output at all positions, or leaves it as the model computes it.
    pub fn set_output(&mut self, head: HeadAddress, change: Option<Change>) {
        self.replace(|change| is_output(change, head), change);
    }

    /// The change of a head's output at all positions, if there is one.
    pub fn output(&self, head: HeadAddress) -> Option<&Change> {
        let mut changes = self.changes.iter().filter(|c| c.on).map(|c| &c.change);
        changes.find(|change| is_output(change, head))
    }

    /// Gives a head its own temperature. 1 removes it.
    pub fn set_temperature(&mut self, head: HeadAddress, temperature: f32) {
        let is_it =
            |change: &Change| matches!(change, Change::Temperature { head: of, .. } if *of == head);
        let change = Change::Temperature { head, temperature };
        self.replace(is_it, (temperature != 1.0).then_some(change));
    }

    /// Makes a change, or removes it.
    pub fn toggle(&mut self, change: &Change) {
        let now = self.changes.iter().any(|c| c.on && c.change == *change);
        let new = (!now).then(|| change.clone());
        self.replace(|other| other == change, new);
    }

    /// Cuts an edge, or restores it.
    pub fn cut(&mut self, cut: &Change, hides: bool) {
        let now = self.changes.iter().any(|c| c.on && c.change == *cut);
        if now != hides {
            self.toggle(cut);
        }
    }

    /// Replaces the change that matches, or appends a new one.
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

/// Whether a change sets a head's output at all positions.
fn is_output(change: &Change, head: HeadAddress) -> bool {
    match change {
        Change::Ablate { head: of, .. } | Change::PatchHead { head: of, position: None, .. } => {
            *of == head
        }
        _ => false,
    }
}

/// The head that a change affects.
fn head_of(change: &Change) -> Option<HeadAddress> {
    match change {
        Change::Ablate { head, .. }
        | Change::Temperature { head, .. }
        | Change::Cut { head, .. }
        | Change::PatchHead { head, .. } => Some(*head),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_of_the_text_is_swapped() {
        let swapped = |text: &str| {
            let state = ModelState { text: text.to_owned(), ..ModelState::default() };
            state.swapped()
        };
        let some = |text: &str| Some(text.to_owned());
        let two = some("When Mary and John went to the store, Mary gave a drink to");
        assert_eq!(swapped(SENTENCES[0]), two);
        assert_eq!(swapped("Tom met Mia. Tom said"), some("Tom met Mia. Mia said"));
        let first = "Priya met Kofi at the zoo. Kofi gave the map to";
        assert_eq!(swapped(first), some("Priya met Kofi at the zoo. Priya gave the map to"));
        assert_eq!(swapped("The cat saw Tom. Tom saw the"), None);
        assert_eq!((swapped("Attention is all you"), swapped("")), (None, None));
    }

    #[test]
    fn the_text_to_patch_from_follows_what_is_typed_and_a_users_own_does_not() {
        let mut state =
            ModelState { text: "Tom met Mia. Tom said".to_owned(), ..ModelState::default() };
        state.second = Some(state.to_patch_from());
        state.read("Tom met Ann. Tom said".to_owned());
        assert_eq!(state.second.as_deref(), Some("Tom met Ann. Ann said"));
        state.second = Some("Tom met Max. Max said".to_owned());
        state.read("Attention is all you".to_owned());
        assert_eq!(state.second.as_deref(), Some("Tom met Max. Max said"));
        state.second = Some(state.text.clone());
        state.read("Attention is all we".to_owned());
        assert_eq!(state.second.as_deref(), Some("Attention is all you"), "a copy to compare with");
        (state.view, state.second) = (View::Patches, Some(state.text.clone()));
        state.read("Attention is all I".to_owned());
        assert_eq!(state.second.as_deref(), Some("Attention is all I"));
    }

    #[test]
    fn a_head_has_one_output_and_one_temperature() {
        let mut state = ModelState::default();
        let head = state.address(HeadId { layer: 1, head: 2 });
        state.ablate(head, Some(Ablation::Zero));
        state.set_temperature(head, 0.5);
        state.ablate(head, Some(Ablation::Mean));
        state.set_temperature(head, 2.0);
        assert_eq!(state.changes.len(), 2);
        let mean = Change::Ablate { head, to: Ablation::Mean };
        assert_eq!((state.output(head), state.temperature(head)), (Some(&mean), 2.0));
        state.changes[0].on = false;
        assert_eq!((state.output(head), state.active().len()), (None, 1));
        state.set_temperature(head, 1.0);
        state.ablate(head, None);
        assert!(state.changes.is_empty());
    }
}
