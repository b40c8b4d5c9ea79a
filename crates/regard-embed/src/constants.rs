//! Tables of constants, and their parts.

/// Constants that begin at a multiple of 4 bytes, so that cores can read several narrow numbers at once.
///
/// ```
/// static BITS: regard_embed::Aligned<[u16; 1]> = regard_embed::Aligned([0x3f80]);
/// assert_eq!(BITS.0.as_ptr().addr() % 4, 0);
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(C, align(4))]
pub struct Aligned<T>(pub T);

/// The `len` elements from `start` on.
///
/// ```
/// assert_eq!(regard_embed::part(&[1, 2, 3, 4], 1, 2), [2, 3]);
/// ```
///
/// # Panics
/// If `all` ends before these elements do.
#[must_use]
pub const fn part<T>(all: &[T], start: usize, len: usize) -> &[T] {
    all.split_at(start).1.split_at(len).0
}
