//! Above the heads: which of them, and how they are combined and shown.

use egui::{Button, DragValue, Label, RichText, Ui};

use super::opened::Opened;
use super::{Shown, State};
use crate::explain::explain;
use crate::heatmap;

const ROLLOUT: &str = "Attention rollout: how much of each token is in each place after a layer. Of each layer the mean of \
    its heads is taken, A, with the residual connection, (A + I) / 2, rows divided by their sums, and these matrices are \
    multiplied (Abnar & Zuidema, \"Quantifying Attention Flow in Transformers\", 2020).";

const MEANS: &str = "The mean of weights, cell by cell: of a layer's heads, of the heads of one number in all layers, or of \
    all. Means hide that heads do different things.";

const GRID: &str = "Each small picture is a head: rows are queries, columns keys, dark is much weight. Below it stand its \
    layer and number, and the measure that heads are sorted by, or the entropy. A pixel is the largest weight of its block of \
    cells; where there is less room than that, neighbours are blended. Click one to see it large.";

const LINES: &str = "Queries stand at the left and keys at the right; a line from a query to a key is as strong as its weight. \
    Weights below a fiftieth of the strongest have no line. Point at a token to see its lines alone, with their numbers; click \
    to keep them.";

/// Shows the bar.
pub fn show(ui: &mut Ui, opened: &Opened, state: &mut State) {
    ui.horizontal_wrapped(|ui| {
        ui.selectable_value(&mut state.shown, Shown::Grid, "All heads")
            .on_hover_text("Every head, small.");
        ui.selectable_value(&mut state.shown, Shown::Head, "Head").on_hover_text("One head.");
        ui.selectable_value(&mut state.shown, Shown::MeanOfLayer, "Layer mean")
            .on_hover_text("A layer's heads.");
        ui.selectable_value(&mut state.shown, Shown::MeanOfHead, "Head mean")
            .on_hover_text("The heads of one number in all layers.");
        ui.selectable_value(&mut state.shown, Shown::MeanOfAll, "Mean of all")
            .on_hover_text("All heads of all layers.");
        // A button alone: a part of its own would take a whole line, and all that is below it.
        let rollout = Button::selectable(state.shown == Shown::Rollout, "Rollout");
        let rollout = ui
            .add_enabled(opened.maps.is_self_attention(), rollout)
            .on_hover_text("What flowed from each token through the layers.")
            .on_disabled_hover_text(
                "Rollout needs self-attention: as many queries as keys, of the same tokens.",
            );
        if rollout.clicked() {
            state.shown = Shown::Rollout;
        }
        explain(ui, "Means and rollout", &format!("{MEANS}\n{ROLLOUT}"));
        if state.shown == Shown::Grid {
            ui.separator();
            ui.label("Pictures");
            explain(ui, "Pictures", GRID);
        }
    });
    if state.shown != Shown::Grid {
        ui.horizontal_wrapped(|ui| which(ui, opened, state));
    }
}

/// The layer and the head; heatmap or lines.
fn which(ui: &mut Ui, opened: &Opened, state: &mut State) {
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
                .on_hover_text(format!("{name}, as they are sorted."))
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
        .on_hover_text("A row for each query, a column for each key.");
    ui.selectable_value(&mut state.lines, true, "Lines").on_hover_text(
        "Queries at the left, keys at the right, a line for each weight. Point at a token to see its own.",
    );
    if state.lines {
        explain(ui, "Lines", LINES);
    } else {
        explain(ui, "Heatmap", heatmap::EXPLANATION);
    }
}

/// What is shown, in words.
pub fn title(ui: &mut Ui, title: &str) {
    ui.add(
        Label::new(RichText::new(title).text_style(crate::style::subheading()).strong()).truncate(),
    );
}
