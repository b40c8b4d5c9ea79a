//! Helpers of several tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use regard_models::{Change, Checkpoint, Input, Model, Pass, Values};
use regard_tests::models::golden;
use regard_tests::tensor::Tensor;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

/// The tokens that the models of `data/converted.py` read.
pub const IDS: [u32; 12] = [5, 17, 3, 22, 9, 14, 1, 20, 7, 11, 2, 19];

/// A file that a script beside it writes.
pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// One of the repository's models, which programs carry with them.
pub fn bundled(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models").join(name)
}

pub fn open(name: &str) -> Model {
    Model::open(golden(name)).unwrap()
}

pub fn json(path: impl AsRef<Path>) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// A copy of a golden model that a test may spoil.
pub fn copy(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in fs::read_dir(golden(name)).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    folder
}

/// A golden model with another file beside its weights.
pub fn with_file(name: &str, file: &'static str, content: &Value) -> Checkpoint {
    let read = |file: &str| fs::read(golden(name).join(file)).unwrap();
    let files = [
        ("config.json", read("config.json")),
        ("model.safetensors", read("model.safetensors")),
        (file, content.to_string().into_bytes()),
    ];
    Checkpoint::from_files("tiny", files).unwrap()
}

/// The tensor of this name. Ids are widened to f32, which holds them exactly.
pub fn tensor(file: &SafeTensors<'_>, name: &str) -> Values {
    let Tensor { shape, data, dtype } = Tensor::read(file, name).unwrap().unwrap();
    assert!(matches!(dtype, Dtype::F32 | Dtype::I64), "{name}: {dtype:?}");
    Values { shape, data }
}

fn waves(numbers: usize) -> Vec<f32> {
    (0..numbers).map(|i| (i as f32 * 0.37).sin()).collect()
}

/// An input of any model: an image, a spectrogram or some tokens.
pub fn input(model: &Model) -> Input {
    let description = model.description();
    if let Some(patches) = &description.embedding.patches {
        let numbers = patches.channels * patches.height * patches.width;
        return Input::image(waves(numbers));
    }
    let input = match description.embedding.frames {
        Some(frames) => Input::audio(waves(frames.bands * frames.count)),
        None => Input::tokens((3..12).collect::<Vec<_>>()),
    };
    if description.encoder.is_some() { input.decoder([0, 7, 5, 9]) } else { input }
}

pub fn changed<'m>(pass: Pass<'m>, changes: &[Change]) -> Pass<'m> {
    changes.iter().fold(pass, |pass, change| pass.change(change.clone()))
}

/// The place of the largest logit, the first of equal ones.
pub fn best(logits: &[f32]) -> u32 {
    let best = (0..logits.len()).reduce(|i, j| if logits[j] > logits[i] { j } else { i });
    best.unwrap() as u32
}

pub fn assert_says(said: &str, parts: &[&str]) {
    assert!(!said.contains('\n'), "{said}");
    for part in parts {
        assert!(said.contains(part), "{said:?} does not say {part:?}");
    }
}

/// Asserts that no number is off by more than 1e-4 of max(1, the largest expected number).
pub fn assert_near(found: &Values, expected: &Values, what: &str) {
    assert_eq!(found.shape, expected.shape, "{what}");
    let largest = expected.data.iter().fold(1.0_f32, |largest, x| largest.max(x.abs()));
    for (x, y) in found.data.iter().zip(&expected.data) {
        assert!((x - y).abs() <= 1e-4 * largest, "{what}: {x} is not {y}");
    }
}

/// The tensors that transformers gives of a run with these changes.
pub fn as_transformers(
    model: &Model,
    changes: &[Change],
    input: &Input,
) -> BTreeMap<String, Values> {
    let outputs = model.description().outputs();
    let pass = model.pass().keep(outputs.into_iter().flat_map(|output| output.places));
    changed(pass, changes).run(input).unwrap().as_transformers(model.description())
}

/// Compares a run of the first `tokens` with the tensors `prefix/…` of a file. A decoder beside an encoder reads four of them.
pub fn check(model: &Model, tokens: usize, file: &str, prefix: &str) {
    assert_eq!(model.unused(), [""; 0], "{file}");
    let bytes = fs::read(data(file)).unwrap();
    let expected = SafeTensors::deserialize(&bytes).unwrap();
    let mut input = Input::tokens(&IDS[..tokens]);
    if model.description().encoder.is_some() {
        input = input.decoder(&IDS[..4]);
    }
    let found = as_transformers(model, &[], &input);
    let mut compared = 0;
    for name in expected.names() {
        let Some(of_run) = name.strip_prefix(prefix).and_then(|name| name.strip_prefix('/')) else {
            continue;
        };
        assert_near(&found[of_run], &tensor(&expected, name), &format!("{file}: {name}"));
        compared += 1;
    }
    assert!(compared >= 2, "{file} has no tensors of {prefix}");
}
