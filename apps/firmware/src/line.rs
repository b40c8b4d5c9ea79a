//! The lines that the images print: one for each result, with the bits of its numbers.

use core::fmt;

/// A function that takes the name and the numbers of a line.
pub type WriteLine<'a> = dyn FnMut(&str, LineNumbers<'_>) + 'a;

/// The numbers of a line, written as their bits.
#[derive(Clone, Copy, Debug)]
pub enum LineNumbers<'a> {
    /// Their last bits depend on whether the core has fused multiply-add.
    Floats(&'a [f32]),
    /// They are the same on every core.
    Integers(&'a [i8]),
}

impl fmt::Display for LineNumbers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Floats(numbers) => {
                numbers.iter().try_for_each(|x| write!(f, " {:08x}", x.to_bits()))
            }
            Self::Integers(numbers) => numbers.iter().try_for_each(|x| write!(f, " {x:02x}")),
        }
    }
}
