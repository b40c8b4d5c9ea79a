//! Numbers from the bytes of a file, at compile time. A file that is too short or too long does not compile.

/// The `f32` numbers in `bytes`, of which each has four, the lowest first.
///
/// ```
/// static WEIGHTS: [f32; 2] = regard_embed::f32s(&[0, 0, 0x80, 0x3f, 0, 0, 0, 0x40]);
/// assert_eq!(WEIGHTS, [1.0, 2.0]);
/// ```
///
/// # Panics
/// If there are not 4 · N bytes.
#[must_use]
pub const fn f32s<const N: usize>(bytes: &[u8]) -> [f32; N] {
    let (numbers, rest) = bytes.as_chunks();
    assert!(numbers.len() == N && rest.is_empty(), "the file has another number of bytes");
    let (mut out, mut i) = ([0.0; N], 0);
    while i < N {
        out[i] = f32::from_le_bytes(numbers[i]);
        i += 1;
    }
    out
}

/// The 16-bit numbers in `bytes`, of which each has two, the lower first.
///
/// ```
/// static BITS: [u16; 1] = regard_embed::u16s(&[0x80, 0x3f]);
/// assert_eq!(BITS, [0x3f80]);
/// ```
///
/// # Panics
/// If there are not 2 · N bytes.
#[must_use]
pub const fn u16s<const N: usize>(bytes: &[u8]) -> [u16; N] {
    let (numbers, rest) = bytes.as_chunks();
    assert!(numbers.len() == N && rest.is_empty(), "the file has another number of bytes");
    let (mut out, mut i) = ([0; N], 0);
    while i < N {
        out[i] = u16::from_le_bytes(numbers[i]);
        i += 1;
    }
    out
}

/// The `len` elements from `start` on.
///
/// ```
/// assert_eq!(regard_embed::part(&[1, 2, 3, 4], 1, 2), [2, 3]);
/// ```
///
/// # Panics
/// If there are not so many elements.
#[must_use]
pub const fn part<T>(all: &[T], start: usize, len: usize) -> &[T] {
    all.split_at(start).1.split_at(len).0
}
