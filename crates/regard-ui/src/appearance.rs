//! The appearance of the window in a session, and in egui.

use egui::{Context, ThemePreference};
use regard_session::{Appearance, Theme};

/// Reads the appearance from the window.
pub(crate) fn follow(appearance: &mut Appearance, ctx: &Context) {
    appearance.theme = match ctx.options(|options| options.theme_preference) {
        ThemePreference::Dark => Theme::Dark,
        ThemePreference::Light => Theme::Light,
        ThemePreference::System => Theme::System,
    };
    appearance.zoom = ctx.zoom_factor();
}

/// Gives the window this appearance.
pub(crate) fn apply(appearance: Appearance, ctx: &Context) {
    ctx.set_theme(match appearance.theme {
        Theme::Dark => ThemePreference::Dark,
        Theme::Light => ThemePreference::Light,
        Theme::System => ThemePreference::System,
    });
    ctx.set_zoom_factor(appearance.zoom);
}
