//! The command palette, a list of all commands that is searched by typing, and the sheet of keys.

use core::ops::ControlFlow;

use egui::{
    Align2, Button, Grid, Id, Key, Modal, Modifiers, RichText, ScrollArea, TextEdit, Ui, vec2,
};

use super::Room;
use super::{Command, style};

/// The distance of the palette from the top of the window.
const TOP: f32 = 56.0;

/// The space between the columns and the rows of the sheet of keys.
const SPACING: [f32; 2] = [24.0, 4.0];

/// The keys and gestures of a matrix and of other parts of the window.
const GESTURES: [(&str, &str); 10] = [
    ("Arrows", "move the cursor of a matrix; in a text of tokens, to the next token"),
    ("P, Shift + click", "pin a cell"),
    ("+, −, Ctrl wheel", "zoom a matrix"),
    ("Drag, double click", "move a zoomed matrix; show all of it"),
    ("Click on the colour bar", "choose the map, the scale and the end of the colours"),
    ("Double click, Enter", "type over a number of the walkthrough"),
    ("Shift + drag", "change a number of the walkthrough"),
    ("Drag a token on a token", "patch its place from the second text"),
    ("Page Up, Page Down", "the previous and the next slide"),
    ("Esc", "close what lies over the page"),
];

pub(crate) struct Palette {
    /// The open room, whose commands come first.
    room: Room,
    typed: String,
    /// The index of the marked command among those found.
    marked: usize,
}

impl Palette {
    pub(crate) fn of(room: Room) -> Self {
        Self { room, typed: String::new(), marked: 0 }
    }

    /// Shows the palette. `Break` closes it, with the command that was chosen, if any.
    pub(crate) fn show(&mut self, ui: &Ui) -> ControlFlow<Option<Command>> {
        let (up, down, enter) = ui.input_mut(|input| {
            let mut pressed = |key| input.consume_key(Modifiers::NONE, key);
            (pressed(Key::ArrowUp), pressed(Key::ArrowDown), pressed(Key::Enter))
        });
        let height = (ui.ctx().content_rect().height() - 160.0).clamp(120.0, 420.0);
        let id = Id::unique("commands");
        let area = Modal::default_area(id).anchor(Align2::CENTER_TOP, vec2(0.0, TOP));
        let modal = Modal::new(id).area(area).show(ui.ctx(), |ui| {
            style::set_modal_width(ui, 460.0);
            let field = TextEdit::singleline(&mut self.typed)
                .hint_text("Type what you want to see or do")
                .desired_width(f32::INFINITY);
            let field = ui.add(field).accessible_name("Find a command");
            field.request_focus();
            if field.changed() {
                self.marked = 0;
            }
            let found = found(&self.typed, self.room);
            let last = found.len().saturating_sub(1);
            self.marked =
                (self.marked + usize::from(down)).saturating_sub(usize::from(up)).min(last);
            let mut chosen = found.get(self.marked).copied().filter(|_| enter);
            // The window remembers the height of a short list, which would limit the next one.
            let list = ScrollArea::vertical().max_height(height).min_scrolled_height(height);
            list.auto_shrink([false, true]).show(ui, |ui| {
                ui.spacing_mut().item_spacing.y = 2.0;
                if found.is_empty() {
                    ui.label(RichText::new("Nothing has this name.").weak());
                }
                for (i, command) in found.iter().enumerate() {
                    let row = row(ui, *command, i == self.marked, self.room);
                    if i == self.marked && (up || down) {
                        row.scroll_to_me(None);
                    }
                    if row.clicked() {
                        chosen = Some(*command);
                    }
                }
            });
            chosen
        });
        match modal.inner {
            None if !modal.should_close() => ControlFlow::Continue(()),
            chosen => ControlFlow::Break(chosen),
        }
    }
}

/// A command with its keys, or with its room if that is another one.
fn row(ui: &mut Ui, command: Command, marked: bool, here: Room) -> egui::Response {
    let mut button =
        Button::selectable(marked, command.name()).min_size(vec2(ui.available_width(), 0.0));
    let keys = command.keys(ui.ctx());
    let elsewhere = command.room().filter(|room| *room != here).map(|room| room.name().to_owned());
    if let Some(aside) = keys.or(elsewhere) {
        button = button.shortcut_text(RichText::new(aside).small());
    }
    ui.add(button).accessible_name(command.name()).on_hover_text(command.tooltip())
}

/// The commands that match all typed words: those whose names begin with the text, then those whose names contain the words, then
/// those that other words describe. Within each group, the commands of the open room come first.
fn found(typed: &str, room: Room) -> Vec<Command> {
    let typed = typed.trim().to_lowercase();
    let words: Vec<&str> = typed.split_whitespace().collect();
    let rank = |command: &Command| {
        let name = command.name().to_lowercase();
        let all = format!("{name} {}", command.words());
        let has = |text: &str| words.iter().all(|word| text.contains(word));
        let by_name = match () {
            () if name.starts_with(&typed) => 0,
            () if has(&name) => 1,
            () => 2,
        };
        let elsewhere = command.room().map_or(1, |of| if of == room { 0 } else { 2 });
        has(&all).then_some((by_name, elsewhere))
    };
    let others = Command::all().into_iter().filter(|command| *command != Command::Palette);
    let mut found: Vec<_> = others.filter_map(|c| Some((rank(&c)?, c))).collect();
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, command)| command).collect()
}

/// Shows the sheet of keys. Returns whether it stays.
pub(crate) fn keys(ui: &Ui) -> bool {
    let modal = Modal::new(Id::unique("keys")).show(ui.ctx(), |ui| {
        style::set_modal_width(ui, 620.0);
        // Otherwise the sheet would end at the usual height of an area, and scroll in a high window.
        ui.set_max_height(ui.ctx().content_rect().height() - 80.0);
        ui.heading("Keys");
        let scroll = ScrollArea::vertical().auto_shrink([false, true]);
        scroll.show(ui, |ui| {
            let column = 0.5 * (ui.available_width() - SPACING[0]);
            let grid = Grid::new("keys").num_columns(2).spacing(SPACING).max_col_width(column);
            grid.show(ui, |ui| {
                let commands = Command::all().into_iter();
                let commands = commands.filter_map(|c| Some((c.keys(ui.ctx())?, c.name())));
                let commands: Vec<(String, String)> = commands.collect();
                let gestures = GESTURES.map(|(keys, what)| (keys.to_owned(), what.to_owned()));
                for (keys, what) in commands.into_iter().chain(gestures) {
                    ui.label(RichText::new(keys).strong());
                    ui.label(what);
                    ui.end_row();
                }
            });
        });
    });
    !modal.should_close()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_found_by_parts_of_its_name() {
        let found = |typed| found(typed, Room::Walkthrough);
        assert_eq!(found("  zoom IN ")[0], Command::ZoomIn);
        assert_eq!(found("cat ex").len(), 1);
        assert_eq!(found("un")[0], Command::Undo);
        assert!(found("no such command").is_empty());
        assert_eq!(found("").len(), Command::all().len() - 1);
    }

    #[test]
    fn a_command_is_found_by_other_words_and_the_open_room_comes_first() {
        for (typed, name) in [
            ("lens", "Show the logit lens"),
            ("rollout", "Show rollout"),
            ("lines", "Draw lines"),
            ("induction", "Sort heads by induction"),
            ("ablate", "Show one head"),
            ("attribution", "Show attribution"),
            ("help", "Keys"),
            ("keys", "Keys"),
            ("viridis", "Colours: viridis"),
            ("sink", "Sort heads by first token"),
            ("value norm", "Value-weighted"),
            ("knock out overlay", "Overlay the ablation effect"),
        ] {
            assert_eq!(found(typed, Room::Stage)[0].name(), name, "{typed}");
        }
        let first = |room| found("causal", room)[0].room();
        assert_eq!(first(Room::Laboratory), Some(Room::Laboratory));
        for room in Room::ALL {
            assert_eq!(found("", room)[0].room(), Some(room));
        }
    }
}
