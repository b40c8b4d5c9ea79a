//! The bar above the heads: which heads are shown, how they are combined, and how they are drawn.

use egui::{Button, DragValue, Label, RichText, Ui};

use super::opened::Surveyed;
use super::state::MOST_OVERLAID;
use super::{Shown, State};
use crate::explain::explain;
use crate::heatmap;

const ROLLOUT: &str = "Attention rollout estimates how much of each token reaches each position through the layers. For each \
    layer, the heads are averaged to A, the residual connection is added, (A + I) / 2, and each row is divided by its sum. These \
    matrices are multiplied (Abnar & Zuidema, \"Quantifying Attention Flow in Transformers\", 2020).";

const MEANS: &str = "A mean averages the weights cell by cell: over the heads of a layer, over the heads of one number in all \
    layers, or over all heads. A mean hides that heads do different things.";

const GRID: &str = "Each small picture is a head: rows are queries, columns are keys, and dark cells have much weight. The line \
    below gives the layer and the number of the head, and the measure that the heads are sorted by, or the entropy. A pixel shows the \
    largest weight of its block of cells. In smaller pictures, neighbouring pixels are blended. Click a picture to enlarge it.";

const LINES: &str = "Queries stand at the left and keys at the right. The line from a query to a key is as strong as its weight. \
    Weights below a fiftieth of the largest have no line. Point at a token to see only its lines, with their weights. Click the \
    token to keep them.\n\
    Without the first token: many heads give most of their weight to the first token ([CLS], or the beginning of the text) where they \
    find nothing else, and these lines cover the others.\n\
    Overlay: the lines of several heads in one picture, each head in its own colour.";

/// Shows the bar.
pub(crate) fn show(ui: &mut Ui, opened: &Surveyed, state: &mut State) {
    ui.horizontal_wrapped(|ui| {
        ui.selectable_value(&mut state.shown, Shown::Grid, "All heads")
            .on_hover_text("Show every head as a small picture.");
        ui.selectable_value(&mut state.shown, Shown::Head, "Head").on_hover_text("Show one head.");
        ui.selectable_value(&mut state.shown, Shown::MeanOfLayer, "Layer mean")
            .on_hover_text("Average the heads of a layer.");
        ui.selectable_value(&mut state.shown, Shown::MeanOfHead, "Head mean")
            .on_hover_text("Average the heads of one number over all layers.");
        ui.selectable_value(&mut state.shown, Shown::MeanOfAll, "Mean of all")
            .on_hover_text("Average all heads of all layers.");
        // A nested layout would take a whole line, so this is a single button.
        let rollout = Button::selectable(state.shown == Shown::Rollout, "Rollout");
        let rollout = ui
            .add_enabled(opened.maps.is_self_attention(), rollout)
            .on_hover_text(
                "Estimate how much of each token reaches each position through the layers.",
            )
            .on_disabled_hover_text(
                "Rollout needs self-attention, with as many queries as keys, of the same tokens.",
            );
        if rollout.clicked() {
            state.shown = Shown::Rollout;
        }
        if state.shown == Shown::Grid {
            explain(ui, "Pictures", &format!("{GRID}\n{MEANS}\n{ROLLOUT}"));
        } else {
            explain(ui, "Means and rollout", &format!("{MEANS}\n{ROLLOUT}"));
        }
    });
    if state.shown != Shown::Grid {
        ui.horizontal_wrapped(|ui| which(ui, opened, state));
    }
}

/// The controls for the layer and the head, and for heatmap or lines.
fn which(ui: &mut Ui, opened: &Surveyed, state: &mut State) {
    let shape = opened.maps.shape();
    if matches!(state.shown, Shown::Head | Shown::MeanOfLayer | Shown::Rollout) {
        let number = |place: f64| opened.maps.layer_number(place as usize).to_string();
        let layer = DragValue::new(&mut state.layer)
            .range(0..=shape.layers - 1)
            .speed(0.1)
            .prefix("layer ");
        let layer = layer.custom_formatter(|place, _| number(place)).custom_parser(|text| {
            let layer = opened.maps.find_layer(text.trim().parse().ok()?).ok()?;
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
        let order = opened.ordered(state.order, state.smallest_first);
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
    ui.selectable_value(&mut state.lines, false, "Heatmap")
        .on_hover_text("Show a row for each query and a column for each key.");
    ui.selectable_value(&mut state.lines, true, "Lines")
        .on_hover_text("Draw a line from each query to each key.");
    if state.lines {
        ui.checkbox(&mut state.hide_first, "Without first token")
            .on_hover_text("Leave out the lines to the first token.");
        let most = DragValue::new(&mut state.most_lines).range(0..=shape.keys).speed(0.05);
        let most = most.custom_formatter(|n, _| match n {
            0.0 => "all lines".to_owned(),
            1.0 => "1 line".to_owned(),
            n => format!("{n} lines"),
        });
        let most = most.custom_parser(|text| text.split_whitespace().next()?.parse().ok());
        ui.add(most)
            .on_hover_text("Draw only the lines of each query's largest weights.")
            .accessible_name("Lines of each query");
        let id = state.id();
        let is_new = state.shown == Shown::Head && !state.overlaid.contains(&id);
        let can = is_new && state.overlaid.len() < MOST_OVERLAID;
        let overlay = ui.add_enabled(can, Button::new("Overlay"));
        let hint =
            "Keep the lines of this head in a colour of their own, under those of the next head.";
        let overlay = overlay.on_hover_text(hint).on_disabled_hover_text(
            "The lines of this matrix are there already, or six heads are overlaid, or it is not a head.",
        );
        if overlay.clicked() {
            state.overlaid.push(id);
        }
        explain(ui, "Lines", LINES);
    } else {
        explain(ui, "Heatmap", heatmap::EXPLANATION);
    }
}

/// Shows the title of the matrix.
pub(crate) fn title(ui: &mut Ui, title: &str) {
    ui.add(Label::new(RichText::new(title).text_style(crate::style::subheading()).strong()).wrap());
}
