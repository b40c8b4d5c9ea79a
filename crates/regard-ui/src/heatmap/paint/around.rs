//! Draws the surroundings of the cells: labels, captions, the colour bar, and a note on the visible part.

use core::f32::consts::FRAC_PI_2;
use core::ops::Range;
use std::sync::Arc;

use egui::epaint::TextShape;
use egui::{
    Align2, Color32, CursorIcon, Galley, Rect, Role, Sense, StrokeKind, Ui, WidgetInfo, pos2, vec2,
};

use super::label_font;
use crate::heatmap::geometry::{BAR, GAP, Geometry, Seen};
use crate::heatmap::{Cell, Heatmap, Viewport, look};
use crate::style;

/// Draws the labels of the visible cells. They stay on the screen while the page scrolls.
pub(crate) fn labels(
    map: &Heatmap<'_>,
    ui: &Ui,
    at: &Geometry,
    seen: &Seen,
    rows: &Range<usize>,
    cols: &Range<usize>,
    crossed: Option<Cell>,
) {
    let inset = at.inset();
    let left = seen.frame.left() - inset.x - GAP;
    let top = seen.frame.top() - inset.y - 2.0;
    // Operands between the labels and the cells scroll with both.
    let top = if inset.y > 0.0 { top } else { top.max(ui.clip_rect().top() + at.above + 2.0) };
    // A difference of half a point is rounding.
    let scrolled = top > seen.frame.top() + 0.5;
    let edge = if scrolled {
        covered(top + 2.0, seen.frame.top(), seen.cell.y, at.line).min(seen.frame.bottom())
    } else {
        seen.frame.top()
    };
    if scrolled && top < seen.frame.bottom() {
        let strip = Rect::from_x_y_ranges(seen.frame.x_range(), top - at.above - 2.0..=edge);
        ui.painter().rect_filled(strip, 0, ui.visuals().window_fill);
    }
    let normal = ui.visuals().text_color();
    let row_label = |row: usize, backed: bool| {
        if !map.has_row_labels {
            return;
        }
        let color = if map.marks.query == Some(row) {
            style::readable(style::QUERY, ui.visuals())
        } else if map.marks.keys.contains(&row) {
            style::readable(style::KEY, ui.visuals())
        } else {
            normal
        };
        let galley = elided(ui, &map.row_labels[row], at.row_label, color);
        let y = seen.rect((row, 0)).center().y.clamp(seen.frame.top(), seen.frame.bottom());
        place(ui, pos2(left - galley.size().x, y - galley.size().y / 2.0), galley, color, backed);
    };
    // The labels of the crosshair are always written, and displace their neighbours.
    let over_row =
        crossed.map(|cell| cell.0).filter(|row| rows.contains(row) && seen.cell.y < at.line);
    let stride = strided((at.line / seen.cell.y).ceil() as usize);
    let y = |row: usize| seen.rect((row, 0)).center().y;
    let has_room = |row: &usize| over_row.is_none_or(|over| (y(*row) - y(over)).abs() >= at.line);
    let is_seen = |row: &usize| seen.frame.y_range().contains(y(*row)) && y(*row) > edge;
    for row in rows.clone().filter(|row| row % stride == 0 && is_seen(row) && has_room(row)) {
        row_label(row, false);
    }
    if let Some(row) = over_row {
        row_label(row, true);
    }

    // Letters are lower than their line.
    let (least, needed) =
        if at.is_upright { (0.7 * at.line, at.line) } else { (at.col_label, at.col_label + 6.0) };
    let stride = if least <= seen.cell.x {
        1
    } else {
        strided(((needed + 2.0) / seen.cell.x).ceil() as usize)
    };
    let col_label = |col: usize, backed: bool| {
        let is_key = map.marks.cols.contains(&col);
        let color = if is_key { style::readable(style::KEY, ui.visuals()) } else { normal };
        let galley = elided(
            ui,
            &map.col_labels[col],
            at.col_label.max(seen.cell.x).min(if at.is_upright { at.above } else { f32::INFINITY }),
            color,
        );
        let size = if at.is_upright { galley.size().yx() } else { galley.size() };
        let middle = seen.rect((0, col)).center().x;
        let x = if backed { middle.clamp(seen.frame.left(), seen.frame.right()) } else { middle };
        let corner = pos2(x - size.x / 2.0, top - size.y);
        if at.is_upright {
            back(ui, Rect::from_min_size(corner, size), backed);
            let shape = TextShape::new(corner + vec2(0.0, size.y), galley, color);
            ui.painter().add(shape.with_angle(-FRAC_PI_2));
        } else {
            place(ui, corner, galley, color, backed);
        }
    };
    // The columns of the crosshair and of the marked keys always have their names, which displace their neighbours'.
    let always: Vec<usize> = crossed
        .map(|cell| cell.1)
        .into_iter()
        .chain(map.marks.cols.iter().copied())
        .filter(|col| stride > 1 && cols.contains(col))
        .collect();
    let x = |col: usize| seen.rect((0, col)).center().x;
    let has_room = |col: &usize| always.iter().all(|over| (x(*col) - x(*over)).abs() >= needed);
    let is_seen =
        |col: &usize| col.is_multiple_of(stride) && seen.frame.x_range().contains(x(*col));
    for col in cols.clone().filter(|col| is_seen(col) && has_room(col)) {
        col_label(col, false);
    }
    for col in always {
        col_label(col, true);
    }
}

/// The end of the strip below the labels that stay on the screen: `least`, or the next edge of a row of cells that are large
/// enough for digits, which it would cut.
fn covered(least: f32, first: f32, cell: f32, line: f32) -> f32 {
    if cell < line { least } else { first + ((least - first) / cell).ceil() * cell }
}

/// A stride of 1, 2 or 5 times a power of ten, so that labels are at round numbers and stay while the user zooms.
fn strided(least: usize) -> usize {
    let mut unit = 1;
    loop {
        for times in [1, 2, 5] {
            if unit * times >= least {
                return unit * times;
            }
        }
        unit *= 10;
    }
}

fn place(ui: &Ui, corner: egui::Pos2, galley: Arc<Galley>, color: Color32, backed: bool) {
    back(ui, Rect::from_min_size(corner, galley.size()), backed);
    ui.painter().galley(corner, galley, color);
}

/// Covers the drawing below a label that displaces others.
fn back(ui: &Ui, label: Rect, backed: bool) {
    if backed {
        ui.painter().rect_filled(label.expand2(vec2(3.0, 1.0)), 2, ui.visuals().window_fill);
    }
}

/// One line of text, which ends in "…" if it does not fit.
fn elided(ui: &Ui, text: &str, max_width: f32, color: Color32) -> Arc<Galley> {
    style::truncated(ui, text, label_font(ui), max_width.ceil() + 0.5, color)
}

pub(crate) fn captions(map: &Heatmap<'_>, ui: &Ui, at: &Geometry, seen: &Seen) {
    let Some([down, across]) = map.captions else { return };
    let cells = seen.frame;
    let color = ui.visuals().weak_text_color();
    let above = cells.center_top() - vec2(0.0, 2.0 + at.above + 1.5 * GAP / 2.0);
    ui.painter().text(above, Align2::CENTER_BOTTOM, across, label_font(ui), color);
    let galley = ui.painter().layout_no_wrap(down.to_owned(), label_font(ui), color);
    let x = cells.left() - 2.0 * GAP - at.row_label - at.line;
    let y = cells.center().y + galley.size().x / 2.0;
    ui.painter().add(
        TextShape::new(pos2(x, y.max(cells.top() + galley.size().x - at.line)), galley, color)
            .with_angle(-FRAC_PI_2),
    );
}

/// Draws the colour bar, which opens the choice of colours.
pub(crate) fn color_bar(map: &Heatmap<'_>, ui: &Ui, at: &Geometry, seen: &Seen) {
    let palette = map.picture.palette();
    if palette.is_plain() {
        return;
    }
    let unit = label_font(ui).size / style::SMALL;
    let height = seen.frame.height().min(240.0 * unit);
    let bar = Rect::from_min_size(seen.frame.right_top() + vec2(GAP, 0.0), vec2(BAR, height));
    let whole = Rect::from_min_size(bar.min, vec2(at.right - GAP, height));
    let response = ui.interact(whole, ui.scope_id().with((map.name, "colours")), Sense::click());
    let name = format!("Colours of {}: {palette}", map.name);
    response.widget_info(|| WidgetInfo::labeled(Role::Button, true, &name));
    look::paint(ui, bar, palette, false);
    let visuals = ui.visuals();
    let edge = if response.hovered() || response.has_focus() {
        visuals.selection.stroke
    } else {
        visuals.widgets.noninteractive.bg_stroke
    };
    ui.painter().rect_stroke(bar, 0, edge, StrokeKind::Outside);
    look::open(&response, palette);
    response
        .on_hover_cursor(CursorIcon::PointingHand)
        .on_hover_text(format!("{palette}. Click to change."));
    let [low, middle, high] = palette.ticks();
    let color = ui.visuals().weak_text_color();
    let label = |y: f32, tick: String, align: Align2| {
        ui.painter().text(pos2(bar.right() + GAP, y), align, tick, label_font(ui), color);
    };
    label(bar.top(), high, Align2::LEFT_TOP);
    label(bar.bottom(), low, Align2::LEFT_BOTTOM);
    if height > 60.0 * unit {
        label(bar.center().y, middle, Align2::LEFT_CENTER);
    }
}

/// Draws the note below the cells: whether every cell is visible, and how to see more.
pub(crate) fn note(
    map: &Heatmap<'_>,
    ui: &Ui,
    at: &Geometry,
    seen: &Seen,
    view: &Viewport,
    level: usize,
) {
    if !at.note {
        return;
    }
    let [rows, cols] = map.picture.halved(level).map(|n| 1_usize << n);
    let largest = if map.picture.palette().is_diverging() { "farthest from 0" } else { "largest" };
    let text = match (level, view.is_whole()) {
        (0, true) => return,
        (0, false) => "double click shows all".to_owned(),
        (_, true) => format!("each pixel is the {largest} of {rows} × {cols} cells"),
        (_, false) => {
            format!("each pixel is the {largest} of {rows} × {cols} cells; double click shows all")
        }
    };
    let galley = elided(
        ui,
        &text,
        seen.frame.right() - ui.min_rect().left().max(ui.clip_rect().left()),
        Color32::PLACEHOLDER,
    );
    let x = (seen.frame.right() - galley.size().x).min(seen.frame.left());
    let color = ui.visuals().weak_text_color();
    ui.painter().galley(pos2(x, seen.frame.bottom() + 2.0), galley, color);
}

#[cfg(test)]
mod tests {
    use super::{covered, strided};

    #[test]
    fn labels_that_stay_cover_whole_rows_of_digits() {
        for (least, edge) in [(100.0, 100.0), (101.0, 120.0), (119.9, 120.0), (120.1, 140.0)] {
            assert!((covered(least, 40.0, 20.0, 14.0) - edge).abs() < 1e-3, "{least}");
        }
        assert_eq!(covered(101.0, 40.0, 3.0, 14.0), 101.0, "small cells have no digits");
    }

    #[test]
    fn labels_are_at_round_numbers() {
        for (least, stride) in
            [(0, 1), (1, 1), (2, 2), (3, 5), (6, 10), (11, 20), (150, 200), (501, 1000)]
        {
            assert_eq!(strided(least), stride);
        }
    }
}
