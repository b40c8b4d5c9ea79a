//! `regard.attention_backward`: the gradients of an attention.

use numpy::{PyArray, PyArray1, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use regard::Heads;

use crate::attention::{Given, check_dimensions, refused};
use crate::tensor::Array;
use crate::threads;

/// The gradients of a loss with respect to what `attention` was given: see `attention_backward`.
///
/// Attributes
/// ----------
/// q, k, v : numpy.ndarray
///     float32, in the shapes of `q`, `k` and `v`.
/// scale : float
///     Of the scale.
/// attn_mask : numpy.ndarray or None
///     float32, in the shape of `attn_mask` with four dimensions, if it is added to the scores.
/// sinks : numpy.ndarray or None
///     float32 [heads].
#[pyclass(frozen, get_all, module = "regard")]
pub(crate) struct Gradients {
    q: Py<PyAny>,
    k: Py<PyAny>,
    v: Py<PyAny>,
    scale: f32,
    attn_mask: Option<Py<PyAny>>,
    sinks: Option<Py<PyArray1<f32>>>,
}

/// The gradients of a loss with respect to the inputs of an attention, from its gradient with respect to the output.
///
/// The weights are computed again, a few queries at a time, so the memory grows with the number of keys and not with its square
/// (Dao 2023, FlashAttention-2). It is computed in float32; `regard.torch.attention` does it within PyTorch.
///
/// Parameters
/// ----------
/// q, k, v, causal, scale, softcap, temperature, window, position, attn_mask, mask, kv_lengths, sinks, alibi_slopes, threads
///     As of `attention`. A temperature of 0 has no gradient.
/// out : array [batch, heads, n_q, d_v]
///     What `attention` returned for the same arguments.
/// d_out : array [batch, heads, n_q, d_v]
///     The gradient with respect to it.
///
/// Returns
/// -------
/// Gradients
///
/// Raises
/// ------
/// TypeError, ValueError, MemoryError
///     As `attention`.
///
/// Examples
/// --------
/// >>> import numpy as np, regard
/// >>> q, k, v = np.array([[1.0]], "f4"), np.array([[2.0], [2.0]], "f4"), np.array([[3.0], [5.0]], "f4")
/// >>> found = regard.attention_backward(q, k, v, regard.attention(q, k, v), np.ones((1, 1), "f4"))
/// >>> found.v.ravel().tolist(), found.k.ravel().tolist()  # the weights; weight · (v − out)
/// ([0.5, 0.5], [-0.5, 0.5])
#[pyfunction]
#[pyo3(signature = (q, k, v, out, d_out, *, causal=None, scale=None, softcap=None, temperature=1.0, window=None,
    position=None, attn_mask=None, mask=None, kv_lengths=None, sinks=None, alibi_slopes=None, threads=None))]
pub(crate) fn attention_backward<'py>(
    py: Python<'py>,
    q: &Bound<'py, PyAny>,
    k: &Bound<'py, PyAny>,
    v: &Bound<'py, PyAny>,
    out: &Bound<'py, PyAny>,
    d_out: &Bound<'py, PyAny>,
    causal: Option<&Bound<'py, PyAny>>,
    scale: Option<f64>,
    softcap: Option<f64>,
    temperature: f64,
    window: Option<&Bound<'py, PyAny>>,
    position: Option<&Bound<'py, PyAny>>,
    attn_mask: Option<&Bound<'py, PyAny>>,
    mask: Option<&Bound<'py, PyAny>>,
    kv_lengths: Option<&Bound<'py, PyAny>>,
    sinks: Option<&Bound<'py, PyAny>>,
    alibi_slopes: Option<&Bound<'py, PyAny>>,
    threads: Option<usize>,
) -> PyResult<Gradients> {
    let [q, k, v] = [Array::of("q", q)?, Array::of("k", k)?, Array::of("v", v)?];
    check_dimensions([("q", &q), ("k", &k), ("v", &v)])?;
    let given = [q, k, v, Array::of("out", out)?, Array::of("d_out", d_out)?];
    let given = given.each_ref().map(Array::to_f32);
    let [q, k, v, out, d_out] = given;
    let [q, k, v, out, d_out] = [q?, k?, v?, out?, d_out?];
    let rank = q.shape().len();
    let padded = |array: &PyReadonlyArrayDyn<'py, f32>| {
        let mut shape = [1; 4];
        shape[4 - rank..].copy_from_slice(array.shape());
        shape
    };
    let shapes = [padded(&q), padded(&k), padded(&v)];
    for (name, array) in [("out", &out), ("d_out", &d_out)] {
        let mut expected = q.shape().to_vec();
        expected[rank - 1] = shapes[2][3];
        if array.shape() != expected {
            return Err(PyValueError::new_err(format!(
                "`{name}` has the shape {:?}, but that of the output is needed, {expected:?}",
                array.shape()
            )));
        }
    }
    let given = Given {
        causal,
        scale,
        softcap,
        temperature,
        window,
        position,
        attn_mask,
        mask,
        kv_lengths,
        sinks,
        alibi_slopes,
    };
    let options = given.read(shapes, false)?;
    let (attention, threads) = (options.attention()?, threads::pool(threads)?);
    let [q, k, v, out, d_out] =
        [q.as_slice()?, k.as_slice()?, v.as_slice()?, out.as_slice()?, d_out.as_slice()?];
    let found = py.detach(|| {
        let [of_q, of_k, of_v] = shapes;
        let (q, k) = (Heads::new("query", q, of_q)?, Heads::new("key", k, of_k)?);
        let v = Heads::new("value", v, of_v)?;
        threads.install(|| attention.backward(q, k, v, out, d_out))
    });
    let found = found.map_err(refused)?;
    let array = |x: regard::Tensor<4>, rank: usize| {
        let shape = x.shape();
        let array = PyArray::from_vec(py, x.into_vec()).reshape(&shape[4 - rank..]);
        array.map(|array| array.into_any().unbind())
    };
    Ok(Gradients {
        q: array(found.query, rank)?,
        k: array(found.key, rank)?,
        v: array(found.value, rank)?,
        scale: found.scale,
        attn_mask: found.bias.map(|x| array(x, 4)).transpose()?,
        sinks: found.sinks.map(|x| PyArray1::from_vec(py, x).unbind()),
    })
}
