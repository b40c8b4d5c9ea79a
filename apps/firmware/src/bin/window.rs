//! The image that classifies a window of samples with a model in flash, whatever the window's shape. The samples are made up, so it
//! prints a hash of the logits and the costs alone.
//!
//! `REGARD_EMBED` is the folder of an encoder that `regard embed` has written, when the image is built.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(classifies)]
#[expect(dead_code, reason = "not all of the crate is asked for")]
mod model {
    include!(concat!(env!("REGARD_EMBED"), "/src/model.rs"));
}

#[cfg(classifies)]
use model::INPUTS;

/// A window of numbers between −1 and 1.
#[cfg(classifies)]
fn fill(window: &mut [f32; INPUTS]) {
    let mut seed = 1_u32;
    for x in window {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *x = f32::from((seed >> 16) as u16) / 32768.0 - 1.0;
    }
}

#[cfg(all(classifies, target_os = "none"))]
mod image {
    use regard_firmware::hash;
    use regard_firmware::image::{Costs, println};
    use static_cell::ConstStaticCell;

    use crate::model::{FLASH, INPUTS, RAM, State, classify};

    regard_firmware::image!(run);

    static STATE: ConstStaticCell<State> = ConstStaticCell::new(State::new());
    static WINDOW: ConstStaticCell<[f32; INPUTS]> = ConstStaticCell::new([0.0; INPUTS]);

    fn run() -> i32 {
        let Some(mut costs) = Costs::take() else { return 1 };
        let (Some(state), Some(window)) = (STATE.try_take(), WINDOW.try_take()) else { return 1 };
        crate::fill(window);
        let mut found = None;
        costs.of(|| found = classify(state, window).ok().map(|x| hash(x)));
        let Some(hash) = found else { return 1 };
        println!("{hash:016x}; {costs}; {RAM} of RAM; {FLASH} of flash");
        0
    }
}

#[cfg(all(not(classifies), target_os = "none"))]
mod image {
    regard_firmware::image_without_model!("the folder of an encoder");
}

/// Prints the hash on this machine.
#[cfg(all(classifies, not(target_os = "none")))]
fn main() -> std::io::Result<()> {
    use std::io::Write as _;

    let mut state = Box::new(model::State::new());
    let mut window = [0.0; INPUTS];
    fill(&mut window);
    let logits = model::classify(&mut state, &window).map_err(std::io::Error::other)?;
    let hash = regard_firmware::hash(logits);
    let mut out = std::io::stdout().lock();
    writeln!(out, "{hash:016x}; {} of RAM; {} of flash", model::RAM, model::FLASH)
}

#[cfg(all(not(classifies), not(target_os = "none")))]
fn main() {}
