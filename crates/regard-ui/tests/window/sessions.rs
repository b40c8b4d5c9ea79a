//! Sessions: saved, opened, and continued.

use std::sync::Arc;

use core::time::Duration;
use std::path::Path;

use crate::colors::Map;
use crate::laboratory::Brush;
use crate::{App, Command, Room, Session};
use egui::{Key, Modifiers, Theme, ThemePreference};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;
use regard_kernels::Temperature;
use regard_walkthrough::Example;

use super::TestHost;
use super::driver::{
    Window, choose, click, drop_file, key, open, outcome, press, room, says, session, session_of,
    shows, start, wait, with_file,
};

#[test]
fn a_session_is_saved_and_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.regard.json");
    let mut window = room(Room::Walkthrough);
    choose(&mut window, Command::Example(Example::TwoHeads));
    window.get_by_label("T → ∞").click();
    click(&mut window, "softmax");
    choose(&mut window, Command::Map(Map::Cividis));
    press(&mut window, Command::Room(Room::Laboratory));
    click(&mut window, "Window");
    press(&mut window, Command::PinA);
    with_file(&mut window, Command::SaveSession, &path, "Save");
    assert!(shows(&window, &format!("Saved {}", path.display())));
    let saved = session(&window).clone();

    let mut other = room(Room::Walkthrough);
    with_file(&mut other, Command::OpenSession, &path, "Open");
    assert_eq!(*session(&other), saved);
    assert_eq!(session(&other).walkthrough.settings.temperature, Temperature::INFINITE);
    assert_eq!(outcome(&other).weights, outcome(&window).weights);

    // A link holds the same, alone or after the address of a page. It is short where little differs from a new session.
    let link = saved.link();
    for link in [link.clone(), format!("http://localhost:8080/{link}")] {
        let mut other = room(Room::Walkthrough);
        with_file(&mut other, Command::OpenSession, link.as_ref(), "Open");
        assert_eq!(*session(&other), saved);
        assert!(shows(&other, "Opened the link"));
    }
    assert!(Session::default().link().len() < 60);
    for broken in ["#s=", "#s=AAAA", &link[..link.len() - 9], &link.replace("#s=", "#s=é")] {
        let before = session(&other).clone();
        with_file(&mut other, Command::OpenSession, broken.as_ref(), "Open");
        assert!(says(&other, "the link cannot be read"), "{broken}");
        assert_eq!(*session(&other), before);
    }

    std::fs::write(&path, "{\"format\": \"regard session 1\", \"room\": \"cellar\"}").unwrap();
    let before = session(&other).clone();
    with_file(&mut other, Command::OpenSession, &path, "Open");
    assert_eq!(*session(&other), before);
    assert!(says(&other, "cellar"), "the message names what is wrong");
    click(&mut other, "Dismiss");
    assert!(other.query_all_by_label_contains("cellar").next().is_none());
}

#[test]
fn a_file_may_hold_anything_and_is_brought_into_the_limits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.json");
    let odd = r#"{"format": "regard session 1", "laboratory": {"inputs": {"tokens": 1000000, "dim": 0, "smooth": 7}}}"#;
    std::fs::write(&path, odd).unwrap();
    let read = Session::read(&TestHost::DEFAULT, &path).unwrap();
    assert_eq!((read.laboratory.inputs.tokens, read.laboratory.inputs.dim), (4096, 1));
    assert_eq!(read.model, Session::default().model, "missing keys have their defaults");
    for (bad, word) in
        [("", "session"), ("[1]", "format"), ("{}", "format"), ("{\"format\": 2}", "session")]
    {
        std::fs::write(&path, bad).unwrap();
        let message = format!("{:#}", Session::read(&TestHost::DEFAULT, &path).unwrap_err());
        assert!(message.contains(word) && message.contains("odd.json"), "{message}");
    }
}

/// A window that continues where the last one ended.
fn resume(path: &Path) -> Window {
    let path = path.to_owned();
    start(Harness::builder().with_size([1280.0, 1000.0]), move |ctx| {
        let host: Arc<dyn crate::Host> = Arc::new(TestHost::DEFAULT);
        App::resume(ctx, &host, path.clone())
    })
}

#[test]
fn the_next_start_continues_the_last_session() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new").join("last.regard.json");
    let end = |mut window: Window| window.state_mut().as_mut().unwrap().end().unwrap();

    let mut window = resume(&path);
    assert_eq!(session(&window).room, Room::Stage, "the first start greets with a model");
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
    assert_eq!(session(&window).room, Room::Stage);
    assert!(says(&window, "cannot be read"));
    click(&mut window, "Dismiss");
    let aside = path.with_extension("unreadable-1.json");
    assert_eq!(std::fs::read_to_string(&aside).unwrap(), "{ half of a", "it is put aside");
    press(&mut window, Command::NextExample);
    click(&mut window, "Causal mask");
    end(window);
    assert!(Session::read(&TestHost::DEFAULT, &path).unwrap().walkthrough.settings.causal);
}

#[test]
fn a_session_is_kept_while_the_window_is_open_and_a_place_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("last.regard.json");
    let mut window = resume(&path);
    press(&mut window, Command::NextExample);
    click(&mut window, "Causal mask");
    let is_causal = |session: Session| session.walkthrough.settings.causal;
    let read = || Session::read(&TestHost::DEFAULT, &path);
    wait(&mut window, |_| read().is_ok_and(is_causal));

    let mut window = resume(&path.join("no-folder").join("last.regard.json"));
    press(&mut window, Command::NextExample);
    click(&mut window, "Causal mask");
    wait(&mut window, |window| shows(window, "Dismiss"));
    assert!(says(&window, "will not be there at the next start"));
}

#[test]
fn keys_that_belong_to_text_stay_with_it() {
    let mut window = room(Room::Walkthrough);
    click(&mut window, "Causal mask");
    press(&mut window, Command::SaveSession);
    window.get_by_label("Path of the file").focus();
    window.run_steps(2);
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    window.run_steps(3);
    assert!(session(&window).walkthrough.settings.causal, "undo is the field's");
}

#[test]
fn a_brush_comes_back_as_it_was_and_no_view_is_too_large() {
    let mut start = session_of(Room::Laboratory);
    start.laboratory.brush = Some(Brush { side: 3, hides: false });
    let text = String::from_utf8(start.text().unwrap()).unwrap();
    assert_eq!(Session::parse(text.as_bytes()).unwrap(), start);

    // At this zoom, the lines that hatch a cell would never end.
    let odd = text.replace(
        "\"zoom\": 1.0,\n      \"corner\": [\n        0.0,",
        "\"zoom\": 1e9,\n      \"corner\": [\n        0.5,",
    );
    assert_ne!(odd, text);
    let window = open(Session::parse(odd.as_bytes()).unwrap(), [1280.0, 800.0]);
    assert!(session(&window).laboratory.view.zoom() < 1000.0);
}

#[test]
fn opening_attention_leaves_the_other_rooms_as_they_are() {
    let mut window = room(Room::Laboratory);
    press(&mut window, Command::PinA);
    let before = session(&window).laboratory.clone();
    drop_file(&mut window, Path::new("no-such-file.safetensors"));
    assert_eq!((session(&window).room, &session(&window).laboratory), (Room::Stage, &before));
}

/// Reading a FIFO would wait for a writer that never comes.
#[cfg(unix)]
#[test]
fn a_fifo_in_the_place_of_the_session_does_not_block_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("last.regard.json");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn({
        let path = path.clone();
        move || {
            let window = resume(&path);
            let is_told = says(&window, "not a regular file");
            sender.send(is_told).unwrap();
        }
    });
    let is_told = receiver.recv_timeout(Duration::from_mins(1)).expect("the start waits");
    assert!(is_told && path.with_extension("unreadable-1.json").exists());
}

#[test]
fn overlays_of_a_tiny_window_have_a_width() {
    for size in [[127.0, 95.0], [64.0, 48.0], [1.0, 1.0]] {
        let mut window = open(Session::default(), size);
        for command in [Command::Palette, Command::OpenSession] {
            press(&mut window, command);
            window.run_steps(2);
            key(&mut window, Key::Escape);
        }
    }
}
