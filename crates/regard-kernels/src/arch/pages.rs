//! Large pages of the operating system.

/// Asks the system for large pages where `memory`, which no one has written yet, is at least 2 MiB long.
///
/// A page is the unit in which the system hands out memory: 4 KiB on most machines. A processor remembers where some of the pages
/// are, and looks for the others in tables, which takes long in a virtual machine. In pages of 2 MiB it finds all rows of a matrix,
/// and the system is called 512 times less often to clear fresh memory. Linux gives such pages to programs that ask, as numpy
/// does. It may refuse. The numbers are the same either way.
///
/// ```
/// let mut memory = vec![0.0_f32; 1 << 20];
/// regard_kernels::prefer_large_pages(&mut memory);
/// assert!(memory.iter().all(|x| *x == 0.0));
/// ```
pub fn prefer_large_pages<T>(memory: &mut [T]) {
    /// The bytes of a large page.
    const LARGE: usize = 2 << 20;
    /// The size of small pages, or a multiple of it: 4 KiB on x86-64, and 4, 16 or 64 KiB elsewhere.
    const SMALL: usize = if cfg!(target_arch = "x86_64") { 4 << 10 } else { 64 << 10 };
    let bytes = size_of_val(memory);
    if bytes >= LARGE {
        let start = memory.as_mut_ptr().cast::<u8>();
        // The pages at both ends belong to this memory in part. The pages between two such memories are then large, too.
        let before = start.addr() % SMALL;
        advise(start.wrapping_sub(before), (before + bytes).next_multiple_of(SMALL));
    }
}

/// Advises the system on pages, some of which may hold other memory.
#[cfg(all(target_os = "linux", feature = "std", not(miri)))]
fn advise(start: *mut u8, bytes: usize) {
    use core::ffi::{c_int, c_void};
    // The C library is linked into each program that has `std`.
    unsafe extern "C" {
        fn madvise(start: *mut c_void, bytes: usize, advice: c_int) -> c_int;
    }
    const HUGE_PAGE: c_int = 14;
    // SAFETY: this advice changes neither the contents of pages nor who may use them, whoever has them. An error means that the
    // pages stay small.
    _ = unsafe { madvise(start.cast(), bytes, HUGE_PAGE) };
}

#[cfg(not(all(target_os = "linux", feature = "std", not(miri))))]
const fn advise(_: *mut u8, _: usize) {}
