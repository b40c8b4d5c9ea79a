//! config.json with the weights of a small model. The first byte chooses the model.

const WEIGHTS: [&[u8]; 4] = [
    include_bytes!("../../../tests/golden/models/tiny-gpt2/model.safetensors"),
    include_bytes!("../../../tests/golden/models/tiny-bert/model.safetensors"),
    include_bytes!("../../../tests/golden/models/tiny-llama/model.safetensors"),
    include_bytes!("../../../tests/golden/models/tiny-t5/model.safetensors"),
];

pub(crate) fn fuzz(data: &[u8]) -> crate::Outcome {
    let Some((which, config)) = data.split_first() else { return Err("it is empty".into()) };
    let weights = WEIGHTS[usize::from(*which) % WEIGHTS.len()].to_vec();
    crate::bounded(data.len() + weights.len(), || {
        crate::model([("config.json", config.to_vec()), ("model.safetensors", weights)], "")
    })
}
