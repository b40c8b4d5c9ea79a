//! The outline: all steps as small live matrices, from the tokens to the output. It stays beside the page, so that every change
//! shows its effect at once, and leads to the steps.
//!
//! Results (weights and outputs) get cells that are large enough for their numbers. The other steps share the rest of the
//! height. A yellow frame marks the changes of the last edit.

use std::sync::Arc;

use egui::accesskit::Role;
use egui::{
    Color32, EventFilter, Galley, Id, Key, Modifiers, Rect, Response, ScrollArea, Sense, Stroke,
    StrokeKind, TextStyle, Ui, Vec2, WidgetInfo, pos2, vec2,
};
use regard_walkthrough::{Kind, Selection, Step, StepKey, Walkthrough};

use super::{Cache, formula, rows};
use crate::colors::{self, Colors as _};
use crate::{counted, numbers, style};

/// The gap between two thumbnails.
const GAP: f32 = 10.0;
/// The gap between two rows, with the arrow in it.
const BETWEEN: f32 = 13.0;
/// The largest cell of a result, and of any other step.
const RESULT: Vec2 = vec2(52.0, 30.0);
const SMALL: Vec2 = vec2(20.0, 13.0);
/// The smallest height of a result's cell, if there are few rows.
const READABLE: f32 = 15.0;
const READABLE_WIDE: f32 = 34.0;
/// With more columns, the results of a strip have no numbers.
const FEW: usize = 6;
/// An outline of this width has text of the usual size.
const USUAL: f32 = 280.0;
const MOST_ENLARGED: f32 = 2.0;
/// The least width of a cell with a number.
const ANNOTATED: f32 = 30.0;
/// The gap between two numbers side by side.
const APART: f32 = 3.0;
/// The height of the thumbnails in a strip.
const STRIP: f32 = 52.0;

pub(crate) struct Outline<'a> {
    pub(crate) cache: &'a Cache,
    pub(crate) walkthrough: &'a Walkthrough,
    /// The tokens that are marked.
    pub(crate) selection: Selection,
    /// The step at the top of the page.
    pub(crate) here: Option<StepKey>,
    /// The steps whose numbers are shown.
    pub(crate) shown: usize,
}

/// The least width of a thumbnail.
const NARROWEST: f32 = 22.0;

impl Outline<'_> {
    /// Shows the outline from top to bottom. Returns the step that was chosen.
    pub(crate) fn column(&self, ui: &mut Ui) -> Option<StepKey> {
        // The outline of a large window has large cells.
        style::enlarge(ui, (ui.available_width() / USUAL).clamp(1.0, MOST_ENLARGED));
        self.heading(ui);
        let rows = rows::of_outline(&self.walkthrough.steps);
        let width = ui.available_width();
        let line = ui.text_style_height(&TextStyle::Small);
        let room = ui.available_height() - rows.len() as f32 * (line + BETWEEN);
        let cells = sizes(&rows, width, room, style::enlarged(ui));
        let mut chosen = None;
        ScrollArea::vertical().id_salt("outline").auto_shrink(false).show(ui, |ui| {
            ui.spacing_mut().item_spacing = vec2(0.0, 0.0);
            for (i, (row, cell)) in rows.iter().zip(cells).enumerate() {
                if i > 0 {
                    arrow(ui);
                }
                let wide: f32 = row.iter().map(|step| size(ui, step, cell).x).sum();
                let wide = wide + GAP * (row.len() - 1) as f32;
                ui.horizontal(|ui| {
                    ui.add_space(((width - wide) / 2.0).max(0.0));
                    for (j, step) in row.iter().enumerate() {
                        if j > 0 {
                            ui.add_space(GAP);
                        }
                        chosen = self.thumbnail(ui, step, cell).or(chosen);
                    }
                });
            }
        });
        chosen
    }

    /// Shows the results from left to right, then the steps around the one at the top of the page, as many as fit.
    /// Returns the step that was chosen.
    pub(crate) fn strip(&self, ui: &mut Ui) -> Option<StepKey> {
        let results = rows::results(&self.walkthrough.steps);
        let cell = |step: &Step| {
            let height = STRIP / step.matrix.rows().max(1) as f32;
            let is_readable = rows::is_result(step) && step.matrix.cols() <= FEW;
            let wide = if is_readable { READABLE_WIDE } else { 1.8 * height.max(5.0) };
            vec2(wide, height).min(most(step))
        };
        let mut left = ui.available_width();
        let width = |step: &Step| size(ui, step, cell(step)).x + GAP;
        let fits = |left: &mut f32, step: &&Step| {
            *left -= width(step);
            *left >= 0.0
        };
        let shown: Vec<&Step> =
            results.iter().copied().take_while(|step| fits(&mut left, step)).collect();
        let is_other = |step: &&Step| results.iter().all(|result| result.key != step.key);
        let others: Vec<&Step> = self.walkthrough.steps.iter().filter(is_other).collect();
        let here = others.iter().position(|step| self.here == Some(step.key)).unwrap_or(0);
        left -= 3.0 * GAP;
        let nearby: Vec<&Step> = others[here.saturating_sub(1).min(others.len())..]
            .iter()
            .copied()
            .take_while(|step| fits(&mut left, step))
            .collect();
        let mut chosen = None;
        ui.horizontal_top(|ui| {
            ui.spacing_mut().item_spacing.x = GAP;
            for step in shown {
                chosen = self.thumbnail(ui, step, cell(step)).or(chosen);
            }
            if !nearby.is_empty() {
                ui.separator();
            }
            for step in nearby {
                chosen = self.thumbnail(ui, step, cell(step)).or(chosen);
            }
        });
        chosen
    }

    /// Shows the size of the last edit's changes.
    fn heading(&self, ui: &mut Ui) {
        let changed =
            self.walkthrough.steps.iter().filter(|s| self.cache.changed(s.key).is_some()).count();
        let text = match changed {
            0 => "Outline".to_owned(),
            n => format!("The last edit changed {}", counted(n, "step")),
        };
        ui.horizontal(|ui| {
            ui.spacing_mut().item_spacing.x = 5.0;
            if changed > 0 {
                let (_, rect) = ui.allocate_space(vec2(9.0, 9.0));
                ui.painter().rect_filled(rect, 0, style::EDITED);
            }
            ui.small(text);
        });
    }

    fn thumbnail(&self, ui: &mut Ui, step: &Step, cell: Vec2) -> Option<StepKey> {
        let (_, rect) = ui.allocate_space(size(ui, step, cell));
        let response = ui.interact(rect, id(step.key), Sense::click());
        let name = self.name(step);
        let is_here = self.here == Some(step.key);
        response.widget_info(|| WidgetInfo::selected(Role::Button, true, is_here, &name));
        if ui.is_rect_visible(rect) {
            self.paint(ui, step, cell, rect, &response);
        }
        let reached = self.reached(ui, step, &response);
        let clicked = response.clicked().then_some(step.key);
        response.on_hover_text(format!("{name}\n{}", step.meaning));
        clicked.or(reached)
    }

    /// The number of a step, from 1.
    fn number(&self, step: &Step) -> usize {
        let place = self.walkthrough.steps.iter().position(|other| other.key == step.key);
        place.unwrap_or(0) + 1
    }

    /// "Step 5: Scores QKᵀ, changed by up to 0.12".
    fn name(&self, step: &Step) -> String {
        let name = format!("Step {}: {}", self.number(step), step.name);
        match self.cache.changed(step.key) {
            Some(most) if most.is_finite() => {
                format!("{name}, changed by up to {}", numbers::spoken(most))
            }
            Some(_) => format!("{name}, changed"),
            None => name,
        }
    }

    /// The step to which an arrow key leads, if this one has the focus.
    fn reached(&self, ui: &Ui, step: &Step, response: &Response) -> Option<StepKey> {
        if !response.has_focus() {
            return None;
        }
        let filter = EventFilter {
            horizontal_arrows: true,
            vertical_arrows: true,
            ..EventFilter::default()
        };
        ui.memory_mut(|memory| memory.set_focus_lock_filter(response.id, filter));
        // The next thumbnail, which has the focus from now on, must not handle the same key.
        let pressed = |keys: [Key; 2]| {
            ui.input_mut(|input| keys.iter().any(|k| input.consume_key(Modifiers::NONE, *k)))
        };
        let by = i32::from(pressed([Key::ArrowDown, Key::ArrowRight]))
            - i32::from(pressed([Key::ArrowUp, Key::ArrowLeft]));
        // The order is that of the outline, in which heads stand side by side.
        let all = rows::of_outline(&self.walkthrough.steps).concat();
        let here = all.iter().position(|other| other.key == step.key)?;
        let next = all.get(here.checked_add_signed(by as isize)?)?.key;
        (by != 0).then(|| ui.memory_mut(|memory| memory.request_focus(id(next)))).map(|()| next)
    }

    fn paint(&self, ui: &Ui, step: &Step, cell: Vec2, rect: Rect, response: &Response) {
        let (visuals, painter) = (ui.visuals(), ui.painter());
        let (rows, cols) = step.matrix.shape();
        let extent = cell * vec2(cols as f32, rows as f32);
        let cells = Rect::from_min_size(
            pos2(rect.center().x - extent.x / 2.0, rect.bottom() - extent.y),
            extent,
        );
        let is_here = self.here == Some(step.key);
        let color = if is_here { visuals.strong_text_color() } else { visuals.weak_text_color() };
        let symbol = match step.symbol.as_str() {
            "" if step.kind == Kind::Table => "table",
            "" => "·",
            symbol => symbol,
        };
        let galley = formula::galley(ui, symbol, TextStyle::Small.resolve(ui.style()).size, color);
        let at = pos2(rect.center().x - galley.size().x / 2.0, cells.top() - galley.size().y);
        painter.galley(at, galley, color);
        self.cells(ui, step, cell, cells);
        let stroke = if response.hovered() || response.has_focus() || is_here {
            Stroke::new(2.0, visuals.selection.stroke.color)
        } else {
            visuals.widgets.noninteractive.bg_stroke
        };
        painter.rect_stroke(cells, 0, stroke, StrokeKind::Outside);
        if self.cache.changed(step.key).is_some() {
            let stroke = Stroke::new(3.0, style::EDITED);
            let grown = if is_here { 2.0 } else { 0.0 };
            painter.rect_stroke(cells.expand(grown), 0, stroke, StrokeKind::Outside);
        }
    }

    /// The colours, the numbers that fit, and the marks of the tokens.
    fn cells(&self, ui: &Ui, step: &Step, cell: Vec2, cells: Rect) {
        let Some(picture) = self.cache.picture(step) else { return };
        let painter = ui.painter();
        if self.number(step) > self.shown {
            painter.rect_filled(cells, 0, ui.visuals().faint_bg_color);
            return;
        }
        let (palette, (rows, cols)) = (picture.palette(), step.matrix.shape());
        if palette.is_plain() {
            painter.rect_filled(cells, 0, ui.visuals().faint_bg_color);
            // A table without colours has lines.
            let line = ui.visuals().widgets.noninteractive.bg_stroke;
            for row in 1..rows {
                painter.hline(cells.x_range(), cells.top() + row as f32 * cell.y, line);
            }
            for col in 1..cols {
                painter.vline(cells.left() + col as f32 * cell.x, cells.y_range(), line);
            }
        } else {
            let blocks = picture.blocks(0, 0..rows, 0..cols);
            let numbers = step.matrix.as_slice();
            let (texture, _) = picture.texture(ui.ctx(), &step.name, numbers, &blocks);
            let whole = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
            painter.image(texture, cells, whole, Color32::WHITE);
        }
        let at = |i: usize, j: usize| {
            Rect::from_min_size(cells.min + cell * vec2(j as f32, i as f32), cell)
        };
        let unit = style::enlarged(ui);
        let has_numbers = cell.x >= unit * ANNOTATED && cell.y >= unit * (READABLE - 2.0);
        if rows::is_result(step) && has_numbers {
            let font = style::digits().resolve(ui.style());
            let ink = |x: f32| {
                if palette.is_plain() {
                    ui.visuals().text_color()
                } else {
                    colors::ink_on(palette.color(x))
                }
            };
            let texts = |decimals: usize| -> Vec<Arc<Galley>> {
                let text = |x: &f32| {
                    let (text, ink) = colors::written(numbers::fixed(*x, decimals), *x, ink(*x));
                    painter.layout_no_wrap(text, font.clone(), ink)
                };
                step.matrix.as_slice().iter().map(text).collect()
            };
            // Numbers side by side must not touch.
            let fits = |texts: &Vec<Arc<Galley>>| {
                texts.iter().all(|text| text.size().x + unit * APART <= cell.x)
            };
            let found = [2, 1].into_iter().map(texts).find(fits);
            for (k, text) in found.into_iter().flatten().enumerate() {
                let center = at(k / cols, k % cols).center();
                painter.galley(center - text.size() / 2.0, text, Color32::PLACEHOLDER);
            }
        }
        let marks = step.marks(&self.selection);
        let outline = |rect: Rect, color: Color32| {
            painter.rect_stroke(rect, 0, Stroke::new(1.5, color), StrokeKind::Inside);
        };
        let width = |rect: Rect| Rect::from_x_y_ranges(cells.x_range(), rect.y_range());
        for key in &marks.keys {
            outline(width(at(*key, 0)), style::KEY);
        }
        for key in &marks.cols {
            outline(at(marks.query.unwrap_or(0), *key), style::KEY);
        }
        if let Some(query) = marks.query {
            outline(width(at(query, 0)), style::QUERY);
        }
    }
}

/// The size of a thumbnail with its symbol.
fn size(ui: &Ui, step: &Step, cell: Vec2) -> Vec2 {
    let (rows, cols) = step.matrix.shape();
    let line = ui.text_style_height(&TextStyle::Small);
    vec2((cols as f32 * cell.x).max(NARROWEST), line + rows as f32 * cell.y)
}

/// The id of a thumbnail, to give it the focus.
fn id(step: StepKey) -> Id {
    Id::unique(("outline", step))
}

/// The size of the cells in each row, such that the rows fill `width` and, if possible, at most `room`.
fn sizes(rows: &[Vec<&Step>], width: f32, room: f32, scale: f32) -> Vec<Vec2> {
    let tallest = |row: &[&Step]| row.iter().map(|s| s.matrix.rows()).max().unwrap_or(1) as f32;
    let wanted = |row: &Vec<&Step>| {
        // A thumbnail of one column has its least width.
        let cols = row.iter().map(|step| step.matrix.cols()).filter(|cols| *cols > 1);
        let (wide, cols) = (cols.clone().count(), cols.sum::<usize>());
        let narrow = NARROWEST * (row.len() - wide) as f32;
        let width = width - GAP * (row.len() - 1) as f32 - narrow;
        let most = scale * most(row[0]);
        // Many thumbnails of one column may leave no width for the others.
        let x = most.x.min(width / cols.max(1) as f32).max(1.0);
        // Cells without numbers are about square.
        vec2(x, if x >= scale * ANNOTATED { most.y } else { most.y.min(x) })
    };
    let mut cells: Vec<Vec2> = rows.iter().map(wanted).collect();
    let total = |cells: &[Vec2], results: bool| -> f32 {
        let of = rows.iter().zip(cells).filter(|(row, _)| rows::is_result(row[0]) == results);
        of.map(|(row, cell)| tallest(row) * cell.y).sum()
    };
    let (results, others) = (total(&cells, true), total(&cells, false));
    // The other steps shrink first, down to a third; then the results, while their numbers stay readable.
    let small = ((room - results) / others.max(1.0)).clamp(0.33, 1.0);
    let large = ((room - small * others) / results.max(1.0)).clamp(0.5, 1.0);
    for (row, cell) in rows.iter().zip(&mut cells) {
        if rows::is_result(row[0]) {
            cell.y = (large * cell.y).max((scale * READABLE).min(cell.y));
        } else {
            cell.y *= small;
            cell.x = cell.x.min(2.0 * cell.y);
        }
    }
    cells
}

fn most(step: &Step) -> Vec2 {
    if rows::is_result(step) && step.kind != Kind::Table { RESULT } else { SMALL }
}

/// A small arrow from one row to the next.
fn arrow(ui: &mut Ui) {
    let (_, rect) = ui.allocate_space(vec2(ui.available_width(), BETWEEN));
    let color = ui.visuals().weak_text_color();
    let (x, stroke) = (rect.center().x, Stroke::new(1.0, color));
    let (top, end) = (rect.top() + 3.0, rect.bottom() - 1.0);
    ui.painter().line_segment([pos2(x, top), pos2(x, end)], stroke);
    for side in [-3.0, 3.0] {
        ui.painter().line_segment([pos2(x + side, end - 3.0), pos2(x, end)], stroke);
    }
}
