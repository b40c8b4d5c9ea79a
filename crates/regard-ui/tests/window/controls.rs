//! Every control of every room, by its name: it has an effect, and the effect can be undone.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use crate::heads::{AttentionSource, Order, Shown};
use crate::laboratory::{Brush, Square};
use crate::model::{Listed, ModelState};
use crate::walkthrough::{At, Picked, ReadingMode};
use crate::{Room, Session};
use egui::accesskit::{Role, Toggled};
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use regard_heads::Measure;
use regard_models::{Ablation, Change};
use regard_walkthrough::{Example, Quantity};

use super::driver::{Window, contents, open, put_back, session, session_of, settle};
use super::pages;

/// This height avoids scrolling.
const SIZE: [f32; 2] = [1280.0, 12000.0];

const ROLES: [Role; 6] = [
    Role::Button,
    Role::CheckBox,
    Role::RadioButton,
    Role::Slider,
    Role::SpinButton,
    Role::ComboBox,
];

/// A control: its role, its name, and its place among those of the same name.
type Control = (Role, String, usize);

/// Sessions that together show all controls.
fn sessions(folder: &Path) -> Vec<(&'static str, Session)> {
    let mut worked = Session::default();
    worked.walkthrough.open(Example::TheCatSat);
    worked.walkthrough.inputs.set(Quantity::X, 0, 0, 5.0).unwrap();
    worked.walkthrough.picked = Some(Picked::Token(1));
    let mut own = Session::default();
    own.walkthrough.open(Example::Seeded);
    own.walkthrough.picked = Some(Picked::Cell(At { step: Quantity::X.into(), cell: (0, 0) }));
    let mut heads = Session::default();
    heads.walkthrough.open(Example::TwoHeads);
    let mut guided = Session::default();
    guided.walkthrough.open(Example::MathOfAttention);
    let mut presented = guided.clone();
    guided.walkthrough.read(ReadingMode::Guided);
    guided.walkthrough.at = 1;
    let mut answered = guided.clone();
    answered.walkthrough.revealed = true;
    presented.walkthrough.read(ReadingMode::Presented);
    presented.walkthrough.at = 1;

    let mut laboratory = session_of(Room::Laboratory);
    let state = &mut laboratory.laboratory;
    state.pin();
    state.brush = Some(Brush { side: 4, hides: true });
    let inputs = &mut state.inputs;
    inputs.painted = vec![Square { cell: (1, 1), side: 4, hides: true }];
    (inputs.window, inputs.keys, inputs.alibi, inputs.softcap) =
        (Some([8, 8]), Some(50), Some(0.1), Some(2.0));

    let mut grid = session_of(Room::Stage);
    grid.model = ModelState::of_file(AttentionSource::Sample);
    grid.model.heads.order = Some(Order::Measure(Measure::Entropy));
    let mut head = grid.clone();
    head.model.heads.shown = Shown::Head;
    (head.model.heads.layer, head.model.heads.head) = (1, 1);
    let mut lines = head.clone();
    lines.model.heads.lines = true;
    let model = session_of(Room::Stage);
    let mut changed = model.clone();
    let state = &mut changed.model;
    let zero = Change::Ablate { head: "0.1".parse().unwrap(), to: Ablation::Zero };
    let cut = Change::Cut { head: "0.0".parse().unwrap(), query: 4, key: 2 };
    state.changes = [zero, cut].map(|change| Listed { change, on: true }).to_vec();
    state.heads.shown = Shown::Head;
    state.heads.chosen = Some((5, 2));
    let mut chosen = changed.clone();
    (chosen.model.heads.lines, chosen.model.heads.shown) = (true, Shown::MeanOfLayer);
    let mut sessions = vec![
        ("a model", model),
        ("lines of a model", chosen),
        ("a model with changes", changed),
        ("an example", worked),
        ("one's own tokens", own),
        ("heads side by side", heads),
        ("the guided path before the answer", guided),
        ("the guided path after the answer", answered),
        ("a presented step", presented),
        ("the first page", crate::greeting()),
        ("the laboratory", laboratory),
        ("all heads", grid),
        ("a head", head),
        ("lines", lines),
    ];
    sessions.extend(pages::all(folder));
    sessions
}

/// The usable controls of a window.
fn controls(window: &Window) -> Vec<Control> {
    let mut seen: BTreeMap<(Role, String), usize> = BTreeMap::new();
    let mut controls = Vec::new();
    for role in ROLES {
        for node in window.query_all_by_role(role) {
            let node = node.accesskit_node();
            let name = node.label().unwrap_or_default();
            assert!(!name.trim().is_empty(), "{role:?} without a name");
            let place = seen.entry((role, name.clone())).or_default();
            // A click on an active choice keeps it active.
            let is_on = node.toggled() == Some(Toggled::True) && role != Role::CheckBox;
            if !node.is_disabled() && !is_on {
                controls.push((role, name, *place));
            }
            *place += 1;
        }
    }
    controls
}

fn use_it(window: &mut Window, (role, name, place): &Control) {
    let node = window.get_all_by_role_and_label(*role, name).nth(*place).unwrap();
    if matches!(role, Role::Slider | Role::SpinButton) {
        let node_value = node.accesskit_node();
        let (low, high) = (node_value.min_numeric_value(), node_value.max_numeric_value());
        let now = node_value.numeric_value().unwrap();
        // Another number within the limits.
        let other = [now + 1.0, now - 1.0, now / 2.0 + 0.01];
        let fits = |x: &f64| low.is_none_or(|low| *x >= low) && high.is_none_or(|high| *x <= high);
        node.set_value_accesskit(other.into_iter().find(fits).unwrap());
    } else {
        node.click();
    }
    settle(window);
}

#[test]
fn every_control_does_something() {
    let mut used = HashSet::new();
    let folder = tempfile::tempdir().unwrap();
    for (what, start) in sessions(folder.path()) {
        // The first page keeps the clicked token, which its session does not hold.
        let of_page =
            |(_, name, _): &Control| what == "the first page" && name.starts_with("token ");
        let mut window = open(start.clone(), SIZE);
        let all = controls(&window).into_iter();
        let before = (session(&window).clone(), contents(&window));
        for control in all.filter(|control| !of_page(control)) {
            // A control that occurs in an earlier session of the room is the same one.
            if !used.insert((start.room, control.clone())) {
                continue;
            }
            use_it(&mut window, &control);
            let after = (session(&window).clone(), contents(&window));
            assert!(before != after, "{what}: {control:?} does nothing");
            put_back(&mut window, &before.0);
            if contents(&window) != before.1 {
                window = open(start.clone(), SIZE);
            }
        }
    }
    assert!(used.len() > 300, "{}", used.len());
}
