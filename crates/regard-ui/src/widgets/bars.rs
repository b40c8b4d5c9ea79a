//! Shares of a whole as bars, the largest first. A bar whose share changes moves to its new place.

use std::collections::BTreeMap;

use egui::accesskit::Role;
use egui::{Align2, Rect, Sense, TextStyle, Ui, WidgetInfo, pos2, vec2};

use super::Motion;
use crate::style;

/// A share with its name.
pub(crate) struct Bar<'a> {
    /// The identity of the bar: the id of a token.
    pub(crate) id: u32,
    pub(crate) name: &'a str,
    /// From 0 to 1.
    pub(crate) share: f32,
    /// The share in words: "81 %".
    pub(crate) text: String,
}

#[derive(Default)]
pub(crate) struct Bars {
    moving: BTreeMap<u32, Motion>,
}

impl Bars {
    /// Shows the first `shown` bars in an area of this width. The others stand below the area, from where they can move in.
    pub(crate) fn show(&mut self, ui: &mut Ui, width: f32, bars: &[Bar<'_>], shown: usize) {
        let font = TextStyle::Body.resolve(ui.style());
        let line = 1.7 * font.size;
        let (_, whole) = ui.allocate_space(vec2(width, line * shown as f32));
        let painter = ui.painter().with_clip_rect(ui.clip_rect().intersect(whole));
        let (name, number) = ((0.28 * width).min(7.0 * font.size), 5.0 * font.size);
        let empty = ui.visuals().widgets.noninteractive.bg_stroke.color.gamma_multiply(0.5);
        let full = ui.visuals().selection.bg_fill;
        self.moving.retain(|id, _| bars.iter().any(|bar| bar.id == *id));
        for (place, bar) in bars.iter().enumerate() {
            let moved = self.moving.entry(bar.id).or_default();
            let [at, share] = moved.towards(ui, &[place as f32, bar.share])[..] else { continue };
            let min = whole.min + vec2(0.0, at * line);
            let row = Rect::from_min_size(min, vec2(width, line));
            if place < shown {
                let response =
                    ui.interact(row, ui.scope_id().with(("bar", bar.id)), Sense::hover());
                let words = format!("{}: {}", bar.name, bar.text);
                response.widget_info(|| WidgetInfo::labeled(Role::Label, true, &words));
            }
            let (fill, color) = if place == 0 {
                (full, ui.visuals().strong_text_color())
            } else {
                (full.lerp_to_gamma(ui.visuals().panel_fill, 0.4), ui.visuals().text_color())
            };
            let length = (width - name - number).max(0.0);
            let of = |share: f32| {
                let size = vec2(length * share.clamp(0.0, 1.0), 0.62 * line);
                let left = pos2(row.left() + name, row.center().y - size.y / 2.0);
                Rect::from_min_size(left, size)
            };
            painter.rect_filled(of(1.0), 3, empty);
            painter.rect_filled(of(share), 3, fill);
            let galley = style::truncated(ui, bar.name, font.clone(), name - 8.0, color);
            let left = row.left() + name - 8.0 - galley.size().x;
            painter.galley(pos2(left, row.center().y - galley.size().y / 2.0), galley, color);
            painter.text(row.right_center(), Align2::RIGHT_CENTER, &bar.text, font.clone(), color);
        }
    }
}
