//! The innermost loops of Cortex-M with an FPU, in assembly: stable Rust has no fused multiply-add in `core`, and gives
//! `asm!` no operands in the registers of an FPU for single precision alone. So these work from memory and core registers.

use core::arch::asm;
use core::mem::MaybeUninit;

use super::{COLS, ROWS, Sums};

/// a·b + c, rounded once.
#[inline(always)]
pub(super) fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
    let mut sum = c;
    // SAFETY: `cfg(fused)` says that the core has the instruction; it works on registers that are declared, alone.
    unsafe {
        asm!(
            "vmov s0, s1, {a}, {b}",
            "vmov s2, {sum}",
            "vfma.f32 s2, s0, s1",
            "vmov {sum}, s2",
            a = in(reg) a, b = in(reg) b, sum = inout(reg) sum, out("s0") _, out("s1") _, out("s2") _,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// As [`Lanes::polynomial`](crate::simd::Lanes::polynomial), for the lengths that there are.
#[inline(always)]
pub(super) fn polynomial<const N: usize>(c: &[f32; N], x: f32, factor: f32, term: f32) -> f32 {
    const { assert!(N == 5 || N == 6) }
    let sum;
    macro_rules! horner {
        ($first:literal, $($step:literal),+) => {
            // SAFETY: reads the N coefficients; else as above.
            unsafe {
                asm!(
                    concat!("vldmia {c}, {{", $first, "-s7}}"),
                    "vmov s8, {x}",
                    $($step,)+
                    "vmov s8, s9, {factor}, {term}",
                    "vfma.f32 s9, s7, s8",
                    "vmov {sum}, s9",
                    c = in(reg) c, x = in(reg) x, factor = in(reg) factor, term = in(reg) term, sum = lateout(reg) sum,
                    out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _, out("s7") _, out("s8") _, out("s9") _,
                    options(pure, readonly, nostack, preserves_flags),
                );
            }
        };
    }
    if N == 6 {
        horner!(
            "s2",
            "vfma.f32 s3, s2, s8",
            "vfma.f32 s4, s3, s8",
            "vfma.f32 s5, s4, s8",
            "vfma.f32 s6, s5, s8",
            "vfma.f32 s7, s6, s8"
        );
    } else {
        horner!("s3", "vfma.f32 s4, s3, s8", "vfma.f32 s5, s4, s8", "vfma.f32 s6, s5, s8", "vfma.f32 s7, s6, s8");
    }
    sum
}

/// Sums that begin, in two instructions.
#[inline(always)]
pub(super) fn clear(sums: &mut MaybeUninit<Sums>) -> &mut Sums {
    static ZEROS: Sums = [[0.0; COLS]; ROWS];
    // SAFETY: all 24 numbers are read, and written.
    unsafe {
        asm!(
            "vldmia {zeros}, {{s0-s23}}",
            "vstmia {sums}, {{s0-s23}}",
            zeros = in(reg) &raw const ZEROS, sums = in(reg) sums.as_mut_ptr(),
            out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _, out("s7") _,
            out("s8") _, out("s9") _, out("s10") _, out("s11") _, out("s12") _, out("s13") _, out("s14") _, out("s15") _,
            out("s16") _, out("s17") _, out("s18") _, out("s19") _, out("s20") _, out("s21") _, out("s22") _,
            out("s23") _,
            options(nostack, preserves_flags),
        );
        sums.assume_init_mut()
    }
}

/// A loop of `$depth` rounds: each loads a row of B into s24 to s27, and for each row of A its next element, whose products
/// are added to the sums, s0 to s23.
macro_rules! rounds {
    ($sums:expr, $depth:expr, $registers:literal, [$($load:literal),+], [$(($a:ident, $s0:literal, $s1:literal, $s2:literal, $s3:literal)),+],
        $($operands:tt)+) => {
        asm!(
            concat!("vldmia {sums}, {{", $registers, "}}"),
            "2:",
            $($load,)+
            $(
                concat!("vldmia {", stringify!($a), "}!, {{s28}}"),
                concat!("vfma.f32 ", $s0, ", s24, s28"),
                concat!("vfma.f32 ", $s1, ", s25, s28"),
                concat!("vfma.f32 ", $s2, ", s26, s28"),
                concat!("vfma.f32 ", $s3, ", s27, s28"),
            )+
            "subs {depth}, {depth}, #1",
            "bne 2b",
            concat!("vstmia {sums}, {{", $registers, "}}"),
            sums = in(reg) $sums.as_mut_ptr(), depth = inout(reg) $depth => _, $($a = inout(reg) $a => _,)+ $($operands)+,
            out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _, out("s7") _,
            out("s8") _, out("s9") _, out("s10") _, out("s11") _, out("s12") _, out("s13") _, out("s14") _, out("s15") _,
            out("s16") _, out("s17") _, out("s18") _, out("s19") _, out("s20") _, out("s21") _, out("s22") _,
            out("s23") _, out("s24") _, out("s25") _, out("s26") _, out("s27") _, out("s28") _,
            options(nostack),
        )
    };
}

/// The loop for all rows of A, or only the first.
macro_rules! rows {
    ($sums:expr, $one:expr, $a:expr, $depth:expr, $load:tt, $($operands:tt)+) => {{
        let [a0, a1, a2, a3, a4, a5] = $a;
        if $one {
            rounds!($sums, $depth, "s0-s3", $load, [(a0, "s0", "s1", "s2", "s3")], $($operands)+);
        } else {
            rounds!($sums, $depth, "s0-s23", $load,
                [(a0, "s0", "s1", "s2", "s3"), (a1, "s4", "s5", "s6", "s7"), (a2, "s8", "s9", "s10", "s11"),
                    (a3, "s12", "s13", "s14", "s15"), (a4, "s16", "s17", "s18", "s19"), (a5, "s20", "s21", "s22", "s23")],
                $($operands)+);
        }
    }};
}

/// `sums`\[r\]\[c\] += Σₜ a\[r\]\[t\]·b\[t·step + c\], t < depth, for all rows or only the first.
///
/// # Safety
/// These elements must exist.
#[inline(always)]
pub(super) unsafe fn by_rows(
    sums: &mut Sums,
    one: bool,
    a: [*const f32; ROWS],
    b: *const f32,
    step: usize,
    depth: usize,
) {
    if depth > 0 {
        // SAFETY: the caller answers for the elements that are read; the sums are written, and registers that are declared.
        unsafe {
            rows!(sums, one, a, depth, ["vldmia {b}, {{s24-s27}}", "add {b}, {b}, {step}"],
                b = inout(reg) b => _, step = in(reg) step * size_of::<f32>());
        }
    }
}

/// `sums`\[r\]\[c\] += Σₜ a\[r\]\[t\]·b\[c\]\[t·step\], t < depth, for all rows or only the first.
///
/// # Safety
/// These elements must exist.
#[inline(always)]
pub(super) unsafe fn by_columns(
    sums: &mut Sums,
    one: bool,
    a: [*const f32; ROWS],
    b: [*const f32; COLS],
    step: usize,
    depth: usize,
) {
    if depth > 0 && step == 1 {
        let [b0, b1, b2, b3] = b;
        // SAFETY: as above.
        unsafe {
            rows!(sums, one, a, depth,
                ["vldmia {b0}!, {{s24}}", "vldmia {b1}!, {{s25}}", "vldmia {b2}!, {{s26}}", "vldmia {b3}!, {{s27}}"],
                b0 = inout(reg) b0 => _, b1 = inout(reg) b1 => _, b2 = inout(reg) b2 => _, b3 = inout(reg) b3 => _);
        }
    } else {
        // The last columns of a matrix, where they are fewer than a row of a tile.
        for t in 0..depth {
            for (a, sums) in a.iter().zip(sums.iter_mut()) {
                for (b, sum) in b.iter().zip(sums) {
                    // SAFETY: as above.
                    *sum = unsafe { multiply_add(*a.add(t), *b.add(t * step), *sum) };
                }
            }
        }
    }
}
