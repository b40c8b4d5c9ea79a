//! The window: eframe's shell around [`regard_ui::App`].

use std::sync::Arc;

use eframe::egui::{Ui, ViewportBuilder};
use regard_ui::{App, Start};

use crate::host::Native;
use crate::say::tell;

/// Opens the window, and returns when it is closed.
///
/// # Errors
/// If no window can be opened, because there is no display, or it has no OpenGL.
pub fn run(start: Start) -> Result<(), eframe::Error> {
    let viewport = ViewportBuilder::default()
        .with_title("Regard")
        .with_app_id("regard")
        .with_inner_size([1280.0, 800.0])
        .with_min_inner_size([640.0, 480.0]);
    let options = eframe::NativeOptions { viewport, ..eframe::NativeOptions::default() };
    eframe::run_native(
        "Regard",
        options,
        Box::new(move |cc| {
            let ctx = cc.egui_ctx.clone();
            // Asking the system may take longer than opening the window.
            std::thread::spawn(move || {
                if is_still() {
                    ctx.all_styles_mut(|style| style.animation_time = 0.0);
                }
            });
            Ok(Box::new(Shell(start.app(&cc.egui_ctx, Arc::new(Native)))))
        }),
    )
}

/// Whether the user has asked the system for less motion.
fn is_still() -> bool {
    const ASK: (&str, &[&str], &str) = if cfg!(target_os = "macos") {
        ("defaults", &["read", "com.apple.universalaccess", "reduceMotion"], "1")
    } else if cfg!(windows) {
        let key = r"HKCU\Control Panel\Desktop\WindowMetrics";
        ("reg", &["query", key, "/v", "MinAnimate"], "0")
    } else {
        ("gsettings", &["get", "org.gnome.desktop.interface", "enable-animations"], "false")
    };
    let (program, args, yes) = ASK;
    let told = std::process::Command::new(program).args(args).output();
    told.is_ok_and(|told| told.stdout.trim_ascii_end().ends_with(yes.as_bytes()))
}

/// The window's contents, which eframe draws.
struct Shell(App);

impl eframe::App for Shell {
    fn ui(&mut self, ui: &mut Ui, _frame: &mut eframe::Frame) {
        self.0.ui(ui);
    }

    fn on_exit(&mut self, _gl: Option<&eframe::glow::Context>) {
        if let Err(e) = self.0.end() {
            tell(format_args!("regard: the session is not kept for the next start: {e:#}"));
        }
    }
}
