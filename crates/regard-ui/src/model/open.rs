//! Opening a model.

use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use egui::{Context, ProgressBar, Ui};
use regard_models::{ChangedReading, Checkpoint, Error, ImageProcessor, Model, Reading};

use super::input::Reads;
use super::record;
use crate::Host;
use crate::task::Task;

/// The name of the bundled model.
pub const STORY: &str = "story";

/// The bundled model.
///
/// # Errors
/// None in practice, because its files are part of the program.
pub fn story() -> Result<Checkpoint, Error> {
    Checkpoint::from_files(STORY, regard_story::FILES)
}

/// A model that has been opened.
pub(super) struct Opened {
    /// The user's name for it.
    pub name: String,
    pub model: Model,
    /// The bytes of its weights.
    pub bytes: u64,
    /// The hash of its files.
    pub hash: String,
    /// The hash of its tokens.
    pub tokens: String,
    /// The conversion of an image to numbers, for a model of images.
    pub processor: Option<ImageProcessor>,
    /// Its last reading of the first text, and of the second.
    pub read: [LastReading<Reading>; 2],
    /// Its last reading with changes.
    pub read_changed: LastReading<ChangedReading>,
}

/// The reading of a text during typing, which the next reading continues.
pub(super) struct LastReading<T>(Mutex<Option<T>>);

impl<T> Default for LastReading<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> LastReading<T> {
    /// Takes the reading, to continue it.
    pub fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Keeps a reading for the next text.
    pub fn keep(&self, reading: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reading);
    }
}

impl Opened {
    /// Reads the weights.
    pub fn load(name: String, checkpoint: &Checkpoint) -> Result<Self, String> {
        let model = Model::load(checkpoint).map_err(|e| message(&name, &e.to_string()))?;
        accepted(&model).map_err(|what| message(&name, &what))?;
        let hash = record::of_files(checkpoint).map_err(|e| message(&name, &e.to_string()))?;
        let processor = (Reads::of(model.description()) == Reads::Image)
            .then(|| ImageProcessor::of(checkpoint, model.description()));
        let processor = processor.transpose().map_err(|e| message(&name, &e.to_string()))?;
        let (tokens, bytes) = (record::of_tokens(&model), checkpoint.bytes());
        let (read, read_changed) = Default::default();
        Ok(Self { name, model, bytes, hash, tokens, processor, read, read_changed })
    }
}

/// The state of opening a model.
pub(super) enum Stage {
    /// The headers have been read.
    Reading(Arc<Checkpoint>),
    /// The model can run.
    Ready(Arc<Opened>),
}

/// A model that is being read.
pub(super) struct Opening {
    pub name: String,
    /// Whether the user has just asked for it. Otherwise the session names it.
    pub anew: bool,
    task: Task<Stage>,
    checkpoint: Option<Arc<Checkpoint>>,
}

impl Opening {
    pub fn start(host: &Arc<dyn Host>, ctx: &Context, name: String, anew: bool) -> Self {
        let (files, theirs) = (Arc::clone(host), name.clone());
        let task = Task::start(&**host, ctx, "model", move |promise| {
            let checkpoint = Arc::new(files.checkpoint(&theirs).map_err(|e| message(&theirs, &e))?);
            // A cancelled task still ends: reading cannot be interrupted.
            let _ = promise.show(Stage::Reading(Arc::clone(&checkpoint)));
            Ok(Stage::Ready(Arc::new(Opened::load(theirs, &checkpoint)?)))
        });
        Self { name, anew, task, checkpoint: None }
    }

    /// The model, or the reason why it cannot be opened, once the thread has ended.
    pub fn take(&mut self) -> Option<Result<Arc<Opened>, String>> {
        match self.task.take()? {
            Ok(Stage::Reading(checkpoint)) => {
                self.checkpoint = Some(checkpoint);
                None
            }
            Ok(Stage::Ready(opened)) => Some(Ok(opened)),
            Err(message) => Some(Err(message)),
        }
    }

    /// The share of the weights that has been read.
    pub fn progress(&self) -> f32 {
        self.checkpoint.as_ref().map_or(0.0, |checkpoint| {
            checkpoint.bytes_read() as f32 / checkpoint.bytes().max(1) as f32
        })
    }

    pub fn elapsed(&self) -> Duration {
        self.task.elapsed()
    }

    /// Shows the progress of opening.
    pub fn show(&self, ui: &mut Ui) {
        ui.horizontal(|ui| {
            ui.label(format!("Opening {}", self.name));
            let bar = ProgressBar::new(self.progress()).desired_width(200.0).desired_height(10.0);
            ui.add(bar).accessible_name("Opening");
        });
    }
}

/// "gpt2 was not opened: …", without the name twice.
fn message(name: &str, what: &str) -> String {
    let what = what.strip_prefix(name).and_then(|what| what.strip_prefix(": ")).unwrap_or(what);
    format!("{name} was not opened: {what}")
}

/// Refuses a model that this room cannot show.
fn accepted(model: &Model) -> Result<(), String> {
    if Reads::of(model.description()) != Reads::Image && model.tokenizer().is_none() {
        return Err("it has no tokenizer, which this room needs to read a text".to_owned());
    }
    Ok(())
}
