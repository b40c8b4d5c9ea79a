//! Direct logit attribution: the contribution of each part of the model to a logit or a difference.

use std::sync::Arc;

use egui::{ComboBox, Ui};
use regard_figure::{LabelledMatrix, Signs};
use regard_heads::HeadId;
use regard_models::{Attribution, Change, Model};
use serde::{Deserialize, Serialize};

use super::Loaded;
use super::Unchanged;
use super::chart::Chart;
use super::next::named;
use super::{ModelState, Next, View as Shows};
use crate::colors::Look;
use crate::explain::{explanation, title};
use crate::numbers;
use crate::work::{Background, Latest, Question, Steps, at_once};

const TITLE: &str =
    "Direct logit attribution: what each part adds to a logit, a token's score before softmax";

const TERMS: [&str; 3] = ["layer", "part", "added to the logit"];

#[derive(Serialize, Deserialize)]
pub(crate) struct LogitParts {
    pub(crate) attribution: Attribution,
    /// \[layers, heads + 1\]: the feed-forward layer is last.
    pub(super) map: Chart,
}

/// Asks for the contribution of each part of a model to the logit of token A, or to the difference A − B.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Attribute {
    pub(crate) model: u64,
    pub(crate) run: u64,
    pub(crate) changes: Vec<Change>,
    pub(crate) tokens: [Option<u32>; 2],
}

impl Question for Attribute {
    type Answer = LogitParts;
    const NAME: &'static str = "attribution";

    fn begin(self, background: Arc<Background>) -> impl Steps<LogitParts> {
        at_once(move |_| {
            let opened = background.held::<Loaded>(self.model)?;
            let run = background.part::<Unchanged>(self.run)?;
            LogitParts::new(&opened.model, &run, self.changes, self.tokens)
        })
    }
}

/// Shows the picture, and the choice of the tokens.
pub(super) fn show(
    ui: &mut Ui,
    parts: &mut Latest<Attribute, LogitParts>,
    state: &mut ModelState,
    next: &[Next],
    look: Look,
) {
    title(ui, TITLE, explanation!("Direct logit attribution"));
    tokens(ui, state, next);
    parts.show(ui, "Attributing the logit");
    if let Some(parts) = parts.value_mut() {
        parts.show(ui, state, look);
    }
}

/// Shows the choice of the token, and of the token whose logit is subtracted.
fn tokens(ui: &mut Ui, state: &mut ModelState, next: &[Next]) {
    let Some(top) = next.first() else { return };
    let name = |id: u32| {
        let known = next.iter().position(|next| next.id == id);
        known.map_or_else(|| format!("token {id}"), |i| named(next, i))
    };
    ui.horizontal_wrapped(|ui| {
        ui.label("Logit of");
        let [plus, minus] = &mut state.attributed;
        let menu = ComboBox::from_id_salt("plus").width(0.0);
        let menu = menu.selected_text(name(plus.unwrap_or(top.id)));
        let menu = menu.show_ui(ui, |ui| {
            for (i, of) in next.iter().enumerate() {
                ui.selectable_value(plus, Some(of.id), named(next, i));
            }
        });
        menu.response.accessible_name("Token whose logit is attributed");
        ui.label("minus that of");
        let selected = minus.map_or_else(|| "none".to_owned(), name);
        let menu = ComboBox::from_id_salt("minus").width(0.0).selected_text(selected);
        let menu = menu.show_ui(ui, |ui| {
            ui.selectable_value(minus, None, "none");
            for (i, of) in next.iter().enumerate() {
                ui.selectable_value(minus, Some(of.id), named(next, i));
            }
        });
        menu.response.accessible_name("Token whose logit is subtracted");
    });
}

impl LogitParts {
    pub(super) fn matrix(&self, look: Look) -> LabelledMatrix {
        self.map.matrix(TITLE.to_owned(), TERMS, look)
    }

    fn new(
        model: &Model,
        run: &Unchanged,
        changes: Vec<Change>,
        tokens: [Option<u32>; 2],
    ) -> Result<Self, String> {
        let top = run.top().ok_or("The model predicts no tokens here.")?;
        let [plus, minus] = tokens.map(|id| id.map(|id| id as usize));
        let pass = model.pass();
        let pass = changes.into_iter().fold(pass, regard_models::Pass::change);
        let position = model.predicted(&run.input).map_err(|e| e.to_string())?;
        let attribution = pass.attribute(&run.input, position, plus.unwrap_or(top), minus);
        let attribution = attribution.map_err(|e| e.to_string())?;
        let layers = &attribution.layers;
        let of_layer = |layer: &regard_models::LayerAttribution| {
            let heads = layer.heads.iter().map(|x| *x as f32);
            heads.chain([layer.feed_forward as f32]).collect::<Vec<_>>()
        };
        let numbers: Vec<f32> = layers.iter().flat_map(of_layer).collect();
        let heads = layers.first().map_or(0, |layer| layer.heads.len());
        let rows = (0..layers.len()).map(|i| format!("{i}.x")).collect();
        let cols = (0..heads).map(|i| format!("x.{i}")).chain(["MLP".to_owned()]).collect();
        Ok(Self { attribution, map: Chart::new(Signs::Both, numbers, [rows, cols]) })
    }

    /// The contribution of each head, \[layers, heads\].
    pub(super) fn of_heads(&self) -> Vec<f32> {
        let layers = self.attribution.layers.iter();
        layers.flat_map(|layer| layer.heads.iter().map(|x| *x as f32)).collect()
    }

    fn show(&mut self, ui: &mut Ui, state: &mut ModelState, look: Look) {
        ui.label(self.sum());
        let clicked = self.map.fill(ui, look, "what each part adds to the logit", TERMS, 60.0);
        // The last column is the feed-forward layer's.
        let heads = self.attribution.layers.first().map_or(0, |layer| layer.heads.len());
        if let Some((layer, head)) = clicked.filter(|(_, head)| *head < heads) {
            state.heads.show(HeadId { layer, head });
            state.view = Shows::Attention;
        }
    }

    /// Describes the parts that have no cell, and the sum of all.
    fn sum(&self) -> String {
        let Attribution { embedding, positions, bias, logit, layers, .. } = &self.attribution;
        let number = |x: f64| numbers::fixed(x as f32, 2);
        let biases = bias + layers.iter().map(|layer| layer.bias).sum::<f64>();
        let positions =
            positions.map_or_else(String::new, |x| format!(", positions {}", number(x)));
        let sum = self.attribution.sum();
        let rest = logit - sum;
        // The run rounds to some 7 digits; a larger remainder comes from a patch of the stream.
        let patched = if rest.abs() > 1e-3 * (1.0 + logit.abs()) {
            format!(" A patch of the stream adds the rest, {}.", number(rest))
        } else {
            String::new()
        };
        format!(
            "Embedding {}{positions}, biases {}. All parts add up to {}; the logit is {}.{patched}",
            number(*embedding),
            number(biases),
            number(sum),
            number(*logit)
        )
    }
}
