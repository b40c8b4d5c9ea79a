//! The rooms, the commands, and every control by its name.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "shared with tests that need more of it")]
mod files;

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use egui::accesskit::Role;
use egui::{Key, Modifiers, Theme, ThemePreference, ViewportCommand, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use regard_desktop::ui::colors::{Look, Map};
use regard_desktop::ui::laboratory::{Inputs, Outcome, Shown, Source};
use regard_desktop::ui::{App, Command, Room, Session};
use regard_kernels::Temperature;
use regard_walkthrough::Example;
use safetensors::Dtype;

use self::files::{Folder, bytes, safetensors};

type Window = Harness<'static, Option<App>>;

fn open_with(session: Session, size: [f32; 2]) -> Window {
    let mut window = Harness::builder().with_size(size).build_ui_state(
        move |ui, app: &mut Option<App>| match app {
            Some(app) => app.ui(ui),
            None => *app = Some(App::with_session(ui.ctx(), session.clone())),
        },
        None,
    );
    window.run_steps(4);
    window
}

fn open(room: Room) -> Window {
    let mut window = open_with(Session { room, ..Session::default() }, [1280.0, 1600.0]);
    settle(&mut window);
    window
}

fn app(window: &Window) -> &App {
    window.state().as_ref().unwrap()
}

fn session(window: &Window) -> &Session {
    &app(window).session
}

fn outcome(window: &Window) -> &Outcome {
    app(window).laboratory().outcome().unwrap()
}

/// Goes on until the worker has nothing to do.
fn settle(window: &mut Window) {
    let start = Instant::now();
    loop {
        window.run_steps(3);
        if !app(window).is_busy() {
            break;
        }
        assert!(start.elapsed() < Duration::from_mins(2), "the worker does not end");
        std::thread::sleep(Duration::from_millis(2));
    }
    window.run_steps(2);
}

fn click(window: &mut Window, label: &str) {
    window.get_by_label(label).click();
    settle(window);
}

fn press(window: &mut Window, command: Command) {
    let keys = command.shortcut().unwrap();
    window.key_press_modifiers(keys.modifiers, keys.logical_key);
    settle(window);
}

/// By the palette, as somebody would who knows but the name.
fn choose(window: &mut Window, command: Command) {
    press(window, Command::Palette);
    window.get_by_label("Find a command").type_text(&command.name());
    window.run_steps(3);
    window.key_press(Key::Enter);
    settle(window);
}

fn shows(window: &Window, label: &str) -> bool {
    window.query_all_by_label(label).next().is_some()
}

#[test]
fn the_first_start_greets_with_a_worked_example() {
    let window = open_with(Session::default(), [1280.0, 800.0]);
    assert_eq!(session(&window).room, Room::Walkthrough);
    assert!(shows(&window, Example::ALL[0].summary()));
}

#[test]
fn rooms_have_tabs_and_keys() {
    let mut window = open(Room::Walkthrough);
    for room in [Room::Heads, Room::Laboratory, Room::Walkthrough] {
        click(&mut window, room.name());
        assert_eq!(session(&window).room, room);
    }
    for room in Room::ALL {
        press(&mut window, Command::Room(room));
        assert_eq!(session(&window).room, room);
    }
}

/// Does every command, once by its keys where it has some and once by the palette, and says what must have come of it.
#[test]
fn every_command_does_what_it_says() {
    for command in Command::all() {
        for by_keys in [true, false] {
            if by_keys && command.shortcut().is_none() || !by_keys && command == Command::Palette {
                continue;
            }
            let mut window = open(Room::Walkthrough);
            let before = session(&window).clone();
            if matches!(command, Command::Undo | Command::Redo) {
                click(&mut window, "Causal mask");
            }
            if command == Command::Redo {
                click(&mut window, "Undo");
            }
            if command == Command::ResetNumbers {
                let app = window.state_mut().as_mut().unwrap();
                app.session.walkthrough.inputs.set("x", 0, 0, 5.0).unwrap();
                settle(&mut window);
            }
            if command == Command::ForgetA {
                press(&mut window, Command::PinA);
            }
            if matches!(command, Command::ZoomReset | Command::Reset) {
                press(&mut window, Command::ZoomIn);
                click(&mut window, "Causal mask");
            }
            if by_keys {
                press(&mut window, command);
            } else {
                choose(&mut window, command);
            }
            check(&window, command, &before);
        }
    }
}

fn check(window: &Window, command: Command, before: &Session) {
    let now = session(window);
    let (ctx, all) = (&window.ctx, Example::ALL);
    let ok = match command {
        Command::Palette => shows(window, "Find a command"),
        Command::Room(room) => now.room == room,
        Command::NextExample => now.walkthrough.example() == all[1],
        Command::PreviousExample => now.walkthrough.example() == all[all.len() - 1],
        Command::Example(example) => now.walkthrough.example() == example,
        Command::Undo | Command::Reset => !now.walkthrough.settings.causal,
        Command::Redo => now.walkthrough.settings.causal,
        Command::ResetNumbers => !now.walkthrough.inputs.is_changed(),
        Command::PinA => now.laboratory.pinned.is_some() && now.room == Room::Laboratory,
        Command::ForgetA => now.laboratory.pinned.is_none() && now.room == Room::Laboratory,
        Command::Benchmark => {
            shows(window, "Stop benchmark") || !app(window).laboratory().benchmark().lines().is_empty()
        }
        Command::OpenSession
        | Command::SaveSession
        | Command::SaveImage
        | Command::OpenAttention
        | Command::OpenTokens
        | Command::ExportMatrix => shows(window, "Path of the file"),
        Command::CopyMatrix => window.query_all_by_label_contains("Copied").next().is_some(),
        Command::SidePanel => now.looks.side == Some(false) && !shows(window, "Causal mask"),
        Command::ZoomIn => ctx.zoom_factor() > 1.0,
        Command::ZoomOut => ctx.zoom_factor() < 1.0,
        Command::ZoomReset => ctx.zoom_factor() == 1.0,
        Command::Theme(theme) => ctx.options(|options| options.theme_preference) == theme,
        Command::Map(map) => now.look.map == map,
        Command::Logarithmic => now.look.logarithmic != before.look.logarithmic,
    };
    assert!(ok, "{command:?}");
}

#[test]
fn the_menu_has_the_commands() {
    let mut window = open(Room::Walkthrough);
    window.get_by_label("Menu").click();
    window.run_steps(3);
    let dark = Command::Theme(ThemePreference::Dark).name();
    window.get_by_label(&dark).click();
    window.run_steps(3);
    assert_eq!(window.ctx.theme(), Theme::Dark);
}

#[test]
fn the_palette_is_walked_with_arrows_and_left_with_escape() {
    let mut window = open(Room::Walkthrough);
    press(&mut window, Command::Palette);
    window.get_by_label("Find a command").type_text("zoom");
    window.run_steps(2);
    assert!(shows(&window, "Zoom out") && !shows(&window, &Command::PinA.name()));
    window.key_press(Key::ArrowDown);
    window.run_steps(2);
    window.key_press(Key::Enter);
    window.run_steps(3);
    assert!(window.ctx.zoom_factor() < 1.0, "the second of the zooms is out");
    press(&mut window, Command::Palette);
    window.key_press(Key::Escape);
    window.run_steps(3);
    assert!(!shows(&window, "Find a command"));
}

#[test]
fn a_session_is_saved_and_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.regard.json");
    let mut window = open(Room::Walkthrough);
    choose(&mut window, Command::Example(Example::TwoHeads));
    window.get_by_label("T → ∞").click();
    click(&mut window, "softmax");
    choose(&mut window, Command::Map(Map::Cividis));
    press(&mut window, Command::Room(Room::Laboratory));
    click(&mut window, "Window");
    press(&mut window, Command::PinA);
    let file = |window: &mut Window, command, button: &str| {
        press(window, command);
        let field = window.get_by_label("Path of the file");
        field.set_text_value_accesskit(path.to_str().unwrap());
        window.run_steps(3);
        window.get_by_role_and_label(Role::Button, button).click();
        settle(window);
    };
    file(&mut window, Command::SaveSession, "Save");
    assert!(shows(&window, &format!("Saved {}", path.display())));
    let saved = session(&window).clone();

    let mut other = open(Room::Walkthrough);
    file(&mut other, Command::OpenSession, "Open");
    assert_eq!(*session(&other), saved);
    assert_eq!(session(&other).walkthrough.settings.temperature, Temperature::INFINITE);
    assert_eq!(outcome(&other).weights, outcome(&window).weights);

    std::fs::write(&path, "{\"format\": \"regard session 1\", \"room\": \"cellar\"}").unwrap();
    let before = session(&other).clone();
    file(&mut other, Command::OpenSession, "Open");
    assert_eq!(*session(&other), before);
    assert!(other.query_all_by_label_contains("cellar").next().is_some(), "the message names what is wrong");
    click(&mut other, "Dismiss");
    assert!(other.query_all_by_label_contains("cellar").next().is_none());
}

#[test]
fn a_file_may_hold_anything_and_is_brought_into_the_limits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.json");
    let odd = r#"{"format": "regard session 1", "laboratory": {"inputs": {"tokens": 1000000, "dim": 0, "smooth": 7}}}"#;
    std::fs::write(&path, odd).unwrap();
    let read = Session::read(&path).unwrap();
    assert_eq!((read.laboratory.inputs.tokens, read.laboratory.inputs.dim), (4096, 1));
    assert_eq!(read.laboratory.inputs.source, Source::Seed, "as before there were files of tokens");
    for (bad, word) in [("", "session"), ("[1]", "format"), ("{}", "format"), ("{\"format\": 2}", "session")] {
        std::fs::write(&path, bad).unwrap();
        let message = format!("{:#}", Session::read(&path).unwrap_err());
        assert!(message.contains(word) && message.contains("odd.json"), "{message}");
    }
}

#[test]
fn a_picture_of_the_window_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("window.png");
    let mut window = open(Room::Walkthrough);
    press(&mut window, Command::SaveImage);
    window.get_by_label("Path of the file").set_text_value_accesskit(path.to_str().unwrap());
    window.run_steps(3);
    window.get_by_role_and_label(Role::Button, "Save").click();
    let mut asked = false;
    for _ in 0..4 {
        window.step();
        let commands = window.output().viewport_output.values().flat_map(|viewport| &viewport.commands);
        asked |= commands.into_iter().any(|command| matches!(command, ViewportCommand::Screenshot(_)));
    }
    assert!(asked);
}

#[test]
fn a_slider_that_is_dragged_is_one_change() {
    let mut window = open(Room::Walkthrough);
    let slider = window.get_by_role_and_label(Role::Slider, "Temperature as a power of ten").rect();
    let place = |part: f32| slider.left_center() + vec2(part * slider.width(), 0.0);
    window.hover_at(place(0.5));
    window.drag_at(place(0.5));
    for i in 0..10 {
        window.hover_at(place(0.5 + 0.03 * i as f32));
        window.step();
    }
    window.drop_at(place(0.8));
    window.run_steps(3);
    assert_ne!(session(&window).walkthrough.settings.temperature, Temperature::ONE);
    press(&mut window, Command::Undo);
    assert_eq!(session(&window).walkthrough.settings.temperature, Temperature::ONE);
    press(&mut window, Command::Redo);
    assert_ne!(session(&window).walkthrough.settings.temperature, Temperature::ONE);
}

#[test]
fn the_laboratory_computes_what_its_knobs_say() {
    let mut window = open(Room::Laboratory);
    assert_eq!(outcome(&window).weights.len(), 64 * 64);
    for (slider, value) in [("Tokens", 100.0), ("Dimensions", 16.0), ("Alike", 0.25), ("Smooth", 0.5), ("Sink", 4.0)] {
        window.get_by_role_and_label(Role::Slider, slider).set_value_accesskit(value);
        settle(&mut window);
    }
    let inputs = &session(&window).laboratory.inputs;
    assert_eq!((inputs.tokens, inputs.dim), (100, 16));
    assert_eq!((inputs.alike, inputs.smooth, inputs.sink), (0.25, 0.5, 4.0));
    assert_eq!(outcome(&window).request.inputs, *inputs);
    assert_eq!(outcome(&window).weights.len(), 100 * 100);

    let visible = |window: &Window| outcome(window).weights.iter().filter(|w| w.is_finite()).count();
    assert_eq!(visible(&window), 100 * 101 / 2);
    click(&mut window, "Causal");
    assert_eq!(visible(&window), 100 * 100);
    click(&mut window, "Padding");
    assert_eq!(visible(&window), 100 * 75);
    window.get_by_label("Keys that are no padding").set_value_accesskit(10.0);
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
        assert_ne!(outcome(&window).weights, before);
    }
    let before = Arc::clone(&outcome(&window).weights);
    click(&mut window, "Hide the first token");
    assert_eq!(visible(&window), 100 * 99);
    click(&mut window, "Scale by 1/√d");
    assert_ne!(outcome(&window).weights, before);
    click(&mut window, "Draw again");
    assert_eq!(session(&window).laboratory.inputs.seed, 1);
    click(&mut window, "T → ∞");
    assert!(outcome(&window).weights.iter().all(|w| !w.is_finite() || (*w - 1.0 / 99.0).abs() < 1e-6));
}

/// By the command and its dialog.
fn open_tokens(window: &mut Window, path: &Path) {
    choose(window, Command::OpenTokens);
    window.get_by_label("Path of the file").set_text_value_accesskit(path.to_str().unwrap());
    window.run_steps(3);
    window.get_by_role_and_label(Role::Button, "Open").click();
    settle(window);
}

/// Two heads of 5 tokens × 3, with names.
fn tokens_file(folder: &Folder) -> (PathBuf, Vec<f32>, Vec<f32>) {
    let numbers = |seed: usize| -> Vec<f32> { (0..30).map(|i| ((i * seed % 17) as f32 - 8.0) / 5.0).collect() };
    let (q, k) = (numbers(7), numbers(11));
    let tensors: [(&str, Dtype, &[usize], Vec<u8>); 2] =
        [("q", Dtype::F32, &[2, 5, 3], bytes(&q)), ("k", Dtype::F32, &[2, 5, 3], bytes(&k))];
    let names = [("tokens", r#"["The", "cat", "sat", "on", "it"]"#)];
    (folder.file("tokens.safetensors", safetensors(&tensors, &names)), q, k)
}

/// Causal weights of 5 tokens × 3 by the definition; a later key has none.
fn assert_weights(window: &Window, q: &[f32], k: &[f32]) {
    let weights = &outcome(window).weights;
    assert_eq!(weights.len(), 25);
    for i in 0..5 {
        let product = |j: usize| (0..3).map(|t| f64::from(q[3 * i + t]) * f64::from(k[3 * j + t])).sum::<f64>();
        let exps: Vec<f64> = (0..=i).map(|j| (product(j) / 3_f64.sqrt()).exp()).collect();
        for j in 0..5 {
            let found = f64::from(weights[5 * i + j]);
            let close = |exp: &f64| (found - exp / exps.iter().sum::<f64>()).abs() < 2e-6;
            assert!(exps.get(j).map_or(found == f64::NEG_INFINITY, close), "{i}, {j}: {found}");
        }
    }
}

#[test]
fn tokens_come_from_a_file_and_go_again() {
    let folder = Folder::new();
    let (path, q, k) = tokens_file(&folder);
    let mut window = open(Room::Walkthrough);
    open_tokens(&mut window, &path);
    assert_eq!(session(&window).room, Room::Laboratory);
    let expected =
        Inputs { source: Source::File { path: path.clone(), head: 0 }, tokens: 5, dim: 3, ..Inputs::default() };
    assert_eq!(session(&window).laboratory.inputs, expected);
    assert_weights(&window, &q[..15], &k[..15]);
    for there in ["tokens.safetensors", "2 heads, 5 tokens × 3", "The row of it", "Random tokens"] {
        assert!(shows(&window, there), "{there}");
    }
    for gone in ["Alike", "Smooth", "Sink", "Seed", "Draw again"] {
        assert!(!shows(&window, gone), "{gone}");
    }
    assert_named(&window);

    window.get_by_role_and_label(Role::SpinButton, "Head").set_value_accesskit(1.0);
    settle(&mut window);
    assert_weights(&window, &q[15..], &k[15..]);
    window.get_by_role_and_label(Role::Slider, "Tokens").set_value_accesskit(4000.0);
    window.get_by_role_and_label(Role::SpinButton, "Head").set_value_accesskit(7.0);
    settle(&mut window);
    assert_eq!(session(&window).laboratory.inputs.source, Source::File { path: path.clone(), head: 1 });
    assert_eq!(session(&window).laboratory.inputs.tokens, 5);
    window.get_by_role_and_label(Role::Slider, "Tokens").set_value_accesskit(2.0);
    window.get_by_role_and_label(Role::Slider, "Dimensions").set_value_accesskit(1.0);
    settle(&mut window);
    assert_eq!((outcome(&window).side, session(&window).laboratory.inputs.dim), (2, 1));
    assert!(shows(&window, "The row of cat"));

    // A session brings it back.
    let saved = folder.path("mine.regard.json");
    session(&window).write(&saved).unwrap();
    let mut other = open_with(Session::read(&saved).unwrap(), [1280.0, 1600.0]);
    settle(&mut other);
    assert_eq!(session(&other), session(&window));
    assert_eq!(outcome(&other).weights, outcome(&window).weights);

    click(&mut window, "Random tokens");
    assert_eq!(session(&window).laboratory.inputs.source, Source::Seed);
    assert!(shows(&window, "Draw again") && !shows(&window, "Random tokens") && !shows(&window, "Head"));
    assert!(outcome(&window).file.is_none());
    assert!(shows(&window, "The row of t1"));
}

#[test]
fn opening_tokens_is_one_change() {
    let folder = Folder::new();
    let (path, ..) = tokens_file(&folder);
    let mut window = open(Room::Laboratory);
    // As many keys as the file has tokens are left of these.
    click(&mut window, "Padding");
    let before = session(&window).laboratory.inputs.clone();
    assert_eq!(before.keys, Some(48));
    let weights = Arc::clone(&outcome(&window).weights);
    open_tokens(&mut window, &path);
    let opened = session(&window).laboratory.inputs.clone();
    assert_eq!((opened.tokens, opened.keys), (5, Some(5)));
    press(&mut window, Command::Undo);
    assert_eq!(session(&window).laboratory.inputs, before);
    assert_eq!(outcome(&window).weights, weights);
    press(&mut window, Command::Redo);
    assert_eq!(session(&window).laboratory.inputs, opened);

    // A file that was written anew is read anew.
    let weights = Arc::clone(&outcome(&window).weights);
    let x: Vec<f32> = (0..8).map(|i| i as f32 / 4.0).collect();
    std::fs::write(&path, safetensors(&[("x", Dtype::F32, &[4, 2], bytes(&x))], &[])).unwrap();
    open_tokens(&mut window, &path);
    assert_eq!((session(&window).laboratory.inputs.tokens, outcome(&window).side), (4, 4));
    assert_ne!(outcome(&window).weights, weights);
    assert!(!shows(&window, "Head") && shows(&window, "4 tokens × 2"));
}

#[test]
fn a_file_of_more_dimensions_than_can_be_shown_says_so() {
    let folder = Folder::new();
    let path = folder.file("wide.safetensors", files::attention(&[2, 300], &[0.5; 600]));
    let mut window = open(Room::Laboratory);
    open_tokens(&mut window, &path);
    assert_eq!(session(&window).laboratory.inputs.dim, 256);
    assert!(shows(&window, "2 tokens × 300: the first 256 dimensions are shown"));
}

#[test]
fn a_bad_file_of_tokens_is_named_and_the_session_goes_on() {
    let folder = Folder::new();
    let tensors: [(&str, Dtype, &[usize], Vec<u8>); 2] =
        [("q", Dtype::F32, &[3, 4], bytes(&[0.0; 12])), ("k", Dtype::F32, &[3, 2], bytes(&[0.0; 6]))];
    let bad = folder.file("bad.safetensors", safetensors(&tensors, &[]));
    let mut window = open(Room::Laboratory);
    let before = session(&window).laboratory.clone();
    let weights = Arc::clone(&outcome(&window).weights);
    open_tokens(&mut window, &bad);
    let message = "tensor `k` has the shape [3, 2], which does not go with `q` [3, 4]";
    let says = |window: &Window, words: &str| window.query_all_by_label_contains(words).next().is_some();
    assert!(says(&window, message) && says(&window, &bad.display().to_string()));
    assert_eq!(session(&window).laboratory, before);
    assert_eq!(outcome(&window).weights, weights, "the last picture stays");
    click(&mut window, "Causal");
    assert_ne!(outcome(&window).weights, weights);
    assert!(says(&window, message), "it stays until it was seen");
    click(&mut window, "Dismiss");
    assert!(!says(&window, message));

    // A session whose file has gone.
    let (path, ..) = tokens_file(&folder);
    let mut session_of_file = Session { room: Room::Laboratory, ..Session::default() };
    session_of_file.laboratory.inputs.source = Source::File { path: path.clone(), head: 0 };
    std::fs::remove_file(&path).unwrap();
    let mut window = open_with(session_of_file, [1280.0, 1600.0]);
    settle(&mut window);
    assert!(says(&window, &format!("{} was not opened", path.display())));
    assert!(app(&window).laboratory().outcome().is_none());
    assert_named(&window);
    click(&mut window, "Causal");
    assert!(says(&window, "was not opened"));
    click(&mut window, "Random tokens");
    assert!(!says(&window, "was not opened"));
    assert_eq!(outcome(&window).weights.len(), 64 * 64);
}

#[test]
fn a_and_b_are_compared() {
    let mut window = open(Room::Laboratory);
    click(&mut window, "Pin as A");
    click(&mut window, "T → 0");
    click(&mut window, "B − A");
    let shown = outcome(&window);
    assert_eq!(shown.request.shown, Shown::Difference);
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

#[test]
fn cells_are_painted_hidden_and_shown_again() {
    let mut window = open(Room::Laboratory);
    click(&mut window, "Causal");
    click(&mut window, "Paint cells");
    let middle = window.get_by_label("Heatmap of Weights").rect().center();
    let hidden = |window: &Window| outcome(window).weights.iter().filter(|w| !w.is_finite()).count();
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

#[test]
fn a_benchmark_is_measured_and_can_be_stopped() {
    let mut window = open(Room::Laboratory);
    click(&mut window, "Start benchmark");
    let start = Instant::now();
    while app(&window).laboratory().benchmark().is_running() {
        window.run_steps(1);
        assert!(start.elapsed() < Duration::from_mins(5), "the benchmark does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    let names = |window: &Window| -> Vec<(&str, bool)> {
        let lines = app(window).laboratory().benchmark().lines();
        lines.iter().map(|line| (line.name(), line.threads() == 1)).collect()
    };
    let all = [("naive", true), ("kernel", true), ("multi-head", true), ("multi-head", false)];
    let found = names(&window);
    assert!(found == all || found == all[..3], "{found:?}");
    for line in app(&window).laboratory().benchmark().lines() {
        assert!(line.gflops() > 0.0 && line.fraction_of_peak() > 0.0 && line.fraction_of_peak() < 1.2, "{line:?}");
        assert!((line.gflops() / line.peak_gflops() / line.fraction_of_peak() - 1.0).abs() < 1e-9);
    }
    assert!(window.query_by_label_contains("kernel, 1 thread: ").is_some() && shows(&window, "kernel, 1 thread"));

    // Many tokens: there is time to stop it.
    window.get_by_role_and_label(Role::Slider, "Tokens").set_value_accesskit(1024.0);
    settle(&mut window);
    click(&mut window, "Start benchmark");
    click(&mut window, "Stop benchmark");
    assert!(!app(&window).laboratory().benchmark().is_running());
    assert!(shows(&window, "Start benchmark"));
}

#[test]
fn every_panel_explains_itself() {
    let of_walkthrough = [
        ("Follow a token", "framed in green"),
        ("Heatmap", "arithmetic below"),
        ("Heatmap", "Pooling"),
        ("Number of heads", "share out the columns"),
        ("Leave out", "what broke"),
        ("Temperature T", "at ∞ the same"),
        ("How \"t0\" shares out its attention", "a curve for each key"),
    ];
    let of_heads = [
        ("File", "safetensors"),
        ("Sort heads by", "in one number"),
        ("Means and rollout", "Abnar"),
        ("Induction", "followed earlier occurrences"),
    ];
    let of_laboratory = [
        ("Tokens", "n queries attend to n keys"),
        ("Softmax", "divided by the temperature"),
        ("Mask", "Which keys a query may see"),
        ("Sinks", "put most weight on the first token"),
        ("A and B", "Pin it as A"),
        ("Heatmap", "Pooling"),
        ("Heatmap", "Logarithm"),
        ("Heatmap", "Colours"),
        ("The row of t63", "What one query does"),
        ("Weights, sorted", "from the largest to the smallest"),
        ("Entropy by temperature", "in nats"),
        ("Gradient norm by temperature", "Jacobian"),
        ("Gradient norm by d", "what the scaling is for"),
        ("Benchmark", "floating-point operations"),
    ];
    let rooms: [(Room, &[(&str, &str)]); 3] =
        [(Room::Walkthrough, &of_walkthrough), (Room::Laboratory, &of_laboratory), (Room::Heads, &of_heads)];
    for (room, panels) in rooms {
        let mut window = open(room);
        for (panel, words) in panels {
            explains(&mut window, panel, words);
        }
    }
}

fn explains(window: &mut Window, panel: &str, words: &str) {
    window.get_by_label(&format!("Explain: {panel}")).click();
    window.run_steps(3);
    assert!(window.query_all_by_label_contains(words).next().is_some(), "{panel}: {words}");
    window.key_press(Key::Escape);
    window.run_steps(3);
    assert!(window.query_all_by_label_contains(words).next().is_none(), "{panel} is closed");
}

/// A window that goes on where the last one was left.
fn resume(path: &Path) -> Window {
    let path = path.to_owned();
    let mut window = Harness::builder().with_size([1280.0, 1000.0]).build_ui_state(
        move |ui, app: &mut Option<App>| match app {
            Some(app) => app.ui(ui),
            None => *app = Some(App::resume(ui.ctx(), path.clone())),
        },
        None,
    );
    window.run_steps(4);
    window
}

#[test]
fn the_next_start_goes_on_where_the_last_left_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new").join("last.regard.json");
    let end = |mut window: Window| window.state_mut().as_mut().unwrap().end().unwrap();

    let mut window = resume(&path);
    assert_eq!(session(&window).room, Room::Walkthrough);
    assert!(shows(&window, Example::ALL[0].summary()), "the first start greets with an example");
    assert!(!shows(&window, "Dismiss"));
    press(&mut window, Command::Room(Room::Laboratory));
    click(&mut window, "Window");
    choose(&mut window, Command::Theme(ThemePreference::Light));
    press(&mut window, Command::ZoomIn);
    let left = session(&window).clone();
    end(window);

    let window = resume(&path);
    assert_eq!(*session(&window), left);
    assert_eq!(window.ctx.theme(), Theme::Light);
    assert!(window.ctx.zoom_factor() > 1.0);
    end(window);

    std::fs::write(&path, "{ half of a").unwrap();
    let mut window = resume(&path);
    assert_eq!(session(&window).room, Room::Walkthrough);
    assert!(window.query_by_label_contains("the last one cannot be read").is_some());
    click(&mut window, "Dismiss");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{ half of a", "it is left until there is something to keep");
    click(&mut window, "Causal mask");
    end(window);
    assert!(Session::read(&path).unwrap().walkthrough.settings.causal);
}

#[test]
fn a_session_is_kept_while_the_window_is_open_and_a_place_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("last.regard.json");
    let mut window = resume(&path);
    click(&mut window, "Causal mask");
    let start = Instant::now();
    while !path.exists() {
        window.run_steps(1);
        assert!(start.elapsed() < Duration::from_mins(1), "nothing is written");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(Session::read(&path).unwrap().walkthrough.settings.causal);

    let mut window = resume(&path.join("no-folder").join("last.regard.json"));
    click(&mut window, "Causal mask");
    while !shows(&window, "Dismiss") {
        window.run_steps(1);
        assert!(start.elapsed() < Duration::from_mins(2), "nothing is told");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(window.query_by_label_contains("not kept for the next start").is_some());
}

#[test]
fn the_look_changes_the_colours_and_no_numbers() {
    let mut window = open(Room::Laboratory);
    let numbers = Arc::clone(&outcome(&window).numbers);
    let before = outcome(&window).picture.palette();
    choose(&mut window, Command::Map(Map::Viridis));
    press(&mut window, Command::Logarithmic);
    let after = outcome(&window).picture.palette();
    assert_ne!(before, after);
    assert_eq!(session(&window).look, Look { map: Map::Viridis, logarithmic: true });
    assert!(Arc::ptr_eq(&numbers, &outcome(&window).numbers), "nothing is computed anew");
}

/// What is written in the line of tabs, from the left to the right, with nothing over anything else.
#[test]
fn the_bar_has_room_for_what_is_in_it() {
    let names = ["Side panel", "Walkthrough", "Laboratory", "Heads", "Undo", "Redo", "Commands", "Menu"];
    for width in [450.0, 490.0, 570.0, 650.0, 900.0, 3840.0] {
        let mut window = open_with(Session::default(), [width, 400.0]);
        let mut right = 0.0;
        for name in names {
            let Some(node) = window.query_by_role_and_label(Role::Button, name) else { continue };
            assert!(node.rect().left() >= right, "{name} at {width}");
            right = node.rect().right();
        }
        assert!(right <= width);
        // Where the bar has no room for a command, the menu has it.
        click(&mut window, "Menu");
        for command in [Command::Palette, Command::Undo, Command::Redo, Command::SidePanel] {
            assert!(shows(&window, &command.name()), "{command:?} at {width}");
        }
    }
}

#[test]
fn a_narrow_window_shows_the_page_and_the_side_panel_when_asked() {
    let mut window = open_with(Session::default(), [450.0, 300.0]);
    assert!(!shows(&window, "Causal mask"));
    click(&mut window, "Side panel");
    assert!(shows(&window, "Causal mask"));
    press(&mut window, Command::SidePanel);
    assert!(!shows(&window, "Causal mask"));
    let mut window = open_with(Session { room: Room::Heads, ..Session::default() }, [450.0, 300.0]);
    settle(&mut window);
    let bar = window.get_by_label("Rollout").rect();
    assert!(bar.bottom() < 150.0, "{bar}: the line below is the heads'");
}

/// Whoever cannot see the window knows each thing in it by its name.
#[test]
fn no_control_is_without_a_name() {
    for room in Room::ALL {
        let mut window = open(room);
        if room == Room::Laboratory {
            for option in ["Window", "Padding", "ALiBi", "Soft cap", "Paint cells", "Pin as A"] {
                click(&mut window, option);
            }
        }
        assert_named(&window);
    }
}

fn assert_named(window: &Window) {
    let room = session(window).room.name();
    let roles = [
        Role::Button,
        Role::CheckBox,
        Role::Slider,
        Role::SpinButton,
        Role::TextInput,
        Role::ComboBox,
        Role::Image,
        Role::RadioButton,
        Role::Link,
        Role::ProgressIndicator,
    ];
    let mut controls = 0;
    for role in roles {
        for node in window.query_all_by_role(role) {
            let data = node.accesskit_node();
            let name = data.label().filter(|name| !name.trim().is_empty());
            assert!(name.is_some(), "{room}: {role:?} {:?}", node.rect());
            controls += 1;
        }
    }
    assert!(controls >= 6, "{room}: {controls}");
}

#[test]
fn every_room_fits_its_window() {
    for room in Room::ALL {
        // The smallest is that of 900 × 600 at twice the size.
        for size in [[900.0, 600.0], [1280.0, 800.0], [640.0, 480.0], [450.0, 300.0]] {
            let mut window = open_with(Session { room, ..Session::default() }, size);
            settle(&mut window);
            for role in [Role::Button, Role::CheckBox, Role::Slider, Role::SpinButton, Role::Image] {
                for node in window.query_all_by_role(role) {
                    let rect = node.rect();
                    assert!(
                        rect.left() >= 0.0 && rect.right() <= size[0] + 0.5,
                        "{} at {size:?}: {:?} {rect}",
                        room.name(),
                        node.accesskit_node().label()
                    );
                }
            }
        }
    }
}

#[test]
fn keys_that_belong_to_text_stay_with_it() {
    let mut window = open(Room::Walkthrough);
    click(&mut window, "Causal mask");
    press(&mut window, Command::SaveSession);
    window.get_by_label("Path of the file").focus();
    window.run_steps(2);
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    window.run_steps(3);
    assert!(session(&window).walkthrough.settings.causal, "undo is the field's");
}
