//! A model in 8-bit integers: weights with a scale for each row, and activations with measured scales.
//!
//! ```text
//! texts    ← texts that the model writes at the temperature 1, from several seeds; random words for a model that classifies
//!            texts; random images for a model of images
//! scale    ← the largest magnitude at each place of these texts / 127
//! row      ← round(weights of an output / (their largest magnitude / 127))
//! mantissa ← input's scale · row's scale / unit of the output, in fixed point
//! ```

use std::collections::BTreeMap;

use rand_mt::Mt;
use regard::Linear;

use super::float::{positions, rotary, rows};
use super::source::{self, Content, Parts, Table};
use crate::place::matches;
use crate::weights::{Layer, Tokens};
use crate::{Activation, Error, ImageProcessor, Input, Model, Patches, Sampler};

/// The bits after the point of gates and of their factors.
const HIDDEN_BITS: i32 = 12;
/// The bits after the point of logits.
const LOGIT_BITS: i32 = 16;
/// The factor by which queries and keys before their rotation, and outputs of a layer norm before β is added, have finer units.
const FINER: f64 = 256.0;
/// The largest magnitude of the residual stream that the runtime's norm reads, in units of the stream.
const MOST: f64 = 67_108_864.0;
/// The factor by which the residual stream may exceed the measured magnitudes.
const ROOM: f64 = 4.0;

#[derive(Debug, Default)]
struct Constants {
    bytes: Vec<i8>,
    words: Vec<i32>,
    angles: Vec<i16>,
}

/// `Ok` for a model that the integer runtime computes, if the floating-point one does.
pub(super) fn check(model: &Model) -> Result<(), Error> {
    let description = model.description();
    let parts = [
        (
            description.embedding.positions.is_some() && description.embedding.patches.is_none(),
            "learned positions of tokens",
        ),
        (description.stack.final_norm.is_none(), "no norm before its head"),
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

/// A bound of the bytes of the constants, from the shapes.
pub(super) fn bytes(model: &Model, context: usize) -> usize {
    let description = model.description();
    let (stack, block, width) = (&description.stack, &description.stack.block, description.width);
    let (q, kv) = (block.heads * block.head_size, block.kv_heads * block.head_size);
    // A byte for each weight, and a mantissa and a bias of 4 bytes each for a row.
    let linear = |inputs: usize, outputs: usize| outputs * (inputs + 8);
    let gates = 1 + usize::from(block.gated);
    let layer = linear(width, q)
        + 2 * linear(width, kv)
        + linear(q, width)
        + gates * linear(width, block.hidden)
        + linear(block.hidden, width)
        + 16 * width;
    // A tied head has the rows of the table.
    let rows = if description.tied { 0 } else { description.vocabulary * width };
    let head = linear(width, model.outputs());
    let image = description
        .embedding
        .patches
        .map_or(0, |patches| linear(patches.numbers(), width) + 4 * patches.tokens() * width);
    let table = rows + image + head + 4 * description.vocabulary + 8 * width;
    let angles = stack.rotary_of(0).map_or(0, |r| 2 * context * r.features);
    stack.layers() * layer + table + angles
}

/// The source and the constants of the crate.
pub(super) fn content(
    model: &Model,
    context: usize,
    samples: Option<&ImageProcessor>,
) -> Result<Content, Error> {
    let found = Measured::of(model, context, samples)?;
    let (description, weights) = (model.description(), model.weights());
    let (block, width) = (&description.stack.block, description.width);
    let unit = found.unit();
    let mut all = Constants::default();

    let none = || Error::Unsupported("the model has no head".into());
    let head = weights.head.as_ref().ok_or_else(none)?;
    let last = found.scale("ln_final.hook_out");
    let head_text = all.linear(head, last, 2_f64.powi(-LOGIT_BITS))?;
    let start = if description.tied { Some(0) } else { None };
    let tokens = match &weights.tokens {
        Tokens::Rows(table) => all.table(&table.to_f32(), width, unit, start),
        Tokens::Tied(_) => all.table(&rows(head)?, width, unit, start),
        Tokens::Patches(projection) => all.linear(projection, found.scale(IMAGE), unit)?,
    };
    let positions: Vec<i32> =
        positions(model, context).iter().map(|x| (f64::from(*x) / unit).round() as i32).collect();
    let positions = all.words(&positions);

    let mut layers = String::new();
    for (index, layer) in weights.stack.layers.iter().enumerate() {
        layers += &all.layer(layer, &found, index, block.scale_in(index), block.activation)?;
    }
    let norm = weights.stack.norm.as_ref().ok_or_else(none)?;
    let norm = all.norm(Some(norm), last, unit);
    let rotary = rotary(model, context, "regard_embed::int8::Rotary", |angles| {
        let start = all.angles.len();
        all.angles.extend(angles.iter().map(|x| (x * 16384.0).round() as i16));
        format!("part(&ANGLES, {start}, {})", angles.len())
    })?;
    let input = match &description.embedding.patches {
        Some(patches) => {
            source::input_of_image(patches, found.scale(IMAGE) as f32, &tokens, &positions, samples)
        }
        None => source::input_of_tokens(&tokens, &rotary),
    };
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
        imports: "Aligned, Error, Layer, Model, Shape, Temperature, Weights, int8::{Attention, Integers, Linear, Norm, Scales}, part",
        numbers: ("Integers", "regard_embed::int8"),
        logit: ("i32", "1.0 / 65536.0"),
        tables: vec![
            Table::new("BYTES", "src/bytes.bin", "i8", true, bytes),
            Table::new("WORDS", "src/words.bin", "i32", false, words),
            Table::new("ANGLES", "src/angles.bin", "i16", false, angles),
        ],
        functions: functions.to_owned(),
        parts: Parts { input, layers, norm, head: head_text },
    })
}

/// The largest magnitude at each place, for texts that the model writes or that consist of random words.
struct Measured(BTreeMap<String, f32>);

impl Measured {
    fn of(model: &Model, context: usize, samples: Option<&ImageProcessor>) -> Result<Self, Error> {
        /// The number of texts or images.
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
        let known = description.named_places();
        let patterns = places.iter().filter(|p| known.iter().any(|(k, _)| matches(p, k)));
        let patterns: Vec<&str> = patterns.copied().collect();
        let mut largest = BTreeMap::new();
        for seed in 0..TEXTS {
            let input = if let Some(patches) = &description.embedding.patches {
                let input = image(patches, samples, seed);
                let most = largest.entry(IMAGE.to_owned()).or_insert(0.0_f32);
                *most = input.pixels.iter().fold(*most, |most, x| most.max(x.abs()));
                input
            } else if description.classifies() {
                Input::tokens(random(model, context, seed)?)
            } else {
                // A text begins with the token that ends texts, or else with any token.
                let start = description.ends.first().copied().unwrap_or(seed * vocabulary / TEXTS);
                let start = Input::tokens([start.min(vocabulary - 1)]);
                let count = context.min(256).saturating_sub(1);
                let more = model.write(&start, count, &[], Sampler::new(1.0, seed)?)?;
                let more = more.collect::<Result<Vec<u32>, Error>>()?;
                Input::tokens([start.ids, more].concat())
            };
            let trace = model.pass().keep(patterns.clone()).run(&input)?;
            for place in trace.places() {
                let most = largest.entry(place.to_string()).or_insert(0.0_f32);
                let numbers = trace.at(place).map_or(&[][..], |values| values.data.as_slice());
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

/// The name of the numbers of images in [`Measured`].
const IMAGE: &str = "image";

/// An image of random samples. Each sample fills a square of one to four pixels a side, so there is noise and there are patches
/// of one brightness.
fn image(patches: &Patches, samples: Option<&ImageProcessor>, seed: u32) -> Input {
    let Patches { channels, height, width, .. } = *patches;
    let (mut samples_of, side) = (Mt::new(seed), 1 + seed as usize % 4);
    let mut pixels = Vec::with_capacity(channels * height * width);
    for channel in 0..channels {
        let of_channel = samples.and_then(|samples| samples.channels().get(channel));
        let [factor, mean, deviation] = *of_channel.unwrap_or(&[1.0 / 255.0, 0.5, 0.5]);
        let (rows, columns) = (height.div_ceil(side), width.div_ceil(side));
        let squares: Vec<u8> =
            (0..rows * columns).map(|_| (samples_of.next_u32() >> 24) as u8).collect();
        let pixel = |place: usize| {
            let sample = squares[place / width / side * columns + place % width / side];
            (f32::from(sample) * factor - mean) / deviation
        };
        pixels.extend((0..height * width).map(pixel));
    }
    Input::image(pixels)
}

/// A text of random words, after the tokens that the tokenizer puts before every text.
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
        // An output is a mean of values. Its scale is at most that of the values, and not too far below it for the attention.
        let value = at("attn.hook_v");
        let output = at("attn.hook_z").clamp(value / 2048.0, value);
        let (normed, normed_2, hidden) =
            (at("ln1.hook_out"), at("ln2.hook_out"), at("mlp.hook_post"));
        let (attention, feed_forward) = (&layer.attention, layer.feed_forward.one()?);
        let function = match activation {
            Activation::Silu => "silu",
            Activation::Gelu | Activation::GeluTanh => "gelu",
            _ => "relu",
        };
        let (mantissas, exponent) = fixed(&[hidden_unit / hidden]);
        let hidden_scale = format!("({}, {exponent})", mantissas[0]);
        let scales = [query, key, value, output].map(|x| format!("{:?}", x as f32)).join(", ");
        Ok(source::layer([
            ("attention_norm", self.norm(layer.norm_1.as_ref(), normed, unit)),
            ("query", self.linear(&attention.q, normed, query / FINER)?),
            ("key", self.linear(&attention.k, normed, key / FINER)?),
            ("value", self.linear(&attention.v, normed, value)?),
            ("attention", format!("attention({scales}, {scale:?})")),
            ("output", self.linear(&attention.out, output, unit)?),
            ("feed_forward_norm", self.norm(layer.norm_2.as_ref(), normed_2, unit)),
            (
                "gate",
                source::option(match &feed_forward.gate {
                    Some(gate) => Some(self.linear(gate, normed_2, hidden_unit)?),
                    None => None,
                }),
            ),
            ("up", self.linear(&feed_forward.up, normed_2, hidden_unit)?),
            (
                "activation",
                format!(
                    "regard_embed::int8::Activation {{ function: regard_embed::int8::{function}, hidden: {hidden_scale} }}"
                ),
            ),
            ("down", self.linear(&feed_forward.down, hidden, unit)?),
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
            "regard_embed::int8::Embedding {{ rows: bytes({start}, {len}), mantissas: {mantissas}, exponent: {exponent} }}"
        )
    }

    fn norm(&mut self, norm: Option<&regard::Norm>, scale: f64, unit: f64) -> String {
        // embed::check refuses a layer without it.
        let Some(norm) = norm else { return String::new() };
        // Outputs of a layer norm are finer until β is added.
        let finer = if norm.beta().is_some() { FINER } else { 1.0 };
        let fixed_point = |x: &f32| f64::from(*x) * finer / scale;
        let factors: Vec<f64> = norm.gamma().iter().map(|x| fixed_point(x) / 65536.0).collect();
        let beta = norm.beta().unwrap_or_default().iter();
        let beta: Vec<i32> = beta.map(|x| fixed_point(x).round() as i32).collect();
        let (mantissas, exponent) = fixed(&factors);
        let epsilon = (f64::from(norm.epsilon()) / (unit * unit)).round() as u64;
        let (mantissas, beta) = (self.words(&mantissas), self.words(&beta));
        format!(
            "Norm {{ mantissas: {mantissas}, exponent: {exponent}, epsilon: {epsilon}, beta: {beta} }}"
        )
    }

    /// Adds rows of 8-bit integers, and returns the scale of each.
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
    let mantissa = |x: &f64| (x * 2_f64.powi(31 - exponent)).round() as i32; // `as` clamps to the range
    (factors.iter().map(mantissa).collect(), exponent)
}
