//! The list of changes, which can be switched, moved and removed.

use core::ops::Range;
use std::collections::BTreeMap;

use egui::{Button, Label, Ui};
use regard_models::Change;

use super::Listed;
use super::{ModelState, note};
use crate::explain::{explanation, heading};
use crate::style::lone;
use crate::temperature;

enum ListEdit {
    Remove(Range<usize>),
    Switch(Range<usize>, bool),
    /// Swaps the first with the second, which follows it.
    Swap(Range<usize>, Range<usize>),
}

/// Shows the list of changes. `tokens` are those of the first text, and `words` those of patches, by their ids.
pub(super) fn show(
    ui: &mut Ui,
    state: &mut ModelState,
    tokens: &[String],
    words: &BTreeMap<u32, String>,
) {
    heading(ui, "Changes", explanation!("Changes"));
    of_all_heads(ui, state, tokens);
    if state.changes.is_empty() {
        return;
    }
    let lines = lines(&state.changes);
    let mut edit = None;
    for (i, line) in lines.iter().enumerate() {
        let text = match &state.changes[line.clone()] {
            [listed] => note::change(&listed.change, tokens, words),
            several => note::cuts(several),
        };
        let mut on = state.changes[line.start].on;
        ui.horizontal(|ui| {
            let remove = ui.button("×").on_hover_text("Remove this change.");
            if remove.accessible_name(format!("Remove: {text}")).clicked() {
                edit = Some(ListEdit::Remove(line.clone()));
            }
            let others = [
                (i.checked_sub(1), "↑", "Move up", "Make this change earlier."),
                (i.checked_add(1), "↓", "Move down", "Make this change later."),
            ];
            for (other, sign, name, hint) in others {
                let other = other.and_then(|other| lines.get(other));
                if lines.len() < 2 {
                    continue;
                }
                let button = ui.add_enabled(other.is_some(), Button::new(sign).small());
                let button = button.on_hover_text(hint).accessible_name(format!("{name}: {text}"));
                if let (true, Some(other)) = (button.clicked(), other) {
                    let (first, second) =
                        if other.start < line.start { (other, line) } else { (line, other) };
                    edit = Some(ListEdit::Swap(first.clone(), second.clone()));
                }
            }
            let switch = ui.checkbox(&mut on, "").accessible_name(&text);
            if switch.on_hover_text("Make this change, or leave it out.").changed() {
                edit = Some(ListEdit::Switch(line.clone(), on));
            }
            ui.add(Label::new(&text).wrap());
        });
    }
    match edit {
        Some(ListEdit::Remove(line)) => drop(state.changes.drain(line)),
        Some(ListEdit::Switch(line, on)) => state.changes[line].iter_mut().for_each(|c| c.on = on),
        Some(ListEdit::Swap(first, second)) => {
            state.changes[first.start..second.end].rotate_left(first.len());
        }
        None => {}
    }
    if lines.len() > 1 && ui.button("Remove all").clicked() {
        state.changes.clear();
    }
}

/// Shows what is changed in all heads: the words that are hidden, and the temperature.
fn of_all_heads(ui: &mut Ui, state: &mut ModelState, tokens: &[String]) {
    let mut line = |text: &str| {
        let row = ui.horizontal(|ui| {
            let remove = ui.button("×").on_hover_text("Remove this change.");
            let clicked = remove.accessible_name(format!("Remove: {text}")).clicked();
            ui.add(Label::new(text).wrap());
            clicked
        });
        row.inner
    };
    state.hidden.retain(|i| {
        tokens.get(*i).is_none_or(|token| !line(&format!("“{}” is hidden", lone(token))))
    });
    let t = temperature::text(f64::from(state.sharpness));
    if state.sharpness != 1.0 && line(&format!("All heads at T = {t}")) {
        state.sharpness = 1.0;
    }
    if state.changes.is_empty() && state.hidden.is_empty() && state.sharpness == 1.0 {
        ui.weak("None: the model is as it was trained.");
    }
}

/// The changes of each line of the list: one, or edges of one head that were cut in sequence.
fn lines(changes: &[Listed]) -> Vec<Range<usize>> {
    let together = |a: &Listed, b: &Listed| match (&a.change, &b.change) {
        (Change::Cut { head, .. }, Change::Cut { head: other, .. }) => {
            head == other && a.on == b.on
        }
        _ => false,
    };
    let mut start = 0;
    let lines = changes.chunk_by(together).map(|line| {
        let range = start..start + line.len();
        start = range.end;
        range
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_of_one_head_are_one_line() {
        let cut = |head: &str, key| Change::Cut { head: head.parse().unwrap(), query: 3, key };
        let zero =
            Change::Ablate { head: "0.0".parse().unwrap(), to: regard_models::Ablation::Zero };
        let changes = [cut("0.1", 0), cut("0.1", 1), cut("0.2", 0), zero, cut("0.2", 1)];
        let changes = changes.map(|change| Listed { change, on: true });
        assert_eq!(lines(&changes), [0..2, 2..3, 3..4, 4..5]);
        assert_eq!(note::cuts(&changes[..2]), "Head 0.1: 2 edges are cut");
    }
}
