//! The tokens that the model expects next, with and without the changes.

use egui::accesskit::Role;
use egui::{Color32, Rect, Sense, Stroke, TextStyle, Ui, WidgetInfo, vec2};

use super::{Next, Outcome, Predicts, Version, percent};
use crate::explain::{explanation, heading};
use crate::style::{self, lone};

/// The run with which the probabilities are compared.
#[derive(Clone, Copy, PartialEq)]
enum Against {
    Unchanged,
    Second,
    ModelB,
}

impl Against {
    /// The names of the columns, and the words for a screen reader.
    fn names(self) -> ([&'static str; 3], &'static str) {
        match self {
            Self::Unchanged => (["points", "after", "before"], "without the changes"),
            Self::Second => (["points", "second", "first"], "after the second input"),
            Self::ModelB => (["points", "B", "A"], "by model B"),
        }
    }

    fn of(self, next: &Next) -> f32 {
        match self {
            Self::Unchanged => next.before,
            Self::Second | Self::ModelB => next.second.unwrap_or_default(),
        }
    }
}

/// How sure the model is of a class, in one line.
fn sure(list: &[Next]) -> Option<String> {
    /// The least probability of a class of which the model is sure.
    const SURE: f32 = 0.9;
    let mut order: Vec<&Next> = list.iter().filter(|next| next.is_share).collect();
    order.sort_by(|a, b| b.after.total_cmp(&a.after));
    Some(match order[..] {
        [first, ..] if first.after >= SURE => {
            format!("{}, {} sure", first.token, percent(first.after))
        }
        [first, second, ..] => {
            let [a, b] = [first, second].map(|next| percent(next.after));
            format!("Not sure: {} {a}, {} {b}", first.token, second.token)
        }
        _ => return None,
    })
}

/// Shows the list. Returns the place of the token that was clicked.
pub(super) fn show(
    ui: &mut Ui,
    outcome: Option<&Outcome>,
    list: &[Next],
    version: Version,
    predicts: Predicts,
    appends: bool,
) -> Option<usize> {
    let top = ui.cursor().top();
    if predicts == Predicts::Class {
        heading(ui, "Class", explanation!("Class"));
    } else if let Some(vector) = outcome.map(Outcome::pooled).filter(|vector| !vector.is_empty()) {
        heading(ui, "Vector of the whole input", explanation!("Vector of the whole input"));
        ui.label(of_vector(vector));
        return None;
    } else {
        let name = if predicts == Predicts::Gap { "Words for the gap" } else { "Next words" };
        heading(ui, name, explanation!("Next words"));
    }
    // The names of the columns stand beside the heading, so that a first change moves nothing.
    let right = ui.available_rect_before_wrap();
    let beside = Rect::from_x_y_ranges(right.x_range(), top..=right.top());
    let outcome = outcome?;
    if list.is_empty() {
        let text = if outcome.next().is_empty() {
            "The model predicts nothing here. If it fills gaps, put [MASK] where it is to predict a token."
        } else {
            ""
        };
        ui.weak(text);
        return None;
    }
    if let Some(text) = sure(list).filter(|_| predicts == Predicts::Class) {
        ui.label(text);
    }
    let is_changed = outcome.next_changed().is_some();
    let has_second = outcome.next_second().is_some();
    let against = if has_second && (version.is_of_second() || !is_changed) {
        let has_model_b = outcome.request.second_model.is_some();
        Some(if has_model_b { Against::ModelB } else { Against::Second })
    } else {
        is_changed.then_some(Against::Unchanged)
    };
    if let Some(against) = against {
        columns(ui, beside, against, list.iter().all(|next| next.is_share));
    }
    let name = name_width(ui, list, against.is_some());
    let mut clicked = None;
    let mut order: Vec<usize> = (0..list.len()).collect();
    // All classes keep their places, so that no row moves while an image is drawn.
    if predicts == Predicts::Class && list.len() == outcome.next().len() {
        order.sort_by_key(|i| list[*i].id);
    } else {
        order.sort_by(|i, j| list[*j].after.total_cmp(&list[*i].after));
    }
    for i in order {
        if row(ui, &list[i], &named(list, i), against, appends, name) {
            clicked = Some(i);
        }
    }
    clicked
}

/// The size and the length of a vector, and its first numbers.
fn of_vector(vector: &[f32]) -> String {
    const SHOWN: usize = 8;
    let length = vector.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    let numbers = vector.iter().take(SHOWN).map(|x| format!("{x:.3}"));
    let numbers = numbers.collect::<Vec<_>>().join("  ").replace('-', "−");
    let more = if vector.len() > SHOWN { " …" } else { "" };
    format!("{} numbers, of length {length:.3}: {numbers}{more}", vector.len())
}

/// The widths of a number and of a token.
const NUMBER: f32 = 64.0;
const TOKEN: f32 = 80.0;
/// A narrower bar is not drawn. Names leave more to it.
const NARROWEST_BAR: f32 = 16.0;
const LEAST_BAR: f32 = 48.0;

/// The width of the tokens' names: that of the widest, if it leaves half of the rest of the row to the bars.
fn name_width(ui: &Ui, list: &[Next], is_compared: bool) -> f32 {
    let font = TextStyle::Body.resolve(ui.style());
    let width = |i: usize| {
        let color = Color32::PLACEHOLDER;
        ui.painter().layout_no_wrap(named(list, i), font.clone(), color).size().x
    };
    let widest = (0..list.len()).map(width).fold(0.0, f32::max) + 10.0;
    let room = ui.available_width();
    let count = if is_compared { numbers(room) } else { 1 };
    let rest = room - count as f32 * NUMBER;
    // The bars have room beside the least name.
    let least = TOKEN.min(rest - LEAST_BAR).max(0.0);
    widest.clamp(least, (0.5 * rest).max(least))
}

/// A token as a word. One that reads like another of the list, but joins the last word, has a hyphen: "-John".
pub(super) fn named(list: &[Next], i: usize) -> String {
    let (next, word) = (&list[i], lone(&list[i].token));
    let mut others = list.iter().filter(|other| other.id != next.id && lone(&other.token) == word);
    let joins = others.any(|o| o.token.starts_with('␣') || next.token.starts_with("##"));
    if joins { format!("-{word}") } else { word }
}

/// The number of columns that fit in a row with changes.
fn numbers(width: f32) -> usize {
    if width < 3.0 * NUMBER + TOKEN + LEAST_BAR { 2 } else { 3 }
}

fn columns(ui: &Ui, rect: Rect, against: Against, are_shares: bool) {
    let font = TextStyle::Small.resolve(ui.style());
    let color = ui.visuals().weak_text_color();
    let (mut names, _) = against.names();
    if !are_shares {
        names[0] = "change";
    }
    let count = numbers(rect.width());
    if count < 3 && against != Against::Unchanged {
        names[1] = names[2];
    }
    for (i, name) in names.into_iter().take(count).enumerate() {
        let at = rect.right_center() - vec2(i as f32 * NUMBER, 0.0);
        ui.painter().text(at, egui::Align2::RIGHT_CENTER, name, font.clone(), color);
    }
}

/// Shows a token. Returns whether it was clicked.
fn row(
    ui: &mut Ui,
    next: &Next,
    word: &str,
    against: Option<Against>,
    appends: bool,
    name: f32,
) -> bool {
    let line = ui.text_style_height(&TextStyle::Body) + 4.0;
    ui.spacing_mut().item_spacing.y = 3.0;
    let sense = if appends { Sense::click() } else { Sense::hover() };
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), line), sense);
    let reference = against.map(|against| against.of(next));
    let (before, after) = (next.text(reference.unwrap_or_default()), next.text(next.after));
    let difference = next.after - reference.unwrap_or(next.after);
    let (change, unit) = next.difference(difference);
    let words = match against {
        Some(against) => {
            let (_, what) = against.names();
            format!("{word}: {after}, {what} {before}, {change}{unit}")
        }
        None => format!("{word}: {after}"),
    };
    let role = if appends { Role::Button } else { Role::Label };
    response.widget_info(|| WidgetInfo::labeled(role, true, &words));
    if !ui.is_rect_visible(rect) {
        return response.clicked();
    }
    if response.hovered() || response.has_focus() {
        ui.painter().rect_filled(rect, 3, ui.visuals().widgets.hovered.weak_bg_fill);
    }
    let visuals = ui.visuals();
    let numbers = if against.is_some() { numbers(rect.width()) } else { 1 };
    let bars = Rect::from_min_max(
        rect.left_top() + vec2(name, 0.0),
        rect.right_bottom() - vec2(numbers as f32 * NUMBER, 0.0),
    );
    let bar = |p: f32, height: f32| {
        let size = vec2(bars.width() * p.clamp(0.0, 1.0), height);
        Rect::from_min_size(bars.left_center() - vec2(0.0, height / 2.0), size)
    };
    let color = visuals.selection.bg_fill;
    if next.is_share && bars.width() >= NARROWEST_BAR {
        let empty = visuals.widgets.noninteractive.bg_stroke.color.gamma_multiply(0.5);
        ui.painter().rect_filled(bar(1.0, line - 8.0), 2, empty);
        // What it was before is a shadow, with a mark at its end.
        if let Some(reference) = reference {
            let shadow = bar(reference, line - 8.0);
            ui.painter().rect_filled(shadow, 2, color.gamma_multiply(0.35));
            let end = shadow.right().max(bars.left() + 1.0);
            let stroke = Stroke::new(2.0, visuals.weak_text_color());
            ui.painter().vline(end, shadow.y_range().expand(2.0), stroke);
        }
        ui.painter().rect_filled(bar(next.after, line - 8.0), 2, color);
    }
    let font = TextStyle::Body.resolve(ui.style());
    let text = |ui: &Ui, text: String, right: f32, color: Color32| {
        let at = rect.right_center() - vec2(right, 0.0);
        ui.painter().text(at, egui::Align2::RIGHT_CENTER, text, font.clone(), color);
    };
    if let Some(against) = against {
        // From left to right: before and after, or A and B.
        let weak = visuals.weak_text_color();
        let columns = [(before, weak), (after, visuals.text_color())];
        // A narrow row leaves out the number to compare with, which its bar shows.
        let is_first = against == Against::Unchanged || numbers < 3;
        let places = if is_first { [2, 1] } else { [1, 2] };
        let difference_color = match difference {
            d if d > 0.0005 => style::readable(style::QUERY, visuals),
            d if d < -0.0005 => visuals.error_fg_color,
            _ => visuals.weak_text_color(),
        };
        for ((number, color), place) in columns.into_iter().zip(places) {
            if place < numbers {
                text(ui, number, place as f32 * NUMBER, color);
            }
        }
        text(ui, change, 0.0, difference_color);
    } else {
        text(ui, after, 0.0, visuals.text_color());
    }
    let galley = style::truncated(ui, word, font, name - 8.0, visuals.text_color());
    let at = rect.left_center() - vec2(0.0, galley.size().y / 2.0);
    ui.painter().galley(at, galley, visuals.text_color());
    let what = if appends { ". Click to write it into the text." } else { "" };
    let joins = if word.starts_with('-') && !next.token.starts_with('-') {
        "\nWithout a space before it: it joins the last word."
    } else {
        ""
    };
    response.on_hover_text(format!("{words}{what}{joins}")).clicked()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(token: &str, after: f32) -> Next {
        let (token, before) = (token.to_owned(), after);
        Next { id: 0, token, before, after, second: None, adds: None, is_share: true }
    }

    #[test]
    fn tokens_that_read_alike_are_told_apart() {
        let names = |tokens: [&str; 3]| {
            let next = |(id, token)| Next { id, ..class(token, 0.1) };
            let list: Vec<Next> = (0..).zip(tokens).map(next).collect();
            [0, 1, 2].map(|i| named(&list, i))
        };
        assert_eq!(names(["␣John", "John", "ing"]), ["John", "-John", "ing"]);
        assert_eq!(names(["bag", "##bag", "."]), ["bag", "-bag", "."]);
    }

    #[test]
    fn a_class_says_how_sure_the_model_is() {
        let list = [class("7", 0.41), class("3", 0.48)];
        assert_eq!(sure(&list).as_deref(), Some("Not sure: 3 48 %, 7 41 %"));
        assert_eq!(sure(&[class("7", 0.97)]).as_deref(), Some("7, 97 % sure"));
        assert_eq!(sure(&[]), None);
    }
}
