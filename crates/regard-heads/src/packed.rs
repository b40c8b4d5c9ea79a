//! Numbers as one run of bytes, for a message between two instances of a program on one machine: `#[serde(with = "packed")]`.
//!
//! [`apart`] moves long lists instead of writing them into these bytes.

use core::cell::RefCell;
use core::fmt;
use core::ops::Deref;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A list of at least this many numbers is moved by [`apart`].
const LONG: usize = 4096;

thread_local! {
    static APART: RefCell<Option<Vec<Vec<f32>>>> = const { RefCell::new(None) };
}

/// Runs `work`, which writes or reads numbers, and moves their long lists. Writing appends the lists to `lists`, and reading
/// takes them from there.
///
/// Returns the result of `work`, and the lists.
pub fn apart<T>(lists: Vec<Vec<f32>>, work: impl FnOnce() -> T) -> (T, Vec<Vec<f32>>) {
    APART.set(Some(lists));
    let done = work();
    (done, APART.take().unwrap_or_default())
}

/// Bytes that a binary format writes unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BytesVisitor;

        impl Visitor<'_> for BytesVisitor {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }

            fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Bytes, E> {
                Ok(Bytes(bytes))
            }
        }

        deserializer.deserialize_byte_buf(BytesVisitor)
    }
}

/// Writes a list of numbers.
///
/// # Errors
/// Those of the format.
pub fn serialize<V: Deref<Target: AsRef<[f32]>>, S: Serializer>(
    numbers: &V,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let numbers: &[f32] = (**numbers).as_ref();
    let place = APART.with_borrow_mut(|apart| {
        let lists = apart.as_mut().filter(|_| numbers.len() >= LONG)?;
        lists.push(numbers.to_vec());
        Some(lists.len() as u64 - 1)
    });
    match place {
        Some(place) => serializer.serialize_u64(place),
        None => serializer.serialize_bytes(bytemuck::cast_slice(numbers)),
    }
}

/// Reads a list of numbers.
///
/// # Errors
/// If the bytes are not a list of numbers, or if a list is missing.
pub fn deserialize<'de, V: From<Vec<f32>>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<V, D::Error> {
    deserializer.deserialize_any(NumbersVisitor).map(V::from)
}

struct NumbersVisitor;

impl Visitor<'_> for NumbersVisitor {
    type Value = Vec<f32>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("numbers of 4 bytes")
    }

    fn visit_u64<E: Error>(self, place: u64) -> Result<Vec<f32>, E> {
        APART
            .with_borrow_mut(|apart| {
                let lists = apart.as_mut()?;
                lists.get_mut(usize::try_from(place).ok()?).map(core::mem::take)
            })
            .ok_or_else(|| E::custom("a list of numbers is missing"))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<f32>, E> {
        let (numbers, rest) = bytes.as_chunks();
        if !rest.is_empty() {
            return Err(E::invalid_length(bytes.len(), &self));
        }
        Ok(numbers.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect())
    }
}

/// The same for several lists.
pub mod lists {
    use serde::de::Deserializer;
    use serde::{Deserialize, Serialize, Serializer};

    #[derive(Serialize)]
    struct BorrowedList<'a>(#[serde(with = "super")] &'a Vec<f32>);

    #[derive(Deserialize)]
    struct OwnedList(#[serde(with = "super")] Vec<f32>);

    /// Writes the lists.
    ///
    /// # Errors
    /// Those of the format.
    pub fn serialize<S: Serializer>(lists: &[Vec<f32>], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(lists.iter().map(BorrowedList))
    }

    /// Reads the lists.
    ///
    /// # Errors
    /// If one of them is not a list of numbers.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Vec<f32>>, D::Error> {
        let lists = Vec::<OwnedList>::deserialize(deserializer)?;
        Ok(lists.into_iter().map(|OwnedList(list)| list).collect())
    }
}
