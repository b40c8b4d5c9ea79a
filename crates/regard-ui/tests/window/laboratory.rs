//! The laboratory, driven by the names of its controls.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::colors::{Look, Map};
use crate::laboratory::{LaboratoryInputs, LaboratoryMatrix, TokenSource};
use crate::{Command, Room};
use egui::accesskit::Role;
use egui_kittest::kittest::Queryable as _;
use safetensors::Dtype;

use super::driver::{
    Window, app, assert_named, choose, click, open, outcome, press, room, saved, says, session,
    session_of, set_value, settle, shows, wait, with_file,
};
use regard_benches::ResultLine;
use regard_tests::attention_files::{Folder, attention, bytes, safetensors};
use regard_tests::rounding::weight_error;

#[test]
fn the_knobs_change_the_weights() {
    let mut window = room(Room::Laboratory);
    assert!(says(&window, "t0, t1, … are random vectors: they stand for no words."));
    assert_eq!(outcome(&window).weights.len(), 64 * 64);
    for (slider, value) in [
        ("Tokens", 100.0),
        ("Dimensions", 16.0),
        ("Query–key similarity", 0.25),
        ("Neighbour similarity", 0.5),
        ("Sink strength", 4.0),
    ] {
        set_value(&mut window, Role::Slider, slider, value);
    }
    let inputs = &session(&window).laboratory.inputs;
    assert_eq!((inputs.tokens, inputs.dim), (100, 16));
    assert_eq!((inputs.alike, inputs.smooth, inputs.sink), (0.25, 0.5, 4.0));
    assert_eq!(outcome(&window).request.inputs, *inputs);
    assert_eq!(outcome(&window).weights.len(), 100 * 100);

    let visible =
        |window: &Window| outcome(window).weights.iter().filter(|w| w.is_finite()).count();
    assert_eq!(visible(&window), 100 * 101 / 2);
    click(&mut window, "Causal");
    assert_eq!(visible(&window), 100 * 100);
    click(&mut window, "Padding");
    assert_eq!(visible(&window), 100 * 75);
    window.get_by_label("Keys that are not padding").set_value_accesskit(10.0);
    settle(&mut window);
    assert_eq!(visible(&window), 100 * 10);
    click(&mut window, "Padding");
    click(&mut window, "Window");
    window.get_by_label("Window to the left").set_value_accesskit(0.0);
    window.get_by_label("Window to the right").set_value_accesskit(0.0);
    settle(&mut window);
    assert_eq!(visible(&window), 100);
    click(&mut window, "Window");

    for (name, control) in [("ALiBi", "Slope of ALiBi"), ("Soft cap", "Size of the soft cap")] {
        let before = Arc::clone(&outcome(&window).weights);
        click(&mut window, name);
        assert!(shows(&window, control));
        assert_ne!(*outcome(&window).weights, before);
    }
    let before = Arc::clone(&outcome(&window).weights);
    click(&mut window, "Hide the first token");
    assert_eq!(visible(&window), 100 * 99);
    click(&mut window, "Scale by 1/√d");
    assert_ne!(*outcome(&window).weights, before);
    click(&mut window, "Draw again");
    assert_eq!(session(&window).laboratory.inputs.seed, 1);
    click(&mut window, "T → ∞");
    // At T = ∞ the scores have no effect.
    let near = |w: f32| (f64::from(w) * 99.0 - 1.0).abs() <= weight_error(99, 0, 0.0);
    assert!(outcome(&window).weights.iter().all(|w| !w.is_finite() || near(*w)));
}

fn open_tokens(window: &mut Window, path: &Path) {
    with_file(window, Command::OpenTokens, path, "Open");
}

/// Two heads of 5 tokens × 3, with names.
fn tokens_file(folder: &Folder) -> (PathBuf, Vec<f32>, Vec<f32>) {
    let numbers = |seed: usize| -> Vec<f32> {
        (0..30).map(|i| ((i * seed % 17) as f32 - 8.0) / 5.0).collect()
    };
    let (q, k) = (numbers(7), numbers(11));
    let tensors: [(&str, Dtype, &[usize], Vec<u8>); 2] =
        [("q", Dtype::F32, &[2, 5, 3], bytes(&q)), ("k", Dtype::F32, &[2, 5, 3], bytes(&k))];
    let names = [("tokens", r#"["The", "cat", "sat", "on", "it"]"#)];
    (folder.file("tokens.safetensors", safetensors(&tensors, &names)), q, k)
}

/// Checks causal weights of 5 tokens × 3 by the definition; a later key has none.
fn assert_weights(window: &Window, q: &[f32], k: &[f32]) {
    let weights = &outcome(window).weights;
    assert_eq!(weights.len(), 25);
    for i in 0..5 {
        let product = |j: usize| {
            (0..3).map(|t| f64::from(q[3 * i + t]) * f64::from(k[3 * j + t])).sum::<f64>()
        };
        let exps: Vec<f64> = (0..=i).map(|j| (product(j) / 3_f64.sqrt()).exp()).collect();
        for j in 0..5 {
            let found = f64::from(weights[5 * i + j]);
            // Three products of numbers up to 8/5, divided by √3.
            let error = weight_error(5, 3, 3_f64.sqrt() * 1.6 * 1.6);
            let close = |exp: &f64| {
                let expected = exp / exps.iter().sum::<f64>();
                (found - expected).abs() <= error * expected
            };
            assert!(exps.get(j).map_or(found == f64::NEG_INFINITY, close), "{i}, {j}: {found}");
        }
    }
}

#[test]
fn tokens_come_from_a_file_and_can_be_closed() {
    let folder = Folder::new();
    let (path, q, k) = tokens_file(&folder);
    let mut window = room(Room::Walkthrough);
    open_tokens(&mut window, &path);
    assert_eq!(session(&window).room, Room::Laboratory);
    let expected = LaboratoryInputs {
        source: TokenSource::File { path: path.clone(), head: 0 },
        tokens: 5,
        dim: 3,
        ..LaboratoryInputs::default()
    };
    assert_eq!(session(&window).laboratory.inputs, expected);
    assert_weights(&window, &q[..15], &k[..15]);
    for there in ["tokens.safetensors", "2 heads, 5 tokens × 3", "The row of it", "Random tokens"]
    {
        assert!(shows(&window, there), "{there}");
    }
    for gone in
        ["Query–key similarity", "Neighbour similarity", "Sink strength", "Seed", "Draw again"]
    {
        assert!(!shows(&window, gone), "{gone}");
    }
    assert_named(&window);

    set_value(&mut window, Role::SpinButton, "Head", 1.0);
    assert_weights(&window, &q[15..], &k[15..]);
    window.get_by_role_and_label(Role::Slider, "Tokens").set_value_accesskit(4000.0);
    set_value(&mut window, Role::SpinButton, "Head", 7.0);
    assert_eq!(
        session(&window).laboratory.inputs.source,
        TokenSource::File { path: path.clone(), head: 1 }
    );
    assert_eq!(session(&window).laboratory.inputs.tokens, 5);
    window.get_by_role_and_label(Role::Slider, "Tokens").set_value_accesskit(2.0);
    set_value(&mut window, Role::Slider, "Dimensions", 1.0);
    assert_eq!((outcome(&window).side, session(&window).laboratory.inputs.dim), (2, 1));
    assert!(shows(&window, "The row of cat"));

    // A session restores it.
    let other = open(saved(&window), [1280.0, 1600.0]);
    assert_eq!(session(&other), session(&window));
    assert_eq!(outcome(&other).weights, outcome(&window).weights);

    click(&mut window, "Random tokens");
    assert_eq!(session(&window).laboratory.inputs.source, TokenSource::Seed);
    assert!(
        shows(&window, "Draw again") && !shows(&window, "Random tokens") && !shows(&window, "Head")
    );
    assert!(outcome(&window).file.is_none());
    assert!(shows(&window, "The row of t1"));
}

#[test]
fn opening_tokens_is_one_change() {
    let folder = Folder::new();
    let (path, ..) = tokens_file(&folder);
    let mut window = room(Room::Laboratory);
    // The file's number of keys limits these.
    click(&mut window, "Padding");
    let before = session(&window).laboratory.inputs.clone();
    assert_eq!(before.keys, Some(48));
    let weights = Arc::clone(&outcome(&window).weights);
    open_tokens(&mut window, &path);
    let opened = session(&window).laboratory.inputs.clone();
    assert_eq!((opened.tokens, opened.keys), (5, Some(5)));
    press(&mut window, Command::Undo);
    assert_eq!(session(&window).laboratory.inputs, before);
    assert_eq!(*outcome(&window).weights, weights);
    press(&mut window, Command::Redo);
    assert_eq!(session(&window).laboratory.inputs, opened);

    // A file that was rewritten is read again.
    let weights = Arc::clone(&outcome(&window).weights);
    let x: Vec<f32> = (0..8).map(|i| i as f32 / 4.0).collect();
    std::fs::write(&path, safetensors(&[("x", Dtype::F32, &[4, 2], bytes(&x))], &[])).unwrap();
    open_tokens(&mut window, &path);
    assert_eq!((session(&window).laboratory.inputs.tokens, outcome(&window).side), (4, 4));
    assert_ne!(*outcome(&window).weights, weights);
    assert!(!shows(&window, "Head") && shows(&window, "4 tokens × 2"));
}

#[test]
fn a_file_of_more_dimensions_than_can_be_shown_says_so() {
    let folder = Folder::new();
    let path = folder.file("wide.safetensors", attention(&[2, 300], &[0.5; 600]));
    let mut window = room(Room::Laboratory);
    open_tokens(&mut window, &path);
    assert_eq!(session(&window).laboratory.inputs.dim, 256);
    assert!(shows(&window, "2 tokens × 300: the first 256 dimensions are shown"));
}

/// −∞ marks a masked cell; the weight there is 0.
#[test]
fn a_masked_weight_is_read_as_0() {
    let mut session = session_of(Room::Laboratory);
    session.laboratory.chosen = Some((0, 1));
    let window = open(session, [1280.0, 1600.0]);
    let words = "score masked, weight 0 (masked)";
    assert!(says(&window, words));
}

#[test]
fn a_bad_file_of_tokens_is_named_and_the_session_goes_on() {
    let folder = Folder::new();
    let tensors: [(&str, Dtype, &[usize], Vec<u8>); 2] = [
        ("q", Dtype::F32, &[3, 4], bytes(&[0.0; 12])),
        ("k", Dtype::F32, &[3, 2], bytes(&[0.0; 6])),
    ];
    let bad = folder.file("bad.safetensors", safetensors(&tensors, &[]));
    let mut window = room(Room::Laboratory);
    let before = session(&window).laboratory.clone();
    let weights = Arc::clone(&outcome(&window).weights);
    open_tokens(&mut window, &bad);
    let message = "tensor `k` has the shape [3, 2], which does not fit `q` [3, 4]";
    assert!(says(&window, message) && says(&window, &bad.display().to_string()));
    assert_eq!(session(&window).laboratory, before);
    assert_eq!(*outcome(&window).weights, weights, "the last picture stays");
    click(&mut window, "Causal");
    assert_ne!(*outcome(&window).weights, weights);
    assert!(says(&window, message), "it stays until it was seen");
    click(&mut window, "Dismiss");
    assert!(!says(&window, message));

    // The file of this session has disappeared.
    let (path, ..) = tokens_file(&folder);
    let mut session_of_file = session_of(Room::Laboratory);
    session_of_file.laboratory.inputs.source = TokenSource::File { path: path.clone(), head: 0 };
    std::fs::remove_file(&path).unwrap();
    let mut window = open(session_of_file, [1280.0, 1600.0]);
    assert!(says(&window, &format!("{} was not opened", path.display())));
    assert!(app(&window).laboratory.outcome().is_none());
    assert_named(&window);
    click(&mut window, "Causal");
    assert!(says(&window, "was not opened"));
    click(&mut window, "Random tokens");
    assert!(!says(&window, "was not opened"));
    assert_eq!(outcome(&window).weights.len(), 64 * 64);
}

#[test]
fn a_and_b_are_compared() {
    let mut window = room(Room::Laboratory);
    click(&mut window, "Pin as A");
    click(&mut window, "T → 0");
    click(&mut window, "B − A");
    let shown = outcome(&window);
    assert_eq!(shown.request.shown, LaboratoryMatrix::Difference);
    assert!(shown.numbers.iter().any(|x| *x > 0.1) && shown.numbers.iter().any(|x| *x < -0.01));
    assert!(shown.picture.palette().is_diverging());
    assert!(shows(&window, "Heatmap of B − A"));
    click(&mut window, "A: pinned");
    assert_eq!(*outcome(&window).numbers, **outcome(&window).pinned.as_ref().unwrap());
    click(&mut window, "Scores");
    assert!(shows(&window, "Heatmap of Scores"));
    click(&mut window, "B: weights");
    click(&mut window, "Forget A");
    assert!(!shows(&window, "B − A"));
    press(&mut window, Command::Undo);
    assert!(session(&window).laboratory.pinned.is_some());
}

/// Every visible control changes something.
#[test]
fn controls_without_an_effect_are_hidden() {
    let mut window = room(Room::Laboratory);
    click(&mut window, "Window");
    let right = "Window to the right";
    assert!(shows(&window, "Window to the left") && !shows(&window, right), "causal");
    click(&mut window, "Causal");
    assert!(shows(&window, right));
    // Before anything is painted, there is nothing to restore.
    click(&mut window, "Paint cells");
    assert!(!shows(&window, "show again") && !shows(&window, "Clear paint"));
}

#[test]
fn cells_are_painted_hidden_and_shown_again() {
    let mut window = room(Room::Laboratory);
    click(&mut window, "Causal");
    click(&mut window, "Paint cells");
    let middle = window.get_by_label("Heatmap of Weights").rect().center();
    let hidden =
        |window: &Window| outcome(window).weights.iter().filter(|w| !w.is_finite()).count();
    let stroke = |window: &mut Window| {
        window.hover_at(middle);
        window.drag_at(middle);
        window.run_steps(2);
        window.drop_at(middle);
        settle(window);
    };
    stroke(&mut window);
    assert_eq!(hidden(&window), 16, "a brush of 4 × 4");
    click(&mut window, "show again");
    stroke(&mut window);
    assert_eq!(hidden(&window), 0);
    click(&mut window, "Clear paint");
    assert!(session(&window).laboratory.inputs.painted.is_empty());
}

fn lines(window: &Window) -> &[ResultLine] {
    let last = app(window).laboratory.benchmark.last.as_ref().unwrap();
    &last.as_ref().unwrap().lines
}

#[test]
fn a_benchmark_is_measured_and_can_be_stopped() {
    let mut window = room(Room::Laboratory);
    click(&mut window, "Start benchmark");
    wait(&mut window, |window| !app(window).laboratory.benchmark.is_running());
    fn names(window: &Window) -> Vec<(&str, bool)> {
        lines(window).iter().map(|line| (line.name(), line.threads() == 1)).collect()
    }
    let all = [("naive", true), ("kernel", true), ("multi-head", true), ("multi-head", false)];
    let found = names(&window);
    assert!(found == all || found == all[..3], "{found:?}");
    for line in lines(&window) {
        assert!(
            line.gflops() > 0.0 && line.fraction_of_peak() > 0.0 && line.fraction_of_peak() < 1.2,
            "{line:?}"
        );
        assert!((line.gflops() / line.peak_gflops() / line.fraction_of_peak() - 1.0).abs() < 1e-9);
    }
    assert!(
        window.query_by_label_contains("kernel, 1 thread: ").is_some()
            && shows(&window, "kernel, 1 thread")
    );

    // Many tokens leave time to stop it.
    set_value(&mut window, Role::Slider, "Tokens", 1024.0);
    click(&mut window, "Start benchmark");
    click(&mut window, "Stop benchmark");
    assert!(!app(&window).laboratory.benchmark.is_running());
    assert!(shows(&window, "Start benchmark"));
}

#[test]
fn the_look_changes_the_colours_and_no_numbers() {
    let mut window = room(Room::Laboratory);
    let numbers = Arc::clone(&outcome(&window).numbers);
    let before = outcome(&window).picture.palette();
    choose(&mut window, Command::Map(Map::Viridis));
    press(&mut window, Command::Logarithmic);
    let after = outcome(&window).picture.palette();
    assert_ne!(before, after);
    assert_eq!(
        session(&window).look,
        Look { map: Map::Viridis, logarithmic: Some(true), ..Look::default() }
    );
    assert!(Arc::ptr_eq(&numbers, &outcome(&window).numbers), "nothing is computed anew");
}

#[test]
fn a_matrix_of_few_tokens_is_as_large_as_one_of_many() {
    for size in [[1920.0, 1080.0], [3840.0, 2160.0]] {
        for tokens in [2, 8, 16, 64] {
            let mut start = session_of(Room::Laboratory);
            start.laboratory.inputs.tokens = tokens;
            let window = open(start, size);
            let cells = window.get_by_label("Heatmap of Weights").rect();
            let height = window.ctx.content_rect().height();
            assert!(cells.height() > 0.6 * height, "{tokens} tokens: {cells:?}");
            assert!(cells.width() <= 1.2 * cells.height(), "{tokens} tokens: {cells:?}");
        }
    }
}
