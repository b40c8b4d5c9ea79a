//! Downloads, into the layout of the cache.
//!
//! Each file is requested from `ENDPOINT/REPOSITORY/resolve/main/FILE`, by GET alone. Redirections are followed one by one: the
//! first answer has the file's hash and the commit, and the last one has its bytes. Bytes go to `blobs/HASH.incomplete`, and an
//! interrupted download continues where it ended. A file gets its name when its size and its hash are right.

use core::fmt::Write as _;
use core::time::Duration;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use ureq::http::Response;
use ureq::http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, LOCATION};
use ureq::{Agent, Body};

use super::{CONFIG, Cache, INDEX, Repository, WEIGHTS};
use crate::failure::Failure;
use crate::whole_file;

const ENDPOINT: &str = "https://huggingface.co";

/// Files that not every model has.
const OPTIONAL: [&str; 8] = [
    "tokenizer_config.json",
    "added_tokens.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "generation_config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "1_Pooling/config.json",
];

/// The files of a vocabulary, in the place of tokenizer.json. Those of SentencePiece are for transformers, which converts them.
const VOCABULARY: [&str; 10] = [
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "qwen.tiktoken",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "spm.model",
    "source.spm",
    "target.spm",
];

/// The most redirections that are followed.
const REDIRECTIONS: usize = 8;

/// Downloads a model, and returns the folder of its snapshot.
pub(crate) fn download(repository: &Repository, cache: &Cache) -> Result<PathBuf, Failure> {
    let endpoint = std::env::var("HF_ENDPOINT").ok().filter(|endpoint| !endpoint.is_empty());
    let endpoint = endpoint.unwrap_or_else(|| ENDPOINT.to_owned());
    let download = Download {
        agent: Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(Duration::from_secs(30)))
            .timeout_recv_response(Some(Duration::from_mins(1)))
            .build()
            .into(),
        base: format!("{}/{}/resolve/main", endpoint.trim_end_matches('/'), repository.name()),
        folder: cache.folder(repository),
    };
    Ok(download.all().with_context(|| format!("downloading {}", repository.name()))?)
}

struct Download {
    agent: Agent,
    /// The beginning of the addresses of all files.
    base: String,
    /// The repository's folder in the cache.
    folder: PathBuf,
}

/// The server's answer about a file before its bytes.
#[derive(Debug, Default)]
struct Facts {
    commit: Option<String>,
    /// The name of the blob: a hash, if the server is Hugging Face's or answers in the same way.
    tag: Option<String>,
    size: Option<u64>,
}

impl Download {
    fn all(&self) -> Result<PathBuf> {
        let (commit, config) = self
            .file(CONFIG)?
            .with_context(|| format!("{}/{CONFIG}: there is no such file", self.base))?;
        let snapshot = self.snapshot(&commit);
        self.link(&commit, CONFIG, &config)?;
        let fetch = |name: &str| -> Result<bool> {
            let Some((found, blob)) = self.file(name)? else { return Ok(false) };
            ensure!(
                found == commit,
                "{name} is of another commit than {CONFIG}: the model has changed, try again"
            );
            self.link(&commit, name, &blob)?;
            Ok(true)
        };
        let vocabulary = if fetch("tokenizer.json")? { &[][..] } else { &VOCABULARY };
        for name in OPTIONAL.iter().chain(vocabulary) {
            fetch(name)?;
        }
        if !fetch(WEIGHTS)? {
            ensure!(fetch(INDEX)?, "the repository has neither {WEIGHTS} nor {INDEX}");
            for shard in shards(&fs::read(snapshot.join(INDEX))?)? {
                ensure!(fetch(&shard)?, "the repository has no {shard}, which {INDEX} names");
            }
        }
        let reference = self.folder.join("refs/main");
        fs::create_dir_all(self.folder.join("refs"))?;
        whole_file::write(&reference, commit.as_bytes())?;
        Ok(snapshot)
    }

    /// Downloads a file, unless its blob exists. Returns the commit and the blob's name, or `None` if the server has no such
    /// file.
    fn file(&self, name: &str) -> Result<Option<(String, String)>> {
        let address = format!("{}/{name}", self.base);
        let fetched = self.fetch(name, &address).with_context(|| address.clone())?;
        Ok(fetched)
    }

    fn fetch(&self, name: &str, address: &str) -> Result<Option<(String, String)>> {
        let mut facts = Facts::default();
        let Some((address, response)) = self.follow(address, None, &mut facts)? else {
            return Ok(None);
        };
        let tag = facts.tag.clone().with_context(|| "the answer has no ETag")?;
        let commit = facts.commit.clone().unwrap_or_else(|| "main".to_owned());
        ensure!(
            is_name(&tag) && is_name(&commit),
            "the hash {tag:?} or the commit {commit:?} is no file name"
        );
        let blob = self.blob(&tag);
        if blob.exists() {
            return Ok(Some((commit, tag)));
        }
        fs::create_dir_all(self.folder.join("blobs"))?;
        let part = self.blob(&format!("{tag}.incomplete"));
        let there = part.metadata().map_or(0, |part| part.len());
        let wanted = there > 0 && facts.size.is_none_or(|size| there <= size);
        let (response, start) = if wanted && facts.size == Some(there) {
            (None, there)
        } else if wanted {
            drop(response);
            match self.follow(&address, Some(there), &mut Facts::default())? {
                Some((_, response)) if continues(&response, there) => (Some(response), there),
                // The server sends the whole file, or rejects the range.
                Some((_, response)) if response.status() == 200 => (Some(response), 0),
                _ => (
                    self.follow(&address, None, &mut Facts::default())?
                        .map(|(_, response)| response),
                    0,
                ),
            }
        } else {
            (Some(response), 0)
        };
        if let Some(response) = response {
            receive(name, response, &part, start, facts.size)?;
        }
        check(&part, &tag, facts.size)?;
        fs::rename(&part, &blob)?;
        Ok(Some((commit, tag)))
    }

    /// The last answer of a chain of redirections, and its address; `None` if there is no such file. The facts in the answers
    /// are kept. If several answers have the same fact, the first one counts, because a server that redirects knows the file's
    /// hash.
    fn follow(
        &self,
        address: &str,
        from: Option<u64>,
        facts: &mut Facts,
    ) -> Result<Option<(String, Response<Body>)>> {
        let mut address = address.to_owned();
        for _ in 0..REDIRECTIONS {
            let mut request = self.agent.get(&address).header("accept-encoding", "identity");
            if let Some(from) = from {
                request = request.header("range", format!("bytes={from}-"));
            }
            let response = request.call()?;
            facts.note(&response);
            match response.status().as_u16() {
                200 | 206 | 416 => return Ok(Some((address, response))),
                301 | 302 | 303 | 307 | 308 => {
                    let to = header(&response, LOCATION.as_str())
                        .context("a redirection without an address")?;
                    address = joined(&address, &to)?;
                }
                404 => return Ok(None),
                status @ (401 | 403) => {
                    bail!(
                        "the server answers {status}: the repository does not exist, or it is not open to everyone"
                    )
                }
                status => bail!("the server answers {status}"),
            }
        }
        bail!("there are more than {REDIRECTIONS} redirections")
    }

    fn blob(&self, tag: &str) -> PathBuf {
        self.folder.join("blobs").join(tag)
    }

    fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// Puts a blob into a snapshot under its name.
    fn link(&self, commit: &str, name: &str, tag: &str) -> Result<()> {
        let snapshot = self.snapshot(commit);
        let link = snapshot.join(name);
        fs::create_dir_all(link.parent().unwrap_or(&snapshot))?;
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link)?;
        }
        if cfg!(unix) {
            #[cfg(unix)]
            {
                let up = "../".repeat(2 + name.matches('/').count());
                std::os::unix::fs::symlink(format!("{up}blobs/{tag}"), &link)?;
            }
        } else {
            fs::copy(self.blob(tag), &link)?;
        }
        Ok(())
    }
}

impl Facts {
    fn note(&mut self, response: &Response<Body>) {
        let found = |name: &str| header(response, name);
        let commit = found("x-repo-commit");
        let tag = found("x-linked-etag").or_else(|| found(ETAG.as_str()));
        let tag = tag.map(|tag| tag.trim_start_matches("W/").trim_matches('"').to_owned());
        let length = found(CONTENT_LENGTH.as_str()).filter(|_| response.status() == 200);
        let size = found("x-linked-size").or(length).and_then(|size| size.parse().ok());
        self.commit = self.commit.take().or(commit);
        self.tag = self.tag.take().or(tag);
        self.size = self.size.or(size);
    }
}

fn header(response: &Response<Body>, name: &str) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

/// Whether a name from a server stays within its folder.
fn is_name(name: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.chars().all(known)
}

/// The address to which a redirection leads.
fn joined(from: &str, to: &str) -> Result<String> {
    if to.starts_with("http://") || to.starts_with("https://") {
        ensure!(
            to.starts_with("https://") || from.starts_with("http://"),
            "a redirection from https to {to}"
        );
        return Ok(to.to_owned());
    }
    ensure!(to.starts_with('/') && !to.starts_with("//"), "a redirection to {to:?}");
    let host = from.find("://").map(|at| at + 3).unwrap_or(0);
    let end = from[host..].find('/').map_or(from.len(), |at| host + at);
    Ok(format!("{}{to}", &from[..end]))
}

/// Whether an answer has the bytes from `start` on.
fn continues(response: &Response<Body>, start: u64) -> bool {
    let range = header(response, CONTENT_RANGE.as_str()).unwrap_or_default();
    response.status() == 206 && range.starts_with(&format!("bytes {start}-"))
}

/// Writes the bytes of an answer after the first `start` bytes of a file.
fn receive(
    name: &str,
    response: Response<Body>,
    part: &Path,
    start: u64,
    size: Option<u64>,
) -> Result<()> {
    // A small file has arrived before anyone could read a progress bar.
    let bar =
        size.filter(|size| *size > 1 << 20).map_or_else(ProgressBar::hidden, ProgressBar::new);
    let template =
        "{msg} {wide_bar} {decimal_bytes} of {decimal_total_bytes}, {decimal_bytes_per_sec}";
    let bar = bar.with_style(ProgressStyle::with_template(template)?).with_message(name.to_owned());
    let mut file = OpenOptions::new()
        .create(true)
        .write(true)
        .append(start > 0)
        .truncate(start == 0)
        .open(part)?;
    bar.set_position(start);
    let mut body = response.into_body().into_reader();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = body
            .read(&mut buffer)
            .context("the connection broke; the same command goes on from here")?;
        if read == 0 {
            break;
        }
        file.write_all(&buffer[..read])?;
        bar.inc(read as u64);
    }
    file.sync_all()?;
    bar.finish_and_clear();
    Ok(())
}

/// Checks that a file has its size, and that its hash is its tag: SHA-256, or Git's SHA-1. A wrong file is removed.
fn check(part: &Path, tag: &str, size: Option<u64>) -> Result<()> {
    let found = part.metadata()?.len();
    if let Some(size) = size.filter(|size| *size != found) {
        if found > size {
            fs::remove_file(part)?;
        }
        bail!("{found} bytes of {size} came; the same command goes on from here");
    }
    let hex = tag.bytes().all(|b| b.is_ascii_hexdigit());
    let hash = match tag.len() {
        64 if hex => hash::<Sha256>(part, Sha256::new())?,
        40 if hex => hash(part, Sha1::new().chain_update(format!("blob {found}\0")))?,
        _ => return Ok(()),
    };
    if !hash.eq_ignore_ascii_case(tag) {
        fs::remove_file(part)?;
        return Err(anyhow!(
            "the file has the hash {hash}, but {tag} was announced; it is removed"
        ));
    }
    Ok(())
}

fn hash<D: sha2::Digest>(path: &Path, mut digest: D) -> Result<String> {
    let (mut file, mut buffer) = (File::open(path)?, vec![0; 1 << 16]);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        digest.update(&buffer[..read]);
    }
    let mut hex = String::new();
    for byte in digest.finalize() {
        write!(hex, "{byte:02x}")?;
    }
    Ok(hex)
}

/// The shards that an index names, each a file of the same folder.
pub(super) fn shards(index: &[u8]) -> Result<Vec<String>> {
    let index = serde_json::from_slice(index).context(INDEX)?;
    let shards = regard_tensors::shards(&index).map_err(|(tensor, what)| {
        let tensor = tensor.map_or_else(String::new, |name| format!("the tensor {name} "));
        anyhow!("{INDEX}: {tensor}{what}")
    })?;
    Ok(shards.into_keys().collect())
}
