//! Numbers as one run of bytes, for a message between two instances of a program on one machine: `#[serde(with = "packed")]`.

use core::fmt;
use core::ops::Deref;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Bytes that a binary format writes as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Taken;

        impl Visitor<'_> for Taken {
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

        deserializer.deserialize_byte_buf(Taken)
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
    serializer.serialize_bytes(bytemuck::cast_slice((**numbers).as_ref()))
}

/// Reads a list of numbers.
///
/// # Errors
/// If the bytes are no list of numbers.
pub fn deserialize<'de, V: From<Vec<f32>>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<V, D::Error> {
    let Bytes(bytes) = Bytes::deserialize(deserializer)?;
    let (numbers, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        return Err(D::Error::invalid_length(bytes.len(), &"numbers of 4 bytes"));
    }
    Ok(numbers.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect::<Vec<f32>>().into())
}

/// The same for several lists.
pub mod lists {
    use serde::de::Deserializer;
    use serde::{Deserialize, Serialize, Serializer};

    #[derive(Serialize)]
    struct Given<'a>(#[serde(with = "super")] &'a Vec<f32>);

    #[derive(Deserialize)]
    struct Taken(#[serde(with = "super")] Vec<f32>);

    /// Writes the lists.
    ///
    /// # Errors
    /// Those of the format.
    pub fn serialize<S: Serializer>(lists: &[Vec<f32>], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(lists.iter().map(Given))
    }

    /// Reads the lists.
    ///
    /// # Errors
    /// If one of them is no list of numbers.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Vec<f32>>, D::Error> {
        let lists = Vec::<Taken>::deserialize(deserializer)?;
        Ok(lists.into_iter().map(|Taken(list)| list).collect())
    }
}
