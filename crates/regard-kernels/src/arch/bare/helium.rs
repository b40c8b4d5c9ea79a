//! The innermost loops of cores with Helium, the M-profile vector extension with floats: Cortex-M52, M55 and M85. A vector has
//! four lanes. A lane is an output column, a key or an element of a row, so vectors change the order of no sum.
//!
//! # The same bits
//! VFMA rounds once, as the scalar instruction does. But the vector instructions treat subnormal operands and results as zero,
//! and record this in two flags of FPSCR that stay set (Armv8-M Architecture Reference Manual, DDI 0553: Arm standard
//! floating-point arithmetic). Each loop here clears the flags first, and reads them before it writes its results. If one is
//! set, the scalar loops compute these results instead.
//!
//! At `opt-level` 2 and 3 the compiler vectorizes plain loops by itself, and does not look at the flags. [`one_by_one`]
//! prevents this. It stands in every loop over floats whose results would change if a subnormal number became zero.
//!
//! Stable Rust has no type for these vectors, accepts none as an operand of `asm!`, and has no name for the predicate register,
//! which these loops write. Each loop is therefore a function in assembly with C's calling convention, which lets it overwrite
//! q0 to q3 and the predicates.

use core::arch::naked_asm;
use core::mem::offset_of;

use super::cortex_m;
pub(super) use super::cortex_m::{MEMORY, Memory, by_columns, by_rows, clear, multiply_add};
pub(crate) use super::cortex_m::{exp_to_zero, sqrt};
use super::{Gebp, LANES, NR};
use crate::arch::exp::{Distance, tables};
use crate::arch::one_by_one;
use crate::invariant::Promised as _;

/// The body of a naked function. Its assembler knows only the target's name.
macro_rules! assembly {
    ($($body:tt)*) => { naked_asm!(".cpu cortex-m55", $($body)*) };
}

/// FPSCR's flags of subnormal operands (IDC) and of subnormal results (UFC).
const SUBNORMAL: u32 = (1 << 7) | (1 << 3);

/// A product of rows of A with strips of four columns of B, as the assembly reads it. Strides are in bytes.
#[repr(C)]
struct Product {
    a: *const f32,
    a_stride: usize,
    /// The first column of the strip.
    b: *const f32,
    /// The distance from a row of B to the next; if the columns of B lie in rows, from a column to the next.
    b_stride: usize,
    /// The distance from a strip to the next.
    strip: usize,
    depth: usize,
    /// The place of the first row in the strip.
    out: *mut f32,
    out_stride: usize,
    rows: usize,
    /// Rows that are left in the strip.
    left: usize,
    /// Whether the sums are added to what is there.
    add: usize,
    /// Columns at the start of a strip that are not written.
    skip: usize,
    /// Columns that are left, a multiple of four.
    cols: usize,
}

impl Gebp<'_, '_> {
    /// Computes all rows and the first `cols` columns with vectors. The scalar loops compute the tiles with subnormal numbers,
    /// and all tiles if there are fewer than four columns.
    pub(super) fn by_vectors(&mut self, cols: usize) {
        let (mut memory, rows) = (MEMORY, self.a.rows());
        let (mut row, mut col) = (0, if rows > 0 { 0 } else { cols });
        while col < cols {
            (row, col) = self.vectors((row, col), cols);
            if col < cols {
                let tile = if rows - row < 4 { 1 } else { 4 };
                self.tile(&mut memory, row, tile, col, NR.min(cols - col));
                row += tile;
                if row == rows {
                    (row, col) = (0, col + NR);
                }
            }
        }
    }

    /// Computes tiles of four columns from (`row`, `col`) on, and then the columns after the last whole tile. Returns the place
    /// of the first tile that the scalar loops must compute, or (0, `cols`) if there is none.
    ///
    /// The conditions of `Gebp` hold, and there is at least one row, and at least `cols` columns.
    fn vectors(&mut self, (mut row, mut col): (usize, usize), cols: usize) -> (usize, usize) {
        const FLOAT: usize = size_of::<f32>();
        let Self { a, b, ref mut out, col: start, add } = *self;
        let (stride, by_rows) = (out.stride(), b.col_stride == 1);
        let stores = out.data_mut().as_mut_ptr();
        while col < cols {
            // If fewer than four columns are left, the last four are computed, and only the new ones are written.
            let left = cols - col;
            let (skip, whole) = if left < NR { (NR - left, NR) } else { (0, left / NR * NR) };
            let Some(first) = col.checked_sub(skip) else { break };
            let b_stride = if by_rows { b.row_stride } else { b.col_stride };
            let mut product = Product {
                a: a.data().as_ptr(),
                a_stride: a.stride().wrapping_mul(FLOAT),
                b: b.data.as_ptr().wrapping_add(first.wrapping_mul(b.col_stride)),
                b_stride: b_stride.wrapping_mul(FLOAT),
                strip: b.col_stride.wrapping_mul(NR * FLOAT),
                depth: b.depth,
                out: stores.wrapping_add(start + first),
                out_stride: stride.wrapping_mul(FLOAT),
                rows: a.rows(),
                left: a.rows() - row,
                add: add.into(),
                skip,
                cols: whole,
            };
            // SAFETY: `gebp` has checked that the rows of A have `depth` elements, that `out` has its rows, and that the
            // columns of B lie within its data. A view holds all of its rows.
            unsafe {
                if by_rows {
                    multiply_rows(&mut product);
                } else if b.row_stride == 1 {
                    multiply_columns(&mut product);
                }
            }
            col = (col + whole - product.cols).min(cols);
            row = if product.cols == 0 { 0 } else { a.rows() - product.left };
            if product.cols > 0 {
                break;
            }
        }
        (row, col)
    }
}

/// The loops of a [`Product`]: four rows of A at a time, then one at a time. `$prepare` sets up the address from r5, the first
/// element of B, and r6, its stride. `$first` and `$second` load four columns into q4 and q5, and advance to the next step of
/// the sums.
///
/// Registers: r0 the product, r1 to r4 rows of A, then of `out`, r7 the depth, r8 to r11 elements of A, r12 the rows that are left;
/// q0 to q3 sums, q7 addresses of columns.
macro_rules! product {
    ($name:ident, [$($prepare:literal),*], [$($first:literal),+], [$($second:literal),+]) => {
        /// Computes the tiles of a product up to its end, or up to one with subnormal numbers. `cols` and `left` are what is left.
        ///
        /// # Safety
        /// The elements of A, of whole strips of B and of `out` must exist, and be at least one.
        #[unsafe(naked)]
        unsafe extern "C" fn $name(product: &mut Product) {
            assembly!(
                "push {{r4-r11, lr}}",
                "vpush {{d8-d15}}",
                "vmrs r12, fpscr",
                "bic r12, #{subnormal}",
                "vmsr fpscr, r12",
                // Sets r1 to the address of the tile's first row, for rows that are r7 bytes apart.
                ".macro regard_first",
                "ldrd r5, r12, [r0, #{rows}]",
                "sub r5, r5, r12",
                "mla r1, r5, r7, r1",
                ".endm",
                // Sets the addresses of the next three rows. A row that does not exist repeats the last one.
                ".macro regard_next",
                "add r2, r1, r7",
                "cmp r12, #3",
                "csel r8, r7, zr, hs",
                "add r3, r2, r8",
                "csel r8, r7, zr, hi",
                "add r4, r3, r8",
                ".endm",
                "2:",
                "ldrd r1, r7, [r0, #{a}]",
                "regard_first",
                "ldrd r5, r6, [r0, #{b}]",
                $($prepare,)*
                "vmov.i32 q0, #0",
                "cmp r12, #1",
                "beq 5f",
                "regard_next",
                "ldr r7, [r0, #{depth}]",
                "vmov.i32 q1, #0",
                "vmov.i32 q2, #0",
                "vmov.i32 q3, #0",
                "lsrs r7, r7, #1", // the carry: whether one is left
                "wls lr, r7, 4f",
                "3:",
                $($first,)+
                "ldrd r8, r9, [r1], #8",
                "ldrd r10, r11, [r2], #8",
                $($second,)+
                "vfma.f32 q0, q4, r8",
                "vfma.f32 q1, q4, r10",
                "vfma.f32 q0, q5, r9",
                "vfma.f32 q1, q5, r11",
                "ldrd r8, r9, [r3], #8",
                "ldrd r10, r11, [r4], #8",
                "vfma.f32 q2, q4, r8",
                "vfma.f32 q3, q4, r10",
                "vfma.f32 q2, q5, r9",
                "vfma.f32 q3, q5, r11",
                "le lr, 3b",
                "4:",
                "bcc 7f",
                $($first,)+
                "ldr r8, [r1]",
                "ldr r9, [r2]",
                "ldr r10, [r3]",
                "ldr r11, [r4]",
                "vfma.f32 q0, q4, r8",
                "vfma.f32 q1, q4, r9",
                "vfma.f32 q2, q4, r10",
                "vfma.f32 q3, q4, r11",
                "b 7f",
                "5:", // one row
                "ldr r7, [r0, #{depth}]",
                "lsrs r7, r7, #1",
                "wls lr, r7, 6f",
                "4:",
                $($first,)+
                "ldrd r8, r9, [r1], #8",
                $($second,)+
                "vfma.f32 q0, q4, r8",
                "vfma.f32 q0, q5, r9",
                "le lr, 4b",
                "6:",
                "bcc 7f",
                $($first,)+
                "ldr r8, [r1]",
                "vfma.f32 q0, q4, r8",
                "7:", // the sums are complete
                "ldrd r1, r7, [r0, #{out}]",
                "regard_first",
                "ldrd r5, r6, [r0, #{add}]",
                "vctp.32 r6",
                "vpnot",
                "cmp r12, #1",
                "beq 6f",
                "regard_next",
                "cbz r5, 4f",
                "vldrw.u32 q4, [r1]",
                "vldrw.u32 q5, [r2]",
                "vldrw.u32 q6, [r3]",
                "vldrw.u32 q7, [r4]",
                "vadd.f32 q0, q4, q0",
                "vadd.f32 q1, q5, q1",
                "vadd.f32 q2, q6, q2",
                "vadd.f32 q3, q7, q3",
                "4:",
                "vmrs r5, fpscr",
                "tst r5, #{subnormal}",
                "bne 9f",
                "vpstttt",
                "vstrwt.32 q0, [r1]",
                "vstrwt.32 q1, [r2]",
                "vstrwt.32 q2, [r3]",
                "vstrwt.32 q3, [r4]",
                "subs r12, #4",
                "bls 8f",
                "str r12, [r0, #{left}]",
                "b 2b",
                "6:", // one row
                "cbz r5, 4f",
                "vldrw.u32 q4, [r1]",
                "vadd.f32 q0, q4, q0",
                "4:",
                "vmrs r5, fpscr",
                "tst r5, #{subnormal}",
                "bne 9f",
                "vpst",
                "vstrwt.32 q0, [r1]",
                "8:", // the next strip
                "ldr r1, [r0, #{rows}]",
                "str r1, [r0, #{left}]",
                "ldr r1, [r0, #{b}]",
                "ldr r2, [r0, #{strip}]",
                "add r1, r1, r2",
                "str r1, [r0, #{b}]",
                "ldr r1, [r0, #{out}]",
                "add r1, #16",
                "str r1, [r0, #{out}]",
                "ldr r1, [r0, #{cols}]",
                "subs r1, #4",
                "str r1, [r0, #{cols}]",
                "bne 2b",
                "9:",
                ".purgem regard_first",
                ".purgem regard_next",
                "vpop {{d8-d15}}",
                "pop {{r4-r11, pc}}",
                a = const offset_of!(Product, a),
                b = const offset_of!(Product, b),
                strip = const offset_of!(Product, strip),
                depth = const offset_of!(Product, depth),
                out = const offset_of!(Product, out),
                rows = const offset_of!(Product, rows),
                left = const offset_of!(Product, left),
                add = const offset_of!(Product, add),
                cols = const offset_of!(Product, cols),
                subnormal = const SUBNORMAL,
            )
        }
    };
}

product!(
    multiply_rows,
    [],
    ["vldrw.u32 q4, [r5]", "add r5, r6"],
    ["vldrw.u32 q5, [r5]", "add r5, r6"]
);
product!(
    multiply_columns,
    [
        "mov r8, #0",
        "vidup.u32 q7, r8, #1",
        "vmul.i32 q7, q7, r6",
        "sub r5, #4", // the loads add 4 first
        "vadd.i32 q7, q7, r5"
    ],
    ["vldrw.u32 q4, [q7, #4]!"],
    ["vldrw.u32 q5, [q7, #4]!"]
);

/// Computes elements in place with `vectors`, which returns how many elements it has computed: all of them, or those before the
/// first four with subnormal numbers. `each` computes these four.
#[inline(always)]
fn by_vectors(
    mut row: &mut [f32],
    vectors: impl Fn(*mut f32, usize) -> usize,
    each: impl Fn(&mut [f32]),
) {
    loop {
        let done = vectors(row.as_mut_ptr(), row.len());
        let left = row.get_mut(done..).promised();
        if left.is_empty() {
            return;
        }
        let (next, rest) = left.split_at_mut(left.len().min(4));
        each(next);
        row = rest;
    }
}

/// x ← f(x) for `len` elements. `$prepare` has the address of the table in r2 and numbers in s0 and s1; `$steps` compute
/// `$result` from q0.
///
/// Registers: r0 the next element, r11 the number of elements; `$steps` may write q0 to q3.
macro_rules! vectors {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*), [$($prepare:literal),+], [$($step:literal),+], $result:literal) => {
        $(#[$doc])*
        ///
        /// Returns the number of elements that are computed: all, or those before the first four with subnormal numbers.
        ///
        /// # Safety
        /// `len` elements must exist at `x`.
        #[unsafe(naked)]
        unsafe extern "C" fn $name(x: *mut f32, len: usize, $($argument: $type),*) -> usize {
            assembly!(
                "push {{r4-r11, lr}}",
                "vmrs r12, fpscr",
                "bic r12, #{subnormal}",
                "vmsr fpscr, r12",
                "mov r11, r1",
                $($prepare,)+
                "wlstp.32 lr, r11, 3f",
                "2:",
                "vldrw.u32 q0, [r0]",
                $($step,)+
                "vmrs r12, fpscr",
                "tst r12, #{subnormal}",
                "bne 4f",
                concat!("vstrw.32 ", $result, ", [r0], #16"),
                "letp lr, 2b",
                "3:",
                "mov lr, #0",
                "4:", // lr: elements that are left
                "lctp",
                "sub r0, r11, lr",
                "pop {{r4-r11, pc}}",
                subnormal = const SUBNORMAL,
            )
        }
    };
}

/// As [`Exp2ToZero`](crate::arch::Exp2ToZero).
#[inline(always)]
pub(crate) fn exp2_to_zero(row: &mut [f32], distance: Distance) {
    vectors!(
        /// The vector loop of [`exp2_to_zero`].
        exp2_vectors(table: &([f32; 3], [f32; 6]), max: f32, factor: f32),
        [
            "ldmia r2!, {{r3-r5}}", // r3: the number that rounds
            "vdup.32 q3, r5", // the lowest power
            "ldmia r2, {{r4-r9}}",
            "vmov r1, r2, s0, s1"
        ],
        [
            "vsub.f32 q0, q0, r1",
            "vmul.f32 q0, q0, r2",
            "vpt.f32 gt, q3, q0", // no NaN
            "vmovt q0, q3",
            "vadd.f32 q1, q0, r3",
            "vsub.f32 q2, q1, r3",
            "vsub.f32 q0, q0, q2",
            "vshl.i32 q1, q1, #23", // n + 127 in the exponent field
            "vdup.32 q2, r4",
            "vfmas.f32 q2, q0, r5",
            "vfmas.f32 q2, q0, r6",
            "vfmas.f32 q2, q0, r7",
            "vfmas.f32 q2, q0, r8",
            "vfmas.f32 q2, q0, r9",
            "vmul.f32 q0, q1, q0",
            "vfma.f32 q1, q2, q0"
        ],
        "q1"
    );
    let Distance { max, factor } = distance;
    // SAFETY: `by_vectors` passes elements of the row.
    let vectors = |x, len| unsafe { exp2_vectors(x, len, &tables::EXP2_TO_ZERO, max, factor) };
    by_vectors(row, vectors, |row| cortex_m::exp2_to_zero(row, distance));
}

/// x ← x · factor + 0 for all elements, in two roundings: −0 becomes 0.
#[inline(never)]
pub(crate) fn scale_plus_zero(row: &mut [f32], factor: f32) {
    vectors!(
        /// The vector loop of [`scale_plus_zero`].
        scale_vectors(factor: f32),
        ["vmov r2, s0", "vmov.i32 q1, #0"],
        ["vmul.f32 q0, q0, r2", "vadd.f32 q0, q0, q1"],
        "q0"
    );
    let vectors = |x, len| {
        // SAFETY: as above.
        unsafe { scale_vectors(x, len, factor) }
    };
    by_vectors(row, vectors, |row| {
        for x in row {
            one_by_one(x);
            *x = *x * factor + 0.0;
        }
    });
}

/// The result of a loop, and the flags of subnormal numbers.
#[repr(C)]
struct Found {
    number: f32,
    /// The flags, as the bits of a float.
    flags: f32,
}

impl Found {
    /// The number, if no operand and no result was subnormal.
    #[inline(always)]
    fn exact(self) -> Option<f32> {
        (self.flags.to_bits() == 0).then_some(self.number)
    }
}

/// As [`Simd::sum`](crate::arch::Simd::sum).
#[inline(always)]
pub(super) fn sum(row: &[f32]) -> f32 {
    // SAFETY: these elements exist.
    let found = unsafe { sum_of(row.as_ptr(), row.len()) };
    found.exact().unwrap_or_else(|| cortex_m::sum(row))
}

/// The sum of `len` elements: 16 lanes, folded as a tree.
///
/// # Safety
/// They must exist.
#[unsafe(naked)]
unsafe extern "C" fn sum_of(row: *const f32, len: usize) -> Found {
    assembly!(
        "mov r12, lr",
        "vpush {{d8-d11}}",
        "vmrs r2, fpscr",
        "bic r2, #{subnormal}",
        "vmsr fpscr, r2",
        "vmov.i32 q0, #0",
        "vmov.i32 q1, #0",
        "vmov.i32 q2, #0",
        "vmov.i32 q3, #0",
        "lsr r2, r1, #4",
        "wls lr, r2, 3f",
        "2:",
        "vldrw.u32 q4, [r0], #16",
        "vldrw.u32 q5, [r0], #16",
        "vadd.f32 q0, q0, q4",
        "vldrw.u32 q4, [r0], #16",
        "vadd.f32 q1, q1, q5",
        "vldrw.u32 q5, [r0], #16",
        "vadd.f32 q2, q2, q4",
        "vadd.f32 q3, q3, q5",
        "le lr, 2b",
        "3:", // fewer than 16
        ".macro regard_four lanes",
        "vctp.32 r1",
        "vpstt",
        "vldrwt.u32 q4, [r0], #16",
        "vaddt.f32 \\lanes, \\lanes, q4",
        "subs r1, #4",
        "ble 4f",
        ".endm",
        "ands r1, r1, #15",
        "beq 4f",
        "regard_four q0",
        "regard_four q1",
        "regard_four q2",
        "regard_four q3",
        ".purgem regard_four",
        "4:",
        "vadd.f32 q0, q0, q2",
        "vadd.f32 q1, q1, q3",
        "vadd.f32 q0, q0, q1",
        "vadd.f32 s0, s0, s2",
        "vadd.f32 s1, s1, s3",
        "vadd.f32 s0, s0, s1",
        "vmrs r2, fpscr",
        "and r2, #{subnormal}",
        "vmov s1, r2",
        "vpop {{d8-d11}}",
        "bx r12",
        subnormal = const SUBNORMAL,
    )
}

/// As [`largest`](crate::arch::largest), or `None` if a number is subnormal.
#[inline(always)]
pub(crate) fn max_of(row: &[f32]) -> Option<f32> {
    // SAFETY: these elements exist.
    unsafe { largest_of(row.as_ptr(), row.len()) }.exact()
}

/// The largest of `len` elements that is no NaN; −∞ if there is none.
///
/// # Safety
/// They must exist.
#[unsafe(naked)]
unsafe extern "C" fn largest_of(row: *const f32, len: usize) -> Found {
    assembly!(
        "mov r12, lr",
        "vmrs r2, fpscr",
        "bic r2, #{subnormal}",
        "vmsr fpscr, r2",
        "mov r2, #0",
        "movt r2, #0xff80",
        "vdup.32 q0, r2",
        "wlstp.32 lr, r1, 3f",
        "2:",
        "vldrw.u32 q1, [r0], #16",
        "vpt.f32 gt, q1, q0",
        "vmovt q0, q1",
        "letp lr, 2b",
        "3:",
        "vmaxnmv.f32 r2, q0",
        "vmrs r3, fpscr",
        "and r3, #{subnormal}",
        "vmov s0, s1, r2, r3",
        "bx r12",
        subnormal = const SUBNORMAL,
    )
}

/// Whether all elements are finite.
#[inline(always)]
pub(crate) fn all_finite(row: &[f32]) -> bool {
    // SAFETY: these elements exist.
    let largest = unsafe { largest_magnitude(row.as_ptr(), row.len()) };
    largest < f32::INFINITY.to_bits() << 1
}

/// The largest bits of `len` elements, shifted left to remove the sign.
///
/// # Safety
/// They must exist.
#[unsafe(naked)]
unsafe extern "C" fn largest_magnitude(row: *const f32, len: usize) -> u32 {
    assembly!(
        "mov r12, lr",
        "vmov.i32 q0, #0",
        "wlstp.32 lr, r1, 3f",
        "2:",
        "vldrw.u32 q1, [r0], #16",
        "vshl.i32 q1, q1, #1",
        "vmax.u32 q0, q0, q1",
        "letp lr, 2b",
        "3:",
        "mov r0, #0",
        "vmaxv.u32 r0, q0",
        "bx r12",
    )
}

/// [`row_times_panel`](super::row_times_panel) of bfloat16.
#[inline(never)]
pub(crate) fn row_times_panel_bf16(x: &[f32], panel: &[[u16; LANES]]) -> [f32; LANES] {
    let mut sums = [0.0; LANES];
    let depth = x.len().min(panel.len());
    // SAFETY: `depth` elements of x and as many rows of the panel exist.
    let exact = unsafe { vectors_of_bf16(x.as_ptr(), depth, panel.as_ptr(), &mut sums) } == 0;
    if exact { sums } else { cortex_m::row_times_panel_bf16(x, panel) }
}

/// Σₜ x\[t\]·panel\[t\], t < depth. Returns the flags of subnormal numbers.
///
/// # Safety
/// So many elements and rows must exist.
#[unsafe(naked)]
unsafe extern "C" fn vectors_of_bf16(
    x: *const f32,
    depth: usize,
    panel: *const [u16; LANES],
    sums: &mut [f32; LANES],
) -> u32 {
    assembly!(
        "push {{r4, lr}}",
        "vpush {{d8-d11}}",
        "vmrs r4, fpscr",
        "bic r4, #{subnormal}",
        "vmsr fpscr, r4",
        "vmov.i32 q0, #0",
        "vmov.i32 q1, #0",
        "vmov.i32 q2, #0",
        "vmov.i32 q3, #0",
        "wls lr, r1, 3f",
        "2:",
        "ldr r4, [r0], #4",
        "vldrh.u32 q4, [r2], #8", // bfloat16 is the upper half
        "vshl.i32 q4, q4, #16",
        "vldrh.u32 q5, [r2], #8",
        "vfma.f32 q0, q4, r4",
        "vshl.i32 q5, q5, #16",
        "vldrh.u32 q4, [r2], #8",
        "vfma.f32 q1, q5, r4",
        "vshl.i32 q4, q4, #16",
        "vldrh.u32 q5, [r2], #8",
        "vfma.f32 q2, q4, r4",
        "vshl.i32 q5, q5, #16",
        "vfma.f32 q3, q5, r4",
        "le lr, 2b",
        "3:",
        "vstrw.32 q0, [r3]",
        "vstrw.32 q1, [r3, #16]",
        "vstrw.32 q2, [r3, #32]",
        "vstrw.32 q3, [r3, #48]",
        "vmrs r0, fpscr",
        "and r0, #{subnormal}",
        "vpop {{d8-d11}}",
        "pop {{r4, pc}}",
        subnormal = const SUBNORMAL,
    )
}
