//! Python's arrays as tensors of `regard`. An array is not copied if the features of a token are contiguous.
//!
//! `numpy.from_dlpack` converts all arrays that are not NumPy's, and shares their memory. NumPy has no `bfloat16` of its own,
//! so its bits are read as `uint16`.

use bytemuck::cast_slice;
use numpy::{
    Element, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use regard::half::{bf16, f16};
use regard::{Error, Heads};

/// A tensor [batch, heads, tokens, `head_dim`] in the memory of an array, which may have fewer dimensions.
pub(crate) struct Tensor<'py> {
    numbers: Numbers<'py>,
    pub(crate) shape: [usize; 4],
    /// The elements from one batch entry, head and token to the next.
    strides: [usize; 3],
}

/// A borrowed contiguous array: the numbers in the order of memory, including those between the tensor's numbers.
enum Numbers<'py> {
    F32(PyReadonlyArrayDyn<'py, f32>),
    F16(PyReadonlyArrayDyn<'py, f16>),
    /// The bits of `bf16`.
    Bf16(PyReadonlyArrayDyn<'py, u16>),
}

pub(crate) enum Slice<'a> {
    F32(&'a [f32]),
    F16(&'a [f16]),
    Bf16(&'a [bf16]),
}

impl Slice<'_> {
    /// The Python name of the type.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::F32(_) => "float32",
            Self::F16(_) => "float16",
            Self::Bf16(_) => "bfloat16",
        }
    }
}

/// An array of NumPy, which may hold the bits of `bf16`.
pub(crate) struct Array<'py> {
    pub(crate) array: Bound<'py, PyUntypedArray>,
    is_bf16: bool,
}

impl<'py> Array<'py> {
    /// The array of an argument, whose memory is shared. `name` is the argument's name in errors.
    pub(crate) fn of(name: &str, value: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = value.py();
        if let Ok(array) = value.cast::<PyUntypedArray>() {
            // A subclass of NumPy's, which has a mask.
            if !value.is_exact_instance_of::<PyUntypedArray>()
                && value.hasattr(intern!(py, "mask"))?
            {
                return Err(PyTypeError::new_err(format!(
                    "`{name}` is a masked array, whose mask would not count: give its numbers, and what may be seen as attn_mask"
                )));
            }
            return Ok(Self { array: array.clone(), is_bf16: false });
        }
        if !value.hasattr(intern!(py, "__dlpack__"))? {
            let found = value.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "`{name}` is a {found}, but an array is needed: NumPy's, or one that has __dlpack__"
            )));
        }
        // PyTorch's own words name neither the argument nor the way that keeps the gradient.
        let requires = value.getattr(intern!(py, "requires_grad"));
        if requires.is_ok_and(|requires| requires.is_truthy().unwrap_or(false)) {
            return Err(PyValueError::new_err(format!(
                "`{name}` requires a gradient, which is not computed here: give `{name}.detach()`, or call regard.torch.attention"
            )));
        }
        let share = || -> PyResult<Self> {
            let mut value = value.clone();
            // PyTorch's negative bit means that the numbers in memory have the other sign, which DLPack does not tell.
            let is_neg = value.call_method0(intern!(py, "is_neg"));
            if let Ok(is_neg) = is_neg
                && is_neg.is_truthy()?
            {
                value = value.call_method0(intern!(py, "resolve_neg"))?;
            }
            let dtype =
                value.getattr(intern!(py, "dtype")).and_then(|dtype| Ok(dtype.str()?.to_string()));
            let dtype = dtype.unwrap_or_default();
            let mut is_bf16 = false;
            let mut array = match dtype.strip_suffix("bfloat16") {
                // JAX's arrays become arrays of NumPy in the type of `ml_dtypes`.
                Some("") => {
                    let found = numpy(py)?.call_method1("asarray", (&value,))?;
                    if found.getattr("dtype")?.str()? != "bfloat16" {
                        return Err(PyTypeError::new_err(format!(
                            "NumPy does not read the bfloat16 numbers of a {}: give them as float32",
                            value.get_type().name()?
                        )));
                    }
                    found
                }
                // Those of PyTorch and of MLX are viewed as whole numbers.
                Some(library) => {
                    is_bf16 = true;
                    let library = library.trim_end_matches('.');
                    let library = py.import(library).map_err(|e| {
                        PyTypeError::new_err(format!(
                            "its type is {dtype}, and {library} is not there to read it ({}): give its numbers as float32", e.value(py)
                        ))
                    })?;
                    let bits = library.getattr("uint16").or_else(|_| library.getattr("int16"))?;
                    value = value.call_method1(intern!(py, "view"), (bits,))?;
                    numpy(py)?.call_method1(intern!(py, "from_dlpack"), (value,))?
                }
                None => numpy(py)?.call_method1(intern!(py, "from_dlpack"), (value,))?,
            };
            if is_bf16 {
                array = array.call_method1(intern!(py, "view"), ("uint16",))?;
            }
            Ok(Self { array: array.cast_into()?, is_bf16 })
        };
        share().map_err(|e| {
            let error =
                PyValueError::new_err(format!("`{name}` cannot be shared: {}", e.value(py)));
            error.set_cause(py, Some(e));
            error
        })
    }

    pub(crate) fn shape(&self) -> &[usize] {
        self.array.shape()
    }

    pub(crate) fn is_bf16(&self) -> bool {
        self.is_bf16
    }

    /// Makes axes that repeat one number (with a stride of 0) axes of one index.
    pub(crate) fn collapse(&mut self) -> PyResult<()> {
        if self.array.shape().is_empty() {
            return Ok(());
        }
        let py = self.array.py();
        let repeats = |(n, stride): (&usize, &isize)| *n > 1 && *stride == 0;
        let end = |axis| if repeats(axis) { Some(1_usize) } else { None };
        let axes = self.array.shape().iter().zip(self.array.strides());
        let slice = py.import("builtins")?.getattr("slice")?;
        let index: Vec<_> = axes.map(|axis| slice.call1((end(axis),))).collect::<Result<_, _>>()?;
        self.array = self.array.get_item(PyTuple::new(py, index)?)?.cast_into()?;
        Ok(())
    }

    pub(crate) fn type_name(&self) -> String {
        if self.is_bf16 { "bfloat16".to_owned() } else { self.array.dtype().to_string() }
    }

    /// The numbers as float32, in the order of C. They are copied if they are not so already.
    pub(crate) fn to_f32(&self) -> PyResult<PyReadonlyArrayDyn<'py, f32>> {
        let py = self.array.py();
        let mut array = self.array.as_any().clone();
        if self.is_bf16 {
            // The bits of bf16 are the upper half of those of float32.
            let wide = array.call_method1(intern!(py, "astype"), ("uint32",))?;
            let wide = wide.call_method1("__lshift__", (16_u32,))?;
            let wide = wide.call_method1(intern!(py, "astype"), ("uint32",))?;
            array = wide.call_method1(intern!(py, "view"), ("float32",))?;
        }
        numpy(py)?.call_method1("require", (array, "=f4", ["C", "A"]))?.extract()
    }

    /// The numbers as heads. They are copied if heads cannot describe their layout.
    pub(crate) fn tensor(&self, name: &str) -> PyResult<Tensor<'py>> {
        let array = self.array.as_any();
        if self.is_bf16 {
            return borrow(array.cast()?, Numbers::Bf16);
        }
        if let Ok(array) = array.cast::<PyArrayDyn<f32>>() {
            return borrow(array, Numbers::F32);
        }
        if let Ok(array) = array.cast::<PyArrayDyn<f16>>() {
            return borrow(array, Numbers::F16);
        }
        let dtype = array.getattr(intern!(array.py(), "dtype"))?;
        if dtype.str()? == "bfloat16" {
            return borrow(array.call_method1("view", ("uint16",))?.cast()?, Numbers::Bf16);
        }
        Err(PyTypeError::new_err(format!(
            "`{name}` is {dtype}, but float32, float16 or bfloat16 is needed"
        )))
    }

    /// `past` followed by this array, along the tokens.
    pub(crate) fn after(&self, name: &str, past_name: &str, past: &Self) -> PyResult<Self> {
        let (p, n) = (past.shape(), self.shape());
        let tokens = n.len().saturating_sub(2);
        let fits = p.len() == n.len()
            && p.iter().zip(n).enumerate().all(|(axis, (p, n))| axis == tokens || p == n);
        if !fits {
            return Err(PyValueError::new_err(format!(
                "`{past_name}` has the shape {p:?}, which does not go before `{name}` {n:?}: \
                 only the number of tokens, the last but one, may differ"
            )));
        }
        let py = self.array.py();
        let [p, n] = [past, self].map(Self::type_name);
        if p != n {
            return Err(PyTypeError::new_err(format!("`{past_name}` is {p}, but `{name}` is {n}")));
        }
        // The bits of `bf16` and NumPy's own type for it have the same name. They are joined in the type of this array.
        let past = past.array.call_method1(intern!(py, "view"), (self.array.dtype(),))?;
        let both = numpy(py)?.call_method1("concatenate", ((past, &self.array), tokens))?;
        Ok(Self { array: both.cast_into()?, is_bf16: self.is_bf16 })
    }

    /// The array for Python. Bits of `bf16` become a tensor of PyTorch, which shares their memory.
    pub(crate) fn to_python(&self) -> PyResult<Bound<'py, PyAny>> {
        let array = self.array.as_any();
        if !self.is_bf16 {
            return Ok(array.clone());
        }
        let py = array.py();
        let torch = py.import(intern!(py, "torch"))?;
        let view = intern!(py, "view");
        let bits = torch.call_method1("from_numpy", (array.call_method1(view, ("int16",))?,))?;
        bits.call_method1(view, (torch.getattr("bfloat16")?,))
    }
}

impl Tensor<'_> {
    /// The memory, in the type of its numbers.
    pub(crate) fn numbers(&self) -> Slice<'_> {
        match &self.numbers {
            Numbers::F32(x) => Slice::F32(x.as_slice().unwrap_or_default()),
            Numbers::F16(x) => Slice::F16(x.as_slice().unwrap_or_default()),
            Numbers::Bf16(x) => Slice::Bf16(cast_slice(x.as_slice().unwrap_or_default())),
        }
    }

    /// The heads in that memory.
    pub(crate) fn heads<'a, T: regard::Element>(
        &self,
        name: &'static str,
        numbers: &'a [T],
    ) -> Result<Heads<'a, T>, Error> {
        Heads::strided(name, numbers, self.shape, self.strides)
    }
}

/// A tensor in the memory of an array of 2 to 4 dimensions.
fn borrow<'py, T: Element>(
    array: &Bound<'py, PyArrayDyn<T>>,
    numbers: fn(PyReadonlyArrayDyn<'py, T>) -> Numbers<'py>,
) -> PyResult<Tensor<'py>> {
    let py = array.py();
    let (mut shape, missing) = ([1; 4], 4 - array.ndim());
    shape[missing..].copy_from_slice(array.shape());
    let [_, heads, tokens, d] = shape;
    let product =
        |sizes: &[usize]| sizes.iter().fold(1_usize, |product, n| product.saturating_mul(*n));
    let dense = [product(&[heads, tokens, d]), product(&[tokens, d]), d];
    let read = |array: &Bound<'py, PyArrayDyn<T>>| {
        array.try_readonly().map(numbers).map_err(|e| PyValueError::new_err(e.to_string()))
    };
    if array.is_empty() || (array.is_c_contiguous() && array.is_aligned()) {
        return Ok(Tensor { numbers: read(array)?, shape, strides: dense });
    }
    let Some((strides, span)) = strides(array, shape, missing) else {
        // The features of a token are not contiguous, or an axis runs backwards.
        let copy = array.call_method1(intern!(py, "copy"), ("C",))?;
        return Ok(Tensor { numbers: read(copy.cast()?)?, shape, strides: dense });
    };
    // The memory from the first number to the last, as one axis.
    let options = PyDict::new(py);
    options.set_item("shape", (span,))?;
    options.set_item("strides", (size_of::<T>(),))?;
    options.set_item("writeable", false)?;
    let flat = py.import("numpy.lib.stride_tricks")?.call_method(
        "as_strided",
        (array,),
        Some(&options),
    )?;
    Ok(Tensor { numbers: read(flat.cast()?)?, shape, strides })
}

/// The distances between batch entries, heads and tokens of an array that is not empty, and the number of elements from the
/// first to the last. `None` if heads cannot describe the layout.
fn strides<T>(
    array: &Bound<'_, PyArrayDyn<T>>,
    shape: [usize; 4],
    missing: usize,
) -> Option<([usize; 3], usize)> {
    if !array.is_aligned() {
        return None;
    }
    let (mut strides, mut span) = ([0; 4], 1);
    for (axis, bytes) in array.strides().iter().enumerate() {
        let axis = axis + missing;
        if shape[axis] == 1 {
            continue; // an axis of one index may have any stride
        }
        let bytes = usize::try_from(*bytes).ok().filter(|bytes| bytes % size_of::<T>() == 0)?;
        strides[axis] = bytes / size_of::<T>();
        span += (shape[axis] - 1) * strides[axis];
    }
    let [entry, head, token, number] = strides;
    (shape[3] == 1 || number == 1).then_some(([entry, head, token], span))
}

pub(crate) fn numpy(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import(intern!(py, "numpy"))
}
