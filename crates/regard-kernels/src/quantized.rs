//! Products with quantized weights, which are read from memory once and decoded in registers.

use core::marker::PhantomData;

use crate::blocks::{Block, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0, Quantization};
use crate::error::{Error, check_len, check_shape};
use crate::simd::{Kernel, LANES, Panel, Simd, dispatch};
use crate::{Mat, MatMut};

/// A quantized matrix W \[rows, columns\], whose rows are whole blocks.
///
/// ```
/// use regard_kernels::{Mat, MatMut, Quantization, Quantized};
/// let mut block = [3; 34]; // the scale as f16, then 32 numbers
/// (block[0], block[1]) = (0x00, 0x38); // 0.5
/// let row = Quantized::new(&block, Quantization::Q8_0, 1, 32)?; // 32 times 1.5
/// let mut w = [[0.0; 32]];
/// row.widen(MatMut::from(&mut w))?;
/// assert_eq!(w, [[1.5; 32]]);
/// let mut y = [[0.0]];
/// row.multiply(Mat::from(&[[2.0; 32]]), MatMut::from(&mut y))?;
/// assert_eq!(y, [[96.0]]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Quantized<'a> {
    bytes: &'a [u8],
    format: Quantization,
    rows: usize,
    cols: usize,
}

impl<'a> Quantized<'a> {
    /// The matrix of these blocks, one row after another.
    ///
    /// # Errors
    /// [`Error::Length`] if the columns are no multiple of a block's numbers, or if there are not as many bytes as the blocks
    /// have.
    pub fn new(
        bytes: &'a [u8],
        format: Quantization,
        rows: usize,
        cols: usize,
    ) -> Result<Self, Error> {
        let (numbers, size) = format.block();
        let blocks = cols / numbers;
        check_len("a quantized row, in whole blocks,", cols, blocks * numbers)?;
        let all = rows.saturating_mul(blocks).saturating_mul(size);
        check_len("the blocks", bytes.len(), all)?;
        Ok(Self { bytes, format, rows, cols })
    }

    /// Writes W to `out` \[rows, columns\].
    ///
    /// # Errors
    /// [`Error::Shape`] if `out` has another shape.
    pub fn widen(self, out: MatMut<'_>) -> Result<(), Error> {
        check_shape("the widened rows", out.shape(), (self.rows, self.cols), "the rows' shape")?;
        dispatch(Task { w: self, x: None, out });
        Ok(())
    }

    /// `out` ← xWᵀ: \[m, columns\] · \[rows, columns\]ᵀ = \[m, rows\]. For few rows of x, because W is decoded anew for every
    /// two of them.
    ///
    /// An element is the sum of s·(n·x) + o·x in each of 16 lanes, and the lanes are folded as a tree. The order is fixed, and
    /// depends on no other row.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not fit; `out` is then unchanged.
    pub fn multiply(self, x: Mat<'_>, out: MatMut<'_>) -> Result<(), Error> {
        check_shape("x", x.shape(), (x.rows(), self.cols), "as many columns as W")?;
        check_shape("the product", out.shape(), (x.rows(), self.rows), "rows of x × rows of W")?;
        dispatch(Task { w: self, x: Some(x), out });
        Ok(())
    }
}

/// A product with x, or W itself.
struct Task<'a> {
    w: Quantized<'a>,
    x: Option<Mat<'a>>,
    out: MatMut<'a>,
}

impl Kernel for Task<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        // A function for each format: a branch in the innermost loop would cost as much as the decoding.
        match self.w.format {
            Quantization::Q8_0 => simd.call(OfFormat::<Q8_0, 34, 2>::new(self)),
            Quantization::Q4_0 => simd.call(OfFormat::<Q4_0, 18, 2>::new(self)),
            Quantization::Q4_1 => simd.call(OfFormat::<Q4_1, 20, 2>::new(self)),
            Quantization::Q5_0 => simd.call(OfFormat::<Q5_0, 22, 2>::new(self)),
            Quantization::Q5_1 => simd.call(OfFormat::<Q5_1, 24, 2>::new(self)),
            Quantization::Q4K => simd.call(OfFormat::<Q4K, 144, 16>::new(self)),
            Quantization::Q5K => simd.call(OfFormat::<Q5K, 176, 16>::new(self)),
            Quantization::Q6K => simd.call(OfFormat::<Q6K, 210, 16>::new(self)),
        }
    }
}

/// A task on blocks of one format.
struct OfFormat<'a, F, const BYTES: usize, const PARTS: usize> {
    task: Task<'a>,
    /// Those of a row.
    blocks: usize,
    format: PhantomData<F>,
}

impl<F: Block<BYTES, PARTS>, const BYTES: usize, const PARTS: usize> Kernel
    for OfFormat<'_, F, BYTES, PARTS>
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let rows = self.task.out.filled_rows();
        let Some(x) = self.task.x else {
            for row in 0..rows {
                self.widen(simd, row);
            }
            return;
        };
        let pairs = rows / 2 * 2;
        for row in (0..pairs).step_by(2) {
            self.columns::<S, 2, 2>(simd, x, row);
        }
        for row in pairs..rows {
            self.columns::<S, 1, 4>(simd, x, row);
        }
    }
}

impl<'a, F: Block<BYTES, PARTS>, const BYTES: usize, const PARTS: usize>
    OfFormat<'a, F, BYTES, PARTS>
{
    /// Blocks of a group, whose scales fill a vector.
    const GROUP: usize = LANES / PARTS;

    #[inline(always)]
    fn new(task: Task<'a>) -> Self {
        Self { blocks: task.w.cols / (PARTS * LANES), task, format: PhantomData }
    }

    /// The blocks of a row of W.
    #[inline(always)]
    fn row(&self, r: usize) -> &'a [[u8; BYTES]] {
        let blocks = self.task.w.bytes.as_chunks().0;
        blocks.get(r * self.blocks..(r + 1) * self.blocks).unwrap_or_default()
    }

    #[inline(always)]
    fn widen<S: Simd>(&mut self, simd: S, r: usize) {
        let groups = self.row(r).chunks(Self::GROUP);
        let (out, _) = self.task.out.row_mut(r).as_chunks_mut::<LANES>();
        for (group, out) in groups.zip(out.chunks_mut(LANES)) {
            let [scales, offsets] = F::scales(simd, group);
            let factors = scales.iter().zip(&offsets);
            for (i, (out, (scale, offset))) in out.iter_mut().zip(factors).enumerate() {
                let Some(block) = group.get(i / PARTS) else { return };
                let numbers = simd.widen_i8(&F::part(block, i % PARTS));
                let wide = simd.mul(numbers, simd.splat(*scale));
                let wide = if F::OFFSETS { simd.add(wide, simd.splat(*offset)) } else { wide };
                simd.store(wide, out);
            }
        }
    }

    /// `R` rows of the product: `N` columns at a time, and then the others. As many chains of multiply-adds hide their
    /// latency.
    #[inline(always)]
    fn columns<S: Simd, const R: usize, const N: usize>(
        &mut self,
        simd: S,
        x: Mat<'_>,
        row: usize,
    ) {
        let mut of_rows = [[].as_slice(); R];
        for (r, of_row) in of_rows.iter_mut().enumerate() {
            *of_row = x.row(row + r).as_chunks().0;
        }
        let whole = self.task.w.rows / N * N;
        for column in (0..whole).step_by(N) {
            self.tile::<S, R, N>(simd, &of_rows, row, column);
        }
        for column in whole..self.task.w.rows {
            self.tile::<S, R, 1>(simd, &of_rows, row, column);
        }
    }

    /// `R` rows of x times `N` rows of W.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const N: usize>(
        &mut self,
        simd: S,
        x: &[&[Panel]; R],
        row: usize,
        column: usize,
    ) {
        let mut of_w = [[].as_slice(); N];
        for (i, of_w) in of_w.iter_mut().enumerate() {
            *of_w = self.row(column + i);
        }
        let mut sums = [[simd.splat(0.0); R]; N];
        for first in (0..self.blocks).step_by(Self::GROUP) {
            let group = first..self.blocks.min(first + Self::GROUP);
            let mut blocks = [[].as_slice(); N];
            let mut factors = [[[0.0; LANES]; 2]; N];
            for ((blocks, factors), of_w) in blocks.iter_mut().zip(&mut factors).zip(&of_w) {
                *blocks = of_w.get(group.clone()).unwrap_or_default();
                *factors = F::scales(simd, blocks);
            }
            for b in 0..group.len() {
                let mut lanes = [&[[0.0; LANES]; PARTS]; R];
                for (lanes, x) in lanes.iter_mut().zip(x) {
                    let Some(x) = x.as_chunks().0.get(first + b) else { return };
                    *lanes = x;
                }
                let mut encoded = [(&[0; BYTES], &[0.0; PARTS], &[0.0; PARTS]); N];
                for ((encoded, blocks), [scales, offsets]) in
                    encoded.iter_mut().zip(&blocks).zip(&factors)
                {
                    let (scales, offsets) = (scales.as_chunks().0, offsets.as_chunks().0);
                    let (Some(block), Some(scales), Some(offsets)) =
                        (blocks.get(b), scales.get(b), offsets.get(b))
                    else {
                        return;
                    };
                    *encoded = (block, scales, offsets);
                }
                Self::add(simd, &encoded, &lanes, &mut sums);
            }
        }
        for (i, sums) in sums.into_iter().enumerate() {
            for (r, sum) in sums.into_iter().enumerate() {
                if let Some(out) = self.task.out.row_mut(row + r).get_mut(column + i) {
                    *out = simd.reduce_add(sum);
                }
            }
        }
    }

    /// Adds the products of a block of each of `N` rows of W with the elements of `R` rows of x that it meets.
    ///
    /// The rows of W take turns: a chain of multiply-adds waits for its last one, and the other chains fill the time.
    #[inline(always)]
    fn add<S: Simd, const R: usize, const N: usize>(
        simd: S,
        blocks: &[Encoded<'_, BYTES, PARTS>; N],
        x: &[&[Panel; PARTS]; R],
        sums: &mut [[S::V; R]; N],
    ) {
        for p in 0..PARTS {
            for ((block, scales, offsets), sums) in blocks.iter().zip(sums.iter_mut()) {
                let numbers = simd.widen_i8(&F::part(block, p));
                let (scale, offset) = (simd.splat(scales[p]), simd.splat(offsets[p]));
                for (x, sum) in x.iter().zip(sums.iter_mut()) {
                    let lanes = simd.load(&x[p]);
                    *sum = simd.mul_add(simd.mul(numbers, lanes), scale, *sum);
                    if F::OFFSETS {
                        *sum = simd.mul_add(lanes, offset, *sum);
                    }
                }
            }
        }
    }
}

/// A block, and the scales and the offsets of its parts.
type Encoded<'a, const BYTES: usize, const PARTS: usize> =
    (&'a [u8; BYTES], &'a [f32; PARTS], &'a [f32; PARTS]);
