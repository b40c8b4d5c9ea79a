//! The colour bar as a control: the map, the scale, and where the colours end.
//!
//! The user's look passes through egui's memory, because a heatmap may stand anywhere in a room.

use egui::{
    Color32, Context, Id, Mesh, Popup, PopupCloseBehavior, Rect, Response, Shape, Slider, Ui, vec2,
};

use crate::colors::{Colors as _, Look, Map, Palette};
use crate::explain;

/// Remembers the look for this frame.
pub(crate) fn remember(ctx: &Context, look: Look) {
    ctx.data_mut(|data| data.insert_temp(id(), look));
}

/// The look, as the user has left it.
pub(crate) fn remembered(ctx: &Context) -> Look {
    ctx.data(|data| data.get_temp(id())).unwrap_or_default()
}

fn id() -> Id {
    Id::unique("the look of heatmaps")
}

/// Opens the choices at a colour bar that is clicked.
pub(super) fn open(bar: &Response, palette: Palette) {
    let menu = Popup::menu(bar).close_behavior(PopupCloseBehavior::CloseOnClickOutside);
    menu.show(|ui| {
        let before = remembered(ui.ctx());
        let mut look = before;
        choices(ui, &mut look, palette);
        if look != before {
            remember(ui.ctx(), look);
            ui.ctx().request_repaint();
        }
    });
}

fn choices(ui: &mut Ui, look: &mut Look, palette: Palette) {
    explain::heading(ui, "Colours", explain::explanation!("Heatmap"));
    if palette.is_diverging() {
        ui.label("Numbers of both signs are blue below 0 and red above.");
    } else {
        for map in Map::SEQUENTIAL.iter().copied() {
            ui.horizontal(|ui| {
                let (_, swatch) = ui.allocate_space(vec2(72.0, 14.0));
                let sample =
                    Palette::weights(1.0, Look { map, logarithmic: None, end: None, ..*look });
                paint(ui, swatch, sample, true);
                ui.selectable_value(&mut look.map, map, map.name());
            });
        }
    }
    ui.separator();
    let scales = [(None, "By the data"), (Some(false), "Linear"), (Some(true), "Logarithmic")];
    ui.horizontal(|ui| {
        for (scale, name) in scales {
            ui.selectable_value(&mut look.logarithmic, scale, name);
        }
    });
    ui.horizontal(|ui| {
        ui.label("End");
        ui.selectable_value(&mut look.end, None, "By the data")
            .on_hover_text("Where few numbers outshine all others, colours end below them.");
        let mut percent = 100.0 * look.end.unwrap_or(1.0);
        let slider = Slider::new(&mut percent, 0.1..=100.0).logarithmic(true).suffix(" %");
        let slider =
            ui.add(slider).accessible_name("End of the colours, in percent of the largest number");
        if slider
            .on_hover_text("The number where colours end, as a share of the largest one.")
            .changed()
        {
            look.end = Some(percent / 100.0);
        }
    });
    ui.separator();
    ui.weak(palette.to_string());
}

/// Paints the colours of a palette, the last ones at the right or at the top.
pub(super) fn paint(ui: &Ui, bar: Rect, palette: Palette, lies: bool) {
    const STEPS: u32 = 48;
    let mut mesh = Mesh::default();
    for i in 0..=STEPS {
        let t = i as f32 / STEPS as f32;
        let color: Color32 = palette.at(t);
        let [a, b] = if lies {
            let x = egui::lerp(bar.x_range(), t);
            [egui::pos2(x, bar.top()), egui::pos2(x, bar.bottom())]
        } else {
            let y = egui::lerp(bar.bottom()..=bar.top(), t);
            [egui::pos2(bar.left(), y), egui::pos2(bar.right(), y)]
        };
        mesh.colored_vertex(a, color);
        mesh.colored_vertex(b, color);
        if i > 0 {
            let first = 2 * (i - 1);
            mesh.add_triangle(first, first + 1, first + 2);
            mesh.add_triangle(first + 1, first + 2, first + 3);
        }
    }
    ui.painter().add(Shape::mesh(mesh));
}
