//! The system around the window: the browser's files, storage and downloads.

use core::cell::{Cell, RefCell};
use core::ops::ControlFlow;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use js_sys::{Array, Float32Array, Uint8Array};
use regard_bundled::ENGLISH;
use regard_heads::Stream;
use regard_models::Checkpoint;
use regard_ui::host::{Chosen, FileDialog, Host, Replies, Reply, Work};
use regard_ui::{Advance, Background, Begun, Message, Session, Tell};
use wasm_bindgen::prelude::*;

use crate::system;

/// The name under which the browser keeps the session.
const SESSION: &str = "last.regard.json";

/// The files that the user has dropped or chosen, by their paths: "model/config.json".
///
/// They stay in memory, so that a session finds them again, and models read them in place, until [`forget`] makes room for others. Those
/// that are too large for a session are in the worker's memory alone.
static FILES: Mutex<BTreeMap<PathBuf, Held>> = Mutex::new(BTreeMap::new());

/// A file's contents, or why they are not here.
type Held = Result<Bytes, String>;

/// The contents of a file. Its memory is free when nothing reads it and the page has forgotten it.
#[derive(Clone)]
struct Bytes(Arc<Vec<u8>>);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Work that waits for the end of the frame, and for the work before it.
static WAITING: Mutex<VecDeque<Work>> = Mutex::new(VecDeque::new());

/// Does the first work that waits. `system.js` calls it once for each [`later`](system::later), one after the other.
#[wasm_bindgen]
pub fn work_on() {
    let work = lock(&WAITING).pop_front();
    if let Some(work) = work {
        work();
    }
}

/// Takes a file that the user has dropped or chosen. The page itself reads sessions alone: the worker has all files.
#[wasm_bindgen]
pub fn put(path: String, bytes: &Uint8Array, is_worker: bool) {
    let is_held = is_worker || u64::from(bytes.length()) <= Session::LARGEST;
    let held = is_held.then(|| Bytes(Arc::new(bytes.to_vec())));
    let why = || format!("a session has at most {} MiB", Session::LARGEST >> 20);
    files().insert(PathBuf::from(path), held.ok_or_else(why));
}

/// Frees the memory of a file that makes room for newer ones. The page holds files of at most so many bytes.
#[wasm_bindgen]
pub fn forget(path: String, most: f64) {
    let most = most / f64::from(1 << 20);
    let why = format!(
        "newer files have taken its place, because a page holds files of at most {most:.0} MiB: drop or choose it again"
    );
    files().insert(PathBuf::from(path), Err(why));
}

/// Remembers that a file was too large to read: together with those beside it, it has so many bytes, of at most so many.
#[wasm_bindgen]
pub fn refuse(path: String, bytes: f64, most: f64) {
    let [bytes, most] = [bytes, most].map(|bytes| bytes / f64::from(1 << 20));
    let why = format!(
        "{bytes:.0} MiB are too much for a page, which holds files of at most {most:.0} MiB; the program for the desktop has no such limit"
    );
    files().insert(PathBuf::from(path), Err(why));
}

/// The file of [`ENGLISH`], under the name that a user's folder would give it, and as it lies beside the page.
const ENGLISH_PATH: &str = "english/english.gguf";
const ENGLISH_FILE: &str = "english.gguf";
const ENGLISH_BYTES: usize = regard_english::FILES[0].1.len();

thread_local! {
    /// In the worker: the share of the file of [`ENGLISH`] that is here, while it is being fetched.
    static ARRIVING: Cell<Option<f32>> = const { Cell::new(None) };
    /// In the worker: where questions are answered.
    static BACKGROUND: Arc<Background> = Background::new(Arc::new(Browser));
    /// In the worker: the questions that are being answered, by their numbers.
    static BEGUN: RefCell<BTreeMap<u32, Begun>> = RefCell::default();
    /// The lists of numbers of the answer that comes next.
    static TAKEN: RefCell<Vec<Vec<f32>>> = RefCell::default();
}

/// Takes the next numbers of an answer from the worker. `length` is that of the list which they begin, or 0 within a list.
#[wasm_bindgen]
pub fn take(numbers: &Float32Array, length: usize) {
    TAKEN.with_borrow_mut(|lists| {
        if length > 0 {
            lists.push(Vec::with_capacity(length));
        }
        if let Some(list) = lists.last_mut() {
            let known = list.len();
            list.resize(known + numbers.length() as usize, 0.0);
            numbers.copy_to(&mut list[known..]);
        }
    });
}

/// In the worker: begins to answer a question.
///
/// # Errors
/// If the bytes are no question.
#[wasm_bindgen]
pub fn begin(number: u32, question: Vec<u8>, lists: Array) -> Result<(), String> {
    let lists = lists.iter().map(|list| Float32Array::from(list).to_vec()).collect();
    let question = Message { bytes: question, lists };
    let begun = BACKGROUND.with(|background| regard_ui::begin(background, question))?;
    BEGUN.with_borrow_mut(|all| all.insert(number, begun));
    Ok(())
}

/// In the worker: does a step of the work. Returns what there is to show, if anything: its bytes, its lists of numbers, and whether it
/// is the answer.
///
/// # Errors
/// The reason why there is no answer.
#[wasm_bindgen]
pub fn step(number: u32) -> Result<Option<Array>, String> {
    let Some(mut begun) = cancelled(number) else { return Err("no such question".to_owned()) };
    let tell: Tell = Arc::new(move |part| {
        system::progress(number, part);
        ControlFlow::Continue(())
    });
    let (message, is_last) = match begun(&tell)? {
        Advance::More => (None, false),
        Advance::Shown(message) => (Some(message), false),
        Advance::Done(message) => (Some(message), true),
    };
    if !is_last {
        BEGUN.with_borrow_mut(|all| all.insert(number, begun));
    }
    let shown = |Message { bytes, lists }: Message| {
        Array::of3(&Uint8Array::from(&bytes[..]), &given(&lists), &is_last.into())
    };
    Ok(message.map(shown))
}

/// The lists of numbers of a message, for JavaScript.
fn given(lists: &[Vec<f32>]) -> Array {
    lists.iter().map(|list| Float32Array::from(&list[..])).collect()
}

/// In the worker: whether the next step only waits for a file.
#[wasm_bindgen]
pub fn waits() -> bool {
    ARRIVING.get().is_some()
}

/// In the worker: takes the file of [`ENGLISH`] as it comes.
fn arrive(bytes: f64, file: Option<Uint8Array>, error: Option<String>) {
    ARRIVING.set(Some((bytes / ENGLISH_BYTES as f64) as f32));
    let held = match (file, error) {
        (Some(file), _) => Ok(Bytes(Arc::new(file.to_vec()))),
        (None, Some(error)) => Err(error),
        (None, None) => return,
    };
    ARRIVING.set(None);
    files().insert(ENGLISH_PATH.into(), held);
}

/// In the worker: ends the work on a question.
#[wasm_bindgen]
pub fn cancel(number: u32) {
    drop(cancelled(number));
}

fn cancelled(number: u32) -> Option<Begun> {
    BEGUN.with_borrow_mut(|all| all.remove(&number))
}

/// The browser.
#[derive(Default)]
pub struct Browser;

impl Host for Browser {
    fn has_worker(&self) -> bool {
        true
    }

    fn ask_worker(&self, question: Message, mut replies: Replies) {
        let reply = move |part: Option<f32>,
                          error: Option<String>,
                          answer: Option<Uint8Array>,
                          is_last: bool| {
            let message = Message {
                bytes: answer.map(|answer| answer.to_vec()).unwrap_or_default(),
                lists: TAKEN.take(),
            };
            let reply = match (part, error) {
                (Some(part), _) => Reply::Progress(part),
                (None, Some(error)) => Reply::Done(Err(error)),
                (None, None) if is_last => Reply::Done(Ok(message)),
                (None, None) => Reply::Shown(message),
            };
            replies(reply).is_continue()
        };
        system::ask(&question.bytes, given(&question.lists), Closure::new(reply));
    }

    /// Short work, such as writing a file, runs between the frames. What takes long is a question to the worker.
    fn spawn(&self, _: &str, work: Work) -> io::Result<()> {
        lock(&WAITING).push_back(work);
        system::later();
        Ok(())
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Stream>> {
        if path == Path::new(SESSION) {
            let text = system::kept(SESSION).ok_or(io::ErrorKind::NotFound)?;
            return Ok(Box::new(Cursor::new(text.into_bytes())));
        }
        let bytes = files().get(path).cloned().ok_or_else(|| unknown(path))?;
        Ok(Box::new(Cursor::new(bytes.map_err(io::Error::other)?)))
    }

    /// Downloads the file. The session is kept by the browser instead, and the page's address holds it.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if path != Path::new(SESSION) {
            let name =
                path.file_name().map_or_else(|| "regard".into(), |name| name.to_string_lossy());
            system::download(&name, bytes);
            return Ok(());
        }
        if let Ok(session) = Session::parse(bytes) {
            system::address(&session.link());
        }
        keep(SESSION, bytes)
    }

    fn link(&self, end: &str) -> (String, &'static str) {
        (system::address(end), "the address of this view")
    }

    fn exists(&self, path: &Path) -> bool {
        if path == Path::new(SESSION) {
            return system::kept(SESSION).is_some();
        }
        files().contains_key(path) || self.is_folder(path)
    }

    fn is_folder(&self, path: &Path) -> bool {
        files().keys().any(|file| file != path && file.starts_with(path))
    }

    fn checkpoint(&self, name: &str) -> Result<Checkpoint, String> {
        if let Some(bundled) = regard_bundled::checkpoint(name) {
            return bundled.map_err(|e| e.to_string());
        }
        let path = Path::new(name);
        let mut files = Vec::new();
        // What could not be fetched is fetched again the next time.
        if name == ENGLISH && matches!(self::files().get(Path::new(ENGLISH_PATH)), Some(Err(_))) {
            let failed = self::files().remove(Path::new(ENGLISH_PATH));
            return Err(failed.and_then(Result::err).unwrap_or_default());
        }
        for (file, bytes) in self::files().iter().filter(|(file, _)| file.starts_with(path)) {
            let inner = file.strip_prefix(path).ok().filter(|inner| !inner.as_os_str().is_empty());
            let inner = inner.or_else(|| file.file_name().map(Path::new)).unwrap_or(file);
            files.push((inner.display().to_string(), bytes.clone()?));
        }
        if files.is_empty() {
            return Err(format!(
                "{name}: a page opens models that are dropped onto it or chosen: a folder of Hugging Face, or a .gguf file"
            ));
        }
        Checkpoint::from_files(name, files).map_err(|e| e.to_string())
    }

    /// The file of [`ENGLISH`] lies beside the page, and is fetched when it is needed.
    fn arriving(&self, name: &str) -> Option<f32> {
        if name != ENGLISH || self::files().contains_key(Path::new(ENGLISH_PATH)) {
            return None;
        }
        if ARRIVING.get().is_none() {
            ARRIVING.set(Some(0.0));
            system::fetched(ENGLISH_FILE, Closure::new(arrive));
        }
        ARRIVING.get()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        keep(&to.display().to_string(), &self.read(from, u64::MAX)?)
    }

    fn create_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn folder(&self) -> PathBuf {
        PathBuf::new()
    }

    /// The book lies beside the page.
    fn open_book(&self) -> io::Result<()> {
        if system::open_book() {
            Ok(())
        } else {
            Err(io::Error::other("the browser blocks new windows"))
        }
    }

    fn session_file(&self) -> Option<PathBuf> {
        Some(SESSION.into())
    }

    fn browse(&self, dialog: FileDialog<'_>, chosen: Chosen) {
        if !dialog.opens {
            return chosen(Some(dialog.path.to_owned()));
        }
        let endings: Vec<String> =
            dialog.extensions.iter().map(|kind| format!(".{kind}")).collect();
        let mut chosen = Some(chosen);
        let done = Closure::new(move |path: Option<String>| {
            if let Some(chosen) = chosen.take() {
                chosen(path.map(PathBuf::from));
            }
        });
        system::choose(&endings.join(","), done);
    }
}

/// Has the browser keep a text under this name.
fn keep(name: &str, text: &[u8]) -> io::Result<()> {
    if system::keep(name, core::str::from_utf8(text).map_err(io::Error::other)?) {
        Ok(())
    } else {
        Err(io::Error::other("this browser keeps nothing for this page"))
    }
}

fn unknown(path: &Path) -> io::Error {
    let message =
        format!("{} was not dropped onto the page or chosen since it was loaded", path.display());
    io::Error::new(io::ErrorKind::NotFound, message)
}

fn files() -> MutexGuard<'static, BTreeMap<PathBuf, Held>> {
    lock(&FILES)
}

/// Locks a value, also after a panic.
pub(crate) fn lock<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
