//! Each head is ablated in turn, and the effect on the likeliest next token is shown.

use std::sync::Arc;

use egui::Ui;
use regard_figure::Matrix;
use regard_heads::HeadId;
use regard_models::{Ablation, Change, HeadAddress, Which};
use serde::{Deserialize, Serialize};

use super::open::{Loaded, Opened};
use super::run::Unchanged;
use super::signed::SignedMap;
use super::{Next, State};
use crate::colors::Look;
use crate::explain::title;
use crate::heads::Shown;
use crate::work::{Background, Latest, Question, Step, Steps};

/// The largest weights in bytes of a model that is swept for each text by default.
const SMALL: u64 = 32 << 20;

const EXPLANATION: &str = "\
    Each head in turn gives zeros, and the others stay as they are. A cell is the change of the logit of the likeliest next token: \
    negative where the model needs the head for this token, positive where the head speaks against it. A logit is the score before \
    softmax. The changes of the list are not made in these runs. Click a cell to see its head.";

/// The words for a row, a column and a number.
const TERMS: [&str; 3] = ["layer", "head", "change of the logit"];

fn heading(top: &Next) -> String {
    format!("Logit of “{}” without each head", top.token)
}

/// The change of a logit by each head.
#[derive(Serialize, Deserialize)]
pub(crate) struct Effects {
    pub(super) map: SignedMap,
    /// The first head of each row.
    rows: Vec<HeadAddress>,
}

/// Whether each head is ablated in turn: on request, or if the model is small.
pub(super) fn is_on(state: &State, opened: &Opened) -> bool {
    is_swept(state.sweep, opened.bytes)
}

fn is_swept(asked: Option<bool>, bytes: u64) -> bool {
    asked.unwrap_or(bytes <= SMALL)
}

/// The matrix of the picture, to export it.
pub(super) fn matrix(effects: &Effects, next: &[Next], look: Look) -> Option<Matrix> {
    Some(effects.map.matrix(heading(next.first()?), TERMS, look))
}

/// Shows the picture, and its switch.
pub(super) fn show(
    ui: &mut Ui,
    effects: &mut Latest<Sweep, Effects>,
    opened: &Opened,
    next: &[Next],
    state: &mut State,
    look: Look,
) {
    let mut is_on = is_on(state, opened);
    let hint = "Show what each head does for the likeliest prediction.";
    let switch = ui.checkbox(&mut is_on, "Ablate each head in turn");
    if switch.on_hover_text(hint).changed() {
        state.sweep = Some(is_on);
    }
    if !is_on {
        return;
    }
    let Some(top) = next.first() else { return };
    title(ui, &heading(top), EXPLANATION);
    effects.show(ui, "Ablating heads");
    if let Some(effects) = effects.value_mut() {
        effects.show(ui, state, look);
    }
}

/// Asks for the effect of each head of a model on a run.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sweep {
    pub(crate) model: u64,
    pub(crate) run: u64,
}

impl Question for Sweep {
    type Answer = Effects;
    const NAME: &'static str = "sweep";

    /// A step is a layer, so that a text that has changed by then does not wait for the whole sweep.
    fn begin(self, background: Arc<Background>) -> impl Steps<Effects> {
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
            let layer = heads.iter().skip(effects.len()).take(stack.block.heads.max(1));
            let changes: Vec<Change> =
                layer.map(|head| Change::Ablate { head: *head, to: Ablation::Zero }).collect();
            let logits = model.sweep(baseline, &changes, true, &mut |_| Ok(()));
            let logits = logits.map_err(|e| e.to_string())?;
            effects.extend(
                logits
                    .iter()
                    .map(|logits| logits.last().get(top).copied().unwrap_or(f32::NAN) - whole),
            );
            let _ = tell(effects.len() as f32 / heads.len() as f32);
            if effects.len() < heads.len() {
                return Ok(Step::More);
            }
            let rows: Vec<HeadAddress> = heads.into_iter().filter(|head| head.head == 0).collect();
            let layers =
                rows.iter().map(|row| format!("{} {}", stack_name(row.attention), row.layer));
            let cols = (0..stack.block.heads).map(|i| format!("head {i}"));
            let labels = [layers.collect(), cols.collect()];
            let map = SignedMap::new(core::mem::take(&mut effects), labels);
            Ok(Step::Done(Effects { map, rows }))
        }
    }
}

impl Effects {
    fn show(&mut self, ui: &mut Ui, state: &mut State, look: Look) {
        let shown = (state.heads.shown == Shown::Head).then(|| state.heads.id());
        let row = |id: HeadId| {
            let of = HeadAddress { head: 0, ..state.address(id) };
            self.rows.iter().position(|row| *row == of)
        };
        let pointed = shown.and_then(|id| Some((row(id)?, id.head)));
        // The arithmetic of a weight may stand below.
        let large = (0.5 * ui.clip_rect().height()).max(280.0);
        let pointing = self.map.draw(ui, look, "the effect of each head", TERMS, pointed, large);
        let chosen = pointing.chosen.and_then(|(row, head)| Some((self.rows.get(row)?, head)));
        if let Some((row, head)) = chosen {
            state.attention = row.attention;
            state.heads.show(HeadId { layer: row.layer, head });
        }
    }
}

/// The name of the rows of an attention's layers.
fn stack_name(which: Which) -> &'static str {
    match which {
        Which::Only => "layer",
        Which::Encoder => "encoder",
        Which::Decoder => "decoder",
        Which::Cross => "cross",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_model_is_swept_on_request() {
        let state: State = serde_json::from_str(r#"{"model":"a large one"}"#).unwrap();
        assert!(is_swept(state.sweep, SMALL));
        assert!(!is_swept(state.sweep, SMALL + 1));
        assert!(is_swept(Some(true), SMALL + 1));
        assert!(!is_swept(Some(false), 1));
    }
}
