//! Feed-forward layers, and the experts of which each token takes a few.

use regard::Linear;

use super::Loader;
use super::linear::UnpackedLinear;
use super::names::ExpertNames;
use crate::{Block, Error, Experts};

#[derive(Clone, Debug)]
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
#[derive(Clone, Debug)]
pub(crate) enum FeedForwards {
    /// One for all tokens.
    One(FeedForward),
    /// Experts, and the router that chooses `used` of them for a token.
    Experts {
        router: Linear,
        each: Vec<FeedForward>,
        used: usize,
        /// The layer that all tokens take, and the one whose sigmoid is its weight.
        shared: Option<(FeedForward, Linear)>,
    },
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
            (Self::Experts { router, shared, .. }, None) => {
                match (shared, name.strip_prefix("shared.")) {
                    (Some((_, weight)), Some("router")) => return Some(weight),
                    (Some((layer, _)), Some(part)) => (layer, part),
                    _ => return (name == "router").then_some(router),
                }
            }
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
            Self::Experts { router, each, used, shared } => {
                let one = each.first().map_or(0, FeedForward::bytes);
                let shared = shared.as_ref();
                let shared =
                    shared.map_or(0, |(layer, weight)| layer.bytes() + weight.weight_bytes());
                router.weight_bytes() + used * one + shared
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
        let fused = name(&names.gate_up.replace("{}.", ""));
        let is_fused = !names.gate_up.is_empty()
            && (self.found(&fused, "").is_some() || self.found(&fused, "weight").is_some());
        let halves: [Vec<usize>; 2] = if names.alternate {
            [0, 1].map(|first| (first..2 * hidden).step_by(2).collect())
        } else {
            [0, hidden].map(|first| (first..first + hidden).collect())
        };
        let each = (0..experts.count).map(|expert| {
            let part = |part: &str, outputs, inputs| {
                let of = (experts.count, expert);
                self.of_expert(&name(part), of, [outputs, inputs], (names.alternate, bias))
            };
            let layer = |of: &str, stored| self.layer(&name(of), stored);
            let [gate, up] = if is_fused {
                let both = part(&names.gate_up, 2 * hidden, width)?;
                halves.each_ref().map(|outputs| self.memory(&fused, both.select(outputs)))
            } else {
                [&names.gate, &names.up].map(|of| part(of, hidden, width))
            };
            let down = layer(&names.down, part(&names.down, width, hidden)?)?;
            let [gate, up] = [layer(&names.gate, gate?)?, layer(&names.up, up?)?];
            Ok(FeedForward { gate: Some(gate), up, down })
        });
        let each = each.collect::<Result<_, Error>>()?;
        let shared = experts.shared.map(|hidden| {
            let [gate, up, down, weight] = &names.shared;
            let linear = |of: &str, shape| self.linear(&name(of), shape, bias);
            let (gate, up) = (linear(gate, [hidden, width])?, linear(up, [hidden, width])?);
            let layer = FeedForward { gate: Some(gate), up, down: linear(down, [width, hidden])? };
            // GGUF files have the weights of its only output as a vector.
            let (weight, shape) = (name(weight), [width]);
            let flat =
                self.found(&weight, "weight").and_then(|found| self.checkpoint.shape(&found));
            let weight = if flat == Some(&shape[..]) {
                let row = self.table(&weight, &shape)?.reshaped(vec![1, width]);
                self.layer(&weight, UnpackedLinear::new(row, false, None))?
            } else {
                self.linear(&weight, [1, width], false)?
            };
            Ok::<_, Error>((layer, weight))
        });
        Ok(FeedForwards::Experts { router, each, used: experts.used, shared: shared.transpose()? })
    }

    /// A linear layer of an expert: a tensor of its own, or its entry in one tensor \[experts, outputs, inputs\] with biases
    /// \[experts, outputs\].
    fn of_expert(
        &self,
        name: &str,
        (count, expert): (usize, usize),
        [outputs, inputs]: [usize; 2],
        (turned, bias): (bool, bool),
    ) -> Result<UnpackedLinear, Error> {
        let own = name.replace("{}", &expert.to_string());
        if own != name && self.found(&own, "weight").is_some() {
            return self.matrix(&own, [outputs, inputs], bias);
        }
        let name = name.replace("{}.", "");
        let kind = self.kind(&name);
        let found = self.found(&name, kind).unwrap_or_else(|| name.clone());
        let by_columns = turned && !self.checkpoint.is_in_blocks(&found);
        let shape = if by_columns { [inputs, outputs] } else { [outputs, inputs] };
        let weight = self.part(&name, kind, &[count, shape[0], shape[1]], Some(expert))?;
        let (stem, kind) =
            if kind.is_empty() { (format!("{name}_bias"), "") } else { (name, "bias") };
        let bias = if bias && self.found(&stem, kind).is_some() {
            Some(self.part(&stem, kind, &[count, outputs], Some(expert))?.to_f32())
        } else {
            None
        };
        Ok(UnpackedLinear::new(weight, by_columns, bias))
    }
}
