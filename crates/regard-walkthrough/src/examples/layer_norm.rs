use super::{Entry, Group, Start, matrix};
use crate::bound;
use crate::expr::Expr;
use crate::input::Input;
use crate::layers::{EPSILON, Which, push_norm};
use crate::number::number;
use crate::origin::{How, Origin};
use crate::pair::Pair;
use crate::project::give_tokens;
use crate::step::Kind;
use crate::trace::{Axes, Text, Trace};
use crate::{Error, Matrix, Quantity, RowRole, reference};

pub(super) const ENTRY: Entry = Entry {
    title: "Layer norm",
    summary: "Three tokens of very different sizes, each normalized to mean 0 and variance 1.",
    group: Group::Around,
    tokens: "the cat sat",
    start: Start::Given(inputs),
    run,
    ..Entry::PLAIN
};

/// One token is a hundred times as large as another.
pub(super) fn inputs() -> Vec<Input> {
    vec![
        Input::given(
            Quantity::X,
            matrix(&[[0.01, 0.02, 0.03, 0.06], [1.0, 2.0, 3.0, 6.0], [5.0, -1.0, -1.0, -3.0]]),
        ),
        Input::given(Quantity::Gamma, matrix(&[[1.0, 1.0, 2.0, 1.0]])),
        Input::given(Quantity::Beta, matrix(&[[0.0, 0.0, 0.0, 0.5]])),
    ]
}

/// Computes mean and variance, then the norm.
pub(super) fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    let x = give_tokens(trace)?;
    push_moments(trace, &x);
    push_norm(trace, &x, Which::ONLY, RowRole::Tokens)?;
    Ok(())
}

fn push_moments(trace: &mut Trace<'_>, x: &Pair) {
    let exact = |row: &[f64]| reference::moments(row);
    let moments = Pair::new(
        Matrix::from_fn(x.ours.rows(), 2, |i, j| exact(x.ours.map(f64::from).row(i))[j] as f32),
        Matrix::from_fn(x.exact.rows(), 2, |i, j| exact(x.exact.row(i))[j]),
        Matrix::from_fn(x.exact.rows(), 2, |i, j| {
            let [_, error] = bound::moments(x.exact.row(i), x.bound.row(i))[j];
            bound::rounded(exact(x.exact.row(i))[j], error)
        }),
    );
    let cols = ["mean", "variance"].map(str::to_owned);
    let text = Text {
        formula: &format!(
            "mean = Σ x / d,  variance = Σ (x − mean)² / d,  ε = {}",
            number(EPSILON.into())
        ),
        ..Text::of(Quantity::Moments)
    };
    let (axes, x) = (Axes::new(RowRole::Tokens, &x.name.rows, &cols), x.clone());
    let origin = Origin::new(move |i, j, _| {
        let d = x.ours.cols();
        let mean = Expr::Sum((0..d).map(|t| x.cell(i, t)).collect());
        let count = || Expr::Number { name: "d", value: d as f64 };
        How::Computed(if j == 0 {
            mean.over(count())
        } else {
            let mean = mean.value() / d as f64;
            let square =
                |t| x.cell(i, t).minus(Expr::Number { name: "mean", value: mean }).square();
            Expr::Sum((0..d).map(square).collect()).over(count())
        })
    });
    trace.push(&text, moments, Kind::Table, axes, origin);
}
