//! The tokens that the model expects next, with and without the changes.

use egui::accesskit::Role;
use egui::{Color32, Rect, Sense, TextStyle, Ui, WidgetInfo, vec2};
use regard_heads::readable;
use regard_models::{Description, Head, Model, Problem};
use serde::{Deserialize, Serialize};

use super::Version;
use super::run::Outcome;
use crate::explain::{explanation, heading};
use crate::style;

/// The maximum number of tokens in the list.
const MOST: usize = 10;

/// The kind of outcome that has the probabilities.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Predicts {
    /// The token after the text.
    Next,
    /// The token in a gap.
    Gap,
    /// A class.
    Class,
}

impl Predicts {
    pub(super) fn of(description: &Description) -> Self {
        match description.head {
            Head::Classes { .. } => Self::Class,
            _ if description.stack.causal => Self::Next,
            _ => Self::Gap,
        }
    }
}

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

/// A token that may come next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Next {
    pub(crate) id: u32,
    /// The token in a readable form.
    pub(crate) token: String,
    /// Its probability in the unchanged run.
    pub(crate) before: f32,
    /// Its probability in the run with the changes, or the same without changes.
    pub(crate) after: f32,
    /// Its probability in run B, if there is one.
    pub(crate) second: Option<f32>,
    /// The text that it appends, if the model writes it.
    pub(super) adds: Option<String>,
    /// Whether the numbers are probabilities. Those of a regression are what it predicts.
    pub(super) is_share: bool,
}

impl Next {
    /// The likeliest tokens of either run, in the order of the unchanged one.
    pub(crate) fn likeliest(outcome: &Outcome, model: &Model) -> Vec<Self> {
        let before = outcome.next();
        let after = outcome.next_changed().unwrap_or(before);
        let second = outcome.next_second();
        let of_second = |i: usize| second?.get(i).copied();
        let mut ids: Vec<usize> = (0..before.len().min(after.len())).collect();
        let larger = |i: &usize| before[*i].max(after[*i]).max(of_second(*i).unwrap_or_default());
        let most = MOST.min(ids.len());
        if most < ids.len() {
            let _ = ids.select_nth_unstable_by(most, |i, j| larger(j).total_cmp(&larger(i)));
            ids.truncate(most);
        }
        ids.sort_by(|i, j| before[*j].total_cmp(&before[*i]).then(i.cmp(j)));
        Self::each(outcome, model, ids)
    }

    /// The likeliest token of the run with the changes, of those that the model writes.
    pub(super) fn written(outcome: &Outcome, model: &Model) -> Option<Self> {
        let mut after = outcome.next_changed().unwrap_or_else(|| outcome.next()).to_vec();
        let (description, so_far) = (model.description(), outcome.written());
        description.suppress(&mut after, so_far == description.decoder_start);
        let top = (0..after.len()).reduce(|best, i| if after[i] > after[best] { i } else { best });
        Self::each(outcome, model, vec![top?]).pop()
    }

    fn each(outcome: &Outcome, model: &Model, ids: Vec<usize>) -> Vec<Self> {
        let before = outcome.next();
        let after = outcome.next_changed().unwrap_or(before);
        let of_second = |i: usize| outcome.next_second()?.get(i).copied();
        let classes = &model.description().labels;
        let predicts = Predicts::of(model.description());
        let is_share =
            !matches!(model.description().head, Head::Classes { problem: Problem::Regression, .. });
        let name = |id: usize| match predicts {
            Predicts::Class => classes.get(id).cloned().unwrap_or_else(|| format!("class {id}")),
            Predicts::Next | Predicts::Gap => {
                let token = u32::try_from(id).ok().and_then(|id| model.tokenizer()?.token(id));
                token.unwrap_or_else(|| id.to_string())
            }
        };
        // The kind of tokenizer follows from the tokens of the text.
        let text = outcome.tokens().iter().map(|token| token.raw.clone());
        let all = readable(text.chain(ids.iter().map(|id| name(*id))).collect());
        let names = all.into_iter().skip(outcome.tokens().len());
        let tokenizer = model.tokenizer().filter(|_| predicts == Predicts::Next);
        let text = |ids: &[u32]| tokenizer?.decode(ids).ok();
        let so_far = text(outcome.written());
        let adds = |id: u32| {
            let whole = text(&[outcome.written(), &[id]].concat())?;
            // A token may be a part of a letter, which becomes visible with the rest.
            whole
                .strip_prefix(so_far.as_deref()?)
                .map_or_else(|| text(&[id]), |more| Some(more.to_owned()))
        };
        let next = ids.into_iter().zip(names).map(|(i, label)| {
            let id = u32::try_from(i).unwrap_or(u32::MAX);
            let (token, adds) = (label.text, adds(id));
            let (before, after, second) = (before[i], after[i], of_second(i));
            Self { id, token, before, after, second, adds, is_share }
        });
        next.collect()
    }

    /// One of the numbers in a readable form.
    pub(super) fn text(&self, number: f32) -> String {
        if self.is_share { percent(number) } else { format!("{number:.3}").replace('-', "−") }
    }

    /// A difference of two of the numbers, and its unit.
    fn difference(&self, difference: f32) -> (String, &'static str) {
        if self.is_share {
            return (points(difference), " points");
        }
        (format!("{difference:+.3}").replace('-', "−"), "")
    }
}

/// A readable probability: "83 %", "0.4 %", "< 0.1 %".
pub(crate) fn percent(p: f32) -> String {
    let p = 100.0 * p;
    match p {
        // What is not certain is never 100 %.
        _ if p >= 99.995 && p < 100.0 => "> 99.99 %".to_owned(),
        _ if p >= 99.5 && p < 100.0 => format!("{p:.2} %"),
        _ if p >= 9.95 || p == 0.0 => format!("{p:.0} %"),
        _ if p >= 0.095 => format!("{p:.1} %"),
        _ => "< 0.1 %".to_owned(),
    }
}

/// A difference in percentage points: "+12", "−0.4", "0".
fn points(difference: f32) -> String {
    let points = 100.0 * difference;
    let text = if points.abs() >= 9.95 { format!("{points:+.0}") } else { format!("{points:+.1}") };
    if text.trim_matches(['+', '-', '0', '.']).is_empty() {
        "0".to_owned()
    } else {
        text.replace('-', "−")
    }
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
    if predicts == Predicts::Class {
        heading(ui, "Class", explanation("Class"));
    } else {
        heading(ui, "Next token", explanation("Next token"));
    }
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
    let is_changed = outcome.next_changed().is_some();
    let has_second = outcome.next_second().is_some();
    let shows_second =
        matches!(version, Version::Second | Version::FirstMinusSecond | Version::SideBySide);
    let against = if has_second && (shows_second || !is_changed) {
        let has_model_b = outcome.request.second_model.is_some();
        Some(if has_model_b { Against::ModelB } else { Against::Second })
    } else {
        is_changed.then_some(Against::Unchanged)
    };
    if let Some(against) = against {
        columns(ui, against, list.iter().all(|next| next.is_share));
    }
    let mut clicked = None;
    let mut order: Vec<usize> = (0..list.len()).collect();
    // All classes keep their places, so that no row moves while an image is drawn.
    if predicts == Predicts::Class && list.len() == outcome.next().len() {
        order.sort_by_key(|i| list[*i].id);
    }
    for i in order {
        if row(ui, &list[i], against, appends) {
            clicked = Some(i);
        }
    }
    clicked
}

/// The widths of a number and of a token.
const NUMBER: f32 = 56.0;
const TOKEN: f32 = 80.0;
/// A narrower bar is not drawn.
const NARROWEST_BAR: f32 = 16.0;

/// The number of columns that fit in a row with changes.
fn numbers(width: f32) -> usize {
    if width < 230.0 { 2 } else { 3 }
}

fn columns(ui: &mut Ui, against: Against, are_shares: bool) {
    let line = ui.text_style_height(&TextStyle::Small) + 2.0;
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), line), Sense::hover());
    let font = TextStyle::Small.resolve(ui.style());
    let color = ui.visuals().weak_text_color();
    let (mut names, _) = against.names();
    if !are_shares {
        names[0] = "change";
    }
    for (i, name) in names.into_iter().take(numbers(rect.width())).enumerate() {
        let at = rect.right_center() - vec2(i as f32 * NUMBER, 0.0);
        ui.painter().text(at, egui::Align2::RIGHT_CENTER, name, font.clone(), color);
    }
}

/// Shows a token. Returns whether it was clicked.
fn row(ui: &mut Ui, next: &Next, against: Option<Against>, appends: bool) -> bool {
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
            format!("{}: {after}, {what} {before}, {change}{unit}", next.token)
        }
        None => format!("{}: {after}", next.token),
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
        rect.left_top() + vec2(TOKEN, 0.0),
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
        ui.painter().rect_filled(bar(next.after, line - 8.0), 2, color);
        if let Some(reference) = reference {
            ui.painter().rect_filled(bar(reference, 3.0), 1, visuals.warn_fg_color);
        }
    }
    let font = TextStyle::Body.resolve(ui.style());
    let text = |ui: &Ui, text: String, right: f32, color: Color32| {
        let at = rect.right_center() - vec2(right, 0.0);
        ui.painter().text(at, egui::Align2::RIGHT_CENTER, text, font.clone(), color);
    };
    if let Some(against) = against {
        // From left to right: before and after, or A and B.
        let weak = visuals.weak_text_color();
        let mut columns = [(before, weak), (after, visuals.text_color())];
        if against != Against::Unchanged {
            columns.reverse();
        }
        let difference_color = match difference {
            d if d > 0.0005 => style::readable(style::QUERY, visuals),
            d if d < -0.0005 => visuals.error_fg_color,
            _ => visuals.weak_text_color(),
        };
        for ((number, color), place) in columns.into_iter().zip([2, 1]) {
            if place < numbers {
                text(ui, number, place as f32 * NUMBER, color);
            }
        }
        text(ui, change, 0.0, difference_color);
    } else {
        text(ui, after, 0.0, visuals.text_color());
    }
    let galley = style::truncated(ui, &next.token, font, TOKEN - 8.0, visuals.text_color());
    let at = rect.left_center() - vec2(0.0, galley.size().y / 2.0);
    ui.painter().galley(at, galley, visuals.text_color());
    let what = if appends { ". Click to append it to the text." } else { "" };
    response.on_hover_text(format!("{words}{what}")).clicked()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_differences_are_short() {
        let shares = [1.0, 0.834, 0.0994, 0.05, 0.004, 0.0001, 0.0].map(percent);
        assert_eq!(shares, ["100 %", "83 %", "9.9 %", "5.0 %", "0.4 %", "< 0.1 %", "0 %"]);
        let differences = [0.5, -0.714, 0.004, -0.0001, 0.0].map(points);
        assert_eq!(differences, ["+50", "−71", "+0.4", "0", "0"]);
    }
}
