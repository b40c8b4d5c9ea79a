//! The tensors of a model as the runtime reads them: matrices in panels, and vectors in `f32`.

use half::bf16;
use regard::{Embedding, Linear, Pairing};

use super::Floats;
use crate::weights::{Layer, Tokens};
use crate::{Error, Model};

/// Columns of a panel.
const LANES: usize = 16;

/// All tensors, one after another.
#[derive(Debug, Default)]
pub(super) struct Tensors {
    /// Matrices, in panels.
    matrices: Vec<f32>,
    /// Biases, norms and tables.
    vectors: Vec<f32>,
    pub(super) tokens: Matrix,
    pub(super) positions: Option<Vector>,
    pub(super) layers: Vec<LayerTensors>,
    pub(super) norm: Option<NormTensors>,
    pub(super) head: LinearTensors,
    pub(super) rotary: Option<RotaryTensors>,
}

/// A matrix \[inputs, outputs\] among the matrices.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Matrix {
    pub(super) start: usize,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

/// A vector among the vectors.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Vector {
    pub(super) start: usize,
    pub(super) len: usize,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinearTensors {
    pub(super) weight: Matrix,
    pub(super) bias: Option<Vector>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NormTensors {
    pub(super) gamma: Vector,
    pub(super) beta: Option<Vector>,
    pub(super) epsilon: f32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LayerTensors {
    pub(super) attention_norm: NormTensors,
    /// Queries, keys, values, output.
    pub(super) attention: [LinearTensors; 4],
    pub(super) feed_forward_norm: NormTensors,
    pub(super) gate: Option<LinearTensors>,
    pub(super) up: LinearTensors,
    pub(super) down: LinearTensors,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RotaryTensors {
    pub(super) features: usize,
    pub(super) cos: Vector,
    pub(super) sin: Vector,
}

impl Tensors {
    /// The tensors of a model that [`check`](super::check::model) accepts.
    pub(super) fn of(model: &Model, context: usize) -> Result<Self, Error> {
        let (weights, description) = (model.weights(), model.description());
        let width = description.width;
        let mut all = Self::default();
        let none = || Error::Input("the model has no head".into());
        all.head = all.linear(weights.head.as_ref().ok_or_else(none)?)?;
        all.tokens = match &weights.tokens {
            Tokens::Rows(table) => all.matrix(&table.to_f32(), width, description.vocabulary),
            // The head has the same matrix.
            Tokens::Tied(_) | Tokens::Patches(_) => all.head.weight,
        };
        if let (Some(table), Some(positions)) =
            (&weights.positions, description.embedding.positions)
        {
            let mut rows = vec![0.0; context * width];
            table.widen(positions.first, &mut rows);
            all.positions = Some(all.vector(&rows));
        }
        for layer in &weights.stack.layers {
            let layer = all.layer(layer)?;
            all.layers.push(layer);
        }
        all.norm = weights.stack.norm.as_ref().map(|norm| all.norm(norm));
        all.rotary = all.rotary(model, context)?;
        Ok(all)
    }

    fn layer(&mut self, layer: &Layer) -> Result<LayerTensors, Error> {
        let attention = &layer.attention;
        Ok(LayerTensors {
            attention_norm: self.norm(&layer.norm_1),
            attention: [
                self.linear(&attention.q)?,
                self.linear(&attention.k)?,
                self.linear(&attention.v)?,
                self.linear(&attention.out)?,
            ],
            feed_forward_norm: self.norm(&layer.norm_2),
            gate: layer.gate.as_ref().map(|gate| self.linear(gate)).transpose()?,
            up: self.linear(&layer.up)?,
            down: self.linear(&layer.down)?,
        })
    }

    fn linear(&mut self, layer: &Linear) -> Result<LinearTensors, Error> {
        let rows = rows(layer)?;
        Ok(LinearTensors {
            weight: self.matrix(&rows, layer.inputs(), layer.outputs()),
            bias: layer.bias().map(|bias| self.vector(bias)),
        })
    }

    fn norm(&mut self, norm: &regard::Norm) -> NormTensors {
        NormTensors {
            gamma: self.vector(norm.gamma()),
            beta: norm.beta().map(|beta| self.vector(beta)),
            epsilon: norm.epsilon(),
        }
    }

    /// Adds a matrix that is given by its columns, `rows` \[outputs, inputs\].
    fn matrix(&mut self, rows: &[f32], inputs: usize, outputs: usize) -> Matrix {
        let start = self.matrices.len();
        for (panel, t) in
            (0..outputs.div_ceil(LANES)).flat_map(|p| (0..inputs).map(move |t| (p, t)))
        {
            let lane = |lane| rows.get((panel * LANES + lane) * inputs + t).copied();
            self.matrices.extend((0..LANES).map(|i| lane(i).unwrap_or(0.0)));
        }
        Matrix { start, inputs, outputs }
    }

    fn vector(&mut self, numbers: &[f32]) -> Vector {
        let start = self.vectors.len();
        self.vectors.extend(numbers);
        Vector { start, len: numbers.len() }
    }

    fn rotary(&mut self, model: &Model, context: usize) -> Result<Option<RotaryTensors>, Error> {
        let Some(Angles { features, cos, sin }) = Angles::of(model, context)? else {
            return Ok(None);
        };
        let (cos, sin) = (self.vector(&cos), self.vector(&sin));
        Ok(Some(RotaryTensors { features, cos, sin }))
    }

    /// Whether every weight of a matrix is a bfloat16 number.
    pub(super) fn are_bf16(&self) -> bool {
        self.matrices.iter().all(|x| x.to_bits().trailing_zeros() >= 16)
    }

    /// The bytes of all tensors in flash.
    pub(super) fn bytes(&self, stored: Floats) -> usize {
        let weight = match stored {
            Floats::F32 => size_of::<f32>(),
            Floats::Bf16 => size_of::<bf16>(),
        };
        self.matrices.len() * weight + self.vectors.len() * size_of::<f32>()
    }

    /// (elements, bytes) of the matrices.
    pub(super) fn matrices(&self, stored: Floats) -> (usize, Vec<u8>) {
        let numbers = self.matrices.iter();
        let bytes = match stored {
            Floats::F32 => numbers.flat_map(|x| x.to_le_bytes()).collect(),
            Floats::Bf16 => numbers.flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect(),
        };
        (self.matrices.len(), bytes)
    }

    /// (elements, bytes) of the vectors.
    pub(super) fn vectors(&self) -> (usize, Vec<u8>) {
        (self.vectors.len(), self.vectors.iter().flat_map(|x| x.to_le_bytes()).collect())
    }
}

/// The weight of a layer as PyTorch has it, \[outputs, inputs\].
pub(super) fn rows(layer: &Linear) -> Result<Vec<f32>, Error> {
    // Each output is a token of the embedding that shares the layer's weight.
    let outputs: Vec<u32> = (0..u32::try_from(layer.outputs()).unwrap_or(u32::MAX)).collect();
    Ok(Embedding::tied_to(layer).forward(&outputs)?.into_vec())
}

/// The table of rotary positions.
pub(super) struct Angles {
    /// The features of a head that turn.
    pub(super) features: usize,
    /// \[context, features / 2\]
    pub(super) cos: Vec<f32>,
    /// \[context, features / 2\]
    pub(super) sin: Vec<f32>,
}

impl Angles {
    /// The table of a model, if its positions are rotary.
    pub(super) fn of(model: &Model, context: usize) -> Result<Option<Self>, Error> {
        let Some(rotary) = &model.description().stack.block.rotary else { return Ok(None) };
        let frequencies = rotary.frequencies(context, model.weights().divisors.as_deref())?;
        let table = regard::Rotary::with_frequencies(&frequencies, context, Pairing::HalfSplit)?;
        let (features, pairs) = (rotary.features, rotary.features / 2);
        // What becomes of the pairs (1, 0).
        let mut turned = [vec![1.0; pairs], vec![0.0; pairs]].concat().repeat(context);
        table.rotate(&mut turned, [1, context, 1, features], 0)?;
        let half = |first: usize| -> Vec<f32> {
            let rows = turned.chunks_exact(features.max(1));
            rows.flat_map(|row| row[first..first + pairs].iter().copied()).collect()
        };
        Ok(Some(Self { features, cos: half(0), sin: half(pairs) }))
    }
}
