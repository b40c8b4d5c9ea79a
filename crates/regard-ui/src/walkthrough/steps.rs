//! The steps in the order of computation, each with its formula, its meaning and its matrix.

use egui::accesskit::Role;
use egui::style::ScrollAnimation;
use egui::{
    Align, Align2, InputState, Key, Layout, Modifiers, RichText, Sense, TextStyle, Ui, UiBuilder,
    WidgetInfo, vec2,
};
use regard_walkthrough::{Kind, RowRole, Selection, Step, StepKey, Walkthrough};

use super::edit::Edit;
use super::stage::Stage;
use super::{At, Picked, ReadingMode, WalkthroughState};
use super::{Cache, formula, rows};
use crate::colors::Palette;
use crate::heatmap::{Cell, Heatmap, Picture, Viewport};
use crate::{numbers, style};

/// The gap above and below the line between two steps.
const GAP: f32 = 12.0;
/// The width of the fold and the number, in text of the usual size.
const GUTTER: f32 = 52.0;
/// The gap between the text and the matrix beside it, and between the matrices of two heads.
const BETWEEN: f32 = 24.0;
/// In a narrower page, the matrix stands below the text.
const WIDE: f32 = 600.0;
/// The maximum indent of a matrix that aligns its cells with those of other steps.
const MOST_LEFT: f32 = 96.0;
/// The maximum factor by which the cells of a matrix grow with the page.
const LARGEST: f32 = 2.4;
/// The maximum factor by which the cells of a single matrix grow.
const MOST_ALONE: f32 = 4.0;
/// The least factor for a single matrix with its operands.
const SMALLEST: f32 = 0.5;
/// The least width that a head needs beside another.
const NARROWEST: f32 = 180.0;

pub(crate) struct StepsPage<'a> {
    pub(crate) cache: &'a Cache,
    pub(crate) edit: &'a mut Edit,
    /// The step to scroll to.
    pub(crate) reveal: Option<StepKey>,
    /// The step at the top of the page, once it is shown.
    pub(crate) here: Option<StepKey>,
    /// The distance of the cells from the left in all steps.
    pub(crate) left: f32,
    /// The factor by which the cells are enlarged.
    pub(crate) scale: f32,
    /// The height that cells fill, if a step is shown alone.
    pub(crate) height: Option<f32>,
    /// Whether the matrices stand beside the texts.
    pub(crate) is_wide: bool,
    /// When the movement of the cell under the pointer began, and that of its step.
    pub(crate) since: [f64; 2],
    /// The step to scroll to a place on the screen.
    pub(crate) keep: Option<(StepKey, f32)>,
    /// The steps from the one at the top of the page on, each with its place on the screen.
    pub(crate) tops: Vec<(StepKey, f32)>,
}

impl<'a> StepsPage<'a> {
    /// The page, which scrolls to `reveal`.
    pub(crate) fn new(
        cache: &'a Cache,
        edit: &'a mut Edit,
        reveal: Option<StepKey>,
        since: [f64; 2],
    ) -> Self {
        let (left, scale, height) = (0.0, 1.0, None);
        Self {
            cache,
            edit,
            reveal,
            here: None,
            left,
            scale,
            height,
            is_wide: false,
            since,
            keep: None,
            tops: Vec::new(),
        }
    }
}

impl StepsPage<'_> {
    /// Shows all steps. Returns the cell under the pointer.
    pub(crate) fn show(
        &mut self,
        ui: &mut Ui,
        state: &mut WalkthroughState,
        walkthrough: &Walkthrough,
    ) -> Option<At> {
        let selection = state.selection(walkthrough);
        let rows = rows::of_page(&walkthrough.steps);
        let mut hovered = None;
        let room = ui.available_width() - gutter(ui);
        let beside = room - text_width(ui) - BETWEEN;
        self.is_wide = room >= WIDE && self.fits(ui, walkthrough, beside, room);
        let width = if self.is_wide { beside } else { room };
        self.scale = self.scale_for(ui, &rows, width);
        self.left = self.widest_left(ui, walkthrough, width);
        let clip = ui.clip_rect();
        for (i, row) in rows.iter().enumerate() {
            if i > 0 {
                ui.add_space(GAP);
                ui.separator();
                ui.add_space(GAP);
            }
            let Some(first) = row.first() else { continue };
            let salt = UiBuilder::new().id_salt(first.key).layout(Layout::top_down(Align::Min));
            let shown = ui.scope_builder(salt, |ui| self.row(ui, i + 1, row, state, &selection));
            hovered = shown.inner.or(hovered);
            let response = shown.response;
            let line = clip.top() + (0.25 * clip.height()).min(200.0);
            if self.here.is_none() && response.rect.bottom() > line {
                self.here = Some(first.key);
            }
            if self.here.is_some() {
                self.tops.push((first.key, response.rect.top()));
            }
            if let Some((_, top)) = self.keep.filter(|(key, _)| *key == first.key) {
                let by = vec2(0.0, top - response.rect.top());
                ui.scroll_with_delta_animation(by, ScrollAnimation::none());
            }
            if row.iter().any(|step| self.reveal == Some(step.key)) {
                response.scroll_to_me(Some(Align::Min));
            }
        }
        self.edit.dragged().cloned().or(hovered)
    }

    /// Shows one row as large as the page allows, without its numbers unless they are revealed. Returns the cell under the
    /// pointer.
    pub(crate) fn single(
        &mut self,
        ui: &mut Ui,
        state: &mut WalkthroughState,
        walkthrough: &Walkthrough,
        at: usize,
    ) -> Option<At> {
        let selection = state.selection(walkthrough);
        let rows = rows::of_page(&walkthrough.steps);
        let row = rows.get(at)?;
        self.here = row.first().map(|step| step.key);
        let room = ui.available_width();
        let beside = room - text_width(ui) - BETWEEN;
        let fits = |step: &&Step| {
            let size = heatmap(step, self.cache.picture(step)?).size(ui, f32::INFINITY);
            Some(size.x <= beside / row.len() as f32)
        };
        let is_wide = room >= WIDE
            && row.iter().filter_map(fits).all(|fits| fits)
            && !self.needs_room(ui, row, beside, room);
        let bottom = ui.clip_rect().bottom() - 16.0;
        let is_revealed = state.is_revealed();
        let details = is_revealed.then_some(state.details);
        let mut show = |ui: &mut Ui, width: f32| {
            ui.set_width(width);
            if !is_revealed {
                self.covered(ui, [width, bottom - ui.cursor().top()], row, walkthrough);
                return None;
            }
            // The captions of several heads need some height.
            let above = if row.len() > 1 { 64.0 * style::enlarged(ui) } else { 0.0 };
            let height = (bottom - ui.cursor().top() - above).max(0.0);
            let of = |step: &&Step| {
                let size = staged(self.cache, ui, step, width)?.size(ui, width);
                Some((width / row.len() as f32 / size.x).min(height / size.y))
            };
            self.scale = row.iter().filter_map(of).fold(MOST_ALONE, f32::min).max(1.0);
            (self.left, self.height) = (0.0, Some(height));
            self.matrices(ui, width, row, state, &selection)
        };
        if !is_wide {
            text(ui, row, details);
            return show(ui, room);
        }
        let width = text_width(ui);
        ui.horizontal_top(|ui| {
            ui.spacing_mut().item_spacing.x = BETWEEN;
            ui.vertical(|ui| {
                ui.set_width(width);
                text(ui, row, details);
            });
            let width = ui.available_width();
            ui.vertical(|ui| show(ui, width)).inner
        })
        .inner
    }

    /// Shows the operands of a product around empty room for its numbers, and else the steps that the numbers are computed from.
    fn covered(
        &self,
        ui: &mut Ui,
        [width, height]: [f32; 2],
        row: &[&Step],
        walkthrough: &Walkthrough,
    ) {
        let Some(step) = row.first() else { return };
        let stage = self.cache.stage(step).filter(|stage| matches!(stage, Stage::Product(_)));
        let Some(stage) = stage else {
            self.inputs(ui, width, step, walkthrough);
            return;
        };
        let numbers = vec![f32::NEG_INFINITY; step.matrix.as_slice().len()];
        let picture = Picture::new(&numbers, step.matrix.cols(), Palette::PLAIN);
        let plain = heatmap(step, &picture);
        let map = Heatmap {
            numbers: &numbers,
            masked: 0.0,
            inset: stage.inset(ui),
            captions: None,
            is_passive: true,
            ..plain
        };
        let pointing = map.show_filling(ui, [width, height], &mut Viewport::default());
        let colors = self.colors();
        stage.draw(ui, step, &pointing, None, self.since, &colors);
        let place = pointing
            .whole((0, 0))
            .union(pointing.whole((step.matrix.rows() - 1, step.matrix.cols() - 1)));
        let font = style::subheading().resolve(ui.style());
        ui.painter().text(
            place.center(),
            Align2::CENTER_CENTER,
            "?",
            font,
            ui.visuals().weak_text_color(),
        );
    }

    /// Shows the steps that the numbers of a step are computed from.
    fn inputs(&self, ui: &mut Ui, width: f32, step: &Step, walkthrough: &Walkthrough) {
        let (rows, cols) = step.matrix.shape();
        let mut cells = (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j)));
        let of = |(i, j)| -> Option<Vec<StepKey>> {
            let expr = step.expr(i, j)?;
            let cells = expr.operands().into_iter().filter_map(|operand| operand.cell.as_ref());
            Some(cells.map(|cell| cell.step).collect()).filter(|keys: &Vec<_>| !keys.is_empty())
        };
        let keys = cells.find_map(of).unwrap_or_default();
        let is_first = |(i, key): &(usize, &StepKey)| !keys[..*i].contains(key);
        let inputs = keys.iter().enumerate().filter(is_first);
        for input in inputs.filter_map(|(_, key)| walkthrough.step(*key)) {
            let Some(picture) = self.cache.picture(input) else { continue };
            formula::show(ui, &input.name, formula::size(ui), ui.visuals().strong_text_color());
            ui.push_id(input.key, |ui| {
                heatmap(input, picture).show(ui, width, &mut Viewport::default());
            });
        }
    }

    fn colors<'s>(&'s self) -> impl Fn(StepKey) -> Option<(Palette, &'s [f32])> {
        |key: StepKey| {
            let step = self.cache.walkthrough().ok()?.step(key)?;
            Some((self.cache.picture(step)?.palette(), step.matrix.as_slice()))
        }
    }

    /// Whether the operands of a row fit below its text but not beside it.
    fn needs_room(&self, ui: &Ui, row: &[&Step], beside: f32, below: f32) -> bool {
        let [step] = row else { return false };
        let fits = |width| staged(self.cache, ui, step, width).is_some_and(|map| map.is_staged());
        fits(below) && !fits(beside)
    }

    /// Whether the numbers of all matrices fit beside the texts, except for those that do not fit below them either.
    fn fits(&self, ui: &Ui, walkthrough: &Walkthrough, beside: f32, below: f32) -> bool {
        let of =
            |step: &Step| Some(heatmap(step, self.cache.picture(step)?).size(ui, f32::INFINITY).x);
        let mut widths = walkthrough.steps.iter().filter_map(of);
        !widths.any(|width| width > beside && width <= below)
    }

    /// The factor by which the cells can grow such that every row fits the page. Heads side by side have less room, and their
    /// own scale.
    fn scale_for(&self, ui: &Ui, rows: &[Vec<&Step>], width: f32) -> f32 {
        let height = 0.5 * ui.clip_rect().height().min(ui.ctx().content_rect().height());
        let of = |row: &Vec<&Step>| {
            let [step] = row[..] else { return None };
            let size = heatmap(step, self.cache.picture(step)?).size(ui, width);
            Some((width / size.x).min(height / size.y))
        };
        rows.iter().filter_map(of).fold(LARGEST, f32::min).max(1.0)
    }

    fn row(
        &mut self,
        ui: &mut Ui,
        number: usize,
        row: &[&Step],
        state: &mut WalkthroughState,
        selection: &Selection,
    ) -> Option<At> {
        let gutter = gutter(ui);
        let room = ui.available_width() - gutter;
        let beside = room - text_width(ui) - BETWEEN;
        let is_wide = self.is_wide && !self.needs_room(ui, row, beside, room);
        ui.horizontal_top(|ui| {
            ui.spacing_mut().item_spacing.x = 0.0;
            let size = vec2(gutter, ui.spacing().interact_size.y);
            ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Center), |ui| {
                ui.set_min_size(size);
                fold(ui, row, state);
                ui.label(RichText::new(number.to_string()).text_style(style::subheading()).weak());
            });
            let column = |ui: &mut Ui, width: f32, add: &mut dyn FnMut(&mut Ui)| {
                ui.vertical(|ui| {
                    ui.set_width(width);
                    ui.spacing_mut().item_spacing = vec2(8.0, 6.0);
                    add(ui);
                });
            };
            let is_folded = row.iter().any(|step| state.folded.contains(&step.key));
            let mut hovered = None;
            if is_folded {
                let width = ui.available_width();
                column(ui, width, &mut |ui| heading(ui, row));
            } else if is_wide {
                let width = text_width(ui);
                column(ui, width, &mut |ui| text(ui, row, Some(state.details)));
                ui.add_space(BETWEEN);
                let width = ui.available_width();
                column(ui, width, &mut |ui| {
                    hovered = self.matrices(ui, width, row, state, selection);
                });
            } else {
                let width = ui.available_width();
                column(ui, width, &mut |ui| {
                    text(ui, row, Some(state.details));
                    ui.add_space(4.0);
                    hovered = self.matrices(ui, width, row, state, selection);
                });
            }
            hovered
        })
        .inner
    }

    /// The widest margin at the left of any step's cells, so that all cells can be aligned.
    fn widest_left(&self, ui: &mut Ui, walkthrough: &Walkthrough, width: f32) -> f32 {
        let mut large = ui.new_child(UiBuilder::new());
        style::enlarge_numbers(&mut large, self.scale);
        let of = |step: &Step| Some(heatmap(step, self.cache.picture(step)?).left(&large, width));
        let alone = walkthrough.steps.iter().filter(|step| step.key.head().is_none());
        alone.filter_map(of).fold(0.0, f32::max).min(MOST_LEFT * self.scale * style::enlarged(ui))
    }

    /// Shows the matrices of a row side by side, in as many lines as they need. Returns the cell under the pointer.
    fn matrices(
        &mut self,
        ui: &mut Ui,
        width: f32,
        row: &[&Step],
        state: &mut WalkthroughState,
        selection: &Selection,
    ) -> Option<At> {
        if let [step] = row {
            return self.cells(ui, width, step, state, selection, [self.left, self.scale]);
        }
        let natural =
            |step: &&Step| Some(heatmap(step, self.cache.picture(step)?).size(ui, width).x);
        let wanted = row.iter().filter_map(natural).fold(NARROWEST, f32::max).min(width);
        let columns = (((width + BETWEEN) / (wanted + BETWEEN)) as usize).clamp(1, row.len());
        let each = (width - BETWEEN * (columns - 1) as f32) / columns as f32;
        let scale = (each / wanted).clamp(1.0, self.scale);
        let mut hovered = None;
        for line in row.chunks(columns) {
            ui.horizontal_top(|ui| {
                ui.spacing_mut().item_spacing.x = BETWEEN;
                for step in line {
                    ui.vertical(|ui| {
                        ui.set_width(each);
                        let color = ui.visuals().strong_text_color();
                        let head = step.key.head().unwrap_or(0);
                        let caption = ui.label(RichText::new(format!("Head {head}")).strong());
                        caption.widget_info(|| WidgetInfo::labeled(Role::Label, true, &step.name));
                        formula::show(ui, &step.formula, formula::size(ui), color);
                        if let Some(at) = self.cells(ui, each, step, state, selection, [0.0, scale])
                        {
                            hovered = Some(at);
                        }
                    });
                }
            });
        }
        hovered
    }

    /// Shows the matrix, with its cells at least `left` from the left and enlarged by `scale`. Returns the cell under the pointer.
    fn cells(
        &mut self,
        ui: &mut Ui,
        width: f32,
        step: &Step,
        state: &mut WalkthroughState,
        selection: &Selection,
        [mut left, mut scale]: [f32; 2],
    ) -> Option<At> {
        let pointed = state.pointed().filter(|at| at.step == step.key).map(|at| at.cell);
        let staged = staged(self.cache, ui, step, width)?;
        let stage = self.cache.stage(step).filter(|_| staged.is_staged());
        if stage.is_some() {
            let most = 0.6 * ui.ctx().content_rect().height();
            let size = staged.size(ui, width);
            let fits = (width / size.x).min(self.height.unwrap_or(most) / size.y);
            // A step that is shown alone needs no scrolling.
            let least = if self.height.is_some() { SMALLEST.min(scale) } else { 1.0 };
            (left, scale) = (0.0, fits.clamp(least, scale));
        }
        let mut large = ui.new_child(UiBuilder::new());
        style::enlarge_numbers(&mut large, scale);
        let heatmap = Heatmap {
            pointed,
            inset: stage.map(|stage| stage.inset(&large)).unwrap_or_default(),
            is_passive: state.reading == ReadingMode::Presented && !state.entered,
            marks: step.marks(selection),
            edited: if step.is_editable() { self.cache.edited(step.key) } else { &[] },
            paints: self.edit.takes_drags(ui, step),
            large: (0.7 * ui.ctx().content_rect().height()).clamp(Heatmap::LARGE, 1200.0),
            ..staged
        };
        let salt = UiBuilder::new().id_salt(step.key).layout(Layout::left_to_right(Align::Min));
        ui.scope_builder(salt, |ui| {
            style::enlarge_numbers(ui, scale);
            ui.spacing_mut().item_spacing.x = 0.0;
            let indent = (left - heatmap.left(ui, width)).max(0.0);
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
        state: &mut WalkthroughState,
    ) -> Option<At> {
        let mut view = state.views.remove(&step.key).unwrap_or_default();
        let before = view.clone();
        let pointing = match self.height {
            Some(height) => heatmap.show_filling(ui, [width, height], &mut view),
            None => heatmap.show(ui, width, &mut view),
        };
        if step.is_editable() && pointing.response.double_clicked() {
            // A double click begins to type.
            view = before;
        }
        if view != Viewport::default() {
            state.views.insert(step.key, view);
        }
        if let Some(stage) = self.cache.stage(step).filter(|_| heatmap.is_staged()) {
            let colors = self.colors();
            let cell = pointing.hovered.or(heatmap.pointed);
            stage.draw(ui, step, &pointing, cell, self.since, &colors);
        }
        if state.entered && ui.memory(|memory| memory.focused()).is_none() {
            pointing.response.request_focus();
        }
        if heatmap.is_passive && pointing.response.has_focus() {
            let enter = |input: &mut InputState| input.consume_key(Modifiers::NONE, Key::Enter);
            state.entered = ui.input_mut(enter);
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
    let is_map = step.rows == RowRole::Pairs && step.matrix.rows() > 2;
    Heatmap {
        captions: is_map.then_some(["attending from", "attending to"]),
        terms: terms(step),
        ..Heatmap::new(
            &step.name,
            step.matrix.as_slice(),
            [&step.row_labels, &step.col_labels],
            picture,
        )
    }
}

/// A step's matrix with room for its operands, if both fit.
fn staged<'a>(cache: &'a Cache, ui: &Ui, step: &'a Step, width: f32) -> Option<Heatmap<'a>> {
    let plain = heatmap(step, cache.picture(step)?);
    let Some(stage) = cache.stage(step) else { return Some(plain) };
    let staged = Heatmap { inset: stage.inset(ui), captions: None, ..plain };
    if staged.shows_numbers(ui, width) {
        return Some(staged);
    }
    Some(heatmap(step, cache.picture(step)?))
}

/// The width of the fold and the number at the left of a step.
fn gutter(ui: &Ui) -> f32 {
    GUTTER * style::enlarged(ui)
}

/// The width of a step's text with the matrix beside it.
fn text_width(ui: &Ui) -> f32 {
    (0.34 * ui.available_width()).clamp(200.0, 400.0 * style::enlarged(ui))
}

/// A button that hides the matrices of a row, or shows them.
fn fold(ui: &mut Ui, row: &[&Step], state: &mut WalkthroughState) {
    let is_folded = row.iter().any(|step| state.folded.contains(&step.key));
    let verb = if is_folded { "Unfold" } else { "Fold" };
    let (_, button) = ui.allocate_exact_size(vec2(18.0, 18.0), Sense::click());
    button.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("{verb} {}", name(row))));
    let openness = if is_folded { 0.0 } else { 1.0 };
    egui::collapsing_header::paint_default_icon(ui, openness, &button);
    let hint = if is_folded { "Show the matrix." } else { "Hide the matrix." };
    if button.on_hover_text(hint).clicked() {
        for step in row {
            if is_folded {
                state.folded.remove(&step.key);
            } else {
                state.folded.insert(step.key);
            }
        }
    }
}

/// A button that folds all steps or unfolds them, and the switch for their details.
pub(crate) fn switches(ui: &mut Ui, state: &mut WalkthroughState, walkthrough: &Walkthrough) {
    let is_folded = !state.folded.is_empty();
    let name = if is_folded { "Unfold all" } else { "Fold all" };
    let hint = "Show only the names and formulas of the steps, or their matrices too.";
    if ui.small_button(name).on_hover_text(hint).clicked() {
        state.folded.clear();
        if !is_folded {
            state.folded.extend(walkthrough.steps.iter().map(|step| step.key));
        }
    }
    let hint = "Show below each step how exact it is, and the Rust call that computes it.";
    ui.toggle_value(&mut state.details, "Precision, code").on_hover_text(hint);
}

/// The name of a row: that of its step, without the number of the head if there are several.
fn name<'a>(row: &[&'a Step]) -> &'a str {
    let Some(first) = row.first() else { return "" };
    if row.len() == 1 {
        return &first.name;
    }
    first.name.split_once(", head ").map_or(first.name.as_str(), |(name, _)| name)
}

/// The name, and the formula of a single step.
fn heading(ui: &mut Ui, row: &[&Step]) {
    let strong = ui.visuals().strong_text_color();
    let Some(step) = row.first() else { return };
    formula::show(ui, name(row), style::subheading().resolve(ui.style()).size, strong);
    if row.len() == 1 && !step.formula.is_empty() {
        formula::show(ui, &step.formula, formula::size(ui), strong);
    }
}

/// The name, the formula and the meaning. The shape and the details are left out until they are revealed, because they may solve
/// the exercise; the page has a switch for the details.
fn text(ui: &mut Ui, row: &[&Step], revealed: Option<bool>) {
    heading(ui, row);
    let Some(step) = row.first() else { return };
    if revealed.is_some() {
        let shapes = RichText::new(step.shapes()).small().weak();
        ui.label(shapes).on_hover_text(
            "The shape: [rows, columns]. For a product, the shapes of its factors come first.",
        );
    }
    let size = TextStyle::Body.resolve(ui.style()).size;
    formula::show(ui, &step.meaning, size, ui.visuals().text_color());
    if revealed == Some(true) {
        details(ui, row, step);
    }
}

/// The precision, the call and a note.
fn details(ui: &mut Ui, row: &[&Step], step: &Step) {
    let small = |text: &str| RichText::new(text).small();
    let worse = |a: &'_ &Step, b: &'_ &Step| a.relative_error().total_cmp(&b.relative_error());
    let worst = row.iter().copied().max_by(|a, b| worse(a, b)).unwrap_or(step);
    let error = match worst.relative_error() {
        0.0 => "exact".to_owned(),
        error => format!("error {}", numbers::error(error)),
    };
    let (absolute, ulp) = (numbers::error(worst.max_error), numbers::ulp(worst.max_ulp));
    ui.label(small(&error)).on_hover_text(format!(
        "The largest distance from the same step in double precision, relative to the largest number of the matrix. In absolute terms, it is {absolute}, or {ulp} ULP. {}",
        numbers::ULP
    ));
    if !step.code.is_empty() {
        ui.label(small(step.code).monospace()).on_hover_text("The Rust call that computes it.");
    }
    if let Some(correction) = &step.correction {
        ui.label(small(correction));
    }
}

/// The words of a screen reader for a row, a column and a number.
fn terms(step: &Step) -> [&'static str; 3] {
    match step.rows {
        RowRole::Pairs if step.kind == Kind::Weights => ["query", "key", "weight"],
        RowRole::Pairs if step.key.quantity.is_scores() => ["query", "key", "score"],
        RowRole::Pairs => ["query", "key", "gradient"],
        _ => Heatmap::TERMS,
    }
}
