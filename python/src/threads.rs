//! Pools of threads, which are kept between calls, because starting one takes longer than a small attention.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::available_parallelism;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use regard::Threads;

/// The pools, by their number of threads.
static POOLS: Mutex<BTreeMap<usize, Threads>> = Mutex::new(BTreeMap::new());
static CORES: OnceLock<usize> = OnceLock::new();

/// `count` threads, or one for each core. More threads than cores are no faster, so the number of cores is the limit.
pub(crate) fn pool(count: Option<usize>) -> PyResult<Threads> {
    if count == Some(0) {
        return Err(PyValueError::new_err("threads is 0, but 1 or more are needed"));
    }
    // The number of cores is read once, because asking the system takes longer than finding the pool.
    let cores = *CORES.get_or_init(|| available_parallelism().map_or(1, NonZero::get));
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
