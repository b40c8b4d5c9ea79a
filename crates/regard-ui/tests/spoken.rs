//! What a screen reader says of a weight, of a prediction and of a change: their AccessKit names and values.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "shared with tests that need more of it")]
mod driver;

use egui::accesskit::Role;
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use regard_models::{Ablation, Change};
use regard_ui::model::Listed;
use regard_ui::walkthrough::{At, Picked};
use regard_ui::{Room, Session, example};
use regard_walkthrough::{Example, Quantity};

use self::driver::{Window, app, open, settle};

const SIZE: [f32; 2] = [1400.0, 1000.0];

fn story() -> Window {
    open(Session { room: Room::Model, ..Session::default() }, SIZE)
}

/// The names of all controls.
fn names(window: &Window) -> Vec<String> {
    let buttons = window.query_all_by_role(Role::Button);
    buttons.filter_map(|node| node.accesskit_node().label()).collect()
}

#[test]
fn a_weight_is_told_with_its_query_and_its_key() {
    let mut start = example(Example::ILoveRobotics);
    let at = At { step: Quantity::Weights.into(), cell: (0, 1) };
    start.walkthrough.picked = Some(Picked::Cell(at));
    let window = open(start, [1280.0, 12000.0]);
    let heatmap = window.get_by_label("Heatmap of Attention weights A").accesskit_node();
    assert_eq!(heatmap.value().unwrap(), "query I, key love, weight 0.168");
    // In a sentence of the model room, each token tells its weight.
    let window = story();
    let first = |name: &String| name.starts_with("token 0 [STORY], weight ");
    let mut window = window;
    window.state_mut().as_mut().unwrap().session.model.heads.shown = regard_ui::heads::Shown::Head;
    settle(&mut window);
    assert!(names(&window).iter().any(first), "{:?}", names(&window));
}

#[test]
fn a_prediction_is_told_with_its_probability() {
    let window = story();
    let next = &app(&window).model().next()[0];
    let percent = (100.0 * next.after).round();
    let name = format!("{}: {percent} %", next.token);
    assert!(names(&window).contains(&name), "{name}: {:?}", names(&window));
}

#[test]
fn a_change_is_told_with_its_effect() {
    let mut window = story();
    let state = &mut window.state_mut().as_mut().unwrap().session.model;
    let change = Change::Ablate { head: "0.0".parse().unwrap(), to: Ablation::Zero };
    state.changes = vec![Listed { change, on: true }];
    settle(&mut window);
    let next = app(&window).model().next().iter().find(|next| next.before > 0.5).unwrap();
    // "Mary: 1.2 %, without the changes 98 %, −97 points"
    let before = (100.0 * next.before).round();
    let start = format!("{}: ", next.token);
    let effect = format!(" %, without the changes {before} %, −");
    let all = names(&window);
    let told = all.iter().find(|name| name.starts_with(&start) && name.contains(&effect));
    assert!(told.is_some_and(|name| name.ends_with(" points")), "{all:?}");
}
