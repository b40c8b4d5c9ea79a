//! The parts around the rooms: messages, the menu, the command palette, and files of the shown contents.

use crate::colors::Map;
use crate::{Command, Room};
use egui::accesskit::{Live, Role, Toggled};
use egui::{Key, Rect, ThemePreference};
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use regard_tests::attention_files::Folder;
use regard_walkthrough::Example;

use super::driver::{Window, choose, click, key, open, press, shows, with_file};

fn walkthrough(size: [f32; 2]) -> Window {
    open(crate::example(Example::TheCatSat), size)
}

fn rect(window: &Window, label: &str) -> Rect {
    window.get_all_by_label(label).next().unwrap().rect()
}

/// A message lies over the page: nothing moves when it appears or disappears, and a screen reader reads it.
#[test]
fn a_message_shifts_nothing_and_is_announced() {
    let folder = Folder::new();
    let mut window = walkthrough([900.0, 600.0]);
    let page = "Heatmap of Tokens X";
    let before = rect(&window, page);
    let path = folder.path("mine.regard.json");
    with_file(&mut window, Command::SaveSession, &path, "Save");
    let text = format!("Saved {}", path.display());
    assert_eq!(rect(&window, page), before);
    let live =
        |window: &Window, text: &str| window.get_by_label_contains(text).accesskit_node().live();
    assert_eq!(live(&window, &text), Live::Polite);
    let message = rect(&window, &text);
    assert!(message.top() > 300.0 && message.bottom() < 600.0, "near the lower edge: {message}");
    click(&mut window, "Dismiss");
    assert!(!shows(&window, &text));
    assert_eq!(rect(&window, page), before);

    with_file(&mut window, Command::SaveSession, &folder.path("no/folder/a.regard.json"), "Save");
    assert_eq!(live(&window, "a.regard.json"), Live::Assertive, "an error");
    assert_eq!(rect(&window, page), before);
}

/// The menu ticks the theme, the map and the scale that are chosen.
#[test]
fn the_menu_ticks_the_active_choices() {
    let mut window = walkthrough([1280.0, 1200.0]);
    let ticked = |window: &mut Window| {
        window.get_by_label("Menu").click();
        window.run_steps(4);
        let boxes = window.query_all_by_role(Role::MenuItemCheckBox);
        let chosen: Vec<String> = boxes
            .map(|node| node.accesskit_node())
            .filter(|node| node.toggled() == Some(Toggled::True))
            .filter_map(|node| node.label())
            .collect();
        key(window, Key::Escape);
        chosen
    };
    let name = |command: Command| command.name();
    let found = ticked(&mut window);
    assert!(found.contains(&name(Command::Map(Map::Magma))), "{found:?}");
    assert!(!found.contains(&name(Command::Map(Map::Viridis))), "{found:?}");
    assert!(!found.contains(&name(Command::Logarithmic)), "{found:?}");
    choose(&mut window, Command::Map(Map::Viridis));
    // The menu is as tall as the window allows: its last command can be clicked without scrolling.
    click(&mut window, "Menu");
    click(&mut window, &name(Command::Logarithmic));
    choose(&mut window, Command::Theme(ThemePreference::Light));
    let found = ticked(&mut window);
    for command in
        [Command::Map(Map::Viridis), Command::Logarithmic, Command::Theme(ThemePreference::Light)]
    {
        assert!(found.contains(&name(command)), "{found:?}");
    }
    assert!(!found.contains(&name(Command::Map(Map::Magma))), "{found:?}");
}

/// The field stays at the top. A list that a search has shortened regains its length when the search is cleared.
#[test]
fn the_palette_grows_back() {
    let mut window = walkthrough([1280.0, 800.0]);
    press(&mut window, Command::Palette);
    let seen = |window: &Window| {
        let names = [Command::Undo, Command::Redo, Command::Reset, Command::Room(Room::Stage)];
        let visible = |command: &Command| {
            let rect = rect(window, &command.name());
            rect.top() > 0.0 && rect.bottom() < 800.0
        };
        (rect(window, "Find a command").top(), names.iter().filter(|name| visible(name)).count())
    };
    let before = seen(&window);
    let field = |window: &Window, text: &str| {
        window.get_by_label("Find a command").set_text_value_accesskit(text);
    };
    field(&window, "no such command");
    window.run_steps(5);
    assert_eq!(rect(&window, "Find a command").top(), before.0, "the field stays at the top");
    assert!(before.0 < 100.0);
    field(&window, "");
    window.run_steps(5);
    assert_eq!(seen(&window), before);
}

/// A picture shows the view of the room; numbers are those of a matrix.
#[test]
fn a_picture_has_the_view_of_the_room() {
    let folder = Folder::new();
    let mut window = open(crate::attention("sample".as_ref()), [1280.0, 800.0]);
    super::driver::open_menu(&mut window);
    click(&mut window, "Open the sample");
    let svg = |window: &mut Window, name: &str| {
        let path = folder.path(name);
        with_file(window, Command::ExportMatrix, &path, "Export");
        std::fs::read_to_string(path).unwrap()
    };
    let grid = svg(&mut window, "grid.svg");
    assert!(grid.contains(">1.x</text>") && grid.contains(">x.3</text>"), "{grid}");
    click(&mut window, "Head");
    let head = svg(&mut window, "head.svg");
    assert!(!head.contains("<polyline points=\"1") || head.contains("<rect"), "{head}");
    assert!(!head.contains(" → "), "{head}");
    click(&mut window, "Lines");
    let lines = svg(&mut window, "lines.html");
    assert!(lines.contains(" → ") && lines.contains("prefers-color-scheme"), "{lines}");
    let csv = svg(&mut window, "lines.csv");
    assert!(csv.starts_with("query \\ key,"), "{csv}");
}
