//! The window: a worked example, every matrix on the way as a heatmap, and what can be changed.
//!
//! [`App`] is all of it but the window, so that a test can drive it; [`run`] is the window.
//! [`State`] is what the user chose; everything else follows from it and is kept in a cache.

mod app;
mod cache;
mod checks;
pub mod colors;
mod explanation;
mod focus;
pub mod heatmap;
pub(crate) mod numbers;
mod plots;
mod sidebar;
mod state;
mod steps;
mod style;
mod temperature;
mod why_scale;

pub use self::app::App;
use self::cache::Cache;
pub use self::state::{At, State};

use regard_walkthrough::Example;

/// Opens the window, and returns when it is closed.
///
/// # Errors
/// Where no window can be opened: there is no display, or it has no OpenGL.
pub fn run(example: Option<Example>) -> Result<(), eframe::Error> {
    let viewport = egui::ViewportBuilder::default()
        .with_title("Regard")
        .with_app_id("regard")
        .with_inner_size([1280.0, 800.0])
        .with_min_inner_size([640.0, 480.0]);
    let options = eframe::NativeOptions { viewport, ..eframe::NativeOptions::default() };
    let example = example.unwrap_or(Example::ALL[0]);
    eframe::run_native("Regard", options, Box::new(move |cc| Ok(Box::new(App::new(&cc.egui_ctx, example)))))
}
