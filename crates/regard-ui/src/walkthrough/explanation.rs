//! The panel at the bottom: the arithmetic of the cell under the pointer.

use egui::{Align, DragValue, Label, Layout, RichText, ScrollArea, Ui};
use regard_walkthrough::{Expr, Inputs, Step, Walkthrough};

use super::{At, Picked, WalkthroughState};
use super::{edit, equation};
use crate::numbers;

/// The maximum number of operands listed beside words.
const LISTED: usize = 12;

/// Shows the panel. Returns the operand that was clicked.
pub(crate) fn show(
    ui: &mut Ui,
    state: &mut WalkthroughState,
    walkthrough: &Walkthrough,
) -> Option<At> {
    ui.spacing_mut().item_spacing.y = 4.0;
    // The guided path asks before it shows a number.
    let at = state.pointed().filter(|_| state.is_revealed()).cloned();
    let Some((step, at)) = at.and_then(|at| Some((walkthrough.step(at.step)?, at))) else {
        hint(ui, state, walkthrough);
        return None;
    };
    let arithmetic = step.arithmetic(at.cell.0, at.cell.1)?;
    heading(ui, state, step, &at);
    let area = ScrollArea::both().id_salt(("arithmetic", &at.step, at.cell));
    let area = area.auto_shrink(false).min_scrolled_height(0.0);
    area.show(ui, |ui| match &arithmetic.expr {
        Some(expr) if is_the_text(expr, &arithmetic.text) => equation::show(ui, expr, &arithmetic),
        expr => words(ui, expr.as_ref(), &arithmetic.text),
    })
    .inner
}

/// Whether the text only repeats the expression.
fn is_the_text(expr: &Expr, text: &str) -> bool {
    text.strip_prefix(&expr.text()).is_some_and(|rest| rest.starts_with(" = "))
}

/// Shows a hint at the user's possible actions.
fn hint(ui: &mut Ui, state: &WalkthroughState, walkthrough: &Walkthrough) {
    let text = match state.picked {
        Some(Picked::Token(i)) => {
            let token = walkthrough.tokens.get(i).map_or("", String::as_str);
            format!(
                "The query, scores, weights and output of \"{token}\" are framed in green, the keys and values that it \
                 attends to in pink. Click the token again to end this."
            )
        }
        _ => "Point at a cell to read its arithmetic; click to keep it. You can change the given numbers, and those of Q, K and V: \
              double-click or press Enter to type, or hold Shift and drag."
            .to_owned(),
    };
    ScrollArea::vertical()
        .id_salt("hint")
        .auto_shrink(false)
        .min_scrolled_height(0.0)
        .show(ui, |ui| ui.weak(text));
}

/// The name of the cell, with its error under the pointer, and its number if it can be changed.
fn heading(ui: &mut Ui, state: &mut WalkthroughState, step: &Step, at: &At) {
    ui.horizontal(|ui| {
        ui.set_min_height(ui.spacing().interact_size.y);
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let (row, col) = at.cell;
            let (error, ulp) =
                (step.error(row, col).unwrap_or(0.0), step.ulp(row, col).unwrap_or(0.0));
            number(ui, &mut state.inputs, step, at);
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                let name = RichText::new(edit::name(step, at.cell)).strong();
                ui.add(Label::new(name).truncate()).on_hover_text(format!(
                    "{} ULP from f64, {} in absolute terms. {}",
                    numbers::ulp(ulp),
                    numbers::error(error),
                    numbers::ULP
                ));
            });
        });
    });
}

/// Shows a field that changes or restores the number, if it can be typed over.
fn number(ui: &mut Ui, inputs: &mut Inputs, step: &Step, at: &At) {
    let (row, col) = at.cell;
    let (Some(before), Some(given)) = (edit::number(step, at.cell), step.given(row, col)) else {
        return;
    };
    let button = ui.add_enabled(inputs.is_edited(at.step, row, col), egui::Button::new("Restore"));
    let is_restored = button.on_hover_text(format!("Restore {}.", given as f32)).clicked();
    if is_restored {
        inputs.restore(at.step, row, col);
    }
    let shown = if is_restored { given } else { before };
    let mut x = shown;
    let field = DragValue::new(&mut x)
        .range(-inputs.largest()..=inputs.largest())
        .speed(0.5 / edit::fineness(step))
        .max_decimals(6)
        .update_while_editing(false);
    ui.add(field)
        .on_hover_text("Drag it, or click to type.")
        .accessible_name(format!("Number of {}", edit::name(step, at.cell)));
    if x != shown {
        // The field stays within the limits.
        let _ = inputs.set(at.step, row, col, x);
    }
}

/// The words about a cell, and links to its operands.
fn words(ui: &mut Ui, expr: Option<&Expr>, text: &str) -> Option<At> {
    ui.label(text);
    let mut clicked = None;
    let operands = expr.map(Expr::operands).unwrap_or_default();
    ui.horizontal_wrapped(|ui| {
        for operand in operands.iter().take(LISTED) {
            let Some(cell) = &operand.cell else { continue };
            if ui.link(&operand.label).clicked() {
                clicked = Some(At { step: cell.step, cell: (cell.row, cell.col) });
            }
        }
    });
    clicked
}
