//! The options of attention, in the words of `regard attend`.

use std::str::FromStr;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString, PyTuple};
use regard::{Documents, Position, Rule, Temperature, UnknownWord, Window};

use crate::tensor::Array;

/// The position of the first query: "top-left", "bottom-right" or an offset.
pub(crate) fn position(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Position> {
    if let Ok(text) = value.cast::<PyString>() {
        return word(name, &text.to_cow()?);
    }
    // `True` is an integer of Python, but not a position.
    let number = (!value.is_instance_of::<PyBool>()).then(|| value.extract::<isize>());
    match number {
        Some(Ok(offset)) => Ok(Position::Offset(offset)),
        _ => Err(PyTypeError::new_err(format!(
            "{name} is {}, but \"top-left\", \"bottom-right\" or a whole number of keys is needed",
            value.repr()?
        ))),
    }
}

/// (left, right): each is a number of keys, or `None` or −1 for no limit.
pub(crate) fn window(value: &Bound<'_, PyAny>) -> PyResult<Window> {
    let side = |side: Option<isize>| match side {
        None | Some(-1) => Ok(None), // flash-attn's word for no limit
        Some(keys) => usize::try_from(keys).map(Some),
    };
    let sides = value.extract::<(Option<isize>, Option<isize>)>();
    let sides = sides.ok().and_then(|(left, right)| Some((side(left).ok()?, side(right).ok()?)));
    let (left, right) = sides.ok_or_else(|| {
        PyTypeError::new_err(format!(
            "window is {value}, but (left, right) is needed, two whole numbers or None for no limit, as in (128, 0)"
        ))
    })?;
    Ok(Window { left, right })
}

/// The rule of a `regard.mask.Mask`. `default` is the position where a part names none.
pub(crate) fn rule(
    mask: &Bound<'_, PyAny>,
    default: &dyn Fn(&str) -> PyResult<Position>,
) -> PyResult<Rule> {
    let parts = mask.getattr("parts").and_then(|parts| Ok(parts.cast_into::<PyTuple>()?));
    let Ok(parts) = parts else {
        let found = mask.get_type();
        return Err(PyTypeError::new_err(format!(
            "`mask` is {found}, but a value of regard.mask is needed; an array is for `attn_mask`"
        )));
    };
    let word: String = parts.get_item(0)?.extract()?;
    let at = |index: usize| match parts.get_item(index)? {
        none if none.is_none() => default(&format!("`mask` ({word})")),
        given => position("position", &given),
    };
    let rules = || -> PyResult<Vec<Rule>> {
        (1..parts.len()).map(|i| rule(&parts.get_item(i)?, default)).collect()
    };
    Ok(match word.as_str() {
        "causal" => Rule::Causal(at(1)?),
        "window" => Rule::Window(at(2)?, window(&parts.get_item(1)?)?),
        "prefix" => Rule::Prefix(prefix(&parts.get_item(1)?)?),
        "document" => {
            let ids: Vec<Vec<i64>> = parts.get_item(1)?.extract()?;
            Rule::Documents(at(2)?, ids.into_iter().map(Documents::new).collect())
        }
        "all" => Rule::All(rules()?),
        "any" => Rule::Any(rules()?),
        _ => return Err(PyValueError::new_err(format!("`mask` has an unknown part {word}"))),
    })
}

fn prefix(lengths: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    lengths.extract().map_err(|_e| {
        PyValueError::new_err(format!("prefix is {lengths}, but no length is negative"))
    })
}

/// A temperature from 0 to ∞.
pub(crate) fn temperature(value: f64) -> PyResult<Temperature> {
    Temperature::new(single("temperature", value)?).map_err(|_e| {
        PyValueError::new_err(format!(
            "temperature is {value}, but a number from 0 (all weight on the largest score) to inf (the same weight for all) is needed"
        ))
    })
}

/// A value from a word of `regard attend`.
pub(crate) fn word<T: FromStr<Err = UnknownWord>>(name: &str, text: &str) -> PyResult<T> {
    text.parse().map_err(|UnknownWord { expected, .. }| {
        PyValueError::new_err(format!("{name} is {text:?}, but {expected} is needed"))
    })
}

/// A number, rounded to single precision. A finite number above the largest one is refused.
pub(crate) fn single(name: &str, value: f64) -> PyResult<f32> {
    let rounded = value as f32;
    if rounded.is_infinite() && value.is_finite() {
        let most = f32::MAX;
        return Err(PyValueError::new_err(format!(
            "{name} is {value:e}, but the largest float32 is {most:e}"
        )));
    }
    Ok(rounded)
}

/// A number for each head, from a sequence or an array.
pub(crate) fn of_heads(name: &str, value: &Bound<'_, PyAny>, heads: usize) -> PyResult<Vec<f32>> {
    let wrong =
        || PyTypeError::new_err(format!("`{name}` must be {heads} numbers, one a head of `q`"));
    let numbers: Vec<f64> = match value.extract() {
        Ok(numbers) => numbers,
        // Another array than NumPy's, or one of another type than float64.
        Err(_) => {
            let array = Array::of(name, value).map_err(|_e| wrong())?;
            let numbers = array.to_f32()?;
            numbers.as_slice()?.iter().map(|x| f64::from(*x)).collect()
        }
    };
    if numbers.len() != heads {
        let found = numbers.len();
        return Err(PyValueError::new_err(format!(
            "`{name}` has the shape [{found}], but [{heads}] is needed, one a head of `q`"
        )));
    }
    numbers.into_iter().map(|x| single(name, x)).collect()
}

/// A number of keys for each batch entry, from a sequence or an array of integers.
pub(crate) fn lengths(value: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let items = value.try_iter().map_err(|_e| not_lengths(value))?;
    let length = |item: PyResult<Bound<'_, PyAny>>| {
        let item = item?;
        let index = item.call_method0("__index__").map_err(|_e| not_lengths(value))?;
        let number = index.cast::<PyInt>()?.extract::<usize>();
        number.map_err(|_e| PyValueError::new_err(format!("`kv_lengths` holds {index}")))
    };
    items.map(length).collect()
}

fn not_lengths(value: &Bound<'_, PyAny>) -> PyErr {
    let found = value.get_type();
    PyTypeError::new_err(format!("`kv_lengths` is {found}, but whole numbers [batch] are needed"))
}
