use crate::arch::{one_by_one, with_default_environment};
use crate::error::{Error, check_len};

/// The scale at which the largest magnitude of `x` becomes 127: max |x| / 127. It is 1 if the largest magnitude is 0 or if no
/// number is finite.
///
/// ```
/// use regard_kernels::int8;
/// assert_eq!(int8::scale_for(&[1.0, -254.0, 3.0]), 2.0);
/// ```
#[must_use]
pub fn scale_for(x: &[f32]) -> f32 {
    with_default_environment(|| {
        let largest = x.iter().fold(0.0, |largest: f32, x| largest.max(x.abs()));
        let scale = largest / 127.0;
        if scale.is_normal() { scale } else { 1.0 }
    })
}

/// Writes each x / `scale` to `out`, rounded to the nearest integer (halves to even) within −128..=127. NaN becomes 0.
///
/// # Errors
/// [`Error::Length`] if `out` is not as long as `x`, [`Error::Range`] for a scale that is not finite and positive. `out` is
/// then unchanged.
///
/// ```
/// use regard_kernels::int8;
/// let mut out = [0; 4];
/// int8::quantize(&[0.5, -1.5, 2.6, 1000.0], 1.0, &mut out)?;
/// assert_eq!(out, [0, -2, 3, 127]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
pub fn quantize(x: &[f32], scale: f32, out: &mut [i8]) -> Result<(), Error> {
    check_len("the quantized vector", out.len(), x.len())?;
    check_scale("scale", scale)?;
    with_default_environment(|| {
        for (out, x) in out.iter_mut().zip(x) {
            *out = libm::rintf(*x / scale) as i8; // `as` clamps to the range and turns NaN into 0
        }
    });
    Ok(())
}

/// Writes each x · `scale` to `out`.
///
/// # Errors
/// [`Error::Length`] if `out` is not as long as `x`. `out` is then unchanged.
///
/// ```
/// use regard_kernels::int8;
/// let mut out = [0.0; 2];
/// int8::dequantize(&[-2, 127], 0.5, &mut out)?;
/// assert_eq!(out, [-1.0, 63.5]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
pub fn dequantize(x: &[i8], scale: f32, out: &mut [f32]) -> Result<(), Error> {
    check_len("the dequantized vector", out.len(), x.len())?;
    with_default_environment(|| {
        for (out, x) in out.iter_mut().zip(x) {
            one_by_one(out);
            *out = f32::from(*x) * scale;
        }
    });
    Ok(())
}

/// `Ok` for a scale that is finite and positive. In an environment that counts subnormal numbers as 0, only the bits tell that a
/// subnormal scale is positive.
pub(crate) const fn check_scale(name: &'static str, scale: f32) -> Result<(), Error> {
    if matches!(scale.to_bits(), 1..0x7f80_0000) {
        Ok(())
    } else {
        Err(Error::Range { name, value: scale, range: "finite and greater than 0" })
    }
}
