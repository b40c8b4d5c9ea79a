use std::path::PathBuf;

use regard_models::{Checkpoint, Model};

use super::working_on;
use crate::failure::{BadInput as _, Failure};
use crate::model_files;

/// The model, as an argument.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// A Hugging Face folder, a .gguf file, `english`, `story` or `digits` (the models that come with the program), or a name
    /// such as openai-community/gpt2, which is looked for in the local Hugging Face cache (HF_HOME)
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// Download a model that is not in the cache, from HF_ENDPOINT or else from https://huggingface.co
    #[arg(long)]
    download: bool,
}

impl Args {
    /// The model's name as the user wrote it.
    pub(crate) fn name(&self) -> String {
        self.model.display().to_string()
    }

    /// The model's files. Only their headers are read.
    pub(crate) fn checkpoint(&self) -> Result<Checkpoint, Failure> {
        model_files::checkpoint(&self.model, self.download)
    }

    /// The model with its weights.
    pub(crate) fn open(&self) -> Result<(Checkpoint, Model), Failure> {
        let checkpoint = self.checkpoint()?;
        model_files::allow("the weights take", checkpoint.bytes())?;
        let model = working_on(
            "reading",
            checkpoint.bytes(),
            true,
            || checkpoint.bytes_read(),
            || Model::load(&checkpoint),
        )
        .bad_input()?;
        Ok((checkpoint, model))
    }
}
