//! The model room with two runs side by side: two models of one family, and the runs with and without changes.

use crate::model::{ModelState, Version};
use crate::{Command, Room, Session};
use egui::accesskit::Role;
use egui_kittest::kittest::Queryable as _;
use regard_models::{AttentionPlace, Model, Which};

use super::driver::{
    self, Window, app, button, cells, click, open, saved, says, session_of, set_value, shows,
    with_file,
};
use super::model::{MODELS, numbers, open_head, run, side_by_side, state, type_text, window};

const TEXT: &str = "the quick brown fox";

/// A session with model A, model B and a text.
fn session(a: &str, b: &str, text: &str) -> Session {
    let mut session = session_of(Room::Stage);
    let model = |name: &str| {
        if name.starts_with('/') { name.to_owned() } else { format!("{MODELS}/{name}") }
    };
    session.model = ModelState { text: text.to_owned(), ..ModelState::of(model(a)) };
    session.model.compare_with(model(b));
    session
}

/// The weights of a head of a tiny model, and its probabilities of the next token.
fn alone(name: &str, layer: usize, head: usize) -> (Vec<f32>, Vec<f64>) {
    let model = Model::open(format!("{MODELS}/{name}")).unwrap();
    let input = model.tokenizer().unwrap().encode(TEXT, None).unwrap();
    let place = Which::Only.place(layer, AttentionPlace::Pattern);
    let trace = model.pass().keep([place]).run(&input).unwrap();
    let n = input.ids.len();
    let weights = trace.at(place).unwrap().data[head * n * n..][..n * n].to_vec();
    let next = model.description().probabilities(trace.logits().unwrap().last()).unwrap();
    (weights, next)
}

#[test]
fn a_folder_and_its_quantization_stand_side_by_side() {
    let (a, b) = ("tiny-gpt2", "gguf/tiny-gpt2.Q8_0.gguf");
    let mut window = open(session(a, b, TEXT), [1400.0, 1000.0]);
    assert_eq!(app(&window).model().error(), None);
    for caption in ["A  tiny-gpt2", "B  tiny-gpt2.Q8_0.gguf", "A − B", "Differ most"] {
        assert!(says(&window, caption), "{caption}");
    }
    // Three grids of 2 layers of 4 heads.
    assert_eq!(cells(&window).len(), 3 * 8);

    // One click opens the head that differs most, and its share is that of the weights.
    let moved = run(&window).moved(Which::Only).unwrap().to_vec();
    let (id, share) = moved[0];
    assert!(moved.is_sorted_by(|(_, a), (_, b)| a >= b));
    let [first, second] = [a, b].map(|model| alone(model, id.layer, id.head));
    let n = run(&window).tokens().len();
    let distance: f64 = first.0.iter().zip(&second.0).map(|(a, b)| f64::from((a - b).abs())).sum();
    // The share is rounded to f32 once, and each difference once.
    assert!((f64::from(share) - 0.5 * distance / n as f64).abs() < 1e-6);
    assert!(share > 0.0, "a quantization changes the weights");
    let start = format!("Head {}.{} differs in ", id.layer, id.head);
    let name = button(&window, &start);
    click(&mut window, &name);
    let difference: Vec<f32> = first.0.iter().zip(&second.0).map(|(a, b)| a - b).collect();
    assert_eq!(side_by_side(&window), [first.0, second.0.clone(), difference.clone()]);
    let title = format!("Heatmap of Head {id}, ");
    for of in ["A  tiny-gpt2", "B  tiny-gpt2.Q8_0.gguf", "A − B  difference"] {
        assert!(window.query_by_label(&format!("{title}{of}")).is_some(), "{of}");
    }

    // The next tokens stand beside each other.
    let next = app(&window).model().next()[0].clone();
    assert!((f64::from(next.before) - first.1[next.id as usize]).abs() <= f64::from(f32::EPSILON));
    let of_b = f64::from(next.second.unwrap());
    assert!((of_b - second.1[next.id as usize]).abs() <= f64::from(f32::EPSILON));
    assert!(says(&window, ", by model B "));

    click(&mut window, "Model B");
    assert_eq!(numbers(&window), second.0);
    click(&mut window, "A − B");
    assert_eq!(numbers(&window), difference);

    // A session keeps model B, and the hash of its files.
    let kept = state(&window).record.clone().unwrap();
    assert!(!kept.second_model.is_empty() && kept.second_model != kept.model);
    let window = open(saved(&window), [1400.0, 1000.0]);
    assert_eq!(state(&window).record.as_ref(), Some(&kept));
    assert!(!says(&window, "Keep this run"));
}

#[test]
fn a_replay_with_other_files_of_model_b_says_so() {
    let (a, b) = ("tiny-gpt2", "gguf/tiny-gpt2.Q8_0.gguf");
    let window = open(session(a, b, TEXT), [1400.0, 1000.0]);
    let mut session = driver::session(&window).clone();
    session.model.record.as_mut().unwrap().second_model = "another".to_owned();
    let mut window = open(session, [1400.0, 1000.0]);
    assert!(says(&window, "The files of a model are not those that the session was saved with"));
    click(&mut window, "Keep this run");
    assert!(!says(&window, "The files of a model are not those"));
}

#[test]
fn a_model_that_does_not_fit_is_told_with_the_difference() {
    // One token of this copy differs.
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        let bytes = std::fs::read(format!("{MODELS}/tiny-gpt2/{file}")).unwrap();
        std::fs::write(folder.path().join(file), bytes).unwrap();
    }
    let path = folder.path().join("tokenizer.json");
    let mut json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let vocabulary = json["model"]["vocab"].as_object_mut().unwrap();
    let id = vocabulary.remove("!").unwrap();
    vocabulary.insert("QQ".to_owned(), id);
    std::fs::write(&path, json.to_string()).unwrap();
    let other = folder.path().to_str().unwrap();
    for (b, words) in [
        (other, "is “!” in tiny-gpt2 and “QQ” in "),
        ("tiny-qwen3", "layers of"),
        ("none.gguf", "none.gguf was not opened"),
    ] {
        let mut window = open(session("tiny-gpt2", b, TEXT), [1400.0, 1000.0]);
        let message = app(&window).model().error().unwrap().to_owned();
        assert!(message.contains(words), "{message}");
        assert!(run(&window).next_second().is_none(), "{b}");
        assert_eq!(cells(&window).len(), 8, "model A is shown alone");
        click(&mut window, "Remove B");
        assert_eq!(
            (app(&window).model().error(), state(&window).second_model.as_ref()),
            (None, None)
        );
    }
}

#[test]
fn model_b_is_opened_by_the_menu_and_removed() {
    let mut window = open(session("tiny-gpt2", "tiny-gpt2", TEXT), [1400.0, 1000.0]);
    // An exact copy has no differences.
    assert!(run(&window).moved(Which::Only).unwrap().iter().all(|(_, share)| *share == 0.0));
    click(&mut window, "Remove model B");
    assert_eq!(
        (state(&window).second_model.as_ref(), state(&window).version),
        (None, Version::Changed)
    );
    let gguf = format!("{MODELS}/gguf/tiny-gpt2.Q4_0.gguf");
    with_file(&mut window, Command::OpenModelB, gguf.as_ref(), "Open");
    assert_eq!(state(&window).second_model.as_deref(), Some(&*gguf));
    assert_eq!(state(&window).version, Version::SideBySide);
    assert!(run(&window).next_second().is_some());

    // Both models read a text that is typed.
    type_text(&mut window, "the quick");
    assert_eq!(run(&window).request.text, "the quick");
    let second = alone("gguf/tiny-gpt2.Q4_0.gguf", 0, 0).1;
    assert_eq!(run(&window).next_second().unwrap().len(), second.len());

    // With another text for B, both differ.
    click(&mut window, "Second text");
    assert!(says(&window, "B  tiny-gpt2.Q4_0.gguf, second text"));
    click(&mut window, "Compare");
    assert!(says(&window, "tiny-gpt2, "), "the menu lists the cache");
    click(&mut window, "Open story as model B");
    let message = app(&window).model().error().unwrap();
    assert!(message.contains("cannot be compared head by head"), "{message}");
}

#[test]
fn lines_are_chosen_and_those_of_a_layer_drawn_together() {
    let mut window = window();
    open_head(&mut window, 1, 2);
    click(&mut window, "Lines");
    click(&mut window, "Without first token");
    assert!(state(&window).heads.hide_first);
    set_value(&mut window, Role::SpinButton, "Lines of each query", 2.0);
    assert_eq!(state(&window).heads.most_lines, 2);

    // An exported picture has the visible lines.
    let folder = tempfile::tempdir().unwrap();
    let export = |window: &mut Window, name: &str| {
        let path = folder.path().join(name);
        with_file(window, Command::ExportMatrix, &path, "Export");
        std::fs::read_to_string(path).unwrap()
    };
    let mut lines = |name: &str| {
        let svg = export(&mut window, name);
        click(&mut window, "Without first token");
        svg.matches("<polyline").count()
    };
    let without = lines("without.svg");
    let of_one = lines("with.svg");
    assert!(without < of_one);

    // The heads of a layer are one picture, each in its own colour and with its name.
    assert!(!shows(&window, "Head 1.3"), "one head needs no legend");
    click(&mut window, "Layer mean");
    assert!(shows(&window, "Head 1.2") && shows(&window, "Head 1.3"));
    let of_layer = export(&mut window, "layer.svg");
    assert!(of_layer.matches("<polyline").count() > 2 + of_one.min(without));
    let colors: std::collections::BTreeSet<&str> =
        of_layer.split("stroke=\"#").skip(1).map(|rest| &rest[..6]).collect();
    assert!(colors.len() >= 2, "{colors:?}");
    for head in 0..state(&window).heads.head {
        let name = format!("Head 1.{head}");
        assert!(of_layer.contains(&name), "{name}");
    }
}
