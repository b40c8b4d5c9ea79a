//! Tests that the arithmetic of each cell gives its number, that operands are in the cells they name, and that errors are as
//! stated.

use crate::common::{at, cells, cuts, named, run, step};
use regard_walkthrough::{
    Example, Inputs, Kind, Quantity, RowRole, Script, Section, Settings, Walkthrough, Without,
    formula_parts, ulps,
};

/// Whether brackets have nothing but other brackets in them: "((a + b))".
fn has_doubled_brackets(text: &str) -> bool {
    let (mut open, mut within) = (Vec::new(), None);
    text.char_indices().any(|(i, c)| {
        if c == '(' {
            open.push(i);
        }
        let Some(start) = (c == ')').then(|| open.pop()).flatten() else { return false };
        within.replace((start, i)) == Some((start + 1, i - 1))
    })
}

#[test]
fn doubled_brackets_are_found() {
    for (text, is_doubled) in [
        ("((a + b))·c", true),
        ("√((a + b))", true),
        ("(a)·((b − c)/d)", false),
        ("((a) + (b))", false),
        ("a)) + (", false),
    ] {
        assert_eq!(has_doubled_brackets(text), is_doubled, "{text}");
    }
}

/// Computes every cell again from its arithmetic.
pub(crate) fn assert_recomputed(walk: &Walkthrough) {
    let name = walk.example.name();
    for (order, step) in walk.steps.iter().enumerate() {
        for (i, j) in cells(step) {
            let at = || format!("{name} {}[{i}, {j}] with {:?}", step.key, walk.settings);
            let told = step.arithmetic(i, j).expect("the cell is there");
            assert_eq!(told.value, step.matrix.get(i, j), "{}", at());
            assert!(!told.text.is_empty(), "{}", at());
            assert!(!has_doubled_brackets(&told.text), "{}: {}", at(), told.text);
            let Some(expr) = told.expr else {
                let is_input = step.formula.is_empty() || step.kind == Kind::Table;
                assert!(is_input, "{} says nothing: {}", at(), told.text);
                continue;
            };
            // Both follow from operands within their bounds. One of them is rounded, and one is not.
            let (value, found) = (expr.value(), f64::from(told.value));
            let tolerance = 2.0 * step.bound(i, j).expect("the cell is there");
            let same = found == value || (found - value).abs() <= tolerance;
            assert!(same, "{}: {found} is not {value}", at());
            for operand in expr.operands() {
                let Some(cell) = &operand.cell else { continue };
                let earlier = walk.steps[..order].iter().find(|step| step.key == cell.step);
                let from = earlier.unwrap_or_else(|| panic!("{}: no {} before", at(), cell.step));
                let (label, value) = (&operand.label, from.matrix.get(cell.row, cell.col));
                assert_eq!(value, operand.value, "{}: {label}", at());
                let (row, col) = (&from.row_labels[cell.row], &from.col_labels[cell.col]);
                let place = format!("[{row}, {col}]");
                assert!(label.ends_with(&place), "{}: {label} is not at {place}", at());
            }
        }
    }
}

/// The other examples are computed again in the tests of the settings.
#[test]
fn every_cell_of_typed_and_drawn_inputs_is_computed_again_from_its_operands() {
    let tokens = ["a", "b", "a", "d", "e"].map(str::to_owned).to_vec();
    let inputs = Inputs::seeded(tokens, 20, 3, 4, 9).unwrap();
    assert_recomputed(&Walkthrough::compute(&inputs, &Settings::default()).unwrap());
    for example in [Example::ILoveRobotics, Example::TwoHeads, Example::Block] {
        let mut inputs = Inputs::new(example);
        for key in ["q", "k", "v"] {
            inputs.set(named(key), 1, 2, -1.5).unwrap();
        }
        assert_recomputed(&Walkthrough::compute(&inputs, &Settings::default()).unwrap());
    }
}

#[test]
fn all_steps_of_these_are_shown_by_other_steps() {
    for example in [
        Example::TheCatSat,
        Example::ILoveRobotics,
        Example::Block,
        Example::CrossAttention,
        Example::Gradients,
    ] {
        let walk = run(example, &Settings::default());
        for step in &walk.steps {
            let Some(expr) = step.arithmetic(0, 0).unwrap().expr else { continue };
            assert!(
                expr.operands().iter().all(|o| o.cell.is_some()),
                "{} {}",
                example.name(),
                step.key
            );
        }
    }
}

#[test]
fn the_arithmetic_of_a_block_in_words() {
    let explain = |example, key: &str, (row, col)| {
        step(&run(example, &Settings::default()), key).explain(row, col).unwrap()
    };
    let variance = "((1 − 3)² + (2 − 3)² + (3 − 3)² + (6 − 3)²) / 4 = 3.5";
    for (example, key, cell, text) in [
        (Example::Positions, "x", (3, 3), "the row of the in E: 1.8"),
        (Example::Positions, "positions", (2, 2), "sin(2 / 100) = 0.02"),
        (Example::Positions, "placed", (0, 1), "(−0.6) + 1 = 0.4"),
        (Example::LayerNorm, "moments", (1, 0), "(1 + 2 + 3 + 6) / 4 = 3"),
        (Example::LayerNorm, "moments", (1, 1), variance),
        (Example::LayerNorm, "norm", (1, 3), "((6 − 3) / √(3.5 + 1·10⁻⁵))·1 + 0.5 = 2.104"),
        (Example::FeedForward, "hidden_raw", (0, 1), "1·(−1) + 0·1 + 1·0 + 0·0.5 + 0 = −1"),
        (Example::FeedForward, "hidden", (0, 1), "max(0, −1) = 0"),
    ] {
        assert_eq!(explain(example, key, cell), text);
    }
    assert!(explain(Example::Gradients, "loss", (0, 0)).ends_with(") / 2 = 1.689")); // of squares
    assert!(explain(Example::TwoHeads, "head_2.q", (0, 0)).starts_with("as in Q:"));
}

#[test]
fn gradients_are_what_a_nudge_does_to_the_loss() {
    // With and without a mask, at temperatures below and above 1; and each step left out.
    for (t, causal) in [(1.0, false), (2.0, false)] {
        assert_nudged(&Settings { causal, ..at(t) });
    }
    for without in cuts() {
        assert_nudged(&Settings { causal: true, without, ..at(0.5) });
    }
}

fn assert_nudged(settings: &Settings) {
    let loss = |inputs: &Inputs| {
        let walk = Walkthrough::compute(inputs, settings).unwrap();
        step(&walk, "loss").exact.get(0, 0)
    };
    let mut inputs = Inputs::new(Example::Gradients);
    // Larger weights make the softmax sharper.
    for key in [Quantity::WQ, Quantity::WK] {
        for (i, j) in (0..16).map(|i| (i / 4, i % 4)) {
            let small = inputs.matrix(key).unwrap().get(i, j);
            inputs.set(key, i, j, 10.0 * small).unwrap();
        }
    }
    let walk = Walkthrough::compute(&inputs, settings).unwrap();
    let of_walk = step(&walk, "loss").exact.get(0, 0);
    for (key, gradient) in [
        (Quantity::WQ, Quantity::DWQ),
        (Quantity::WK, Quantity::DWK),
        (Quantity::WV, Quantity::DWV),
        (Quantity::X, Quantity::DX),
    ] {
        let Some(gradient) = walk.step(gradient) else {
            assert_eq!(settings.without, Some(Without::Projections), "{key:?}");
            continue;
        };
        for (i, j) in cells(gradient) {
            let nudged = |by: f64| {
                let mut inputs = inputs.clone();
                let value = inputs.matrix(key).unwrap().get(i, j);
                inputs.set(key, i, j, value + by).unwrap();
                loss(&inputs)
            };
            let slope = |h: f64| (nudged(h) - nudged(-h)) / (2.0 * h);
            // The error of a central difference grows with h². The error at 2h is four times that at h, so the two
            // differences differ by three times the latter. The losses have about 100 roundings in double precision.
            let (fine, coarse) = (slope(1e-5), slope(2e-5));
            let rounding = 100.0 * f64::EPSILON * of_walk / 1e-5;
            let tolerance = (fine - coarse).abs() + 2.0 * rounding;
            let found = gradient.exact.get(i, j);
            assert!((found - fine).abs() <= tolerance, "{key:?}[{i}, {j}]: {found}, not {fine}");
        }
    }
}

#[test]
fn ulps_count_the_gaps_between_neighbours() {
    for x in [1.0_f32, 1.5, -3.25, 1e-30, 7e33, f32::MIN_POSITIVE, 1e-42] {
        let next = f32::from_bits(x.to_bits() + 1);
        assert_eq!(ulps(next, f64::from(x), 0.0), 1.0, "{x}");
        assert!(ulps(x, f64::midpoint(f64::from(x), f64::from(next)), 0.0) <= 0.5, "{x}");
    }
    assert_eq!(ulps(0.0, 0.0, 0.0), 0.0);
    assert!(ulps(f32::NAN, 1.0, 0.0).is_nan());
    assert_eq!(ulps(f32::INFINITY, 1.0, 0.0), f64::INFINITY);
    // The floor counts if the number is smaller.
    assert_eq!(ulps(1e-9, 0.0, 1.0), 1e-9_f32 as f64 / f64::from(f32::EPSILON));
}

#[test]
fn every_step_knows_its_ulps() {
    for &example in Example::ALL {
        let walk = run(example, &Settings::default());
        for step in &walk.steps {
            let (rows, cols) = step.matrix.shape();
            let largest = cells(step).map(|(i, j)| step.ulp(i, j).unwrap()).fold(0.0, f64::max);
            assert_eq!(largest, step.max_ulp, "{} {}", example.name(), step.key);
            assert_eq!(
                cells(step).map(|(i, j)| step.error(i, j).unwrap()).fold(0.0, f64::max),
                step.max_error
            );
            assert_eq!((step.ulp(rows, 0), step.error(0, cols)), (None, None));
            // Numbers that are given as decimals are rounded once.
            if step.formula.is_empty() {
                assert!(step.max_ulp <= 0.5, "{} {}: {}", example.name(), step.key, step.max_ulp);
            }
            for (i, j) in cells(step) {
                let (error, bound) = (step.error(i, j).unwrap(), step.bound(i, j).unwrap());
                assert!(
                    error <= bound,
                    "{} {}[{i}, {j}]: {error} > {bound}",
                    example.name(),
                    step.key
                );
            }
            assert_eq!((step.bound(rows, 0), step.bound(0, cols)), (None, None));
        }
        let json = walk.to_json();
        assert_eq!(json["max_ulp"].as_object().unwrap().len(), walk.steps.len());
    }
}

#[test]
fn formulas_fall_into_parts_that_give_the_formula() {
    for &example in Example::ALL {
        for step in run(example, &Settings::default()).steps {
            let parts = step.formula_parts();
            assert!(parts.iter().all(|p| !p.text.contains(['_', '^'])), "{}", step.formula);
            let letters: String = parts.iter().map(|p| p.text).collect();
            let bare = |s: &str| s.replace(['_', '^', '(', ')'], "");
            assert_eq!(bare(&letters), bare(&step.formula));
        }
    }
    assert_eq!(formula_parts("d_k")[1].script, Script::Sub);
    assert_eq!(formula_parts("e^(a(b)").len(), 2);
    assert!(formula_parts("").is_empty());
}

#[test]
fn a_token_is_marked_in_all_steps() {
    let walk =
        Walkthrough::run(Example::ILoveRobotics, &Settings { causal: true, ..Settings::default() })
            .unwrap();
    let love = walk.select_token(1);
    let marks = |key: &str| walk.step(named(key)).unwrap().marks(&love);
    assert_eq!(marks("q").query, Some(1));
    assert_eq!(marks("love.q").query, Some(0), "its only row");
    assert_eq!(marks("k").keys, [0, 1]);
    assert_eq!((marks("raw_scores").query, marks("weights").cols), (Some(1), vec![0, 1]));
    assert_eq!(marks("output").query, Some(1));
    assert_eq!(marks("w_q"), Default::default());
    assert_eq!(walk.select(named("love.weights"), 0, 2), walk.select(named("weights"), 1, 2));
    assert_eq!(walk.select(named("weights"), 9, 9), Default::default());
    // The computation by hand for "love" has no row for another token.
    assert_eq!(walk.step(named("love.q")).unwrap().marks(&walk.select_token(0)).query, None);
}

#[test]
fn rows_say_whose_they_are() {
    for &example in Example::ALL {
        let walk = run(example, &Settings::default());
        for step in &walk.steps {
            let last = step.key.quantity.name();
            let expected = match last {
                "k" | "v" | "memory" | "d_k" | "d_v" => RowRole::Keys,
                "q" | "output" | "concatenated" | "causal_output" | "d_q" | "target" => {
                    RowRole::Queries
                }
                "raw_scores" | "scaled_scores" | "weights" | "causal_weights" | "d_weights"
                | "d_scores" => RowRole::Pairs,
                "w_q" | "w_k" | "w_v" | "w_o" | "w_1" | "gamma" | "embeddings" => RowRole::Other,
                "x" if step.key == named("x") => RowRole::Tokens,
                _ => continue,
            };
            let reversed = step.key.section == Section::Reversed;
            assert!(
                step.rows == expected || reversed,
                "{} {}: {:?}",
                example.name(),
                step.key,
                step.rows
            );
        }
    }
    // The queries belong to one text, and the keys to another.
    let walk = Walkthrough::run(Example::CrossAttention, &Settings::default()).unwrap();
    let chat = walk.select_token(1);
    assert_eq!((chat.query, chat.keys.len()), (Some(1), 3));
    assert_eq!(
        walk.step(named("memory")).unwrap().marks(&walk.select(named("weights"), 0, 2)).keys,
        [2]
    );
}
