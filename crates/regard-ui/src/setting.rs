//! The choices of the rooms that the command palette finds by their names and by other words for them.

use regard::Temperature;
use regard_heads::Measure;
use regard_walkthrough::Without;

use super::heads::{Effect, Order, Shown};
use super::laboratory::{self, Brush};
use super::model::{Version, View};
use super::{Room, Session};

/// A choice of a room.
pub(crate) struct Setting {
    pub(crate) room: Room,
    pub(crate) name: &'static str,
    /// Other words by which it is found.
    pub(crate) words: &'static str,
    /// Makes the choice. A switch changes its state.
    pub(crate) choose: fn(&mut Session),
}

const fn model(name: &'static str, words: &'static str, choose: fn(&mut Session)) -> Setting {
    Setting { room: Room::Stage, name, words, choose }
}

const fn laboratory(name: &'static str, words: &'static str, choose: fn(&mut Session)) -> Setting {
    Setting { room: Room::Laboratory, name, words, choose }
}

const fn walkthrough(name: &'static str, words: &'static str, choose: fn(&mut Session)) -> Setting {
    Setting { room: Room::Walkthrough, name, words, choose }
}

fn heads(session: &mut Session, shown: Shown) {
    (session.model.view, session.model.heads.shown) = (View::Attention, shown);
}

fn sort(session: &mut Session, order: Option<Order>) {
    heads(session, Shown::Grid);
    session.model.heads.order = order;
}

fn by(session: &mut Session, measure: Measure) {
    sort(session, Some(Order::Measure(measure)));
}

fn tint(session: &mut Session, effect: Option<Effect>) {
    heads(session, Shown::Grid);
    session.model.heads.tint = effect;
}

fn leave_out(session: &mut Session, step: Without) {
    let settings = &mut session.walkthrough.settings;
    settings.without = if settings.without == Some(step) { None } else { Some(step) };
}

fn flip<T: Clone>(choice: &mut Option<T>, on: T) {
    *choice = if choice.is_some() { None } else { Some(on) };
}

pub(crate) const SETTINGS: &[Setting] = &[
    model("Show attention", "heads weights view", |s| s.model.view = View::Attention),
    model("Show the logit lens", "predictions layers view", |s| s.model.view = View::Lens),
    model("Show attribution", "direct logit dla contributions parts view", |s| {
        s.model.view = View::Attribution;
    }),
    model("Show patches", "activation patching causal tracing second text view", |s| {
        s.model.view = View::Patches;
    }),
    model("Show experts", "mixture of experts moe router routing view", |s| {
        s.model.view = View::Experts;
    }),
    model("Show all heads", "grid overview browser small pictures", |s| heads(s, Shown::Grid)),
    model("Show one head", "change ablate zero mean temperature cut edge large", |s| {
        heads(s, Shown::Head);
    }),
    model("Show the mean of a layer", "average heads", |s| heads(s, Shown::MeanOfLayer)),
    model("Show rollout", "attention flow abnar", |s| {
        heads(s, Shown::Rollout);
        s.model.heads.layer = usize::MAX; // the last one
    }),
    model("Draw lines", "bertviz arcs edges bipartite", |s| {
        (s.model.view, s.model.heads.lines) = (View::Attention, true);
    }),
    model("Draw a heatmap", "matrix cells", |s| {
        (s.model.view, s.model.heads.lines) = (View::Attention, false);
    }),
    model("Value-weighted", "weights × ‖v‖ norm attention", |s| {
        s.model.version = Version::ValueWeighted;
    }),
    model("Sort heads by layer and head", "order", |s| sort(s, None)),
    model("Sort heads by entropy", "order spread nats relative", |s| by(s, Measure::Entropy)),
    model("Sort heads by distance", "order far tokens", |s| by(s, Measure::Distance)),
    model("Sort heads by first token", "order sink bos cls", |s| by(s, Measure::FirstToken)),
    model("Sort heads by previous token", "order", |s| by(s, Measure::PreviousToken)),
    model("Sort heads by same token", "order diagonal itself", |s| by(s, Measure::SameToken)),
    model("Sort heads by duplicate token", "order repeated", |s| by(s, Measure::DuplicateToken)),
    model("Sort heads by induction", "order copy pattern in-context", |s| {
        by(s, Measure::Induction);
    }),
    model("Sort heads by ablation effect", "order ablate knock out sweep zero importance", |s| {
        sort(s, Some(Order::Effect(Effect::Ablation)));
    }),
    model("Sort heads by attribution", "order logit contribution importance", |s| {
        sort(s, Some(Order::Effect(Effect::Attribution)));
    }),
    model("Smallest first", "sort order reverse ascending", |s| {
        s.model.heads.smallest_first = !s.model.heads.smallest_first;
    }),
    model("Overlay the ablation effect", "ablate knock out sweep tint frame", |s| {
        tint(s, Some(Effect::Ablation));
    }),
    model("Overlay the attribution", "logit tint frame", |s| tint(s, Some(Effect::Attribution))),
    model("No overlay", "tint frame", |s| tint(s, None)),
    model("Without the first token", "hide sink bos cls", |s| {
        s.model.heads.hide_first = !s.model.heads.hide_first;
    }),
    laboratory("Show weights", "softmax matrix", |s| {
        s.laboratory.shown = laboratory::LaboratoryMatrix::Weights;
    }),
    laboratory("Show scores", "logits qk dot products", |s| {
        s.laboratory.shown = laboratory::LaboratoryMatrix::Scores;
    }),
    laboratory("Causal mask in the laboratory", "triangle decoder future", |s| {
        s.laboratory.inputs.causal = !s.laboratory.inputs.causal;
    }),
    laboratory("Window mask", "sliding local longformer mistral", |s| {
        flip(&mut s.laboratory.inputs.window, [4, 4]);
    }),
    laboratory("Padding mask", "length keys", |s| {
        let half = s.laboratory.inputs.tokens.div_ceil(2);
        flip(&mut s.laboratory.inputs.keys, half);
    }),
    laboratory("ALiBi", "linear bias slope position", |s| {
        flip(&mut s.laboratory.inputs.alibi, 0.1);
    }),
    laboratory("Soft cap", "tanh gemma bound", |s| flip(&mut s.laboratory.inputs.softcap, 5.0)),
    laboratory("Paint a mask", "brush draw hide cells", |s| {
        flip(&mut s.laboratory.brush, Brush { side: 4, hides: true });
    }),
    laboratory("Hide the first token in the laboratory", "sink", |s| {
        s.laboratory.inputs.hide_first = !s.laboratory.inputs.hide_first;
    }),
    laboratory("Scale by 1/√d", "scaling root variance", |s| {
        s.laboratory.inputs.scaled = !s.laboratory.inputs.scaled;
    }),
    laboratory("Temperature to 0", "sharp argmax hard T", |s| {
        s.laboratory.inputs.temperature = Temperature::ZERO;
    }),
    laboratory("Temperature 1", "T softmax", |s| {
        s.laboratory.inputs.temperature = Temperature::ONE;
    }),
    laboratory("Temperature to ∞", "uniform infinity mean T", |s| {
        s.laboratory.inputs.temperature = Temperature::INFINITE;
    }),
    walkthrough("Causal mask", "triangle decoder future", |s| {
        s.walkthrough.settings.causal = !s.walkthrough.settings.causal;
    }),
    walkthrough("Leave out the projections", "without wq wk wv", |s| {
        leave_out(s, Without::Projections);
    }),
    walkthrough("Leave out the scaling", "without 1/√d root", |s| leave_out(s, Without::Scaling)),
    walkthrough("Leave out the softmax", "without normalisation", |s| {
        leave_out(s, Without::Softmax);
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_choice_changes_the_session_that_another_one_left() {
        for setting in SETTINGS {
            let changes = |other: &Setting| {
                let mut before = Session::default();
                (other.choose)(&mut before);
                let mut after = before.clone();
                (setting.choose)(&mut after);
                after != before
            };
            assert!(SETTINGS.iter().any(changes), "{}", setting.name);
            assert!(!setting.words.is_empty());
        }
    }
}
