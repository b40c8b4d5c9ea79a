//! The processor's floating-point environment: how it rounds, whether it counts subnormal numbers as 0, and which exceptions it
//! traps.
//!
//! Each thread has an environment of its own, and a host may change it: audio and game code flushes subnormal numbers,
//! `torch.set_flush_denormal` does so for a thread of Python, and interval arithmetic rounds in one direction. The results of a
//! kernel must not depend on that. [`dispatch`](super::dispatch) reads the register of the environment, which takes five
//! instructions. If it is not the default one, the kernel runs in the default one, and the old one is put back.
//!
//! The compiler knows nothing of this register. Arithmetic that must see it stands in a function that is not inlined.

/// Sets the default environment, and puts the one that it has replaced back when it is dropped.
pub(crate) struct DefaultEnvironment(Option<register::Bits>);

impl DefaultEnvironment {
    #[inline(always)]
    pub(crate) fn enter() -> Self {
        let bits = register::read();
        if register::is_default(bits) {
            return Self(None);
        }
        register::write(register::DEFAULT);
        Self(Some(bits))
    }
}

impl Drop for DefaultEnvironment {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(bits) = self.0 {
            register::write(bits);
        }
    }
}

/// Calls `f` in the default floating-point environment: it rounds to the nearest number, computes with subnormal numbers and
/// traps no exception. The environment of this thread is put back afterwards.
///
/// The kernels do this themselves. It serves arithmetic around them, whose result is then the same on each thread. On cores
/// without an operating system and on wasm it only calls `f`: see the contract.
///
/// ```
/// let half_of_least = || core::hint::black_box(f32::MIN_POSITIVE) / 2.0;
/// assert_eq!(regard_kernels::with_default_environment(half_of_least), 5.877_472e-39);
/// ```
#[inline]
pub fn with_default_environment<R>(f: impl FnOnce() -> R) -> R {
    #[inline(never)]
    fn apart<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
    let environment = DefaultEnvironment::enter();
    if environment.0.is_some() { apart(f) } else { f() }
}

/// For tests: calls `f` in an environment that counts subnormal numbers as 0 and rounds towards +∞, where the target has one.
pub fn with_other_environment<R>(f: impl FnOnce() -> R) -> R {
    let previous = DefaultEnvironment(Some(register::read()));
    register::write(register::OTHER);
    let result = f();
    drop(previous);
    result
}

/// MXCSR. x86-64 computes in SSE registers, unless the target has none.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
mod register {
    use core::arch::asm;

    pub(super) type Bits = u32;

    /// Every exception is masked, and none has been raised.
    pub(super) const DEFAULT: Bits = 0x1f80;
    /// Flush to zero, denormals are zero, and round up.
    pub(super) const OTHER: Bits = DEFAULT | (1 << 15) | (1 << 6) | (2 << 13);
    /// The exceptions that have been raised are no part of the environment.
    const RAISED: Bits = 0x3f;

    #[inline(always)]
    pub(super) fn is_default(bits: Bits) -> bool {
        bits & !RAISED == DEFAULT
    }

    #[inline(always)]
    pub(super) fn read() -> Bits {
        let mut bits = 0;
        // SAFETY: the instruction writes the register to `bits`.
        unsafe {
            asm!("stmxcsr [{}]", in(reg) &raw mut bits, options(nostack, preserves_flags));
        }
        bits
    }

    #[inline(always)]
    pub(super) fn write(bits: Bits) {
        // SAFETY: the instruction reads `bits`, which are the default ones, those of `OTHER`, or those that `read` has found, so
        // no reserved bit is set.
        unsafe {
            asm!("ldmxcsr [{}]", in(reg) &raw const bits, options(nostack, preserves_flags, readonly));
        }
    }
}

/// FPCR.
#[cfg(all(target_arch = "aarch64", target_feature = "neon", not(miri)))]
mod register {
    use core::arch::asm;

    pub(super) type Bits = u64;

    pub(super) const DEFAULT: Bits = 0;
    /// Flush to zero, and round up.
    pub(super) const OTHER: Bits = 1 << 24 | 1 << 22;

    #[inline(always)]
    pub(super) fn is_default(bits: Bits) -> bool {
        bits == DEFAULT
    }

    #[inline(always)]
    pub(super) fn read() -> Bits {
        let bits;
        // SAFETY: the instruction copies the register.
        unsafe {
            asm!("mrs {}, fpcr", out(reg) bits, options(nomem, nostack, preserves_flags));
        }
        bits
    }

    #[inline(always)]
    pub(super) fn write(bits: Bits) {
        // SAFETY: `bits` are the default ones, those of `OTHER`, or those that `read` has found. No memory is read or written,
        // but the compiler must not move a call across the instruction.
        unsafe {
            asm!("msr fpcr, {}", in(reg) bits, options(nostack, preserves_flags));
        }
    }
}

/// Targets whose environment never changes (wasm), or is the firmware's choice.
#[cfg(not(all(
    any(
        all(target_arch = "x86_64", target_feature = "sse2"),
        all(target_arch = "aarch64", target_feature = "neon")
    ),
    not(miri)
)))]
mod register {
    pub(super) type Bits = u32;

    pub(super) const DEFAULT: Bits = 0;
    pub(super) const OTHER: Bits = DEFAULT;

    #[inline(always)]
    pub(super) fn is_default(bits: Bits) -> bool {
        bits == DEFAULT
    }

    #[inline(always)]
    pub(super) fn read() -> Bits {
        DEFAULT
    }

    #[inline(always)]
    pub(super) fn write(_: Bits) {}
}
