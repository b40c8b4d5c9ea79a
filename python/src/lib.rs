//! The compiled part of the package `regard` for Python: attention on arrays.
//!
//! The arrays of the caller are borrowed where they are ([`tensor`]), the options are those of `regard attend` in the same
//! words ([`options`]), and the work is done without the interpreter's lock ([`attention`]). A model stays open in the process
//! ([`model`]).
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
