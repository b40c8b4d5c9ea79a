//! What is fuzzed: [`TARGETS`], and what they share.
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

/// Runs a reader of `bytes` bytes. It may have at most 3 × `bytes` + 64 MiB in memory at any time.
fn bounded(bytes: usize, read: impl FnOnce()) {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    read();
    let (peak, most) = (MEMORY.peak_usage().saturating_sub(before), 3 * bytes + (64 << 20));
    assert!(peak <= most, "{bytes} bytes were read with {peak} bytes of memory, more than {most}");
}

/// Reads a file of attention with its neighbours, and computes what the Heads room shows first.
fn attention(path: &str, file: &[u8], neighbour: Option<(&str, &[u8])>) {
    let open = |asked: &Path| -> std::io::Result<Box<dyn Stream>> {
        let asked = asked.to_str().unwrap_or_default();
        let found = [Some((path, file)), neighbour].into_iter().flatten();
        let bytes =
            found.into_iter().find(|(name, _)| *name == asked).map(|(_, bytes)| bytes.to_vec());
        Ok(Box::new(Cursor::new(bytes.ok_or_else(|| Error::from(ErrorKind::NotFound))?)))
    };
    if let Ok(maps) = AttentionMaps::open_with(&open, Path::new(path), None, &unattended) {
        let _ = maps.tokens();
        if let Ok(survey) = Survey::new(&maps, &unattended) {
            assert_eq!(
                survey.warnings().len(),
                survey.warnings().iter().map(ToString::to_string).count()
            );
        }
    }
    let _ = QueriesAndKeys::open_with(&open, Path::new(path), &unattended);
}

/// Reads a model whole: all tensors, the tokenizer and a short forward pass.
fn model<'a>(files: impl IntoIterator<Item = (&'a str, Vec<u8>)>) {
    let Ok(checkpoint) = Checkpoint::from_files("model", files) else { return };
    let names: Vec<String> = checkpoint.names().map(str::to_owned).collect();
    for name in &names {
        let _ = checkpoint.read(name);
    }
    let Ok(model) = Model::load(&checkpoint) else { return };
    if let Some(tokenizer) = model.tokenizer()
        && let Ok(input) = tokenizer.encode("The cat sat.", None)
    {
        let _ = tokenizer.decode(&input.ids);
        let _ = model
            .pass()
            .keep(["logits"])
            .run(&Input::tokens(input.ids[..input.ids.len().min(4)].to_vec()));
    }
}
