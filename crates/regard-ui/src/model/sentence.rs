//! The sentence: its words, which are typed in place, with ribbons from one of them to those that a head looks at.
//!
//! The weights add up to 1, and so do the widths: the ribbons leave the word side by side. The one to the farthest word lies
//! outside, so that none crosses another. A ribbon is half an ellipse between the two words. It lies above the line of words, and
//! no text is above that line. A longer line scrolls.

use core::f32::consts::PI;
use core::ops::Range;
use std::collections::BTreeSet;
use std::sync::Arc;

use egui::accesskit::Role;
use egui::text::{CCursor, CCursorRange, LayoutJob, LayoutSection, TextFormat};
use egui::{
    Color32, Event, EventFilter, FontId, Frame, Id, Key, Margin, Pos2, Rect, Response, ScrollArea,
    Sense, Shape, Stroke, StrokeKind, TextEdit, TextStyle, Ui, UiBuilder, WidgetInfo, pos2, vec2,
};

use regard_heads::HeadId;

use super::patch::Dragged;
use super::percent;
use crate::explain::SINK;
use crate::heads::Surveyed;
use crate::style::{lone, plain};
use crate::widgets::Motion;
use crate::{numbers, style};

const POINTS: usize = 48;
/// A weight below the first has no ribbon. The share of a weight below the second is not written.
const LEAST: f32 = 0.005;
const LEAST_WRITTEN: f32 = 0.03;
/// The height of the highest ribbon as a share of its half width.
const ROUND: f32 = 0.75;
/// The sizes of the words: as large as the width allows, between these.
const SIZES: [f32; 2] = [18.0, 23.0];
/// On a page narrower than the first, the words may be as small as the second.
const NARROW: [[f32; 2]; 2] = [[500.0, 14.0], [720.0, 15.5]];
/// The space before a word, and before a part of a word, as shares of the size of the font.
const GAPS: [f32; 2] = [0.34, 0.12];

/// What is shown: the words as the model reads them, and the weights of one of them in a head.
pub(super) struct SentenceView<'a> {
    pub(super) words: &'a [String],
    pub(super) query: usize,
    pub(super) weights: &'a [f32],
    pub(super) hidden: &'a BTreeSet<usize>,
    /// Whether a click hides a word. The words of a file can only be looked from.
    pub(super) hides: bool,
    /// The name of the head.
    pub(super) head: &'a str,
    /// Whether the model still reads a later text.
    pub(super) is_stale: bool,
}

/// What the user has done to a word.
pub(super) enum Done {
    /// It is hidden from every head, or shown again.
    Hide(usize),
    /// It is hidden in this head from the word that looks, or shown again.
    Cut(usize),
    /// Its ribbons are shown.
    Look(usize),
    /// The arithmetic of its weight is opened.
    Open(usize),
    /// A token of the second text was dropped on it.
    Drop(usize, usize),
}

/// The sentence, with weights that move to those of the state.
#[derive(Default)]
pub(super) struct Sentence {
    weights: Motion,
    /// The number of words, and the one that looks, in the last frame.
    before: (usize, usize),
    /// The weights of a head, and the head.
    read: Option<(Arc<Surveyed>, HeadId, Vec<f32>)>,
}

impl Sentence {
    /// The weights of a word in a head.
    pub(super) fn numbers(&mut self, heads: &Arc<Surveyed>, id: HeadId, query: usize) -> Vec<f32> {
        let is_same = |(of, head, _): &(Arc<Surveyed>, HeadId, Vec<f32>)| {
            Arc::ptr_eq(of, heads) && *head == id
        };
        if !self.read.as_ref().is_some_and(is_same) {
            self.read = Some((Arc::clone(heads), id, heads.maps.head(id).into_owned()));
        }
        let keys = heads.labels()[1].len();
        let numbers = self.read.as_ref().map_or(&[][..], |(.., numbers)| numbers);
        numbers.get(query * keys..(query + 1) * keys).unwrap_or_default().to_vec()
    }

    /// Shows the sentence in the whole width. Without a text to type, the words stand as they are.
    pub(super) fn show(
        &mut self,
        ui: &mut Ui,
        height: f32,
        text: Option<&mut String>,
        of: &SentenceView<'_>,
    ) -> Option<Done> {
        let (_, area) = ui.allocate_space(vec2(ui.available_width(), height));
        let mut inner = ui.new_child(UiBuilder::new().max_rect(area));
        let scroll = ScrollArea::horizontal().id_salt("sentence").auto_shrink(false);
        scroll.show(&mut inner, |ui| self.line(ui, area.size(), text, of)).inner
    }

    fn line(
        &mut self,
        ui: &mut Ui,
        room: egui::Vec2,
        text: Option<&mut String>,
        of: &SentenceView<'_>,
    ) -> Option<Done> {
        let mut own: String;
        let is_typed = text.is_some();
        let text = if let Some(text) = text {
            text
        } else {
            // The token that begins a text is no part of it.
            let words = of.words.iter().filter(|word| lone(word) != "⟨start⟩");
            own = words.map(|word| plain(word)).collect::<Vec<_>>().join(" ");
            &mut own
        };
        let layout = Layout { spans: spans(text, of.words), query: of.query, hidden: of.hidden };
        // The bar of a line that scrolls stands below it.
        let small = TextStyle::Small.resolve(ui.style());
        let mut font = TextStyle::Body.resolve(ui.style());
        font.size = SIZES[1];
        // The words beside the text, their gaps, and the margins.
        let outside = |ui: &Ui, font: &FontId| {
            let beside = layout.spans.iter().zip(of.words).filter(|(span, _)| span.is_none());
            let widths = beside.map(|(_, word)| width(ui, font, word) + 0.5 * font.size);
            widths.sum::<f32>() + 0.5 * font.size + 12.0
        };
        let wide = ui.painter().layout_job(layout.job(ui, text, &font)).size().x;
        let scale = room.x / (wide + outside(ui, &font));
        let narrow = NARROW.into_iter().find(|[width, _]| room.x < *width);
        let least = narrow.map_or(SIZES[0], |[_, least]| least);
        font.size = (font.size * scale).clamp(least, SIZES[1]);
        let galley = ui.painter().layout_job(layout.job(ui, text, &font));
        let needed = galley.size().x + outside(ui, &font);
        let is_long = needed > room.x + 1.0;
        let (_, area) = ui.allocate_space(vec2(needed.max(room.x), room.y - 10.0));
        let line = 1.6 * font.size;
        let top = area.bottom() - 1.5 * small.size - 4.0 - line;
        // A short sentence stands in the middle.
        let left = if is_long { area.left() + 4.0 } else { area.center().x - needed / 2.0 };
        let mut places: Vec<Option<Rect>> = vec![None; of.words.len()];
        let at = |from: f32, to: f32| {
            Rect::from_min_max(pos2(from, top), pos2(to.max(from + 6.0), top + line))
        };
        // The words that the text does not have, such as the one that begins each text.
        let lead = layout.spans.iter().take_while(|span| span.is_none()).count();
        let mut x = left;
        for (place, word) in places.iter_mut().zip(of.words).take(lead) {
            let to = x + width(ui, &font, word) + 0.3 * font.size;
            *place = Some(at(x, to));
            x = to + 0.2 * font.size;
        }
        let start = pos2(x, top + (line - galley.size().y) / 2.0);
        for (place, span) in places.iter_mut().zip(&layout.spans) {
            let Some(span) = span else { continue };
            let cursor = |byte: usize| {
                galley.pos_from_cursor(CCursor::new(text[..byte].chars().count())).left()
            };
            *place = Some(at(
                start.x + cursor(span.start) - 0.14 * font.size,
                start.x + cursor(span.end) + 0.14 * font.size,
            ));
        }
        x = start.x + galley.size().x + 0.5 * font.size;
        for i in lead..places.len() {
            if places[i].is_none() {
                let is_last = layout.spans[i..].iter().all(Option::is_none);
                let from = if is_last { x } else { places[i - 1].map_or(x, |place| place.right()) };
                let to = from + if is_last { width(ui, &font, &of.words[i]) } else { 0.0 };
                places[i] = Some(at(from, to));
                if is_last {
                    x = to + 0.5 * font.size;
                }
            }
        }
        let places: Vec<Rect> = places.into_iter().flatten().collect();
        if self.before != (places.len(), of.query) {
            self.before = (places.len(), of.query);
            if let Some(place) = places.get(of.query).filter(|_| is_long) {
                ui.scroll_to_rect(place.expand2(vec2(40.0, 0.0)), None);
            }
        }
        let moving = self.weights.towards(ui, of.weights);
        let ribbons = ribbons(ui, area, &places, of.query, &moving);
        let mut done = draw(ui, area, top, ribbons, of);
        if is_typed {
            let rect =
                Rect::from_min_max(start, pos2(area.right().max(start.x + 60.0), top + line));
            field(ui, rect, text, of.words, &layout, &font, &galley);
        } else {
            ui.painter().galley(start, galley, ui.visuals().text_color());
        }
        done = Self::words(ui, &places, &font, &layout, of).or(done);
        let beyond = beyond(ui, &places, &small, of);
        shares(ui, area, &places, &small, of.weights, beyond);
        done
    }

    fn words(
        ui: &Ui,
        places: &[Rect],
        font: &FontId,
        layout: &Layout<'_>,
        of: &SentenceView<'_>,
    ) -> Option<Done> {
        let mut done = None;
        // The words are one stop of the Tab key: the arrow keys go from one to the next.
        let id = ui.scope_id().with("word with the stop");
        let last = places.len().saturating_sub(1);
        let stop = ui.data(|data| data.get_temp::<usize>(id)).unwrap_or(0).min(last);
        let mut next = None;
        for (i, (word, place)) in of.words.iter().zip(places).enumerate() {
            let (name, is_hidden) = (lone(word), of.hidden.contains(&i));
            let sense = if i == stop { Sense::click() } else { Sense::CLICK };
            let response = ui.interact(*place, ui.scope_id().with(("word", i)), sense);
            next = next.or_else(|| arrow(ui, &response, i, places.len()));
            let weight = of.weights.get(i).copied().unwrap_or_default();
            let from = lone(&of.words[of.query]);
            let (spoken, query) = (numbers::spoken(weight), of.query);
            let does = if of.hides { "Hide" } else { "Look from" };
            let words = format!("{does} {name} at {i}, weight {spoken} from {from} at {query}");
            response.widget_info(|| WidgetInfo::selected(Role::Button, true, is_hidden, &words));
            if response.hovered() || response.has_focus() {
                let stroke = Stroke::new(1.0, ui.visuals().weak_text_color());
                ui.painter().rect_stroke(*place, 6, stroke, StrokeKind::Inside);
            }
            if i == of.query {
                let stroke = Stroke::new(2.0, accent(ui));
                ui.painter().rect_stroke(*place, 6, stroke, StrokeKind::Inside);
            }
            let is_beside = [&layout.spans[..=i], &layout.spans[i..]]
                .iter()
                .any(|words| words.iter().all(Option::is_none));
            if is_beside {
                let color = ui.visuals().weak_text_color();
                let at = write(ui, &name, place.center(), font, color);
                if is_hidden {
                    ui.painter().hline(at.x_range(), at.center().y, Stroke::new(2.0, color));
                }
            }
            if response.double_clicked() && layout.spans[i].is_some() {
                // The first of the two clicks has hidden it, and the second shows it again.
                ui.data_mut(|data| data.insert_temp(retyped(), i));
            }
            if response.clicked() {
                let looks = !of.hides || ui.input(|input| input.modifiers.shift);
                done = Some(if looks { Done::Look(i) } else { Done::Hide(i) });
                next = Some(i);
            }
            if let Some(Dragged(from)) = response.dnd_hover_payload().as_deref() {
                let color = if *from == i { style::QUERY } else { ui.visuals().error_fg_color };
                let stroke = Stroke::new(3.0, color);
                ui.painter().rect_stroke(*place, 6, stroke, StrokeKind::Outside);
            }
            if let Some(Dragged(from)) = response.dnd_release_payload().as_deref() {
                done = Some(Done::Drop(*from, i));
            }
            let menu = Some(&response).filter(|_| of.hides);
            let _shown = menu.map(|response| {
                response.context_menu(|ui| {
                    let choices = [
                        (format!("Look from “{name}”"), Done::Look(i)),
                        (format!("Hide “{name}” from every head, or show it"), Done::Hide(i)),
                        (format!("Hide “{name}” from “{from}” in head {}", of.head), Done::Cut(i)),
                        ("Show the arithmetic of its weight".to_owned(), Done::Open(i)),
                    ];
                    for (text, choice) in choices {
                        if ui.button(text).clicked() {
                            done = Some(choice);
                            ui.close();
                        }
                    }
                })
            });
            let does = if is_hidden { "shows it again" } else { "hides it from every head" };
            let share = percent(weight);
            let hint = format!(
                "“{name}” gets {share}. A click {does}, a click with Shift looks from it, a double click types over it."
            );
            let hint = if of.hides {
                hint
            } else {
                format!("“{name}” gets {share}. A click looks from it.")
            };
            let begins = i == 0 && layout.spans[i].is_none();
            let sink =
                if begins { format!("\nIt begins each text. {SINK}") } else { String::new() };
            response.on_hover_text(format!("{hint}{sink}"));
        }
        if let Some(next) = next {
            ui.data_mut(|data| data.insert_temp(id, next));
            let word = ui.scope_id().with(("word", next));
            ui.memory_mut(|memory| memory.request_focus(word));
            ui.ctx().request_repaint();
        }
        done
    }
}

/// The word that the next frame types over.
fn retyped() -> Id {
    Id::unique("the word that is typed over")
}

/// The field in which the words are typed. They stand as the words do.
fn field(
    ui: &mut Ui,
    rect: Rect,
    text: &mut String,
    words: &[String],
    layout: &Layout<'_>,
    font: &FontId,
    galley: &egui::Galley,
) {
    let id = Id::unique("the text of the stage");
    let select = |ui: &Ui, from: usize, to: usize| {
        let mut state = TextEdit::load_state(ui.ctx(), id).unwrap_or_default();
        let range = CCursorRange::two(CCursor::new(from), CCursor::new(to));
        state.cursor.set_char_range(Some(range));
        TextEdit::store_state(ui.ctx(), id, state);
        ui.memory_mut(|memory| memory.request_focus(id));
    };
    let again = ui.data_mut(|data| data.remove_temp::<usize>(retyped()));
    if let Some(span) = again.and_then(|word| layout.spans.get(word)?.clone()) {
        let [from, to] = [span.start, span.end].map(|byte| text[..byte].chars().count());
        select(ui, from, to);
    }
    // What is typed while nothing has the focus goes to the end of the sentence.
    let types = |input: &egui::InputState| {
        input.events.iter().any(|event| matches!(event, Event::Text(text) if text != " "))
    };
    if ui.memory(|memory| memory.focused().is_none()) && ui.input(types) {
        let end = text.chars().count();
        select(ui, end, end);
    }
    let (query, hidden) = (layout.query, layout.hidden);
    let mut layouter = |ui: &Ui, buffer: &dyn egui::TextBuffer, _: f32| {
        let text = buffer.as_str();
        let layout = Layout { spans: spans(text, words), query, hidden };
        ui.painter().layout_job(layout.job(ui, text, font))
    };
    let place = Rect::from_min_size(rect.min, vec2(rect.width(), galley.size().y));
    ui.scope_builder(UiBuilder::new().max_rect(place), |ui| {
        let field = TextEdit::multiline(text).id(id).desired_rows(1).desired_width(f32::INFINITY);
        let field = field.frame(Frame::NONE).margin(Margin::ZERO).layouter(&mut layouter);
        ui.add(field.hint_text("Type a sentence.").font(font.clone())).accessible_name("Text");
    });
}

/// Where the words stand in the text.
struct Layout<'a> {
    spans: Vec<Option<Range<usize>>>,
    query: usize,
    hidden: &'a BTreeSet<usize>,
}

impl Layout<'_> {
    fn job(&self, ui: &Ui, text: &str, font: &FontId) -> LayoutJob {
        let visuals = ui.visuals();
        let mut job = LayoutJob { text: text.to_owned(), ..LayoutJob::default() };
        job.wrap.max_width = f32::INFINITY;
        (job.break_on_newline, job.keep_trailing_whitespace) = (false, true);
        let plain = TextFormat::simple(font.clone(), visuals.text_color());
        let mut at = 0;
        for (i, span) in self.spans.iter().enumerate() {
            let Some(span) = span else { continue };
            let is_part = at > 0 && span.start == at;
            let mut push = |range: Range<usize>, leading_space, format: TextFormat| {
                let byte_range =
                    egui::text::ByteIndex(range.start)..egui::text::ByteIndex(range.end);
                job.sections.push(LayoutSection { leading_space, byte_range, format });
            };
            if span.start > at {
                push(at..span.start, 0.0, plain.clone());
            }
            let mut format = plain.clone();
            if i == self.query {
                format.color = visuals.strong_text_color();
            }
            if self.hidden.contains(&i) {
                format.color = visuals.weak_text_color().gamma_multiply(0.7);
                format.strikethrough = Stroke::new(2.0, format.color);
            }
            push(span.clone(), GAPS[usize::from(is_part)] * font.size, format);
            at = span.end;
        }
        if at < text.len() || text.is_empty() {
            let byte_range = egui::text::ByteIndex(at)..egui::text::ByteIndex(text.len());
            job.sections.push(LayoutSection { leading_space: 0.0, byte_range, format: plain });
        }
        job
    }
}

/// The bytes of each word in a text. A word that the tokenizer adds has none. A word that the tokenizer has no letters for stands
/// where the text has letters of no other word.
fn spans(text: &str, words: &[String]) -> Vec<Option<Range<usize>>> {
    let mut spans = found(text, words);
    let (mut first, mut at) = (0, 0);
    while first < spans.len() {
        let count = spans[first..].iter().take_while(|span| span.is_none()).count();
        let next = spans.get(first + count).cloned().flatten().unwrap_or(text.len()..text.len());
        let mut letters = Vec::new();
        for part in text[at..next.start].split_inclusive(char::is_whitespace) {
            letters.push(at..at + part.trim_end().len());
            at += part.len();
        }
        letters.retain(|part| !part.is_empty());
        // The words that a tokenizer adds stand before the text and after it.
        let added = if first == 0 { count.saturating_sub(letters.len()).max(1) } else { 0 };
        for (span, part) in spans[first..first + count].iter_mut().skip(added).zip(letters) {
            *span = Some(part);
        }
        (first, at) = (first + count + 1, next.end);
    }
    spans
}

/// The bytes of each word that stands in a text as it is.
fn found(text: &str, words: &[String]) -> Vec<Option<Range<usize>>> {
    let small = text.to_lowercase();
    // Some letters have more bytes as capitals.
    let is_even = small.len() == text.len();
    let (mut at, mut is_lost) = (0, false);
    let mut span = |word: &String| {
        let word = if is_even { plain(word).to_lowercase() } else { plain(word).to_owned() };
        let text = if is_even { &*small } else { text };
        let rest = text.get(at..)?;
        let blank = rest.len() - rest.trim_start().len();
        let here = rest[blank..].starts_with(&*word).then_some(blank);
        let found = here.or_else(|| rest.find(&*word).filter(|_| is_lost));
        is_lost = found.is_none();
        let from = at + found.filter(|_| !word.is_empty())?;
        at = from + word.len();
        Some(from..at)
    };
    words.iter().map(&mut span).collect()
}

/// The word before `end` to which an arrow key leads from word `i`, if it has the focus.
pub(super) fn arrow(ui: &Ui, response: &Response, i: usize, end: usize) -> Option<usize> {
    if !response.has_focus() {
        return None;
    }
    let filter = EventFilter { horizontal_arrows: true, ..EventFilter::default() };
    ui.memory_mut(|memory| memory.set_focus_lock_filter(response.id, filter));
    let pressed = |key| ui.input(|input| input.num_presses(key));
    let place = (i + pressed(Key::ArrowRight)).saturating_sub(pressed(Key::ArrowLeft));
    (place != i).then(|| place.min(end.saturating_sub(1)))
}

/// The width of a word.
fn width(ui: &Ui, font: &FontId, word: &str) -> f32 {
    ui.painter().layout_no_wrap(lone(word), font.clone(), Color32::WHITE).size().x
}

pub(super) fn accent(ui: &Ui) -> Color32 {
    if ui.visuals().dark_mode {
        Color32::from_rgb(255, 178, 84)
    } else {
        Color32::from_rgb(176, 96, 0)
    }
}

/// Names the word with the largest weight at the edge behind which a long line hides it. A click leads there. Returns its place.
fn beyond(ui: &Ui, places: &[Rect], font: &FontId, of: &SentenceView<'_>) -> Option<Rect> {
    let target = super::center::target(of.weights)?;
    let (place, seen) = (places.get(target)?, ui.clip_rect().x_range());
    let (word, share) = (lone(&of.words[target]), percent(of.weights[target]));
    let is_left = place.center().x < seen.min;
    if !is_left && place.center().x <= seen.max {
        return None;
    }
    let text = if is_left { format!("← {word} {share}") } else { format!("{word} {share} →") };
    let galley = ui.painter().layout_no_wrap(text.clone(), font.clone(), accent(ui));
    let left = if is_left { seen.min + 4.0 } else { seen.max - 4.0 - galley.size().x };
    let rect = Rect::from_min_size(pos2(left, place.bottom() + 2.0), galley.size());
    let response = ui.interact(rect, ui.scope_id().with("beyond"), Sense::CLICK);
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, &text));
    ui.painter().galley(rect.min, galley, accent(ui));
    if response.on_hover_text("Scroll to this word.").clicked() {
        ui.scroll_to_rect(*place, Some(egui::Align::Center));
    }
    Some(rect)
}

/// Writes the shares below the words. Shares side by side must not touch: the largest is written first.
fn shares(
    ui: &Ui,
    area: Rect,
    places: &[Rect],
    font: &FontId,
    weights: &[f32],
    beyond: Option<Rect>,
) {
    let accent = accent(ui);
    let mut order: Vec<usize> = (0..places.len().min(weights.len())).collect();
    order.sort_by(|i, j| weights[*j].total_cmp(&weights[*i]));
    let mut written: Vec<Rect> = beyond.into_iter().collect();
    for i in order.into_iter().take_while(|i| weights[*i] >= LEAST_WRITTEN) {
        let text = format!("{:.0} %", 100.0 * weights[i]);
        let galley = ui.painter().layout_no_wrap(text, font.clone(), accent);
        let at = places[i].center_bottom() + vec2(-galley.size().x / 2.0, 2.0);
        let most = (area.right() - galley.size().x).max(area.left());
        let at = pos2(at.x.clamp(area.left(), most), at.y);
        let rect = Rect::from_min_size(at, galley.size());
        if written.iter().all(|other| !other.expand2(vec2(4.0, 0.0)).intersects(rect)) {
            ui.painter().galley(at, galley, accent);
            written.push(rect);
        }
    }
}

/// Writes a word around a position. Returns its place.
fn write(ui: &Ui, word: &str, center: Pos2, font: &FontId, color: Color32) -> Rect {
    ui.painter().text(center, egui::Align2::CENTER_CENTER, word, font.clone(), color)
}

/// A ribbon: the word that it leads to, its line, and its width.
struct Ribbon {
    key: usize,
    points: Vec<Pos2>,
    width: f32,
    weight: f32,
}

/// The ribbons from a word to the others, to the left and to the right.
fn ribbons(ui: &Ui, area: Rect, places: &[Rect], query: usize, weights: &[f32]) -> Vec<Ribbon> {
    let Some(from) = places.get(query) else { return Vec::new() };
    let (ground, room) = (from.top() - 4.0, from.top() - 4.0 - area.top());
    // All ribbons together are as wide as the word at most.
    let whole = (0.8 * from.width()).clamp(12.0, 40.0).min(0.2 * room);
    let ends = [places[0].center().x, places[places.len() - 1].center().x];
    let widest = ends.map(|x| (from.center().x - x).abs()).into_iter().fold(1.0, f32::max);
    let least = 0.03 * style::enlarged(ui).max(1.0) * whole;
    // From left to right: to the words before it, the nearest first; then to those after it, the farthest first.
    let mut left = from.center().x - whole / 2.0;
    let after = (query + 1..places.len()).rev();
    let mut all = Vec::new();
    for key in (0..=query).rev().chain(after) {
        let weight = weights.get(key).copied().filter(|w| w.is_finite()).unwrap_or_default();
        let width = weight.clamp(0.0, 1.0) * whole;
        let start = left + width / 2.0;
        left += width;
        if weight < LEAST {
            continue;
        }
        // The ribbon of a word to itself ends beside the others.
        let to = places[key].center().x;
        let to = if key == query { from.center().x - 0.9 * whole } else { to };
        let half = (start - to) / 2.0;
        let tall = (room - whole / 2.0).min(ROUND * widest / 2.0) - width / 2.0;
        let height = tall * (2.0 * half.abs() / (widest + whole)).clamp(0.0, 1.0).sqrt();
        let point = |i: usize| {
            let angle = PI * i as f32 / (POINTS - 1) as f32;
            pos2(to + half - half * angle.cos(), ground - height * angle.sin())
        };
        let points = (0..POINTS).map(point).collect();
        all.push(Ribbon { key, points, width: width.max(least).max(1.0), weight });
    }
    all
}

/// Draws the ribbons. A click on one opens its arithmetic.
fn draw(
    ui: &Ui,
    area: Rect,
    top: f32,
    ribbons: Vec<Ribbon>,
    of: &SentenceView<'_>,
) -> Option<Done> {
    let response =
        ui.interact(area.with_max_y(top - 4.0), ui.scope_id().with("ribbons"), Sense::CLICK);
    let far = |ribbon: &Ribbon, at: Pos2| {
        let each = ribbon.points.iter().map(|point| point.distance(at));
        each.fold(f32::INFINITY, f32::min) - ribbon.width / 2.0
    };
    let at = response.hover_pos();
    let pointed = at.and_then(|at| {
        let near = ribbons.iter().map(|ribbon| (ribbon.key, far(ribbon, at)));
        let nearest = near.min_by(|a, b| a.1.total_cmp(&b.1));
        nearest.filter(|(_, far)| *far < 6.0).map(|(key, _)| key)
    });
    let color = accent(ui).gamma_multiply(if of.is_stale { 0.4 } else { 1.0 });
    for Ribbon { key, points, width, weight } in ribbons {
        let is_pointed = pointed == Some(key);
        let strength = if is_pointed { 1.0 } else { 0.45 + 0.45 * weight.clamp(0.0, 1.0) };
        let width = if is_pointed { width + 2.0 } else { width };
        ui.painter().add(Shape::line(points, Stroke::new(width, color.gamma_multiply(strength))));
    }
    let key = pointed?;
    let weight = of.weights.get(key).copied().unwrap_or_default();
    let [from, to] = [of.query, key].map(|i| of.words.get(i).map_or_else(String::new, |w| lone(w)));
    let clicked = response.clicked();
    response.on_hover_text_at_pointer(format!(
        "“{from}” gives “{to}” {} of its attention. Click for the arithmetic.",
        percent(weight)
    ));
    clicked.then_some(Done::Open(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_the_text() {
        let words = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let found = |text: &str, all: &[&str]| -> Vec<Option<String>> {
            let spans = spans(text, &words(all)).into_iter();
            spans.map(|span| span.map(|span| text[span].to_owned())).collect()
        };
        let some = |word: &str| Some(word.to_owned());
        let all = found("Mary, a bag", &["<|endoftext|>", "Mary", ",", "␣a", "␣b", "ag"]);
        assert_eq!(all, [None, some("Mary"), some(","), some("a"), some("b"), some("ag")]);
        // A model without capitals, and a word that it does not know.
        let all = found("The Xylophone is", &["[CLS]", "the", "[UNK]", "is", "[SEP]"]);
        assert_eq!(all, [None, some("The"), some("Xylophone"), some("is"), None]);
        let all =
            found("Xerxes saw a b c", &["[STORY]", "[UNK]", "saw", "[UNK]", "[UNK]", "[UNK]"]);
        assert_eq!(all, [None, some("Xerxes"), some("saw"), some("a"), some("b"), some("c")]);
        // The bytes of a letter are tokens.
        let all = found("a é b", &["a", "\\xC3", "\\xA9", "b"]);
        assert_eq!(all, [some("a"), some("é"), None, some("b")]);
        assert_eq!(found("", &["[CLS]"]), [None]);
    }
}
