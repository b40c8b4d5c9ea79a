//! The effect of the temperature on one row of weights.

use egui::{Color32, Label, RichText, Ui};
use regard_figure::Plot;
use regard_session::walkthrough::{curves, curves_of};
use regard_walkthrough::Walkthrough;

use super::{WalkthroughState, rows};
use crate::plots::{self, PlotName};
use crate::{Command, colors};

/// With more tokens than this, the plot has no legend.
const NAMED: usize = 12;
const HEIGHT: f32 = 112.0;

/// Shows the curves of the row under the pointer. Returns the command if the export button was pressed.
pub(crate) fn show(
    ui: &mut Ui,
    state: &WalkthroughState,
    walkthrough: &Walkthrough,
) -> Option<Command> {
    let weights = curves_of(state, walkthrough)?;
    // The guided path first asks about the weights.
    let place = walkthrough.steps.iter().position(|step| step.key == weights.key)?;
    if place >= rows::shown(state, &walkthrough.steps) {
        return None;
    }
    let plot = curves(state, walkthrough)?;
    let clicked = plots::show(ui, PlotName::Weights, &plot, HEIGHT);
    if weights.col_labels.len() <= NAMED {
        ui.scope(|ui| {
            ui.spacing_mut().interact_size.y = 0.0;
            legend(ui, &plot);
        });
    }
    clicked
}

/// The curves' tokens, each with its weight at the present temperature. Coincident curves stand together.
fn legend(ui: &mut Ui, plot: &Plot) {
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing = egui::vec2(12.0, 4.0);
        for j in 0..plot.curves.len() {
            let together = plot.coincident(j);
            if together.first() != Some(&j) {
                continue;
            }
            let mut job = egui::text::LayoutJob::default();
            let style = ui.style();
            let (font, align) = (egui::FontSelection::Default, egui::Align::Center);
            for key in &together {
                let sign = RichText::new("■").small().color(colors::curve(*key));
                sign.append_to(&mut job, style, font.clone(), align);
            }
            let text =
                RichText::new(format!(" {}", plot.said(j))).small().color(Color32::PLACEHOLDER);
            text.append_to(&mut job, style, font, align);
            let label = Label::new(job);
            // The name and the number of a token stay together.
            let label = if together.len() > 1 { label.wrap() } else { label.extend() };
            let label = ui.add(label);
            if together.len() > 1 {
                label.on_hover_text("Their scores are equal, so their curves coincide.");
            }
        }
    });
}
