use regard_models::{Change, Checkpoint, Model, Pass, Prepared};

use super::super::destination::Destination;
use super::{changes, input, open};
use crate::failure::Failure;

/// The model, its input and the changes, as options.
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

/// A model with its input and the changes, before it runs.
pub(crate) struct Run {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) model: Model,
    pub(crate) reading: Prepared,
    pub(crate) changes: Vec<Change>,
}

impl Args {
    /// Reads the model and the input. It checks before and after reading that the run overwrites none of their files.
    pub(crate) fn read_for(&self, to: &Destination<'_>) -> Result<Run, Failure> {
        self.model.checkpoint()?;
        to.check()?;
        let run = self.read()?;
        to.check()?;
        Ok(run)
    }

    /// Reads the model and the input.
    pub(crate) fn read(&self) -> Result<Run, Failure> {
        let (checkpoint, model) = self.model.open()?;
        let reading = self.input.read(&checkpoint, &model)?;
        let changes = self.changes.changes(&self.input, &reading.input, &checkpoint, &model)?;
        Ok(Run { checkpoint, model, reading, changes })
    }
}

impl Run {
    /// A forward pass with the changes.
    pub(crate) fn pass(&self) -> Pass<'_> {
        self.changes.iter().fold(self.model.pass(), |pass, change| pass.change(change.clone()))
    }
}
