//! The controls above the heads: which of them are shown, how they are combined, and how they are drawn.

use egui::{Button, DragValue, Label, RichText, Ui};

use super::{Effect, Effects, Surveyed};
use super::{HeadsState, Shown};
use crate::choice;
use crate::explain::{explain, explanation};
use regard_heads::HeadId;

/// The width of the controls beside the choice of the matrix.
const BESIDE: f32 = 350.0;

/// Shows the controls in a row. In a row that wraps there is no room for a note.
pub(crate) fn show(ui: &mut Ui, heads: &Surveyed, state: &mut HeadsState, effects: &Effects) {
    let rollout = if heads.maps.is_self_attention() {
        Ok(
            "Estimate how much of each word reaches each place through all layers up to one, not through one head.",
        )
    } else {
        Err("Rollout needs self-attention, with as many queries as keys, of the same tokens.")
    };
    let choices = [
        (Shown::Grid, "All heads", Ok("Show every head as a small picture.")),
        (Shown::Head, "Head", Ok("Show one head: as a heatmap, or as lines.")),
        (Shown::MeanOfLayer, "Layer mean", Ok("Show the average of all heads of a layer.")),
        (Shown::Rollout, "Rollout", rollout),
    ];
    let before = state.shown;
    choice::show(ui, "Which heads", &mut state.shown, &choices, BESIDE);
    if state.shown == Shown::Rollout && before != Shown::Rollout {
        // Rollout begins with the last layer.
        state.layer = heads.maps.shape().layers - 1;
    }
    if state.lines && state.shown != Shown::Grid {
        explain(ui, "Lines", explanation!("Lines"));
    } else {
        explain(ui, "Means and rollout", explanation!("Means and rollout"));
    }
    if state.shown != Shown::Grid {
        which(ui, heads, state, effects);
    } else if !ui.layout().main_wrap() {
        let text = note(heads, state, effects);
        ui.add(Label::new(RichText::new(text).small().weak()).truncate());
    }
}

/// The progress of the sweep, or the meaning of a head's name.
fn note(heads: &Surveyed, state: &HeadsState, effects: &Effects) -> String {
    let shape = heads.maps.shape();
    if state.needs(Effect::Ablation) && effects.is_ablating {
        return format!("Ablating heads: {} of {}", effects.ablation.len(), shape.ids().len());
    }
    naming(heads, HeadId { layer: shape.layers - 1, head: 0 })
}

/// The meaning of a head's name.
pub(crate) fn naming(heads: &Surveyed, id: HeadId) -> String {
    let (name, layer) = (heads.maps.name_of(id), heads.maps.layer_number(id.layer));
    format!("{name} is head {} of layer {layer}.", id.head)
}

/// The controls for the layer and the head, and for heatmap or lines.
fn which(ui: &mut Ui, heads: &Surveyed, state: &mut HeadsState, effects: &Effects) {
    let shape = heads.maps.shape();
    let number = |place: f64| heads.maps.layer_number(place as usize).to_string();
    let layer =
        DragValue::new(&mut state.layer).range(0..=shape.layers - 1).speed(0.1).prefix("layer ");
    let layer = layer.custom_formatter(|place, _| number(place)).custom_parser(|text| {
        let layer = heads.maps.find_layer(text.trim().parse().ok()?).ok()?;
        Some(layer as f64)
    });
    ui.add(layer).accessible_name("Which layer");
    if state.shown == Shown::Head {
        let head = DragValue::new(&mut state.head).range(0..=shape.heads - 1).speed(0.1);
        ui.add(head.prefix("head ")).accessible_name("Which head");
        let order = heads.ordered(state.order, state.smallest_first, effects);
        let here = order.iter().position(|id| *id == state.id()).unwrap_or(0);
        let steps =
            [("←", "Previous head", here.checked_sub(1)), ("→", "Next head", here.checked_add(1))];
        for (sign, name, place) in steps {
            let id = place.and_then(|place| order.get(place));
            let button = ui.add_enabled(id.is_some(), Button::new(sign));
            if button
                .on_hover_text(format!("{name} in the order of the grid."))
                .accessible_name(name)
                .clicked()
                && let Some(id) = id
            {
                state.show(*id);
            }
        }
    }
    let choices = [
        (false, "Heatmap", Ok("Show a row for each query and a column for each key.")),
        (true, "Lines", Ok("Draw a line from each query to each key.")),
    ];
    choice::show(ui, "Draw", &mut state.lines, &choices, 24.0);
}

pub(crate) fn title(ui: &mut Ui, title: &str) {
    ui.label(RichText::new(title).text_style(crate::style::subheading()).strong());
}
