//! Borrowed, strided, row-major matrices. Nothing here can panic: a row or block that does not exist is empty.

use crate::Error;
use crate::arch::shared;
use crate::invariant::Promised as _;

/// A borrowed row-major matrix: row `i` is `data[i·stride ..][..cols]`.
///
/// Its elements are `f32` for numbers, `i8` for quantized numbers and `bool` for masks. A plain array is a matrix too:
///
/// ```
/// use regard_kernels::Mat;
/// let x = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
/// let m = Mat::from(&x);
/// assert_eq!(m.shape(), (2, 3));
/// assert_eq!(m.row(1), &[4.0, 5.0, 6.0]);
/// // The second of two heads of one column each, in a [2, 2] activation:
/// let head = Mat::strided(&[1.0, 2.0, 3.0, 4.0][1..], 2, 1, 2)?;
/// assert_eq!(head.row(1), &[4.0]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
#[derive(Debug)]
pub struct Mat<'a, T = f32> {
    data: &'a [T],
    rows: usize,
    cols: usize,
    stride: usize,
}

impl<T> Clone for Mat<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Mat<'_, T> {}

/// Whether a matrix of `rows` × `cols` with this `stride` fits in `len` elements. This is the invariant of every view.
const fn fits(rows: usize, cols: usize, stride: usize, len: usize) -> bool {
    if rows == 0 || cols == 0 {
        return true;
    }
    match (rows - 1).checked_mul(stride) {
        Some(start) => match start.checked_add(cols) {
            Some(end) => end <= len,
            None => false,
        },
        None => false,
    }
}

impl<'a, T> Mat<'a, T> {
    /// A dense `rows` × `cols` matrix over `data`.
    ///
    /// # Errors
    /// [`Error::Slice`] if `data` has fewer than `rows · cols` elements.
    pub const fn new(data: &'a [T], rows: usize, cols: usize) -> Result<Self, Error> {
        Self::strided(data, rows, cols, cols)
    }

    /// A `rows` × `cols` matrix whose rows start `stride` elements apart. A stride of 0 repeats one row.
    ///
    /// # Errors
    /// [`Error::Slice`] if the last row ends after the end of `data`.
    pub const fn strided(
        data: &'a [T],
        rows: usize,
        cols: usize,
        stride: usize,
    ) -> Result<Self, Error> {
        if fits(rows, cols, stride, data.len()) {
            Ok(Self { data, rows, cols, stride })
        } else {
            Err(Error::Slice { rows, cols, stride, len: data.len() })
        }
    }

    /// (rows, columns).
    #[must_use]
    pub const fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// The number of rows.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    #[must_use]
    pub const fn cols(&self) -> usize {
        self.cols
    }

    /// Elements from the start of one row to the start of the next.
    #[must_use]
    pub const fn stride(&self) -> usize {
        self.stride
    }

    pub(crate) const fn of_row(data: &'a [T]) -> Self {
        Self { data, rows: 1, cols: data.len(), stride: data.len() }
    }

    pub(crate) const fn data(&self) -> &'a [T] {
        self.data
    }

    /// Row `i`, or an empty slice where there is none.
    #[must_use]
    #[inline]
    pub fn row(&self, i: usize) -> &'a [T] {
        row_of(*self, i)
    }

    /// The elements that exist of the block of `rows` rows from `row` on and `cols` columns from `col` on.
    #[must_use]
    #[inline]
    pub fn block(&self, row: usize, rows: usize, col: usize, cols: usize) -> Self {
        block_of(*self, row, rows, col, cols)
    }

    /// The rows from `row` on, at most `rows` of them.
    #[must_use]
    pub fn rows_from(&self, row: usize, rows: usize) -> Self {
        self.block(row, rows, 0, self.cols)
    }
}

shared! { inline,
/// [`Mat::row`]. On bare metal it is a function of its own, because the code of each call would add up. It takes the view by
/// value, so that the view can stay in registers and the compiler keeps what it knows of it.
fn row_of<T>(m: Mat<'_, T>, i: usize) -> &[T] {
    if i >= m.rows || m.cols == 0 {
        return &[];
    }
    m.data.get(i * m.stride..).and_then(|d| d.get(..m.cols)).promised()
}
}

shared! { inline,
/// [`Mat::block`], a function of its own like [`row_of`].
fn block_of<T>(m: Mat<'_, T>, row: usize, rows: usize, col: usize, cols: usize) -> Mat<'_, T> {
    let rows = rows.min(m.rows.saturating_sub(row));
    let cols = cols.min(m.cols.saturating_sub(col));
    if rows == 0 || cols == 0 {
        // The stride is 0, because a matrix without columns may have any stride.
        return Mat { data: &[], rows, cols, stride: 0 };
    }
    let data = m.data.get(row * m.stride + col..).promised();
    Mat { data, rows, cols, stride: m.stride }
}
}

impl<'a, T, const R: usize, const C: usize> From<&'a [[T; C]; R]> for Mat<'a, T> {
    fn from(rows: &'a [[T; C]; R]) -> Self {
        Self { data: rows.as_flattened(), rows: R, cols: C, stride: C }
    }
}

/// A mutable row-major matrix, of `f32` or `i8`: row `i` is `data[i·stride ..][..cols]`.
///
/// ```
/// use regard_kernels::MatMut;
/// let mut data = [0.0; 6];
/// let mut m = MatMut::new(&mut data, 2, 3)?;
/// m.row_mut(1).fill(1.0);
/// assert_eq!(data, [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
#[derive(Debug)]
pub struct MatMut<'a, T = f32> {
    data: &'a mut [T],
    rows: usize,
    cols: usize,
    stride: usize,
}

impl<'a, T> MatMut<'a, T> {
    /// A dense `rows` × `cols` matrix over `data`.
    ///
    /// # Errors
    /// [`Error::Slice`] if `data` has fewer than `rows · cols` elements.
    pub const fn new(data: &'a mut [T], rows: usize, cols: usize) -> Result<Self, Error> {
        Self::strided(data, rows, cols, cols)
    }

    /// A `rows` × `cols` matrix whose rows start `stride` elements apart.
    ///
    /// # Errors
    /// [`Error::Slice`] if the last row ends after the end of `data`, or if rows would overlap.
    pub const fn strided(
        data: &'a mut [T],
        rows: usize,
        cols: usize,
        stride: usize,
    ) -> Result<Self, Error> {
        if fits(rows, cols, stride, data.len()) && (stride >= cols || rows <= 1) {
            Ok(Self { data, rows, cols, stride })
        } else {
            Err(Error::Slice { rows, cols, stride, len: data.len() })
        }
    }

    pub(crate) const fn of_row(data: &'a mut [T]) -> Self {
        let cols = data.len();
        Self { data, rows: 1, cols, stride: cols }
    }

    /// (rows, columns).
    #[must_use]
    pub const fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// The number of rows.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    #[must_use]
    pub const fn cols(&self) -> usize {
        self.cols
    }

    /// The number of rows that have columns, over which a loop must run.
    pub(crate) const fn filled_rows(&self) -> usize {
        if self.cols == 0 { 0 } else { self.rows }
    }

    /// The same matrix, borrowed for a shorter time. It serves for a call that takes the matrix by value, if the caller needs
    /// the matrix afterwards.
    ///
    /// ```
    /// use regard_kernels::{Mat, MatMut, add_row, matmul};
    /// let mut out = [[0.0]];
    /// let mut out = MatMut::from(&mut out);
    /// matmul(Mat::from(&[[2.0]]), Mat::from(&[[3.0]]), out.reborrow())?;
    /// add_row(out.reborrow(), &[1.0])?;
    /// assert_eq!(out.row_mut(0), [7.0]);
    /// # Ok::<(), regard_kernels::Error>(())
    /// ```
    #[inline]
    pub const fn reborrow(&mut self) -> MatMut<'_, T> {
        MatMut { data: self.data, rows: self.rows, cols: self.cols, stride: self.stride }
    }

    /// The same matrix, for reading.
    pub(crate) const fn view(&self) -> Mat<'_, T> {
        Mat { data: self.data, rows: self.rows, cols: self.cols, stride: self.stride }
    }

    /// The rows from `row` on.
    #[inline]
    pub(crate) fn rows_from(&mut self, row: usize) -> MatMut<'_, T> {
        let (rows, cols, stride) = (self.rows.saturating_sub(row), self.cols, self.stride);
        MatMut { data: data_from(self.data, (rows, cols), stride, row), rows, cols, stride }
    }

    /// Rows `i` to `i + R − 1`. A row that does not exist is an empty slice.
    #[inline(always)]
    pub(crate) fn rows_mut<const R: usize>(&mut self, i: usize) -> [&mut [T]; R] {
        let MatMut { mut data, rows: count, cols, stride } = self.rows_from(i);
        let mut rows: [&mut [T]; R] = core::array::from_fn(|_| Default::default());
        for row in rows.iter_mut().take(count) {
            let (this, rest) = data.split_at_mut(stride.min(data.len()));
            *row = this.get_mut(..cols).promised();
            data = rest;
        }
        rows
    }

    pub(crate) const fn stride(&self) -> usize {
        self.stride
    }

    pub(crate) const fn data_mut(&mut self) -> &mut [T] {
        self.data
    }

    /// Row `i`, or an empty slice where there is none.
    #[inline]
    pub fn row_mut(&mut self, i: usize) -> &mut [T] {
        row_of_mut(self.data, (self.rows, self.cols), self.stride, i)
    }
}

shared! { inline,
/// [`MatMut::row_mut`], a function of its own like [`row_of`].
fn row_of_mut<T>(
    data: &mut [T],
    (rows, cols): (usize, usize),
    stride: usize,
    i: usize,
) -> &mut [T] {
    if i >= rows || cols == 0 {
        return &mut [];
    }
    data.get_mut(i * stride..).and_then(|d| d.get_mut(..cols)).promised()
}
}

shared! { inline,
/// The data of [`MatMut::rows_from`], a function of its own like [`row_of`].
fn data_from<T>(
    data: &mut [T],
    (rows, cols): (usize, usize),
    stride: usize,
    row: usize,
) -> &mut [T] {
    if rows == 0 || cols == 0 {
        return &mut [];
    }
    data.get_mut(row * stride..).promised()
}
}

impl<'a, T, const R: usize, const C: usize> From<&'a mut [[T; C]; R]> for MatMut<'a, T> {
    fn from(rows: &'a mut [[T; C]; R]) -> Self {
        Self { data: rows.as_flattened_mut(), rows: R, cols: C, stride: C }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_that_does_not_fit_is_refused_even_where_the_size_overflows() {
        let data = [0.0; 6];
        assert!(Mat::new(&data, 2, 3).is_ok());
        assert_eq!(
            Mat::new(&data, 2, 4).unwrap_err(),
            Error::Slice { rows: 2, cols: 4, stride: 4, len: 6 }
        );
        assert!(Mat::strided(&data, usize::MAX, 2, usize::MAX).is_err());
        assert!(Mat::strided(&data, 3, usize::MAX, 1).is_err());
        assert!(MatMut::strided(&mut [0.0; 6], 2, 3, 1).is_err(), "overlapping rows");
    }

    #[test]
    fn blocks_are_clamped_to_what_exists() {
        let data: [f32; 12] = core::array::from_fn(|i| i as f32);
        let m = Mat::new(&data, 3, 4).unwrap();
        assert_eq!(m.block(1, 9, 2, 9).shape(), (2, 2));
        assert_eq!(m.block(1, 9, 2, 9).row(1), &[10.0, 11.0]);
        assert_eq!(m.block(3, 1, 0, 4).shape(), (0, 4));
        assert_eq!(m.row(3), &[] as &[f32]);
        let no_columns = Mat::<f32>::strided(&[], 3, 0, usize::MAX).unwrap();
        assert_eq!(no_columns.row(2), &[] as &[f32], "its start would overflow");
        let mut none = [0.0; 0];
        assert!(MatMut::strided(&mut none, 3, 0, usize::MAX).unwrap().row_mut(2).is_empty());
    }

    #[test]
    fn several_rows_are_borrowed_at_once() {
        let mut data: [f32; 11] = core::array::from_fn(|i| i as f32);
        let mut m = MatMut::strided(&mut data, 3, 3, 4).unwrap();
        assert_eq!(m.rows_mut::<2>(1), [[4.0, 5.0, 6.0], [8.0, 9.0, 10.0]]);
        let [last, none] = m.rows_mut(2);
        assert!(last == [8.0, 9.0, 10.0] && none.is_empty());
        assert!(m.rows_mut::<1>(3)[0].is_empty());
    }
}
