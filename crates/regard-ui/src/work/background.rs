//! Questions that a thread or a worker answers in the background.

use core::ops::{ControlFlow, Deref};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use egui::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use regard_session::Host;
use regard_session::host::Reply;
use regard_session::message::{Message, Parts, Thing, found, fresh};

use super::{Once, lock};

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
pub(crate) trait Question: Serialize + DeserializeOwned + Send + 'static {
    type Answer: Serialize + DeserializeOwned + Send + 'static;
    /// Its name among all questions, which is also that of the thread that answers it.
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

/// A question that is being answered: each call does a step of the work.
pub type Begun = Box<dyn FnMut(&Tell) -> Result<Advance<Message>, String>>;

/// Frees the value at a place.
#[derive(Serialize, Deserialize)]
pub(crate) struct Forget(u64);

impl Question for Forget {
    type Answer = ();
    const NAME: &'static str = "forget";

    fn begin(self, background: Arc<Background>) -> impl Steps<()> {
        at_once(move |_| {
            background.forget(self.0);
            Ok(())
        })
    }
}

/// Begins to answer a question of a kind that has arrived in a message.
pub(crate) fn begin<Q: Question>(
    background: &Arc<Background>,
    question: Message,
) -> Result<Begun, String> {
    let (_, known, question): (String, BTreeSet<u64>, Q) = question.read(&background.parts)?;
    Ok(begun(background, question, known))
}

fn begun<Q: Question>(background: &Arc<Background>, question: Q, known: BTreeSet<u64>) -> Begun {
    let mut step = question.begin(Arc::clone(background));
    let background = Arc::clone(background);
    let message = move |answer| Message::new(&background.parts, known.clone(), &answer);
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
/// window refers to them by number. A worker has a `Background` of its own. It [begins](crate::begin) each question that arrives,
/// and does the steps of all begun questions in turn.
pub struct Background {
    pub(crate) host: Arc<dyn Host>,
    things: Mutex<Things>,
    /// The parts of answers that are still in use.
    parts: Arc<Parts>,
}

#[derive(Default)]
struct Things {
    /// The values at the window's [places](Place).
    held: BTreeMap<u64, Arc<Thing>>,
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
            self.background.send(&Forget(self.id), BTreeSet::new(), |_| ControlFlow::Continue(()));
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
        Arc::new(Self { host, things: Mutex::default(), parts: Arc::default() })
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
        let parts = if Q::REPEATS { self.parts.alive() } else { BTreeMap::new() };
        let known = parts.keys().copied().collect();
        let (once, doing) = Once::promise(window);
        let mut waiting = Some((doing, finish, parts));
        self.send(&question, known, move |reply| {
            let Some((doing, finish, _)) = &waiting else { return ControlFlow::Break(()) };
            let answer = |message: Message| message.read(&background.parts).map(finish);
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
    fn send<Q: Question>(
        self: &Arc<Self>,
        question: &Q,
        known: BTreeSet<u64>,
        mut replies: impl FnMut(Reply) -> ControlFlow<()> + Send + 'static,
    ) {
        match Message::new(&self.parts, BTreeSet::new(), &(Q::NAME, known, question)) {
            Ok(question) => self.host.ask_worker(question, Box::new(replies)),
            Err(message) => drop(replies(Reply::Done(Err(message)))),
        }
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
        self.parts.id(part)
    }

    /// A part of an earlier answer, by its number.
    pub(crate) fn part<T: Send + Sync + 'static>(&self, id: u64) -> Result<Arc<T>, String> {
        self.parts.part(id)
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
