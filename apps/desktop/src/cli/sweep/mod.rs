//! `regard sweep`: what each head does for a logit.

use core::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, bail, ensure};
use regard_figure::numbers;
use regard_models::{Ablation, Change, HeadAddress, Model, Values, Which};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::failure::{BadInput as _, Failure};
use super::models::input::{Reading, name, predicted};
use super::models::{changes, input, open, working, working_on};
use super::{Format, print, terminal};

/// Ablate each head in turn, and tell what that does to a logit
///
/// The logit is the one of the next token (of the mask's token in bert, of the class in vit). The table has a number for each
/// head: by how much the logit, or the difference of two, changes without it. JSON has `unchanged`, the number with all heads,
/// and by layer and head `ablated`, the number without a head, and `effect`, their difference.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: regard sweep story --text \"Mia and Tom met. Tom gave the ball to\" --ablate-each-head --logit Mia-Tom"
)]
pub(crate) struct Args {
    #[command(flatten)]
    model: open::Args,

    #[command(flatten)]
    input: input::Args,

    /// Replace the output of each head, one at a time, by zeros, or by its mean over the positions
    #[arg(
        long,
        required = true,
        value_name = "zero|mean",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "zero",
        value_parser = changes::parse_ablation
    )]
    ablate_each_head: Ablation,

    /// The token whose logit is told, or two whose logits are subtracted. A number is an id; other tokens are written as in the
    /// tokenizer (Ġthe), or as text that is one token (' the')
    #[arg(long, value_name = "A[-B]", allow_hyphen_values = true)]
    logit: String,

    /// How to print the numbers
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// A logit, or the difference of two.
struct Measure {
    plus: usize,
    minus: Option<usize>,
    /// The row of the logits.
    row: usize,
}

#[derive(Debug, Serialize)]
struct Token {
    id: usize,
    token: String,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let (checkpoint, model) = args.model.open()?;
    let reading = args.input.read(&checkpoint, &model)?;
    let position = predicted(&model, &reading).bad_input()?;
    let (plus, minus) = tokens(&args.logit, &model).bad_input()?;
    let writes = model.description().stack.causal;
    let measure = Measure { plus, minus, row: position.filter(|_| !writes).unwrap_or(0) };
    open::allow("the run takes", model.description().run_bytes(reading.lengths(), 1))?;

    let unchanged = working("running the model", || model.baseline(&reading.input)).bad_input()?;
    let whole = model.pass().after(&unchanged);
    let whole = if writes { whole.last_logits() } else { whole };
    let whole = whole.run(&reading.input).bad_input()?;
    let whole = measure
        .of(whole.logits().context("the model has no head, and predicts nothing").bad_input()?);
    let heads = model.description().heads();
    let change =
        |head: &HeadAddress| Change::Ablate { head: *head, to: args.ablate_each_head.clone() };
    let sweep: Vec<Change> = heads.iter().map(change).collect();
    let done = AtomicU64::new(0);
    let logits = working_on(
        "ablating heads",
        sweep.len() as u64,
        false,
        || done.load(Ordering::Relaxed),
        || {
            model
                .sweep(&unchanged, &sweep, writes, &mut |n| done.store(n as u64, Ordering::Relaxed))
        },
    );
    let numbers: Vec<f32> = logits.bad_input()?.iter().map(|logits| measure.of(logits)).collect();
    match args.format {
        Format::Text => print(&text(&args.logit, whole, &heads, &numbers)),
        Format::Json => {
            print(&format!("{}\n", json(&measure, whole, &heads, &numbers, &reading, &model)))
        }
    }
}

impl Measure {
    fn of(&self, logits: &Values) -> f32 {
        let start = self.row * logits.shape.last().copied().unwrap_or(0);
        let logit = |id: usize| logits.data.get(start + id).copied().unwrap_or(f32::NAN);
        logit(self.plus) - self.minus.map_or(0.0, logit)
    }
}

/// The ids of `A` or `A-B`. A text that can be split at a hyphen into two tokens is split there.
fn tokens(text: &str, model: &Model) -> Result<(usize, Option<usize>)> {
    let mut splits = text.match_indices('-').filter_map(|(at, _)| {
        let (plus, minus) = (&text[..at], &text[at + 1..]);
        Some((token(plus, model).ok()?, Some(token(minus, model).ok()?)))
    });
    if let Some(both) = splits.next() {
        return Ok(both);
    }
    let whole = token(text, model);
    // What is wrong with a part says more than what is wrong with the whole.
    if let Some((plus, minus)) = text.split_once('-').filter(|_| whole.is_err()) {
        token(plus, model)?;
        token(minus, model)?;
    }
    Ok((whole?, None))
}

/// The id of a token: a number, a token as the tokenizer writes it, or a text of one token; of a model that sorts images, a
/// class.
fn token(text: &str, model: &Model) -> Result<usize> {
    let description = model.description();
    if let Ok(id) = text.parse::<usize>() {
        let known = description.vocabulary;
        ensure!(known == 0 || id < known, "the token {id} is not one of the vocabulary's {known}");
        return Ok(id);
    }
    if description.embedding.patches.is_some() {
        let place = description.labels.iter().position(|label| label == text);
        return place.with_context(|| format!("{text:?} is no class of the model"));
    }
    let tokenizer = input::tokenizer(model, "--logit")?;
    if let Some(id) = tokenizer.id(text) {
        return Ok(id as usize);
    }
    match tokenizer.encode_as_is(text)?.as_slice() {
        [id] => Ok(*id as usize),
        ids => bail!("{text:?} is {} tokens, and not one", ids.len()),
    }
}

/// The numbers of each attention, layer by layer.
fn layers<'n>(heads: &[HeadAddress], numbers: &'n [f32]) -> Vec<(Which, Vec<&'n [f32]>)> {
    let mut all: Vec<(Which, Vec<&[f32]>)> = Vec::new();
    let mut start = 0;
    for rows in heads.chunk_by(|a, b| (a.attention, a.layer) == (b.attention, b.layer)) {
        let row = &numbers[start..start + rows.len()];
        start += rows.len();
        match all.last_mut() {
            Some((which, layers)) if *which == rows[0].attention => layers.push(row),
            _ => all.push((rows[0].attention, vec![row])),
        }
    }
    all
}

fn label(which: Which) -> &'static str {
    match which {
        Which::Only => "layer",
        Which::Encoder => "encoder",
        Which::Decoder => "decoder",
        Which::Cross => "cross",
    }
}

fn text(logit: &str, whole: f32, heads: &[HeadAddress], numbers: &[f32]) -> String {
    let effects: Vec<f32> = numbers.iter().map(|x| x - whole).collect();
    let mut out = format!(
        "{logit} with all heads: {}\nwithout a head, it changes by\n",
        numbers::fixed(whole, 4)
    );
    for (which, layers) in layers(heads, &effects) {
        let name = label(which);
        let rows: Vec<String> = (0..layers.len()).map(|layer| format!("{name} {layer}")).collect();
        let cols: Vec<String> = (0..layers.first().map_or(0, |row| row.len()))
            .map(|head| format!("head {head}"))
            .collect();
        terminal::push_signed(&mut out, &rows, &cols, &layers.concat());
    }
    out
}

fn json(
    measure: &Measure,
    whole: f32,
    heads: &[HeadAddress],
    numbers: &[f32],
    reading: &Reading,
    model: &Model,
) -> Value {
    let token = |id: usize| {
        let known = model.description().labels.get(id).cloned();
        let token = known.unwrap_or_else(|| name(u32::try_from(id).unwrap_or(u32::MAX), model));
        Token { id, token }
    };
    let effects: Vec<f32> = numbers.iter().map(|x| x - whole).collect();
    let by_layer = |numbers: &[f32]| match layers(heads, numbers).as_slice() {
        [(_, only)] => json!(only),
        several => {
            let named =
                several.iter().map(|(which, layers)| (label(*which).to_owned(), json!(layers)));
            Value::Object(named.collect::<Map<_, _>>())
        }
    };
    let mut logit = vec![token(measure.plus)];
    logit.extend(measure.minus.map(token));
    json!({
        "tokens": reading.tokens,
        "logit": logit,
        "unchanged": whole,
        "ablated": by_layer(numbers),
        "effect": by_layer(&effects),
    })
}
