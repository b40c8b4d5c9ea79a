//! The conversion of a file's weight to a layer.

use regard::Linear;

use crate::Tensor;

/// The weight and the bias of a linear layer in the layout of the file, not yet packed for products.
#[derive(Debug)]
pub(super) struct UnpackedLinear {
    /// \[outputs, inputs\], or \[inputs, outputs\] if `by_columns`.
    weight: Tensor,
    by_columns: bool,
    /// \[outputs\]
    bias: Option<Vec<f32>>,
}

impl UnpackedLinear {
    pub(super) fn new(weight: Tensor, by_columns: bool, bias: Option<Vec<f32>>) -> Self {
        Self { weight, by_columns, bias }
    }

    /// The layer with these outputs, in this order, or `None` if memory has no room for it.
    pub(super) fn select(&self, outputs: &[usize]) -> Option<Self> {
        let weight = if self.by_columns {
            self.weight.select_columns(outputs)
        } else {
            self.weight.select_rows(outputs)
        };
        let bias = self.bias.as_ref().map(|bias| outputs.iter().map(|i| bias[*i]).collect());
        Some(Self { weight: weight?, by_columns: self.by_columns, bias })
    }

    /// The layer with each output times a factor, or `None` if memory has no room for it.
    pub(super) fn times(&self, factors: &[f32]) -> Option<Self> {
        let (mut weight, inputs) = (self.weight.to_f32(), self.weight.cols().max(1));
        for (i, x) in weight.iter_mut().enumerate() {
            let place = if self.by_columns { i % inputs } else { i / inputs };
            *x *= factors.get(place)?;
        }
        let of_bias = |bias: &Vec<f32>| bias.iter().zip(factors).map(|(x, y)| x * y).collect();
        let shape = self.weight.shape().to_vec();
        let weight = Tensor::of_numbers(weight, shape);
        Some(Self { weight, by_columns: self.by_columns, bias: self.bias.as_ref().map(of_bias) })
    }

    pub(super) fn outputs(&self) -> usize {
        if self.by_columns { self.weight.cols() } else { self.weight.rows() }
    }

    /// The bytes that the layer takes: panels of 16 outputs, or the blocks of the file, and what a layer has beside them.
    pub(super) fn layer_bytes(&self) -> u64 {
        const BESIDE: usize = 512;
        let [rows, columns] = [self.weight.rows(), self.weight.cols()];
        let numbers = if self.by_columns {
            columns.next_multiple_of(16) * rows
        } else {
            rows.next_multiple_of(16) * columns
        };
        let bytes = match self.weight.format().number_bytes() {
            Some(bytes) => bytes * numbers,
            None => self.weight.bytes(),
        };
        (bytes + BESIDE) as u64
    }

    /// The layer, with its weight in the type in which the file stores it.
    pub(super) fn layer(self) -> Result<Linear, regard::Error> {
        let layer = self.weight.into_layer(self.by_columns)?;
        match self.bias {
            Some(bias) => layer.with_bias(bias),
            None => Ok(layer),
        }
    }
}
