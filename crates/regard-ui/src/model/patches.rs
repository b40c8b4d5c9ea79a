//! The effect on the prediction of patching each place of the second text's run into the first.

use std::sync::Arc;

use egui::{RichText, Ui};
use regard_figure::{LabelledMatrix, Signs};
use regard_models::{Change, Each, Logits, StackName, StreamPlace, Values};
use serde::{Deserialize, Serialize};

use super::Loaded;
use super::ModelState;
use super::chart::Chart;
use super::{Outcome, Unchanged};
use crate::colors::Look;
use crate::explain::{explanation, title};
use crate::style::lone;
use crate::work::{Advance, Background, Latest, Question, Steps};

#[derive(Serialize, Deserialize)]
pub(crate) struct PatchEffects {
    /// \[layers, positions\]
    pub(crate) map: Chart,
    /// "Logit of “Mia” minus that of “Rosa”".
    measure: String,
}

const TERMS: [&str; 3] = ["layer", "token", "change of the logit"];

/// Shows the picture. A click on a cell makes its patch.
pub(super) fn show(
    ui: &mut Ui,
    effects: &mut Latest<PatchEach, PatchEffects>,
    state: &mut ModelState,
    outcome: &Outcome,
    look: Look,
) {
    let name = effects.value().map_or_else(|| "Each place patched".to_owned(), PatchEffects::title);
    title(ui, &name, explanation!("Each place patched"));
    let Some(second) = outcome.second_text() else {
        let text = "The patches come from a second text, which model A reads: switch on “Second text”, and change a word of it.";
        ui.weak(text);
        return;
    };
    if second.run.input.ids == outcome.unchanged.input.ids {
        ui.weak("Both sentences are the same: change a word of the second one, above.");
        return;
    }
    let alone = "Each cell is the first text with this patch alone: hidden words and other changes are not made.";
    ui.label(RichText::new(alone).small().weak());
    if let Some(effects) = effects.value_mut() {
        let clicked = effects.map.fill(ui, look, "the effect of each patch", TERMS, 80.0);
        if let Some((layer, position)) = clicked {
            let place = StackName::Only.place(layer, StreamPlace::Pre);
            let from = second.run.input.clone();
            state.toggle(&Change::Patch { place, position, from });
        }
    }
    effects.show(ui, "Patching places");
}

impl PatchEffects {
    pub(super) fn matrix(&self, look: Look) -> LabelledMatrix {
        self.map.matrix(self.title(), TERMS, look)
    }

    fn title(&self) -> String {
        format!("{} (scores before softmax), each place patched", self.measure)
    }
}

/// Asks for the effect of each place of the second run on the first.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PatchEach {
    pub(crate) model: u64,
    pub(crate) runs: [u64; 2],
}

impl Question for PatchEach {
    type Answer = PatchEffects;
    const NAME: &'static str = "patches";

    /// A step is a layer, so that a text that has changed by then does not wait for all of them.
    fn begin(self, background: Arc<Background>) -> impl Steps<PatchEffects> {
        let mut numbers = Vec::new();
        move |tell| {
            let opened = background.held::<Loaded>(self.model)?;
            let first = background.part::<Unchanged>(self.runs[0])?;
            let second = background.part::<Unchanged>(self.runs[1])?;
            let model = &opened.model;
            let stack = &model.description().stack;
            let positions = first.tokens.len();
            if positions != second.tokens.len() {
                let others = second.tokens.len();
                return Err(format!(
                    "Patches need two texts with equally many tokens: the first has {positions}, and the second {others}."
                ));
            }
            let top = |run: &Unchanged| run.top().filter(|_| stack.causal);
            let needs = "Patches need a model that predicts the next token.";
            let (plus, minus) = (top(&first).ok_or(needs)?, top(&second).ok_or(needs)?);
            let measure = |logits: &Values| {
                let logit = |id: usize| logits.last().get(id).copied().unwrap_or(f32::NAN);
                if plus == minus { logit(plus) } else { logit(plus) - logit(minus) }
            };
            let baseline = first.baseline()?;
            let whole = baseline.logits().map(measure).ok_or("The model has no logits.")?;
            let patches = model.changes(&Each::PatchedPlace(second.input.clone()));
            let patches = patches.map_err(|e| e.to_string())?;
            let of_layer = patches.iter().skip(numbers.len()).take(positions.max(1));
            let layer: Vec<Change> = of_layer.map(|(_, patch)| patch.clone()).collect();
            let logits = model.sweep(baseline, &layer, Logits::Last, &mut |_| Ok(()));
            let logits = logits.map_err(|e| e.to_string())?;
            numbers.extend(logits.iter().map(|logits| measure(logits) - whole));
            let _ = tell(numbers.len() as f32 / patches.len() as f32);
            if numbers.len() < patches.len() {
                return Ok(Advance::More);
            }
            let name = |id: usize| {
                let id = u32::try_from(id).unwrap_or(u32::MAX);
                let text = model.tokenizer().and_then(|tokenizer| tokenizer.decode(&[id]).ok());
                text.map_or_else(|| id.to_string(), |text| text.trim().to_owned())
            };
            let measure = if plus == minus {
                format!("Logit of “{}”", name(plus))
            } else {
                format!("Logit of “{}” minus that of “{}”", name(plus), name(minus))
            };
            let tokens = first.tokens.iter().zip(&second.tokens).map(|(first, second)| {
                if first.raw == second.raw {
                    first.text.clone()
                } else {
                    format!("{} ← {}", lone(&first.text), lone(&second.text))
                }
            });
            let labels =
                [(0..stack.layers()).map(|i| format!("layer {i}")).collect(), tokens.collect()];
            let map = Chart::new(Signs::Both, core::mem::take(&mut numbers), labels);
            Ok(Advance::Done(PatchEffects { map, measure }))
        }
    }
}
