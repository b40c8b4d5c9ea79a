//! How similar two sentences are to a sentence encoder such as all-MiniLM-L6-v2: the cosine of the means of their last states.
//!
//! `cargo run --release -p regard-models --example similarity -- MODEL "A cat sits." "A cat is sitting."`

#![expect(clippy::print_stdout, reason = "it is what the example is for")]

use std::{env, error};

use regard_models::Model;

fn main() -> Result<(), Box<dyn error::Error>> {
    let [_, path, one, other] = &env::args().collect::<Vec<_>>()[..] else {
        return Err("usage: similarity MODEL SENTENCE SENTENCE".into());
    };
    let model = Model::open(path)?;
    let tokenizer = model.tokenizer().ok_or("the model has no tokenizer")?;
    let layers = model.description().stack.layers();
    let last = format!("blocks.{}.hook_normalized_resid_post", layers.saturating_sub(1));
    let embed = |text: &str| -> Result<Vec<f32>, Box<dyn error::Error>> {
        let trace = model.pass().keep([&last[..]]).run(&tokenizer.encode(text, None)?)?;
        let states = trace.get(&last).ok_or("the model's norms do not stand after its layers")?;
        let [tokens, width] = states.shape[..] else { return Err("no states".into()) };
        let mean = |i| states.data.iter().skip(i).step_by(width).sum::<f32>() / tokens as f32;
        Ok((0..width).map(mean).collect())
    };
    println!("{:.6}", regard_kernels::cosine_similarity(&embed(one)?, &embed(other)?)?);
    Ok(())
}
