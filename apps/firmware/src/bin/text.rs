//! The image that classifies texts with a model in flash. It prints a line for each text, with the class and a hash of the logits, and
//! then the costs of the text that takes most.
//!
//! `REGARD_EMBED` is the folder of an encoder of texts that `regard embed` has written, and `REGARD_TEXTS` has the tokens of the
//! texts, as `2 14 7 3, 2 9 3`, when the image is built.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(texts)]
#[expect(dead_code, reason = "not all of the crate is asked for")]
mod model {
    include!(concat!(env!("REGARD_EMBED"), "/src/model.rs"));
}

/// The tokens of each text, as many as the model reads, and their number.
#[cfg(texts)]
fn tokens() -> impl Iterator<Item = ([usize; model::CONTEXT], usize)> {
    let texts = option_env!("REGARD_TEXTS").unwrap_or_default().split(',');
    texts.map(|text| {
        let mut tokens = [0; model::CONTEXT];
        let ids = text.split(' ').filter_map(|id| id.parse::<usize>().ok());
        let len = tokens.iter_mut().zip(ids).map(|(token, id)| *token = id).count();
        (tokens, len)
    })
}

#[cfg(all(texts, target_os = "none"))]
mod image {
    use regard_embed::largest;
    use regard_firmware::hash;
    use regard_firmware::image::{Costs, println};
    use static_cell::ConstStaticCell;

    use crate::model::{FLASH, LABELS, RAM, State, classify_tokens};

    regard_firmware::image!(run);

    static STATE: ConstStaticCell<State> = ConstStaticCell::new(State::new());

    fn run() -> i32 {
        let Some(mut costs) = Costs::take() else { return 1 };
        let Some(state) = STATE.try_take() else { return 1 };
        for (tokens, len) in crate::tokens() {
            let text = tokens.get(..len).unwrap_or_default();
            let mut found = None;
            costs.of(|| found = classify_tokens(state, text).ok().map(|x| (largest(x), hash(x))));
            let Some((class, hash)) = found else { return 1 };
            println!("{} {hash:016x}", LABELS.get(class).copied().unwrap_or_default());
        }
        println!("{costs}; {RAM} of RAM; {FLASH} of flash");
        0
    }
}

#[cfg(all(not(texts), target_os = "none"))]
mod image {
    regard_firmware::image_without_model!("the folder of an encoder of texts");
}

/// Prints the same lines on this machine.
#[cfg(all(texts, not(target_os = "none")))]
fn main() -> std::io::Result<()> {
    use std::io::Write as _;

    let mut out = std::io::stdout().lock();
    let mut state = Box::new(model::State::new());
    for (tokens, len) in tokens() {
        let logits = model::classify_tokens(&mut state, &tokens[..len]);
        let logits = logits.map_err(std::io::Error::other)?;
        let (class, hash) = (regard_embed::largest(logits), regard_firmware::hash(logits));
        writeln!(out, "{} {hash:016x}", model::LABELS[class])?;
    }
    writeln!(out, "{} of RAM; {} of flash", model::RAM, model::FLASH)
}

#[cfg(all(not(texts), not(target_os = "none")))]
fn main() {}
