//! Questions that a thread or a worker answers in the background.

use core::any::Any;
use core::ops::{ControlFlow, Deref};
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, Weak};

use egui::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Message, Once, lock};
use crate::Host;
use crate::heads::{OpenAttention, Select};
use crate::host::Reply;
use crate::laboratory::{Compute, MeasureSpeed};
use crate::model::{Attribute, Open, PatchEach, Predict, Route, Run, Sweep, Unfold, Weigh};

/// Reports the share of the work that is done, from 0 to 1. Returns `Break` if the work is cancelled.
pub type Tell = Arc<dyn Fn(f32) -> ControlFlow<()> + Send + Sync>;

/// The result of one step towards an answer.
pub enum Advance<T> {
    /// The work goes on.
    More,
    /// The work goes on. The window shows this result until the next arrives.
    Shown(T),
    /// The answer.
    Done(T),
}

/// A question that is answered in the background: a plain value, which can be sent to a worker.
pub(crate) trait Question: Into<Sent> + Send + 'static {
    type Answer: Serialize + DeserializeOwned + Send + 'static;
    /// The name of the thread that answers it.
    const NAME: &'static str;
    /// Whether the answer may share [parts](super::Shared) with earlier answers. A worker sends such a part once.
    const REPEATS: bool = false;

    /// Begins the work. Each call of the returned function does one step. The work can be cancelled between two steps.
    fn begin(self, background: Arc<Background>) -> impl Steps<Self::Answer>;
}

/// A function that does one step towards an answer in each call.
pub(crate) trait Steps<T>: FnMut(&Tell) -> Result<Advance<T>, String> + 'static {}

impl<T, F: FnMut(&Tell) -> Result<Advance<T>, String> + 'static> Steps<T> for F {}

/// Work in a single step.
pub(crate) fn at_once<T>(work: impl FnOnce(&Tell) -> Result<T, String> + 'static) -> impl Steps<T> {
    let mut work = Some(work);
    move |tell| match work.take() {
        Some(work) => work(tell).map(Advance::Done),
        None => Ok(Advance::More),
    }
}

macro_rules! questions {
    ($($name:ident),*) => {
        /// A question as it is sent to a worker.
        #[derive(Serialize, Deserialize)]
        pub(crate) enum Sent {
            $($name($name),)*
            /// Frees the value at a place.
            Forget(u64),
        }

        $(impl From<$name> for Sent {
            fn from(question: $name) -> Self {
                Self::$name(question)
            }
        })*

        impl Sent {
            fn begin(self, background: &Arc<Background>, known: BTreeSet<u64>) -> Begun {
                match self {
                    $(Self::$name(question) => begun(background, question, known),)*
                    Self::Forget(place) => {
                        background.forget(place);
                        Box::new(|_| Ok(Advance::Done(Message::default())))
                    }
                }
            }
        }
    };
}

questions!(
    Open,
    Run,
    Sweep,
    Predict,
    Route,
    Attribute,
    PatchEach,
    Unfold,
    Weigh,
    OpenAttention,
    Select,
    Compute,
    MeasureSpeed
);

/// A question that is being answered: each call does a step of the work.
pub type Begun = Box<dyn FnMut(&Tell) -> Result<Advance<Message>, String>>;

fn begun<Q: Question>(background: &Arc<Background>, question: Q, known: BTreeSet<u64>) -> Begun {
    let mut step = question.begin(Arc::clone(background));
    let background = Arc::clone(background);
    let message = move |answer| Message::new(&background, known.clone(), &answer);
    Box::new(move |tell| {
        Ok(match step(tell)? {
            Advance::More => Advance::More,
            Advance::Shown(answer) => Advance::Shown(message(answer)?),
            Advance::Done(answer) => Advance::Done(message(answer)?),
        })
    })
}

/// Answers questions in threads, or in a worker if the host has one.
///
/// Values that later questions need, such as a model with its weights, stay in the memory of the thread or of the worker. The
/// window refers to them by number. A worker has a `Background` of its own. It [begins](Self::begin) each question that arrives,
/// and does the steps of all begun questions in turn.
pub struct Background {
    pub(crate) host: Arc<dyn Host>,
    things: Mutex<Things>,
}

type Thing = dyn Any + Send + Sync;

#[derive(Default)]
struct Things {
    /// The values at the window's [places](Place).
    held: BTreeMap<u64, Arc<Thing>>,
    /// The parts of answers that are still in use.
    parts: BTreeMap<u64, Weak<Thing>>,
    /// The places that were dropped before they got a value.
    forgotten: BTreeSet<u64>,
}

/// A place for a value that a question makes. Dropping the place frees the value.
pub(crate) struct Place {
    background: Arc<Background>,
    pub(crate) id: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.background.host.has_worker() {
            self.background
                .send(Sent::Forget(self.id), BTreeSet::new(), |_| ControlFlow::Continue(()));
        } else {
            self.background.forget(self.id);
        }
    }
}

/// An answer, with the place of the value that later questions need.
pub(crate) struct Held<T> {
    answer: T,
    place: Arc<Place>,
}

impl<T> Held<T> {
    /// The number of the place, for questions.
    pub(crate) fn place(&self) -> u64 {
        self.place.id
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.answer
    }
}

impl Background {
    /// A background without questions. `host` opens the files that questions name.
    pub fn new(host: Arc<dyn Host>) -> Arc<Self> {
        Arc::new(Self { host, things: Mutex::default() })
    }

    pub(crate) fn place(self: &Arc<Self>) -> Place {
        Place { background: Arc::clone(self), id: fresh() }
    }

    /// Asks a question. Dropping the result cancels the work after its current step.
    pub(crate) fn ask<Q: Question>(
        self: &Arc<Self>,
        window: &Context,
        question: Q,
    ) -> Once<Q::Answer> {
        self.answer(window, question, |answer| answer)
    }

    /// Asks a question that puts a value at a new place.
    pub(crate) fn hold<Q: Question>(
        self: &Arc<Self>,
        window: &Context,
        question: impl FnOnce(u64) -> Q,
    ) -> Once<Held<Q::Answer>> {
        let place = Arc::new(self.place());
        let question = question(place.id);
        self.answer(window, question, move |answer| Held { answer, place: Arc::clone(&place) })
    }

    fn answer<Q: Question, T: Send + 'static>(
        self: &Arc<Self>,
        window: &Context,
        question: Q,
        finish: impl Fn(Q::Answer) -> T + Send + 'static,
    ) -> Once<T> {
        let background = Arc::clone(self);
        if !self.host.has_worker() {
            return Once::start(&*self.host, window, Q::NAME, move |doing| {
                let (tell, mut step) = (doing.teller(), question.begin(background));
                loop {
                    match step(&tell)? {
                        Advance::More => {}
                        Advance::Shown(answer) => {
                            let _ = doing.show(finish(answer));
                        }
                        Advance::Done(answer) => return Ok(finish(answer)),
                    }
                    if doing.goes_on().is_break() {
                        return Err("cancelled".to_owned());
                    }
                }
            });
        }
        // The window keeps its parts until the answer arrives, because the worker leaves them out.
        let parts = if Q::REPEATS { self.alive() } else { BTreeMap::new() };
        let known = parts.keys().copied().collect();
        let (once, doing) = Once::promise(window);
        let mut waiting = Some((doing, finish, parts));
        self.send(question, known, move |reply| {
            let Some((doing, finish, _)) = &waiting else { return ControlFlow::Break(()) };
            let answer = |message: Message| message.read(&background).map(finish);
            let (goes_on, last) = match reply {
                Reply::Progress(part) => (doing.tell(part), None),
                Reply::Shown(message) => match answer(message) {
                    Ok(answer) => (doing.show(answer), None),
                    Err(reason) => (ControlFlow::Break(()), Some(Err(reason))),
                },
                Reply::Done(message) => (ControlFlow::Break(()), Some(message.and_then(answer))),
            };
            if goes_on.is_break()
                && let Some((doing, ..)) = waiting.take()
                && let Some(last) = last
            {
                doing.fulfil(last);
            }
            goes_on
        });
        once
    }

    /// Sends a question to the worker, with the numbers of the parts that the window has.
    fn send(
        self: &Arc<Self>,
        question: impl Into<Sent>,
        known: BTreeSet<u64>,
        mut replies: impl FnMut(Reply) -> ControlFlow<()> + Send + 'static,
    ) {
        match Message::new(self, BTreeSet::new(), &(question.into(), known)) {
            Ok(question) => self.host.ask_worker(question, Box::new(replies)),
            Err(message) => drop(replies(Reply::Done(Err(message)))),
        }
    }

    /// Begins to answer a question that was sent.
    ///
    /// # Errors
    /// If the message is not a question.
    pub fn begin(self: &Arc<Self>, question: Message) -> Result<Begun, String> {
        let (question, known): (Sent, BTreeSet<u64>) = question.read(self)?;
        Ok(question.begin(self, known))
    }

    /// Puts a value at a place. It replaces the value that was there.
    pub(crate) fn put<T: Send + Sync + 'static>(&self, place: u64, thing: Arc<T>) {
        let mut things = lock(&self.things);
        if !things.forgotten.remove(&place) {
            things.held.insert(place, thing);
        }
    }

    /// The value at a place.
    pub(crate) fn held<T: Send + Sync + 'static>(&self, place: u64) -> Result<Arc<T>, String> {
        found(lock(&self.things).held.get(&place).cloned())
    }

    /// The number of a part. Later questions refer to the part by this number.
    pub(crate) fn id<T: Send + Sync + 'static>(&self, part: &Arc<T>) -> u64 {
        let address = Arc::as_ptr(part).cast::<()>();
        let parts = &mut lock(&self.things).parts;
        let known = parts.iter().find(|(_, known)| known.as_ptr().cast::<()>() == address);
        if let Some((id, _)) = known {
            return *id;
        }
        let id = fresh();
        insert(parts, id, part);
        id
    }

    /// Remembers the number of a part.
    pub(super) fn know<T: Send + Sync + 'static>(&self, id: u64, part: &Arc<T>) {
        insert(&mut lock(&self.things).parts, id, part);
    }

    pub(crate) fn part<T: Send + Sync + 'static>(&self, id: u64) -> Result<Arc<T>, String> {
        found(lock(&self.things).parts.get(&id).and_then(Weak::upgrade))
    }

    fn alive(&self) -> BTreeMap<u64, Arc<Thing>> {
        let things = lock(&self.things);
        things.parts.iter().filter_map(|(id, part)| Some((*id, part.upgrade()?))).collect()
    }

    fn forget(&self, place: u64) {
        let mut things = lock(&self.things);
        let thing = things.held.remove(&place);
        if thing.is_none() {
            things.forgotten.insert(place);
        }
        drop((things, thing)); // the lock is released before a large value is freed
    }
}

/// A number that is unique within this process.
fn fresh() -> u64 {
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

fn found<T: Send + Sync + 'static>(thing: Option<Arc<Thing>>) -> Result<Arc<T>, String> {
    let thing = thing.and_then(|thing| thing.downcast().ok());
    thing.ok_or_else(|| "the model, the run or the file of this question is closed".to_owned())
}
