//! Questions that take long to answer, and who answers them.

use core::any::Any;
use core::ops::{ControlFlow, Deref};
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use egui::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Message, Once};
use crate::Host;
use crate::heads::{OpenAttention, Select};
use crate::host::Reply;
use crate::laboratory::{Compute, MeasureSpeed};
use crate::model::{Attribute, Open, PatchEach, Predict, Route, Run, Sweep, Unfold, Weigh};

/// Takes the share of the work that is done, from 0 to 1. Returns `Break` if nobody waits for the answer any more.
pub type Tell = Arc<dyn Fn(f32) -> ControlFlow<()> + Send + Sync>;

/// The result of one step towards an answer.
pub enum Advance<T> {
    /// There is more to do.
    More,
    /// There is more to do, and this can be shown until then.
    Shown(T),
    /// The answer.
    Done(T),
}

/// A question, and how it is answered.
pub(crate) trait Question: Into<Sent> + Send + 'static {
    type Answer: Serialize + DeserializeOwned + Send + 'static;
    /// The name of its thread.
    const NAME: &'static str;
    /// Whether the answer may have [parts](super::Shared) in common with earlier answers. A worker does not send them again.
    const REPEATS: bool = false;

    /// Begins the work. Each call of what is returned does a step of it; between two steps, the work may be cancelled.
    fn begin(self, background: Arc<Background>) -> impl Steps<Self::Answer>;
}

/// The steps towards an answer.
pub(crate) trait Steps<T>: FnMut(&Tell) -> Result<Advance<T>, String> + 'static {}

impl<T, F: FnMut(&Tell) -> Result<Advance<T>, String> + 'static> Steps<T> for F {}

/// Work that is one step.
pub(crate) fn at_once<T>(work: impl FnOnce(&Tell) -> Result<T, String> + 'static) -> impl Steps<T> {
    let mut work = Some(work);
    move |tell| match work.take() {
        Some(work) => work(tell).map(Advance::Done),
        None => Ok(Advance::More),
    }
}

macro_rules! questions {
    ($($name:ident),*) => {
        /// A question as it is sent.
        #[derive(Serialize, Deserialize)]
        pub(crate) enum Sent {
            $($name($name),)*
            /// Nobody needs what stands at this place any more.
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

/// Has questions answered in the background.
///
/// What later questions need again, such as a model with its weights, stays with whoever answers. The window knows it by its number.
/// A worker has a `Background` of its own, [begins](Self::begin) a question when it comes, and does the steps of all that it has begun
/// in turn.
pub struct Background {
    pub(crate) host: Arc<dyn Host>,
    things: Mutex<Things>,
}

type Thing = dyn Any + Send + Sync;

#[derive(Default)]
struct Things {
    /// The things for which the window has a [`Place`].
    held: BTreeMap<u64, Arc<Thing>>,
    /// The parts of answers that are alive.
    parts: BTreeMap<u64, Weak<Thing>>,
    /// Places that were dropped before anything stood there.
    forgotten: BTreeSet<u64>,
}

/// The window's claim to what a question has put there. It is forgotten when the place is dropped.
pub(crate) struct Place {
    background: Arc<Background>,
    id: u64,
}

impl Place {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }
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

/// An answer, while whoever gave it holds what later questions need.
pub(crate) struct Held<T> {
    answer: T,
    place: Arc<Place>,
}

impl<T> Held<T> {
    /// The place of what is held, for questions.
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
    /// Nothing has been asked. `host` opens the files that questions name.
    pub fn new(host: Arc<dyn Host>) -> Arc<Self> {
        Arc::new(Self { host, things: Mutex::default() })
    }

    /// A place for what questions make.
    pub(crate) fn place(self: &Arc<Self>) -> Place {
        Place { background: Arc::clone(self), id: fresh() }
    }

    /// Has a question answered. Dropping the result cancels the work after its step.
    pub(crate) fn ask<Q: Question>(
        self: &Arc<Self>,
        window: &Context,
        question: Q,
    ) -> Once<Q::Answer> {
        self.answer(window, question, |answer| answer)
    }

    /// Has a question answered that holds something at a place.
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
        // The parts that the window has now stay until the answer comes.
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

    /// Sends a question to the worker, with the parts that the window has.
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
    /// If the message is no question.
    pub fn begin(self: &Arc<Self>, question: Message) -> Result<Begun, String> {
        let (question, known): (Sent, BTreeSet<u64>) = question.read(self)?;
        Ok(question.begin(self, known))
    }

    /// Keeps what the window has a place for, in place of what was there.
    pub(crate) fn put<T: Send + Sync + 'static>(&self, place: u64, thing: Arc<T>) {
        let mut things = self.lock();
        if !things.forgotten.remove(&place) {
            things.held.insert(place, thing);
        }
    }

    /// The thing at a place.
    pub(crate) fn held<T: Send + Sync + 'static>(&self, place: u64) -> Result<Arc<T>, String> {
        found(self.lock().held.get(&place).cloned())
    }

    /// The number of a part, by which later questions name it.
    pub(crate) fn id<T: Send + Sync + 'static>(&self, part: &Arc<T>) -> u64 {
        let address = Arc::as_ptr(part).cast::<()>();
        let parts = &mut self.lock().parts;
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
        insert(&mut self.lock().parts, id, part);
    }

    /// The part of this number.
    pub(crate) fn part<T: Send + Sync + 'static>(&self, id: u64) -> Result<Arc<T>, String> {
        found(self.lock().parts.get(&id).and_then(Weak::upgrade))
    }

    fn alive(&self) -> BTreeMap<u64, Arc<Thing>> {
        let things = self.lock();
        things.parts.iter().filter_map(|(id, part)| Some((*id, part.upgrade()?))).collect()
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

/// A new number. Two instances of the program may give the same.
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
    thing.ok_or_else(|| "what was asked about is there no more".to_owned())
}
