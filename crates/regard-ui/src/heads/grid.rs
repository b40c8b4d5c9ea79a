//! The grid of all heads as small pictures.

use std::collections::HashMap;

use egui::accesskit::Role;
use egui::{
    Align2, Color32, Rect, Response, ScrollArea, Sense, Stroke, StrokeKind, TextStyle,
    TextureFilter, TextureHandle, TextureOptions, Ui, Vec2, WidgetInfo, pos2, vec2,
};

use super::opened::Surveyed;
use super::{Shown, State};
use crate::colors::{Colors as _, Look, largest};
use crate::{numbers, style};
use regard_figure::Extent;
use regard_heads::{HeadId, Measure, Measures};

/// The widest picture of a grid that scrolls. Where all pictures are visible at once, they grow with the window.
const WIDEST: f32 = 176.0;
/// A picture is narrower only where a layer would not fit in a row.
const NARROWEST: f32 = 56.0;
/// A grid of this width has captions of the usual size. On a wider one, they grow with the width, up to a limit.
const USUAL: f32 = 1200.0;
const MOST_ENLARGED: f32 = 2.0;
/// The gap between two pictures, and between two small ones.
const GAP: f32 = 8.0;
const SMALL_GAP: f32 = 2.0;
/// A narrower picture has no line of text.
const CAPTIONED: f32 = 28.0;

/// The textures of the heads that have been visible.
#[derive(Default)]
pub(crate) struct Thumbnails {
    drawn_for: Option<(Look, bool)>,
    textures: HashMap<HeadId, TextureHandle>,
    /// Whether a layer is a row at any width.
    by_layer: bool,
    /// The name of the run, if several stand side by side.
    pub(crate) of: String,
}

/// Heads to mark, and the word that explains the marks.
#[derive(Clone, Copy, Default)]
pub(crate) struct Marked<'a> {
    /// The heads.
    pub(crate) heads: &'a [HeadId],
    /// The word.
    pub(crate) word: &'static str,
}

impl Thumbnails {
    /// A grid whose rows are layers at any width.
    pub(crate) fn by_layer() -> Self {
        Self { by_layer: true, ..Self::default() }
    }

    /// Shows all heads. A click on one enlarges it.
    pub(crate) fn show(
        &mut self,
        ui: &mut Ui,
        opened: &Surveyed,
        state: &mut State,
        marked: Marked<'_>,
        look: Look,
    ) {
        if self.drawn_for.replace((look, state.own_scale)) != Some((look, state.own_scale)) {
            self.textures.clear();
        }
        let ids = opened.ordered(state.order, state.smallest_first);
        ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
            let room = vec2(ui.available_width() - 4.0, ui.clip_rect().height());
            let scale = (room.x / USUAL).clamp(1.0, MOST_ENLARGED);
            style::enlarge(ui, scale);
            let line = ui.text_style_height(&TextStyle::Small);
            let heads = opened.maps.shape().heads;
            let (columns, gap) = if self.by_layer && state.order.is_none() {
                (heads, if room.x < CAPTIONED * heads as f32 { SMALL_GAP } else { scale * GAP })
            } else {
                let columns = columns(room, line, heads, ids.len(), state.order.is_some());
                (columns, scale * GAP)
            };
            let rows = ids.len().div_ceil(columns);
            // All layers are visible at once, if the pictures do not become too small.
            let least = if self.by_layer { NARROWEST } else { WIDEST };
            let side =
                widest(room.x, columns, gap).min(highest(room.y, rows, line + gap).max(least));
            ui.spacing_mut().item_spacing = vec2(gap, gap);
            for row in ids.chunks(columns) {
                ui.horizontal(|ui| {
                    for id in row {
                        if self.head(ui, opened, *id, state, marked, look, side).clicked() {
                            state.show(*id);
                        }
                    }
                });
            }
        });
    }

    fn head(
        &mut self,
        ui: &mut Ui,
        opened: &Surveyed,
        id: HeadId,
        state: &State,
        marked: Marked<'_>,
        look: Look,
        side: f32,
    ) -> Response {
        let line = if side < CAPTIONED { 0.0 } else { ui.text_style_height(&TextStyle::Small) };
        let (rect, response) = ui.allocate_exact_size(vec2(side, side + line), Sense::click());
        let is_marked = marked.heads.contains(&id);
        let mut name = name(opened, id, state.order);
        if !self.of.is_empty() {
            name = format!("{name}, {}", self.of);
        }
        if is_marked {
            name = format!("{name}, {}", marked.word);
        }
        let is_last = state.id() == id && state.shown == Shown::Head;
        response.widget_info(|| {
            if is_last {
                WidgetInfo::selected(Role::Button, true, true, &name)
            } else {
                WidgetInfo::labeled(Role::Button, true, &name)
            }
        });
        if !ui.is_rect_visible(rect) {
            return response;
        }
        let picture = Rect::from_min_size(rect.min, vec2(side, side));
        let (rows, cols) = opened.survey.thumbnail_shape();
        let scale = side / rows.max(cols) as f32;
        let cells =
            Rect::from_min_size(picture.min, vec2(cols as f32 * scale, rows as f32 * scale));
        let whole = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
        let texture = self.texture(ui, opened, id, state.own_scale, look);
        ui.painter().image(texture, cells, whole, Color32::WHITE);
        let visuals = ui.visuals();
        let stroke = if response.hovered() || response.has_focus() || is_last {
            Stroke::new(2.0, visuals.selection.stroke.color)
        } else if is_marked {
            Stroke::new(2.0, visuals.warn_fg_color)
        } else {
            visuals.widgets.noninteractive.bg_stroke
        };
        ui.painter().rect_stroke(cells, 0, stroke, StrokeKind::Outside);
        if line > 0.0 {
            let at = Rect::from_min_max(picture.left_bottom(), rect.max);
            caption(ui, opened, id, state.order, is_marked, at);
        }
        response.on_hover_text(name)
    }

    fn texture(
        &mut self,
        ui: &Ui,
        opened: &Surveyed,
        id: HeadId,
        own_scale: bool,
        look: Look,
    ) -> egui::TextureId {
        let texture = self.textures.entry(id).or_insert_with(|| {
            let numbers = opened.thumbnail(id);
            let limit = if own_scale { largest(&numbers) } else { opened.largest };
            let limit = Extent { largest: limit, end: limit };
            let (_, cols) = opened.survey.thumbnail_shape();
            let image = opened.palette(&numbers, limit, look).image(&numbers, cols);
            let options =
                TextureOptions { minification: TextureFilter::Linear, ..TextureOptions::NEAREST };
            ui.ctx().load_texture(format!("{id}"), image, options)
        });
        texture.id()
    }

    /// Forgets everything, because another file was opened.
    pub(crate) fn clear(&mut self) {
        self.textures.clear();
    }
}

/// The number of pictures in a row. In the order of the file, a layer is a row if it fits. Otherwise it is the number that shows
/// all pictures at once and as large as possible, or, if they would be too small, as many as are distinguishable.
fn columns(room: Vec2, line: f32, heads: usize, all: usize, sorted: bool) -> usize {
    let fits = |side: f32| ((room.x / (side + GAP)) as usize).max(1);
    if !sorted && heads > 1 && heads <= fits(NARROWEST) {
        return heads;
    }
    let distinguishable = 1.6 * NARROWEST;
    let most = fits(distinguishable).min(all.max(1));
    let side = |columns: usize| {
        widest(room.x, columns, GAP).min(highest(room.y, all.div_ceil(columns), line + GAP))
    };
    let best = (1..=most).rev().max_by(|a, b| side(*a).total_cmp(&side(*b))).unwrap_or(most);
    if side(best) < distinguishable { most } else { best }
}

/// The largest width of a picture in a row of `columns`.
fn widest(room: f32, columns: usize, gap: f32) -> f32 {
    (room / columns as f32 - gap).floor().max(8.0)
}

/// The largest height of a picture if all `rows` are visible at once, each with `around` points around it.
fn highest(room: f32, rows: usize, around: f32) -> f32 {
    (room / rows.max(1) as f32 - around).floor()
}

/// "layer 3 head 5, entropy 2.1 nats (20 queries)".
pub(crate) fn name(opened: &Surveyed, id: HeadId, order: Option<Measure>) -> String {
    let number = opened.maps.layer_number(id.layer);
    if opened.is_difference {
        let most = numbers::spoken(largest_of(opened, id));
        return format!("layer {number} head {}, largest difference {most}", id.head);
    }
    let measure = order.unwrap_or(Measure::Entropy);
    let measures = opened.survey.measures(id);
    let value = measures.get(measure).map_or_else(
        || format!("{}: none", measure.name()),
        |x| format!("{} ({})", measure.in_words(x), standing(&measures, measure)),
    );
    format!("layer {number} head {}, {value}", id.head)
}

fn largest_of(opened: &Surveyed, id: HeadId) -> f32 {
    largest(&opened.survey.thumbnail(&opened.maps, id))
}

/// The basis of a measure: "12 queries", "1 query, not significant".
pub(crate) fn standing(measures: &Measures, measure: Measure) -> String {
    let queries = measures.queries(measure);
    let plural = if queries == 1 { "query" } else { "queries" };
    let doubt = if measures.is_significant(measure) { "" } else { ", not significant" };
    format!("{queries} {plural}{doubt}")
}

/// The head's numbers at the left, the measure at the right if there is room.
fn caption(
    ui: &Ui,
    opened: &Surveyed,
    id: HeadId,
    order: Option<Measure>,
    is_marked: bool,
    at: Rect,
) {
    let (font, visuals) = (TextStyle::Small.resolve(ui.style()), ui.visuals());
    let number = format!("{}·{}", opened.maps.layer_number(id.layer), id.head);
    let left = at.left_top() + vec2(0.0, 1.0);
    let painter = ui.painter().with_clip_rect(at.intersect(ui.clip_rect()));
    let color = if is_marked { visuals.warn_fg_color } else { visuals.text_color() };
    let used = painter.text(left, Align2::LEFT_TOP, number, font.clone(), color);
    let measure = order.unwrap_or(Measure::Entropy);
    let value = if opened.is_difference {
        format!("±{}", numbers::fixed(largest_of(opened, id), 2))
    } else {
        let Some(x) = opened.survey.measures(id).get(measure) else { return };
        measure.short(x)
    };
    let galley = painter.layout_no_wrap(value, font, visuals.weak_text_color());
    if used.right() + 6.0 + galley.size().x <= at.right() {
        painter.galley(
            at.right_top() + vec2(-galley.size().x, 1.0),
            galley,
            visuals.weak_text_color(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_a_row_where_it_fits() {
        let columns =
            |width, heads, all, sorted| columns(vec2(width, 700.0), 16.0, heads, all, sorted);
        assert_eq!(columns(1000.0, 12, 144, false), 12);
        assert_eq!(columns(300.0, 12, 144, false), 3);
        assert_eq!(columns(1000.0, 12, 144, true), 10);
        assert_eq!(columns(1000.0, 1, 1, false), 1);
        assert_eq!(columns(10.0, 64, 64, true), 1);
    }

    #[test]
    fn few_heads_are_large() {
        assert_eq!(columns(vec2(900.0, 640.0), 16.0, 4, 12, true), 4);
        assert_eq!(columns(vec2(900.0, 400.0), 16.0, 4, 12, true), 6);
        // One head fills the room, and two heads stand side by side.
        assert_eq!(columns(vec2(3000.0, 1800.0), 16.0, 2, 2, true), 2);
        assert_eq!(highest(1800.0, 1, 24.0), 1776.0);
    }
}
