use std::path::{Path, PathBuf};

use regard_models::{Change, Model, Pass};

use super::super::failure::Failure;
use super::input::Reading;
use super::{changes, input, open};

/// Which model runs, what it reads, and what is changed.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    model: open::Args,

    #[command(flatten)]
    input: input::Args,

    #[command(flatten)]
    changes: changes::Args,
}

/// A model with what it reads and what is changed, before it runs.
pub(crate) struct Run {
    pub(crate) model: Model,
    pub(crate) reading: Reading,
    pub(crate) changes: Vec<Change>,
}

impl Args {
    /// The files that [`read`](Self::read) reads.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut files = self.model.checkpoint()?.files();
        files.extend(self.input.image().map(Path::to_owned));
        Ok(files)
    }

    /// Reads the model and the input.
    pub(crate) fn read(&self) -> Result<Run, Failure> {
        let (checkpoint, model) = self.model.open()?;
        let reading = self.input.read(&checkpoint, &model)?;
        let changes = self.changes.changes(&self.input, &reading.input, &checkpoint, &model)?;
        Ok(Run { model, reading, changes })
    }
}

impl Run {
    /// A forward pass with the changes.
    pub(crate) fn pass(&self) -> Pass<'_> {
        self.changes.iter().fold(self.model.pass(), |pass, change| pass.change(change.clone()))
    }
}
