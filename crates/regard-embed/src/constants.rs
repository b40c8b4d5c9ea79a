//! Numbers from the bytes of a file, at compile time. A file that is too short or too long does not compile.

/// Constants that begin at a multiple of 4 bytes: cores read several narrow numbers at once there.
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
        /// If the bytes are not those of N numbers.
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
    /// The `f32` numbers in `bytes`, of which each has four, the lowest first.
    ///
    /// ```
    /// static WEIGHTS: [f32; 2] = regard_embed::f32s(&[0, 0, 0x80, 0x3f, 0, 0, 0, 0x40]);
    /// assert_eq!(WEIGHTS, [1.0, 2.0]);
    /// ```
    f32s, f32
}
numbers! {
    /// The 16-bit numbers in `bytes`, of which each has two, the lower first: those of bfloat16.
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
    /// The signed 16-bit integers in `bytes`, of which each has two, the lower first.
    i16s, i16
}
numbers! {
    /// The signed 32-bit integers in `bytes`, of which each has four, the lowest first.
    i32s, i32
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
