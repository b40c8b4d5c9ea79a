//! Run B beside run A: another text, another model, or both; and the choice of the run whose weights are shown.

use std::sync::Arc;

use egui::{Context, RichText, Ui};
use regard_bundled::STORY;

use super::Outcome;
use super::Reads;
use super::cached::CachedModels;
use super::note::capital;
use super::open::{self, OpenedModel};
use super::opener::progress;
use super::{ModelState, Version, center};
use crate::choice::{self, Choice};
use crate::explain::{explain, explanation};
use crate::heads::AttentionSource;
use crate::work::{Background, Held, Latest, PATIENCE};
use crate::{Command, Host, message};

/// The width of the choice of the run, so that a change moves nothing beside it.
const WIDTH: f32 = 128.0;
/// The maximum number of heads in the list of those that differ most.
const MOST: usize = 6;

/// The model of run B, if it is open or being opened.
pub(super) type ModelB = Latest<String, Held<OpenedModel>>;

impl ModelB {
    /// Opens the model that the state names.
    pub(crate) fn follow(
        &mut self,
        background: &Arc<Background>,
        ctx: &Context,
        state: &ModelState,
    ) {
        if self.key() != state.second_model.as_ref() {
            self.forget();
        }
        self.exchange(state.second_model.clone(), |name| open::start(background, ctx, name));
    }

    /// The model that the state names, if it is open.
    pub(crate) fn here(&self, state: &ModelState) -> Option<&Held<OpenedModel>> {
        self.value().filter(|opened| state.second_model.as_ref() == Some(&opened.name))
    }

    /// Shows the progress of opening, or the reason why there is no model B.
    pub(crate) fn messages(&self, ui: &mut Ui, state: &mut ModelState, outcome: Option<&Outcome>) {
        if let Some((name, once)) = self.computing().filter(|(_, once)| once.elapsed() > PATIENCE) {
            progress(ui, name, once, false);
        }
        let refusal = outcome.filter(|outcome| outcome.request.second_model.is_some());
        let refusal = refusal.and_then(Outcome::second_refusal);
        let refusal = refusal.map(|text| format!("{}.", capital(text.trim_end_matches('.'))));
        if let Some(text) = self.error().map(str::to_owned).or(refusal)
            && message::show(ui, &text, ui.visuals().error_fg_color, "Remove B")
        {
            state.stop_comparing();
        }
    }
}

pub(super) enum OpenChoice {
    /// A file, for which the command asks.
    Dialog(Command),
    /// A model by its name.
    Model(String),
    /// A file of attention, another attention of the one that is open, or the sample.
    Attention(AttentionSource),
}

/// Shows the menu of what the run is compared with: a second text or drawing, and model B.
pub(super) fn menu(
    ui: &mut Ui,
    state: &mut ModelState,
    reads: Reads,
    draws: bool,
    cached: &mut CachedModels,
    host: &Arc<dyn Host>,
) -> Option<OpenChoice> {
    let mut asked = None;
    let switched = |ui: &mut Ui, name: &str, text: &str, mut on: bool| {
        let switch = ui.checkbox(&mut on, name).on_hover_text(text);
        ui.separator();
        switch.changed().then_some(on)
    };
    let contents = |ui: &mut Ui| {
        ui.set_min_width(280.0);
        if !reads.is_file() {
            if let Some(on) =
                switched(ui, "Second text", explanation!("Second text"), state.second.is_some())
            {
                // It starts as the first text, so that one word of it can be changed.
                state.second = on.then(|| state.text.clone());
                state.follow_second();
            }
        } else if draws
            && let Some(on) = switched(
                ui,
                "Second drawing",
                explanation!("Second drawing"),
                state.second_drawing.is_some(),
            )
        {
            state.second_drawing = state.drawing.clone().filter(|_| on);
            state.follow_second();
        }
        let open = Command::OpenModelB;
        if ui.button(open.name()).on_hover_text(explanation!("Model B")).clicked() {
            asked = Some(OpenChoice::Dialog(open));
        }
        if state.model != STORY && ui.button("Open story as model B").clicked() {
            asked = Some(OpenChoice::Model(STORY.to_owned()));
        }
        if state.second_model.is_some() && ui.button("Remove model B").clicked() {
            state.stop_comparing();
        }
        ui.label("Cached models");
        if let Some(name) = cached.rows(ui) {
            asked = Some(OpenChoice::Model(name));
        }
    };
    let menu = ui.menu_button("Compare", contents).response;
    let hint =
        "Compare with a second text, with another model, or with another quantization of this one.";
    if menu.on_hover_text(hint).clicked() {
        cached.read(ui.ctx(), host);
    }
    asked
}

/// Shows the field of the second text, and its error.
pub(super) fn field(ui: &mut Ui, state: &mut ModelState, outcome: &Outcome) {
    let Some(text) = &mut state.second else { return };
    center::text(ui, text, "Type a second text.", "Second text to compare with");
    let refusal = outcome.second_refusal().filter(|_| outcome.request.second_model.is_none());
    if let Some(message) = refusal {
        let text = format!("The second text is not read: {message}");
        ui.colored_label(ui.visuals().error_fg_color, text);
    }
}

/// Shows the choice of the run, if there is more than one.
pub(super) fn versions(ui: &mut Ui, state: &mut ModelState, outcome: &Outcome) {
    // The choice is shown before a mask is painted, so that nothing moves under the pointer.
    let changed = outcome.changed().is_some() || state.brush.is_some();
    let second = outcome.second();
    let of_models = outcome.request.second_model.is_some();
    let [first, other, minus] = if of_models {
        ["Model A", "Model B", "A − B"]
    } else if outcome.reads() == Reads::Image {
        ["First image", "Second", "First − second"]
    } else {
        ["First text", "Second", "First − second"]
    };
    let mut choices: Vec<Choice<Version>> = Vec::new();
    if changed {
        choices.extend([
            (Version::Changed, "Changed", Ok("Show the weights with the changes.")),
            (Version::Unchanged, "Unchanged", Ok("Show the weights without the changes.")),
            (Version::Difference, "Difference", Ok("Show changed minus unchanged weights.")),
        ]);
    } else if second.is_some() {
        choices.push((Version::Changed, first, Ok("Show the weights of run A.")));
    } else {
        choices.push((
            Version::Changed,
            "Weights",
            Ok("Show what share of its attention each word gives to each."),
        ));
    }
    if second.is_some() {
        choices.extend([
            (Version::Second, other, Ok("Show the weights of run B.")),
            (Version::FirstMinusSecond, minus, Ok("Show the weights of run A minus those of B.")),
        ]);
    }
    if changed || second.is_some() {
        choices.push((Version::SideBySide, "Side by side", Ok("Show A, B and A − B at once.")));
    }
    let hint = "Show each weight times the length of its value vector: how much the key adds to the head's output. A large weight on a small value adds little.";
    choices.push((Version::ValueWeighted, "Value-weighted", Ok(hint)));
    let width = if ui.available_width() < center::NARROW { 0.0 } else { WIDTH };
    choice::menu(ui, "Weights of", &mut state.version, &choices, width);
    explain(ui, "Runs", explanation!("Runs"));
}

/// Shows the reason for a missing difference of A and B, if the difference is to be shown.
pub(super) fn no_difference(ui: &mut Ui, state: &ModelState, outcome: &Outcome) {
    let shows_difference = matches!(state.version, Version::FirstMinusSecond | Version::SideBySide);
    let difference = outcome.second().filter(|_| shows_difference).map(|second| &second.difference);
    if let Some(Err(message)) = difference {
        let text = RichText::new(format!("{}.", capital(message))).small();
        ui.colored_label(ui.visuals().warn_fg_color, text);
    }
}

/// Shows the heads that differ most between A and B.
pub(super) fn moved(ui: &mut Ui, state: &mut ModelState, outcome: &Outcome) {
    let Some(moved) = outcome.moved(state.attention) else { return };
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = 4.0;
        ui.label("Differ most");
        explain(ui, "Heads that differ most", explanation!("Heads that differ most"));
        for (id, share) in moved.iter().take(MOST) {
            let (head, share) = (id.to_string(), super::percent(*share));
            let words = format!("Head {id} differs in {share} of its weight");
            let is_on = state.heads.shown == crate::heads::Shown::Head && state.heads.id() == *id;
            let button = ui.selectable_label(is_on, format!("{head}  {share}"));
            button.widget_info(|| {
                egui::WidgetInfo::selected(egui::accesskit::Role::Button, true, is_on, &words)
            });
            if button.on_hover_text(&words).clicked() {
                state.heads.show(*id);
            }
        }
    });
}
