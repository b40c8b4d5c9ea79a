//! The files of queries and keys.

use core::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use super::{LaboratoryInputs, LaboratoryRequest};
use crate::Host;
use crate::message::Shared;
use regard_figure::Label;
use regard_heads::QueriesAndKeys;
use serde::{Deserialize, Serialize};

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

/// A description of a file of queries and keys.
#[derive(Debug, Serialize, Deserialize)]
pub struct TokenFile {
    /// The number of heads.
    pub heads: usize,
    /// The number of queries, and of keys.
    pub tokens: usize,
    /// The number of features of a query and of a key.
    pub dim: usize,
    /// The labels of the queries and of the keys, if it has them.
    names: [Option<Vec<Label>>; 2],
}

impl TokenFile {
    fn of(file: &QueriesAndKeys) -> Self {
        let names = file.names().map(|names| names.map(<[Label]>::to_vec));
        Self { heads: file.heads(), tokens: file.tokens(), dim: file.dim(), names }
    }
}

#[derive(Clone)]
pub struct ReadFile {
    path: PathBuf,
    pub whole: Arc<QueriesAndKeys>,
    pub about: Shared<TokenFile>,
}

/// The files of the last request. Each is read once.
pub struct Files {
    host: Arc<dyn Host>,
    read: Vec<ReadFile>,
}

impl Files {
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self { host, read: Vec::new() }
    }

    /// Forgets the files that this request does not need.
    pub fn keep_for(&mut self, request: &LaboratoryRequest) {
        let present = request.inputs.source.path();
        let pinned = request.pinned.as_ref().and_then(|inputs| inputs.source.path());
        self.read.retain(|read| [present, pinned].contains(&Some(&read.path)));
    }

    /// The file that the inputs name, if they name one.
    pub fn get(
        &mut self,
        inputs: &LaboratoryInputs,
        progress: &(dyn Fn(f32) + Sync),
    ) -> Result<Option<ReadFile>, Error> {
        let Some(wanted) = inputs.source.path() else { return Ok(None) };
        if let Some(read) = self.read.iter().find(|read| read.path == wanted) {
            return Ok(Some(read.clone()));
        }
        let progress = |part| {
            progress(part);
            ControlFlow::Continue(())
        };
        let path = wanted.to_owned();
        match QueriesAndKeys::open(&|path| self.host.open(path), wanted, &progress) {
            Ok(file) => {
                let about = Shared(Arc::new(TokenFile::of(&file)));
                let read = ReadFile { path, whole: Arc::new(file), about };
                self.read.push(read.clone());
                Ok(Some(read))
            }
            Err(error) => Err(Error::File { path, error }),
        }
    }
}

/// The labels of the first `n` queries and keys.
pub fn names(file: Option<&TokenFile>, n: usize) -> Names {
    [0, 1].map(|side| (0..n).map(|i| name(file, side, i)).collect())
}

/// The label of a query (side 0) or a key (side 1): that of the file, or t0, t1, …
pub fn name(file: Option<&TokenFile>, side: usize, i: usize) -> Label {
    let of_file = file.and_then(|file| file.names[side].as_ref()?.get(i));
    of_file.cloned().unwrap_or_else(|| Label::plain(&format!("t{i}")))
}
