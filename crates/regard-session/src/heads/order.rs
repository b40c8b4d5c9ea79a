//! The order of the heads in the grid.

use regard_heads::{HeadId, Measure};
use serde::{Deserialize, Serialize};

use super::HeadsState;
use super::opened::Surveyed;

/// A number of each head that only a run gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The change of the likeliest token's logit when the head gives zeros.
    Ablation,
    /// The direct contribution of the head to the chosen logit.
    Attribution,
}

impl Effect {
    /// All effects.
    pub const ALL: [Self; 2] = [Self::Ablation, Self::Attribution];

    /// The name in the list.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ablation => "Ablation effect",
            Self::Attribution => "Logit attribution",
        }
    }
}

/// The number by which the heads are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Order {
    /// A measure of the weights.
    Measure(Measure),
    /// A number that a run gives.
    Effect(Effect),
}

impl Order {
    /// The name in the list.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measure(measure) => measure.name(),
            Self::Effect(effect) => effect.name(),
        }
    }
}

/// The known effects of the heads of an attention, \[layers, heads\].
#[derive(Default)]
pub struct Effects {
    /// The change of the likeliest token's logit. The list grows while the heads are ablated in turn.
    pub ablation: Vec<f32>,
    /// The direct contribution to the chosen logit.
    pub attribution: Vec<f32>,
    /// Whether a run can compute them. A file has no run.
    pub can_run: bool,
    /// Whether the heads are being ablated.
    pub is_ablating: bool,
}

impl Effects {
    fn of(&self, effect: Effect) -> &[f32] {
        match effect {
            Effect::Ablation => &self.ablation,
            Effect::Attribution => &self.attribution,
        }
    }

    /// The effect of a head, if it is known.
    pub fn get(&self, heads: &Surveyed, effect: Effect, id: HeadId) -> Option<f32> {
        self.of(effect).get(heads.maps.shape().index(id)?).copied()
    }

    /// The largest absolute value of an effect.
    pub fn largest(&self, effect: Effect) -> f32 {
        regard_figure::largest(self.of(effect))
    }
}

impl HeadsState {
    /// Whether the grid needs this number of each head.
    pub fn needs(&self, effect: Effect) -> bool {
        self.tint == Some(effect) || self.order == Some(Order::Effect(effect))
    }
}

impl Surveyed {
    /// The heads in the order in which they are shown. Until all effects are known, that is the order of the file.
    pub fn ordered(
        &self,
        order: Option<Order>,
        smallest_first: bool,
        effects: &Effects,
    ) -> Vec<HeadId> {
        let mut ids: Vec<HeadId> = self.maps.shape().ids().collect();
        match order {
            Some(Order::Measure(measure)) => {
                ids = self.survey.sorted_by(measure);
                if smallest_first {
                    // Heads without the measure stay last.
                    let is_known = |id: &&HeadId| self.survey.measures(**id).get(measure).is_some();
                    let known = ids.iter().take_while(is_known).count();
                    ids[..known].reverse();
                }
            }
            Some(Order::Effect(effect)) if effects.of(effect).len() == ids.len() => {
                let size = |id: &HeadId| effects.get(self, effect, *id).map_or(0.0, f32::abs);
                ids.sort_by(|a, b| size(b).total_cmp(&size(a)));
                if smallest_first {
                    ids.reverse();
                }
            }
            _ => {}
        }
        ids
    }
}
