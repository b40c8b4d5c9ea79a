//! How much stack a function takes: the memory below the stack is painted before, and what has lost its paint was used.

#![expect(unsafe_code, reason = "memory that belongs to no variable: the free part of the stack")]

use core::hint::black_box;

const PAINT: u32 = 0x5ca1_ab1e;
/// Painted below the caller: the most that can be found. The board's memory must have room for it.
const DEPTH: usize = 2560;
/// Left alone below the caller: the frames of the functions that paint and look.
const OWN: usize = 256;

/// The bytes of stack that `f` takes, to within 4; [`OWN`] or less, and [`DEPTH`] or more, show as that.
pub fn peak(f: impl FnOnce()) -> usize {
    let top = here();
    paint(top);
    f();
    unpainted(top)
}

/// About where the stack ends.
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
        // SAFETY: below every frame, and above all statics, is memory of nobody; interrupts, which might use it, are off.
        unsafe { cell.write_volatile(PAINT) };
    }
}

#[inline(never)]
fn unpainted(top: usize) -> usize {
    // SAFETY: as above.
    let first = cells(top).find(|cell| unsafe { cell.read_volatile() } != PAINT);
    first.map_or(OWN, |cell| top - cell.addr())
}
