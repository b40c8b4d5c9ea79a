//! Timing. Implementations take turns, so that other work on the machine affects all of them alike.

use core::hint::black_box;
use core::time::Duration;

use anyhow::{Result, ensure};
#[cfg(feature = "bar")]
use indicatif::{ProgressBar, ProgressStyle};
use regard_kernels::internal::multiply_add_rounds;
use serde::{Deserialize, Serialize};
use web_time::Instant;

use crate::line::ResultLine;
use crate::timing::Timing;
use crate::{Operation, Shape};

/// Samples of each implementation, unless that takes longer than [`BUDGET`].
const ROUNDS: usize = 21;

/// The shortest sample: a thousand ticks of a coarse clock.
const SAMPLE: Duration = Duration::from_millis(5);

/// An implementation that has taken this long gets no further samples.
const BUDGET: Duration = Duration::from_secs(4);

/// The maximum operations of a call for which naive loops are measured by default. They do about 10⁹ a second.
const MOST_NAIVE_FLOPS: f64 = 1e10;

/// An implementation of an operation.
pub struct Subject {
    /// Its name.
    pub name: &'static str,
    /// The number of threads that it uses.
    pub threads: usize,
    calls: Box<dyn FnMut(u64) -> Result<()>>,
}

impl Subject {
    /// An implementation on one thread. `call` is inlined into the timed loop; its inputs and outputs should pass through
    /// [`black_box`].
    pub fn new(name: &'static str, mut call: impl FnMut() -> Result<()> + 'static) -> Self {
        let calls = move |n| (0..n).try_for_each(|_| call());
        Self { name, threads: 1, calls: Box::new(calls) }
    }

    /// Sets the number of threads that the implementation uses.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// The time that `calls` calls take.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn time(&mut self, calls: u64) -> Result<Duration> {
        let start = Instant::now();
        (self.calls)(calls)?;
        Ok(start.elapsed())
    }
}

/// The implementations of one operation in one size.
pub struct Subjects {
    /// The operation.
    pub operation: Operation,
    /// Its sizes.
    pub shape: Shape,
    /// Ratios compare the others with the first.
    pub implementations: Vec<Subject>,
}

impl Subjects {
    /// Keeps the implementations with these `names`. Without names it keeps all, except naive loops that would take too long.
    ///
    /// # Errors
    /// If no implementation has one of the names.
    pub fn keep(&mut self, names: &[String]) -> Result<()> {
        if names.is_empty() {
            let too_long = self.shape.flops(self.operation) > MOST_NAIVE_FLOPS;
            self.implementations.retain(|subject| !(too_long && subject.name == "naive"));
            return Ok(());
        }
        let known: Vec<&str> = self.implementations.iter().map(|subject| subject.name).collect();
        let known = known.join(", ");
        self.implementations.retain(|subject| names.iter().any(|name| name == subject.name));
        ensure!(
            !self.implementations.is_empty(),
            "no implementation {} of {} here; there is: {known}",
            names.join(", "),
            self.operation.name()
        );
        Ok(())
    }
}

struct Samples {
    calls: u64,
    spent: Duration,
    seconds: Vec<f64>,
}

/// The maximum number of calls of a sample.
const MOST_CALLS: u64 = 1 << 40;

impl Samples {
    /// Finds the number of calls that fill a sample. This also warms up the caches.
    fn warm_up(subject: &mut Subject) -> Result<Self> {
        let mut samples = Self { calls: 1, spent: Duration::ZERO, seconds: Vec::new() };
        loop {
            let elapsed = subject.time(samples.calls)?;
            samples.spent += elapsed;
            // A call that takes no time never fills a sample: the compiler may have removed it.
            if elapsed >= SAMPLE || samples.calls >= MOST_CALLS {
                if samples.spent >= BUDGET {
                    samples.seconds.push(elapsed.as_secs_f64() / samples.calls as f64);
                }
                return Ok(samples);
            }
            samples.calls *= 2;
        }
    }

    fn take(&mut self, subject: &mut Subject) -> Result<()> {
        if self.spent < BUDGET {
            let elapsed = subject.time(self.calls)?;
            self.spent += elapsed;
            self.seconds.push(elapsed.as_secs_f64() / self.calls as f64);
        }
        Ok(())
    }
}

/// The progress of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasureProgress {
    /// The samples taken so far, including those for warming up.
    pub done: usize,
    /// The samples of the whole measurement.
    pub of: usize,
    /// The results so far, for each implementation that has samples.
    pub lines: Vec<ResultLine>,
}

/// Times the implementations in turns, with the peak between them, and shows a progress bar.
///
/// # Errors
/// The errors of the implementations.
#[cfg(feature = "bar")]
pub fn measure(subjects: Subjects) -> Result<Vec<ResultLine>> {
    let bar = ProgressBar::new(0).with_prefix(subjects.shape.text(subjects.operation));
    if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} samples") {
        bar.set_style(style);
    }
    let lines = measure_while(subjects, |progress| {
        bar.set_length(progress.of as u64);
        bar.set_position(progress.done as u64);
        true
    })?;
    bar.finish_and_clear();
    Ok(lines)
}

/// Times the implementations in turns, with the peak between them, while `go_on` returns true.
///
/// `go_on` is called before each sample and at the end. The function returns the results up to then.
///
/// # Errors
/// The errors of the implementations.
pub fn measure_while(
    subjects: Subjects,
    mut go_on: impl FnMut(&MeasureProgress) -> bool,
) -> Result<Vec<ResultLine>> {
    let mut measuring = Measuring::new(subjects);
    // A caller that shows the progress also needs the end of it.
    while go_on(&measuring.progress) && measuring.sample()? {}
    Ok(measuring.progress.lines)
}

/// Implementations that are timed in turns, with the peak between them, a sample at a time.
pub struct Measuring {
    subjects: Subjects,
    samples: Vec<Samples>,
    peaks: Vec<f64>,
    /// How far the measurement is.
    pub progress: MeasureProgress,
}

impl Measuring {
    /// Nothing is measured yet.
    pub fn new(subjects: Subjects) -> Self {
        let of = (ROUNDS + 1) * subjects.implementations.len();
        let progress = MeasureProgress { done: 0, of, lines: Vec::new() };
        Self { subjects, samples: Vec::new(), peaks: Vec::new(), progress }
    }

    /// Takes the next sample. Returns false if there is none.
    ///
    /// # Errors
    /// The errors of the implementation.
    pub fn sample(&mut self) -> Result<bool> {
        let Self { subjects, samples, peaks, progress } = self;
        let count = subjects.implementations.len();
        if progress.done >= progress.of {
            return Ok(false);
        }
        let i = progress.done % count;
        let subject = &mut subjects.implementations[i];
        if progress.done < count {
            samples.push(Samples::warm_up(subject)?);
        } else {
            if i == 0 {
                peaks.push(fma_peak());
            }
            samples[i].take(subject)?;
            progress.lines = lines(subjects, samples, peaks);
        }
        progress.done += 1;
        Ok(true)
    }
}

fn lines(subjects: &Subjects, samples: &[Samples], peaks: &[f64]) -> Vec<ResultLine> {
    let peak = Timing::of(peaks.to_vec()).median;
    let timed = subjects
        .implementations
        .iter()
        .zip(samples)
        .filter(|(_, samples)| !samples.seconds.is_empty());
    let timed: Vec<(&Subject, Timing)> =
        timed.map(|(subject, samples)| (subject, Timing::of(samples.seconds.clone()))).collect();
    let line = |(subject, timing): &(&Subject, Timing)| ResultLine {
        operation: subjects.operation,
        shape: subjects.shape,
        name: subject.name.to_owned(),
        threads: subject.threads,
        timing: *timing,
        first: timed[0].1,
        peak,
    };
    timed.iter().map(line).collect()
}

/// The FMA peak: the FLOP/s that one thread now reaches with multiply-adds in the widest registers of
/// the machine, whatever tier the kernels use.
fn fma_peak() -> f64 {
    const ROUNDS_A_SAMPLE: u32 = 200_000;
    let sample = || {
        let start = Instant::now();
        let (multiply_adds, value) = multiply_add_rounds(black_box(ROUNDS_A_SAMPLE));
        black_box(value);
        2.0 * multiply_adds as f64 / start.elapsed().as_secs_f64()
    };
    (0..10).map(|_| sample()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects() -> Subjects {
        let subject = |name| Subject::new(name, || Ok(()));
        let shape = Shape {
            batch: 1,
            heads: 1,
            kv_heads: 1,
            queries: 1,
            keys: 1,
            dim: 1,
            causal: false,
            fixed: false,
            threads: 1,
        };
        Subjects {
            operation: Operation::Dot,
            shape,
            implementations: vec![subject("first"), subject("second")],
        }
    }

    #[test]
    fn progress_goes_from_nothing_to_all_and_ends_when_asked_to() {
        let mut seen = Vec::new();
        let lines = measure_while(subjects(), |progress| {
            seen.push((progress.done, progress.lines.len()));
            assert_eq!(progress.of, 2 * (ROUNDS + 1));
            true
        });
        assert_eq!(lines.map(|lines| lines.len()).unwrap_or_default(), 2);
        assert_eq!(seen.first(), Some(&(0, 0)));
        assert_eq!(seen.last(), Some(&(2 * (ROUNDS + 1), 2)));
        assert!(seen.iter().zip(&seen[1..]).all(|(a, b)| a.0 + 1 == b.0 && a.1 <= b.1), "{seen:?}");

        let mut asked = 0;
        let lines = measure_while(subjects(), |_| {
            asked += 1;
            asked < 4
        });
        assert_eq!((asked, lines.map(|lines| lines.len()).unwrap_or_default()), (4, 1));
    }
}
