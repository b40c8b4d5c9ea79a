//! The image that runs a model from flash: after one token, it writes the text that the model finds most likely. It prints a
//! line for each token that it reads, with a hash of the logits, and then the cost of a token.
//!
//! `REGARD_EMBED` is the folder that `regard embed` has written, when the image is built.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(embedded)]
#[cfg_attr(target_os = "none", expect(dead_code, reason = "this machine alone scores texts"))]
mod model {
    include!(concat!(env!("REGARD_EMBED"), "/src/model.rs"));
    include!(concat!(env!("REGARD_EMBED"), "/src/tokens.rs"));
}

#[cfg(all(embedded, target_os = "none"))]
mod image {
    use regard_embed::largest;
    use regard_firmware::image::{Costs, println};
    use regard_firmware::{FIRST_TOKEN, hash};
    use static_cell::ConstStaticCell;

    use crate::model::{CONTEXT, FLASH, RAM, State, TOKENS, next};

    regard_firmware::image!(run);

    static STATE: ConstStaticCell<State> = ConstStaticCell::new(State::new());

    fn run() -> i32 {
        let Some(mut costs) = Costs::take() else { return 1 };
        let Some(state) = STATE.try_take() else { return 1 };
        let mut token = FIRST_TOKEN;
        for _ in 0..CONTEXT {
            let mut found = None;
            costs.of(|| found = next(state, token).ok().map(|x| (largest(x), hash(x))));
            let Some((chosen, hash)) = found else { return 1 };
            println!("{token} {hash:016x} {}", TOKENS.get(chosen).copied().unwrap_or_default());
            if chosen == FIRST_TOKEN {
                break;
            }
            token = chosen;
        }
        // The last token sees the most keys.
        println!("{costs}; {RAM} of RAM; {FLASH} of flash");
        0
    }
}

#[cfg(all(not(embedded), target_os = "none"))]
mod image {
    regard_firmware::image_without_model!("a folder");
}

/// Prints the same lines on this machine. With the argument `score`, each line of the input is a text as ids, and the only line
/// printed is the mean of −ln p over the tokens after the first ones.
#[cfg(all(embedded, not(target_os = "none")))]
fn main() -> std::io::Result<()> {
    use std::io::Write as _;

    use regard_firmware::{FIRST_TOKEN, hash};

    let mut out = std::io::stdout().lock();
    let (mut state, mut token) = (Box::new(model::State::new()), FIRST_TOKEN);
    if std::env::args().any(|argument| argument == "score") {
        return writeln!(out, "{}", score(&mut state)?);
    }
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

/// The mean of −ln p over the tokens of all texts of the input, except the first of each.
#[cfg(all(embedded, not(target_os = "none")))]
fn score(state: &mut model::State) -> std::io::Result<f64> {
    let (mut sum, mut count) = (0.0, 0);
    for line in std::io::stdin().lines() {
        let ids: Vec<usize> = line?.split(' ').filter_map(|id| id.parse().ok()).collect();
        state.clear();
        for pair in ids.windows(2) {
            let logits = model::next(state, pair[0]).map_err(std::io::Error::other)?;
            let x: Vec<f64> =
                logits.iter().map(|x| f64::from(*x) * f64::from(model::UNIT)).collect();
            let largest = x.iter().copied().fold(f64::MIN, f64::max);
            let total: f64 = x.iter().map(|x| (x - largest).exp()).sum();
            sum += total.ln() + largest - x[pair[1]];
            count += 1;
        }
    }
    Ok(sum / f64::from(count))
}

#[cfg(all(not(embedded), not(target_os = "none")))]
fn main() {}
