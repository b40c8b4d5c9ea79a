//! The image that classifies the digits that training held back, with a model in flash. It prints a line for each digit, with a
//! hash of the logits, and then the share of right answers and the costs of an image.
//!
//! `REGARD_EMBED` is the folder of `digits` that `regard embed` has written, when the image is built.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(samples)]
#[expect(dead_code, reason = "not all of the crate is asked for")]
mod model {
    include!(concat!(env!("REGARD_EMBED"), "/src/model.rs"));
}

#[cfg(all(samples, target_os = "none"))]
mod image {
    use regard_digits::held_back;
    use regard_embed::largest;
    use regard_firmware::hash;
    use regard_firmware::image::{Costs, println};
    use static_cell::ConstStaticCell;

    use crate::model::{FLASH, LABELS, RAM, State, classify_samples};

    regard_firmware::image!(run);

    static STATE: ConstStaticCell<State> = ConstStaticCell::new(State::new());

    fn run() -> i32 {
        let Some(mut costs) = Costs::take() else { return 1 };
        let Some(state) = STATE.try_take() else { return 1 };
        let mut right = 0;
        for digit in held_back() {
            let mut found = None;
            costs.of(|| {
                let logits = classify_samples(state, digit.pixels).ok();
                found = logits.map(|x| (largest(x), hash(x)));
            });
            let Some((class, hash)) = found else { return 1 };
            right += usize::from(class == usize::from(digit.label));
            println!("{} {hash:016x}", LABELS.get(class).copied().unwrap_or_default());
        }
        let all = held_back().len();
        println!("{right} right of {all}; {costs}; {RAM} of RAM; {FLASH} of flash");
        0
    }
}

#[cfg(all(not(samples), target_os = "none"))]
mod image {
    regard_firmware::image_without_model!("the folder of `digits`");
}

/// Prints the same lines on this machine.
#[cfg(all(samples, not(target_os = "none")))]
fn main() -> std::io::Result<()> {
    use std::io::Write as _;

    use regard_embed::largest;

    let mut out = std::io::stdout().lock();
    let mut state = Box::new(model::State::new());
    let mut right = 0;
    for digit in regard_digits::held_back() {
        let logits =
            model::classify_samples(&mut state, digit.pixels).map_err(std::io::Error::other)?;
        let (class, hash) = (largest(logits), regard_firmware::hash(logits));
        let numbers = digit.pixels.map(|sample| (f32::from(sample) * (1.0 / 255.0) - 0.5) / 0.5);
        let again = model::classify(&mut state, &numbers).map_err(std::io::Error::other)?;
        assert_eq!(regard_firmware::hash(again), hash, "samples are these numbers");
        right += usize::from(class == usize::from(digit.label));
        writeln!(out, "{} {hash:016x}", model::LABELS[class])?;
    }
    let all = regard_digits::held_back().len();
    writeln!(out, "{right} right of {all}; {} bytes of RAM; {} of flash", model::RAM, model::FLASH)
}

#[cfg(all(not(samples), not(target_os = "none")))]
fn main() {}
