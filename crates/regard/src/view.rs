//! Borrowed tensors: heads and sequences. Nothing is copied.

use core::ops::Range;

use bytemuck::Zeroable;
use bytemuck::allocation::try_zeroed_vec;
use regard_kernels::{Mat, prefer_large_pages};

use crate::{Element, Error};

/// `Ok` if `shape` has `found` elements in all.
pub(crate) fn check_elements(
    tensor: &'static str,
    found: usize,
    shape: &[usize],
) -> Result<(), Error> {
    if elements(shape) == Some(found) {
        Ok(())
    } else {
        Err(Error::Elements { tensor, found, shape: shape.to_vec() })
    }
}

/// Zeros for a result of this shape. The shape may be larger than memory, because an input can have any number of rows without
/// elements.
///
/// Fresh pages of the operating system are zero already, and are not written here.
pub(crate) fn zeros<T: Zeroable>(tensor: &'static str, shape: &[usize]) -> Result<Vec<T>, Error> {
    let len = len_of(tensor, shape)?;
    let mut memory =
        try_zeroed_vec(len).map_err(|()| Error::Memory { tensor, shape: shape.to_vec() })?;
    prefer_large_pages(&mut memory);
    Ok(memory)
}

/// The first elements of `memory`, which grows to this shape. They may have any contents.
pub(crate) fn grown<'m>(memory: &'m mut Vec<f32>, shape: &[usize]) -> Result<&'m mut [f32], Error> {
    const TENSOR: &str = "scratch memory";
    let len = len_of(TENSOR, shape)?;
    if memory.len() < len {
        *memory = Vec::new(); // before the new memory is asked for
        *memory = zeros(TENSOR, shape)?;
    }
    Ok(&mut memory[..len])
}

/// The number of elements of a result of this shape.
pub(crate) fn len_of(tensor: &'static str, shape: &[usize]) -> Result<usize, Error> {
    elements(shape).ok_or_else(|| Error::Memory { tensor, shape: shape.to_vec() })
}

/// The number of elements of a shape, if it fits in a `usize`. A shape from a file may be anything.
fn elements(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1_usize, |product, n| product.checked_mul(*n))
}

/// A product, or the largest `usize`. It serves where too large a number does no harm: the stride of an empty tensor, or an
/// amount of work.
pub(crate) fn saturating_product(factors: &[usize]) -> usize {
    factors.iter().fold(1, |product, n| product.saturating_mul(*n))
}

/// Borrowed heads: \[batch, heads, tokens, head_dim\], each head a strided matrix.
///
/// ```
/// use regard::Heads;
/// let data = [0.0; 24];
/// let q = Heads::new("query", &data, [1, 2, 3, 4])?;
/// assert_eq!(q.shape(), [1, 2, 3, 4]);
/// # Ok::<(), regard::Error>(())
/// ```
///
/// The elements are `f32`, `f16` or `bf16` (see [`Element`]).
#[derive(Clone, Copy, Debug)]
pub struct Heads<'a, T = f32> {
    data: &'a [T],
    shape: [usize; 4],
    /// The distances in memory from one batch entry, head and token to the next, in elements.
    strides: [usize; 3],
}

impl<'a, T: Element> Heads<'a, T> {
    /// Dense heads, \[batch, heads, tokens, head_dim\] in memory. `name` is the tensor's name in errors.
    ///
    /// # Errors
    /// [`Error::Elements`] if `data` has another number of elements.
    pub fn new(name: &'static str, data: &'a [T], shape: [usize; 4]) -> Result<Self, Error> {
        check_elements(name, data.len(), &shape)?;
        Ok(Self::dense(data, shape))
    }

    /// Heads over elements that fill the shape.
    pub(crate) fn dense(data: &'a [T], shape: [usize; 4]) -> Self {
        let [_, heads, n, d] = shape;
        let strides = [saturating_product(&[heads, n, d]), saturating_product(&[n, d]), d];
        Self { data, shape, strides }
    }

    /// The heads of activations \[batch, tokens, features\], as a projection returns them: the features of a token are those of
    /// its first head, then those of the next. Nothing is copied. [`join_into`](Self::join_into) is the inverse.
    ///
    /// # Errors
    /// [`Error::Elements`] if `data` has another number of elements, [`Error::Heads`] if the heads do not divide the features.
    ///
    /// ```
    /// use regard::{Attention, Heads, Mask};
    /// let x = [1.0, 10.0, 3.0, 30.0]; // two tokens, of two heads of one number
    /// let x = Heads::split("x", &x, [1, 2, 2], 2)?;
    /// let out = Attention::new().scale(0.0).mask(Mask::CAUSAL).forward(x, x, x)?;
    /// assert_eq!(out, [1.0, 2.0, 10.0, 20.0]); // head by head
    /// assert_eq!(out.join()?, [1.0, 10.0, 2.0, 20.0]); // token by token
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn split(
        name: &'static str,
        data: &'a [T],
        [batch, tokens, features]: [usize; 3],
        heads: usize,
    ) -> Result<Self, Error> {
        check_elements(name, data.len(), &[batch, tokens, features])?;
        if heads == 0 || !features.is_multiple_of(heads) {
            return Err(Error::Heads { heads, of: name, what: "features", into: features });
        }
        let d = features / heads;
        let strides = [saturating_product(&[tokens, features]), d, features];
        Ok(Self { data, shape: [batch, heads, tokens, d], strides })
    }

    /// Copies the elements into `out` \[batch, tokens, heads · head_dim\]. The heads of each token lie side by side, as the
    /// projection after an attention needs them. This is the inverse of [`split`](Self::split).
    ///
    /// # Errors
    /// [`Error::Elements`] if `out` has another number of elements.
    pub fn join_into(&self, out: &mut [T]) -> Result<(), Error> {
        let [batch, heads, tokens, d] = self.shape;
        check_elements("the joined heads", out.len(), &[batch, tokens, heads, d])?;
        self.join_rows(0, out);
        Ok(())
    }

    /// Fills `out` \[rows, heads · head_dim\] with consecutive tokens of the batch, from number `first` on.
    pub(crate) fn join_rows(&self, first: usize, out: &mut [T]) {
        let [_, heads, n, d] = self.shape;
        let [entry_stride, head_stride, row_stride] = self.strides;
        for (row, out) in out.chunks_exact_mut(saturating_product(&[heads, d]).max(1)).enumerate() {
            let (entry, token) = ((first + row) / n.max(1), (first + row) % n.max(1));
            for (head, out) in out.chunks_exact_mut(d.max(1)).enumerate() {
                let start = entry * entry_stride + head * head_stride + token * row_stride;
                out.copy_from_slice(&self.data[start..][..d]);
            }
        }
    }

    /// Heads with gaps, or with axes in another order. `strides` are the elements from one batch entry to the next, from one
    /// head to the next, and from one token to the next. The features of a token lie side by side. A stride of 0 repeats the
    /// elements along its axis.
    ///
    /// # Errors
    /// [`Error::Elements`] if `data` ends before the last token does.
    ///
    /// ```
    /// use regard::{Attention, Heads};
    /// let cache = [1.0, 3.0, 0.0, 5.0, 7.0, 0.0]; // two heads of one number, with room for three tokens each
    /// let x = Heads::strided("x", &cache, [1, 2, 2, 1], [6, 3, 1])?; // two tokens are there
    /// let out = Attention::new().scale(0.0).forward(x, x, x)?;
    /// assert_eq!(out, [2.0, 2.0, 6.0, 6.0]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn strided(
        name: &'static str,
        data: &'a [T],
        shape: [usize; 4],
        strides: [usize; 3],
    ) -> Result<Self, Error> {
        let [entries, heads, tokens, d] = shape;
        // The end of the elements: the offsets of the last entry, head and token, plus the features.
        let last = [entries, heads, tokens]
            .into_iter()
            .zip(strides)
            .try_fold(d, |end, (n, by)| n.checked_sub(1)?.checked_mul(by)?.checked_add(end));
        let fits = shape.contains(&0) || last.is_some_and(|end| end <= data.len());
        if !fits {
            return Err(Error::Elements { tensor: name, found: data.len(), shape: shape.to_vec() });
        }
        Ok(Self { data, shape, strides })
    }

    /// A range of `tokens` out of each head's `capacity`: \[batch, heads, capacity, head_dim\] in memory.
    pub(crate) fn part(
        data: &'a [T],
        [batch, heads, capacity, d]: [usize; 4],
        tokens: Range<usize>,
    ) -> Self {
        let strides =
            [saturating_product(&[heads, capacity, d]), saturating_product(&[capacity, d]), d];
        let data = &data[saturating_product(&[tokens.start, d]).min(data.len())..];
        Self { data, shape: [batch, heads, tokens.len(), d], strides }
    }

    /// \[batch, heads, tokens, head_dim\].
    #[must_use]
    pub fn shape(&self) -> [usize; 4] {
        self.shape
    }

    /// The features of one token, by its \[batch entry, head, token\]; `None` if the shape has no such token.
    ///
    /// ```
    /// use regard::Heads;
    /// let x = Heads::new("x", &[1.0, 2.0, 3.0, 4.0], [1, 1, 2, 2])?;
    /// assert_eq!((x.token([0, 0, 1]), x.token([0, 1, 0])), (Some(&[3.0, 4.0][..]), None));
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[must_use]
    pub fn token(&self, place: [usize; 3]) -> Option<&'a [T]> {
        let [_, _, _, d] = self.shape;
        let inside = place.iter().zip(self.shape).all(|(at, n)| *at < n);
        let start = inside.then(|| place.iter().zip(self.strides).map(|(at, by)| at * by).sum())?;
        self.data.get(start..)?.get(..d)
    }

    /// The matrix \[tokens, head_dim\] of one head.
    pub(crate) fn head(&self, entry: usize, head: usize) -> Result<Mat<'a, T>, Error> {
        let [_, _, n, d] = self.shape;
        let [entry_stride, head_stride, row_stride] = self.strides;
        // A head without elements may begin anywhere.
        let start = saturating_product(&[entry, entry_stride])
            .saturating_add(saturating_product(&[head, head_stride]));
        debug_assert!(n == 0 || d == 0 || start < self.data.len(), "head {head} of entry {entry}");
        let data = &self.data[start.min(self.data.len())..];
        Ok(Mat::strided(data, n, d, row_stride)?)
    }
}

/// Borrowed sequences of equal length: \[batch, tokens, features\].
///
/// ```
/// use regard::Sequences;
/// let x = [0.0; 12];
/// assert_eq!(Sequences::new("x", &x, [1, 3, 4])?.shape(), [1, 3, 4]);
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Sequences<'a> {
    data: &'a [f32],
    shape: [usize; 3],
}

impl<'a> Sequences<'a> {
    /// Dense sequences, \[batch, tokens, features\] in memory. `name` is the tensor's name in errors.
    ///
    /// # Errors
    /// [`Error::Elements`] if `data` has another number of elements.
    pub fn new(name: &'static str, data: &'a [f32], shape: [usize; 3]) -> Result<Self, Error> {
        check_elements(name, data.len(), &shape)?;
        Ok(Self::dense(data, shape))
    }

    /// Sequences over elements that fill the shape.
    pub(crate) fn dense(data: &'a [f32], shape: [usize; 3]) -> Self {
        Self { data, shape }
    }

    /// \[batch, tokens, features\].
    #[must_use]
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    pub(crate) fn data(&self) -> &'a [f32] {
        self.data
    }

    /// All tokens of all sequences as the rows of one matrix.
    pub(crate) fn rows(&self) -> Result<Mat<'a>, Error> {
        let [batch, n, d] = self.shape;
        Ok(Mat::new(self.data, saturating_product(&[batch, n]), d)?)
    }
}
