//! Logarithm, sine and cosine as PyTorch's AVX2 loops compute them, bit for bit.
//!
//! The functions are those of S. Moshier's Cephes library in single precision, vectorised by J. Pommier (`sse_mathfun`) and G.
//! Garberoglio (`avx_mathfun`), with fused multiply-adds. A more exact logarithm or cosine would change the last bit of one
//! normal number in six.

use core::f32::consts::FRAC_1_SQRT_2;

/// a·b + c, rounded once (through `f64`, which holds every product of two `f32`).
fn mul_add(a: f32, b: f32, c: f32) -> f32 {
    (f64::from(a) * f64::from(b) + f64::from(c)) as f32
}

/// The polynomial in x with these coefficients, the highest power first.
fn polynomial(x: f32, coefficients: &[f32]) -> f32 {
    coefficients.iter().fold(0.0, |y, c| mul_add(y, x, *c))
}

/// ln x of a normal positive number.
pub(super) fn ln(x: f32) -> f32 {
    // x = m·2ᵉ with m from √½ to √2.
    let bits = x.to_bits();
    let mut e = (bits >> 23) as f32 - 126.0;
    let mut m = f32::from_bits((bits & 0x007f_ffff) | 0.5_f32.to_bits());
    if m < FRAC_1_SQRT_2 {
        e -= 1.0;
        m += m;
    }
    let x = m - 1.0;
    let z = x * x;
    let y = polynomial(
        x,
        &[
            0.070_376_836,
            -0.115_146_1,
            0.116_769_984,
            -0.124_201_41,
            0.142_493_23,
            -0.166_680_57,
            0.200_007_14,
            -0.249_999_94,
            0.333_333_3,
        ],
    );
    // e·ln 2 is added in two parts, the small one first.
    let y = mul_add(e, -2.121_944_4e-4, y * x * z);
    let y = mul_add(z, -0.5, y);
    mul_add(e, 0.693_359_4, x + y)
}

/// (sin x, cos x) of a number from 0 to 2π.
pub(super) fn sin_cos(x: f32) -> (f32, f32) {
    // The octant, rounded up to an even number. As many quarters of π are subtracted from x, in three parts.
    let octant = ((x * (4.0 / core::f32::consts::PI)) as u32 + 1) & !1;
    let y = octant as f32;
    let x = [-0.785_156_25, -2.418_756_5e-4, -3.774_895e-8]
        .into_iter()
        .fold(x, |x, part| mul_add(y, part, x));
    let z = x * x;
    let cos = polynomial(z, &[2.443_315_7e-5, -1.388_731_6e-3, 4.166_664_6e-2]) * z * z;
    let cos = mul_add(z, -0.5, cos) + 1.0;
    let sin = polynomial(z, &[-1.951_529_6e-4, 8.332_161e-3, -0.166_666_55]) * z;
    let sin = mul_add(sin, x, x);
    match octant & 6 {
        0 => (sin, cos),
        2 => (cos, -sin),
        4 => (-sin, -cos),
        _ => (-cos, sin),
    }
}
