//! The files beside the tensors in the folder of a model.

/// A file of a Hugging Face folder that describes the model, by its name.
///
/// A checkpoint reads no file beside the tensors that is not named here. So [`Checkpoint::files`](crate::Checkpoint::files), by
/// which a command knows what it must not overwrite, has all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside(&'static str);

impl Beside {
    pub(crate) const CONFIG: Self = Self("config.json");
    pub(crate) const INDEX: Self = Self("model.safetensors.index.json");
    pub(crate) const GENERATION_CONFIG: Self = Self("generation_config.json");
    pub(crate) const TOKENIZER: Self = Self("tokenizer.json");
    pub(crate) const TOKENIZER_CONFIG: Self = Self("tokenizer_config.json");
    pub(crate) const VOCAB_TXT: Self = Self("vocab.txt");
    pub(crate) const VOCAB_JSON: Self = Self("vocab.json");
    pub(crate) const MERGES: Self = Self("merges.txt");
    /// The first Qwen's tokens and ranks.
    pub(crate) const TIKTOKEN: Self = Self("qwen.tiktoken");
    pub(crate) const CHAT_TEMPLATE: Self = Self("chat_template.jinja");
    pub(crate) const ADDED_TOKENS: Self = Self("added_tokens.json");
    pub(crate) const SPECIAL_TOKENS_MAP: Self = Self("special_tokens_map.json");
    pub(crate) const PREPROCESSOR_CONFIG: Self = Self("preprocessor_config.json");
    /// The settings of images, sound and texts in one file, which transformers 5 writes.
    pub(crate) const PROCESSOR_CONFIG: Self = Self("processor_config.json");
    /// How sentence-transformers makes one vector of a text.
    pub(crate) const POOLING: Self = Self("1_Pooling/config.json");
    /// The files of SentencePiece, which are not read: one of a model, or the first one of a translator.
    pub(crate) const SENTENCEPIECE: [Self; 5] = [
        Self("tokenizer.model"),
        Self("spiece.model"),
        Self("sentencepiece.bpe.model"),
        Self("spm.model"),
        Self("source.spm"),
    ];
    pub(crate) const ALL: [Self; 15] = [
        Self::CONFIG,
        Self::INDEX,
        Self::GENERATION_CONFIG,
        Self::TOKENIZER,
        Self::TOKENIZER_CONFIG,
        Self::VOCAB_TXT,
        Self::VOCAB_JSON,
        Self::MERGES,
        Self::TIKTOKEN,
        Self::CHAT_TEMPLATE,
        Self::ADDED_TOKENS,
        Self::SPECIAL_TOKENS_MAP,
        Self::PREPROCESSOR_CONFIG,
        Self::PROCESSOR_CONFIG,
        Self::POOLING,
    ];

    /// The files without which the tensors have no meaning.
    pub(crate) const DESCRIBE: [Self; 6] = [
        Self::CONFIG,
        Self::TOKENIZER,
        Self::VOCAB_TXT,
        Self::VOCAB_JSON,
        Self::MERGES,
        Self::TIKTOKEN,
    ];

    /// The name of the file in the folder.
    pub(crate) const fn name(self) -> &'static str {
        self.0
    }
}
