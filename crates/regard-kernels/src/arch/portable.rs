use wide::{f32x4, f32x8, f32x16, i32x16};

use super::{Kernel, LANES, Lanes, Panel, Shape, Simd, operations};
use crate::invariant::Promised as _;

/// The vectors that the target was compiled for, through `wide`.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

/// v·2ⁿ. 2ⁿ is two factors, so that neither leaves the range of normal numbers and only the last product rounds.
#[inline(always)]
fn scale_exp2(v: f32x16, n: i32x16) -> f32x16 {
    let half: i32x16 = n >> 1_i32;
    let power = |n: i32x16| {
        let bits: i32x16 = (n + i32x16::splat(127)) << 23_i32;
        f32x16::from_bits(bits.cast_unsigned())
    };
    v * power(half) * power(n - half)
}

impl Lanes for Portable {
    type V = f32x16;
    type M = f32x16;

    #[inline(always)]
    fn splat(self, x: f32) -> f32x16 {
        f32x16::splat(x)
    }

    operations! {
        add(a, b) -> V { a + b }
        sub(a, b) -> V { a - b }
        mul(a, b) -> V { a * b }
        div(a, b) -> V { a / b }
        mul_add(a, b, c) -> V { a.mul_add(b, c) }
        max(a, b) -> V { a.simd_gt(b).bitselect(a, b) }
        gt(a, b) -> M { a.simd_gt(b) }
        eq(a, b) -> M { a.simd_eq(b) }
        scale_exp2(v, n) -> V { scale_exp2(v, n.fast_trunc_int()) }
        exponent(v) -> V { f32x16::from_bits(v.to_bits() << 23_u32) }
    }

    #[inline(always)]
    fn select(self, mask: f32x16, yes: f32x16, no: f32x16) -> f32x16 {
        mask.bitselect(yes, no)
    }
}

impl Simd for Portable {
    /// A register of `wide` has 8 lanes where the target has AVX, and 4 elsewhere. NEON has 32 such registers, SSE2 and wasm 16.
    const SHAPE: Shape = if cfg!(any(target_feature = "avx", target_arch = "aarch64")) {
        Shape::SIXTEEN_REGISTERS
    } else {
        Shape::SIXTEEN_SHORT_REGISTERS
    };

    #[inline(never)]
    unsafe fn enter<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> f32x16 {
        f32x16::new(*x)
    }

    #[inline(always)]
    fn store(self, v: f32x16, out: &mut [f32; LANES]) {
        *out = v.to_array();
    }

    #[inline(always)]
    fn transpose(self, rows: [&[f32; 8]; 8], panel: &mut [Panel; 8], second: bool) {
        if cfg!(target_feature = "avx") {
            let columns = f32x8::transpose(rows.map(|row| f32x8::new(*row)));
            for (row, column) in panel.iter_mut().zip(columns) {
                if let Some(half) = row.as_chunks_mut().0.get_mut(usize::from(second)) {
                    *half = column.to_array();
                }
            }
            return;
        }
        // `wide` transposes eight rows element by element where registers have four lanes.
        let first = if second { 2 } else { 0 };
        for (rows, quarter) in rows.as_chunks::<4>().0.iter().zip(first..) {
            for (t, columns) in panel.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                let square = rows.map(|row| row.as_chunks().0.get(t).copied().promised());
                let square = f32x4::transpose(square.map(f32x4::new));
                for (row, column) in columns.iter_mut().zip(square) {
                    if let Some(lanes) = row.as_chunks_mut().0.get_mut(quarter) {
                        *lanes = column.to_array();
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn reduce_add(self, v: f32x16) -> f32 {
        fold(v.to_array(), |a, b| a + b)
    }

    #[inline(always)]
    fn reduce_max(self, v: f32x16) -> f32 {
        fold(v.to_array(), |a, b| if a > b { a } else { b })
    }
}

/// Halves the lanes four times: i with i+8, then i+4, i+2, i+1.
#[inline(always)]
fn fold(x: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> f32 {
    let x: [f32; 8] = core::array::from_fn(|i| f(x[i], x[i + 8]));
    let x: [f32; 4] = core::array::from_fn(|i| f(x[i], x[i + 4]));
    let x: [f32; 2] = core::array::from_fn(|i| f(x[i], x[i + 2]));
    f(x[0], x[1])
}
