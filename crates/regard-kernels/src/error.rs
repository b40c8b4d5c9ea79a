/// Why a kernel refused its input. Every variant names the tensor at fault; nothing is written before a check fails.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A slice is too short for the matrix it should hold.
    #[error(
        "a {rows} × {cols} matrix with a row stride of {stride} does not fit in a slice of {len} elements"
    )]
    Slice {
        /// Rows asked for.
        rows: usize,
        /// Columns asked for.
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
        /// (rows, columns) as given.
        found: (usize, usize),
        /// (rows, columns) as needed.
        expected: (usize, usize),
        /// Where the need comes from.
        why: &'static str,
    },

    /// A vector has the wrong length.
    #[error("{tensor} has {found} elements, but {expected} are needed")]
    Length {
        /// The vector's name.
        tensor: &'static str,
        /// Elements as given.
        found: usize,
        /// Elements as needed.
        expected: usize,
    },

    /// The scratch memory is too small.
    #[error("the scratch memory has {found} elements, but {needed} are needed")]
    Scratch {
        /// Elements as given.
        found: usize,
        /// Elements as needed.
        needed: usize,
    },

    /// A number is outside its range.
    #[error("{name} is {value}, but must be {range}")]
    Range {
        /// The parameter's name.
        name: &'static str,
        /// The value as given.
        value: f32,
        /// The values that are allowed, in words.
        range: &'static str,
    },

    /// What was asked for is not computed on this kind of number.
    #[error("{what} is not computed on {numbers}")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
        /// The kind of number.
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

/// `Ok` if `found` is at most `most`, which `range` tells in words, else an error that has the `name` of the number.
pub(crate) fn check_most(
    name: &'static str,
    found: usize,
    most: usize,
    range: &'static str,
) -> Result<(), Error> {
    if found <= most { Ok(()) } else { Err(Error::Range { name, value: found as f32, range }) }
}
