//! The table of tokens in 8 bits.

use super::requantize;
use crate::error::{Error, check_len};

/// The embeddings of tokens, \[vocabulary, width\], with a scale for each token.
///
/// ```
/// use regard_kernels::int8::Embedding;
/// // Two tokens of three features. A unit of the first row is ½ unit of the output, and a unit of the second row is ¼.
/// let table = Embedding { rows: &[2, 4, 6, 8, 12, 16], mantissas: &[1 << 30, 1 << 29], exponent: 0 };
/// let mut x = [0; 3];
/// table.row(1, &mut x)?;
/// assert_eq!(x, [2, 3, 4]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Embedding<'a> {
    /// \[vocabulary, width\], row-major.
    pub rows: &'a [i8],
    /// \[vocabulary\]: with `exponent`, the factor from a row's unit to the unit of the output: see [`requantize`].
    pub mantissas: &'a [i32],
    /// The exponent of all mantissas.
    pub exponent: i32,
}

impl Embedding<'_> {
    /// Writes the embedding of a token to `out` \[width\], and zeros for a token that does not exist.
    ///
    /// # Errors
    /// [`Error::Length`] if the table has another number of rows of that width than it has mantissas. `out` is then unchanged.
    pub fn row(&self, token: usize, out: &mut [i32]) -> Result<(), Error> {
        let width = out.len();
        let expected = self.mantissas.len().saturating_mul(width);
        check_len("the table of tokens", self.rows.len(), expected)?;
        let row = self.rows.chunks_exact(width.max(1)).nth(token).unwrap_or(&[]);
        let mantissa = self.mantissas.get(token).copied().unwrap_or(0);
        out.fill(0);
        for (out, x) in out.iter_mut().zip(row) {
            *out = requantize(i32::from(*x), mantissa, self.exponent);
        }
        Ok(())
    }
}
