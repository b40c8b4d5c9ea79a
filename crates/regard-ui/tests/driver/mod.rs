//! The window without a display, driven by the names of its controls.

mod host;

use std::sync::Arc;

use core::time::Duration;
use std::time::Instant;

use egui::Key;
use egui::accesskit::Role;
use egui_kittest::Harness;
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use regard_ui::laboratory::Outcome;
use regard_ui::{App, Command, Host, Room, Session};

pub use self::host::TestHost;

pub type Window = Harness<'static, Option<App>>;

/// Opens a session, and waits for its computations.
pub fn open(session: Session, size: [f32; 2]) -> Window {
    open_with(Arc::new(TestHost::DEFAULT), session, size)
}

/// The same with another host.
pub fn open_with(host: Arc<dyn Host>, session: Session, size: [f32; 2]) -> Window {
    let mut window = Harness::builder().with_size(size).build_ui_state(
        move |ui, app: &mut Option<App>| match app {
            Some(app) => app.ui(ui),
            None => {
                *app = Some(App::with_session(ui.ctx(), Arc::clone(&host), session.clone()));
            }
        },
        None,
    );
    window.run_steps(1);
    settle(&mut window);
    window
}

/// Opens a room, high enough for all its contents.
pub fn room(room: Room) -> Window {
    open(Session { room, ..Session::default() }, [1280.0, 1600.0])
}

pub fn app(window: &Window) -> &App {
    window.state().as_ref().unwrap()
}

pub fn session(window: &Window) -> &Session {
    &app(window).session
}

/// Runs frames until no thread is busy.
pub fn settle(window: &mut Window) {
    let start = Instant::now();
    loop {
        window.run_steps(3);
        if !app(window).is_busy() {
            break;
        }
        assert!(start.elapsed() < Duration::from_mins(2), "the work does not end");
        std::thread::sleep(Duration::from_millis(2));
    }
    window.run_steps(3);
}

pub fn click(window: &mut Window, label: &str) {
    window.get_by_label(label).click();
    settle(window);
}

pub fn press(window: &mut Window, command: Command) {
    let keys = command.shortcut().unwrap();
    window.key_press_modifiers(keys.modifiers, keys.logical_key);
    settle(window);
}

pub fn shows(window: &Window, label: &str) -> bool {
    window.query_all_by_label(label).next().is_some()
}

/// Chooses a command in the palette, as a user who knows only its name would.
pub fn choose(window: &mut Window, command: Command) {
    press(window, Command::Palette);
    window.get_by_label("Find a command").type_text(&command.name());
    window.run_steps(3);
    window.key_press(Key::Enter);
    settle(window);
}

pub fn outcome(window: &Window) -> &Outcome {
    app(window).laboratory().outcome().unwrap()
}

pub fn assert_named(window: &Window) {
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
