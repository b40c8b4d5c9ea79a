//! A sentence whose last word attends to the words before it: ribbons lead from it to them, as wide as the weights.
//!
//! The weights add up to 1, and so do the widths: the ribbons leave the last word side by side. The one to the farthest word lies
//! outside, so that none crosses another. A ribbon is half an ellipse between the two words. It lies above the line of words, and
//! no text is above that line.

use core::f32::consts::PI;
use std::collections::BTreeSet;

use egui::accesskit::Role;
use egui::{
    Color32, EventFilter, FontId, Key, Pos2, Rect, Response, Sense, Shape, Stroke, StrokeKind,
    TextStyle, Ui, Vec2, WidgetInfo, pos2, vec2,
};

use super::Motion;
use crate::explain::SINK;
use crate::style;

const POINTS: usize = 48;
/// A weight below the first has no ribbon. The share of a weight below the second is not written.
const LEAST: f32 = 0.005;
const LEAST_WRITTEN: f32 = 0.03;
/// The height of the highest ribbon as a share of its half width.
const ROUND: f32 = 0.75;

/// The sentence, with weights that move to those of the state.
#[derive(Default)]
pub(crate) struct Ribbons {
    weights: Motion,
}

impl Ribbons {
    /// Shows the sentence in an area of this size. `weights` are those of the last word, and `hidden` are the words that it must
    /// not see. Returns the word that was clicked.
    pub(crate) fn show(
        &mut self,
        ui: &mut Ui,
        size: Vec2,
        words: &[String],
        weights: &[f32],
        hidden: &BTreeSet<usize>,
    ) -> Option<usize> {
        let (_, area) = ui.allocate_space(size);
        let small = TextStyle::Small.resolve(ui.style());
        let places = places(ui, area, words, 1.6 * small.size);
        let (font, places) = places;
        let last = places.len().checked_sub(1)?;
        let moving = self.weights.towards(ui, weights);
        draw(ui, area, &places, &moving);
        let mut clicked = None;
        // Shares side by side must not touch: the largest is written first.
        let mut order: Vec<usize> = (0..=last).collect();
        let weight = |i: usize| weights.get(i).copied().unwrap_or_default();
        order.sort_by(|i, j| weight(*j).total_cmp(&weight(*i)));
        let mut written: Vec<Rect> = Vec::new();
        let accent = accent(ui);
        for i in order.iter().copied().filter(|i| weight(*i) >= LEAST_WRITTEN) {
            let text = format!("{:.0} %", 100.0 * weight(i));
            let galley = ui.painter().layout_no_wrap(text, small.clone(), accent);
            let at = places[i].center_bottom() + vec2(-galley.size().x / 2.0, 4.0);
            let at = pos2(at.x.clamp(area.left(), area.right() - galley.size().x), at.y);
            let rect = Rect::from_min_size(at, galley.size());
            if written.iter().all(|other| !other.expand2(vec2(4.0, 0.0)).intersects(rect)) {
                ui.painter().galley(at, galley, accent);
                written.push(rect);
            }
        }
        // The words are one stop of the Tab key: the arrow keys go from one to the next.
        let id = ui.scope_id().with("word with the stop");
        let stop =
            ui.data(|data| data.get_temp::<usize>(id)).unwrap_or(0).min(last.saturating_sub(1));
        let mut next = None;
        for (i, (word, place)) in words.iter().zip(&places).enumerate() {
            let is_hidden = hidden.contains(&i);
            if i == last {
                let color = ui.visuals().strong_text_color();
                write(ui, word, place.center(), &font, color);
                let stroke = Stroke::new(2.0, accent);
                ui.painter().rect_stroke(*place, 6, stroke, StrokeKind::Inside);
                continue;
            }
            let sense = if i == stop { Sense::click() } else { Sense::CLICK };
            let response = ui.interact(*place, ui.scope_id().with(("word", i)), sense);
            next = next.or_else(|| arrow(ui, &response, i, last));
            response.widget_info(|| {
                WidgetInfo::selected(Role::Button, true, is_hidden, format!("Hide {word} at {i}"))
            });
            if response.clicked() {
                (clicked, next) = (Some(i), Some(i));
            }
            let color = paint(ui, &response, is_hidden);
            let at = write(ui, word, place.center(), &font, color);
            if is_hidden {
                ui.painter().hline(at.x_range(), at.center().y, Stroke::new(2.0, color));
            }
            let does = if is_hidden { "Show it again" } else { "Hide it" };
            let hint = format!("“{word}” gets {:.1} %. {does}.", 100.0 * weight(i));
            response.on_hover_text(if i == 0 {
                format!("{hint}\n“{word}” begins each text. {SINK}")
            } else {
                hint
            });
        }
        if let Some(next) = next {
            ui.data_mut(|data| data.insert_temp(id, next));
            let word = ui.scope_id().with(("word", next));
            ui.memory_mut(|memory| memory.request_focus(word));
            ui.ctx().request_repaint();
        }
        clicked
    }
}

/// The word before `end` to which an arrow key leads from word `i`, if it has the focus.
pub(crate) fn arrow(ui: &Ui, response: &Response, i: usize, end: usize) -> Option<usize> {
    if !response.has_focus() {
        return None;
    }
    let filter = EventFilter { horizontal_arrows: true, ..EventFilter::default() };
    ui.memory_mut(|memory| memory.set_focus_lock_filter(response.id, filter));
    let pressed = |key| ui.input(|input| input.num_presses(key));
    let place = (i + pressed(Key::ArrowRight)).saturating_sub(pressed(Key::ArrowLeft));
    (place != i).then(|| place.min(end.saturating_sub(1)))
}

fn accent(ui: &Ui) -> Color32 {
    if ui.visuals().dark_mode {
        Color32::from_rgb(255, 178, 84)
    } else {
        Color32::from_rgb(176, 96, 0)
    }
}

/// The font of the words, as large as the width allows, and the place of each word. Room is left below them.
fn places(ui: &Ui, area: Rect, words: &[String], below: f32) -> (FontId, Vec<Rect>) {
    let mut font = TextStyle::Body.resolve(ui.style());
    font.size *= 1.5;
    let painter = ui.painter();
    let widths = |font: &FontId| -> Vec<f32> {
        let width = |word: &String| {
            painter.layout_no_wrap(word.clone(), font.clone(), Color32::PLACEHOLDER).size().x
        };
        words.iter().map(width).collect()
    };
    // The pads of a word, and the gap to the next, grow with the font.
    let (pad, gap) = (0.26, 0.12);
    let needed = |font: &FontId| {
        let pads = font.size * (2.0 * pad * words.len() as f32 + gap * (words.len() as f32 - 1.0));
        widths(font).iter().sum::<f32>() + pads
    };
    font.size = (font.size * (area.width() / needed(&font)).min(1.0)).max(8.0);
    let line = 1.6 * font.size;
    let top = area.bottom() - below - line;
    let mut left = area.left() + ((area.width() - needed(&font)) / 2.0).max(0.0);
    let place = |width: f32| {
        let width = width + 2.0 * pad * font.size;
        let rect = Rect::from_min_size(pos2(left, top), vec2(width, line));
        left += width + gap * font.size;
        rect
    };
    let places = widths(&font).into_iter().map(place).collect();
    (font, places)
}

/// Writes a word around a position. Returns its place.
fn write(ui: &Ui, word: &str, center: Pos2, font: &FontId, color: Color32) -> Rect {
    ui.painter().text(center, egui::Align2::CENTER_CENTER, word, font.clone(), color)
}

/// Marks a word under the pointer. Returns the colour of its text.
fn paint(ui: &Ui, response: &Response, is_hidden: bool) -> Color32 {
    let visuals = ui.visuals();
    if response.hovered() || response.has_focus() {
        ui.painter().rect_filled(response.rect, 6, visuals.widgets.hovered.weak_bg_fill);
    }
    if is_hidden { visuals.weak_text_color().gamma_multiply(0.7) } else { visuals.text_color() }
}

fn draw(ui: &Ui, area: Rect, places: &[Rect], weights: &[f32]) {
    let Some(last) = places.last() else { return };
    let (ground, room) = (last.top() - 4.0, last.top() - 4.0 - area.top());
    // All ribbons together are as wide as the last word at most.
    let whole = (0.8 * last.width()).min(0.2 * room);
    let widest = last.center().x - places[0].center().x;
    let least = 0.03 * style::enlarged(ui).max(1.0) * whole;
    let color = accent(ui);
    // The ribbon to the nearest word begins at the left.
    let mut left = last.center().x - whole / 2.0;
    for (place, weight) in places.iter().zip(weights).rev() {
        let width = weight * whole;
        let from = left + width / 2.0;
        left += width;
        if *weight < LEAST {
            continue;
        }
        // The ribbon of the last word to itself ends beside the others.
        let to = place.center().x.min(last.center().x - 0.9 * whole);
        let half = (from - to) / 2.0;
        let tall = (room - whole / 2.0).min(ROUND * widest / 2.0) - width / 2.0;
        let height = tall * (2.0 * half / (widest + whole)).clamp(0.0, 1.0).sqrt();
        let point = |i: usize| {
            let angle = PI * i as f32 / (POINTS - 1) as f32;
            pos2(to + half - half * angle.cos(), ground - height * angle.sin())
        };
        let shown = color.gamma_multiply(0.45 + 0.55 * weight.clamp(0.0, 1.0));
        let stroke = Stroke::new(width.max(least).max(1.0), shown);
        ui.painter().add(Shape::line((0..POINTS).map(point).collect(), stroke));
    }
}
