//! An example one step at a time: the guided path asks before it shows, and the presentation fills the window.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "driver/host.rs"]
mod host;

use std::sync::Arc;

use egui::Key;
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;
use regard_ui::App;
use regard_ui::walkthrough::{Reading, State};
use regard_walkthrough::{Example, Quantity};

use self::host::TestHost;

type Window = Harness<'static, Option<App>>;

fn open(example: Example) -> Window {
    let builder = Harness::builder().with_size([1280.0, 800.0]).with_step_dt(1.0 / 60.0);
    let mut window = builder.build_ui_state(
        move |ui, app: &mut Option<App>| match app {
            Some(app) => app.ui(ui),
            None => *app = Some(App::new(ui.ctx(), Arc::new(TestHost::DEFAULT), example)),
        },
        None,
    );
    window.run_steps(4);
    window
}

fn click(window: &mut Window, label: &str) {
    window.get_by_label(label).click();
    window.run_steps(4);
}

fn key(window: &mut Window, key: Key) {
    window.key_press(key);
    window.run_steps(4);
}

fn state(window: &Window) -> &State {
    &window.state().as_ref().unwrap().session.walkthrough
}

fn shows(window: &Window, text: &str) -> bool {
    window.query_all_by_label_contains(text).next().is_some()
}

#[test]
fn the_guided_path_asks_before_it_shows_the_numbers() {
    let mut window = open(Example::MathOfAttention);
    click(&mut window, "Guide me");
    assert!(shows(&window, "What do you expect?") && shows(&window, "step 1 of 11"));
    assert!(!shows(&window, "Heatmap of "));
    click(&mut window, "Show the numbers");
    assert!(shows(&window, "Heatmap of Tokens X") && shows(&window, "8: there are 4 rows of 8"));
    click(&mut window, "Next");
    assert!(shows(&window, "step 2 of 11") && !shows(&window, "Heatmap of "));
    click(&mut window, "Back");
    assert!(shows(&window, "Heatmap of Tokens X"), "what was shown stays shown");
    click(&mut window, "Step 10: Attention weights A");
    let walkthrough = window.state().as_ref().unwrap().walkthrough().unwrap();
    let question = walkthrough.question(Quantity::Weights).unwrap();
    assert!(shows(&window, &question.ask) && !shows(&window, &question.answer));
    assert!(!shows(&window, "Weights of \"t0\" by"), "the curve would tell the answer");
    click(&mut window, "Show the numbers");
    assert!(shows(&window, &question.answer) && shows(&window, "Weights of \"t0\" by"));
    click(&mut window, "Leave");
    assert_eq!(state(&window).reading, Reading::Page);
}

#[test]
fn arrow_keys_move_and_escape_leaves() {
    let mut window = open(Example::ILoveRobotics);
    window.state_mut().as_mut().unwrap().session.walkthrough.read(Reading::Guided);
    window.run_steps(3);
    key(&mut window, Key::ArrowRight);
    assert_eq!((state(&window).at, state(&window).revealed), (0, true));
    key(&mut window, Key::Space);
    assert_eq!((state(&window).at, state(&window).revealed), (1, false));
    key(&mut window, Key::ArrowLeft);
    assert_eq!((state(&window).at, state(&window).revealed), (0, true));
    key(&mut window, Key::Escape);
    assert_eq!(state(&window).reading, Reading::Page);
}

#[test]
fn a_presented_step_fills_the_window() {
    let mut window = open(Example::ILoveRobotics);
    let small = window.get_by_label("Heatmap of Tokens X").rect();
    click(&mut window, "Present");
    let large = window.get_by_label("Heatmap of Tokens X").rect();
    assert!(large.area() > 4.0 * small.area(), "{small} {large}");
    assert!(!shows(&window, "Laboratory") && !shows(&window, "Causal mask"));
    click(&mut window, "Next");
    assert!(shows(&window, "Heatmap of Projection matrix W_Q"));
    key(&mut window, Key::Escape);
    assert!(shows(&window, "Laboratory") && shows(&window, "Causal mask"));
}
