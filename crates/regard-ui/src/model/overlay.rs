//! The attention of a head over the patches of an image, or over a spectrogram.

use std::sync::Arc;

use egui::accesskit::Role;
use egui::{
    ColorImage, Id, Pos2, Rect, RichText, Sense, Stroke, StrokeKind, TextureHandle, TextureOptions,
    Ui, Vec2, WidgetInfo, pos2, vec2,
};

use regard_models::{Patches, Which};

use regard_session::model::Pixels;

use crate::colors::{Colors as _, Look};
use crate::explain::{explanation, title};
use crate::heads::{HeadsState, Large, Side};
use crate::{numbers, style};

/// An image narrower than this, of several side by side, has no words above it.
const NARROW: f32 = 300.0;
/// The opacity of the smallest and of the largest weight.
const OPACITY: [f32; 2] = [0.08, 0.78];

/// The parts of a picture that are tokens of the model.
#[derive(Clone, Copy)]
pub(super) enum PictureParts<'a> {
    /// Patches, and the tokens before them.
    Patches(Patches),
    /// Positions of a recording, with the labels of the queries and of the positions.
    Times(&'a [Vec<String>; 2], Which),
}

/// The texture of the image.
#[derive(Default)]
pub(super) struct Overlay(Option<(Arc<Pixels>, TextureHandle)>);

impl Overlay {
    /// Shows the image with the weights of a query over its parts, in at most the given room.
    pub(crate) fn show(
        &mut self,
        ui: &mut Ui,
        picture: &Arc<Pixels>,
        parts: PictureParts<'_>,
        large: &Large,
        state: &mut HeadsState,
        look: Look,
        room: Vec2,
    ) {
        let ([rows, cols], first, queries) = match parts {
            PictureParts::Patches(patches) => (patches.grid(), patches.before(), patches.tokens()),
            PictureParts::Times([queries, times], _) => ([1, times.len()], 0, queries.len()),
        };
        let is_image = matches!(parts, PictureParts::Patches(_));
        // The parts are also the queries.
        let is_self = !matches!(parts, PictureParts::Times(_, Which::Cross));
        let fits = |numbers: &[f32]| numbers.len() == queries * (first + rows * cols);
        let matrix = large.selected().filter(|selected| fits(&selected.numbers));
        let palette = matrix.and_then(|_| Some(large.matrix(look)?.palette));
        let kept = match state.isolated {
            Some((Side::Queries, i)) => Some(i),
            _ => None,
        };
        // Images side by side share the hovered patch.
        let hovered_id = Id::unique("pointed patch");
        let pointed: Option<usize> = ui.data(|data| data.get_temp(hovered_id)).flatten();
        let on_map = large.hovered().map(|(row, _)| row);
        let chosen = state.chosen.map(|(row, _)| row);
        let query = pointed.filter(|_| is_self).or(on_map).or(kept).or(chosen);
        // The default query of a decoder is its last token.
        let last = queries.saturating_sub(1);
        let query = query.unwrap_or(if is_self { 0 } else { last }).min(last);
        let name = |side: Side, token: usize| match parts {
            PictureParts::Times([queries, times], _) => {
                let labels = if side == Side::Queries { queries } else { times };
                labels.get(token).cloned().unwrap_or_default()
            }
            PictureParts::Patches(patches) => patches.name(token),
        };
        let of_query = name(Side::Queries, query);
        let weight = |key: usize| matrix?.number(query, key).filter(|w| w.is_finite());
        let is_narrow = room.x < NARROW && !large.of.is_empty();
        if !is_narrow {
            let (what, text) = if is_image {
                ("image", explanation!("Weights over an image"))
            } else {
                ("spectrogram", explanation!("Weights over a spectrogram"))
            };
            title(ui, &format!("Weights of {of_query} over the {what}"), text);
        }
        // The tokens before the patches.
        let of_others = |ui: &mut Ui| {
            for token in 0..first {
                let own = name(Side::Queries, token);
                let says = match own.as_str() {
                    "[CLS]" => "Show what the class token attends to.".to_owned(),
                    "[DIST]" => "Show what the distillation token attends to.".to_owned(),
                    _ => {
                        format!("Show what {own} attends to, a token without a place in the image.")
                    }
                };
                let button = ui.selectable_label(query == token, &own);
                if button.on_hover_text(says).clicked() {
                    state.isolated = Some((Side::Queries, token));
                }
                if is_narrow {
                    continue;
                }
                // As wide for each query, so that a click moves neither a token nor the image below.
                let itself = if query == token { " itself" } else { "" };
                let number =
                    weight(token).map_or_else(|| "    ".to_owned(), |w| numbers::fixed(w, 2));
                let words = format!("weight on {own}{itself}: {number}");
                let label = ui.label(RichText::new(number).monospace().weak());
                label.widget_info(|| WidgetInfo::labeled(Role::Label, true, &words));
                label.on_hover_text(words);
            }
        };
        if is_image && first > 0 {
            ui.horizontal_wrapped(of_others);
        }

        let size = vec2(picture.size[1] as f32, picture.size[0] as f32);
        // Time and frequency have no common scale.
        let size = if is_image { size * (room.x / size.x).min(room.y / size.y) } else { room };
        let (whole, _) = ui.allocate_exact_size(size.floor(), Sense::hover());
        let texture = self.texture(ui, picture);
        let corners = Rect::from_min_max(Pos2::ZERO, pos2(1.0, 1.0));
        ui.painter().image(texture, whole, corners, egui::Color32::WHITE);
        let cell = vec2(whole.width() / cols.max(1) as f32, whole.height() / rows.max(1) as f32);
        let largest = (first..first + rows * cols)
            .filter_map(weight)
            .map(f32::abs)
            .fold(f32::MIN_POSITIVE, f32::max);
        let mut now = None;
        for patch in 0..rows * cols {
            let (i, j) = (patch / cols, patch % cols);
            let rect = Rect::from_min_size(whole.min + cell * vec2(j as f32, i as f32), cell);
            let token = patch + first;
            let response = ui.interact(rect, ui.scope_id().with(("patch", patch)), Sense::click());
            let words = match weight(token) {
                Some(weight) => format!(
                    "{}, weight {} from {of_query}",
                    name(Side::Keys, token),
                    numbers::spoken(weight)
                ),
                None => name(Side::Keys, token),
            };
            let words = if large.of.is_empty() { words } else { format!("{words}, {}", large.of) };
            response.widget_info(|| WidgetInfo::labeled(Role::Button, true, &words));
            if let Some((palette, weight)) = palette.zip(weight(token)) {
                let [least, most] = OPACITY;
                let opacity = least + (most - least) * weight.abs() / largest;
                // All patches share the colours of one row of the heatmap.
                let color = palette.color(weight).gamma_multiply(opacity);
                ui.painter().rect_filled(rect, 0, color);
            }
            if is_self && token == query {
                let stroke = Stroke::new(2.0, style::QUERY);
                ui.painter().rect_stroke(rect, 0, stroke, StrokeKind::Inside);
            }
            if response.clicked() && !is_self {
                state.chosen = Some((query, token));
            } else if response.clicked() {
                let again = state.isolated == Some((Side::Queries, token));
                state.isolated = (!again).then_some((Side::Queries, token));
            }
            if response.hovered() || response.has_focus() {
                now = Some(token);
            }
            response.on_hover_text(words);
        }
        if matrix.is_none() {
            ui.label(RichText::new("Click a head to see its weights here.").small().weak());
        }
        if now != pointed {
            ui.data_mut(|data| data.insert_temp(hovered_id, now));
            ui.ctx().request_repaint();
        }
    }

    /// The image that was shown last.
    #[cfg(test)]
    pub(crate) fn picture(&self) -> Option<&Pixels> {
        self.0.as_ref().map(|(picture, _)| &**picture)
    }

    fn texture(&mut self, ui: &Ui, picture: &Arc<Pixels>) -> egui::TextureId {
        if let Some((shown, texture)) = &self.0
            && Arc::ptr_eq(shown, picture)
        {
            return texture.id();
        }
        // A small image has sharp pixels.
        let is_small = picture.size.iter().all(|side| *side <= 32);
        let options = if is_small { TextureOptions::NEAREST } else { TextureOptions::LINEAR };
        let [height, width] = picture.size;
        let image = ColorImage::from_rgb([width, height], &picture.rgb);
        let texture = ui.ctx().load_texture("image", image, options);
        let id = texture.id();
        self.0 = Some((Arc::clone(picture), texture));
        id
    }
}
