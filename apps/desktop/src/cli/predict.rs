//! `regard predict`: the tokens that a model expects next.

use core::fmt::Write as _;

use anyhow::{Context as _, Result};
use regard_models::{OutputHead, Place, Prepared, check_logits};
use serde::Serialize;

use super::models::{NO_LOGITS, Run, explained, run, shown, working};
use super::{Format, parse_count};
use crate::failure::{BadInput as _, Failure};
use crate::model_files;

/// Predict the next token
///
/// For a model that fills gaps (bert), predict the token at its mask, as in --text "The [MASK] sat."; for a model that
/// classifies images or texts, the class; for one that compares texts and images by vectors (CLIP), the vector.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: regard predict english --text \"When Mary and John went to the store, John gave a drink to\" --top 3"
)]
pub(crate) struct Args {
    #[command(flatten)]
    run: run::Args,

    /// The number of tokens to show, the most likely first
    #[arg(long, value_name = "K", default_value_t = 10, value_parser = parse_count)]
    top: usize,

    /// Also show what the residual stream would predict before the first layer and after each one, through the final norm and
    /// the unembedding (logit lens)
    #[arg(long)]
    lens: bool,

    /// How to print them
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Serialize)]
struct Prediction {
    tokens: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    decoder_tokens: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    next: Vec<Next>,
    /// The vector of the whole input, of a model that compares inputs by it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pooled: Vec<f32>,
    /// The predictions before the first layer and after each one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lens: Vec<Vec<Next>>,
}

#[derive(Debug, Serialize)]
struct Next {
    id: usize,
    token: String,
    logit: f32,
    /// `None` for a regression, whose logits are the predicted numbers.
    probability: Option<f64>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let run = args.run.read()?;
    let lengths = run.reading.lengths();
    model_files::allow("the run takes", run.model.description().run_bytes(lengths, 1))?;
    let pools = matches!(run.model.description().head, OutputHead::Pooled { .. });
    let (mut next, mut lens, mut pooled) = Default::default();
    if pools && !args.lens {
        pooled = working("running the model", || vector(&run)).bad_input()?;
    } else {
        (next, lens) = working("running the model", || self::next(args, &run)).bad_input()?;
    }
    let classifies = run.model.description().classifies();
    let Prepared { tokens, decoder_tokens, .. } = run.reading;
    let prediction = Prediction { tokens, decoder_tokens, next, pooled, lens };
    let shown = || {
        if pools { of_vector(&prediction.pooled, args.top) } else { text(&prediction, classifies) }
    };
    args.format.print(shown, &prediction)
}

/// The vector of the whole input.
fn vector(run: &Run) -> Result<Vec<f32>> {
    let trace = run.pass().run(&run.reading.input)?;
    let vector = trace.pooled().context(NO_LOGITS)?;
    check_logits(&vector.data).map_err(|e| explained(e, &run.checkpoint))?;
    Ok(vector.data.clone())
}

/// The length of a vector, and its first numbers.
fn of_vector(vector: &[f32], count: usize) -> String {
    let length = vector.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    let shown: Vec<String> = vector.iter().take(count).map(|x| format!("{x:.4}")).collect();
    let more = if count < vector.len() { " …" } else { "" };
    let (count, shown) = (vector.len(), shown.join(" "));
    format!(
        "a vector of {count} numbers, of length {length:.4}, for the whole input\n{shown}{more}\n"
    )
}

/// The prediction, and with --lens that of each residual stream.
fn next(args: &Args, run: &Run) -> Result<(Vec<Next>, Vec<Vec<Next>>)> {
    let (model, reading) = (&run.model, &run.reading);
    let streams = if args.lens { model.description().streams() } else { Vec::new() };
    let (writes, classifies) = (model.description().stack.causal, model.description().classifies());
    let position = model.predicted(&reading.input)?;
    let mut pass = run.pass().keep(streams.iter().copied());
    if writes {
        pass = pass.last_logits();
    }
    let trace = pass.run(&reading.input)?;
    let logits = trace.logits().context(NO_LOGITS)?;
    let width = logits.shape.last().copied().unwrap_or(0);
    let row = if writes || classifies { 0 } else { position };
    let logits = logits.data.get(row * width..(row + 1) * width).unwrap_or_default();
    check_logits(logits).map_err(|e| explained(e, &run.checkpoint))?;
    let named = |logits: &[f32]| {
        let probabilities = model.description().probabilities(logits);
        let next = |id: usize| Next {
            id,
            token: model.output_name(id),
            logit: logits[id],
            probability: probabilities.as_ref().map(|all| all[id]),
        };
        // Of equal logits the first comes first.
        let mut order: Vec<usize> = (0..logits.len()).collect();
        order.sort_by(|i, j| logits[*j].total_cmp(&logits[*i]));
        order.into_iter().take(args.top).map(next).collect::<Vec<_>>()
    };
    let of_stream = |place: &Place| {
        let stream = trace.at(*place).context(NO_LOGITS)?;
        let stream = if classifies { stream.clone() } else { stream.row(position) };
        Ok(named(&model.lens(&stream)?.context(NO_LOGITS)?.data))
    };
    let lens = streams.iter().map(of_stream).collect::<Result<_>>()?;
    Ok((named(logits), lens))
}

fn text(prediction: &Prediction, classifies: bool) -> String {
    let mut out = String::new();
    for (layer, next) in prediction.lens.iter().enumerate() {
        let _ = match layer.checked_sub(1) {
            Some(layer) => writeln!(out, "after layer {layer}"),
            None => writeln!(out, "before layer 0"),
        };
        push(&mut out, next, &prediction.tokens, classifies);
        out.push('\n');
    }
    if !prediction.lens.is_empty() {
        out.push_str("prediction\n");
    }
    push(&mut out, &prediction.next, &prediction.tokens, classifies);
    out
}

/// A table of predictions.
fn push(out: &mut String, next: &[Next], tokens: &[String], classifies: bool) {
    let found = next.iter().map(|next| next.token.clone());
    let (what, names) = if classifies {
        ("class", found.collect::<Vec<_>>())
    } else {
        // All tokens together tell the kind of tokenizer.
        let all: Vec<String> = tokens.iter().cloned().chain(found).collect();
        ("token", shown(&all)[tokens.len()..].to_vec())
    };
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(5);
    let numbers = next.iter().all(|next| next.probability.is_none());
    let [logit, probability] = if numbers { ["number", ""] } else { ["logit", "probability"] };
    let head = format!("{what:<width$} {:>8} {logit:>12} {probability:>12}", "id");
    let _ = writeln!(out, "{}", head.trim_end());
    for (next, token) in next.iter().zip(&names) {
        let Next { id, logit, probability, .. } = next;
        let _ = write!(out, "{token:<width$} {id:>8} {logit:>12.4}");
        let _ = match probability {
            Some(probability) => writeln!(out, " {probability:>12.6}"),
            None => writeln!(out),
        };
    }
}
