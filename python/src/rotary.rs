//! The rotation of queries and keys, for `regard.rotary`.

use numpy::{PyArray, PyArrayMethods, PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;
use regard::{Pairing, Rotary, RotaryFrequencies};

use crate::attention::refused;
use crate::tensor::Array;

/// Rotates the pairs of rows [rows, d]: those of `x` in the order of C, each with its position. For `regard.rotary`.
#[pyfunction]
pub(crate) fn rotate<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    positions: PyReadonlyArray1<'py, u64>,
    frequencies: PyReadonlyArray1<'py, f64>,
    amplitude: f64,
    interleaved: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let x = Array::of("x", x)?.to_f32()?;
    let shape = x.shape().to_vec();
    let d = shape.last().copied().unwrap_or_default();
    let mut numbers = x.as_slice()?.to_vec();
    let positions: Vec<usize> =
        positions.as_slice()?.iter().map(|p| usize::try_from(*p).unwrap_or(usize::MAX)).collect();
    let pairing = if interleaved { Pairing::Interleaved } else { Pairing::HalfSplit };
    let first = positions.iter().copied().min().unwrap_or(0);
    let end = positions.iter().copied().max().unwrap_or(0).saturating_add(1);
    let frequencies = RotaryFrequencies::custom(frequencies.as_slice()?)
        .and_then(|frequencies| frequencies.with_amplitude(amplitude))
        .map_err(refused)?;
    let rotated = py.detach(|| {
        let rotary = Rotary::between(&frequencies, first..end, pairing)?;
        rotary.rotate_ragged(&mut numbers, [positions.len(), 1, 1, d], &positions)
    });
    rotated.map_err(refused)?;
    Ok(PyArray::from_vec(py, numbers).reshape(shape)?.into_any())
}
