//! The files of a model: its configuration, its weights, and what it must give.

use std::fs;

use anyhow::{Context as _, Result, bail, ensure};
use half::{bf16, f16};
use regard::{Embedding, Linear, Norm};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

pub struct Files {
    pub config: Value,
    /// The file of weights, or its shards.
    weights: Vec<Vec<u8>>,
    expected: Vec<u8>,
}

impl Files {
    pub fn read(model: &str) -> Result<Self> {
        let folder = format!("{}/golden/models/{model}", env!("CARGO_MANIFEST_DIR"));
        let mut weights = Vec::new();
        for entry in fs::read_dir(&folder).context(folder.clone())? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with("model") && name.ends_with(".safetensors") {
                weights.push(fs::read(&path)?);
            }
        }
        ensure!(!weights.is_empty(), "{folder} has no weights");
        let read = |name: &str| {
            fs::read(format!("{folder}/{name}")).with_context(|| format!("{folder}/{name}"))
        };
        Ok(Self {
            config: serde_json::from_slice(&read("config.json")?)?,
            weights,
            expected: read("expected.safetensors")?,
        })
    }

    pub fn size(&self, key: &str) -> Result<usize> {
        Ok(self.config[key].as_u64().with_context(|| format!("{key} in config.json"))? as usize)
    }

    pub fn number(&self, key: &str) -> Result<f64> {
        self.config[key].as_f64().with_context(|| format!("{key} in config.json"))
    }

    /// Calls `f` with a weight.
    fn with<R>(&self, name: &str, f: impl FnOnce(TensorView<'_>) -> Result<R>) -> Result<R> {
        for file in &self.weights {
            if let Ok(view) = SafeTensors::deserialize(file)?.tensor(name) {
                return f(view).with_context(|| name.to_owned());
            }
        }
        bail!("there is no weight {name}")
    }

    /// The numbers of a weight.
    pub fn weight(&self, name: &str) -> Result<Vec<f32>> {
        self.with(name, |view| numbers(&view))
    }

    /// The numbers of an expected tensor.
    pub fn expected(&self, name: &str) -> Result<Vec<f32>> {
        numbers(&SafeTensors::deserialize(&self.expected)?.tensor(name)?).context(name.to_owned())
    }

    /// Expected or given ids of tokens.
    pub fn ids(&self, name: &str) -> Result<Vec<u32>> {
        let file = SafeTensors::deserialize(&self.expected)?;
        let bytes = file.tensor(name)?.data().as_chunks().0;
        Ok(bytes.iter().map(|b| i64::from_le_bytes(*b) as u32).collect())
    }

    /// A linear layer from `name`.weight \[outputs, inputs\], in the type in which it is stored, and `name`.bias.
    pub fn linear(&self, name: &str, inputs: usize, outputs: usize) -> Result<Linear> {
        let layer = self.with(&format!("{name}.weight"), |view| {
            Ok(match view.dtype() {
                Dtype::F16 => Linear::from_pytorch(f16s(view.data()), inputs, outputs)?,
                Dtype::BF16 => Linear::from_pytorch(bf16s(view.data()), inputs, outputs)?,
                _ => Linear::from_pytorch(numbers(&view)?, inputs, outputs)?,
            })
        })?;
        match self.weight(&format!("{name}.bias")) {
            Ok(bias) => Ok(layer.with_bias(bias)?),
            Err(_no_bias) => Ok(layer),
        }
    }

    /// An embedding of so many features, in the type in which it is stored.
    pub fn embedding(&self, name: &str, features: usize) -> Result<Embedding> {
        self.with(name, |view| {
            let tokens = view.shape()[0];
            Ok(match view.dtype() {
                Dtype::F16 => Embedding::new(f16s(view.data()), tokens, features)?,
                Dtype::BF16 => Embedding::new(bf16s(view.data()), tokens, features)?,
                _ => Embedding::new(numbers(&view)?, tokens, features)?,
            })
        })
    }

    pub fn layer_norm(&self, name: &str, epsilon: f64) -> Result<Norm> {
        let part = |part: &str| self.weight(&format!("{name}.{part}"));
        Ok(Norm::layer(part("weight")?, part("bias")?, epsilon as f32)?)
    }

    /// An RMS norm, to the weight of which `offset` is added.
    pub fn rms_norm(&self, name: &str, epsilon: f64, offset: f32) -> Result<Norm> {
        let mut weight = self.weight(&format!("{name}.weight"))?;
        for w in &mut weight {
            *w += offset;
        }
        Ok(Norm::rms(weight, epsilon as f32)?)
    }
}

fn numbers(view: &TensorView<'_>) -> Result<Vec<f32>> {
    Ok(match view.dtype() {
        Dtype::F32 => view.data().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        Dtype::F16 => f16s(view.data()).into_iter().map(f16::to_f32).collect(),
        Dtype::BF16 => bf16s(view.data()).into_iter().map(bf16::to_f32).collect(),
        other => bail!("{other:?}"),
    })
}

fn f16s(bytes: &[u8]) -> Vec<f16> {
    bytes.as_chunks().0.iter().map(|b| f16::from_le_bytes(*b)).collect()
}

fn bf16s(bytes: &[u8]) -> Vec<bf16> {
    bytes.as_chunks().0.iter().map(|b| bf16::from_le_bytes(*b)).collect()
}
