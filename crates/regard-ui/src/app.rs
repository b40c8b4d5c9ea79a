//! The contents of the window: a bar with tabs and a menu, and the open room.

use core::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::anyhow;
use egui::{Context, Panel, Ui};
use regard_figure::{Ground, Look};
use web_time::Instant;

use super::Room;
use super::command_palette::Palette;
use super::dialog::Dialog;
use super::heatmap::look;
use super::history::History;
use super::host::BOOK;
use super::kept::Kept;
use super::setting::SETTINGS;
use super::walkthrough::ReadingMode;
use super::{
    Command, Host, Session, Start, appearance, command, command_palette, kept, laboratory, model,
    picture, side, style, walkthrough,
};

mod bar;
mod files;

use self::bar::Notice;
use self::files::not_shown;

/// The program without its window.
pub struct App {
    /// The choices of the user.
    pub session: Session,
    /// Whether the room is shown without the bar above it, as a part of another page.
    pub alone: bool,
    host: Arc<dyn Host>,
    history: History,
    pub(crate) walkthrough: walkthrough::WalkthroughRoom,
    pub(crate) laboratory: laboratory::LaboratoryRoom,
    model: model::ModelRoom,
    palette: Option<Palette>,
    shows_keys: bool,
    dialog: Option<Dialog>,
    notice: Option<Notice>,
    pictures: picture::Pending,
    kept: Option<Kept>,
}

impl App {
    /// Continues a session.
    pub fn with_session(ctx: &Context, host: Arc<dyn Host>, session: Session) -> Self {
        style::apply(ctx);
        // Zooming is one of the window's commands.
        ctx.options_mut(|options| options.zoom_with_keyboard = false);
        appearance::apply(session.appearance, ctx);
        Self {
            history: History::new(&session),
            walkthrough: walkthrough::WalkthroughRoom::new(&session.walkthrough, session.look),
            laboratory: laboratory::LaboratoryRoom::new(Arc::clone(&host)),
            model: model::ModelRoom::new(Arc::clone(&host)),
            palette: None,
            shows_keys: false,
            dialog: None,
            notice: None,
            pictures: picture::Pending::new(Arc::clone(&host)),
            kept: None,
            session,
            alone: false,
            host,
        }
    }

    /// Continues the session in a file, and updates the file from now on.
    ///
    /// Without such a file, [`greeting`](super::greeting) is shown. A file that cannot be read is renamed, and a message names it.
    pub(crate) fn resume(ctx: &Context, host: &Arc<dyn Host>, path: PathBuf) -> Self {
        let (session, failure) = match Session::read(&**host, &path) {
            Ok(session) => (session, None),
            Err(e) => (super::greeting(), host.exists(&path).then_some(e)),
        };
        let mut app = Self::with_session(ctx, Arc::clone(host), session);
        let Some(e) = failure else {
            app.keep_in(path);
            return app;
        };
        match kept::put_aside(&**host, &path) {
            Ok(aside) => {
                let what = format!(
                    "this is a new session; the last one cannot be read and is now {}",
                    aside.display()
                );
                app.tell(Err(e.context(what)));
                app.keep_in(path);
            }
            // The file is not overwritten.
            Err(_) => app.tell(Err(
                e.context("this session will not be saved, because the last one cannot be read")
            )),
        }
        app
    }

    /// The program with the contents of the first frame, on top of the last session or of the greeting.
    pub fn start(ctx: &Context, host: Arc<dyn Host>, start: Start) -> Self {
        let mut app = match host.session_file() {
            Some(path) => Self::resume(ctx, &host, path),
            None => Self::with_session(ctx, host, super::greeting()),
        };
        match start {
            Start::Last => {}
            Start::Example(example) => app.perform(ctx, Command::Example(example)),
            Start::File(path) => app.open_file(ctx, &path),
            Start::Model { name, second } => {
                app.open_model(ctx, name);
                if let Some(second) = second {
                    app.compare_with(second);
                }
            }
        }
        app
    }

    /// Writes the session to a file from now on, whenever it changes.
    pub(crate) fn keep_in(&mut self, path: PathBuf) {
        self.kept = Some(Kept::new(Arc::clone(&self.host), path, &self.session));
    }

    /// Waits for the files that are being written, then writes the session to its own file, if it has one. This is the last
    /// call before the window closes.
    ///
    /// # Errors
    /// If the file cannot be written. The error names it.
    pub fn end(&mut self) -> anyhow::Result<()> {
        self.pictures.finish();
        self.kept.take().map_or(Ok(()), |mut kept| kept.write(&self.session))
    }

    /// The stage.
    pub fn model(&self) -> &model::ModelRoom {
        &self.model
    }

    /// Whether a thread works for a room or on a file.
    pub fn is_busy(&self) -> bool {
        self.laboratory.is_computing() || self.model.is_busy() || self.pictures.is_busy()
    }

    /// Draws the window and handles the user's input.
    pub fn ui(&mut self, ui: &mut Ui) {
        let mut chosen = self.overlay(ui);
        self.shows_keys = self.shows_keys && command_palette::keys(ui);
        if self.palette.is_none() && self.dialog.is_none() && !self.shows_keys {
            chosen = chosen.or_else(|| command::pressed(ui.ctx()));
        }
        let first = &self.session.walkthrough;
        let is_presented =
            self.session.room == Room::Walkthrough && first.reading == ReadingMode::Presented;
        // A presented step fills the window.
        if !is_presented && !self.alone {
            let top = Panel::top("rooms").resizable(false).frame(style::panel(ui, 16, 8));
            chosen = top.show(ui, |ui| self.bar(ui)).inner.or(chosen);
        }
        self.drops(ui.ctx());
        let side = !self.alone && side::is_shown(width(ui.ctx()), self.session.appearance.side);
        let ground = if ui.visuals().dark_mode { Ground::Dark } else { Ground::Paper };
        let Session { room, look, walkthrough, laboratory, model, .. } = &mut self.session;
        let drawn = Look { ground, ..*look };
        look::remember(ui.ctx(), drawn);
        match room {
            Room::Walkthrough => {
                chosen = self.walkthrough.ui(ui, walkthrough, drawn, side).or(chosen);
            }
            Room::Laboratory => chosen = self.laboratory.ui(ui, laboratory, drawn, side).or(chosen),
            Room::Stage => chosen = self.model.ui(ui, model, drawn).or(chosen),
        }
        *look = Look { ground: look.ground, ..look::remembered(ui.ctx()) };
        if side::was_closed(ui.ctx()) {
            self.session.appearance.side = None;
        }
        if let Some(command) = chosen {
            self.perform(ui.ctx(), command);
        }
        self.notice(ui);
        // All positions of a slider during one drag are one change.
        if !ui.input(|input| input.pointer.any_down()) {
            self.history.note(&self.session, || self.model.tokens());
        }
        appearance::follow(&mut self.session.appearance, ui.ctx());
        let kept = self.kept.as_mut().map(|kept| kept.note(ui.ctx(), &self.session));
        if let Some(Err(e)) = kept {
            self.tell(Err(e.context("the session will not be there at the next start")));
        }
    }

    /// The name of the change that undo takes back, or that redo makes again.
    fn step(&self, command: Command) -> Option<&str> {
        let [undone, redone] = self.history.names(self.session.room);
        if command == Command::Redo { redone } else { undone }
    }

    /// The name of a command, with the change that undo and redo are about.
    fn name(&self, command: Command) -> String {
        let step = matches!(command, Command::Undo | Command::Redo).then(|| self.step(command));
        let name = command.name();
        step.flatten().map_or_else(|| name.clone(), |step| format!("{name}: {step}"))
    }

    /// Whether a command has an effect now.
    fn is_possible(&self, command: Command) -> bool {
        match command {
            Command::Undo | Command::Redo => self.step(command).is_some(),
            Command::ResetNumbers => self.session.walkthrough.inputs.is_changed(),
            Command::ForgetA => self.session.laboratory.pinned.is_some(),
            Command::ExportMatrix => self.has_matrix() || self.grid().is_some(),
            Command::CopyMatrix => self.has_matrix(),
            Command::ExportSweep => self.sweep().is_some(),
            Command::ExportPlot(plot) => self.plot(plot).is_some(),
            Command::SidePanel => self.session.room != Room::Stage,
            _ => true,
        }
    }

    /// Shows the overlay of the window: the command palette or a dialog.
    fn overlay(&mut self, ui: &Ui) -> Option<Command> {
        if let Some(done) = self.pictures.take() {
            self.tell(done);
        }
        if let Some(palette) = &mut self.palette
            && let ControlFlow::Break(chosen) = palette.show(ui)
        {
            self.palette = None;
            if chosen.is_some() {
                return chosen;
            }
        }
        if let Some(dialog) = &mut self.dialog {
            let command = dialog.command;
            if let ControlFlow::Break(chosen) = dialog.show(&*self.host, ui) {
                self.dialog = None;
                if let Some(path) = chosen {
                    self.use_file(ui.ctx(), command, path);
                }
            }
        }
        None
    }

    /// Performs a command.
    pub fn perform(&mut self, ctx: &Context, command: Command) {
        let is_possible = self.is_possible(command);
        let session = &mut self.session;
        match command {
            Command::Palette => self.palette = Some(Palette::of(session.room)),
            Command::Keys => self.shows_keys = true,
            Command::Setting(i) => {
                session.room = SETTINGS[i].room;
                (SETTINGS[i].choose)(session);
            }
            Command::Book => {
                if let Err(e) = self.host.open_book() {
                    self.tell(Err(anyhow!("no browser opens {BOOK}: {e}")));
                }
            }
            Command::Room(room) => session.room = room,
            Command::NextExample => self.go_to_example(|state| state.go_by(1)),
            Command::PreviousExample => self.go_to_example(|state| state.go_by(-1)),
            Command::Example(example) => self.go_to_example(|state| state.open(example)),
            Command::Guide => self.go_to_example(|state| state.read(ReadingMode::Guided)),
            Command::Present => {
                self.go_to_example(|state| state.read(ReadingMode::Presented));
            }
            Command::Undo | Command::Redo => {
                self.history.note(session, || self.model.tokens());
                self.history.go(session, command == Command::Undo);
            }
            Command::Reset => match session.room {
                Room::Walkthrough => {
                    session.walkthrough =
                        walkthrough::WalkthroughState::new(session.walkthrough.example());
                }
                Room::Laboratory => session.laboratory = laboratory::LaboratoryState::default(),
                Room::Stage => {
                    let file = session.model.file.take();
                    session.model = model::ModelState {
                        file,
                        ..model::ModelState::of(session.model.model.clone())
                    };
                }
            },
            Command::ResetNumbers => {
                session.room = Room::Walkthrough;
                session.walkthrough.inputs.reset();
            }
            Command::PinA => {
                session.room = Room::Laboratory;
                session.laboratory.pin();
            }
            Command::ForgetA => session.laboratory.unpin(),
            Command::Benchmark => {
                session.room = Room::Laboratory;
                self.laboratory.toggle_benchmark(ctx, &session.laboratory.inputs);
            }
            Command::ExportMatrix | Command::ExportSweep | Command::ExportPlot(_)
                if !is_possible =>
            {
                self.tell(Err(not_shown(command)));
            }
            Command::CopyMatrix => self.copy(ctx),
            Command::CopyLink => {
                let (text, what) = self.host.link(&session.link());
                ctx.copy_text(text);
                self.tell(Ok(format!("Copied {what}.")));
            }
            Command::SidePanel => {
                session.appearance.side = side::toggled(width(ctx), session.appearance.side);
            }
            Command::ZoomIn => appearance::zoom(&mut session.appearance, 0.1),
            Command::ZoomOut => appearance::zoom(&mut session.appearance, -0.1),
            Command::ZoomReset => session.appearance.zoom = 1.0,
            Command::Theme(theme) => ctx.set_theme(theme),
            Command::Map(map) => session.look.map = map,
            Command::Linear | Command::Logarithmic => {
                let scale = Some(command == Command::Logarithmic);
                // The same scale again returns the choice to the data.
                session.look.logarithmic = scale.filter(|_| session.look.logarithmic != scale);
            }
            // The other commands ask for a file.
            _ => self.dialog = Dialog::new(&*self.host, command),
        }
        ctx.request_repaint();
    }

    fn go_to_example(&mut self, go: impl FnOnce(&mut walkthrough::WalkthroughState)) {
        self.session.room = Room::Walkthrough;
        go(&mut self.session.walkthrough);
    }

    fn tell(&mut self, done: anyhow::Result<String>) {
        let (is_error, room) = (done.is_err(), self.session.room);
        let text = done.unwrap_or_else(|e| format!("{e:#}"));
        self.notice = Some(Notice { text, is_error, room, since: Instant::now() });
    }
}

fn width(ctx: &Context) -> f32 {
    ctx.content_rect().width()
}
