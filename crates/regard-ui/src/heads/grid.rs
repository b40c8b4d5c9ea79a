//! The grid of all heads as small pictures.
//!
//! A row is a layer. All pictures are visible at once, as large as the room allows ([`GridPlaces`]), unless they would be too
//! small: then the grid scrolls. A head's [effect](Effect) can lie around its picture as a coloured frame.

use std::collections::HashMap;
use std::sync::Arc;

use egui::accesskit::Role;
use egui::{
    Align2, Color32, Rect, Response, ScrollArea, Sense, Stroke, StrokeKind, TextStyle,
    TextureFilter, TextureHandle, TextureOptions, Ui, Vec2, WidgetInfo, pos2, vec2,
};

use super::{Effects, MapKind, Order, Surveyed};
use super::{HeadsState, Shown, Side};
use crate::colors::{Colors as _, Look, Palette, largest};
use crate::explain::SINK;
use crate::{numbers, style};
use regard_figure::{Extent, extents};
use regard_heads::{AttentionShape, HeadId, Measure, Measures};

/// Smaller pictures scroll, as large as the width allows, up to the second size.
const SMALLEST: f32 = 22.0;
const WIDEST: f32 = 56.0;
/// The side of the picture beside the pointer.
const ENLARGED: f32 = 288.0;
/// A grid of this width has captions of the usual size. On a wider one, they grow with the width, up to a limit.
const USUAL: f32 = 1200.0;
const MOST_ENLARGED: f32 = 2.0;
/// The gap between two pictures, and between two small ones.
const GAP: f32 = 8.0;
const SMALL_GAP: f32 = 2.0;
/// A narrower picture has no line of text.
const CAPTIONED: f32 = 28.0;
/// A wider picture marks the chosen query.
const MARKED: f32 = 48.0;
/// The width of the scroll bar and of its margin.
const SCROLL_BAR: f32 = 14.0;

/// The textures of the heads that have been visible.
#[derive(Default)]
pub(crate) struct Thumbnails {
    heads: Option<Arc<Surveyed>>,
    drawn_for: Option<(Look, bool)>,
    textures: HashMap<HeadId, TextureHandle>,
    /// The largest weight of all heads, without the first token if that is hidden.
    largest: f32,
    /// The head under the pointer.
    pub(crate) pointed: Option<HeadId>,
    /// The name of the run, if several stand side by side.
    pub(crate) of: String,
}

/// The heads of a grid, with their marks, effects and colours.
#[derive(Clone, Copy)]
pub(crate) struct Contents<'a> {
    pub(crate) heads: &'a Arc<Surveyed>,
    pub(crate) changed: &'a [HeadId],
    pub(crate) effects: &'a Effects,
    pub(crate) look: Look,
}

impl Thumbnails {
    /// Shows all heads. A click on one enlarges it.
    pub(crate) fn show(&mut self, ui: &mut Ui, of: Contents<'_>, state: &mut HeadsState) {
        let drawn_for = Some((of.look, state.hide_first));
        let is_same = self.heads.as_ref().is_some_and(|heads| Arc::ptr_eq(heads, of.heads));
        if !is_same || self.drawn_for != drawn_for {
            self.textures.clear();
            (self.heads, self.drawn_for) = (Some(Arc::clone(of.heads)), drawn_for);
            let without_first = |id| largest(&of.heads.thumbnail(id, true));
            self.largest = if state.hide_first {
                of.heads.maps.shape().ids().map(without_first).fold(0.0, f32::max)
            } else {
                of.heads.largest
            };
        }
        let ids = of.heads.ordered(state.order, state.smallest_first, of.effects);
        let room = ui.available_size() - vec2(4.0, 4.0);
        ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
            let scale = (room.x / USUAL).clamp(1.0, MOST_ENLARGED);
            style::enlarge(ui, scale);
            let line = ui.text_style_height(&TextStyle::Small) + 2.0;
            let shape = of.heads.maps.shape();
            let by_layer = state.order.is_none().then_some(shape);
            // The masked triangle of a causal head has room for its name.
            let line = if of.heads.is_causal { 0.0 } else { line };
            let mut places = GridPlaces::fitting(room, [line, scale * GAP], ids.len(), by_layer);
            if places.side < SMALLEST {
                let room = vec2(room.x - SCROLL_BAR, f32::INFINITY);
                places = GridPlaces::fitting(room, [line, scale * GAP], ids.len(), by_layer);
                places.side = places.side.min(WIDEST);
            }
            let (whole, _) = ui.allocate_exact_size(places.size(), Sense::hover());
            let before = self.pointed.take();
            for (i, id) in ids.iter().enumerate() {
                let rect = places.rect(i).translate(whole.min.to_vec2());
                let response = self.head(ui, rect, of, *id, state);
                if response.clicked() {
                    state.show(*id);
                }
                if response.hovered() || response.has_focus() {
                    self.pointed = Some(*id);
                }
            }
            if self.pointed != before {
                ui.ctx().request_repaint();
            }
        });
    }

    fn head(
        &mut self,
        ui: &Ui,
        rect: Rect,
        of: Contents<'_>,
        id: HeadId,
        state: &HeadsState,
    ) -> Response {
        let heads = of.heads;
        let response = ui.interact(rect, ui.scope_id().with((id.layer, id.head)), Sense::click());
        let is_marked = of.changed.contains(&id);
        let mut name = name(of, id, state);
        if !self.of.is_empty() {
            name = format!("{name}, {}", self.of);
        }
        if is_marked {
            name = format!("{name}, changed");
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
        let picture = Rect::from_min_size(rect.min, Vec2::splat(rect.width()));
        let (rows, cols) = heads.survey.thumbnail_shape();
        let [wide, high] = extents([cols, rows]).map(|part| part as f32 * rect.width());
        let cells = Rect::from_min_size(picture.min, vec2(wide, high));
        let texture = self.texture(ui, of, id, state);
        let whole = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
        ui.painter().image(texture, cells, whole, Color32::WHITE);
        if let Some((Side::Queries, query)) = state.isolated.filter(|_| rect.width() >= MARKED) {
            let row = (query / heads.survey.factors()[0]) as f32 + 0.5;
            let stroke = Stroke::new(1.0, style::QUERY.gamma_multiply(0.7));
            ui.painter().hline(cells.x_range(), cells.top() + high / rows as f32 * row, stroke);
        }
        if let Some((effect, x)) = state.tint.and_then(|e| Some((e, of.effects.get(heads, e, id)?)))
        {
            let color = Palette::signed(of.effects.largest(effect), of.look).color(x);
            let frame = Stroke::new((0.12 * rect.width()).max(3.0), color);
            ui.painter().rect_stroke(cells, 0, frame, StrokeKind::Inside);
        }
        let visuals = ui.visuals();
        let stroke = if response.hovered() || response.has_focus() || is_last {
            Stroke::new(2.0, visuals.selection.stroke.color)
        } else if is_marked {
            Stroke::new(2.0, visuals.warn_fg_color)
        } else {
            visuals.widgets.noninteractive.bg_stroke
        };
        ui.painter().rect_stroke(cells, 0, stroke, StrokeKind::Outside);
        if of.heads.is_causal && rect.width() >= CAPTIONED {
            caption(ui, of, id, state, is_marked, cells.shrink(2.0));
        } else if rect.height() > rect.width() {
            let at = cells.with_max_y(cells.bottom() + rect.height() - rect.width());
            let at = at.with_min_y(cells.bottom()).with_max_x(rect.right());
            caption(ui, of, id, state, is_marked, at);
        }
        response.on_hover_ui(|ui| {
            if rect.width() < ENLARGED {
                let size = ENLARGED / rect.width() * vec2(wide, high);
                let (place, _) = ui.allocate_exact_size(size, Sense::hover());
                ui.painter().image(texture, place, whole, Color32::WHITE);
            }
            ui.set_max_width(ENLARGED);
            ui.label(name);
            if heads.kind == MapKind::Weights
                && let Some((pattern, _)) = pattern(&heads.survey.measures(id), state)
            {
                ui.weak(in_a_sentence(pattern));
            }
        })
    }

    fn texture(
        &mut self,
        ui: &Ui,
        of: Contents<'_>,
        id: HeadId,
        state: &HeadsState,
    ) -> egui::TextureId {
        let most = self.largest;
        let texture = self.textures.entry(id).or_insert_with(|| {
            let numbers = of.heads.thumbnail(id, state.hide_first);
            let limit = Extent { largest: most, end: most, is_faint: false };
            let (_, cols) = of.heads.survey.thumbnail_shape();
            let image = of.heads.palette(&numbers, limit, of.look).image(&numbers, cols);
            let options =
                TextureOptions { minification: TextureFilter::Linear, ..TextureOptions::NEAREST };
            ui.ctx().load_texture(format!("head {id}"), image, options)
        });
        texture.id()
    }
}

/// The places of some squares in a grid, each with room for a line of text below it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct GridPlaces {
    columns: usize,
    rows: usize,
    side: f32,
    line: f32,
    gap: f32,
}

impl GridPlaces {
    /// A grid of this many columns and rows, as large as the room allows.
    fn new(room: Vec2, [line, gap]: [f32; 2], [columns, rows]: [usize; 2]) -> Self {
        let side = |line: f32, gap: f32| {
            let (width, height) =
                (room.x / columns as f32 - gap, room.y / rows as f32 - line - gap);
            width.min(height).floor()
        };
        let captioned = side(line, gap);
        let is_captioned = captioned >= CAPTIONED;
        let (line, gap) = if is_captioned { (line, gap) } else { (0.0, SMALL_GAP) };
        let side = if is_captioned { captioned } else { side(line, gap).max(8.0) };
        Self { columns, rows, side, line, gap }
    }

    /// The grid in which `count` squares are as large as possible. If they stand by layer, each layer is a row.
    fn fitting(
        room: Vec2,
        around: [f32; 2],
        count: usize,
        by_layer: Option<AttentionShape>,
    ) -> Self {
        let places = |columns: usize| Self::new(room, around, [columns, count.div_ceil(columns)]);
        let larger = |a: Self, b: Self| if b.side > a.side { b } else { a };
        match by_layer {
            Some(shape) if shape.layers > 1 && shape.heads > 1 => places(shape.heads),
            _ => (1..=count).map(places).reduce(larger).unwrap_or_else(|| places(1)),
        }
    }

    fn rect(&self, i: usize) -> Rect {
        let (column, row) = (i % self.columns, i / self.columns);
        let step = vec2(self.side + self.gap, self.side + self.line + self.gap);
        let min = pos2(2.0, 2.0) + step * vec2(column as f32, row as f32);
        Rect::from_min_size(min, vec2(self.side, self.side + self.line))
    }

    fn size(&self) -> Vec2 {
        let step = vec2(self.side + self.gap, self.side + self.line + self.gap);
        step * vec2(self.columns as f32, self.rows as f32)
    }
}

/// "head 3.5, entropy 2.1 nats (20 queries)".
fn name(Contents { heads, effects, .. }: Contents<'_>, id: HeadId, state: &HeadsState) -> String {
    let number = heads.maps.name_of(id);
    if heads.kind != MapKind::Weights {
        let (term, most) = (heads.term(), numbers::spoken(largest_of(heads, id)));
        return format!("head {number}, largest {term} {most}");
    }
    let measures = heads.survey.measures(id);
    let in_words = |measure: Measure| {
        let value = measures.get(measure);
        let value =
            value.map(|x| format!("{} ({})", measure.in_words(x), standing(&measures, measure)));
        value.unwrap_or_else(|| format!("{}: none", measure.name()))
    };
    let sorted_by = match state.order {
        Some(Order::Measure(measure)) => measure,
        _ => Measure::Entropy,
    };
    let mut name = format!("head {number}, {}", in_words(sorted_by));
    if let Some((measure, x)) = pattern(&measures, state).filter(|(p, _)| *p != sorted_by) {
        name = format!("{name}, {}", measure.in_words(x));
    }
    let of_order = match state.order {
        Some(Order::Effect(effect)) => Some(effect),
        _ => None,
    };
    for effect in [state.tint, of_order.filter(|effect| state.tint != Some(*effect))] {
        if let Some((effect, x)) = effect.and_then(|e| Some((e, effects.get(heads, e, id)?))) {
            name = format!("{name}, {} {}", effect.name().to_lowercase(), numbers::spoken(x));
        }
    }
    name
}

/// What a head of a pattern does, for readers who meet the pattern for the first time.
fn in_a_sentence(pattern: Measure) -> &'static str {
    match pattern {
        Measure::FirstToken => SINK,
        Measure::PreviousToken => "A token looks at the one before it.",
        Measure::SameToken => "A token looks at itself.",
        Measure::DuplicateToken => "A token looks at its earlier copies.",
        Measure::Induction => "A token looks at what came after it last time.",
        _ => "",
    }
}

/// The best pattern of a head. If the first token is hidden, its share of the weight does not count.
fn pattern(measures: &Measures, state: &HeadsState) -> Option<(Measure, f32)> {
    measures.pattern(&Measure::PATTERNS[usize::from(state.hide_first)..])
}

fn largest_of(heads: &Surveyed, id: HeadId) -> f32 {
    largest(&heads.survey.thumbnail(&heads.maps, id))
}

/// The basis of a measure: "12 queries", "1 query, not significant".
pub(crate) fn standing(measures: &Measures, measure: Measure) -> String {
    let queries = measures.queries(measure);
    let plural = if queries == 1 { "query" } else { "queries" };
    let doubt = if measures.is_significant(measure) { "" } else { ", not significant" };
    format!("{queries} {plural}{doubt}")
}

/// The number at the right of a caption: the effect that is shown, the number that the heads are sorted by, or the best pattern.
fn value(
    Contents { heads, effects, .. }: Contents<'_>,
    id: HeadId,
    state: &HeadsState,
) -> Option<String> {
    if heads.kind != MapKind::Weights {
        let sign = if heads.kind == MapKind::Differences { "±" } else { "" };
        return Some(format!("{sign}{}", numbers::fixed(largest_of(heads, id), 2)));
    }
    let measures = heads.survey.measures(id);
    match state.tint.map(Order::Effect).or(state.order) {
        Some(Order::Effect(effect)) => Some(numbers::fixed(effects.get(heads, effect, id)?, 2)),
        Some(Order::Measure(measure)) => Some(measure.short(measures.get(measure)?)),
        None => {
            let (measure, x) = pattern(&measures, state)?;
            Some(measure.in_words(x).replace(" token", ""))
        }
    }
}

/// The head's name, and its number beside it if there is room, or below it in the masked triangle.
fn caption(ui: &Ui, of: Contents<'_>, id: HeadId, state: &HeadsState, is_marked: bool, at: Rect) {
    let (font, visuals) = (TextStyle::Small.resolve(ui.style()), ui.visuals());
    let painter = ui.painter().with_clip_rect(at.intersect(ui.clip_rect()));
    let inside = of.heads.is_causal;
    let [ink, weak] = if inside && visuals.dark_mode {
        // The masked cells are darker than the page.
        [Color32::from_gray(210), Color32::from_gray(170)]
    } else {
        [visuals.text_color(), visuals.weak_text_color()]
    };
    let color = if is_marked { visuals.warn_fg_color } else { ink };
    let number = of.heads.maps.name_of(id);
    let left = at.left_top() + vec2(0.0, 1.0);
    let corner =
        if inside { (at.right_top(), Align2::RIGHT_TOP) } else { (left, Align2::LEFT_TOP) };
    let used = painter.text(corner.0, corner.1, number, font.clone(), color);
    let Some(value) = value(of, id, state) else { return };
    let room = if inside { 0.62 * at.width() } else { at.right() - used.right() - 6.0 };
    // A narrow picture leaves out the share.
    let pattern = value.split_once(' ').map_or("", |(pattern, _)| pattern);
    let pattern = pattern.trim_matches(|c: char| !c.is_alphabetic());
    let fitting = [&value, pattern].into_iter().find_map(|text| {
        let galley = painter.layout_no_wrap(text.to_owned(), font.clone(), weak);
        (galley.size().x > 0.0 && galley.size().x <= room).then_some(galley)
    });
    let Some(galley) = fitting else { return };
    let down = if inside { used.height() } else { 1.0 };
    if !inside || at.height() >= 3.6 * font.size {
        painter.galley(at.right_top() + vec2(-galley.size().x, down), galley, weak);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AROUND: [f32; 2] = [16.0, 8.0];

    #[test]
    fn rows_are_layers_and_all_heads_fit() {
        let shape = |layers, heads| Some(AttentionShape { layers, heads, queries: 9, keys: 9 });
        for (width, height, layers, heads) in
            [(1300.0, 800.0, 30, 9), (900.0, 600.0, 3, 4), (300.0, 500.0, 30, 9)]
        {
            let room = vec2(width, height);
            let count = layers * heads;
            let places = GridPlaces::fitting(room, AROUND, count, shape(layers, heads));
            assert_eq!(places.columns, heads, "{layers} × {heads}");
            let sorted = GridPlaces::fitting(room, AROUND, count, None);
            for places in [places, sorted] {
                let whole = Rect::from_min_size(pos2(0.0, 0.0), room + vec2(2.0, 2.0));
                assert!((0..count).all(|i| whole.contains_rect(places.rect(i))), "{places:?}");
            }
        }
        // Where they would be too small, they are as wide as the room, and the grid scrolls.
        let endless = GridPlaces::fitting(vec2(300.0, f32::INFINITY), AROUND, 270, shape(30, 9));
        assert!(endless.side >= SMALLEST - 2.0 && endless.size().y > 900.0, "{endless:?}");
        // One head fills the room, and two heads stand side by side.
        assert_eq!(GridPlaces::fitting(vec2(3000.0, 1800.0), AROUND, 1, shape(1, 1)).side, 1776.0);
        assert_eq!(GridPlaces::fitting(vec2(3000.0, 1800.0), AROUND, 2, shape(1, 2)).columns, 2);
    }
}
