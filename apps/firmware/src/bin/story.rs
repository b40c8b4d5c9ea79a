//! The image that runs a model from flash: from one token on, it writes the text that the model finds most likely. It prints a
//! line for each token that it reads, with a hash of the logits, and then what a token costs.
//!
//! `REGARD_EMBED` is the folder that `regard embed` has written, when the image is built.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(embedded)]
mod model {
    include!(concat!(env!("REGARD_EMBED"), "/src/model.rs"));
    include!(concat!(env!("REGARD_EMBED"), "/src/tokens.rs"));
}

#[cfg(all(embedded, target_os = "none"))]
mod image {
    use core::cell::RefCell;

    use critical_section::Mutex;
    use regard_embed::largest;
    use regard_firmware::image::{Counter, println};
    use regard_firmware::{FIRST_TOKEN, hash, stack};

    use crate::model::{CONTEXT, FLASH, RAM, State, TOKENS, next};

    regard_firmware::image!(run);

    static STATE: Mutex<RefCell<State>> = Mutex::new(RefCell::new(State::new()));

    fn run() -> i32 {
        let Some(mut counter) = Counter::take() else { return 1 };
        critical_section::with(|section| {
            let state = &mut *STATE.borrow_ref_mut(section);
            let (mut token, mut instructions, mut stack) = (FIRST_TOKEN, 0, 0);
            for _ in 0..CONTEXT {
                let mut found = None;
                let mut step = || found = next(state, token).ok().map(|x| (largest(x), hash(x)));
                // The stack of the first token is that of all.
                if stack == 0 {
                    stack = stack::peak(&mut step);
                } else {
                    instructions = counter.count(&mut step);
                }
                let Some((chosen, hash)) = found else { return 1 };
                println!("{token} {hash:016x} {}", TOKENS.get(chosen).copied().unwrap_or_default());
                if chosen == FIRST_TOKEN {
                    break;
                }
                token = chosen;
            }
            // Of the last token, which sees the most keys.
            println!(
                "{instructions} instructions; {stack} bytes of stack; {RAM} of RAM; {FLASH} of flash"
            );
            0
        })
    }
}

#[cfg(all(not(embedded), target_os = "none"))]
mod image {
    regard_firmware::image!(run);

    fn run() -> i32 {
        regard_firmware::image::println!(
            "set REGARD_EMBED to a folder that `regard embed` has written"
        );
        1
    }
}

/// The same lines, by this machine.
#[cfg(all(embedded, not(target_os = "none")))]
fn main() -> std::io::Result<()> {
    use std::io::Write as _;

    use regard_firmware::{FIRST_TOKEN, hash};

    let mut out = std::io::stdout().lock();
    let (mut state, mut token) = (Box::new(model::State::new()), FIRST_TOKEN);
    for _ in 0..model::CONTEXT {
        let logits = model::next(&mut state, token).map_err(std::io::Error::other)?;
        let chosen = regard_embed::largest(logits);
        writeln!(out, "{token} {:016x} {}", hash(logits), model::TOKENS[chosen])?;
        if chosen == FIRST_TOKEN {
            break;
        }
        token = chosen;
    }
    writeln!(out, "{} bytes of RAM; {} of flash", model::RAM, model::FLASH)
}

#[cfg(all(not(embedded), not(target_os = "none")))]
fn main() {}
