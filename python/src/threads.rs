//! Pools of threads, which are kept between calls, because starting one takes longer than a small attention.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use regard::Threads;

static POOLS: Mutex<BTreeMap<usize, Threads>> = Mutex::new(BTreeMap::new());

/// `count` threads, or one for each core. More threads than cores are no faster, so the number of cores is the limit.
pub(crate) fn pool(count: Option<usize>) -> PyResult<Threads> {
    if count == Some(0) {
        return Err(PyValueError::new_err("threads is 0, but 1 or more are needed"));
    }
    let mut pools = pools();
    // The number of cores is read once, because asking the system takes longer than finding the pool.
    let key = count.unwrap_or(0);
    if let Some(threads) = pools.get(&key) {
        return Ok(threads.clone());
    }
    let cores = available_parallelism().map_or(1, NonZero::get);
    let threads = Threads::new(count.unwrap_or(cores).min(cores))
        .map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
    Ok(pools.entry(key).or_insert(threads).clone())
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
