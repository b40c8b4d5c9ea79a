//! The curves of `why-scale`: the effect of 1/√d as the number of dimensions grows.

use egui::Ui;
use regard_figure::{Curve, Plot, Scale};
use regard_walkthrough::{Statistics, WhyScale};

use crate::explain::{explanation, heading};
use crate::plots::{self, PlotName};
use crate::{Command, colors, style};

/// A measure: its name, and its value.
type ScaleMeasure = (&'static str, fn(&Statistics) -> f64);

const MEASURES: [ScaleMeasure; 4] = [
    ("Standard deviation of the scores", |s| s.std),
    ("Largest weight", |s| s.largest),
    ("Entropy of the weights (nats)", |s| s.entropy),
    ("Gradient norm", |s| s.gradient),
];

const WITHOUT: (&str, usize) = ("without 1/√d", 2);
const WITH: (&str, usize) = ("with 1/√d", 0);
const HEIGHT: f32 = 168.0;

/// Shows four plots over d, two or more in a line. Returns the command if an export button was pressed.
pub(crate) fn show(ui: &mut Ui, rows: &[WhyScale]) -> Option<Command> {
    let mut command = None;
    style::card(ui.visuals()).show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.horizontal_wrapped(|ui| {
            heading(ui, "What 1/√d does", explanation!("What 1/√d does"));
            for (name, color) in [WITH, WITHOUT] {
                ui.add_space(8.0);
                ui.colored_label(colors::curve(color), "■");
                ui.label(name);
            }
        });
        let columns = if ui.available_width() > 560.0 { 2 } else { 1 };
        let plots: Vec<usize> = (0..MEASURES.len()).collect();
        for plots in plots.chunks(columns) {
            ui.columns(columns, |uis| {
                for (ui, i) in uis.iter_mut().zip(plots) {
                    let Some(plot) = plot(rows, *i) else { continue };
                    command = plots::show(ui, PlotName::WhyScale(*i), &plot, HEIGHT).or(command);
                }
            });
        }
    });
    command
}

/// The curves of one of the four measures.
pub(crate) fn plot(rows: &[WhyScale], measure: usize) -> Option<Plot> {
    let (name, value) = MEASURES.get(measure)?;
    let curve = |(name, color): (&str, usize), statistics: fn(&WhyScale) -> &Statistics| Curve {
        name: name.to_owned(),
        points: rows.iter().map(|row| [row.d as f64, value(statistics(row))]).collect(),
        band: Vec::new(),
        color: regard_figure::curve_color(color),
        dashed: name == WITHOUT.0,
        marked: None,
    };
    let curves = vec![curve(WITHOUT, |row| &row.raw), curve(WITH, |row| &row.scaled)];
    let (title, axes) = (format!("{name}, by d"), ["d", *name]);
    Some(Plot { title, axes, scale: Scale::Doublings, mark: None, curves })
}
