//! The outline of the walkthrough: every change shows its effect on the same screen, and each step is one click away.

use egui::accesskit::Toggled;
use egui::{Key, Rect, pos2};
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use regard_walkthrough::Example;

use super::driver::{Window, choices, open_smooth};

fn open(example: Example, size: [f32; 2]) -> Window {
    open_smooth(crate::example(example), size)
}

fn screen(window: &Window) -> Rect {
    Rect::from_min_max(pos2(0.0, 0.0), window.ctx.content_rect().max)
}

fn names(window: &Window, part: &str) -> Vec<String> {
    let nodes = window.query_all_by_label_contains(part);
    nodes.filter_map(|node| node.accesskit_node().label()).collect()
}

/// The rectangle of the only thumbnail whose name contains a text.
fn thumbnail(window: &Window, part: &str) -> Rect {
    window.get_by_label_contains(part).rect()
}

#[test]
fn a_change_shows_its_effect_on_the_same_screen() {
    for size in [[1280.0, 800.0], [900.0, 600.0]] {
        let mut window = open(Example::MathOfAttention, size);
        assert!(names(&window, "changed by up to").is_empty());
        window.get_by_label("Temperature").set_value_accesskit(4.0);
        window.run_steps(4);
        let changed = names(&window, "changed by up to");
        assert_eq!(changed.len(), 2, "{changed:?}");
        for part in ["Attention weights A, changed", "Output, changed"] {
            assert!(screen(&window).contains_rect(thumbnail(&window, part)), "{size:?} {part}");
        }
        // Another edit has other effects: V changes only the output.
        window.get_by_label("T = 1").click();
        window.run_steps(3);
        assert!(names(&window, "Scores QKᵀ, changed").is_empty());
        choices(&mut window).walkthrough.open(Example::TheCatSat);
        window.run_steps(3);
        assert!(names(&window, ", changed").is_empty(), "another example is no edit");
    }
}

#[test]
fn a_typed_number_is_followed_through_the_outline() {
    let mut window = open(Example::TheCatSat, [1280.0, 800.0]);
    let inputs = &mut choices(&mut window).walkthrough.inputs;
    inputs.set(regard_walkthrough::Quantity::WV, 0, 0, 3.0).unwrap();
    window.run_steps(3);
    let changed = names(&window, ", changed by up to");
    let is_of = |part: &str| changed.iter().any(|name| name.contains(part));
    assert!(is_of("Projection matrix W_V") && is_of("Values V") && is_of("Output"), "{changed:?}");
    assert!(!is_of("weights") && !is_of("Scores") && !is_of("Queries"), "{changed:?}");
    assert!(window.query_by_label("The last edit changed 4 steps").is_some(), "{changed:?}");
}

#[test]
fn the_outline_leads_to_a_step_by_click_and_by_keys() {
    let mut window = open(Example::MathOfAttention, [1280.0, 800.0]);
    let visible = |window: &Window, name: &str| {
        let name = format!("Heatmap of {name}");
        window
            .query_by_label(&name)
            .is_some_and(|node| screen(window).contains(node.rect().center()))
    };
    assert!(!visible(&window, "Output"));
    window.get_by_label("Step 11: Output").click();
    window.run_steps(30);
    assert!(visible(&window, "Output"));
    window.get_by_label("Step 10: Attention weights A").click();
    window.run_steps(30);
    assert!(visible(&window, "Attention weights A"));
    let marked = window.get_by_label("Step 10: Attention weights A");
    let toggled = marked.accesskit_node().toggled();
    assert_eq!(toggled, Some(Toggled::True), "the visible step is marked");
    // From the focused thumbnail, arrows lead on.
    window.get_by_label("Step 2: Projection matrix W_Q").focus();
    window.run_steps(2);
    window.key_press(Key::ArrowUp);
    window.run_steps(30);
    assert!(visible(&window, "Tokens X") && window.get_by_label("Step 1: Tokens X").is_focused());
    window.key_press(Key::ArrowRight);
    window.run_steps(30);
    assert!(window.get_by_label("Step 2: Projection matrix W_Q").is_focused());
}

#[test]
fn steps_fold_one_by_one_and_all_at_once() {
    let mut window = open(Example::TheCatSat, [1280.0, 12000.0]);
    let count = |window: &Window| window.query_all_by_label_contains("Heatmap of ").count();
    let all = count(&window);
    window.get_by_label("Fold Scores QKᵀ").click();
    window.run_steps(3);
    assert_eq!(count(&window), all - 1);
    assert!(window.query_by_label("Heatmap of Scores QKᵀ").is_none());
    // The outline unfolds the step to which it leads.
    window.get_by_label_contains("Step 8: Scores QKᵀ").click();
    window.run_steps(3);
    assert!(window.query_by_label("Heatmap of Scores QKᵀ").is_some());
    window.get_by_label("Fold all").click();
    window.run_steps(3);
    assert_eq!(count(&window), 0);
    window.get_by_label("Unfold all").click();
    window.run_steps(3);
    assert_eq!(count(&window), all);
}

#[test]
fn heads_stand_side_by_side_where_there_is_room() {
    let tops = |width: f32| {
        let window = open(Example::TwoHeads, [width, 12000.0]);
        let of = |head: usize| {
            let name = format!("Heatmap of Attention weights A, head {head}");
            window.get_by_label(&name).rect().top()
        };
        [of(1), of(2)]
    };
    let [first, second] = tops(1920.0);
    assert_eq!(first, second);
    let [first, second] = tops(620.0);
    assert!(second > first + 40.0, "{first} {second}");
}

#[test]
fn cells_grow_with_the_window() {
    let size = |width: f32, height: f32| {
        let window = open(Example::ILoveRobotics, [width, height]);
        window.get_by_label("Heatmap of Tokens X").rect().size()
    };
    let [small, large] = [size(1280.0, 800.0), size(1920.0, 1080.0)];
    assert!(large.x > 1.4 * small.x && large.y > 1.4 * small.y, "{small} {large}");
}

/// Of each step of one head, three are made: all of them have changed.
#[test]
fn more_heads_change_the_steps_of_all_heads() {
    let mut window = open(Example::MathOfAttention, [1280.0, 800.0]);
    let inputs = &mut choices(&mut window).walkthrough.inputs;
    inputs.set_heads(4).unwrap();
    window.run_steps(3);
    let says =
        |n: usize| window.query_by_label(&format!("The last edit changed {n} steps")).is_some();
    // Q, K, V, two kinds of scores, the weights and the output of four heads.
    assert!((4 * 7..100).any(says));
}
