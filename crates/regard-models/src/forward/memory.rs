//! The memory of a run's numbers, which the layers of a run and the runs of a model use again.
//!
//! The system clears each page of fresh memory when it is first written, and that takes longer than many a layer computes. So
//! numbers that are dropped during a run stay on a shelf for their length, and the next layer that needs as many takes them
//! there. A model keeps what its last run has used; what that run had no use for goes.

use core::cell::RefCell;
use core::mem::{replace, take};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

thread_local! {
    /// The shelves of the run that this thread computes.
    static SHELVES: RefCell<Option<Shelves>> = const { RefCell::new(None) };
}

/// Numbers that no one uses, by their length. Only lengths that a run has asked for have a shelf.
type Shelves = BTreeMap<usize, Shelf>;

#[derive(Debug, Default)]
struct Shelf {
    free: Vec<Vec<f32>>,
    /// Whether this run has asked for the length.
    asked: bool,
    /// How many this run has taken and not left again. No more than these are left: what comes from elsewhere does not pile up.
    taken: usize,
}

/// The shelves of a model between its runs. One of several runs at a time has them, and the others begin without.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<Shelves>);

impl Memory {
    /// Computes a run with the shelves.
    pub(super) fn during<T>(&self, run: impl FnOnce() -> T) -> T {
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = take(&mut *kept());
        let outer = SHELVES.replace(Some(own));
        let result = run();
        let mut own = SHELVES.replace(outer).unwrap_or_default();
        own.retain(|_, shelf| {
            shelf.taken = 0;
            replace(&mut shelf.asked, false)
        });
        *kept() = own;
        result
    }
}

/// `len` numbers: `fresh` ones, or old ones that `fill` overwrites.
pub(super) fn numbers<E>(
    len: usize,
    fresh: impl FnOnce() -> Result<Vec<f32>, E>,
    fill: impl FnOnce(&mut [f32]) -> Result<(), E>,
) -> Result<Vec<f32>, E> {
    let old = SHELVES.with_borrow_mut(|shelves| {
        let shelf = shelves.as_mut()?.entry(len).or_default();
        shelf.asked = true;
        shelf.taken += 1;
        shelf.free.pop()
    });
    let Some(mut old) = old else { return fresh() };
    fill(&mut old)?;
    Ok(old)
}

/// Leaves numbers for a later layer.
pub(super) fn leave(numbers: Vec<f32>) {
    SHELVES.with_borrow_mut(|shelves| {
        if let Some(shelf) = shelves.as_mut().and_then(|all| all.get_mut(&numbers.len()))
            && shelf.taken > 0
        {
            shelf.taken -= 1;
            shelf.free.push(numbers);
        }
    });
}
