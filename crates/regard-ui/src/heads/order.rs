//! The order and the display of the heads in the grid: the choices and their panel.

use egui::{Align, Button, ComboBox, DragValue, Layout, RichText, Ui};
use regard_heads::{HeadId, Measure};
use serde::{Deserialize, Serialize};

use super::grid::standing;
use super::opened::Surveyed;
use super::state::MOST_OVERLAID;
use super::{HeadsState, Shown};
use crate::colors::largest;
use crate::explain::{explanation, heading};

/// A number of each head that only a run gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The change of the likeliest token's logit when the head gives zeros.
    Ablation,
    /// The direct contribution of the head to the chosen logit.
    Attribution,
}

impl Effect {
    pub(crate) const ALL: [Self; 2] = [Self::Ablation, Self::Attribution];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ablation => "Ablation effect",
            Self::Attribution => "Logit attribution",
        }
    }

    /// A definition for readers who meet the number for the first time.
    pub(crate) fn description(self) -> &'static str {
        explanation(self.name())
    }
}

/// The number by which the heads are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Order {
    /// A measure of the weights.
    Measure(Measure),
    /// A number that a run gives.
    Effect(Effect),
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Self::Measure(measure) => measure.name(),
            Self::Effect(effect) => effect.name(),
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Measure(measure) => measure.description(),
            Self::Effect(effect) => effect.description(),
        }
    }
}

/// The known effects of the heads of an attention, \[layers, heads\].
#[derive(Default)]
pub(crate) struct Effects {
    /// The change of the likeliest token's logit. The list grows while the heads are ablated in turn.
    pub(crate) ablation: Vec<f32>,
    pub(crate) attribution: Vec<f32>,
    /// Whether a run can compute them. A file has no run.
    pub(crate) can_run: bool,
    /// Whether the heads are being ablated.
    pub(crate) is_ablating: bool,
}

impl Effects {
    fn of(&self, effect: Effect) -> &[f32] {
        match effect {
            Effect::Ablation => &self.ablation,
            Effect::Attribution => &self.attribution,
        }
    }

    pub(crate) fn get(&self, heads: &Surveyed, effect: Effect, id: HeadId) -> Option<f32> {
        self.of(effect).get(heads.maps.shape().index(id)?).copied()
    }

    pub(crate) fn largest(&self, effect: Effect) -> f32 {
        largest(self.of(effect))
    }
}

impl HeadsState {
    /// Whether the grid needs this number of each head.
    pub(crate) fn needs(&self, effect: Effect) -> bool {
        self.tint == Some(effect) || self.order == Some(Order::Effect(effect))
    }
}

impl Surveyed {
    /// The heads in the order in which they are shown. Until all effects are known, that is the order of the file.
    pub(crate) fn ordered(
        &self,
        order: Option<Order>,
        smallest_first: bool,
        effects: &Effects,
    ) -> Vec<HeadId> {
        let mut ids: Vec<HeadId> = self.maps.shape().ids().collect();
        match order {
            Some(Order::Measure(measure)) => {
                ids = self.survey.sorted_by(measure);
                if smallest_first {
                    // Heads without the measure stay last.
                    let is_known = |id: &&HeadId| self.survey.measures(**id).get(measure).is_some();
                    let known = ids.iter().take_while(is_known).count();
                    ids[..known].reverse();
                }
            }
            Some(Order::Effect(effect)) if effects.of(effect).len() == ids.len() => {
                let size = |id: &HeadId| effects.get(self, effect, *id).map_or(0.0, f32::abs);
                ids.sort_by(|a, b| size(b).total_cmp(&size(a)));
                if smallest_first {
                    ids.reverse();
                }
            }
            _ => {}
        }
        ids
    }
}

pub(crate) fn show(ui: &mut Ui, heads: &Surveyed, state: &mut HeadsState, effects: &Effects) {
    heading(ui, "Heads", explanation("Heads"));
    let effects_of_runs = Effect::ALL.iter().filter(|_| effects.can_run).copied();
    let all = Measure::ALL.iter().copied().map(Order::Measure);
    let all = all.chain(effects_of_runs.map(Order::Effect));
    row(ui, "Sort by", |ui| {
        let name = state.order.map_or("Layer and head", Order::name);
        let menu =
            ComboBox::from_id_salt("sort").selected_text(name).height(420.0).show_ui(ui, |ui| {
                ui.selectable_value(&mut state.order, None, "Layer and head");
                for order in all {
                    let has = match order {
                        Order::Measure(measure) => heads.has(measure),
                        Order::Effect(_) => true,
                    };
                    let is_on = state.order == Some(order);
                    let label = ui.add_enabled(has, Button::selectable(is_on, order.name()));
                    let missing = format!("No head has this measure. {}", order.description());
                    let label = label.on_hover_text(order.description());
                    if label.on_disabled_hover_text(missing).clicked() {
                        state.order = Some(order);
                    }
                }
            });
        menu.response.accessible_name("Sort heads by");
    });
    // A control without an effect on the view is not shown.
    if state.order.is_some() {
        ui.checkbox(&mut state.smallest_first, "Smallest first");
    }
    if effects.can_run {
        row(ui, "Overlay", |ui| {
            let name = state.tint.map_or("None", Effect::name);
            let menu = ComboBox::from_id_salt("tint").selected_text(name).show_ui(ui, |ui| {
                ui.selectable_value(&mut state.tint, None, "None");
                for effect in Effect::ALL {
                    ui.selectable_value(&mut state.tint, Some(effect), effect.name())
                        .on_hover_text(effect.description());
                }
            });
            menu.response.accessible_name("Overlay of the heads");
        });
    }
    ui.checkbox(&mut state.hide_first, "Without first token").on_hover_text(
        "Leave the first token out of the small pictures and of the lines. Many heads give most of their weight to it where they find \
         nothing else.",
    );
    ui.checkbox(&mut state.scrolls, "Larger pictures")
        .on_hover_text("Let the grid scroll, instead of showing all heads at once.");
    ui.checkbox(&mut state.own_scale, "Own colour scale for each head").on_hover_text(
        "Scale the colours of each small picture to its own largest weight, not to the largest of all heads.",
    );
    if state.lines && state.shown != Shown::Grid {
        lines(ui, heads, state);
    }
    if state.shown == Shown::Head {
        measures(ui, heads, state);
    }
}

fn row(ui: &mut Ui, name: &str, contents: impl FnOnce(&mut Ui)) {
    ui.horizontal(|ui| {
        ui.label(name);
        contents(ui);
    });
}

fn lines(ui: &mut Ui, heads: &Surveyed, state: &mut HeadsState) {
    row(ui, "Lines of each query", |ui| {
        let most = DragValue::new(&mut state.most_lines);
        let most = most.range(0..=heads.maps.shape().keys).speed(0.05);
        let most = most.custom_formatter(|n, _| match n {
            0.0 => "all".to_owned(),
            n => n.to_string(),
        });
        let most = most.custom_parser(|text| match text.trim() {
            "all" => Some(0.0),
            number => number.parse().ok(),
        });
        ui.add(most)
            .on_hover_text("Draw only the lines of each query's largest weights.")
            .accessible_name("Lines of each query");
    });
    let id = state.id();
    let is_new = state.shown == Shown::Head && !state.overlaid.contains(&id);
    let can = is_new && state.overlaid.len() < MOST_OVERLAID;
    let button = ui.add_enabled(can, Button::new("Keep these lines"));
    let hint =
        "Keep the lines of this head in a colour of their own, under those of the next head.";
    let button = button.on_hover_text(hint).on_disabled_hover_text(
        "The lines of this matrix are there already, or those of six heads are kept, or it is not a head.",
    );
    if button.clicked() {
        state.overlaid.push(id);
    }
}

fn measures(ui: &mut Ui, heads: &Surveyed, state: &HeadsState) {
    let measures = heads.survey.measures(state.id());
    for &measure in Measure::ALL {
        let Some(x) = measures.get(measure) else { continue };
        ui.horizontal(|ui| {
            ui.weak(measure.name()).on_hover_text(measure.description());
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                let value = RichText::new(measure.short(x));
                let is_significant = measures.is_significant(measure);
                let value = if is_significant { value.strong() } else { value.weak() };
                let basis = format!("A mean of {}.", standing(&measures, measure));
                ui.label(value).on_hover_text(basis);
            });
        });
    }
}
