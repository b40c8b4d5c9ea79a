//! The curves of `why-scale`: the effect of 1/√d as the number of dimensions grows.

use egui::{Ui, vec2};
use egui_plot::{AxisHints, GridMark, Line, LineStyle, MarkerShape, PlotPoints, Points};
use regard_walkthrough::WhyScale;

use crate::explain::heading;
use crate::{colors, plots, style};

/// A measure: its name, and its values without and with scaling.
type Measure = (&'static str, fn(&WhyScale) -> [f64; 2]);

const MEASURES: [Measure; 4] = [
    ("Standard deviation of the scores", |m| [m.std_raw, m.std_scaled]),
    ("Largest weight", |m| [m.largest_raw, m.largest_scaled]),
    ("Entropy of the weights", |m| [m.entropy_raw, m.entropy_scaled]),
    ("Gradient norm", |m| [m.gradient_raw, m.gradient_scaled]),
];

const WITHOUT: (&str, usize) = ("without 1/√d", 2);
const WITH: (&str, usize) = ("with 1/√d", 0);

const EXPLANATION: &str = "\
    Random queries and keys of d = 4 to 1024 dimensions. Without 1/√d, the spread of the scores grows as √d: the largest weight approaches 1, the entropy falls to 0, and the gradient through softmax vanishes. With 1/√d, all four measures stay nearly constant.";

/// Shows four plots over d, two or more in a line.
pub fn show(ui: &mut Ui, rows: &[WhyScale]) {
    style::card(ui.visuals()).show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.horizontal_wrapped(|ui| {
            heading(ui, "What 1/√d does", EXPLANATION);
            for (name, color) in [WITH, WITHOUT] {
                ui.add_space(8.0);
                ui.colored_label(colors::curve(color), "■");
                ui.label(name);
            }
        });
        let columns = if ui.available_width() > 560.0 { 2 } else { 1 };
        for measures in MEASURES.chunks(columns) {
            ui.columns(columns, |uis| {
                for (ui, measure) in uis.iter_mut().zip(measures) {
                    plot(ui, rows, *measure);
                }
            });
        }
    });
}

fn plot(ui: &mut Ui, rows: &[WhyScale], (name, measure): Measure) {
    ui.label(format!("{name}, by d"));
    plots::still(name)
        .min_size(vec2(120.0, 120.0))
        .height(168.0)
        .include_y(0.0)
        // The axis is that of log₂ d.
        .x_grid_spacer(|_| {
            (1..=5).map(|e| GridMark { value: 2.0 * f64::from(e), step_size: 2.0 }).collect()
        })
        .custom_x_axes(vec![
            plots::ticks(ui, AxisHints::new_x())
                .formatter(|mark, _| format!("{}", mark.value.exp2())),
        ])
        .custom_y_axes(vec![plots::ticks(ui, AxisHints::new_y())])
        .show(ui, |plot| {
            for (i, (side, color)) in [WITHOUT, WITH].into_iter().enumerate() {
                let points: Vec<[f64; 2]> =
                    rows.iter().map(|m| [(m.d as f64).log2(), measure(m)[i]]).collect();
                let style = if i == 0 { LineStyle::dashed_dense() } else { LineStyle::Solid };
                let color = colors::curve(color);
                plot.line(
                    Line::new(side, PlotPoints::from(points.clone()))
                        .color(color)
                        .width(2.0)
                        .style(style),
                );
                plot.points(
                    Points::new(side, points).color(color).radius(3.0).shape(MarkerShape::Circle),
                );
            }
        })
        .response
        .accessible_name(name);
}
