//! The first screen: a head of a trained model, and the effect of each of the three invitations.

use crate::{Command, Room};
use egui::Rect;
use egui_kittest::kittest::Queryable as _;
use regard_figure::Look;

use super::driver::{Window, app, click, open_smooth, press, says, settle};

fn open(size: [f32; 2]) -> Window {
    open_smooth(crate::greeting(), size)
}

/// The probabilities of the likeliest word, without and with the changes.
fn probabilities(window: &Window) -> [f32; 2] {
    let next = app(window).walkthrough.real_head().next().unwrap();
    [next.before, next.after]
}

fn weights(window: &Window) -> Vec<f32> {
    let head = app(window).walkthrough.real_head();
    // A masked cell is marked by −∞, and its weight is 0.
    head.matrix(Look::default()).unwrap().values.iter().map(|x| x.max(0.0)).collect()
}

#[test]
fn the_first_screen_shows_a_head_a_prediction_and_three_invitations() {
    for size in [[1280.0, 800.0], [900.0, 600.0]] {
        let window = open(size);
        assert!(says(&window, "The model expects “Lily” next, with a probability of 100 %."));
        let [before, after] = probabilities(&window);
        assert!(before > 0.95 && before == after, "the model is right by far: {before}");
        let screen = Rect::from_min_size(egui::Pos2::ZERO, size.into());
        for name in ["Temperature of the head", "Hide Lily at 1", "Weight of to → Max"] {
            let rect = window.get_by_label(name).rect();
            assert!(screen.contains_rect(rect), "{name} at {rect} in {size:?}");
        }
        // The head was chosen by its weights: the last word attends to names.
        let (all, n) = (weights(&window), 20);
        let names: f32 = [1, 3, 9, 15].map(|key| all[(n - 1) * n + key]).iter().sum();
        assert!(names > 0.6, "{names}");
    }
}

#[test]
fn the_temperature_moves_the_weights_on_the_same_screen() {
    let mut window = open([1280.0, 800.0]);
    let before = weights(&window);
    window.get_by_label("Temperature of the head").set_value_accesskit(8.0);
    settle(&mut window);
    let after = weights(&window);
    let largest = |row: &[f32]| row.iter().copied().fold(0.0, f32::max);
    let last = before.len() - 20;
    assert!(
        largest(&after[last..]) < 0.8 * largest(&before[last..]),
        "{} {}",
        largest(&before[last..]),
        largest(&after[last..])
    );
    assert!(says(&window, "With this change"));
    press(&mut window, Command::Undo);
    assert_eq!(weights(&window), before);
}

#[test]
fn a_hidden_word_changes_what_the_model_expects() {
    let mut window = open([1280.0, 800.0]);
    click(&mut window, "Hide Lily at 1");
    let [before, after] = probabilities(&window);
    assert!(after < before - 0.5, "{before} {after}");
    assert!(says(&window, "the probability of “Lily” falls from 100 %"));
    let hidden = weights(&window);
    assert!((2..20).all(|query| hidden[query * 20 + 1] == 0.0), "no later word sees it");
    click(&mut window, "Undo all changes");
    assert_eq!(probabilities(&window), [before, before]);
}

#[test]
fn the_arithmetic_of_a_weight_opens_and_the_examples_follow() {
    let mut window = open([1280.0, 800.0]);
    assert!(!says(&window, "q·k = "));
    click(&mut window, "Weight of to → Max");
    assert!(says(&window, "q·k = ") && says(&window, "in f64: "));
    click(&mut window, "Next example");
    assert!(says(&window, regard_walkthrough::Example::Foundations.summary()));
    click(&mut window, "Previous example");
    assert_eq!(app(&window).session.room, Room::Walkthrough);
    assert!(says(&window, "Drag the temperature"));
}
