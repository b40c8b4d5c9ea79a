//! The plots of curves: their drawing, the point under the pointer, and the export button.

use egui::accesskit::Role;
use egui::{RichText, TextStyle, Ui, WidgetInfo};
use egui_plot::{
    AxisHints, FilledArea, GridMark, HoverPosition, Line, LineStyle, Plot as Axes, PlotPoint,
    PlotPoints, Points, VLine,
};
use regard_figure::numbers::spoken;
use regard_figure::{Plot, Scale};

use crate::explain::{explain, found};
use crate::{Command, temperature};
pub(crate) use regard_session::PlotName;

/// A curve with at most this many points shows them.
const FEW: usize = 16;

/// The maximum number of curves that a screen reader speaks.
const MOST_SPOKEN: usize = 12;

/// The explanation of a plot.
fn explained(name: PlotName) -> &'static str {
    const TEXTS: [&str; PlotName::ALL.len()] = {
        let (mut texts, mut i) = ([""; PlotName::ALL.len()], 0);
        while i < texts.len() {
            texts[i] = found(PlotName::ALL[i].name());
            i += 1;
        }
        texts
    };
    let place = PlotName::ALL.iter().position(|plot| *plot == name);
    place.map_or("", |place| TEXTS[place])
}

/// Shows a plot under its title, which explains itself. Returns the command if the export button was pressed.
pub(crate) fn show(ui: &mut Ui, name: PlotName, plot: &Plot, height: f32) -> Option<Command> {
    let (command, title) = (Command::ExportPlot(name), &plot.title);
    let clicked = ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = 4.0;
        ui.label(RichText::new(title).small().strong());
        explain(ui, title, explained(name));
        let button = ui.small_button(RichText::new("↓").small());
        button.accessible_name(command.name()).on_hover_text(command.tooltip()).clicked()
    });
    let clicked = clicked.inner;
    draw(ui, title, plot, height);
    clicked.then_some(command)
}

/// Draws the curves. The scale transforms the x axis: T to its power of ten, d to its power of two.
fn draw(ui: &mut Ui, caption: &str, plot: &Plot, height: f32) {
    let scale = plot.scale;
    let place = |[x, y]: [f64; 2]| [scale.place(x), y];
    let find = |at: &PlotPoint| plot.nearest([at.x, at.y]);
    let is_flat = plot.curves.iter().flat_map(|curve| &curve.points).all(|[_, y]| *y <= 0.0);
    let mut axes = still(ui.scope_id().with(caption))
        .min_size(egui::vec2(120.0, 96.0))
        .height(height)
        .width(ui.available_width())
        .include_y(0.0)
        // If all numbers are 0, the axis would extend as far below 0 as above.
        .include_y(if is_flat { 1.0 } else { 0.0 })
        .x_grid_spacer(move |input| marks(scale, input.bounds))
        .y_grid_spacer(|input| marks(Scale::Linear, input.bounds))
        .label_formatter(move |at| match at {
            HoverPosition::NearDataPoint { position, .. }
            | HoverPosition::Elsewhere { position } => {
                find(position).map(|(curve, point)| plot.told(curve, point))
            }
        })
        .custom_x_axes(vec![
            ticks(ui, AxisHints::new_x())
                .formatter(move |mark, _| spoken(scale.value(mark.value) as f32)),
        ])
        .custom_y_axes(vec![
            ticks(ui, AxisHints::new_y()).formatter(|mark, _| spoken(mark.value as f32)),
        ]);
    let (low, high) = temperature::bounds();
    if scale == Scale::Decades {
        axes = axes.default_x_bounds(low, high);
    }
    let ink = ui.visuals().text_color();
    let shown = axes.show(ui, |ui| {
        if let Some(mark) = plot.mark {
            let mark = scale.place(mark);
            let mark = if scale == Scale::Decades { mark.clamp(low, high) } else { mark };
            ui.vline(VLine::new("mark", mark).color(ink).width(1.5).allow_hover(false));
        }
        for (i, curve) in plot.curves.iter().enumerate() {
            let [r, g, b] = curve.color;
            let color = egui::Color32::from_rgb(r, g, b);
            if !curve.band.is_empty() {
                let xs: Vec<f64> = curve.points.iter().map(|[x, _]| scale.place(*x)).collect();
                let [low, high] =
                    [0, 1].map(|end| curve.band.iter().map(|band| band[end]).collect::<Vec<_>>());
                let area = FilledArea::new(&curve.name, &xs, &low, &high);
                ui.add(area.fill_color(color.gamma_multiply(0.25)).allow_hover(false));
            }
            for piece in plot.pieces(i) {
                let points: PlotPoints<'_> = piece.iter().map(|point| place(*point)).collect();
                let style = if curve.dashed { LineStyle::dashed_dense() } else { LineStyle::Solid };
                ui.line(
                    Line::new(&curve.name, points)
                        .color(color)
                        .width(2.0)
                        .style(style)
                        .allow_hover(false),
                );
            }
            if curve.points.len() <= FEW {
                let points: PlotPoints<'_> =
                    curve.points.iter().map(|point| place(*point)).collect();
                ui.points(
                    Points::new(&curve.name, points).color(color).radius(2.5).allow_hover(false),
                );
            }
        }
        if let Some((curve, point)) =
            ui.pointer_coordinate().filter(|_| ui.response().hovered()).as_ref().and_then(find)
        {
            let [r, g, b] = plot.curves[curve].color;
            let points = PlotPoints::from(vec![place(point)]);
            let color = egui::Color32::from_rgb(r, g, b);
            ui.points(Points::new("pointed", points).color(color).radius(4.5).allow_hover(false));
        }
    });
    let words = words(caption, plot);
    shown.response.widget_info(|| WidgetInfo::labeled(Role::Image, true, &words));
}

/// The words for a screen reader: the caption, the mark, and the curves as in the legend.
fn words(caption: &str, plot: &Plot) -> String {
    let mark = plot.mark.map(|x| format!(", at {} = {}", plot.axes[0], temperature::text(x)));
    let curves = (0..plot.curves.len()).filter(|i| plot.coincident(*i).first() == Some(i));
    let said: Vec<String> = curves.take(MOST_SPOKEN).map(|i| plot.said(i)).collect();
    format!("Plot: {caption}{}: {}", mark.unwrap_or_default(), said.join(", "))
}

/// Marks at round numbers of a scale.
fn marks(scale: Scale, (low, high): (f64, f64)) -> Vec<GridMark> {
    let step_size = scale.step([low, high], WANTED);
    scale
        .ticks([low, high], WANTED)
        .into_iter()
        .map(|value| GridMark { value, step_size })
        .collect()
}

/// The approximate number of marks of an axis.
const WANTED: f64 = 3.5;

/// A plot that does not react to dragging and scrolling, so that the page scrolls.
fn still<'a>(id: egui::Id) -> Axes<'a> {
    Axes::new(id)
        .allow_drag(false)
        .allow_zoom(false)
        .allow_scroll(false)
        .allow_boxed_zoom(false)
        .allow_double_click_reset(false)
        .show_crosshair(false)
        .show_background(false)
}

/// An axis with small numbers at every mark.
fn ticks<'a>(ui: &Ui, axis: AxisHints<'a>) -> AxisHints<'a> {
    axis.label_spacing(4.0..=16.0)
        .tick_label_font(TextStyle::Small.resolve(ui.style()))
        .tick_label_color(ui.visuals().weak_text_color())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_few_and_round() {
        for (high, values) in [
            (7.6, vec![0.0, 2.0, 4.0, 6.0]),
            (0.3, vec![0.0, 0.1, 0.2, 0.3]),
            (1100.0, vec![0.0, 500.0, 1000.0]),
        ] {
            let found: Vec<f64> = marks(Scale::Linear, (0.0, high))
                .iter()
                .map(|mark| (mark.value * 1e6).round() / 1e6)
                .collect();
            assert_eq!(found, values);
        }
    }
}
