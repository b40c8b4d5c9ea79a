//! Pools of threads, which are kept between calls, because starting one takes longer than a small attention.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::available_parallelism;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use regard::Threads;

/// The pools, by their number of threads.
static POOLS: Mutex<BTreeMap<usize, Threads>> = Mutex::new(BTreeMap::new());
static CORES: OnceLock<usize> = OnceLock::new();
/// The most threads of a call, as [`set_num_threads`] sets it. 0 is no limit.
static MOST: AtomicUsize = AtomicUsize::new(0);

/// Sets the most threads that a call of this process uses. It changes no bit of a result.
///
/// Without it, a call uses a thread for each core, or as many as the environment variable RAYON_NUM_THREADS says when the first call is
/// made. An argument `threads` can only ask for fewer.
///
/// >>> import regard
/// >>> regard.set_num_threads(2)
#[pyfunction]
#[pyo3(text_signature = "(threads)")]
pub(crate) fn set_num_threads(threads: usize) -> PyResult<()> {
    if threads == 0 {
        return Err(PyValueError::new_err("threads is 0, but 1 or more are needed"));
    }
    MOST.store(threads, Ordering::Relaxed);
    Ok(())
}

/// The threads of a process that sets none: RAYON_NUM_THREADS, or one for each core.
fn cores() -> usize {
    let given = std::env::var("RAYON_NUM_THREADS").ok().and_then(|text| text.parse().ok());
    let cores = available_parallelism().map_or(1, NonZero::get);
    given.filter(|count| *count > 0).map_or(cores, |count: usize| count.min(cores))
}

/// `count` threads, or one for each core. More threads than cores are no faster, so the number of cores is the limit.
pub(crate) fn pool(count: Option<usize>) -> PyResult<Threads> {
    if count == Some(0) {
        return Err(PyValueError::new_err("threads is 0, but 1 or more are needed"));
    }
    // The number of cores is read once, because asking the system takes longer than finding the pool.
    let cores = *CORES.get_or_init(cores);
    let cores = match MOST.load(Ordering::Relaxed) {
        0 => cores,
        most => cores.min(most),
    };
    let count = count.unwrap_or(cores).min(cores);
    let mut pools = pools();
    if let Some(threads) = pools.get(&count) {
        return Ok(threads.clone());
    }
    let threads = Threads::new(count).map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
    pools.insert(count, threads.clone());
    Ok(threads)
}

/// Forgets the pools. The child of a fork calls this, because threads do not survive a fork.
#[pyfunction]
pub(crate) fn forget_threads() {
    let gone = std::mem::take(&mut *pools());
    // Dropping the pools would wait for locks that their threads may hold. These threads exist only in the parent.
    std::mem::forget(gone);
}

/// The pools. The map is valid even if a thread panicked while it held the lock.
fn pools() -> MutexGuard<'static, BTreeMap<usize, Threads>> {
    POOLS.lock().unwrap_or_else(PoisonError::into_inner)
}
