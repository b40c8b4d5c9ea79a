//! `regard trace`: the places of a forward pass, as a file.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow};
use regard_models::{Description, Input, Values};
use safetensors::Dtype;
use safetensors::tensor::{View, serialize};

use super::destination;
use super::failure::{BadInput as _, Failure};
use super::models::input::Reading;
use super::models::{Run, open, run, working};
use super::suggest;
use crate::say::tell;
use crate::whole_file;

/// Write attention weights, hidden states and logits of a model into a safetensors file
///
/// Tensors: input_ids [n], attentions [layers, heads, n, n], hidden_states [layers + 1, n, width] (the last entry after the
/// final norm, as in transformers; not so for vit), residual_last [n, width] (before the final norm), last_hidden_state
/// [n, width] (after it) and logits [n, vocabulary]; of t5, encoder_attentions, decoder_attentions, cross_attentions and so on;
/// of vit, pixel_values and logits [classes]. The metadata has the tokens, and `regard export` and `regard FILE` show them.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: regard trace story --text \"Mia gave Tom the ball.\" --output mia.safetensors"
)]
pub(crate) struct Args {
    #[command(flatten)]
    run: run::Args,

    /// Write these places instead: TransformerLens's names, where * stands for any characters ('blocks.*.attn.hook_pattern'),
    /// or names of the tensors above (attentions); comma-separated or repeated
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    keep: Vec<String>,

    /// The safetensors file to write
    #[arg(long, value_name = "OUT.safetensors")]
    output: PathBuf,

    /// Overwrite a file of the model or the image
    #[arg(long)]
    force: bool,
}

/// A tensor of the file.
struct Tensor {
    shape: Vec<usize>,
    data: Data,
}

enum Data {
    Ids(Vec<u32>),
    Floats(Vec<f32>),
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let inputs = args.run.files()?;
    destination::check(&args.output, inputs.iter().map(PathBuf::as_path), args.force)?;
    let run = args.run.read()?;
    let (description, reading) = (run.model.description(), &run.reading);
    let rows = reading.lengths().into_iter().max().unwrap_or(0);
    let needed = description.run_bytes(reading.lengths(), rows)
        + 3 * description.attention_bytes(reading.lengths());
    open::allow("the run takes", needed)?;
    let mut tensors = working("running the model", || tensors(&args.keep, &run)).bad_input()?;
    let metadata = metadata(reading, description, &tensors)?;
    tensors.extend(read(reading.input.clone(), description));
    let named = |(name, tensor): (&String, &Tensor)| format!("{name} {:?}", tensor.shape);
    let names: Vec<String> = tensors.iter().map(named).collect();
    // serialize_to_file would write into a temporary file of its own, which Ctrl-C would leave.
    let write = || {
        let bytes = serialize(tensors, Some(metadata)).context("laying out the file")?;
        whole_file::write(&args.output, &bytes).map_err(anyhow::Error::from)
    };
    working("writing", write).with_context(|| format!("writing {}", args.output.display()))?;
    tell(format_args!("wrote {}: {}", args.output.display(), names.join(", ")));
    Ok(())
}

/// What transformers gives, or what is named: outputs by transformers' names, and places.
fn tensors(keep: &[String], run: &Run) -> Result<BTreeMap<String, Tensor>> {
    let description = run.model.description();
    let known = outputs(description);
    let (outputs, places): (Vec<&String>, Vec<&String>) =
        keep.iter().partition(|name| known.contains(name));
    let places = description.places_named(&places).map_err(|e| {
        let all = || description.places().into_iter().chain(known.iter().cloned());
        let is_unknown =
            |name: &&&String| !name.contains('*') && all().all(|place| place != ***name);
        let hint = places.iter().find(is_unknown).map(|name| suggest::hint(name, all()));
        anyhow!("{e}{}", hint.unwrap_or_default())
    })?;
    let mut pass = run.pass().keep(places.clone());
    if places.is_empty() || !outputs.is_empty() {
        pass = pass.keep_as_transformers();
    } else {
        pass = pass.last_logits(); // none are written
    }
    let trace = pass.run(&run.reading.input)?;
    let mut values = trace.as_transformers(description);
    values.retain(|name, _| keep.is_empty() || outputs.contains(&name));
    if let Some(missing) = outputs.into_iter().find(|name| !values.contains_key(*name)) {
        return Err(anyhow!("the model has no {missing}"));
    }
    for place in places {
        values.extend(trace.get(&place).cloned().map(|kept| (place, kept)));
    }
    let tensor = |Values { shape, data }| Tensor { shape, data: Data::Floats(data) };
    Ok(values.into_iter().map(|(name, values)| (name, tensor(values))).collect())
}

/// The names of what transformers gives.
fn outputs(description: &Description) -> Vec<String> {
    let of_stack = ["attentions", "hidden_states", "residual_last", "last_hidden_state"];
    let mut names = vec!["logits".to_owned()];
    if description.encoder.is_none() {
        names.extend(of_stack.map(str::to_owned));
        return names;
    }
    names.push("cross_attentions".to_owned());
    for prefix in ["encoder", "decoder"] {
        names.extend(of_stack.map(|name| format!("{prefix}_{name}")));
    }
    names
}

/// The tokens: `tokens`, and of a model with an encoder and a decoder also those of each attention by its name.
fn metadata(
    reading: &Reading,
    description: &Description,
    tensors: &BTreeMap<String, Tensor>,
) -> Result<HashMap<String, String>> {
    let json = |tokens: &[String]| serde_json::to_string(tokens).context("writing tokens");
    let tokens = json(&reading.tokens)?;
    let mut metadata = HashMap::from([("tokens".to_owned(), tokens.clone())]);
    if description.encoder.is_some() {
        let decoder_tokens = json(&reading.decoder_tokens)?;
        for name in tensors.keys() {
            let name = attention(name);
            if name.starts_with("cross") || name.contains("cross_attn") {
                metadata.insert(format!("{name}.query_tokens"), decoder_tokens.clone());
            } else if name.starts_with("decoder") {
                metadata.insert(format!("{name}.tokens"), decoder_tokens.clone());
            }
        }
        metadata.insert("decoder_tokens".to_owned(), decoder_tokens);
    }
    Ok(metadata)
}

/// The name of the attention that a tensor is a layer of: `decoder.*.attn.hook_pattern`.
fn attention(name: &str) -> String {
    let parts = name.split('.').enumerate();
    let parts = parts.map(|(i, part)| if i == 1 { "*" } else { part });
    parts.collect::<Vec<_>>().join(".")
}

/// What the model has read, by its names in transformers.
fn read(input: Input, description: &Description) -> Vec<(String, Tensor)> {
    let ids = |ids: Vec<u32>| Tensor { shape: vec![ids.len()], data: Data::Ids(ids) };
    let Input { ids: first, decoder_ids, pixels, .. } = input;
    let mut tensors = Vec::new();
    if let Some(patches) = &description.embedding.patches {
        let shape = vec![patches.channels, patches.height, patches.width];
        tensors.push(("pixel_values".to_owned(), Tensor { shape, data: Data::Floats(pixels) }));
    } else {
        tensors.push(("input_ids".to_owned(), ids(first)));
    }
    if description.encoder.is_some() {
        tensors.push(("decoder_input_ids".to_owned(), ids(decoder_ids)));
    }
    tensors
}

impl View for Tensor {
    fn dtype(&self) -> Dtype {
        match self.data {
            Data::Ids(_) => Dtype::I64,
            Data::Floats(_) => Dtype::F32,
        }
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match &self.data {
            Data::Ids(ids) => ids.iter().flat_map(|id| i64::from(*id).to_le_bytes()).collect(),
            Data::Floats(numbers) => numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
        }
    }

    fn data_len(&self) -> usize {
        match &self.data {
            Data::Ids(ids) => ids.len() * size_of::<i64>(),
            Data::Floats(numbers) => size_of_val(numbers.as_slice()),
        }
    }
}
