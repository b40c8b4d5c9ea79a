//! `regard.attention`: converts the arguments, and computes without the interpreter's lock.

use numpy::{
    PyArray, PyArray1, PyArrayDescrMethods, PyArrayMethods, PyReadonlyArrayDyn,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use regard::{Attention, Element, Error, Heads, Mask, MaskTensor, Position, Rule, Stage, Threads};

use crate::options;
use crate::tensor::{Array, Slice, Tensor};
use crate::threads;

/// The result of `attention` if more than the output is requested.
///
/// Attributes
/// ----------
/// output : numpy.ndarray
///     float32, [batch, heads, n_q, d_v], with as many dimensions as `q`.
/// scores : numpy.ndarray or None
///     float32, [batch, heads, n_q, n_k]: the scores at the requested stage.
/// log_sum_exp : numpy.ndarray or None
///     float32, [batch, heads, n_q]: of each row's scores after the temperature. Results over disjoint keys can be merged by it.
/// present_key, present_value : numpy.ndarray, torch.Tensor or None
///     The past and the new keys and values, in the type of `k` and `v`. NumPy has no bfloat16 of its own: if such keys and values
///     came as tensors of PyTorch, these are tensors too.
#[pyclass(frozen, get_all, module = "regard")]
pub(crate) struct Attended {
    output: Py<PyAny>,
    scores: Option<Py<PyAny>>,
    log_sum_exp: Option<Py<PyAny>>,
    present_key: Option<Py<PyAny>>,
    present_value: Option<Py<PyAny>>,
}

/// Scaled dot-product attention.
///
/// softmax((q kᵀ · scale, soft-capped, plus the mask) / temperature) v, for each head of each batch entry. It is computed in
/// float32. An output row has the same bits for any batch, for any number of threads, and whatever other rows are computed with
/// it.
///
/// Arguments are NumPy arrays, or any arrays with `__dlpack__` on the CPU, such as PyTorch's tensors, whose memory is shared.
/// An array is not copied if the features of a token are contiguous, whatever the order of the other axes and the gaps between
/// them. The interpreter's lock is released.
///
/// Parameters
/// ----------
/// q : array [batch, heads, n_q, d_k], [heads, n_q, d_k] or [n_q, d_k]
///     Queries, float32, float16 or bfloat16.
/// k : array [batch, kv_heads, n_k, d_k]
///     Keys, with as many dimensions as `q`. Fewer key/value heads mean grouped queries (GQA): query head h uses key/value
///     head h // (heads // kv_heads). The type is that of `q`, or half precision beside float32 queries.
/// v : array [batch, kv_heads, n_k, d_v]
///     Values, of the type of `k`.
/// causal : "top-left", "bottom-right" or int, optional
///     Hide the keys after each query's position: query i stands at key i ("top-left"), the last query at the last key
///     ("bottom-right"), or query i at key causal + i. With `kv_lengths`, "bottom-right" goes by each entry's own length, which
///     suits new tokens after a cache. A batch of whole texts, padded at the right, needs "top-left".
/// scale : float, optional
///     Multiplies the dot products. 1/√d_k unless given.
/// softcap : float, optional
///     Caps the scores softly: softcap · tanh(score / softcap). None or 0 is no cap.
/// temperature : float, optional
///     Divides the scores before softmax. 0 keeps the largest score alone, inf makes the weights uniform.
/// window : (int or None, int or None), optional
///     A query sees at most this many keys before its position and after it. None or -1 is no limit.
/// position : "top-left", "bottom-right" or int, optional
///     The queries' positions for `window` and `alibi_slopes`, in the words of `causal`. As `causal` unless given.
/// attn_mask : array, optional
///     Broadcast from the right to [batch, heads, n_q, n_k]. Booleans or whole numbers: nonzero may be seen. Numbers with a fraction
///     are added to the scores, in float32. Axes that repeat (`expand`, `broadcast_to`) are not written out.
/// mask : regard.mask.Mask, optional
///     Which keys a query may see as a value: documents, prefixes and alternatives, without a matrix. It counts beside `causal`,
///     `window` and `attn_mask`: a key is seen if all allow it.
/// past_key, past_value : array, optional
///     Earlier keys and values, which precede `k` and `v` along the tokens.
/// kv_lengths : sequence of int [batch], optional
///     The number of keys of each batch entry, past ones included; the other keys are padding.
/// sinks : sequence of float [heads], optional
///     Scores that take part in the softmax and have no value. The weights of a row then add up to less than 1.
/// alibi_slopes : sequence of float [heads], optional
///     −slope · distance is added to the scores.
/// scores : "raw", "softcapped", "masked" or "weights", optional
///     Also return the scores at this stage.
/// lse : bool
///     Also return the log-sum-exp of each row.
/// threads : int, optional
///     The number of threads, at most one for each core, which is the default.
///
/// Returns
/// -------
/// numpy.ndarray or Attended
///     The output, float32 [batch, heads, n_q, d_v] with as many dimensions as `q`; an `Attended` if `scores`, `lse` or a past
///     is given. The output of a row that sees no key is 0.
///
/// Raises
/// ------
/// TypeError
///     If an argument has a type that cannot be used.
/// ValueError
///     If shapes or numbers do not fit each other; the message names them.
/// MemoryError
///     If a result does not fit in memory.
///
/// Examples
/// --------
/// >>> import numpy as np, regard
/// >>> x = np.array([[1], [3], [8]], dtype=np.float32)
/// >>> regard.attention(x, x, x, scale=0, causal="bottom-right")  # the mean of each token and those before it
/// array([[1.],
///        [2.],
///        [4.]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (q, k, v, *, causal=None, scale=None, softcap=None, temperature=1.0, window=None, position=None,
    attn_mask=None, mask=None, past_key=None, past_value=None, kv_lengths=None, sinks=None, alibi_slopes=None, scores=None, lse=false,
    threads=None))]
pub(crate) fn attention<'py>(
    py: Python<'py>,
    q: &Bound<'py, PyAny>,
    k: &Bound<'py, PyAny>,
    v: &Bound<'py, PyAny>,
    causal: Option<&Bound<'py, PyAny>>,
    scale: Option<f64>,
    softcap: Option<f64>,
    temperature: f64,
    window: Option<&Bound<'py, PyAny>>,
    position: Option<&Bound<'py, PyAny>>,
    attn_mask: Option<&Bound<'py, PyAny>>,
    mask: Option<&Bound<'py, PyAny>>,
    past_key: Option<&Bound<'py, PyAny>>,
    past_value: Option<&Bound<'py, PyAny>>,
    kv_lengths: Option<&Bound<'py, PyAny>>,
    sinks: Option<&Bound<'py, PyAny>>,
    alibi_slopes: Option<&Bound<'py, PyAny>>,
    scores: Option<&str>,
    lse: bool,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    let [q, mut k, mut v] = [Array::of("q", q)?, Array::of("k", k)?, Array::of("v", v)?];
    check_dimensions([("q", &q), ("k", &k), ("v", &v)])?;
    let has_past = match (past_key, past_value) {
        (Some(past_key), Some(past_value)) => {
            k = k.after("k", "past_key", &Array::of("past_key", past_key)?)?;
            v = v.after("v", "past_value", &Array::of("past_value", past_value)?)?;
            true
        }
        (None, None) => false,
        (Some(_), None) => {
            return Err(PyValueError::new_err("`past_key` comes without `past_value`"));
        }
        (None, Some(_)) => {
            return Err(PyValueError::new_err("`past_value` comes without `past_key`"));
        }
    };
    let rank = q.shape().len();
    let tensors = [q.tensor("q")?, k.tensor("k")?, v.tensor("v")?];
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
    let options = given.read(tensors.each_ref().map(|tensor| tensor.shape), true)?;
    let call = Call {
        attention: options.attention()?,
        stage: scores.map(|stage| options::word("scores", stage)).transpose()?,
        lse,
        threads: threads::pool(threads)?,
        rank,
    };
    let (output, scores, log_sum_exp) = call.run(py, &tensors)?;
    if !has_past && scores.is_none() && log_sum_exp.is_none() {
        return Ok(output);
    }
    let present = |array: &Array<'py>| -> PyResult<Option<Py<PyAny>>> {
        has_past.then(|| array.to_python().map(Bound::unbind)).transpose()
    };
    let attended = Attended {
        output: output.unbind(),
        scores: scores.map(Bound::unbind),
        log_sum_exp: log_sum_exp.map(Bound::unbind),
        present_key: present(&k)?,
        present_value: present(&v)?,
    };
    Ok(Bound::new(py, attended)?.into_any())
}

/// The options of an attention, as they are given.
pub(crate) struct Given<'a, 'py> {
    pub(crate) causal: Option<&'a Bound<'py, PyAny>>,
    pub(crate) scale: Option<f64>,
    pub(crate) softcap: Option<f64>,
    pub(crate) temperature: f64,
    pub(crate) window: Option<&'a Bound<'py, PyAny>>,
    pub(crate) position: Option<&'a Bound<'py, PyAny>>,
    pub(crate) attn_mask: Option<&'a Bound<'py, PyAny>>,
    pub(crate) mask: Option<&'a Bound<'py, PyAny>>,
    pub(crate) kv_lengths: Option<&'a Bound<'py, PyAny>>,
    pub(crate) sinks: Option<&'a Bound<'py, PyAny>>,
    pub(crate) alibi_slopes: Option<&'a Bound<'py, PyAny>>,
}

/// The options, and the numbers to which an attention refers.
pub(crate) struct Options<'py> {
    plain: Attention<'static>,
    places: Mask<'static>,
    lengths: Option<Vec<usize>>,
    sinks: Option<Vec<f32>>,
    slopes: Option<(Position, Vec<f32>)>,
    rule: Option<Rule>,
    of_pairs: Option<MaskArray<'py>>,
}

impl<'py> Given<'_, 'py> {
    /// The options for queries, keys and values of these shapes. `collapses` says whether axes of a mask that repeat become one index.
    pub(crate) fn read(&self, shapes: [[usize; 4]; 3], collapses: bool) -> PyResult<Options<'py>> {
        let [[_, heads, n_q, _], [_, _, n_k, _], _] = shapes;
        let mut plain = Attention::new().temperature(options::temperature(self.temperature)?);
        if let Some(scale) = self.scale {
            plain = plain.scale(options::single("scale", scale)?);
        }
        if let Some(cap) = self.softcap.filter(|cap| *cap != 0.0) {
            plain = plain.softcap(options::single("softcap", cap)?);
        }
        let of_heads = |name, x: Option<&Bound<'py, PyAny>>| {
            x.map(|x| options::of_heads(name, x, heads)).transpose()
        };
        let (sinks, slopes) =
            (of_heads("sinks", self.sinks)?, of_heads("alibi_slopes", self.alibi_slopes)?);
        let causal = self.causal.map(|at| options::position("causal", at)).transpose()?;
        let position = self.position.map(|at| options::position("position", at)).transpose()?;
        let lengths = self.kv_lengths.map(options::lengths).transpose()?;
        if position.is_some() && self.window.is_none() && slopes.is_none() && self.mask.is_none() {
            return Err(PyValueError::new_err(
                "position is for window, `mask` and `alibi_slopes`, and there is none of them",
            ));
        }
        // The positions are clear without an argument only if there are as many queries as keys, and no key lengths.
        let position = |what: &str| match position.or(causal) {
            Some(position) => Ok(position),
            None if n_q == n_k && lengths.is_none() => Ok(Position::TopLeft),
            None => Err(PyValueError::new_err(format!(
                "{what} over {n_q} queries and {n_k} keys needs position: \"top-left\", \"bottom-right\" or an offset"
            ))),
        };
        let mut places = Mask::NONE;
        if let Some(causal) = causal {
            places = places.causal(causal);
        }
        if let Some(window) = self.window {
            places = places.window(position("window")?, options::window(window)?);
        }
        let rule = self.mask.map(|mask| options::rule(mask, &position)).transpose()?;
        let slopes =
            slopes.map(|x| Ok::<_, PyErr>((position("`alibi_slopes`")?, x))).transpose()?;
        let of_pairs = self.attn_mask;
        let of_pairs = of_pairs
            .map(|mask| MaskArray::of(mask, shapes, lengths.is_some(), collapses))
            .transpose()?;
        Ok(Options { plain, places, lengths, sinks, slopes, rule, of_pairs })
    }
}

impl Options<'_> {
    pub(crate) fn attention(&self) -> PyResult<Attention<'_>> {
        let mut mask: Mask<'_> = self.places;
        if let Some((position, slopes)) = &self.slopes {
            mask = mask.alibi(*position, slopes);
        }
        if let Some(lengths) = &self.lengths {
            mask = mask.key_lengths(lengths);
        }
        if let Some(rule) = &self.rule {
            mask = mask.rule(rule);
        }
        match &self.of_pairs {
            Some(MaskArray::Allowed(allowed, shape)) => {
                mask = mask.allowed(MaskTensor::new(allowed, shape).map_err(refused)?);
            }
            Some(MaskArray::Bias(bias)) => {
                let numbers = bias.as_slice()?;
                mask = mask.bias(MaskTensor::new(numbers, bias.shape()).map_err(refused)?);
            }
            None => {}
        }
        let mut attention: Attention<'_> = self.plain.clone();
        if let Some(sinks) = &self.sinks {
            attention = attention.sinks(sinks);
        }
        Ok(attention.mask(mask))
    }
}

struct Call<'a> {
    attention: Attention<'a>,
    stage: Option<Stage>,
    lse: bool,
    threads: Threads,
    /// The number of dimensions of `q`.
    rank: usize,
}

/// The output, the scores and the log-sum-exp.
type Results<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

impl Call<'_> {
    fn run<'py>(&self, py: Python<'py>, [q, k, v]: &[Tensor<'_>; 3]) -> PyResult<Results<'py>> {
        match (q.numbers(), k.numbers(), v.numbers()) {
            (Slice::F32(a), Slice::F32(b), Slice::F32(c)) => self.compute(py, [q, k, v], a, b, c),
            (Slice::F16(a), Slice::F16(b), Slice::F16(c)) => self.compute(py, [q, k, v], a, b, c),
            (Slice::Bf16(a), Slice::Bf16(b), Slice::Bf16(c)) => {
                self.compute(py, [q, k, v], a, b, c)
            }
            (Slice::F32(a), Slice::F16(b), Slice::F16(c)) => self.compute(py, [q, k, v], a, b, c),
            (Slice::F32(a), Slice::Bf16(b), Slice::Bf16(c)) => self.compute(py, [q, k, v], a, b, c),
            (q, k, v) => Err(PyTypeError::new_err(format!(
                "`q` is {}, `k` {} and `v` {}, but `k` and `v` of one type are needed, and `q` of the same type or float32",
                q.name(),
                k.name(),
                v.name()
            ))),
        }
    }

    fn compute<'py, Q: Element, T: Element>(
        &self,
        py: Python<'py>,
        tensors: [&Tensor<'_>; 3],
        q: &[Q],
        k: &[T],
        v: &[T],
    ) -> PyResult<Results<'py>> {
        let [of_q, of_k, of_v] = tensors;
        let heads =
            || Ok((of_q.heads("query", q)?, of_k.heads("key", k)?, of_v.heads("value", v)?));
        let (q, k, v): (Heads<'_, Q>, Heads<'_, T>, Heads<'_, T>) = heads().map_err(refused)?;
        let results = py.detach(|| {
            self.threads.install(|| {
                let (output, log_sum_exp) = if self.lse {
                    let (output, log_sum_exp) = self.attention.forward_with_log_sum_exp(q, k, v)?;
                    (output, Some(log_sum_exp))
                } else {
                    (self.attention.forward(q, k, v)?, None)
                };
                let scores =
                    self.stage.map(|stage| self.attention.scores(stage, q, k)).transpose()?;
                Ok((output, scores, log_sum_exp))
            })
        });
        let (output, scores, log_sum_exp) = results.map_err(refused)?;
        Ok((
            self.array(py, output)?,
            scores.map(|scores| self.array(py, scores)).transpose()?,
            log_sum_exp.map(|sums| self.array(py, sums)).transpose()?,
        ))
    }

    /// A result as an array, without the leading dimensions that `q` lacks.
    fn array<'py, const N: usize>(
        &self,
        py: Python<'py>,
        result: regard::Tensor<N>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let shape = result.shape();
        let array = PyArray::from_vec(py, result.into_vec()).reshape(&shape[4 - self.rank..])?;
        Ok(array.into_any())
    }
}

/// The slopes of ALiBi, float32 [heads], for `attention(..., alibi_slopes=...)`.
///
/// Of a power of two of heads they are 2^(-8/heads), 2^(-16/heads), …. Other numbers of heads have those of the power below, and then
/// every second one of the power above (Press et al., Train Short, Test Long, 2022).
///
/// >>> import regard
/// >>> regard.alibi_slopes(4).tolist()
/// [0.25, 0.0625, 0.015625, 0.00390625]
#[pyfunction]
pub(crate) fn alibi_slopes(py: Python<'_>, heads: usize) -> PyResult<Bound<'_, PyArray1<f32>>> {
    if heads == 0 {
        return Err(PyValueError::new_err("there are 0 heads, but 1 or more are needed"));
    }
    Ok(PyArray1::from_vec(py, regard::alibi_slopes(heads)))
}

/// The mask of the argument `attn_mask`.
enum MaskArray<'py> {
    /// Which keys may be seen, and the shape.
    Allowed(Vec<bool>, Vec<usize>),
    /// The numbers to add, dense.
    Bias(PyReadonlyArrayDyn<'py, f32>),
}

impl<'py> MaskArray<'py> {
    /// The mask of queries and keys of these shapes. `is_cut` says whether it may lack the keys behind all lengths, `collapses`
    /// whether axes that repeat become one index.
    fn of(
        value: &Bound<'py, PyAny>,
        shapes: [[usize; 4]; 3],
        is_cut: bool,
        collapses: bool,
    ) -> PyResult<Self> {
        let mut mask = Array::of("attn_mask", value)?;
        let [[batch, heads, queries, _], [_, _, keys, _], _] = shapes;
        let (full, given) = ([batch, heads, queries, keys], mask.shape().to_vec());
        let fits = |(axis, n): (usize, &usize)| {
            let axis = axis + full.len() - given.len();
            *n == 1 || *n == full[axis] || (axis == 3 && is_cut && *n < keys)
        };
        if given.len() > full.len() || !given.iter().enumerate().all(fits) {
            return Err(PyValueError::new_err(format!(
                "`attn_mask` has the shape {given:?}, which does not broadcast to [batch, heads, n_q, n_k] {full:?}; a mask for each \
                 entry of the batch has the shape {:?}",
                [batch, 1, queries, keys]
            )));
        }
        if collapses {
            mask.collapse()?;
        }
        let (array, name) = (&mask.array, mask.type_name());
        let kind = array.dtype().kind();
        if matches!(kind, b'b' | b'u' | b'i') && !mask.is_bf16() {
            let allowed = array.call_method1("__ne__", (0,))?.call_method1("view", ("uint8",))?;
            let bytes: PyReadonlyArrayDyn<'_, u8> =
                allowed.call_method1("copy", ("C",))?.extract()?;
            let allowed = bytes.as_slice()?.iter().map(|b| *b != 0).collect();
            return Ok(Self::Allowed(allowed, array.shape().to_vec()));
        }
        if kind == b'f' || mask.is_bf16() || name == "bfloat16" {
            return Ok(Self::Bias(mask.to_f32()?));
        }
        Err(PyTypeError::new_err(format!(
            "`attn_mask` is {name}, but booleans or whole numbers (nonzero may be seen), or numbers to add are needed"
        )))
    }
}

/// `Ok` if each array has 2, 3 or 4 dimensions, and all have the same number.
pub(crate) fn check_dimensions([(first, q), others @ ..]: [(&str, &Array<'_>); 3]) -> PyResult<()> {
    let shape = q.shape();
    if !(2..=4).contains(&shape.len()) {
        return Err(PyValueError::new_err(format!(
            "`{first}` has the shape {shape:?}, but 2, 3 or 4 dimensions are needed"
        )));
    }
    for (name, array) in others {
        if array.shape().len() != shape.len() {
            return Err(PyValueError::new_err(format!(
                "`{name}` has the shape {:?}, but as many dimensions as `{first}` {shape:?} are needed",
                array.shape()
            )));
        }
    }
    Ok(())
}

/// An error of `regard` as an exception.
pub(crate) fn refused(error: Error) -> PyErr {
    let message = error.to_string();
    match error {
        Error::Memory { .. } => PyMemoryError::new_err(message),
        _ => PyValueError::new_err(message),
    }
}
