//! The texts that a learner reads about a cell.

use crate::common::{at, run, step, without};
use regard_walkthrough::{Example, Settings, Without};

fn explain(example: Example, settings: &Settings, key: &str, row: usize, col: usize) -> String {
    step(&run(example, settings), key).explain(row, col).expect("the cell is there")
}

#[test]
fn the_numbers_of_love() {
    let explain =
        |key, row, col| explain(Example::ILoveRobotics, &Settings::default(), key, row, col);
    assert_eq!(explain("x", 1, 0), "given: 1");
    assert_eq!(explain("q", 1, 0), "1·1 + 1·0 + 0·1 + 0·0 = 1");
    assert_eq!(explain("raw_scores", 1, 0), "1·2 + 1·1 + 1·1 = 4");
    assert_eq!(explain("scaled_scores", 1, 0), "4 / √3 = 2.309");
    assert_eq!(explain("weights", 1, 0), "e^2.309 / (e^2.309 + e^2.309 + e^2.309) = 0.333");
    assert_eq!(explain("output", 1, 0), "0.333·2 + 0.333·1 + 0.333·1 = 1.333");
}

#[test]
fn weights_at_other_temperatures() {
    let explain = |t, row, col| explain(Example::ILoveRobotics, &at(t), "weights", row, col);
    assert_eq!(
        explain(2.0, 1, 0),
        "e^(2.309/2) / (e^(2.309/2) + e^(2.309/2) + e^(2.309/2)) = 0.333"
    );
    assert_eq!(
        explain(0.0, 0, 0),
        "at T = 0 the largest score of the row, 2.887, gets all the weight: weight 1"
    );
    assert_eq!(
        explain(0.0, 0, 1),
        "at T = 0 the largest score of the row, 2.887, gets all the weight; this score is 1.732: weight 0"
    );
    assert_eq!(
        explain(0.0, 2, 0),
        "at T = 0 the 2 largest scores of the row, 1.732 each, share the weight: 1/2 = 0.5"
    );
    assert_eq!(
        explain(f32::INFINITY, 0, 1),
        "at T = ∞ all visible keys get the same weight: 1/3 = 0.333"
    );
}

#[test]
fn what_the_mask_hides() {
    let causal = Settings { causal: true, ..Settings::default() };
    let explain = |key, row, col| explain(Example::ILoveRobotics, &causal, key, row, col);
    assert_eq!(
        explain("masked_scores", 0, 2),
        "hidden by the mask: robotics comes after I, so the score is −∞"
    );
    assert_eq!(explain("masked_scores", 1, 0), "visible, so the score stays: 2.309");
    assert_eq!(explain("weights", 0, 2), "hidden by the mask: weight 0");
    assert_eq!(explain("weights", 1, 0), "e^2.309 / (e^2.309 + e^2.309) = 0.5");
}

#[test]
fn what_is_left_out() {
    let explain = |w, key| explain(Example::ILoveRobotics, &without(w), key, 1, 0);
    assert_eq!(explain(Without::Projections, "k"), "as in X: 1");
    assert_eq!(explain(Without::Scaling, "weights"), "e^4 / (e^4 + e^4 + e^4) = 0.333");
    assert_eq!(explain(Without::Softmax, "weights"), "the score itself, without softmax: 2.309");
}

#[test]
fn vectors_and_random_numbers() {
    let explain = |key, col| explain(Example::Foundations, &Settings::default(), key, 0, col);
    assert_eq!(explain("dot.dot", 0), "1·4 + 2·5 + 3·6 = 32");
    assert_eq!(explain("dot.norm_x", 0), "√(1² + 2² + 3²) = 3.742");
    assert_eq!(explain("dot.cosine", 0), "32 / (3.742·8.775) = 0.975");
    assert_eq!(explain("matmul.AB", 0), "1·2 + 2·1 = 4");
    assert_eq!(explain("softmax.t2", 0), "e^(2/2) / (e^(2/2) + e^(1/2) + e^(0.1/2)) = 0.502");
    assert_eq!(explain("x", 0), "1.764: number 1 drawn (NumPy, seed 0)");
}

#[test]
fn long_sums_say_what_they_leave_out() {
    let text = explain(Example::WhyScale, &Settings::default(), "raw_scores", 0, 0);
    assert!(text.contains(" + … 251 more terms that add up to "), "{text}");
    // 8 terms are few enough to be shown.
    let text = explain(Example::MathOfAttention, &Settings::default(), "q", 0, 0);
    assert_eq!(text.matches('·').count(), 8, "{text}");
}

#[test]
fn heads_and_tables() {
    let explain = |example, key, col| explain(example, &Settings::default(), key, 0, col);
    assert_eq!(explain(Example::TwoHeads, "concatenated", 2).split(':').next(), Some("head 2, v0"));
    let text = explain(Example::WhyScale, "by_dimension", 3);
    assert!(text.starts_with("mean of the largest of 10 weights, scores over √d: 0.3"), "{text}");
}
