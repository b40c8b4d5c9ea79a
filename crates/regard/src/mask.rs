use core::ops::Range;
use std::borrow::Cow;

use regard_kernels::{Mask, Mat};

use crate::error::{Error, check_shape};
use crate::view::{check_elements, len_of};

/// The numbers of a [`MaskTensor`], where an example is.
#[derive(Clone, Copy, Debug)]
pub enum MaskValues<'a> {
    /// `true` where a key may be seen.
    Allowed(&'a [bool]),
    /// Added to the scores; −∞ hides the key.
    Bias(&'a [f32]),
}

/// A mask of up to four dimensions, broadcast from the right to \[batch, heads, queries, keys\] as in NumPy.
///
/// With [key lengths](crate::Attention::key_lengths) it may end where the longest of them does, as in ONNX's `Attention`: the
/// keys behind it are padding. Without them a mask of fewer keys than there are is an error.
///
/// ```
/// use regard::{MaskTensor, MaskValues};
/// use regard::{Attention, Heads, Stage};
/// let x = Heads::new("x", &[0.0; 4], [1, 2, 2, 1])?; // two heads, two tokens
/// let weights = |mask| Attention::new().mask(mask).scores(Stage::Weights, x, x);
/// // The second key is hidden, for every query of every head:
/// let mask = MaskTensor::new(MaskValues::Allowed(&[true, false]), &[2])?;
/// assert_eq!(weights(mask)?, [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
/// // Nothing is, but for the second key of the second head: [heads, queries, keys], of which the queries repeat.
/// let mask = MaskTensor::new(MaskValues::Bias(&[0.0, 0.0, 0.0, f32::NEG_INFINITY]), &[2, 1, 2])?;
/// assert_eq!(weights(mask)?, [0.5, 0.5, 0.5, 0.5, 1.0, 0.0, 1.0, 0.0]);
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MaskTensor<'a> {
    values: MaskValues<'a>,
    shape: [usize; 4],
}

impl<'a> MaskTensor<'a> {
    /// A dense mask of the given shape.
    ///
    /// # Errors
    /// [`Error::Elements`] if the values do not fill the shape, [`Error::Rank`] if it has more than four dimensions.
    pub fn new(values: MaskValues<'a>, shape: &[usize]) -> Result<Self, Error> {
        let found = match values {
            MaskValues::Allowed(x) => x.len(),
            MaskValues::Bias(x) => x.len(),
        };
        let mut padded = [1; 4];
        let Some(missing) = padded.len().checked_sub(shape.len()) else {
            return Err(Error::Rank {
                tensor: "the mask",
                found: shape.to_vec(),
                most: padded.len(),
            });
        };
        padded[missing..].copy_from_slice(shape);
        check_elements("the mask", found, shape)?;
        Ok(Self { values, shape: padded })
    }

    /// The mask made ready for \[batch, heads, queries, keys\], of which nobody sees more than the first `longest` keys.
    pub(crate) fn broadcast(
        &self,
        full: [usize; 4],
        longest: usize,
    ) -> Result<Broadcast<'a>, Error> {
        // A dimension fits if it is the full one, or 1 and repeats.
        let mut fitting = full;
        for (fitting, n) in fitting.iter_mut().zip(self.shape) {
            *fitting = if n == 1 { 1 } else { *fitting };
        }
        let [batch, heads, rows, given_keys] = self.shape;
        let keys = full[3];
        if (longest..keys).contains(&given_keys) {
            fitting[3] = given_keys;
        }
        check_shape(
            "the mask",
            &self.shape,
            &fitting,
            "broadcast to [batch, heads, queries, keys]",
        )?;
        let shape = [batch, heads, rows, keys];
        let values = match self.values {
            MaskValues::Allowed(x) => Extended::Allowed(extend_rows(x, given_keys, shape, false)?),
            MaskValues::Bias(x) => {
                Extended::Bias(extend_rows(x, given_keys, shape, f32::NEG_INFINITY)?)
            }
        };
        Ok(Broadcast { shape, given_keys, values })
    }
}

/// Rows of all keys: a row of one value repeats it, because a view's rows may repeat and its columns may not; a row that is too
/// short has `hidden` at its end.
fn extend_rows<T: Copy>(
    values: &[T],
    given: usize,
    shape: [usize; 4],
    hidden: T,
) -> Result<Cow<'_, [T]>, Error> {
    let [_, _, _, keys] = shape;
    if given == keys {
        return Ok(Cow::Borrowed(values));
    }
    let mut extended = Vec::new();
    let len = len_of("the mask", &shape)?;
    extended
        .try_reserve_exact(len)
        .map_err(|_e| Error::Memory { tensor: "the mask", shape: shape.to_vec() })?;
    for row in values.chunks_exact(given.max(1)) {
        if let [x] = row {
            extended.resize(extended.len() + keys, *x);
        } else {
            extended.extend_from_slice(row);
            extended.resize(extended.len() + keys - given, hidden);
        }
    }
    extended.resize(len, hidden); // rows of which nothing is given
    Ok(Cow::Owned(extended))
}

/// A mask whose last dimension is the number of keys; the others are full, or 1 and repeat.
pub(crate) struct Broadcast<'a> {
    shape: [usize; 4],
    /// The last dimension as it was given: 1 if it repeats, or less than the keys.
    given_keys: usize,
    values: Extended<'a>,
}

/// [`MaskValues`] with a value for each key.
enum Extended<'a> {
    Allowed(Cow<'a, [bool]>),
    Bias(Cow<'a, [f32]>),
}

impl Broadcast<'_> {
    /// `mask` with this one's matrix \[n_q, keys\] for one head.
    pub(crate) fn add_to<'m>(
        &'m self,
        mask: Mask<'m>,
        entry: usize,
        head: usize,
        n_q: usize,
    ) -> Result<Mask<'m>, Error> {
        Ok(match &self.values {
            Extended::Allowed(values) => mask.allowed(self.matrix(values, entry, head, n_q)?),
            Extended::Bias(values) => mask.bias(self.matrix(values, entry, head, n_q)?),
        })
    }

    /// The shape that an additive mask was given in, padded to four dimensions.
    pub(crate) fn bias_shape(&self) -> Option<[usize; 4]> {
        let [batch, heads, rows, _] = self.shape;
        match &self.values {
            Extended::Allowed(_) => None,
            Extended::Bias(_) => Some([batch, heads, rows, self.given_keys]),
        }
    }

    /// Adds the gradient \[rows, keys\] of one head's scores, from query `first` on, to that of the mask.
    pub(crate) fn add_to_gradient(
        &self,
        sum: &mut [f32],
        (entry, head): (usize, usize),
        first: usize,
        keys: Range<usize>,
        d_scores: &[f32],
    ) {
        let [batch, heads, rows, _] = self.shape;
        let (entry, head) = (if batch == 1 { 0 } else { entry }, if heads == 1 { 0 } else { head });
        for (i, d_scores) in d_scores.chunks_exact(keys.len().max(1)).enumerate() {
            let row = if rows == 1 { 0 } else { first + i };
            let start = ((entry * heads + head) * rows + row) * self.given_keys;
            let sum = sum.get_mut(start..start + self.given_keys).unwrap_or_default();
            if let [sum] = sum {
                *sum += d_scores.iter().sum::<f32>();
            } else {
                sum.iter_mut().skip(keys.start).zip(d_scores).for_each(|(sum, d)| *sum += d);
            }
        }
    }

    fn matrix<'m, T>(
        &self,
        values: &'m [T],
        entry: usize,
        head: usize,
        n_q: usize,
    ) -> Result<Mat<'m, T>, Error> {
        let [batch, heads, rows, keys] = self.shape;
        let entry = if batch == 1 { 0 } else { entry };
        let head = if heads == 1 { 0 } else { head };
        let start = (entry * heads + head) * rows * keys;
        let stride = if rows == 1 { 0 } else { keys };
        Ok(Mat::strided(values.get(start..).unwrap_or_default(), n_q, keys, stride)?)
    }
}
