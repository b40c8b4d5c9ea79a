//! The texts that a learner reads about a cell.

use crate::common::{at, run, step, without};
use regard_walkthrough::{Example, Settings, Without};

fn explain(example: Example, settings: &Settings, key: &str, row: usize, col: usize) -> String {
    step(&run(example, settings), key).explain(row, col).expect("the cell is there")
}

#[test]
fn a_cell_has_its_arithmetic_in_every_setting() {
    let plain = Settings::default();
    let causal = Settings { causal: true, ..plain };
    let (half, cold, hot) = (at(2.0), at(0.0), at(f32::INFINITY));
    let [projections, scaling, softmax] =
        [Without::Projections, Without::Scaling, Without::Softmax].map(without);
    let largest = "at T = 0 the largest score of the row, 2.887, gets all the weight";
    let of_robotics = [
        (plain, "x", (1, 0), "given: 1"),
        (plain, "q", (1, 0), "1·1 + 1·0 + 0·1 + 0·0 = 1"),
        (plain, "raw_scores", (1, 0), "1·2 + 1·1 + 1·1 = 4"),
        (plain, "scaled_scores", (1, 0), "4 / √3 = 2.309"),
        (plain, "weights", (1, 0), "e^2.309 / (e^2.309 + e^2.309 + e^2.309) = 0.333"),
        (plain, "output", (1, 0), "0.333·2 + 0.333·1 + 0.333·1 = 1.333"),
        (
            half,
            "weights",
            (1, 0),
            "e^(2.309/2) / (e^(2.309/2) + e^(2.309/2) + e^(2.309/2)) = 0.333",
        ),
        (cold, "weights", (0, 0), &format!("{largest}: weight 1")),
        (cold, "weights", (0, 1), &format!("{largest}; this score is 1.732: weight 0")),
        (
            cold,
            "weights",
            (2, 0),
            "at T = 0 the 2 largest scores of the row, 1.732 each, share the weight: 1/2 = 0.5",
        ),
        (hot, "weights", (0, 1), "at T = ∞ all visible keys get the same weight: 1/3 = 0.333"),
        (
            causal,
            "masked_scores",
            (0, 2),
            "hidden by the mask: robotics comes after I, so the score is −∞",
        ),
        (causal, "masked_scores", (1, 0), "visible, so the score stays: 2.309"),
        (causal, "weights", (0, 2), "hidden by the mask: weight 0"),
        (causal, "weights", (1, 0), "e^2.309 / (e^2.309 + e^2.309) = 0.5"),
        (projections, "k", (1, 0), "as in X: 1"),
        (scaling, "weights", (1, 0), "e^4 / (e^4 + e^4 + e^4) = 0.333"),
        (softmax, "weights", (1, 0), "the score itself, without softmax: 2.309"),
    ];
    for (settings, key, (row, col), text) in of_robotics {
        assert_eq!(explain(Example::ILoveRobotics, &settings, key, row, col), text);
    }
    for (key, text) in [
        ("dot.dot", "1·4 + 2·5 + 3·6 = 32"),
        ("dot.norm_x", "√(1² + 2² + 3²) = 3.742"),
        ("dot.cosine", "32 / (3.742·8.775) = 0.975"),
        ("matmul.AB", "1·2 + 2·1 = 4"),
        ("softmax.t2", "e^(2/2) / (e^(2/2) + e^(1/2) + e^(0.1/2)) = 0.502"),
        ("x", "1.764: number 1 drawn (NumPy, seed 0)"),
    ] {
        assert_eq!(explain(Example::Foundations, &plain, key, 0, 0), text);
    }
    // A long sum says what it leaves out; 8 terms are few enough to be shown.
    for (example, key, col, part) in [
        (Example::WhyScale, "raw_scores", 0, " + … 251 more terms that add up to "),
        (Example::WhyScale, "by_dimension", 3, "largest of 10 weights, scores over √d: 0.3"),
        (Example::TwoHeads, "concatenated", 2, "head 2, v0:"),
    ] {
        let text = explain(example, &plain, key, 0, col);
        assert!(text.contains(part), "{text}");
    }
    let text = explain(Example::MathOfAttention, &plain, "q", 0, 0);
    assert_eq!(text.matches('·').count(), 8, "{text}");
}
