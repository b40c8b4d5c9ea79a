//! `regard generate`: a model writes text.

use anyhow::{Context as _, anyhow};
use regard_models::{Model, Sampler};
use serde::Serialize;

use super::failure::{BadInput as _, Failure};
use super::models::input::Reading;
use super::models::{Run, explained, open, run, working};
use super::{Format, parse_count, print};
use crate::say::Data;

/// Let a model continue a text
///
/// The text is printed as it is written. It ends after --tokens tokens, or with a token that ends texts.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: regard generate story --text \"Mia and Tom went to the park.\" --tokens 40 --temperature 0.8 --seed 7"
)]
pub(crate) struct Args {
    #[command(flatten)]
    run: run::Args,

    /// The most tokens to write
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = parse_count)]
    tokens: usize,

    /// 0 writes the most likely token each time; otherwise each token is drawn with the probabilities softmax(logits / T)
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    temperature: f64,

    /// The seed of the random numbers (a Mersenne twister, as numpy.random.RandomState(SEED).random_sample()): the same seed
    /// gives the same text [default: 0]
    #[arg(long, value_name = "SEED")]
    seed: Option<u32>,

    /// How to print it: text as it is written, or JSON at the end
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Serialize)]
struct Written {
    ids: Vec<u32>,
    text: String,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.seed.is_some() && args.temperature == 0.0 {
        return Err(anyhow!("--seed is for a --temperature above 0: at 0 nothing is drawn"))
            .bad_input();
    }
    let sampler = Sampler::new(args.temperature, args.seed.unwrap_or(0)).bad_input()?;
    let Run { checkpoint, model, reading, changes } = args.run.read()?;
    allow(args.tokens, &model, &reading)?;
    let mut writing = model.write(&reading.input, args.tokens, &changes, sampler).bad_input()?;
    let mut text = Text { model: &model, ids: Vec::new(), printed: 0 };
    while let Some(id) = working("writing", || writing.next()) {
        text.ids.push(id.map_err(|e| explained(e, &checkpoint)).bad_input()?);
        if args.format == Format::Text {
            text.print(false)?;
        }
    }
    match args.format {
        Format::Text => {
            text.print(true)?;
            print(&Data::new("\n"))
        }
        Format::Json => {
            let written = Written { text: text.all()?, ids: text.ids };
            print(&Data::json(&written).context("writing JSON")?)
        }
    }
}

/// Reports the memory of a long text, and refuses a text that does not fit.
fn allow(count: usize, model: &Model, reading: &Reading) -> Result<(), Failure> {
    let description = model.description();
    let [tokens, decoder_tokens] = reading.lengths();
    let written = if description.encoder.is_some() { decoder_tokens } else { tokens };
    let cache = description.cache_bytes(written.saturating_add(count));
    open::allow("the run takes", description.run_bytes(reading.lengths(), 1).saturating_add(cache))
}

/// A text that the model is writing.
struct Text<'m> {
    model: &'m Model,
    ids: Vec<u32>,
    /// The number of bytes printed so far.
    printed: usize,
}

impl Text<'_> {
    /// The text without the token that ends it. For a model without a tokenizer, the ids.
    fn all(&self) -> Result<String, Failure> {
        let ends = &self.model.description().ends;
        let ids = match self.ids.split_last() {
            Some((last, others)) if ends.contains(last) => others,
            _ => &self.ids,
        };
        match self.model.tokenizer() {
            Some(tokenizer) => tokenizer.decode(ids).bad_input(),
            None => Ok(ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")),
        }
    }

    /// Whether the last token is a byte, such as `<0x0A>`. The next byte then decides which character these bytes are.
    fn ends_with_byte(&self) -> bool {
        let token = self.ids.last().and_then(|id| self.model.tokenizer()?.token(*id));
        token.is_some_and(|token| token.starts_with("<0x") && token.ends_with('>'))
    }

    /// Prints what is new. Bytes wait for the rest of their character, unless the text has ended.
    fn print(&mut self, end: bool) -> Result<(), Failure> {
        if !end && self.ends_with_byte() {
            return Ok(());
        }
        let text = self.all()?;
        let complete = if end { text.as_str() } else { text.trim_end_matches('\u{fffd}') };
        if let Some(new) = complete.get(self.printed..) {
            print(&Data::new(new))?;
            self.printed = complete.len().max(self.printed);
        }
        Ok(())
    }
}
