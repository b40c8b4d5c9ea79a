//! The errors of the kernels.

/// This error says why a kernel refused its input. Every variant names the tensor at fault. Nothing is written before all
/// checks have passed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Error {
    /// A slice is too short for the matrix it should hold.
    #[error(
        "a {rows} × {cols} matrix with a row stride of {stride} does not fit in a slice of {len} elements"
    )]
    Slice {
        /// The rows of the matrix.
        rows: usize,
        /// The columns of the matrix.
        cols: usize,
        /// Elements from the start of one row to the start of the next.
        stride: usize,
        /// Elements that the slice has.
        len: usize,
    },

    /// A matrix has the wrong shape.
    #[error("{tensor} is {} × {}, but {} × {} is needed ({why})", found.0, found.1, expected.0, expected.1)]
    Shape {
        /// The tensor's name in the formula, such as `key`.
        tensor: &'static str,
        /// (rows, columns) that were given.
        found: (usize, usize),
        /// (rows, columns) that are needed.
        expected: (usize, usize),
        /// The reason for the expected shape.
        why: &'static str,
    },

    /// A vector has the wrong length.
    #[error("{tensor} has {found} elements, but {expected} are needed")]
    Length {
        /// The vector's name.
        tensor: &'static str,
        /// The number of elements that was given.
        found: usize,
        /// The number of elements that is needed.
        expected: usize,
    },

    /// The scratch memory is too small.
    #[error("the scratch memory has {found} elements, but {needed} are needed")]
    Scratch {
        /// The number of elements that was given.
        found: usize,
        /// The number of elements that is needed.
        needed: usize,
    },

    /// A number is outside its range.
    #[error("{name} is {value}, but must be {range}")]
    Range {
        /// The parameter's name.
        name: &'static str,
        /// The value that was given.
        value: f32,
        /// The values that are allowed, in words.
        range: &'static str,
    },

    /// The request is not available for this kind of numbers.
    #[error("{what} is not computed on {numbers}")]
    Unsupported {
        /// The request.
        what: &'static str,
        /// The kind of numbers.
        numbers: &'static str,
    },
}

/// `Ok` if `found` is `expected`, else an error that names the tensor.
pub(crate) fn check_shape(
    tensor: &'static str,
    found: (usize, usize),
    expected: (usize, usize),
    why: &'static str,
) -> Result<(), Error> {
    if found == expected { Ok(()) } else { Err(Error::Shape { tensor, found, expected, why }) }
}

/// `Ok` if `found` is `expected`, else an error that names the vector.
pub(crate) fn check_len(tensor: &'static str, found: usize, expected: usize) -> Result<(), Error> {
    if found == expected { Ok(()) } else { Err(Error::Length { tensor, found, expected }) }
}

/// `Ok` if `found` is at most `most`, else an error with the `name` of the number and the `range` in words.
pub(crate) fn check_most(
    name: &'static str,
    found: usize,
    most: usize,
    range: &'static str,
) -> Result<(), Error> {
    if found <= most { Ok(()) } else { Err(Error::Range { name, value: found as f32, range }) }
}
