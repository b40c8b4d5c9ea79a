//! The temperature: a slider over powers of ten whose ends are 0 and ∞, and the number.

use egui::{DragValue, RichText, Slider, Ui};
use regard_kernels::Temperature;
use regard_session::temperature::DECADES;

use crate::explain::{explanation, label};

/// The distance beyond this range at which the slider reaches the limits 0 and ∞.
const BEYOND: f64 = 0.2;

/// The exponents at the ends of an axis of temperatures.
pub(crate) fn bounds() -> (f64, f64) {
    (DECADES.start() - BEYOND, DECADES.end() + BEYOND)
}

/// Shows the name, the slider, the number, and the limits.
pub(crate) fn show(ui: &mut Ui, temperature: &mut Temperature) {
    ui.horizontal(|ui| {
        label(ui, "Temperature T", explanation!("Temperature"));
        ui.label(RichText::new("sharp → even").small().weak());
    });
    slider(ui, temperature);
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 4.0;
        let ends = [
            ("T → 0", Temperature::ZERO),
            ("T = 1", Temperature::ONE),
            ("T → ∞", Temperature::INFINITE),
        ];
        for (name, t) in ends {
            ui.selectable_value(temperature, t, name);
        }
    });
}

/// Shows the slider and the number.
pub(crate) fn slider(ui: &mut Ui, temperature: &mut Temperature) {
    let before = f64::from(temperature.get());
    let mut t = before;
    ui.horizontal(|ui| {
        ui.spacing_mut().slider_width = ui.available_width() - 64.0;
        let ends = bounds();
        let mut exponent = t.log10().clamp(ends.0, ends.1);
        let slider = Slider::new(&mut exponent, ends.0..=ends.1).show_value(false);
        if ui.add(slider).accessible_name("Temperature as a power of ten").changed() {
            t = if exponent < *DECADES.start() {
                0.0
            } else if exponent > *DECADES.end() {
                f64::INFINITY
            } else {
                10f64.powf(exponent)
            };
        }
        let number = DragValue::new(&mut t)
            .range(0.0..=f64::INFINITY)
            .speed(0.01 * before.clamp(0.01, 100.0))
            .custom_formatter(|t, _| text(t))
            .custom_parser(|text| {
                if text.trim() == "∞" { Some(f64::INFINITY) } else { text.trim().parse().ok() }
            });
        ui.add_sized([ui.available_width(), ui.spacing().interact_size.y], number)
            .accessible_name("Temperature");
    });
    if t != before
        && let Ok(new) = Temperature::new(t as f32)
    {
        *temperature = new;
    }
}

/// A temperature to three digits, or ∞.
pub(crate) fn text(t: f64) -> String {
    if t.is_infinite() {
        return "∞".to_owned();
    }
    let decimals = (2 - t.max(0.01).log10().floor() as i32).clamp(0, 3) as usize;
    let text = format!("{t:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}
