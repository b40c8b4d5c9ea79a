//! Work that runs once.

use core::ops::ControlFlow;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use egui::Context;
use web_time::Instant;

use super::{Tell, lock};
use crate::Host;

/// Work that a [`Doing`] does elsewhere. Dropping it cancels the work.
///
/// A later result replaces an earlier one that has not been taken.
pub(crate) struct Once<T> {
    shared: Arc<Inner<T>>,
    since: Instant,
}

/// The side of a [`Once`] that does the work.
pub(crate) struct Doing<T> {
    shared: Arc<Inner<T>>,
}

struct Inner<T> {
    slot: Mutex<Slot<T>>,
    ended: Condvar,
    /// The share of the work that is done, in thousandths.
    done: AtomicU32,
    is_cancelled: AtomicBool,
    /// The window, which is drawn again when a result arrives.
    window: Context,
}

struct Slot<T> {
    result: Option<Result<T, String>>,
    has_ended: bool,
}

impl<T: Send + 'static> Once<T> {
    /// Starts work in a thread with this name.
    ///
    /// If no thread can be started, or if the work panics, the result is an error that says so.
    pub(crate) fn start(
        host: &dyn Host,
        window: &Context,
        name: &str,
        work: impl FnOnce(&Doing<T>) -> Result<T, String> + Send + 'static,
    ) -> Self {
        let (once, doing) = Self::promise(window);
        let started = host.spawn(
            name,
            Box::new(move || {
                let result = work(&doing);
                doing.fulfil(result);
            }),
        );
        if let Err(e) = started {
            lock(&once.shared.slot).result = Some(Err(format!("cannot start a thread: {e}")));
        }
        once
    }

    /// Work whose result comes from elsewhere, for instance from a dialog.
    pub(crate) fn promise(window: &Context) -> (Self, Doing<T>) {
        let shared = Arc::new(Inner {
            slot: Mutex::new(Slot { result: None, has_ended: false }),
            ended: Condvar::new(),
            done: AtomicU32::new(0),
            is_cancelled: AtomicBool::new(false),
            window: window.clone(),
        });
        let once = Self { shared: Arc::clone(&shared), since: Instant::now() };
        (once, Doing { shared })
    }
}

impl<T> Once<T> {
    /// The latest result, if it has not been taken yet.
    pub(crate) fn take(&self) -> Option<Result<T, String>> {
        lock(&self.shared.slot).result.take()
    }

    /// Whether the work has not ended.
    pub(crate) fn is_running(&self) -> bool {
        !lock(&self.shared.slot).has_ended
    }

    /// The share of the work that is done, from 0 to 1.
    pub(crate) fn progress(&self) -> f32 {
        self.shared.done.load(Ordering::Relaxed) as f32 / 1000.0
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Asks the work to end early.
    pub(crate) fn cancel(&self) {
        self.shared.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Waits until the work has ended. A window must not wait while it is drawn.
    pub(crate) fn wait(&self) {
        let running = |slot: &mut Slot<T>| !slot.has_ended;
        drop(
            self.shared
                .ended
                .wait_while(lock(&self.shared.slot), running)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }
}

impl<T> Drop for Once<T> {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl<T> Doing<T> {
    /// Tells the share of the work that is done, from 0 to 1. Returns `Break` if the work is cancelled.
    pub(crate) fn tell(&self, part: f32) -> ControlFlow<()> {
        self.shared.tell(part)
    }

    /// Shows an intermediate result. Returns `Break` if the work is cancelled.
    pub(crate) fn show(&self, result: T) -> ControlFlow<()> {
        lock(&self.shared.slot).result = Some(Ok(result));
        self.shared.window.request_repaint();
        self.goes_on()
    }

    /// [`tell`](Self::tell) as a function of its own.
    pub(crate) fn teller(&self) -> Tell
    where
        T: Send + 'static,
    {
        let shared = Arc::clone(&self.shared);
        Arc::new(move |part| shared.tell(part))
    }

    /// Ends the work with its last result.
    pub(crate) fn fulfil(self, result: Result<T, String>) {
        let mut slot = lock(&self.shared.slot);
        slot.result = Some(result);
        slot.has_ended = true;
    }

    /// `Break` if the work is cancelled.
    pub(crate) fn goes_on(&self) -> ControlFlow<()> {
        self.shared.goes_on()
    }
}

impl<T> Drop for Doing<T> {
    fn drop(&mut self) {
        let mut slot = lock(&self.shared.slot);
        if !slot.has_ended {
            slot.result = Some(Err("the work ended without a result".to_owned()));
            slot.has_ended = true;
        }
        drop(slot);
        self.shared.ended.notify_all();
        self.shared.window.request_repaint();
    }
}

impl<T> Inner<T> {
    fn tell(&self, part: f32) -> ControlFlow<()> {
        self.done.store((part * 1000.0) as u32, Ordering::Relaxed);
        self.goes_on()
    }

    fn goes_on(&self) -> ControlFlow<()> {
        if self.is_cancelled.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;
    use crate::window::TestHost;

    #[test]
    fn dropped_work_ends() {
        let (sender, ended) = channel();
        let once: Once<()> =
            Once::start(&TestHost::DEFAULT, &Context::default(), "test", move |doing| {
                while doing.tell(0.25).is_continue() {
                    thread::yield_now();
                }
                sender.send(()).unwrap();
                Err("cancelled".to_owned())
            });
        while once.progress() == 0.0 {
            thread::yield_now();
        }
        assert_eq!(once.progress(), 0.25);
        assert!(once.is_running() && once.take().is_none());
        drop(once);
        ended.recv_timeout(Duration::from_mins(1)).unwrap();
    }

    #[test]
    fn a_panic_is_told() {
        let once: Once<()> = Once::start(&TestHost::DEFAULT, &Context::default(), "test", |_| {
            std::panic::resume_unwind(Box::new(()))
        });
        once.wait();
        assert!(once.take().unwrap().unwrap_err().contains("without a result"));
        assert!(!once.is_running() && once.take().is_none());
    }

    #[test]
    fn the_latest_result_takes_the_place_of_those_before() {
        let (once, doing) = Once::promise(&Context::default());
        assert!(doing.show(1).is_continue() && doing.show(2).is_continue());
        assert_eq!(once.take(), Some(Ok(2)));
        assert!(once.take().is_none() && once.is_running());
        once.cancel();
        assert!(doing.show(3).is_break());
        doing.fulfil(Ok(4));
        assert_eq!(once.take(), Some(Ok(4)));
        assert!(!once.is_running());
    }

    #[test]
    fn a_thread_that_cannot_be_started_is_told() {
        let once: Once<()> =
            Once::start(&TestHost { has_threads: false }, &Context::default(), "test", |_| Ok(()));
        assert!(!once.is_running());
        assert!(once.take().unwrap().unwrap_err().contains("cannot start a thread"));
    }
}
