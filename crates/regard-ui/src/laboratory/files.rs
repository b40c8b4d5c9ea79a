//! The files of queries and keys.

use core::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use super::{LaboratoryInputs, Request};
use crate::Host;
use regard_figure::Label;
use regard_heads::QueriesAndKeys;

/// The labels of queries and of keys.
pub type Names = [Vec<Label>; 2];

/// An error of computing an outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read or does not hold queries and keys.
    #[error("{} was not opened: {error}", .path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        error: regard_heads::Error,
    },

    /// The kernels refuse the inputs.
    #[error(transparent)]
    Attention(#[from] regard::Error),
}

/// The files of the last request. Each is read once.
pub struct Files {
    host: Arc<dyn Host>,
    read: Vec<(PathBuf, Arc<QueriesAndKeys>)>,
}

impl Files {
    /// A store that has read no file. `host` opens files.
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self { host, read: Vec::new() }
    }

    /// Forgets the files that this request does not need.
    pub fn keep_for(&mut self, request: &Request) {
        let present = request.inputs.source.path();
        let pinned = request.pinned.as_ref().and_then(|inputs| inputs.source.path());
        self.read.retain(|(path, _)| [present, pinned].contains(&Some(path)));
    }

    /// The file that the inputs name, if they name one.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read.
    pub fn get(
        &mut self,
        inputs: &LaboratoryInputs,
        progress: &(dyn Fn(f32) + Sync),
    ) -> Result<Option<Arc<QueriesAndKeys>>, Error> {
        let Some(wanted) = inputs.source.path() else { return Ok(None) };
        if let Some((_, file)) = self.read.iter().find(|(path, _)| path == wanted) {
            return Ok(Some(Arc::clone(file)));
        }
        let progress = |part| {
            progress(part);
            ControlFlow::Continue(())
        };
        let path = wanted.to_owned();
        match QueriesAndKeys::open_with(&|path| self.host.open(path), wanted, &progress) {
            Ok(file) => {
                let file = Arc::new(file);
                self.read.push((path, Arc::clone(&file)));
                Ok(Some(file))
            }
            Err(error) => Err(Error::File { path, error }),
        }
    }
}

/// The labels of the first `n` queries and keys.
pub fn names(file: Option<&QueriesAndKeys>, n: usize) -> Names {
    [0, 1].map(|side| (0..n).map(|i| name(file, side, i)).collect())
}

/// The label of a query (side 0) or a key (side 1): that of the file, or t0, t1, …
pub fn name(file: Option<&QueriesAndKeys>, side: usize, i: usize) -> Label {
    let of_file = file.and_then(|file| file.names()[side]?.get(i));
    of_file.cloned().unwrap_or_else(|| Label::plain(&format!("t{i}")))
}
