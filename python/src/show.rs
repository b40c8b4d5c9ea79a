//! The page on which `regard.show` draws the heads of an attention.

use numpy::PyReadonlyArray5;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use regard_figure::{HeadsPage, Label};

/// The page of all heads: `values` [texts, layers, heads, queries, keys], the name of each layer, and the tokens of the queries and of
/// the keys of each text.
#[pyfunction]
pub(crate) fn heads_page(
    py: Python<'_>,
    values: PyReadonlyArray5<'_, f32>,
    title: String,
    layers: Vec<String>,
    tokens: Vec<[Vec<String>; 2]>,
) -> PyResult<String> {
    let wrong = |e: &dyn std::fmt::Display| PyValueError::new_err(e.to_string());
    let (_, _, heads, _, _) = values.as_array().dim();
    let values = values.as_slice()?.to_vec();
    let labels = |side: &Vec<String>| side.iter().map(|text| Label::plain(text)).collect();
    let tokens = tokens.iter().map(|sides| sides.each_ref().map(labels)).collect();
    let page = HeadsPage { title, layers, heads, tokens, values };
    py.detach(|| page.html()).map_err(|e| wrong(&e))
}
