//! One piece of work in a thread of its own, that can be watched and cancelled.

use core::ops::ControlFlow;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::Instant;

use egui::Context;

use crate::progress::Done;
use regard_heads::{Error, Progress};

/// The work, until its outcome is taken. Dropping it cancels it.
pub struct Job<T> {
    watched: Arc<Watched>,
    outcome: Receiver<Result<T, String>>,
    since: Instant,
}

#[derive(Default)]
struct Watched {
    done: Done,
    cancelled: AtomicBool,
}

impl<T: Send + 'static> Job<T> {
    /// Starts it; the window is drawn anew when it is done.
    pub fn start(
        ctx: &Context,
        work: impl FnOnce(&Progress<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Self {
        let (watched, wake) = (Arc::new(Watched::default()), ctx.clone());
        let (sender, outcome) = sync_channel(1);
        let (theirs, failed) = (Arc::clone(&watched), sender.clone());
        let started = thread::Builder::new().name("heads".to_owned()).spawn(move || {
            let outcome = work(&|part| {
                theirs.done.tell(part);
                if theirs.cancelled.load(Ordering::Relaxed) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            // Nobody to tell: it was cancelled.
            drop(sender.send(outcome.map_err(|e| e.to_string())));
            wake.request_repaint();
        });
        if let Err(e) = started {
            drop(failed.send(Err(format!("no thread could be started: {e}"))));
        }
        Self { watched, outcome, since: Instant::now() }
    }

    /// What came of it, if it is done.
    pub fn take(&self) -> Option<Result<T, String>> {
        match self.outcome.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                Some(Err("the work ended without a result".to_owned()))
            }
        }
    }

    /// What part of it is done, from 0 to 1.
    pub fn progress(&self) -> f32 {
        self.watched.done.part()
    }

    /// How long it has taken so far.
    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        self.watched.cancelled.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn what_is_dropped_ends() {
        let (sender, ended) = channel();
        let job: Job<()> = Job::start(&Context::default(), move |progress| {
            while progress(0.25).is_continue() {
                thread::yield_now();
            }
            sender.send(()).unwrap();
            Err(Error::Cancelled)
        });
        while job.progress() == 0.0 {
            thread::yield_now();
        }
        assert_eq!(job.progress(), 0.25);
        assert!(job.take().is_none());
        drop(job);
        ended.recv_timeout(Duration::from_mins(1)).unwrap();
    }

    #[test]
    fn a_panic_is_told() {
        let job: Job<()> =
            Job::start(&Context::default(), |_| std::panic::resume_unwind(Box::new(())));
        loop {
            if let Some(outcome) = job.take() {
                assert!(outcome.unwrap_err().contains("without a result"));
                break;
            }
            thread::yield_now();
        }
    }
}
