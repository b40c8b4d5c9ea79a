//! The model room with story, and the results of story itself.

use crate::Room;
use crate::model::{ModelState, Outcome};
use egui::accesskit::Role;
use egui_kittest::kittest::Queryable as _;
use regard_bundled::STORY;
use regard_heads::HeadId;
use regard_models::{Change, Input, Model};

use super::driver::{Window, app, button, click, open, session, session_of, settle};

pub(super) const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/models");

/// The model room with story.
pub(super) fn window() -> Window {
    open(session_of(Room::Stage), [1400.0, 1000.0])
}

pub(super) fn state(window: &Window) -> &ModelState {
    &session(window).model
}

pub(super) fn run(window: &Window) -> &Outcome {
    app(window).model().outcome().unwrap()
}

pub(super) fn type_text(window: &mut Window, text: &str) {
    type_into(window, "Text", text);
}

pub(super) fn type_into(window: &mut Window, field: &str, text: &str) {
    window.get_by_role_and_label(Role::MultilineTextInput, field).set_text_value_accesskit(text);
    settle(window);
}

pub(super) fn open_head(window: &mut Window, layer: usize, head: usize) {
    let cell = button(window, &format!("head {layer}.{head},"));
    click(window, &cell);
    assert_eq!(state(window).heads.id(), HeadId { layer, head });
}

pub(super) fn numbers(window: &Window) -> Vec<f32> {
    app(window).model().large().selected().unwrap().numbers.to_vec()
}

/// The numbers of the runs A and B and of their difference.
pub(super) fn side_by_side(window: &Window) -> [Vec<f32>; 3] {
    app(window).model().side_by_side().map(|shown| shown.unwrap().numbers.to_vec())
}

/// The model story, and the ids of its text.
pub(super) fn reference(text: &str) -> (Model, Input) {
    let model = Model::load(&regard_bundled::checkpoint(STORY).unwrap().unwrap()).unwrap();
    let input = model.tokenizer().unwrap().encode(text, None).unwrap();
    (model, input)
}

/// The weights of a head of a run, and the probability of each next token.
pub(super) fn traced(
    text: &str,
    changes: &[Change],
    layer: usize,
    head: usize,
) -> (Vec<f32>, Vec<f64>) {
    let (model, input) = reference(text);
    let place = format!("blocks.{layer}.attn.hook_pattern");
    let mut pass = model.pass().keep([place.clone()]);
    for change in changes {
        pass = pass.change(change.clone());
    }
    let trace = pass.run(&input).unwrap();
    let n = input.ids.len();
    let weights = trace.get(&place).unwrap().data[head * n * n..(head + 1) * n * n].to_vec();
    let logits = trace.logits().unwrap().last();
    let weight = |x: &f32| f64::from(*x).exp();
    let sum: f64 = logits.iter().map(weight).sum();
    (weights, logits.iter().map(|x| weight(x) / sum).collect())
}

/// Checks the change that is made, and the predictions of the run with it.
pub(super) fn assert_changed(window: &Window, text: &str, change: &Change) {
    let changes = core::slice::from_ref(change);
    assert_eq!(state(window).active(), changes);
    near(run(window).next_changed().unwrap(), &traced(text, changes, 0, 0).1);
}

/// The room rounds a probability from `f64` to `f32` once: half a unit in the last place of a number below 1.
pub(super) fn near(found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    // Sums of exponentials in `f64` in another order differ by some 2⁻⁵⁰, far less than the rounding to `f32`.
    let close = |(a, b): (&f32, &f64)| (f64::from(*a) - b).abs() <= f64::from(f32::EPSILON);
    assert!(found.iter().zip(expected).all(close));
}
