//! The logit lens: the model's prediction if it ended after each layer.

use std::sync::Arc;

use egui::accesskit::Role;
use egui::{Align2, Rect, ScrollArea, Sense, TextStyle, Ui, Vec2, WidgetInfo, vec2};
use regard_heads::readable;
use regard_models::{Change, Description, Input, Model};
use serde::{Deserialize, Serialize};

use super::Loaded;
use super::Unchanged;
use super::percent;
use crate::colors::{Colors as _, Look, Palette, ink_on};
use crate::explain::{explanation, title};
use crate::style;
use crate::work::{Background, Latest, Question, Steps, Tell, at_once};

/// The least size of a cell.
const LEAST: Vec2 = vec2(50.0, 26.0);
/// From this width of a cell on, its text grows with it, up to a limit.
const ROOMY: f32 = 84.0;
const MOST_ENLARGED: f32 = 2.0;
/// The width of the names of the layers.
const NAMES: f32 = 84.0;
/// The gap between two cells.
const GAP: f32 = 2.0;

#[derive(Serialize, Deserialize)]
pub(crate) struct Predictions {
    /// The token or the class and its probability, by layer and position: the embedding, then the layers. The number that a
    /// regression predicts has no probability.
    pub(crate) rows: Vec<Vec<(String, Option<f32>)>>,
}

pub(super) fn show(
    ui: &mut Ui,
    predictions: &Latest<Predict, Predictions>,
    tokens: &[String],
    look: Look,
) {
    title(ui, "Logit lens: the likeliest token after each layer", explanation!("Logit lens"));
    predictions.show(ui, "Computing the lens");
    if let Some(predictions) = predictions.value() {
        predictions.show(ui, tokens, look);
    }
}

/// Asks for the likeliest token after each layer of a run.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Predict {
    pub(crate) model: u64,
    pub(crate) run: u64,
    pub(crate) changes: Vec<Change>,
}

impl Question for Predict {
    type Answer = Predictions;
    const NAME: &'static str = "lens";

    fn begin(self, background: Arc<Background>) -> impl Steps<Predictions> {
        at_once(move |tell| {
            let opened = background.held::<Loaded>(self.model)?;
            let unchanged = background.part::<Unchanged>(self.run)?;
            Predictions::new(&opened.model, self.changes, &unchanged.input, tell)
        })
    }
}

impl Predictions {
    fn new(
        model: &Model,
        changes: Vec<Change>,
        input: &Input,
        tell: &Tell,
    ) -> Result<Self, String> {
        let places = model.description().streams();
        let pass = model.pass().keep(places.clone());
        let pass = changes.into_iter().fold(pass, regard_models::Pass::change);
        let trace = pass.last_logits().run(input).map_err(|e| e.to_string())?;
        let (description, mut found) = (model.description(), Vec::new());
        for (i, place) in places.iter().enumerate() {
            let stream = trace.at(*place).ok_or("the run has kept no residual stream")?;
            let logits = model.lens(stream).map_err(|e| e.to_string())?;
            let logits = logits.ok_or("The model predicts no tokens.")?;
            let cols = logits.shape.last().copied().unwrap_or(1).max(1);
            let likeliest = |logits| likeliest(description, logits);
            found.push(logits.data.chunks_exact(cols).map(likeliest).collect::<Vec<_>>());
            if tell((i + 1) as f32 / places.len() as f32).is_break() {
                return Err("cancelled".to_owned());
            }
        }
        // The kind of tokenizer follows from all tokens together. Classes have names of their own.
        let each = found.iter().flatten();
        let names: Vec<String> = if description.classifies() {
            let class = |(id, logit, share): &(usize, f32, Option<f32>)| {
                let name = model.output_name(*id);
                if share.is_some() { name } else { format!("{name} {logit:.3}") }
            };
            each.map(class).collect()
        } else {
            let names = readable(each.map(|(id, ..)| model.output_name(*id)).collect());
            names.into_iter().map(|label| label.text).collect()
        };
        let mut names = names.into_iter();
        let row = |row: Vec<(usize, f32, Option<f32>)>| {
            row.into_iter().filter_map(|(.., p)| Some((names.next()?, p))).collect()
        };
        Ok(Self { rows: found.into_iter().map(row).collect() })
    }

    fn show(&self, ui: &mut Ui, tokens: &[String], look: Look) {
        let palette = Palette::weights(1.0, look);
        // The table fills the page. One row holds the tokens; cells are at most half as high as wide.
        let n = vec2(tokens.len().max(1) as f32, self.rows.len() as f32 + 1.0);
        let room = ui.available_size();
        let width = (room.x - NAMES) / n.x - GAP;
        let factor = (width / ROOMY).clamp(1.0, MOST_ENLARGED);
        style::enlarge(ui, factor);
        let names = factor * NAMES;
        let width = ((room.x - names) / n.x - GAP).max(LEAST.x);
        let height = (room.y / n.y - GAP).min(0.5 * width).max(factor * LEAST.y);
        let size = vec2(width, height).floor();
        let name = |i: usize| match i.checked_sub(1) {
            None => "embedding".to_owned(),
            Some(layer) => format!("layer {layer}"),
        };
        ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
            ui.spacing_mut().item_spacing = Vec2::splat(GAP);
            ui.horizontal_top(|ui| {
                ui.vertical(|ui| {
                    let of_name = vec2(names, size.y);
                    ui.allocate_exact_size(of_name, Sense::hover());
                    for i in 0..self.rows.len() {
                        let (rect, _) = ui.allocate_exact_size(of_name, Sense::hover());
                        let font = TextStyle::Body.resolve(ui.style());
                        let color = ui.visuals().text_color();
                        let (at, align) = (rect.left_center(), Align2::LEFT_CENTER);
                        ui.painter().text(at, align, name(i), font, color);
                    }
                });
                // The last column, the prediction, is visible first.
                let scroll = ScrollArea::horizontal().stick_to_right(true);
                scroll.show(ui, |ui| {
                    ui.vertical(|ui| {
                        self.cells(ui, tokens, size, palette, &name);
                    });
                });
            });
        });
    }

    fn cells(
        &self,
        ui: &mut Ui,
        tokens: &[String],
        size: Vec2,
        palette: Palette,
        name: &dyn Fn(usize) -> String,
    ) {
        // A model that classifies has one prediction of all tokens.
        let all = ["all tokens".to_owned()];
        let is_of_all = self.rows.first().is_some_and(|row| row.len() == 1) && tokens.len() > 1;
        let tokens = if is_of_all { &all } else { tokens };
        ui.horizontal(|ui| {
            for token in tokens {
                let (rect, _) = ui.allocate_exact_size(size, Sense::hover());
                text(ui, token, rect, ui.visuals().weak_text_color());
            }
        });
        for (i, row) in self.rows.iter().enumerate() {
            ui.horizontal(|ui| {
                for ((token, p), position) in row.iter().zip(tokens) {
                    let (rect, response) = ui.allocate_exact_size(size, Sense::hover());
                    let mut words = format!("{}, after {position}: {token}", name(i));
                    if let Some(p) = p {
                        words = format!("{words}, {}", percent(*p));
                    }
                    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, &words));
                    let color = palette.color(p.unwrap_or_default());
                    ui.painter().rect_filled(rect, 3, color);
                    text(ui, token, rect, ink_on(color));
                    response.on_hover_text(words);
                }
            });
        }
    }
}

/// The largest of some logits, and its probability.
fn likeliest(description: &Description, logits: &[f32]) -> (usize, f32, Option<f32>) {
    let mut best = (0, f32::NEG_INFINITY);
    for (id, x) in logits.iter().enumerate() {
        if *x > best.1 {
            best = (id, *x);
        }
    }
    let probability = description.probabilities(logits).and_then(|all| all.get(best.0).copied());
    (best.0, best.1, probability.map(|p| p as f32))
}

/// One line in the middle of a cell, truncated if it does not fit.
fn text(ui: &Ui, text: &str, rect: Rect, color: egui::Color32) {
    let font = TextStyle::Small.resolve(ui.style());
    let galley = style::truncated(ui, text, font, rect.width() - 6.0, color);
    ui.painter().galley(rect.center() - galley.size() / 2.0, galley, color);
}
