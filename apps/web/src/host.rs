//! The system around the window: the browser's files, storage and downloads.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use js_sys::{Array, Float32Array};
use regard_heads::Stream;
use regard_models::Checkpoint;
use regard_ui::host::{Answer, Host, Question, Remote, Reply, Work};
use regard_ui::model;
use regard_ui::remote::Desk;
use wasm_bindgen::prelude::*;
use web_time::Instant;

use crate::{address, system};

/// The name under which the browser keeps the session.
const SESSION: &str = "last.regard.json";

/// The files that the user has dropped or chosen, by their paths: "model/config.json".
///
/// They stay in memory as long as the page, so that a session finds them again, and models read them in place.
static FILES: Mutex<BTreeMap<PathBuf, Held>> = Mutex::new(BTreeMap::new());

/// A file's contents, or why the page did not read it.
type Held = Result<&'static [u8], String>;

/// Work that waits for the end of the frame, and for the work before it.
static WAITING: Mutex<VecDeque<Work>> = Mutex::new(VecDeque::new());

/// When the work that runs now was begun or went on. `None` while the window is drawn.
static SINCE: Mutex<Option<Instant>> = Mutex::new(None);

/// The longest that work keeps the page from drawing, where a step of the work is shorter. A frame has 16.7 ms.
const SLICE: Duration = Duration::from_millis(8);

/// Does the first work that waits. `system.js` calls it once for each [`later`](system::later), one after the other.
#[wasm_bindgen]
pub fn work_on() {
    let work = lock(&WAITING).pop_front();
    if let Some(work) = work {
        *lock(&SINCE) = Some(Instant::now());
        work();
        *lock(&SINCE) = None;
    }
}

/// Between two steps of work: lets the page draw and hear the user, if the work has kept it from that for long enough.
///
/// Frames run to their end while the work waits here, so that their locals lie on the stack above the work's, and are gone when it
/// goes on.
pub fn pause() {
    let mut since = lock(&SINCE);
    if since.is_some_and(|since| since.elapsed() > SLICE) {
        *since = None;
        drop(since);
        system::pause();
        *lock(&SINCE) = Some(Instant::now());
    }
}

/// Takes a file that the user has dropped or chosen.
#[wasm_bindgen]
pub fn put(path: String, bytes: Vec<u8>) {
    files().insert(PathBuf::from(path), Ok(bytes.leak()));
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

/// In the worker: what it keeps from one job to the next.
static DESK: Mutex<Option<Desk>> = Mutex::new(None);

/// In the worker: does a job.
///
/// # Errors
/// Why it cannot be done.
#[wasm_bindgen]
pub fn work(job: &str) -> Result<Array, String> {
    let mut desk = lock(&DESK);
    let desk = desk.get_or_insert_with(|| Desk::new(Arc::new(Browser)));
    let numbers = desk.work(job, &system::progress)?;
    Ok(numbers.iter().map(|numbers| Float32Array::from(&numbers[..])).collect())
}

/// The browser.
#[derive(Default)]
pub struct Browser;

impl Remote for Browser {
    fn ask(&self, job: String, mut replies: Box<dyn FnMut(Reply) + Send>) {
        let reply = move |part: Option<f32>, error: Option<String>, numbers: Option<Array>| {
            let lists = |numbers: Array| {
                numbers.iter().map(|list| Float32Array::new(&list).to_vec()).collect()
            };
            replies(match (part, error) {
                (Some(part), _) => Reply::Progress(part),
                (None, Some(error)) => Reply::Done(Err(error)),
                (None, None) => Reply::Done(Ok(numbers.map(lists).unwrap_or_default())),
            });
        };
        system::ask(&job, Closure::new(reply));
    }
}

impl Host for Browser {
    fn remote(&self) -> Option<&dyn Remote> {
        Some(self)
    }

    /// The work runs between the frames, in turn: a page has one thread.
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
        let text = core::str::from_utf8(bytes).map_err(io::Error::other)?;
        address::show(text);
        if system::keep(SESSION, text) {
            Ok(())
        } else {
            Err(io::Error::other("this browser keeps nothing for this page"))
        }
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
        if name == model::STORY {
            return model::story().map_err(|e| e.to_string());
        }
        let path = Path::new(name);
        let mut files = Vec::new();
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

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let bytes = self.read(from, u64::MAX)?;
        let text = core::str::from_utf8(&bytes).map_err(io::Error::other)?;
        if system::keep(&to.display().to_string(), text) {
            Ok(())
        } else {
            Err(io::Error::other("this browser keeps nothing for this page"))
        }
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

    fn browse(&self, question: Question<'_>, answer: Answer) {
        if !question.opens {
            return answer(Some(question.path.to_owned()));
        }
        let endings: Vec<String> =
            question.extensions.iter().map(|kind| format!(".{kind}")).collect();
        let mut answer = Some(answer);
        let done = Closure::new(move |path: Option<String>| {
            if let Some(answer) = answer.take() {
                answer(path.map(PathBuf::from));
            }
        });
        system::choose(&endings.join(","), done);
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

fn lock<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
