//! Converts the bytes of a file to numbers, at compile time. A file that is too short or too long does not compile.

/// Constants that begin at a multiple of 4 bytes, so that cores can read several narrow numbers at once.
///
/// ```
/// static BITS: regard_embed::Aligned<[u16; 1]> = regard_embed::Aligned([0x3f80]);
/// assert_eq!(BITS.0.as_ptr().addr() % 4, 0);
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(C, align(4))]
pub struct Aligned<T>(pub T);

macro_rules! numbers {
    ($(#[$doc:meta])* $name:ident, $number:ty) => {
        $(#[$doc])*
        ///
        /// # Panics
        /// If the number of bytes is not that of N numbers.
        #[must_use]
        pub const fn $name<const N: usize>(bytes: &[u8]) -> [$number; N] {
            let (numbers, rest) = bytes.as_chunks();
            assert!(numbers.len() == N && rest.is_empty(), "the file has another number of bytes");
            let (mut out, mut i) = ([<$number>::from_le_bytes([0; size_of::<$number>()]); N], 0);
            while i < N {
                out[i] = <$number>::from_le_bytes(numbers[i]);
                i += 1;
            }
            out
        }
    };
}

numbers! {
    /// The `f32` numbers in `bytes`. Each has four bytes, the lowest first.
    ///
    /// ```
    /// static WEIGHTS: [f32; 2] = regard_embed::f32s(&[0, 0, 0x80, 0x3f, 0, 0, 0, 0x40]);
    /// assert_eq!(WEIGHTS, [1.0, 2.0]);
    /// ```
    f32s, f32
}
numbers! {
    /// The 16-bit numbers in `bytes`, such as the bits of bfloat16. Each has two bytes, the lower first.
    ///
    /// ```
    /// static BITS: [u16; 1] = regard_embed::u16s(&[0x80, 0x3f]);
    /// assert_eq!(BITS, [0x3f80]);
    /// ```
    u16s, u16
}
numbers! {
    /// The signed 8-bit integers in `bytes`.
    i8s, i8
}
numbers! {
    /// The signed 16-bit integers in `bytes`. Each has two bytes, the lower first.
    i16s, i16
}
numbers! {
    /// The signed 32-bit integers in `bytes`. Each has four bytes, the lowest first.
    i32s, i32
}

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
