//! The image for an x86-64 without operating system: the cases on AVX-512, which the emulator Bochs has on any machine.
//!
//! The image is a program of the Linux target that uses no part of Linux. The target without an operating system computes floats
//! without vectors, so AVX-512 would be compiled to scalar code there. `x86/boot.s` switches the vectors on as an operating
//! system does, so that the kernels find them at run time as on a desktop.

#![no_std]
#![no_main]
#![expect(unsafe_code, reason = "ports, and the functions that compilers expect of libc")]

use core::arch::{asm, global_asm};
use core::fmt::{self, Write};
use core::panic::PanicInfo;

use regard_firmware::{MEMORY, cases};
use regard_kernels::Tier;

global_asm!(include_str!("../../x86/boot.s"), options(att_syntax));

/// Writes a byte to a port.
fn output(port: u16, byte: u8) {
    // SAFETY: Bochs' ports 0xE9 and 0x8900 touch no memory of the program.
    unsafe { asm!("out dx, al", in("dx") port, in("al") byte, options(nomem, nostack)) };
}

/// Prints on Bochs' standard output.
struct Console;

impl Write for Console {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        s.bytes().for_each(|byte| output(0xe9, byte));
        Ok(())
    }
}

/// Ends the emulation.
fn shutdown() -> ! {
    b"Shutdown".iter().for_each(|byte| output(0x8900, *byte));
    loop {
        core::hint::spin_loop();
    }
}

/// Runs the cases on AVX-512. Another tier has the same bits, so it must not run by mistake.
#[expect(clippy::large_stack_arrays, reason = "the image has a megabyte of stack and no heap")]
fn run() -> fmt::Result {
    writeln!(Console, "BEGIN")?;
    if Tier::active() != Tier::Avx512 {
        return writeln!(Console, "this emulator offers {}", Tier::active().name());
    }
    let mut written = Ok(());
    let done = cases::run(&mut [0.0; 4 * MEMORY], &mut |name, numbers| {
        written = written.and_then(|()| writeln!(Console, "{name}:{numbers}"));
    });
    written?;
    match done {
        Ok(()) => writeln!(Console, "END"),
        Err(error) => writeln!(Console, "{error}"),
    }
}

/// The entry point that `x86/boot.s` calls.
#[unsafe(no_mangle)]
extern "C" fn x86_main() -> ! {
    let _ = run();
    shutdown()
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let _ = writeln!(Console, "{info}");
    shutdown()
}

/// The unwinding tables of `core` refer to this symbol. Nothing unwinds.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// C's function, because the image has no libc.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    // SAFETY: the caller guarantees that both places are valid.
    unsafe { asm!("rep movsb", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") n => _) };
    to
}

/// C's function.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    if to.addr().wrapping_sub(from.addr()) >= n {
        // SAFETY: the caller guarantees that both places are valid. Copying upwards reads each byte before it is written.
        return unsafe { memcpy(to, from, n) };
    }
    let last = n.wrapping_sub(1);
    // SAFETY: the caller guarantees that both places are valid. Copying downwards reads each byte before it is written.
    unsafe {
        asm!(
            "std", "rep movsb", "cld",
            inout("rdi") to.wrapping_add(last) => _,
            inout("rsi") from.wrapping_add(last) => _,
            inout("rcx") n => _,
        );
    }
    to
}

/// C's function.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, n: usize) -> *mut u8 {
    // SAFETY: the caller guarantees that the place is valid.
    unsafe { asm!("rep stosb", inout("rdi") to => _, in("al") byte as u8, inout("rcx") n => _) };
    to
}

/// C's function.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    for i in 0..n {
        // SAFETY: the caller guarantees that both places are valid. The reads are volatile, because the compiler would turn the
        // loop into a call of memcmp.
        let (a, b) = unsafe { (a.add(i).read_volatile(), b.add(i).read_volatile()) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
    }
    0
}

/// C's function.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    // SAFETY: the caller guarantees that both places are valid.
    unsafe { memcmp(a, b, n) }
}
