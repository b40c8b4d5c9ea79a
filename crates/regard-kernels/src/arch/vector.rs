//! The operations on vectors that a tier has, as two traits.
//!
//! A tier must implement [`Lanes`] and the methods of [`Simd`] that have no body. The other methods have plain code. A tier
//! replaces it where the compiler finds no better instructions for it; the bits are the same.

use super::widen::{f32_from_bf16, f32_from_f16};
use super::{Kernel, LANES, MR, Panel, Panels, one_by_one};
use crate::invariant::Promised as _;
use crate::{Mat, MatMut};

/// Operations that compute each lane on its own, for any number of lanes.
pub(crate) trait Lanes: Copy {
    type V: Copy;
    /// The result of a comparison, lane by lane.
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
    /// a where a > b, else b. If either is NaN, the result is b.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    fn gt(self, a: Self::V, b: Self::V) -> Self::M;
    fn eq(self, a: Self::V, b: Self::V) -> Self::M;
    fn select(self, mask: Self::M, yes: Self::V, no: Self::V) -> Self::V;
    /// v·2ⁿ for an integral n with −252 ≤ n ≤ 254, rounded once if ½ ≤ |v| ≤ 2. NaN in `v` stays NaN for any `n`.
    fn scale_exp2(self, v: Self::V, n: Self::V) -> Self::V;
    /// 2ⁿ, where the low eight bits of a lane hold n + 127, the exponent field of a float. The other bits are shifted out.
    fn exponent(self, v: Self::V) -> Self::V;
}

/// Implements operations of [`Lanes`], each by an expression of its operands. `V` and `M` name the type of the result.
macro_rules! operations {
    ($($name:ident($($operand:ident),+) -> $result:ident { $expr:expr })+) => {$(
        #[inline(always)]
        fn $name(self, $($operand: Self::V),+) -> Self::$result {
            $expr
        }
    )+};
}
pub(crate) use operations;

/// A function of a number, applied to as many lanes at once as the tier has registers for.
pub(crate) trait Map {
    fn of<L: Lanes>(&self, lanes: L, x: L::V) -> L::V;

    /// x ← f(x) for all elements, on a tier that computes one element at a time.
    #[cfg_attr(target_os = "none", inline(never))]
    #[cfg_attr(
        not(any(scalar, feature = "scalar", test)),
        expect(dead_code, reason = "for cores without vectors")
    )]
    fn each<L: Lanes<V = f32>>(&self, lane: L, row: &mut [f32]) {
        for x in row {
            one_by_one(x);
            *x = self.of(lane, *x);
        }
    }
}

/// A function of a number and of `N` others at the same place.
pub(crate) trait Zip<const N: usize> {
    fn of<L: Lanes>(&self, lanes: L, x: L::V, others: [L::V; N]) -> L::V;

    /// x ← f(x, others) for all elements, on a tier that computes one element at a time. The others are as long as x.
    #[cfg_attr(target_os = "none", inline(never))]
    #[cfg_attr(
        not(any(scalar, feature = "scalar", test)),
        expect(dead_code, reason = "for cores without vectors")
    )]
    fn each<L: Lanes<V = f32>>(&self, lane: L, x: &mut [f32], others: [&[f32]; N]) {
        for (i, x) in x.iter_mut().enumerate() {
            one_by_one(x);
            *x = self.of(lane, *x, others.map(|other| other.get(i).copied().promised()));
        }
    }
}

/// The sizes that a tier's registers give to the loops.
pub(crate) struct Shape {
    /// MR, the most rows of A in a tile, and the number of panels of B in it (NR / 16): as many sums as the registers hold.
    pub(crate) rows: usize,
    pub(crate) panels: usize,
    /// Queries of a block. They are multiplied by a panel of keys, then by one of values, while it is in the first-level cache.
    /// At most MC (see `attention/scores.rs`).
    pub(crate) queries: usize,
    /// The number of chains of multiply-adds, each of one block, that keep the multipliers busy.
    pub(crate) chains: usize,
    /// Rows of scores that become weights side by side, at most 4, as the registers allow. A single row would wait for its
    /// maximum and for its sum.
    pub(crate) side_by_side: usize,
    /// Steps of the sum in one round of a tile's loop. More than one spares instructions where the processor can decode too few of
    /// them beside the multiply-adds.
    pub(crate) unrolled: usize,
    /// Whether looking up an element of a table is faster than computing it.
    pub(crate) picks: bool,
}

impl Shape {
    /// For 16 registers of 8 lanes, and for 32 of 4.
    pub(crate) const SIXTEEN_REGISTERS: Self = Self {
        rows: MR,
        panels: 1,
        queries: 24,
        chains: 4,
        side_by_side: 1,
        unrolled: 1,
        picks: false,
    };

    /// For 16 registers of 4 lanes. A block of lanes is four of them, so 3 × 16 sums take 12. Of 6 × 16 sums a third would lie in
    /// memory, and a product on SSE2 would take 12 to 30 % more instructions (2 or 4 rows: 3 to 10 % more).
    #[cfg(not(scalar))]
    pub(crate) const SIXTEEN_SHORT_REGISTERS: Self =
        Self { rows: 3, queries: 18, ..Self::SIXTEEN_REGISTERS };
}

/// Operations on a block of 16 lanes of `f32`. A value that implements this trait proves that the CPU has the tier's
/// instructions.
pub(crate) trait Simd: Lanes {
    /// The tier is narrow: a register holds one number, and a block of lanes lies in memory. It multiplies any number of rows
    /// and columns [where they lie](Self::multiply_in_place), and packs nothing. Rows of scores become weights one after
    /// another.
    const NARROW: bool = false;
    /// The sizes of the loops on this tier.
    const SHAPE: Shape;

    /// Runs `kernel` as a function of its own, whose loops can use all registers, compiled with the tier's instructions.
    ///
    /// # Safety
    /// The CPU has the tier's instructions. A value of the tier proves it, so the function is unsafe only because Rust asks
    /// this of a method that is compiled with more instructions than its trait.
    unsafe fn enter<K: Kernel>(self, kernel: K) -> K::Output;

    /// [`enter`](Self::enter), for callers outside of this folder.
    #[inline(always)]
    fn call<K: Kernel>(self, kernel: K) -> K::Output {
        // SAFETY: `self` proves that the CPU has the tier's instructions.
        unsafe { self.enter(kernel) }
    }

    /// Prefetches the cache line of `address`, which need not exist.
    #[inline(always)]
    fn prefetch(self, address: *const f32) {
        let _ = address;
    }

    /// Prefetches the cache line of `address`, which need not exist, into the second-level cache. Not every tier does.
    #[inline(always)]
    fn prefetch_later(self, address: *const f32) {
        let _ = address;
    }

    fn load(self, x: &[f32; LANES]) -> Self::V;
    fn store(self, v: Self::V, out: &mut [f32; LANES]);
    /// Writes column `i` of the eight rows to row `i` of the panel: to its first half, or to its `second`.
    fn transpose(
        self,
        rows: [&[f32; LANES / 2]; LANES / 2],
        panel: &mut [Panel; LANES / 2],
        second: bool,
    );
    /// Writes column t of the 16 `rows` to row t of the panel, for the first columns. Returns the number of columns that it has
    /// written, which may be 0.
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
    /// The largest lane that is not NaN. If some lanes are NaN, the result may be any lane.
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

    /// The sum of all elements, none of which is −0: first lane by lane, then across the lanes.
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

    /// x ← f(x, others) for all elements. The others are as long as x.
    #[inline(always)]
    fn zip<const N: usize>(self, x: &mut [f32], others: [&[f32]; N], f: &impl Zip<N>) {
        let (blocks, rest) = x.as_chunks_mut::<LANES>();
        let mut start = 0;
        for block in blocks {
            let mut lanes = [self.splat(0.0); N];
            for (lanes, other) in lanes.iter_mut().zip(others) {
                let other = other.get(start..).and_then(|other| other.first_chunk());
                *lanes = self.load(other.promised_or(&[0.0; LANES]));
            }
            self.store(f.of(self, self.load(block), lanes), block);
            start += LANES;
        }
        if !rest.is_empty() {
            let mut lanes = [self.splat(0.0); N];
            for (lanes, other) in lanes.iter_mut().zip(others) {
                *lanes = self.load_or(other.get(start..).promised(), 0.0);
            }
            self.store_first(f.of(self, self.load_or(rest, 0.0), lanes), rest);
        }
    }

    /// On a [narrow](Self::NARROW) tier: [`gebp`](super::gebp) of all rows of `a` and all columns of `b`. The sums are set, or
    /// added if `add`.
    #[inline(always)]
    fn multiply_in_place(
        self,
        a: Mat<'_>,
        b: Panels<'_>,
        out: &mut MatMut<'_>,
        col: usize,
        add: bool,
    ) {
        let _ = (a, b, out, col, add);
        debug_assert!(false, "tiers with vectors compute tiles");
    }

    /// The first 16 elements of `x`. If there are fewer, the other lanes are `fill`.
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

    /// Writes the first lanes to `out`, as many as it has room for, at most 16.
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

    /// Widens bfloat16, whose bits are the upper half of an `f32`.
    #[inline(always)]
    fn widen_bf16(self, x: &[u16; LANES]) -> Self::V {
        let mut lanes = [0.0; LANES];
        for (lane, x) in lanes.iter_mut().zip(x) {
            *lane = f32_from_bf16(*x);
        }
        self.load(&lanes)
    }

    /// Σₜ x\[t\]·panel\[t\] over as many rows as both have, of bfloat16 or of binary16: one chain of multiply-adds in ascending
    /// order for each lane. `None` on a tier whose best loop for one row and one panel is to widen row by row.
    #[inline(always)]
    fn row_times_panel<const BF16: bool>(
        self,
        x: &[f32],
        panel: &[[u16; LANES]],
    ) -> Option<Self::V> {
        let _ = (x, panel);
        None
    }

    /// Widens IEEE 754 binary16.
    #[inline(always)]
    fn widen_f16(self, x: &[u16; LANES]) -> Self::V {
        let mut lanes = [0.0; LANES];
        for (lane, x) in lanes.iter_mut().zip(x) {
            *lane = f32_from_f16(*x);
        }
        self.load(&lanes)
    }

    /// Widens 8-bit integers.
    #[inline(always)]
    fn widen_i8(self, x: &[i8; LANES]) -> Self::V {
        let mut lanes = [0.0; LANES];
        for (lane, x) in lanes.iter_mut().zip(x) {
            *lane = f32::from(*x);
        }
        self.load(&lanes)
    }

    /// For each byte, the lane of `values` whose index is the low four bits of the byte, or its `high` four.
    #[inline(always)]
    fn pick(self, values: Self::V, bytes: &[u8; LANES], high: bool) -> Self::V {
        let (mut table, mut lanes) = ([0.0; LANES], [0.0; LANES]);
        self.store(values, &mut table);
        for (lane, byte) in lanes.iter_mut().zip(bytes) {
            let number = if high { byte >> 4 } else { byte & 15 };
            *lane = table[usize::from(number)]; // 4 bits
        }
        self.load(&lanes)
    }

    /// For each number below 32, the lane with that index of both `values` together.
    #[inline(always)]
    fn pick_of_two(self, values: [Self::V; 2], numbers: &[u8; LANES]) -> Self::V {
        let (mut table, mut lanes) = ([[0.0; LANES]; 2], [0.0; LANES]);
        for (table, values) in table.iter_mut().zip(values) {
            self.store(values, table);
        }
        for (lane, number) in lanes.iter_mut().zip(numbers) {
            *lane = table.as_flattened().get(usize::from(*number)).copied().promised();
        }
        self.load(&lanes)
    }

    /// One byte for each of 32 bits, from the lowest bit on: 16 if the bit is set, else 0.
    #[inline(always)]
    fn fifth_bits(self, bits: u32) -> [u8; 2 * LANES] {
        let mut bytes = [0; 2 * LANES];
        for (bytes, byte) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(bits.to_le_bytes()) {
            // Copies the byte into each of 8 bytes, and keeps bit i of byte i. Adding 127 carries a bit that is set into the
            // highest bit of its byte.
            let bits = (u64::from(byte) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
            let bits = ((bits + 0x7f7f_7f7f_7f7f_7f7f) >> 3) & 0x1010_1010_1010_1010;
            *bytes = bits.to_le_bytes();
        }
        bytes
    }
}

/// x ← f(x) for all elements, and `sum` + f(x), lane by lane.
#[inline(always)]
pub(crate) fn map_add<S: Simd>(simd: S, row: &mut [Panel], f: &impl Map, mut sum: S::V) -> S::V {
    for lanes in row {
        let y = f.of(simd, simd.load(lanes));
        simd.store(y, lanes);
        sum = simd.add(sum, y);
    }
    sum
}

/// For each lane, the largest element that is not NaN; −∞ if there is none.
#[inline(always)]
pub(crate) fn max_lanes<S: Simd>(simd: S, row: &[Panel]) -> S::V {
    // Four chains cover the latency of the comparison. The order of the comparisons does not change the result.
    let mut max = [simd.splat(f32::NEG_INFINITY); 4];
    let (fours, rest) = row.as_chunks::<4>();
    for four in fours {
        for (max, lanes) in max.iter_mut().zip(four) {
            *max = simd.max(simd.load(lanes), *max);
        }
    }
    for (max, lanes) in max.iter_mut().zip(rest) {
        *max = simd.max(simd.load(lanes), *max);
    }
    let [a, b, c, d] = max;
    simd.max(simd.max(a, b), simd.max(c, d))
}

/// Copies as many elements as both have, fewer than 16, in moves whose size is known. A loop would become a call.
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
