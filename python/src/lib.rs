//! The compiled part of the package `regard` for Python: attention on arrays.
//!
//! The caller's arrays are borrowed ([`tensor`]), the options have the words of `regard attend` ([`options`]), and the
//! interpreter's lock is released during the computation ([`attention`]). A model stays open in the process ([`model`]).
#![forbid(unsafe_code)]

mod attention;
mod gradient;
mod model;
mod options;
mod rotary;
mod show;
mod tensor;
mod threads;

use numpy::PyArray1;
use pyo3::prelude::*;

/// The compiled part of the package.
#[pymodule]
mod _regard {
    #[pymodule_export]
    use super::attention::{Attended, alibi_slopes, attention};
    #[pymodule_export]
    use super::gradient::{Gradients, attention_backward};
    #[pymodule_export]
    use super::model::{Opened, Prepared, Unchanged};
    #[pymodule_export]
    use super::rotary::rotate;
    #[pymodule_export]
    use super::show::heads_page;
    #[pymodule_export]
    use super::threads::{forget_threads, set_num_threads};

    /// Names the version, and makes the first array. NumPy's functions are looked up with it, which a signal would interrupt during a later call.
    #[pymodule_init]
    fn init(module: &super::Bound<'_, super::PyModule>) -> super::PyResult<()> {
        use pyo3::prelude::PyModuleMethods;

        let _first = super::PyArray1::<f32>::from_vec(module.py(), Vec::new());
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
