//! The steps in the order in which they are computed, each on a card.

use egui::{Label, RichText, TextStyle, Tooltip, Ui, UiBuilder};
use regard_walkthrough::{Kind, Step, Walkthrough};

use super::Cache;
use super::focus::{Focus, Rows};
use super::state::{At, State};
use crate::ui::heatmap::{Heatmap, View};
use crate::ui::{numbers, style};

/// Between cards.
const GAP: f32 = 12.0;
/// Narrower than this, a card's text is hard to read.
const MIN_WIDTH: f32 = 300.0;
/// Left and right of what is on a card, with its stroke.
const MARGINS: f32 = 2.0 * (style::CARD_MARGIN as f32 + 1.0);

/// Shows all steps, as many in a line as there is room for. Returns the cell under the pointer.
pub fn show(ui: &mut Ui, state: &mut State, cache: &Cache, walkthrough: &Walkthrough) -> Option<At> {
    let focus = Focus::new(state, walkthrough);
    let room = ui.available_width();
    let cards: Vec<Card<'_>> =
        walkthrough.steps.iter().enumerate().filter_map(|(i, step)| Card::new(i, step, state, cache, focus)).collect();
    let widths: Vec<f32> = cards.iter().map(|card| card.width(ui, room)).collect();
    let mut hovered = None;
    let mut rest = &cards[..];
    for widths in pack(&widths, room) {
        let (line, after) = rest.split_at(widths.len());
        rest = after;
        show_line(ui, line, &widths, state, &mut hovered);
    }
    hovered
}

/// Which cards go on a line, and how wide each is: lines are filled, by cards of equal width where that fits.
fn pack(widths: &[f32], room: f32) -> Vec<Vec<f32>> {
    let mut lines: Vec<Vec<f32>> = Vec::new();
    for &width in widths {
        match lines.last_mut() {
            Some(line) if line.iter().sum::<f32>() + line.len() as f32 * GAP + width <= room => line.push(width),
            _ => lines.push(vec![width]),
        }
    }
    for line in &mut lines {
        let n = line.len() as f32;
        let all = room - (n - 1.0) * GAP;
        let left_over = (all - line.iter().sum::<f32>()) / n;
        let equal = line.iter().all(|width| *width <= all / n);
        for width in line {
            *width = if equal { all / n } else { *width + left_over }.floor();
        }
    }
    lines
}

/// Shows cards side by side, all as tall as the tallest was in the frame before.
fn show_line(ui: &mut Ui, cards: &[Card<'_>], widths: &[f32], state: &mut State, hovered: &mut Option<At>) {
    let id = ui.scope_id().with(("height", cards.first().map(|card| card.number)));
    let height = ui.data(|data| data.get_temp::<f32>(id)).unwrap_or(0.0);
    let mut tallest = 0.0_f32;
    ui.horizontal_top(|ui| {
        ui.spacing_mut().item_spacing.x = GAP;
        for (card, width) in cards.iter().zip(widths) {
            let used =
                style::card(ui.visuals()).show(ui, |ui| card.show(ui, width - MARGINS, height, state, hovered)).inner;
            tallest = tallest.max(used);
        }
    });
    ui.add_space(GAP - ui.spacing().item_spacing.y);
    if tallest != height {
        ui.data_mut(|data| data.insert_temp(id, tallest));
        ui.ctx().request_discard("cards of a line get the same height");
    }
}

/// A step to be shown.
struct Card<'a> {
    number: usize,
    step: &'a Step,
    heatmap: Heatmap<'a>,
}

impl<'a> Card<'a> {
    fn new(i: usize, step: &'a Step, state: &State, cache: &'a Cache, focus: Focus<'_>) -> Option<Self> {
        let picture = cache.picture(step)?;
        let pointed = state.pointed().filter(|at| at.step == step.key).map(|at| at.cell);
        let is_map = Rows::of(step) == Rows::Pairs && step.matrix.rows() > 2;
        let captions = is_map.then_some(["attending from", "attending to"]);
        let heatmap = Heatmap {
            name: &step.name,
            numbers: step.matrix.as_slice(),
            row_labels: &step.row_labels,
            col_labels: &step.col_labels,
            picture,
            captions,
            terms: terms(step),
            pointed,
            marked: focus.rows(step),
            large: Heatmap::LARGE,
            paints: false,
        };
        Some(Self { number: i + 1, step, heatmap })
    }

    /// What it needs, at most `room`.
    fn width(&self, ui: &Ui, room: f32) -> f32 {
        (self.heatmap.width(ui, room - MARGINS) + MARGINS).clamp(MIN_WIDTH.min(room), room)
    }

    /// Shows it, filled up to `height`. Returns the height that it needs.
    fn show(&self, ui: &mut Ui, width: f32, height: f32, state: &mut State, hovered: &mut Option<At>) -> f32 {
        let step = self.step;
        let salt = UiBuilder::new().id_salt(&step.key).layout(egui::Layout::top_down(egui::Align::Min));
        ui.scope_builder(salt, |ui| {
            ui.set_width(width);
            ui.spacing_mut().item_spacing.y = 6.0;
            self.heading(ui);
            ui.add(Label::new(RichText::new(&step.meaning).weak()).wrap());
            ui.add_space(2.0);
            self.cells(ui, width, state, hovered);
            if let Some(correction) = &step.correction {
                ui.add(Label::new(RichText::new(correction).color(ui.visuals().warn_fg_color)).wrap());
            }
            let error = format!("largest error against f64: {}", numbers::error(step.max_error));
            ui.label(RichText::new(error).text_style(TextStyle::Small).weak());
            let used = ui.min_rect().height();
            ui.add_space((height - used).max(0.0));
            used
        })
        .inner
    }

    fn heading(&self, ui: &mut Ui) {
        ui.horizontal_wrapped(|ui| {
            ui.label(RichText::new(format!("{}", self.number)).text_style(style::subheading()).weak());
            ui.label(RichText::new(&self.step.name).text_style(style::subheading()).strong());
        });
        if !self.step.formula.is_empty() {
            ui.add(Label::new(RichText::new(&self.step.formula).monospace()).wrap());
        }
    }

    fn cells(&self, ui: &mut Ui, width: f32, state: &mut State, hovered: &mut Option<At>) {
        let mut view = state.views.remove(&self.step.key).unwrap_or_default();
        let pointing = self.heatmap.show(ui, width, &mut view);
        if view != View::default() {
            state.views.insert(self.step.key.clone(), view);
        }
        let at = |cell| At { step: self.step.key.clone(), cell };
        if let Some(cell) = pointing.chosen {
            state.chosen = Some(at(cell));
        }
        if let Some((row, col)) = pointing.hovered {
            *hovered = Some(at((row, col)));
            if let Some(explanation) = self.step.explain(row, col) {
                Tooltip::for_widget(&pointing.response).at_pointer().gap(16.0).show(|ui| {
                    ui.label(RichText::new(explanation).monospace());
                });
            }
        }
    }
}

/// What a screen reader calls a row, a column and a number.
fn terms(step: &Step) -> [&'static str; 3] {
    match Rows::of(step) {
        Rows::Pairs => ["query", "key", if step.kind == Kind::Weights { "weight" } else { "score" }],
        Rows::Queries | Rows::Keys => Heatmap::TERMS,
    }
}
