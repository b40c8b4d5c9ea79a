//! Questions that take long to answer.
//!
//! A question is a plain value, and so is its answer. A thread answers it; in a browser, which has no threads, a worker that shares no
//! memory with the window does, and both are sent as bytes. What later questions need again, such as a model with its weights, stays
//! with whoever answers: the window knows it by a [`Place`].

use core::any::Any;
use core::ops::{ControlFlow, Deref};
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use egui::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Host;
use crate::heads::{OpenAttention, Select};
use crate::host::{Replies, Reply};
use crate::laboratory::{Compute, Measure};
use crate::model::{Attribute, Open, PatchEach, Predict, Run, Sweep, Unfold};
use crate::task::Task;

/// Takes the share of the work that is done, from 0 to 1. Returns `Break` if nobody waits for the answer any more.
pub type Tell = Arc<dyn Fn(f32) -> ControlFlow<()> + Send + Sync>;

/// The result of one step towards an answer.
pub enum Step<T> {
    /// There is more to do.
    More,
    /// There is more to do, and this can be shown until then.
    Shown(T),
    /// The answer.
    Done(T),
}

/// A question, and how it is answered.
pub(crate) trait Question: Into<Job> + Send + 'static {
    type Answer: Serialize + DeserializeOwned + Send + 'static;
    /// The name of its thread.
    const NAME: &'static str;

    /// Begins the work. Each call of what is returned does a step of it; between two steps, the work may be cancelled.
    fn begin(self, desk: Arc<Desk>) -> impl Steps<Self::Answer>;
}

/// The steps towards an answer.
pub(crate) trait Steps<T>: FnMut(&Tell) -> Result<Step<T>, String> + 'static {}

impl<T, F: FnMut(&Tell) -> Result<Step<T>, String> + 'static> Steps<T> for F {}

/// Work that is one step.
pub(crate) fn once<T>(work: impl FnOnce(&Tell) -> Result<T, String> + 'static) -> impl Steps<T> {
    let mut work = Some(work);
    move |tell| match work.take() {
        Some(work) => work(tell).map(Step::Done),
        None => Ok(Step::More),
    }
}

macro_rules! jobs {
    ($($name:ident),*) => {
        /// A question as it is sent.
        #[derive(Serialize, Deserialize)]
        pub(crate) enum Job {
            $($name($name),)*
            /// Nobody needs what stands at this place any more.
            Forget(u64),
        }

        $(impl From<$name> for Job {
            fn from(question: $name) -> Self {
                Self::$name(question)
            }
        })*

        impl Job {
            fn begin(self, desk: &Arc<Desk>) -> Begun {
                match self {
                    $(Self::$name(question) => begun(desk, question),)*
                    Self::Forget(place) => {
                        desk.forget(place);
                        Box::new(|_| Ok(Step::Done(Vec::new())))
                    }
                }
            }
        }
    };
}

jobs!(
    Open,
    Run,
    Sweep,
    Predict,
    Attribute,
    PatchEach,
    Unfold,
    OpenAttention,
    Select,
    Compute,
    Measure
);

/// A question that is being answered: each call does a step of the work.
pub type Begun = Box<dyn FnMut(&Tell) -> Result<Step<Vec<u8>>, String>>;

fn begun<Q: Question>(desk: &Arc<Desk>, question: Q) -> Begun {
    let mut step = question.begin(Arc::clone(desk));
    Box::new(move |tell| {
        Ok(match step(tell)? {
            Step::More => Step::More,
            Step::Shown(answer) => Step::Shown(encoded(&answer)?),
            Step::Done(answer) => Step::Done(encoded(&answer)?),
        })
    })
}

/// A value that threads share, and that a worker gets as a copy.
pub(crate) struct Shared<T>(pub Arc<T>);

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

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        T::serialize(self, serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(|thing| Self(Arc::new(thing)))
    }
}

/// A new number. Two instances of the program may give the same.
pub(crate) fn fresh() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The desk takes questions in the window, and answers them in a thread or in a worker.
pub struct Desk {
    pub(crate) host: Arc<dyn Host>,
    things: Mutex<Things>,
}

type Thing = dyn Any + Send + Sync;

#[derive(Default)]
struct Things {
    /// The things for which the window has a [`Place`].
    held: BTreeMap<u64, Arc<Thing>>,
    /// Parts of it, by numbers of their own.
    parts: BTreeMap<u64, Weak<Thing>>,
    /// Places that were dropped before anything stood there.
    forgotten: BTreeSet<u64>,
}

/// The window's claim to what a question has put there. It is forgotten when the place is dropped.
pub(crate) struct Place {
    desk: Arc<Desk>,
    id: u64,
}

impl Place {
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.desk.host.remote().is_some() {
            self.desk.say(&Job::Forget(self.id), Box::new(|_| ControlFlow::Continue(())));
        } else {
            self.desk.forget(self.id);
        }
    }
}

impl Desk {
    /// A desk with nothing on it. `host` opens the files that questions name.
    pub fn new(host: Arc<dyn Host>) -> Arc<Self> {
        Arc::new(Self { host, things: Mutex::default() })
    }

    /// A place for what a question makes.
    pub(crate) fn place(self: &Arc<Self>) -> Place {
        Place { desk: Arc::clone(self), id: fresh() }
    }

    /// Has a question answered in the background. Dropping the task cancels the work after its step.
    pub(crate) fn ask<Q: Question>(
        self: &Arc<Self>,
        window: &Context,
        question: Q,
    ) -> Task<Q::Answer> {
        if self.host.remote().is_none() {
            let desk = Arc::clone(self);
            return Task::start(&*self.host, window, Q::NAME, move |promise| {
                let (tell, mut step) = (promise.teller(), question.begin(desk));
                loop {
                    match step(&tell)? {
                        Step::More => {}
                        Step::Shown(answer) => {
                            let _ = promise.show(answer);
                        }
                        Step::Done(answer) => return Ok(answer),
                    }
                    if promise.goes_on().is_break() {
                        return Err("cancelled".to_owned());
                    }
                }
            });
        }
        let (task, promise) = Task::promise(window);
        let mut promise = Some(promise);
        self.send::<Q>(question, move |reply| {
            let Some(waiting) = &promise else { return ControlFlow::Break(()) };
            match reply {
                Sent::Progress(part) => waiting.tell(part),
                Sent::Shown(answer) => waiting.show(answer),
                Sent::Done(answer) => {
                    if let Some(promise) = promise.take() {
                        promise.fulfil(answer);
                    }
                    ControlFlow::Break(())
                }
            }
        });
        task
    }

    /// Sends a question to the worker. `take` is called with what the worker says.
    pub(crate) fn send<Q: Question>(
        &self,
        question: Q,
        mut take: impl FnMut(Sent<Q::Answer>) -> ControlFlow<()> + Send + 'static,
    ) {
        let replies = move |reply| match reply {
            Reply::Progress(part) => take(Sent::Progress(part)),
            Reply::Shown(answer) => match decoded(&answer) {
                Ok(answer) => take(Sent::Shown(answer)),
                Err(message) => take(Sent::Done(Err(message))),
            },
            Reply::Done(answer) => take(Sent::Done(answer.and_then(|answer| decoded(&answer)))),
        };
        self.say(&question.into(), Box::new(replies));
    }

    fn say(&self, job: &Job, mut replies: Replies) {
        match (self.host.remote(), encoded(job)) {
            (Some(remote), Ok(job)) => remote.ask(job, replies),
            (_, Err(message)) => drop(replies(Reply::Done(Err(message)))),
            (None, _) => {}
        }
    }
}

/// A worker's reply to a question, decoded.
pub(crate) enum Sent<T> {
    Progress(f32),
    Shown(T),
    Done(Result<T, String>),
}

/// The worker's side: see [`Remote`](crate::host::Remote).
impl Desk {
    /// Begins to answer a question that was sent.
    ///
    /// # Errors
    /// If the bytes are no question.
    pub fn begin(self: &Arc<Self>, job: &[u8]) -> Result<Begun, String> {
        Ok(decoded::<Job>(job)?.begin(self))
    }

    /// Keeps what the window has a place for, in place of what was there.
    pub(crate) fn hold<T: Send + Sync + 'static>(&self, place: u64, thing: Arc<T>) {
        let mut things = self.lock();
        if !things.forgotten.remove(&place) {
            things.held.insert(place, thing);
        }
    }

    /// The thing at a place.
    pub(crate) fn held<T: Send + Sync + 'static>(&self, place: u64) -> Result<Arc<T>, String> {
        found(self.lock().held.get(&place).cloned())
    }

    /// Lets later questions name a part of what is held.
    pub(crate) fn know<T: Send + Sync + 'static>(&self, id: u64, part: &Arc<T>) {
        let part: Arc<Thing> = Arc::<T>::clone(part);
        let parts = &mut self.lock().parts;
        parts.retain(|_, part| part.strong_count() > 0);
        parts.insert(id, Arc::downgrade(&part));
    }

    /// A part of what is held.
    pub(crate) fn part<T: Send + Sync + 'static>(&self, id: u64) -> Result<Arc<T>, String> {
        found(self.lock().parts.get(&id).and_then(Weak::upgrade))
    }

    fn forget(&self, place: u64) {
        let mut things = self.lock();
        let thing = things.held.remove(&place);
        if thing.is_none() {
            things.forgotten.insert(place);
        }
        drop((things, thing)); // the thing after the lock: it may be large
    }

    fn lock(&self) -> MutexGuard<'_, Things> {
        self.things.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer to a question that is sent, and answered, as bytes.
#[cfg(test)]
pub(crate) fn answered<Q: Question>(desk: &Arc<Desk>, question: Q) -> Q::Answer {
    let mut step = desk.begin(&encoded::<Job>(&question.into()).unwrap()).unwrap();
    let tell: Tell = Arc::new(|_| ControlFlow::Continue(()));
    loop {
        if let Step::Done(answer) = step(&tell).unwrap() {
            return decoded(&answer).unwrap();
        }
    }
}

fn found<T: Send + Sync + 'static>(thing: Option<Arc<Thing>>) -> Result<Arc<T>, String> {
    let thing = thing.and_then(|thing| thing.downcast().ok());
    thing.ok_or_else(|| "what was asked about is there no more".to_owned())
}

fn encoded<T: Serialize>(what: &T) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    ciborium::into_writer(what, &mut bytes).map_err(|e| e.to_string())?;
    Ok(bytes)
}

fn decoded<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    ciborium::from_reader(bytes).map_err(|e| e.to_string())
}
