//! An unfolded weight: the steps from a query and a key to the weight.

use std::sync::Arc;

use egui::Ui;
use regard_models::{Change, HeadAddress, Pass, Score};
use serde::{Deserialize, Serialize};

use super::Loaded;
use super::Unchanged;
use crate::explain::{explanation, title};
use crate::heatmap::Cell;
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

pub(super) fn show(ui: &mut Ui, of: &Unfold, score: &Score, run: &Unchanged) {
    let [queries, keys] = run.heads.of(of.head.attention).labels();
    let token = |all: &[String], i: usize| all.get(i).cloned().unwrap_or_default();
    let (query, key) = (token(queries, score.query), token(keys, score.key));
    let name = format!("Weight of {query} → {key}");
    ui.separator();
    title(ui, &name, explanation!("A weight step by step"));
    ui.spacing_mut().item_spacing.y = 2.0;
    for line in lines(score) {
        ui.monospace(line);
    }
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
            Some(regard_models::Hidden::Cut) => "the edge is cut",
            Some(regard_models::Hidden::Window) => "the key lies outside the window",
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
