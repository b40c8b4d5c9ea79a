//! The end of the page: attention in four lines, and the checks.

use egui::{RichText, Ui};
use regard_walkthrough::Check;

use super::formula;
use crate::explain::{explanation, heading};
use crate::{numbers, style};

/// Shows the attention of the example in four lines.
pub(crate) fn in_four_lines(ui: &mut Ui, lines: &[String; 4]) {
    style::card(ui.visuals()).show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.label(RichText::new("In four lines").text_style(style::subheading()).strong());
        for line in lines {
            formula::show(ui, line, formula::size(ui), ui.visuals().strong_text_color());
        }
    });
}

/// Shows each check with its measured distance.
pub(crate) fn show(ui: &mut Ui, checks: &[Check]) {
    if checks.is_empty() {
        return;
    }
    style::card(ui.visuals()).show(ui, |ui| {
        ui.set_width(ui.available_width());
        heading(ui, "Checks", explanation!("Checks"));
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
            ui.label(RichText::new(&check.meaning).small().weak());
        }
    });
}
