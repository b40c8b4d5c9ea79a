//! `regard model`: describes a model.

use core::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use indicatif::DecimalBytes;
use regard_models::{
    Checkpoint, Description, Error, Experts, Model, OutputHead, Patches, Placement, Stack,
    Tokenizer,
};
use serde::Serialize;

use super::models::open;
use super::{Format, parse_count, print};
use crate::failure::{BadInput as _, Failure};
use crate::model_files;
use crate::say::{Data, Text};

/// The number of tokens of a run, if the user names none.
const TOKENS: usize = 128;

/// Describe a model: family, layers, heads, sizes, tokenizer, and the memory that it takes
///
/// Only the headers of the files are read.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: regard model english")]
pub(crate) struct Args {
    #[command(flatten)]
    model: open::Args,

    /// The number of tokens of the run whose memory is shown
    #[arg(long, value_name = "N", default_value_t = TOKENS, value_parser = parse_count)]
    tokens: usize,

    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// The memory of a model, in bytes.
#[derive(Debug, Serialize)]
struct Memory {
    /// The bytes of the weights in the types of the file.
    weights: u64,
    /// The number of tokens of the run.
    tokens: usize,
    /// The bytes of a forward pass over that many tokens, with all logits.
    run: u64,
    /// The bytes of the attention weights of all heads, which a trace keeps.
    attentions: u64,
    /// The bytes of the keys and values of a text that is written.
    cache: u64,
}

#[derive(Debug, Serialize)]
struct Summary<'a> {
    parameters: u64,
    tensors: usize,
    vocabulary_of_tokenizer: Option<usize>,
    /// Why the tokenizer cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    tokenizer_error: Option<String>,
    memory: Memory,
    #[serde(flatten)]
    description: &'a Description,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    show(&args.model.name(), &args.model.checkpoint()?, args.tokens, args.format)
}

/// Prints the description of a model.
pub(crate) fn summarize(path: &Path) -> Result<(), Failure> {
    show(&path.display().to_string(), &model_files::checkpoint(path, false)?, TOKENS, Format::Text)
}

fn show(name: &str, checkpoint: &Checkpoint, tokens: usize, format: Format) -> Result<(), Failure> {
    let description = Description::of(checkpoint).bad_input()?;
    Model::check(checkpoint, &description).bad_input()?;
    let tokenizer = Tokenizer::of(checkpoint, description.vocabulary);
    let summary = summary(tokens, checkpoint, &description, tokenizer);
    match format {
        Format::Text => print(&Text(text(name, &summary))),
        Format::Json => print(&Data::pretty_json(&summary).context("writing JSON")?),
    }
}

fn summary<'a>(
    tokens: usize,
    checkpoint: &Checkpoint,
    description: &'a Description,
    tokenizer: Result<Option<Tokenizer>, Error>,
) -> Summary<'a> {
    let numbers = |name: &str| checkpoint.shape(name).unwrap_or_default().iter().map(|n| *n as u64);
    let parameters = checkpoint
        .names()
        .map(|name| numbers(name).fold(1, u64::saturating_mul))
        .fold(0, u64::saturating_add);
    let tokens = description.embedding.patches.map_or(tokens, |patches| patches.tokens());
    let lengths = match (&description.encoder, description.embedding.frames) {
        (Some(_), Some(frames)) => [frames.positions(), tokens],
        (Some(_), None) => [tokens; 2],
        (None, _) => [tokens, 0],
    };
    let (tokenizer, tokenizer_error) = match tokenizer {
        Ok(tokenizer) => (tokenizer, None),
        Err(e) => (None, Some(e.to_string())),
    };
    Summary {
        parameters,
        tensors: checkpoint.names().count(),
        vocabulary_of_tokenizer: tokenizer.as_ref().map(Tokenizer::len),
        tokenizer_error,
        memory: Memory {
            weights: checkpoint.bytes(),
            tokens,
            run: description.run_bytes(lengths, tokens),
            attentions: description.attention_bytes(lengths),
            cache: description.cache_bytes(tokens),
        },
        description,
    }
}

fn text(name: &str, summary: &Summary<'_>) -> String {
    let mut out = String::new();
    let description = summary.description;
    let mut line = |label: &str, text: String| {
        let _ = writeln!(out, "{label:<12} {text}");
    };
    line("model", name.to_owned());
    line("family", description.family.clone());
    let own = stack(&description.stack);
    if let Some(encoder) = &description.encoder {
        line("encoder", stack(encoder));
        line("decoder", format!("{own}, and attention to the encoder in each layer"));
    } else {
        line("layers", own);
    }
    line("width", description.width.to_string());
    line("block", block(&description.stack));
    line("positions", positions(description));
    if let Some(patches) = &description.embedding.patches {
        let Patches { height, width, patch_height: rows, patch_width: cols, .. } = patches;
        line("image", format!("{height} × {width} pixels in patches of {rows} × {cols}"));
    }
    if let Some(frames) = &description.embedding.frames {
        let (bands, count, positions) = (frames.bands, frames.count, frames.positions());
        let sound = format!("{count} frames of {bands} mel bands");
        line("sound", format!("{sound}, which become {positions} positions"));
    }
    line("head", head(description));
    let known = match (summary.vocabulary_of_tokenizer, &summary.tokenizer_error) {
        (Some(known), _) => format!("{known} tokens, of the model's {}", description.vocabulary),
        (None, Some(error)) => format!("none that can be read: {error}"),
        (None, None) => "none".to_owned(),
    };
    line("tokenizer", known);
    line("parameters", format!("{} in {} tensors", summary.parameters, summary.tensors));
    let Memory { weights, tokens, run, attentions, cache } = summary.memory;
    let mut takes = |label: &str, bytes: u64, what: &str| {
        line(label, format!("{} for {what}", DecimalBytes(bytes)));
    };
    takes("memory", weights, "the weights, in the types of the file");
    takes("", run, &format!("a run over {tokens} tokens"));
    takes("", attentions, "the attention weights that a trace of it keeps");
    if description.stack.causal {
        takes("", cache, &format!("the keys and values while it writes {tokens} tokens"));
    }
    out
}

fn stack(stack: &Stack) -> String {
    let block = &stack.block;
    let (heads, kv_heads) = (block.heads, block.kv_heads);
    let shared = if kv_heads == heads {
        String::new()
    } else {
        format!(", which share {kv_heads} key/value heads")
    };
    let sliding: Vec<_> = stack.windows.iter().flatten().collect();
    let window = match sliding.first() {
        Some(window) if sliding.len() == stack.layers() => format!("; each sees {window} tokens"),
        Some(window) => format!("; {} of the layers see {window} tokens", sliding.len()),
        None => String::new(),
    };
    format!("{} × {heads} heads of {} features{shared}{window}", stack.layers(), block.head_size)
}

fn block(stack: &Stack) -> String {
    let block = &stack.block;
    let norm = match block.placement {
        Placement::Before => "norms before each sublayer",
        Placement::After => "norms after each sublayer's sum",
        Placement::Output => "norms on each sublayer's output",
        _ => "norms before and after each sublayer",
    };
    let gated = if block.gated { "gated " } else { "" };
    let parallel = if block.parallel { ", parallel to the attention" } else { "" };
    let one = format!("{gated}feed-forward layer of {} features", block.hidden);
    let layers = match &stack.experts {
        None => one,
        Some(Experts { layers, count, used, hidden, .. }) => {
            let with = layers.iter().filter(|has| **has).count();
            let others = match layers.len() - with {
                0 => String::new(),
                others => format!(" in {with} layers, and a {one} in {others}"),
            };
            format!("{count} experts of {hidden} features, of which a token takes {used}{others}")
        }
    };
    format!("{norm}; {layers}{parallel}")
}

fn positions(description: &Description) -> String {
    let stack = &description.stack;
    let block = &stack.block;
    match (&description.embedding.positions, stack.rotary.first(), &block.relative) {
        (Some(learned), _, _) => {
            format!("learned, at most {}", learned.count.saturating_sub(learned.first))
        }
        (None, Some(rotary), _) => {
            let (layers, turning) = (stack.layers(), stack.turns.iter().flatten().count());
            let some = if turning == layers {
                String::new()
            } else {
                format!(", in {turning} of the layers")
            };
            let bases: Vec<_> = stack.rotary.iter().map(|rotary| rotary.base.to_string()).collect();
            let bases = bases.join(" and ");
            let (features, of) = (rotary.features, block.head_size);
            format!("rotary over {features} of {of} features, base {bases}{some}")
        }
        (None, None, Some(relative)) => {
            format!("a bias by distance, in {} buckets", relative.buckets)
        }
        (None, None, None) => "none".to_owned(),
    }
}

fn head(description: &Description) -> String {
    match &description.head {
        OutputHead::Other { architecture } => {
            format!("none: that of {architecture} is not computed")
        }
        OutputHead::Tokens { .. } if description.tied => {
            "a logit for each token, by the embeddings".to_owned()
        }
        OutputHead::Tokens { .. } => "a logit for each token".to_owned(),
        OutputHead::Classes { .. } => format!("classes{}", labels(&description.labels)),
        OutputHead::Pooled { .. } => "a vector of the whole input".to_owned(),
        _ => "none".to_owned(),
    }
}

fn labels(labels: &[String]) -> String {
    if labels.is_empty() { String::new() } else { format!(": {}", labels.join(", ")) }
}
