//! Attention in a task of [embassy](https://embassy.dev). The samples of a sensor come through a channel, and each one attends
//! to the last sixteen. `cargo m4f --example embassy`

#![cfg_attr(all(target_arch = "arm", target_os = "none"), no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(all(target_arch = "arm", target_os = "none"))]
mod image {
    // [guide]
    use embassy_executor::Spawner;
    use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex;
    use embassy_sync::channel::Channel;
    use regard_kernels::{Attention, Error, Mask, attention_scratch_len, fixed};

    /// Samples that are remembered, and the numbers of each.
    const KEYS: usize = 16;
    const D: usize = 4;
    const SCRATCH: usize = attention_scratch_len(1, KEYS, D, D);
    // The memory of the task must fit the part, or this does not compile.
    const _: () = assert!(4 * (2 * KEYS * D + D + SCRATCH) <= 4096);

    static SAMPLES: Channel<CriticalSectionRawMutex, [f32; D], 2> = Channel::new();
    static OUTPUTS: Channel<CriticalSectionRawMutex, Result<[f32; D], Error>, 2> = Channel::new();

    /// Variables that live across an `await` are in the task's static, whose size the linker knows.
    #[embassy_executor::task]
    async fn attend() {
        let (mut keys, mut values) = ([[0.0; D]; KEYS], [[0.0; D]; KEYS]);
        let mut scratch = [0.0; SCRATCH];
        for count in 0.. {
            let sample = SAMPLES.receive().await;
            // The keys are a ring buffer, because attention does not depend on their order.
            keys[count % KEYS] = sample;
            values[count % KEYS] = sample;
            let attention = Attention::new().mask(Mask::NONE.key_len(KEYS.min(count + 1)));
            let mut out = [[0.0; D]];
            let done =
                fixed::attention(&attention, &[sample], &keys, &values, &mut out, &mut scratch);
            OUTPUTS.send(done.map(|()| out[0])).await;
        }
    }
    // [guide]

    use regard_firmware::image::{exit, println};

    #[embassy_executor::main]
    async fn main(spawner: Spawner) {
        let Ok(task) = attend() else { exit(1) };
        spawner.spawn(task);
        for i in 0..20_u8 {
            let (low, high) = (f32::from(i % 4), f32::from(i / 4));
            SAMPLES.send([low, high, low * high, 1.0]).await;
            match OUTPUTS.receive().await {
                Ok(output) => println!("{i}: {output:?}"),
                Err(error) => {
                    println!("{error}");
                    exit(1)
                }
            }
        }
        exit(0)
    }

    #[panic_handler]
    fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
        println!("{info}");
        exit(1)
    }
}

#[cfg(not(all(target_arch = "arm", target_os = "none")))]
fn main() {}
