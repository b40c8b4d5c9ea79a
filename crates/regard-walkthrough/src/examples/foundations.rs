use regard_kernels::{Temperature, cosine_similarity, dot, norm};

use super::self_attention;
use crate::explain::sum_of_squares;
use crate::number::{bracketed, number};
use crate::pair::Pair;
use crate::random::NumpyRng;
use crate::step::{Kind, Origin};
use crate::trace::{Labels, Text, Trace, labels};
use crate::{Error, Matrix, reference};

/// Vectors, a matrix product and a softmax; then `numpy.random.seed(0)`, X = randn(4, 6), W_Q, W_K, W_V = randn(6, 6).
pub(super) fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    vectors(trace)?;
    matrix_product(trace)?;
    softmax(trace);

    let mut rng = NumpyRng::seed(0);
    let mut randn = |rows: usize, cols: usize| {
        let data = rng.randn(rows * cols);
        // The kernels see these doubles rounded; the reference sees them whole.
        Pair::double(Matrix::from_fn(rows, cols, |i, j| data[i * cols + j]))
    };
    let x = randn(4, 6);
    let w = [(); 3].map(|()| randn(6, 6));
    let drawn = Origin::Drawn("NumPy, seed 0".to_owned());
    self_attention(trace, &x, &w, [&drawn, &drawn])?;
    Ok(())
}

fn vectors(trace: &mut Trace<'_>) -> Result<(), Error> {
    let dims = labels("d", 3);
    let [x, y] = [[[1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0]]].map(|v| Pair::single(Matrix::from_rows(&v)));
    let mut vector = |key, name, meaning, pair| {
        let text = Text { key, name, formula: "", meaning };
        trace.push(&text, pair, Kind::Signed, Labels { rows: &[name.to_owned()], cols: &dims }, Origin::Given);
    };
    vector("dot.x", "Vector x", "A vector is a list of numbers: an arrow, or a token.", &x);
    vector("dot.y", "Vector y", "Another vector, to compare with the first.", &y);

    let (a, b) = (x.ours.as_slice(), y.ours.as_slice());
    let (exact_a, exact_b) = (x.exact.as_slice(), y.exact.as_slice());
    let mut scalar = |key, name: &str, formula, meaning, ours: f32, exact: f64, origin| {
        let pair = Pair { ours: Matrix::from_rows(&[[ours]]), exact: Matrix::from_rows(&[[exact]]) };
        let text = Text { key, name, formula, meaning };
        let empty = [String::new()];
        trace.push(&text, &pair, Kind::Signed, Labels { rows: &empty, cols: &empty }, origin);
    };
    let product = dot(a, b)?;
    scalar(
        "dot.dot",
        "Dot product x·y",
        "x·y = Σ xᵢyᵢ",
        "Two vectors become one scalar, a plain number: how much they have in common.",
        product,
        reference::dot(exact_a, exact_b),
        Origin::ProductTransposed { left: x.ours.clone(), right: y.ours.clone() },
    );
    let (length, length_y) = (norm(a), norm(b));
    scalar(
        "dot.norm_x",
        "Norm ‖x‖",
        "‖x‖ = √(x·x)",
        "The length of a vector: the root of its dot product with itself.",
        length,
        reference::norm(exact_a),
        Origin::Spelled(format!("√({}) = {}", sum_of_squares(&x.ours), number(length.into()))),
    );
    let cosine = cosine_similarity(a, b)?;
    let [dividend, length, length_y] = [number(product.into()), number(length.into()), bracketed(length_y.into())];
    scalar(
        "dot.cosine",
        "Cosine similarity",
        "cos θ = x·y / (‖x‖·‖y‖)",
        "The dot product without the lengths: 1 for one direction, 0 for a right angle, −1 for opposite directions.",
        cosine,
        reference::dot(exact_a, exact_b) / (reference::norm(exact_a) * reference::norm(exact_b)),
        Origin::Spelled(format!("{dividend} / ({length}·{length_y}) = {}", number(cosine.into()))),
    );
    Ok(())
}

fn matrix_product(trace: &mut Trace<'_>) -> Result<(), Error> {
    let [a, b] = [[[1.0, 2.0], [3.0, 4.0]], [[2.0, 0.0], [1.0, 2.0]]].map(|m| Pair::single(Matrix::from_rows(&m)));
    let ab = a.times(&b)?;
    let (rows, cols) = (labels("row ", 2), labels("column ", 2));
    let labels = Labels { rows: &rows, cols: &cols };
    let text = Text {
        key: "matmul.A",
        name: "Matrix A",
        formula: "",
        meaning: "A matrix is rows of numbers: a list of vectors.",
    };
    trace.push(&text, &a, Kind::Signed, labels, Origin::Given);
    let text = Text {
        key: "matmul.B",
        name: "Matrix B",
        formula: "",
        meaning: "As many rows as A has columns, or no product.",
    };
    trace.push(&text, &b, Kind::Signed, labels, Origin::Given);
    let text = Text {
        key: "matmul.AB",
        name: "Matrix product AB",
        formula: "(AB)ᵢⱼ = Σₜ AᵢₜBₜⱼ",
        meaning: "All rows of A against all columns of B: every element is a dot product.",
    };
    trace.push(&text, &ab, Kind::Signed, labels, Origin::Product { left: a.ours, right: b.ours });
    Ok(())
}

fn softmax(trace: &mut Trace<'_>) {
    let scores = Pair::double(Matrix::from_rows(&[[2.0, 1.0, 0.1]]));
    let (cols, rows) = (labels("s", 3), ["scores".to_owned()]);
    let given = Labels { rows: &rows, cols: &cols };
    let text =
        Text { key: "softmax.scores", name: "Scores", formula: "", meaning: "Three scores, of any size and sign." };
    trace.push(&text, &scores, Kind::Signed, given, Origin::Given);
    let t = |t| Temperature::new(t).unwrap_or_default();
    let temperatures = [
        (
            "softmax.t1",
            "Softmax at T = 1",
            1.0,
            "Scores become shares: all positive, adding up to 1, in the same order.",
        ),
        (
            "softmax.t2",
            "Softmax at T = 2",
            2.0,
            "Scores divided by a higher temperature give flatter shares; a lower one, sharper.",
        ),
    ];
    for (key, name, temperature, meaning) in temperatures {
        let weights = scores.softmax(t(temperature));
        let text = Text { key, name, formula: "e^(sᵢ/T) / Σⱼ e^(sⱼ/T)", meaning };
        let origin = Origin::Softmax { from: scores.ours.clone(), temperature };
        let labels = Labels { rows: &["the row".to_owned()], cols: &cols };
        trace.push(&text, &weights, Kind::Weights, labels, origin);
    }
}
