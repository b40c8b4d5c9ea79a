//! `--download` from a server on the loopback, which answers as Hugging Face's does: with redirections, hashes and ranges, and
//! without HEAD.

use core::time::Duration;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
#[cfg(unix)]
use std::process::Stdio;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::text;
use regard_tests::attention_files::Folder;
use regard_tests::models::golden;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn hex(digest: &[u8]) -> String {
    let mut hex = String::new();
    for byte in digest {
        core::fmt::Write::write_fmt(&mut hex, format_args!("{byte:02x}")).unwrap();
    }
    hex
}

/// The faults of a server.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    /// The first time, the weights end after this many bytes.
    breaks_after: Option<usize>,
    /// The first time, the server waits this long after half of the weights.
    waits: Option<Duration>,
    /// One byte of the weights is wrong.
    changes_a_byte: bool,
    /// A range is answered with the whole file.
    ignores_ranges: bool,
}

/// A server with the files of a repository, and the requests that it has seen.
struct Server {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(files: BTreeMap<String, Vec<u8>>, faults: Faults) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            let mut faults = faults;
            // A test makes far fewer requests.
            for stream in listener.incoming().take(100) {
                answer(stream.unwrap(), &files, &seen, &mut faults);
            }
        });
        Self { address, requests }
    }

    fn of(model: &str, faults: Faults) -> Self {
        let files = fs::read_dir(golden(model)).unwrap().map(|file| {
            let path = file.unwrap().path();
            (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())
        });
        let nested = ("1_Pooling/config.json".to_owned(), b"{}".to_vec());
        Self::start(files.chain([nested]).collect(), faults)
    }

    fn requests(&self) -> Vec<String> {
        core::mem::take(&mut *self.requests.lock().unwrap())
    }
}

/// Answers one request and closes the connection. Weights are redirected to another address, like those in Git LFS.
fn answer(
    mut stream: TcpStream,
    files: &BTreeMap<String, Vec<u8>>,
    seen: &Mutex<Vec<String>>,
    faults: &mut Faults,
) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
    let request = lines.next().unwrap_or_default();
    let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let range = headers
        .iter()
        .find_map(|header| header.to_lowercase().strip_prefix("range: bytes=").map(str::to_owned));
    let from = range.as_deref().map(|range| range.trim_end_matches('-').parse::<usize>().unwrap());
    let ranged = from.map_or(String::new(), |from| format!(" from {from}"));
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    seen.lock().unwrap().push(format!("{path}{ranged}"));
    let mut send = |head: &str, body: &[u8]| {
        // A client that has read enough closes the connection.
        drop(write!(stream, "HTTP/1.1 {head}\r\nConnection: close\r\n\r\n"));
        drop(stream.write_all(body));
    };
    if !request.starts_with("GET ") {
        return send("405 Method Not Allowed\r\nContent-Length: 0", b"");
    }
    let name = path.split_once("/main/").or_else(|| path.rsplit_once('/'));
    let name = name.map_or("", |(_, name)| name);
    let Some(bytes) = files.get(name) else {
        return send("404 Not Found\r\nContent-Length: 9", b"not found");
    };
    let large = name.ends_with(".safetensors");
    let (length, sha256) = (bytes.len(), hex(&Sha256::digest(bytes)));
    if path == format!("/some/tiny/resolve/main/{name}") && large {
        return send(
            &format!(
                "302 Found\r\nX-Repo-Commit: {COMMIT}\r\nETag: \"xet\"\r\nX-Linked-ETag: \"{sha256}\"\r\nX-Linked-Size: {length}\r\nLocation: /cdn/{name}\r\nContent-Length: 0"
            ),
            b"",
        );
    }
    if !large {
        let git = hex(&Sha1::new()
            .chain_update(format!("blob {length}\0"))
            .chain_update(bytes)
            .finalize());
        return send(
            &format!(
                "200 OK\r\nX-Repo-Commit: {COMMIT}\r\nETag: W/\"{git}\"\r\nContent-Length: {length}"
            ),
            bytes,
        );
    }
    let mut bytes = bytes.clone();
    if faults.changes_a_byte {
        bytes[length - 1] ^= 1;
    }
    let from = from.filter(|_| !faults.ignores_ranges);
    let head = match from {
        Some(from) => format!(
            "206 Partial Content\r\nContent-Range: bytes {from}-{}/{length}\r\nContent-Length: {}",
            length - 1,
            length - from
        ),
        None => format!("200 OK\r\nContent-Length: {length}"),
    };
    let end = faults.breaks_after.take().unwrap_or(length);
    let bytes = &bytes[from.unwrap_or(0)..end];
    let Some(wait) = faults.waits.take() else { return send(&head, bytes) };
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    send(&head, first);
    thread::sleep(wait);
    drop(stream.write_all(rest));
}

/// A program whose models come from a server.
fn with(mut program: Command, server: &Server, home: &Path) -> Command {
    for name in ["HF_HUB_CACHE", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        program.env_remove(name);
    }
    program.env("HF_HOME", home).env("HF_ENDPOINT", &server.address);
    program
}

const GENERATE: &str = "generate some/tiny --ids 7,8,9 --tokens 4 --format json";

fn downloads(server: &Server, home: &Path) -> Output {
    let line = crate::common::command_line(format!("{GENERATE} --download"));
    with(line, server, home).output().unwrap()
}

fn assert_generates(output: &Output) {
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("{\"ids\":["));
}

/// OPT, for instance, has no tokenizer.json.
#[test]
fn the_files_of_a_vocabulary_are_fetched_if_there_is_no_tokenizer_json() {
    let read = |name: &str| (name.to_owned(), fs::read(golden("tiny-gpt2").join(name)).unwrap());
    let vocabulary = ["vocab.json", "merges.txt"].map(|name| (name.to_owned(), b"{}".to_vec()));
    let files = ["config.json", "model.safetensors"].map(read).into_iter().chain(vocabulary);
    let (folder, server) = (Folder::new(), Server::start(files.collect(), Faults::default()));
    let home = folder.path("");
    assert_generates(&downloads(&server, &home));
    let snapshot = home.join("hub/models--some--tiny/snapshots").join(COMMIT);
    for name in ["vocab.json", "merges.txt"] {
        assert_eq!(fs::read(snapshot.join(name)).unwrap(), b"{}");
    }
}

#[test]
fn a_model_is_fetched_once_into_the_layout_of_the_cache() {
    let (folder, server) = (Folder::new(), Server::of("tiny-gpt2", Faults::default()));
    let home = folder.path("");
    assert_generates(&downloads(&server, &home));
    assert!(server.requests().contains(&"/cdn/model.safetensors".to_owned()));
    let repository = home.join("hub/models--some--tiny");
    assert_eq!(fs::read_to_string(repository.join("refs/main")).unwrap(), COMMIT);
    let weights = fs::read(golden("tiny-gpt2/model.safetensors")).unwrap();
    let blob = repository.join("blobs").join(hex(&Sha256::digest(&weights)));
    assert_eq!(fs::read(&blob).unwrap(), weights);
    let link = repository.join("snapshots").join(COMMIT).join("model.safetensors");
    assert_eq!(fs::canonicalize(&link).unwrap(), fs::canonicalize(&blob).unwrap());
    #[cfg(unix)]
    assert!(fs::read_link(&link).unwrap().starts_with("../../blobs"));
    let nested = repository.join("snapshots").join(COMMIT).join("1_Pooling/config.json");
    assert_eq!(fs::read(nested).unwrap(), b"{}");

    assert_generates(&downloads(&server, &home));
    let cached = with(crate::common::command_line(GENERATE), &server, &home).output();
    assert_generates(&cached.unwrap());
    assert_eq!(server.requests(), [""; 0], "what is in the cache is not asked for again");
}

#[test]
fn shards_are_fetched_by_their_index() {
    let (folder, server) = (Folder::new(), Server::of("tiny-gpt_neox", Faults::default()));
    assert_generates(&downloads(&server, &folder.path("")));
}

#[test]
fn a_broken_download_goes_on_where_it_ended() {
    for ignores_ranges in [false, true] {
        let faults = Faults { breaks_after: Some(10_000), ignores_ranges, ..Faults::default() };
        let (folder, server) = (Folder::new(), Server::of("tiny-gpt2", faults));
        let home = folder.path("");
        let broken = downloads(&server, &home);
        let said = text(&broken.stderr);
        assert_eq!(broken.status.code(), Some(1), "{said}");
        assert!(
            said.contains("/some/tiny/resolve/main/model.safetensors") && said.contains("goes on"),
            "{said}"
        );
        assert!(!home.join("hub/models--some--tiny/refs/main").exists());
        server.requests();
        assert_generates(&downloads(&server, &home));
        assert!(server.requests().contains(&"/cdn/model.safetensors from 10000".to_owned()));
    }
}

/// The sizes of the files of weights, whether they are complete or not.
#[cfg(unix)]
fn large_blobs(home: &Path) -> Vec<u64> {
    let blobs = fs::read_dir(home.join("hub/models--some--tiny/blobs")).into_iter().flatten();
    let sizes = blobs.map(|blob| blob.unwrap().metadata().unwrap().len());
    sizes.filter(|size| *size > 30_000).collect()
}

/// Starts a download by a command, and sends it Ctrl-C when half of the weights have arrived. Returns whether the command
/// succeeds, and the bytes that arrived.
#[cfg(unix)]
fn interrupted(mut command: Command, home: &Path) -> (bool, u64) {
    let half = fs::metadata(golden("tiny-gpt2/model.safetensors")).unwrap().len() / 2;
    let command = command.args(GENERATE.split(' ')).arg("--download").stdout(Stdio::null());
    let mut download = command.stderr(Stdio::null()).spawn().unwrap();
    let mut tries = 0;
    while large_blobs(home) != [half] {
        assert!(
            download.try_wait().unwrap().is_none() && tries < 1000,
            "the first half is not there"
        );
        thread::sleep(Duration::from_millis(10));
        tries += 1;
    }
    crate::common::send_ctrl_c(&download);
    (download.wait().unwrap().success(), half)
}

#[cfg(unix)]
#[test]
fn a_download_that_ignores_ctrl_c_goes_on() {
    let faults = Faults { waits: Some(Duration::from_secs(1)), ..Faults::default() };
    let (folder, server) = (Folder::new(), Server::of("tiny-gpt2", faults));
    let home = folder.path("");
    assert!(interrupted(with(crate::common::ignoring_ctrl_c(), &server, &home), &home).0);
}

#[cfg(unix)]
#[test]
fn a_download_that_ctrl_c_ends_goes_on_where_it_ended() {
    crate::common::let_programs_obey_ctrl_c();
    let faults = Faults { waits: Some(Duration::from_secs(3)), ..Faults::default() };
    let (folder, server) = (Folder::new(), Server::of("tiny-gpt2", faults));
    let home = folder.path("");
    let (well, half) = interrupted(with(crate::common::command(), &server, &home), &home);
    assert!(!well);
    let repository = home.join("hub/models--some--tiny");
    assert!(!repository.join("refs/main").exists());
    let incomplete =
        |blob: fs::DirEntry| blob.path().extension().is_some_and(|x| x == "incomplete");
    let large = fs::read_dir(repository.join("blobs")).unwrap().map(Result::unwrap);
    let mut large = large.filter(|blob| blob.metadata().unwrap().len() > 30_000);
    assert!(large.all(incomplete), "half a file has no name of a whole one");
    server.requests();
    assert_generates(&downloads(&server, &home));
    assert!(server.requests().contains(&format!("/cdn/model.safetensors from {half}")));
}

/// On a terminal, which `script` provides, the program shows the progress.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_shows_the_progress() {
    let faults = Faults { waits: Some(Duration::from_millis(1500)), ..Faults::default() };
    let config = fs::read(golden("tiny-gpt2/config.json")).unwrap();
    let weights = vec![0; 2 << 20]; // large enough for a progress bar; they are not a real model
    let files = [("config.json".to_owned(), config), ("model.safetensors".to_owned(), weights)];
    let (folder, server) = (Folder::new(), Server::start(files.into(), faults));
    let program = env!("CARGO_BIN_EXE_regard");
    let line = format!("'{program}' {GENERATE} --download");
    let output = with(Command::new("script"), &server, &folder.path(""))
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env("TERM", "xterm")
        .output()
        .unwrap();
    let shown = text(&output.stdout);
    assert!(shown.contains("model.safetensors") && shown.contains("of 2.10 MB"), "{shown}");
}

#[test]
fn a_wrong_hash_is_told_and_nothing_is_kept() {
    let faults = Faults { changes_a_byte: true, ..Faults::default() };
    let (folder, server) = (Folder::new(), Server::of("tiny-gpt2", faults));
    let wrong = downloads(&server, &folder.path(""));
    let said = text(&wrong.stderr);
    assert!(said.contains("has the hash") && said.contains("it is removed"), "{said}");
    let blobs = fs::read_dir(folder.path("hub/models--some--tiny/blobs")).unwrap();
    let large = blobs.filter(|blob| blob.as_ref().unwrap().metadata().unwrap().len() > 50_000);
    assert_eq!(large.count(), 0);
}

#[test]
fn a_model_that_is_not_there_is_named() {
    let (folder, server) = (Folder::new(), Server::start(BTreeMap::new(), Faults::default()));
    let missing = downloads(&server, &folder.path(""));
    let said = text(&missing.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.contains("downloading some/tiny")
            && said.contains("config.json: there is no such file"),
        "{said}"
    );
}

#[test]
fn names_of_shards_stay_in_the_folder() {
    let config = fs::read(golden("tiny-gpt2/config.json")).unwrap();
    let index = br#"{"weight_map": {"w": "../../escape.safetensors"}}"#.to_vec();
    let files =
        [("config.json".to_owned(), config), ("model.safetensors.index.json".to_owned(), index)];
    let (folder, server) = (Folder::new(), Server::start(files.into(), Faults::default()));
    let said = text(&downloads(&server, &folder.path("")).stderr);
    assert!(
        said.contains("../../escape.safetensors") && said.contains("not a file of the same folder"),
        "{said}"
    );
}
