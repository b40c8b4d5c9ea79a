use core::cell::RefCell;

use critical_section::Mutex;

use crate::cases;

/// Elements: on the smallest board what its 16 KiB hold beside the stack; elsewhere what the largest shapes need.
const LEN: usize = if cfg!(target_abi = "eabi") { cases::MEMORY } else { 6 * 1024 };

static MEMORY: Mutex<RefCell<[f32; LEN]>> = Mutex::new(RefCell::new([0.0; LEN]));

/// All memory for outputs and scratch, in a static.
pub struct Memory;

impl Memory {
    /// Runs `f` with it, to the exclusion of everybody else.
    pub fn with<T>(f: impl FnOnce(&mut [f32]) -> T) -> T {
        critical_section::with(|section| f(&mut *MEMORY.borrow_ref_mut(section)))
    }
}
