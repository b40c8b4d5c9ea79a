//! The fuzz targets ([`TARGETS`]) and their common functions.
#![forbid(unsafe_code)]

mod targets;

pub use self::targets::{TARGETS, Target};

use std::io::{Cursor, Error, ErrorKind};
use std::path::Path;

use peak_alloc::PeakAlloc;
use regard_heads::{AttentionMaps, QueriesAndKeys, Stream, Survey, unattended};
use regard_models::{Checkpoint, Input, Model};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// `Ok` if an input was read and computed to the end, or the error with which it was refused.
pub type Outcome = Result<(), Box<dyn core::error::Error>>;

/// Runs a reader on `bytes` bytes of input. It may use at most 3 × `bytes` + 64 MiB of memory at any time.
fn bounded(bytes: usize, read: impl FnOnce() -> Outcome) -> Outcome {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let outcome = read();
    let (peak, most) = (MEMORY.peak_usage().saturating_sub(before), 3 * bytes + (64 << 20));
    assert!(peak <= most, "{bytes} bytes were read with {peak} bytes of memory, more than {most}");
    outcome
}

/// Reads a file of attention with its neighbours, and computes what the Heads room shows first.
fn attention(path: &str, file: &[u8], neighbour: Option<(&str, &[u8])>) -> Outcome {
    let open = |asked: &Path| -> std::io::Result<Box<dyn Stream>> {
        let asked = asked.to_str().unwrap_or_default();
        let found = [Some((path, file)), neighbour].into_iter().flatten();
        let bytes =
            found.into_iter().find(|(name, _)| *name == asked).map(|(_, bytes)| bytes.to_vec());
        Ok(Box::new(Cursor::new(bytes.ok_or_else(|| Error::from(ErrorKind::NotFound))?)))
    };
    let computed = QueriesAndKeys::open(&open, Path::new(path), &unattended);
    let maps = match AttentionMaps::open(&open, Path::new(path), None, &unattended) {
        Ok(maps) => maps,
        Err(_) if computed.is_ok() => return Ok(()),
        Err(wrong) => return Err(wrong.into()),
    };
    let _ = maps.tokens();
    for warning in Survey::new(&maps, &unattended)?.warnings() {
        assert!(!warning.to_string().is_empty());
    }
    Ok(())
}

/// A model of the repository whose input is prepared as this preprocessor_config.json says.
fn prepared(config: &[u8], weights: &[u8], preprocessor: &[u8]) -> (Checkpoint, Model) {
    let files = [
        ("config.json", config.to_vec()),
        ("model.safetensors", weights.to_vec()),
        ("preprocessor_config.json", preprocessor.to_vec()),
    ];
    let checkpoint = Checkpoint::from_files("model", files).expect("the model is there");
    let model = Model::load(&checkpoint).expect("the model is right");
    (checkpoint, model)
}

/// Reads a model whole: all tensors, the tokenizer with a text, and a forward pass.
fn model<'a>(files: impl IntoIterator<Item = (&'a str, Vec<u8>)>, text: &str) -> Outcome {
    read(&load(files)?, text)
}

fn load<'a>(
    files: impl IntoIterator<Item = (&'a str, Vec<u8>)>,
) -> Result<Model, Box<dyn core::error::Error>> {
    let checkpoint = Checkpoint::from_files("model", files)?;
    let names: Vec<String> = checkpoint.names().map(str::to_owned).collect();
    for name in &names {
        let _ = checkpoint.read(name); // a model may ignore a tensor of an unknown type
    }
    Ok(Model::load(&checkpoint)?)
}

/// Reads a text, if the model has a tokenizer, and computes a forward pass.
fn read(model: &Model, text: &str) -> Outcome {
    let mut ids = vec![0, 1];
    if let Some(tokenizer) = model.tokenizer() {
        ids = tokenizer.encode(text, None)?.ids;
        tokenizer.decode(&ids)?;
        tokenizer.unknown(text)?;
    }
    ids.truncate(4);
    let input = match model.description().embedding.frames {
        Some(frames) => Input::audio(vec![0.0; frames.bands * frames.count]),
        None => Input::tokens(ids),
    };
    run(model, &input.decoder(model.description().decoder_start.clone()))
}

/// Runs a model with all its places kept.
fn run(model: &Model, input: &Input) -> Outcome {
    let trace = model.pass().keep(["*"]).run(input)?;
    assert!(trace.places().count() > 0, "a pass keeps nothing");
    Ok(())
}
