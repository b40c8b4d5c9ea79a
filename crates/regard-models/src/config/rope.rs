//! Rotary settings of config.json, in the forms that transformers 4 and 5 write.

use serde_json::{Map, Value};

use super::hugging_face::Config;
use crate::families::{Positions, Rope};
use crate::{Error, Frequencies, RotaryScaling, RotarySettings, Stack};

impl Config<'_> {
    /// Gives each layer of a stack its rotary embedding of heads of `head_size`. The windows of the stack are known.
    ///
    /// Transformers 5 writes one object `rope_parameters`, which has an object for each kind of layers in families whose full
    /// and sliding layers differ. Transformers 4 writes the bases (`rope_theta`, in GPT-NeoX `rotary_emb_base`) and
    /// `partial_rotary_factor` (GPT-NeoX: `rotary_pct`) beside an object `rope_scaling`, which may be null.
    pub(super) fn turn(&self, stack: &mut Stack, head_size: usize) -> Result<(), Error> {
        let Positions::Rotary(rope) = &self.row.positions else { return Ok(()) };
        let object = |key: &str| self.own(key).and_then(Value::as_object).filter(|x| !x.is_empty());
        let (scaling, parameters) = (object("rope_scaling"), object("rope_parameters"));
        let kinds = ["full_attention", "sliding_attention"];
        let &[(first, of_first), (second, of_second)] = rope.bases else {
            let parameters = self.rope_parameters(rope);
            if kinds.iter().any(|kind| parameters.contains_key(*kind)) {
                return Err(self.wrong("rope_parameters by kinds of layers are not known"));
            }
            let base = rope.bases.first().copied().unwrap_or(("rope_theta", 10_000.0));
            stack.turn_all(self.rotary(rope, &parameters.into(), head_size, base)?);
            return Ok(());
        };
        stack.rotary.clear();
        let mut places = [None; 2];
        for (i, base) in [(first, of_first), (second, of_second)].into_iter().enumerate() {
            if !stack.windows.iter().any(|window| usize::from(window.is_some()) == i) {
                continue;
            }
            let own = parameters.and_then(|kinds_of| kinds_of.get(kinds[i])?.as_object());
            // Transformers 5 ignores the older key `type` if there is no object for the kind.
            let plain = || Map::from_iter([("rope_type".to_owned(), "default".into())]);
            let mut own = own.cloned().unwrap_or_else(plain);
            if i == 0 || rope.scales_all {
                own.extend(scaling.cloned().into_iter().flatten());
            }
            places[i] = Some(stack.rotary.len());
            stack.rotary.push(self.rotary(rope, &own.into(), head_size, base)?);
        }
        let windows = stack.windows.iter();
        stack.turns = windows.map(|window| places[usize::from(window.is_some())]).collect();
        Ok(())
    }

    /// The object of rotary settings of a family whose layers are all alike. If both objects exist, only the scaling counts.
    pub(super) fn rope_parameters(&self, rope: &Rope) -> Map<String, Value> {
        let object = |key: &str| self.own(key).and_then(Value::as_object).filter(|x| !x.is_empty());
        let parameters = object("rope_scaling").or_else(|| object("rope_parameters")).cloned();
        parameters.unwrap_or_else(|| usual_parameters(rope))
    }

    /// A rotary embedding. The base has its key in transformers 4, and its value in a file without it.
    fn rotary(
        &self,
        rope: &Rope,
        parameters: &Value,
        head_size: usize,
        (key, usual): (&str, f64),
    ) -> Result<RotarySettings, Error> {
        let positions = self.size("max_position_embeddings")?;
        let number = |key: &str, own: &str, default: f64| {
            let number = |value: &Value| value.as_f64();
            let known = parameters.get(key).and_then(number);
            known.or_else(|| self.own(own).and_then(number)).unwrap_or(default)
        };
        let base = number("rope_theta", key, usual);
        if !(base > 0.0 && base.is_finite()) {
            return Err(self.wrong(format!("rope_theta is {base}")));
        }
        let (own, default) = rope.share.unwrap_or(("partial_rotary_factor", 1.0));
        let mut features =
            (head_size as f64 * number("partial_rotary_factor", own, default)) as usize;
        let kind = parameters.get("rope_type").or_else(|| parameters.get("type"));
        let mut kind = kind.and_then(Value::as_str).unwrap_or("default");
        if let Some((only, older)) = rope.only {
            if older.contains(&kind) {
                kind = only;
            }
            if kind != "default" && kind != only {
                let family = self.row.name;
                let what =
                    format!("the rope_type {kind:?} is none of {family}'s, default and {only}");
                return Err(self.wrong(what));
            }
        } else if rope.share.is_none() && features != head_size {
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
        Ok(RotarySettings { features, base, scaling, interleaved: rope.interleaved })
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
            "dynamic" => Frequencies::Dynamic {
                factor: needed("factor")?,
                original: positions,
                doubles: false,
            },
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

/// The `rope_parameters` of the family's class.
pub(super) fn usual_parameters(rope: &Rope) -> Map<String, Value> {
    serde_json::from_str(rope.usual).unwrap_or_default()
}
