//! The distance of each example's weights from uniform ones: an example whose weights are all near 1/n shows nothing.

use regard_walkthrough::{Example, Kind, Quantity, Settings, Step, Walkthrough};

/// One minus the mean entropy of a row divided by that of a uniform row: 0 if every weight is 1/n, 1 if each row is one key.
fn sharpness(step: &Step) -> f64 {
    let (rows, cols) = step.matrix.shape();
    let entropy = |i: usize| -> f64 {
        let weights = step.exact.row(i).iter().filter(|w| **w > 0.0);
        weights.map(|w| -w * w.ln()).sum()
    };
    let mean = (0..rows).map(entropy).sum::<f64>() / rows as f64;
    1.0 - mean / (cols as f64).ln()
}

/// The smallest sharpness of any weights of an example over its own queries and keys. `None` without attention.
fn least(example: Example) -> Option<f64> {
    let walk = Walkthrough::run(example, &Settings::default()).expect("examples run");
    let weights = walk.steps.iter().filter(|step| {
        step.kind == Kind::Weights
            && step.key.quantity == Quantity::Weights
            && step.matrix.cols() > 1
    });
    weights.map(sharpness).reduce(f64::min)
}

/// The numbers of the notebooks are fixed. Those of `the-cat-sat` are flat, and its summary says why.
#[test]
fn the_weights_of_our_own_examples_are_far_from_uniform() {
    let notebooks = [
        Example::Foundations,
        Example::ILoveRobotics,
        Example::AttentionScores,
        Example::MathOfAttention,
        Example::TheCatSat,
    ];
    let mut seen = 0;
    for example in Example::ALL.iter().copied().filter(|example| !notebooks.contains(example)) {
        let Some(least) = least(example) else { continue };
        seen += 1;
        assert!(least >= 0.1, "{}: {least:.3}", example.name());
    }
    assert!(seen >= 6, "{seen} examples have attention");
    assert!(least(Example::TheCatSat).is_some_and(|least| least < 0.001));
    assert!(Example::TheCatSat.summary().contains("near 1/3"));
}

#[test]
fn foundations_and_whole_numbers_come_first_and_gradients_last() {
    let place = |example| Example::ALL.iter().position(|other| *other == example);
    assert_eq!(Example::ALL[0], Example::Foundations);
    assert_eq!(Example::ALL[1], Example::ILoveRobotics);
    assert_eq!(Example::ALL[Example::ALL.len() - 2], Example::Gradients);
    assert!(place(Example::MathOfAttention) < place(Example::Block));
    assert!(place(Example::AttentionScores) < place(Example::TheCatSat));
    assert!(
        place(Example::KvCache) < place(Example::GroupedQueries),
        "the cache is what they halve"
    );
}
