//! The steps of long work, between which a system without threads does something else.

use std::sync::OnceLock;

static BETWEEN: OnceLock<fn()> = OnceLock::new();

/// Has `between` called after each step of long work: a product of a run, a matrix that is read, or a part of a file that is
/// hashed.
///
/// A system without threads draws its window there. The hook is set once: a second one is ignored.
///
/// ```
/// use core::sync::atomic::{AtomicUsize, Ordering};
/// use regard_models::{Input, Model, between_steps};
///
/// static STEPS: AtomicUsize = AtomicUsize::new(0);
/// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
/// let model = Model::open(format!("{models}/tiny-qwen3"))?;
/// between_steps(|| {
///     STEPS.fetch_add(1, Ordering::Relaxed);
/// });
/// model.pass().run(&Input::tokens([7, 8, 9]))?;
/// assert_eq!(STEPS.load(Ordering::Relaxed), 3 * 7 + 1); // seven products in each of three layers, and the head
/// # Ok::<(), regard_models::Error>(())
/// ```
pub fn between_steps(between: fn()) {
    let _is_first = BETWEEN.set(between);
}

/// Ends a step of long work: calls the hook of [`between_steps`], if there is one.
pub fn step() {
    if let Some(between) = BETWEEN.get() {
        between();
    }
}
