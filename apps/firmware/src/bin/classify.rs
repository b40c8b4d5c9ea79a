//! The image that classifies texts by a model in flash. It prints a line for each text, with a hash of the logits, and then the
//! costs of the longest text.
//!
//! `REGARD_EMBED` is the folder of a classifier that `regard embed` has written, when the image is built.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(classifies)]
#[expect(dead_code, reason = "not all of the crate is asked for")]
mod model {
    include!(concat!(env!("REGARD_EMBED"), "/src/model.rs"));
    include!(concat!(env!("REGARD_EMBED"), "/src/text.rs"));
}

#[cfg(all(classifies, target_os = "none"))]
mod image {
    use core::cell::RefCell;

    use critical_section::Mutex;
    use regard_embed::largest;
    use regard_firmware::image::{Counter, println};
    use regard_firmware::{COMMANDS, hash, stack};

    use crate::model::{FLASH, LABELS, RAM, State, classify};

    regard_firmware::image!(run);

    static STATE: Mutex<RefCell<State>> = Mutex::new(RefCell::new(State::new()));

    fn run() -> i32 {
        let Some(mut counter) = Counter::take() else { return 1 };
        critical_section::with(|section| {
            let state = &mut *STATE.borrow_ref_mut(section);
            let (mut stack, mut tokens, mut instructions) = (0, 0, 0);
            for text in COMMANDS {
                let mut found = None;
                let mut sort = || found = classify(state, text).ok().map(|x| (largest(x), hash(x)));
                stack = stack.max(stack::peak(&mut sort));
                let count = counter.count(&mut sort);
                let Some((class, hash)) = found else { return 1 };
                if state.len() > tokens {
                    (tokens, instructions) = (state.len(), count);
                }
                println!("{}; {hash:016x}; {text}", LABELS.get(class).copied().unwrap_or_default());
            }
            println!(
                "{instructions} instructions for {tokens} tokens; {stack} bytes of stack; {RAM} of RAM; {FLASH} of flash"
            );
            0
        })
    }
}

#[cfg(all(not(classifies), target_os = "none"))]
mod image {
    regard_firmware::image!(run);

    fn run() -> i32 {
        regard_firmware::image::println!(
            "set REGARD_EMBED to the folder of a classifier that `regard embed` has written"
        );
        1
    }
}

/// Prints the same lines on this machine, for each line of the input. With the argument `tokens`, texts end with a 0 instead of a
/// newline, and their tokens are printed.
#[cfg(all(classifies, not(target_os = "none")))]
fn main() -> std::io::Result<()> {
    use std::io::{Read as _, Write as _};

    let (mut text, mut out) = (String::new(), std::io::stdout().lock());
    std::io::stdin().read_to_string(&mut text)?;
    if std::env::args().any(|argument| argument == "tokens") {
        for text in text.split_terminator('\0') {
            let tokens: Vec<String> = model::tokens(text).map(|token| token.to_string()).collect();
            writeln!(out, "{}", tokens.join(" "))?;
        }
        return Ok(());
    }
    let mut state = Box::new(model::State::new());
    for text in text.lines() {
        let logits = model::classify(&mut state, text).map_err(std::io::Error::other)?;
        let (class, hash) = (regard_embed::largest(logits), regard_firmware::hash(logits));
        writeln!(out, "{}; {hash:016x}; {text}", model::LABELS[class])?;
    }
    writeln!(out, "{} bytes of RAM; {} of flash", model::RAM, model::FLASH)
}

#[cfg(all(not(classifies), not(target_os = "none")))]
fn main() {}
