//! The file dialog: a path is typed, or found with the system's own dialog.

use std::path::{Path, PathBuf};

use egui::{Id, Key, Label, Modal, RichText, TextEdit, Ui};

use super::plots::PlotName;
use super::style;
use crate::Host;
use crate::host::FileDialog;
use crate::reply::Reply;
use crate::work::Once;

/// The purposes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A session is read from it.
    OpenSession,
    /// The session is written to it.
    SaveSession,
    /// The window's picture is written to it.
    SaveImage,
    /// Attention is read from it.
    OpenAttention,
    /// A model is read from it, or from its folder.
    OpenModel,
    /// An image is read from it.
    OpenImage,
    /// Model B is read from it, or from its folder.
    OpenModelB,
    /// Queries and keys are read from it.
    OpenTokens,
    /// The matrix that is shown is written to it.
    ExportMatrix,
    /// The effect of each head of a model is written to it.
    ExportSweep,
    /// The curves of a plot are written to it.
    ExportPlot(PlotName),
}

/// The open dialog.
pub struct Dialog {
    /// The purpose of the file.
    pub purpose: Purpose,
    path: String,
    /// Whether it has not been shown yet.
    is_new: bool,
    /// The answer of the system's dialog, while that is open.
    browsing: Option<Once<Option<PathBuf>>>,
}

impl Purpose {
    /// The heading, the button, and the initial name.
    fn words(self) -> [&'static str; 3] {
        match self {
            Self::OpenSession => ["Open session", "Open", "session.regard.json"],
            Self::SaveSession => ["Save session", "Save", "session.regard.json"],
            Self::SaveImage => ["Save picture of the window", "Save", "regard.png"],
            Self::OpenAttention => ["Open attention file", "Open", "attention.safetensors"],
            Self::OpenModel => ["Open model", "Open", ""],
            Self::OpenImage => ["Open image", "Open", ""],
            Self::OpenModelB => ["Open model B", "Open", ""],
            Self::OpenTokens => ["Open tokens", "Open", "tokens.safetensors"],
            Self::ExportMatrix => ["Export matrix", "Export", "matrix.svg"],
            Self::ExportSweep => ["Export the effect of each head", "Export", "heads.svg"],
            Self::ExportPlot(_) => ["Export curves", "Export", "curves.svg"],
        }
    }

    /// The extensions of possible names.
    fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::OpenSession | Self::SaveSession => &["json"],
            Self::SaveImage => &["png"],
            Self::OpenImage => &["png", "jpg", "jpeg"],
            Self::OpenModel | Self::OpenModelB => &["gguf", "safetensors", "json"],
            Self::OpenAttention | Self::OpenTokens => &["safetensors", "npy", "npz"],
            Self::ExportMatrix | Self::ExportSweep => {
                &["svg", "png", "html", "csv", "npy", "safetensors"]
            }
            Self::ExportPlot(_) => &["svg", "png", "html", "csv"],
        }
    }

    fn is_opening(self) -> bool {
        use Purpose::{ExportMatrix, ExportPlot, ExportSweep, SaveImage, SaveSession};
        !matches!(self, SaveSession | SaveImage | ExportMatrix | ExportSweep | ExportPlot(_))
    }
}

impl Dialog {
    /// Asks for a file, starting in the host's folder.
    pub fn new(host: &dyn Host, purpose: Purpose) -> Self {
        let [_, _, name] = purpose.words();
        let folder = host.folder();
        Self {
            purpose,
            path: folder.join(name).display().to_string(),
            is_new: true,
            browsing: None,
        }
    }

    /// Shows the dialog.
    pub fn show(&mut self, host: &dyn Host, ui: &Ui) -> Reply<PathBuf> {
        if let Some(found) = self.browsing.as_ref().and_then(Once::take) {
            self.browsing = None;
            if let Ok(Some(path)) = found {
                self.path = path.display().to_string();
            }
        }
        let [heading, act, _] = self.purpose.words();
        let modal = Modal::new(Id::unique("file")).show(ui.ctx(), |ui| {
            style::set_modal_width(ui, 480.0);
            ui.label(RichText::new(heading).text_style(style::subheading()).strong());
            let field = ui.add(TextEdit::singleline(&mut self.path).desired_width(f32::INFINITY));
            // Enter confirms only in the field. On a button it presses that button.
            let entered = field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
            if core::mem::take(&mut self.is_new) {
                field.request_focus();
            }
            field.accessible_name("Path of the file");
            let replaces = !self.purpose.is_opening() && host.exists(Path::new(&self.path));
            let kinds = self.purpose.extensions();
            let hint = match kinds {
                _ if replaces => "This file exists and will be replaced.".to_owned(),
                _ if matches!(self.purpose, Purpose::OpenModel | Purpose::OpenModelB) => {
                    "A folder of Hugging Face or a file in it, a .gguf file, or a name in the local cache such as \
                     openai-community/gpt2."
                        .to_owned()
                }
                [_] => String::new(),
                _ => format!("The ending chooses the format: .{}", kinds.join(", .")),
            };
            if !hint.is_empty() {
                ui.add(Label::new(RichText::new(hint).weak()).wrap());
            }
            ui.horizontal(|ui| {
                let act =
                    ui.add_enabled(!self.path.trim().is_empty(), egui::Button::new(act)).clicked();
                let cancel = ui.button("Cancel").clicked();
                let browse = ui.add_enabled(self.browsing.is_none(), egui::Button::new("Browse…"));
                if browse.on_hover_text("Open the system's file dialog.").clicked() {
                    let [heading, _, name] = self.purpose.words();
                    let (once, doing) = Once::promise(ui.ctx());
                    let dialog = FileDialog {
                        heading,
                        extensions: self.purpose.extensions(),
                        opens: self.purpose.is_opening(),
                        path: Path::new(&self.path),
                        name,
                    };
                    host.browse(dialog, Box::new(move |path| doing.fulfil(Ok(path))));
                    self.browsing = Some(once);
                }
                (act || entered, cancel)
            })
            .inner
        });
        let (act, cancel) = modal.inner;
        if act && !self.path.trim().is_empty() {
            Reply::Chosen(PathBuf::from(self.path.trim()))
        } else if cancel || modal.should_close() {
            Reply::Closed
        } else {
            Reply::Pending
        }
    }
}
