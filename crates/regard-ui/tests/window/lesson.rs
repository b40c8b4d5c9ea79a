//! An example one step at a time: the guided path asks before it says, and the presentation fills the window.

use crate::walkthrough::{Reading, State};
use egui::Key;
use egui_kittest::kittest::Queryable as _;
use regard_walkthrough::{Example, Quantity};

use super::driver::{Window, choices, click, key, open_smooth, says, session, walkthrough};

fn open(example: Example) -> Window {
    open_smooth(crate::example(example), [1280.0, 800.0])
}

fn state(window: &Window) -> &State {
    &session(window).walkthrough
}

#[test]
fn the_guided_path_asks_before_it_shows_the_numbers() {
    let mut window = open(Example::MathOfAttention);
    click(&mut window, "Guide me");
    assert!(says(&window, "What do you expect?") && says(&window, "step 1 of 11"));
    assert!(!says(&window, "Heatmap of "));
    click(&mut window, "Show the numbers");
    assert!(says(&window, "Heatmap of Tokens X") && says(&window, "8: there are 4 rows of 8"));
    click(&mut window, "Next");
    assert!(says(&window, "step 2 of 11") && !says(&window, "Heatmap of "));
    click(&mut window, "Back");
    assert!(says(&window, "Heatmap of Tokens X"), "what was shown stays shown");
    click(&mut window, "Step 10: Attention weights A");
    let walkthrough = walkthrough(&window);
    let question = walkthrough.question(Quantity::Weights).unwrap();
    assert!(says(&window, &question.ask) && !says(&window, &question.answer));
    assert!(!says(&window, "Weights of \"t0\" by"), "the curve would tell the answer");
    click(&mut window, "Show the numbers");
    assert!(says(&window, &question.answer) && says(&window, "Weights of \"t0\" by"));
    click(&mut window, "Leave");
    assert_eq!(state(&window).reading, Reading::Page);
}

#[test]
fn arrow_keys_move_and_escape_leaves() {
    let mut window = open(Example::ILoveRobotics);
    choices(&mut window).walkthrough.read(Reading::Guided);
    window.run_steps(3);
    key(&mut window, Key::ArrowRight);
    assert_eq!((state(&window).at, state(&window).revealed), (0, true));
    key(&mut window, Key::Space);
    assert_eq!((state(&window).at, state(&window).revealed), (1, false));
    key(&mut window, Key::ArrowLeft);
    assert_eq!((state(&window).at, state(&window).revealed), (0, true));
    key(&mut window, Key::Escape);
    assert_eq!(state(&window).reading, Reading::Page);
}

#[test]
fn a_presented_step_fills_the_window() {
    let mut window = open(Example::ILoveRobotics);
    let small = window.get_by_label("Heatmap of Tokens X").rect();
    click(&mut window, "Present");
    let large = window.get_by_label("Heatmap of Tokens X").rect();
    assert!(large.area() > 4.0 * small.area(), "{small} {large}");
    assert!(!says(&window, "Laboratory") && !says(&window, "Causal mask"));
    click(&mut window, "Next");
    assert!(says(&window, "Heatmap of Projection matrix W_Q"));
    key(&mut window, Key::Escape);
    assert!(says(&window, "Laboratory") && says(&window, "Causal mask"));
}
