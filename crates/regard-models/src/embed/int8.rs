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

use core::cell::OnceCell;

use regard::Linear;
use regard_embed::{Hidden, Image, Memory, ModelShape, Temperature, Text, Tokens, Weights, int8};

use super::check::function;
use super::float::{self, positions, rotary, rows};
use super::ranges::{POOLED, Ranges};
use super::source::{self, Content, Parts, Table};
use crate::weights::{Layer, TokenEmbedding};
use crate::{Activation, Error, ImageProcessor, Input, Model, Patches, Placement};

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
            description.stack.final_norm.is_none()
                && description.stack.block.placement != Placement::After,
            "no norm before its head",
        ),
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
    let image = description.embedding.patches.map_or(0, |patches| linear(patches.numbers(), width));
    let pooler = model.weights().pooler.as_ref().map_or(0, |_| linear(width, width));
    // The vector of the type of tokens, and the norm of the embeddings.
    let text = if stack.causal { 0 } else { 12 * width };
    let positions = if description.embedding.positions.is_some() { 4 * context * width } else { 0 };
    let table =
        positions + rows + image + text + pooler + head + 4 * description.vocabulary + 8 * width;
    let angles = stack.rotary_of(0).map_or(0, |r| 2 * context * r.features);
    stack.layers() * layer + table + angles
}

/// The numbers of a model in integers.
#[derive(Debug, Default)]
pub(super) struct Arenas {
    bytes: Arena<i8>,
    words: Arena<i32>,
    angles: Arena<i16>,
}

/// Lists of numbers that stay where they are while others are added.
#[derive(Debug)]
struct Arena<T>(OnceCell<(Vec<T>, Box<Self>)>);

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self(OnceCell::new())
    }
}

impl<T> Arena<T> {
    fn put(&self, list: Vec<T>) -> &[T] {
        let mut last = self;
        while let Some((_, next)) = last.0.get() {
            last = next;
        }
        &last.0.get_or_init(|| (list, Box::default())).0
    }
}

/// The vectors of the tokens, or what the projection of patches needs.
#[derive(Debug)]
enum InputOf<'a> {
    Tokens(Tokens<'a, int8::Integers<'a>>),
    Text(Text<'a, int8::Integers<'a>>),
    Image { projection: int8::Linear<'a>, positions: &'a [i32], patches: Patches },
}

/// A model in integers, as the runtime has it.
#[derive(Debug)]
pub(super) struct Quantized<'a> {
    input: InputOf<'a>,
    /// The scale of each channel of an image.
    channels: Vec<f32>,
    layers: Vec<regard_embed::Layer<int8::Integers<'a>>>,
    /// The arguments of each layer's attention: the scales of queries, keys, values and outputs, and the factor of the scores.
    attentions: Vec<([f32; 4], f32)>,
    activation: Activation,
    norm: int8::Read<'a>,
    pooler: Option<(Hidden<int8::Integers<'a>>, Activation)>,
    head: int8::Linear<'a>,
    /// The bits after the point of logits.
    logit_bits: i32,
}

impl<'a> Quantized<'a> {
    /// The model whose numbers are put on these shelves.
    pub(super) fn of(
        model: &Model,
        context: usize,
        ranges: &Ranges,
        shelves: &'a Arenas,
    ) -> Result<Self, Error> {
        let (description, weights) = (model.description(), model.weights());
        let (block, width) = (&description.stack.block, description.width);
        let after = block.placement == Placement::After;
        let unit = ranges.unit(ROOM / MOST, if after { sums(model, context) } else { 0.0 });
        let Arenas { bytes, words, angles } = shelves;
        let round = Rounding { bytes, words, unit };
        let none = || Error::Unsupported("the model has no head".into());
        let head_layer = weights.head.as_ref().ok_or_else(none)?;
        let last = ranges.scale(&ranges.last);
        let pooled = ranges.scale(POOLED);
        let logit_bits =
            LOGIT_BITS.min(30 - (ROOM * ranges.most("logits")).max(1.0).log2().ceil() as i32);
        let pooler = float::pooler(model);
        let read = if pooler.is_some() { pooled } else { last };
        let head = round.linear(head_layer, &[read], 2_f64.powi(-logit_bits))?;
        let pooler = pooler.map(|(linear, activation)| {
            let up = round.linear(linear, &[last], 2_f64.powi(-HIDDEN_BITS))?;
            let activation_of = activation_of(activation, pooled);
            Ok::<_, Error>((Hidden { gate: None, up, activation: activation_of }, activation))
        });
        let pooler = pooler.transpose()?;
        let channels = ranges.of_channels();
        let rotary = rotary(model, context)?.map(|(features, halves)| {
            let fixed = |x: f32| (x * 16384.0).round() as i16; // |x| ≤ 1
            let [cos, sin] = halves.map(|half| angles.put(half.into_iter().map(fixed).collect()));
            int8::Rotary { features, cos, sin }
        });
        let positions = positions(model, context).into_iter();
        let positions = positions.map(|x| integer(f64::from(x) / unit, "positions"));
        let positions = words.put(positions.collect::<Result<_, _>>()?);
        let embedding_norm = weights.embedding_norm.as_ref();
        let embedding_norm = embedding_norm.map(|norm| round.settling(norm)).transpose()?;
        let kind = float::kind(model).into_iter();
        let kind = kind.map(|x| integer(f64::from(x) / unit, "the type of tokens"));
        let kind = words.put(kind.collect::<Result<_, _>>()?);
        let tokens = |embedding| {
            let tokens = Tokens { embedding, positions, rotary };
            if description.stack.causal {
                return InputOf::Tokens(tokens);
            }
            // A stream that no norm has made is read as it is.
            let norm = embedding_norm.unwrap_or(int8::Read::Scale(0, 0));
            InputOf::Text(Text { tokens, kind, norm })
        };
        let input = match &weights.tokens {
            TokenEmbedding::Rows(table) => tokens(round.table(&table.to_f32(), width, None)),
            // The head has the same rows.
            TokenEmbedding::Tied(_) => {
                let bias = head_layer.bias().unwrap_or_default();
                let bias = |row: usize| bias.get(row).map_or(0.0, |x| f64::from(*x) / last);
                tokens(round.table(&rows(head_layer)?, width, Some((head.weight, &bias))))
            }
            TokenEmbedding::Patches(projection) => {
                let patches = description.embedding.patches.ok_or_else(none)?;
                let projection = round.linear(projection, &channels, unit)?;
                InputOf::Image { projection, positions, patches }
            }
        };
        let layers = weights.stack.layers.iter().enumerate();
        let layers = layers.map(|(index, layer)| round.layer(model, layer, ranges, index));
        let layers = layers.collect::<Result<Vec<_>, Error>>()?;
        let attentions = (0..layers.len()).map(|index| {
            (scales_of_attention(ranges, index).map(|x| x as f32), block.scale_in(index))
        });
        let attentions = attentions.collect();
        let norm = match &weights.stack.norm {
            Some(norm) => int8::Read::Norm(round.norm(norm, last)?),
            None => round.scale(last),
        };
        let channels = channels.iter().map(|x| *x as f32).collect();
        let activation = block.activation;
        Ok(Self { input, channels, layers, attentions, activation, norm, pooler, head, logit_bits })
    }

    /// One unit of a logit.
    pub(super) fn unit(&self) -> f64 {
        2_f64.powi(-self.logit_bits)
    }

    /// The logits of an input as a board computes them, with the same bits: a row for each token of a text, or the row of an image.
    pub(super) fn logits(&self, shape: ModelShape, input: &Input) -> Result<Vec<Vec<i32>>, Error> {
        let scratch = int8::attention_scratch_len(
            shape.block(),
            shape.context,
            shape.head_size,
            shape.head_size,
        );
        let mut wide = vec![0; shape.wide(scratch)];
        let mut narrow = vec![0; shape.narrow()];
        let (layers, norm, head) = (&self.layers[..], self.norm, self.head);
        let pooler = self.pooler.map(|(hidden, _)| hidden);
        let failed = |e: regard_embed::Error| Error::Unsupported(e.to_string());
        match self.input {
            InputOf::Image { projection, positions, patches } => {
                let (size, patch) = source::sizes(&patches);
                let scales = &self.channels;
                let input_layer =
                    Image { size, patch, scales, projection, positions, samples: &[] };
                let weights = Weights { input: input_layer, layers, norm, pooler, head };
                let memory = Memory::new(|| shape, &mut wide, &mut narrow);
                let logits = memory.classify(&weights, &input.pixels).map_err(failed)?;
                Ok(vec![logits.to_vec()])
            }
            InputOf::Text(text) => {
                let weights = Weights { input: text, layers, norm, pooler, head };
                let memory = Memory::new(|| shape, &mut wide, &mut narrow);
                let ids: Vec<usize> = input.ids.iter().map(|id| *id as usize).collect();
                Ok(vec![memory.classify_tokens(&weights, &ids).map_err(failed)?.to_vec()])
            }
            InputOf::Tokens(tokens) => {
                let weights = Weights { input: tokens, layers, norm, pooler, head };
                let ids = input.ids.iter().enumerate();
                let rows = ids.map(|(position, id)| {
                    let memory = Memory::new(|| shape, &mut wide, &mut narrow);
                    let logits = memory.next(&weights, *id as usize, position).map_err(failed)?;
                    Ok(logits.to_vec())
                });
                rows.collect()
            }
        }
    }

    /// The source and the constants of the crate.
    pub(super) fn content(&self, samples: Option<&ImageProcessor>) -> Content {
        let mut all = Tables::default();
        let head = all.linear(&self.head);
        let input = match &self.input {
            InputOf::Tokens(tokens) => all.tokens(tokens, self.head.weight),
            InputOf::Text(Text { tokens, kind, norm }) => {
                let tokens = all.tokens(tokens, self.head.weight);
                source::input_of_text(&tokens, &all.words(kind), &all.read(norm))
            }
            InputOf::Image { projection, positions, patches } => {
                let (projection, positions) = (all.linear(projection), all.words(positions));
                source::input_of_image(patches, &self.channels, &projection, &positions, samples)
            }
        };
        let function = name_of(self.activation);
        let layers = self.layers.iter().zip(&self.attentions);
        let layers = layers.map(|(layer, attention)| all.layer(layer, *attention, function));
        let layers = layers.collect();
        let pooler =
            self.pooler.map(|(hidden, activation)| all.hidden(&hidden, name_of(activation)));
        let (norm, pooler) = (all.read(&self.norm), source::option(pooler));
        let parts = Parts { input, layers, norm, pooler, head };
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
        Content {
            imports: "Aligned, Error, Hidden, Layer, Model, ModelShape, Temperature, Weights, int8::{Attention, Integers, Linear, Norm, Read, Scales}, part",
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
struct Tables {
    bytes: Vec<i8>,
    words: Vec<i32>,
    angles: Vec<i16>,
}

impl Tables {
    fn bytes(&mut self, numbers: &[i8]) -> String {
        source::place("bytes(", &mut self.bytes, numbers)
    }

    fn words(&mut self, numbers: &[i32]) -> String {
        source::place("words(", &mut self.words, numbers)
    }

    fn linear(&mut self, linear: &int8::Linear<'_>) -> String {
        let (weight, exponent) = (self.bytes(linear.weight), linear.exponent);
        let [bias, mantissas] = [linear.bias, linear.mantissas].map(|part| self.words(part));
        format!(
            "Linear {{ weight: {weight}, bias: {bias}, mantissas: {mantissas}, exponent: {exponent} }}"
        )
    }

    /// The vectors of tokens and positions. The rows of a tied head, `head`, are the first that are written.
    fn tokens(&mut self, tokens: &Tokens<'_, int8::Integers<'_>>, head: &[i8]) -> String {
        let Tokens { embedding, positions, rotary } = tokens;
        let rows = if core::ptr::eq(embedding.rows, head) {
            format!("bytes(0, {})", embedding.rows.len())
        } else {
            self.bytes(embedding.rows)
        };
        let (mantissas, exponent) = (self.words(embedding.mantissas), embedding.exponent);
        let embedding = format!(
            "regard_embed::int8::Embedding {{ rows: {rows}, mantissas: {mantissas}, exponent: {exponent} }}"
        );
        let rotary = rotary.map(|int8::Rotary { features, cos, sin }| {
            let halves =
                [cos, sin].map(|half| source::place("part(&ANGLES, ", &mut self.angles, half));
            source::rotary("regard_embed::int8::Rotary", features, halves)
        });
        source::input_of_tokens(&embedding, &self.words(positions), &source::option(rotary))
    }

    fn read(&mut self, read: &int8::Read<'_>) -> String {
        match read {
            int8::Read::Scale(mantissa, exponent) => format!("Read::Scale({mantissa}, {exponent})"),
            int8::Read::Norm(norm) => {
                let int8::Norm { exponent, epsilon, .. } = norm;
                let [mantissas, beta] = [norm.mantissas, norm.beta].map(|part| self.words(part));
                format!(
                    "Read::Norm(Norm {{ mantissas: {mantissas}, exponent: {exponent}, epsilon: {epsilon}, beta: {beta} }})"
                )
            }
        }
    }

    fn hidden(&mut self, layer: &Hidden<int8::Integers<'_>>, function: &str) -> String {
        let hidden = layer.activation.hidden;
        let gate = layer.gate.map(|gate| self.linear(&gate));
        let activation = format!(
            "regard_embed::int8::Activation {{ function: regard_embed::int8::{function}, hidden: {hidden:?} }}"
        );
        source::hidden(gate, &self.linear(&layer.up), &activation)
    }

    fn layer(
        &mut self,
        layer: &regard_embed::Layer<int8::Integers<'_>>,
        (scales, scale): ([f32; 4], f32),
        function: &str,
    ) -> String {
        let scales = scales.map(|x| format!("{x:?}")).join(", ");
        let after = layer.after.map(|norms| norms.map(|norm| self.read(&norm)).join(", "));
        source::layer([
            ("attention_norm", self.read(&layer.attention_norm)),
            ("query", self.linear(&layer.query)),
            ("key", self.linear(&layer.key)),
            ("value", self.linear(&layer.value)),
            ("attention", format!("attention({scales}, {scale:?})")),
            ("output", self.linear(&layer.output)),
            ("feed_forward_norm", self.read(&layer.feed_forward_norm)),
            ("hidden", self.hidden(&layer.hidden, function)),
            ("down", self.linear(&layer.down)),
            ("after", source::option(after.map(|norms| format!("[{norms}]")))),
        ])
    }
}

/// The name of an activation function in `regard_embed::int8`, which has one GELU.
fn name_of(activation: Activation) -> &'static str {
    match activation {
        Activation::GeluTanh => "gelu",
        // embed::check refuses the others.
        _ => function(activation).unwrap_or("relu"),
    }
}

/// The integer runtime's activation function, whose results have this scale.
fn activation_of(activation: Activation, scale: f64) -> int8::Activation {
    let function = match activation {
        Activation::Silu => int8::silu,
        Activation::Gelu | Activation::GeluTanh => int8::gelu,
        Activation::Tanh => int8::tanh,
        _ => int8::relu,
    };
    let (mantissas, exponent) = fixed(&[2_f64.powi(-HIDDEN_BITS) / scale]);
    int8::Activation { function, hidden: (mantissas[0], exponent) }
}

/// A bound of the sums of the vectors of tokens, positions and types, which a norm reads.
fn sums(model: &Model, context: usize) -> f64 {
    let most = |numbers: &[f32]| numbers.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let tokens = match &model.weights().tokens {
        TokenEmbedding::Rows(table) => most(&table.to_f32()),
        // A model of images, and a decoder's tied table, have no norm of these sums.
        TokenEmbedding::Tied(_) | TokenEmbedding::Patches(_) => 0.0,
    };
    f64::from(tokens + most(&positions(model, context)) + most(&float::kind(model)))
}

/// The scales of a layer's queries, keys, values and outputs of its heads.
fn scales_of_attention(ranges: &Ranges, index: usize) -> [f64; 4] {
    let at = |place: &str| ranges.scale(&format!("blocks.{index}.{place}"));
    let [query, key] = ranges.queries_and_keys().map(at);
    // An output is a mean of values. Its scale is at most that of the values, and not too far below it for the attention.
    let value = at("attn.hook_v");
    [query, key, value, at("attn.hook_z").clamp(value / 2048.0, value)]
}

/// Rounds the numbers of a model to integers.
struct Rounding<'a> {
    bytes: &'a Arena<i8>,
    words: &'a Arena<i32>,
    /// The unit of the residual stream.
    unit: f64,
}

/// The rows of the head that are also the table of tokens, and the head's bias.
type Shared<'a, 'b> = (&'a [i8], &'b dyn Fn(usize) -> f64);

impl<'a> Rounding<'a> {
    fn layer(
        &self,
        model: &Model,
        layer: &Layer,
        ranges: &Ranges,
        index: usize,
    ) -> Result<regard_embed::Layer<int8::Integers<'a>>, Error> {
        let block = &model.description().stack.block;
        let (scale, activation) = (block.scale_in(index), block.activation);
        let after = block.placement == Placement::After;
        let at = |place: &str| ranges.scale(&format!("blocks.{index}.{place}"));
        let hidden_unit = 2_f64.powi(-HIDDEN_BITS);
        let of_attention = scales_of_attention(ranges, index);
        let [query, key, value, output] = of_attention;
        let scales = {
            let [query, key, value, output] = of_attention.map(|x| x as f32);
            int8::Scales { query, key, value, output }
        };
        // Norms that stand after the sublayers leave the stream that the next one reads.
        let read = if after {
            ["hook_resid_pre", "ln1.hook_out"]
        } else {
            ["ln1.hook_out", "ln2.hook_out"]
        };
        let [normed, normed_2] = read.map(at);
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
        // embed::check refuses a layer without norms.
        let none = || Error::Unsupported("a layer has no norm".into());
        let first = layer.norm_1.as_ref().ok_or_else(none)?;
        let second = layer.norm_2.as_ref().ok_or_else(none)?;
        let (before, after) = if after {
            let after = [self.settling(first)?, self.settling(second)?];
            ([self.scale(normed), self.scale(normed_2)], Some(after))
        } else {
            let before = [self.norm(first, normed)?, self.norm(second, normed_2)?];
            (before.map(int8::Read::Norm), None)
        };
        let [attention_norm, feed_forward_norm] = before;
        let gate = feed_forward.gate.as_ref();
        Ok(regard_embed::Layer {
            attention_norm,
            query: self.linear(&attention.q, &[normed], query / FINER)?,
            key: self.linear(&attention.k, &[normed], key / FINER)?,
            value: self.linear(&attention.v, &[normed], value)?,
            attention: int8::Attention::new(scales, scale, Temperature::ONE)
                .map_err(|e| Error::Unsupported(e.to_string()))?,
            output: self.linear(&attention.out, &[output], self.unit)?,
            feed_forward_norm,
            hidden: Hidden {
                gate: gate.map(|gate| self.linear(gate, &[normed_2], hidden_unit)).transpose()?,
                up: self.linear(&feed_forward.up, &[normed_2], hidden_unit)?,
                activation: activation_of(activation, hidden),
            },
            down: self.linear(&feed_forward.down, &[hidden], self.unit)?,
            after,
        })
    }

    /// A linear layer from inputs to outputs of a unit. `scales` has the scale of each of several equal parts of the inputs: a weight
    /// takes the scale of its input.
    fn linear(&self, layer: &Linear, scales: &[f64], unit: f64) -> Result<int8::Linear<'a>, Error> {
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
        let bias = self.words.put(bias.collect::<Result<_, Error>>()?);
        let of_outputs: Vec<f64> = factors.iter().map(|factor| factor / unit).collect();
        let (mantissas, exponent) = fixed(&of_outputs);
        Ok(int8::Linear { weight, bias, mantissas: self.words.put(mantissas), exponent })
    }

    /// The table of tokens. If the head has the same rows, `shared` has these, and the bias that their scales have room for.
    fn table(
        &self,
        rows: &[f32],
        width: usize,
        shared: Option<Shared<'a, '_>>,
    ) -> int8::Embedding<'a> {
        let rows: Vec<f64> = rows.iter().map(|x| f64::from(*x)).collect();
        let (shared, bias) = shared.unzip();
        let scales = factors(&rows, width, bias.unwrap_or(&|_| 0.0));
        let rows = shared.unwrap_or_else(|| self.rows(&rows, width, &scales));
        let scales: Vec<f64> = scales.iter().map(|scale| scale / self.unit).collect();
        let (mantissas, exponent) = fixed(&scales);
        int8::Embedding { rows, mantissas: self.words.put(mantissas), exponent }
    }

    /// The factor from the residual stream to 8-bit integers of a scale.
    fn scale(&self, scale: f64) -> int8::Read<'a> {
        let (mantissas, exponent) = fixed(&[self.unit / scale]);
        int8::Read::Scale(mantissas[0], exponent)
    }

    /// A norm that leaves the residual stream in its unit, which is that of β.
    fn settling(&self, norm: &regard::Norm) -> Result<int8::Read<'a>, Error> {
        let finer = if norm.beta().is_some() { FINER } else { 1.0 };
        Ok(int8::Read::Norm(self.norm(norm, self.unit * finer)?))
    }

    fn norm(&self, norm: &regard::Norm, scale: f64) -> Result<int8::Norm<'a>, Error> {
        // Outputs of a layer norm are finer until β is added.
        let finer = if norm.beta().is_some() { FINER } else { 1.0 };
        let fixed_point = |x: &f32| f64::from(*x) * finer / scale;
        let factors: Vec<f64> = norm.gamma().iter().map(|x| fixed_point(x) / 65536.0).collect();
        let beta = norm.beta().unwrap_or_default().iter();
        let beta = beta.map(|x| integer(fixed_point(x), "β of a norm"));
        let beta = self.words.put(beta.collect::<Result<_, Error>>()?);
        let (mantissas, exponent) = fixed(&factors);
        // Above this ε every number of the stream is negligible beside it.
        let epsilon =
            (f64::from(norm.epsilon()) / (self.unit * self.unit)).round().min(MOST * MOST);
        let mantissas = self.words.put(mantissas);
        Ok(int8::Norm { mantissas, exponent, epsilon: epsilon as u64, beta })
    }

    /// Rows of 8-bit integers in units of their scales.
    fn rows(&self, rows: &[f64], inputs: usize, scales: &[f64]) -> &'a [i8] {
        let rows = rows.chunks_exact(inputs.max(1)).zip(scales);
        let rounded = rows.flat_map(|(row, scale)| {
            row.iter().map(move |x| (x / scale).round() as i8) // |x| ≤ 127 · scale
        });
        self.bytes.put(rounded.collect())
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
