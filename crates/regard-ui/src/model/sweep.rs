//! Each head ablated in turn: what that does to the likeliest next token.

use std::sync::Arc;

use egui::{Context, Label, RichText, Ui};
use regard_figure::Matrix;
use regard_heads::HeadId;
use regard_models::{Ablation, Change};

use super::latest::{Latest, Same};
use super::open::Opened;
use super::run::Unchanged;
use super::signed::SignedMap;
use super::{Next, State};
use crate::Host;
use crate::colors::Look;
use crate::explain::title;
use crate::heads::Shown;
use crate::task::Task;

/// The weights of a model whose sweep follows each text without being asked for.
pub(super) const SMALL: u64 = 32 << 20;

const EXPLANATION: &str = "\
    Each head in turn gives zeros, and the others stay as they are. A cell is the change of the logit of the likeliest next token: \
    negative where the model needs the head for this token, positive where the head speaks against it. A logit is the score before \
    softmax. The changes of the list are not made in these runs. Click a cell to see its head.";

/// A row, a column and a number.
const TERMS: [&str; 3] = ["layer", "head", "change of the logit"];

fn heading(top: &Next) -> String {
    format!("Logit of “{}” without each head", top.token)
}

/// The change of a logit by each head.
pub(super) struct Effects {
    map: SignedMap,
}

/// The picture, and the one that is being computed.
#[derive(Default)]
pub(super) struct Sweep(Latest<Same<Unchanged>, Effects>);

impl Sweep {
    /// Whether a thread is at work.
    pub fn is_busy(&self) -> bool {
        self.0.is_busy()
    }

    /// The change of the logit by each head, layer by layer, of the latest run.
    pub fn effects(&self) -> Option<&[f32]> {
        self.0.value().map(|effects| &effects.map.numbers[..])
    }

    /// The picture, to export it.
    pub fn matrix(&self, next: &[Next], look: Look) -> Option<Matrix> {
        Some(self.0.value()?.map.matrix(heading(next.first()?), TERMS, look))
    }

    /// Takes what the thread has computed, and starts what is missing.
    pub fn exchange(
        &mut self,
        host: &dyn Host,
        ctx: &Context,
        asked: Option<(&Arc<Opened>, &Arc<Unchanged>)>,
    ) {
        let Some((opened, unchanged)) = asked else { return self.0 = Latest::default() };
        self.0.exchange(Some(Same(Arc::clone(unchanged))), |run| {
            let (model, run) = (Arc::clone(opened), run.clone());
            Task::start(host, ctx, "sweep", move |promise| Effects::new(&model, &run.0, promise))
        });
    }

    /// Shows the picture.
    pub fn show(&mut self, ui: &mut Ui, next: &[Next], state: &mut State, look: Look) {
        ui.horizontal(|ui| {
            ui.checkbox(&mut state.sweep, "Ablate each head in turn")
                .on_hover_text("Show what each head does for the likeliest next token.");
        });
        if !state.sweep {
            return;
        }
        let Some(top) = next.first() else { return };
        title(ui, &heading(top), EXPLANATION);
        self.0.progress(ui, "Ablating heads");
        if let Some(message) = self.0.error() {
            ui.add(Label::new(RichText::new(message).weak()).wrap());
        }
        if let Some(effects) = self.0.value_mut() {
            effects.show(ui, state, look);
        }
    }
}

impl Effects {
    fn new(
        opened: &Opened,
        unchanged: &Unchanged,
        promise: &crate::task::Promise<Self>,
    ) -> Result<Self, String> {
        let model = &opened.model;
        let stack = &model.description().stack;
        let top = unchanged.top().filter(|_| stack.causal);
        let top = top.ok_or("A sweep needs a model that predicts the next token.")?;
        let said = |e: regard_models::Error| e.to_string();
        let baseline = &unchanged.baseline;
        let whole = baseline.logits().and_then(|logits| logits.last().get(top).copied());
        let whole = whole.ok_or("The model has no logits.")?;
        let heads = model.description().heads();
        let mut effects = Vec::with_capacity(heads.len());
        // One layer at a time, so that a text that has changed by then does not wait for the whole sweep.
        for layer in heads.chunks(stack.block.heads.max(1)) {
            let zero = |head| Change::Ablate { head, to: Ablation::Zero };
            let changes: Vec<Change> = layer.iter().map(|head| zero(*head)).collect();
            let logits = model.sweep(baseline, &changes, true, &mut |_| ()).map_err(said)?;
            effects.extend(
                logits
                    .iter()
                    .map(|logits| logits.last().get(top).copied().unwrap_or(f32::NAN) - whole),
            );
            if promise.tell(effects.len() as f32 / heads.len() as f32).is_break() {
                return Err("cancelled".to_owned());
            }
        }
        let labels = [("layer", stack.layers()), ("head", stack.block.heads)];
        let labels = labels.map(|(name, n)| (0..n).map(|i| format!("{name} {i}")).collect());
        Ok(Self { map: SignedMap::new(effects, labels) })
    }

    fn show(&mut self, ui: &mut Ui, state: &mut State, look: Look) {
        let shown = (state.heads.shown == Shown::Head).then(|| state.heads.id());
        let pointed = shown.map(|id| (id.layer, id.head));
        let pointing = self.map.draw(ui, look, "the effect of each head", TERMS, pointed, 280.0);
        if let Some((layer, head)) = pointing.chosen {
            state.heads.show(HeadId { layer, head });
        }
    }
}
