//! Gradients of the layers around attention.

use regard_kernels::{Mat, MatMut, matmul, matmul_transposed};

use crate::error::Error;
use crate::gradient::transpose;
use crate::multi_head;
use crate::view::{check_elements, saturating_product, zeros};
use crate::{
    Attention, Linear, MultiHeadAttention, Projections, Rotary, Sequences, Tensor, Threads,
};

/// The gradients of a loss with respect to a [`Linear`] layer and what it was given: see [`Linear::backward`].
#[derive(Clone, Debug, PartialEq)]
pub struct LinearGradients {
    /// \[batch, tokens, inputs\].
    pub input: Vec<f32>,
    /// \[inputs, outputs\].
    pub weight: Vec<f32>,
    /// \[outputs\], whether the layer has a bias or not.
    pub bias: Vec<f32>,
}

impl Linear {
    /// The gradients of a loss of which `d_out` \[batch, tokens, outputs\] is the gradient with respect to the layer's output
    /// for `x`: dX = dY·Wᵀ, dW = Xᵀ·dY, and for the bias the sum of dY over the tokens.
    ///
    /// # Errors
    /// Names the tensor that does not fit the layer.
    ///
    /// ```
    /// use regard::{Linear, Sequences};
    /// let layer = Linear::new(vec![2.0, 3.0], 2, 1)?;
    /// let x = [4.0, 5.0];
    /// let gradients = layer.backward(Sequences::new("x", &x, [1, 1, 2])?, &[1.0])?;
    /// assert_eq!((gradients.input, gradients.weight, gradients.bias), (vec![2.0, 3.0], vec![4.0, 5.0], vec![1.0]));
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn backward(&self, x: Sequences<'_>, d_out: &[f32]) -> Result<LinearGradients, Error> {
        let ([batch, n, _], inputs, outputs) = (x.shape(), self.inputs(), self.outputs());
        self.check("the input", x)?;
        check_elements("the gradient of the output", d_out.len(), &[batch, n, outputs])?;
        let (rows, weight) = (saturating_product(&[batch, n]), self.unpacked()?);
        let weight = Mat::new(&weight, inputs, outputs)?;
        let d_rows = Mat::new(d_out, rows, outputs)?;

        let mut input = zeros("the gradient of the input", &[batch, n, inputs])?;
        let blocks = input.chunks_mut(saturating_product(&[BLOCK, inputs]).max(1)).enumerate();
        Threads::current().for_each(
            blocks,
            saturating_product(&[rows, inputs, outputs]),
            0,
            |_, (block, out)| {
                let d_rows = d_rows.rows_from(block * BLOCK, BLOCK);
                Ok(matmul_transposed(d_rows, weight, MatMut::new(out, d_rows.rows(), inputs)?)?)
            },
        )?;

        let mut transposed = zeros("the input, transposed", &[inputs, rows])?;
        transpose(x.data(), inputs, 1.0, &mut transposed);
        let x = Mat::new(&transposed, inputs, rows)?;
        let mut d_weight = zeros("the gradient of the weight", &[inputs, outputs])?;
        let blocks = d_weight.chunks_mut(saturating_product(&[BLOCK, outputs]).max(1)).enumerate();
        Threads::current().for_each(
            blocks,
            saturating_product(&[rows, inputs, outputs]),
            0,
            |_, (block, out)| {
                let x = x.rows_from(block * BLOCK, BLOCK);
                Ok(matmul(x, d_rows, MatMut::new(out, x.rows(), outputs)?)?)
            },
        )?;

        let mut bias = zeros("the gradient of the bias", &[outputs])?;
        for row in d_out.chunks_exact(outputs.max(1)) {
            for (sum, d) in bias.iter_mut().zip(row) {
                *sum += d;
            }
        }
        Ok(LinearGradients { input, weight: d_weight, bias })
    }
}

/// Rows of a result that are computed together.
const BLOCK: usize = 96;

/// The gradients of a loss with respect to a [`MultiHeadAttention`] layer: see [`MultiHeadAttention::backward`].
///
/// The `input` of a projection's gradients is the gradient of the sequence that it projects. In self-attention, the gradient of
/// x is the sum of three of them.
#[derive(Clone, Debug, PartialEq)]
pub struct MultiHeadGradients {
    /// The query projection's gradients; `input` \[batch, n_q, …\] is the gradient of `query`.
    pub query: LinearGradients,
    /// The key projection's gradients; `input` \[batch, n_k, …\] is the gradient of `key`.
    pub key: LinearGradients,
    /// The value projection's gradients; `input` \[batch, n_k, …\] is the gradient of `value`.
    pub value: LinearGradients,
    /// The output projection's gradients; `input` is the gradient of the heads' outputs, side by side.
    pub output: LinearGradients,
    /// The gradient of the factor that dot products are multiplied by.
    pub scale: f32,
    /// The additive mask's gradient, if there is such a mask.
    pub bias: Option<Tensor<4>>,
    /// The gradient \[heads\] of the [sinks](Attention::sinks), if there are any.
    pub sinks: Option<Vec<f32>>,
}

impl MultiHeadAttention {
    /// The gradients of a loss of which `d_out` \[batch, n_q, outputs\] is the gradient with respect to the layer's output for
    /// the same sequences and attention. What the layer computed on the way is computed again.
    ///
    /// # Errors
    /// As [`forward`](Self::forward), and as [`Attention::backward`]; [`Error::NoGradient`] if the layer has norms of queries and
    /// keys.
    ///
    /// ```
    /// use regard::{Attention, Linear, MultiHeadAttention, Projections, Sequences};
    /// let linear = |w| Linear::new(vec![w], 1, 1);
    /// let projections =
    ///     Projections { query: linear(1.0)?, key: linear(1.0)?, value: linear(2.0)?, output: linear(3.0)? };
    /// let layer = MultiHeadAttention::new(1, projections)?;
    /// let x = Sequences::new("x", &[5.0], [1, 1, 1])?; // one token: it sees itself alone, and y = 2·3·x
    /// let gradients = layer.backward(x, x, x, &Attention::new(), &[1.0])?;
    /// assert_eq!((gradients.value.input, gradients.output.weight), (vec![6.0], vec![10.0]));
    /// assert_eq!((gradients.query.input, gradients.key.input), (vec![0.0], vec![0.0]));
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn backward(
        &self,
        query: Sequences<'_>,
        key: Sequences<'_>,
        value: Sequences<'_>,
        attention: &Attention<'_>,
        d_out: &[f32],
    ) -> Result<MultiHeadGradients, Error> {
        if self.qk_norms().is_some() {
            return Err(Error::NoGradient { what: "norms of queries and keys" });
        }
        let Projections { query: to_query, key: to_key, value: to_value, output: to_output } =
            self.projections();
        self.project(
            [query, key, value],
            (),
            |(), _entry| 0,
            |(), [q, k, v]| {
                let out = attention.forward(q, k, v)?;

                let ([batch, heads, n_q, d_k], [_, kv_heads, n_k, d_v]) = (q.shape(), v.shape());
                let joined = join_heads(&out, batch, heads, n_q, d_v);
                let joined = Sequences::new("the input", &joined, [batch, n_q, heads * d_v])?;
                let output = to_output.backward(joined, d_out)?;

                // [batch, tokens, heads · d] is [batch, heads, tokens, d] with heads and tokens exchanged, and back.
                let d_heads = join_heads(&output.input, batch, n_q, heads, d_v);
                let gradients = attention.backward(q, k, v, &out, &d_heads)?;
                let joined = |d: &[f32], heads: usize, n: usize, width: usize| {
                    join_heads(d, batch, heads, n, width)
                };
                let mut d_q = joined(&gradients.query, heads, n_q, d_k);
                let mut d_k_rows = joined(&gradients.key, kv_heads, n_k, d_k);
                if let Some(back) = self.rotary().map(Rotary::inverse) {
                    back.rotate(&mut d_q, [batch, n_q, heads, d_k], 0)?;
                    back.rotate(&mut d_k_rows, [batch, n_k, kv_heads, d_k], 0)?;
                }
                Ok(MultiHeadGradients {
                    query: to_query.backward(query, &d_q)?,
                    key: to_key.backward(key, &d_k_rows)?,
                    value: to_value
                        .backward(value, &joined(&gradients.value, kv_heads, n_k, d_v))?,
                    output,
                    scale: gradients.scale,
                    bias: gradients.bias,
                    sinks: gradients.sinks,
                })
            },
        )
    }
}

/// \[batch, heads, n, d\] to \[batch, n, heads · d\].
fn join_heads(x: &[f32], batch: usize, heads: usize, n: usize, d: usize) -> Vec<f32> {
    let mut joined = vec![0.0; batch * n * heads * d];
    multi_head::join_heads(x, [heads, n, d], 0, &mut joined);
    joined
}
