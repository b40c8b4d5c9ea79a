//! Opening a model.

use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use egui::{Context, ProgressBar, Ui};
use regard_models::{
    ChangedReading, Checkpoint, Description, Error, ImageProcessor, Model, Reading,
};
use serde::{Deserialize, Serialize};

use super::input::Reads;
use super::record;
use crate::Desk;
use crate::desk::{Place, Question, Steps, once};
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

/// What the window knows of a model that has been opened.
#[derive(Serialize, Deserialize)]
pub(crate) struct Opened {
    /// The user's name for it.
    pub name: String,
    pub description: Description,
    /// The bytes of its weights.
    pub bytes: u64,
    /// The hash of its files.
    pub hash: String,
    /// Where the model is: see [`Loaded`].
    #[serde(skip)]
    place: Option<Place>,
}

impl Opened {
    /// The place of the model, for questions.
    pub fn place(&self) -> u64 {
        self.place.as_ref().map_or(0, Place::id)
    }
}

/// A model with its weights.
pub(super) struct Loaded {
    /// What the user called it.
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

/// Asks to open a model.
#[derive(Serialize, Deserialize)]
pub(crate) struct Open {
    /// Where it stays.
    place: u64,
    name: String,
}

impl Question for Open {
    type Answer = Opened;
    const NAME: &'static str = "model";

    fn begin(self, desk: Arc<Desk>) -> impl Steps<Opened> {
        once(move |tell| {
            let name = self.name;
            let mut checkpoint = desk.host.checkpoint(&name).map_err(|e| message(&name, &e))?;
            let (bytes, tell) = (checkpoint.bytes().max(1), Arc::clone(tell));
            // Reading cannot be interrupted.
            checkpoint.on_read(move |read| {
                let _ = tell(read as f32 / bytes as f32);
            });
            let loaded = Loaded::load(name, &checkpoint)?;
            let Loaded { name, bytes, hash, .. } = &loaded;
            let (name, hash, bytes) = (name.clone(), hash.clone(), *bytes);
            let description = loaded.model.description().clone();
            desk.hold(self.place, Arc::new(loaded));
            Ok(Opened { name, description, bytes, hash, place: None })
        })
    }
}

impl Loaded {
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

/// A model that is being read.
pub(super) struct Opening {
    pub name: String,
    /// Whether the user has just asked for it. Otherwise the session names it.
    pub anew: bool,
    task: Task<Opened>,
    place: Option<Place>,
}

impl Opening {
    pub fn start(desk: &Arc<Desk>, ctx: &Context, name: String, anew: bool) -> Self {
        let place = desk.place();
        let task = desk.ask(ctx, Open { place: place.id(), name: name.clone() });
        Self { name, anew, task, place: Some(place) }
    }

    /// The model, or the reason why it cannot be opened, once it has been read.
    pub fn take(&mut self) -> Option<Result<Arc<Opened>, String>> {
        let opened = self.task.take()?;
        Some(opened.map(|opened| Arc::new(Opened { place: self.place.take(), ..opened })))
    }

    pub fn elapsed(&self) -> Duration {
        self.task.elapsed()
    }

    /// Shows the progress of opening.
    pub fn show(&self, ui: &mut Ui) {
        ui.horizontal(|ui| {
            ui.label(format!("Opening {}", self.name));
            let bar =
                ProgressBar::new(self.task.progress()).desired_width(200.0).desired_height(10.0);
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
