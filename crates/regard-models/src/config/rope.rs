//! Rotary settings of config.json, in the forms that transformers 4 and 5 write.

use serde_json::{Map, Value, json};

use super::hugging_face::Config;
use crate::{Error, Frequencies, RotaryScaling, RotarySettings, Stack};

impl Config<'_> {
    /// Gives each layer of a stack its rotary embedding of heads of `head_size`. The windows of the stack are known.
    ///
    /// Transformers 5 writes one object `rope_parameters`, which has an object for each kind of layers in families whose full
    /// and sliding layers differ. Transformers 4 writes the bases (`rope_theta`, in GPT-NeoX `rotary_emb_base`) and
    /// `partial_rotary_factor` (GPT-NeoX: `rotary_pct`) beside an object `rope_scaling`, which may be null.
    pub(super) fn turn(&self, stack: &mut Stack, head_size: usize) -> Result<(), Error> {
        let object = |key: &str| self.own(key).and_then(Value::as_object).filter(|x| !x.is_empty());
        let (scaling, parameters) = (object("rope_scaling"), object("rope_parameters"));
        let kinds = ["full_attention", "sliding_attention"];
        // The keys of both bases, and their default values.
        let bases = match self.family {
            "gemma3_text" => [("rope_theta", 1_000_000.0), ("rope_local_base_freq", 10_000.0)],
            // Transformers reads the sliding layers' base from rope_parameters alone.
            "olmo3" => [("rope_theta", 500_000.0), ("", 500_000.0)],
            "modernbert" => [("global_rope_theta", 160_000.0), ("local_rope_theta", 10_000.0)],
            family => {
                // If both objects exist, only the scaling counts.
                let parameters = scaling.or(parameters).cloned();
                let parameters = parameters.unwrap_or_else(|| self.usual_parameters());
                if kinds.iter().any(|kind| parameters.contains_key(*kind)) {
                    return Err(self.wrong("rope_parameters by kinds of layers are not known"));
                }
                let key = if family == "gpt_neox" { "rotary_emb_base" } else { "rope_theta" };
                let base = match family {
                    "smollm3" => 2_000_000.0,
                    "gpt_oss" => 150_000.0,
                    _ => 10_000.0,
                };
                stack.turn_all(self.rotary(&parameters.into(), head_size, key, base)?);
                return Ok(());
            }
        };
        stack.rotary.clear();
        let mut places = [None; 2];
        for (i, (key, base)) in bases.into_iter().enumerate() {
            if !stack.windows.iter().any(|window| usize::from(window.is_some()) == i) {
                continue;
            }
            let own = parameters.and_then(|kinds_of| kinds_of.get(kinds[i])?.as_object());
            // Transformers 5 ignores the older key `type` if there is no object for the kind.
            let plain = || Map::from_iter([("rope_type".to_owned(), "default".into())]);
            let mut own = own.cloned().unwrap_or_else(plain);
            if i == 0 || self.family == "modernbert" {
                own.extend(scaling.cloned().into_iter().flatten());
            }
            places[i] = Some(stack.rotary.len());
            stack.rotary.push(self.rotary(&own.into(), head_size, key, base)?);
        }
        let windows = stack.windows.iter();
        stack.turns = windows.map(|window| places[usize::from(window.is_some())]).collect();
        Ok(())
    }

    /// The `rope_parameters` of the family's class.
    fn usual_parameters(&self) -> Map<String, Value> {
        let yarn = || {
            json!({
                "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                "truncate": false, "original_max_position_embeddings": 4096,
            })
        };
        let usual = (self.family == "gpt_oss").then(yarn);
        usual.and_then(|usual| usual.as_object().cloned()).unwrap_or_default()
    }

    /// A rotary embedding. `key` is the key of its base in transformers 4, and `usual` is the base of a file without it.
    fn rotary(
        &self,
        parameters: &Value,
        head_size: usize,
        key: &str,
        usual: f64,
    ) -> Result<RotarySettings, Error> {
        let positions = self.size("max_position_embeddings")?;
        let neox = self.family == "gpt_neox";
        let number = |key: &str, own: &str, default: f64| {
            let number = |value: &Value| value.as_f64();
            let known = parameters.get(key).and_then(number);
            known.or_else(|| self.own(own).and_then(number)).unwrap_or(default)
        };
        let base = number("rope_theta", key, usual);
        if !(base > 0.0 && base.is_finite()) {
            return Err(self.wrong(format!("rope_theta is {base}")));
        }
        let (own, default) =
            if neox { ("rotary_pct", 0.25) } else { ("partial_rotary_factor", 1.0) };
        let mut features =
            (head_size as f64 * number("partial_rotary_factor", own, default)) as usize;
        let kind = parameters.get("rope_type").or_else(|| parameters.get("type"));
        let mut kind = kind.and_then(Value::as_str).unwrap_or("default");
        if self.family == "phi3" {
            // The name in older files.
            if matches!(kind, "su" | "yarn") {
                kind = "longrope";
            }
            if !matches!(kind, "default" | "longrope") {
                let what =
                    format!("the rope_type {kind:?} is none of Phi-3's, default and longrope");
                return Err(self.wrong(what));
            }
        } else if !neox && features != head_size {
            // These families rotate whole heads. Transformers ignores the key, or fails.
            if kind != "default" {
                let what = format!("the rope_type {kind} turns {features} of {head_size} features");
                return Err(self.wrong(what));
            }
            features = head_size;
        }
        let mut base = base;
        // `check` refuses more features than a head has.
        let is_odd = features < head_size && !features.is_multiple_of(2);
        if is_odd && !matches!(kind, "dynamic" | "yarn") {
            // For an odd number n of features, transformers has (n + 1) / 2 pairs, of which pair i is rotated by θ^(−2i/n).
            base = base.powf((features + 1) as f64 / features as f64);
            features += 1;
        }
        let scaling = self.scaling(kind, parameters, positions, features)?;
        Ok(RotarySettings { features, base, scaling })
    }

    fn scaling(
        &self,
        kind: &str,
        scaling: &Value,
        positions: usize,
        features: usize,
    ) -> Result<Frequencies, Error> {
        let number = |key: &str| scaling.get(key).and_then(Value::as_f64);
        let needed = |key: &str| {
            number(key).ok_or_else(|| self.wrong(format!("rope_scaling has no number {key}")))
        };
        // A value outside of the object takes precedence.
        let original = match self.optional("original_max_position_embeddings")? {
            Some(original) => original as f64,
            None => number("original_max_position_embeddings").unwrap_or(positions as f64),
        };
        let whole_original = original as usize;
        Ok(match kind {
            "default" => Frequencies::Plain,
            "linear" => Frequencies::Scaled(RotaryScaling::Linear { factor: needed("factor")? }),
            "dynamic" => Frequencies::Dynamic { factor: needed("factor")?, original: positions },
            "llama3" => Frequencies::Scaled(RotaryScaling::Llama3 {
                factor: needed("factor")?,
                low_frequency_factor: needed("low_freq_factor")?,
                high_frequency_factor: needed("high_freq_factor")?,
                original_positions: whole_original as f64,
            }),
            "longrope" => {
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
                let factor = number("factor").unwrap_or(positions as f64 / original);
                let grown =
                    if factor <= 1.0 { 1.0 } else { (1.0 + factor.ln() / original.ln()).sqrt() };
                Frequencies::LongRope {
                    short: list("short_factor")?,
                    long: list("long_factor")?,
                    original: whole_original,
                    attention_factor: number("attention_factor").unwrap_or(grown),
                }
            }
            "yarn" => {
                let factor = number("factor").unwrap_or(positions as f64 / original);
                let scaled =
                    |scale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 };
                let attention_factor = match (number("mscale"), number("mscale_all_dim")) {
                    (Some(scale), Some(all)) if scale != 0.0 && all != 0.0 => {
                        scaled(scale) / scaled(all)
                    }
                    _ => scaled(1.0),
                };
                let bound = |key: &str, usual| number(key).filter(|x| *x != 0.0).unwrap_or(usual);
                Frequencies::Scaled(RotaryScaling::Yarn {
                    factor,
                    original_positions: whole_original as f64,
                    beta_fast: bound("beta_fast", 32.0),
                    beta_slow: bound("beta_slow", 1.0),
                    amplitude: Some(number("attention_factor").unwrap_or(attention_factor)),
                    whole_pairs: scaling.get("truncate").and_then(Value::as_bool).unwrap_or(true),
                })
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
