//! Opens the window without a display, and drives it by the names of its controls.

use core::time::Duration;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use egui::accesskit::Role;
use egui::{Event, Key, Modifiers, PointerButton, Pos2, Rect, TextureId, vec2};
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use egui_kittest::{Harness, HarnessBuilder};

use regard_bundled::STORY;
use regard_walkthrough::{Step, StepKey, Walkthrough};

use super::TestHost;
use crate::heatmap::Cell;
use crate::laboratory::Pictured;
use crate::model::ModelState;
use crate::{App, Command, Host, Room, Session};

pub(super) type Window = Harness<'static, Option<App>>;

/// Opens a session, and waits for its computations.
pub(super) fn open(session: Session, size: [f32; 2]) -> Window {
    open_with(Arc::new(TestHost::DEFAULT), session, size)
}

/// Opens a session with another host.
pub(super) fn open_with(host: Arc<dyn Host>, session: Session, size: [f32; 2]) -> Window {
    start(Harness::builder().with_size(size), move |ctx| {
        App::with_session(ctx, Arc::clone(&host), session.clone())
    })
}

/// Opens a session. A frame takes a sixtieth of a second, as double clicks and animations need it.
pub(super) fn open_smooth(session: Session, size: [f32; 2]) -> Window {
    start(Harness::builder().with_size(size).with_step_dt(1.0 / 60.0), move |ctx| {
        App::with_session(ctx, Arc::new(TestHost::DEFAULT), session.clone())
    })
}

/// Opens what `begin` makes.
pub(super) fn start(
    builder: HarnessBuilder<Option<App>>,
    begin: impl Fn(&egui::Context) -> App + 'static,
) -> Window {
    let mut window = builder.build_ui_state(
        move |ui, app: &mut Option<App>| match app {
            Some(app) => app.ui(ui),
            None => *app = Some(begin(ui.ctx())),
        },
        None,
    );
    window.run_steps(1);
    settle(&mut window);
    window
}

/// A session in a room, with the model `story`, whose tokens are words.
pub(super) fn session_of(room: Room) -> Session {
    Session { room, model: ModelState::of(STORY), ..Session::default() }
}

/// Opens a room, high enough for all its contents.
pub(super) fn room(room: Room) -> Window {
    open(session_of(room), [1280.0, 1600.0])
}

pub(super) fn app(window: &Window) -> &App {
    window.state().as_ref().unwrap()
}

pub(super) fn session(window: &Window) -> &Session {
    &app(window).session
}

/// The session as a file brings it back.
pub(super) fn saved(window: &Window) -> Session {
    Session::parse(&session(window).text().unwrap()).unwrap()
}

/// The choices of the window, to change them without a control.
pub(super) fn choices(window: &mut Window) -> &mut Session {
    &mut window.state_mut().as_mut().unwrap().session
}

/// Changes the choices without a control.
pub(super) fn alter(window: &mut Window, change: impl FnOnce(&mut Session)) {
    change(choices(window));
    settle(window);
}

/// Runs frames until no thread is busy and the results are shown. A frame may show a result only in the next one, and begin other
/// work with it.
pub(super) fn settle(window: &mut Window) {
    window.run_steps(3);
    loop {
        wait(window, |window| !app(window).is_busy());
        window.run_steps(2);
        if !app(window).is_busy() {
            return;
        }
    }
}

/// Runs frames until something is the case, ever more rarely, because they take the processor from the threads.
pub(super) fn wait(window: &mut Window, is_done: impl Fn(&Window) -> bool) {
    let start = Instant::now();
    let mut pause = Duration::from_millis(2);
    while !is_done(window) {
        assert!(start.elapsed() < Duration::from_mins(5), "the work does not end");
        std::thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(8));
        window.run_steps(1);
    }
}

/// Lets a second pass: a tip appears, and the next click is the first of two again.
pub(super) fn pass_a_second(window: &mut Window) {
    window.run_steps(1);
    let now = window.ctx.input(|input| input.time);
    window.input_mut().time = Some(now + 1.0);
    window.run_steps(1);
    window.input_mut().time = None;
    window.run_steps(2);
}

/// Opens the menu of the title bar with the model.
pub(super) fn open_menu(window: &mut Window) {
    let menu = button(window, "Model: ");
    click(window, &menu);
}

/// The visible and audible contents, without the time that a computation took and the steps that can be undone.
pub(super) fn contents(window: &Window) -> Vec<String> {
    let all = window.query_all_by(|node| {
        let is_time = node.value().is_some_and(|text| text.starts_with("Weights in "));
        let names = ["Undo", "Redo"];
        let is_step =
            node.label().is_some_and(|label| names.iter().any(|name| label.starts_with(name)));
        (node.label().is_some() || node.value().is_some()) && !is_time && !is_step
    });
    let text = |node: egui_kittest::Node<'_>| {
        let node = node.accesskit_node();
        format!("{:?} {:?} {:?}", node.label(), node.value(), node.toggled())
    };
    all.map(text).collect()
}

/// Puts a session back, without an open menu and without a pointer, so that a test goes on with the window. A new one takes longer.
pub(super) fn put_back(window: &mut Window, session: &Session) {
    window.key_press(Key::Escape);
    window.event(Event::PointerGone);
    window.run_steps(1);
    *choices(window) = session.clone();
    settle(window);
}

/// Clicks a control, which may stand in a menu.
pub(super) fn click(window: &mut Window, label: &str) {
    let named = |menu: egui_kittest::Node<'_>| menu.accesskit_node().label();
    let menus = window.query_all_by_role(Role::ComboBox).filter_map(named);
    let compare = window.query_all_by_label("Compare").filter_map(named);
    for menu in menus.chain(compare).collect::<Vec<_>>() {
        if shows(window, label) {
            break;
        }
        key(window, Key::Escape);
        window.get_by_label(&menu).click();
        window.run_steps(3);
    }
    window.get_by_label(label).click();
    settle(window);
}

/// Clicks the control of this kind. Other nodes may have the same name.
pub(super) fn click_on(window: &mut Window, role: Role, label: &str) {
    window.get_by_role_and_label(role, label).click();
    settle(window);
}

pub(super) fn set_value(window: &mut Window, role: Role, label: &str, value: f64) {
    window.get_by_role_and_label(role, label).set_value_accesskit(value);
    settle(window);
}

pub(super) fn click_at<T>(window: &mut Harness<'_, T>, at: Pos2) {
    window.hover_at(at);
    window.drag_at(at);
    window.drop_at(at);
    window.run_steps(2);
}

pub(super) fn pointer_button(pos: Pos2, pressed: bool, modifiers: Modifiers) -> Event {
    Event::PointerButton { pos, button: PointerButton::Primary, pressed, modifiers }
}

pub(super) fn key(window: &mut Window, key: Key) {
    window.key_press(key);
    window.run_steps(3);
}

pub(super) fn press(window: &mut Window, command: Command) {
    let keys = command.shortcut().unwrap();
    window.key_press_modifiers(keys.modifiers, keys.logical_key);
    settle(window);
}

/// Chooses a command in the palette, as a user who knows only its name would.
pub(super) fn choose(window: &mut Window, command: Command) {
    press(window, Command::Palette);
    window.get_by_label("Find a command").type_text(&command.name());
    window.run_steps(3);
    window.key_press(Key::Enter);
    settle(window);
}

/// Types the path into the dialog for a file.
pub(super) fn type_path(window: &mut Window, path: &Path) {
    window.get_by_label("Path of the file").set_text_value_accesskit(path.to_str().unwrap());
    window.run_steps(3);
}

/// Answers a command's question for a file. `act` is the button of the dialog.
pub(super) fn with_file(window: &mut Window, command: Command, path: &Path, act: &str) {
    if command.shortcut().is_some() {
        press(window, command);
    } else {
        choose(window, command);
    }
    type_path(window, path);
    click_on(window, Role::Button, act);
}

pub(super) fn drop_file(window: &mut Window, path: &Path) {
    let ctx = window.ctx.clone();
    window.state_mut().as_mut().unwrap().open_file(&ctx, path);
    settle(window);
}

/// Whether something has this name.
pub(super) fn shows(window: &Window, label: &str) -> bool {
    window.query_all_by_label(label).next().is_some()
}

/// Whether a name contains these words.
pub(super) fn says(window: &Window, words: &str) -> bool {
    window.query_all_by_label_contains(words).next().is_some()
}

pub(super) fn buttons(window: &Window) -> Vec<String> {
    let nodes = window.query_all_by_role(Role::Button);
    nodes.filter_map(|node| node.accesskit_node().label()).collect()
}

/// The name of the first button whose name begins so.
pub(super) fn button(window: &Window, start: &str) -> String {
    buttons(window).into_iter().find(|name| name.starts_with(start)).unwrap()
}

/// The places of the buttons whose names begin so.
pub(super) fn places(window: &Window, start: &str) -> Vec<Rect> {
    let nodes = window.query_all_by_role(Role::Button);
    let named = nodes
        .filter(|node| node.accesskit_node().label().is_some_and(|label| label.starts_with(start)));
    named.map(|node| node.rect()).collect()
}

/// The names of the grid's cells, in their order.
pub(super) fn cells(window: &Window) -> Vec<String> {
    buttons(window).into_iter().filter(|name| name.starts_with("head ")).collect()
}

/// The sizes of the textures, without that of the fonts.
pub(super) fn textures(ctx: &egui::Context) -> Vec<(TextureId, [usize; 2])> {
    let manager = ctx.tex_manager();
    let manager = manager.read();
    let ours = manager.allocated().filter(|(id, _)| **id != TextureId::default());
    ours.map(|(id, meta)| (*id, meta.size)).collect()
}

/// The rectangle of the cells of a step.
pub(super) fn matrix_of(window: &Window, key: &str) -> Rect {
    let step = step(window, key);
    let same_name = walkthrough(window).steps.iter().filter(|s| s.name == step.name);
    let place = same_name.take_while(|s| s.key.to_string() != key).count();
    let label = format!("Heatmap of {}", step.name);
    window.get_all_by_label(&label).nth(place).unwrap().rect()
}

/// The middle of a cell of a step.
pub(super) fn cell_of(window: &Window, key: &str, (row, col): Cell) -> Pos2 {
    let (cells, (rows, cols)) = (matrix_of(window, key), step(window, key).matrix.shape());
    let part = vec2((col as f32 + 0.5) / cols as f32, (row as f32 + 0.5) / rows as f32);
    cells.min + cells.size() * part
}

pub(super) fn walkthrough(window: &Window) -> &Walkthrough {
    app(window).walkthrough.walkthrough().unwrap()
}

pub(super) fn step<'a>(window: &'a Window, key: &str) -> &'a Step {
    walkthrough(window).step(key.parse::<StepKey>().unwrap()).unwrap()
}

pub(super) fn outcome(window: &Window) -> &Pictured {
    app(window).laboratory.outcome().unwrap()
}

/// Checks that every control has a name, and lies between the left and the right edge of the window.
pub(super) fn assert_named(window: &Window) {
    let room = session(window).room.name();
    let width = window.ctx.content_rect().width();
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
    for node in roles.into_iter().flat_map(|role| window.query_all_by_role(role)) {
        let (rect, name) = (node.rect(), node.accesskit_node().label());
        assert!(name.as_ref().is_some_and(|name| !name.trim().is_empty()), "{room}: {rect}");
        // The words of a long sentence scroll.
        let is_word = |name: &String| ["Hide ", "Look from "].iter().any(|s| name.starts_with(s));
        let scrolls = name.as_ref().is_some_and(is_word);
        let fits = scrolls || rect.left() >= 0.0 && rect.right() <= width + 0.5;
        assert!(fits, "{room} at {width}: {name:?} {rect}");
        controls += 1;
    }
    assert!(controls >= 6, "{room}: {controls}");
}

/// Drags the pointer along a path.
pub(super) fn drag(window: &mut Window, path: &[Pos2]) {
    let press = |pos, pressed| pointer_button(pos, pressed, Modifiers::NONE);
    window.event(Event::PointerMoved(path[0]));
    window.run_steps(1);
    window.event(press(path[0], true));
    for at in path {
        window.event(Event::PointerMoved(*at));
        window.run_steps(2);
    }
    window.event(press(path[path.len() - 1], false));
    settle(window);
}
