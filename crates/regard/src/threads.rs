use std::sync::Arc;

use rayon::ThreadPool;

use crate::Error;

/// The threads that an attention may use.
///
/// The default is the rayon pool that the caller is in: the global one, or the one whose `install` is running.
///
/// ```
/// use regard::Threads;
/// let two = Threads::new(2)?;
/// assert_eq!(two.count(), 2);
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Threads(Kind);

#[derive(Clone, Debug, Default)]
enum Kind {
    #[default]
    Caller,
    One,
    Pool(Arc<ThreadPool>),
}

impl Threads {
    /// The caller's own thread and no other.
    pub const ONE: Self = Self(Kind::One);

    /// A pool of `count` threads, started once and kept as long as this value or a clone of it lives. 0 means one for
    /// each core.
    ///
    /// # Errors
    /// [`Error::Threads`] if the threads cannot be started.
    pub fn new(count: usize) -> Result<Self, Error> {
        if count == 1 {
            return Ok(Self::ONE);
        }
        match rayon::ThreadPoolBuilder::new().num_threads(count).build() {
            Ok(pool) => Ok(Self(Kind::Pool(Arc::new(pool)))),
            Err(e) => Err(Error::Threads { count, reason: e.to_string() }),
        }
    }

    /// How many threads there are.
    pub fn count(&self) -> usize {
        match &self.0 {
            Kind::Caller => rayon::current_num_threads(),
            Kind::One => 1,
            Kind::Pool(pool) => pool.current_num_threads(),
        }
    }

    /// Calls `each` for every one of `jobs`, in parallel if there is more than one thread and `multiply_adds` in all are
    /// worth waking them. Each thread makes itself a `scratch` once.
    pub(crate) fn for_each<J: Send, S>(
        &self,
        jobs: Vec<J>,
        multiply_adds: usize,
        scratch: impl Fn() -> S + Sync + Send,
        each: impl Fn(&mut S, J) -> Result<(), Error> + Sync + Send,
    ) -> Result<(), Error> {
        use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

        // Waking a thread costs some 10 µs; a core does about 10⁴ multiply-adds a µs.
        const WORTH_WAKING: usize = 500_000;
        if jobs.is_empty() {
            return Ok(());
        }
        if multiply_adds < WORTH_WAKING || jobs.len() < 2 || self.count() == 1 {
            let mut scratch = scratch();
            return jobs.into_iter().try_for_each(|job| each(&mut scratch, job));
        }
        let run = || jobs.into_par_iter().try_for_each_init(&scratch, each);
        match &self.0 {
            Kind::Pool(pool) => pool.install(run),
            Kind::Caller | Kind::One => run(),
        }
    }
}
