//! The parts of an image besides its computation: the entry point, printing, and a counter of instructions or cycles.

use core::fmt;

#[cfg(target_arch = "arm")]
use cortex_m as _; // brings the critical section
#[cfg(target_arch = "arm")]
pub use cortex_m_rt::entry;
#[cfg(target_arch = "riscv32")]
use riscv as _; // brings the critical section
#[cfg(target_arch = "riscv32")]
pub use riscv_rt::entry;
pub use semihosting::{print, println, process::exit};

use crate::stack;

/// Defines an image: its entry point calls a function that returns the exit code, and its panic handler prints the panic.
#[macro_export]
macro_rules! image {
    ($run:path) => {
        #[$crate::image::entry]
        fn main() -> ! {
            $crate::image::exit($run())
        }

        #[panic_handler]
        fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
            $crate::image::println!("{info}");
            $crate::image::exit(1)
        }
    };
}

/// Defines an image that was built without a model: it says which one it needs.
#[macro_export]
macro_rules! image_without_model {
    ($needed:literal) => {
        $crate::image!(run);

        fn run() -> i32 {
            $crate::image::println!(concat!(
                "set REGARD_EMBED to ",
                $needed,
                " that `regard embed` has written"
            ));
            1
        }
    };
}

/// The core's name in the board's file.
pub const CORE: &str = env!("REGARD_CORE");

/// Makes loads and stores from addresses that are not aligned faults, as the core's `CCR.UNALIGN_TRP` does.
#[cfg(target_arch = "arm")]
#[expect(unsafe_code, reason = "a register of the core")]
pub fn trap_unaligned() {
    // SAFETY: the block of registers exists on every Cortex-M, and the bit changes no memory.
    unsafe { (*cortex_m::peripheral::SCB::PTR).ccr.modify(|control| control | (1 << 3)) };
}

/// Counts instructions by the time that passes: an instruction takes the emulator's clock a nanosecond (`-icount shift=0`).
/// On a part, counts cycles.
pub struct Counter(#[cfg(all(target_arch = "arm", not(cycles)))] cortex_m::peripheral::SYST);

#[cfg(cycles)]
impl Counter {
    /// The core's counter of cycles; a program has one.
    #[must_use]
    pub fn take() -> Option<Self> {
        let mut core = cortex_m::Peripherals::take()?;
        core.DCB.enable_trace();
        core.DWT.enable_cycle_counter();
        Some(Self())
    }

    /// The cycles that `f` takes, up to 2³² of them.
    pub fn count(&mut self, mut f: impl FnMut()) -> u64 {
        let start = cortex_m::peripheral::DWT::cycle_count();
        f();
        cortex_m::peripheral::DWT::cycle_count().wrapping_sub(start).into()
    }
}

#[cfg(all(target_arch = "arm", not(cycles)))]
impl Counter {
    /// The core's timer; a program has one.
    #[must_use]
    pub fn take() -> Option<Self> {
        let mut timer = cortex_m::Peripherals::take()?.SYST;
        timer.set_clock_source(cortex_m::peripheral::syst::SystClkSource::Core);
        timer.set_reload(0xff_ffff);
        timer.clear_current();
        timer.enable_counter();
        Some(Self(timer))
    }

    /// The instructions that `f` takes, at most 500 million at a time. The error is at most a hundredth of a tick of the timer or
    /// a thousandth of the result.
    pub fn count(&mut self, mut f: impl FnMut()) -> u64 {
        /// The nanoseconds of a tick.
        const NANOSECONDS: f64 = 1e9 / parse(env!("REGARD_CLOCK")) as f64;
        let mut rounds = 1;
        loop {
            let start = cortex_m::peripheral::SYST::get_current();
            for _ in 0..rounds {
                f();
            }
            let ticks = start.wrapping_sub(cortex_m::peripheral::SYST::get_current()) & 0xff_ffff;
            if ticks >= 1000 || rounds >= 100 {
                return (f64::from(ticks) * NANOSECONDS / f64::from(rounds)) as u64;
            }
            rounds = 100;
        }
    }
}

/// The instructions and the stack of a function: the most that any of its calls took.
pub struct Costs {
    counter: Counter,
    instructions: u64,
    stack: usize,
}

impl Costs {
    /// Of no call yet; a program has one.
    #[must_use]
    pub fn take() -> Option<Self> {
        Some(Self { counter: Counter::take()?, instructions: 0, stack: 0 })
    }

    /// Calls `f` once, or as often as the [counter](Counter::count) needs.
    pub fn of(&mut self, mut f: impl FnMut()) {
        let stack = stack::peak(|| {
            self.instructions = self.instructions.max(self.counter.count(&mut f));
        });
        self.stack = self.stack.max(stack);
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} instructions; {} bytes of stack", self.instructions, self.stack)
    }
}

#[cfg(all(target_arch = "arm", not(cycles)))]
const fn parse(digits: &str) -> u32 {
    let (mut n, mut rest) = (0, digits.as_bytes());
    while let [digit, after @ ..] = rest {
        n = 10 * n + (*digit - b'0') as u32;
        rest = after;
    }
    n
}

#[cfg(target_arch = "riscv32")]
impl Counter {
    /// The core's counter of retired instructions.
    #[must_use]
    pub fn take() -> Option<Self> {
        Some(Self())
    }

    /// The instructions that `f` takes.
    pub fn count(&mut self, mut f: impl FnMut()) -> u64 {
        let start = riscv::register::minstret::read64();
        f();
        riscv::register::minstret::read64() - start
    }
}
