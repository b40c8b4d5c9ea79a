//! The innermost loops of Cortex-M with an FPU, in assembly. Stable Rust has no fused multiply-add in `core`, and on an FPU of
//! single precision alone `asm!` takes no operands in the FPU's registers. These functions therefore pass operands in memory
//! and in core registers.

use core::arch::asm;
use core::mem::MaybeUninit;

use super::{LANES, MR, NR, Sums};
use crate::arch::exp::{Distance, tables};

/// a·b + c, rounded once.
#[inline(always)]
pub(super) fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
    let mut sum = c;
    // SAFETY: `cfg(fused)` says that the core has the instruction. The assembly uses only the registers that it declares.
    unsafe {
        asm!(
            "vmov s0, s1, {a}, {b}",
            "vmov s2, {sum}",
            "vfma.f32 s2, s0, s1",
            "vmov {sum}, s2",
            a = in(reg) a, b = in(reg) b, sum = inout(reg) sum, out("s0") _, out("s1") _, out("s2") _,
            options(pure, nomem, nostack),
        );
    }
    sum
}

/// √x, rounded correctly.
#[inline(always)]
pub(crate) fn sqrt(x: f32) -> f32 {
    let root;
    // SAFETY: as above.
    unsafe {
        asm!(
            "vmov s0, {x}",
            "vsqrt.f32 s0, s0",
            "vmov {root}, s0",
            x = in(reg) x, root = lateout(reg) root, out("s0") _,
            options(pure, nomem, nostack),
        );
    }
    root
}

/// x ← f(x) for all elements. `$constants` load the constants from the table at `c`; for each element, `$steps` compute s1 from
/// s0. After the constants, `c` points to the coefficients of the polynomial. `$steps` load these again for each element,
/// because Horner's rule overwrites them.
macro_rules! each {
    ($row:expr, $distance:expr, $table:expr, [$($constants:literal),+], [$($step:literal),+]) => {
        if !$row.is_empty() {
            // SAFETY: reads and writes the row's elements and reads the table's; the registers are declared.
            unsafe {
                asm!(
                    $($constants,)+
                    "2:",
                    "vldmia {x}, {{s0}}",
                    $($step,)+
                    "vstmia {x}!, {{s1}}",
                    "subs {n}, {n}, #1",
                    "bne 2b",
                    x = inout(reg) $row.as_mut_ptr() => _, n = inout(reg) $row.len() => _,
                    c = inout(reg) &raw const $table => _, max = in(reg) $distance.max, factor = in(reg) $distance.factor,
                    out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _, out("s7") _,
                    out("s8") _, out("s9") _, out("s10") _, out("s11") _, out("s12") _, out("s13") _, out("s14") _,
                    out("s15") _, out("s16") _,
                    options(nostack),
                );
            }
        }
    };
}

/// As [`Exp2ToZero`](crate::arch::Exp2ToZero).
#[inline(never)]
pub(crate) fn exp2_to_zero(row: &mut [f32], distance: Distance) {
    each!(
        row,
        distance,
        tables::EXP2_TO_ZERO,
        ["vmov s8, s9, {max}, {factor}", "vldmia {c}!, {{s10-s12}}"],
        [
            "vsub.f32 s0, s0, s8",
            "vmul.f32 s0, s0, s9",
            "vcmp.f32 s0, s12",
            "vmrs APSR_nzcv, fpscr",
            "it mi", // less, and no NaN
            "vmovmi.f32 s0, s12",
            "vldmia {c}, {{s2-s7}}",
            "vadd.f32 s1, s0, s10",
            "vsub.f32 s13, s1, s10",
            "vsub.f32 s0, s0, s13",
            "vsub.f32 s1, s1, s11",
            "vcvt.u32.f32 s1, s1, #23", // n + 127 in the exponent field
            "vfma.f32 s3, s2, s0",
            "vfma.f32 s4, s3, s0",
            "vfma.f32 s5, s4, s0",
            "vfma.f32 s6, s5, s0",
            "vfma.f32 s7, s6, s0",
            "vmul.f32 s0, s1, s0",
            "vfma.f32 s1, s7, s0"
        ]
    );
}

/// As [`ExpToZero`](crate::arch::ExpToZero).
#[inline(never)]
pub(crate) fn exp_to_zero(row: &mut [f32], distance: Distance) {
    each!(
        row,
        distance,
        tables::EXP_TO_ZERO,
        ["vmov s8, s9, {max}, {factor}", "vldmia {c}!, {{s10-s15}}"],
        [
            "vsub.f32 s0, s0, s8",
            "vmul.f32 s0, s0, s9",
            "vcmp.f32 s0, s15",
            "vmrs APSR_nzcv, fpscr",
            "it mi",
            "vmovmi.f32 s0, s15",
            "vldmia {c}, {{s1-s7}}",
            "vfma.f32 s1, s0, s12",
            "vsub.f32 s16, s1, s10",
            "vfma.f32 s0, s16, s13",
            "vfma.f32 s0, s16, s14",
            "vsub.f32 s1, s1, s11",
            "vcvt.u32.f32 s1, s1, #23",
            "vfma.f32 s3, s2, s0",
            "vfma.f32 s4, s3, s0",
            "vfma.f32 s5, s4, s0",
            "vfma.f32 s6, s5, s0",
            "vfma.f32 s7, s6, s0",
            "vmul.f32 s0, s1, s0",
            "vfma.f32 s1, s7, s0"
        ]
    );
}

/// As [`Simd::sum`](crate::arch::Simd::sum). A copy of the last elements is padded to a block.
#[inline(always)]
pub(super) fn sum(row: &[f32]) -> f32 {
    let (blocks, rest) = row.as_chunks();
    if rest.is_empty() {
        return sum_of_blocks(blocks, &[]);
    }
    let mut tail = [[0.0; LANES]];
    for (to, from) in tail.as_flattened_mut().iter_mut().zip(rest) {
        *to = *from;
    }
    sum_of_blocks(blocks, &tail)
}

/// The sum of all elements of `row` and of `tail`.
#[inline(never)]
fn sum_of_blocks(row: &[[f32; LANES]], tail: &[[f32; LANES]]) -> f32 {
    let sum;
    // SAFETY: reads only panels that exist; the registers are declared.
    unsafe {
        asm!(
            "vldmia {zeros}, {{s0-s15}}",
            "cmp {n}, #0",
            "beq 3f",
            "2:",
            "vldmia {row}!, {{s16-s31}}",
            "vadd.f32 s0, s0, s16",
            "vadd.f32 s1, s1, s17",
            "vadd.f32 s2, s2, s18",
            "vadd.f32 s3, s3, s19",
            "vadd.f32 s4, s4, s20",
            "vadd.f32 s5, s5, s21",
            "vadd.f32 s6, s6, s22",
            "vadd.f32 s7, s7, s23",
            "vadd.f32 s8, s8, s24",
            "vadd.f32 s9, s9, s25",
            "vadd.f32 s10, s10, s26",
            "vadd.f32 s11, s11, s27",
            "vadd.f32 s12, s12, s28",
            "vadd.f32 s13, s13, s29",
            "vadd.f32 s14, s14, s30",
            "vadd.f32 s15, s15, s31",
            "subs {n}, {n}, #1",
            "bne 2b",
            "3:", // then the tail, if there is one
            "mov {row}, {tail}",
            "movs {n}, {more}",
            "mov {more}, #0",
            "bne 2b",
            "vadd.f32 s0, s0, s8",
            "vadd.f32 s1, s1, s9",
            "vadd.f32 s2, s2, s10",
            "vadd.f32 s3, s3, s11",
            "vadd.f32 s4, s4, s12",
            "vadd.f32 s5, s5, s13",
            "vadd.f32 s6, s6, s14",
            "vadd.f32 s7, s7, s15",
            "vadd.f32 s0, s0, s4",
            "vadd.f32 s1, s1, s5",
            "vadd.f32 s2, s2, s6",
            "vadd.f32 s3, s3, s7",
            "vadd.f32 s0, s0, s2",
            "vadd.f32 s1, s1, s3",
            "vadd.f32 s0, s0, s1",
            "vmov {sum}, s0",
            row = inout(reg) row.as_ptr() => _, n = inout(reg) row.len() => _,
            tail = in(reg) tail.as_ptr(), more = inout(reg) tail.len() => _,
            zeros = in(reg) &raw const ZEROS, sum = lateout(reg) sum,
            out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _, out("s7") _,
            out("s8") _, out("s9") _, out("s10") _, out("s11") _, out("s12") _, out("s13") _, out("s14") _, out("s15") _,
            out("s16") _, out("s17") _, out("s18") _, out("s19") _, out("s20") _, out("s21") _, out("s22") _,
            out("s23") _, out("s24") _, out("s25") _, out("s26") _, out("s27") _, out("s28") _, out("s29") _,
            out("s30") _, out("s31") _,
            options(readonly, nostack),
        );
    }
    sum
}

/// Sums of 0, for [`clear`] to copy.
static ZEROS: Sums = [[0.0; NR]; MR];

/// Memory for sums.
pub(super) type Memory = MaybeUninit<Sums>;
pub(super) const MEMORY: Memory = MaybeUninit::uninit();

/// Sets all sums to 0, in two instructions.
#[inline(always)]
pub(super) fn clear(sums: &mut Memory) -> &mut Sums {
    // SAFETY: the assembly reads all 24 zeros and writes all 24 sums.
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

/// Adds products to sums: the number of each pair times the `$factor`.
macro_rules! add_products {
    ($factor:literal: $($sum:literal $number:literal),+) => {
        concat!($("vfma.f32 ", $sum, ", ", $number, ", ", $factor, "\n"),+)
    };
}

/// Two loops of `$depth` rounds. A round loads a row of B into s24 to s27; for each row of A it loads the next element, and
/// adds its products to the sums in s0 to s23. The first loop takes six rows of A. The second takes one, and runs if the
/// address of the second row is null.
macro_rules! rounds {
    ($sums:expr, $depth:expr, $a:expr, [$($load:literal),+], $($operands:tt)+) => {{
        let [a0, a1, a2, a3, a4, a5] = $a;
        asm!(
            "cmp {a1}, #0",
            "beq 3f",
            "vldmia {sums}, {{s0-s23}}",
            "2:",
            $($load,)+
            "vldmia {a0}!, {{s28}}",
            add_products!("s28": "s0" "s24", "s1" "s25", "s2" "s26", "s3" "s27"),
            "vldmia {a1}!, {{s28}}",
            add_products!("s28": "s4" "s24", "s5" "s25", "s6" "s26", "s7" "s27"),
            "vldmia {a2}!, {{s28}}",
            add_products!("s28": "s8" "s24", "s9" "s25", "s10" "s26", "s11" "s27"),
            "vldmia {a3}!, {{s28}}",
            add_products!("s28": "s12" "s24", "s13" "s25", "s14" "s26", "s15" "s27"),
            "vldmia {a4}!, {{s28}}",
            add_products!("s28": "s16" "s24", "s17" "s25", "s18" "s26", "s19" "s27"),
            "vldmia {a5}!, {{s28}}",
            add_products!("s28": "s20" "s24", "s21" "s25", "s22" "s26", "s23" "s27"),
            "subs {depth}, {depth}, #1",
            "bne 2b",
            "vstmia {sums}, {{s0-s23}}",
            "b 5f",
            "3:",
            "vldmia {sums}, {{s0-s3}}",
            "4:",
            $($load,)+
            "vldmia {a0}!, {{s28}}",
            add_products!("s28": "s0" "s24", "s1" "s25", "s2" "s26", "s3" "s27"),
            "subs {depth}, {depth}, #1",
            "bne 4b",
            "vstmia {sums}, {{s0-s3}}",
            "5:",
            sums = in(reg) $sums.as_mut_ptr(), depth = inout(reg) $depth => _,
            a0 = inout(reg) a0 => _, a1 = inout(reg) a1 => _, a2 = inout(reg) a2 => _, a3 = inout(reg) a3 => _,
            a4 = inout(reg) a4 => _, a5 = inout(reg) a5 => _, $($operands)+,
            out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _, out("s7") _,
            out("s8") _, out("s9") _, out("s10") _, out("s11") _, out("s12") _, out("s13") _, out("s14") _, out("s15") _,
            out("s16") _, out("s17") _, out("s18") _, out("s19") _, out("s20") _, out("s21") _, out("s22") _,
            out("s23") _, out("s24") _, out("s25") _, out("s26") _, out("s27") _, out("s28") _,
            options(nostack),
        )
    }};
}

/// `sums`\[r\]\[c\] += Σₜ a\[r\]\[t\]·b\[t·step + c\], t < depth, for all rows, or for the first row alone if the address of
/// the second is null.
///
/// # Safety
/// These elements must exist.
#[inline(always)]
pub(super) unsafe fn by_rows(
    sums: &mut Sums,
    a: [*const f32; MR],
    b: *const f32,
    step: usize,
    depth: usize,
) {
    if depth > 0 {
        // SAFETY: the caller guarantees that the elements exist. The assembly writes the sums, and only the registers that it
        // declares.
        unsafe {
            rounds!(sums, depth, a, ["vldmia {b}, {{s24-s27}}", "add {b}, {b}, {step}"],
                b = inout(reg) b => _, step = in(reg) step.wrapping_mul(size_of::<f32>()));
        }
    }
}

/// `sums`\[r\]\[c\] += Σₜ a\[r\]\[t\]·b\[c\]\[t·step\], t < depth, for all rows, or for the first row alone if the address of
/// the second is null.
///
/// # Safety
/// These elements must exist.
#[inline(always)]
pub(super) unsafe fn by_columns(
    sums: &mut Sums,
    a: [*const f32; MR],
    b: [*const f32; NR],
    step: usize,
    depth: usize,
) {
    if depth > 0 && step == 1 {
        let [b0, b1, b2, b3] = b;
        // SAFETY: as above.
        unsafe {
            rounds!(sums, depth, a,
                ["vldmia {b0}!, {{s24}}", "vldmia {b1}!, {{s25}}", "vldmia {b2}!, {{s26}}", "vldmia {b3}!, {{s27}}"],
                b0 = inout(reg) b0 => _, b1 = inout(reg) b1 => _, b2 = inout(reg) b2 => _, b3 = inout(reg) b3 => _);
        }
    } else {
        // The last columns of a matrix, if they are fewer than the columns of a tile.
        for (a, sums) in a.iter().take_while(|a| !a.is_null()).zip(sums.iter_mut()) {
            for (b, sum) in b.iter().zip(sums) {
                for t in 0..depth {
                    // SAFETY: as above.
                    *sum = unsafe { multiply_add(*a.add(t), *b.add(t * step), *sum) };
                }
            }
        }
    }
}

/// [`row_times_panel`](super::row_times_panel) of bfloat16.
///
/// A word holds two numbers of bfloat16, each of them the upper half of an `f32`. The word shifted left is the first number,
/// and the word with its lower half cleared is the second. LDM loads four words at once, but only from an aligned address; LDR
/// loads one word from any address.
#[inline(never)]
pub(crate) fn row_times_panel_bf16(x: &[f32], panel: &[[u16; LANES]]) -> [f32; LANES] {
    let depth = x.len().min(panel.len());
    let mut sums = [0.0; LANES];
    if depth == 0 {
        return sums;
    }
    /// Widens both numbers of each word.
    macro_rules! widen {
        ($($word:literal: $first:literal $second:literal),+) => {
            concat!($(
                "lsl {first}, ", $word, ", #16\n",
                "bfc ", $word, ", #0, #16\n",
                "vmov ", $first, ", ", $second, ", {first}, ", $word, "\n"
            ),+)
        };
    }
    /// A loop over the rows: the sums are in s0 to s15, eight numbers of a row in s16 to s23, and the element of x in s24.
    macro_rules! rows {
        ($($load:literal),+) => {
            // SAFETY: the assembly reads `depth` elements of x and as many rows of the panel. It writes the sums, and only the
            // registers that it declares.
            unsafe {
                asm!(
                    "vldmia {sums}, {{s0-s15}}",
                    "2:",
                    "vldmia {x}!, {{s24}}",
                    $($load,)+
                    widen!("r0": "s16" "s17", "r1": "s18" "s19", "r2": "s20" "s21", "r3": "s22" "s23"),
                    add_products!("s24": "s0" "s16", "s1" "s17", "s2" "s18", "s3" "s19"),
                    add_products!("s24": "s4" "s20", "s5" "s21", "s6" "s22", "s7" "s23"),
                    $($load,)+
                    widen!("r0": "s16" "s17", "r1": "s18" "s19", "r2": "s20" "s21", "r3": "s22" "s23"),
                    add_products!("s24": "s8" "s16", "s9" "s17", "s10" "s18", "s11" "s19"),
                    add_products!("s24": "s12" "s20", "s13" "s21", "s14" "s22", "s15" "s23"),
                    "subs {depth}, {depth}, #1",
                    "bne 2b",
                    "vstmia {sums}, {{s0-s15}}",
                    sums = in(reg) sums.as_mut_ptr(), depth = inout(reg) depth => _, x = inout(reg) x.as_ptr() => _,
                    bits = inout(reg) panel.as_ptr() => _, first = out(reg) _,
                    out("r0") _, out("r1") _, out("r2") _, out("r3") _,
                    out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _,
                    out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _, out("s12") _, out("s13") _,
                    out("s14") _, out("s15") _, out("s16") _, out("s17") _, out("s18") _, out("s19") _, out("s20") _,
                    out("s21") _, out("s22") _, out("s23") _, out("s24") _,
                    options(nostack),
                );
            }
        };
    }
    if panel.as_ptr().addr().is_multiple_of(align_of::<u32>()) {
        rows!("ldmia {bits}!, {{r0-r3}}");
    } else {
        rows!(
            "ldr r0, [{bits}], #4",
            "ldr r1, [{bits}], #4",
            "ldr r2, [{bits}], #4",
            "ldr r3, [{bits}], #4"
        );
    }
    sums
}
