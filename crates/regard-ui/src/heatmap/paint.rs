//! Draws the cells and the marks on them.

mod around;

use core::ops::Range;

use egui::{
    Align2, Color32, Painter, Pos2, Rect, Response, Stroke, StrokeKind, TextStyle, Ui, pos2,
};
use regard_walkthrough::Marks;

use super::geometry::{BESIDE, Geometry, Seen, text_width};
use super::{Cell, Heatmap, Viewport};
use crate::colors::Colors as _;
use crate::{colors, numbers, style};

const WHOLE_TEXTURE: Rect = Rect::from_min_max(Pos2::ZERO, pos2(1.0, 1.0));
/// The maximum number of cells with numbers, on any screen.
const MOST_NUMBERS: usize = 3000;
/// The least width of a cell with a number.
const NARROW: f32 = 26.0;

pub(crate) fn paint(
    map: &Heatmap<'_>,
    ui: &Ui,
    at: &Geometry,
    seen: &Seen,
    view: &Viewport,
    response: &Response,
    hovered: Option<Cell>,
) {
    let visuals = ui.visuals();
    let within = ui.painter().with_clip_rect(seen.frame.intersect(ui.clip_rect()));
    let (rows, cols) = seen.cells(ui.clip_rect());
    let level = if map.picture.palette().is_plain() { 0 } else { picture(map, ui, &within, seen) };
    ui.painter().rect_stroke(
        seen.frame,
        0,
        visuals.widgets.noninteractive.bg_stroke,
        StrokeKind::Outside,
    );
    if level == 0 {
        annotate(map, ui, at, &within, seen, &rows, &cols);
    }
    mark(map, &within, seen);
    for cell in view.pinned.iter().filter(|(row, col)| *row < map.rows() && *col < map.cols()) {
        pin(&within, seen.rect(*cell));
    }
    let crossed =
        hovered.or(map.pointed).filter(|(row, col)| *row < map.rows() && *col < map.cols());
    if let Some(cell) = crossed {
        crosshair(&within, seen, cell, visuals.dark_mode);
    }
    around::labels(map, ui, at, seen, &rows, &cols, crossed);
    around::captions(map, ui, at, seen);
    around::color_bar(map, ui, at, seen);
    around::note(map, ui, at, seen, view, level);
    if response.has_focus() {
        ui.painter().rect_stroke(
            seen.frame.expand(3.0),
            3,
            visuals.selection.stroke,
            StrokeKind::Outside,
        );
    }
}

/// Frames the query's row and the keys' rows and columns. Neighbours share a frame. A filled corner marks a cell that was typed
/// over.
fn mark(map: &Heatmap<'_>, within: &Painter, seen: &Seen) {
    let Marks { query, keys, cols } = &map.marks;
    for rows in runs(keys, map.rows()) {
        outline(within, seen.rect_of(&rows, &(0..map.cols())), style::KEY);
    }
    let shown = query.map_or(0..map.rows(), |row| row..row + 1);
    for cols in runs(cols, map.cols()) {
        outline(within, seen.rect_of(&shown, &cols), style::KEY);
    }
    if let Some(row) = query.filter(|row| *row < map.rows()) {
        // If keys are columns, the inset makes both frames visible.
        let inset = if cols.is_empty() { 0.0 } else { -3.0 };
        outline(
            within,
            seen.rect_of(&(row..row + 1), &(0..map.cols())).expand2(egui::vec2(0.0, inset)),
            style::QUERY,
        );
    }
    for cell in map.edited {
        corner(within, seen.rect(*cell), style::EDITED);
    }
}

/// The runs of consecutive numbers below `end`, in a sorted list.
fn runs(numbers: &[usize], end: usize) -> Vec<Range<usize>> {
    let numbers: Vec<usize> = numbers.iter().copied().filter(|i| *i < end).collect();
    numbers
        .chunk_by(|a, b| a + 1 == *b)
        .filter_map(|run| Some(*run.first()?..*run.last()? + 1))
        .collect()
}

/// Draws the texture, at most at the resolution of the screen. Returns the level of its blocks.
fn picture(map: &Heatmap<'_>, ui: &Ui, within: &Painter, seen: &Seen) -> usize {
    let (rows, cols) = seen.cells(seen.frame);
    let pixels = seen.cell * ui.pixels_per_point();
    let largest = ui.input(|input| input.max_texture_side);
    let coarsest = map.picture.levels();
    let is_visible = |level: &usize| {
        let [rows, cols] = map.picture.halved(*level).map(|n| (1_usize << n) as f32);
        rows * pixels.y >= 1.0 && cols * pixels.x >= 1.0
    };
    let finest = (0..=coarsest).find(is_visible).unwrap_or(coarsest);
    let part = |level: usize| map.picture.blocks(level, rows.clone(), cols.clone());
    let fits = |level: &usize| part(*level).texture_side() <= largest;
    let level = (finest..=coarsest).find(fits).unwrap_or(coarsest);
    let (texture, part) = map.picture.texture(ui.ctx(), map.name, map.numbers, &part(level));
    let [down, across] = map.picture.halved(level);
    let cells_of = |blocks: &Range<usize>, by: usize| blocks.start << by..blocks.end << by;
    let place = |rows: &Range<usize>, cols: &Range<usize>| {
        seen.rect_of(&cells_of(rows, down), &cells_of(cols, across))
    };
    within.image(texture, place(&part.rows, &part.cols), WHOLE_TEXTURE, Color32::WHITE);
    map.picture.hatch(within, place);
    level
}

/// Writes the numbers, if all of them fit.
fn annotate(
    map: &Heatmap<'_>,
    ui: &Ui,
    at: &Geometry,
    within: &Painter,
    seen: &Seen,
    rows: &Range<usize>,
    cols: &Range<usize>,
) {
    let line = ui.text_style_height(&style::digits());
    if seen.cell.x < NARROW || seen.cell.y < line || rows.len() * cols.len() > MOST_NUMBERS {
        return;
    }
    let cells = || rows.clone().flat_map(|row| cols.clone().map(move |col| (row, col)));
    let decimals = at.decimals.unwrap_or_else(|| {
        let visible: Vec<f32> = cells().filter_map(|cell| map.number(cell)).collect();
        numbers::decimals(&visible)
    });
    let texts: Vec<(Cell, f32, String)> = cells()
        .filter_map(|cell| Some((cell, map.number(cell).filter(|x| map.is_written(*x))?)))
        .map(|(cell, x)| (cell, x, map.text(x, decimals)))
        .collect();
    let longest = texts.iter().max_by_key(|(_, _, text)| text.chars().count());
    let gap = style::enlarged(ui) * BESIDE;
    if longest.is_none_or(|(_, _, text)| text_width(text, style::digits(), ui) + gap > seen.cell.x)
    {
        return;
    }
    let font = style::digits().resolve(ui.style());
    let palette = map.picture.palette();
    let color = palette.colors();
    for (cell, x, text) in texts {
        let ink =
            if palette.is_plain() { ui.visuals().text_color() } else { colors::ink_on(color(x)) };
        let (text, ink) = colors::written(text, x, ink);
        within.text(seen.rect(cell).center(), Align2::CENTER_CENTER, text, font.clone(), ink);
    }
}

/// Draws lines to both axes and a frame around the cell, visible on every colour.
fn crosshair(within: &Painter, seen: &Seen, cell: Cell, is_dark: bool) {
    let rect = seen.rect(cell);
    let color =
        if is_dark { Color32::from_white_alpha(110) } else { Color32::from_black_alpha(150) };
    let line = Stroke::new(1.0, color);
    let (ys, xs) = if rect.height() < 4.0 {
        (vec![rect.center().y], vec![rect.center().x])
    } else {
        (vec![rect.top(), rect.bottom()], vec![rect.left(), rect.right()])
    };
    for y in ys {
        within.hline(seen.frame.left()..=rect.left(), y, line);
    }
    for x in xs {
        within.vline(x, seen.frame.top()..=rect.top(), line);
    }
    outline(within, rect, Color32::WHITE);
}

/// Draws a frame with a filled corner, which distinguishes it from the crosshair.
fn pin(painter: &Painter, rect: Rect) {
    let rect = Rect::from_center_size(rect.center(), rect.size().max(egui::Vec2::splat(6.0)));
    outline(painter, rect, style::PIN);
    corner(painter, rect, style::PIN);
}

/// Fills the upper right corner.
fn corner(painter: &Painter, rect: Rect, color: Color32) {
    let side = (0.35 * rect.height()).clamp(3.0, 9.0);
    let corner = [
        rect.right_top(),
        rect.right_top() - egui::vec2(side, 0.0),
        rect.right_top() + egui::vec2(0.0, side),
    ];
    painter.add(egui::Shape::convex_polygon(
        corner.to_vec(),
        color,
        Stroke::new(1.0, Color32::from_black_alpha(190)),
    ));
}

/// Draws a frame with a dark seam, visible on every colour.
fn outline(painter: &Painter, rect: Rect, color: Color32) {
    painter.rect_stroke(
        rect,
        1,
        Stroke::new(4.0, Color32::from_black_alpha(190)),
        StrokeKind::Middle,
    );
    painter.rect_stroke(rect, 1, Stroke::new(2.0, color), StrokeKind::Middle);
}

fn label_font(ui: &Ui) -> egui::FontId {
    TextStyle::Small.resolve(ui.style())
}
