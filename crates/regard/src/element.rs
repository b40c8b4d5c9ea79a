use core::ops::Range;

use half::slice::HalfFloatSliceExt as _;
use half::{bf16, f16};
use regard_kernels::{Half, Mat};

use crate::Error;

/// The number types of a tensor: `f32`, [`f16`](half::f16) or [`bf16`](half::bf16).
///
/// Half precision halves the memory of a cache of keys and values. Computation is in `f32`: each thread first widens the keys
/// and values that its queries may see into its scratch memory, which has room for one head. It uses F16C if the CPU has it.
/// The result has the bits of the same numbers in `f32`.
///
/// ```
/// use half::f16;
/// use regard::{Attention, Heads};
/// let [q, k, v] = [0.0, 1.0, 2.0].map(|x| [f16::from_f32(x); 6]);
/// let q = Heads::new("query", &q, [1, 1, 3, 2])?;
/// let k = Heads::new("key", &k, [1, 1, 3, 2])?;
/// let v = Heads::new("value", &v, [1, 1, 3, 2])?;
/// assert_eq!(Attention::new().forward(q, k, v)?, [2.0; 6]);
/// # Ok::<(), regard::Error>(())
/// ```
pub trait Element: Copy + Default + Send + Sync + sealed::Element {}

impl<T: Copy + Default + Send + Sync + sealed::Element> Element for T {}

pub(crate) mod sealed {
    use core::fmt::Debug;
    use core::ops::Range;

    use bytemuck::Pod;
    use regard_kernels::{Half, Mat};

    use crate::Error;

    pub trait Element: Default + Pod + Debug + Into<f32> {
        /// The elements of `f32` memory that [`widened`](Self::widened) takes for each element.
        const MEMORY: usize;

        /// The matrix in `f32`, and the rest of `memory`, whose first part may hold the matrix. Rows outside of `rows` may have
        /// any contents.
        fn widened<'s>(
            m: Mat<'s, Self>,
            rows: Range<usize>,
            memory: &'s mut [f32],
        ) -> Result<(Mat<'s>, &'s mut [f32]), Error>;

        /// The bits of 16-bit numbers, and their type. `None` for `f32`.
        fn half(x: &[Self]) -> Option<(&[u16], Half)>;
    }
}

impl sealed::Element for f32 {
    const MEMORY: usize = 0;

    fn widened<'s>(
        m: Mat<'s, Self>,
        _: Range<usize>,
        memory: &'s mut [f32],
    ) -> Result<(Mat<'s>, &'s mut [f32]), Error> {
        Ok((m, memory))
    }

    fn half(_: &[Self]) -> Option<(&[u16], Half)> {
        None
    }
}

macro_rules! half_precision {
    ($($number:ty: $half:ident),+) => {$(
        impl sealed::Element for $number {
            const MEMORY: usize = 1;

            fn widened<'s>(
                m: Mat<'s, Self>,
                rows: Range<usize>,
                memory: &'s mut [f32],
            ) -> Result<(Mat<'s>, &'s mut [f32]), Error> {
                let (all, cols) = m.shape();
                let (wide, rest) = memory.split_at_mut(all * cols);
                for (i, row) in wide.chunks_exact_mut(cols.max(1)).enumerate().take(rows.end).skip(rows.start) {
                    m.row(i).convert_to_f32_slice(row);
                }
                Ok((Mat::new(wide, all, cols)?, rest))
            }

            fn half(x: &[Self]) -> Option<(&[u16], Half)> {
                Some((x.reinterpret_cast(), Half::$half))
            }
        }
    )+};
}
half_precision!(f16: F16, bf16: Bf16);
