//! Tiny models beside this file, which `make.py` writes with what transformers gives for them.

use std::fs;
use std::path::{Path, PathBuf};

use regard_models::{Input, Model, Values};
use safetensors::{Dtype, SafeTensors};

/// The tokens that the models read.
pub const IDS: [u32; 12] = [5, 17, 3, 22, 9, 14, 1, 20, 7, 11, 2, 19];

pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Compares the attentions and logits of a model that reads the first `tokens` with the tensors `prefix/…` of a file, to 1e-4 of
/// max(1, the tensor's largest number).
pub fn check(model: &Model, tokens: usize, file: &str, prefix: &str) {
    assert_eq!(model.unused(), [""; 0], "{file}");
    let bytes = fs::read(path(file)).unwrap();
    let expected = SafeTensors::deserialize(&bytes).unwrap();
    let input = Input::tokens(&IDS[..tokens]);
    let trace = model.pass().keep_as_transformers().run(&input).unwrap();
    let found = trace.as_transformers(model.description());
    for name in ["attentions", "logits"] {
        let tensor = expected.tensor(&format!("{prefix}/{name}")).unwrap();
        assert_eq!(tensor.dtype(), Dtype::F32);
        let data = tensor.data().as_chunks().0.iter().map(|x| f32::from_le_bytes(*x)).collect();
        let expected = Values { shape: tensor.shape().to_vec(), data };
        assert_eq!(found[name].shape, expected.shape, "{file}: {prefix}/{name}");
        let largest = expected.data.iter().fold(1.0_f32, |largest, x| largest.max(x.abs()));
        for (x, y) in found[name].data.iter().zip(&expected.data) {
            assert!((x - y).abs() <= 1e-4 * largest, "{file}: {prefix}/{name}: {x} is not {y}");
        }
    }
}
