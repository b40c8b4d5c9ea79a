//! The stack that a function takes: the memory below the stack is painted before the call; the part that lost its paint was used.

#![expect(unsafe_code, reason = "memory that belongs to no variable: the free part of the stack")]

use core::hint::black_box;

const PAINT: u32 = 0x5ca1_ab1e;
/// The bytes painted below the caller, and so the largest result. The board's memory must have room for them.
const DEPTH: usize = 3328;
/// The bytes below the caller that stay unpainted, for the frames of the functions that paint and look.
const OWN: usize = 256;

/// The bytes of stack that `f` takes, within 4 bytes. The result is at least [`OWN`] and at most [`DEPTH`].
pub fn peak(f: impl FnOnce()) -> usize {
    let top = here();
    paint(top);
    call(f);
    unpainted(top)
}

/// A frame of its own, below the caller's: in the caller's, variables of `f` would not be counted.
#[inline(never)]
fn call(f: impl FnOnce()) {
    f();
}

/// An address near the end of the stack.
#[inline(never)]
fn here() -> usize {
    let local = black_box(0_u32);
    (&raw const local).addr() & !3
}

fn cells(top: usize) -> impl Iterator<Item = *mut u32> {
    (top - DEPTH..top - OWN).step_by(4).map(core::ptr::with_exposed_provenance_mut)
}

#[inline(never)]
fn paint(top: usize) {
    for cell in cells(top) {
        // SAFETY: the memory below every frame and above all statics belongs to nobody. These images have no interrupts that could use it.
        unsafe { cell.write_volatile(PAINT) };
    }
}

#[inline(never)]
fn unpainted(top: usize) -> usize {
    // SAFETY: as above.
    let first = cells(top).find(|cell| unsafe { cell.read_volatile() } != PAINT);
    first.map_or(OWN, |cell| top - cell.addr())
}
