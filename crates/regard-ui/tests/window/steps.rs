//! The window without a display: its contents, and the effects of the controls.

use std::collections::BTreeSet;

use regard_session::walkthrough::palette;

use crate::colors::{Colors as _, Look};
use crate::heatmap::Cell;
use crate::walkthrough::{At, Picked};
use egui::accesskit::Role;
use egui::{Color32, Pos2, Rect, TextureId};
use regard_figure::{Ground, NOT_A_NUMBER};
use regard_kernels::Temperature;
use regard_walkthrough::{Example, Kind, Quantity, Step};

use super::driver::{
    Window, cell_of, choices, click, click_at, click_on, key, matrix_of, says, session, set_value,
    shows, step, textures, walkthrough,
};

/// This height avoids scrolling.
const TALL: [f32; 2] = [1280.0, 12000.0];

fn open(example: Example, size: [f32; 2]) -> Window {
    super::driver::open(crate::example(example), size)
}

fn hover(window: &mut Window, key: &str, cell: Cell) {
    let at = cell_of(window, key, cell);
    window.hover_at(at);
    window.run_steps(3);
}

/// At any size, a step has its name, its meaning and its heatmap. In a window that needs no scrolling, the heatmaps lie beside the
/// panel and do not overlap, and the last cell of each unfolds.
#[test]
fn every_example_shows_its_steps_and_their_arithmetic() {
    for size in [[1280.0, 800.0], [900.0, 600.0], [900.0, 20000.0]] {
        let mut window = open(Example::ALL[0], size);
        for &example in Example::ALL {
            let name = example.name();
            choices(&mut window).walkthrough.open(example);
            window.run_steps(3);
            let shown = walkthrough(&window);
            assert_eq!(shown.example, example);
            for step in &shown.steps {
                let heatmap = format!("Heatmap of {}", step.name);
                for text in [&step.name, &step.meaning, &heatmap] {
                    assert!(shows(&window, text), "{name}: {text}");
                }
            }
            for check in &shown.checks {
                assert!(shows(&window, &check.name), "{name}: {}", check.name);
            }
            if size[1] < 1000.0 {
                continue;
            }
            let mut before: Vec<Rect> = Vec::new();
            for step in &shown.steps {
                let cells = matrix_of(&window, &step.key.to_string());
                let fits = cells.left() > 272.0 && cells.right() < 900.0;
                assert!(fits, "{name}: {}: {cells}", step.key);
                let overlaps = before.iter().any(|other| other.intersects(cells));
                assert!(!overlaps, "{name}: {}: {cells}", step.key);
                before.push(cells);
            }
            let last = |step: &Step| {
                let (rows, cols) = step.matrix.shape();
                let text = step.explain(rows - 1, cols - 1).unwrap();
                (At { step: step.key, cell: (rows - 1, cols - 1) }, text)
            };
            for (at, text) in shown.steps.iter().map(last).collect::<Vec<_>>() {
                let of = format!("{name} {at:?}");
                choices(&mut window).walkthrough.picked = Some(Picked::Cell(at));
                window.run_steps(1);
                assert!(says(&window, &text), "{of}: {text}");
            }
        }
    }
}

#[test]
fn an_example_is_chosen_from_the_list() {
    let mut window = open(Example::MathOfAttention, TALL);
    click(&mut window, "Example");
    click_on(&mut window, Role::Button, Example::AttentionScores.title());
    assert_eq!(session(&window).walkthrough.example(), Example::AttentionScores);
    assert_eq!(walkthrough(&window).example, Example::AttentionScores);
}

#[test]
fn the_temperature_changes_weights_and_output() {
    let mut window = open(Example::TheCatSat, TALL);
    let before = step(&window, "weights").matrix.clone();

    set_value(&mut window, Role::Slider, "Temperature as a power of ten", -1.0);
    assert_eq!(session(&window).walkthrough.settings.temperature.get(), 0.1);
    assert_ne!(step(&window, "weights").matrix, before);

    click(&mut window, "T → 0");
    assert_eq!(session(&window).walkthrough.settings.temperature, Temperature::ZERO);
    assert!(step(&window, "weights").matrix.as_slice().iter().all(|w| *w == 0.0 || *w == 1.0));

    click(&mut window, "T → ∞");
    assert_eq!(session(&window).walkthrough.settings.temperature, Temperature::INFINITE);
    let third = step(&window, "weights").matrix.get(0, 0);
    assert!((third * 3.0 - 1.0).abs() <= 2.0 * f32::EPSILON, "one division, and this product");
    // The row's weights follow below the curve.
    let token = &step(&window, "weights").col_labels[0];
    assert!(shows(&window, &format!("■ {token} 0.333")));

    click(&mut window, "T = 1");
    assert_eq!(step(&window, "weights").matrix, before);
}

#[test]
fn a_cell_shows_its_arithmetic() {
    let mut window = open(Example::ILoveRobotics, TALL);
    click(&mut window, "Causal mask");
    for (key, cell, words) in [
        ("raw_scores", (1, 0), "1·2 + 1·1 + 1·1 = 4"),
        ("masked_scores", (0, 1), "hidden by the mask"),
        ("weights", (1, 0), "e^2.309 / ("),
    ] {
        hover(&mut window, key, cell);
        let explanation = step(&window, key).explain(cell.0, cell.1).unwrap();
        assert!(explanation.starts_with(words), "{explanation}");
        assert!(shows(&window, &explanation));
    }
}

#[test]
fn a_chosen_cell_stays_and_the_arrow_keys_move_it() {
    let mut window = open(Example::ILoveRobotics, TALL);
    let at = cell_of(&window, "raw_scores", (1, 0));
    click_at(&mut window, at);
    window.hover_at(Pos2::new(2.0, 2.0));
    window.run_steps(3);
    assert!(shows(&window, "1·2 + 1·1 + 1·1 = 4"));
    key(&mut window, egui::Key::ArrowDown);
    let at = At { step: Quantity::RawScores.into(), cell: (2, 0) };
    assert_eq!(session(&window).walkthrough.picked, Some(Picked::Cell(at)));
    assert!(shows(&window, &step(&window, "raw_scores").explain(2, 0).unwrap()));
}

#[test]
fn pictures_are_made_once_a_change() {
    let mut window = open(Example::ILoveRobotics, TALL);
    let ids = |window: &Window| -> BTreeSet<TextureId> {
        textures(&window.ctx).into_iter().map(|(id, _)| id).collect()
    };
    let (before, steps_before) = (ids(&window), walkthrough(&window).steps.clone());
    hover(&mut window, "weights", (1, 1));
    assert_eq!(ids(&window), before);

    choices(&mut window).walkthrough.settings.temperature = Temperature::INFINITE;
    window.run_steps(3);
    let after = ids(&window);
    assert_eq!(after.len(), before.len());
    // The numbers of most steps are unchanged.
    let steps = walkthrough(&window).steps.iter().zip(&steps_before);
    let changed = steps.filter(|(now, before)| now.matrix != before.matrix).count();
    assert!(changed > 0 && changed < steps_before.len() / 2);
    assert_eq!(after.difference(&before).count(), changed);
}

#[test]
fn the_diverging_map_is_centred_at_zero() {
    let palette =
        palette(Kind::Signed, &[-1.0, 0.5, 3.0, f32::NEG_INFINITY, f32::NAN], Look::default());
    assert_eq!(palette.range(), (-3.0, 3.0));
    let gray = |c: Color32| c.r().max(c.g()).max(c.b()) - c.r().min(c.g()).min(c.b());
    assert!(gray(palette.color(0.0)) < 8, "{:?}", palette.color(0.0));
    assert!(
        palette.color(3.0).r() > palette.color(3.0).b()
            && palette.color(-3.0).b() > palette.color(-3.0).r()
    );
    // Colours are equally dark at equal distance from 0, so that only the hue shows the sign.
    for x in [0.5, 1.5, 3.0] {
        let light = |x: f32| palette.color(x).intensity();
        assert!((light(x) - light(-x)).abs() < 0.15, "{x}");
    }
    assert_eq!(palette.rgb(f32::NEG_INFINITY), Ground::Paper.rgb());
    assert_eq!(palette.rgb(f32::NAN), NOT_A_NUMBER);
    assert_eq!(palette.color(f32::INFINITY), palette.color(3.0));
}

#[test]
fn the_distance_from_the_ground_grows_from_zero_to_one() {
    for ground in [Ground::Paper, Ground::Dark] {
        let palette = palette(Kind::Weights, &[], Look { ground, ..Look::default() });
        let light: Vec<f32> =
            (0..=10).map(|i| palette.color(i as f32 / 10.0).intensity()).collect();
        let goes_on = |a: &f32, b: &f32| if ground == Ground::Dark { a < b } else { a > b };
        assert!(light.is_sorted_by(goes_on), "{ground:?} {light:?}");
    }
}
