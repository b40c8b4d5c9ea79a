//! All that a target changes: every tier of vectors, every intrinsic, every `unsafe` of the libraries.
//!
//! A kernel is written once, generic over [`Simd`], and reaches the vectors of the machine through [`dispatch`].
//! The unit is a block of [`LANES`] = 16 `f32` on every tier, whatever the registers' width: where the order of a sum
//! shows in its bits, it is the order of these 16 lanes, so that tiers with fused multiply-add agree to the last bit.
//!
//! - `vector`: the traits that a tier implements, [`Lanes`] and [`Simd`].
//! - `x86` (AVX2 and AVX-512, found at run time), `portable` (the vectors that the target is compiled for: SSE2, NEON, wasm) and
//!   `bare` (cores without vectors, and Helium).
//! - `generic`: loops that need `unsafe`, for all tiers.
//! - [`TARGET`]: what is decided for a target once, whichever tier runs.

#![expect(
    unsafe_code,
    reason = "the one place where it is allowed: intrinsics and the innermost tile loop"
)]

#[cfg(any(scalar, feature = "scalar", test))]
mod bare;
mod bytes;
mod environment;
mod exp;
mod generic;
mod pages;
#[cfg(not(scalar))]
mod portable;
mod tier;
mod vector;
mod widen;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(scalar)]
use self::bare::Scalar as Compiled;
#[cfg(not(scalar))]
use self::portable::Portable as Compiled;
#[cfg(target_arch = "x86_64")]
use self::x86::{Avx2, Avx512};

pub use self::bytes::{Number, numbers};
use self::environment::DefaultEnvironment;
pub use self::environment::{with_default_environment, with_other_environment};
pub(crate) use self::exp::{Distance, Exp, Exp2ToZero, ExpToZero, exp_to_zero};
pub(crate) use self::generic::gemv::gemv;
pub(crate) use self::generic::int8;
pub(crate) use self::generic::known::{matmul_by_4, matmul_by_8, matmul_by_16};
pub(crate) use self::generic::pack::{pack_columns, pack_transposed, pack_transposed_here};
pub(crate) use self::generic::tile::{
    Epilogue, MR, Panel, Panels, gebp, next_groups, panels_at_once,
};
pub use self::pages::prefer_large_pages;
pub use self::tier::Tier;
pub(crate) use self::vector::{Lanes, Map, Shape, Simd, Zip, map_add, max_lanes, operations};
pub use self::widen::f32_from_f16;

/// The number of lanes of a block.
pub(crate) const LANES: usize = 16;

/// What a target decides, whichever tier runs.
pub(crate) struct Target {
    /// Some tier reads packed panels, so that an attention needs memory for them. It is false if every tier is
    /// [narrow](Simd::NARROW).
    pub(crate) packs: bool,
    /// A program links only the parts of an attention that it uses (`attention/mask/linked.rs`).
    pub(crate) links_parts: bool,
    /// Shapes that the compiler knows have code of their own.
    pub(crate) knows_shapes: bool,
    /// The most queries of a block, on any tier. A block's queries are multiplied by a panel of keys, then by one of values,
    /// while it is in the first-level cache. Without a cache only the memory for a block counts, so a block is one group.
    pub(crate) queries: usize,
    /// The number of queries from which on packing the values of a tile saves time. Two rows of V may be a page apart, and then
    /// few of its columns fit in the first-level cache. Without a cache packing never saves time.
    pub(crate) packs_values_from: usize,
    /// Rows of panels that a small, a medium and a large product pack on the stack at a time. Without a cache, only the size of
    /// the stack counts.
    pub(crate) panel_rows: [usize; 3],
    /// The least number of panels that a packed block of B has side by side. They lie together in a row of B.
    pub(crate) panels_side_by_side: usize,
}

pub(crate) const TARGET: Target = {
    let narrow = <Compiled as Simd>::NARROW;
    if cfg!(target_os = "none") {
        Target {
            packs: !narrow,
            links_parts: narrow,
            knows_shapes: false,
            queries: MR,
            packs_values_from: isize::MAX as usize,
            panel_rows: [32; 3],
            panels_side_by_side: 1,
        }
    } else {
        Target {
            packs: !narrow,
            links_parts: narrow,
            knows_shapes: !narrow,
            queries: if narrow { MR } else { 36 },
            packs_values_from: 12,
            panel_rows: [64, 1024, 4096],
            panels_side_by_side: 4,
        }
    }
};

/// On bare metal, where each byte of code counts, makes a function one that all callers share. Elsewhere the function is
/// inlined as the first argument says.
macro_rules! shared {
    ($inline:meta, $($function:tt)+) => {
        #[cfg_attr(target_os = "none", inline(never))]
        #[cfg_attr(not(target_os = "none"), $inline)]
        $($function)+
    };
}
pub(crate) use shared;

/// Keeps the compiler from vectorizing a loop over floats that writes `x`. Helium's vectors would treat subnormal numbers as
/// zero. On other targets this does nothing.
///
/// `-C no-vectorize-loops -C no-vectorize-slp` would do the same for all loops at once, but a crate cannot ask for them: of what a
/// build script prints, Cargo gives the compiler `cfg`s, paths and the linker's arguments (`cargo::rustc-flags` takes `-l` and `-L`
/// alone), and a profile of a dependency does not count. A firmware that lacks them in its own configuration would compute other bits.
#[inline(always)]
#[cfg_attr(
    not(helium),
    expect(
        clippy::needless_pass_by_ref_mut,
        reason = "Helium's compiler must assume that `x` is written"
    )
)]
pub(crate) fn one_by_one<T>(x: &mut T) {
    // SAFETY: there is no instruction. The compiler must assume that `x` is read and written here, so it vectorizes no loop
    // around this place.
    #[cfg(helium)]
    unsafe {
        core::arch::asm!("/* {} */", in(reg) x, options(nostack, preserves_flags));
    }
    #[cfg(not(helium))]
    let _ = x;
}

/// A computation that is generic over the vectors it runs on. Mark `run` and all that it calls `#[inline(always)]`: only
/// inlined code is compiled with the tier's instructions. For the same reason no closure may hold vector code: `array::map` and
/// similar functions are compiled without these instructions.
pub(crate) trait Kernel: Sized {
    type Output;

    /// The tier on which [`dispatch`] runs the kernel.
    #[inline(always)]
    fn tier(&self) -> Tier {
        Tier::active()
    }

    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// Runs `kernel` on [its tier](Kernel::tier), which is mostly the [active](Tier::active) one, in the default floating-point
/// environment. If the CPU lacks that tier, it runs on the next slower one that the CPU has. Each tier's `enter` is a function of
/// its own, so that no arithmetic leaves the environment. Call it once for a whole head or matrix, never for a row.
#[inline(always)]
pub(crate) fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    let _environment = DefaultEnvironment::enter();
    let tier = kernel.tier();
    #[cfg(target_arch = "x86_64")]
    {
        if tier == Tier::Avx512
            && let Some(avx512) = Avx512::new()
        {
            // SAFETY: a value of `Avx512` proves that the CPU has its instructions.
            return unsafe { avx512.enter(kernel) };
        }
        #[cfg(any(feature = "scalar", test))]
        if tier == Tier::Scalar {
            return bare::Scalar.call(kernel);
        }
        if tier != Tier::Portable
            && let Some(avx2) = Avx2::new()
        {
            // SAFETY: a value of `Avx2` proves that the CPU has its instructions.
            return unsafe { avx2.enter(kernel) };
        }
        // SAFETY: the program is compiled for these instructions.
        unsafe { Compiled.enter(kernel) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = tier; // there is one
        Compiled.call(kernel)
    }
}

/// Whether all numbers are finite, computed in little code.
#[inline(always)]
pub(crate) fn all_finite(row: &[f32]) -> bool {
    #[cfg(helium)]
    return bare::all_finite(row);
    #[cfg(not(helium))]
    row.iter().all(|x| x.to_bits() << 1 < f32::INFINITY.to_bits() << 1) // without the sign, the bits of NaN are above those of ∞
}

/// The largest element that is not NaN; −∞ if there is none. For narrow tiers, which read one element after another.
#[inline(always)]
pub(crate) fn largest(row: &[f32]) -> f32 {
    #[cfg(helium)]
    if let Some(max) = bare::max_of(row) {
        return max;
    }
    row.iter().fold(f32::NEG_INFINITY, |max, x| if *x > max { *x } else { max })
}

/// √x, rounded correctly.
#[inline(always)]
pub(crate) fn sqrt(x: f32) -> f32 {
    #[cfg(fused)]
    return bare::sqrt(x);
    #[cfg(not(fused))]
    libm::sqrtf(x)
}

/// row ← row · factor + 0, on a tier that computes one number at a time.
pub(crate) fn scale_plus_zero<L: Lanes<V = f32>>(lane: L, row: &mut [f32], factor: f32) {
    #[cfg(helium)]
    {
        let _ = lane;
        bare::scale_plus_zero(row, factor);
    }
    #[cfg(not(helium))]
    for x in row {
        one_by_one(x);
        *x = lane.add(lane.mul(*x, factor), 0.0);
    }
}

#[cfg(test)]
mod tests;
