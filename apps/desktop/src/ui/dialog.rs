//! Which file: a path to type.

use std::path::PathBuf;

use egui::{Id, Key, Label, Modal, Modifiers, RichText, TextEdit, Ui};

use super::style;

/// What the file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A session is read from it.
    OpenSession,
    /// The session is written to it.
    SaveSession,
    /// The window's picture is written to it.
    SaveImage,
}

/// The question while it is open.
pub struct Dialog {
    /// What the file is for.
    pub purpose: Purpose,
    path: String,
}

/// What came of asking.
pub enum Outcome {
    /// It stays open.
    Open,
    /// No file, then.
    Cancelled,
    /// This file.
    Chosen(PathBuf),
}

impl Purpose {
    /// The heading, the button, and the name to begin with.
    fn words(self) -> [&'static str; 3] {
        match self {
            Self::OpenSession => ["Open session", "Open", "session.regard.json"],
            Self::SaveSession => ["Save session", "Save", "session.regard.json"],
            Self::SaveImage => ["Save picture of the window", "Save", "regard.png"],
        }
    }
}

impl Dialog {
    /// Asks for a file in the folder that the program was started in.
    pub fn new(purpose: Purpose) -> Self {
        let [_, _, name] = purpose.words();
        let folder = std::env::current_dir().unwrap_or_default();
        Self { purpose, path: folder.join(name).display().to_string() }
    }

    /// Shows the question.
    pub fn show(&mut self, ui: &Ui) -> Outcome {
        let enter = ui.input_mut(|input| input.consume_key(Modifiers::NONE, Key::Enter));
        let [heading, act, _] = self.purpose.words();
        let modal = Modal::new(Id::unique("file")).show(ui.ctx(), |ui| {
            ui.set_width(480.0_f32.min(ui.ctx().content_rect().width() - 64.0));
            ui.label(RichText::new(heading).text_style(style::subheading()).strong());
            let field = ui.add(TextEdit::singleline(&mut self.path).desired_width(f32::INFINITY));
            field.accessible_name("Path of the file");
            let replaces = self.purpose != Purpose::OpenSession && PathBuf::from(&self.path).exists();
            if replaces {
                ui.add(Label::new(RichText::new("There is such a file: it will be replaced.").weak()).wrap());
            }
            ui.horizontal(|ui| {
                let act = ui.add_enabled(!self.path.trim().is_empty(), egui::Button::new(act)).clicked();
                (act, ui.button("Cancel").clicked())
            })
            .inner
        });
        let (act, cancel) = modal.inner;
        if (act || enter) && !self.path.trim().is_empty() {
            Outcome::Chosen(PathBuf::from(self.path.trim()))
        } else if cancel || modal.should_close() {
            Outcome::Cancelled
        } else {
            Outcome::Open
        }
    }
}
