//! tokenizer.json of a small model.

const CONFIG: &[u8] = include_bytes!("../../../tests/golden/models/tiny-gpt2/config.json");
const WEIGHTS: &[u8] = include_bytes!("../../../tests/golden/models/tiny-gpt2/model.safetensors");
/// The class that takes the file as it is. GPT-2's own would put other parts in the place of some.
const CLASS: &[u8] = br#"{"tokenizer_class": "PreTrainedTokenizerFast"}"#;

pub(crate) fn fuzz(tokenizer: &[u8]) -> crate::Outcome {
    read(tokenizer, "The cat sat.")
}

/// Reads a text. A vocabulary takes up to 24 times the size of its file.
pub(super) fn read(tokenizer: &[u8], text: &str) -> crate::Outcome {
    crate::bounded(8 * tokenizer.len() + text.len() + WEIGHTS.len(), || {
        let files = [
            ("config.json", CONFIG.to_vec()),
            ("model.safetensors", WEIGHTS.to_vec()),
            ("tokenizer.json", tokenizer.to_vec()),
            ("tokenizer_config.json", CLASS.to_vec()),
        ];
        let model = crate::load(files)?;
        model.need_tokenizer()?;
        crate::read(&model, text)
    })
}
