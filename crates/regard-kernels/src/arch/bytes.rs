//! Numbers from the bytes of a file, at compile time.

/// Numbers of which every pattern of bits is one: [`numbers`] reads them.
pub trait Number: sealed::Number {}

impl<T: sealed::Number> Number for T {}

mod sealed {
    pub trait Number: Copy {}
    impl Number for i8 {}
    impl Number for u16 {}
    impl Number for i16 {}
    impl Number for i32 {}
    impl Number for f32 {}
}

/// The numbers in `bytes`. Each begins with its lowest byte.
///
/// The compiler copies the bytes at once. A loop over the numbers in a `const fn`, which it interprets, takes 10 seconds and 500 MB
/// for a million of them. Too few or too many bytes do not compile, and neither does a target whose numbers begin with their highest
/// byte.
///
/// ```
/// static WEIGHTS: [f32; 2] = regard_kernels::numbers([0, 0, 0x80, 0x3f, 0, 0, 0, 0x40]);
/// assert_eq!(WEIGHTS, [1.0, 2.0]);
/// ```
///
/// ```compile_fail
/// static WEIGHTS: [f32; 2] = regard_kernels::numbers([0, 0, 0x80]);
/// ```
#[must_use]
pub const fn numbers<T: Number, const BYTES: usize, const N: usize>(bytes: [u8; BYTES]) -> [T; N] {
    #[repr(C)] // both fields begin at the first byte
    union Both<T: Copy, const BYTES: usize, const N: usize> {
        bytes: [u8; BYTES],
        numbers: [T; N],
    }
    const {
        assert!(BYTES == N * size_of::<T>(), "the file has another number of bytes");
        assert!(
            cfg!(target_endian = "little"),
            "numbers of this target begin with their highest byte"
        );
    }
    // SAFETY: both arrays have the same bytes, and every pattern of bits is a number.
    unsafe { Both { bytes }.numbers }
}
