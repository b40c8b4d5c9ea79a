use regard_kernels::{Error as KernelError, Mat, MatMut, Pairing, add, rotate};

use crate::error::{Error, check_shape};
use crate::view::{check_elements, saturating_product, zeros};

/// A vector for each position, which is added to the token there: sinusoidal, or learned.
///
/// ```
/// use regard::PositionTable;
/// let table = PositionTable::learned(vec![0.5, 0.5, 1.0, 1.0], 2, 2)?;
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
    /// A table \[positions, features\] that was learned: BERT, GPT-2.
    ///
    /// # Errors
    /// [`Error::Elements`] if `table` has another number of elements.
    pub fn learned(table: Vec<f32>, positions: usize, features: usize) -> Result<Self, Error> {
        check_elements("the position table", table.len(), &[positions, features])?;
        Ok(Self { table, positions, features })
    }

    /// Sines and cosines (Vaswani et al. 2017, section 3.5): feature 2i of position t is sin(t / 10000^(2i/features)), feature
    /// 2i + 1 the cosine. Computed in `f64`.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is none for the table.
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
                let angle = angle(t, i / 2, features, 10_000.0);
                *x = if i.is_multiple_of(2) { angle.sin() } else { angle.cos() } as f32;
            }
        }
        Ok(Self { table, positions, features })
    }

    /// The number of positions.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// The number of features.
    pub fn features(&self) -> usize {
        self.features
    }

    /// Adds to each token of `x`, of `shape` \[batch, tokens, features\], the vector of its position. The first token of each
    /// batch entry stands at `first`: 0, or the number of tokens before it.
    ///
    /// # Errors
    /// [`Error::Elements`] or [`Error::Shape`] if `x` does not fit, [`Error::Positions`] if the table ends before the tokens;
    /// `x` is then as it was.
    pub fn add(&self, x: &mut [f32], shape: [usize; 3], first: usize) -> Result<(), Error> {
        check_elements("the input", x.len(), &shape)?;
        let [batch, n, _] = shape;
        check_shape(
            "the input",
            &shape,
            &[batch, n, self.features],
            "the position table's features",
        )?;
        check_positions(first, n, self.positions)?;
        let rows = self.table.get(first * self.features..).unwrap_or_default();
        let len = saturating_product(&[n, self.features]);
        for entry in x.chunks_mut(len.max(1)) {
            add(entry, rows.get(..len).unwrap_or_default())?;
        }
        Ok(())
    }
}

/// Rotary position embedding (Su et al. 2021): pairs of features of queries and keys are turned by an angle that grows with
/// the position, so that their dot products depend on how far apart they stand.
///
/// Pair i of `features` at position t turns by t / base^(2i/features). Sines and cosines are computed once, in `f64`.
///
/// ```
/// use regard::{Pairing, Rotary};
/// let rotary = Rotary::new(2, 16, 10_000.0, Pairing::HalfSplit)?;
/// let mut q = [1.0, 0.0, 1.0, 0.0]; // two tokens, one head of two features
/// rotary.rotate(&mut q, [1, 2, 1, 2], 0)?;
/// assert_eq!(q, [1.0, 0.0, 1_f32.cos(), 1_f32.sin()]); // the first stands at 0, and does not turn
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Rotary {
    /// \[positions, features / 2\]
    cos: Vec<f32>,
    sin: Vec<f32>,
    positions: usize,
    features: usize,
    pairing: Pairing,
}

impl Rotary {
    /// Angles for `positions` from 0 on and the first `features` of each head. `base` is 10000 in the paper, also called θ.
    ///
    /// # Errors
    /// [`Error::Shape`] if `features` is odd, [`Error::Memory`] if there is none for the angles; a base that is not finite and
    /// greater than 0 is refused.
    pub fn new(
        features: usize,
        positions: usize,
        base: f64,
        pairing: Pairing,
    ) -> Result<Self, Error> {
        if !(base > 0.0 && base.is_finite()) {
            let range = "finite and greater than 0";
            return Err(
                KernelError::Range { name: "rotary base", value: base as f32, range }.into()
            );
        }
        let pairs = features / 2;
        check_shape("rotary features", &[features], &[2 * pairs], "pairs of features")?;
        let mut cos = zeros("the rotary angles", &[positions, pairs])?;
        let mut sin = zeros("the rotary angles", &[positions, pairs])?;
        let rows = cos.chunks_mut(pairs.max(1)).zip(sin.chunks_mut(pairs.max(1)));
        for (t, (cos, sin)) in rows.enumerate() {
            for (i, (cos, sin)) in cos.iter_mut().zip(sin).enumerate() {
                let angle = angle(t, i, features, base);
                (*cos, *sin) = (angle.cos() as f32, angle.sin() as f32);
            }
        }
        Ok(Self { cos, sin, positions, features, pairing })
    }

    /// The features of each head that turn.
    pub fn features(&self) -> usize {
        self.features
    }

    /// The number of positions.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// Turns queries or keys in place: `x` of `shape` \[batch, tokens, heads, head_dim\], as projections give them. The first
    /// token of each batch entry stands at `first`: 0, or the number of keys before it in a cache. Features behind those that
    /// turn stay.
    ///
    /// # Errors
    /// [`Error::Elements`] or [`Error::Shape`] if `x` does not fit, [`Error::Positions`] if the angles end before the tokens;
    /// `x` is then as it was.
    pub fn rotate(&self, x: &mut [f32], shape: [usize; 4], first: usize) -> Result<(), Error> {
        check_elements("the input", x.len(), &shape)?;
        let [_, n, heads, head_dim] = shape;
        self.check(n, head_dim, first)?;
        self.rotate_rows(x, heads, head_dim, |row| first + row % n.max(1))
    }

    /// The same angles, the other way round: what a gradient turns by.
    pub(crate) fn inverse(&self) -> Self {
        Self { sin: self.sin.iter().map(|sin| -sin).collect(), ..self.clone() }
    }

    /// Whether it turns `n` tokens from `first` on.
    pub(crate) fn check(&self, n: usize, head_dim: usize, first: usize) -> Result<(), Error> {
        if self.features > head_dim {
            let (found, expected) = (vec![self.features], vec![head_dim]);
            return Err(Error::Shape {
                tensor: "rotary features",
                found,
                expected,
                why: "at most head_dim",
            });
        }
        check_positions(first, n, self.positions)
    }

    /// Turns rows \[heads · head_dim\], each by the `position` of its number.
    pub(crate) fn rotate_rows(
        &self,
        x: &mut [f32],
        heads: usize,
        head_dim: usize,
        position: impl Fn(usize) -> usize,
    ) -> Result<(), Error> {
        let pairs = self.features / 2;
        if pairs == 0 {
            return Ok(());
        }
        for (row, x) in x.chunks_mut(saturating_product(&[heads, head_dim]).max(1)).enumerate() {
            // All heads of a token turn by the same angles.
            let start = position(row) * pairs;
            let cos = Mat::strided(self.cos.get(start..).unwrap_or_default(), heads, pairs, 0)?;
            let sin = Mat::strided(self.sin.get(start..).unwrap_or_default(), heads, pairs, 0)?;
            rotate(MatMut::strided(x, heads, self.features, head_dim)?, cos, sin, self.pairing)?;
        }
        Ok(())
    }
}

/// t / base^(2i/features), in `f64`.
fn angle(t: usize, i: usize, features: usize, base: f64) -> f64 {
    t as f64 / base.powf((2 * i) as f64 / features as f64)
}

fn check_positions(first: usize, n: usize, table: usize) -> Result<(), Error> {
    let needed = first.saturating_add(n);
    if needed > table { Err(Error::Positions { needed, table }) } else { Ok(()) }
}
