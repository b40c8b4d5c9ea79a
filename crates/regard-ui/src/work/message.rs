//! Messages between the window and a worker that shares no memory with it.

use core::cell::RefCell;
use core::ops::Deref;
use std::collections::BTreeSet;
use std::sync::Arc;

use regard_heads::packed;
use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Background;

/// A question or an answer as it is sent.
#[derive(Default)]
pub struct Message {
    /// The value as CBOR, without its long lists of numbers.
    pub bytes: Vec<u8>,
    /// The long lists of numbers. A browser sends them as arrays, without a copy.
    pub lists: Vec<Vec<f32>>,
}

impl Message {
    /// Writes a value. Parts whose numbers are in `known` are left out.
    pub(super) fn new<T: Serialize>(
        background: &Arc<Background>,
        known: BTreeSet<u64>,
        value: &T,
    ) -> Result<Self, String> {
        let mut bytes = Vec::new();
        let (written, lists) = packed::apart(Vec::new(), || {
            within(background, known, || ciborium::into_writer(value, &mut bytes))
        });
        written.map_err(|e| e.to_string())?;
        Ok(Self { bytes, lists })
    }

    /// Reads a value. Its parts get the numbers that the sender has given them.
    pub(super) fn read<T: DeserializeOwned>(
        self,
        background: &Arc<Background>,
    ) -> Result<T, String> {
        let Self { bytes, lists } = self;
        let read = || within(background, BTreeSet::new(), || ciborium::from_reader(&bytes[..]));
        packed::apart(lists, read).0.map_err(|e| e.to_string())
    }
}

/// The message that this thread writes or reads.
struct Current {
    background: Arc<Background>,
    known: BTreeSet<u64>,
}

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

fn within<T>(background: &Arc<Background>, known: BTreeSet<u64>, work: impl FnOnce() -> T) -> T {
    let background = Arc::clone(background);
    CURRENT.set(Some(Current { background, known }));
    let done = work();
    CURRENT.set(None);
    done
}

const OUTSIDE: &str = "shared values are parts of messages alone";

/// Writes the number of a part, and the part if the receiver does not have it.
fn write<T: Send + Sync + 'static, S: Serializer>(
    part: &Arc<T>,
    value: impl Serialize,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let place = CURRENT.with_borrow_mut(|current| {
        let Current { background, known } = current.as_mut()?;
        let id = background.id(part);
        Some((id, known.insert(id)))
    });
    let (id, is_new) = place.ok_or_else(|| S::Error::custom(OUTSIDE))?;
    (id, is_new.then_some(value)).serialize(serializer)
}

/// Reads a part that [`write`] has written.
fn read<'de, V: Deserialize<'de>, T: Send + Sync + 'static, D: Deserializer<'de>>(
    deserializer: D,
    part: impl FnOnce(V) -> T,
) -> Result<Arc<T>, D::Error> {
    let (id, value) = <(u64, Option<V>)>::deserialize(deserializer)?;
    let background =
        CURRENT.with_borrow(|current| current.as_ref().map(|c| Arc::clone(&c.background)));
    let background = background.ok_or_else(|| D::Error::custom(OUTSIDE))?;
    let Some(value) = value else { return background.part(id).map_err(D::Error::custom) };
    let part = Arc::new(part(value));
    background.know(id, &part);
    Ok(part)
}

/// A value that threads share. A message contains it once, or only its number if the receiver has it.
pub(crate) struct Shared<T>(pub(crate) Arc<T>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Shared<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T: Serialize + Send + Sync + 'static> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(&self.0, &*self.0, serializer)
    }
}

impl<'de, T: Deserialize<'de> + Send + Sync + 'static> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer, |value| value).map(Self)
    }
}

/// Numbers that threads share, and that messages have like a [`Shared`] value.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedNumbers(pub(crate) Arc<Vec<f32>>);

impl Deref for SharedNumbers {
    type Target = Arc<Vec<f32>>;

    fn deref(&self) -> &Arc<Vec<f32>> {
        &self.0
    }
}

impl Serialize for SharedNumbers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Given<'a>(#[serde(with = "packed")] &'a Vec<f32>);
        write(&self.0, Given(&self.0), serializer)
    }
}

impl<'de> Deserialize<'de> for SharedNumbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Taken(#[serde(with = "packed")] Vec<f32>);
        read(deserializer, |Taken(numbers)| numbers).map(Self)
    }
}
