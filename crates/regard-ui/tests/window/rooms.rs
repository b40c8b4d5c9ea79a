//! The rooms and their surroundings: tabs, commands, names, and sufficient space.

use crate::colors::{Look, Map};
use crate::model::{Listed, Version};
use crate::plots::PlotName;
use crate::setting::SETTINGS;
use crate::walkthrough::ReadingMode;
use crate::{Command, Room, Session};
use egui::accesskit::Role;
use egui::{Key, Pos2, Theme, ThemePreference, ViewportCommand, vec2};
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use regard_heads::HeadId;
use regard_kernels::Temperature;
use regard_models::{Ablation, Change};
use regard_walkthrough::{Example, Quantity};

use super::driver::{
    Window, app, assert_named, choices, choose, click, contents, key, open, outcome, press,
    put_back, room, says, session, session_of, set_value, settle, shows, type_path,
};
use super::pages;

#[test]
fn rooms_have_tabs() {
    let mut window = room(Room::Walkthrough);
    for room in [Room::Stage, Room::Laboratory, Room::Walkthrough] {
        click(&mut window, room.name());
        assert_eq!(session(&window).room, room);
    }
}

/// Performs every command, by its keys if it has any and by the palette, and checks its effect.
#[test]
fn every_command_has_its_effect() {
    let mut window = room(Room::Walkthrough);
    let before = (session(&window).clone(), contents(&window));
    for command in Command::all() {
        for by_keys in [true, false] {
            if by_keys && command.shortcut().is_none() || !by_keys && command == Command::Palette {
                continue;
            }
            if matches!(command, Command::Undo | Command::Redo) {
                click(&mut window, "Causal mask");
            }
            if command == Command::Redo {
                click(&mut window, "Undo: causal mask");
            }
            if command == Command::ResetNumbers {
                choices(&mut window).walkthrough.inputs.set(Quantity::X, 0, 0, 5.0).unwrap();
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
            check(&window, command, &before.0);
            put_back(&mut window, &before.0);
            let is_zoomed = window.ctx.zoom_factor() != 1.0;
            if is_zoomed || command == Command::Benchmark || contents(&window) != before.1 {
                window = room(Room::Walkthrough);
            }
        }
    }
}

fn check(window: &Window, command: Command, before: &Session) {
    let now = session(window);
    let (ctx, all) = (&window.ctx, Example::ALL);
    let ok = match command {
        Command::Palette => shows(window, "Find a command"),
        Command::Keys => says(window, "pin a cell"),
        Command::Setting(i) => now.room == SETTINGS[i].room && now != before,
        // A test's host opens no browser.
        Command::Book => says(window, crate::host::BOOK),
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
            shows(window, "Stop benchmark") || app(window).laboratory.benchmark.last.is_some()
        }
        Command::CopyLink => says(window, "a command for the terminal"),
        Command::OpenSession
        | Command::SaveSession
        | Command::SaveImage
        | Command::OpenAttention
        | Command::OpenModel
        | Command::OpenModelB
        | Command::OpenImage
        | Command::OpenRecording
        | Command::OpenTokens
        | Command::ExportMatrix
        | Command::ExportPlot(PlotName::Weights) => shows(window, "Path of the file"),
        Command::ExportSweep => says(window, "the effects are not known"),
        Command::ExportPlot(_) => says(window, "are not shown; go to the"),
        Command::Guide => now.walkthrough.reading == ReadingMode::Guided,
        Command::Present => now.walkthrough.reading == ReadingMode::Presented,
        Command::CopyMatrix => says(window, "Copied"),
        Command::SidePanel => now.appearance.side == Some(false) && !shows(window, "Causal mask"),
        Command::ZoomIn => ctx.zoom_factor() > 1.0,
        Command::ZoomOut => ctx.zoom_factor() < 1.0,
        Command::ZoomReset => ctx.zoom_factor() == 1.0,
        Command::Theme(theme) => ctx.options(|options| options.theme_preference) == theme,
        Command::Map(map) => now.look.map == map,
        Command::Linear | Command::Logarithmic => now.look.logarithmic != before.look.logarithmic,
    };
    assert!(ok, "{command:?}");
}

#[test]
fn the_menu_has_the_commands() {
    let mut window = room(Room::Walkthrough);
    let named = |window: &Window| -> Vec<String> {
        let roles = [Role::Button, Role::MenuItemCheckBox];
        let all = roles.into_iter().flat_map(|role| window.query_all_by_role(role));
        all.filter_map(|node| node.accesskit_node().label()).collect()
    };
    let before = named(&window);
    window.get_by_label("Menu").click();
    window.run_steps(3);
    // Every item of the menu can be found by its name in the palette.
    let names: Vec<String> = Command::all().into_iter().map(Command::name).collect();
    let of_menu: Vec<String> =
        named(&window).into_iter().skip_while(|name| before.contains(name)).collect();
    assert!(of_menu.len() > 30, "{of_menu:?}");
    for name in of_menu {
        assert!(names.contains(&name) || before.contains(&name), "{name} is not in the palette");
    }
    let dark = Command::Theme(ThemePreference::Dark).name();
    window.get_by_label(&dark).click();
    window.run_steps(3);
    assert_eq!(window.ctx.theme(), Theme::Dark);
}

#[test]
fn the_palette_is_walked_with_arrows_and_left_with_escape() {
    let mut window = room(Room::Walkthrough);
    press(&mut window, Command::Palette);
    window.get_by_label("Find a command").type_text("zoom");
    window.run_steps(2);
    assert!(shows(&window, "Zoom out") && !shows(&window, &Command::PinA.name()));
    key(&mut window, Key::ArrowDown);
    key(&mut window, Key::Enter);
    assert!(window.ctx.zoom_factor() < 1.0, "the second of the zooms is out");
    press(&mut window, Command::Palette);
    key(&mut window, Key::Escape);
    assert!(!shows(&window, "Find a command"));
}

#[test]
fn a_picture_of_the_window_is_requested() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("window.png");
    let mut window = room(Room::Walkthrough);
    press(&mut window, Command::SaveImage);
    type_path(&mut window, &path);
    window.get_by_role_and_label(Role::Button, "Save").click();
    let mut asked = false;
    for _ in 0..4 {
        window.step();
        let commands =
            window.output().viewport_output.values().flat_map(|viewport| &viewport.commands);
        asked |=
            commands.into_iter().any(|command| matches!(command, ViewportCommand::Screenshot(_)));
    }
    assert!(asked);
}

#[test]
fn a_slider_that_is_dragged_is_one_change() {
    let mut window = room(Room::Walkthrough);
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
fn every_panel_explains_itself() {
    let of_walkthrough = [
        ("Follow a token", "framed in green"),
        ("Heatmap", "arithmetic below"),
        ("Heatmap", "Pooling"),
        ("Checks", "must hold"),
        ("Number of heads", "divide the columns"),
        ("Leave out", "what breaks"),
        ("Temperature T", "at ∞ they are equal"),
        ("Weights of \"t0\" by temperature", "one curve per key"),
    ];
    let of_laboratory = [
        ("Tokens", "n queries attend to n keys"),
        ("Softmax", "divided by the temperature"),
        ("Mask", "which keys each query sees"),
        ("Sinks", "put most weight on the first token"),
        ("A and B", "Pin it as A"),
        ("The row of t63", "How one query distributes"),
        ("Weights, sorted", "from the largest to the smallest"),
        ("Entropy by temperature", "in nats"),
        ("Gradient norm by temperature", "Jacobian"),
        ("Gradient norm by d", "what the scaling is for"),
        ("Benchmark", "floating-point operations"),
    ];
    let of_model = [
        ("How sharply the heads look", "temperature"),
        ("Next words", "softmax over a score"),
        ("Change head 0.0", "Change one head"),
        ("Changes", "Each can be switched off and on"),
        ("Heads", "Each small picture is a head"),
        ("Means and rollout", "Abnar"),
    ];
    let rooms: [(Room, &[(&str, &str)]); 3] = [
        (Room::Walkthrough, &of_walkthrough),
        (Room::Laboratory, &of_laboratory),
        (Room::Stage, &of_model),
    ];
    for (room, panels) in rooms {
        let mut session = session_of(room);
        session.walkthrough.open(Example::MathOfAttention);
        let mut window = open(session, [1280.0, 12000.0]);
        for (panel, words) in panels {
            explains(&mut window, panel, words);
        }
    }
}

fn explains_under_pointer(window: &mut Window, panel: &str, words: &str) {
    window.get_by_label(&format!("Explain: {panel}")).hover();
    window.run_steps(6);
    assert!(says(window, words), "under the pointer, {panel}: {words}");
}

fn explains(window: &mut Window, panel: &str, words: &str) {
    let mark = format!("Explain: {panel}");
    explains_under_pointer(window, panel, words);
    window.hover_at(Pos2::new(2.0, 2.0));
    window.run_steps(6);
    window.get_by_label(&mark).click();
    window.run_steps(3);
    assert!(says(window, words), "{panel}: {words}");
    key(window, Key::Escape);
    assert!(window.query_all_by_label_contains(words).next().is_none(), "{panel} is closed");
}

/// A click on the colour bar opens the map, the scale and the end of the colours.
#[test]
fn the_colour_bar_is_the_control_of_the_colours() {
    let mut window = room(Room::Laboratory);
    window.get_by_label_contains("Colours of Weights").click();
    window.run_steps(3);
    for name in ["viridis", "Logarithmic"] {
        window.get_by_label(name).click();
        window.run_steps(3);
    }
    let end = "End of the colours, in percent of the largest number";
    set_value(&mut window, Role::Slider, end, 10.0);
    let look =
        Look { map: Map::Viridis, logarithmic: Some(true), end: Some(0.1), ..Look::default() };
    assert_eq!(session(&window).look, look);
    assert!(
        says(&window, "viridis, logarithmic")
            && outcome(&window).palette(look).ticks()[2].starts_with("≥")
    );
    explains_under_pointer(&mut window, "Colours", "Pooling");
}

/// The texts in the line of tabs, from left to right, none of which overlap.
#[test]
fn the_bar_fits_its_contents() {
    let names =
        ["Side panel", "Stage", "Walkthrough", "Laboratory", "Undo", "Redo", "Commands", "Menu"];
    let mut window = open(Session::default(), [450.0, 400.0]);
    for width in [450.0, 490.0, 570.0, 650.0, 900.0, 3840.0] {
        window.key_press(Key::Escape);
        window.set_size(vec2(width, 400.0)).run_steps(3);
        let mut right = 0.0;
        for name in names {
            let Some(node) = window.query_by_role_and_label(Role::Button, name) else { continue };
            assert!(node.rect().left() >= right, "{name} at {width}");
            right = node.rect().right();
        }
        assert!(right <= width);
        // The menu has the commands for which the bar has no room.
        click(&mut window, "Menu");
        for command in [Command::Palette, Command::Undo, Command::Redo, Command::SidePanel] {
            assert!(shows(&window, &command.name()), "{command:?} at {width}");
        }
    }
}

#[test]
fn every_room_fits_its_window() {
    for room in Room::ALL {
        // The smallest size is that of 900 × 600 at twice the scale.
        let mut window = open(session_of(room), [450.0, 300.0]);
        assert_named(&window);
        for size in [[640.0, 480.0], [900.0, 600.0], [1280.0, 800.0], [3840.0, 2160.0]] {
            window.set_size(size.into()).run_steps(3);
            assert_named(&window);
        }
    }
}

/// The rows of controls above a picture on a phone. A row of text, the words of a text and the keys beside a pad are not controls, and
/// the class token is a part of its picture.
#[test]
fn at_most_three_rows_of_controls_stand_above_a_picture() {
    let roles = [Role::Button, Role::CheckBox, Role::ComboBox, Role::SpinButton, Role::Slider];
    let folder = tempfile::tempdir().unwrap();
    for (what, session) in pages::all(folder.path()).into_iter().chain(heads_and_texts()) {
        let window = open(session, [390.0, 844.0]);
        let named = |role: Role| {
            let nodes = window.query_all_by_role(role);
            let named =
                |node: egui_kittest::Node<'_>| Some((node.accesskit_node().label()?, node.rect()));
            nodes.filter_map(named).collect::<Vec<_>>()
        };
        let starts =
            |name: &str, starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
        let all = roles.into_iter().chain([Role::Image]).flat_map(named).collect::<Vec<_>>();
        let pictures =
            ["Heatmap of", "Plot: ", "head ", "query 0", "patch 0,0", "0.00 s", "layer 0"];
        let tops =
            all.iter().filter(|(name, _)| starts(name, &pictures)).map(|(_, rect)| rect.top());
        let picture = tops.fold(f32::INFINITY, f32::min);
        assert!(picture < 844.0, "{what}: {all:?}");
        let others = [
            "Explain: ",
            "Hide ",
            "token ",
            "patch token ",
            "Drawing pad",
            "Second drawing pad",
            "[CLS]",
        ];
        let texts = named(Role::MultilineTextInput);
        let of_text = |y: f32| texts.iter().any(|(_, text)| text.y_range().contains(y));
        let is_control = |(name, rect): &&(String, egui::Rect)| {
            !starts(name, &others)
                && !of_text(rect.center().y)
                && rect.top() > 48.0
                && rect.bottom() <= picture
        };
        let mut rows: Vec<_> = all.iter().filter(is_control).collect();
        rows.sort_by(|a, b| a.1.center().y.total_cmp(&b.1.center().y));
        rows.dedup_by(|a, b| (a.1.center().y - b.1.center().y).abs() < 10.0);
        assert!(rows.len() <= 3, "{what}: {rows:?}");
        assert_named(&window);
    }
}

/// Sessions with a head as a heatmap and as lines, of a run, of a changed run and of two texts, and with two states of the laboratory.
fn heads_and_texts() -> Vec<(&'static str, Session)> {
    let mut head = session_of(Room::Stage);
    let change = Change::Ablate { head: "0.1".parse().unwrap(), to: Ablation::Zero };
    let grid = head.clone();
    head.model.heads.show(HeadId { layer: 1, head: 2 });
    let mut changed = head.clone();
    changed.model.changes = vec![Listed { change, on: true }];
    changed.model.version = Version::SideBySide;
    let mut texts = head.clone();
    (texts.model.second, texts.model.version) = (Some("Max gave".to_owned()), Version::SideBySide);
    let mut lines = texts.clone();
    lines.model.heads.lines = true;
    let mut laboratory = Session { room: Room::Laboratory, ..Session::default() };
    laboratory.laboratory.pin();
    vec![
        ("all heads", grid),
        ("a head", head),
        ("a changed head", changed),
        ("two texts", texts),
        ("lines of two texts", lines),
        ("the laboratory", laboratory),
    ]
}

#[test]
fn enter_presses_the_button_with_the_focus() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("there.regard.json");
    std::fs::write(&path, "of somebody else").unwrap();
    let mut window = room(Room::Walkthrough);
    press(&mut window, Command::SaveSession);
    type_path(&mut window, &path);
    window.get_by_label("Cancel").focus();
    window.run_steps(2);
    key(&mut window, Key::Enter);
    assert!(!shows(&window, "Path of the file"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "of somebody else");

    // In the field, Enter confirms, and the field has the focus from the start.
    let path = folder.path().join("new.regard.json");
    press(&mut window, Command::SaveSession);
    type_path(&mut window, &path);
    window.key_press(Key::Enter);
    settle(&mut window);
    assert!(path.exists() && !shows(&window, "Path of the file"));
}

#[test]
fn the_sheet_of_keys_scrolls_only_in_a_low_window() {
    let mut window = room(Room::Laboratory);
    press(&mut window, Command::Keys);
    let rects: Vec<_> = window.query_all_by_label("Keys").map(|node| node.rect()).collect();
    let [heading, row] = rects[..] else { panic!("a heading, and the second row: {rects:?}") };
    assert!(row.top() > heading.bottom() + 10.0, "the first row is between them: {rects:?}");
    let last = window.get_by_label("close what lies over the page").rect();
    assert!(last.bottom() < 1600.0 && last.top() > row.bottom() + 500.0, "{last}");
}
