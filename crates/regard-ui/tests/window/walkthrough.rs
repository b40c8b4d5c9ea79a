//! Changes in the first room by the pointer, the keyboard and the accessible names.

use crate::heatmap::Cell;
use crate::walkthrough::{At, Picked, WalkthroughState};
use crate::{Command, Session};
use egui::accesskit::{Role, Toggled};
use egui::{Key, Modifiers, Pos2, vec2};
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use regard_figure::numbers;
use regard_walkthrough::{
    Effective, Example, Inputs, Matrix, Quantity, Section, Step, StepKey, Walkthrough, Without,
};

use super::driver::{
    Window, cell_of, click, click_at, key, open_smooth, pass_a_second, pointer_button, press,
    put_back, saved, says, session, shows, step, walkthrough,
};

fn open(example: Example) -> Window {
    open_smooth(crate::example(example), [1280.0, 12000.0])
}

fn state(window: &Window) -> &WalkthroughState {
    &session(window).walkthrough
}

fn number(window: &Window, key: &str, (row, col): Cell) -> f64 {
    step(window, key).exact.get(row, col)
}

const FIELD: &str = "New number of";

fn click_cell(window: &mut Window, key_of: &str, cell: Cell) {
    let at = cell_of(window, key_of, cell);
    click_at(window, at);
}

/// Picks a cell, opens its field by Enter, and types.
fn type_over(window: &mut Window, key_of: &str, cell: Cell, text: &str) {
    click_cell(window, key_of, cell);
    key(window, Key::Enter);
    window.get_by_label_contains(FIELD).type_text(text);
    window.run_steps(2);
    key(window, Key::Enter);
}

/// Whether a step has other numbers than before.
fn differs(window: &Window, before: &Walkthrough, key: &str) -> bool {
    step(window, key).matrix != before.step(key.parse::<StepKey>().unwrap()).unwrap().matrix
}

#[test]
fn a_cell_is_typed_over_by_keyboard_and_everything_follows() {
    let mut window = open(Example::ILoveRobotics);
    let before = walkthrough(&window).clone();
    type_over(&mut window, "x", (1, 0), "−2.5");
    assert_eq!(number(&window, "x", (1, 0)), -2.5);
    assert!(!says(&window, FIELD), "the field is closed");
    for key in ["x", "q", "raw_scores", "weights", "output"] {
        assert!(differs(&window, &before, key), "{key}");
    }
    assert!(!differs(&window, &before, "w_q"));
    assert!(says(&window, "1 number changed"));

    // The cells have the focus again: an arrow and Enter lead to the next one.
    key(&mut window, Key::ArrowRight);
    key(&mut window, Key::Enter);
    window.get_by_label_contains(FIELD).type_text("7");
    window.run_steps(2);
    key(&mut window, Key::Enter);
    assert_eq!(number(&window, "x", (1, 1)), 7.0);

    press(&mut window, Command::Undo);
    assert_eq!((number(&window, "x", (1, 0)), number(&window, "x", (1, 1))), (-2.5, 1.0));
    press(&mut window, Command::Undo);
    assert!(!differs(&window, &before, "output"));
    press(&mut window, Command::Redo);
    press(&mut window, Command::Redo);
    assert_eq!(number(&window, "x", (1, 1)), 7.0);
    click(&mut window, "Reset numbers");
    assert!(!state(&window).inputs.is_changed());
    assert!(!differs(&window, &before, "output"));
    press(&mut window, Command::Undo);
    assert_eq!(number(&window, "x", (1, 0)), -2.5);
}

#[test]
fn text_that_is_not_a_number_is_refused_and_escape_discards_it() {
    let mut window = open(Example::ILoveRobotics);
    let before = number(&window, "w_q", (0, 0));
    for (text, message) in [
        ("1,5", "\"1,5\" is not a number"),
        ("", "is not a number"),
        ("NaN", "NaN"),
        ("2e6", "−10000 to 10000"),
    ] {
        click_cell(&mut window, "w_q", (0, 0));
        key(&mut window, Key::Enter);
        let field = window.get_by_label_contains(FIELD);
        if text.is_empty() {
            window.key_press(Key::Backspace);
        } else {
            field.type_text(text);
        }
        window.run_steps(2);
        key(&mut window, Key::Enter);
        assert!(says(&window, FIELD) && says(&window, message), "{text:?} is told to be wrong");
        assert_eq!(number(&window, "w_q", (0, 0)), before);
        key(&mut window, Key::Escape);
        assert!(!says(&window, FIELD) && !says(&window, message), "{text:?} is given up");
    }
    assert!(!state(&window).inputs.is_changed());
}

#[test]
fn a_query_is_typed_over_and_put_back() {
    let mut window = open(Example::ILoveRobotics);
    let before = walkthrough(&window).clone();
    type_over(&mut window, "q", (1, 0), "5");
    assert_eq!(number(&window, "q", (1, 0)), 5.0);
    for key in ["raw_scores", "weights", "output"] {
        assert!(differs(&window, &before, key), "{key}");
    }
    assert!(!differs(&window, &before, "k"));
    assert!(
        says(&window, "1 number changed")
            && says(&window, "typed in: 5, in place of 1·1 + 1·0 + 0·1 + 0·0 = 1")
    );

    // Pressing Enter twice types nothing.
    key(&mut window, Key::ArrowRight);
    key(&mut window, Key::Enter);
    key(&mut window, Key::Enter);
    assert!(!says(&window, FIELD) && state(&window).inputs.edits().len() == 1);

    press(&mut window, Command::Undo);
    assert!(!differs(&window, &before, "output"));
    press(&mut window, Command::Redo);
    click_cell(&mut window, "q", (1, 0));
    window.get_by_label("Number of Queries Q: love, q0").set_value_accesskit(-2.5);
    window.run_steps(3);
    assert_eq!(number(&window, "q", (1, 0)), -2.5);
    click(&mut window, "Restore");
    assert_eq!(number(&window, "q", (1, 0)), 1.0);
    assert!(!state(&window).inputs.is_changed());
    // Without projections, Q is X itself, and X can be typed over.
    type_over(&mut window, "v", (0, 0), "3");
    click(&mut window, "projections");
    assert_eq!(number(&window, "v", (0, 0)), number(&window, "x", (0, 0)));
    click_cell(&mut window, "v", (0, 0));
    key(&mut window, Key::Enter);
    assert!(!says(&window, FIELD));
    click(&mut window, "nothing");
    assert_eq!(number(&window, "v", (0, 0)), 3.0);
}

#[test]
fn a_double_click_types_into_an_editable_cell() {
    let mut window = open(Example::TheCatSat);
    for (key_of, is_input) in [
        ("x", true),
        ("q", true),
        ("k", true),
        ("v", true),
        ("raw_scores", false),
        ("weights", false),
    ] {
        let at = cell_of(&window, key_of, (0, 1));
        for _ in 0..2 {
            window.hover_at(at);
            window.drag_at(at);
            window.drop_at(at);
        }
        window.run_steps(3);
        assert_eq!(says(&window, FIELD), is_input, "{key_of}");
        key(&mut window, Key::Escape);
        pass_a_second(&mut window);
    }
}

#[test]
fn a_drag_with_shift_is_one_change() {
    ["x", "k"].into_iter().for_each(drag_with_shift);
}

fn drag_with_shift(key: &str) {
    let mut window = open(Example::ILoveRobotics);
    let from = cell_of(&window, key, (0, 0));
    let before = number(&window, key, (0, 0));
    window.hover_at(from);
    window.event_modifiers(egui::Event::PointerMoved(from), Modifiers::SHIFT);
    window.run_steps(2);
    let button = |pos, pressed| pointer_button(pos, pressed, Modifiers::SHIFT);
    window.event_modifiers(button(from, true), Modifiers::SHIFT);
    window.step();
    for i in 1..=10 {
        window.event_modifiers(
            egui::Event::PointerMoved(from + vec2(10.0 * i as f32, 0.0)),
            Modifiers::SHIFT,
        );
        window.step();
    }
    window.event_modifiers(button(from + vec2(100.0, 0.0), false), Modifiers::SHIFT);
    window.run_steps(3);
    let after = number(&window, key, (0, 0));
    assert!((after - before - 0.5).abs() < 1e-9, "{before} became {after}");
    assert_eq!(step(&window, key).matrix.get(0, 0), after as f32);
    press(&mut window, Command::Undo);
    assert_eq!(number(&window, key, (0, 0)), before);
}

#[test]
fn a_token_is_followed_through_all_steps() {
    let mut window = open(Example::TheCatSat);
    click(&mut window, "Token 2: cat");
    assert_eq!(state(&window).picked, Some(Picked::Token(1)));
    let selection = state(&window).selection(walkthrough(&window));
    assert_eq!((selection.query, &selection.keys[..]), (Some(1), &[0, 1, 2][..]));
    for key in ["q", "raw_scores", "weights", "output"] {
        assert_eq!(step(&window, key).marks(&selection).query, Some(1), "{key}");
    }
    assert_eq!(step(&window, "k").marks(&selection).keys, [0, 1, 2]);
    assert_eq!(window.get_by_label("Token 2: cat").accesskit_node().toggled(), Some(Toggled::True));
    assert!(says(&window, "of \"cat\" are framed in green"));
    click(&mut window, "Causal mask");
    assert_eq!(state(&window).selection(walkthrough(&window)).keys, [0, 1]);
    click(&mut window, "Token 2: cat");
    assert_eq!(state(&window).picked, None);
}

#[test]
fn a_cell_unfolds_and_its_operands_lead_to_their_steps() {
    let mut window = open(Example::ILoveRobotics);
    click_cell(&mut window, "raw_scores", (1, 0));
    window.hover_at(Pos2::new(2.0, 2.0));
    window.run_steps(3);
    assert!(says(&window, "1·2 + 1·1 + 1·1 = 4"));
    assert!(!says(&window, "ULP from f64"), "precision is told under the pointer");
    let scores = step(&window, "raw_scores");
    let name = format!("{}: {}, {}", scores.name, scores.row_labels[1], scores.col_labels[0]);
    window.get_by_label(&name).hover();
    pass_a_second(&mut window);
    assert!(says(&window, "ULP from f64"));
    let expr = step(&window, "raw_scores").arithmetic(1, 0).unwrap().expr.unwrap();
    let operands: Vec<_> = expr.operands().into_iter().cloned().collect();
    for operand in &operands {
        assert!(says(&window, &operand.label), "{}", operand.label);
    }
    window.get_by_role_and_label(Role::Link, "K[I, k0]").click();
    window.run_steps(3);
    let at = At { step: Quantity::K.into(), cell: (0, 0) };
    assert_eq!(state(&window).picked, Some(Picked::Cell(at)));
}

#[test]
fn heads_share_the_columns_where_they_can() {
    let mut window = open(Example::TheCatSat);
    assert_eq!(state(&window).inputs.possible_heads(), [1, 2, 4]);
    click(&mut window, "4 heads");
    assert_eq!(state(&window).inputs.heads(), 4);
    assert!(walkthrough(&window).step(StepKey::new(Section::Head(4), Quantity::Weights)).is_some());
    click(&mut window, "3 heads");
    assert_eq!(state(&window).inputs.heads(), 4, "four columns are not shared by three");
    // A tip needs a movement some time after the last click.
    pass_a_second(&mut window);
    window.get_by_label("3 heads").hover();
    pass_a_second(&mut window);
    assert!(says(&window, "cannot be divided evenly"));
    press(&mut window, Command::Undo);
    assert_eq!(state(&window).inputs.heads(), 1);
}

/// The rule of all rooms: every visible control changes something.
#[test]
fn a_setting_that_is_shown_changes_the_example() {
    let mut shown = 0;
    for &example in Example::ALL {
        let mut window = open(example);
        let plain = session(&window).clone();
        let effective = Effective::of(&plain.walkthrough.inputs).unwrap();
        let steps = |window: &Window| -> Vec<(StepKey, String, Matrix)> {
            let of = |step: &Step| (step.key, step.formula.clone(), step.matrix.clone());
            walkthrough(window).steps.iter().map(of).collect()
        };
        let before = steps(&window);
        let mut settings =
            vec![("Causal mask", effective.causal), ("T → 0", effective.temperature)];
        let can_leave_out = |step| effective.without.contains(&step);
        settings
            .extend(Without::ALL.iter().copied().map(|step| (step.name(), can_leave_out(step))));
        settings.push(("1 head", plain.walkthrough.inputs.possible_heads().len() > 1));
        for (label, is_effective) in settings {
            let has = |role| window.query_all_by_role_and_label(role, label).next().is_some();
            let is_shown = has(Role::Button) || has(Role::CheckBox);
            assert_eq!(is_shown, is_effective, "{}: {label}", example.name());
            if is_shown && label != "1 head" {
                click(&mut window, label);
                let tells = walkthrough(&window).broken.is_some();
                assert!(tells || steps(&window) != before, "{}: {label}", example.name());
                put_back(&mut window, &plain);
                shown += 1;
            }
        }
    }
    assert!(shown > 40, "{shown}");
}

#[test]
fn shapes_and_the_four_lines_are_shown() {
    let window = open(Example::MathOfAttention);
    assert!(says(&window, "[4, 8]·[8, 8] → [4, 8]") && says(&window, "[4, 8]·[8, 4] → [4, 4]"));
    for line in walkthrough(&window).in_four_lines().unwrap() {
        assert!(window.query_all_by_label(&line).next().is_some(), "{line}");
    }
    assert!(!says(&open(Example::LayerNorm), "In four lines"), "no attention");
}

#[test]
fn gradients_are_spoken_as_gradients() {
    let mut window = open(Example::Gradients);
    for (key_of, says) in [
        ("d_scores", ", gradient "),
        ("d_weights", ", gradient "),
        ("weights", ", weight "),
        ("raw_scores", ", score "),
    ] {
        click_cell(&mut window, key_of, (0, 1));
        let label = format!("Heatmap of {}", step(&window, key_of).name);
        let spoken = window.get_by_label(&label).accesskit_node().value().unwrap();
        assert!(spoken.contains(says), "{key_of}: {spoken}");
    }
}

#[test]
fn the_users_own_tokens_and_sizes() {
    let mut window = open(Example::TheCatSat);
    click(&mut window, "Use your own tokens");
    assert_eq!(state(&window).example(), Example::Seeded);
    assert_eq!(state(&window).inputs.tokens(), ["The", "cat", "sat"]);
    assert!(window.get_by_label("Your tokens").is_focused() && says(&window, "are random"));
    let retype = |window: &mut Window, text: &str| {
        window.get_by_label("Your tokens").click();
        window.run_steps(2);
        window.key_press_modifiers(Modifiers::COMMAND, Key::A);
        window.run_steps(2);
        if text.is_empty() {
            window.key_press(Key::Backspace);
        } else {
            window.get_by_label("Your tokens").type_text(text);
        }
        window.run_steps(2);
        key(window, Key::Enter);
    };
    retype(&mut window, "  ein  kleiner Hund ");
    assert_eq!(walkthrough(&window).tokens, ["ein", "kleiner", "Hund"]);
    window.get_by_label("Your tokens").click();
    window.run_steps(2);
    key(&mut window, Key::End);
    for (typed, last) in [(" e", "e"), ("i", "ei"), ("n", "ein")] {
        window.get_by_label("Your tokens").type_text(typed);
        window.run_steps(2);
        assert_eq!(walkthrough(&window).tokens[3], last, "each key is followed");
    }
    let x = &step(&window, "x").matrix;
    assert!(x.row(0) == x.row(3) && x.row(0) != x.row(1), "equal words have equal numbers");
    key(&mut window, Key::Enter);
    press(&mut window, Command::Undo);
    assert_eq!(walkthrough(&window).tokens, ["The", "cat", "sat"], "what was typed is one step");
    retype(&mut window, "");
    assert_eq!(state(&window).inputs.tokens().len(), 3);
    assert!(says(&window, "the number of tokens is 0"));
    retype(&mut window, "to be");
    assert!(!says(&window, "the number of tokens is 0"));

    for (name, value) in
        [("Numbers of a token", 6.0), ("Numbers of a query of one head", 3.0), ("Seed", 7.0)]
    {
        window.get_by_label(name).set_value_accesskit(value);
        window.run_steps(3);
    }
    click(&mut window, "5 heads");
    let own = ["to", "be"].map(str::to_owned).to_vec();
    assert_eq!(state(&window).inputs, Inputs::seeded(own, 6, 3, 5, 7).unwrap());
    assert_eq!(step(&window, "x").matrix.shape(), (2, 6));
    assert!(says(
        &window,
        "torch.manual_seed(7)\nX = torch.randn(2, 6)\nW_Q = torch.randn(6, 15) / 6**0.5"
    ));
    press(&mut window, Command::Undo);
    assert_eq!(state(&window).inputs.heads(), 1);
}

#[test]
fn each_step_shows_its_error_and_the_effect_of_leaving_it_out() {
    let mut window = open(Example::ILoveRobotics);
    assert!(!says(&window, "exact"), "one switch shows the precision of all steps");
    click(&mut window, "Precision, code");
    assert!(says(&window, "exact"), "whole numbers are");
    let error = step(&window, "weights").relative_error();
    assert!(error > 0.0 && says(&window, &format!("error {}", numbers::error(error))));
    for &without in Without::ALL {
        click(&mut window, without.name());
        let broken = walkthrough(&window).broken.clone().unwrap();
        if shows(&window, "What else changes") {
            let (first, _) = broken.split_once(". ").unwrap();
            assert!(shows(&window, &format!("{first}.")), "{}", without.name());
            click(&mut window, "What else changes");
        }
        assert!(says(&window, &broken), "{}", without.name());
    }
    click(&mut window, "nothing");
    assert!(walkthrough(&window).broken.is_none());
}

#[test]
fn leaving_out_a_step_keeps_the_place_on_the_page() {
    let mut window = open_smooth(crate::example(Example::MathOfAttention), [1280.0, 800.0]);
    click(&mut window, "Step 10: Attention weights A");
    let top = |window: &Window| window.get_by_label("Attention weights A").rect().top();
    let before = top(&window);
    for without in ["scaling", "nothing"] {
        click(&mut window, without);
        assert!((top(&window) - before).abs() < 2.0, "{without}: {before} {}", top(&window));
    }
}

#[test]
fn the_session_keeps_edited_numbers() {
    let mut window = open(Example::ILoveRobotics);
    type_over(&mut window, "w_v", (2, 1), "0.1");
    click(&mut window, "Token 3: robotics");
    let read = saved(&window);
    assert_eq!(read, *session(&window));
    assert_eq!(read.walkthrough.inputs.matrix(Quantity::WV).unwrap().get(2, 1), 0.1);

    let text = String::from_utf8(read.text().unwrap()).unwrap();
    let broken = text.replace("\"w_v\"", "\"w_x\"");
    let message = format!("{:#}", Session::parse(broken.as_bytes()).unwrap_err());
    assert!(message.contains("w_x"), "{message}");
}
