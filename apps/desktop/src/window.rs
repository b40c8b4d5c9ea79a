//! The window: eframe's shell around [`regard_ui::App`].

use std::ffi::OsString;
use std::sync::Arc;

use eframe::egui::{Ui, ViewportBuilder};
use regard_session::Start;
use regard_ui::App;

use crate::host::Native;
use crate::say::tell;

/// Opens the window, and returns when it is closed.
///
/// # Errors
/// The reason why there is no window: there is no display, or it has no OpenGL.
pub(crate) fn open(start: Start) -> Result<(), String> {
    if !has_display() {
        return Err("there is no display".to_owned());
    }
    run(start).map_err(|e| {
        // The text before the last colon is a place in the source of the window library.
        let reason = e.to_string();
        let reason = reason.rsplit(": ").next().unwrap_or_default();
        format!("the window could not be opened ({reason})")
    })
}

/// Whether a window can probably open. Only some systems tell this beforehand, by environment variables.
fn has_display() -> bool {
    let is_set =
        |name: &str| std::env::var_os(name).is_some_and(|value: OsString| !value.is_empty());
    let by_environment = cfg!(all(unix, not(target_vendor = "apple"), not(target_os = "android")));
    !by_environment || ["DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET"].into_iter().any(is_set)
}

fn run(start: Start) -> Result<(), eframe::Error> {
    let viewport = ViewportBuilder::default()
        .with_title("Regard")
        .with_app_id("regard")
        .with_inner_size([1280.0, 800.0])
        .with_min_inner_size([640.0, 480.0]);
    let options = eframe::NativeOptions {
        viewport,
        #[cfg(target_os = "linux")]
        event_loop_builder: Some(Box::new(|builder| {
            use winit::platform::x11::EventLoopBuilderExtX11 as _;
            if is_left_to_x11(|name| std::env::var_os(name)) {
                builder.with_x11();
            }
        })),
        ..eframe::NativeOptions::default()
    };
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
            Ok(Box::new(Shell(App::start(&cc.egui_ctx, Arc::new(Native), start))))
        }),
    )
}

/// Whether the window belongs on X11: the environment names a Wayland compositor that does not answer, and an X server. By itself,
/// winit tries the compositor alone.
#[cfg(target_os = "linux")]
fn is_left_to_x11(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> bool {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    let Some(socket) = set("WAYLAND_DISPLAY") else { return false };
    // An absolute path replaces the folder.
    let socket = std::path::PathBuf::from(set("XDG_RUNTIME_DIR").unwrap_or_default()).join(socket);
    set("WAYLAND_SOCKET").is_none()
        && set("DISPLAY").is_some()
        && std::os::unix::net::UnixStream::connect(socket).is_err()
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_compositor_that_does_not_answer_leaves_the_window_to_x11() {
        let folder = tempfile::tempdir().unwrap();
        let _listener =
            std::os::unix::net::UnixListener::bind(folder.path().join("wayland-0")).unwrap();
        let runtime = ("XDG_RUNTIME_DIR", folder.path().to_str().unwrap());
        let left = |variables: &[(&str, &str)]| {
            let all = [&[runtime], variables].concat();
            is_left_to_x11(|name| {
                all.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
            })
        };
        let x11 = ("DISPLAY", ":77");
        assert!(left(&[x11, ("WAYLAND_DISPLAY", "wayland-9")]));
        assert!(left(&[x11, ("WAYLAND_DISPLAY", "/nowhere/wayland-0")]));
        assert!(!left(&[x11, ("WAYLAND_DISPLAY", "wayland-0")]), "the compositor answers");
        assert!(!left(&[x11, ("WAYLAND_DISPLAY", "")]), "none is named");
        assert!(!left(&[x11]));
        assert!(!left(&[("WAYLAND_DISPLAY", "wayland-9")]), "there is nothing else to try");
        let inherited = [x11, ("WAYLAND_DISPLAY", "wayland-9"), ("WAYLAND_SOCKET", "3")];
        assert!(!left(&inherited), "an open socket needs no name");
    }
}
