//! The plots of the chosen row, and of the gradient over the number of dimensions, beside the matrix.

use egui::{RichText, Ui};
use regard_session::laboratory::{Curves, LaboratoryOutcome, WITH, WITHOUT};

use crate::plots::{self, PlotName};
use crate::{Command, colors};

const NAMES: [PlotName; 4] =
    [PlotName::Sorted, PlotName::Entropy, PlotName::Gradient, PlotName::GradientByDim];

/// The least height of a plot.
const HEIGHT: f32 = 112.0;

/// The colours of the curves by d.
fn legend(ui: &mut Ui) {
    ui.horizontal_wrapped(|ui| {
        for (name, color) in [(WITH, 0), (WITHOUT, 2)] {
            ui.label(RichText::new("■").small().color(colors::curve(color)));
            ui.small(name);
        }
    });
}

/// Shows all plots in the requested number of columns. Returns the command if an export button was pressed.
pub(super) fn show(
    curves: &Curves,
    ui: &mut Ui,
    outcome: &LaboratoryOutcome,
    columns: usize,
) -> Option<Command> {
    let mut command = None;
    // All plots fit the page, if it is not too low.
    let tallest = (0.16 * ui.clip_rect().height()).max(HEIGHT);
    let height = (0.42 * ui.available_width() / columns as f32).clamp(HEIGHT, tallest);
    for names in NAMES.chunks(columns) {
        ui.columns(columns, |uis| {
            for (ui, name) in uis.iter_mut().zip(names) {
                let Some(plot) = curves.plot(outcome, *name) else { continue };
                command = plots::show(ui, *name, &plot, height).or(command);
                if *name == PlotName::GradientByDim {
                    legend(ui);
                }
            }
        });
    }
    command
}
