//! The experts that each token takes in a mixture, and their weights.

use std::sync::Arc;

use egui::{ComboBox, Ui};
use regard_figure::{LabelledMatrix, Signs};
use regard_models::{Change, Description, FeedForwardPlace, Pass, StackName};
use serde::{Deserialize, Serialize};

use super::Loaded;
use super::ModelState;
use super::Unchanged;
use super::chart::Chart;
use crate::colors::Look;
use crate::explain::{explanation, title};
use crate::work::{Background, Latest, Question, Steps, at_once};

const TERMS: [&str; 3] = ["token", "expert", "weight"];

/// The weight of each expert for each token.
#[derive(Serialize, Deserialize)]
pub(crate) struct ExpertWeights {
    /// The layers that have experts, and the weights \[tokens, experts\] of each.
    layers: Vec<(usize, Chart)>,
}

/// Asks for the experts that each token of a run takes.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Route {
    pub(crate) model: u64,
    pub(crate) run: u64,
    pub(crate) changes: Vec<Change>,
}

impl Question for Route {
    type Answer = ExpertWeights;
    const NAME: &'static str = "experts";

    fn begin(self, background: Arc<Background>) -> impl Steps<ExpertWeights> {
        at_once(move |_| {
            let model = &background.held::<Loaded>(self.model)?.model;
            let run = background.part::<Unchanged>(self.run)?;
            let pass = model.pass().keep(["*hook_expert_weights"]).last_logits();
            let pass = self.changes.into_iter().fold(pass, Pass::change);
            let trace = pass.run(&run.input).map_err(|e| e.to_string())?;
            let chart = |layer: usize| {
                let place = StackName::Only.place(layer, FeedForwardPlace::ExpertWeights);
                let weights = trace.at(place).ok_or_else(|| format!("the run has no {place}"))?;
                let count = weights.shape.last().copied().unwrap_or_default();
                let tokens = run.tokens.iter().map(|token| token.text.clone()).collect();
                let labels = [tokens, (0..count).map(|expert| expert.to_string()).collect()];
                Ok((layer, Chart::new(Signs::Positive, weights.data.clone(), labels)))
            };
            let layers = layers(model.description()).map(chart).collect::<Result<_, String>>()?;
            Ok(ExpertWeights { layers })
        })
    }
}

/// The layers that have experts.
pub(super) fn layers(description: &Description) -> impl Iterator<Item = usize> {
    let stack = &description.stack;
    (0..stack.layers()).filter(|layer| stack.experts_of(*layer).is_some())
}

/// Shows the weights of the chosen layer, and the choice of the layer.
pub(super) fn show(
    ui: &mut Ui,
    taken: &mut Latest<Route, ExpertWeights>,
    state: &mut ModelState,
    description: &Description,
    look: Look,
) {
    title(ui, &name(state.mixture), explanation!("Experts"));
    if description.stack.experts.is_none() {
        ui.weak("This model has no experts: open a mixture, such as qwen3_moe or gpt_oss.");
        return;
    }
    let text = |layer| format!("layer {layer}");
    let menu = ComboBox::from_id_salt("mixture").selected_text(text(state.mixture));
    let menu = menu.show_ui(ui, |ui| {
        for layer in layers(description) {
            ui.selectable_value(&mut state.mixture, layer, text(layer));
        }
    });
    menu.response.accessible_name("Layer whose experts are shown");
    taken.show(ui, "Computing the experts");
    let all = taken.value_mut().map(|taken| &mut taken.layers);
    let shown = all.and_then(|all| all.iter_mut().find(|(layer, _)| *layer == state.mixture));
    if let Some((_, chart)) = shown {
        chart.fill(ui, look, "the weight of each expert", TERMS, 0.0);
    }
}

impl ExpertWeights {
    pub(crate) fn of(&self, layer: usize) -> Option<&Chart> {
        self.layers.iter().find(|(of, _)| *of == layer).map(|(_, chart)| chart)
    }

    pub(super) fn matrix(&self, layer: usize, look: Look) -> Option<LabelledMatrix> {
        Some(self.of(layer)?.matrix(name(layer), TERMS, look))
    }
}

fn name(layer: usize) -> String {
    format!("The experts that each token takes in layer {layer}")
}
