//! The order and the display of the heads in the grid: the choices and their panel.

use egui::{Align, Button, ComboBox, DragValue, Layout, RichText, Ui};
use regard_heads::Measure;

use super::grid::standing;
use super::{Effect, Effects, HeadsState, Order, Shown, Surveyed};
use crate::explain::{explanation, found, heading};

/// A definition of an effect, for readers who meet the number for the first time.
pub(crate) fn of_effect(effect: Effect) -> &'static str {
    const TEXTS: [&str; 2] = [found(Effect::ALL[0].name()), found(Effect::ALL[1].name())];
    TEXTS[effect as usize]
}

fn description(order: Order) -> &'static str {
    match order {
        Order::Measure(measure) => measure.description(),
        Order::Effect(effect) => of_effect(effect),
    }
}

pub(crate) fn show(ui: &mut Ui, heads: &Surveyed, state: &mut HeadsState, effects: &Effects) {
    heading(ui, "Heads", explanation!("Heads"));
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
                    let missing = format!("No head has this measure. {}", description(order));
                    let label = label.on_hover_text(description(order));
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
                        .on_hover_text(of_effect(effect));
                }
            });
            menu.response.accessible_name("Overlay of the heads");
        });
    }
    if state.needs(Effect::Ablation) {
        let alone = "Each head is taken out alone: hidden words and other changes are not made.";
        ui.label(RichText::new(alone).small().weak());
    }
    ui.checkbox(&mut state.hide_first, "Without first token").on_hover_text(
        "Leave the first token out of the small pictures and of the lines. Many heads give most of their weight to it where they find \
         nothing else.",
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
}

/// Tells why the number of a head is grey.
const GREY: &str = "The number is grey because it says nothing sure of the head: it is a mean of fewer than three queries, or \
                    no larger than the share of even weights by two standard errors.";

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
                ui.label(value).on_hover_text(if is_significant {
                    basis
                } else {
                    format!("{basis} {GREY}")
                });
            });
        });
    }
}
