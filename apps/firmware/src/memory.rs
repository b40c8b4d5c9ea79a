/// One memory for `bytes` 8-bit integers, and the rest for scratch of 32-bit ones. Both are empty where there is no room.
pub(crate) fn split(memory: &mut [f32], bytes: usize) -> (&mut [i8], &mut [i32]) {
    let (bytes, words) =
        memory.split_at_mut_checked(bytes.div_ceil(size_of::<f32>())).unwrap_or_default();
    (bytemuck::cast_slice_mut(bytes), bytemuck::cast_slice_mut(words))
}

#[cfg(target_os = "none")]
pub(crate) mod statics {
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
}
