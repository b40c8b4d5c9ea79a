//! config.json with the weights of a small model. The first byte chooses the model.
#![no_main]

use libfuzzer_sys::fuzz_target;

const WEIGHTS: [&[u8]; 4] = [
    include_bytes!("../../tests/golden/models/tiny-gpt2/model.safetensors"),
    include_bytes!("../../tests/golden/models/tiny-bert/model.safetensors"),
    include_bytes!("../../tests/golden/models/tiny-llama/model.safetensors"),
    include_bytes!("../../tests/golden/models/tiny-t5/model.safetensors"),
];

fuzz_target!(|data: &[u8]| {
    let Some((which, config)) = data.split_first() else { return };
    let weights = WEIGHTS[usize::from(*which) % WEIGHTS.len()].to_vec();
    regard_fuzz::bounded(data.len() + weights.len(), || {
        regard_fuzz::model([("config.json", config.to_vec()), ("model.safetensors", weights)]);
    });
});
