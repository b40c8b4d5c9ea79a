//! `regard generate`: a model writes text.

use anyhow::{Context as _, anyhow};
use regard_models::{Model, Prepared, Sampler, Tokenizer};
use serde::Serialize;

use super::models::{Run, explained, run, working};
use super::{Format, parse_count, print};
use crate::failure::{BadInput as _, Failure};
use crate::model_files;
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
    let mut text = WrittenText { model: &model, ids: Vec::new(), stream: Stream::default() };
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
fn allow(count: usize, model: &Model, reading: &Prepared) -> Result<(), Failure> {
    let description = model.description();
    let [tokens, decoder_tokens] = reading.lengths();
    let written = if description.encoder.is_some() { decoder_tokens } else { tokens };
    let cache = description.cache_bytes(written.saturating_add(count));
    model_files::allow(
        "the run takes",
        description.run_bytes(reading.lengths(), 1).saturating_add(cache),
    )
}

/// A text that the model is writing.
struct WrittenText<'m> {
    model: &'m Model,
    ids: Vec<u32>,
    stream: Stream,
}

impl WrittenText<'_> {
    /// The text without the token that ends it. For a model without a tokenizer, the ids.
    fn all(&self) -> Result<String, Failure> {
        self.decode(self.ids())
    }

    fn ids(&self) -> &[u32] {
        let ends = &self.model.description().ends;
        match self.ids.split_last() {
            Some((last, others)) if ends.contains(last) => others,
            _ => &self.ids,
        }
    }

    fn decode(&self, ids: &[u32]) -> Result<String, Failure> {
        match self.model.tokenizer() {
            Some(tokenizer) => tokenizer.decode(ids).bad_input(),
            None => Ok(ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")),
        }
    }

    /// Prints what is new. Bytes wait for the rest of their character, unless the text has ended.
    fn print(&mut self, end: bool) -> Result<(), Failure> {
        if !end
            && self.model.tokenizer().is_some_and(|tokenizer| ends_with_byte(tokenizer, &self.ids))
        {
            return Ok(());
        }
        let mut stream = self.stream;
        let new = stream.next(self.ids(), end, &mut |ids| self.decode(ids))?;
        self.stream = stream;
        print(&Data::new(&new))
    }
}

/// Whether the last token is a byte, such as `<0x0A>`. The next byte then decides which character these bytes are.
fn ends_with_byte(tokenizer: &Tokenizer, ids: &[u32]) -> bool {
    let token = ids.last().and_then(|id| tokenizer.token(*id));
    token.is_some_and(|token| token.starts_with("<0x") && token.ends_with('>'))
}

/// Tokens that become text as they come. A token's text depends on the tokens beside it, so a few tokens before the new ones are
/// decoded with them, and what these give alone is left out.
#[derive(Clone, Copy, Default)]
struct Stream {
    /// The number of tokens whose text is complete.
    done: usize,
}

impl Stream {
    /// The text of the tokens after those that are done. A character without its last bytes waits for them, unless the text has
    /// ended.
    fn next<E>(
        &mut self,
        ids: &[u32],
        end: bool,
        decode: &mut dyn FnMut(&[u32]) -> Result<String, E>,
    ) -> Result<String, E> {
        const BEFORE: usize = 8;
        let first = self.done.saturating_sub(BEFORE);
        let all = decode(&ids[first..])?;
        if ids.len() <= self.done || !end && all.ends_with('\u{fffd}') {
            return Ok(String::new());
        }
        let known = decode(&ids[first..self.done])?;
        self.done = ids.len();
        Ok(all.get(known.len()..).unwrap_or_default().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use regard_models::Model;
    use regard_tests::models::{FAMILIES, golden};

    use super::{Stream, ends_with_byte};

    /// The pieces of a text are the whole text, of any tokenizer, and each token is decoded a few times.
    #[test]
    fn a_text_that_comes_in_pieces_is_decoded_in_linear_time() {
        for name in FAMILIES.into_iter().filter(|name| golden(name).join("tokenizer.json").exists())
        {
            let model = Model::open(golden(name)).unwrap();
            let (tokenizer, vocabulary) =
                (model.tokenizer().unwrap(), model.description().vocabulary);
            let known = |id: &u32| tokenizer.token(*id).is_some();
            let drawn = (0..500_u32)
                .map(|i| i.wrapping_mul(2_654_435_761) >> 8)
                .map(|x| x % vocabulary as u32);
            let ids: Vec<u32> = drawn.filter(known).collect();
            let (mut stream, mut written, mut decoded) = (Stream::default(), String::new(), 0);
            for read in 1..=ids.len() {
                if read < ids.len() && ends_with_byte(tokenizer, &ids[..read]) {
                    continue;
                }
                let mut decode = |ids: &[u32]| {
                    decoded += ids.len();
                    tokenizer.decode(ids)
                };
                written += &stream.next(&ids[..read], read == ids.len(), &mut decode).unwrap();
            }
            assert_eq!(written, tokenizer.decode(&ids).unwrap(), "{name}");
            assert!(decoded < 60 * ids.len(), "{name}: {decoded} tokens decoded");
        }
    }
}
