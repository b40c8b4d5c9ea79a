//! What stands after the last step: the whole in short, and what was checked.

use egui::{Label, RichText, TextStyle, Ui};
use regard_walkthrough::{Check, IN_FOUR_LINES};

use super::formula;
use crate::explain::heading;
use crate::{numbers, style};

const EXPLANATION: &str = "\
    What must hold of the numbers above, whatever was typed over: what was measured stands before the limit that it must not \
    pass. Limits are a few roundings of single precision.";

/// Shows the whole of attention in short.
pub fn in_four_lines(ui: &mut Ui) {
    style::card(ui.visuals()).show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.label(RichText::new("In four lines").text_style(style::subheading()).strong());
        for line in IN_FOUR_LINES {
            formula::show(ui, line, formula::SIZE, ui.visuals().strong_text_color());
        }
    });
}

/// Shows each check with what was measured.
pub fn show(ui: &mut Ui, checks: &[Check]) {
    if checks.is_empty() {
        return;
    }
    style::card(ui.visuals()).show(ui, |ui| {
        ui.set_width(ui.available_width());
        heading(ui, "Checks", EXPLANATION);
        for check in checks {
            let value = numbers::error(check.value);
            let (sign, measured) = match (check.limit.map(numbers::error), check.holds()) {
                (Some(limit), Some(true)) => ("✓", format!("{value} ≤ {limit}")),
                (Some(limit), _) => ("✗", format!("{value} > {limit}")),
                (None, _) => ("–", format!("{value}, no limit")),
            };
            ui.horizontal_wrapped(|ui| {
                let fails = check.holds() == Some(false);
                let color =
                    if fails { ui.visuals().warn_fg_color } else { ui.visuals().text_color() };
                ui.label(RichText::new(sign).color(color));
                ui.label(RichText::new(&check.name).color(color));
                ui.label(RichText::new(measured).monospace());
            });
            ui.add(
                Label::new(RichText::new(&check.meaning).text_style(TextStyle::Small).weak())
                    .wrap(),
            );
        }
    });
}
