//! Drawing.

use core::f32::consts::FRAC_PI_2;
use std::sync::Arc;

use egui::epaint::TextShape;
use egui::text::{LayoutJob, TextWrapping};
use egui::{
    Align2, Color32, FontId, Galley, Painter, Pos2, Rect, Response, Stroke, StrokeKind, TextStyle, TextureId, Ui,
};
use egui::{pos2, vec2};

use super::geometry::{BAR, GAP, Geometry, bar_label};
use super::{Cell, Heatmap};
use crate::ui::colors::{self, Palette};
use crate::ui::{numbers, style};

const WHOLE_TEXTURE: Rect = Rect::from_min_max(Pos2::ZERO, pos2(1.0, 1.0));

pub fn paint(map: &Heatmap<'_>, ui: &Ui, at: &Geometry, cells: Rect, response: &Response, hovered: Option<Cell>) {
    let painter = ui.painter();
    let visuals = ui.visuals();
    if let Some([picture, bar]) = map.textures {
        painter.image(picture, cells, WHOLE_TEXTURE, Color32::WHITE);
        color_bar(map.palette, ui, cells, bar);
    }
    painter.rect_stroke(cells, 0, visuals.widgets.noninteractive.bg_stroke, StrokeKind::Outside);
    if let Some(decimals) = at.annotated {
        annotate(map, ui, at, cells, decimals);
    }
    labels(map, ui, at, cells);
    captions(map, ui, at, cells);
    for (row, color) in map.marked.into_iter().zip([style::QUERY, style::KEY]) {
        if let Some(row) = row.filter(|&row| row < map.rows()) {
            outline(painter, row_rect(at, cells, row), color);
        }
    }
    if let Some(cell) = hovered.or(map.pointed) {
        crosshair(ui, at, cells, cell);
    }
    if response.has_focus() {
        painter.rect_stroke(cells.expand(3.0), 3, visuals.selection.stroke, StrokeKind::Outside);
    }
}

fn row_rect(at: &Geometry, cells: Rect, row: usize) -> Rect {
    let first = at.rect(cells, (row, 0));
    Rect::from_x_y_ranges(cells.x_range(), first.y_range())
}

/// The numbers, and hatching where there is none.
fn annotate(map: &Heatmap<'_>, ui: &Ui, at: &Geometry, cells: Rect, decimals: usize) {
    let painter = ui.painter();
    let font = style::digits().resolve(ui.style());
    for (i, &x) in map.numbers.iter().enumerate() {
        let rect = at.rect(cells, (i / map.cols(), i % map.cols()));
        if !ui.is_rect_visible(rect) {
            continue;
        }
        let ink = match map.palette {
            Palette::Plain => ui.visuals().text_color(),
            palette => colors::ink_on(palette.color(x)),
        };
        let no_number = x.is_nan() || x == f32::NEG_INFINITY;
        if no_number && map.palette != Palette::Plain {
            hatch(painter, rect, ink.gamma_multiply(0.25));
        }
        painter.text(rect.center(), Align2::CENTER_CENTER, numbers::fixed(x, decimals), font.clone(), ink);
    }
}

fn hatch(painter: &Painter, rect: Rect, color: Color32) {
    const STEP: f32 = 7.0;
    let painter = painter.with_clip_rect(rect.intersect(painter.clip_rect()));
    let mut x = rect.left() - rect.height() + STEP / 2.0;
    while x < rect.right() {
        painter.line_segment([pos2(x, rect.bottom()), pos2(x + rect.height(), rect.top())], Stroke::new(1.0, color));
        x += STEP;
    }
}

fn labels(map: &Heatmap<'_>, ui: &Ui, at: &Geometry, cells: Rect) {
    let font = TextStyle::Small.resolve(ui.style());
    for row in (0..map.rows()).step_by(at.row_stride()) {
        let rect = at.rect(cells, (row, 0));
        let color = match map.marked {
            [Some(query), _] if query == row => style::readable(style::QUERY, ui.visuals()),
            [_, Some(key)] if key == row => style::readable(style::KEY, ui.visuals()),
            _ => ui.visuals().text_color(),
        };
        let galley = elided(ui, &map.row_labels[row], &font, at.row_label, color);
        let corner = rect.left_center() - vec2(GAP + galley.size().x, galley.size().y / 2.0);
        ui.painter().galley(corner, galley, color);
    }
    let color = ui.visuals().text_color();
    for col in (0..map.cols()).step_by(at.col_stride) {
        let rect = at.rect(cells, (0, col));
        let galley = elided(ui, &map.col_labels[col], &font, at.cell.x * at.col_stride as f32 - 2.0, color);
        let corner = rect.center_top() - vec2(galley.size().x / 2.0, 2.0 + galley.size().y);
        ui.painter().galley(corner, galley, color);
    }
}

/// One line of text that ends in "…" where there is no room for it.
fn elided(ui: &Ui, text: &str, font: &FontId, max_width: f32, color: Color32) -> Arc<Galley> {
    let mut job = LayoutJob::simple_singleline(text.to_owned(), font.clone(), color);
    job.wrap = TextWrapping::truncate_at_width(max_width.ceil() + 0.5);
    ui.painter().layout_job(job)
}

fn captions(map: &Heatmap<'_>, ui: &Ui, at: &Geometry, cells: Rect) {
    let Some([down, across]) = map.captions else { return };
    let font = TextStyle::Small.resolve(ui.style());
    let color = ui.visuals().weak_text_color();
    let above = cells.center_top() - vec2(0.0, 2.0 + at.line + 1.5 * GAP / 2.0);
    ui.painter().text(above, Align2::CENTER_BOTTOM, across, font.clone(), color);
    let galley = ui.painter().layout_no_wrap(down.to_owned(), font, color);
    let x = cells.left() - 2.0 * GAP - at.row_label - at.line;
    let y = cells.center().y + galley.size().x / 2.0;
    ui.painter().add(
        TextShape::new(pos2(x, y.max(cells.top() + galley.size().x - at.line)), galley, color).with_angle(-FRAC_PI_2),
    );
}

fn color_bar(palette: Palette, ui: &Ui, cells: Rect, texture: TextureId) {
    let height = cells.height().min(240.0);
    let bar = Rect::from_min_size(cells.right_top() + vec2(GAP, 0.0), vec2(BAR, height));
    ui.painter().image(texture, bar, WHOLE_TEXTURE, Color32::WHITE);
    ui.painter().rect_stroke(bar, 0, ui.visuals().widgets.noninteractive.bg_stroke, StrokeKind::Outside);
    let [low, middle, high] = palette.marks();
    let font = TextStyle::Small.resolve(ui.style());
    let color = ui.visuals().weak_text_color();
    let label = |y: f32, x: f32, align: Align2| {
        ui.painter().text(pos2(bar.right() + GAP, y), align, bar_label(x), font.clone(), color);
    };
    label(bar.top(), high, Align2::LEFT_TOP);
    label(bar.bottom(), low, Align2::LEFT_BOTTOM);
    if height > 60.0 {
        label(bar.center().y, middle, Align2::LEFT_CENTER);
    }
}

/// Lines to both axes and a frame around the cell, seen on every colour.
fn crosshair(ui: &Ui, at: &Geometry, cells: Rect, cell: Cell) {
    let rect = at.rect(cells, cell);
    let faint = Stroke::new(1.0, Color32::from_black_alpha(150));
    let painter = ui.painter();
    for y in [rect.top(), rect.bottom()] {
        painter.hline(cells.left()..=rect.left(), y, faint);
    }
    for x in [rect.left(), rect.right()] {
        painter.vline(x, cells.top()..=rect.top(), faint);
    }
    outline(painter, rect, Color32::WHITE);
}

/// A frame with a dark seam, seen on every colour.
fn outline(painter: &Painter, rect: Rect, color: Color32) {
    painter.rect_stroke(rect, 1, Stroke::new(4.0, Color32::from_black_alpha(190)), StrokeKind::Middle);
    painter.rect_stroke(rect, 1, Stroke::new(2.0, color), StrokeKind::Middle);
}
