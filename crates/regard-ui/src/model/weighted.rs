//! Weights × ‖v‖: each weight is multiplied by the norm of its value. A head often gives much weight to a token with a small
//! value, which adds nothing to its output (Kobayashi et al. 2020, Attention is Not Only a Weight).

use std::sync::Arc;

use regard_heads::{AttentionMaps, unattended};
use regard_models::{AttentionPlace, Change, HeadAddress, Pass, Which};
use serde::{Deserialize, Serialize};

use super::open::Loaded;
use super::run::Unchanged;
use crate::heads::{MapKind, Surveyed};
use crate::work::{Background, Question, Shared, Steps, at_once};

/// Asks for the weights of a run, each times the norm of its value.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Weigh {
    pub(crate) model: u64,
    pub(crate) run: u64,
    /// The weights of the run with the changes.
    pub(crate) heads: u64,
    pub(crate) changes: Vec<Change>,
    pub(crate) attention: Which,
}

impl Question for Weigh {
    type Answer = Shared<Surveyed>;
    const NAME: &'static str = "values";

    fn begin(self, background: Arc<Background>) -> impl Steps<Shared<Surveyed>> {
        at_once(move |_| {
            let opened = background.held::<Loaded>(self.model)?;
            let run = background.part::<Unchanged>(self.run)?;
            let heads = background.part::<Surveyed>(self.heads)?;
            let heads = weighted(&opened, &run, &heads, self.changes, self.attention)?;
            Ok(Shared(Arc::new(heads)))
        })
    }
}

/// The weights of a run with changes, each times the norm of its value.
pub(super) fn weighted(
    opened: &Loaded,
    run: &Unchanged,
    heads: &Surveyed,
    changes: Vec<Change>,
    attention: Which,
) -> Result<Surveyed, String> {
    let pass = changes.into_iter().fold(opened.model.pass(), Pass::change);
    let trace = pass.keep(["*hook_v"]).run(&run.input).map_err(|e| e.to_string())?;
    let shape = heads.maps.shape();
    let mut numbers = Vec::with_capacity(shape.layers * shape.heads * shape.size());
    for id in shape.ids() {
        let head = HeadAddress { attention, layer: id.layer, head: id.head };
        let place = head.place(AttentionPlace::Value);
        let values = trace.at(place).ok_or_else(|| format!("the run has no {place}"))?;
        // [keys, key/value heads, head size]
        let size = values.shape.last().copied().unwrap_or(1).max(1);
        let of_key = values.data.len() / shape.keys;
        let head = id.head * (of_key / size) / shape.heads;
        let norm = |key: &[f32]| {
            let value = key.iter().skip(head * size).take(size);
            value.map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt() as f32
        };
        let norms: Vec<f32> = values.data.chunks_exact(of_key).map(norm).collect();
        let weights = heads.maps.head(id);
        let rows = weights.chunks_exact(shape.keys);
        numbers.extend(rows.flat_map(|row| row.iter().zip(&norms).map(|(w, v)| w * v)));
    }
    let maps = AttentionMaps::new(shape, numbers, heads.maps.tokens());
    let weighted = maps.and_then(|maps| Surveyed::new(maps, MapKind::ValueWeighted, &unattended));
    let mut weighted = weighted.map_err(|e| e.to_string())?;
    weighted.is_causal = heads.is_causal;
    weighted.cut.clone_from(&heads.cut);
    Ok(weighted)
}
