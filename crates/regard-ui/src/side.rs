//! The panel at the left of each room, with its controls.

use egui::{Panel, ScrollArea, Ui};

use super::style;

/// A narrower window hides the panel until the user asks for it.
const NARROW: f32 = 600.0;

/// Whether a window of this width shows the panel, given the user's choice.
pub(crate) fn is_shown(width: f32, chosen: Option<bool>) -> bool {
    chosen.unwrap_or(width >= NARROW)
}

/// The choice after the panel is shown or hidden.
pub(crate) fn toggled(width: f32, chosen: Option<bool>) -> Option<bool> {
    let wanted = !is_shown(width, chosen);
    // Agreeing with the width is not a choice: the panel still follows the width.
    (wanted != is_shown(width, None)).then_some(wanted)
}

/// Shows the panel.
pub(crate) fn show<R>(ui: &mut Ui, name: &'static str, contents: impl FnOnce(&mut Ui) -> R) -> R {
    let width = if ui.available_width() >= 1100.0 { 288.0 } else { 272.0 };
    let panel =
        Panel::left(name).resizable(false).exact_size(width).frame(style::panel(ui, 16, 12));
    panel.show(ui, |ui| ScrollArea::vertical().auto_shrink(false).show(ui, contents).inner).inner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_decides_until_somebody_chooses_otherwise() {
        let (wide, narrow) = (900.0, 450.0);
        assert!(is_shown(wide, None) && !is_shown(narrow, None));
        assert_eq!(toggled(wide, None), Some(false));
        assert_eq!(toggled(wide, Some(false)), None);
        assert_eq!(toggled(narrow, None), Some(true));
        assert_eq!(toggled(narrow, Some(true)), None);
    }
}
