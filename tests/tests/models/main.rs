//! Tiny models of nine families, assembled from their weights by the blocks of `regard`: hidden states, attentions and logits
//! are what `transformers` computes in `f64`, and the tokens that they write are the same.

#![expect(clippy::print_stdout, reason = "errors are measured")]

mod bert;
mod check;
mod files;
mod gpt;
mod llama;
mod t5;
mod vit;

use anyhow::Result;

use self::check::Model;
use self::files::Files;

/// Checks a model, and what it writes where that is known.
fn check(name: &str, read: fn(&Files) -> Result<Model>) -> Result<()> {
    let files = Files::read(name)?;
    let model = read(&files)?;
    model.check(&files)?;
    if files.ids("generated").is_ok() { model.check_generated(&files) } else { Ok(()) }
}

#[test]
fn bert_is_met() -> Result<()> {
    check("tiny-bert", bert::bert)
}

#[test]
fn gpt2_is_met() -> Result<()> {
    check("tiny-gpt2", gpt::gpt2)
}

#[test]
fn gpt_neox_is_met() -> Result<()> {
    check("tiny-gpt_neox", gpt::gpt_neox)
}

#[test]
fn llama_is_met() -> Result<()> {
    check("tiny-llama", llama::llama)
}

#[test]
fn qwen3_is_met() -> Result<()> {
    check("tiny-qwen3", llama::qwen3)
}

#[test]
fn phi3_is_met() -> Result<()> {
    check("tiny-phi3", llama::phi3)
}

#[test]
fn gemma2_is_met() -> Result<()> {
    check("tiny-gemma2", llama::gemma2)
}

#[test]
fn t5_is_met() -> Result<()> {
    t5::check_t5(&Files::read("tiny-t5")?)
}

#[test]
fn vit_is_met() -> Result<()> {
    vit::check_vit(&Files::read("tiny-vit")?)
}
