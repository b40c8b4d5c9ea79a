//! Rotary settings of config.json, in the forms that transformers 4 and 5 write.

use serde_json::Value;

use super::hugging_face::Config;
use crate::{Error, RopeScaling, Rotary};

impl Config<'_> {
    /// The rotary embedding of heads of `head_size`, of which the share `partial` turns unless the config says otherwise.
    ///
    /// Transformers 5 writes one object `rope_parameters`. Transformers 4 writes `rope_theta` (GPT-NeoX: `rotary_emb_base`)
    /// and `partial_rotary_factor` (GPT-NeoX: `rotary_pct`) beside an object `rope_scaling`, which may be null.
    pub(super) fn rotary(&self, head_size: usize, partial: f64) -> Result<Rotary, Error> {
        let positions = self.size_or("max_position_embeddings", 2048)?;
        let nothing = Value::Null;
        let new = self.values.get("rope_parameters").filter(|x| !x.is_null());
        let scaling = new.or_else(|| self.values.get("rope_scaling")).unwrap_or(&nothing);
        let number = |key: &str| scaling.get(key).and_then(Value::as_f64);
        let own = |key: &str| self.values.get(key).and_then(Value::as_f64);
        let base =
            number("rope_theta").or_else(|| own("rope_theta")).or_else(|| own("rotary_emb_base"));
        let partial = number("partial_rotary_factor")
            .or_else(|| own("partial_rotary_factor"))
            .or_else(|| own("rotary_pct"))
            .unwrap_or(partial);
        let features = (head_size as f64 * partial) as usize;
        let base = base.unwrap_or(10_000.0);
        if !(base > 0.0 && base.is_finite()) {
            return Err(self.wrong(format!("rope_theta is {base}")));
        }
        let scaling = self.scaling(scaling, positions, features)?;
        Ok(Rotary { features, base, scaling })
    }

    fn scaling(
        &self,
        scaling: &Value,
        positions: usize,
        features: usize,
    ) -> Result<RopeScaling, Error> {
        let number = |key: &str| scaling.get(key).and_then(Value::as_f64);
        let needed = |key: &str| {
            number(key).ok_or_else(|| self.wrong(format!("rope_scaling has no number {key}")))
        };
        let original = || {
            let own = self.values.get("original_max_position_embeddings").and_then(Value::as_f64);
            number("original_max_position_embeddings").or(own).unwrap_or(positions as f64)
        };
        let kind = scaling.get("rope_type").or_else(|| scaling.get("type")).and_then(Value::as_str);
        Ok(match kind.unwrap_or("default") {
            "default" => RopeScaling::None,
            "linear" => RopeScaling::Linear { factor: needed("factor")? },
            "dynamic" => RopeScaling::Dynamic { factor: needed("factor")?, original: positions },
            "llama3" => RopeScaling::Llama3 {
                factor: needed("factor")?,
                low: needed("low_freq_factor")?,
                high: needed("high_freq_factor")?,
                original: needed("original_max_position_embeddings")?,
            },
            "longrope" | "su" => {
                let list = |key: &str| {
                    let list = scaling.get(key).and_then(Value::as_array);
                    let list: Option<Vec<f64>> =
                        list.and_then(|x| x.iter().map(Value::as_f64).collect());
                    list.filter(|x| x.len() == features / 2).ok_or_else(|| {
                        self.wrong(format!(
                            "rope_scaling has no list {key} of {} numbers",
                            features / 2
                        ))
                    })
                };
                let original = original();
                let factor = number("factor").unwrap_or(positions as f64 / original);
                let grown =
                    if factor <= 1.0 { 1.0 } else { (1.0 + factor.ln() / original.ln()).sqrt() };
                RopeScaling::LongRope {
                    short: list("short_factor")?,
                    long: list("long_factor")?,
                    original: original as usize,
                    attention_factor: number("attention_factor").unwrap_or(grown),
                }
            }
            "yarn" => {
                let factor = number("factor").unwrap_or_else(|| positions as f64 / original());
                let scaled =
                    |scale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 };
                let attention_factor = match (number("mscale"), number("mscale_all_dim")) {
                    (Some(scale), Some(all)) if scale != 0.0 && all != 0.0 => {
                        scaled(scale) / scaled(all)
                    }
                    _ => scaled(1.0),
                };
                RopeScaling::Yarn {
                    factor,
                    fast: number("beta_fast").unwrap_or(32.0),
                    slow: number("beta_slow").unwrap_or(1.0),
                    original: original(),
                    attention_factor: number("attention_factor").unwrap_or(attention_factor),
                    truncate: scaling.get("truncate").and_then(Value::as_bool).unwrap_or(true),
                }
            }
            other => {
                let known = "default, linear, dynamic, llama3, longrope and yarn";
                return Err(
                    self.wrong(format!("the rope_type {other:?} is not known; known are {known}"))
                );
            }
        })
    }
}
