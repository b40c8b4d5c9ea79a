//! An unfolded weight: the steps from a query and a key to the weight.

use std::sync::Arc;

use egui::accesskit::Role;
use egui::{Painter, Rect, RichText, Sense, TextStyle, Ui, WidgetInfo, pos2, vec2};
use regard_models::{Change, HeadAddress, Pass, Score};
use serde::{Deserialize, Serialize};

use super::Loaded;
use super::Unchanged;
use super::percent;
use crate::colors::{Colors as _, Look, Palette, ink_on, largest};
use crate::explain::{explanation, label};
use crate::heatmap::{Cell, look};
use crate::style::lone;
use crate::work::{Background, Question, Steps, at_once};
use crate::{numbers, temperature};

/// Asks for a weight of a run.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Unfold {
    pub(crate) model: u64,
    pub(crate) run: u64,
    pub(crate) changes: Vec<Change>,
    pub(crate) head: HeadAddress,
    pub(crate) cell: Cell,
}

impl Question for Unfold {
    type Answer = Score;
    const NAME: &'static str = "score";

    fn begin(self, background: Arc<Background>) -> impl Steps<Score> {
        at_once(move |_| {
            let opened = background.held::<Loaded>(self.model)?;
            let run = background.part::<Unchanged>(self.run)?;
            let pass = self.changes.into_iter().fold(opened.model.pass(), Pass::change);
            let (query, key) = self.cell;
            pass.score(&run.input, self.head, query, key).map_err(|e| e.to_string())
        })
    }
}

/// Shows the steps as pictures and in numbers. `weights` are those of the query.
pub(super) fn show(ui: &mut Ui, of: &Unfold, score: &Score, run: &Unchanged, weights: &[f32]) {
    let [queries, keys] = run.heads.of(of.head.attention).labels();
    let token = |all: &[String], i: usize| all.get(i).cloned().unwrap_or_default();
    let (query, key) = (token(queries, score.query), token(keys, score.key));
    let name = format!("Weight of {} → {}", lone(&query), lone(&key));
    label(ui, &name, explanation!("A weight step by step"));
    ui.spacing_mut().item_spacing.y = 2.0;
    let look = look::remembered(ui.ctx());
    strip(ui, &format!("Query of “{}”", lone(&query)), &score.q, look);
    strip(ui, &format!("Key of “{}”", lone(&key)), &score.k, look);
    products(ui, &score.products, look);
    for line in lines(score) {
        ui.monospace(line);
    }
    shares(ui, queries, keys, score, weights, look);
}

/// A named row of pictures with the number under the pointer. `draw` draws one number in its place.
fn row(
    ui: &mut Ui,
    name: &str,
    height: f32,
    numbers: &[f32],
    draw: impl Fn(&Painter, Rect, usize),
) {
    ui.label(RichText::new(name).small().weak());
    let (rect, response) =
        ui.allocate_exact_size(vec2(ui.available_width(), height), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Image, true, name));
    let step = rect.width() / numbers.len().max(1) as f32;
    for i in 0..numbers.len() {
        let min = rect.min + vec2(i as f32 * step, 0.0);
        draw(ui.painter(), Rect::from_min_size(min, vec2((step - 1.0).max(0.5), height)), i);
    }
    let under = response.hover_pos().map(|at| ((at.x - rect.left()) / step) as usize);
    if let Some((i, x)) = under.and_then(|i| Some((i, numbers.get(i)?))) {
        response.on_hover_text_at_pointer(format!("{i}: {}", numbers::spoken(*x)));
    }
}

/// The numbers of a query or of a key.
fn strip(ui: &mut Ui, name: &str, numbers: &[f32], look: Look) {
    let palette = Palette::signed(largest(numbers), look);
    row(ui, name, 14.0, numbers, |painter, rect, i| {
        painter.rect_filled(rect, 0, palette.color(numbers[i]));
    });
}

/// The products as bars, up or down.
fn products(ui: &mut Ui, products: &[f64], look: Look) {
    let products: Vec<f32> = products.iter().map(|x| *x as f32).collect();
    let most = largest(&products);
    let palette = Palette::signed(most, look);
    row(ui, "Their products, added up: the score", 40.0, &products, |painter, rect, i| {
        let [up, down] = [products[i].max(0.0), (-products[i]).max(0.0)];
        let at = |x: f32| rect.center().y + x / most.max(f32::MIN_POSITIVE) * rect.height() / 2.0;
        let bar = Rect::from_x_y_ranges(rect.x_range(), at(-up)..=at(down).max(at(-up) + 1.0));
        painter.rect_filled(bar, 0, palette.color(most.copysign(products[i])));
    });
}

/// The weights of the query as shares of 1, each with its key where it fits.
fn shares(
    ui: &mut Ui,
    queries: &[String],
    keys: &[String],
    score: &Score,
    weights: &[f32],
    look: Look,
) {
    if weights.len() != keys.len() || score.query >= queries.len() {
        return;
    }
    ui.label(RichText::new("Softmax: the scores become shares of 1").small().weak());
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 20.0), Sense::hover());
    let palette = Palette::weights(1.0, look);
    let font = TextStyle::Small.resolve(ui.style());
    let (mut left, mut words) = (rect.left(), String::new());
    for (i, weight) in weights.iter().enumerate() {
        let width = weight.clamp(0.0, 1.0) * rect.width();
        let share = Rect::from_min_size(pos2(left, rect.top()), vec2(width, rect.height()));
        left += width;
        if width < 1.0 {
            continue;
        }
        let color = palette.color(*weight);
        ui.painter().rect_filled(share.shrink2(vec2(0.5, 0.0)), 2, color);
        let name = lone(&keys[i]);
        words = format!("{words}{name} {}  ", percent(*weight));
        let galley = ui.painter().layout_no_wrap(name, font.clone(), ink_on(color));
        if galley.size().x + 6.0 <= width {
            let at = share.left_center() + vec2(4.0, -galley.size().y / 2.0);
            ui.painter().galley(at, galley, ink_on(color));
        }
    }
    response.widget_info(|| WidgetInfo::labeled(Role::Image, true, words.trim()));
    response.on_hover_text_at_pointer(words.trim());
}

fn lines(score: &Score) -> Vec<String> {
    let spoken = numbers::spoken;
    let mut lines = vec![
        format!("q·k = {} ({} products)", spoken(score.dot.value), score.products.len()),
        format!("× {} (scale) = {}", spoken(score.scale), spoken(score.scaled)),
    ];
    if let Some(cap) = score.softcap {
        lines.push(format!("soft cap {} → {}", spoken(cap), spoken(score.capped)));
    }
    if let Some([query, key]) = score.of_positions {
        lines.push(format!("+ {} (query · key of the distance)", spoken(query)));
        lines.push(format!("+ {} (key · query of the distance)", spoken(key)));
    } else if let Some(bias) = score.bias {
        lines.push(format!("+ {} (relative position bias)", spoken(bias)));
    }
    let (Some(own), Some(maximum)) = (score.score, score.maximum) else {
        let why = match score.hidden {
            Some(regard_models::WhyHidden::Cut) => "the edge is cut",
            Some(regard_models::WhyHidden::Window) => "the key lies outside the window",
            _ => "the key comes after the query",
        };
        lines.push(format!("masked: {why}"));
        lines.push("weight = 0".to_owned());
        return lines;
    };
    let (divided, unit) = if score.temperature == 1.0 {
        (String::new(), 1.0)
    } else {
        let t = temperature::text(f64::from(score.temperature));
        (format!(" / {t}"), score.temperature)
    };
    let power = ((f64::from(own) - f64::from(maximum)) / f64::from(unit)).exp() as f32;
    let difference = format!("{} − {}", spoken(own), spoken(maximum));
    let exponent = if unit == 1.0 { difference } else { format!("({difference}){divided}") };
    lines.push(format!("e^({exponent}) = {}", spoken(power)));
    lines.push(format!("÷ {} (sum) = {}", spoken(score.sum as f32), spoken(score.weight.value)));
    let error = numbers::error(score.weight.error.abs());
    lines.push(format!("in f64: {:.9}, error {error}", score.weight.reference));
    lines
}
