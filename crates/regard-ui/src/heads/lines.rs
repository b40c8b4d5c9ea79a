//! The view with lines: queries at the left, keys at the right, and a line for each weight.

use core::ops::Range;

use egui::accesskit::Role;
use egui::{
    Align2, Color32, Label, Pos2, Rect, RichText, Sense, Slider, Stroke, TextStyle, Ui, WidgetInfo,
    pos2, vec2,
};

use super::{HeadsState, Side};
use super::{Selected, Surveyed};
use crate::heatmap::widest;
use crate::{numbers, style};

/// Lines weaker than this share of the strongest are not drawn.
const WEAKEST: f32 = 0.02;
/// The maximum width of a token's text.
const WIDEST_TOKEN: f32 = 180.0;
/// The maximum width of the lines in a low room.
const WIDEST: f32 = 420.0;
/// The maximum factor by which the text grows in a high room.
const MOST_ENLARGED: f32 = 2.0;
/// A narrower column shows no larger text, and no words beside its slider.
const NARROW: f32 = 240.0;
/// The width for a number beside a token.
const NUMBER: f32 = 48.0;
/// The maximum shares of the room: of a number, and of a token with half of its number.
const MOST_OF_NUMBER: f32 = 0.15;
const SHARE: f32 = 0.28;
/// The space around the text of a token.
const AROUND_TOKEN: f32 = 8.0;
/// The colours of heads together, which people with any colour vision can tell apart (Okabe and Ito 2008).
const COLORS: [Color32; 6] = [
    Color32::from_rgb(230, 159, 0),
    Color32::from_rgb(0, 158, 115),
    Color32::from_rgb(204, 121, 167),
    Color32::from_rgb(213, 94, 0),
    Color32::from_rgb(86, 180, 233),
    Color32::from_rgb(0, 114, 178),
];

/// The weights of a head or of a mean, row by row, and the colours of their lines.
pub(super) struct LineSet<'a> {
    pub(crate) name: String,
    pub(crate) numbers: &'a [f32],
    /// The colours of weights above and below 0.
    pub(crate) colors: [Color32; 2],
}

impl LineSet<'_> {
    fn row(&self, query: usize, keys: usize) -> &[f32] {
        self.numbers.get(query * keys..(query + 1) * keys).unwrap_or_default()
    }
}

/// The colour of the head at this place of the layer.
pub(super) fn color(place: usize) -> Color32 {
    COLORS[place % COLORS.len()]
}

struct LinePlaces {
    tokens: [Range<usize>; 2],
    /// The number of keys, visible or not.
    keys: usize,
    /// The x coordinates at which the lines begin and end.
    ends: [f32; 2],
    width: f32,
    top: f32,
    line: f32,
}

impl LinePlaces {
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

/// Shows as many tokens as fit, around the chosen one. The first layer is the shown matrix; as the only layer it has the colour of
/// the chosen side.
pub(super) fn show(
    ui: &mut Ui,
    opened: &Surveyed,
    selected: &Selected,
    layers: &[LineSet<'_>],
    state: &mut HeadsState,
) {
    legend(ui, layers);
    ui.scope(|ui| {
        let tokens = opened.labels.iter().map(Vec::len).max().unwrap_or(1);
        let high = ui.available_height() / ((tokens + 1) as f32 * line_of(ui));
        let widths = opened.labels.iter().map(|labels| widest(labels, &TextStyle::Body, ui));
        let widest = widths.fold(0.0, f32::max);
        style::enlarge(ui, growth(high, ui.available_width(), widest));
        tokens_and_lines(ui, opened, selected, layers, widest, state);
    });
}

/// The factor by which the text grows: until the tokens fill the height, as long as the widest of them stays whole.
fn growth(high: f32, room: f32, widest: f32) -> f32 {
    let whole = (room * (SHARE - MOST_OF_NUMBER / 2.0) - AROUND_TOKEN) / widest.max(1.0);
    high.min(room / NARROW).min(whole).clamp(1.0, MOST_ENLARGED)
}

/// The width for a number, and the maximum width of a token beside it, so that the lines stay within the room.
fn widths(room: f32, scale: f32) -> [f32; 2] {
    let number = (scale * NUMBER).min(MOST_OF_NUMBER * room);
    [number, (room * SHARE - number / 2.0).clamp(24.0, scale * WIDEST_TOKEN)]
}

/// The height of a token.
fn line_of(ui: &Ui) -> f32 {
    ui.text_style_height(&TextStyle::Body) + 3.0
}

fn tokens_and_lines(
    ui: &mut Ui,
    opened: &Surveyed,
    selected: &Selected,
    layers: &[LineSet<'_>],
    widest: f32,
    state: &mut HeadsState,
) {
    let scale = style::enlarged(ui);
    let counts = opened.labels.each_ref().map(Vec::len);
    let most = counts.into_iter().max().unwrap_or(1);
    // In a high room, few tokens stand farther apart.
    let apart = (ui.available_height() / (most + 1) as f32).floor();
    let line = line_of(ui).max(apart.min(2.0 * line_of(ui)));
    // One line is for the captions.
    let fit_in = |ui: &Ui, below: f32| {
        (((ui.available_height() - below) / line) as usize).saturating_sub(1).max(4)
    };
    let tall = most;
    let slider = ui.spacing().interact_size.y + ui.spacing().item_spacing.y;
    let below = if tall > fit_in(ui, 0.0) { slider } else { 0.0 };
    let fit = fit_in(ui, below);
    let tokens = counts.map(|n| window(n, state.around, fit));
    let heard = note(ui, selected, state, &tokens, counts);
    let fit = if heard { fit_in(ui, below) } else { fit };
    let tokens = counts.map(|n| window(n, state.around, fit));
    let rows = tokens.each_ref().map(ExactSizeIterator::len).into_iter().max().unwrap_or(1);
    let (_, whole) = ui.allocate_space(vec2(ui.available_width(), (rows + 1) as f32 * line));
    let rect = whole.with_min_y(whole.top() + line);
    let [number, most] = widths(rect.width(), scale);
    let width = (scale * widest + AROUND_TOKEN).clamp(24.0, most);
    let farthest = WIDEST.max(1.2 * rect.height());
    let between = (rect.width() - 2.0 * (width + number)).clamp(0.0, farthest);
    let left = rect.left() + number + width;
    let [_, keys] = counts;
    let places =
        LinePlaces { tokens, keys, ends: [left, left + between], width, top: rect.top(), line };
    let hovered = token_buttons(ui, opened, state, &places);
    let isolated = hovered.or(state.isolated).filter(|(side, i)| places.of(*side).contains(i));
    captions(ui, &places);
    for layer in layers {
        lines(ui, layer, layers.len() > 1, state, &places, isolated);
    }
    texts(ui, opened, selected, &places, isolated);
    if below > 0.0 {
        around(ui, state, tall);
    }
}

/// A slider for the token in the middle, if not all tokens fit.
fn around(ui: &mut Ui, state: &mut HeadsState, most: usize) {
    ui.horizontal(|ui| {
        if ui.available_width() > NARROW {
            ui.label("Around token");
        }
        ui.spacing_mut().slider_width = (ui.available_width() - 64.0).clamp(40.0, 320.0);
        ui.add(Slider::new(&mut state.around, 0..=most - 1)).accessible_name("Around token");
    });
}

/// The visible tokens of `n`, if `fit` tokens fit.
fn window(n: usize, around: usize, fit: usize) -> Range<usize> {
    let fit = fit.min(n);
    let start = around.saturating_sub(fit / 2).min(n - fit);
    start..start + fit
}

/// Shows the share of a chosen query's weight on invisible tokens. Returns whether it wrote anything.
fn note(
    ui: &mut Ui,
    selected: &Selected,
    state: &HeadsState,
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
    ui.label(RichText::new(text).small().weak());
    true
}

/// Each token is a button that isolates its lines. Returns the token under the pointer.
fn token_buttons(
    ui: &Ui,
    opened: &Surveyed,
    state: &mut HeadsState,
    places: &LinePlaces,
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

/// Shows the name and the colour of each head, if there are several.
fn legend(ui: &mut Ui, layers: &[LineSet<'_>]) {
    if layers.len() < 2 {
        return;
    }
    ui.horizontal_wrapped(|ui| {
        for layer in layers {
            let (dot, _) = ui.allocate_exact_size(vec2(18.0, 12.0), Sense::hover());
            let line = Rect::from_center_size(dot.center(), vec2(18.0, 4.0));
            ui.painter().rect_filled(line, 2, layer.colors[0]);
            ui.add(Label::new(&layer.name).extend());
        }
    });
}

fn captions(ui: &Ui, places: &LinePlaces) {
    let color = ui.visuals().weak_text_color();
    let font = TextStyle::Small.resolve(ui.style());
    let y = places.top - 2.0;
    let [left, right] = places.ends;
    let painter = ui.painter();
    painter.text(pos2(left - 2.0, y), Align2::RIGHT_BOTTOM, "query", font.clone(), color);
    painter.text(pos2(right + 2.0, y), Align2::LEFT_BOTTOM, "key", font, color);
}

fn lines(
    ui: &Ui,
    layer: &LineSet<'_>,
    is_one_of_several: bool,
    state: &HeadsState,
    places: &LinePlaces,
    isolated: Option<(Side, usize)>,
) {
    let (side, only) = match isolated {
        None => (None, [None, None]),
        Some((Side::Queries, i)) => (Some(style::QUERY), [Some(i), None]),
        Some((Side::Keys, i)) => (Some(style::KEY), [None, Some(i)]),
    };
    let [above, below] = layer.colors;
    // A side's colour would hide the signs.
    let side = side.filter(|_| !is_one_of_several && above == below);
    let is_in = |range: &Range<usize>, only: Option<usize>| match only {
        Some(i) => i..if range.contains(&i) { i + 1 } else { i },
        None => range.clone(),
    };
    let keys = is_in(places.of(Side::Keys), only[1]);
    let mut sizes = Vec::new();
    for query in is_in(places.of(Side::Queries), only[0]) {
        let row = layer.row(query, places.keys);
        let drawn = state.drawn(row);
        let seen = keys.clone().filter(|key| drawn(*key));
        let size = |key: usize| row.get(key).filter(|w| w.is_finite()).map_or(0.0, |w| w.abs());
        let color = |key: usize| side.unwrap_or(if row[key] < 0.0 { below } else { above });
        sizes.extend(seen.map(|key| ((query, key), size(key), color(key))));
    }
    // The strongest of the lines in view has the full colour.
    let strongest = sizes.iter().map(|(_, size, _)| *size).fold(0.0, f32::max);
    for ((query, key), size, color) in sizes {
        let strength = size / strongest.max(f32::MIN_POSITIVE);
        if strength >= WEAKEST {
            let (from, to) = (places.end(Side::Queries, query), places.end(Side::Keys, key));
            let ends = [from + vec2(4.0, 0.0), to - vec2(4.0, 0.0)];
            let stroke = Stroke::new(1.0 + 2.0 * strength, color.gamma_multiply(strength.sqrt()));
            ui.painter().line_segment(ends, stroke);
        }
    }
}

/// Draws the tokens, and the weights of the isolated one beside those of the other side.
fn texts(
    ui: &Ui,
    opened: &Surveyed,
    selected: &Selected,
    places: &LinePlaces,
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
                let room = vec2(style::enlarged(ui) * NUMBER - 6.0, 0.0);
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
    let galley = style::truncated(ui, text, font, width - 4.0, color);
    let x = if at_the_right { width - 2.0 - galley.size().x } else { 2.0 };
    ui.painter().galley(left_center + vec2(x, -galley.size().y / 2.0), galley, color);
}

#[cfg(test)]
mod tests {
    use super::{AROUND_TOKEN, growth, widths, window};

    #[test]
    fn text_does_not_grow_until_a_token_is_cut() {
        for room in [155.0, 350.0, 425.0, 970.0, 2000.0] {
            for widest in [1.0, 30.0, 58.0, 170.0] {
                let scale = growth(3.0, room, widest);
                let [_, most] = widths(room, scale);
                let needs = scale * widest + AROUND_TOKEN;
                assert!(scale == 1.0 || needs <= most * 1.0001, "{room} {widest} {scale}");
            }
        }
        assert_eq!(growth(3.0, 2000.0, 58.0), 2.0);
    }

    #[test]
    fn the_window_stays_within_the_tokens() {
        assert_eq!(window(5, 2, 10), 0..5);
        assert_eq!(window(100, 0, 10), 0..10);
        assert_eq!(window(100, 50, 10), 45..55);
        assert_eq!(window(100, 99, 10), 90..100);
        assert_eq!(window(3, 99, 10), 0..3);
    }
}
