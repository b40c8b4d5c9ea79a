//! The steps in the order of computation, each with its formula, its meaning and its matrix.

use egui::{Align, Label, Layout, RichText, TextStyle, Ui, UiBuilder, vec2};
use regard_walkthrough::{Kind, Marks, Rows, Selection, Step, StepKey, Walkthrough};

use super::edit::Edit;
use super::state::{At, Picked, State};
use super::{Cache, formula};
use crate::heatmap::{Cell, Heatmap, Picture, View};
use crate::{numbers, style};

/// The gap above and below the line between two steps.
const GAP: f32 = 12.0;
/// The width of the number at the left of a step.
const GUTTER: f32 = 32.0;
/// The width of a step's text with the matrix beside it.
const TEXT: f32 = 288.0;
/// The gap between the text and the matrix beside it.
const BETWEEN: f32 = 24.0;
/// In a narrower page, the matrix stands below the text.
const WIDE: f32 = 720.0;
/// The most that a matrix is indented to align its cells with those of other steps.
const MOST_LEFT: f32 = 96.0;

/// The page of steps.
pub struct Steps<'a> {
    pub cache: &'a Cache,
    pub edit: &'a mut Edit,
    /// The step to scroll to.
    pub reveal: Option<StepKey>,
    /// The distance of the cells from the left in all steps.
    pub left: f32,
}

impl Steps<'_> {
    /// Shows all steps. Returns the cell under the pointer.
    pub fn show(
        &mut self,
        ui: &mut Ui,
        state: &mut State,
        walkthrough: &Walkthrough,
    ) -> Option<At> {
        let selection = state.selection(walkthrough);
        let mut hovered = None;
        self.left = self.widest_left(ui, walkthrough);
        for (i, step) in walkthrough.steps.iter().enumerate() {
            if i > 0 {
                ui.add_space(GAP);
                ui.separator();
                ui.add_space(GAP);
            }
            let salt = UiBuilder::new().id_salt(step.key).layout(Layout::top_down(Align::Min));
            let shown = ui.scope_builder(salt, |ui| self.step(ui, i + 1, step, state, &selection));
            hovered = shown.inner.or(hovered);
            if self.reveal == Some(step.key) {
                shown.response.scroll_to_me(None);
            }
        }
        self.edit.dragged().cloned().or(hovered)
    }

    fn step(
        &mut self,
        ui: &mut Ui,
        number: usize,
        step: &Step,
        state: &mut State,
        selection: &Selection,
    ) -> Option<At> {
        let room = ui.available_width();
        ui.horizontal_top(|ui| {
            ui.spacing_mut().item_spacing.x = 0.0;
            let size = vec2(GUTTER, ui.spacing().interact_size.y);
            ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Center), |ui| {
                ui.set_min_size(size);
                ui.label(RichText::new(number.to_string()).text_style(style::subheading()).weak());
            });
            let column = |ui: &mut Ui, width: f32, add: &mut dyn FnMut(&mut Ui)| {
                ui.vertical(|ui| {
                    ui.set_width(width);
                    ui.spacing_mut().item_spacing = vec2(8.0, 6.0);
                    add(ui);
                });
            };
            let mut hovered = None;
            if room >= WIDE {
                column(ui, TEXT, &mut |ui| text(ui, step));
                ui.add_space(BETWEEN);
                let width = ui.available_width();
                column(ui, width, &mut |ui| {
                    hovered = self.cells(ui, width, step, state, selection);
                });
            } else {
                let width = ui.available_width();
                column(ui, width, &mut |ui| {
                    text(ui, step);
                    ui.add_space(4.0);
                    hovered = self.cells(ui, width, step, state, selection);
                });
            }
            hovered
        })
        .inner
    }

    /// The widest margin at the left of any step's cells, so that all cells can be aligned.
    fn widest_left(&self, ui: &Ui, walkthrough: &Walkthrough) -> f32 {
        let of = |step: &Step| Some(heatmap(step, self.cache.picture(step)?).left(ui, TEXT));
        walkthrough.steps.iter().filter_map(of).fold(0.0, f32::max).min(MOST_LEFT)
    }

    /// Shows the matrix, aligned with the others. Returns the cell under the pointer.
    fn cells(
        &mut self,
        ui: &mut Ui,
        width: f32,
        step: &Step,
        state: &mut State,
        selection: &Selection,
    ) -> Option<At> {
        let pointed = state.pointed().filter(|at| at.step == step.key).map(|at| at.cell);
        let heatmap = Heatmap {
            pointed,
            marks: step.marks(selection),
            edited: if step.is_editable() { self.cache.edited(step.key) } else { &[] },
            paints: self.edit.takes_drags(ui, step),
            ..heatmap(step, self.cache.picture(step)?)
        };
        let indent = (self.left - heatmap.left(ui, width)).max(0.0);
        ui.horizontal_top(|ui| {
            ui.spacing_mut().item_spacing.x = 0.0;
            ui.add_space(indent);
            self.matrix(ui, width - indent, step, &heatmap, state)
        })
        .inner
    }

    /// Shows the matrix and handles the user's input. Returns the cell under the pointer.
    fn matrix(
        &mut self,
        ui: &mut Ui,
        width: f32,
        step: &Step,
        heatmap: &Heatmap<'_>,
        state: &mut State,
    ) -> Option<At> {
        let mut view = state.views.remove(&step.key).unwrap_or_default();
        let before = view.clone();
        let pointing = heatmap.show(ui, width, &mut view);
        if step.is_editable() && pointing.response.double_clicked() {
            // A double click begins to type.
            view = before;
        }
        if view != View::default() {
            state.views.insert(step.key, view);
        }
        let at = |cell: Cell| At { step: step.key, cell };
        if let Some(cell) = pointing.chosen {
            state.picked = Some(Picked::Cell(at(cell)));
        }
        self.edit.show(ui, step, &pointing, pointing.chosen.or(heatmap.pointed), state);
        pointing.hovered.map(at)
    }
}

/// A step's matrix, with nothing marked.
fn heatmap<'a>(step: &'a Step, picture: &'a Picture) -> Heatmap<'a> {
    let is_map = step.rows == Rows::Pairs && step.matrix.rows() > 2;
    Heatmap {
        name: &step.name,
        numbers: step.matrix.as_slice(),
        masked: f32::NEG_INFINITY,
        row_labels: &step.row_labels,
        col_labels: &step.col_labels,
        picture,
        captions: is_map.then_some(["attending from", "attending to"]),
        terms: terms(step),
        pointed: None,
        marks: Marks::default(),
        edited: &[],
        large: Heatmap::LARGE,
        paints: false,
    }
}

/// The name, the formula, the meaning, and the call that computes the step.
fn text(ui: &mut Ui, step: &Step) {
    let strong = ui.visuals().strong_text_color();
    ui.horizontal_wrapped(|ui| {
        formula::show(ui, &step.name, style::subheading().resolve(ui.style()).size, strong);
        let error = match step.relative_error() {
            0.0 => "exact".to_owned(),
            error => format!("error {}", numbers::error(error)),
        };
        let error = RichText::new(error);
        let (absolute, ulp) = (numbers::error(step.max_error), numbers::ulp(step.max_ulp));
        ui.label(error.text_style(TextStyle::Small).weak()).on_hover_text(format!(
            "The largest distance from the same step in double precision, over the largest number of the matrix. It is {absolute}, or {ulp} ULP. {}",
            numbers::ULP
        ));
    });
    if !step.formula.is_empty() {
        formula::show(ui, &step.formula, formula::SIZE, strong);
    }
    let shapes = RichText::new(step.shapes()).text_style(TextStyle::Monospace).size(11.5).weak();
    ui.label(shapes).on_hover_text(
        "The shape: [rows, columns]. For a product, the shapes of its factors come first.",
    );
    formula::show(
        ui,
        &step.meaning,
        TextStyle::Body.resolve(ui.style()).size,
        ui.visuals().text_color(),
    );
    if !step.code.is_empty() {
        let code = RichText::new(step.code).text_style(TextStyle::Monospace).size(11.5).weak();
        ui.add(Label::new(code).wrap()).on_hover_text("The Rust call that computes it.");
    }
    if let Some(correction) = &step.correction {
        ui.add(Label::new(RichText::new(correction).color(ui.visuals().warn_fg_color)).wrap());
    }
}

/// The words of a screen reader for a row, a column and a number.
fn terms(step: &Step) -> [&'static str; 3] {
    match step.rows {
        Rows::Pairs if step.kind == Kind::Weights => ["query", "key", "weight"],
        Rows::Pairs if step.key.quantity.is_scores() => ["query", "key", "score"],
        Rows::Pairs => ["query", "key", "gradient"],
        _ => Heatmap::TERMS,
    }
}
