//! The tokens of the text as a sentence, each shaded by the attention of the pointed token.

use egui::accesskit::Role;
use egui::{
    Color32, Response, ScrollArea, Sense, Stroke, StrokeKind, TextStyle, Ui, Vec2, WidgetInfo, vec2,
};

use regard_models::Which;

use super::patch::Dragged;
use super::sentence::arrow;
use crate::colors::{Colors as _, Look, ink_on};
use crate::explain::SINK;
use crate::heads::{HeadsState, Large, Selected, Side};
use crate::{numbers, style};

/// The space around the text of a token, and between two tokens.
const PADDING: Vec2 = vec2(5.0, 3.0);
const GAP: f32 = 3.0;
/// The most rows of tokens.
const ROWS: f32 = 3.0;

/// A token in a frame.
pub(super) struct Chip<'a> {
    pub(crate) text: &'a str,
    /// The background of the token. `None`: that of an empty frame.
    pub(crate) fill: Option<Color32>,
    pub(crate) stroke: Stroke,
}

impl Chip<'_> {
    pub(crate) fn show(&self, ui: &mut Ui, sense: Sense) -> Response {
        let font = TextStyle::Body.resolve(ui.style());
        let ink = self.fill.map_or_else(|| ui.visuals().text_color(), ink_on);
        let galley = ui.painter().layout_no_wrap(style::lone(self.text), font, ink);
        let (rect, response) = ui.allocate_exact_size(galley.size() + 2.0 * PADDING, sense);
        if !ui.is_rect_visible(rect) {
            return response;
        }
        let fill = self.fill.unwrap_or_else(|| ui.visuals().faint_bg_color);
        ui.painter().rect(rect, 4, fill, self.stroke, StrokeKind::Inside);
        ui.painter().galley(rect.min + PADDING, galley, ink);
        response
    }
}

/// Shows tokens as the words of a text, in at most three rows, which scroll. They are one stop of the Tab key: the arrow keys go
/// from one to the next. `word` shows one token, which senses at least the given input.
pub(super) fn words(
    ui: &mut Ui,
    name: &str,
    count: usize,
    mut word: impl FnMut(&mut Ui, usize, Sense) -> Response,
) {
    let id = ui.scope_id().with(name);
    let stop = ui.data(|data| data.get_temp::<usize>(id)).unwrap_or(0).min(count.saturating_sub(1));
    let height = ui.text_style_height(&TextStyle::Body) + 2.0 * PADDING.y + GAP;
    let mut next = None;
    let mut ids = Vec::with_capacity(count);
    ScrollArea::vertical().id_salt(name).max_height(ROWS * height).show(ui, |ui| {
        ui.horizontal_wrapped(|ui| {
            ui.spacing_mut().item_spacing = Vec2::splat(GAP);
            for i in 0..count {
                let sense = if i == stop { Sense::FOCUSABLE } else { Sense::empty() };
                let response = word(ui, i, sense);
                if response.clicked() {
                    next = Some(i);
                }
                next = arrow(ui, &response, i, count).or(next);
                ids.push(response.id);
            }
        });
    });
    if let Some(next) = next {
        ui.data_mut(|data| data.insert_temp(id, next));
        ui.memory_mut(|memory| memory.request_focus(ids[next]));
        ui.ctx().request_repaint();
    }
}

/// Shows the tokens. A click on a query keeps it; a second click releases it. Returns the token of the second text that
/// was dropped, and the position.
///
/// The query is the token under the pointer, the row under the pointer on the heatmap, the clicked token, or the last token.
/// In an attention from a decoder to an encoder, the keys stand in their own line above the queries.
pub(super) fn show(
    ui: &mut Ui,
    [queries, keys]: &[Vec<String>; 2],
    which: Which,
    large: Option<&Large>,
    state: &mut HeadsState,
    look: Look,
) -> Option<(usize, usize)> {
    let fits = |selected: &&Selected| selected.numbers.len() == queries.len() * keys.len();
    let matrix = large.and_then(Large::selected).filter(fits);
    let palette = matrix.and_then(|_| Some(large?.matrix(look)?.palette));
    let kept = match state.isolated {
        Some((Side::Queries, i)) if i < queries.len() => Some(i),
        _ => None,
    };
    let on_map = large.and_then(Large::hovered).map(|(row, _)| row);
    let of_map = on_map.or_else(|| state.chosen.map(|(row, _)| row));
    let hovered_id = ui.scope_id().with("pointed token");
    let hovered: Option<usize> = ui.data(|data| data.get_temp(hovered_id)).flatten();
    let last = queries.len().checked_sub(1);
    let query = hovered.or(on_map).or(kept).or(of_map).or(last);
    let query = query.filter(|query| *query < queries.len());
    let from = query.map(|query| (query, &queries[query]));
    let palette = &palette;
    let shade = |weight: Option<f32>| {
        palette.as_ref().zip(weight).map(|(palette, weight)| palette.color(weight))
    };
    if which == Which::Cross && !keys.is_empty() {
        words(ui, "keys", keys.len(), |ui, i, sense| {
            let weight = query.and_then(|query| matrix?.number(query, i));
            let stroke = ui.visuals().widgets.noninteractive.bg_stroke;
            let chip = Chip { text: &keys[i], fill: shade(weight), stroke };
            let response = chip.show(ui, sense);
            let name = of_word(i, &keys[i], from, weight);
            response.widget_info(|| WidgetInfo::labeled(Role::Label, true, &name));
            response.on_hover_text(name)
        });
    }
    let (mut now, mut dropped) = (None, None);
    words(ui, "queries", queries.len(), |ui, i, sense| {
        let is_key = which != Which::Cross;
        let weight = query.filter(|_| is_key).and_then(|query| matrix?.number(query, i));
        let stroke = if query == Some(i) {
            Stroke::new(2.0, style::QUERY)
        } else {
            ui.visuals().widgets.noninteractive.bg_stroke
        };
        let chip = Chip { text: &queries[i], fill: shade(weight), stroke };
        let response = chip.show(ui, sense | Sense::CLICK);
        let name = of_word(i, &queries[i], from, weight);
        response.widget_info(|| WidgetInfo::labeled(Role::Button, true, &name));
        if let Some(Dragged(from)) = response.dnd_hover_payload().as_deref() {
            let color = if *from == i { style::QUERY } else { ui.visuals().error_fg_color };
            let stroke = Stroke::new(3.0, color);
            ui.painter().rect_stroke(response.rect, 4, stroke, StrokeKind::Outside);
        }
        if let Some(Dragged(from)) = response.dnd_release_payload().as_deref() {
            dropped = Some((*from, i));
        }
        if response.clicked() {
            let again = state.isolated == Some((Side::Queries, i));
            state.isolated = (!again).then_some((Side::Queries, i));
            // The cursor of the heatmap goes to the row of the token.
            let key = state.chosen.map_or(0, |(_, key)| key);
            (state.chosen, state.around) = ((!again).then_some((i, key)), i);
        }
        if response.hovered() || response.has_focus() {
            now = Some(i);
        }
        // The first token of each text stands where heads rest.
        let rests = i == 0 && is_key && weight.is_some();
        response.on_hover_text(if rests { format!("{name}\n{SINK}") } else { name })
    });
    if now != hovered {
        ui.data_mut(|data| data.insert_temp(hovered_id, now));
        ui.ctx().request_repaint();
    }
    dropped
}

/// "token 3 gave, weight 0.42 from token 7 to".
fn of_word(i: usize, token: &str, query: Option<(usize, &String)>, weight: Option<f32>) -> String {
    match query.zip(weight) {
        Some(((query, from), weight)) if weight.is_finite() => {
            format!(
                "token {i} {token}, weight {} from token {query} {from}",
                numbers::spoken(weight)
            )
        }
        _ => format!("token {i} {token}"),
    }
}
