//! A model in floating point: matrices in panels, and vectors in `f32`.

use half::bf16;
use regard::{Embedding, Linear, Pairing, Rotary};
use regard_kernels::{PANEL_COLUMNS, pack_panel, packed_len};

use super::source::{self, Content, Parts, Table};
use super::{Stored, check};
use crate::weights::{Layer, TokenEmbedding};
use crate::{Activation, Error, ImageProcessor, Model, OutputHead, Placement, Tensor};

/// All tensors, one after another, and the place of each.
#[derive(Debug, Default)]
pub(super) struct Tensors {
    /// Matrices, in panels.
    matrices: Vec<f32>,
    /// Biases, norms and tables.
    vectors: Vec<f32>,
    parts: Parts,
}

impl Tensors {
    /// The tensors of a model that [`check`](super::check::model) accepts.
    pub(super) fn of(
        model: &Model,
        context: usize,
        samples: Option<&ImageProcessor>,
    ) -> Result<Self, Error> {
        let (weights, description) = (model.weights(), model.description());
        let (width, block) = (description.width, &description.stack.block);
        let mut all = Self::default();
        let none = || Error::Unsupported("the model has no head".into());
        let head_layer = weights.head.as_ref().ok_or_else(none)?;
        let head = all.linear(head_layer)?;
        let positions = positions(model, context);
        let tokens = match &weights.tokens {
            TokenEmbedding::Rows(table) => {
                all.matrix(&table.to_f32(), width, description.vocabulary)
            }
            // The head has the same matrix, and comes first.
            TokenEmbedding::Tied(_) => {
                format!("matrix(0, {}, {})", head_layer.inputs(), head_layer.outputs())
            }
            TokenEmbedding::Patches(projection) => all.linear(projection)?,
        };
        let positions = if positions.is_empty() { "&[]".into() } else { all.vector(&positions) };
        let mut layers = String::new();
        for (index, layer) in weights.stack.layers.iter().enumerate() {
            layers +=
                &all.layer(layer, block.scale_in(index), block.activation, block.placement)?;
        }
        let norm = weights.stack.norm.as_ref();
        let norm = all.norm(norm);
        let rotary = rotary(model, context)?.map(|(features, angles)| {
            source::rotary("regard_embed::Rotary", features, angles.map(|half| all.vector(&half)))
        });
        let input = if let Some(patches) = &description.embedding.patches {
            source::input_of_image(patches, &[], &tokens, &positions, samples)
        } else {
            let tokens = source::input_of_tokens(&tokens, &positions, &source::option(rotary));
            if description.stack.causal {
                tokens
            } else {
                let kind = kind(model);
                let kind = if kind.is_empty() { "&[]".into() } else { all.vector(&kind) };
                source::input_of_text(&tokens, &kind, &all.norm(weights.embedding_norm.as_ref()))
            }
        };
        let pooler = pooler(model).map(|(linear, activation)| {
            Ok::<_, Error>(source::hidden(None, &all.linear(linear)?, &function(activation)))
        });
        let pooler = source::option(pooler.transpose()?);
        all.parts = Parts { input, layers, norm, pooler, head };
        Ok(all)
    }

    fn layer(
        &mut self,
        layer: &Layer,
        scale: f32,
        activation: Activation,
        placement: Placement,
    ) -> Result<String, Error> {
        let (attention, feed_forward) = (&layer.attention, layer.feed_forward.one()?);
        let gate = feed_forward.gate.as_ref().map(|gate| self.linear(gate)).transpose()?;
        let norms = [&layer.norm_1, &layer.norm_2].map(|norm| self.norm(norm.as_ref()));
        let none = || ["Norm::Identity"; 2].map(str::to_owned);
        let (before, after) = match placement {
            Placement::After => (none(), Some(norms)),
            _ => (norms, None),
        };
        let [attention_norm, feed_forward_norm] = before;
        let up = self.linear(&feed_forward.up)?;
        Ok(source::layer([
            ("attention_norm", attention_norm),
            ("query", self.linear(&attention.q)?),
            ("key", self.linear(&attention.k)?),
            ("value", self.linear(&attention.v)?),
            ("attention", format!("{scale:?}")),
            ("output", self.linear(&attention.out)?),
            ("feed_forward_norm", feed_forward_norm),
            ("hidden", source::hidden(gate, &up, &function(activation))),
            ("down", self.linear(&feed_forward.down)?),
            ("after", source::option(after.map(|norms| format!("[{}]", norms.join(", "))))),
        ]))
    }

    fn linear(&mut self, layer: &Linear) -> Result<String, Error> {
        let weight = self.matrix(&rows(layer)?, layer.inputs(), layer.outputs());
        let bias = source::option(layer.bias().map(|bias| self.vector(bias)));
        Ok(format!("Linear {{ weight: {weight}, bias: {bias} }}"))
    }

    fn norm(&mut self, norm: Option<&regard::Norm>) -> String {
        let Some(norm) = norm else { return "Norm::Identity".into() };
        let (gamma, epsilon) = (self.vector(norm.gamma()), norm.epsilon());
        match norm.beta().map(|beta| self.vector(beta)) {
            Some(beta) => {
                format!("Norm::Layer {{ gamma: {gamma}, beta: {beta}, epsilon: {epsilon:?} }}")
            }
            None => format!("Norm::Rms {{ gamma: {gamma}, epsilon: {epsilon:?} }}"),
        }
    }

    /// Adds a matrix that is given by its columns, `rows` \[outputs, inputs\].
    fn matrix(&mut self, rows: &[f32], inputs: usize, outputs: usize) -> String {
        let start = self.matrices.len();
        self.matrices.resize(start + packed_len(inputs, outputs), 0.0);
        let size = PANEL_COLUMNS * inputs.max(1);
        for (panel, columns) in self.matrices[start..].chunks_exact_mut(size).zip(rows.chunks(size))
        {
            pack_panel(columns, inputs, panel);
        }
        format!("matrix({start}, {inputs}, {outputs})")
    }

    fn vector(&mut self, numbers: &[f32]) -> String {
        source::place("vector(", &mut self.vectors, numbers)
    }

    /// Whether every weight of a matrix is a bfloat16 number.
    pub(super) fn are_bf16(&self) -> bool {
        self.matrices.iter().all(|x| x.to_bits().trailing_zeros() >= 16)
    }

    /// The bytes of all tensors in flash, if the weights have the type `T`.
    pub(super) fn bytes<T>(&self) -> usize {
        self.matrices.len() * size_of::<T>() + self.vectors.len() * size_of::<f32>()
    }

    /// The constants and the model of a crate, in bfloat16 or in `f32`.
    pub(super) fn content(self, stored: Stored) -> Content {
        let weights = self.matrices.iter();
        let (imports, numbers, matrix, number, bytes): (_, _, _, _, Vec<u8>) = match stored {
            Stored::Bf16 => (
                "Aligned, Bf16, Error, Floats, Hidden, Layer, Linear, Model, ModelShape, Norm, Weights, part",
                "Floats<Bf16>",
                "Bf16",
                "u16",
                weights.flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect(),
            ),
            Stored::F32 | Stored::Int8 => (
                "Aligned, Error, F32, Floats, Hidden, Layer, Linear, Model, ModelShape, Norm, Weights, part",
                "Floats<F32>",
                "F32",
                "f32",
                weights.flat_map(|x| x.to_le_bytes()).collect(),
            ),
        };
        let vectors = self.vectors.iter().flat_map(|x| x.to_le_bytes()).collect();
        let functions = format!(
            "\
/// The matrix [inputs, outputs] whose panels begin at `start`.
const fn matrix(start: usize, inputs: usize, outputs: usize) -> {matrix} {{
    let len = outputs.div_ceil(16) * 16 * inputs;
    {matrix}::new(part(&MATRICES.0, start, len), inputs, outputs)
}}

const fn vector(start: usize, len: usize) -> &'static [f32] {{
    part(&VECTORS, start, len)
}}
"
        );
        let tables = vec![
            Table::new("MATRICES", "src/matrices.bin", number, true, bytes),
            Table::new("VECTORS", "src/vectors.bin", "f32", false, vectors),
        ];
        let (numbers, logit) = ((numbers, "regard_embed"), ("f32", "1.0".to_owned()));
        Content { imports, numbers, logit, tables, functions, parts: self.parts }
    }
}

/// The floating-point runtime's activation function.
fn function(activation: Activation) -> String {
    // embed::check refuses the others.
    format!("regard_embed::{}", check::function(activation).unwrap_or_default())
}

/// The layer and the activation before the head of classes, if there are any.
pub(super) fn pooler(model: &Model) -> Option<(&Linear, Activation)> {
    match model.description().head {
        OutputHead::Classes { pooler, .. } => model.weights().pooler.as_ref().zip(pooler),
        _ => None,
    }
}

/// The vector that is added to each token of a text: that of the first type of tokens. Empty if there is none.
pub(super) fn kind(model: &Model) -> Vec<f32> {
    let (width, types) = (model.description().width, model.description().embedding.types);
    let mut row = vec![0.0; if types > 0 { width } else { 0 }];
    if let (Some(table), false) = (&model.weights().types, row.is_empty()) {
        table.widen(0, &mut row);
    }
    row
}

/// The weight of a layer as PyTorch has it, \[outputs, inputs\].
pub(super) fn rows(layer: &Linear) -> Result<Vec<f32>, Error> {
    // Each output is a token of the embedding that shares the layer's weight.
    let outputs: Vec<u32> = (0..u32::try_from(layer.outputs()).unwrap_or(u32::MAX)).collect();
    Ok(Embedding::tied_to(layer).forward(&outputs)?.into_vec())
}

/// The vectors that are added at each position \[context, width\]; empty if there are none. The class token of an image is
/// added to the first one.
pub(super) fn positions(model: &Model, context: usize) -> Vec<f32> {
    let (weights, description) = (model.weights(), model.description());
    let (Some(table), Some(learned)) = (&weights.positions, description.embedding.positions) else {
        return Vec::new();
    };
    let mut rows = vec![0.0; context * description.width];
    table.widen(learned.first, &mut rows);
    if let TokenEmbedding::Patches(_) = weights.tokens {
        let class = weights.types.as_ref().map(Tensor::to_f32).unwrap_or_default();
        for (x, class) in rows.iter_mut().zip(class) {
            *x += class;
        }
    }
    rows
}

/// The rotary features of a head, with the cosines and the sines \[context, features / 2\] of their positions.
type Turns = (usize, [Vec<f32>; 2]);

/// The turns of a head's features, if the model has rotary positions.
pub(super) fn rotary(model: &Model, context: usize) -> Result<Option<Turns>, Error> {
    let Some(rotary) = model.description().stack.rotary_of(0) else { return Ok(None) };
    let frequencies = rotary.frequencies(context, model.weights().divisors.as_deref())?;
    let angles = Rotary::with_frequencies(&frequencies, context, Pairing::HalfSplit)?;
    let (features, pairs) = (rotary.features, rotary.features / 2);
    // The pairs (1, 0) become the cosines and the sines.
    let mut turned = [vec![1.0; pairs], vec![0.0; pairs]].concat().repeat(context);
    angles.rotate(&mut turned, [1, context, 1, features], 0)?;
    let half = |first: usize| {
        let rows = turned.chunks_exact(features.max(1));
        rows.flat_map(|row| row[first..first + pairs].iter().copied()).collect()
    };
    Ok(Some((features, [0, pairs].map(half))))
}
