//! A pad on which an image of a few grey pixels is drawn, for a model that reads such images.

use egui::accesskit::Role;
use egui::{
    Align2, Button, Color32, Mesh, Pos2, Rect, Response, Sense, Stroke, StrokeKind, TextStyle, Ui,
    Vec2, WidgetInfo, pos2, vec2,
};
use regard_session::model::{Drawing, blank};

/// The least and the largest side of the pad, in points, and the space between the samples.
const PAD: [f32; 2] = [104.0, 144.0];
const GAP: f32 = 4.0;
/// The relative width of the digits beside a pad, and the space around both.
const BESIDE: f32 = 0.75;
const AROUND: f32 = 24.0;
/// The samples as the keys of a telephone. The last key takes all ink away.
const KEYS: [&[u8]; 4] = [&[1, 2, 3], &[4, 5, 6], &[7, 8, 9], &[0]];
/// The width of the pen as a share of the image: that of the digits of `digits`.
const PEN: f32 = 0.15;

/// Draws a line with the pen, or takes its ink away. The places are in pixels.
fn stroke(drawing: &mut Drawing, [from, to]: [Pos2; 2], erases: bool) {
    let [height, width] = drawing.size;
    let radius = 0.5 * PEN * height.max(width) as f32;
    let along = to - from;
    for (place, ink) in drawing.ink.iter_mut().enumerate() {
        let pixel = pos2((place % width) as f32 + 0.5, (place / width) as f32 + 0.5);
        let share = (pixel - from).dot(along) / along.length_sq().max(f32::MIN_POSITIVE);
        let distance = pixel.distance(from + along * share.clamp(0.0, 1.0));
        // The share of a pixel that the line covers, if the line is long and straight.
        let covered = (255.0 * (radius + 0.5 - distance).clamp(0.0, 1.0)) as u8;
        *ink = if erases { (*ink).min(255 - covered) } else { (*ink).max(covered) };
    }
}

fn paint(drawing: &Drawing, ui: &Ui, rect: Rect) {
    let [height, width] = drawing.size.map(|side| side.max(1));
    let cell = vec2(rect.width() / width as f32, rect.height() / height as f32);
    let mut mesh = Mesh::default();
    for (place, ink) in drawing.ink.iter().enumerate() {
        let at = vec2((place % width) as f32, (place / width) as f32);
        let pixel = Rect::from_min_size(rect.min + cell * at, cell);
        mesh.add_colored_rect(pixel, Color32::from_gray(*ink));
    }
    ui.painter().add(mesh);
}

/// The side of each of `pads` pads with digits beside them in this room.
pub(super) fn side(room: Vec2, pads: usize) -> f32 {
    let [least, most] = PAD;
    let width = (room.x / pads as f32 - AROUND) / (1.0 + BESIDE);
    (0.22 * room.y).clamp(least, most).min(width.max(KEYS.len() as f32 * GAP)).floor()
}

/// Shows the pad, and beside it digits to begin with if the model reads as many pixels. `side` is its longer side in points, and
/// `name` tells it from another.
pub(super) fn show(
    ui: &mut Ui,
    drawing: &mut Option<Drawing>,
    size: [usize; 2],
    side: f32,
    name: &str,
) {
    // A session may have an image of another size.
    drawing.take_if(|drawing| drawing.size() != Some(size));
    pad(ui, drawing, size, side, name);
    let key = (side - 3.0 * GAP) / KEYS.len() as f32;
    ui.vertical(|ui| {
        ui.spacing_mut().item_spacing = Vec2::splat(GAP);
        if size != [regard_digits::SIDE; 2] {
            clear(ui, drawing, size, key, name);
            return;
        }
        for labels in KEYS {
            ui.horizontal(|ui| {
                for label in labels {
                    sample(ui, drawing, *label, key, name);
                }
                if labels.len() == 1 {
                    clear(ui, drawing, size, key, name);
                }
            });
        }
    });
}

/// Shows the button that takes all ink away, as wide as two keys.
fn clear(ui: &mut Ui, drawing: &mut Option<Drawing>, size: [usize; 2], key: f32, name: &str) {
    ui.spacing_mut().button_padding.x = GAP;
    let button = Button::new("Clear").min_size(vec2(2.0 * key + GAP, key));
    let has_ink = drawing.as_ref().is_some_and(|drawing| drawing.ink.iter().any(|ink| *ink > 0));
    let button = ui.add_enabled(has_ink, button).on_hover_text("Take all ink away.");
    if button.accessible_name(format!("{name}: Clear")).clicked() {
        // The model reads the empty pad, so that its heads stay where they are.
        *drawing = Some(blank(size));
    }
}

fn pad(
    ui: &mut Ui,
    drawing: &mut Option<Drawing>,
    size: [usize; 2],
    side: f32,
    name: &str,
) -> Response {
    let [height, width] = size.map(|side| side as f32);
    let scale = side / height.max(width);
    let (rect, response) = ui.allocate_exact_size(vec2(width, height) * scale, Sense::drag());
    response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, name));
    if response.is_pointer_button_down_on()
        && let Some(to) = response.interact_pointer_pos()
    {
        let (moved, erases) = ui.input(|input| {
            let began = input.pointer.any_pressed();
            let moved = if began { Vec2::ZERO } else { input.pointer.delta() };
            (moved, input.pointer.secondary_down() || input.modifiers.shift)
        });
        let pixel = |at: Pos2| ((at - rect.min) / scale).to_pos2();
        let drawing = drawing.get_or_insert_with(|| blank(size));
        stroke(drawing, [to - moved, to].map(pixel), erases);
    }
    let painter = ui.painter();
    painter.rect_filled(rect, 0, Color32::BLACK);
    if let Some(drawing) = drawing {
        paint(drawing, ui, rect);
    } else {
        let (font, color) = (TextStyle::Small.resolve(ui.style()), Color32::from_gray(150));
        painter.text(rect.center(), Align2::CENTER_CENTER, "Draw here", font, color);
    }
    let stroke = ui.style().interact(&response).bg_stroke;
    painter.rect_stroke(rect, 0, Stroke::new(1.0, stroke.color), StrokeKind::Outside);
    response.on_hover_text(
        "Draw with the pointer or a finger; the second button, or Shift, takes ink away.",
    )
}

/// Shows an image of a digit. A click begins with it, and another click with the next one.
fn sample(ui: &mut Ui, drawing: &mut Option<Drawing>, label: u8, side: f32, name: &str) {
    let shown = drawing.as_ref().filter(|drawing| drawing.is_of(label)).cloned();
    let empty = || blank([regard_digits::SIDE; 2]);
    let Some(sample) = shown.or_else(|| empty().next_of(label)) else { return };
    let (rect, response) = ui.allocate_exact_size(Vec2::splat(side), Sense::click());
    response.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("{name}: {label}")));
    paint(&sample, ui, rect);
    let stroke = ui.style().interact(&response).bg_stroke;
    ui.painter().rect_stroke(rect, 0, stroke, StrokeKind::Inside);
    let response =
        response.on_hover_text(format!("A {label} that training held back; again for another."));
    if response.clicked() {
        *drawing = drawing.take().unwrap_or_else(empty).next_of(label);
    }
}
