//! Curves, the maps of a model and all its heads as files, and the point of a curve under the pointer.

use std::path::Path;

use crate::heads::Effect;
use crate::model::View;
use crate::plots::PlotName;
use crate::{Command, Room, example};
use egui::{Pos2, Rect};
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use regard_walkthrough::{Example, Quantity};

use super::driver::{
    Window, alter, choices, choose, click, open, says, session, session_of, settle, shows,
    type_path,
};

const SIZE: [f32; 2] = [1280.0, 1600.0];

/// Answers the dialog, and returns the file.
fn export(window: &mut Window, path: &Path) -> String {
    type_path(window, path);
    click(window, "Export");
    String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
}

#[test]
fn curves_are_exported_as_every_kind_of_file_by_their_button() {
    let folder = tempfile::tempdir().unwrap();
    let mut window = open(example(Example::ILoveRobotics), SIZE);
    let button = "Export curves: weights by temperature";
    let parts = [
        ("svg", ">robotics 0.299</text>"),
        ("html", " at T = 0.01</title>"),
        ("csv", "T,I,love,robotics\n0.01,"),
        ("png", "PNG"),
    ];
    for (kind, part) in parts {
        click(&mut window, button);
        let file = export(&mut window, &folder.path().join(format!("curves.{kind}")));
        assert!(file.contains(part), "{kind}: {}", &file[..file.len().min(600)]);
    }
    // A matrix is not a curve.
    click(&mut window, button);
    type_path(&mut window, &folder.path().join("curves.npy"));
    click(&mut window, "Export");
    assert!(shows(&window, "curves are not a matrix: write them as .csv, .png, .svg or .html"));
}

#[test]
fn every_plot_is_exported_from_the_palette_where_it_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let mut window = open(example(Example::WhyScale), SIZE);
    for plot in PlotName::ALL {
        let command = Command::ExportPlot(plot);
        alter(&mut window, |s| s.room = plot.room());
        choose(&mut window, command);
        let path = folder.path().join(format!("{}.csv", plot.name().replace('/', "")));
        let file = export(&mut window, &path);
        assert!(file.lines().count() > 4 && file.contains(','), "{plot:?}: {file}");
        // In other rooms, a message says where the plot is.
        alter(&mut window, |s| s.room = Room::Stage);
        choose(&mut window, command);
        let room = plot.room().name().to_lowercase();
        let message = format!("are not shown; go to the {room} to see them first");
        assert!(says(&window, &message));
    }
}

/// A place in a plot, as shares of its width and of its height.
fn place(rect: Rect, across: f32, up: f32) -> Pos2 {
    Pos2::new(rect.left() + across * rect.width(), rect.bottom() - up * rect.height())
}

#[test]
fn a_curve_under_the_pointer_tells_its_name_and_its_weight() {
    let mut window = open(example(Example::ILoveRobotics), SIZE);
    // A screen reader speaks the weights at the present temperature.
    let rect =
        window.get_by_label_contains("Weights of \"I\" by temperature, at T = 1: I 0.533,").rect();
    let told = |window: &mut Window, at: Pos2| {
        window.hover_at(at);
        window.run_steps(3);
        // The words of the plot itself also contain a T.
        let nodes =
            window.query_all_by_label_contains(" at T = ").map(|node| node.accesskit_node());
        let mut texts = nodes.filter_map(|node| node.label().or_else(|| node.value()));
        texts.find(|text| !text.starts_with("Plot: "))
    };
    // A curve lies somewhere above the left end of the plot.
    let found = (1..40).find_map(|i| told(&mut window, place(rect, 0.4, i as f32 / 40.0)));
    let found = found.unwrap();
    let (token, rest) = found.split_once(": ").unwrap();
    assert!(["I", "love", "robotics"].iter().any(|t| token.contains(t)), "{found}");
    let (weight, _) = rest.split_once(" at T = ").unwrap();
    assert!((0.0..=1.0).contains(&weight.parse::<f32>().unwrap()), "{found}");
    assert_eq!(told(&mut window, rect.left_top() - egui::vec2(0.0, 60.0)), None);
}

#[test]
fn keys_of_equal_scores_share_a_curve_and_an_entry_of_the_legend() {
    let mut start = example(Example::ILoveRobotics);
    // Equal tokens have equal keys.
    for col in 0..4 {
        let x = 1.0 + col as f64;
        start.walkthrough.inputs.set(Quantity::X, 1, col, x).unwrap();
        start.walkthrough.inputs.set(Quantity::X, 2, col, x).unwrap();
    }
    let window = open(start, SIZE);
    assert!(says(&window, " love = robotics "));
    assert!(says(&window, " each"));
}

#[test]
fn the_maps_of_a_model_are_exported() {
    let folder = tempfile::tempdir().unwrap();
    let mut start = session_of(Room::Stage);
    start.model.heads.tint = Some(Effect::Ablation);
    let mut window = open(start, [1400.0, 1000.0]);
    choose(&mut window, Command::ExportSweep);
    let sweep = export(&mut window, &folder.path().join("sweep.csv"));
    assert!(sweep.starts_with("layer \\ head,x.0,x.1"), "{sweep}");
    choose(&mut window, Command::ExportSweep);
    let svg = export(&mut window, &folder.path().join("sweep.svg"));
    assert!(svg.contains("without each head</text>") && svg.contains(">0.x</text>"));
    // All heads are exported as shown.
    choose(&mut window, Command::ExportMatrix);
    let grid = export(&mut window, &folder.path().join("heads.svg"));
    assert!(grid.contains(">x.1</text>") && grid.contains(">1.x</text>"));
    for (view, part) in [(View::Attribution, "MLP"), (View::Patches, "layer 0")] {
        let state = &mut choices(&mut window).model;
        state.view = view;
        if view == View::Patches {
            state.second = Some(state.text.replacen("Lily", "Mia", 1));
        }
        settle(&mut window);
        choose(&mut window, Command::ExportMatrix);
        let file = export(&mut window, &folder.path().join("map.html"));
        assert!(file.contains(part) && file.contains("class=\"regard\""), "{view:?}");
    }
    // Without the sweep there is nothing to export.
    alter(&mut window, |s| s.model.heads.tint = None);
    choose(&mut window, Command::ExportSweep);
    assert!(says(&window, "the effects are not known"));
    assert_eq!(session(&window).room, Room::Stage);
}
