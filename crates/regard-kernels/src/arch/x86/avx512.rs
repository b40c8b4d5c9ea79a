//! x86-64 with AVX-512, found at run time.
//!
//! A block of 16 lanes is one register of 512 bits, where AVX2 takes two of 256. Each lane of a sum is
//! therefore added in the same order, and this tier has AVX2's bits. A block is folded to a single number
//! by AVX2: lanes 0 to 7 and lanes 8 to 15 are the two registers that it would have had.
//!
//! The microkernel of a product ([`Tiles`](crate::arch::generic::tile::Tiles)) uses the 32 registers so:
//!
//! ```text
//! 24  sums: MR × PANELS = 12 rows × 2 blocks, the tile of 12 × 32 elements
//!  2  a row of B: 2 blocks, loaded once a step
//!  6  elements of A, each broadcast to all lanes, used for 2 multiply-adds
//! ```
//!
//! A step makes 24 multiply-adds for 14 loads. Two pipes multiply and add, and two others load, so 12 cycles of arithmetic cover
//! 7 cycles of loads. A multiply-add has a latency of 4 cycles, which 2 × 4 = 8 independent chains cover; a tile has 24. A tile
//! of few rows takes as many panels as it needs for 8 chains ([`chains`](Shape::chains)).
//!
//! A tile of more rows would load less of B for each row. But 14 × 2 sums leave 4 registers: the compiler then spills sums to
//! memory in the loop, and attention falls from 45–83 % of the peak to 22–62 % (Xeon, Sapphire Rapids). Tiles of 8 × 2 are as
//! fast as 12 × 2, but read B once for each 8 rows. 36 queries are three whole tiles of 12.
//!
//! A row of less than 16 numbers is loaded and stored under a mask, without a copy. 2ⁿ is computed by shifts, as on AVX2,
//! because the emulator that tests this tier computes `vscalefps` wrong.

use core::arch::x86_64::*;

use super::avx2::Avx2;
use crate::Mat;
use crate::arch::{Kernel, LANES, Lanes, Panel, Shape, Simd, operations};
use crate::invariant::Promised as _;

cpufeatures::new!(detect, "avx512f", "avx512bw", "avx512dq", "avx512vl");

/// Proof that this CPU has AVX-512 (F, BW, DQ and VL), AVX2 and FMA, and that the operating system saves their registers. Only
/// [`Avx512::new`] makes one.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(Avx2);

impl Avx512 {
    /// The proof, if the CPU has all of them. The first call asks the CPU; later calls read the stored answer.
    #[inline]
    pub(crate) fn new() -> Option<Self> {
        if detect::get() { Avx2::new().map(Self) } else { None }
    }
}

/// Calls an intrinsic that works on registers alone.
macro_rules! registers {
    ($call:expr) => {
        // SAFETY: a value of `Avx512` exists, so the CPU has AVX-512; the intrinsic works on registers alone.
        unsafe { $call }
    };
}

/// Folds each of four blocks with `$combine`, as a tree: first the halves of two blocks at a time, then the quarters of all
/// four.
macro_rules! fold_each {
    ($v:expr, $combine:ident) => {{
        const LOW: i32 = 0b01_00_01_00;
        const HIGH: i32 = 0b11_10_11_10;
        const EVEN: i32 = 0b10_00_10_00;
        const ODD: i32 = 0b11_01_11_01;
        let [a, b, c, d] = $v;
        let mut folded = [0.0; 4];
        // SAFETY: a value of `Avx512` exists, so the CPU has AVX-512. The store writes to the array.
        unsafe {
            let ab = $combine(
                _mm512_shuffle_f32x4::<LOW>(a, b),
                _mm512_shuffle_f32x4::<HIGH>(a, b),
            );
            let cd = $combine(
                _mm512_shuffle_f32x4::<LOW>(c, d),
                _mm512_shuffle_f32x4::<HIGH>(c, d),
            );
            let all = $combine(
                _mm512_shuffle_f32x4::<EVEN>(ab, cd),
                _mm512_shuffle_f32x4::<ODD>(ab, cd),
            );
            let all = $combine(all, _mm512_permute_ps::<HIGH>(all));
            let all = $combine(all, _mm512_movehdup_ps(all));
            let first = _mm512_maskz_compress_ps(0b0001_0001_0001_0001, all);
            _mm_storeu_ps(folded.as_mut_ptr(), _mm512_castps512_ps128(first));
        }
        folded
    }};
}

/// The lanes 0 to 7, and the lanes 8 to 15.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn halves(v: __m512) -> [__m256; 2] {
    [_mm512_castps512_ps256(v), _mm512_extractf32x8_ps::<1>(v)]
}

/// v·2ⁿ. 2ⁿ is two factors, so that neither leaves the range of normal numbers and only the last product rounds.
#[inline]
#[target_feature(enable = "avx512f")]
fn scale_exp2(v: __m512, n: __m512) -> __m512 {
    let n = _mm512_cvtps_epi32(n);
    let half = _mm512_srai_epi32::<1>(n);
    let bias = _mm512_set1_epi32(127);
    let low = _mm512_slli_epi32::<23>(_mm512_add_epi32(half, bias));
    let high = _mm512_slli_epi32::<23>(_mm512_add_epi32(_mm512_sub_epi32(n, half), bias));
    _mm512_mul_ps(_mm512_mul_ps(v, _mm512_castsi512_ps(low)), _mm512_castsi512_ps(high))
}

/// Transposes 16 rows, 4 columns at a time. A register holds four elements each of every fourth row, so that shuffles within
/// its quarters leave the rows in order. This takes 8 shuffles for 64 elements, and squares of 8 × 8 take 24.
///
/// # Safety
/// From `start` on there are 16 rows, `stride` elements apart, with 4 columns for each element of `panel`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn transpose(simd: Avx2, start: *const f32, stride: usize, panel: &mut [[Panel; 4]]) {
    let quarters = [0, 4, 8, 12].map(|row| start.wrapping_add(row * stride));
    for (t, lanes) in panel.iter_mut().enumerate() {
        if t.is_multiple_of(4) {
            // Prefetches a cache line of each row of the next panel. A hardware prefetcher does not foresee 16 rows at a time.
            for row in LANES..2 * LANES {
                simd.prefetch(start.wrapping_add(row * stride + 4 * t));
            }
        }
        let mut fours = [_mm512_setzero_ps(); 4];
        for (i, fours) in fours.iter_mut().enumerate() {
            let [a, b, c, d] = quarters;
            // SAFETY: the caller guarantees that the elements exist.
            let (a, b, c, d) = unsafe {
                let at = i * stride + 4 * t;
                (
                    _mm_loadu_ps(a.wrapping_add(at)),
                    _mm_loadu_ps(b.wrapping_add(at)),
                    _mm_loadu_ps(c.wrapping_add(at)),
                    _mm_loadu_ps(d.wrapping_add(at)),
                )
            };
            let x = _mm512_mask_broadcast_f32x4(_mm512_castps128_ps512(a), 0x00f0, b);
            let x = _mm512_mask_broadcast_f32x4(x, 0x0f00, c);
            *fours = _mm512_mask_broadcast_f32x4(x, 0xf000, d);
        }
        let [a, b, c, d] = fours;
        let (ab_low, ab_high) = (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
        let (cd_low, cd_high) = (_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
        let columns = [
            _mm512_shuffle_ps::<0b01_00_01_00>(ab_low, cd_low),
            _mm512_shuffle_ps::<0b11_10_11_10>(ab_low, cd_low),
            _mm512_shuffle_ps::<0b01_00_01_00>(ab_high, cd_high),
            _mm512_shuffle_ps::<0b11_10_11_10>(ab_high, cd_high),
        ];
        for (lanes, column) in lanes.iter_mut().zip(columns) {
            // SAFETY: the store writes the row of 16.
            unsafe { _mm512_storeu_ps(lanes.as_mut_ptr(), column) };
        }
    }
}

/// A mask with a bit for each of the first `count` lanes, at most 16.
#[inline(always)]
fn first_lanes(count: usize) -> __mmask16 {
    if count < LANES { (1 << count) - 1 } else { __mmask16::MAX }
}

impl Lanes for Avx512 {
    type V = __m512;
    type M = __mmask16;

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        registers!(_mm512_set1_ps(x))
    }

    operations! {
        add(a, b) -> V { registers!(_mm512_add_ps(a, b)) }
        sub(a, b) -> V { registers!(_mm512_sub_ps(a, b)) }
        mul(a, b) -> V { registers!(_mm512_mul_ps(a, b)) }
        div(a, b) -> V { registers!(_mm512_div_ps(a, b)) }
        mul_add(a, b, c) -> V { registers!(_mm512_fmadd_ps(a, b, c)) }
        // VMAXPS returns its second operand for NaN and for equal zeros, as the trait asks.
        max(a, b) -> V { registers!(_mm512_max_ps(a, b)) }
        gt(a, b) -> M { registers!(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(a, b)) }
        eq(a, b) -> M { registers!(_mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b)) }
        scale_exp2(v, n) -> V { registers!(scale_exp2(v, n)) }
        exponent(v) -> V {
            registers!(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_castps_si512(v))))
        }
    }

    #[inline(always)]
    fn select(self, mask: __mmask16, yes: __m512, no: __m512) -> __m512 {
        registers!(_mm512_mask_blend_ps(mask, no, yes))
    }
}

impl Simd for Avx512 {
    const SHAPE: Shape = Shape {
        rows: 12,
        panels: 2,
        queries: 36,
        chains: 8,
        side_by_side: 4,
        unrolled: 4,
        picks: true,
    };

    #[inline(always)]
    fn widen_bf16(self, x: &[u16; LANES]) -> Self::V {
        // SAFETY: `self` proves AVX-512. The load reads the array.
        unsafe {
            let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(x.as_ptr().cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
        }
    }

    #[inline(always)]
    fn widen_f16(self, x: &[u16; LANES]) -> Self::V {
        // SAFETY: as above.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(x.as_ptr().cast())) }
    }

    #[inline(always)]
    fn widen_i8(self, x: &[i8; LANES]) -> Self::V {
        // SAFETY: as above.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(x.as_ptr().cast()))) }
    }

    /// A permutation reads the low four bits of an index, and ignores the others.
    #[inline(always)]
    fn pick(self, values: Self::V, bytes: &[u8; LANES], high: bool) -> Self::V {
        // SAFETY: as above.
        unsafe {
            let bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(bytes.as_ptr().cast()));
            let index = if high { _mm512_srli_epi32::<4>(bytes) } else { bytes };
            _mm512_permutexvar_ps(index, values)
        }
    }

    #[inline(always)]
    fn pick_of_two(self, [low, high]: [Self::V; 2], numbers: &[u8; LANES]) -> Self::V {
        // SAFETY: as above.
        unsafe {
            let index = _mm512_cvtepu8_epi32(_mm_loadu_si128(numbers.as_ptr().cast()));
            _mm512_permutex2var_ps(low, index, high)
        }
    }

    #[inline(always)]
    fn fifth_bits(self, bits: u32) -> [u8; 2 * LANES] {
        let mut bytes = [0; 2 * LANES];
        // SAFETY: `self` proves AVX-512. The store writes to the array.
        unsafe {
            let numbers = _mm256_maskz_set1_epi8(bits, 16);
            _mm256_storeu_si256(bytes.as_mut_ptr().cast(), numbers);
        }
        bytes
    }

    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    unsafe fn enter<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }

    #[inline(always)]
    fn prefetch(self, address: *const f32) {
        self.0.prefetch(address);
    }

    #[inline(always)]
    fn prefetch_later(self, address: *const f32) {
        self.0.prefetch_later(address);
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> __m512 {
        // SAFETY: `self` proves AVX-512. The load reads the array, and needs no alignment.
        unsafe { _mm512_loadu_ps(x.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, v: __m512, out: &mut [f32; LANES]) {
        // SAFETY: `self` proves AVX-512. The store writes to the array, and needs no alignment.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), v) }
    }

    #[inline(always)]
    fn load_or(self, x: &[f32], fill: f32) -> __m512 {
        // SAFETY: `self` proves AVX-512; only lanes that `x` has are loaded.
        unsafe { _mm512_mask_loadu_ps(_mm512_set1_ps(fill), first_lanes(x.len()), x.as_ptr()) }
    }

    #[inline(always)]
    fn store_first(self, v: __m512, out: &mut [f32]) {
        // SAFETY: `self` proves AVX-512; only lanes that `out` has are stored.
        unsafe { _mm512_mask_storeu_ps(out.as_mut_ptr(), first_lanes(out.len()), v) }
    }

    #[inline(always)]
    fn transpose(self, rows: [&[f32; 8]; 8], panel: &mut [Panel; 8], second: bool) {
        self.0.transpose(rows, panel, second);
    }

    #[inline(always)]
    fn transpose_rows(self, rows: Mat<'_>, panel: &mut [Panel]) -> usize {
        let columns = panel.len().min(rows.cols()) / 4 * 4;
        if rows.rows() != LANES {
            return 0;
        }
        let fours = panel.as_chunks_mut().0.get_mut(..columns / 4).promised();
        // SAFETY: `self` proves AVX-512. There are 16 rows of at least `columns` columns, and the data of a view holds all of
        // them.
        unsafe { transpose(self.0, rows.data().as_ptr(), rows.stride(), fours) };
        columns
    }

    #[inline(always)]
    fn reduce_add(self, v: __m512) -> f32 {
        self.0.reduce_add(registers!(halves(v)))
    }

    #[inline(always)]
    fn reduce_add_each(self, v: [__m512; 4]) -> [f32; 4] {
        fold_each!(v, _mm512_add_ps)
    }

    #[inline(always)]
    fn reduce_max(self, v: __m512) -> f32 {
        self.0.reduce_max(registers!(halves(v)))
    }

    #[inline(always)]
    fn reduce_max_each(self, v: [__m512; 4]) -> [f32; 4] {
        fold_each!(v, _mm512_max_ps)
    }
}
