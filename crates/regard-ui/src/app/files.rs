//! The files that the window opens and writes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use egui::{Context, RichText};
use regard_figure::{Figure, Format, LabelledMatrix, Plot};
use regard_session::walkthrough::of_walkthrough;

use super::App;
use crate::plots::PlotName;
use crate::{Command, Room, Session, appearance, heads, model, style};

/// The largest matrix that is copied. As text, it takes some 3 MB.
const MOST_COPIED: usize = 512 * 512;

impl App {
    /// The matrix that the open room shows. In an example, it is the step of the chosen cell, or the weights.
    pub(crate) fn matrix(&self) -> Option<LabelledMatrix> {
        let look = self.session.look;
        match self.session.room {
            Room::Walkthrough => {
                let walkthrough = self.walkthrough.walkthrough().ok()?;
                of_walkthrough(walkthrough, self.session.walkthrough.picked_step(), look)
            }
            Room::Laboratory => self.laboratory.outcome().map(|outcome| outcome.matrix(look)),
            Room::Stage => self.model.shown(&self.session.model, look),
        }
    }

    /// Whether the open room shows a matrix. That of the laboratory holds the names of all its tokens, which a menu does not need.
    pub(super) fn has_matrix(&self) -> bool {
        match self.session.room {
            Room::Laboratory => self.laboratory.outcome().is_some(),
            _ => self.matrix().is_some(),
        }
    }

    /// The effect of each head of the model, if the model room shows it.
    pub(super) fn sweep(&self) -> Option<LabelledMatrix> {
        let Session { room, look, .. } = &self.session;
        self.model.swept(*look).filter(|_| *room == Room::Stage)
    }

    /// The curves of a plot, if its room shows it.
    pub(super) fn plot(&self, name: PlotName) -> Option<Plot> {
        match self.session.room {
            room if room != name.room() => None,
            Room::Walkthrough => self.walkthrough.plot(&self.session.walkthrough, name),
            _ => self.laboratory.plot(name),
        }
    }

    /// Opens a session (.json, or a link), a model (a folder or .gguf), an image (.png, .jpg), a recording (.wav), or attention.
    pub fn open_file(&mut self, ctx: &Context, path: &Path) {
        self.forget_messages();
        let command = if Session::is_named(path) {
            Command::OpenSession
        } else if self.is_model(path) {
            Command::OpenModel
        } else if ends_with(path, &["png", "jpg", "jpeg"]) {
            Command::OpenImage
        } else if ends_with(path, &["wav"]) {
            Command::OpenRecording
        } else if is_attention(path) {
            Command::OpenAttention
        } else {
            let name = path.display();
            return self.tell(Err(anyhow::anyhow!(
                "{name} is not opened: Regard opens models (a folder, .gguf), attention (.safetensors, .npy, .npz), images (.png, .jpg), recordings (.wav) and sessions (.json)"
            )));
        };
        self.use_file(ctx, command, path.to_owned());
    }

    /// Opens a model in its room: `story`, a folder, a GGUF file, or a name in the local Hugging Face cache.
    pub fn open_model(&mut self, ctx: &Context, name: String) {
        self.session.room = Room::Stage;
        self.model.open(ctx, &mut self.session.model, name);
    }

    /// Opens model B, to compare it with the model that is open.
    pub fn compare_with(&mut self, name: String) {
        self.session.room = Room::Stage;
        self.model.compare_with(&mut self.session.model, name);
    }

    /// A message about one file does not stay over the next, nor in a picture of the window.
    fn forget_messages(&mut self) {
        self.notice = None;
        self.model.forget_errors();
    }

    pub(super) fn use_file(&mut self, ctx: &Context, command: Command, path: PathBuf) {
        self.forget_messages();
        match command {
            Command::OpenSession => match Session::read(&*self.host, &path) {
                Ok(session) => {
                    self.session = session;
                    appearance::apply(self.session.appearance, ctx);
                    let link = Session::is_link(&path).then(|| "the link".to_owned());
                    let name = link.unwrap_or_else(|| path.display().to_string());
                    self.tell(Ok(format!("Opened {name}")));
                }
                Err(e) => self.tell(Err(e)),
            },
            Command::SaveSession => {
                let done = self
                    .session
                    .write(&*self.host, &path)
                    .map(|()| format!("Saved {}", path.display()));
                self.tell(done);
            }
            Command::SaveImage => self.pictures.ask(ctx, path),
            Command::OpenAttention => {
                self.session.room = Room::Stage;
                self.model.open_file(ctx, heads::AttentionSource::File(from_anywhere(path)));
            }
            Command::OpenModel => {
                let name = self.model_at(&path);
                self.open_model(ctx, name);
            }
            Command::OpenImage | Command::OpenRecording => {
                self.session.room = Room::Stage;
                if self.model.takes(&self.session.model, command) {
                    self.session.model.image = Some(from_anywhere(path));
                } else {
                    let what = if command == Command::OpenImage {
                        "the model of this room reads no image: open a model of images (vit) first"
                    } else {
                        "the model of this room reads no recording: open a model of sound (whisper) first"
                    };
                    self.tell(Err(anyhow::anyhow!("{}: {what}", path.display())));
                }
            }
            Command::OpenModelB => {
                let name = self.model_at(&path);
                self.compare_with(name);
            }
            Command::OpenTokens => {
                self.session.room = Room::Laboratory;
                self.laboratory.open(from_anywhere(path));
            }
            Command::ExportMatrix => self.export(ctx, path),
            Command::ExportSweep => {
                let sweep = self.sweep().ok_or_else(|| not_shown(command));
                self.write(ctx, path, sweep, |sweep, format| sweep.encode(format));
            }
            Command::ExportPlot(name) => {
                let plot = self.plot(name).ok_or_else(|| not_shown(command));
                self.write(ctx, path, plot, |plot, format| plot.encode(format));
            }
            _ => {}
        }
    }

    /// Whether a path is that of a model: a folder or a GGUF file.
    fn is_model(&self, path: &Path) -> bool {
        self.host.is_folder(path) || is_gguf(path)
    }

    /// The model at a path or of a name. A file of a Hugging Face folder stands for its folder.
    fn model_at(&self, path: &Path) -> String {
        if !self.host.exists(path) {
            return path.display().to_string(); // a name in the cache, or a mistake that the message names
        }
        let folder = path.parent().filter(|folder| {
            !self.host.is_folder(path)
                && !is_gguf(path)
                && self.host.exists(&folder.join("config.json"))
        });
        from_anywhere(folder.unwrap_or(path).to_owned()).display().to_string()
    }

    /// The heads that are shown together instead of a matrix.
    pub(super) fn grid(&self) -> Option<Arc<heads::Surveyed>> {
        let Session { room, model, .. } = &self.session;
        let is_shown = *room == Room::Stage && model.heads.shown == heads::Shown::Grid;
        self.model.shown_heads(model).filter(|_| is_shown)
    }

    /// The picture of this room, if it is not that of its matrix: lines, or all heads.
    fn figure(&self) -> Option<Result<Figure, regard_figure::Error>> {
        let Session { room, model, look, .. } = &self.session;
        if let Some(heads) = self.grid() {
            return Some(Ok(heads.figure(*look)));
        }
        let draws = *room == Room::Stage && model.view == model::View::Attention;
        let lines = || self.model.large().lines(&model.heads, *look);
        (draws && model.heads.lines).then(lines).flatten()
    }

    /// Writes the shown contents: a picture has the view of the room, and numbers are those of its matrix. A thread writes,
    /// because a large matrix takes seconds as CSV.
    pub(super) fn export(&mut self, ctx: &Context, path: PathBuf) {
        let format = match Format::of(&path) {
            Ok(format) => format,
            Err(e) => return self.tell(Err(e.into())),
        };
        if let Some(figure) = self.figure().filter(|_| format.is_picture()) {
            return self.pictures.run(ctx, path, move || Ok(figure?.encode(format)?));
        }
        let matrix = self.matrix().ok_or_else(|| not_shown(Command::ExportMatrix));
        self.write(ctx, path, matrix, |matrix, format| matrix.encode(format));
    }

    /// Writes something in the format of the file's name. A thread encodes it.
    fn write<T: Send + 'static>(
        &mut self,
        ctx: &Context,
        path: PathBuf,
        what: anyhow::Result<T>,
        encode: fn(&T, Format) -> Result<Vec<u8>, regard_figure::Error>,
    ) {
        match (what, Format::of(&path)) {
            (Ok(what), Ok(format)) => {
                self.pictures.run(ctx, path, move || Ok(encode(&what, format)?));
            }
            (Err(e), _) => self.tell(Err(e)),
            (_, Err(e)) => self.tell(Err(e.into())),
        }
    }

    /// Copies the matrix as CSV, if it is not too large.
    pub(super) fn copy(&mut self, ctx: &Context) {
        let copied =
            self.matrix().ok_or_else(|| not_shown(Command::CopyMatrix)).and_then(|matrix| {
                let (rows, cols) = (matrix.rows.len(), matrix.cols.len());
                if rows * cols > MOST_COPIED {
                    anyhow::bail!(
                        "{rows} × {cols} numbers are too many to copy; export the matrix to a file"
                    );
                }
                ctx.copy_text(matrix.csv()?);
                Ok(format!("Copied {rows} × {cols} numbers: {}", matrix.title))
            });
        self.tell(copied);
    }

    pub(super) fn drops(&mut self, ctx: &Context) {
        let (hovering, dropped) = ctx.input(|input| {
            (
                !input.raw.hovered_files.is_empty(),
                input.raw.dropped_files.iter().map(|file| file.path().to_owned()).collect(),
            )
        });
        let dropped: Vec<PathBuf> = dropped;
        if let Some(path) = dropped.first() {
            self.open_file(ctx, path);
            // Two models that are dropped together become A and B.
            if let Some(second) =
                dropped.get(1).filter(|_| dropped.iter().all(|path| self.is_model(path)))
            {
                self.use_file(ctx, Command::OpenModelB, second.clone());
            }
        } else if hovering {
            let text = "Drop a model, an image, an attention file or a session to open it";
            egui::Tooltip::always_open(
                ctx.clone(),
                egui::LayerId::background(),
                egui::Id::unique("drop"),
                ctx.content_rect().center(),
            )
            .show(|ui| ui.label(RichText::new(text).text_style(style::subheading())));
        }
    }
}

fn is_gguf(path: &Path) -> bool {
    ends_with(path, &["gguf"])
}

/// Whether a file may hold attention. One without an ending is read to find out.
fn is_attention(path: &Path) -> bool {
    path.extension().is_none() || ends_with(path, &["safetensors", "npy", "npz"])
}

fn ends_with(path: &Path, endings: &[&str]) -> bool {
    let extension = path.extension();
    extension.is_some_and(|extension| endings.iter().any(|e| extension.eq_ignore_ascii_case(e)))
}

/// The absolute path, with which a session finds the file from any folder.
fn from_anywhere(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// The reason why a command for hidden contents does nothing.
pub(super) fn not_shown(command: Command) -> anyhow::Error {
    match command {
        Command::ExportSweep => anyhow::anyhow!(
            "the effects are not known; sort the heads of a model by “Ablation effect”, or choose it as the overlay, first"
        ),
        Command::ExportPlot(plot) => anyhow::anyhow!(
            "the curves “{}” are not shown; go to the {} to see them first",
            plot.name(),
            plot.room().name().to_lowercase()
        ),
        _ => anyhow::anyhow!("no matrix is shown; choose a head from the grid first"),
    }
}
