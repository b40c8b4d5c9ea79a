//! The bar with the tabs and the menu, and the message over the page.

use core::time::Duration;

use web_time::Instant;

use egui::accesskit::Role;
use egui::style::ScrollStyle;
use egui::{
    Align, Align2, Area, Button, Color32, Context, Id, Layout, Order, RichText, ScrollArea, Ui,
    WidgetInfo, vec2,
};

use super::App;
use crate::Room;
use crate::{Command, Session, message, side, style};

/// A message of success stays for the first time, plus the second time for each of its characters.
const AT_LEAST: Duration = Duration::from_secs(4);
const A_CHARACTER: Duration = Duration::from_millis(60);
/// The maximum width of a message, and its distance from the lower edge of the window.
const WIDEST: f32 = 560.0;
const ABOVE_EDGE: f32 = 44.0;

/// The least width of the menu: it fits the longest command with its tick and its keys.
const MENU: f32 = 320.0;

pub(super) struct Notice {
    pub(super) text: String,
    pub(super) is_error: bool,
    /// The room that it is about. The others do not show it.
    pub(super) room: Room,
    /// The time when it was shown, or when the pointer left it.
    pub(super) since: Instant,
}

impl Notice {
    /// The time for which it still stays. An error stays until it is closed.
    fn rest(&self) -> Option<Duration> {
        let length = u32::try_from(self.text.chars().count()).unwrap_or(u32::MAX);
        let whole = AT_LEAST.saturating_add(A_CHARACTER.saturating_mul(length));
        (!self.is_error).then(|| whole.saturating_sub(self.since.elapsed()))
    }
}

impl App {
    pub(super) fn bar(&mut self, ui: &mut Ui) -> Option<Command> {
        let mut chosen = None;
        let width = ui.available_width();
        ui.horizontal(|ui| {
            if width < 450.0 {
                ui.spacing_mut().item_spacing.x = 2.0;
                ui.spacing_mut().button_padding.x = 5.0;
            }
            if self.session.room != Room::Stage {
                let panel = Button::new(RichText::new("◧").monospace());
                let name = Command::SidePanel.name();
                chosen = self.offer(ui, Command::SidePanel, name, panel);
            }
            if width >= 760.0 {
                ui.label(RichText::new("Regard").text_style(style::subheading()).strong());
                ui.add_space(8.0);
            }
            for room in Room::ALL {
                let tab = Button::selectable(self.session.room == room, room.name());
                chosen = self.offer(ui, Command::Room(room), room.name(), tab).or(chosen);
            }
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                ui.menu_button("Menu", |ui| {
                    // The menu scrolls in a small window.
                    let height = ui.ctx().content_rect().height() - 72.0;
                    ui.spacing_mut().item_spacing.y = 2.0;
                    ui.spacing_mut().scroll = ScrollStyle::solid();
                    ui.set_min_width(MENU);
                    ScrollArea::vertical()
                        .max_height(height)
                        .min_scrolled_height(height)
                        .show(ui, |ui| chosen = self.menu(ui).or(chosen));
                });
                // The menu and the shortcuts offer these commands too.
                let commands: &[Command] = match width {
                    672.0.. => &[Command::Palette, Command::Redo, Command::Undo],
                    540.0.. => &[Command::Palette],
                    _ => &[],
                };
                for command in commands.iter().copied() {
                    let button = Button::new(command.name());
                    chosen = self.offer(ui, command, self.name(command), button).or(chosen);
                }
                if self.session.room == Room::Stage {
                    chosen = self.model.menu(ui, &mut self.session.model).or(chosen);
                }
            });
        });
        chosen
    }

    /// Shows the button of a command. Returns the command if it was pressed.
    fn offer(
        &self,
        ui: &mut Ui,
        command: Command,
        name: impl Into<String>,
        button: Button<'_>,
    ) -> Option<Command> {
        let name: String = name.into();
        let button = ui.add_enabled(self.is_possible(command), button).accessible_name(&*name);
        let keys = command.keys(ui.ctx());
        let keys = keys.map_or_else(String::new, |keys| format!(" ({keys})"));
        let names_step = matches!(command, Command::Undo | Command::Redo);
        let what = if names_step { name } else { command.tooltip() };
        let hint = format!("{what}{keys}");
        button.on_hover_text(hint).clicked().then_some(command)
    }

    /// Whether the command's choice is the present one. `None` for a command that is not a choice.
    fn is_active(&self, ctx: &Context, command: Command) -> Option<bool> {
        let Session { look, appearance, .. } = &self.session;
        match command {
            Command::SidePanel => Some(side::is_shown(super::width(ctx), appearance.side)),
            Command::Theme(theme) => Some(ctx.options(|options| options.theme_preference) == theme),
            Command::Map(map) => Some(look.map == map),
            Command::Linear => Some(look.logarithmic == Some(false)),
            Command::Logarithmic => Some(look.logarithmic == Some(true)),
            _ => None,
        }
    }

    fn menu(&self, ui: &mut Ui) -> Option<Command> {
        let mut chosen = None;
        // Tabs show the rooms, the walkthrough lists the examples, and plots have buttons of their own.
        let elsewhere = |command: &Command| {
            matches!(command, Command::Room(_) | Command::NextExample | Command::ExportPlot(_))
        };
        for (i, group) in
            Command::groups().into_iter().filter(|group| !group.iter().any(elsewhere)).enumerate()
        {
            if i > 0 {
                ui.separator();
            }
            for command in group {
                let is_active = self.is_active(ui.ctx(), command);
                let tick = RichText::new("✓");
                // An invisible tick aligns the names.
                let tick =
                    if is_active == Some(true) { tick } else { tick.color(Color32::TRANSPARENT) };
                let name = self.name(command);
                let mut button = Button::new((tick, &*name));
                if let Some(keys) = command.keys(ui.ctx()) {
                    button = button.shortcut_text(keys);
                }
                let button =
                    ui.add_enabled(self.is_possible(command), button).accessible_name(&*name);
                if let Some(is_active) = is_active {
                    button.widget_info(|| {
                        WidgetInfo::selected(Role::MenuItemCheckBox, true, is_active, &name)
                    });
                }
                if button.on_hover_text(command.tooltip()).clicked() {
                    chosen = Some(command);
                    ui.close();
                }
            }
        }
        chosen
    }

    /// Shows the message over the page, if there is one.
    pub(super) fn notice(&mut self, ui: &Ui) {
        self.notice.take_if(|notice| notice.rest().is_some_and(|rest| rest.is_zero()));
        let room = self.session.room;
        let Some(notice) = self.notice.as_mut().filter(|notice| notice.room == room) else {
            return;
        };
        let ctx = ui.ctx();
        let visuals = ui.visuals();
        let color = if notice.is_error { visuals.error_fg_color } else { visuals.text_color() };
        let width = WIDEST.min(ctx.content_rect().width() - 48.0);
        let area = Area::new(Id::unique("notice")).order(Order::Foreground);
        let area = area.anchor(Align2::CENTER_BOTTOM, vec2(0.0, -ABOVE_EDGE));
        let shown = area.show(ctx, |ui| {
            ui.set_max_width(width);
            message::show(ui, &notice.text, color, "Dismiss")
        });
        // A message stays while it is read.
        if shown.response.contains_pointer() {
            notice.since = Instant::now();
        }
        if let Some(rest) = notice.rest() {
            ctx.request_repaint_after(rest);
        }
        if shown.inner {
            self.notice = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_stays_as_long_as_it_takes_to_read_and_an_error_until_it_is_closed() {
        let shown = |seconds: u64, characters: usize, is_error: bool| {
            let since = Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
            let room = Room::default();
            Notice { text: "x".repeat(characters), is_error, room, since }.rest()
        };
        assert!(shown(3, 0, false).is_some_and(|rest| !rest.is_zero()));
        assert_eq!(shown(5, 10, false), Some(Duration::ZERO));
        assert!(shown(5, 100, false).is_some_and(|rest| rest > Duration::from_secs(4)));
        assert_eq!(shown(1000, 10, true), None);
    }
}
