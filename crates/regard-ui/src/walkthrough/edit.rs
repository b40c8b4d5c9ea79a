//! Typing over a number, and dragging it.

use egui::text::{CCursor, CCursorRange};
use egui::text_edit::TextEditState;
use egui::{Id, Key, Modifiers, Response, TextEdit, Tooltip, Ui, Vec2, vec2};
use regard_walkthrough::{Step, Walkthrough};

use super::{At, Picked, WalkthroughState};
use crate::heatmap::{Cell, Pointing};
use crate::style;

/// The width that a number needs to be typed.
const WIDTH: f32 = 72.0;
/// The distance of the pointer for the smallest change, in points.
const POINTS: f32 = 2.0;

/// The number that is being typed or dragged.
#[derive(Default)]
pub(crate) struct Edit {
    typing: Option<Typing>,
    dragging: Option<Dragging>,
}

/// A field in a cell.
struct Typing {
    at: At,
    /// The original text. If it is unchanged, the number is not typed over.
    before: String,
    text: String,
    /// The error of the text.
    problem: Option<String>,
    has_begun: bool,
}

/// A number that follows the pointer.
struct Dragging {
    at: At,
    from: f64,
    /// See [`fineness`].
    per: f64,
    moved: Vec2,
}

impl Edit {
    /// Whether a drag on this step's cells changes a number: with Shift or Alt, until the pointer is released.
    pub(crate) fn takes_drags(&self, ui: &Ui, step: &Step) -> bool {
        let wanted = ui.input(|input| input.modifiers.shift || input.modifiers.alt);
        self.dragging.as_ref().is_some_and(|drag| drag.at.step == step.key)
            || wanted && step.is_editable()
    }

    /// The cell that is dragged. It stays the explained one.
    pub(crate) fn dragged(&self) -> Option<&At> {
        self.dragging.as_ref().map(|drag| &drag.at)
    }

    /// Ends the edit of a cell that no longer exists.
    pub(crate) fn keep_up(&mut self, walkthrough: Option<&Walkthrough>) {
        let is_gone =
            |at: &At| walkthrough.and_then(|w| number(w.step(at.step)?, at.cell)).is_none();
        self.typing.take_if(|typing| is_gone(&typing.at));
        self.dragging.take_if(|drag| is_gone(&drag.at));
    }

    /// Handles input on the cells of a step that has been drawn. `cursor` is that of the keyboard.
    pub(crate) fn show(
        &mut self,
        ui: &mut Ui,
        step: &Step,
        pointing: &Pointing,
        cursor: Option<Cell>,
        state: &mut WalkthroughState,
    ) {
        if !step.is_editable() {
            return;
        }
        let response = &pointing.response;
        let clicked = response.interact_pointer_pos().filter(|_| response.double_clicked());
        let entered = response.has_focus()
            && ui.input_mut(|input| input.consume_key(Modifiers::NONE, Key::Enter));
        let cell =
            clicked.and_then(|at| pointing.cell_at(at)).or_else(|| cursor.filter(|_| entered));
        if let Some(cell) = cell {
            self.typing = Typing::new(step, cell);
        }
        self.drag(ui, step, pointing, state);
        if self.typing.as_ref().is_some_and(|typing| typing.at.step == step.key) {
            self.field(ui, step, pointing, state);
        }
    }

    fn drag(&mut self, ui: &Ui, step: &Step, pointing: &Pointing, state: &mut WalkthroughState) {
        let response = &pointing.response;
        if response.drag_started() && self.takes_drags(ui, step) {
            let pressed = ui.input(|input| input.pointer.press_origin());
            if let Some(cell) = pressed.and_then(|at| pointing.cell_at(at)) {
                state.picked = Some(Picked::Cell(At { step: step.key, cell }));
                self.dragging = Dragging::new(step, cell);
            }
        }
        let Some(drag) = self.dragging.as_mut().filter(|drag| drag.at.step == step.key) else {
            return;
        };
        if response.dragged() {
            drag.moved += response.drag_delta();
            let At { step, cell: (row, col) } = &drag.at;
            // A number beyond the limits is ignored.
            let _ = state.inputs.set(*step, *row, *col, drag.value());
        } else {
            self.dragging = None;
        }
    }

    /// Shows the field. Enter or a click elsewhere accepts the number. Escape keeps the old one.
    fn field(
        &mut self,
        ui: &mut Ui,
        step: &Step,
        pointing: &Pointing,
        state: &mut WalkthroughState,
    ) {
        let Some(typing) = &mut self.typing else { return };
        let (row, col) = typing.at.cell;
        let rect = pointing.rect((row, col));
        let rect = egui::Rect::from_center_size(rect.center(), rect.size().max(vec2(WIDTH, 26.0)));
        let name = name(step, (row, col));
        let field = TextEdit::singleline(&mut typing.text)
            .id(Id::unique("typed number"))
            .font(style::digits())
            .align(egui::Align2::CENTER_CENTER);
        let field = ui.put(rect, field).accessible_name(format!("New number of {name}"));
        if !typing.has_begun {
            typing.has_begun = true;
            field.request_focus();
            select_all(ui, field.id, &typing.text);
            return;
        }
        if field.changed() {
            typing.problem = None;
        }
        if let Some(problem) = &typing.problem {
            Tooltip::always_open(
                ui.ctx().clone(),
                ui.layer_id(),
                Id::unique("refused number"),
                rect,
            )
            .show(|ui| {
                ui.colored_label(ui.visuals().error_fg_color, problem);
            });
        }
        if field.lost_focus() {
            let key = |key| ui.input(|input| input.key_pressed(key));
            if key(Key::Escape) {
                self.end(&pointing.response);
                return;
            }
            let inputs = &mut state.inputs;
            let set = |x| {
                inputs.set(typing.at.step, row, col, x).map(drop).map_err(|error| error.to_string())
            };
            let taken = if typing.text == typing.before {
                Ok(())
            } else {
                parse(&typing.text).and_then(set)
            };
            match taken {
                Ok(()) => {
                    state.picked = Some(Picked::Cell(typing.at.clone()));
                    if key(Key::Enter) {
                        self.end(&pointing.response);
                    } else {
                        self.typing = None;
                    }
                }
                Err(problem) => {
                    typing.problem = Some(problem);
                    field.request_focus();
                }
            }
        }
    }

    /// Closes the field and returns to the cells.
    fn end(&mut self, cells: &Response) {
        self.typing = None;
        cells.request_focus();
    }
}

impl Typing {
    fn new(step: &Step, cell: Cell) -> Option<Self> {
        let before = number(step, cell)?.to_string();
        let at = At { step: step.key, cell };
        Some(Self { at, text: before.clone(), before, problem: None, has_begun: false })
    }
}

impl Dragging {
    fn new(step: &Step, cell: Cell) -> Option<Self> {
        let from = number(step, cell)?;
        let at = At { step: step.key, cell };
        Some(Self { at, from, per: fineness(step), moved: Vec2::ZERO })
    }

    /// The new number. Moving right or up increases it.
    fn value(&self) -> f64 {
        let steps = (self.moved.x - self.moved.y) / POINTS;
        ((self.from * self.per).round() + f64::from(steps.round())) / self.per
    }
}

/// The number of a cell that can be typed over, in double precision.
pub(crate) fn number(step: &Step, (row, col): Cell) -> Option<f64> {
    step.given(row, col).map(|_| step.exact.get(row, col))
}

/// The inverse of the smallest change when a number of the matrix is dragged: a power of ten that suits their size.
pub(crate) fn fineness(step: &Step) -> f64 {
    let largest = step.exact.as_slice().iter().map(|x| x.abs()).fold(0.0, f64::max);
    let exponent = if largest > 0.0 { largest.log10().floor() as i32 } else { 0 };
    10_f64.powi(2 - exponent.clamp(-4, 4))
}

fn parse(text: &str) -> Result<f64, String> {
    let plain = text.trim().replace('−', "-");
    let no_number = || {
        format!(
            "\"{text}\" is not a number. Enter one like 1.5 or −2e−3, or press Esc to keep the old one."
        )
    };
    plain.parse().ok().ok_or_else(no_number)
}

fn select_all(ui: &Ui, id: Id, text: &str) {
    let mut state = TextEditState::load(ui.ctx(), id).unwrap_or_default();
    let all = CCursorRange::two(CCursor::new(0), CCursor::new(text.chars().count()));
    state.cursor.set_char_range(Some(all));
    state.store(ui.ctx(), id);
}

/// The name of a cell: "Tokens X: cat, d0".
pub(crate) fn name(step: &Step, (row, col): Cell) -> String {
    let label = |labels: &[String], i: usize| labels.get(i).cloned().unwrap_or_default();
    format!("{}: {}, {}", step.name, label(&step.row_labels, row), label(&step.col_labels, col))
}
