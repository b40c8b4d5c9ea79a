//! Tests that every tier does what the trait says, lane by lane, against scalar `f32`, and that `exp` is as exact as
//! documented.

use core::cell::LazyCell;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::prelude::rust_2024::*;
use std::{println, thread, vec};

use super::bare::Scalar;
use super::exp::{exp, exp_to_zero};
#[cfg(not(scalar))]
use super::portable::Portable;
use super::{Epilogue, Kernel, LANES, Panels, Simd, gebp};
use crate::{Mat, MatMut};

type Block = [f32; LANES];

/// Runs a kernel on a tier, if this CPU has it.
trait RunTier {
    /// Whether a multiply-add rounds once.
    const FUSED: bool;
    fn run<K: Kernel>(kernel: K) -> Option<K::Output>;
}

/// Defines a tier of the tests by whether it is fused and how it runs a kernel.
macro_rules! tier {
    ($(#[$cfg:meta])* $name:ident: $fused:expr, |$kernel:ident| $run:expr) => {
        $(#[$cfg])*
        struct $name;

        $(#[$cfg])*
        impl RunTier for $name {
            const FUSED: bool = $fused;

            fn run<K: Kernel>($kernel: K) -> Option<K::Output> {
                $run
            }
        }
    };
}

/// Whether the target that `wide` was compiled for has fused multiply-add.
#[cfg(not(scalar))]
const FUSED: bool =
    cfg!(any(target_feature = "fma", all(target_arch = "aarch64", target_feature = "neon")));

tier!(#[cfg(not(scalar))] OnPortable: FUSED, |kernel| Some(kernel.run(Portable)));
tier!(OnScalar: cfg!(fused), |kernel| Some(kernel.run(Scalar)));
tier!(
    #[cfg(target_arch = "x86_64")]
    OnAvx2: true, |kernel| super::Avx2::new().map(|avx2| avx2.call(kernel))
);
tier!(
    #[cfg(target_arch = "x86_64")]
    OnAvx512: true, |kernel| super::Avx512::new().map(|avx512| avx512.call(kernel))
);

/// Applies an operation to blocks on a tier: `on!(T, |s, a, b| s.add(a, b))`. Outside the kernel a name is that of a block, and
/// inside it that of the block's vector.
macro_rules! on {
    ($tier:ty, |$simd:ident, $($v:ident),+| $op:expr) => {{
        struct Op<'a>([&'a Block; on!(@count $($v)+)]);
        impl Kernel for Op<'_> {
            type Output = Block;
            #[inline(always)]
            fn run<S: Simd>(self, $simd: S) -> Block {
                let Self([$($v),+]) = self;
                $(let $v = $simd.load($v);)+
                let mut out = [0.0; LANES];
                $simd.store($op, &mut out);
                out
            }
        }
        let blocks: [&Block; _] = [$($v),+];
        <$tier>::run(Op(blocks))
    }};
    (@count $($v:ident)+) => { <[&str]>::len(&[$(stringify!($v)),+]) };
}

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;
const MAX: f32 = f32::MAX;
/// The smallest normal number.
const SMALL: f32 = f32::MIN_POSITIVE;

/// Numbers for which an operation is likely to be wrong.
const SPECIAL: [f32; 22] = [
    0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.25, INF, -INF, NAN, MAX, -MAX, SMALL, -SMALL, 1e-45, -1e-45,
    1e-40, 16777217.0, 1.0000001, 0.99999994, 1e30, -1e-30,
];

/// Blocks in which each pair of special numbers occurs in nearly every lane, followed by blocks of numbers of all magnitudes.
/// Under Miri about half of the pairs occur.
fn triples() -> impl Iterator<Item = (Block, Block, Block)> {
    let n = SPECIAL.len();
    let rounds = if cfg!(miri) { 1 } else { LANES };
    let special = (0..n * n * rounds).step_by(if cfg!(miri) { 25 } else { 1 }).map(move |i| {
        let at = |k: usize| SPECIAL[k % n];
        let lane = |step: usize, of: usize| core::array::from_fn(|l| at(of + l * step));
        (lane(1, i), lane(3, i / n), lane(5, i + i / n))
    });
    let mut bits = Bits(1);
    let random = (0..if cfg!(miri) { 4 } else { 5000 }).map(move |_| {
        let mut block = || core::array::from_fn(|_| bits.float());
        (block(), block(), block())
    });
    special.chain(random)
}

/// A generator of numbers of all magnitudes: Marsaglia's xorshift.
struct Bits(u32);

impl Bits {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }

    fn float(&mut self) -> f32 {
        f32::from_bits(self.next())
    }
}

/// Whether two numbers have the same bits. All NaN count as the same, because the contract does not say which payload results.
fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[track_caller]
fn assert_lanes(found: Option<Block>, what: &str, expected: impl Fn(usize) -> f32) {
    let Some(found) = found else { return };
    for (l, x) in found.into_iter().enumerate() {
        let y = expected(l);
        assert!(
            same(x, y),
            "{what}, lane {l}: {x:e} ({:#x}) instead of {y:e} ({:#x})",
            x.to_bits(),
            y.to_bits()
        );
    }
}

fn arithmetic<T: RunTier>() {
    for (a, b, c) in triples() {
        let (a, b, c) = (&a, &b, &c);
        assert_lanes(on!(T, |s, a, b| s.add(a, b)), "add", |l| a[l] + b[l]);
        assert_lanes(on!(T, |s, a, b| s.sub(a, b)), "sub", |l| a[l] - b[l]);
        assert_lanes(on!(T, |s, a, b| s.mul(a, b)), "mul", |l| a[l] * b[l]);
        assert_lanes(on!(T, |s, a, b| s.div(a, b)), "div", |l| a[l] / b[l]);
        let mul_add =
            |l: usize| if T::FUSED { a[l].mul_add(b[l], c[l]) } else { a[l] * b[l] + c[l] };
        assert_lanes(on!(T, |s, a, b, c| s.mul_add(a, b, c)), "mul_add", mul_add);
        // Written out, because `f32::max` may return either signed zero and drops NaN.
        let max = |l: usize| if a[l] > b[l] { a[l] } else { b[l] };
        assert_lanes(on!(T, |s, a, b| s.max(a, b)), "max", max);
        let gt = |l: usize| if a[l] > b[l] { c[l] } else { b[l] };
        assert_lanes(on!(T, |s, a, b, c| s.select(s.gt(a, b), c, b)), "gt", gt);
        let eq = |l: usize| if a[l] == b[l] { c[l] } else { a[l] };
        assert_lanes(on!(T, |s, a, b, c| s.select(s.eq(a, b), c, a)), "eq", eq);
    }
}

fn splat_load_store<T: RunTier>() {
    struct Splat(f32);
    impl Kernel for Splat {
        type Output = Block;
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> Block {
            let mut out = [9.0; LANES];
            simd.store(simd.splat(self.0), &mut out);
            out
        }
    }
    for x in SPECIAL {
        assert_lanes(T::run(Splat(x)), "splat", |_| x);
    }

    struct LoadOr<'a>(&'a [f32]);
    impl Kernel for LoadOr<'_> {
        type Output = Block;
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> Block {
            let mut out = [9.0; LANES];
            simd.store(simd.load_or(self.0, -7.0), &mut out);
            out
        }
    }
    struct StoreFirst<'a>(&'a Block, &'a mut [f32]);
    impl Kernel for StoreFirst<'_> {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            simd.store_first(simd.load(self.0), self.1);
        }
    }
    let numbers: [f32; 40] = core::array::from_fn(|i| i as f32 + 1.0);
    for len in 0..40 {
        let expected = |l: usize| if l < len { numbers[l] } else { -7.0 };
        assert_lanes(T::run(LoadOr(&numbers[..len])), "load_or", expected);

        let block: Block = core::array::from_fn(|l| numbers[l]);
        let mut out = [-7.0; 41];
        if T::run(StoreFirst(&block, &mut out[..len])).is_some() {
            for (i, x) in out.iter().enumerate() {
                let expected = if i < len.min(LANES) { numbers[i] } else { -7.0 };
                assert_eq!(*x, expected, "store_first into {len} elements, element {i}");
            }
        }
    }
}

fn powers_of_two<T: RunTier>() {
    let step = if cfg!(miri) { 50 } else { 1 };
    for n in (-252_i32..=254).step_by(step) {
        let mut mantissas = Bits(n.unsigned_abs() + 1);
        for round in 0..if cfg!(miri) { 1 } else { 20 } {
            // Numbers from ½ to 2 of either sign, and then numbers that must stay unchanged.
            let mut v: Block = core::array::from_fn(|_| {
                let sign_and_mantissa = mantissas.next() & 0x807f_ffff;
                f32::from_bits(
                    sign_and_mantissa | [0x3f00_0000, 0x3f80_0000][(mantissas.next() & 1) as usize],
                )
            });
            if round == 0 {
                v[..8].copy_from_slice(&[0.0, -0.0, INF, -INF, NAN, 1.0, -0.5, 2.0]);
            }
            let (v, n) = (&v, &[n as f32; LANES]);
            // The product is exact in `f64`, so it is rounded once.
            let expected = |l: usize| (f64::from(v[l]) * 2_f64.powi(n[l] as i32)) as f32;
            assert_lanes(on!(T, |s, v, n| s.scale_exp2(v, n)), "scale_exp2", expected);
        }
    }
    let v = &[NAN; LANES];
    let n = v;
    assert_lanes(on!(T, |s, v, n| s.scale_exp2(v, n)), "scale_exp2 of NaN by NaN", |_| NAN);
}

fn reductions<T: RunTier>() {
    struct Reduce<'a>(&'a Block);
    impl Kernel for Reduce<'_> {
        type Output = (f32, f32);
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> (f32, f32) {
            let v = simd.load(self.0);
            (simd.reduce_add(v), simd.reduce_max(v))
        }
    }
    for (a, ..) in triples() {
        let Some((sum, max)) = T::run(Reduce(&a)) else { return };
        let mut tree = a;
        for half in [8, 4, 2, 1] {
            for l in 0..half {
                tree[l] += tree[l + half];
            }
        }
        assert!(same(sum, tree[0]), "reduce_add of {a:?}: {sum:e} instead of {:e}", tree[0]);
        if a.iter().any(|x| x.is_nan()) {
            assert!(
                a.iter().any(|x| same(*x, max)),
                "reduce_max of {a:?} is none of its lanes: {max:e}"
            );
        } else {
            let largest = a.iter().fold(-INF, |m, x| if *x > m { *x } else { m });
            assert_eq!(max, largest, "reduce_max of {a:?}");
        }
    }

    struct ReduceEach<'a>([&'a Block; 4]);
    impl Kernel for ReduceEach<'_> {
        type Output = [([f32; 4], [f32; 4]); 2];
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> Self::Output {
            let mut v = [simd.splat(0.0); 4];
            let (mut sums, mut largest) = ([0.0; 4], [0.0; 4]);
            for (i, block) in self.0.into_iter().enumerate() {
                v[i] = simd.load(block);
                (sums[i], largest[i]) = (simd.reduce_add(v[i]), simd.reduce_max(v[i]));
            }
            [(simd.reduce_add_each(v), simd.reduce_max_each(v)), (sums, largest)]
        }
    }
    for (a, b, c) in triples() {
        let blocks = [&a, &b, &c, &a];
        let Some([(sums, largest), expected]) = T::run(ReduceEach(blocks)) else { return };
        for i in 0..4 {
            let (sum, max) = (expected.0[i], expected.1[i]);
            assert!(same(sums[i], sum), "sum {i} of {blocks:?}: {:e} instead of {sum:e}", sums[i]);
            if blocks[i].iter().all(|x| !x.is_nan()) {
                assert_eq!(largest[i], max, "maximum {i} of {blocks:?}");
            }
        }
    }
}

fn transposition<T: RunTier>() {
    struct Transpose<'a>([&'a [f32; 8]; 8], bool);
    impl Kernel for Transpose<'_> {
        type Output = [Block; 8];
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> [Block; 8] {
            let mut panel = [[-1.0; LANES]; 8];
            simd.transpose(self.0, &mut panel, self.1);
            panel
        }
    }
    let rows: [[f32; 8]; 8] =
        core::array::from_fn(|r| core::array::from_fn(|c| (8 * r + c) as f32));
    for second in [false, true] {
        let Some(panel) = T::run(Transpose(rows.each_ref(), second)) else { return };
        for (c, found) in panel.iter().enumerate() {
            for (l, x) in found.iter().enumerate() {
                let row = if second { l.wrapping_sub(8) } else { l };
                assert_eq!(*x, rows.get(row).map_or(-1.0, |row| row[c]), "column {c}, lane {l}");
            }
        }
    }
}

fn exponents<T: RunTier>() {
    for n in (0..=254_u32).step_by(LANES) {
        // The bits above the low eight do not matter.
        let x: Block = core::array::from_fn(|l| f32::from_bits(0x4B40_0000 + n + l as u32));
        let x = &x;
        let expected = |l: usize| f32::from_bits((n + l as u32) << 23);
        assert_lanes(on!(T, |s, x| s.exponent(x)), "exponent", expected);
    }
}

fn exp_of<T: RunTier>(x: &Block) -> Option<Block> {
    on!(T, |s, x| exp(s, x))
}

fn exp_to_zero_of<T: RunTier>(x: &Block) -> Option<Block> {
    on!(T, |s, x| exp_to_zero(s, x))
}

/// The distance of `found` from eˣ, in units of the last place there; `exact` is eˣ in `f64`.
fn exp_error(x: f32, exact: f64, found: f32) -> f64 {
    let limit = 2_f64.powi(128);
    if x.is_nan() || exact >= limit {
        let expected = if x.is_nan() { NAN } else { INF };
        return if same(found, expected) { 0.0 } else { f64::INFINITY };
    }
    if found.is_nan() || found.is_sign_negative() {
        return f64::INFINITY;
    }
    // ∞ counts as 2¹²⁸, the next power that `f32` cannot hold.
    let found = if found == INF { limit } else { f64::from(found) };
    let exponent = ((exact.to_bits() >> 52) as i32 - 1023).clamp(-126, 127);
    let ulp = f64::from_bits(((exponent - 23 + 1023) as u64) << 52);
    (found - exact).abs() / ulp
}

/// As [`exp_error`], for the exponential of x ≤ 0, which may return 0 instead of a subnormal number.
fn exp_to_zero_error(x: f32, exact: f64, found: f32) -> f64 {
    let flushed = found == 0.0 && exact < f64::from(f32::MIN_POSITIVE);
    if x > 0.0 || flushed { 0.0 } else { exp_error(x, exact, found) }
}

/// An exponential of a tier. It returns `None` if this CPU lacks the tier.
struct Exp {
    name: &'static str,
    of: fn(&Block) -> Option<Block>,
    error: fn(f32, f64, f32) -> f64,
    /// The largest error allowed, in ULP.
    limit: f64,
}

const fn exponentials<T: RunTier>(name: &'static str) -> [Exp; 2] {
    let limit = if T::FUSED { 1.0 } else { 1.25 };
    [
        Exp { name, of: exp_of::<T>, error: exp_error, limit: 1.0 },
        Exp { name, of: exp_to_zero_of::<T>, error: exp_to_zero_error, limit },
    ]
}

/// The tiers that this machine has.
const EXPS: &[[Exp; 2]] = &[
    #[cfg(not(scalar))]
    exponentials::<OnPortable>("portable"),
    #[cfg(scalar)]
    exponentials::<OnScalar>("scalar"),
    #[cfg(target_arch = "x86_64")]
    exponentials::<OnAvx2>("AVX2"),
    #[cfg(target_arch = "x86_64")]
    exponentials::<OnAvx512>("AVX-512"),
];

/// An error in ULP, and the number at which it occurs.
type ErrorAt = (f64, f32);

fn larger(a: ErrorAt, b: ErrorAt) -> ErrorAt {
    if b.0 > a.0 { b } else { a }
}

/// The float nearest to e^x, if it is the same for all numbers of a block: e^−104 is less than half of the least float, e^89 is
/// above the largest float, and e^±2⁻²⁶ is within a quarter of an ULP of 1.
fn shared_exp(x: &Block) -> Option<f32> {
    let all = |holds: fn(f32) -> bool| x.iter().all(|x| holds(*x));
    [
        (0.0, all(|x| x <= -104.0)),
        (1.0, all(|x| x.abs() <= 2_f32.powi(-26))),
        (INF, all(|x| x >= 89.0)),
    ]
    .into_iter()
    .find_map(|(exp, shared)| shared.then_some(exp))
}

/// The largest error above half an ULP of each of [`EXPS`] over blocks of numbers, 0 if there is none. Most results are the nearest
/// float, whose error is at most half an ULP, and are skipped.
fn largest_exp_errors(blocks: impl Iterator<Item = Block>) -> Vec<ErrorAt> {
    let mut largest = vec![(0.0, 0.0); EXPS.as_flattened().len()];
    for x in blocks {
        let exact = LazyCell::new(|| x.map(|x| f64::from(x).exp()));
        let nearest =
            shared_exp(&x).map_or_else(|| exact.map(|exact| exact as f32), |exp| [exp; LANES]);
        for (exp, largest) in EXPS.as_flattened().iter().zip(&mut largest) {
            let Some(found) = (exp.of)(&x) else { continue };
            for l in 0..LANES {
                if found[l].to_bits() != nearest[l].to_bits() {
                    *largest = larger(*largest, ((exp.error)(x[l], exact[l], found[l]), x[l]));
                }
            }
        }
    }
    largest
}

/// The floats whose bits are multiples of `stride`, in the range `bits`. The last block is filled up with its last number.
fn floats(bits: Range<u64>, stride: u64) -> impl Iterator<Item = Block> {
    bits.step_by(LANES * stride as usize).map(move |bits| {
        core::array::from_fn(|l| {
            f32::from_bits(u32::try_from(bits + l as u64 * stride).unwrap_or(u32::MAX))
        })
    })
}

#[track_caller]
fn assert_within_limits(largest: &[ErrorAt]) {
    for (Exp { name, limit, .. }, (error, x)) in EXPS.as_flattened().iter().zip(largest) {
        println!("{name}: largest error of exp {error:.4} ULP, at {x:e}");
        assert!(error < limit, "{name}: exp({x:e}) is {error} ULP off");
    }
}

#[test]
fn exp_is_within_one_ulp_on_a_sample() {
    let (stride, steps) = if cfg!(miri) { (39_999_999, 16) } else { (997, 4096) };
    assert_within_limits(&largest_exp_errors(floats(0..1 << 32, stride)));
    // Numbers around the ends of the range, which give the last subnormal result and the last finite one, and a number at which
    // rounding the remainder once caused an error of 1.0095 ULP.
    let centres =
        [-59.921_88, -104.0_f32, -103.972_08, -103.278_93, -87.336_55, 0.0, 88.722_84, 89.0];
    let around = centres.into_iter().flat_map(|centre| {
        let bits = u64::from(centre.to_bits());
        floats(bits.saturating_sub(steps)..bits + steps, 1)
    });
    assert_within_limits(&largest_exp_errors(around));
}

#[test]
#[ignore = "all 2³² floats: a minute or two in release"]
fn exp_is_within_one_ulp_everywhere() {
    // There are many parts, because some take longer than others. Each thread takes the next part when it has finished one.
    const PARTS: u64 = 1 << 12;
    let next = AtomicU64::new(0);
    let work = || {
        let mut largest = vec![(0.0, 0.0); EXPS.as_flattened().len()];
        loop {
            let start = next.fetch_add(1, Ordering::Relaxed) * (1 << 32) / PARTS;
            if start >= 1 << 32 {
                return largest;
            }
            let of_part = largest_exp_errors(floats(start..start + (1 << 32) / PARTS, 1));
            largest = largest.into_iter().zip(of_part).map(|(a, b)| larger(a, b)).collect();
        }
    };
    let largest = thread::scope(|scope| {
        let threads: Vec<_> = (0..thread::available_parallelism().unwrap().get())
            .map(|_| scope.spawn(work))
            .collect();
        let of_threads = threads.into_iter().map(|thread| thread.join().unwrap());
        of_threads.reduce(|a, b| a.into_iter().zip(b).map(|(a, b)| larger(a, b)).collect()).unwrap()
    });
    assert_within_limits(&largest);
}

fn exp_of_special_values<T: RunTier>() {
    const E: f32 = core::f32::consts::E;
    let x = [
        INF, -INF, NAN, 0.0, -0.0, -1e30, 1e30, -104.0, 89.0, MAX, -MAX, 1e-45, -1e-45, 1e-10, 1.0,
        -200.0,
    ];
    let expected = [INF, 0.0, NAN, 1.0, 1.0, 0.0, INF, 0.0, INF, INF, 0.0, 1.0, 1.0, 1.0, E, 0.0];
    assert_lanes(exp_of::<T>(&x), "exp of special values", |l| expected[l]);
}

/// Tests all that the trait promises of a tier.
fn keeps_its_promises<T: RunTier>() {
    arithmetic::<T>();
    splat_load_store::<T>();
    powers_of_two::<T>();
    reductions::<T>();
    transposition::<T>();
    exponents::<T>();
    exp_of_special_values::<T>();
}

#[cfg(not(scalar))]
#[test]
fn the_portable_tier_keeps_its_promises() {
    keeps_its_promises::<OnPortable>();
}

#[test]
fn the_scalar_tier_keeps_its_promises() {
    keeps_its_promises::<OnScalar>();
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_tiers_found_at_run_time_keep_their_promises() {
    keeps_its_promises::<OnAvx2>();
    keeps_its_promises::<OnAvx512>();
}

/// Also in release builds: the tiles of a narrow tier read B through pointers.
#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "2 rows of 3 columns"))]
fn a_narrow_tier_refuses_columns_that_lie_outside_of_the_data() {
    struct Multiply<'a>(Mat<'a>, Panels<'a>, MatMut<'a>);
    impl Kernel for Multiply<'_> {
        type Output = ();

        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            let Self(a, b, mut out) = self;
            gebp(simd, a, b, &mut out, 0, 1, 1, Epilogue::Set);
        }
    }
    let (a, b, mut out) = ([[1.0, 2.0]], [[3.0, 4.0, 5.0], [6.0, 7.0, 8.0]], [[9.0; 3]]);
    let mut panels = Panels::in_place(Mat::from(&b));
    panels.data = &panels.data[..5]; // the last element is missing
    Multiply(Mat::from(&a), panels, MatMut::from(&mut out)).run(Scalar);
    assert_eq!(out, [[9.0; 3]]);
}
