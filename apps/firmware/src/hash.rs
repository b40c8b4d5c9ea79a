//! A hash of logits, by which two machines compare their bits.

/// The token that a story begins and ends with.
pub const FIRST_TOKEN: usize = 1;

/// A number whose bits are hashed.
pub trait Bits: Copy {
    /// The bits.
    fn bits(self) -> u32;
}

impl Bits for f32 {
    fn bits(self) -> u32 {
        self.to_bits()
    }
}

impl Bits for i32 {
    fn bits(self) -> u32 {
        self as u32
    }
}

/// FNV-1a (Fowler, Noll and Vo) of the bits of all numbers, the lowest byte of each first.
#[must_use]
pub fn hash<T: Bits>(numbers: &[T]) -> u64 {
    let bytes = numbers.iter().flat_map(|x| x.bits().to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
