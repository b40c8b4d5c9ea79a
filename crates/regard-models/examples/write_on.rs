//! Writes on: `cargo run --release -p regard-models --example write_on -- MODEL TEXT [TOKENS]`.

#![expect(clippy::print_stdout, reason = "it is what the example is for")]

use std::time::Instant;
use std::{env, error};

use regard_models::Model;

fn main() -> Result<(), Box<dyn error::Error>> {
    let mut arguments = env::args().skip(1);
    let (Some(path), Some(text)) = (arguments.next(), arguments.next()) else {
        return Err("usage: generate MODEL TEXT [TOKENS]".into());
    };
    let count = arguments.next().map_or(Ok(20), |count| count.parse())?;
    let start = Instant::now();
    let model = Model::open(&path)?;
    let description = model.description();
    println!(
        "{}: {} layers, read in {:.2?}",
        description.family,
        description.stack.layers(),
        start.elapsed()
    );
    let tokenizer = model.tokenizer().ok_or("the model has no tokenizer")?;
    let input = tokenizer.encode(&text, None)?;
    let start = Instant::now();
    let first = model.generate(&input, 1, &[])?;
    let first_took = start.elapsed();
    let start = Instant::now();
    let ids = model.generate(&input, count, &[])?;
    let each = start.elapsed().saturating_sub(first_took) / u32::try_from(ids.len().max(2) - 1)?;
    println!("{}{}", text, tokenizer.decode(&ids)?);
    println!(
        "{} tokens to read take {first_took:.2?}, and each one written {each:.2?}",
        input.ids.len()
    );
    assert_eq!(first[0], ids[0]);
    Ok(())
}
