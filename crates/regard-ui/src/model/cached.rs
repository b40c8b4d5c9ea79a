//! The list of the models in the local Hugging Face cache.

use std::sync::Arc;

use egui::{Button, Context, Label, RichText, ScrollArea, Ui};

use crate::Host;
use crate::host::Cached;
use crate::work::Once;

/// The largest height of the list.
const HEIGHT: f32 = 360.0;

/// The text of an empty list, and the command that fetches a small model.
const NONE: &str = "The local Hugging Face cache has no model. This command, in a terminal, fetches a small one (270 MB):";
const FETCH: &str = "regard model HuggingFaceTB/SmolLM2-135M --download";

/// The list, and the next one that is being read.
#[derive(Default)]
pub(super) struct CachedModels {
    reading: Option<Once<Vec<Cached>>>,
    list: Option<Vec<Cached>>,
}

impl CachedModels {
    pub(crate) fn is_busy(&self) -> bool {
        self.reading.is_some()
    }

    pub(crate) fn exchange(&mut self) {
        if let Some(done) = self.reading.as_ref().and_then(Once::take) {
            self.reading = None;
            self.list = Some(done.unwrap_or_default());
        }
    }

    /// Reads the cache again.
    pub(crate) fn read(&mut self, ctx: &Context, host: &Arc<dyn Host>) {
        let files = Arc::clone(host);
        self.reading = Some(Once::start(&**host, ctx, "cache", move |_| Ok(files.cached())));
    }

    /// Shows the models in a menu. Returns the name of the one that was chosen.
    pub(crate) fn rows(&self, ui: &mut Ui) -> Option<String> {
        let weak = |text: &str| RichText::new(text).small().weak();
        let Some(list) = &self.list else {
            ui.label("Reading the cache");
            return None;
        };
        if list.is_empty() {
            ui.add(Label::new(weak(NONE)).wrap());
            ui.add(Label::new(RichText::new(FETCH).monospace()).wrap());
            if ui.button("Copy the command").clicked() {
                ui.ctx().copy_text(FETCH.to_owned());
            }
        }
        let mut chosen = None;
        // A menu gives a scroll area only its minimum height.
        let area = ScrollArea::vertical().max_height(HEIGHT).min_scrolled_height(HEIGHT);
        area.show(ui, |ui| {
            for model in list {
                let button = ui.add_enabled(model.kind.is_ok(), Button::new(&model.name));
                let (Ok(text) | Err(text)) = &model.kind;
                ui.add(Label::new(weak(text)).wrap());
                if button.on_disabled_hover_text(text).clicked() {
                    chosen = Some(model.name.clone());
                }
            }
        });
        if chosen.is_some() {
            ui.close();
        }
        chosen
    }
}
