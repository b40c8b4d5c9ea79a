//! Weights × ‖v‖: each weight is multiplied by the norm of its value. A head often gives much weight to a token with a small
//! value, which adds nothing to its output (Kobayashi et al. 2020, Attention is Not Only a Weight).

use regard_heads::{AttentionMaps, unattended};
use regard_models::{AttentionPlace, Change, HeadAddress, Pass, Which};

use super::open::Loaded;
use super::run::Unchanged;
use crate::heads::{MapKind, Surveyed};

/// The weights of a run with changes, each times the norm of its value.
///
/// # Errors
/// If the model refuses the input or a change.
pub fn weighted(
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
