//! The common parts of all plots.

use egui::{TextStyle, Ui};
use egui_plot::{AxisHints, GridInput, GridMark, Plot};

/// A plot that does not react to dragging and scrolling, so that the page scrolls.
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

/// A number without trailing digits.
pub fn plain(x: f64) -> String {
    format!("{}", (x * 1e6).round() / 1e6)
}

/// A number with four significant digits.
pub fn rounded(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return format!("{x}");
    }
    let unit = 10_f64.powi(3 - x.abs().log10().floor() as i32);
    format!("{}", (x * unit).round() / unit)
}

/// About three marks, at round numbers.
#[expect(clippy::needless_pass_by_value, reason = "what a plot asks for")]
pub fn few(input: GridInput) -> Vec<GridMark> {
    let (low, high) = input.bounds;
    let step = round((high - low) / 3.5);
    let marks = (low / step).ceil() as i64..=(high / step).floor() as i64;
    marks.take(16).map(|i| GridMark { value: i as f64 * step, step_size: step }).collect()
}

/// 1, 2 or 5 times a power of ten.
fn round(step: f64) -> f64 {
    let unit = 10_f64.powf(step.max(1e-30).log10().floor());
    match step / unit {
        times if times < 1.5 => unit,
        times if times < 3.0 => 2.0 * unit,
        times if times < 7.5 => 5.0 * unit,
        _ => 10.0 * unit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_are_significant() {
        for (x, text) in [(0.0, "0"), (64.0, "64"), (0.214_34, "0.2143"), (123_456.0, "123500")] {
            assert_eq!(rounded(x), text);
        }
        assert_eq!(rounded(-1.234_56e-5), "-0.00001235");
    }

    #[test]
    fn marks_are_few_and_round() {
        for (high, values) in [
            (7.6, vec![0.0, 2.0, 4.0, 6.0]),
            (0.3, vec![0.0, 0.1, 0.2, 0.3]),
            (1100.0, vec![0.0, 500.0, 1000.0]),
        ] {
            let marks = few(GridInput { bounds: (0.0, high + 1e-9), base_step_size: 1.0 });
            let found: Vec<f64> =
                marks.iter().map(|mark| (mark.value * 1e6).round() / 1e6).collect();
            assert_eq!(found, values);
        }
    }
}
