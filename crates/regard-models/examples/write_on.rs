//! Writes on: `cargo run --release -p regard-models --example write_on -- MODEL TEXT`.

#![expect(clippy::print_stdout, reason = "it is what the example is for")]

use std::{env, error};

use regard_models::Model;

fn main() -> Result<(), Box<dyn error::Error>> {
    let [_, path, text] = &env::args().collect::<Vec<_>>()[..] else {
        return Err("usage: write_on MODEL TEXT".into());
    };
    let model = Model::open(path)?;
    let tokenizer = model.tokenizer().ok_or("the model has no tokenizer")?;
    let ids = model.generate(&tokenizer.encode(text, None)?, 20, &[])?;
    println!("{text}{}", tokenizer.decode(&ids)?);
    Ok(())
}
