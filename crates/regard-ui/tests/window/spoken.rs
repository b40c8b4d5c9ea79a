//! The words of a screen reader for a weight, a prediction, a change and a plot: their AccessKit names and values.

use crate::heads::AttentionSource;
use crate::model::{Listed, ModelState};
use crate::walkthrough::{At, Picked};
use crate::{Room, Session, example};
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use regard_figure::numbers;
use regard_heads::HeadId;
use regard_kernels::Temperature;
use regard_models::{Ablation, Change};
use regard_walkthrough::{Example, Quantity};

use super::driver::{
    Window, alter, app, buttons, choices, open, outcome, session_of, settle, walkthrough,
};

const SIZE: [f32; 2] = [1400.0, 1000.0];

fn story() -> Window {
    open(session_of(Room::Stage), SIZE)
}

#[test]
fn a_weight_is_told_with_its_query_and_its_key() {
    let mut start = example(Example::ILoveRobotics);
    let at = At { step: Quantity::Weights.into(), cell: (0, 1) };
    start.walkthrough.picked = Some(Picked::Cell(at));
    let window = open(start, [1280.0, 12000.0]);
    let heatmap = window.get_by_label("Heatmap of Attention weights A").accesskit_node();
    assert_eq!(heatmap.value().unwrap(), "query I, key love, weight 0.168");
    // In the sentence of the stage, each token has its weight.
    let mut window = story();
    let first = |name: &String| name.starts_with("Hide [STORY] at 0, weight ");
    alter(&mut window, |s| s.model.heads.shown = crate::heads::Shown::Head);
    assert!(buttons(&window).iter().any(first), "{:?}", buttons(&window));
}

#[test]
fn a_prediction_is_told_with_its_probability() {
    let window = story();
    let next = &app(&window).model().next()[0];
    let percent = (100.0 * next.after).round();
    let name = format!("{}: {percent} %", next.token);
    assert!(buttons(&window).contains(&name), "{name}: {:?}", buttons(&window));
}

#[test]
fn a_change_is_told_with_its_effect() {
    let mut window = story();
    let state = &mut choices(&mut window).model;
    let change = Change::Ablate { head: "0.0".parse().unwrap(), to: Ablation::Zero };
    state.changes = vec![Listed { change, on: true }];
    settle(&mut window);
    let next = app(&window).model().next().iter().find(|next| next.before > 0.5).unwrap();
    // "Mary: 1.2 %, without the changes 98 %, −97 points"
    let before = (100.0 * next.before).round();
    let start = format!("{}: ", next.token);
    let effect = format!(" %, without the changes {before} %, −");
    let all = buttons(&window);
    let told = all.iter().find(|name| name.starts_with(&start) && name.contains(&effect));
    assert!(told.is_some_and(|name| name.ends_with(" points")), "{all:?}");
}

/// A temperature between two points of the curves.
const BETWEEN: f32 = 0.37;

/// The words of a plot.
fn words_of(window: &Window, plot: &str) -> String {
    window.get_by_label_contains(&format!("Plot: {plot}")).accesskit_node().label().unwrap()
}

#[test]
fn a_plot_is_told_as_its_legend_has_it_with_the_numbers_of_the_matrix() {
    for t in [BETWEEN, 0.0, f32::INFINITY] {
        let mut start = example(Example::ILoveRobotics);
        start.walkthrough.settings.temperature = Temperature::new(t).unwrap();
        let at = At { step: Quantity::Weights.into(), cell: (0, 1) };
        start.walkthrough.picked = Some(Picked::Cell(at));
        let window = open(start, SIZE);
        let walkthrough = walkthrough(&window);
        let weights = walkthrough.step(Quantity::Weights).unwrap();
        let words = words_of(&window, "Weights of \"I\" by temperature, at T = ");
        for (token, weight) in weights.col_labels.iter().zip(weights.matrix.row(0)) {
            let told = format!("{token} {}", numbers::spoken(*weight));
            assert!(words.contains(&told), "{told}: {words}");
            let named = format!("■ {told}");
            let legend = window.query_all_by_label_contains(&named);
            assert_eq!(legend.count(), 1, "{told}");
        }
    }
}

#[test]
fn a_plot_of_the_laboratory_is_told_at_its_temperature_and_not_beside_it() {
    let mut start = session_of(Room::Laboratory);
    start.laboratory.inputs.temperature = Temperature::new(BETWEEN).unwrap();
    // This d is not a power of two.
    start.laboratory.inputs.dim = 24;
    let window = open(start, SIZE);
    let row = outcome(&window).weights.chunks(64).next_back().unwrap();
    let weights = || row.iter().map(|p| f64::from(*p)).filter(|p| *p > 0.0);
    let entropy = -weights().map(|p| p * p.ln()).sum::<f64>();
    let words = words_of(&window, "Entropy by temperature");
    let told = format!("at T = 0.37: entropy {}", numbers::spoken(entropy as f32));
    assert!(words.ends_with(&told), "{told}: {words}");
    // The Frobenius norm of (diag(p) − p·pᵀ) / T.
    let square = |i: usize, j: usize| {
        let own = if i == j { f64::from(row[i]) } else { 0.0 };
        (own - f64::from(row[i]) * f64::from(row[j])).powi(2)
    };
    let n = row.len();
    let norm = (0..n * n).map(|at| square(at / n, at % n)).sum::<f64>().sqrt();
    let told = format!("gradient norm {}", numbers::spoken((norm / f64::from(BETWEEN)) as f32));
    let words = words_of(&window, "Gradient norm by temperature");
    assert!(words.ends_with(&told), "{told}: {words}");
    let words = words_of(&window, "Gradient norm by d");
    assert!(words.contains("at d = 24: without 1/√d 0."), "{words}");
    assert!(words_of(&window, "Weights, sorted").contains(": weight from 0."));
}

/// Four equal weights have an entropy of ln 4 = 1.39 nats, which are 2 bits.
#[test]
fn entropy_is_in_nats_in_every_room() {
    let mut start = session_of(Room::Laboratory);
    start.laboratory.inputs.tokens = 4;
    start.laboratory.inputs.temperature = Temperature::INFINITE;
    let words = words_of(&open(start, SIZE), "Entropy by temperature");
    assert!(words.ends_with("at T = ∞: entropy 1.39"), "{words}");

    let mut start = example(Example::WhyScale);
    start.walkthrough.settings.temperature = Temperature::INFINITE;
    let window = open(start, SIZE);
    words_of(&window, "Entropy of the weights (nats), by d");
    let table = walkthrough(&window).step(Quantity::ByDimension).unwrap();
    assert!(table.meaning.ends_with("Entropy is in nats."), "{}", table.meaning);
    let entropy = table.col_labels.iter().position(|label| label == "entropy").unwrap();
    for row in 0..table.matrix.rows() {
        // A weight has a relative error of a few 2⁻²⁴, and so has the entropy of ten equal ones.
        let found = table.matrix.get(row, entropy);
        assert!((found - 10_f32.ln()).abs() < 1e-5, "{found}");
    }

    let model = ModelState::of_file(AttentionSource::Sample);
    let of_sample = Session { room: Room::Stage, model, ..Session::default() };
    let window = open(of_sample, SIZE);
    let heads = app(&window).model().file().unwrap();
    let id = HeadId { layer: 0, head: 3 };
    let weights = heads.maps.head(id);
    let rows = weights.chunks(heads.maps.shape().keys);
    let of_row = |row: &[f32]| -> f64 {
        let seen = row.iter().map(|p| f64::from(*p)).filter(|p| *p > 0.0);
        -seen.map(|p| p * p.ln()).sum::<f64>()
    };
    let mean = rows.clone().map(of_row).sum::<f64>() / rows.len() as f64;
    let start = format!("head 0.3, entropy {mean:.1} nats");
    assert!(buttons(&window).iter().any(|name| name.starts_with(&start)), "{start}");
}
