//! The appearance of the window in a session, and in egui.

use egui::{Context, ThemePreference, Vec2};
use regard_session::{Appearance, Theme};

/// Reads the theme from the window, and gives the window its zoom: that of the user, times that of the screen.
pub(crate) fn follow(appearance: &mut Appearance, ctx: &Context) {
    appearance.theme = match ctx.options(|options| options.theme_preference) {
        ThemePreference::Dark => Theme::Dark,
        ThemePreference::Light => Theme::Light,
        ThemePreference::System => Theme::System,
    };
    let points = ctx.content_rect().size() * ctx.zoom_factor();
    let scale = ctx.native_pixels_per_point().unwrap_or(1.0);
    ctx.set_zoom_factor(appearance.zoom * of_screen(points, scale));
}

/// Changes the zoom of the user.
pub(crate) fn zoom(appearance: &mut Appearance, by: f32) {
    appearance.zoom = (10.0 * (appearance.zoom + by)).round().clamp(2.0, 50.0) / 10.0;
}

/// The zoom with which the window fits a screen of this many points: letters are larger where the system leaves them small (a 4K
/// screen of scale 1), and smaller where it makes them large on few pixels (1280 × 800 of scale 1.5).
fn of_screen(points: Vec2, scale: f32) -> f32 {
    let larger = (points.x / 2560.0).min(points.y / 1440.0);
    let smaller = (points.x / 1024.0).min(points.y / 640.0);
    if larger > 1.0 {
        (4.0 * larger).floor().min(8.0) / 4.0
    } else if scale > 1.0 && scale < 2.0 {
        smaller.clamp(1.0 / scale, 1.0)
    } else {
        1.0
    }
}

/// Gives the window the theme.
pub(crate) fn apply(appearance: Appearance, ctx: &Context) {
    ctx.set_theme(match appearance.theme {
        Theme::Dark => ThemePreference::Dark,
        Theme::Light => ThemePreference::Light,
        Theme::System => ThemePreference::System,
    });
}

#[cfg(test)]
mod tests {
    use egui::vec2;

    use super::*;

    #[test]
    fn the_zoom_follows_the_screen() {
        for (pixels, scale, expected) in [
            (vec2(3840.0, 2160.0), 1.0, 1.5),
            (vec2(3840.0, 2160.0), 2.0, 1.0),
            (vec2(5120.0, 2880.0), 1.0, 2.0),
            (vec2(2560.0, 1440.0), 1.0, 1.0),
            (vec2(1920.0, 1080.0), 1.0, 1.0),
            (vec2(1280.0, 800.0), 1.0, 1.0),
            (vec2(1280.0, 800.0), 1.5, 0.833),
            (vec2(1170.0, 2532.0), 3.0, 1.0),
        ] {
            let zoom = of_screen(pixels / scale, scale);
            assert!((zoom - expected).abs() < 1e-3, "{pixels:?} of scale {scale}: {zoom}");
        }
    }
}
