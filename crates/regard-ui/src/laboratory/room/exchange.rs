//! The room's exchange with the background.

use std::path::PathBuf;
use std::sync::Arc;

use egui::Ui;
use web_time::Instant;

use super::super::engine::Compute;
use super::super::{LaboratoryInputs, Outcome, Request, State, TokenFile};
use super::LaboratoryRoom;
use crate::work::{PATIENCE, Shared};
use regard_figure::Label;

impl LaboratoryRoom {
    /// Takes queries and keys from a file, which is read again. The state changes only when the file has been read.
    pub(crate) fn open(&mut self, path: PathBuf) {
        self.opening = Some(path);
        self.refused = None;
        // A new engine has not read any file.
        (self.engine, self.computing, self.asked) = (self.background.place(), None, None);
    }

    /// The file of the state's tokens, if it has been read.
    pub(super) fn file(&self, state: &State) -> Option<Shared<TokenFile>> {
        let outcome = self.outcome.as_ref()?;
        let is_it = outcome.request.inputs.source.path() == state.inputs.source.path();
        outcome.file.clone().filter(|_| is_it)
    }

    /// Takes the answer, and makes the next request.
    pub(super) fn exchange(&mut self, ui: &Ui, state: &mut State) {
        let was_late = self.is_late();
        if let Some(answer) = self.computing.as_ref().and_then(|(_, once)| once.take())
            && let Some((asked, _)) = self.computing.take()
        {
            self.receive(&asked, answer, state);
        }
        let mut request = state.request();
        if let Some(path) = &self.opening {
            request.inputs = request.inputs.of_file(path);
        }
        if self.asked.as_ref().is_none_or(|(asked, _)| *asked != request) {
            let before = self.asked.take().filter(|_| was_late);
            let since = before.map_or_else(Instant::now, |(_, since)| since);
            self.asked = Some((request.clone(), since));
        }
        // Work that has begun is finished. Otherwise a moving slider would show nothing.
        if self.computing.is_none() && self.is_late() {
            let question = Compute { engine: self.engine.id(), request: request.clone() };
            self.computing = Some((request, self.background.ask(ui.ctx(), question)));
        }
        if self.is_late() {
            ui.ctx().request_repaint_after(PATIENCE / 2);
        }
    }

    fn receive(&mut self, asked: &Request, answer: Result<Outcome, String>, state: &mut State) {
        let is_latest = self.asked.as_ref().is_some_and(|(latest, _)| latest == asked);
        self.answered = Some(asked.clone());
        let path = asked.inputs.source.path();
        let is_opening = self.opening.is_some() && self.opening.as_deref() == path;
        if is_opening {
            self.opening = None;
        }
        match answer {
            Ok(outcome) => {
                // A new picture restarts the clock of the progress bar.
                if let Some((_, since)) = &mut self.asked {
                    *since = Instant::now();
                }
                if is_opening {
                    let LaboratoryInputs { source, tokens, dim, .. } =
                        outcome.request.inputs.clone();
                    state.inputs = LaboratoryInputs { source, tokens, dim, ..state.inputs.clone() };
                }
                if let Some(file) =
                    outcome.file.as_ref().filter(|_| state.inputs.source.path() == path)
                {
                    state.inputs.limit_to(file);
                }
                if is_latest && state.request() == outcome.request {
                    // The state is limited in the same way as the request, so no new request follows.
                    self.asked = Some((outcome.request.clone(), Instant::now()));
                    self.answered = Some(outcome.request.clone());
                }
                if self
                    .outcome
                    .as_ref()
                    .is_none_or(|before| !Arc::ptr_eq(&before.names.0, &outcome.names.0))
                {
                    let texts =
                        |names: &Vec<Label>| names.iter().map(|name| name.text.clone()).collect();
                    self.labels = outcome.names.each_ref().map(texts);
                }
                self.outcome = Some(outcome);
                self.curves = None;
                self.error = None;
            }
            Err(error) if is_opening => self.refused = Some(error),
            Err(error) => self.error = Some(error),
        }
    }

    pub(super) fn is_late(&self) -> bool {
        self.asked.as_ref().is_some_and(|(asked, _)| self.answered.as_ref() != Some(asked))
    }
}
