//! An example one step at a time: the guided path asks before it says, and the presentation fills the window.

use crate::walkthrough::{ReadingMode, WalkthroughState};
use egui::Key;
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use regard_walkthrough::{Answers, Example, Quantity};

use super::driver::{Window, choices, click, key, open_smooth, says, session, walkthrough};

fn open(example: Example) -> Window {
    open_smooth(crate::example(example), [1280.0, 800.0])
}

fn state(window: &Window) -> &WalkthroughState {
    &session(window).walkthrough
}

#[test]
fn the_guided_path_asks_before_it_shows_the_numbers() {
    let mut window = open(Example::MathOfAttention);
    click(&mut window, "Guide me");
    assert!(says(&window, "Heatmap of Tokens X") && says(&window, "step 1 of 11"));
    assert!(!says(&window, "What do you expect?"), "the tokens are given");
    let mut asked = Vec::new();
    for step in 1..=11 {
        assert!(says(&window, &format!("step {step} of 11")));
        if says(&window, "What do you expect?") {
            asked.push(step);
            click(&mut window, "Show the numbers");
        }
        if step < 11 {
            click(&mut window, "Next");
        }
    }
    // X and the three matrices are given. The others are Q, K, V, two kinds of scores, the weights and the output.
    assert_eq!(asked, [5, 7, 8, 10, 11]);
    click(&mut window, "Back");
    assert!(says(&window, "Heatmap of Attention weights A"), "what was shown stays shown");
    click(&mut window, "Step 10: Attention weights A");
    let walkthrough = walkthrough(&window);
    let exercise = walkthrough.exercise(Quantity::Weights).unwrap();
    assert!(says(&window, &exercise.question) && !says(&window, &exercise.solution));
    assert!(!says(&window, "Weights of \"t0\" by"), "the curve would tell the answer");
    click(&mut window, "Show the numbers");
    assert!(says(&window, &exercise.solution) && says(&window, "Weights of \"t0\" by"));
    click(&mut window, "Leave");
    assert_eq!(state(&window).reading, ReadingMode::Page);
}

#[test]
fn the_guided_path_takes_an_answer_and_says_whether_it_is_right() {
    let mut window = open(Example::MathOfAttention);
    click(&mut window, "Guide me");
    click(&mut window, "Step 5: Queries Q");
    let exercise = walkthrough(&window).exercise(Quantity::Q).unwrap();
    let Answers::Number(right) = exercise.options else { unreachable!("a cell is a number") };
    let answer = |window: &mut Window, number: &str| {
        window.get_by_label("Your answer").set_text_value_accesskit(number);
        window.run_steps(3);
        click(window, "Check");
    };
    answer(&mut window, "77");
    assert!(says(&window, "“77” is not right.") && says(&window, &exercise.solution));
    assert!(says(&window, "[4, 8]"));
    click(&mut window, "Next");
    assert!(!says(&window, "is not right."), "the next question has its own answer");
    click(&mut window, "Step 5: Queries Q");
    let said = format!("{right:.4}");
    answer(&mut window, &said);
    assert!(says(&window, &format!("“{said}” is right.")));
    click(&mut window, "Step 10: Attention weights A");
    click(&mut window, "Answer t1");
    assert!(says(&window, "“t1” is not right.") && says(&window, "Heatmap of Attention weights A"));
}

#[test]
fn the_guided_path_shows_the_factors_before_their_product() {
    let mut window = open(Example::ILoveRobotics);
    let exercise = walkthrough(&window).exercise(Quantity::RawScores).unwrap();
    click(&mut window, "Guide me");
    while !says(&window, &exercise.question) {
        if says(&window, "Show the numbers") {
            click(&mut window, "Show the numbers");
        }
        click(&mut window, "Next");
    }
    assert!(says(&window, "Heatmap of ") && !says(&window, &exercise.solution));
    let map = window.get_by_label_contains("Heatmap of ");
    assert!(!map.accesskit_node().value().is_some_and(|value| value.contains('4')));
}

/// Each question shows what its answer is computed from.
#[test]
fn the_guided_path_shows_inputs_beside_each_question() {
    for example in Example::ALL {
        let mut window = open(*example);
        click(&mut window, "Guide me");
        let mut asked = 0;
        while !window.get_by_label("Next").accesskit_node().is_disabled() {
            if says(&window, "Show the numbers") {
                asked += 1;
                assert!(says(&window, "Heatmap of "), "{} asks without numbers", example.name());
            }
            click(&mut window, "Next");
        }
        // The measurements of "why-scale" are computed from numbers that no step shows.
        let least = usize::from(*example != Example::WhyScale);
        assert!((least..=5).contains(&asked), "{}: {asked}", example.name());
    }
}

#[test]
fn page_keys_and_arrows_turn_the_slides_until_enter_enters_a_matrix() {
    let mut window = open(Example::ILoveRobotics);
    choices(&mut window).walkthrough.read(ReadingMode::Presented);
    window.run_steps(3);
    for (pressed, at) in [
        (Key::PageDown, 1),
        (Key::ArrowRight, 2),
        (Key::ArrowDown, 3),
        (Key::PageUp, 2),
        (Key::ArrowLeft, 1),
    ] {
        key(&mut window, pressed);
        assert_eq!(state(&window).at, at, "{pressed:?}");
    }
    let cells = window.get_by_label("Heatmap of Projection matrix W_Q").rect();
    super::driver::click_at(&mut window, cells.center());
    key(&mut window, Key::ArrowRight);
    assert_eq!(state(&window).at, 2, "a click chooses a cell and leaves the arrows to the slides");
    assert!(says(&window, "Projection matrix W_Q"), "its arithmetic stays below");
    for pressed in [Key::Enter, Key::ArrowRight, Key::ArrowDown] {
        key(&mut window, pressed);
    }
    assert_eq!(state(&window).at, 2, "the arrows move in the matrix");
    let picked = state(&window).pointed().cloned().unwrap();
    assert_eq!((picked.step, picked.cell), (Quantity::WK.into(), (1, 1)));
    key(&mut window, Key::Escape);
    key(&mut window, Key::ArrowRight);
    assert_eq!((state(&window).at, state(&window).reading), (3, ReadingMode::Presented));
}

#[test]
fn the_products_of_a_cell_move_for_less_than_half_a_second() {
    let mut window = open(Example::ILoveRobotics);
    window.ctx.all_styles_mut(|style| style.animation_time = 0.1);
    choices(&mut window).walkthrough.read(ReadingMode::Presented);
    let scores =
        walkthrough(&window).steps.iter().position(|s| s.key == Quantity::RawScores.into());
    choices(&mut window).walkthrough.go_to(scores.unwrap(), false);
    window.run_steps(5);
    let name = format!("Heatmap of {}", walkthrough(&window).steps[scores.unwrap()].name);
    let cells = window.get_by_label(&name).rect();
    window.hover_at(cells.center());
    let waits = |window: &mut Window| {
        window.run_steps(1);
        !window.output().viewport_output[&egui::ViewportId::ROOT].repaint_delay.is_zero()
    };
    let moving = (0..120).take_while(|_| !waits(&mut window)).count();
    assert!((20..=30).contains(&moving), "{moving} frames of a sixtieth of a second");
    assert!(waits(&mut window), "nothing is drawn at rest");
    window.hover_at(cells.left_top() + egui::vec2(5.0, 5.0));
    window.run_steps(3);
    window.drag_at(cells.left_top() + egui::vec2(5.0, 5.0));
    let moving = (0..120).take_while(|_| !waits(&mut window)).count();
    assert!(moving < 6, "a click ends it: {moving}");
}

#[test]
fn arrow_keys_move_and_escape_leaves() {
    let mut window = open(Example::ILoveRobotics);
    choices(&mut window).walkthrough.read(ReadingMode::Guided);
    window.run_steps(3);
    // Until the first question, steps are given.
    while !says(&window, "What do you expect?") {
        key(&mut window, Key::ArrowRight);
    }
    let first = state(&window).at;
    assert_eq!((first > 0, state(&window).revealed), (true, false));
    key(&mut window, Key::ArrowRight);
    assert_eq!((state(&window).at, state(&window).revealed), (first, true));
    key(&mut window, Key::Space);
    assert_eq!(state(&window).at, first + 1);
    key(&mut window, Key::ArrowLeft);
    assert_eq!((state(&window).at, state(&window).revealed), (first, true));
    key(&mut window, Key::Escape);
    assert_eq!(state(&window).reading, ReadingMode::Page);
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

/// A product of eight columns is as wide as the window allows, so that its last row can read it.
#[test]
fn a_presented_product_of_eight_columns_can_be_read() {
    let mut window = open(Example::MathOfAttention);
    window.set_size(egui::vec2(1280.0, 800.0));
    click(&mut window, "Present");
    for _ in 0..4 {
        click(&mut window, "Next");
    }
    window.run_steps(3);
    let product = window.get_by_label("Heatmap of Queries Q").rect();
    assert!(product.width() >= 8.0 * 44.0 && product.bottom() < 800.0, "{product}");
}
