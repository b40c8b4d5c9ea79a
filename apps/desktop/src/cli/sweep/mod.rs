//! `regard sweep`: the effect of each head, or of each place of the residual stream, on a logit.

mod logit;

use core::fmt::Write as _;
use core::sync::atomic::{AtomicU64, Ordering};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::ArgGroup;
use regard_figure::{Format as FileFormat, Label, LabelledMatrix, Look, Palette, largest, numbers};
use regard_heads::readable;
use regard_models::{
    Ablation, Attribution, Change, Checkpoint, Each, HeadAddress, HeadInput, LayerAttribution,
    Logits, MeasuredLogit, Model, Prepared, SweepCell, Values, Which, check_logits,
};
use serde_json::{Map, Value, json};

use super::destination::Destination;
use super::models::{NO_LOGITS, changes, explained, input, open, working, working_on};
use super::{Format, terminal};
use crate::failure::{BadInput as _, Failure};
use crate::model_files;

/// Ablate each head, or patch each place, one at a time, and show the effect on a logit; or show what each part adds to it
///
/// The logit is that of the next token (of the mask's token in bert, of the class in vit). The table has a number for each
/// head, or for each position and layer: the change of the logit, or of the difference of two logits. With
/// --attribute-each-head nothing is changed. The table then has what each head and each feed-forward layer adds to the logit
/// directly, through the final norm with its scale unchanged.
#[derive(Debug, clap::Args)]
#[command(
    group(ArgGroup::new("sweep").required(true).args(["ablate_each_head", "patch_each_place", "path", "attribute_each_head"])),
    group(ArgGroup::new("patches").args(["patch_text", "patch_ids", "patch_file"]).conflicts_with_all(["ablate_each_head", "attribute_each_head"])),
    after_help = "Example: regard sweep story --text \"Mary and John went to the store. John gave a drink to\" --ablate-each-head --logit Mary-John"
)]
pub(crate) struct Args {
    #[command(flatten)]
    model: open::Args,

    #[command(flatten)]
    input: input::Args,

    /// Replace the output of each head, one at a time, by zeros, or by its mean over the positions
    #[arg(
        long,
        value_name = "zero|mean",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "zero",
        value_parser = changes::parse_ablation
    )]
    ablate_each_head: Option<Ablation>,

    /// Replace the residual stream that enters each layer at each position, one at a time, by that of the run on another text
    #[arg(long, requires = "patches")]
    patch_each_place: bool,

    /// Let each later head, one at a time, read this head's output from the run on another text, while all parts between them
    /// stay the same (direct path patching)
    #[arg(long, value_name = "L.H", requires = "patches")]
    path: Option<HeadAddress>,

    /// The part of each later head that reads this output: its queries, its keys or its values
    #[arg(
        long,
        value_enum,
        default_value_t = Into::Q,
        conflicts_with_all = ["ablate_each_head", "patch_each_place", "attribute_each_head"]
    )]
    into: Into,

    #[command(flatten)]
    other: changes::Other,

    /// Show what each head, each feed-forward layer and each bias adds to the logit; the parts add up to it
    #[arg(long)]
    attribute_each_head: bool,

    /// The token whose logit is measured, or two tokens whose logits are subtracted. A number is an id; other tokens are
    /// written as in the tokenizer (Ġthe), or as text that is one token (' the')
    #[arg(long, value_name = "A[-B]", allow_hyphen_values = true)]
    logit: String,

    /// How to print the numbers
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Write the table of effects to a file instead: .png, .svg or .html for a picture, .csv, .npy or .safetensors for numbers
    #[arg(long, value_name = "OUT", conflicts_with = "format")]
    to: Option<PathBuf>,

    /// Overwrite a file of the model
    #[arg(long, requires = "to")]
    force: bool,
}

/// The inputs of a head that are computed from the residual stream.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Into {
    /// Queries
    Q,
    /// Keys
    K,
    /// Values
    V,
}

impl From<Into> for HeadInput {
    fn from(into: Into) -> Self {
        match into {
            Into::Q => Self::Q,
            Into::K => Self::K,
            Into::V => Self::V,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    // The format is checked before a model is read.
    let to = args.to.as_deref();
    let to = to.map(|to| FileFormat::of(to).map(|format| (to, format))).transpose().bad_input()?;
    let to = match to {
        None => None,
        Some((to, format)) => {
            let to = Destination::new(to, args.force)?;
            args.model.checkpoint()?;
            to.check()?;
            Some((to, format))
        }
    };
    let (checkpoint, model) = args.model.open()?;
    let reading = args.input.read(&checkpoint, &model)?;
    let measure = logit::parse(&args.logit, &model, &reading).bad_input()?;
    model_files::allow("the run takes", model.description().run_bytes(reading.lengths(), 1))?;
    let asked = Asked { logit: &args.logit, checkpoint, model, reading, measure };
    if args.attribute_each_head {
        return asked.attribute(args.format, to);
    }
    let sweep = Sweep::new(args, &asked)?;
    let (whole, numbers) = sweep.run(&asked)?;
    if let Some((to, format)) = to {
        let effects: Vec<f32> = numbers.iter().map(|x| x - whole).collect();
        let table = Table::stacked(sweep.tables(&effects, &asked.reading)).bad_input()?;
        let title = format!("{}: what changes when {}", args.logit, sweep.kind.what);
        return table.write(&to, format, title, sweep.axes());
    }
    let json = sweep.json(&asked, whole, &numbers);
    args.format.print(|| sweep.text(&asked, whole, &numbers), &json)
}

/// A model with its input, and the logit that is measured.
struct Asked<'a> {
    /// The logit's words.
    logit: &'a str,
    checkpoint: Checkpoint,
    model: Model,
    reading: Prepared,
    measure: MeasuredLogit,
}

/// Changes that are made one at a time.
struct Sweep {
    changes: Vec<Change>,
    /// What each change changes.
    at: Vec<SweepCell>,
    kind: &'static Kind,
}

/// The texts for a kind of sweep.
struct Kind {
    /// The end of the sentence "what changes when …".
    what: &'static str,
    /// The start of the sentence "… it changes by".
    with: &'static str,
    progress: &'static str,
    /// The key in JSON.
    key: &'static str,
    /// Whether a change belongs to a position, and not to a head.
    by_position: bool,
}

const ABLATED: Kind = Kind {
    what: "each head is ablated",
    with: "without a head",
    progress: "ablating heads",
    key: "ablated",
    by_position: false,
};

const PATCHED: Kind = Kind {
    what: "each place is patched",
    with: "with the patch",
    progress: "patching places",
    key: "patched",
    by_position: true,
};

const PATH: Kind = Kind {
    what: "each later head reads the path",
    with: "with the path into a head",
    progress: "patching paths",
    key: "path",
    by_position: false,
};

impl Sweep {
    fn new(args: &Args, asked: &Asked<'_>) -> Result<Self, Failure> {
        let Asked { checkpoint, model, reading, .. } = asked;
        let other = || args.other.input(&args.input, &reading.input, checkpoint, model).bad_input();
        let (each, kind) = match (&args.ablate_each_head, args.path) {
            (Some(to), _) => (Each::AblatedHead(to.clone()), &ABLATED),
            (None, Some(head)) => {
                (Each::Path { head, into: args.into.into(), from: other()? }, &PATH)
            }
            (None, None) => (Each::PatchedPlace(other()?), &PATCHED),
        };
        let (at, changes) = model.changes(&each).bad_input()?.into_iter().unzip();
        Ok(Self { changes, at, kind })
    }

    /// Computes the unchanged number, and the number with each change.
    fn run(&self, asked: &Asked<'_>) -> Result<(f32, Vec<f32>), Failure> {
        let Asked { checkpoint, model, reading, measure, .. } = asked;
        let number =
            |logits: &Values| measure.of(logits).map_err(|e| explained(e, checkpoint)).bad_input();
        let unchanged =
            working("running the model", || model.baseline(&reading.input)).bad_input()?;
        let whole = model.pass().after(&unchanged);
        let whole = if measure.logits == Logits::Last { whole.last_logits() } else { whole };
        let whole = whole.run(&reading.input).bad_input()?;
        let whole = number(whole.logits().context(NO_LOGITS).bad_input()?)?;
        let done = AtomicU64::new(0);
        let logits = working_on(
            self.kind.progress,
            self.changes.len() as u64,
            false,
            || done.load(Ordering::Relaxed),
            || {
                let mut tell = |n: usize| {
                    done.store(n as u64, Ordering::Relaxed);
                    Ok(())
                };
                model.sweep(&unchanged, &self.changes, measure.logits, &mut tell)
            },
        );
        let numbers: Result<_, Failure> = logits.bad_input()?.iter().map(number).collect();
        Ok((whole, numbers?))
    }

    fn text(&self, asked: &Asked<'_>, whole: f32, numbers: &[f32]) -> String {
        let logit = asked.logit;
        let effects: Vec<f32> = numbers.iter().map(|x| x - whole).collect();
        let (whole, what) = (numbers::fixed(whole, 4), self.kind.with);
        let mut out = format!("{logit} unchanged: {whole}\n{what}, it changes by\n");
        for table in self.tables(&effects, &asked.reading) {
            table.push(&mut out);
        }
        out
    }

    /// A table for each stack: a row for each layer and a column for each head, or a row for each position and a column for
    /// each layer.
    fn tables(&self, effects: &[f32], reading: &Prepared) -> Vec<Table> {
        let table = |(which, layers): (Which, Vec<&[f32]>)| {
            let name = label(which);
            // A path leads only to later layers.
            let of_stack = self.at.iter().find(|at| at.attention == which);
            let first = of_stack.map_or(0, |at| at.layer);
            let cols = layers.first().map_or(0, |row| row.len());
            if !self.kind.by_position {
                // Names as those of heads: "1.0" is in the row "1.x" and in the column "x.0".
                let stack = if which == Which::Only { String::new() } else { format!("{name}.") };
                let rows = first..first + layers.len();
                let rows = rows.map(|i| Label::plain(&format!("{stack}{i}.x"))).collect();
                return Table { rows, cols: heads("", cols), numbers: layers.concat() };
            }
            let tokens =
                if which == Which::Decoder { &reading.decoder_tokens } else { &reading.tokens };
            let numbered = |(i, token): (usize, Label)| {
                let Label { raw, text } = token;
                Label { raw: format!("{i} {raw}"), text: format!("{i} {text}") }
            };
            let rows = readable(tokens.clone()).into_iter().enumerate().map(numbered).collect();
            let by_position =
                (0..cols).flat_map(|col| layers.iter().map(move |row| row[col])).collect();
            let cols = named(name, first..first + layers.len());
            Table { rows, cols, numbers: by_position }
        };
        layers(&self.at, effects).into_iter().map(table).collect()
    }

    /// The meaning of the rows and of the columns of a table.
    fn axes(&self) -> [&'static str; 2] {
        if self.kind.by_position { ["position", "layer"] } else { ["layer", "head"] }
    }

    fn json(&self, asked: &Asked<'_>, whole: f32, numbers: &[f32]) -> Value {
        let effects: Vec<f32> = numbers.iter().map(|x| x - whole).collect();
        let by_layer = |numbers: &[f32]| match layers(&self.at, numbers).as_slice() {
            [(_, only)] => json!(only),
            several => {
                let named =
                    several.iter().map(|(which, layers)| (label(*which).to_owned(), json!(layers)));
                Value::Object(named.collect::<Map<_, _>>())
            }
        };
        let mut all = json!({
            "logit": logit::measured(&asked.measure, &asked.model),
            "unchanged": whole,
            (self.kind.key): by_layer(numbers),
            "effect": by_layer(&effects),
        });
        if self.kind.key == PATH.key {
            all["first_layer"] = json!(self.at.first().map(|at| at.layer));
        }
        asked.with_tokens(all)
    }
}

/// Numbers of both signs, with the names of their rows and columns.
struct Table {
    rows: Vec<Label>,
    cols: Vec<Label>,
    numbers: Vec<f32>,
}

impl Table {
    /// Several tables with the same columns as one table, one below the other.
    fn stacked(tables: Vec<Self>) -> anyhow::Result<Self> {
        let mut all = tables.into_iter();
        let mut one = all.next().context("there is nothing to write")?;
        for next in all {
            anyhow::ensure!(
                next.cols == one.cols,
                "the encoder and the decoder have tables of their own: --format json prints both"
            );
            one.rows.extend(next.rows);
            one.numbers.extend(next.numbers);
        }
        Ok(one)
    }

    /// Writes the table as a file.
    fn write(
        self,
        to: &Destination<'_>,
        format: FileFormat,
        title: String,
        axes: [&'static str; 2],
    ) -> Result<(), Failure> {
        let matrix = LabelledMatrix {
            name: "effect".to_owned(),
            masked: f32::NEG_INFINITY,
            rows: self.rows,
            cols: self.cols,
            axes,
            palette: Palette::signed(largest(&self.numbers), Look::default()),
            values: Arc::new(self.numbers),
            title,
        };
        let bytes = matrix.encode(format).bad_input()?;
        to.write_and_tell(&bytes, &matrix.title)
    }

    /// Writes the table as text.
    fn push(&self, out: &mut String) {
        let texts =
            |labels: &[Label]| labels.iter().map(|label| label.text.clone()).collect::<Vec<_>>();
        terminal::push_signed(out, &texts(&self.rows), &texts(&self.cols), &self.numbers);
    }
}

/// The numbers of each attention or stack, layer by layer.
fn layers<'n>(at: &[SweepCell], numbers: &'n [f32]) -> Vec<(Which, Vec<&'n [f32]>)> {
    let mut all: Vec<(Which, Vec<&[f32]>)> = Vec::new();
    let mut start = 0;
    for rows in at.chunk_by(|a, b| (a.attention, a.layer) == (b.attention, b.layer)) {
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

/// The labels of the columns of heads, such as `x.3`.
fn heads(stack: &str, count: usize) -> Vec<Label> {
    (0..count).map(|i| Label::plain(&format!("{stack}x.{i}"))).collect()
}

/// The labels of rows or columns that are numbered, such as `layer 3`.
fn named(what: &str, numbers: core::ops::Range<usize>) -> Vec<Label> {
    numbers.map(|i| Label::plain(&format!("{what} {i}"))).collect()
}

impl Asked<'_> {
    /// Shows or writes what each part adds to the logit.
    fn attribute(
        &self,
        format: Format,
        to: Option<(Destination<'_>, FileFormat)>,
    ) -> Result<(), Failure> {
        let Self { logit, checkpoint, model, reading, measure } = self;
        let MeasuredLogit { plus, minus, position, .. } = *measure;
        let parts = || model.pass().attribute(&reading.input, position, plus, minus);
        let parts = working("running the model", parts).bad_input()?;
        check_logits(&[parts.logit as f32]).map_err(|e| explained(e, checkpoint)).bad_input()?;
        if let Some((to, format)) = to {
            let title = format!("{logit}: what each part adds to it");
            return attributed(&parts).write(&to, format, title, ["layer", "part"]);
        }
        let mut all = json!(parts);
        all["logit"] = json!(logit::measured(measure, model));
        all["unchanged"] = json!(parts.logit);
        all["sum"] = json!(parts.sum());
        format.print(|| attribution(logit, &parts), &self.with_tokens(all))
    }

    /// JSON with the tokens that the model reads, and those of its decoder.
    fn with_tokens(&self, mut all: Value) -> Value {
        all["tokens"] = json!(self.reading.tokens);
        if !self.reading.decoder_tokens.is_empty() {
            all["decoder_tokens"] = json!(self.reading.decoder_tokens);
        }
        all
    }
}

/// The logit and the share of each part, as a table with a row for each layer.
fn attribution(logit: &str, parts: &Attribution) -> String {
    let number = |x: f64| numbers::fixed(x as f32, 4);
    let mut out = format!("{logit}: {}, the sum of\n", number(parts.logit));
    let embedding = [("embedding", Some(parts.embedding)), ("positions", parts.positions)];
    for (name, part) in embedding.into_iter().chain([("last biases", Some(parts.bias))]) {
        if let Some(part) = part {
            let _ = writeln!(out, "{name}: {}", number(part));
        }
    }
    attributed(parts).push(&mut out);
    out
}

/// The share of each part of each layer.
fn attributed(parts: &Attribution) -> Table {
    let rows = (0..parts.layers.len()).map(|i| Label::plain(&format!("{i}.x"))).collect();
    let count =
        |of: fn(&LayerAttribution) -> &Vec<f64>| parts.layers.first().map_or(0, |x| of(x).len());
    let mut cols = heads("", count(|layer| &layer.heads));
    cols.extend(heads("cross.", count(|layer| &layer.cross)));
    cols.extend(["biases", "feed-forward"].map(Label::plain));
    let of_layer = |layer: &LayerAttribution| {
        let heads = layer.heads.iter().chain(&layer.cross).copied();
        heads.chain([layer.bias, layer.feed_forward]).map(|x| x as f32).collect::<Vec<_>>()
    };
    Table { rows, cols, numbers: parts.layers.iter().flat_map(of_layer).collect() }
}
