//! A choice among a few values, in one line of fixed height.

use egui::{Align, Button, ComboBox, Label, Layout, RichText, TextStyle, Ui, WidgetText};

/// A value with its name, and a hint, or why it cannot be chosen.
pub(crate) type Choice<T> = (T, &'static str, Result<&'static str, &'static str>);

/// The most height of a menu, and the width of its hints.
const HIGHEST: f32 = 480.0;
const HINTS: f32 = 300.0;

/// Shows the values side by side if they fit beside other controls of the width `beside`, and otherwise as a menu called `name`.
pub(crate) fn show<T: Copy + PartialEq>(
    ui: &mut Ui,
    name: &str,
    value: &mut T,
    choices: &[Choice<T>],
    beside: f32,
) {
    let spacing = ui.spacing();
    let around = 2.0 * spacing.button_padding.x + spacing.item_spacing.x;
    let width = |text: &str| {
        let text = WidgetText::from(text);
        text.into_galley(ui, None, f32::INFINITY, TextStyle::Button).size().x + around
    };
    let whole: f32 = choices.iter().map(|(_, text, _)| width(text)).sum();
    if whole + beside <= ui.available_size_before_wrap().x {
        all(ui, value, choices);
        return;
    }
    menu(ui, name, value, choices, 0.0);
}

/// Shows the values as a menu called `name`, at least as wide as this. Each has its hint below it, as a finger cannot ask for it.
pub(crate) fn menu<T: Copy + PartialEq>(
    ui: &mut Ui,
    name: &str,
    value: &mut T,
    choices: &[Choice<T>],
    width: f32,
) {
    let chosen =
        choices.iter().find(|(choice, ..)| choice == value).map_or("", |(_, text, _)| text);
    let menu = ComboBox::from_id_salt(name).width(width).height(HIGHEST).selected_text(chosen);
    let menu = menu.show_ui(ui, |ui| {
        ui.set_width(HINTS);
        for choice in choices {
            all(ui, value, core::slice::from_ref(choice));
            let (Ok(hint) | Err(hint)) = choice.2;
            // A menu stretches its lines to its width. Text is easier to read unstretched.
            ui.with_layout(Layout::top_down(Align::Min), |ui| {
                ui.add(Label::new(RichText::new(hint).small().weak()).wrap());
            });
        }
    });
    menu.response.accessible_name(name);
}

/// Shows the values side by side.
pub(crate) fn all<T: Copy + PartialEq>(ui: &mut Ui, value: &mut T, choices: &[Choice<T>]) {
    for (choice, text, hint) in choices {
        // A screen reader says why it cannot be chosen.
        let button = ui.add_enabled(hint.is_ok(), Button::selectable(*value == *choice, *text));
        let button = match hint {
            Ok(hint) => button.on_hover_text(*hint),
            Err(reason) => {
                ui.ctx().accesskit_node_builder(button.id, |node| node.set_description(*reason));
                button.on_disabled_hover_text(*reason)
            }
        };
        if button.clicked() {
            *value = *choice;
        }
    }
}
