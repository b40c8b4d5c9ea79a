//! The most that this CPU can compute and read, by which a benchmark divides its results.

use crate::arch::{Kernel, LANES, Simd, Tier, dispatch};
use crate::invariant::Promised as _;

/// Multiplies and adds in registers for a number of rounds: the most that this CPU can compute. A benchmark divides by it for a
/// share of the peak.
///
/// It runs on the [fastest](Tier::fastest) tier of this CPU, whichever is active. Returns the number of multiply-adds, and a
/// value that depends on all of them.
///
/// ```
/// let (few, _) = regard_kernels::internal::multiply_add_rounds(1000);
/// let (many, _) = regard_kernels::internal::multiply_add_rounds(2000);
/// assert_eq!(many, 2 * few);
/// ```
#[must_use]
pub fn multiply_add_rounds(rounds: u32) -> (u64, f32) {
    struct Rounds(u32);
    impl Kernel for Rounds {
        type Output = (u64, f32);

        #[inline(always)]
        fn tier(&self) -> Tier {
            Tier::fastest()
        }

        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> (u64, f32) {
            // Enough chains to cover the latency of a fused multiply-add on two pipes (2 × 4 or 2 × 5 cycles), and few enough to
            // stay in registers.
            if const { S::SHAPE.panels == 1 } {
                chains::<S, 6>(simd, self.0)
            } else {
                chains::<S, 12>(simd, self.0)
            }
        }
    }
    #[inline(always)]
    fn chains<S: Simd, const N: usize>(simd: S, rounds: u32) -> (u64, f32) {
        let factor = simd.splat(0.999_999);
        let term = simd.splat(1e-6);
        // The numbers are known only at run time, and differ from lane to lane. The compiler would leave out a chain whose
        // value it could compute.
        let mut start = [rounds as f32; LANES];
        let mut chains = [term; N];
        for chain in &mut chains {
            for (i, x) in start.iter_mut().enumerate() {
                *x += 1.0 + i as f32;
            }
            *chain = simd.load(&start);
        }
        for _ in 0..rounds {
            for chain in &mut chains {
                *chain = simd.mul_add(*chain, factor, term);
            }
        }
        let mut sum = 0.0;
        for chain in chains {
            sum += simd.reduce_add(chain);
        }
        (u64::from(rounds) * (N * LANES) as u64, sum)
    }
    dispatch(Rounds(rounds))
}

/// Reads all `numbers` from memory, as fast as one thread can. A benchmark divides by it for a share of the bandwidth.
///
/// It reads four streams, one for each quarter of the numbers, which keep more cache lines on their way than the prefetcher
/// does for one stream. It runs on the [fastest](Tier::fastest) tier of this CPU, whichever is active. Returns the sum of the
/// numbers, in an order that may change.
///
/// ```
/// assert_eq!(regard_kernels::internal::read_all(&[1.0; 1000]), 1000.0);
/// ```
#[must_use]
pub fn read_all(numbers: &[f32]) -> f32 {
    const STREAMS: usize = 4;
    /// Blocks of a stream that are read at a time. Each has a sum of its own, which covers the latency of an addition.
    const BLOCKS: usize = 2;
    struct Read<'a>(&'a [f32]);
    impl Kernel for Read<'_> {
        type Output = f32;

        #[inline(always)]
        fn tier(&self) -> Tier {
            Tier::fastest()
        }

        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> f32 {
            let (steps, rest) = self.0.as_chunks::<LANES>().0.as_chunks::<BLOCKS>();
            let count = steps.len() / STREAMS;
            let mut streams = [[].as_slice(); STREAMS];
            for (i, stream) in streams.iter_mut().enumerate() {
                *stream = steps.get(i * count..(i + 1) * count).promised();
            }
            let [a, b, c, d] = streams;
            let mut sums = [[simd.splat(0.0); BLOCKS]; STREAMS];
            for (((a, b), c), d) in a.iter().zip(b).zip(c).zip(d) {
                for (sums, blocks) in sums.iter_mut().zip([a, b, c, d]) {
                    for (sum, block) in sums.iter_mut().zip(blocks) {
                        *sum = simd.add(*sum, simd.load(block));
                    }
                }
            }
            let mut sum = simd.splat(0.0);
            for sums in sums {
                for other in sums {
                    sum = simd.add(sum, other);
                }
            }
            for blocks in steps.get(STREAMS * count..).promised() {
                for block in blocks {
                    sum = simd.add(sum, simd.load(block));
                }
            }
            for block in rest {
                sum = simd.add(sum, simd.load(block));
            }
            sum = simd.add(sum, simd.load_or(self.0.as_chunks::<LANES>().1, 0.0));
            simd.reduce_add(sum)
        }
    }
    dispatch(Read(numbers))
}
