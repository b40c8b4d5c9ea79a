//! Memory for outputs and scratch.

/// Elements of memory that the cases need on a core that reads keys and values in place. Other tiers pack keys, and need four
/// times as many.
pub const MEMORY: usize = 2704;

/// Splits memory into `bytes` 8-bit integers, rounded up to whole words, and scratch of 32-bit integers. Both are empty where
/// `memory` is too short.
pub(crate) fn split(memory: &mut [f32], bytes: usize) -> (&mut [i8], &mut [i32]) {
    let (bytes, words) =
        memory.split_at_mut_checked(bytes.div_ceil(size_of::<f32>())).unwrap_or_default();
    (bytemuck::cast_slice_mut(bytes), bytemuck::cast_slice_mut(words))
}

#[cfg(target_os = "none")]
pub(crate) mod statics {
    use core::cell::RefCell;

    use critical_section::Mutex;

    /// Elements. The smallest board has 16 KiB, which also hold the stack; the others have what the largest shapes need.
    const LEN: usize = if cfg!(target_abi = "eabi") { super::MEMORY } else { 6 * 1024 };

    static MEMORY: Mutex<RefCell<[f32; LEN]>> = Mutex::new(RefCell::new([0.0; LEN]));

    /// The memory for outputs and scratch, in a static.
    pub struct Memory;

    impl Memory {
        /// Runs `f` with the memory. Interrupts are off meanwhile, so that nothing else can use it.
        pub fn with<T>(f: impl FnOnce(&mut [f32]) -> T) -> T {
            critical_section::with(|section| f(&mut *MEMORY.borrow_ref_mut(section)))
        }
    }
}
