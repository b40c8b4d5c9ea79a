//! Threads: their number, and how they share work.

use core::cell::{Cell, RefCell};
use core::hint::spin_loop;
use core::mem::take;
use core::num::NonZero;
use core::ops::{Deref, DerefMut, Range};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::available_parallelism;

use rayon::{Scope, ThreadPool, Yield};
use regard_kernels::with_default_environment;

use crate::Error;
use crate::view::grown;

/// The threads that a computation may use. [`install`](Self::install) chooses them.
///
/// Without a choice, a call uses the rayon pool of its caller: the global pool, or the one whose `ThreadPool::install` is
/// running. The number of threads changes no bit of the result.
///
/// The caller computes along with the others, and returns when each of them has looked for work. So it waits for a pool that is
/// busy with something else. A thread of the pool stays awake for about 50 µs after its work and looks for more. Each thread
/// keeps the scratch memory of the largest attention that it has computed.
///
/// ```
/// use regard::{Attention, Heads, Threads};
/// let x: Vec<f32> = (0..8 * 200 * 16).map(|i| (i as f32).sin()).collect();
/// let x = Heads::new("x", &x, [1, 8, 200, 16])?;
/// let two = Threads::new(2)?; // starts one thread beside this one
/// let by_two = two.install(|| Attention::new().forward(x, x, x))?;
/// let by_one = Threads::ONE.install(|| Attention::new().forward(x, x, x))?;
/// assert_eq!(by_two, by_one);
/// # Ok::<(), regard::Error>(())
/// ```
#[doc(alias = "num_threads")]
#[derive(Clone, Debug, Default)]
pub struct Threads(Kind);

#[derive(Clone, Debug, Default)]
enum Kind {
    #[default]
    Caller,
    One,
    Pool(Arc<ThreadPool>),
}

thread_local! {
    static CURRENT: RefCell<Threads> = const { RefCell::new(Threads(Kind::Caller)) };
}

impl Threads {
    /// The caller's thread alone.
    pub const ONE: Self = Self(Kind::One);

    /// `count` threads: the caller's thread, and a pool with the others. The pool exists as long as this value and its clones
    /// do.
    ///
    /// # Errors
    /// [`Error::Threads`] if `count` is 0, or if the threads cannot be started.
    pub fn new(count: usize) -> Result<Self, Error> {
        let refuse = |reason| Err(Error::Threads { count, reason });
        match count {
            0 => refuse("at least the caller's own is needed".into()),
            1 => Ok(Self::ONE),
            _ => match rayon::ThreadPoolBuilder::new().num_threads(count - 1).build() {
                Ok(pool) => Ok(Self(Kind::Pool(Arc::new(pool)))),
                Err(e) => refuse(e.to_string()),
            },
        }
    }

    /// A thread for each core that this process may use, the caller's own included.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn each_core() -> Result<Self, Error> {
        Self::new(available_parallelism().map_or(1, NonZero::get))
    }

    /// Calls `f`. All computations of `f` on this thread use these threads. Calls can be nested: the innermost choice counts.
    ///
    /// ```
    /// use regard::Threads;
    /// assert_eq!(Threads::ONE.install(|| Threads::current().count()), 1);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn install<R>(&self, f: impl FnOnce() -> R) -> R {
        /// Restores the previous choice, even if `f` panics.
        struct Restore(Threads);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(take(&mut self.0));
            }
        }
        let _restore = Restore(CURRENT.replace(self.clone()));
        f()
    }

    /// The threads that a call here would use.
    #[must_use]
    pub fn current() -> Self {
        CURRENT.with_borrow(Self::clone)
    }

    /// The number of threads, including the caller's.
    #[must_use]
    pub fn count(&self) -> usize {
        match &self.0 {
            Kind::Caller => rayon::current_num_threads(),
            Kind::One => 1,
            Kind::Pool(pool) => pool.current_num_threads() + 1,
        }
    }

    /// The values for 0, 1 and so on up to `count`, which the threads compute side by side. The computation of one value uses one
    /// thread.
    ///
    /// # Errors
    /// The error of a value. No further values are computed then.
    ///
    /// ```
    /// use regard::Threads;
    /// let squares = Threads::current().map(4, |i| Ok::<_, regard::Error>(i * i))?;
    /// assert_eq!(squares, [0, 1, 4, 9]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn map<T: Send, E: Send>(
        &self,
        count: usize,
        value: impl Fn(usize) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, E> {
        let mut values: Vec<Option<Result<T, E>>> = (0..count).map(|_| None).collect();
        let failed = AtomicBool::new(false);
        let done = self.for_each(values.iter_mut().enumerate(), usize::MAX, 0, |_, (i, place)| {
            if !failed.load(Ordering::Relaxed) {
                let value = Self::ONE.install(|| with_default_environment(|| value(i)));
                failed.fetch_or(value.is_err(), Ordering::Relaxed);
                *place = Some(value);
            }
            Ok(())
        });
        debug_assert!(done.is_ok(), "no job of these fails: {done:?}");
        values.into_iter().flatten().collect()
    }

    /// The number of other threads that are worth waking for so many multiply-adds.
    pub(crate) fn helpers(&self, multiply_adds: usize) -> usize {
        // Waking a thread and waiting for its end takes about 10 µs, in which a core computes 5·10⁵ multiply-adds. A thread
        // that is awake takes one or two µs.
        const WORTH_WAKING: usize = 800_000;
        if multiply_adds < WORTH_WAKING { 0 } else { self.count() - 1 }
    }

    /// The most rows of a block in a product. With so many rows, weights are read from memory only a few times.
    pub(crate) const ROWS: usize = 128;

    /// Calls `each` for blocks of at most `most` rows of `out`, which has `cols` columns, with the number of the block's first
    /// row. The blocks run in parallel, as in [`for_each`](Self::for_each). `scratch` gives the scratch memory for a number of
    /// rows.
    pub(crate) fn for_each_rows(
        &self,
        out: &mut [f32],
        cols: usize,
        most: usize,
        multiply_adds: usize,
        scratch: impl Fn(usize) -> usize,
        each: impl Fn(&mut [f32], usize, &mut [f32]) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        /// A multiple of the rows of a tile of the matrix product, which has 6 or 12.
        const GROUP: usize = 12;
        if out.is_empty() {
            return Ok(());
        }
        let rows = out.len() / cols;
        // Each thread gets the same number of blocks.
        let threads = self.helpers(multiply_adds) + 1;
        let blocks = rows.div_ceil(most).next_multiple_of(threads);
        let block = rows.div_ceil(blocks).next_multiple_of(GROUP);
        let jobs = out.chunks_mut(block.saturating_mul(cols)).enumerate();
        self.for_each(jobs, multiply_adds, scratch(block), |scratch, (i, out)| {
            each(scratch, i * block, out)
        })
    }

    /// Calls `each` for ranges of columns of `out` \[rows, columns\], which begin at multiples of 32. The ranges run in
    /// parallel, as in [`for_each`](Self::for_each). `each` fills \[rows, columns of the range\], and the same thread then copies
    /// them to their places in `out`.
    pub(crate) fn for_each_columns(
        &self,
        out: &mut [f32],
        rows: usize,
        multiply_adds: usize,
        each: impl Fn(Range<usize>, &mut [f32]) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        /// The columns of the smallest range.
        const LEAST: usize = 32;
        /// The number of ranges for each thread. If a thread is interrupted, the others take some of its ranges.
        const SHARES: usize = 4;
        if out.is_empty() {
            return Ok(());
        }
        let columns = out.len() / rows;
        let shares = SHARES * (self.helpers(multiply_adds) + 1);
        let width = columns.div_ceil(shares).next_multiple_of(LEAST);
        let mut ranges: Vec<Vec<&mut [f32]>> = Vec::new();
        ranges.resize_with(columns.div_ceil(width), || Vec::with_capacity(rows));
        for row in out.chunks_exact_mut(columns) {
            for (range, part) in ranges.iter_mut().zip(row.chunks_mut(width)) {
                range.push(part);
            }
        }
        let scratch = if rows == 1 { 0 } else { rows * width };
        let jobs = ranges.into_iter().enumerate();
        self.for_each(jobs, multiply_adds, scratch, |scratch, (i, mut range)| {
            let columns = i * width..columns.min((i + 1) * width);
            if let [row] = &mut range[..] {
                return each(columns, row);
            }
            let count = columns.len();
            let block = &mut scratch[..rows * count];
            each(columns, block)?;
            for (to, from) in range.into_iter().zip(block.chunks_exact(count)) {
                to.copy_from_slice(from);
            }
            Ok(())
        })
    }

    /// Calls `each` for every one of `jobs`. They run in parallel if there is more than one thread and the total number of
    /// `multiply_adds` is worth waking the others. `each` gets `scratch` elements of memory with any contents.
    ///
    /// The caller computes too, and every thread takes the next job when its last one is done. A thread that wakes late takes
    /// fewer jobs.
    pub(crate) fn for_each<J: Send>(
        &self,
        jobs: impl IntoIterator<Item = J, IntoIter: ExactSizeIterator + Send>,
        multiply_adds: usize,
        scratch: usize,
        each: impl Fn(&mut [f32], J) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let jobs = jobs.into_iter();
        let helpers = self.helpers(multiply_adds).min(jobs.len().saturating_sub(1));
        if helpers == 0 {
            let memory = &mut Scratch::of(scratch)?;
            for job in jobs {
                each(memory, job)?;
            }
            return Ok(());
        }
        let jobs = Mutex::new(jobs);
        let failure = OnceLock::new();
        let work = || {
            let done = || {
                let memory = &mut Scratch::of(scratch)?;
                // The lock is held only while a job is taken, so it is never poisoned.
                while failure.get().is_none()
                    && let Some(job) = jobs.lock().ok().and_then(|mut jobs| jobs.next())
                {
                    each(memory, job)?;
                }
                Ok(())
            };
            if let Err(e) = done() {
                failure.get_or_init(|| e);
            }
        };
        let running = AtomicUsize::new(helpers);
        match &self.0 {
            Kind::Pool(pool) => {
                pool.in_place_scope(|scope| with_helpers(scope, helpers, &running, &work));
            }
            Kind::Caller | Kind::One => {
                rayon::in_place_scope(|scope| with_helpers(scope, helpers, &running, &work));
            }
        }
        failure.into_inner().map_or(Ok(()), Err)
    }
}

/// Runs `work` on `helpers` threads of the pool and on this one.
///
/// The caller stays awake while it waits for the others, because they are about to end. A sleeping thread would wake about 10
/// µs too late, and a model computes hundreds of products for each token.
fn with_helpers<'s>(
    scope: &Scope<'s>,
    helpers: usize,
    running: &'s AtomicUsize,
    work: &'s (impl Fn() + Sync),
) {
    /// About 50 µs.
    const LONGEST: usize = 1000;
    /// The pool counts a thread as done shortly after `running` does.
    const AFTER: usize = 4;
    for _ in 0..helpers {
        scope.spawn(|_| {
            work();
            stay_awake();
            running.fetch_sub(1, Ordering::Release);
        });
    }
    work();
    let mut rounds = 0;
    while rounds < LONGEST && running.load(Ordering::Acquire) > 0 {
        spin_loop();
        rounds += 1;
    }
    (0..AFTER).for_each(|_| spin_loop());
}

/// Keeps this thread of a pool awake for a while to look for work. The next product comes soon, and waking a thread takes as
/// long as half a product of a small model.
fn stay_awake() {
    /// About 50 µs without work.
    const LONGEST: usize = 500;
    thread_local! {
        static AWAKE: Cell<bool> = const { Cell::new(false) };
    }
    if AWAKE.replace(true) {
        return; // the task below is already running, and has called this function
    }
    rayon::spawn(|| {
        let mut idle = 0;
        while idle < LONGEST {
            if rayon::yield_now() == Some(Yield::Executed) {
                idle = 0;
            } else {
                idle += 1;
                spin_loop();
            }
        }
        AWAKE.set(false);
    });
}

thread_local! {
    /// The memory that was returned last is taken first, so that a nested call finds its own again.
    static SCRATCH: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// Memory of any contents. The thread keeps it for its next call, because touching fresh memory would take longer than a small
/// attention.
pub(crate) struct Scratch {
    memory: Vec<f32>,
    len: usize,
}

impl Scratch {
    /// `len` elements.
    pub(crate) fn of(len: usize) -> Result<Self, Error> {
        /// The scratch memory for a query and any number of keys of up to 256 features. With it, decoding needs no more memory
        /// from token to token.
        const LEAST: usize = 16 * 1024;
        if len == 0 {
            return Ok(Self { memory: Vec::new(), len });
        }
        let memory = SCRATCH.with_borrow_mut(Vec::pop).unwrap_or_default();
        let mut scratch = Self { memory, len };
        grown(&mut scratch.memory, &[len.max(LEAST)])?;
        Ok(scratch)
    }
}

impl Deref for Scratch {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.memory[..self.len]
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.memory[..self.len]
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.len > 0 {
            SCRATCH.with_borrow_mut(|kept| kept.push(take(&mut self.memory)));
        }
    }
}
