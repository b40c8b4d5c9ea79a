//! The files beside the tensors in the folder of a model.

/// A file of a Hugging Face folder that describes the model.
///
/// A checkpoint reads no file beside the tensors that is not named here. So [`Checkpoint::files`](crate::Checkpoint::files), by
/// which a command knows what it must not overwrite, has all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Beside {
    Config,
    Index,
    GenerationConfig,
    Tokenizer,
    TokenizerConfig,
    ChatTemplate,
    PreprocessorConfig,
}

impl Beside {
    pub(crate) const ALL: [Self; 7] = [
        Self::Config,
        Self::Index,
        Self::GenerationConfig,
        Self::Tokenizer,
        Self::TokenizerConfig,
        Self::ChatTemplate,
        Self::PreprocessorConfig,
    ];

    /// The name of the file in the folder.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Config => "config.json",
            Self::Index => "model.safetensors.index.json",
            Self::GenerationConfig => "generation_config.json",
            Self::Tokenizer => "tokenizer.json",
            Self::TokenizerConfig => "tokenizer_config.json",
            Self::ChatTemplate => "chat_template.jinja",
            Self::PreprocessorConfig => "preprocessor_config.json",
        }
    }
}
