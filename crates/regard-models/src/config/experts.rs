//! The experts of the families that have them.

use serde_json::Value;

use super::{default, gguf, hugging_face};
use crate::families;
use crate::{ClampedGate, Error, Experts};

/// The gate of gpt-oss, where its file says nothing else.
const GATE: ClampedGate = ClampedGate { slope: 1.702, limit: 7.0 };

impl hugging_face::Config<'_> {
    /// The experts of a model with so many layers, if the family has them.
    ///
    /// In Qwen 3's mixtures every `decoder_sparse_step`th layer has experts, but for those that `mlp_only_layers` lists.
    pub(super) fn experts(&self, layers: usize) -> Result<Option<Experts>, Error> {
        let kind = self.row.experts;
        if kind == families::ExpertKind::None {
            return Ok(None);
        }
        let mut experts = Experts {
            layers: vec![true; layers],
            count: match self.optional("num_local_experts")? {
                Some(count) => count,
                None if kind != families::ExpertKind::Clamped => self.size("num_experts")?,
                None => return Ok(None),
            },
            used: self.size("num_experts_per_tok")?,
            hidden: 0,
            normalized: true,
            gate: None,
            near: None,
            shared: None,
        };
        if kind == families::ExpertKind::Clamped {
            experts.hidden = self.size("intermediate_size")?;
            let number = |key: &str| self.number(key).map(|x| x as f32);
            let gate =
                ClampedGate { slope: number("swiglu_alpha")?, limit: number("swiglu_limit")? };
            experts.gate = Some(gate);
            return Ok(Some(experts));
        }
        if kind == families::ExpertKind::Near {
            let near = 2.0 * self.number("router_jitter_noise")?;
            experts.near = Some(near);
            if experts.used != 2 {
                let found = experts.used;
                return Err(self.wrong(format!("num_experts_per_tok is {found}; only 2 is known")));
            }
        }
        if matches!(kind, families::ExpertKind::All | families::ExpertKind::Near) {
            experts.hidden = self.size("intermediate_size")?;
            experts.normalized = self.flag_or("norm_topk_prob", true)?;
            return Ok(Some(experts));
        }
        experts.hidden = self.size("moe_intermediate_size")?;
        experts.normalized = self.flag("norm_topk_prob")?;
        experts.shared = self.optional("shared_expert_intermediate_size")?;
        let key = "mlp_only_layers";
        let dense: Option<Vec<u64>> = match self.get(key) {
            Some(list) => list.as_array().and_then(|list| list.iter().map(Value::as_u64).collect()),
            None => Some(Vec::new()),
        };
        let dense = dense.ok_or_else(|| self.not_a(key, "list of layers"))?;
        let step = self.size("decoder_sparse_step")?;
        if step == 0 {
            return Err(self.wrong("decoder_sparse_step is 0, and no layer is a multiple of it"));
        }
        for (layer, has) in experts.layers.iter_mut().enumerate() {
            *has = (layer + 1).is_multiple_of(step) && !dense.contains(&(layer as u64));
        }
        // As in transformers.
        Ok(Some(experts).filter(|experts| experts.count > 0))
    }
}

impl gguf::Config<'_> {
    /// The same of a GGUF file, whose layers with experts have a router. Mixtral's architecture is that of Llama.
    pub(super) fn experts(&self, layers: usize, hidden: usize) -> Result<Option<Experts>, Error> {
        let Some(count) = self.optional("expert_count").filter(|count| *count > 0) else {
            return Ok(None);
        };
        let near = default(self.row.name, "router_jitter_noise").and_then(Value::as_f64);
        let near = near.filter(|_| self.row.experts == families::ExpertKind::Near);
        let own = self.optional("expert_feed_forward_length");
        let router = |layer| format!("blk.{layer}.ffn_gate_inp.weight");
        Ok(Some(Experts {
            layers: (0..layers)
                .map(|layer| self.checkpoint.shape(&router(layer)).is_some())
                .collect(),
            count,
            used: self.size("expert_used_count")?,
            hidden: own.unwrap_or(hidden),
            normalized: true,
            gate: (self.row.experts == families::ExpertKind::Clamped).then_some(GATE),
            near: near.map(|noise| 2.0 * noise),
            shared: self.optional("expert_shared_feed_forward_length"),
        }))
    }
}
