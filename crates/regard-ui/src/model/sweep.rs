//! Each head is ablated in turn: the effect on the likeliest next token.

use std::sync::Arc;

use regard_figure::{LabelledMatrix, Signs};
use regard_models::{Ablation, Change, HeadAddress, Logits, Which};
use serde::{Deserialize, Serialize};

use super::Loaded;
use super::Next;
use super::Unchanged;
use super::chart::Chart;
use crate::colors::Look;
use crate::work::{Advance, Background, Question, Steps};

const TERMS: [&str; 3] = ["layer", "head", "change of the logit"];

#[derive(Serialize, Deserialize)]
pub(crate) struct SweepEffects {
    /// The effects of the heads that have been ablated so far.
    pub(super) numbers: Vec<f32>,
    /// All heads of the model.
    heads: Vec<HeadAddress>,
}

/// The matrix of all effects, to export it.
pub(super) fn matrix(effects: &SweepEffects, next: &[Next], look: Look) -> Option<LabelledMatrix> {
    let SweepEffects { numbers, heads } = effects;
    if numbers.len() < heads.len() {
        return None;
    }
    let count = heads.iter().map(|head| head.head + 1).max().unwrap_or_default();
    let rows = || heads.iter().filter(|head| head.head == 0);
    let number = |head| heads.iter().position(|of| *of == head).map(|i| numbers[i]);
    // An encoder and a decoder may have different numbers of heads.
    let cell =
        |row: &HeadAddress, head| number(HeadAddress { head, ..*row }).unwrap_or(f32::NEG_INFINITY);
    let cells = rows().flat_map(|row| (0..count).map(move |head| (row, head)));
    let cells = cells.map(|(row, head)| cell(row, head)).collect();
    // The labels match the names of heads: "1.0" is in the row "1.x" and in the column "x.0".
    let layers = rows().map(|row| format!("{}x", row.to_string().trim_end_matches('0')));
    let cols = (0..count).map(|i| format!("x.{i}"));
    let map = Chart::new(Signs::Both, cells, [layers.collect(), cols.collect()]);
    let title = format!("Logit of “{}” without each head", next.first()?.token);
    Some(map.matrix(title, TERMS, look))
}

/// Asks for the effect of each head of a model on a run.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sweep {
    pub(crate) model: u64,
    pub(crate) run: u64,
}

impl Question for Sweep {
    type Answer = SweepEffects;
    const NAME: &'static str = "sweep";

    /// A step is a layer, so that a text that has changed by then does not wait for the whole sweep.
    fn begin(self, background: Arc<Background>) -> impl Steps<SweepEffects> {
        let mut effects = Vec::new();
        move |tell| {
            let opened = background.held::<Loaded>(self.model)?;
            let unchanged = background.part::<Unchanged>(self.run)?;
            let model = &opened.model;
            let (description, stack) = (model.description(), &model.description().stack);
            let predicts = stack.causal || description.classifies();
            let top = unchanged.top().filter(|_| predicts);
            let top =
                top.ok_or("A sweep needs a model that predicts the next token, or a class.")?;
            let baseline = unchanged.baseline()?;
            let whole = baseline.logits().and_then(|logits| logits.last().get(top).copied());
            let whole = whole.ok_or("The model has no logits.")?;
            let heads = description.heads();
            let of_layer = |head: &HeadAddress| (head.attention, head.layer);
            let first = heads.get(effects.len()).map(of_layer);
            let layer = heads.iter().skip(effects.len());
            let layer = layer.take_while(|head| Some(of_layer(head)) == first);
            let changes: Vec<Change> =
                layer.map(|head| Change::Ablate { head: *head, to: Ablation::Zero }).collect();
            let logits = model.sweep(baseline, &changes, Logits::Last, &mut |_| Ok(()));
            let logits = logits.map_err(|e| e.to_string())?;
            effects.extend(
                logits
                    .iter()
                    .map(|logits| logits.last().get(top).copied().unwrap_or(f32::NAN) - whole),
            );
            let _ = tell(effects.len() as f32 / heads.len() as f32);
            let is_done = effects.len() == heads.len();
            let found = SweepEffects { numbers: effects.clone(), heads };
            Ok(if is_done { Advance::Done(found) } else { Advance::Shown(found) })
        }
    }
}

impl SweepEffects {
    /// The effects of the heads of one kind of attention.
    pub(super) fn of(&self, which: Which) -> &[f32] {
        let mut heads = self.heads.iter();
        let Some(start) = heads.position(|head| head.attention == which) else { return &[] };
        let end = start + 1 + heads.take_while(|head| head.attention == which).count();
        let known = self.numbers.len();
        &self.numbers[start.min(known)..end.min(known)]
    }
}
