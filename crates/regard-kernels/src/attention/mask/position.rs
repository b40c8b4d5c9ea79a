/// The key at which query 0 stands; query i stands i places after it. Causal masks, window masks and ALiBi refer to this
/// position.
///
/// With as many queries as keys and no key length, `TopLeft` and `BottomRight` are the same. Otherwise they differ, and
/// libraries have different defaults. Here the caller chooses one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// Query i stands at key i.
    TopLeft,
    /// The last query stands at the last key, or at the last one of the
    /// [key length](crate::Mask::key_len) where one is given. For texts that are padded at the right, that is not what is meant:
    /// use `TopLeft`.
    BottomRight,
    /// Query i stands at key `offset + i`. After a KV cache, the offset is the number of keys that it
    /// holds. It may be negative.
    Offset(isize),
}

impl Position {
    /// The key at which query 0 stands.
    pub(crate) fn of_first_query(self, n_q: usize, key_len: usize) -> isize {
        match self {
            Self::TopLeft => 0,
            Self::BottomRight => clamp_to_isize(key_len).saturating_sub(clamp_to_isize(n_q)),
            Self::Offset(offset) => offset,
        }
    }
}

/// A slice is never longer than `isize::MAX`, but a caller may ask a mask about any number of keys.
fn clamp_to_isize(n: usize) -> isize {
    isize::try_from(n).unwrap_or(isize::MAX)
}

/// How far a query sees from its position, the position itself not counted. `None` means without limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Window {
    /// Keys to the left.
    pub left: Option<usize>,
    /// Keys to the right.
    pub right: Option<usize>,
}
