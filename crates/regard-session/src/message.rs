//! Messages between the window and a worker that shares no memory with it.

use core::any::Any;
use core::cell::RefCell;
use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use regard_heads::packed;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
    ///
    /// # Errors
    /// If a part of the value cannot be written.
    pub fn new<T: Serialize>(
        parts: &Arc<Parts>,
        known: BTreeSet<u64>,
        value: &T,
    ) -> Result<Self, String> {
        let mut bytes = Vec::new();
        let (written, lists) = packed::apart(Vec::new(), || {
            within(parts, known, || ciborium::into_writer(value, &mut bytes))
        });
        written.map_err(|e| e.to_string())?;
        Ok(Self { bytes, lists })
    }

    /// The first value of a tuple of three, without its numbers.
    ///
    /// # Errors
    /// If the message is not such a tuple.
    pub fn first<T: DeserializeOwned>(&self) -> Result<T, String> {
        let read = ciborium::from_reader::<(T, IgnoredAny, IgnoredAny), _>(&self.bytes[..]);
        read.map(|(first, ..)| first).map_err(|e| e.to_string())
    }

    /// Reads a value. Its parts get the numbers that the sender has given them.
    ///
    /// # Errors
    /// If the message is not such a value, or if it names a part that is no longer in use.
    pub fn read<T: DeserializeOwned>(self, parts: &Arc<Parts>) -> Result<T, String> {
        let Self { bytes, lists } = self;
        let read = || within(parts, BTreeSet::new(), || ciborium::from_reader(&bytes[..]));
        packed::apart(lists, read).0.map_err(|e| e.to_string())
    }
}

/// A value of any kind that threads share.
pub type Thing = dyn Any + Send + Sync;

/// The shared parts of messages that are still in use, by their numbers.
#[derive(Default)]
pub struct Parts(Mutex<BTreeMap<u64, Weak<Thing>>>);

impl Parts {
    /// The number of a part, by which later messages name it.
    pub fn id<T: Send + Sync + 'static>(&self, part: &Arc<T>) -> u64 {
        let address = Arc::as_ptr(part).cast::<()>();
        let parts = &mut self.lock();
        let known = parts.iter().find(|(_, known)| known.as_ptr().cast::<()>() == address);
        if let Some((id, _)) = known {
            return *id;
        }
        let id = fresh();
        insert(parts, id, part);
        id
    }

    /// Remembers the number of a part.
    fn know<T: Send + Sync + 'static>(&self, id: u64, part: &Arc<T>) {
        insert(&mut self.lock(), id, part);
    }

    /// The part with this number.
    ///
    /// # Errors
    /// If nothing uses it any more, or if it has another type.
    pub fn part<T: Send + Sync + 'static>(&self, id: u64) -> Result<Arc<T>, String> {
        found(self.lock().get(&id).and_then(Weak::upgrade))
    }

    /// All parts that are in use.
    pub fn alive(&self) -> BTreeMap<u64, Arc<Thing>> {
        self.lock().iter().filter_map(|(id, part)| Some((*id, part.upgrade()?))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Weak<Thing>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number that is unique within this process.
pub fn fresh() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn insert<T: Send + Sync + 'static>(
    parts: &mut BTreeMap<u64, Weak<Thing>>,
    id: u64,
    part: &Arc<T>,
) {
    let part: Arc<Thing> = Arc::<T>::clone(part);
    parts.retain(|_, part| part.strong_count() > 0);
    parts.insert(id, Arc::downgrade(&part));
}

/// A thing as the type that it has.
///
/// # Errors
/// If there is none, or if it has another type.
pub fn found<T: Send + Sync + 'static>(thing: Option<Arc<Thing>>) -> Result<Arc<T>, String> {
    let thing = thing.and_then(|thing| thing.downcast().ok());
    thing.ok_or_else(|| "the model, the run or the file of this question is closed".to_owned())
}

/// The message that this thread writes or reads.
struct Current {
    parts: Arc<Parts>,
    known: BTreeSet<u64>,
}

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

fn within<T>(parts: &Arc<Parts>, known: BTreeSet<u64>, work: impl FnOnce() -> T) -> T {
    CURRENT.set(Some(Current { parts: Arc::clone(parts), known }));
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
        let Current { parts, known } = current.as_mut()?;
        let id = parts.id(part);
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
    let parts = CURRENT.with_borrow(|current| current.as_ref().map(|c| Arc::clone(&c.parts)));
    let parts = parts.ok_or_else(|| D::Error::custom(OUTSIDE))?;
    let Some(value) = value else { return parts.part(id).map_err(D::Error::custom) };
    let part = Arc::new(part(value));
    parts.know(id, &part);
    Ok(part)
}

/// A value that threads share. A message contains it once, or only its number if the receiver has it.
pub struct Shared<T>(pub Arc<T>);

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
pub struct SharedNumbers(pub Arc<Vec<f32>>);

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
