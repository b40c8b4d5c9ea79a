//! The kernels for plain arrays. The compiler checks their shapes, and the loops are those of the other functions.
//!
//! ```
//! use regard_kernels::fixed;
//! static K: [[f32; 2]; 3] = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]; // in flash
//! let scores = fixed::matmul_transposed(&[[2.0, 1.0]], &K);
//! assert_eq!(scores, [[2.0, 1.0, 3.0]]);
//! ```
//!
//! A wrong number of columns does not compile:
//! ```compile_fail
//! # use regard_kernels::fixed;
//! let scores = fixed::matmul_transposed(&[[2.0, 1.0]], &[[1.0, 0.0, 0.0]]);
//! ```

use crate::arch::dispatch;
use crate::dot::{Dot, cosine_equal};
use crate::gemm::matmul_known;
use crate::{Attention, Error, Mat, MatMut, Stage, Temperature, attention_scratch_len, int8};

/// The dot product a·b, as [`crate::dot`].
///
/// ```
/// assert_eq!(regard_kernels::fixed::dot(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 32.0);
/// ```
#[must_use]
pub fn dot<const N: usize>(a: &[f32; N], b: &[f32; N]) -> f32 {
    dispatch(Dot(a, b))
}

/// The Euclidean norm ‖x‖, as [`crate::norm`].
///
/// ```
/// assert_eq!(regard_kernels::fixed::norm(&[3.0, 4.0]), 5.0);
/// ```
#[must_use]
pub fn norm<const N: usize>(x: &[f32; N]) -> f32 {
    crate::norm(x)
}

/// The cosine of the angle between a and b, as [`crate::cosine_similarity`].
///
/// ```
/// assert_eq!(regard_kernels::fixed::cosine_similarity(&[1.0, 0.0], &[0.0, 2.0]), 0.0);
/// ```
#[must_use]
pub fn cosine_similarity<const N: usize>(a: &[f32; N], b: &[f32; N]) -> f32 {
    cosine_equal(a, b)
}

/// The matrix product A·B, as [`crate::matmul`].
///
/// ```
/// let ab = regard_kernels::fixed::matmul(&[[1.0, 2.0], [3.0, 4.0]], &[[2.0, 0.0], [1.0, 2.0]]);
/// assert_eq!(ab, [[4.0, 4.0], [10.0, 8.0]]);
/// ```
#[must_use]
#[inline]
pub fn matmul<const M: usize, const K: usize, const N: usize>(
    a: &[[f32; K]; M],
    b: &[[f32; N]; K],
) -> [[f32; N]; M] {
    matmul_known(a, b)
}

/// The matrix product A·Bᵀ, as [`crate::matmul_transposed`].
///
/// ```
/// let scores = regard_kernels::fixed::matmul_transposed(&[[1.0, 1.0]], &[[2.0, 1.0], [0.0, 5.0]]);
/// assert_eq!(scores, [[3.0, 5.0]]);
/// ```
#[must_use]
pub fn matmul_transposed<const M: usize, const K: usize, const N: usize>(
    a: &[[f32; K]; M],
    b: &[[f32; K]; N],
) -> [[f32; N]; M] {
    let mut out = [[0.0; N]; M];
    let done = crate::matmul_transposed(a.into(), b.into(), (&mut out).into());
    debug_assert!(done.is_ok(), "the compiler checked the shapes: {done:?}");
    out
}

/// Softmax of one row, as [`crate::softmax`].
///
/// ```
/// use regard_kernels::{Temperature, fixed};
/// assert_eq!(fixed::softmax(&[7.0, 7.0, 1.0], Temperature::ZERO), [0.5, 0.5, 0.0]);
/// ```
#[must_use]
pub fn softmax<const N: usize>(x: &[f32; N], temperature: Temperature) -> [f32; N] {
    let mut out = *x;
    crate::softmax(&mut out, temperature);
    out
}

/// Layer normalization of each row, in place, as [`crate::layer_norm`].
///
/// ```
/// let mut x = [[1.0, 3.0]];
/// regard_kernels::fixed::layer_norm(&mut x, &[1.0, 2.0], &[0.5, 0.0], 0.0);
/// assert_eq!(x, [[-0.5, 2.0]]);
/// ```
pub fn layer_norm<const N: usize, const D: usize>(
    x: &mut [[f32; D]; N],
    gamma: &[f32; D],
    beta: &[f32; D],
    epsilon: f32,
) {
    let done = crate::layer_norm(x.into(), gamma, beta, epsilon);
    debug_assert!(done.is_ok(), "the compiler checked the shapes: {done:?}");
}

/// Root-mean-square normalization of each row, in place, as [`crate::rms_norm`].
///
/// ```
/// let mut x = [[7.0, 1.0]];
/// regard_kernels::fixed::rms_norm(&mut x, &[1.0, 5.0], 0.0);
/// assert_eq!(x, [[1.4, 1.0]]);
/// ```
pub fn rms_norm<const N: usize, const D: usize>(
    x: &mut [[f32; D]; N],
    gamma: &[f32; D],
    epsilon: f32,
) {
    let done = crate::rms_norm(x.into(), gamma, epsilon);
    debug_assert!(done.is_ok(), "the compiler checked the shapes: {done:?}");
}

/// Stops the compilation if a scratch is too small.
const fn assert_scratch(len: usize, n_q: usize, n_k: usize, d_k: usize, d_v: usize) {
    assert!(
        len >= attention_scratch_len(n_q, n_k, d_k, d_v),
        "size the scratch with attention_scratch_len(N_Q, N_K, D_K, D_V)"
    );
}

/// Fused scaled dot-product attention, as [`Attention::forward`]: into `out`, with the caller's `scratch`.
///
/// A scratch that is too small does not compile. Size it with [`attention_scratch_len`].
///
/// # Errors
/// Only for conditions that the compiler does not check: a mask's matrix has another shape, or a soft cap, scale or sink is not a
/// usable number. `out` is then unchanged.
///
/// ```
/// use regard_kernels::{Attention, attention_scratch_len, fixed};
/// let x = [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]];
/// let mut out = [[0.0; 4]; 3];
/// let mut scratch = [0.0; attention_scratch_len(3, 3, 4, 4)];
/// fixed::attention(&Attention::new(), &x, &x, &x, &mut out, &mut scratch)?;
/// assert!((out[0][0] - 0.8137).abs() < 1e-4);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
pub fn attention<
    const N_Q: usize,
    const N_K: usize,
    const D_K: usize,
    const D_V: usize,
    const SCRATCH: usize,
>(
    attention: &Attention<'_>,
    q: &[[f32; D_K]; N_Q],
    k: &[[f32; D_K]; N_K],
    v: &[[f32; D_V]; N_K],
    out: &mut [[f32; D_V]; N_Q],
    scratch: &mut [f32; SCRATCH],
) -> Result<(), Error> {
    const { assert_scratch(SCRATCH, N_Q, N_K, D_K, D_V) }
    attention.forward_known(q, k, v, out, scratch)
}

/// As [`attention`], and writes the log-sum-exp of each row's scores, as [`Attention::forward_with_log_sum_exp`].
///
/// # Errors
/// As [`attention`].
///
/// ```
/// use regard_kernels::{Attention, attention_scratch_len, fixed};
/// let (mut out, mut log_sum_exp) = ([[0.0]; 1], [0.0; 1]);
/// let mut scratch = [0.0; attention_scratch_len(1, 2, 1, 1)];
/// let (q, k, v) = ([[0.0]], [[3.0], [3.0]], [[1.0], [2.0]]);
/// fixed::attention_with_log_sum_exp(&Attention::new(), &q, &k, &v, &mut out, &mut log_sum_exp, &mut scratch)?;
/// assert_eq!((out, log_sum_exp), ([[1.5]], [2.0_f32.ln()]));
/// # Ok::<(), regard_kernels::Error>(())
/// ```
pub fn attention_with_log_sum_exp<
    const N_Q: usize,
    const N_K: usize,
    const D_K: usize,
    const D_V: usize,
    const SCRATCH: usize,
>(
    attention: &Attention<'_>,
    q: &[[f32; D_K]; N_Q],
    k: &[[f32; D_K]; N_K],
    v: &[[f32; D_V]; N_K],
    out: &mut [[f32; D_V]; N_Q],
    log_sum_exp: &mut [f32; N_Q],
    scratch: &mut [f32; SCRATCH],
) -> Result<(), Error> {
    const { assert_scratch(SCRATCH, N_Q, N_K, D_K, D_V) }
    attention.forward_with_log_sum_exp(
        q.into(),
        k.into(),
        v.into(),
        out.into(),
        log_sum_exp,
        scratch,
    )
}

/// The attention weights \[N_Q, N_K\], as [`Attention::scores`] at [`Stage::Weights`].
///
/// # Errors
/// As [`attention`].
///
/// ```
/// use regard_kernels::{Attention, attention_scratch_len, fixed};
/// let mut weights = [[0.0; 2]; 1];
/// let mut scratch = [0.0; attention_scratch_len(1, 2, 1, 1)];
/// fixed::attention_weights(&Attention::new(), &[[1.0]], &[[3.0], [3.0]], &mut weights, &mut scratch)?;
/// assert_eq!(weights, [[0.5, 0.5]]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
pub fn attention_weights<
    const N_Q: usize,
    const N_K: usize,
    const D_K: usize,
    const SCRATCH: usize,
>(
    attention: &Attention<'_>,
    q: &[[f32; D_K]; N_Q],
    k: &[[f32; D_K]; N_K],
    out: &mut [[f32; N_K]; N_Q],
    scratch: &mut [f32; SCRATCH],
) -> Result<(), Error> {
    const { assert_scratch(SCRATCH, N_Q, N_K, D_K, 0) }
    attention.scores(Stage::Weights, Mat::from(q), Mat::from(k), MatMut::from(out), scratch)
}

/// Attention on 8-bit integers, as [`int8::Attention::forward`].
///
/// A scratch that is too small does not compile. Size it with [`int8::attention_scratch_len`].
///
/// # Errors
/// Only for conditions that the compiler does not check: a boolean mask has another shape, the mask is additive, or there are more
/// than 2¹⁵ columns or 2¹⁷ keys. `out` is then unchanged.
///
/// ```
/// use regard_kernels::{Temperature, fixed, int8};
/// let scales = int8::Scales { query: 0.1, key: 0.1, value: 0.1, output: 0.1 };
/// let attention = int8::Attention::new(scales, int8::default_scale(2), Temperature::ONE)?;
/// let mut out = [[0]; 1];
/// let mut scratch = [0; int8::attention_scratch_len(1, 2, 2, 1)];
/// fixed::int8_attention(&attention, &[[5, 5]], &[[9, 1], [1, 9]], &[[10], [20]], &mut out, &mut scratch)?;
/// assert_eq!(out, [[15]]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
///
/// ```compile_fail
/// # use regard_kernels::{Temperature, fixed, int8};
/// # let scales = int8::Scales { query: 0.1, key: 0.1, value: 0.1, output: 0.1 };
/// # let attention = int8::Attention::new(scales, int8::default_scale(2), Temperature::ONE).unwrap();
/// fixed::int8_attention(&attention, &[[5, 5]], &[[9, 1], [1, 9]], &[[10], [20]], &mut [[0]], &mut [0; 3]);
/// ```
pub fn int8_attention<
    const N_Q: usize,
    const N_K: usize,
    const D_K: usize,
    const D_V: usize,
    const SCRATCH: usize,
>(
    attention: &int8::Attention<'_>,
    q: &[[i8; D_K]; N_Q],
    k: &[[i8; D_K]; N_K],
    v: &[[i8; D_V]; N_K],
    out: &mut [[i8; D_V]; N_Q],
    scratch: &mut [i32; SCRATCH],
) -> Result<(), Error> {
    const {
        assert!(
            SCRATCH >= int8::attention_scratch_len(N_Q, N_K, D_K, D_V),
            "size the scratch with int8::attention_scratch_len(N_Q, N_K, D_K, D_V)"
        );
    }
    attention.forward(Mat::from(q), Mat::from(k), Mat::from(v), MatMut::from(out), scratch)
}
