//! Shows on standard error the progress of work that takes longer than half a second.

use core::time::Duration;
use std::io::IsTerminal as _;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;

use indicatif::{ProgressBar, ProgressStyle};

/// Runs `work`. After half a second, it shows that the work is running.
pub(crate) fn working<T>(what: &'static str, work: impl FnOnce() -> T) -> T {
    show(ProgressBar::new_spinner().with_message(what), "{spinner} {msg} {elapsed}", || 0, work)
}

/// Runs `work`. After half a second, it shows how much of `total` is done.
pub(crate) fn working_on<T>(
    what: &'static str,
    total: u64,
    bytes: bool,
    done: impl Fn() -> u64 + Send,
    work: impl FnOnce() -> T,
) -> T {
    let template = if bytes {
        "{msg} {wide_bar} {decimal_bytes} of {decimal_total_bytes}"
    } else {
        "{msg} {wide_bar} {pos} of {len}"
    };
    show(ProgressBar::new(total).with_message(what), template, done, work)
}

fn show<T>(
    bar: ProgressBar,
    template: &str,
    done: impl Fn() -> u64 + Send,
    work: impl FnOnce() -> T,
) -> T {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    thread::scope(|scope| {
        let (end, ended) = channel::<()>();
        scope.spawn(move || {
            let mut wait = Duration::from_millis(500);
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                wait = Duration::from_millis(100);
                bar.set_position(done());
                bar.tick();
            }
            bar.finish_and_clear();
        });
        let result = work();
        drop(end);
        result
    })
}
