//! One step at a time: as a guided path, which asks a question before it shows the numbers, or as a presentation, in which a
//! step fills the window.

use egui::{Button, Key, Modifiers, RichText, TextEdit, TextStyle, Ui, Vec2, vec2};
use regard_walkthrough::{Answers, Step, StepKey, Walkthrough};

use super::steps::StepsPage;
use super::{At, ReadingMode, WalkthroughState};
use super::{formula, rows};
use crate::{Command, style};

/// The questions of a guided path.
const QUESTIONS: usize = 5;
/// The factor by which the text of a presentation is larger, in a window of the usual height.
const PRESENTED: f32 = 1.6;
/// The least window in which a presentation has text of that size.
const USUAL: Vec2 = vec2(900.0, 800.0);

/// The factor by which the text of a presentation is larger.
pub(crate) fn enlarged(ui: &Ui) -> f32 {
    PRESENTED * (ui.ctx().content_rect().size() / USUAL).min_elem().clamp(0.6, 3.0)
}

/// Buttons that lead from the page to the guided path and to the presentation.
pub(crate) fn begin(ui: &mut Ui, state: &mut WalkthroughState) {
    if ui.small_button("Guide me").on_hover_text(Command::Guide.tooltip()).clicked() {
        state.read(ReadingMode::Guided);
    }
    if ui.small_button("Present").on_hover_text(Command::Present.tooltip()).clicked() {
        state.read(ReadingMode::Presented);
    }
}

/// Shows the step, and moves by the arrow keys. Returns the cell under the pointer.
pub(crate) fn show(
    ui: &mut Ui,
    state: &mut WalkthroughState,
    walkthrough: &Walkthrough,
    steps: &mut StepsPage<'_>,
) -> Option<At> {
    let rows = rows::of_page(&walkthrough.steps);
    let last = rows.len().saturating_sub(1);
    state.at = state.at.min(last);
    keys(ui, state, last);
    let is_presented = state.reading == ReadingMode::Presented;
    if is_presented {
        style::enlarge(ui, enlarged(ui));
    }
    if state.reading == ReadingMode::Guided && !asked(&rows, walkthrough).contains(&state.at) {
        state.revealed = true;
    }
    ui.horizontal_wrapped(|ui| {
        let place = format!("{} · step {} of {}", state.example().title(), state.at + 1, last + 1);
        ui.label(RichText::new(place).small().weak());
        if ui.add_enabled(state.at > 0, Button::new("Back").small()).clicked() {
            back(state);
        }
        let is_over = state.at == last && state.is_revealed();
        if ui.add_enabled(!is_over, Button::new("Next").small()).clicked() {
            next(state, last);
        }
        if ui.small_button("Leave").on_hover_text("Show the whole page again (Esc).").clicked() {
            state.read(ReadingMode::Page);
        }
    });
    ui.add_space(8.0);
    let first: StepKey = rows.get(state.at)?.first()?.key;
    if state.reading == ReadingMode::Guided && asked(&rows, walkthrough).contains(&state.at) {
        exercise(ui, state, walkthrough, first);
        ui.add_space(8.0);
    }
    steps.single(ui, state, walkthrough, state.at)
}

/// The rows about which the guided path asks: computed ones, evenly spread from the first to the last. It shows the others.
fn asked(rows: &[Vec<&Step>], walkthrough: &Walkthrough) -> Vec<usize> {
    let has = |row: &usize| {
        rows[*row].first().is_some_and(|step| walkthrough.exercise(step.key).is_some())
    };
    let all: Vec<usize> = (0..rows.len()).filter(has).collect();
    let last = all.len().saturating_sub(1);
    let count = QUESTIONS.min(all.len());
    (0..count).map(|i| all[(i * last).div_ceil(QUESTIONS - 1).min(last)]).collect()
}

/// Shows the question of a step's exercise, and then the solution.
fn exercise(ui: &mut Ui, state: &mut WalkthroughState, walkthrough: &Walkthrough, step: StepKey) {
    let Some(exercise) = walkthrough.exercise(step) else { return };
    style::card(ui.visuals()).show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.label(RichText::new("What do you expect?").text_style(style::subheading()).strong());
        let size = TextStyle::Body.resolve(ui.style()).size;
        formula::show(ui, &exercise.question, size, ui.visuals().text_color());
        if state.revealed {
            verdict(ui, state);
            ui.strong(&exercise.solution);
            return;
        }
        ui.horizontal_wrapped(|ui| options(ui, state, &exercise.options));
        let button = Button::new("Show the numbers").min_size(vec2(0.0, 28.0));
        if ui.add(button).on_hover_text("Or press the right arrow.").clicked() {
            state.revealed = true;
        }
    });
}

/// Takes the learner's answer. Once it is given, the numbers are shown.
fn options(ui: &mut Ui, state: &mut WalkthroughState, options: &Answers) {
    let (said, right) = &mut state.said;
    match options {
        Answers::Choice { of, .. } => {
            // Equal tokens are one choice.
            let is_first = |i: &usize| !of[..*i].contains(&of[*i]);
            for choice in (0..of.len()).filter(is_first).map(|i| &of[i]) {
                let button = ui.button(choice).accessible_name(format!("Answer {choice}"));
                if button.clicked() {
                    (*said, *right) = (choice.clone(), options.accepts(choice));
                }
            }
        }
        Answers::Number(_) => {
            let field = TextEdit::singleline(said).desired_width(96.0).hint_text("a number");
            let field = ui.add(field).accessible_name("Your answer");
            let entered = field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
            let is_number = options.accepts(said).is_some();
            if ui.add_enabled(is_number, Button::new("Check")).clicked() || entered {
                *right = options.accepts(said);
            }
        }
    }
    state.revealed = right.is_some();
}

/// Says whether the answer is right.
fn verdict(ui: &mut Ui, state: &WalkthroughState) {
    let (said, right) = &state.said;
    let (text, color) = match right {
        Some(true) => (format!("“{said}” is right."), style::readable(style::QUERY, ui.visuals())),
        Some(false) => (format!("“{said}” is not right."), ui.visuals().warn_fg_color),
        None => return,
    };
    ui.label(RichText::new(text).strong().color(color));
}

/// Moves by Page Up and Page Down, which clickers send, and by the arrows. In a presentation, Enter gives the arrows to the matrix,
/// and Escape takes them back.
fn keys(ui: &Ui, state: &mut WalkthroughState, last: usize) {
    let pressed = |key| ui.input_mut(|input| input.consume_key(Modifiers::NONE, key));
    let is_focused = ui.memory(|memory| memory.focused()).is_some();
    let is_presented = state.reading == ReadingMode::Presented;
    if pressed(Key::PageDown) {
        next(state, last);
    }
    if pressed(Key::PageUp) {
        back(state);
    }
    if state.entered {
        // Without the focus, nothing takes the arrows.
        state.entered = is_focused && !pressed(Key::Escape);
        return;
    }
    // A heatmap or a field with the focus uses the arrows itself.
    if is_focused && !is_presented {
        return;
    }
    if is_presented && !is_focused && pressed(Key::Enter) {
        state.entered = true;
    }
    if pressed(Key::ArrowRight) || pressed(Key::ArrowDown) || (!is_focused && pressed(Key::Space)) {
        next(state, last);
    }
    if pressed(Key::ArrowLeft) || pressed(Key::ArrowUp) {
        back(state);
    }
    if pressed(Key::Escape) {
        state.read(ReadingMode::Page);
    }
}

/// Shows the numbers, or else goes to the next step.
fn next(state: &mut WalkthroughState, last: usize) {
    if !state.is_revealed() {
        state.revealed = true;
    } else if state.at < last {
        state.go_to(state.at + 1, false);
    }
}

/// Goes to the previous step, whose numbers have already been shown.
fn back(state: &mut WalkthroughState) {
    if state.at > 0 {
        state.go_to(state.at - 1, true);
    }
}
