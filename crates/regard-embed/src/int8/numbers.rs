//! Layers in integers.

use core::marker::PhantomData;

use regard_kernels::{Error, Mat, MatMut};

use super::{Attention, Embedding, Linear, Norm, divide_by_power, narrow, quantize, requantize};
use crate::numbers::{Hidden, Numbers, Turn};
use crate::state::{first, split};

/// The number of additional bits that queries and keys have before they are rotated.
const FINER: u32 = 8;
/// The bits after the point of cosines and sines.
const ANGLES: u32 = 14;

/// Numbers in 8-bit integers, with sums in 32 bits.
///
/// The query and key projections of a layer give units of 1/256 of their scale, and the value projection gives units of its
/// scale. The output projections give units of the residual stream. Gates and hidden features have 12 bits after the point, and
/// logits are in units of 2⁻¹⁶. The constants live as long as `'w`.
#[derive(Clone, Copy, Debug)]
pub struct Integers<'w>(PhantomData<&'w ()>);

/// The activation function of hidden features.
#[derive(Clone, Copy, Debug)]
pub struct Activation {
    /// [`silu`](super::silu), [`gelu`](super::gelu), [`relu`](super::relu) or [`tanh`](super::tanh) for numbers with 12 bits after the point.
    pub function: fn(i32) -> i32,
    /// The factor from hidden features with 12 bits after the point to 8-bit ones: mantissa and exponent.
    pub hidden: (i32, i32),
}

/// How the residual stream becomes the 8-bit input of a product.
#[derive(Clone, Copy, Debug)]
pub enum Read<'w> {
    /// By a norm.
    Norm(Norm<'w>),
    /// By a factor, mantissa and exponent, where the stream is what a norm gave.
    Scale(i32, i32),
}

/// Cosines and sines with 14 bits after the point.
pub type Rotary<'w> = crate::Rotary<'w, i16>;

impl Rotary<'_> {
    /// Rotates a head of a token at `position`.
    fn turn(&self, head: &mut [i32], position: usize) {
        let pairs = self.features / 2;
        let Some((first, second)) = head.split_at_mut_checked(pairs) else { return };
        let [cos, sin] = self.at(position);
        let angles = cos.iter().zip(sin);
        for ((a, b), (cos, sin)) in first.iter_mut().zip(second).take(pairs).zip(angles) {
            let (x, y) = (i64::from(*a), i64::from(*b));
            let (cos, sin) = (i64::from(*cos), i64::from(*sin));
            *a = rounded(x * cos - y * sin);
            *b = rounded(y * cos + x * sin);
        }
    }
}

/// A product with a cosine, rounded to remove its 14 bits after the point; halves are rounded up.
fn rounded(x: i64) -> i32 {
    ((x + (1 << (ANGLES - 1))) >> ANGLES) as i32
}

/// Numbers without their last `bits`, in 8 bits.
#[inline(always)]
fn narrowed(x: &[i32], bits: u32, out: &mut [i8]) {
    for (x, out) in x.iter().zip(out) {
        *out = narrow(divide_by_power(*x, bits));
    }
}

impl<'w> Numbers for Integers<'w> {
    type Wide = i32;
    type Narrow = i8;
    type Embedding = Embedding<'w>;
    type Norm = Read<'w>;
    type Linear = Linear<'w>;
    type Attention = Attention<'w>;
    type Activation = Activation;
    type Rotary = Rotary<'w>;
    const NARROW: i8 = 0;
    const WIDE: i32 = 0;

    fn vocabulary(tokens: &Embedding<'_>) -> usize {
        tokens.mantissas.len()
    }

    fn embed(tokens: &Embedding<'_>, token: usize, x: &mut [i32]) -> Result<(), Error> {
        tokens.row(token, x)
    }

    fn narrow(x: f32, scale: f32) -> i8 {
        let mut out = [0];
        // A scale that is not positive turns all numbers into 0.
        let _ = quantize(&[x], scale, &mut out);
        out[0]
    }

    fn norm(norm: &Read<'_>, x: &[i32], out: &mut [i8]) -> Result<(), Error> {
        match *norm {
            Read::Norm(norm) => norm.apply(x, out),
            Read::Scale(mantissa, exponent) => {
                for (x, out) in x.iter().zip(out) {
                    *out = narrow(requantize(*x, mantissa, exponent));
                }
                Ok(())
            }
        }
    }

    fn settle(norm: &Read<'_>, x: &mut [i32]) -> Result<(), Error> {
        match norm {
            Read::Norm(norm) => norm.apply_in_place(x),
            Read::Scale(..) => Ok(()),
        }
    }

    fn multiply(linear: &Linear<'_>, x: &[i8], out: &mut [i32]) -> Result<(), Error> {
        linear.forward(x, out)
    }

    fn add(x: &mut [i32], y: &[i32]) -> Result<(), Error> {
        for (x, y) in x.iter_mut().zip(y) {
            *x = x.saturating_add(*y);
        }
        Ok(())
    }

    fn project(
        linear: &Linear<'_>,
        turn: Turn<'_, Self>,
        x: &[i8],
        wide: &mut [i32],
        out: &mut [i8],
    ) -> Result<(), Error> {
        let wide = first(wide, out.len());
        linear.forward(x, wide)?;
        // Each loop has a constant number of bits.
        match turn {
            Turn::None => narrowed(wide, 0, out),
            Turn::By { rotary, head_size, position } => {
                if let Some(rotary) = rotary {
                    let tokens = wide.chunks_exact_mut(linear.mantissas.len().max(1));
                    for (token, position) in tokens.zip(position..) {
                        let heads = token.chunks_exact_mut(head_size.max(1));
                        heads.for_each(|head| rotary.turn(head, position));
                    }
                }
                narrowed(wide, FINER, out);
            }
        }
        Ok(())
    }

    fn attend(
        attention: &Attention<'_>,
        [q, k, v]: [Mat<'_, i8>; 3],
        out: MatMut<'_, i8>,
        scratch: &mut [i32],
    ) -> Result<(), Error> {
        attention.forward(q, k, v, out, scratch)
    }

    fn hide(layer: &Hidden<Self>, x: &[i8], wide: &mut [i32], out: &mut [i8]) -> Result<(), Error> {
        let Activation { function, hidden: (mantissa, exponent) } = layer.activation;
        let (up, wide) = split(wide, out.len());
        layer.up.forward(x, up)?;
        let hidden = |x| narrow(requantize(x, mantissa, exponent));
        if let Some(linear) = &layer.gate {
            let gate = first(wide, out.len());
            linear.forward(x, gate)?;
            for ((out, up), gate) in out.iter_mut().zip(up).zip(gate) {
                let product = i64::from(function(*gate)) * i64::from(*up);
                let product = ((product + (1 << 11)) >> 12).clamp(-(1 << 31), (1 << 31) - 1);
                *out = hidden(product as i32);
            }
        } else {
            for (out, up) in out.iter_mut().zip(up) {
                *out = hidden(function(*up));
            }
        }
        Ok(())
    }
}
