//! Products with weights of 8 bits, and the table of tokens.

use super::multiply;

/// A linear layer \[inputs, outputs\] whose weight has a scale for each output.
#[derive(Clone, Copy, Debug)]
pub struct Linear<'a> {
    /// \[outputs, inputs\], row-major.
    pub weight: &'a [i8],
    /// \[outputs\]: the bias in units of the sums. Empty where there is none.
    pub bias: &'a [i32],
    /// \[outputs\]: with `exponent`, what turns sums into outputs.
    pub mantissas: &'a [i32],
    /// The exponent of all mantissas: see [`multiply`].
    pub exponent: i32,
}

impl Linear<'_> {
    /// `out` ← xW + b, of x \[inputs\] and `out` \[outputs\].
    pub(super) fn forward(&self, x: &[i8], out: &mut [i32]) {
        let rows = self.weight.chunks_exact(x.len().max(1));
        for (i, (out, (row, mantissa))) in out.iter_mut().zip(rows.zip(self.mantissas)).enumerate()
        {
            let start = self.bias.get(i).copied().unwrap_or(0);
            *out = multiply(dot(row, x, start), *mantissa, self.exponent);
        }
    }
}

/// `start` + a·b. With fewer than 2¹⁵ products the sum of them is within ±2²⁹.
fn dot(a: &[i8], b: &[i8], start: i32) -> i32 {
    let products = a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b));
    products.fold(start, i32::wrapping_add)
}

/// The embeddings of tokens, \[vocabulary, width\], with a scale for each token.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    /// \[vocabulary, width\], row-major.
    pub rows: &'a [i8],
    /// \[vocabulary\]: with `exponent`, what turns a row into units of the residual stream.
    pub mantissas: &'a [i32],
    /// The exponent of all mantissas.
    pub exponent: i32,
}

impl Table<'_> {
    /// Writes the embedding of a token to `out` \[width\], and zeros for a token that does not exist.
    pub(super) fn row(&self, token: usize, out: &mut [i32]) {
        let mut rows = self.rows.chunks_exact(out.len().max(1));
        let row = rows.nth(token).unwrap_or_default();
        let mantissa = self.mantissas.get(token).copied().unwrap_or(0);
        out.fill(0);
        for (out, x) in out.iter_mut().zip(row) {
            *out = multiply(i32::from(*x), mantissa, self.exponent);
        }
    }
}
