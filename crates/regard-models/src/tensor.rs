use core::fmt;

use bytemuck::Zeroable;
use bytemuck::allocation::try_zeroed_vec;
use half::slice::HalfFloatSliceExt as _;
use half::{bf16, f16};
use regard::{Linear, Quantization};
use regard_kernels::{MatMut, Quantized, prefer_large_pages};

/// The type in which a file stores a tensor's numbers.
///
/// Its name is that in GGUF: `F32`, `F16`, `BF16`, `Q8_0`, `Q4_K` and so on.
///
/// ```
/// use regard_models::NumberFormat;
/// assert_eq!(NumberFormat::Bf16.to_string(), "BF16");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NumberFormat {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of a binary32.
    Bf16,
    /// Blocks of quantized numbers, as GGUF has them.
    Blocks(Quantization),
}

impl NumberFormat {
    /// The format of this name in files, if this crate can widen its numbers to `f32`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let blocks = Quantization::ALL.iter().copied().map(Self::Blocks);
        let mut all = [Self::F32, Self::F16, Self::Bf16].into_iter().chain(blocks);
        all.find(|format| format.to_string() == name)
    }

    /// The names of all formats that can be read.
    pub const KNOWN: &str = "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL and MXFP4";

    /// The bytes of a number that is not in a block.
    pub(crate) fn number_bytes(self) -> Option<usize> {
        match self {
            Self::F32 => Some(4),
            Self::F16 | Self::Bf16 => Some(2),
            Self::Blocks(_) => None,
        }
    }

    /// The numbers in a block, and its bytes.
    pub(crate) fn block(self) -> (usize, usize) {
        match self {
            Self::Blocks(format) => format.block(),
            _ => (1, self.number_bytes().unwrap_or_default()),
        }
    }

    /// The bytes of a row of `numbers`, if it is a whole number of blocks.
    pub(crate) fn row_bytes(self, numbers: usize) -> Option<usize> {
        let (block, bytes) = self.block();
        numbers.is_multiple_of(block).then_some(numbers / block)?.checked_mul(bytes)
    }
}

impl fmt::Display for NumberFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::F32 => f.write_str("F32"),
            Self::F16 => f.write_str("F16"),
            Self::Bf16 => f.write_str("BF16"),
            Self::Blocks(format) => format.fmt(f),
        }
    }
}

/// A tensor of a model, row-major, kept in the type of its file.
///
/// The last dimension of the shape is the columns, and the product of the others is the number of rows. A vector is one row.
#[derive(Clone, Debug)]
pub struct Tensor {
    shape: Vec<usize>,
    data: Data,
}

#[derive(Clone, Debug)]
enum Data {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
    /// Rows are whole blocks.
    Blocks(Quantization, Vec<u8>),
}

impl Tensor {
    /// A tensor whose bytes `fill` writes in the order of files, little-endian. `None` if the shape is too large for memory, or
    /// if a row is not a whole number of blocks.
    pub(crate) fn filled<E>(
        format: NumberFormat,
        shape: Vec<usize>,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Option<Self>, E> {
        let cols = shape.last().copied().unwrap_or(1);
        let numbers = shape.iter().try_fold(1_usize, |product, n| product.checked_mul(*n));
        let Some(numbers) = numbers.filter(|_| format.row_bytes(cols).is_some()) else {
            return Ok(None);
        };
        let data = match format {
            NumberFormat::F32 => zeros(numbers).map(Data::F32),
            NumberFormat::F16 => zeros(numbers).map(Data::F16),
            NumberFormat::Bf16 => zeros(numbers).map(Data::Bf16),
            NumberFormat::Blocks(kind) => {
                format.row_bytes(numbers).and_then(zeros).map(|bytes| Data::Blocks(kind, bytes))
            }
        };
        let Some(mut data) = data else { return Ok(None) };
        let bytes = match &mut data {
            Data::F32(x) => bytemuck::cast_slice_mut(x),
            Data::F16(x) => bytemuck::cast_slice_mut(x),
            Data::Bf16(x) => bytemuck::cast_slice_mut(x),
            Data::Blocks(_, x) => x,
        };
        fill(bytes)?;
        if let (Some(size), true) = (format.number_bytes(), cfg!(target_endian = "big")) {
            bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
        Ok(Some(Self { shape, data }))
    }

    /// A tensor in the place of one of this shape that is not read: a matrix without columns, and zeros otherwise.
    pub(crate) fn empty(format: NumberFormat, shape: &[usize]) -> Option<Self> {
        let shape = match shape {
            [rows, _] => vec![*rows, 0],
            shape => shape.to_vec(),
        };
        Self::filled(format, shape, |_| Ok::<_, core::convert::Infallible>(())).ok().flatten()
    }

    /// A tensor of these numbers, as many as the shape has.
    pub(crate) fn of_numbers(numbers: Vec<f32>, shape: Vec<usize>) -> Self {
        debug_assert_eq!(numbers.len(), shape.iter().product::<usize>());
        Self { shape, data: Data::F32(numbers) }
    }

    /// The shape, the outermost dimension first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The type in which the numbers are kept.
    pub fn format(&self) -> NumberFormat {
        match &self.data {
            Data::F32(_) => NumberFormat::F32,
            Data::F16(_) => NumberFormat::F16,
            Data::Bf16(_) => NumberFormat::Bf16,
            Data::Blocks(kind, _) => NumberFormat::Blocks(*kind),
        }
    }

    /// The number of columns: the last dimension of the shape.
    pub fn cols(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// The number of rows: the product of all dimensions but the last.
    pub fn rows(&self) -> usize {
        self.shape.iter().rev().skip(1).product()
    }

    /// The bytes that the numbers take in memory, which are as many as in the file.
    pub fn bytes(&self) -> usize {
        self.format().row_bytes(self.rows() * self.cols()).unwrap_or_default()
    }

    /// Whether another tensor has the same shape and numbers.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        let [mut row, mut others] = [vec![0.0; self.cols()], vec![0.0; self.cols()]];
        self.shape == other.shape
            && (0..self.rows()).all(|i| {
                self.widen(i, &mut row);
                other.widen(i, &mut others);
                row == others
            })
    }

    /// Consecutive rows from `first` on, widened to `f32`: as many as fill `out`, which must have whole rows.
    ///
    /// # Panics
    /// If there are fewer rows.
    pub fn widen(&self, first: usize, out: &mut [f32]) {
        let (start, end) = (first * self.cols(), first * self.cols() + out.len());
        match &self.data {
            Data::F32(x) => out.copy_from_slice(&x[start..end]),
            Data::F16(x) => x[start..end].convert_to_f32_slice(out),
            Data::Bf16(x) => x[start..end].convert_to_f32_slice(out),
            Data::Blocks(kind, bytes) => {
                let (block, size) = kind.block();
                let bytes = &bytes[start / block * size..end / block * size];
                let (rows, cols) = (out.len() / self.cols().max(1), self.cols());
                let widened = Quantized::new(bytes, *kind, rows, cols)
                    .and_then(|rows_of| rows_of.widen(MatMut::new(out, rows, cols)?));
                debug_assert!(widened.is_ok(), "rows of whole blocks widen: {widened:?}");
            }
        }
    }

    /// The same numbers in another shape: with the same rows and columns, or with other columns if the numbers are not in
    /// blocks.
    pub(crate) fn reshaped(mut self, shape: Vec<usize>) -> Self {
        debug_assert_eq!(
            self.shape.iter().product::<usize>(),
            shape.iter().product::<usize>(),
            "as many numbers"
        );
        self.shape = shape;
        self
    }

    /// A matrix of these rows, in this order. `None` if memory has no room for it.
    pub(crate) fn select_rows(&self, rows: &[usize]) -> Option<Self> {
        let cols = self.cols();
        let data = match &self.data {
            Data::F32(x) => Data::F32(select(x, rows, cols)?),
            Data::F16(x) => Data::F16(select(x, rows, cols)?),
            Data::Bf16(x) => Data::Bf16(select(x, rows, cols)?),
            Data::Blocks(kind, x) => {
                Data::Blocks(*kind, select(x, rows, self.format().row_bytes(cols)?)?)
            }
        };
        Some(Self { shape: vec![rows.len(), cols], data })
    }

    /// A matrix of these columns, in this order. `None` if memory has no room for it, or if the numbers are in blocks.
    pub(crate) fn select_columns(&self, columns: &[usize]) -> Option<Self> {
        let (rows, cols) = (self.rows(), self.cols());
        let data = match &self.data {
            Data::F32(x) => Data::F32(columns_of(x, columns, cols)?),
            Data::F16(x) => Data::F16(columns_of(x, columns, cols)?),
            Data::Bf16(x) => Data::Bf16(columns_of(x, columns, cols)?),
            Data::Blocks(..) => return None,
        };
        Some(Self { shape: vec![rows, columns.len()], data })
    }

    /// The linear layer with this weight \[outputs, inputs\], or \[inputs, outputs\] if `by_columns`. It keeps the type.
    pub(crate) fn into_layer(self, by_columns: bool) -> Result<Linear, regard::Error> {
        let shape = [self.rows(), self.cols()];
        match self.data {
            Data::F32(x) if by_columns => Linear::from_conv1d(x, shape),
            Data::F16(x) if by_columns => Linear::from_conv1d(x, shape),
            Data::Bf16(x) if by_columns => Linear::from_conv1d(x, shape),
            Data::F32(x) => Linear::from_pytorch(x, shape),
            Data::F16(x) => Linear::from_pytorch(x, shape),
            Data::Bf16(x) => Linear::from_pytorch(x, shape),
            Data::Blocks(kind, bytes) => Linear::quantized(bytes, kind, shape),
        }
    }

    /// All numbers, widened to `f32`.
    pub fn to_f32(&self) -> Vec<f32> {
        let mut out = vec![0.0; self.rows() * self.cols()];
        self.widen(0, &mut out);
        out
    }
}

/// Zeros, if memory has room for them. Fresh pages of the operating system are zero already, and are not written here.
fn zeros<T: Zeroable>(len: usize) -> Option<Vec<T>> {
    let mut memory = try_zeroed_vec(len).ok()?;
    prefer_large_pages(&mut memory);
    Some(memory)
}

fn select<T: Copy + Zeroable>(from: &[T], rows: &[usize], row_len: usize) -> Option<Vec<T>> {
    let mut to = zeros(rows.len().checked_mul(row_len)?)?;
    for (to, row) in to.chunks_exact_mut(row_len.max(1)).zip(rows) {
        to.copy_from_slice(&from[row * row_len..(row + 1) * row_len]);
    }
    Some(to)
}

fn columns_of<T: Copy + Zeroable>(from: &[T], columns: &[usize], row_len: usize) -> Option<Vec<T>> {
    let rows = from.chunks_exact(row_len.max(1));
    let mut to = zeros(rows.len().checked_mul(columns.len())?)?;
    for (to, row) in to.chunks_exact_mut(columns.len().max(1)).zip(rows) {
        to.iter_mut().zip(columns).for_each(|(to, column)| *to = row[*column]);
    }
    Some(to)
}
