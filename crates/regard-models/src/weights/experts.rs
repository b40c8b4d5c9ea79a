//! Feed-forward layers, and the experts of which each token takes a few.

use regard::Linear;

use super::Loader;
use super::linear::Stored;
use super::names::ExpertNames;
use crate::{Block, Error, Experts};

/// A feed-forward layer.
#[derive(Debug)]
pub(crate) struct FeedForward {
    pub(crate) gate: Option<Linear>,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
}

impl FeedForward {
    fn bytes(&self) -> usize {
        let gate = self.gate.as_ref().map_or(0, Linear::weight_bytes);
        gate + self.up.weight_bytes() + self.down.weight_bytes()
    }
}

/// The feed-forward layers of a layer.
#[derive(Debug)]
pub(crate) enum FeedForwards {
    /// One for all tokens.
    One(FeedForward),
    /// Experts, and the router that chooses `used` of them for a token.
    Experts { router: Linear, each: Vec<FeedForward>, used: usize },
}

impl FeedForwards {
    /// The layer that all tokens have in common.
    ///
    /// # Errors
    /// [`Error::Unsupported`] of experts.
    pub(crate) fn one(&self) -> Result<&FeedForward, Error> {
        match self {
            Self::One(layer) => Ok(layer),
            Self::Experts { .. } => Err(Error::Unsupported("a layer has experts".into())),
        }
    }

    /// A linear layer by its name: `gate`, `up` or `down`, or of experts `router`, `experts.7.gate` and so on.
    pub(crate) fn part(&self, name: &str) -> Option<&Linear> {
        let (layer, part) = match (self, name.strip_prefix("experts.")) {
            (Self::One(layer), None) => (layer, name),
            (Self::Experts { each, .. }, Some(name)) => {
                let (expert, part) = name.split_once('.')?;
                (each.get(expert.parse::<usize>().ok()?)?, part)
            }
            (Self::Experts { router, .. }, None) => return (name == "router").then_some(router),
            (Self::One(_), Some(_)) => return None,
        };
        match part {
            "gate" => layer.gate.as_ref(),
            "up" => Some(&layer.up),
            "down" => Some(&layer.down),
            _ => None,
        }
    }

    /// The bytes of the weights that a token is multiplied by.
    pub(super) fn product_bytes(&self) -> usize {
        match self {
            Self::One(layer) => layer.bytes(),
            Self::Experts { router, each, used } => {
                let one = each.first().map_or(0, FeedForward::bytes);
                router.weight_bytes() + used * one
            }
        }
    }
}

impl Loader<'_> {
    /// The experts of a layer, each in the type in which the file stores it.
    pub(super) fn experts(
        &self,
        name: &impl Fn(&str) -> String,
        names: &ExpertNames,
        block: &Block,
        experts: &Experts,
    ) -> Result<FeedForwards, Error> {
        let (width, hidden) = (self.description.width, experts.hidden);
        let bias = block.biases.hidden;
        let router = self.linear(&name(&names.router), [experts.count, width], bias)?;
        let parts = |part: &str, outputs, inputs| {
            self.of_experts(&name(part), experts.count, [outputs, inputs], (names.alternate, bias))
        };
        let layers = |part: &str, all: Vec<Stored>| -> Result<Vec<Linear>, Error> {
            all.into_iter().map(|stored| self.layer(&name(part), stored)).collect()
        };
        let fused = name(&names.gate_up.replace("{}.", ""));
        let is_fused = !names.gate_up.is_empty()
            && (self.found(&fused, "").is_some() || self.found(&fused, "weight").is_some());
        let (gate, up) = if is_fused {
            let outputs = |first: usize| -> Vec<usize> {
                if names.alternate {
                    (first..2 * hidden).step_by(2).collect()
                } else {
                    (first * hidden..(first + 1) * hidden).collect()
                }
            };
            let all = parts(&names.gate_up, 2 * hidden, width)?;
            let half = |first| -> Result<Vec<Stored>, Error> {
                let outputs = outputs(first);
                all.iter().map(|both| self.memory(&fused, both.select(&outputs))).collect()
            };
            (layers(&names.gate_up, half(0)?)?, layers(&names.gate_up, half(1)?)?)
        } else {
            let gate = layers(&names.gate, parts(&names.gate, hidden, width)?)?;
            (gate, layers(&names.up, parts(&names.up, hidden, width)?)?)
        };
        let down = layers(&names.down, parts(&names.down, width, hidden)?)?;
        let each = gate.into_iter().zip(up).zip(down);
        let each = each.map(|((gate, up), down)| FeedForward { gate: Some(gate), up, down });
        Ok(FeedForwards::Experts { router, each: each.collect(), used: experts.used })
    }

    /// A linear layer of each expert: a tensor each, or one tensor \[experts, outputs, inputs\] with biases \[experts, outputs\].
    fn of_experts(
        &self,
        name: &str,
        count: usize,
        [outputs, inputs]: [usize; 2],
        (turned, bias): (bool, bool),
    ) -> Result<Vec<Stored>, Error> {
        let own = |expert: usize| name.replace("{}", &expert.to_string());
        if own(0) != name && self.found(&own(0), "weight").is_some() {
            let each = |expert| self.matrix(&own(expert), [outputs, inputs], bias);
            return (0..count).map(each).collect();
        }
        let name = name.replace("{}.", "");
        let kind = self.kind(&name);
        let found = self.found(&name, kind).unwrap_or_else(|| name.clone());
        let by_columns = turned && !self.checkpoint.is_in_blocks(&found);
        let shape = if by_columns { [inputs, outputs] } else { [outputs, inputs] };
        let all = self.tensor(&name, kind, &[count, shape[0], shape[1]])?;
        let (stem, kind) =
            if kind.is_empty() { (format!("{name}_bias"), "") } else { (name.clone(), "bias") };
        let biases = if bias && self.found(&stem, kind).is_some() {
            Some(self.tensor(&stem, kind, &[count, outputs])?.to_f32())
        } else {
            None
        };
        let each = |expert: usize| {
            let rows: Vec<usize> = (expert * shape[0]..(expert + 1) * shape[0]).collect();
            let weight = self.memory(&name, all.select_rows(&rows))?;
            let bias = biases.as_ref().map(|all| all[expert * outputs..][..outputs].to_vec());
            Ok(Stored::new(weight, by_columns, bias))
        };
        (0..count).map(each).collect()
    }
}
