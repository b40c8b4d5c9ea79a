//! What all plots have in common.

use egui::{TextStyle, Ui};
use egui_plot::{AxisHints, Plot};

/// A plot to look at, that leaves dragging and scrolling to the page.
pub fn still<'a>(name: &'static str) -> Plot<'a> {
    Plot::new(name)
        .allow_drag(false)
        .allow_zoom(false)
        .allow_scroll(false)
        .allow_boxed_zoom(false)
        .allow_double_click_reset(false)
        .show_crosshair(false)
        .show_background(false)
        .label_formatter(|_| None)
}

/// An axis with small numbers at every mark.
pub fn ticks<'a>(ui: &Ui, axis: AxisHints<'a>) -> AxisHints<'a> {
    axis.label_spacing(4.0..=16.0)
        .tick_label_font(TextStyle::Small.resolve(ui.style()))
        .tick_label_color(ui.visuals().weak_text_color())
}
