//! Pictures of each room, in both themes and in two sizes, compared with those in `tests/snapshots`.
//!
//! They are rendered by Vulkan, in software where there is a driver for it (lavapipe), so that every machine renders the
//! same. After an intended change of the look, `UPDATE_SNAPSHOTS=1 cargo test -p regard-ui --features snapshots
//! --test snapshots` writes them anew; look at them before they are committed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "window/host.rs"]
mod host;
#[path = "window/pages.rs"]
mod pages;

use std::sync::Arc;

use core::time::Duration;
use std::time::Instant;

use egui::{Rect, ThemePreference, vec2};
use egui_kittest::kittest::Queryable as _;
use egui_kittest::{Harness, SnapshotOptions, SnapshotResults};
use regard_bundled::STORY;
use regard_ui::model::ModelState;
use regard_ui::walkthrough::ReadingMode;
use regard_ui::{App, Command, Room, Session};
use regard_walkthrough::Example;

use self::host::TestHost;

const SIZES: [[f32; 2]; 2] = [[1280.0, 800.0], [900.0, 600.0]];

/// The window, and its parts that differ in every run.
#[derive(Default)]
struct Shown {
    app: Option<App>,
    hidden: Vec<Rect>,
}

fn open(session: Session, size: [f32; 2]) -> Harness<'static, Shown> {
    let builder = Harness::builder().with_size(size).with_pixels_per_point(1.0).wgpu();
    builder.build_ui_state(
        move |ui, shown: &mut Shown| {
            let Some(app) = &mut shown.app else {
                shown.app =
                    Some(App::with_session(ui.ctx(), Arc::new(TestHost::DEFAULT), session.clone()));
                return;
            };
            app.ui(ui);
            let painter = ui.ctx().debug_painter();
            for rect in &shown.hidden {
                painter.rect_filled(rect.expand(1.0), 0, ui.visuals().panel_fill);
            }
        },
        Shown::default(),
    )
}

/// Runs frames with this theme until nothing is being computed, and covers the times that it took.
fn settle(window: &mut Harness<'static, Shown>, theme: ThemePreference) {
    window.run_steps(2);
    let ctx = window.ctx.clone();
    window.state_mut().app.as_mut().unwrap().perform(&ctx, Command::Theme(theme));
    let start = Instant::now();
    loop {
        window.run_steps(8);
        if !window.state().app.as_ref().unwrap().is_busy() {
            break;
        }
        assert!(start.elapsed() < Duration::from_mins(2), "the work does not end");
        std::thread::sleep(Duration::from_millis(2));
    }
    window.run_steps(2);
    let times = window.query_all_by_label_contains(" ms").map(|node| node.rect()).collect();
    window.state_mut().hidden = times;
    window.run_steps(2);
}

#[test]
fn rooms_look_as_they_did() {
    // Edges of glyphs and of lines may be a shade lighter or darker, and a few pixels may differ more.
    let options = SnapshotOptions::new().threshold(2.0).max_failed_pixels(60);
    let mut results = SnapshotResults::new();
    let room = |room: Room| {
        let model = ModelState::of(STORY);
        (room.name().to_lowercase(), Session { room, model, ..Session::default() })
    };
    let start = ("start".to_owned(), regard_ui::greeting());
    let read = |name: &str, reading: ReadingMode, revealed: bool| {
        let mut session = regard_ui::example(Example::MathOfAttention);
        session.walkthrough.read(reading);
        (session.walkthrough.at, session.walkthrough.revealed) = (9, revealed);
        (name.to_owned(), session)
    };
    let lessons = [
        read("guide-asks", ReadingMode::Guided, false),
        read("guide-answers", ReadingMode::Guided, true),
        read("present", ReadingMode::Presented, false),
        ("curve".to_owned(), regard_ui::example(Example::Gradients)),
    ];
    let folder = tempfile::tempdir().unwrap();
    let pages = pages::all(folder.path()).into_iter();
    let pages = pages.map(|(what, session)| (format!("model-{what}"), session));
    let rooms = Room::ALL.map(room).into_iter().chain([start]);
    for (what, session) in rooms.chain(pages).chain(lessons) {
        for size in SIZES {
            let mut window = open(session.clone(), size);
            for (theme, shade) in
                [(ThemePreference::Dark, "dark"), (ThemePreference::Light, "light")]
            {
                settle(&mut window, theme);
                if what == "curve" {
                    // The pointer is at the curve of the largest weight.
                    let plot = window.get_by_label_contains("Plot: Weights of").rect();
                    window.hover_at(plot.left_top() + vec2(0.3, 0.05) * plot.size());
                    window.run_steps(4);
                }
                let name = format!("{what}-{shade}-{}x{}", size[0], size[1]);
                results.add(window.try_snapshot_options(name, &options));
            }
        }
    }
}
