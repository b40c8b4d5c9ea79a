//! The innermost loops in plain Rust, for RISC-V and for cores without fused multiply-add.

use super::{LANES, MR, NR, Sums};

/// a·b + c, rounded once if the core has an instruction for that. Stable Rust has no function for it in `core`.
#[inline(always)]
pub(super) fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
    #[cfg(fused)]
    {
        let sum;
        // SAFETY: `cfg(fused)` says that the core has the instruction. It changes registers and the exception flags only.
        unsafe {
            core::arch::asm!("fmadd.s {}, {}, {}, {}", lateout(freg) sum, in(freg) a, in(freg) b, in(freg) c,
                options(pure, nomem, nostack));
        }
        sum
    }
    #[cfg(not(fused))]
    {
        a * b + c
    }
}

/// √x, rounded correctly.
#[cfg(fused)]
#[inline(always)]
pub(crate) fn sqrt(x: f32) -> f32 {
    let root;
    // SAFETY: `cfg(fused)` says that the core has an FPU. The instruction changes registers and the exception flags only.
    unsafe {
        core::arch::asm!("fsqrt.s {}, {}", lateout(freg) root, in(freg) x, options(pure, nomem, nostack));
    }
    root
}

/// As [`Simd::sum`](crate::arch::Simd::sum). The lanes are written out, so that they stay in registers until the last elements, which
/// are no whole block.
#[inline(never)]
pub(super) fn sum(row: &[f32]) -> f32 {
    let (blocks, rest) = row.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    macro_rules! add {
        ($block:ident: $($i:literal)+) => { $(lanes[$i] += $block[$i];)+ };
        ($($low:literal + $high:literal),+) => { $(lanes[$low] += lanes[$high];)+ };
    }
    for block in blocks {
        add!(block: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    }
    // No lane is −0, so a lane without an element stays as it is.
    let mut last = lanes;
    for (lane, x) in last.iter_mut().zip(rest) {
        *lane += x;
    }
    lanes = last;
    add!(0 + 8, 1 + 9, 2 + 10, 3 + 11, 4 + 12, 5 + 13, 6 + 14, 7 + 15);
    add!(0 + 4, 1 + 5, 2 + 6, 3 + 7);
    add!(0 + 2, 1 + 3);
    add!(0 + 1);
    lanes[0]
}

/// Memory for sums.
pub(super) type Memory = Sums;
pub(super) const MEMORY: Memory = [[0.0; NR]; MR];

/// Returns the sums as they are: [`by_rows`] and [`by_columns`] begin their sums in registers.
#[inline(always)]
pub(super) fn clear(sums: &mut Memory) -> &mut Sums {
    sums
}

/// Adds the products of the next elements of A with a row of B. The code is written out, because a compiler that optimises for
/// size does not unroll the loop.
macro_rules! add_products {
    ($sums:ident, $y:ident, $($a:ident: $r:literal),+) => {
        let [y0, y1, y2, y3] = $y;
        $(
            // SAFETY: the caller guarantees that the elements exist.
            let x = unsafe { *$a };
            $a = $a.wrapping_add(1);
            $sums[$r][0] = multiply_add(x, y0, $sums[$r][0]);
            $sums[$r][1] = multiply_add(x, y1, $sums[$r][1]);
            $sums[$r][2] = multiply_add(x, y2, $sums[$r][2]);
            $sums[$r][3] = multiply_add(x, y3, $sums[$r][3]);
        )+
    };
}

/// Writes rows of sums from registers, one number at a time. A copy of a whole row would become a call of memcpy.
macro_rules! write_sums {
    ($from:ident to $to:expr, $($r:literal)+) => {
        $(
            $to[$r][0] = $from[$r][0];
            $to[$r][1] = $from[$r][1];
            $to[$r][2] = $from[$r][2];
            $to[$r][3] = $from[$r][3];
        )+
    };
}

/// A loop of `$depth` rounds, each with the row of B that `$next` loads, for all rows of A or for the first alone.
macro_rules! rounds {
    ($sums:expr, $a:expr, $depth:expr, $next:expr) => {{
        let [mut a0, mut a1, mut a2, mut a3, mut a4, mut a5] = $a;
        if a1.is_null() {
            let mut sums = [[0.0; NR]];
            for _ in 0..$depth {
                let y = $next;
                add_products!(sums, y, a0: 0);
            }
            write_sums!(sums to $sums, 0);
        } else {
            let mut sums = [[0.0; NR]; MR];
            for _ in 0..$depth {
                let y = $next;
                add_products!(sums, y, a0: 0, a1: 1, a2: 2, a3: 3, a4: 4, a5: 5);
            }
            write_sums!(sums to $sums, 0 1 2 3 4 5);
        }
    }};
}

/// `sums`\[r\]\[c\] ← Σₜ a\[r\]\[t\]·b\[t·step + c\], t < depth, for all rows, or for the first row alone if the address of the
/// second is null.
///
/// # Safety
/// These elements must exist.
#[inline(always)]
pub(super) unsafe fn by_rows(
    sums: &mut Sums,
    a: [*const f32; MR],
    mut b: *const f32,
    step: usize,
    depth: usize,
) {
    rounds!(sums, a, depth, {
        let row = b.cast::<[f32; NR]>();
        b = b.wrapping_add(step);
        // SAFETY: the caller guarantees that the elements exist.
        unsafe { *row }
    });
}

/// `sums`\[r\]\[c\] ← Σₜ a\[r\]\[t\]·b\[c\]\[t·step\], t < depth, for all rows, or for the first row alone if the address of
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
    let [mut b0, mut b1, mut b2, mut b3] = b;
    rounds!(sums, a, depth, {
        // SAFETY: as above.
        let row = unsafe { [*b0, *b1, *b2, *b3] };
        b0 = b0.wrapping_add(step);
        b1 = b1.wrapping_add(step);
        b2 = b2.wrapping_add(step);
        b3 = b3.wrapping_add(step);
        row
    });
}

/// [`row_times_panel`](super::row_times_panel) of bfloat16.
#[inline(never)]
pub(crate) fn row_times_panel_bf16(x: &[f32], panel: &[[u16; LANES]]) -> [f32; LANES] {
    super::row_times_panel(x, panel, crate::arch::widen::f32_from_bf16)
}
