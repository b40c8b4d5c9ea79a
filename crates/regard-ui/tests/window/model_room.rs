//! The model room, driven through the window by the names of its controls.

use std::path::Path;

use crate::heads::{Effect, Side};
use crate::model::{ModelState, Record, Version, View};
use crate::{Command, Room};
use egui::accesskit::Role;
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use regard_figure::Look;
use regard_models::{Ablation, Change, HeadAddress, Which};

use super::driver::{
    Window, alter, app, buttons, cells, choices, click, click_on, drop_file, key, open, places,
    press, saved, says, session, session_of, set_value, settle, with_file,
};
use super::model::{
    MODELS, assert_changed, near, numbers, open_head, reference, run, side_by_side, state, traced,
    type_text, window,
};

#[test]
fn a_first_visitor_sees_story_read_a_text() {
    let window = window();
    let (model, input) = reference(regard_story::TEXT);
    let stack = &model.description().stack;
    assert_eq!(cells(&window).len(), stack.layers() * stack.block.heads);
    assert_eq!(run(&window).tokens().len(), input.ids.len());
    near(run(&window).next(), &traced(regard_story::TEXT, &[], 0, 0).1);
    let next = app(&window).model().next();
    assert_eq!(next.len(), 10);
    assert!(next.is_sorted_by(|a, b| a.before >= b.before));
    let last = input.ids.len() - 1;
    assert!(says(&window, &format!(" at {last}, weight ")), "each token has words");
    assert!(says(&window, "None: the model is as it was trained."));
}

#[test]
fn rows_of_the_grid_are_layers_at_any_width() {
    for width in [700.0, 900.0, 1920.0] {
        let session = session_of(Room::Stage);
        let window = open(session, [width, 900.0]);
        let (model, _) = reference("x");
        let heads = model.description().stack.block.heads;
        let tops: Vec<f32> = places(&window, "layer ").iter().map(|rect| rect.top()).collect();
        for row in tops.chunks(heads) {
            assert!(row.iter().all(|top| *top == row[0]), "{width}: {tops:?}");
        }
    }
}

#[test]
fn each_text_is_run() {
    let mut window = window();
    open_head(&mut window, 1, 2);
    for text in ["Tom had a red ball.", "Tom had a red ball. Mia"] {
        type_text(&mut window, text);
        let (weights, next) = traced(text, &[], 1, 2);
        assert_eq!(run(&window).request.text, text);
        assert_eq!(numbers(&window), weights);
        near(run(&window).next(), &next);
    }
    type_text(&mut window, "Tom met a xylophone");
    assert!(says(&window, "The model does not know “xylophone”. It knows "));
    type_text(&mut window, "Tom met a zither");
    assert!(
        says(&window, "The model does not know “zither”. It knows "),
        "another with the same token"
    );
    type_text(&mut window, &"Mia saw the ball. ".repeat(30));
    assert!(says(&window, "tokens. The model has learnt to read 96"));
    type_text(&mut window, "");
    assert!(app(&window).model().outcome().is_none() || run(&window).tokens().len() == 1);
    press(&mut window, Command::Room(Room::Stage));
    type_text(&mut window, "Mia");
    assert_eq!(run(&window).request.text, "Mia");
}

#[test]
fn a_head_without_its_output_is_compared_with_the_unchanged_run() {
    let mut window = window();
    open_head(&mut window, 0, 1);
    assert!(says(&window, "Change head 0.1"));
    for (button, to) in [("Zero", Ablation::Zero), ("Mean", Ablation::Mean)] {
        click(&mut window, button);
        let change = Change::Ablate { head: "0.1".parse().unwrap(), to };
        assert_changed(&window, regard_story::TEXT, &change);
        near(run(&window).next(), &traced(regard_story::TEXT, &[], 0, 1).1);
        let next = app(&window).model().next()[0].clone();
        assert!(says(&window, &format!("“{}” ", next.token)), "a sentence says what followed");
        assert!(cells(&window).iter().any(|cell| cell.ends_with(", changed")));
    }
    assert!(says(&window, "With the mean of head 0.1 at every position, “"));
    click(&mut window, "As is");
    assert!(state(&window).changes.is_empty() && run(&window).next_changed().is_none());
}

#[test]
fn the_changed_the_unchanged_and_the_difference_are_shown() {
    let mut window = window();
    open_head(&mut window, 0, 0);
    click(&mut window, "Zero");
    open_head(&mut window, 2, 1);
    let change = Change::Ablate { head: "0.0".parse().unwrap(), to: Ablation::Zero };
    let (changed, _) = traced(regard_story::TEXT, &[change], 2, 1);
    let (unchanged, _) = traced(regard_story::TEXT, &[], 2, 1);
    assert_ne!(changed, unchanged);
    assert_eq!(numbers(&window), changed);
    click(&mut window, "Unchanged");
    assert_eq!(numbers(&window), unchanged);
    click(&mut window, "Difference");
    let difference: Vec<f32> = changed.iter().zip(&unchanged).map(|(a, b)| a - b).collect();
    assert_eq!(numbers(&window), difference);
    assert_eq!(state(&window).version, Version::Difference);
    assert!(cells(&window)[0].contains("largest difference 0"), "{:?}", cells(&window)[0]);
    click(&mut window, "Side by side");
    assert_eq!(side_by_side(&window), [changed, unchanged, difference]);
    assert!(says(&window, "A  changed") && says(&window, "B  unchanged"));
}

#[test]
fn a_head_has_a_temperature_of_its_own() {
    let mut window = window();
    open_head(&mut window, 1, 0);
    for temperature in [0.0, f32::INFINITY] {
        set_value(&mut window, Role::SpinButton, "Temperature", f64::from(temperature));
        let change = Change::Temperature { head: "1.0".parse().unwrap(), temperature };
        assert_changed(&window, regard_story::TEXT, &change);
        assert_eq!(numbers(&window), traced(regard_story::TEXT, &[change], 1, 0).0);
    }
    set_value(&mut window, Role::SpinButton, "Temperature", 0.5);
    assert!(says(&window, "Head 1.0 at T = 0.5"));
    assert!(says(&window, "With head 1.0 at T = 0.5, “"));
    set_value(&mut window, Role::SpinButton, "Temperature", 1.0);
    assert!(state(&window).changes.is_empty());
}

#[test]
fn an_edge_is_cut_and_restored() {
    let mut window = window();
    open_head(&mut window, 1, 0);
    let n = run(&window).tokens().len();
    alter(&mut window, |s| s.model.heads.chosen = Some((n - 1, 1)));
    click(&mut window, "Cut edge");
    let change = Change::Cut { head: "1.0".parse().unwrap(), query: n - 1, key: 1 };
    assert_changed(&window, regard_story::TEXT, &change);
    let (weights, _) = traced(regard_story::TEXT, &[change], 1, 0);
    assert_eq!(weights[(n - 1) * n + 1], 0.0);
    assert_eq!(numbers(&window), weights);
    assert!(says(&window, " does not see "));
    // A message says that the text lacks this edge, and the rest is shown.
    type_text(&mut window, "Mia");
    assert!(says(&window, "there is no edge"));
    assert_eq!(numbers(&window).len(), run(&window).tokens().len().pow(2));
    press(&mut window, Command::Undo);
    alter(&mut window, |s| s.model.heads.chosen = Some((n - 1, 1)));
    click(&mut window, "Restore edge");
    assert!(state(&window).changes.is_empty());
    alter(&mut window, |s| s.model.heads.chosen = Some((0, n - 1)));
    assert!(window.get_by_label("Cut edge").accesskit_node().is_disabled(), "the mask hides it");
}

#[test]
fn changes_are_switched_removed_and_undone() {
    let mut window = window();
    open_head(&mut window, 0, 0);
    click(&mut window, "Zero");
    open_head(&mut window, 1, 1);
    click(&mut window, "Mean");
    assert_eq!(state(&window).active().len(), 2);
    assert!(says(&window, "With 2 changes, "));
    click_on(&mut window, Role::CheckBox, "Head 0.0 gives zeros");
    assert_eq!((state(&window).changes.len(), state(&window).active().len()), (2, 1));
    click(&mut window, "Remove: Head 0.0 gives zeros");
    assert_eq!(state(&window).changes.len(), 1);
    press(&mut window, Command::Undo);
    press(&mut window, Command::Undo);
    assert_eq!(state(&window).active().len(), 2);
    press(&mut window, Command::Redo);
    assert_eq!(state(&window).active().len(), 1);
    press(&mut window, Command::Undo);
    click(&mut window, "Remove all");
    assert!(state(&window).changes.is_empty());
    press(&mut window, Command::Undo);
    press(&mut window, Command::Reset);
    assert_eq!(session(&window).choices(Room::Stage).model, ModelState::of("story"));
}

#[test]
fn typing_is_undone_at_once() {
    let mut window = window();
    open_head(&mut window, 0, 0);
    click(&mut window, "Zero");
    for text in ["Tom", "Tom h", "Tom had"] {
        type_text(&mut window, text);
    }
    press(&mut window, Command::Undo);
    assert_eq!(state(&window).text, regard_story::TEXT);
    assert_eq!(state(&window).changes.len(), 1);
    press(&mut window, Command::Redo);
    assert_eq!(state(&window).text, "Tom had");
}

#[test]
fn a_token_of_the_sentence_is_pointed_at() {
    let mut window = window();
    open_head(&mut window, 0, 0);
    let n = run(&window).tokens().len();
    assert!(says(&window, &format!(" at {}", n - 1)), "the last token predicts");
    let third = buttons(&window).into_iter().find(|name| name.contains(" at 3, ")).unwrap();
    window.get_by_label(&third).click_modifiers(egui::Modifiers::SHIFT);
    settle(&mut window);
    assert_eq!(state(&window).heads.isolated, Some((Side::Queries, 3)));
    click(&mut window, "Lines");
    assert!(state(&window).heads.lines);
}

#[test]
fn a_session_brings_the_room_back_and_a_replay_that_differs_is_told() {
    let mut window = window();
    type_text(&mut window, "Tom had a red ball.");
    open_head(&mut window, 1, 1);
    click(&mut window, "Zero");
    click(&mut window, "Difference");
    let stored = saved(&window);
    let record = stored.model.record.clone().unwrap();
    let hash = |text: &str| text.len() == 64 && text.bytes().all(|c| c.is_ascii_hexdigit());
    assert!(hash(&record.asked) && hash(&record.model) && hash(&record.result));
    let same = open(stored.clone(), [1400.0, 1000.0]);
    assert_eq!(state(&same), state(&window), "the record too");
    assert_eq!(numbers(&same), numbers(&window));
    assert_eq!(run(&same).next_changed(), run(&window).next_changed());
    assert!(!says(&same, "last bits") && !says(&same, "The files of a model"));

    let replay = |record: Record| {
        let mut session = stored.clone();
        session.model.record = Some(record);
        open(session, [1400.0, 1000.0])
    };
    let other_model = replay(Record { model: "0".into(), result: "0".into(), ..record.clone() });
    assert!(says(
        &other_model,
        "The files of a model are not those that the session was saved with"
    ));
    let other_text = replay(Record { asked: "0".into(), result: "0".into(), ..record.clone() });
    assert!(!says(&other_text, "Keep this run"));
    let mut other_bits = replay(Record { result: "0".into(), ..record.clone() });
    assert!(says(&other_bits, "the numbers differ from the session's in their last bits"));
    click(&mut other_bits, "Keep this run");
    assert!(!says(&other_bits, "last bits"));
    assert_eq!(state(&other_bits).record, Some(record));
}

#[test]
fn a_model_of_the_cache_is_opened_from_the_list() {
    let mut window = window();
    super::driver::open_menu(&mut window);
    assert!(says(&window, "gpt2, 0."));
    assert!(says(&window, "vit, 0.1 MB"));
    assert!(says(&window, "is not a family that is known"));
    let named = |window: &Window, end: &str| {
        buttons(window).into_iter().find(|name| name.ends_with(end)).unwrap()
    };
    let unknown = named(&window, "unknown");
    assert!(window.get_by_label(&unknown).accesskit_node().is_disabled());
    let gpt = named(&window, "tiny-gpt2");
    click(&mut window, &gpt);
    assert_eq!(state(&window).model, gpt);
    assert!(says(&window, "gpt2, 2 layers of 4 heads"));
    // The whole list is visible, not only its first line.
    super::driver::open_menu(&mut window);
    let vit = named(&window, "tiny-vit");
    click(&mut window, &vit);
    assert_eq!(state(&window).model, vit);
}

fn open_model(window: &mut Window, path: &str) {
    with_file(window, Command::OpenModel, path.as_ref(), "Open");
}

#[test]
fn folders_and_files_are_opened() {
    let mut window = window();
    click(&mut window, "Commands");
    key(&mut window, egui::Key::Escape);
    let gguf = format!("{MODELS}/gguf/tiny-llama.Q8_0.gguf");
    for (path, family) in [
        (format!("{MODELS}/tiny-gpt2"), "gpt2, "),
        (format!("{MODELS}/tiny-qwen3/config.json"), "qwen3, "),
        (gguf, "llama, "),
        (format!("{MODELS}/tiny-bert"), "bert, "),
    ] {
        open_model(&mut window, &path);
        assert_eq!(app(&window).model().error(), None, "{path}");
        assert!(says(&window, family), "{path}");
        assert!(Path::new(&state(&window).model).is_absolute());
        assert!(app(&window).model().outcome().is_some(), "{path}");
    }
    // bert fills gaps.
    assert!(says(&window, "The model predicts nothing here."));
    type_text(&mut window, "the [MASK] cat");
    assert_eq!(app(&window).model().next().len(), 10);
    super::driver::open_menu(&mut window);
    click(&mut window, "Open story");
    assert_eq!(state(&window).model, "story");
}

#[test]
fn a_model_that_cannot_be_opened_is_named_and_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.gguf");
    std::fs::write(&bad, b"GGUF").unwrap();
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for (path, words) in [
        (bad.to_str().unwrap(), "bad.gguf was not opened: "),
        (empty.to_str().unwrap(), "config.json"),
        ("no/such-model", "no/such-model was not opened: "),
    ] {
        let mut window = window();
        open_model(&mut window, path);
        let name = Path::new(path).file_name().unwrap().to_str().unwrap();
        let message = app(&window).model().error().unwrap().to_owned();
        assert!(message.contains(words) && message.contains(name), "{message}");
        assert!(message.matches("No such file").count() < 2, "{message}");
        assert!(says(&window, &message));
        assert_eq!(state(&window).model, "story", "the model before stays");
        click(&mut window, "Dismiss");
        assert!(app(&window).model().error().is_none());

        // A session that names it shows the message, and no other model.
        let mut session = session_of(Room::Stage);
        session.model.model = path.to_owned();
        let mut window = open(session, [1400.0, 1000.0]);
        assert!(says(&window, words) && app(&window).model().outcome().is_none());
        assert!(cells(&window).is_empty());
        click(&mut window, "Try again");
        assert!(app(&window).model().error().is_some());
    }
}

#[test]
fn a_folder_that_is_dropped_is_opened() {
    let mut window = window();
    choices(&mut window).room = Room::Walkthrough;
    drop_file(&mut window, format!("{MODELS}/tiny-gpt2").as_ref());
    assert_eq!(session(&window).room, Room::Stage);
    assert!(says(&window, "gpt2, "));
}

#[test]
fn each_head_is_ablated_in_turn() {
    let mut window = window();
    let (model, input) = reference(regard_story::TEXT);
    let heads = model.description().heads();
    let logits = |changes: &[Change]| -> Vec<f32> {
        let pass = changes.iter().fold(model.pass(), |pass, change| pass.change(change.clone()));
        pass.run(&input).unwrap().logits().unwrap().last().to_vec()
    };
    let top = app(&window).model().next()[0].id as usize;
    let whole = logits(&[])[top];
    let without = |head| logits(&[Change::Ablate { head, to: Ablation::Zero }])[top] - whole;
    let expected: Vec<f32> = heads.iter().map(|head| without(*head)).collect();
    let ablation = |window: &Window| app(window).model().ablation(Which::Only).to_vec();
    assert!(ablation(&window).is_empty(), "nobody has asked");
    let cell = |window: &Window, i: usize| cells(window)[i].clone();
    click(&mut window, "Ablation effect");
    assert_eq!(ablation(&window), expected);
    let largest = heads.iter().zip(&expected).max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    let (head, effect) = largest.unwrap();
    let name = format!("head {head}, ");
    let first = cell(&window, 0);
    assert!(first.starts_with(&name) && first.contains("ablation effect"), "{first} {effect}");
    // The numbers also lie over the heads in another order.
    click(&mut window, "Layer and head");
    alter(&mut window, |s| s.model.heads.tint = Some(Effect::Ablation));
    assert_eq!(ablation(&window), expected);
    assert!(cell(&window, 0).starts_with("head 0.0, ") && cell(&window, 0).contains("ablation"));
    alter(&mut window, |s| s.model.heads.tint = None);
    assert!(ablation(&window).is_empty());
}

#[test]
fn the_logit_lens_ends_with_the_prediction_of_the_model() {
    let mut window = window();
    open_head(&mut window, 1, 1);
    click(&mut window, "Zero");
    click(&mut window, "Lens");
    let (model, input) = reference(regard_story::TEXT);
    let rows = &app(&window).model().lens.value().unwrap().rows;
    assert_eq!(rows.len(), 1 + model.description().stack.layers());
    assert!(rows.iter().all(|row| row.len() == input.ids.len()));
    let next = app(&window).model().next();
    let top = next.iter().max_by(|a, b| a.after.total_cmp(&b.after)).unwrap();
    let (token, p) = rows.last().unwrap().last().unwrap();
    assert_eq!(*token, top.token);
    // Both are one number, rounded from `f64` sums in different orders.
    assert!((p.unwrap() - top.after).abs() <= f32::EPSILON);
    let last = model.description().stack.layers() - 1;
    assert!(says(&window, &format!("layer {last}, after ")), "each cell has words");
    click(&mut window, "Arithmetic");
    assert!(state(&window).view == View::Attention && cells(&window).len() > 1);
}

#[test]
fn a_chosen_weight_is_unfolded() {
    let mut window = window();
    open_head(&mut window, 1, 2);
    set_value(&mut window, Role::SpinButton, "Temperature", f64::INFINITY);
    let n = run(&window).tokens().len();
    let mut choose = |cell: (usize, usize)| {
        alter(&mut window, |s| s.model.heads.chosen = Some(cell));
        let weight = numbers(&window)[cell.0 * n + cell.1];
        let score = app(&window).model().unfolded.value().unwrap();
        assert_eq!((score.query, score.key, score.weight.value), (cell.0, cell.1, weight));
        assert!(says(&window, "q·k = ") && says(&window, "Weight of "));
        says(&window, "masked: the key comes after the query")
    };
    assert!(!choose((n - 1, 1)));
    assert!(choose((1, n - 1)));
    click(&mut window, "All heads");
    assert!(app(&window).model().unfolded.value().is_none());
}

#[test]
fn keys_that_a_mask_hides_look_hidden() {
    let mut window = window();
    open_head(&mut window, 2, 1);
    let head = HeadAddress { attention: Which::Only, layer: 2, head: 1 };
    alter(&mut window, |s| s.model.toggle(&Change::Cut { head, query: 6, key: 3 }));
    let n = run(&window).tokens().len();
    let matrix = app(&window).model().large().matrix(Look::default()).unwrap();
    assert_eq!(matrix.masked, 0.0, "a hidden cell is the weight 0 in a file of numbers");
    for (i, (x, weight)) in matrix.values.iter().zip(numbers(&window)).enumerate() {
        let (query, key) = (i / n, i % n);
        let is_hidden = key > query || (query, key) == (6, 3);
        assert_eq!(*x == f32::NEG_INFINITY, is_hidden, "{query} → {key}");
        assert!(if is_hidden { weight == 0.0 } else { *x == weight });
    }
}
