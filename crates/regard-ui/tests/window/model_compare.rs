//! The model room: a second text, patches, attribution, masks, the list of changes, and text that the model writes.

use crate::Command;
use crate::model::{Version, View};
use egui::Pos2;
use egui::accesskit::Role;
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use regard_models::{Ablation, Change, Each, Input};

use super::driver::{
    Window, app, button, cells, choices, click, click_on, drag, places, press, says, session,
    settle, wait,
};
use super::model::{
    assert_changed, near, numbers, open_head, reference, run, side_by_side, state, traced,
    type_into, type_text, window,
};

const FIRST: &str = "Mia and Tom went to the park. Tom gave the ball to";
const SECOND: &str = "Mia and Max went to the park. Max gave the ball to";

/// The model room with two texts of equal length.
fn two_texts() -> Window {
    let mut window = window();
    type_text(&mut window, FIRST);
    click(&mut window, "Second text");
    assert_eq!(state(&window).second.as_deref(), Some(FIRST), "it begins as the first");
    second_text(&mut window, SECOND);
    window
}

fn second_text(window: &mut Window, text: &str) {
    type_into(window, "Second text to compare with", text);
}

/// The middle of the control whose name begins with `start`.
fn place(window: &Window, start: &str) -> Pos2 {
    places(window, start)[0].center()
}

#[test]
fn two_texts_stand_side_by_side() {
    let mut window = two_texts();
    let second = traced(SECOND, &[], 1, 2);
    near(run(&window).next_second().unwrap(), &second.1);
    assert!(says(&window, ", after the second input "), "a prediction is heard of both");
    open_head(&mut window, 1, 2);
    let first = traced(FIRST, &[], 1, 2);
    assert_eq!(numbers(&window), first.0);
    let difference: Vec<f32> = first.0.iter().zip(&second.0).map(|(a, b)| a - b).collect();
    assert_eq!(state(&window).version, Version::SideBySide);
    assert_eq!(side_by_side(&window), [first.0.clone(), second.0.clone(), difference.clone()]);
    click(&mut window, "First − second");
    assert_eq!(numbers(&window), difference);
    click(&mut window, "First text");
    assert_eq!(numbers(&window), first.0);
    click(&mut window, "Second");
    assert_eq!(numbers(&window), second.0);

    // Texts of different lengths have no difference, and a message says so.
    click(&mut window, "First − second");
    second_text(&mut window, "Mia and Max");
    assert!(says(&window, "There is no difference: the first text has "));
    second_text(&mut window, "");
    assert_eq!(state(&window).second.as_deref(), Some(""));
    click(&mut window, "Second text");
    assert_eq!(
        (state(&window).second.as_deref(), state(&window).version),
        (None, Version::Changed)
    );
    assert!(app(&window).model().side_by_side()[1].is_none());
    press(&mut window, Command::Undo);
    assert_eq!(state(&window).second.as_deref(), Some(""));
}

#[test]
fn a_token_of_the_second_text_is_patched_by_a_click_and_by_dragging() {
    let mut window = two_texts();
    let (model, from) = reference(SECOND);
    let position = run(&window).tokens().iter().position(|token| token.text == "Tom").unwrap();
    let patch = |place: &str| Change::Patch {
        place: place.parse().unwrap(),
        position,
        from: Input::tokens(from.ids.clone()),
    };

    let chip = format!("patch token {position} Max: Stream after layer 0");
    click(&mut window, &chip);
    let change = patch("blocks.0.hook_resid_post");
    assert_changed(&window, FIRST, &change);
    let words = format!("The stream after layer 0 at {position} Tom: from “Max”");
    window.get_by_role_and_label(Role::CheckBox, &words);
    assert!(says(&window, "With the stream after layer 0 at “Tom” from the other text, “"));
    click(&mut window, &chip);
    assert!(state(&window).changes.is_empty(), "a second click takes it back");

    // Dragging has the same effect.
    let start = place(&window, &format!("patch token {position} "));
    let end = place(&window, &format!("Hide Tom at {position},"));
    drag(&mut window, &[start, start.lerp(end, 0.5), end]);
    assert_eq!(state(&window).active(), [change]);
    press(&mut window, Command::Undo);
    assert!(state(&window).changes.is_empty());

    // Dropping it at another position has no meaning.
    let other = place(&window, &format!("Hide went at {},", position + 1));
    drag(&mut window, &[start, start.lerp(other, 0.5), other]);
    assert!(state(&window).changes.is_empty());
    assert!(says(&window, "A patch keeps its position: "));

    for (part, place) in [
        ("Stream into layer", "blocks.1.hook_resid_pre"),
        ("Attention output of layer", "blocks.1.hook_attn_out"),
        ("Feed-forward output of layer", "blocks.1.hook_mlp_out"),
    ] {
        choices(&mut window).model.heads.layer = 1;
        click_on(&mut window, Role::ComboBox, "Patched part");
        click(&mut window, part);
        let name = format!("patch token {position} Max: {part} 1");
        click(&mut window, &name);
        assert_changed(&window, FIRST, &patch(place));
        click(&mut window, &name);
    }
    click_on(&mut window, Role::ComboBox, "Patched part");
    click(&mut window, "Output of head");
    click(&mut window, &format!("patch token {position} Max: Output of head 1.0"));
    let head = "1.0".parse().unwrap();
    let change = Change::PatchHead { head, position: Some(position), from };
    assert_changed(&window, FIRST, &change);
    assert!(cells(&window).iter().any(|cell| cell.ends_with(", changed")));
    assert!(model.description().stack.layers() > 1);

    // Texts of different lengths do not fit.
    second_text(&mut window, "Mia");
    assert!(says(&window, "A patch needs two inputs with equally many tokens: "));
}

#[test]
fn each_place_is_patched_in_turn_and_a_click_makes_the_patch() {
    let mut window = two_texts();
    click_on(&mut window, Role::Button, "Patch");
    let (model, input) = reference(FIRST);
    let (_, other) = reference(SECOND);
    let top = |logits: &[f32]| (0..logits.len()).max_by(|i, j| logits[*i].total_cmp(&logits[*j]));
    let logits = |input: &Input, change: Option<&Change>| {
        let pass = model.pass();
        let pass = change.into_iter().fold(pass, |pass, change| pass.change(change.clone()));
        pass.run(input).unwrap().logits().unwrap().last().to_vec()
    };
    let (first, second) = (logits(&input, None), logits(&other, None));
    let (plus, minus) = (top(&first).unwrap(), top(&second).unwrap());
    assert_ne!(plus, minus, "the texts differ in what comes next");
    let measure = |logits: &[f32]| logits[plus] - logits[minus];
    let patches = model.changes(&Each::PatchedPlace(other.clone())).unwrap();
    let effect = |(_, patch): &(_, Change)| measure(&logits(&input, Some(patch))) - measure(&first);
    let expected: Vec<f32> = patches.iter().map(effect).collect();
    assert_eq!(app(&window).model().patches.value().unwrap().map.numbers, expected);

    window.get_by_label("Heatmap of the effect of each patch").click();
    settle(&mut window);
    let [Change::Patch { place, position, .. }] = &state(&window).active()[..] else {
        panic!("{:?}", state(&window).changes)
    };
    assert!(place.to_string().ends_with("hook_resid_pre") && *position < input.ids.len());
    click(&mut window, "Second text");
    assert!(says(&window, "The patches come from a second text"));
    assert!(app(&window).model().patches.value().is_none());
}

#[test]
fn the_parts_of_a_logit_add_up() {
    let mut window = window();
    click(&mut window, "Attribution");
    let (model, input) = reference(regard_story::TEXT);
    let last = input.ids.len() - 1;
    let next = app(&window).model().next().to_vec();
    let attribution =
        |window: &Window| app(window).model().attributed.value().unwrap().attribution.clone();
    let parts = attribution(&window);
    assert_eq!(parts, model.pass().attribute(&input, last, next[0].id as usize, None).unwrap());
    // Each of the parts is summed in f64; the run itself rounds to f32 some thousand times.
    assert!((parts.sum() - parts.logit).abs() <= 1e-3 * (1.0 + parts.logit.abs()));
    assert!(says(&window, "All parts add up to "));
    assert!(!says(&window, "adds the rest"));

    click_on(&mut window, Role::ComboBox, "Token whose logit is subtracted");
    let name = next[1].token.clone();
    window.query_all_by_label(&name).last().unwrap().click();
    settle(&mut window);
    assert_eq!(state(&window).attributed, [None, Some(next[1].id)]);
    let both = model.pass().attribute(&input, last, next[0].id as usize, Some(next[1].id as usize));
    assert_eq!(attribution(&window), both.unwrap());

    // The part of a head whose output is zero is 0.
    click(&mut window, "Arithmetic");
    open_head(&mut window, 1, 1);
    click(&mut window, "Zero");
    click(&mut window, "Attribution");
    assert_eq!(attribution(&window).layers[1].heads[1], 0.0);
    window.get_by_label("Heatmap of what each part adds to the logit").click();
    settle(&mut window);
    assert_eq!(state(&window).view, View::Attention, "a click on a head shows it");
}

#[test]
fn a_mask_is_painted_and_a_drag_is_one_step() {
    let mut window = window();
    open_head(&mut window, 1, 0);
    click(&mut window, "Hide");
    let map = window.get_by_label("Heatmap of Head 1.0").rect();
    let n = run(&window).tokens().len() as f32;
    let cell = |query: f32, key: f32| {
        map.min + egui::vec2((key + 0.5) / n * map.width(), (query + 0.5) / n * map.height())
    };
    // The drag follows a row, into cells that the model hides anyway.
    drag(&mut window, &[cell(6.0, 1.0), cell(6.0, 2.0), cell(6.0, 3.0), cell(3.0, 9.0)]);
    let head = "1.0".parse().unwrap();
    let cuts: Vec<Change> =
        [1, 2, 3].map(|key| Change::Cut { head, query: 6, key }).into_iter().collect();
    assert_eq!(state(&window).active(), cuts);
    assert_eq!(numbers(&window), traced(regard_story::TEXT, &cuts, 1, 0).0);
    window.get_by_role_and_label(Role::CheckBox, "Head 1.0: 3 edges are cut");
    assert!(says(&window, "Without 3 edges, “"));
    click(&mut window, "Show");
    drag(&mut window, &[cell(6.0, 2.0), cell(6.0, 2.2)]);
    assert_eq!(state(&window).active(), [cuts[0].clone(), cuts[2].clone()]);
    press(&mut window, Command::Undo);
    assert_eq!(state(&window).active(), cuts);
    press(&mut window, Command::Undo);
    assert!(state(&window).changes.is_empty(), "the first drag was one step");
    assert_eq!(state(&window).brush, Some(false), "undo leaves the brush alone");
}

#[test]
fn changes_are_moved() {
    let mut window = window();
    open_head(&mut window, 0, 0);
    click(&mut window, "Zero");
    open_head(&mut window, 1, 1);
    click(&mut window, "Mean");
    let (zero, mean) = ("Head 0.0 gives zeros", "Head 1.1 gives its mean");
    click(&mut window, &format!("Move up: {mean}"));
    let order = |window: &Window| -> Vec<Change> { state(window).active() };
    let changes = [("1.1", Ablation::Mean), ("0.0", Ablation::Zero)]
        .map(|(head, to)| Change::Ablate { head: head.parse().unwrap(), to });
    assert_eq!(order(&window), changes);
    let name = format!("Move up: {mean}");
    let first = window.get_by_label(&name);
    assert!(first.accesskit_node().is_disabled());
    click(&mut window, &format!("Move down: {mean}"));
    assert_eq!(order(&window), [changes[1].clone(), changes[0].clone()]);
    press(&mut window, Command::Undo);
    assert_eq!(order(&window), changes);
    assert!(says(&window, zero));
}

#[test]
fn the_model_writes_a_token_at_a_time() {
    let mut window = window();
    open_head(&mut window, 1, 1);
    click(&mut window, "Zero");
    let change = state(&window).active();
    let (model, input) = reference(regard_story::TEXT);
    let next = model.generate(&input, 6, &change).unwrap();
    for written in 1..=3 {
        click(&mut window, "Add next word");
        let ids = [&input.ids[..], &next[..written]].concat();
        assert_eq!(run(&window).ids(), ids);
        assert!(state(&window).text.starts_with(regard_story::TEXT));
        assert_eq!(run(&window).computed(), 1, "the rows before are not computed anew");
        assert_eq!(run(&window).computed_changed(), Some(1), "nor are those with the change");
        let whole = model.read(&Input::tokens(ids), None).unwrap();
        let weights = whole.weights(regard_models::Which::Only).unwrap();
        let found: Vec<f32> = {
            let maps = &run(&window).heads(regard_models::Which::Only).maps;
            maps.shape().ids().flat_map(|id| maps.head(id).into_owned()).collect()
        };
        assert_eq!(found, weights.data);
    }
    press(&mut window, Command::Undo);
    assert_eq!(state(&window).text, regard_story::TEXT, "writing is undone at once");

    // A click appends a token of the list.
    let token = app(&window).model().next()[2].clone();
    let row = button(&window, &format!("{}: ", token.token));
    click(&mut window, &row);
    assert_eq!(run(&window).ids(), [&input.ids[..], &[token.id]].concat());

    // Writing continues until it is stopped.
    window.get_by_label("Write on").click();
    window.run_steps(2);
    wait(&mut window, |window| run(window).ids().len() >= input.ids.len() + 4);
    click(&mut window, "Stop");
    let written = run(&window).ids().len();
    settle(&mut window);
    assert_eq!(run(&window).ids().len(), written);
    assert!(!app(&window).is_busy());
    // Typing starts again with the tokens of the text.
    type_text(&mut window, "Tom had");
    assert_eq!(run(&window).ids(), reference("Tom had").1.ids);
    assert_eq!(session(&window).model.ids(), None);
}
