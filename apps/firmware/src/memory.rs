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
    use static_cell::ConstStaticCell;

    /// Elements. The smallest board has 16 KiB, which also hold the stack; the others have what the largest shapes need.
    const LEN: usize = if cfg!(target_abi = "eabi") { super::MEMORY } else { 6 * 1024 };

    static MEMORY: ConstStaticCell<[f32; LEN]> = ConstStaticCell::new([0.0; LEN]);

    /// The memory for outputs and scratch, in a static. It is empty if it is taken already.
    pub fn memory() -> &'static mut [f32] {
        MEMORY.try_take().map_or(&mut [], |memory| memory)
    }
}
