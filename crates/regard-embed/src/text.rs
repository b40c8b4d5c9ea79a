//! What both decoders ask of a text: room for its next token, and the keys and values of a head.

use regard_kernels::Mat;

use crate::Error;

/// The position of the next token, after `len` others.
///
/// # Errors
/// [`Error::Token`] if the token is not in the vocabulary, [`Error::Context`] if there is no room.
pub(crate) fn position(
    len: usize,
    context: usize,
    token: usize,
    vocabulary: usize,
) -> Result<usize, Error> {
    if token >= vocabulary {
        return Err(Error::Token { token, vocabulary });
    }
    if len >= context {
        return Err(Error::Context { context });
    }
    Ok(len)
}

/// The first `n` keys or values of a head, whose numbers begin at `first` among those of a token.
pub(crate) fn of_head<T, const HEAD_SIZE: usize, const KV_HEADS: usize>(
    all: &[[[T; HEAD_SIZE]; KV_HEADS]],
    first: usize,
    n: usize,
) -> Result<Mat<'_, T>, regard_kernels::Error> {
    let numbers = all.as_flattened().as_flattened().get(first..).unwrap_or_default();
    Mat::strided(numbers, n, HEAD_SIZE, KV_HEADS * HEAD_SIZE)
}
