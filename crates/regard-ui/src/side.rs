//! The panel at the left of each room, with its controls.

use egui::{Area, Context, Id, Order, Panel, ScrollArea, Ui, vec2};

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

/// Shows the panel. In a narrow window, it is a drawer that lies over the page.
pub(crate) fn show<R>(ui: &mut Ui, name: &'static str, contents: impl FnOnce(&mut Ui) -> R) -> R {
    let width = if ui.available_width() >= 1100.0 { 288.0 } else { 272.0 };
    let frame = style::panel(ui, 16, 12);
    let scrolled = |ui: &mut Ui| ScrollArea::vertical().auto_shrink(false).show(ui, contents).inner;
    if ui.ctx().content_rect().width() >= NARROW {
        let panel = Panel::left(name).resizable(false).exact_size(width).frame(frame);
        return panel.show(ui, scrolled).inner;
    }
    let place = ui.available_rect_before_wrap();
    let drawer = Area::new(Id::unique(name)).order(Order::Middle).fixed_pos(place.min);
    let frame = frame.shadow(ui.visuals().window_shadow);
    let shown = drawer.show(ui.ctx(), |ui| {
        let frame = frame.show(ui, |ui| {
            let inner = vec2(width.min(place.width() - 48.0), place.height()) - vec2(32.0, 24.0);
            ui.set_min_size(inner);
            ui.set_max_size(inner);
            scrolled(ui)
        });
        frame.inner
    });
    let pressed = ui.input(|input| {
        let outside = input.pointer.interact_pos().filter(|at| place.contains(*at));
        input.pointer.primary_pressed()
            && outside.is_some_and(|at| !shown.response.rect.contains(at))
    });
    // A menu over the drawer is a part of it.
    let is_on_page = || {
        let layer =
            ui.input(|input| input.pointer.interact_pos()).and_then(|at| ui.ctx().layer_id_at(at));
        layer.is_none_or(|layer| layer.order == Order::Background)
    };
    if pressed && is_on_page() {
        ui.data_mut(|data| data.insert_temp(closed(), true));
    }
    shown.inner
}

/// Whether the user has closed the drawer, by a click beside it, since the last call.
pub(crate) fn was_closed(ctx: &Context) -> bool {
    ctx.data_mut(|data| data.remove_temp::<bool>(closed())).is_some()
}

fn closed() -> Id {
    Id::unique("the drawer is closed")
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
