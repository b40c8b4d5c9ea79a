//! The look: one type scale, one grid of 4 points, a dark and a light theme.

use std::collections::BTreeMap;
use std::sync::Arc;

use egui::style::ScrollStyle;
use egui::text::{LayoutJob, TextWrapping};
use egui::{
    Color32, Context, CornerRadius, FontData, FontDefinitions, FontFamily, FontId, Frame, Galley,
    Label, Margin, Panel, RichText, Stroke, TextStyle, Theme, Visuals, vec2,
};

/// The name of a step.
pub(crate) fn subheading() -> TextStyle {
    TextStyle::Name("subheading".into())
}

/// A number in a cell.
pub(crate) fn digits() -> TextStyle {
    TextStyle::Name("digits".into())
}

/// The colour that marks the query's row.
pub(crate) const QUERY: Color32 = Color32::from_rgb(0, 158, 115);

/// The colour that marks the key's row.
pub(crate) const KEY: Color32 = Color32::from_rgb(204, 121, 167);

/// The colour that marks a pinned cell.
pub(crate) const PIN: Color32 = Color32::from_rgb(86, 180, 233);

/// The colour that marks a cell that was typed over.
pub(crate) const EDITED: Color32 = Color32::from_rgb(240, 228, 66);

/// A token as a word of a sentence: without the mark of the space before it, or of the word that it goes on with.
pub(crate) fn lone(token: &str) -> String {
    if token == "<|endoftext|>" { "⟨start⟩".to_owned() } else { plain(token).to_owned() }
}

/// A token without those marks.
pub(crate) fn plain(token: &str) -> &str {
    let word = token.strip_prefix('␣').or_else(|| token.strip_prefix("##"));
    word.filter(|word| !word.is_empty()).unwrap_or(token)
}

/// One line of text, or a token as a word, truncated to a width.
pub(crate) fn truncated(
    ui: &egui::Ui,
    text: &str,
    font: FontId,
    width: f32,
    color: Color32,
) -> Arc<Galley> {
    let mut job = LayoutJob::simple_singleline(lone(text), font, color);
    job.wrap = TextWrapping::truncate_at_width(width);
    ui.painter().layout_job(job)
}

/// Sets fonts, spacing and both themes. The theme follows the system until the user chooses one.
pub(crate) fn apply(ctx: &Context) {
    ctx.set_fonts(fonts());
    ctx.all_styles_mut(|style| {
        style.text_styles = text_styles();
        style.spacing.item_spacing = vec2(8.0, 8.0);
        style.spacing.button_padding = vec2(8.0, 4.0);
        style.spacing.interact_size.y = 24.0;
        style.spacing.tooltip_width = 480.0;
        // The bar has room of its own, so that it covers nothing.
        style.spacing.scroll = ScrollStyle::thin();
        style.interaction.selectable_labels = true;
    });
    for theme in [Theme::Dark, Theme::Light] {
        ctx.set_visuals_of(theme, visuals(theme));
    }
}

/// Makes all text of a part of the window larger by a factor. The heatmaps in it grow with their numbers.
pub(crate) fn enlarge(ui: &mut egui::Ui, factor: f32) {
    if factor != 1.0 {
        ui.style_mut().text_styles.values_mut().for_each(|font| font.size *= factor);
    }
}

/// Makes the numbers of heatmaps larger by a factor, and their labels by its root.
pub(crate) fn enlarge_numbers(ui: &mut egui::Ui, factor: f32) {
    if factor != 1.0 {
        for (style, font) in &mut ui.style_mut().text_styles {
            font.size *= if *style == digits() { factor } else { factor.sqrt() };
        }
    }
}

/// The ratio of the size of a heatmap's numbers to that in a plain part of the window.
pub(crate) fn enlarged(ui: &egui::Ui) -> f32 {
    digits().resolve(ui.style()).size / DIGITS
}

pub(crate) const SMALL: f32 = 12.5;

/// The size of a number in a cell.
const DIGITS: f32 = 11.5;

pub(crate) fn panel(ui: &egui::Ui, x: i8, y: i8) -> Frame {
    Frame::new().fill(ui.visuals().panel_fill).inner_margin(Margin::symmetric(x, y))
}

/// The panel at the bottom of a room. It describes the item under the pointer.
pub(crate) fn readout(ui: &egui::Ui) -> Panel {
    Panel::bottom("readout").resizable(false).exact_size(44.0).frame(panel(ui, 16, 8))
}

/// Describes the item under the pointer, or else hints at the possible actions.
pub(crate) fn describe(ui: &mut egui::Ui, text: Option<&str>, hint: &str) {
    ui.take_available_space();
    let hint = || RichText::new(hint).weak();
    let text = text.map_or_else(hint, |text| RichText::new(text).monospace());
    ui.add(Label::new(text).truncate());
}

/// The frame of a step.
pub(crate) fn card(visuals: &Visuals) -> Frame {
    Frame::new()
        .fill(visuals.faint_bg_color)
        .stroke(visuals.widgets.noninteractive.bg_stroke)
        .corner_radius(8)
        .inner_margin(Margin::same(CARD_MARGIN))
}

pub(crate) const CARD_MARGIN: i8 = 12;

/// One typeface for all texts. Signs of other scripts come from egui's fonts, or in a page from the browser.
fn fonts() -> FontDefinitions {
    #[cfg(target_arch = "wasm32")]
    return own_fonts(FontDefinitions::empty());
    #[cfg(not(target_arch = "wasm32"))]
    own_fonts(FontDefinitions::default())
}

/// Puts the window's own fonts before others.
fn own_fonts(mut fonts: FontDefinitions) -> FontDefinitions {
    let files = [
        ("regard-sans", regard_figure::fonts::SANS, 1.0),
        ("regard-symbols", regard_figure::fonts::SYMBOLS, 1.0),
        ("egui-icons", include_bytes!("../assets/egui-icons.ttf"), 0.9), // the size in egui
    ];
    let own = files.map(|(name, ..)| name.to_owned());
    for (name, file, scale) in files {
        let tweak = egui::FontTweak { scale, ..egui::FontTweak::default() };
        let data = FontData::from_static(file).tweak(tweak);
        fonts.font_data.insert(name.to_owned(), Arc::new(data));
    }
    for family in [FontFamily::Proportional, FontFamily::Monospace] {
        fonts.families.entry(family).or_default().splice(0..0, own.clone());
    }
    fonts
}

fn text_styles() -> BTreeMap<TextStyle, FontId> {
    use FontFamily::{Monospace, Proportional};
    [
        (TextStyle::Small, FontId::new(SMALL, Proportional)),
        (TextStyle::Body, FontId::new(14.5, Proportional)),
        (TextStyle::Button, FontId::new(14.5, Proportional)),
        (TextStyle::Monospace, FontId::new(13.0, Monospace)),
        (digits(), FontId::new(DIGITS, Monospace)),
        (subheading(), FontId::new(17.0, Proportional)),
        (TextStyle::Heading, FontId::new(20.0, Proportional)),
    ]
    .into()
}

/// The colours of a theme. Each line has the dark colour before the light one.
fn visuals(theme: Theme) -> Visuals {
    let color = |dark: [u8; 3], light: [u8; 3]| {
        let [r, g, b] = if theme == Theme::Dark { dark } else { light };
        Color32::from_rgb(r, g, b)
    };
    let mut visuals = theme.default_visuals();
    visuals.panel_fill = color([20, 22, 27], [243, 244, 247]);
    visuals.window_fill = color([34, 37, 44], [255, 255, 255]);
    visuals.faint_bg_color = color([29, 32, 39], [255, 255, 255]);
    visuals.extreme_bg_color = color([12, 13, 17], [255, 255, 255]);
    visuals.weak_text_color = Some(color([154, 160, 172], [92, 98, 110]));
    visuals.error_fg_color = color([255, 122, 112], [180, 22, 22]);
    visuals.warn_fg_color = color([255, 176, 84], [150, 80, 0]);
    visuals.slider_trailing_fill = true;
    let widgets = &mut visuals.widgets;
    widgets.noninteractive.bg_stroke = Stroke::new(1.0, color([48, 52, 62], [214, 218, 226]));
    widgets.noninteractive.fg_stroke.color = color([208, 211, 218], [38, 42, 50]);
    widgets.inactive.fg_stroke.color = color([220, 223, 230], [38, 42, 50]);
    widgets.inactive.bg_fill = color([98, 104, 117], [132, 138, 150]);
    widgets.hovered.bg_fill = color([118, 124, 138], [114, 120, 132]);
    widgets.active.bg_fill = color([84, 90, 102], [146, 152, 164]);
    for state in [
        &mut widgets.noninteractive,
        &mut widgets.inactive,
        &mut widgets.hovered,
        &mut widgets.active,
        &mut widgets.open,
    ] {
        state.corner_radius = CornerRadius::same(6);
    }
    visuals
}

/// The background of a message of this colour.
pub(crate) fn tinted(visuals: &Visuals, color: Color32) -> Color32 {
    visuals.panel_fill.lerp_to_gamma(color, 0.1)
}

/// The text colour for a marking colour.
pub(crate) fn readable(color: Color32, visuals: &Visuals) -> Color32 {
    let towards = if visuals.dark_mode { Color32::WHITE } else { Color32::BLACK };
    color.lerp_to_gamma(towards, 0.3)
}

/// Sets the width of an overlay of the window: `wide` points, or less in a narrow window.
pub(crate) fn set_modal_width(ui: &mut egui::Ui, wide: f32) {
    const MARGINS: f32 = 64.0;
    const LEAST: f32 = 64.0;
    ui.set_width(wide.min(ui.ctx().content_rect().width() - MARGINS).max(LEAST));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contrast of the Web Content Accessibility Guidelines 2.2, which require 4.5 (3 for large text).
    fn contrast(a: Color32, b: Color32) -> f32 {
        let luminance = |c: Color32| {
            let [r, g, b, _] = egui::Rgba::from(c).to_array();
            0.2126 * r + 0.7152 * g + 0.0722 * b
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// Every sign in the sources of the texts.
    fn signs() -> std::collections::BTreeSet<char> {
        let mut folders: Vec<_> = ["ui", "session", "walkthrough", "heads", "figure", "models"]
            .map(|name| format!("{}/../regard-{name}/src", env!("CARGO_MANIFEST_DIR")).into())
            .into();
        let mut signs = std::collections::BTreeSet::new();
        while let Some(folder) = folders.pop() {
            let folder: std::path::PathBuf = folder;
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    signs.extend(std::fs::read_to_string(path).unwrap().chars());
                }
            }
        }
        signs
    }

    #[test]
    fn the_fonts_have_every_sign_of_the_texts() {
        let [own, page] =
            [FontDefinitions::default(), own_fonts(FontDefinitions::empty())].map(|fonts| {
                let ctx = Context::default();
                ctx.set_fonts(fonts);
                ctx.run_ui(egui::RawInput::default(), |_| ()).textures_delta.clear();
                move |font: &FontId, sign| ctx.fonts_mut(|fonts| fonts.has_glyph(font, sign))
            });
        let signs = signs();
        assert!(signs.contains(&'√') && signs.contains(&'a'));
        for font in [FontId::proportional(14.5), FontId::monospace(11.5)] {
            let lost: Vec<char> = signs
                .iter()
                .copied()
                .filter(|sign| own(&font, *sign) && !page(&font, *sign))
                .collect();
            assert!(
                lost.is_empty(),
                "{font:?} lacks {lost:?}: add them in crates/regard-figure/fonts/make.py"
            );
        }
    }

    #[test]
    fn text_can_be_read_in_both_themes() {
        for visuals in [Theme::Dark, Theme::Light].map(visuals) {
            let ground = visuals.panel_fill;
            let texts = [
                visuals.text_color(),
                visuals.strong_text_color(),
                visuals.weak_text_color(),
                visuals.error_fg_color,
                visuals.warn_fg_color,
                readable(QUERY, &visuals),
                readable(KEY, &visuals),
            ];
            for text in texts {
                assert!(
                    contrast(text, ground) >= 4.5,
                    "{text:?} on {ground:?}: {}",
                    contrast(text, ground)
                );
            }
            // A sign that is not text, such as an unchecked box, needs 3, and so does its check mark.
            for state in [&visuals.widgets.inactive, &visuals.widgets.hovered] {
                let (fill, mark) = (state.bg_fill, state.fg_stroke.color);
                assert!(contrast(fill, ground) >= 3.0, "{fill:?}: {}", contrast(fill, ground));
                assert!(contrast(mark, fill) >= 3.0, "{mark:?}: {}", contrast(mark, fill));
            }
            for text in [visuals.text_color(), visuals.error_fg_color] {
                let ground = tinted(&visuals, text);
                assert!(
                    ground.is_opaque() && contrast(text, ground) >= 4.5,
                    "{text:?} on {ground:?}"
                );
            }
        }
    }
}
