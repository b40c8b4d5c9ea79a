//! A timer that interrupts attentions: how late is its handler, and do the bits stay? `cargo m4f --example interrupts`
//!
//! Nothing holds interrupts off while a kernel runs, so a handler waits for one instruction. With the environment variable
//! `REGARD_TRAP`, loads and stores from addresses that are not aligned are faults: build with `-C target-feature=+strict-align`.

#![cfg_attr(all(target_arch = "arm", target_os = "none"), no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(all(target_arch = "arm", target_os = "none"))]
mod image {
    use core::sync::atomic::{AtomicU32, Ordering};

    use cortex_m::peripheral::SYST;
    use cortex_m::peripheral::syst::SystClkSource;
    use cortex_m_rt::exception;
    use regard_firmware::hash;
    use regard_firmware::image::{println, trap_unaligned};
    use regard_kernels::{
        Attention, Error, Mask, Mat, MatMut, Position, Temperature, attention_scratch_len, int8,
    };

    /// Keys and features: the numbers of a row are no multiple of a word, so that rows begin at any address.
    const N: usize = 21;
    const D: usize = 13;
    /// Ticks of the timer between two interrupts.
    const PERIOD: u32 = 250;
    const ROUNDS: usize = 20;
    const INT8: int8::Attention<'static> = match int8::Attention::new(
        int8::Scales { query: 0.03, key: 0.03, value: 0.02, output: 0.02 },
        int8::default_scale(D),
        Temperature::ONE,
    ) {
        Ok(attention) => attention,
        Err(_) => panic!("the scales are in their range"),
    };

    static COUNT: AtomicU32 = AtomicU32::new(0);
    static LATE: AtomicU32 = AtomicU32::new(0);

    /// The timer counts down, and its interrupt is at 0: the ticks since then are how late this handler is.
    #[exception]
    fn SysTick() {
        let late = (PERIOD - SYST::get_current()) % PERIOD;
        // A Cortex-M0 has no atomic maximum. Nothing interrupts this handler.
        LATE.store(LATE.load(Ordering::Relaxed).max(late), Ordering::Relaxed);
        COUNT.store(COUNT.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    regard_firmware::image!(run);

    /// A hash of an attention in `f32` and of one on 8-bit integers that begin `offset` bytes after an aligned address.
    fn attentions(offset: usize) -> Result<[u64; 2], Error> {
        let mask = Mask::NONE.causal(Position::TopLeft);
        let floats: [f32; N * D] = core::array::from_fn(|i| ((i * 29) % 31) as f32 / 15.0 - 1.0);
        let mut out = [0.0; N * D];
        let mut scratch = [0.0; attention_scratch_len(N, N, D, D)];
        let x = Mat::new(&floats, N, D)?;
        Attention::new().mask(mask).forward(x, x, x, MatMut::new(&mut out, N, D)?, &mut scratch)?;
        let bytes: [i8; N * D + 4] = core::array::from_fn(|i| ((i * 37 + 11) % 251) as u8 as i8);
        let mut words = [0; int8::attention_scratch_len(N, N, D, D)];
        let mut narrow = [0; N * D];
        let x = Mat::new(bytes.get(offset..).unwrap_or_default(), N, D)?;
        INT8.mask(mask).forward(x, x, x, MatMut::new(&mut narrow, N, D)?, &mut words)?;
        Ok([hash(&out), hash(&narrow.map(i32::from))])
    }

    fn run() -> i32 {
        let Some(core) = cortex_m::Peripherals::take() else { return 1 };
        let Ok(expected) = attentions(0) else { return 1 };
        if option_env!("REGARD_TRAP").is_some() {
            trap_unaligned();
        }
        let mut timer = core.SYST;
        timer.set_clock_source(SystClkSource::Core);
        timer.set_reload(PERIOD - 1);
        timer.clear_current();
        timer.enable_interrupt();
        timer.enable_counter();
        for round in 0..ROUNDS {
            let Ok([floats, integers]) = attentions(round % 4) else { return 1 };
            if floats != expected[0] || round % 4 == 0 && integers != expected[1] {
                println!("another result in round {round}");
                return 1;
            }
        }
        timer.disable_counter();
        let (count, late) = (COUNT.load(Ordering::Relaxed), LATE.load(Ordering::Relaxed));
        println!("{count} interrupts; the latest handler began {late} ticks after its time");
        0
    }
}

#[cfg(not(all(target_arch = "arm", target_os = "none")))]
fn main() {}
