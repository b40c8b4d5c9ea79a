//! Positions that are added to tokens.

use regard_kernels::add;

use crate::error::{Error, check_positions, check_shape};
use crate::view::{check_elements, saturating_product, zeros};

/// A table with a vector for each position, which is added to the token at that position. It is sinusoidal or learned.
///
/// ```
/// use regard::PositionTable;
/// let table = PositionTable::learned(vec![0.5, 0.5, 1.0, 1.0], [2, 2])?;
/// let mut x = [1.0, 2.0, 3.0, 4.0];
/// table.add(&mut x, [1, 2, 2], 0)?; // [batch, tokens, features], the first token's position
/// assert_eq!(x, [1.5, 2.5, 4.0, 5.0]);
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PositionTable {
    table: Vec<f32>,
    positions: usize,
    features: usize,
}

impl PositionTable {
    /// A learned table \[positions, features\], as in BERT and GPT-2.
    ///
    /// # Errors
    /// [`Error::Elements`] if `table` has another number of elements.
    pub fn learned(table: Vec<f32>, [positions, features]: [usize; 2]) -> Result<Self, Error> {
        check_elements("the position table", table.len(), &[positions, features])?;
        Ok(Self { table, positions, features })
    }

    /// Sines and cosines (Vaswani et al. 2017, section 3.5): feature 2i of position t is sin(t / 10000^(2i/features)), and
    /// feature 2i + 1 is the cosine. They are computed in `f64`.
    ///
    /// # Errors
    /// [`Error::Memory`] if the table does not fit in memory.
    ///
    /// ```
    /// use regard::PositionTable;
    /// let mut x = [0.0; 4];
    /// PositionTable::sinusoidal(10, 4)?.add(&mut x, [1, 1, 4], 1)?;
    /// assert_eq!(x, [1_f32.sin(), 1_f32.cos(), 0.01_f32.sin(), 0.01_f32.cos()]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn sinusoidal(positions: usize, features: usize) -> Result<Self, Error> {
        let mut table = zeros("the position table", &[positions, features])?;
        for (t, row) in table.chunks_mut(features.max(1)).enumerate() {
            for (i, x) in row.iter_mut().enumerate() {
                let angle = t as f64 / 10_000_f64.powf((i / 2 * 2) as f64 / features as f64);
                *x = if i.is_multiple_of(2) { angle.sin() } else { angle.cos() } as f32;
            }
        }
        Ok(Self { table, positions, features })
    }

    /// The number of positions.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// The number of features.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }

    /// Adds to each token of `x`, which has the `shape` \[batch, tokens, features\], the vector of its position. `first` is the
    /// position of the first token of each batch entry: 0, or the number of tokens before it.
    ///
    /// # Errors
    /// [`Error::Elements`] or [`Error::Shape`] if `x` does not fit, [`Error::Positions`] if the table ends before the tokens
    /// do; `x` is then unchanged.
    pub fn add(&self, x: &mut [f32], shape: [usize; 3], first: usize) -> Result<(), Error> {
        check_elements("the input", x.len(), &shape)?;
        let [batch, n, _] = shape;
        check_shape(
            "the input",
            &shape,
            &[batch, n, self.features],
            "the position table's features",
        )?;
        check_positions("the position table", first, n, self.positions)?;
        let len = saturating_product(&[n, self.features]);
        let start = saturating_product(&[first, self.features]);
        let rows = &self.table[start..][..len];
        for entry in x.chunks_mut(len.max(1)) {
            add(entry, rows)?;
        }
        Ok(())
    }
}
