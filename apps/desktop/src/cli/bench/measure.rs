//! Timing: implementations take turns, so that what else the machine does meets them all.

use core::hint::black_box;
use core::time::Duration;
use std::time::Instant;

use anyhow::Result;
use regard_kernels::multiply_add_rounds;

use super::subjects::Subject;

/// Samples of each implementation.
pub(super) const ROUNDS: usize = 21;

/// How long a sample lasts at the least: a thousand ticks of a coarse clock.
const SAMPLE: Duration = Duration::from_millis(5);

/// Seconds a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    pub(super) median: f64,
    lower_quartile: f64,
    upper_quartile: f64,
}

impl Timing {
    /// The distance between the quartiles, as a share of the median.
    pub(super) fn spread(&self) -> f64 {
        (self.upper_quartile - self.lower_quartile) / self.median
    }

    fn of(mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        let at = |share: f64| seconds[((seconds.len() - 1) as f64 * share).round() as usize];
        Self { median: at(0.5), lower_quartile: at(0.25), upper_quartile: at(0.75) }
    }
}

/// Times each subject [`ROUNDS`] times, in turn. `tick` is called after every round.
pub(super) fn alternate(subjects: &mut [Subject<'_>], tick: impl Fn()) -> Result<Vec<Timing>> {
    let mut calls = Vec::new();
    for subject in subjects.iter_mut() {
        calls.push(calls_a_sample(subject)?);
    }
    let mut seconds = vec![Vec::with_capacity(ROUNDS); subjects.len()];
    for _ in 0..ROUNDS {
        for ((subject, calls), seconds) in subjects.iter_mut().zip(&calls).zip(&mut seconds) {
            seconds.push(time(subject, *calls)?.as_secs_f64() / f64::from(*calls));
        }
        tick();
    }
    Ok(seconds.into_iter().map(Timing::of).collect())
}

fn time(subject: &mut Subject<'_>, calls: u32) -> Result<Duration> {
    let start = Instant::now();
    for _ in 0..calls {
        (subject.call)()?;
    }
    Ok(start.elapsed())
}

/// Calls that fill a sample. Counting them warms the caches up.
fn calls_a_sample(subject: &mut Subject<'_>) -> Result<u32> {
    let mut calls: u32 = 1;
    loop {
        let elapsed = time(subject, calls)?;
        if elapsed >= SAMPLE || calls > u32::MAX / 2 {
            return Ok(calls);
        }
        calls *= 2;
    }
}

/// The most floating-point operations a second that one thread has done here, with multiply-adds in registers.
pub(super) fn fma_peak() -> f64 {
    const ROUNDS_A_SAMPLE: u32 = 200_000;
    let sample = || {
        let start = Instant::now();
        let (multiply_adds, value) = multiply_add_rounds(black_box(ROUNDS_A_SAMPLE));
        black_box(value);
        2.0 * multiply_adds as f64 / start.elapsed().as_secs_f64()
    };
    (0..50).map(|_| sample()).fold(0.0, f64::max)
}
