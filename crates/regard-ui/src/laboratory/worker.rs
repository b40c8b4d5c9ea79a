//! A thread that computes while the window goes on.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::{Engine, Outcome, Request};
use crate::progress::Done;

/// What was asked for, and what came of it.
pub type Answer = (Request, Result<Outcome, String>);

/// Computes the latest request; those that it could not begin with before the next came are left out.
///
/// What it has begun it ends: a slider that is dragged on and on would never show anything else.
pub struct Worker {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    slot: Mutex<Slot>,
    wake: Condvar,
    /// What part of the present request is done.
    done: Done,
}

#[derive(Default)]
struct Slot {
    request: Option<Request>,
    outcome: Option<Answer>,
    busy: bool,
    closed: bool,
}

impl Worker {
    /// Starts the thread. `wake` is called from it when there is something new to see.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn new(wake: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        thread::Builder::new().name("laboratory".to_owned()).spawn(move || {
            let mut engine = Engine::default();
            while let Some(request) = theirs.next() {
                let progress = |part: f32| theirs.done.tell(part);
                let outcome = engine.run(request.clone(), &progress).map_err(|e| e.to_string());
                theirs.answer((request, outcome));
                wake();
            }
        })?;
        Ok(Self { shared })
    }

    /// Asks for something, instead of what was asked for before.
    pub fn ask(&self, request: Request) {
        self.shared.lock().request = Some(request);
        self.shared.wake.notify_one();
    }

    /// What was computed since this was last asked.
    pub fn take(&self) -> Option<Answer> {
        self.shared.lock().outcome.take()
    }

    /// Whether something is still to be computed.
    pub fn is_busy(&self) -> bool {
        let slot = self.shared.lock();
        slot.busy || slot.request.is_some()
    }

    /// What part of it is done, from 0 to 1.
    pub fn progress(&self) -> f32 {
        self.shared.done.part()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.wake.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a request. `None` at the end.
    fn next(&self) -> Option<Request> {
        let wait = |slot: &mut Slot| slot.request.is_none() && !slot.closed;
        let mut slot =
            self.wake.wait_while(self.lock(), wait).unwrap_or_else(PoisonError::into_inner);
        if slot.closed {
            return None;
        }
        self.done.tell(0.0);
        slot.busy = true;
        slot.request.take()
    }

    fn answer(&self, outcome: Answer) {
        let mut slot = self.lock();
        slot.outcome = Some(outcome);
        slot.busy = false;
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::sync::mpsc;

    use super::*;
    use crate::laboratory::{Inputs, Shown};

    #[test]
    fn the_latest_request_wins() {
        let (wake, woken) = mpsc::channel();
        let worker = Worker::new(move || wake.send(()).unwrap()).unwrap();
        let request = |seed| {
            let inputs = Inputs { tokens: 300, seed, ..Inputs::default() };
            Request { inputs, pinned: None, shown: Shown::Weights }
        };
        for seed in 0..50 {
            worker.ask(request(seed));
        }
        let mut computed = 0;
        while worker.is_busy() {
            woken.recv_timeout(Duration::from_mins(1)).unwrap();
            computed += 1;
        }
        let (asked, outcome) = worker.take().unwrap();
        assert_eq!((&asked, &outcome.unwrap().request), (&request(49), &request(49)));
        assert!(computed < 50, "{computed}");
    }
}
