//! A model in 8-bit integers: weights with a scale a row, and activations with a scale that is measured.
//!
//! ```text
//! texts    ← what the model writes at the temperature 1, from several seeds; of a model that classifies texts, random words
//! scale    ← the largest magnitude at each place of these texts / 127
//! row      ← round(weights of an output / (their largest magnitude / 127))
//! mantissa ← input's scale · row's scale / unit of the output, in fixed point
//! ```

use std::collections::BTreeMap;

use rand_mt::Mt;
use regard::Linear;

use super::float::{rotary, rows};
use super::source::{self, Content, Parts, Table};
use crate::weights::{Layer, Tokens};
use crate::{Activation, Error, Input, Model, NormKind, Sampler};

/// The bits after the point of gates and of what they multiply.
const HIDDEN_BITS: i32 = 12;
/// The bits after the point of logits.
const LOGIT_BITS: i32 = 16;
/// Queries and keys have so many more bits before they turn.
const FINER: f64 = 256.0;
/// The largest magnitude of the residual stream that the runtime's norm reads, in units of the stream.
const MOST: f64 = 67_108_864.0;
/// By how much the residual stream may exceed what was measured.
const ROOM: f64 = 4.0;

/// The constants of the crate.
#[derive(Debug, Default)]
struct Constants {
    bytes: Vec<i8>,
    words: Vec<i32>,
    angles: Vec<i16>,
}

/// `Ok` for a model that the integer runtime computes, among those that the other one does.
pub(super) fn check(model: &Model) -> Result<(), Error> {
    let description = model.description();
    let block = &description.stack.block;
    let parts = [
        (description.embedding.positions.is_some(), "learned positions"),
        (block.norm.kind == NormKind::Layer, "layer norm"),
        (description.stack.final_norm.is_none(), "no norm before its head"),
        (!matches!(block.activation, Activation::Silu | Activation::Relu), "GELU"),
        (description.width > 2048, "more than 2048 features"),
    ];
    match parts.iter().find(|(has, _)| *has) {
        None => Ok(()),
        Some((_, part)) => Err(Error::Unsupported(format!(
            "the model ({}) has {part}, which the integer runtime does not compute; --weights bf16 does",
            description.family
        ))),
    }
}

/// The bytes of the constants: a bound from the shapes.
pub(super) fn bytes(model: &Model, context: usize) -> usize {
    let description = model.description();
    let (stack, block, width) = (&description.stack, &description.stack.block, description.width);
    let (q, kv) = (block.heads * block.head_size, block.kv_heads * block.head_size);
    // A byte a weight, and a mantissa and a bias of 4 bytes each a row.
    let linear = |inputs: usize, outputs: usize| outputs * (inputs + 8);
    let gates = 1 + usize::from(block.gated);
    let layer = linear(width, q)
        + 2 * linear(width, kv)
        + linear(q, width)
        + gates * linear(width, block.hidden)
        + linear(block.hidden, width)
        + 8 * width;
    // A tied head has the rows of the table.
    let rows = if description.tied { 0 } else { description.vocabulary * width };
    let head = linear(width, model.outputs());
    let table = rows + head + 4 * description.vocabulary + 4 * width;
    let angles = block.rotary.as_ref().map_or(0, |r| 2 * context * r.features);
    stack.layers() * layer + table + angles
}

/// The source and the constants of the crate.
pub(super) fn content(model: &Model, context: usize) -> Result<Content, Error> {
    let found = Measured::of(model, context)?;
    let (description, weights) = (model.description(), model.weights());
    let (block, width) = (&description.stack.block, description.width);
    let unit = found.unit();
    let mut all = Constants::default();

    let none = || Error::Unsupported("the model has no head".into());
    let head = weights.head.as_ref().ok_or_else(none)?;
    let last = found.scale("ln_final.hook_out");
    let head_text = all.linear(head, last, 2_f64.powi(-LOGIT_BITS))?;
    let table = match &weights.tokens {
        Tokens::Rows(table) => table.to_f32(),
        Tokens::Tied(_) | Tokens::Patches(_) => rows(head)?,
    };
    let start = if description.tied { Some(0) } else { None };
    let tokens = all.table(&table, width, unit, start);

    let mut layers = String::new();
    for (index, layer) in weights.stack.layers.iter().enumerate() {
        layers += &all.layer(layer, &found, index, block.scale_in(index), block.activation)?;
    }
    let norm = weights.stack.norm.as_ref().ok_or_else(none)?;
    let norm = all.norm(norm, last, unit);
    let rotary = rotary(model, context, "regard_embed::int8::Rotary", |angles| {
        let start = all.angles.len();
        all.angles.extend(angles.iter().map(|x| (x * 16384.0).round() as i16));
        format!("part(&ANGLES, {start}, {})", angles.len())
    })?;
    let bytes = all.bytes.iter().flat_map(|x| x.to_le_bytes()).collect();
    let words = all.words.iter().flat_map(|x| x.to_le_bytes()).collect();
    let angles = all.angles.iter().flat_map(|x| x.to_le_bytes()).collect();
    let functions = "\
const fn bytes(start: usize, len: usize) -> &'static [i8] {
    part(&BYTES.0, start, len)
}

const fn words(start: usize, len: usize) -> &'static [i32] {
    part(&WORDS, start, len)
}

/// The attention of a head with these scales.
const fn attention(query: f32, key: f32, value: f32, output: f32, scale: f32) -> Attention<'static> {
    match Attention::new(Scales { query, key, value, output }, scale, Temperature::ONE) {
        Ok(attention) => attention,
        Err(_) => panic!(\"a scale is out of its range\"),
    }
}
";
    Ok(Content {
        imports: "Aligned, Decoder, Error, Layer, Model, Shape, Temperature, int8::{Attention, Embedding, Integers, Linear, Norm, Scales}, part",
        numbers: ("Integers", "regard_embed::int8"),
        logit: ("i32", "1.0 / 65536.0"),
        tables: vec![
            Table::new("BYTES", "src/bytes.bin", "i8", true, bytes),
            Table::new("WORDS", "src/words.bin", "i32", false, words),
            Table::new("ANGLES", "src/angles.bin", "i16", false, angles),
        ],
        functions: functions.to_owned(),
        parts: Parts { tokens, layers, norm, head: head_text, rotary },
    })
}

/// The largest magnitude at each place of texts that the model writes, or that consist of random words.
struct Measured(BTreeMap<String, f32>);

impl Measured {
    fn of(model: &Model, context: usize) -> Result<Self, Error> {
        /// The texts.
        const TEXTS: u32 = 48;
        let description = model.description();
        let vocabulary = description.vocabulary as u32;
        let places = [
            "*hook_out",
            "*hook_rot_q",
            "*hook_rot_k",
            "*hook_q",
            "*hook_k",
            "*hook_v",
            "*hook_z",
            "*mlp.hook_post",
            "*hook_resid_*",
        ];
        let known = description.places();
        let patterns =
            places.iter().filter(|p| known.iter().any(|k| crate::forward::matches(p, k)));
        let patterns: Vec<&str> = patterns.copied().collect();
        let mut largest = BTreeMap::new();
        for seed in 0..TEXTS {
            let text = if description.classifies() {
                random(model, context, seed)?
            } else {
                // A text begins as one does after its end, or else anywhere.
                let start = description.ends.first().copied().unwrap_or(seed * vocabulary / TEXTS);
                let start = Input::tokens([start.min(vocabulary - 1)]);
                let count = context.min(256).saturating_sub(1);
                let more = model.write(&start, count, &[], Sampler::new(1.0, seed)?)?;
                let more = more.collect::<Result<Vec<u32>, Error>>()?;
                [start.ids, more].concat()
            };
            let trace = model.pass().keep(patterns.clone()).run(&Input::tokens(text))?;
            for place in trace.places() {
                let most = largest.entry(place.to_owned()).or_insert(0.0_f32);
                let numbers = trace.get(place).map_or(&[][..], |values| values.data.as_slice());
                if numbers.iter().any(|x| !x.is_finite()) {
                    return Err(Error::Unsupported(format!(
                        "the numbers at {place} are not finite, and no integer stands for them"
                    )));
                }
                *most = numbers.iter().fold(*most, |most, x| most.max(x.abs()));
            }
        }
        Ok(Self(largest))
    }

    fn most(&self, place: &str) -> f64 {
        self.0.get(place).map_or(0.0, |x| f64::from(*x))
    }

    /// The scale of 8-bit numbers at a place.
    fn scale(&self, place: &str) -> f64 {
        let most = self.most(place);
        if most > 0.0 { f64::from((most / 127.0) as f32) } else { 1.0 }
    }

    /// The unit of the residual stream: a power of two.
    fn unit(&self) -> f64 {
        let streams = self.0.iter().filter(|(place, _)| place.contains("hook_resid"));
        let most = streams.fold(1e-3, |most: f64, (_, x)| most.max(f64::from(*x)));
        2_f64.powf((ROOM * most / MOST).log2().ceil())
    }
}

/// A text of random words, after what the tokenizer puts before every text.
fn random(model: &Model, context: usize, seed: u32) -> Result<Vec<u32>, Error> {
    let before = model.tokenizer().map(|tokenizer| tokenizer.encode("", None)).transpose()?;
    let mut text = before.map_or_else(Vec::new, |input| input.ids);
    let (mut words, vocabulary) = (Mt::new(seed), model.description().vocabulary as u32);
    let more = context.min(256).saturating_sub(text.len());
    text.extend((0..more).map(|_| words.next_u32() % vocabulary.max(1)));
    text.truncate(context);
    Ok(text)
}

impl Constants {
    fn layer(
        &mut self,
        layer: &Layer,
        found: &Measured,
        index: usize,
        scale: f32,
        activation: Activation,
    ) -> Result<String, Error> {
        let at = |place: &str| found.scale(&format!("blocks.{index}.{place}"));
        let (unit, hidden_unit) = (found.unit(), 2_f64.powi(-HIDDEN_BITS));
        let first = |turned: &str, plain: &str| {
            let (a, b) = (format!("blocks.{index}.{turned}"), format!("blocks.{index}.{plain}"));
            found.scale(if found.0.contains_key(&a) { &a } else { &b })
        };
        let query = first("attn.hook_rot_q", "attn.hook_q");
        let key = first("attn.hook_rot_k", "attn.hook_k");
        // An output is a mean of values: its scale is not above theirs, nor too far below for the attention.
        let value = at("attn.hook_v");
        let output = at("attn.hook_z").clamp(value / 2048.0, value);
        let (normed, normed_2, hidden) =
            (at("ln1.hook_out"), at("ln2.hook_out"), at("mlp.hook_post"));
        let attention = &layer.attention;
        let function = if activation == Activation::Silu { "silu" } else { "relu" };
        let (mantissas, exponent) = fixed(&[hidden_unit / hidden]);
        let hidden_scale = format!("({}, {exponent})", mantissas[0]);
        let scales = [query, key, value, output].map(|x| format!("{:?}", x as f32)).join(", ");
        Ok(source::layer([
            ("attention_norm", self.norm(&layer.norm_1, normed, unit)),
            ("query", self.linear(&attention.q, normed, query / FINER)?),
            ("key", self.linear(&attention.k, normed, key / FINER)?),
            ("value", self.linear(&attention.v, normed, value)?),
            ("attention", format!("attention({scales}, {scale:?})")),
            ("output", self.linear(&attention.out, output, unit)?),
            ("feed_forward_norm", self.norm(&layer.norm_2, normed_2, unit)),
            (
                "gate",
                source::option(match &layer.gate {
                    Some(gate) => Some(self.linear(gate, normed_2, hidden_unit)?),
                    None => None,
                }),
            ),
            ("up", self.linear(&layer.up, normed_2, hidden_unit)?),
            (
                "activation",
                format!(
                    "regard_embed::int8::Activation {{ function: regard_embed::int8::{function}, hidden: {hidden_scale} }}"
                ),
            ),
            ("down", self.linear(&layer.down, hidden, unit)?),
        ]))
    }

    /// A linear layer from inputs of a scale to outputs of a unit.
    fn linear(&mut self, layer: &Linear, input: f64, unit: f64) -> Result<String, Error> {
        let rows = rows(layer)?;
        let start = self.bytes.len();
        let scales = self.rows(&rows, layer.inputs());
        let bias = layer.bias().unwrap_or_default();
        let bias: Vec<i32> = bias
            .iter()
            .zip(&scales)
            .map(|(b, scale)| (f64::from(*b) / (input * scale)).round().clamp(-1e9, 1e9) as i32)
            .collect();
        let factors: Vec<f64> = scales.iter().map(|scale| input * scale / unit).collect();
        let (mantissas, exponent) = fixed(&factors);
        let (bias, mantissas) = (self.words(&bias), self.words(&mantissas));
        let len = rows.len();
        Ok(format!(
            "Linear {{ weight: bytes({start}, {len}), bias: {bias}, mantissas: {mantissas}, exponent: {exponent} }}"
        ))
    }

    /// The table of tokens, whose rows begin at `start` if they are there already.
    fn table(&mut self, rows: &[f32], width: usize, unit: f64, start: Option<usize>) -> String {
        let start = start.unwrap_or(self.bytes.len());
        let scales = self.rows(rows, width);
        if start == 0 {
            self.bytes.truncate(self.bytes.len() - rows.len());
        }
        let factors: Vec<f64> = scales.iter().map(|scale| scale / unit).collect();
        let (mantissas, exponent) = fixed(&factors);
        let (mantissas, len) = (self.words(&mantissas), rows.len());
        format!(
            "Embedding {{ rows: bytes({start}, {len}), mantissas: {mantissas}, exponent: {exponent} }}"
        )
    }

    fn norm(&mut self, norm: &regard::Norm, scale: f64, unit: f64) -> String {
        let factors: Vec<f64> =
            norm.gamma().iter().map(|x| f64::from(*x) / 65536.0 / scale).collect();
        let (mantissas, exponent) = fixed(&factors);
        let (mantissas, epsilon) =
            (self.words(&mantissas), (f64::from(norm.epsilon()) / (unit * unit)).round() as u64);
        format!("Norm {{ mantissas: {mantissas}, exponent: {exponent}, epsilon: {epsilon} }}")
    }

    /// Adds rows of 8-bit integers, and gives the scale of each.
    fn rows(&mut self, rows: &[f32], inputs: usize) -> Vec<f64> {
        rows.chunks_exact(inputs.max(1))
            .map(|row| {
                let most = row.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
                let scale = if most > 0.0 { f64::from(most) / 127.0 } else { 1.0 };
                self.bytes.extend(row.iter().map(|x| (f64::from(*x) / scale).round() as i8));
                scale
            })
            .collect()
    }

    fn words(&mut self, words: &[i32]) -> String {
        let start = self.words.len();
        self.words.extend(words);
        format!("words({start}, {})", words.len())
    }
}

/// Each factor as mantissa · 2^(exponent − 31), with one exponent for all: the largest mantissa has 31 bits.
fn fixed(factors: &[f64]) -> (Vec<i32>, i32) {
    let largest = factors.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
    if largest == 0.0 {
        return (vec![0; factors.len()], 0);
    }
    let exponent = largest.log2().floor() as i32 + 1;
    let mantissa = |x: &f64| (x * 2_f64.powi(31 - exponent)).round() as i32; // `as` keeps within the range
    (factors.iter().map(mantissa).collect(), exponent)
}
