//! Models by name, in the cache that Hugging Face's libraries share.
//!
//! The cache has a folder for each repository, `models--ORG--NAME`: `blobs` has files by their hashes, `snapshots/COMMIT` has
//! links to them by their names, and `refs/main` has the newest commit that was fetched.

mod download;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

pub(crate) use self::download::download;
use crate::opened;

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// A repository of a model: `org/name`, or a name alone for some old ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repository(String);

impl Repository {
    /// The repository of this name, if the name is valid.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let part = |part: &str| {
            let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !part.is_empty()
                && part.chars().all(known)
                && !part.starts_with('.')
                && !part.contains("..")
        };
        let parts: Vec<&str> = name.split('/').collect();
        (parts.len() <= 2 && parts.into_iter().all(part)).then(|| Self(name.to_owned()))
    }

    /// The name in addresses.
    fn name(&self) -> &str {
        &self.0
    }
}

/// The folder of all repositories.
#[derive(Clone, Debug)]
pub(crate) struct Cache(PathBuf);

impl Cache {
    /// The cache in `HF_HUB_CACHE`, else `hub` in `HF_HOME`, else `huggingface/hub` in `XDG_CACHE_HOME` or in `.cache` of the
    /// home folder.
    pub(crate) fn of_environment() -> Result<Self> {
        let set =
            |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let folder = set("HF_HUB_CACHE")
            .or_else(|| set("HF_HOME").map(|home| home.join("hub")))
            .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("huggingface/hub")))
            .or_else(|| env::home_dir().map(|home| home.join(".cache/huggingface/hub")));
        folder
            .map(Self)
            .context("there is no home folder for the Hugging Face cache; HF_HOME names one")
    }

    pub(crate) fn folder(&self, repository: &Repository) -> PathBuf {
        self.0.join(format!("models--{}", repository.0.replace('/', "--")))
    }

    /// The names of the models in the cache, in alphabetical order.
    pub(crate) fn names(&self) -> Vec<String> {
        let folders = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let name = |folder: fs::DirEntry| {
            let folder = folder.file_name().into_string().ok()?;
            let name = folder.strip_prefix("models--")?.replacen("--", "/", 1);
            Repository::named(&name).filter(|repository| self.snapshot(repository).is_some())?;
            Some(name)
        };
        let mut names: Vec<String> = folders.filter_map(name).collect();
        names.sort_unstable();
        names
    }

    /// The folder of the newest snapshot of a repository, if there is one.
    pub(crate) fn snapshot(&self, repository: &Repository) -> Option<PathBuf> {
        let folder = self.folder(repository);
        let reference = folder.join("refs/main");
        let commit = fs::read_to_string(&reference).ok()?;
        opened::record([reference]);
        let snapshot = folder.join("snapshots").join(commit.trim());
        snapshot.is_dir().then_some(snapshot)
    }
}

/// Whether a snapshot has a configuration and all weights.
pub(crate) fn is_complete(snapshot: &Path) -> bool {
    let has = |name: &str| snapshot.join(name).exists();
    let shards = || {
        let index = fs::read(snapshot.join(INDEX)).ok()?;
        Some(download::shards(&index).ok()?.iter().all(|shard| has(shard)))
    };
    has(CONFIG) && (has(WEIGHTS) || shards().unwrap_or(false)) || gguf(snapshot).is_some()
}

/// The path to open in a snapshot: the folder, or the only GGUF file of a folder without a configuration.
pub(crate) fn model_in(snapshot: &Path) -> PathBuf {
    gguf(snapshot)
        .filter(|_| !snapshot.join(CONFIG).exists())
        .unwrap_or_else(|| snapshot.to_owned())
}

/// The only GGUF file of a folder.
fn gguf(folder: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut files = files.filter(|path| path.extension().is_some_and(|kind| kind == "gguf"));
    files.next().filter(|_| files.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::{Cache, Repository};

    #[test]
    fn names_of_repositories_lead_nowhere_else() {
        for name in ["gpt2", "openai-community/gpt2", "HuggingFaceTB/SmolLM2-135M", "a/b.c_d-e"] {
            assert!(Repository::named(name).is_some(), "{name}");
        }
        for name in
            ["", "/", "a/", "/a", "a/b/c", "../a", "a/..", "a b", "a/b?c", ".hidden", "a\\b"]
        {
            assert!(Repository::named(name).is_none(), "{name}");
        }
    }

    #[test]
    fn the_models_of_the_cache_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache(folder.path().to_owned());
        for (name, is_whole) in [("models--b--c", true), ("models--a", true), ("models--d", false)]
        {
            let model = folder.path().join(name);
            std::fs::create_dir_all(model.join("snapshots/1")).unwrap();
            if is_whole {
                std::fs::create_dir(model.join("refs")).unwrap();
                std::fs::write(model.join("refs/main"), "1").unwrap();
            }
        }
        assert_eq!(cache.names(), ["a", "b/c"]);
        assert_eq!(Cache(folder.path().join("none")).names(), [""; 0]);
    }
}
