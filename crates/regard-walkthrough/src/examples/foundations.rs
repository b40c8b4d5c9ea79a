use regard_kernels::{Temperature, cosine_similarity, dot, norm};

use super::{Entry, Group, Start, matrix, self_attention};
use crate::bound;
use crate::expr::Expr;
use crate::input::Input;
use crate::origin::Origin;
use crate::pair::Pair;
use crate::random::NumpyRng;
use crate::step::Kind;
use crate::trace::{Axes, Text, Trace, labels};
use crate::{Error, Matrix, Quantity, RowRole, Section, StepKey, reference};

pub(super) const ENTRY: Entry = Entry {
    title: "Foundations",
    summary: "Dot product, norm, cosine similarity, matrix product and softmax; then attention over four tokens of six numbers (NumPy, seed 0).",
    group: Group::Attention,
    tokens: "t0 t1 t2 t3",
    start: Start::Given(inputs),
    run,
    ..Entry::PLAIN
};

/// Vectors, a matrix product and a softmax; then `numpy.random.seed(0)`, X = randn(4, 6), W_Q, W_K, W_V = randn(6, 6).
pub(super) fn inputs() -> Vec<Input> {
    let of = |section, quantity, values| Input::given(StepKey::new(section, quantity), values);
    let mut inputs = vec![
        of(Section::Dot, Quantity::X, matrix(&[[1.0, 2.0, 3.0]])),
        of(Section::Dot, Quantity::Y, matrix(&[[4.0, 5.0, 6.0]])),
        of(Section::Matmul, Quantity::MatrixA, matrix(&[[1.0, 2.0], [3.0, 4.0]])),
        of(Section::Matmul, Quantity::MatrixB, matrix(&[[2.0, 0.0], [1.0, 2.0]])),
        of(Section::Softmax, Quantity::Scores, matrix(&[[2.0, 1.0, 0.1]])),
    ];
    let mut rng = NumpyRng::seed(0);
    for (key, rows) in [(Quantity::X, 4), (Quantity::WQ, 6), (Quantity::WK, 6), (Quantity::WV, 6)] {
        // The kernels use these doubles rounded; the reference uses them unrounded.
        let values = Matrix::from_vec(rows, 6, rng.randn(rows * 6));
        inputs.push(Input::drawn(key, values, "NumPy, seed 0"));
    }
    inputs
}

pub(super) fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    vectors(trace)?;
    matrix_product(trace)?;
    softmax(trace)?;
    self_attention(trace)?;
    Ok(())
}

fn vectors(trace: &mut Trace<'_>) -> Result<(), Error> {
    let dims = labels("d", 3);
    let mut vector = |quantity| {
        let text = Text::of(StepKey::new(Section::Dot, quantity));
        trace.give(&text, Axes::new(RowRole::Other, &[text.name.to_owned()], &dims))
    };
    let (x, y) = (vector(Quantity::X)?, vector(Quantity::Y)?);

    let (a, b) = (x.ours.as_slice(), y.ours.as_slice());
    let (exact_a, exact_b) = (x.exact.as_slice(), y.exact.as_slice());
    let mut scalar = |text: Text<'_>, ours: f32, [exact, bound]: [f64; 2], origin| {
        let [exact, bound] = [exact, bound].map(|x| Matrix::from_rows(&[[x]]));
        let pair = Pair::new(Matrix::from_rows(&[[ours]]), exact, bound);
        let empty = [String::new()];
        trace.push(&text, pair, Kind::Signed, Axes::new(RowRole::Other, &empty, &empty), origin)
    };
    let product = scalar(
        Text::of(StepKey::new(Section::Dot, Quantity::Dot)),
        dot(a, b)?,
        [reference::dot(exact_a, exact_b), error_of_dot(&x, &y)],
        Origin::product_transposed(&x, &y),
    );
    let length = |v: &Pair| {
        let v = v.clone();
        move || Expr::Sum((0..3).map(|i| v.cell(0, i).square()).collect()).root()
    };
    let (length_x, length_y) = (length(&x), norm(b));
    let length = scalar(
        Text::of(StepKey::new(Section::Dot, Quantity::NormX)),
        norm(a),
        [reference::norm(exact_a), error_of_norm(&x)],
        Origin::computed(move |_, _| length_x()),
    );
    scalar(
        Text::of(StepKey::new(Section::Dot, Quantity::Cosine)),
        cosine_similarity(a, b)?,
        [reference::cosine(exact_a, exact_b), error_of_cosine(&x, &y)],
        Origin::computed(move |_, _| {
            let length_y = Expr::Number { name: "‖y‖", value: f64::from(length_y) };
            product.cell(0, 0).over(Expr::Product(vec![length.cell(0, 0), length_y]))
        }),
    );
    Ok(())
}

/// The bound of x·y, which is summed in 16 virtual lanes.
fn error_of_dot(x: &Pair, y: &Pair) -> f64 {
    bound::sums(x.known(), y.transposed().known(), 0).get(0, 0)
}

fn error_of_norm(x: &Pair) -> f64 {
    let square = reference::dot(x.exact.as_slice(), x.exact.as_slice());
    bound::root(square, error_of_dot(x, x))
}

/// The bound of x·y / (‖x‖·‖y‖). Two cosines differ by at most 2, and the cosine of a zero vector is 0.
fn error_of_cosine(x: &Pair, y: &Pair) -> f64 {
    let (a, b) = (x.exact.as_slice(), y.exact.as_slice());
    let [length_x, length_y] = [a, b].map(reference::norm);
    if length_x * length_y == 0.0 {
        return 0.0;
    }
    let (error_x, error_y) = (error_of_norm(x), error_of_norm(y));
    let error = error_x * (length_y + error_y) + length_x * error_y;
    let lengths = [length_x * length_y, bound::rounded(length_x * length_y, error)];
    bound::quotient([reference::dot(a, b), error_of_dot(x, y)], lengths, 1).min(2.0)
}

fn matrix_product(trace: &mut Trace<'_>) -> Result<(), Error> {
    let (rows, cols) = (labels("row ", 2), labels("column ", 2));
    let axes = Axes::new(RowRole::Other, &rows, &cols);
    let text = Text::of(StepKey::new(Section::Matmul, Quantity::MatrixA));
    let a = trace.give(&text, axes)?;
    let text = Text::of(StepKey::new(Section::Matmul, Quantity::MatrixB));
    let b = trace.give(&text, axes)?;
    let text = Text::of(StepKey::new(Section::Matmul, Quantity::MatrixAB));
    trace.push(&text, a.times(&b)?, Kind::Signed, axes, Origin::product(&a, &b));
    Ok(())
}

fn softmax(trace: &mut Trace<'_>) -> Result<(), Error> {
    let (cols, rows) = (labels("s", 3), ["scores".to_owned()]);
    let text = Text::of(StepKey::new(Section::Softmax, Quantity::Scores));
    let scores = trace.give(&text, Axes::new(RowRole::Other, &rows, &cols))?;
    for (quantity, t) in
        [(Quantity::AtT1, Temperature::ONE), (Quantity::AtT2, Temperature::new(2.0)?)]
    {
        let text = Text::of(StepKey::new(Section::Softmax, quantity));
        let rows = ["the row".to_owned()];
        let (axes, origin) = (Axes::new(RowRole::Other, &rows, &cols), Origin::softmax(&scores, t));
        trace.push(&text, scores.softmax(t), Kind::Weights, axes, origin);
    }
    Ok(())
}
