//! The bar with the tabs and the menu, and the message below it.

use core::time::Duration;

use web_time::Instant;

use egui::{Align, Button, Layout, Panel, RichText, ScrollArea, Ui};

use super::App;
use crate::session::Room;
use crate::{Command, message, style};

/// A message of success disappears after this time.
const WHILE: Duration = Duration::from_secs(6);

/// A message to the user.
pub(super) struct Notice {
    pub(super) text: String,
    pub(super) is_error: bool,
    pub(super) since: Instant,
}

impl App {
    /// The tabs, and the menu.
    pub(super) fn bar(&self, ui: &mut Ui) -> Option<Command> {
        let mut chosen = None;
        let width = ui.available_width();
        ui.horizontal(|ui| {
            if width < 450.0 {
                ui.spacing_mut().item_spacing.x = 2.0;
                ui.spacing_mut().button_padding.x = 6.0;
            }
            let command = Command::SidePanel;
            if ui
                .button(RichText::new("◧").monospace())
                .accessible_name(command.name())
                .on_hover_text(hint(ui, command))
                .clicked()
            {
                chosen = Some(command);
            }
            if width >= 760.0 {
                ui.label(RichText::new("Regard").text_style(style::subheading()).strong());
                ui.add_space(8.0);
            }
            for room in Room::ALL {
                let command = Command::Room(room);
                if ui
                    .selectable_label(self.session.room == room, room.name())
                    .on_hover_text(hint(ui, command))
                    .clicked()
                {
                    chosen = Some(command);
                }
            }
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                ui.menu_button("Menu", |ui| {
                    // The menu scrolls in a small window.
                    let height = ui.ctx().content_rect().height() - 72.0;
                    ui.spacing_mut().item_spacing.y = 2.0;
                    ScrollArea::vertical()
                        .max_height(height)
                        .show(ui, |ui| chosen = self.menu(ui).or(chosen));
                });
                // The menu and the shortcuts offer these commands too.
                let commands: &[Command] = match width {
                    672.0.. => &[Command::Palette, Command::Redo, Command::Undo],
                    540.0.. => &[Command::Palette],
                    _ => &[],
                };
                for command in commands.iter().copied() {
                    let button =
                        ui.add_enabled(self.is_possible(command), Button::new(command.name()));
                    if button.on_hover_text(hint(ui, command)).clicked() {
                        chosen = Some(command);
                    }
                }
            });
        });
        chosen
    }

    fn menu(&self, ui: &mut Ui) -> Option<Command> {
        let mut chosen = None;
        // Tabs show the rooms, and the walkthrough lists the examples.
        let elsewhere =
            |command: &Command| matches!(command, Command::Room(_) | Command::NextExample);
        for (i, group) in
            Command::groups().into_iter().filter(|group| !group.iter().any(elsewhere)).enumerate()
        {
            if i > 0 {
                ui.separator();
            }
            for command in group {
                let mut button = Button::new(command.name());
                if let Some(keys) = command.shortcut() {
                    button = button.shortcut_text(ui.ctx().format_shortcut(&keys));
                }
                let button = ui
                    .add_enabled(self.is_possible(command), button)
                    .accessible_name(command.name());
                if button.on_hover_text(command.tooltip()).clicked() {
                    chosen = Some(command);
                    ui.close();
                }
            }
        }
        chosen
    }

    /// Shows the message, if there is one.
    pub(super) fn notice(&mut self, ui: &mut Ui) {
        // A success needs no answer.
        let is_over = |notice: &mut Notice| !notice.is_error && notice.since.elapsed() >= WHILE;
        self.notice.take_if(is_over);
        let Some(notice) = &self.notice else { return };
        if !notice.is_error {
            ui.ctx().request_repaint_after(WHILE.saturating_sub(notice.since.elapsed()));
        }
        let visuals = ui.visuals();
        let color = if notice.is_error { visuals.error_fg_color } else { visuals.text_color() };
        let frame = style::panel(ui, 16, 6).fill(style::tinted(visuals, color));
        let panel = Panel::top("notice").resizable(false).frame(frame);
        if panel.show(ui, |ui| message::show(ui, &notice.text, color, "Dismiss")).inner {
            self.notice = None;
        }
    }
}

/// A command's tooltip, with its keys.
fn hint(ui: &Ui, command: Command) -> String {
    let keys = command.shortcut().map(|keys| ui.ctx().format_shortcut(&keys));
    keys.map_or_else(|| command.tooltip(), |keys| format!("{} ({keys})", command.tooltip()))
}
