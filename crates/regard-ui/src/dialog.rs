//! The file dialog: a path is typed, or found with the system's own dialog.

use core::ops::ControlFlow;
use std::path::{Path, PathBuf};

use egui::{Id, Key, Modal, RichText, TextEdit, Ui};

use super::{Command, Session, style};
use crate::Host;
use crate::host::FileDialog;
use crate::work::Once;

pub(crate) struct Dialog {
    /// The command that needs the file.
    pub(crate) command: Command,
    words: DialogWords,
    path: String,
    refusal: Option<String>,
    /// Whether it has not been shown yet.
    is_new: bool,
    /// The result of the system's dialog, while that is open.
    browsing: Option<Once<Option<PathBuf>>>,
}

#[derive(Clone, Copy)]
struct DialogWords {
    /// The button.
    act: &'static str,
    /// The initial name.
    name: &'static str,
    extensions: &'static [&'static str],
}

impl DialogWords {
    fn of(command: Command) -> Option<Self> {
        let (act, name, extensions): (_, _, &[&str]) = match command {
            Command::OpenSession => ("Open", "session.regard.json", &["json"]),
            Command::SaveSession => ("Save", "session.regard.json", &["json"]),
            Command::SaveImage => ("Save", "regard.png", &["png"]),
            Command::OpenAttention => ("Open", "attention.safetensors", &TENSORS),
            Command::OpenTokens => ("Open", "tokens.safetensors", &TENSORS),
            Command::OpenModel | Command::OpenModelB => {
                ("Open", "", &["gguf", "safetensors", "json"])
            }
            Command::OpenImage => ("Open", "", &["png", "jpg", "jpeg"]),
            Command::OpenRecording => ("Open", "", &["wav"]),
            Command::ExportMatrix => ("Export", "matrix.svg", &MATRIX),
            Command::ExportSweep => ("Export", "heads.svg", &MATRIX),
            Command::ExportPlot(_) => ("Export", "curves.svg", &MATRIX[..4]),
            _ => return None,
        };
        Some(Self { act, name, extensions })
    }
}

const TENSORS: [&str; 3] = ["safetensors", "npy", "npz"];
const MATRIX: [&str; 6] = ["svg", "png", "html", "csv", "npy", "safetensors"];

impl Dialog {
    /// Asks for the file of a command, starting in the host's folder. `None` for a command that needs no file.
    pub(crate) fn new(host: &dyn Host, command: Command) -> Option<Self> {
        let words = DialogWords::of(command)?;
        let path = host.folder().join(words.name).display().to_string();
        Some(Self { command, words, path, refusal: None, is_new: true, browsing: None })
    }

    /// Whether a path can be opened: it exists, or it may be the name of a model in the cache.
    fn can_be_opened(&self, host: &dyn Host, path: &Path) -> bool {
        let is_model = matches!(self.command, Command::OpenModel | Command::OpenModelB);
        let is_name = is_model && !path.is_absolute() && !path.starts_with(".");
        is_name || Session::is_link(path) || host.exists(path) || host.is_folder(path)
    }

    /// Shows the dialog. `Break` closes it, with the path that was chosen, if any.
    pub(crate) fn show(&mut self, host: &dyn Host, ui: &Ui) -> ControlFlow<Option<PathBuf>> {
        if let Some(found) = self.browsing.as_ref().and_then(Once::take) {
            self.browsing = None;
            if let Ok(Some(path)) = found {
                self.path = path.display().to_string();
            }
        }
        let DialogWords { act, name, extensions } = self.words;
        let heading = match self.command {
            Command::ExportPlot(_) => "Export curves".to_owned(),
            command => command.name(),
        };
        let opens = act == "Open";
        let modal = Modal::new(Id::unique("file")).show(ui.ctx(), |ui| {
            style::set_modal_width(ui, 480.0);
            ui.label(RichText::new(&heading).text_style(style::subheading()).strong());
            let field = ui.add(TextEdit::singleline(&mut self.path).desired_width(f32::INFINITY));
            // Enter confirms only in the field. On a button it presses that button.
            let entered = field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
            if core::mem::take(&mut self.is_new) {
                field.request_focus();
            }
            if field.changed() {
                self.refusal = None;
            }
            field.accessible_name("Path of the file");
            if let Some(refusal) = &self.refusal {
                ui.colored_label(ui.visuals().error_fg_color, refusal);
            }
            let replaces = !opens && host.exists(Path::new(&self.path));
            let hint = match extensions {
                _ if replaces => "This file exists and will be replaced.".to_owned(),
                _ if matches!(self.command, Command::OpenModel | Command::OpenModelB) => {
                    "A folder of Hugging Face or a file in it, a .gguf file, or a name in the local cache such as \
                     openai-community/gpt2."
                        .to_owned()
                }
                _ if self.command == Command::OpenSession => {
                    "A file that the window saved, or a link that it copied.".to_owned()
                }
                [_] => String::new(),
                _ => format!("The ending chooses the format: .{}", extensions.join(", .")),
            };
            if !hint.is_empty() {
                ui.weak(hint);
            }
            ui.horizontal(|ui| {
                let act =
                    ui.add_enabled(!self.path.trim().is_empty(), egui::Button::new(act)).clicked();
                let cancel = ui.button("Cancel").clicked();
                let browse = ui.add_enabled(self.browsing.is_none(), egui::Button::new("Browse…"));
                if browse.on_hover_text("Open the system's file dialog.").clicked() {
                    let (once, doing) = Once::promise(ui.ctx());
                    let dialog = FileDialog {
                        heading: &heading,
                        extensions,
                        opens,
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
        let path = Path::new(self.path.trim());
        if act && opens && !self.can_be_opened(host, path) {
            self.refusal = Some(format!("There is no {}.", path.display()));
            ControlFlow::Continue(())
        } else if act && !path.as_os_str().is_empty() {
            ControlFlow::Break(Some(path.to_owned()))
        } else if cancel || modal.should_close() {
            ControlFlow::Break(None)
        } else {
            ControlFlow::Continue(())
        }
    }
}
