//! An explanation of a thing and of how to read it. It shows while the pointer is over the name or the "?" beside it; a click, a
//! finger or the keyboard keeps it open.

use egui::{Align, Button, Layout, Popup, Response, RichText, TextStyle, Ui};

use super::style;

/// Why the column of the first token is strong in many heads.
pub(crate) const SINK: &str =
    "Every token sees the first one, so a head rests on it where it finds nothing else to look at.";

/// All explanations: a heading of the name, then paragraphs of a line each.
const TEXTS: &str = include_str!("explanations.md");

/// The explanation of a name that the compiler knows. Without one, this does not compile.
macro_rules! explanation {
    ($name:expr) => {
        const { $crate::explain::found($name) }
    };
}
pub(crate) use explanation;

/// The paragraphs below the heading of this name.
pub(crate) const fn found(name: &str) -> &'static str {
    let (all, name) = (TEXTS.as_bytes(), name.as_bytes());
    let mut at = 0;
    while at < all.len() {
        if is_at(all, at, b"\n## ")
            && is_at(all, at + 4, name)
            && is_at(all, at + 4 + name.len(), b"\n\n")
        {
            let from = at + 6 + name.len();
            let mut to = from;
            while to + 1 < all.len() && !is_at(all, to, b"\n\n## ") {
                to += 1;
            }
            return TEXTS.split_at(to).0.split_at(from).1;
        }
        at += 1;
    }
    panic!("explanations.md explains no such name")
}

/// Whether `part` stands at a place of `all`.
const fn is_at(all: &[u8], at: usize, part: &[u8]) -> bool {
    let mut i = 0;
    while i < part.len() {
        if at + i >= all.len() || all[at + i] != part[i] {
            return false;
        }
        i += 1;
    }
    true
}

const WIDTH: f32 = 360.0;

/// A "?" with an explanation in paragraphs.
pub(crate) fn explain(ui: &mut Ui, name: &str, text: &str) {
    let mark = RichText::new("?").small().weak();
    let button = ui.add(Button::new(mark).frame_when_inactive(false));
    Popup::menu(&button).show(|ui| paragraphs(ui, text));
    under_pointer(button.accessible_name(format!("Explain: {name}")), text);
}

fn under_pointer(response: Response, text: &str) {
    response.on_hover_ui(|ui| paragraphs(ui, text));
}

fn paragraphs(ui: &mut Ui, text: &str) {
    ui.set_max_width(WIDTH.min(ui.ctx().content_rect().width() - 32.0));
    // A menu stretches its lines to its width. Text is easier to read unstretched.
    ui.with_layout(Layout::top_down(Align::Min), |ui| {
        for paragraph in text.lines().filter(|line| !line.is_empty()) {
            ui.label(paragraph);
        }
    });
}

/// The name of a panel, and its explanation.
pub(crate) fn heading(ui: &mut Ui, name: &str, text: &str) {
    titled(ui, name, text, style::subheading());
}

/// The name of a control, and its explanation.
pub(crate) fn label(ui: &mut Ui, name: &str, text: &str) {
    titled(ui, name, text, TextStyle::Body);
}

/// The name of a part of a panel, and its explanation.
pub(crate) fn title(ui: &mut Ui, name: &str, text: &str) {
    titled(ui, name, text, TextStyle::Small);
}

fn titled(ui: &mut Ui, name: &str, text: &str, text_style: TextStyle) {
    ui.horizontal_wrapped(|ui| {
        under_pointer(ui.label(RichText::new(name).text_style(text_style).strong()), text);
        explain(ui, name, text);
    });
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_explanation_ends_where_the_next_begins() {
        let sections = super::TEXTS.split("\n## ").skip(1);
        let mut count = 0;
        for (name, text) in sections.filter_map(|section| section.split_once("\n\n")) {
            assert_eq!(super::found(name), text.trim_end(), "{name}");
            count += 1;
        }
        assert!(count > 30, "{count}");
    }
}
