//! A model in 8-bit integers: weights with a scale for each row, and activations with measured scales.
//!
//! ```text
//! scale of a place  ← [`Ranges`]: the one with the least square error on the calibration's inputs
//! scale of a row    ← the largest of: its largest weight / 127; |bias| / (scale of the input · 2³⁰); the layer's largest / 2¹⁶
//! row, bias         ← round(weight / scale of the row), round(bias / (scale of the input · scale of the row))
//! mantissa          ← scale of the input · scale of the row / unit of the output, in fixed point
//! ```
//!
//! The second and the third bound of a row's scale make its bias fit in 30 bits and its mantissa keep 15. Of a row whose weights are
//! smaller than that, the bias remains.

use regard::Linear;
use regard_embed::{Image, Memory, Shape, Temperature, Tokens as TokensOf, Weights, int8};

use super::float::{positions, rotary, rows};
use super::ranges::Ranges;
use super::source::{self, Content, Parts, Table};
use crate::weights::{Layer, Tokens};
use crate::{Activation, Error, ImageProcessor, Input, Model, Patches};

/// The bits after the point of gates and of their factors.
const HIDDEN_BITS: i32 = 12;
/// The bits after the point of logits, if these are not too large.
const LOGIT_BITS: i32 = 16;
/// The factor by which queries and keys before their rotation, and outputs of a layer norm before β is added, have finer units.
const FINER: f64 = 256.0;
/// The largest magnitude of the residual stream that the runtime's norm reads, in units of the stream.
const MOST: f64 = 67_108_864.0;
/// The factor by which inputs may exceed those of the calibration where numbers have 32 bits: the residual stream, hidden features
/// before their activation function, and logits.
const ROOM: f64 = 4.0;
/// The largest magnitude of a bias in units of its row's sums. The products of a sum stay within 2²⁹ beside it.
const MOST_BIAS: f64 = 1_073_741_824.0;
/// The largest scale of a row in a layer divided by the smallest one.
const MOST_SCALES: f64 = 65_536.0;

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

/// Numbers of a table, from `start` on.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: usize,
    len: usize,
}

impl Part {
    fn of<T>(self, table: &[T]) -> &[T] {
        &table[self.start..self.start + self.len]
    }

    /// A call of the crate's function that has this table.
    fn text(self, function: &str) -> String {
        format!("{function}({}, {})", self.start, self.len)
    }
}

#[derive(Clone, Copy, Debug)]
struct LinearPart {
    weight: Part,
    bias: Part,
    mantissas: Part,
    exponent: i32,
}

impl LinearPart {
    fn text(&self) -> String {
        let (weight, exponent) = (self.weight.text("bytes"), self.exponent);
        let [bias, mantissas] = [self.bias, self.mantissas].map(|part| part.text("words"));
        format!(
            "Linear {{ weight: {weight}, bias: {bias}, mantissas: {mantissas}, exponent: {exponent} }}"
        )
    }
}

#[derive(Clone, Copy, Debug)]
struct NormPart {
    mantissas: Part,
    exponent: i32,
    epsilon: u64,
    beta: Part,
}

impl NormPart {
    fn text(&self) -> String {
        let Self { exponent, epsilon, .. } = self;
        let [mantissas, beta] = [self.mantissas, self.beta].map(|part| part.text("words"));
        format!(
            "Norm {{ mantissas: {mantissas}, exponent: {exponent}, epsilon: {epsilon}, beta: {beta} }}"
        )
    }
}

#[derive(Clone, Copy, Debug)]
struct LayerPart {
    attention_norm: NormPart,
    query: LinearPart,
    key: LinearPart,
    value: LinearPart,
    /// The scales of queries, keys, values and outputs, and the factor of the scores.
    attention: ([f32; 4], f32),
    output: LinearPart,
    feed_forward_norm: NormPart,
    gate: Option<LinearPart>,
    up: LinearPart,
    /// The function with its name in `regard_embed::int8`.
    function: (&'static str, fn(i32) -> i32),
    hidden: (i32, i32),
    down: LinearPart,
}

impl LayerPart {
    fn text(&self) -> String {
        let (scales, scale) = self.attention;
        let scales = scales.map(|x| format!("{x:?}")).join(", ");
        source::layer([
            ("attention_norm", self.attention_norm.text()),
            ("query", self.query.text()),
            ("key", self.key.text()),
            ("value", self.value.text()),
            ("attention", format!("attention({scales}, {scale:?})")),
            ("output", self.output.text()),
            ("feed_forward_norm", self.feed_forward_norm.text()),
            ("gate", source::option(self.gate.map(|gate| gate.text()))),
            ("up", self.up.text()),
            (
                "activation",
                format!(
                    "regard_embed::int8::Activation {{ function: regard_embed::int8::{}, hidden: {:?} }}",
                    self.function.0, self.hidden
                ),
            ),
            ("down", self.down.text()),
        ])
    }
}

/// The rows of the table of tokens, or the projection of patches.
#[derive(Clone, Copy, Debug)]
enum InputPart {
    Tokens { rows: Part, mantissas: Part, exponent: i32 },
    Patches { projection: LinearPart, patches: Patches },
}

/// A model in integers: three tables, and the parts of the model as places in them.
#[derive(Debug)]
pub(super) struct Quantized {
    bytes: Vec<i8>,
    words: Vec<i32>,
    angles: Vec<i16>,
    input: InputPart,
    /// The scale of each channel of an image.
    scales: Vec<f32>,
    positions: Part,
    rotary: Option<(usize, [Part; 2])>,
    layers: Vec<LayerPart>,
    norm: NormPart,
    head: LinearPart,
    /// The bits after the point of logits.
    logit_bits: i32,
}

impl Quantized {
    pub(super) fn of(model: &Model, context: usize, ranges: &Ranges) -> Result<Self, Error> {
        let (description, weights) = (model.description(), model.weights());
        let (block, width) = (&description.stack.block, description.width);
        let mut all = Constants { unit: ranges.unit(ROOM / MOST), ..Constants::default() };
        let none = || Error::Unsupported("the model has no head".into());
        let head = weights.head.as_ref().ok_or_else(none)?;
        let last = ranges.scale("ln_final.hook_out");
        let logit_bits =
            LOGIT_BITS.min(30 - (ROOM * ranges.most("logits")).max(1.0).log2().ceil() as i32);
        let head_part = all.linear(head, &[last], 2_f64.powi(-logit_bits))?;
        let scales = ranges.of_channels();
        let input = match &weights.tokens {
            Tokens::Rows(table) => all.table(&table.to_f32(), width, None),
            // The head has the same rows, and comes first.
            Tokens::Tied(_) => {
                let bias = head.bias().unwrap_or_default();
                let bias = |row: usize| bias.get(row).map_or(0.0, |x| f64::from(*x) / last);
                all.table(&rows(head)?, width, Some((head_part.weight, &bias)))
            }
            Tokens::Patches(projection) => {
                let patches = description.embedding.patches.ok_or_else(none)?;
                let projection = all.linear(projection, &scales, all.unit)?;
                InputPart::Patches { projection, patches }
            }
        };
        let unit = all.unit;
        let positions = positions(model, context).into_iter();
        let positions: Vec<i32> = positions
            .map(|x| integer(f64::from(x) / unit, "positions"))
            .collect::<Result<_, _>>()?;
        let positions = all.words(&positions);
        let layers = weights.stack.layers.iter().enumerate();
        let layers = layers.map(|(index, layer)| {
            all.layer(layer, ranges, index, block.scale_in(index), block.activation)
        });
        let layers = layers.collect::<Result<_, Error>>()?;
        let norm = weights.stack.norm.as_ref().ok_or_else(none)?;
        let norm = all.norm(norm, last)?;
        let mut angles = Vec::new();
        let rotary = rotary(model, context)?.map(|(features, halves)| {
            let parts = halves.map(|half| {
                let start = angles.len();
                angles.extend(half.iter().map(|x| (x * 16384.0).round() as i16)); // |x| ≤ 1
                Part { start, len: half.len() }
            });
            (features, parts)
        });
        let Constants { bytes, words, .. } = all;
        let scales = scales.iter().map(|x| *x as f32).collect();
        Ok(Self {
            bytes,
            words,
            angles,
            input,
            scales,
            positions,
            rotary,
            layers,
            norm,
            head: head_part,
            logit_bits,
        })
    }

    /// One unit of a logit.
    pub(super) fn unit(&self) -> f64 {
        2_f64.powi(-self.logit_bits)
    }

    fn linear(&self, part: &LinearPart) -> int8::Linear<'_> {
        int8::Linear {
            weight: part.weight.of(&self.bytes),
            bias: part.bias.of(&self.words),
            mantissas: part.mantissas.of(&self.words),
            exponent: part.exponent,
        }
    }

    fn norm(&self, part: &NormPart) -> int8::Norm<'_> {
        int8::Norm {
            mantissas: part.mantissas.of(&self.words),
            exponent: part.exponent,
            epsilon: part.epsilon,
            beta: part.beta.of(&self.words),
        }
    }

    fn layer(&self, part: &LayerPart) -> Result<regard_embed::Layer<int8::Integers<'_>>, Error> {
        let ([query, key, value, output], scale) = part.attention;
        let scales = int8::Scales { query, key, value, output };
        Ok(regard_embed::Layer {
            attention_norm: self.norm(&part.attention_norm),
            query: self.linear(&part.query),
            key: self.linear(&part.key),
            value: self.linear(&part.value),
            attention: int8::Attention::new(scales, scale, Temperature::ONE)
                .map_err(|e| Error::Unsupported(e.to_string()))?,
            output: self.linear(&part.output),
            feed_forward_norm: self.norm(&part.feed_forward_norm),
            gate: part.gate.as_ref().map(|gate| self.linear(gate)),
            up: self.linear(&part.up),
            activation: int8::Activation { function: part.function.1, hidden: part.hidden },
            down: self.linear(&part.down),
        })
    }

    /// The logits of an input as a board computes them, with the same bits: a row for each token of a text, or the row of an image.
    pub(super) fn logits(&self, shape: Shape, input: &Input) -> Result<Vec<Vec<i32>>, Error> {
        let scratch = int8::attention_scratch_len(
            shape.block(),
            shape.context,
            shape.head_size,
            shape.head_size,
        );
        let mut wide = vec![0; shape.wide(scratch)];
        let mut narrow = vec![0; shape.narrow()];
        let layers = self.layers.iter().map(|layer| self.layer(layer));
        let layers = layers.collect::<Result<Vec<_>, Error>>()?;
        let (norm, head) = (self.norm(&self.norm), self.linear(&self.head));
        let failed = |e: regard_embed::Error| Error::Unsupported(e.to_string());
        let mut logits = Vec::new();
        match &self.input {
            InputPart::Patches { projection, patches } => {
                let (size, patch) = source::sizes(patches);
                let image = Image {
                    size,
                    patch,
                    scales: &self.scales,
                    projection: self.linear(projection),
                    positions: self.positions.of(&self.words),
                    samples: &[],
                };
                let weights = Weights { input: image, layers: &layers, norm, head };
                let memory = Memory::new(|| shape, &mut wide, &mut narrow);
                logits.push(memory.classify(&weights, &input.pixels).map_err(failed)?.to_vec());
            }
            InputPart::Tokens { rows, mantissas, exponent } => {
                let (rows, mantissas) = (rows.of(&self.bytes), mantissas.of(&self.words));
                let embedding = int8::Embedding { rows, mantissas, exponent: *exponent };
                let rotary = self.rotary.map(|(features, parts)| {
                    let [cos, sin] = parts.map(|part| part.of(&self.angles));
                    int8::Rotary { features, cos, sin }
                });
                let weights =
                    Weights { input: TokensOf { embedding, rotary }, layers: &layers, norm, head };
                for (position, id) in input.ids.iter().enumerate() {
                    let memory = Memory::new(|| shape, &mut wide, &mut narrow);
                    let row = memory.next(&weights, *id as usize, position).map_err(failed)?;
                    logits.push(row.to_vec());
                }
            }
        }
        Ok(logits)
    }

    /// The source and the constants of the crate.
    pub(super) fn content(&self, samples: Option<&ImageProcessor>) -> Content {
        let input = match &self.input {
            InputPart::Tokens { rows, mantissas, exponent } => {
                let (rows, mantissas) = (rows.text("bytes"), mantissas.text("words"));
                let embedding = format!(
                    "regard_embed::int8::Embedding {{ rows: {rows}, mantissas: {mantissas}, exponent: {exponent} }}"
                );
                let rotary = self.rotary.map(|(features, parts)| {
                    let angles =
                        |part: Part| format!("part(&ANGLES, {}, {})", part.start, part.len);
                    source::rotary("regard_embed::int8::Rotary", features, parts.map(angles))
                });
                source::input_of_tokens(&embedding, &source::option(rotary))
            }
            InputPart::Patches { projection, patches } => {
                let positions = self.positions.text("words");
                let projection = projection.text();
                source::input_of_image(patches, &self.scales, &projection, &positions, samples)
            }
        };
        let layers = self.layers.iter().map(LayerPart::text).collect();
        let parts = Parts { input, layers, norm: self.norm.text(), head: self.head.text() };
        let bytes = self.bytes.iter().flat_map(|x| x.to_le_bytes()).collect();
        let words = self.words.iter().flat_map(|x| x.to_le_bytes()).collect();
        let angles = self.angles.iter().flat_map(|x| x.to_le_bytes()).collect();
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
        Content {
            imports: "Aligned, Error, Layer, Model, Shape, Temperature, Weights, int8::{Attention, Integers, Linear, Norm, Scales}, part",
            numbers: ("Integers<'static>", "regard_embed::int8"),
            logit: ("i32", format!("{:?}", self.unit() as f32)),
            tables: vec![
                Table::new("BYTES", "src/bytes.bin", "i8", true, bytes),
                Table::new("WORDS", "src/words.bin", "i32", false, words),
                Table::new("ANGLES", "src/angles.bin", "i16", false, angles),
            ],
            functions: functions.to_owned(),
            parts,
        }
    }
}

/// The tables while they are written.
#[derive(Debug, Default)]
struct Constants {
    bytes: Vec<i8>,
    words: Vec<i32>,
    /// The unit of the residual stream.
    unit: f64,
}

impl Constants {
    fn layer(
        &mut self,
        layer: &Layer,
        ranges: &Ranges,
        index: usize,
        scale: f32,
        activation: Activation,
    ) -> Result<LayerPart, Error> {
        let at = |place: &str| ranges.scale(&format!("blocks.{index}.{place}"));
        let hidden_unit = 2_f64.powi(-HIDDEN_BITS);
        let [query, key] = ranges.queries_and_keys().map(at);
        // An output is a mean of values. Its scale is at most that of the values, and not too far below it for the attention.
        let value = at("attn.hook_v");
        let output = at("attn.hook_z").clamp(value / 2048.0, value);
        let [normed, normed_2] = ["ln1.hook_out", "ln2.hook_out"].map(at);
        let hidden = at("mlp.hook_post");
        let (attention, feed_forward) = (&layer.attention, layer.feed_forward.one()?);
        for place in ["mlp.hook_pre", "mlp.hook_pre_linear", "mlp.hook_post"] {
            let place = format!("blocks.{index}.{place}");
            let (most, room) = (ranges.most(&place), f64::from(i32::MAX) * hidden_unit / ROOM);
            if most > room {
                return Err(Error::Unsupported(format!(
                    "the numbers at {place} are up to {most}, and the integer runtime has room for {room}"
                )));
            }
        }
        let function: (_, fn(i32) -> i32) = match activation {
            Activation::Silu => ("silu", int8::silu),
            Activation::Gelu | Activation::GeluTanh => ("gelu", int8::gelu),
            _ => ("relu", int8::relu),
        };
        let (mantissas, exponent) = fixed(&[hidden_unit / hidden]);
        let norm = |norm: &Option<regard::Norm>| {
            // embed::check refuses a layer without it.
            norm.clone().ok_or_else(|| Error::Unsupported("a layer has no norm".into()))
        };
        let unit = self.unit;
        Ok(LayerPart {
            attention_norm: self.norm(&norm(&layer.norm_1)?, normed)?,
            query: self.linear(&attention.q, &[normed], query / FINER)?,
            key: self.linear(&attention.k, &[normed], key / FINER)?,
            value: self.linear(&attention.v, &[normed], value)?,
            attention: ([query, key, value, output].map(|x| x as f32), scale),
            output: self.linear(&attention.out, &[output], unit)?,
            feed_forward_norm: self.norm(&norm(&layer.norm_2)?, normed_2)?,
            gate: match &feed_forward.gate {
                Some(gate) => Some(self.linear(gate, &[normed_2], hidden_unit)?),
                None => None,
            },
            up: self.linear(&feed_forward.up, &[normed_2], hidden_unit)?,
            function,
            hidden: (mantissas[0], exponent),
            down: self.linear(&feed_forward.down, &[hidden], unit)?,
        })
    }

    /// A linear layer from inputs to outputs of a unit. `scales` has the scale of each of several equal parts of the inputs: a weight
    /// takes the scale of its input.
    fn linear(&mut self, layer: &Linear, scales: &[f64], unit: f64) -> Result<LinearPart, Error> {
        let (inputs, bias) = (layer.inputs().max(1), layer.bias().unwrap_or_default());
        let part = inputs.div_ceil(scales.len().max(1)).max(1);
        let rows: Vec<f64> = rows(layer)?
            .chunks_exact(inputs)
            .flat_map(|row| row.chunks(part).zip(scales))
            .flat_map(|(weights, scale)| weights.iter().map(move |x| f64::from(*x) * scale))
            .collect();
        let bias_of = |row: usize| bias.get(row).map_or(0.0, |x| f64::from(*x));
        let factors = factors(&rows, inputs, bias_of);
        let weight = self.rows(&rows, inputs, &factors);
        let bias = (0..bias.len()).map(|row| integer(bias_of(row) / factors[row], "a bias"));
        let bias = bias.collect::<Result<Vec<i32>, Error>>()?;
        let of_outputs: Vec<f64> = factors.iter().map(|factor| factor / unit).collect();
        let (mantissas, exponent) = fixed(&of_outputs);
        let (bias, mantissas) = (self.words(&bias), self.words(&mantissas));
        Ok(LinearPart { weight, bias, mantissas, exponent })
    }

    /// The table of tokens. If the head has the same rows, `written` is their place and the bias that their scales have room for.
    fn table(
        &mut self,
        rows: &[f32],
        width: usize,
        written: Option<(Part, &dyn Fn(usize) -> f64)>,
    ) -> InputPart {
        let rows: Vec<f64> = rows.iter().map(|x| f64::from(*x)).collect();
        let (written, bias) = written.unzip();
        let scales = factors(&rows, width, bias.unwrap_or(&|_| 0.0));
        let rows = written.unwrap_or_else(|| self.rows(&rows, width, &scales));
        let scales: Vec<f64> = scales.iter().map(|scale| scale / self.unit).collect();
        let (mantissas, exponent) = fixed(&scales);
        InputPart::Tokens { rows, mantissas: self.words(&mantissas), exponent }
    }

    fn norm(&mut self, norm: &regard::Norm, scale: f64) -> Result<NormPart, Error> {
        // Outputs of a layer norm are finer until β is added.
        let finer = if norm.beta().is_some() { FINER } else { 1.0 };
        let fixed_point = |x: &f32| f64::from(*x) * finer / scale;
        let factors: Vec<f64> = norm.gamma().iter().map(|x| fixed_point(x) / 65536.0).collect();
        let beta = norm.beta().unwrap_or_default().iter();
        let beta = beta.map(|x| integer(fixed_point(x), "β of a norm"));
        let beta = beta.collect::<Result<Vec<i32>, Error>>()?;
        let (mantissas, exponent) = fixed(&factors);
        // Above this ε every number of the stream is negligible beside it.
        let epsilon =
            (f64::from(norm.epsilon()) / (self.unit * self.unit)).round().min(MOST * MOST);
        let (mantissas, beta) = (self.words(&mantissas), self.words(&beta));
        Ok(NormPart { mantissas, exponent, epsilon: epsilon as u64, beta })
    }

    /// Adds rows of 8-bit integers in units of their scales.
    fn rows(&mut self, rows: &[f64], inputs: usize, scales: &[f64]) -> Part {
        let start = self.bytes.len();
        let rows = rows.chunks_exact(inputs.max(1)).zip(scales);
        self.bytes.extend(rows.flat_map(|(row, scale)| {
            row.iter().map(move |x| (x / scale).round() as i8) // |x| ≤ 127 · scale
        }));
        Part { start, len: self.bytes.len() - start }
    }

    fn words(&mut self, words: &[i32]) -> Part {
        let start = self.words.len();
        self.words.extend(words);
        Part { start, len: words.len() }
    }
}

/// The scale of each row: see the top of this file. The unit of a row includes that of its input.
fn factors(rows: &[f64], inputs: usize, bias: impl Fn(usize) -> f64) -> Vec<f64> {
    let rows = rows.chunks_exact(inputs.max(1)).enumerate();
    let least = rows.map(|(index, row)| {
        let most = row.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        (most / 127.0).max(bias(index).abs() / MOST_BIAS)
    });
    let mut scales: Vec<f64> = least.collect();
    let most = scales.iter().fold(0.0_f64, |most, x| most.max(*x));
    let least = if most > 0.0 { most / MOST_SCALES } else { 1.0 };
    for scale in &mut scales {
        *scale = scale.max(least);
    }
    scales
}

/// The nearest integer, if it has 32 bits.
fn integer(x: f64, what: &str) -> Result<i32, Error> {
    let nearest = x.round();
    if nearest.abs() > f64::from(i32::MAX) {
        return Err(Error::Unsupported(format!(
            "{what} is {nearest} units of its place, and the integer runtime has 32 bits for it"
        )));
    }
    Ok(nearest as i32)
}

/// Each factor as mantissa · 2^(exponent − 31), with one exponent for all: the largest mantissa has 31 bits.
fn fixed(factors: &[f64]) -> (Vec<i32>, i32) {
    let largest = factors.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
    if largest == 0.0 {
        return (vec![0; factors.len()], 0);
    }
    let exponent = largest.log2().floor() as i32 + 1;
    // A mantissa of 2³¹ − ½ becomes 2³¹ − 1.
    let mantissa = |x: &f64| (x * 2_f64.powi(31 - exponent)).round() as i32;
    (factors.iter().map(mantissa).collect(), exponent)
}
