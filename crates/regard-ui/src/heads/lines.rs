//! The view with lines: queries at the left, keys at the right, and a line for each weight.

use core::ops::Range;

use egui::accesskit::Role;
use egui::{
    Color32, Label, Pos2, Rect, RichText, Sense, Slider, Stroke, TextStyle, Ui, WidgetInfo, pos2,
    text::LayoutJob, text::TextWrapping, vec2,
};

use super::opened::{Selected, Surveyed};
use super::{Side, State};
use crate::{numbers, style};

/// Lines weaker than this share of the strongest are not drawn.
const WEAKEST: f32 = 0.02;
/// The widest that a token's text may be.
const WIDEST_TOKEN: f32 = 180.0;
/// The widest that the lines may be.
const WIDEST: f32 = 420.0;
/// The width for a number beside a token.
const NUMBER: f32 = 48.0;

/// The layout.
struct Places {
    tokens: [Range<usize>; 2],
    /// The x coordinates at which the lines begin and end.
    ends: [f32; 2],
    width: f32,
    top: f32,
    line: f32,
}

impl Places {
    fn of(&self, side: Side) -> &Range<usize> {
        &self.tokens[side as usize]
    }

    fn end(&self, side: Side, i: usize) -> Pos2 {
        let row = (i - self.of(side).start) as f32 + 0.5;
        pos2(self.ends[side as usize], self.top + row * self.line)
    }

    fn rect(&self, side: Side, i: usize) -> Rect {
        let end = self.end(side, i);
        let width = if side == Side::Queries { -self.width } else { self.width };
        Rect::from_two_pos(end - vec2(0.0, self.line / 2.0), end + vec2(width, self.line / 2.0))
    }
}

/// Shows as many tokens as fit, around the chosen one.
pub fn show(ui: &mut Ui, opened: &Surveyed, selected: &Selected, state: &mut State) {
    let line = ui.text_style_height(&TextStyle::Body) + 3.0;
    let counts = opened.labels.each_ref().map(Vec::len);
    let most = counts.into_iter().max().unwrap_or(1);
    let fit = |ui: &Ui| ((ui.available_height() / line) as usize).max(4);
    if most > fit(ui) {
        around(ui, state, most);
    }
    let fit = fit(ui);
    let tokens = counts.map(|n| window(n, state.around, fit));
    let heard = note(ui, selected, state, &tokens, counts);
    let fit = if heard { ((ui.available_height() / line) as usize).max(4) } else { fit };
    let tokens = counts.map(|n| window(n, state.around, fit));
    let rows = tokens.each_ref().map(ExactSizeIterator::len).into_iter().max().unwrap_or(1);
    let (_, rect) = ui.allocate_space(vec2(ui.available_width(), rows as f32 * line));
    let most = (rect.width() * 0.28 - NUMBER / 2.0).clamp(40.0, WIDEST_TOKEN);
    let width = widest(ui, opened, &tokens).clamp(40.0, most);
    let between = (rect.width() - 2.0 * (width + NUMBER)).clamp(40.0, WIDEST);
    let left = rect.left() + NUMBER + width;
    let places = Places { tokens, ends: [left, left + between], width, top: rect.top(), line };
    let hovered = token_buttons(ui, opened, state, &places);
    let isolated = hovered.or(state.isolated).filter(|(side, i)| places.of(*side).contains(i));
    lines(ui, selected, &places, isolated);
    texts(ui, opened, selected, &places, isolated);
}

/// The width of the widest visible token.
fn widest(ui: &Ui, opened: &Surveyed, tokens: &[Range<usize>; 2]) -> f32 {
    let font = TextStyle::Body.resolve(ui.style());
    let labels = opened.labels.iter().zip(tokens).flat_map(|(labels, seen)| &labels[seen.clone()]);
    let width = |label: &String| {
        ui.painter().layout_no_wrap(label.clone(), font.clone(), Color32::PLACEHOLDER).size().x
    };
    labels.map(width).fold(0.0, f32::max) + 8.0
}

/// A slider for the token in the middle, if not all tokens fit.
fn around(ui: &mut Ui, state: &mut State, most: usize) {
    ui.horizontal(|ui| {
        ui.label("Around token");
        ui.spacing_mut().slider_width = (ui.available_width() - 96.0).clamp(80.0, 320.0);
        ui.add(Slider::new(&mut state.around, 0..=most - 1)).accessible_name("Around token");
    });
}

/// The visible tokens of `n`, if `fit` tokens fit.
fn window(n: usize, around: usize, fit: usize) -> Range<usize> {
    let fit = fit.min(n);
    let start = around.saturating_sub(fit / 2).min(n - fit);
    start..start + fit
}

/// Tells how much of a chosen query's weight is on invisible tokens. Returns whether it wrote anything.
fn note(
    ui: &mut Ui,
    selected: &Selected,
    state: &State,
    tokens: &[Range<usize>; 2],
    counts: [usize; 2],
) -> bool {
    let [_, keys] = counts;
    let Some((Side::Queries, query)) = state.isolated.filter(|_| tokens[1].len() < keys) else {
        return false;
    };
    let is_seen = tokens[0].contains(&query);
    let Some(row) = selected.numbers.chunks_exact(keys).nth(query).filter(|_| is_seen) else {
        return false;
    };
    let sum = |row: &[f32]| row.iter().filter(|w| w.is_finite()).sum::<f32>();
    let outside = sum(row) - sum(&row[tokens[1].clone()]);
    let text = format!(
        "{} of its weight is on keys that are not in view.",
        numbers::spoken(outside.max(0.0))
    );
    ui.add(Label::new(RichText::new(text).text_style(TextStyle::Small).weak()).wrap());
    true
}

/// Each token is a button that isolates its lines. Returns the token under the pointer.
fn token_buttons(
    ui: &Ui,
    opened: &Surveyed,
    state: &mut State,
    places: &Places,
) -> Option<(Side, usize)> {
    let mut hovered = None;
    for (side, term) in [(Side::Queries, "query"), (Side::Keys, "key")] {
        for i in places.of(side).clone() {
            let id = ui.scope_id().with(("token", term, i));
            let response = ui.interact(places.rect(side, i), id, Sense::click());
            let name = format!("{term} {i}: {}", opened.labels[side as usize][i]);
            response.widget_info(|| WidgetInfo::labeled(Role::Button, true, &name));
            if response.clicked() {
                state.isolated =
                    if state.isolated == Some((side, i)) { None } else { Some((side, i)) };
            }
            if response.hovered() || response.has_focus() {
                hovered = Some((side, i));
            }
        }
    }
    hovered
}

fn lines(ui: &Ui, selected: &Selected, places: &Places, isolated: Option<(Side, usize)>) {
    let (color, only) = match isolated {
        None => (ui.visuals().hyperlink_color, [None, None]),
        Some((Side::Queries, i)) => (style::QUERY, [Some(i), None]),
        Some((Side::Keys, i)) => (style::KEY, [None, Some(i)]),
    };
    let is_in = |range: &Range<usize>, only: Option<usize>| match only {
        Some(i) => i..if range.contains(&i) { i + 1 } else { i },
        None => range.clone(),
    };
    let queries = is_in(places.of(Side::Queries), only[0]);
    let pairs = queries
        .flat_map(|query| is_in(places.of(Side::Keys), only[1]).map(move |key| (query, key)));
    let size =
        |(query, key)| selected.number(query, key).filter(|w| w.is_finite()).map_or(0.0, f32::abs);
    let sizes: Vec<_> = pairs.map(|pair| (pair, size(pair))).collect();
    // The strongest line of one token is drawn as strongly as the strongest of all.
    let strongest = match isolated {
        Some(_) => sizes.iter().map(|(_, size)| *size).fold(0.0, f32::max),
        None => selected.extent.largest,
    };
    for ((query, key), size) in sizes {
        let strength = size / strongest.max(f32::MIN_POSITIVE);
        if strength >= WEAKEST {
            let (from, to) = (places.end(Side::Queries, query), places.end(Side::Keys, key));
            let ends = [from + vec2(4.0, 0.0), to - vec2(4.0, 0.0)];
            let stroke = Stroke::new(1.0 + 2.0 * strength, color.gamma_multiply(strength.sqrt()));
            ui.painter().line_segment(ends, stroke);
        }
    }
}

/// The tokens, and beside those of the other side the weights of the isolated one.
fn texts(
    ui: &Ui,
    opened: &Surveyed,
    selected: &Selected,
    places: &Places,
    isolated: Option<(Side, usize)>,
) {
    let visuals = ui.visuals();
    for side in [Side::Queries, Side::Keys] {
        for i in places.of(side).clone() {
            let is_it = isolated == Some((side, i));
            let color = match (is_it, side) {
                (false, _) => visuals.text_color(),
                (true, Side::Queries) => style::readable(style::QUERY, visuals),
                (true, Side::Keys) => style::readable(style::KEY, visuals),
            };
            let rect = places.rect(side, i);
            let weight = match isolated {
                Some((Side::Queries, query)) if side == Side::Keys => selected.number(query, i),
                Some((Side::Keys, key)) if side == Side::Queries => selected.number(i, key),
                _ => None,
            };
            if let Some(weight) = weight.filter(|w| w.is_finite() && w.abs() >= 0.005) {
                let room = vec2(NUMBER - 6.0, 0.0);
                let at = if side == Side::Queries {
                    rect.left_center() - room
                } else {
                    rect.right_center()
                };
                text(ui, &numbers::fixed(weight, 2), at, room.x, false, visuals.weak_text_color());
            }
            let label = &opened.labels[side as usize][i];
            text(ui, label, rect.left_center(), rect.width(), side == Side::Queries, color);
        }
    }
}

/// One line of text, truncated if it does not fit.
fn text(ui: &Ui, text: &str, left_center: Pos2, width: f32, at_the_right: bool, color: Color32) {
    let font = TextStyle::Body.resolve(ui.style());
    let mut job = LayoutJob::simple_singleline(text.to_owned(), font, color);
    job.wrap = TextWrapping::truncate_at_width(width - 4.0);
    let galley = ui.painter().layout_job(job);
    let x = if at_the_right { width - 2.0 - galley.size().x } else { 2.0 };
    ui.painter().galley(left_center + vec2(x, -galley.size().y / 2.0), galley, color);
}

#[cfg(test)]
mod tests {
    use super::window;

    #[test]
    fn the_window_stays_within_the_tokens() {
        assert_eq!(window(5, 2, 10), 0..5);
        assert_eq!(window(100, 0, 10), 0..10);
        assert_eq!(window(100, 50, 10), 45..55);
        assert_eq!(window(100, 99, 10), 90..100);
        assert_eq!(window(3, 99, 10), 0..3);
    }
}
