//! `regard trace`: writes the places of a forward pass to a file.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow};
use regard_models::{Description, Input, Output, Place, Prepared, Values};
use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize};

use super::destination::Destination;
use super::models::{Run, run, working};
use super::suggest;
use super::tensors::bytes;
use crate::failure::{BadInput as _, Failure};
use crate::model_files;

/// The name in transformers of the output that does not consist of places.
const LOGITS: &str = "logits";

/// Write attention weights, hidden states and logits of a model into a safetensors file
///
/// Tensors: input_ids [n], attentions [layers, heads, n, n], hidden_states [layers + 1, n, width] (the last entry after the
/// final norm, as in transformers; before it for vit), residual_last [n, width] (before the final norm), last_hidden_state [n,
/// width] (after it) and logits [n, vocabulary]; for t5 and whisper encoder_attentions, decoder_attentions, cross_attentions and so
/// on; for vit pixel_values and logits [classes]. The metadata has the tokens. `regard export` and `regard FILE` show the file.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: regard trace story --text \"Mia gave Tom the ball.\" --output mia.safetensors"
)]
pub(crate) struct Args {
    #[command(flatten)]
    run: run::Args,

    /// Write these places instead: TransformerLens's names, in which * stands for any characters
    /// ('blocks.*.attn.hook_pattern'), or names of the tensors above (attentions); comma-separated or repeated
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    keep: Vec<String>,

    /// The safetensors file to write
    #[arg(long, value_name = "OUT.safetensors")]
    output: PathBuf,

    /// Overwrite a file of the model or the image
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let to = Destination::new(&args.output, args.force)?;
    let run = args.run.read_for(&to)?;
    let (description, reading) = (run.model.description(), &run.reading);
    let kept = Kept::named(&args.keep, description).bad_input()?;
    model_files::allow("the run takes", kept.bytes(description, reading.lengths()))?;
    let outputs = working("running the model", || kept.values(&run)).bad_input()?;
    let metadata = metadata(reading, description, outputs.keys())?;
    let mut tensors = inputs(&reading.input, description);
    for (name, Values { shape, data }) in &outputs {
        tensors.push((name, Dtype::F32, shape.clone(), bytes(data)));
    }
    tensors.sort_by_key(|tensor| tensor.0);
    let names: Vec<String> =
        tensors.iter().map(|(name, _, of, _)| format!("{name} {of:?}")).collect();
    working("writing", || {
        const LAYOUT: &str = "laying out the file";
        let mut views = Vec::new();
        for (name, dtype, shape, bytes) in &tensors {
            views.push((name, TensorView::new(*dtype, shape.clone(), bytes).context(LAYOUT)?));
        }
        // serialize_to_file would write to a temporary file of its own, which Ctrl-C would leave behind.
        to.write(&serialize(views, Some(metadata)).context(LAYOUT)?)
    })?;
    to.tell(&names.join(", "));
    Ok(())
}

/// The tensors to write.
struct Kept {
    /// The outputs as in transformers: all of them, or the named ones.
    outputs: Vec<Output>,
    /// The named places.
    places: Vec<Place>,
    /// Whether all of these must exist. Without names, a model without an output layer has no logits.
    are_named: bool,
}

impl Kept {
    fn named(names: &[String], description: &Description) -> Result<Self> {
        let known = description.outputs();
        if names.is_empty() {
            return Ok(Self { outputs: known, places: Vec::new(), are_named: false });
        }
        let input = Input::default();
        let inputs: Vec<&str> = inputs(&input, description).iter().map(|tensor| tensor.0).collect();
        // The input is written in any case.
        let is_tensor = |name: &&String| {
            known.iter().any(|output| output.name == **name) || inputs.contains(&name.as_str())
        };
        let (outputs, places): (Vec<&String>, Vec<&String>) = names.iter().partition(is_tensor);
        let places = description.places_named(&places).map_err(|e| {
            let outputs = known.iter().map(|output| output.name.clone());
            let inputs = inputs.iter().map(|name| (*name).to_owned());
            let all: Vec<String> = description
                .places()
                .into_iter()
                .map(String::from)
                .chain(outputs)
                .chain(inputs)
                .collect();
            let is_unknown = |name: &&&String| !name.contains('*') && !all.contains(name);
            let unknown = places.iter().find(is_unknown);
            let meant = unknown.and_then(|name| Some((name, suggest::nearest(name, &all)?)));
            // The place that the error names is the nearest by its letters alone, and no output.
            meant.map_or_else(
                || anyhow!("{e}"),
                |(name, meant)| anyhow!("the model has no {name:?}; did you mean {meant:?}?"),
            )
        })?;
        let is_named = |output: &Output| outputs.iter().any(|name| **name == output.name);
        Ok(Self { outputs: known.into_iter().filter(is_named).collect(), places, are_named: true })
    }

    /// Whether the logits of all positions are written.
    fn has_logits(&self) -> bool {
        self.outputs.iter().any(|output| output.name == LOGITS)
    }

    /// The places of the outputs, and the named places.
    fn all_places(&self) -> impl Iterator<Item = Place> {
        self.outputs.iter().flat_map(|output| &output.places).chain(&self.places).copied()
    }

    /// The memory of a run besides the weights: that of the run, which keeps each place; or that of the file and its tensors.
    fn bytes(&self, description: &Description, lengths: [usize; 2]) -> u64 {
        let rows = if self.has_logits() { lengths.into_iter().max().unwrap_or(0) } else { 1 };
        let places: BTreeSet<Place> = self.all_places().collect();
        let places: Vec<Place> = places.into_iter().collect();
        let written: Vec<Place> = self.all_places().collect();
        let kept = description.place_bytes(&places, lengths);
        let logits = (rows as u64).saturating_mul(4 * description.vocabulary as u64);
        let file = description.place_bytes(&written, lengths).saturating_add(logits);
        description.run_bytes(lengths, rows).saturating_add(kept).max(file.saturating_mul(2))
    }

    /// Runs the model.
    fn values(&self, run: &Run) -> Result<BTreeMap<String, Values>> {
        let mut pass = run.pass().keep(self.all_places());
        if !self.has_logits() {
            pass = pass.last_logits(); // no logits are written
        }
        let mut trace = pass.run(&run.reading.input)?;
        let mut values = trace.as_transformers(run.model.description());
        values.retain(|name, _| self.outputs.iter().any(|output| output.name == *name));
        let missing = |output: &&Output| self.are_named && !values.contains_key(&output.name);
        if let Some(Output { name, .. }) = self.outputs.iter().find(missing) {
            return Err(anyhow!("the model has no {name}"));
        }
        let named =
            self.places.iter().filter_map(|place| Some((place.to_string(), trace.take(*place)?)));
        values.extend(named);
        Ok(values)
    }
}

/// The tokens: `tokens`, and for a model with an encoder and a decoder also the tokens of each attention by its name.
fn metadata<'n>(
    reading: &Prepared,
    description: &Description,
    outputs: impl Iterator<Item = &'n String>,
) -> Result<HashMap<String, String>> {
    let json = |tokens: &[String]| serde_json::to_string(tokens).context("writing tokens");
    let tokens = json(&reading.tokens)?;
    let mut metadata = HashMap::from([("tokens".to_owned(), tokens.clone())]);
    if description.encoder.is_some() {
        let decoder_tokens = json(&reading.decoder_tokens)?;
        for name in outputs {
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

/// The name of the attention of which a tensor is a layer: `decoder.*.attn.hook_pattern`.
fn attention(name: &str) -> String {
    let parts = name.split('.').enumerate();
    let parts = parts.map(|(i, part)| if i == 1 { "*" } else { part });
    parts.collect::<Vec<_>>().join(".")
}

/// A tensor of the file: its name, its type, its shape and its bytes.
type Named<'a> = (&'a str, Dtype, Vec<usize>, Cow<'a, [u8]>);

/// The input of the model, by its names in transformers.
fn inputs<'a>(input: &'a Input, description: &Description) -> Vec<Named<'a>> {
    let ids = |name: &'static str, ids: &[u32]| -> Named<'a> {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| i64::from(*id).to_le_bytes()).collect();
        (name, Dtype::I64, vec![ids.len()], bytes.into())
    };
    let mut all = Vec::new();
    if let Some(patches) = &description.embedding.patches {
        let shape = vec![patches.channels, patches.height, patches.width];
        all.push(("pixel_values", Dtype::F32, shape, bytes(&input.pixels)));
    } else if let Some(frames) = &description.embedding.frames {
        let shape = vec![frames.bands, frames.count];
        all.push(("input_features", Dtype::F32, shape, bytes(&input.features)));
    } else {
        all.push(ids("input_ids", &input.ids));
    }
    if description.encoder.is_some() {
        all.push(ids("decoder_input_ids", &input.decoder_ids));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trace of a long text keeps and reports the requested places, and not the attention of every head.
    #[test]
    fn a_trace_takes_what_it_keeps() {
        let description =
            Description::of(&crate::bundled::checkpoint("story".as_ref()).unwrap().unwrap())
                .unwrap();
        let (heads, layers) =
            (description.stack.block.heads as u64, description.stack.layers() as u64);
        let lengths = [4000, 0];
        let pattern = 4 * heads * 4000 * 4000;
        let kept = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            Kept::named(&names, &description).unwrap()
        };
        let bytes = |names: &[&str]| kept(names).bytes(&description, lengths);
        // The weights of one layer, and the file, which has them once more.
        let one = bytes(&["blocks.0.attn.hook_pattern"]);
        assert!((2 * pattern..3 * pattern).contains(&one), "{one}");
        assert!(bytes(&["attentions"]) >= 2 * layers * pattern);
        assert!(bytes(&[]) >= 2 * layers * pattern);
        assert!(kept(&["logits"]).all_places().next().is_none() && bytes(&["logits"]) < pattern);
        assert_eq!(kept(&["residual_last"]).all_places().count(), 1);
    }
}
