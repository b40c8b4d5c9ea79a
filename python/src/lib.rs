//! The compiled part of the package `regard` for Python: attention on arrays.
//!
//! The caller's arrays are borrowed ([`tensor`]), the options have the words of `regard attend` ([`options`]), and the
//! interpreter's lock is released during the computation ([`attention`]). A model stays open in the process ([`model`]).
#![forbid(unsafe_code)]

mod attention;
mod model;
mod options;
mod tensor;
mod threads;

use pyo3::prelude::*;

/// The compiled part of the package.
#[pymodule]
mod _regard {
    #[pymodule_export]
    use super::attention::{Attended, attention};
    #[pymodule_export]
    use super::model::Opened;
    #[pymodule_export]
    use super::threads::forget_threads;
}
