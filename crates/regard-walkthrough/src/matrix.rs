/// A row-major matrix that owns its numbers.
///
/// ```
/// use regard_walkthrough::Matrix;
/// let m = Matrix::from_rows(&[[1.0_f32, 2.0], [3.0, 4.0]]);
/// assert_eq!((m.shape(), m.get(1, 0)), ((2, 2), 3.0));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix<T = f32> {
    rows: usize,
    cols: usize,
    data: Vec<T>,
}

impl<T: Copy> Matrix<T> {
    /// A matrix whose element (i, j) is `f(i, j)`.
    pub fn from_fn(rows: usize, cols: usize, mut f: impl FnMut(usize, usize) -> T) -> Self {
        let data = (0..rows * cols).map(|k| f(k / cols, k % cols)).collect();
        Self { rows, cols, data }
    }

    /// A matrix whose rows follow one another in `data`.
    ///
    /// # Panics
    /// If `data` has another number of elements than rows × columns.
    pub(crate) fn from_vec(rows: usize, cols: usize, data: Vec<T>) -> Self {
        assert_eq!(data.len(), rows * cols, "{rows} rows of {cols} columns");
        Self { rows, cols, data }
    }

    /// A matrix with the given rows.
    pub fn from_rows<const C: usize>(rows: &[[T; C]]) -> Self {
        Self { rows: rows.len(), cols: C, data: rows.as_flattened().to_vec() }
    }

    /// All rows of some matrices of one width, stacked.
    pub(crate) fn stacked(parts: &[&Self]) -> Self {
        let data = parts.iter().flat_map(|p| &p.data).copied().collect();
        Self {
            rows: parts.iter().map(|p| p.rows).sum(),
            cols: parts.first().map_or(0, |p| p.cols),
            data,
        }
    }

    /// (rows, columns).
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Element (row, col).
    ///
    /// # Panics
    /// If there is no such element.
    pub fn get(&self, row: usize, col: usize) -> T {
        self.row(row)[col]
    }

    /// Row `i`.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, i: usize) -> &[T] {
        &self.data[i * self.cols..][..self.cols]
    }

    /// Row `i`, mutably.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row_mut(&mut self, i: usize) -> &mut [T] {
        &mut self.data[i * self.cols..][..self.cols]
    }

    /// `rows` rows, starting at `row`.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn rows_from(&self, row: usize, rows: usize) -> Self {
        let data = self.data[row * self.cols..][..rows * self.cols].to_vec();
        Self { rows, cols: self.cols, data }
    }

    /// `cols` columns, starting at `col`.
    pub(crate) fn columns_from(&self, col: usize, cols: usize) -> Self {
        Self::from_fn(self.rows, cols, |i, j| self.get(i, col + j))
    }

    /// The matrix whose rows are this one's columns.
    pub(crate) fn transposed(&self) -> Self {
        Self::from_fn(self.cols, self.rows, |i, j| self.get(j, i))
    }

    /// All elements, row by row.
    pub fn as_slice(&self) -> &[T] {
        &self.data
    }

    /// All elements, row by row, mutably.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.data
    }

    /// The same matrix with `f` applied to each element.
    pub fn map<U>(&self, f: impl FnMut(T) -> U) -> Matrix<U> {
        Matrix {
            rows: self.rows,
            cols: self.cols,
            data: self.data.iter().copied().map(f).collect(),
        }
    }
}
