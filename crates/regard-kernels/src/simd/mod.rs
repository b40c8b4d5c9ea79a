//! Every intrinsic and every `unsafe` of the workspace.
//!
//! A kernel is written once, generic over [`Simd`], and reaches the vectors of the machine through [`dispatch`].
//! The unit is a block of [`LANES`] = 16 `f32` on every tier, whatever the registers' width: where the order of a sum
//! shows in its bits, it is the order of these 16 lanes, so that tiers with fused multiply-add agree to the last bit.

#![expect(
    unsafe_code,
    reason = "the one place where it is allowed: intrinsics and the innermost tile loop"
)]

#[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
mod avx2;
#[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
mod avx512;
mod exp;
mod fixed;
pub(crate) mod int8;
mod pack;
#[cfg(not(scalar))]
mod portable;
#[cfg(any(scalar, test))]
mod scalar;
mod tier;
mod tile;
mod widen;

#[cfg(not(scalar))]
use self::portable::Portable as Fixed;
#[cfg(scalar)]
use self::scalar::Scalar as Fixed;
use self::tile::Tiles;
use self::widen::Widen;
pub use self::widen::f32_from_f16;

pub(crate) use self::exp::{Distance, Exp, Exp2ToZero, ExpToZero, exp_to_zero};
pub(crate) use self::fixed::{matmul_by_4, matmul_by_8, matmul_by_16};
pub(crate) use self::pack::{gemv, pack_columns, pack_transposed, pack_transposed_here};
#[cfg(helium)]
pub(crate) use self::scalar::scale_plus_zero;
pub use self::tier::Tier;
pub(crate) use self::tile::{
    Add, Ahead, Continue, Epilogue, MR, Panel, Panels, Set, gebp, gebp_or_add, next_groups,
    panels_at_once,
};

use crate::Mat;
use crate::int8::Rows;

/// The number of lanes of a block.
pub(crate) const LANES: usize = 16;

/// Whether [`dispatch`] is sure to find a [narrow](Simd::NARROW) tier.
pub(crate) const NARROW: bool = cfg!(scalar);

/// What is computed lane by lane, for any number of lanes.
pub(crate) trait Lanes: Copy {
    type V: Copy;
    /// The outcome of a comparison, lane by lane.
    type M: Copy;

    fn splat(self, x: f32) -> Self::V;
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// a·b + c, rounded once where the tier has fused multiply-add.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// (c₀·xⁿ + … + cₙ)·factor + term, by Horner's rule: n + 1 multiply-adds.
    #[inline(always)]
    fn polynomial<const N: usize>(
        self,
        c: &[f32; N],
        x: Self::V,
        factor: Self::V,
        term: Self::V,
    ) -> Self::V {
        let [first, rest @ ..] = c.as_slice() else { return term };
        let mut sum = self.splat(*first);
        for c in rest {
            sum = self.mul_add(sum, x, self.splat(*c));
        }
        self.mul_add(sum, factor, term)
    }
    /// a where a > b, else b; so b where either is NaN.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    fn gt(self, a: Self::V, b: Self::V) -> Self::M;
    fn eq(self, a: Self::V, b: Self::V) -> Self::M;
    fn select(self, mask: Self::M, yes: Self::V, no: Self::V) -> Self::V;
    /// v·2ⁿ for integral −252 ≤ n ≤ 254, rounded once where ½ ≤ |v| ≤ 2. NaN in `v` stays NaN, whatever `n`.
    fn scale_exp2(self, v: Self::V, n: Self::V) -> Self::V;
    /// 2ⁿ where the low eight bits of a lane's bits hold n + 127, the exponent field of a float; the rest is shifted out.
    fn exponent(self, v: Self::V) -> Self::V;
}

/// A function of a number, for as many lanes at once as the tier has registers for.
pub(crate) trait Map {
    fn of<L: Lanes>(&self, lanes: L, x: L::V) -> L::V;

    /// x ← f(x) for all elements, on a tier that takes them one at a time.
    #[cfg(any(scalar, test))]
    #[cfg_attr(target_os = "none", inline(never))]
    fn each<L: Lanes<V = f32>>(&self, lane: L, row: &mut [f32]) {
        for x in row {
            one_by_one(x);
            *x = self.of(lane, *x);
        }
    }
}

/// What a kernel may ask of a vector: 16 lanes of `f32`. A value that implements it proves that the CPU can do it.
pub(crate) trait Simd: Widen {
    /// A block of lanes is more than the registers hold: the tier has tiles of its own, for any number of rows and for all
    /// columns at once, that read B where it lies, by rows or by columns.
    const NARROW: bool = false;

    /// MR, the most rows of A in a tile, and the panels of B in it (NR / 16): as many sums as the registers
    /// hold.
    const MR: usize = MR;
    const PANELS: usize = 1;
    /// Queries that meet a panel of keys, then one of values, while it is in the first-level cache; at most
    /// [`MC`](crate::scores::MC).
    const QUERIES: usize = 24;
    /// So many chains of multiply-adds, a block each, keep the multipliers busy.
    const CHAINS: usize = 4;
    /// Rows of scores that become weights side by side, at most 4: as many as there are registers for. A row alone waits for
    /// its maximum and for its sum.
    const ROWS: usize = 1;

    /// Runs `kernel` as a function of its own, whose loops have all registers to themselves.
    fn call<K: Kernel>(self, kernel: K) -> K::Output;

    /// The rows of an attention on 8-bit integers.
    #[inline(always)]
    fn attend_int8(self, rows: Rows<'_>) {
        rows.by_plain_loops(self);
    }

    /// 8 lanes and 4 lanes, for products of as few columns.
    type Half: Copy;
    type Quarter: Copy;

    /// Asks for the cache line of `address`, which need not exist, before it is needed.
    #[inline(always)]
    fn prefetch(self, address: *const f32) {
        let _ = address;
    }

    /// Tiles of a large product read A [`Ahead`].
    const READS_AHEAD: bool = false;

    /// Asks for the cache line of `address`, which need not exist, into the second-level cache, on a tier that
    /// [reads ahead](Self::READS_AHEAD).
    #[inline(always)]
    fn prefetch_later(self, address: *const f32) {
        let _ = address;
    }

    /// a·b + c with one a for all lanes.
    #[inline(always)]
    fn mul_add_block(self, a: f32, b: Self::V, c: Self::V) -> Self::V {
        self.mul_add(self.splat(a), b, c)
    }

    /// a·b + c of single numbers.
    #[inline(always)]
    fn mul_add_one(self, a: f32, b: f32, c: f32) -> f32 {
        let mut out = [0.0; LANES];
        self.store(self.mul_add(self.splat(a), self.splat(b), self.splat(c)), &mut out);
        let [out, ..] = out;
        out
    }

    fn load(self, x: &[f32; LANES]) -> Self::V;
    fn store(self, v: Self::V, out: &mut [f32; LANES]);
    /// Column `i` of the eight rows goes to row `i` of the panel: to its first half, or to the `second`.
    fn transpose(
        self,
        rows: [&[f32; LANES / 2]; LANES / 2],
        panel: &mut [Panel; LANES / 2],
        second: bool,
    );
    /// Column t of the 16 `rows` goes to row t of the panel, for the first columns: as many as are returned, which may be none.
    #[inline(always)]
    fn transpose_rows(self, rows: Mat<'_>, panel: &mut [Panel]) -> usize {
        let _ = (rows, panel);
        0
    }

    /// The sum, as a tree: lane i + lane i+8, then i+4, i+2, i+1.
    fn reduce_add(self, v: Self::V) -> f32;
    /// [`reduce_add`](Self::reduce_add) of four blocks.
    #[inline(always)]
    fn reduce_add_each(self, v: [Self::V; 4]) -> [f32; 4] {
        let mut sums = [0.0; 4];
        for (sum, v) in sums.iter_mut().zip(v) {
            *sum = self.reduce_add(v);
        }
        sums
    }
    /// The largest lane that is no NaN (NaN in some lanes gives any of the lanes).
    fn reduce_max(self, v: Self::V) -> f32;
    /// [`reduce_max`](Self::reduce_max) of four blocks.
    #[inline(always)]
    fn reduce_max_each(self, v: [Self::V; 4]) -> [f32; 4] {
        let mut largest = [0.0; 4];
        for (largest, v) in largest.iter_mut().zip(v) {
            *largest = self.reduce_max(v);
        }
        largest
    }

    fn load_half(self, x: &[f32; LANES / 2]) -> Self::Half;
    fn store_half(self, v: Self::Half, out: &mut [f32; LANES / 2]);
    /// a·b + c with one a for all lanes.
    fn mul_add_half(self, a: f32, b: Self::Half, c: Self::Half) -> Self::Half;
    fn load_quarter(self, x: &[f32; LANES / 4]) -> Self::Quarter;
    fn store_quarter(self, v: Self::Quarter, out: &mut [f32; LANES / 4]);
    /// a·b + c with one a for all lanes.
    fn mul_add_quarter(self, a: f32, b: Self::Quarter, c: Self::Quarter) -> Self::Quarter;

    /// The sum of all elements, none of which is −0: lane by lane, then folded.
    #[inline(always)]
    fn sum(self, row: &[f32]) -> f32 {
        let (blocks, rest) = row.as_chunks();
        let mut sum = self.splat(0.0);
        for lanes in blocks {
            sum = self.add(sum, self.load(lanes));
        }
        if !rest.is_empty() {
            sum = self.add(sum, self.load_or(rest, 0.0));
        }
        self.reduce_add(sum)
    }

    /// x ← f(x) for all elements, and f(x) is added to `sum`, lane by lane.
    #[inline(always)]
    fn map_add(self, row: &mut [Panel], f: &impl Map, mut sum: Self::V) -> Self::V {
        for lanes in row {
            let y = f.of(self, self.load(lanes));
            self.store(y, lanes);
            sum = self.add(sum, y);
        }
        sum
    }

    /// x ← f(x) for all elements.
    #[inline(always)]
    fn map(self, row: &mut [f32], f: &impl Map) {
        let (blocks, rest) = row.as_chunks_mut();
        for lanes in blocks {
            self.store(f.of(self, self.load(lanes)), lanes);
        }
        if !rest.is_empty() {
            self.store_first(f.of(self, self.load_or(rest, 0.0)), rest);
        }
    }

    /// The largest element that is no NaN; −∞ if there is none. For narrow tiers, which look at one element after another.
    #[inline(always)]
    fn max_of(self, row: &[f32]) -> f32 {
        largest(row)
    }

    /// The largest element of each lane that is no NaN; −∞ if there is none.
    #[inline(always)]
    fn max_lanes(self, row: &[Panel]) -> Self::V {
        // Four chains hide the latency of the comparison. In which order the largest is found does not show.
        let mut max = [self.splat(f32::NEG_INFINITY); 4];
        let (fours, rest) = row.as_chunks();
        for four in fours {
            let four: &[Panel; 4] = four;
            for (max, lanes) in max.iter_mut().zip(four) {
                *max = self.max(self.load(lanes), *max);
            }
        }
        for (max, lanes) in max.iter_mut().zip(rest) {
            *max = self.max(self.load(lanes), *max);
        }
        let [a, b, c, d] = max;
        self.max(self.max(a, b), self.max(c, d))
    }

    /// The tiles of a product.
    #[inline(always)]
    fn microkernel<F: Epilogue, const R: usize, const P: usize>(
        self,
        tiles: Tiles<'_, '_, F, R, P>,
    ) {
        tiles.microkernel(self);
    }

    /// The first 16 elements of `x`, and `fill` in the lanes after its end.
    #[inline(always)]
    fn load_or(self, x: &[f32], fill: f32) -> Self::V {
        if let Some(full) = x.first_chunk() {
            self.load(full)
        } else {
            let mut lanes = [fill; LANES];
            copy_first(x, &mut lanes);
            self.load(&lanes)
        }
    }

    /// The first lanes into `out`, as many as it has, at most 16.
    #[inline(always)]
    fn store_first(self, v: Self::V, out: &mut [f32]) {
        if let Some(full) = out.first_chunk_mut() {
            self.store(v, full);
        } else {
            let mut lanes = [0.0; LANES];
            self.store(v, &mut lanes);
            copy_first(&lanes, out);
        }
    }
}

/// In a loop over floats that writes `x`: keeps the compiler from computing several of them together. Helium's vectors would count
/// subnormal numbers as zero; elsewhere this is nothing.
#[inline(always)]
#[cfg_attr(
    not(helium),
    expect(
        clippy::needless_pass_by_ref_mut,
        reason = "Helium's compiler must assume that `x` is written"
    )
)]
pub(crate) fn one_by_one<T>(x: &mut T) {
    // SAFETY: no instruction. The compiler must assume that `x` is read and written here, and makes no vector across this place.
    #[cfg(helium)]
    unsafe {
        core::arch::asm!("/* {} */", in(reg) x, options(nostack, preserves_flags));
    }
    #[cfg(not(helium))]
    let _ = x;
}

/// The largest element that is no NaN; −∞ if there is none. One after another.
#[inline(always)]
fn largest(row: &[f32]) -> f32 {
    row.iter().fold(f32::NEG_INFINITY, |max, x| if *x > max { *x } else { max })
}

/// As many elements as both have, below 16, in moves whose size is known: a loop over them would become a call.
#[inline(always)]
fn copy_first(from: &[f32], to: &mut [f32]) {
    let (from, to) = copy_chunk::<8>(from, to);
    let (from, to) = copy_chunk::<4>(from, to);
    let (from, to) = copy_chunk::<2>(from, to);
    copy_chunk::<1>(from, to);
}

/// Copies `N` elements, if both have so many, and returns what is left of both.
#[inline(always)]
fn copy_chunk<'f, 't, const N: usize>(
    from: &'f [f32],
    to: &'t mut [f32],
) -> (&'f [f32], &'t mut [f32]) {
    if from.len() < N || to.len() < N {
        return (from, to);
    }
    match (from.split_first_chunk::<N>(), to.split_first_chunk_mut::<N>()) {
        (Some((chunk, from)), Some((place, to))) => {
            *place = *chunk;
            (from, to)
        }
        _ => (&[], &mut []),
    }
}

/// A computation that is generic over the vectors it runs on. Mark `run`, and all it calls, `#[inline(always)]`:
/// only what is inlined is compiled with the tier's instructions. For the same reason no closure may hold vector code:
/// `array::map` and its like are compiled apart, without them.
pub(crate) trait Kernel {
    type Output;
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// Runs `kernel` on the [active](Tier::active) tier. Ask once for a whole head or matrix, never for a row.
#[inline(always)]
pub(crate) fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    dispatch_to(Tier::active(), kernel)
}

/// Runs `kernel` on `tier`, or where the CPU lacks it, on the next that it has.
#[inline(always)]
fn dispatch_to<K: Kernel>(tier: Tier, kernel: K) -> K::Output {
    #[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
    {
        if tier == Tier::Avx512
            && let Some(avx512) = avx512::Avx512::new()
        {
            return avx512.call(kernel);
        }
        if tier != Tier::Portable
            && let Some(avx2) = avx2::Avx2::new()
        {
            return avx2.call(kernel);
        }
        Fixed.call(kernel)
    }
    #[cfg(not(all(target_arch = "x86_64", not(feature = "portable"))))]
    {
        let _ = tier;
        kernel.run(Fixed)
    }
}

/// Whether all numbers are finite, in little code.
#[inline(always)]
pub(crate) fn all_finite(row: &[f32]) -> bool {
    #[cfg(helium)]
    return scalar::all_finite(row);
    #[cfg(not(helium))]
    row.iter().all(|x| x.to_bits() << 1 < f32::INFINITY.to_bits() << 1) // without the sign; NaN is larger
}

/// √x, rounded correctly.
#[inline(always)]
pub(crate) fn sqrt(x: f32) -> f32 {
    #[cfg(fused)]
    return scalar::sqrt(x);
    #[cfg(not(fused))]
    libm::sqrtf(x)
}

/// Multiplies and adds in registers for so many rounds: the most that this CPU can do, what a benchmark divides by for a
/// share of the peak.
///
/// It runs on the [fastest](Tier::fastest) tier of this CPU, whichever is active. Returns the number of multiply-adds, and a
/// value that depends on all of them.
///
/// ```
/// let (few, _) = regard_kernels::multiply_add_rounds(1000);
/// let (many, _) = regard_kernels::multiply_add_rounds(2000);
/// assert_eq!(many, 2 * few);
/// ```
#[must_use]
pub fn multiply_add_rounds(rounds: u32) -> (u64, f32) {
    struct Rounds(u32);
    impl Kernel for Rounds {
        type Output = (u64, f32);
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> (u64, f32) {
            // Enough chains to hide the latency of a fused multiply-add on two pipes (2 × 4 or 2 × 5 cycles), few enough to
            // stay in registers.
            if S::PANELS == 1 {
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
        // Numbers that only the run knows, another in each lane: a chain whose value the compiler could foresee would be
        // left out.
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
    dispatch_to(Tier::fastest(), Rounds(rounds))
}

/// Reads all `numbers` from memory, as fast as one thread can: what a benchmark divides by for a share of the bandwidth.
///
/// Four streams, each from a quarter of the numbers on, keep more cache lines on their way than a processor asks for ahead of
/// one stream. It runs on the [fastest](Tier::fastest) tier of this CPU, whichever is active. Returns the sum of the numbers,
/// in no order that would be promised.
///
/// ```
/// assert_eq!(regard_kernels::read_all(&[1.0; 1000]), 1000.0);
/// ```
#[must_use]
pub fn read_all(numbers: &[f32]) -> f32 {
    const STREAMS: usize = 4;
    /// Blocks of a stream at a time: a sum for each hides the latency of an addition.
    const BLOCKS: usize = 2;
    struct Read<'a>(&'a [f32]);
    impl Kernel for Read<'_> {
        type Output = f32;
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> f32 {
            let (steps, rest) = self.0.as_chunks::<LANES>().0.as_chunks::<BLOCKS>();
            let count = steps.len() / STREAMS;
            let mut streams = [[].as_slice(); STREAMS];
            for (i, stream) in streams.iter_mut().enumerate() {
                *stream = steps.get(i * count..(i + 1) * count).unwrap_or_default();
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
            for blocks in steps.get(STREAMS * count..).unwrap_or_default() {
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
    dispatch_to(Tier::fastest(), Read(numbers))
}

#[cfg(test)]
mod tests;
