//! The command palette: a list of all commands that is searched by typing.

use egui::{Button, Id, Key, Modal, Modifiers, RichText, ScrollArea, TextEdit, TextStyle, Ui};

use super::{Command, style};
use crate::reply::Reply;

/// The open command palette.
#[derive(Default)]
pub(crate) struct Palette {
    typed: String,
    /// The index of the marked command among those found.
    marked: usize,
}

impl Palette {
    /// Shows the palette.
    pub(crate) fn show(&mut self, ui: &Ui) -> Reply<Command> {
        let (up, down, enter) = ui.input_mut(|input| {
            let mut pressed = |key| input.consume_key(Modifiers::NONE, key);
            (pressed(Key::ArrowUp), pressed(Key::ArrowDown), pressed(Key::Enter))
        });
        let height = (ui.ctx().content_rect().height() - 160.0).clamp(120.0, 420.0);
        let modal = Modal::new(Id::unique("commands")).show(ui.ctx(), |ui| {
            style::set_modal_width(ui, 460.0);
            let field = TextEdit::singleline(&mut self.typed)
                .hint_text("Type a command")
                .desired_width(f32::INFINITY);
            let field = ui.add(field).accessible_name("Find a command");
            field.request_focus();
            if field.changed() {
                self.marked = 0;
            }
            let found = found(&self.typed);
            let last = found.len().saturating_sub(1);
            self.marked =
                (self.marked + usize::from(down)).saturating_sub(usize::from(up)).min(last);
            let mut chosen = found.get(self.marked).copied().filter(|_| enter);
            // The window remembers the height of a short list, which would limit the next one.
            let list = ScrollArea::vertical().max_height(height).min_scrolled_height(height);
            list.auto_shrink([false, true]).show(ui, |ui| {
                ui.spacing_mut().item_spacing.y = 2.0;
                if found.is_empty() {
                    ui.label(RichText::new("No command has this name.").weak());
                }
                for (i, command) in found.iter().enumerate() {
                    let row = row(ui, *command, i == self.marked);
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
            Some(command) => Reply::Chosen(command),
            None if modal.should_close() => Reply::Closed,
            None => Reply::Pending,
        }
    }
}

fn row(ui: &mut Ui, command: Command, marked: bool) -> egui::Response {
    let mut button =
        Button::selectable(marked, command.name()).min_size(egui::vec2(ui.available_width(), 0.0));
    if let Some(keys) = command.shortcut() {
        let keys = ui.ctx().format_shortcut(&keys);
        button = button.shortcut_text(RichText::new(keys).text_style(TextStyle::Small));
    }
    ui.add(button).accessible_name(command.name()).on_hover_text(command.tooltip())
}

/// The commands whose names contain all the words typed. Names that begin with the text come first.
fn found(typed: &str) -> Vec<Command> {
    let typed = typed.trim().to_lowercase();
    let words: Vec<&str> = typed.split_whitespace().collect();
    let mut found: Vec<(Command, String)> = Command::all()
        .into_iter()
        .filter(|command| *command != Command::Palette)
        .map(|command| (command, command.name().to_lowercase()))
        .filter(|(_, name)| words.iter().all(|word| name.contains(word)))
        .collect();
    found.sort_by_key(|(_, name)| !name.starts_with(&typed));
    found.into_iter().map(|(command, _)| command).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_found_by_parts_of_its_name() {
        assert_eq!(found("  zoom IN "), [Command::ZoomIn]);
        assert_eq!(found("cat ex").len(), 1);
        assert_eq!(found("un")[0], Command::Undo);
        assert!(found("no such command").is_empty());
        assert_eq!(found("").len(), Command::all().len() - 1);
    }
}
