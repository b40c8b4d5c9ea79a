//! Layers in floating point.

use core::marker::PhantomData;

use regard_kernels::{
    Attention, Error, Mat, MatMut, Pairing, add, layer_norm, multiply, rms_norm, rotate,
};

use crate::numbers::{Hidden, Numbers, Turn};
use crate::state::first;
use crate::{Linear, WeightMatrix};

/// Numbers in `f32`, with weights in the type `W`: [`F32`](crate::F32) or [`Bf16`](crate::Bf16).
#[derive(Clone, Copy, Debug)]
pub struct Floats<W>(PhantomData<W>);

/// A norm over the features of the residual stream.
#[derive(Clone, Copy, Debug)]
pub enum Norm {
    /// As [`regard_kernels::rms_norm`].
    Rms {
        /// γ \[width\].
        gamma: &'static [f32],
        /// ε.
        epsilon: f32,
    },
    /// As [`regard_kernels::layer_norm`].
    Layer {
        /// γ \[width\].
        gamma: &'static [f32],
        /// β \[width\].
        beta: &'static [f32],
        /// ε.
        epsilon: f32,
    },
    /// No norm: the result is x.
    Identity,
}

/// Cosines and sines \[context, features / 2\] of rotary positions. Feature i of a head is paired with feature i + features /
/// 2. The features after these are not rotated.
#[derive(Clone, Copy, Debug)]
pub struct Rotary<'w, T = f32> {
    /// The features of a head that are rotated.
    pub features: usize,
    /// \[context, features / 2\].
    pub cos: &'w [T],
    /// \[context, features / 2\].
    pub sin: &'w [T],
}

impl<'w, T> Rotary<'w, T> {
    /// The cosines and the sines from a position on.
    pub(crate) fn at(&self, position: usize) -> [&'w [T]; 2] {
        let start = position * (self.features / 2);
        let row = |angles: &'w [T]| angles.get(start..).unwrap_or_default();
        [row(self.cos), row(self.sin)]
    }
}

impl Rotary<'_> {
    /// Rotates the heads of a token at `position`.
    fn turn(&self, x: &mut [f32], head_size: usize, position: usize) -> Result<(), Error> {
        let (pairs, heads) = (self.features / 2, x.len() / head_size.max(1));
        let [cos, sin] = self.at(position).map(|row| Mat::strided(row, heads, pairs, 0));
        let heads = MatMut::strided(x, heads, self.features, head_size)?;
        rotate(heads, cos?, sin?, Pairing::HalfSplit)
    }
}

impl<W: WeightMatrix> Numbers for Floats<W> {
    type Wide = f32;
    type Narrow = f32;
    /// The table of tokens, transposed: \[width, vocabulary\].
    type Embedding = W;
    type Norm = Norm;
    type Linear = Linear<W>;
    /// The factor for the dot products of queries and keys.
    type Attention = f32;
    /// A function in place: [`silu`](crate::silu), [`gelu`](crate::gelu), [`gelu_tanh`](crate::gelu_tanh),
    /// [`relu`](crate::relu) or [`tanh`](crate::tanh).
    type Activation = fn(&mut [f32]);
    type Rotary = Rotary<'static>;
    const NARROW: f32 = 0.0;
    const WIDE: f32 = 0.0;

    fn vocabulary(tokens: &W) -> usize {
        tokens.columns()
    }

    fn embed(tokens: &W, token: usize, x: &mut [f32]) -> Result<(), Error> {
        tokens.column(token, x);
        Ok(())
    }

    fn narrow(x: f32, _scale: f32) -> f32 {
        x
    }

    fn norm(norm: &Norm, x: &[f32], out: &mut [f32]) -> Result<(), Error> {
        for (out, x) in out.iter_mut().zip(x) {
            *out = *x;
        }
        Self::settle(norm, out)
    }

    fn settle(norm: &Norm, x: &mut [f32]) -> Result<(), Error> {
        let (Norm::Rms { gamma, .. } | Norm::Layer { gamma, .. }) = *norm else { return Ok(()) };
        let (len, width) = (x.len(), gamma.len());
        let out = MatMut::new(x, len.checked_div(width).unwrap_or(0), width)?;
        match *norm {
            Norm::Rms { gamma, epsilon } => rms_norm(out, gamma, epsilon),
            Norm::Layer { gamma, beta, epsilon } => layer_norm(out, gamma, beta, epsilon),
            Norm::Identity => Ok(()),
        }
    }

    fn multiply(linear: &Linear<W>, x: &[f32], out: &mut [f32]) -> Result<(), Error> {
        linear.forward(x, out)
    }

    fn add(x: &mut [f32], y: &[f32]) -> Result<(), Error> {
        add(x, y)
    }

    fn project(
        linear: &Linear<W>,
        turn: Turn<'_, Self>,
        x: &[f32],
        _wide: &mut [f32],
        out: &mut [f32],
    ) -> Result<(), Error> {
        linear.forward(x, out)?;
        match turn {
            Turn::By { rotary: Some(rotary), head_size, position } => {
                let of_token = linear.weight.columns().max(1);
                let mut tokens = out.chunks_exact_mut(of_token).zip(position..);
                tokens.try_for_each(|(token, position)| rotary.turn(token, head_size, position))
            }
            Turn::By { .. } | Turn::None => Ok(()),
        }
    }

    fn attend(
        scale: &f32,
        [q, k, v]: [Mat<'_>; 3],
        out: MatMut<'_>,
        scratch: &mut [f32],
    ) -> Result<(), Error> {
        Attention::new().scale(*scale).forward(q, k, v, out, scratch)
    }

    fn hide(
        layer: &Hidden<Self>,
        x: &[f32],
        wide: &mut [f32],
        out: &mut [f32],
    ) -> Result<(), Error> {
        layer.gate.as_ref().unwrap_or(&layer.up).forward(x, out)?;
        (layer.activation)(out);
        if layer.gate.is_some() {
            let up = first(wide, out.len());
            layer.up.forward(x, up)?;
            multiply(out, up)?;
        }
        Ok(())
    }
}
