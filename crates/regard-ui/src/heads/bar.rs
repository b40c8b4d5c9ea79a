//! The row above the heads: which of them are shown, how they are combined, and how they are drawn.

use egui::{Button, DragValue, Label, RichText, Ui};

use super::opened::Surveyed;
use super::order::Effects;
use super::{HeadsState, Shown};
use crate::choice;
use crate::explain::explain;

const MEANS: &str = "A mean averages the weights cell by cell: over the heads of a layer, over the heads of one number in all \
    layers, or over all heads. A mean hides that heads do different things.\n\
    Attention rollout estimates how much of each token reaches each position through the layers. For each \
    layer, the heads are averaged to A, the residual connection is added, (A + I) / 2, and each row is divided by its sum. These \
    matrices are multiplied (Abnar & Zuidema, \"Quantifying Attention Flow in Transformers\", 2020).";

const LINES: &str = "Queries stand at the left and keys at the right. The line from a query to a key is as strong as its weight. \
    Weights below a fiftieth of the largest have no line. Point at a token to see only its lines, with their weights. Click the \
    token to keep them.\n\
    Without the first token: many heads give most of their weight to the first token ([CLS], or the beginning of the text) where they \
    find nothing else, and these lines cover the others.\n\
    Keep these lines: the lines of several heads in one picture, each head in its own colour.";

/// The width of the controls beside the choice of the matrix.
const BESIDE: f32 = 350.0;

/// Shows the row.
pub(crate) fn show(ui: &mut Ui, heads: &Surveyed, state: &mut HeadsState, effects: &Effects) {
    let rollout = if heads.maps.is_self_attention() {
        Ok("Estimate how much of each token reaches each position through the layers.")
    } else {
        Err("Rollout needs self-attention, with as many queries as keys, of the same tokens.")
    };
    let choices = [
        (Shown::Grid, "All heads", Ok("Show every head as a small picture.")),
        (Shown::Head, "Head", Ok("Show one head.")),
        (Shown::MeanOfLayer, "Layer mean", Ok("Average the heads of a layer.")),
        (Shown::MeanOfHead, "Head mean", Ok("Average the heads of one number over all layers.")),
        (Shown::MeanOfAll, "Mean of all", Ok("Average all heads of all layers.")),
        (Shown::Rollout, "Rollout", rollout),
    ];
    ui.horizontal_wrapped(|ui| {
        let before = state.shown;
        choice::show(ui, "Which heads", &mut state.shown, &choices, BESIDE);
        if state.shown == Shown::Rollout && before != Shown::Rollout {
            // Rollout begins with the last layer.
            state.layer = heads.maps.shape().layers - 1;
        }
        explain(ui, "Means and rollout", MEANS);
        if state.shown != Shown::Grid {
            which(ui, heads, state, effects);
        }
    });
}

/// The controls for the layer and the head, and for heatmap or lines.
fn which(ui: &mut Ui, heads: &Surveyed, state: &mut HeadsState, effects: &Effects) {
    let shape = heads.maps.shape();
    if matches!(state.shown, Shown::Head | Shown::MeanOfLayer | Shown::Rollout) {
        let number = |place: f64| heads.maps.layer_number(place as usize).to_string();
        let layer = DragValue::new(&mut state.layer)
            .range(0..=shape.layers - 1)
            .speed(0.1)
            .prefix("layer ");
        let layer = layer.custom_formatter(|place, _| number(place)).custom_parser(|text| {
            let layer = heads.maps.find_layer(text.trim().parse().ok()?).ok()?;
            Some(layer as f64)
        });
        ui.add(layer).accessible_name("Which layer");
    }
    if matches!(state.shown, Shown::Head | Shown::MeanOfHead) {
        let head =
            DragValue::new(&mut state.head).range(0..=shape.heads - 1).speed(0.1).prefix("head ");
        ui.add(head).accessible_name("Which head");
    }
    if state.shown == Shown::Head {
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
    ui.separator();
    let choices = [
        (false, "Heatmap", Ok("Show a row for each query and a column for each key.")),
        (true, "Lines", Ok("Draw a line from each query to each key.")),
    ];
    choice::show(ui, "Draw", &mut state.lines, &choices, 24.0);
    if state.lines {
        explain(ui, "Lines", LINES);
    }
}

/// Shows the title of the matrix.
pub(crate) fn title(ui: &mut Ui, title: &str) {
    ui.add(Label::new(RichText::new(title).text_style(crate::style::subheading()).strong()).wrap());
}
