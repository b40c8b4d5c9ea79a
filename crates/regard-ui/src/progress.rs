//! How far work in another thread is.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

/// What takes longer says so.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// What part of some work is done: told by one thread, seen by another.
#[derive(Default)]
pub struct Done {
    thousandths: AtomicU32,
}

impl Done {
    /// Tells it, from 0 to 1.
    pub fn tell(&self, part: f32) {
        self.thousandths.store((part * 1000.0) as u32, Ordering::Relaxed);
    }

    /// What was told last, from 0 to 1.
    pub fn part(&self) -> f32 {
        self.thousandths.load(Ordering::Relaxed) as f32 / 1000.0
    }
}
