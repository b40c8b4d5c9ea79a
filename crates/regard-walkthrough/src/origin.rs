//! The arithmetic of a cell, as data and in words.

use core::fmt;
use std::sync::Arc;

use regard_kernels::Temperature;

use crate::Matrix;
use crate::expr::{Arithmetic, Expr};
use crate::number::number;
use crate::pair::Pair;

/// The explanation of a cell.
pub(crate) enum How {
    /// Words alone, for a number that was not computed.
    Told(String),
    /// An expression that needs no words.
    Computed(Expr),
    /// An expression, and better words.
    Both(Expr, String),
}

impl How {
    /// The expression, if there is one, and the words for a cell that holds `value`.
    fn told(self, value: f32) -> (Option<Expr>, String) {
        match self {
            Self::Told(text) => (None, text),
            Self::Computed(expr) => {
                let text = format!("{} = {}", expr.text(), number(value.into()));
                (Some(expr), text)
            }
            Self::Both(expr, text) => (Some(expr), text),
        }
    }
}

/// The origin of each cell (row, col) of a matrix.
#[derive(Clone)]
pub(crate) struct Origin {
    how: Arc<dyn Fn(usize, usize, f32) -> How + Send + Sync>,
    /// The shapes of the two factors, if it is a product.
    factors: Option<[(usize, usize); 2]>,
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Origin")
    }
}

impl Origin {
    /// The expression of the cell (row, col), which holds `value`, if there is one.
    pub fn expr(&self, row: usize, col: usize, value: f32) -> Option<Expr> {
        match (self.how)(row, col, value) {
            How::Told(_) => None,
            How::Computed(expr) | How::Both(expr, _) => Some(expr),
        }
    }

    /// The arithmetic of the cell (row, col), which holds `value`.
    pub fn arithmetic(&self, row: usize, col: usize, value: f32) -> Arithmetic {
        let (expr, text) = (self.how)(row, col, value).told(value);
        Arithmetic { value, expr, text }
    }

    /// The shapes of the two factors of a product.
    pub fn factors(&self) -> Option<[(usize, usize); 2]> {
        self.factors
    }

    pub fn new(how: impl Fn(usize, usize, f32) -> How + Send + Sync + 'static) -> Self {
        Self { how: Arc::new(how), factors: None }
    }

    /// An expression for each cell.
    pub fn computed(expr: impl Fn(usize, usize) -> Expr + Send + Sync + 'static) -> Self {
        Self::new(move |i, j, _| How::Computed(expr(i, j)))
    }

    /// left · right.
    pub fn product(left: &Pair, right: &Pair) -> Self {
        let (left, right) = (left.clone(), right.clone());
        let factors = Some([left.ours.shape(), right.ours.shape()]);
        let sum =
            move |i, j| dot((0..left.ours.cols()).map(|t| [left.cell(i, t), right.cell(t, j)]));
        Self { factors, ..Self::computed(sum) }
    }

    /// left · right + a row that is added to each.
    pub fn affine(left: &Pair, right: &Pair, bias: &Pair) -> Self {
        let (left, right, bias) = (left.clone(), right.clone(), bias.clone());
        Self::computed(move |i, j| {
            let mut terms: Vec<Expr> = (0..left.ours.cols())
                .map(|t| Expr::Product(vec![left.cell(i, t), right.cell(t, j)]))
                .collect();
            terms.push(bias.cell(0, j));
            Expr::Sum(terms)
        })
    }

    /// left · rightᵀ.
    pub fn product_transposed(left: &Pair, right: &Pair) -> Self {
        Self::product(left, &right.transposed())
    }

    /// left + right.
    pub fn sum(left: &Pair, right: &Pair) -> Self {
        let (left, right) = (left.clone(), right.clone());
        Self::computed(move |i, j| Expr::Sum(vec![left.cell(i, j), right.cell(i, j)]))
    }

    /// left − right.
    pub fn difference(left: &Pair, right: &Pair) -> Self {
        let (left, right) = (left.clone(), right.clone());
        Self::computed(move |i, j| left.cell(i, j).minus(right.cell(i, j)))
    }

    /// from / √n.
    pub fn over_root(from: &Pair, n: usize) -> Self {
        let from = from.clone();
        Self::computed(move |i, j| {
            from.cell(i, j).over(Expr::Number { name: "d_k", value: n as f64 }.root())
        })
    }

    /// The same origin, except for the cells that were typed over in place of a number of `given`.
    pub fn typed_over(self, typed: Vec<[usize; 2]>, given: Matrix) -> Self {
        let Self { how, factors } = self;
        let typed = move |i, j, value: f32| {
            if !typed.contains(&[i, j]) {
                return how(i, j, value);
            }
            let before = given.get(i, j);
            let (_, before) = how(i, j, before).told(before);
            let text = format!("typed in: {}, in place of {before}", number(value.into()));
            How::Both(Expr::constant(value.into()), text)
        };
        Self { factors, ..Self::new(typed) }
    }

    /// A copy of another matrix.
    pub fn copied(from: &Pair) -> Self {
        let from = from.clone();
        Self::new(move |i, j, value| {
            let text = format!("as in {}: {}", from.name.symbol, number(value.into()));
            How::Both(from.cell(i, j), text)
        })
    }

    /// The columns of other matrices, each with a label.
    pub fn side_by_side(parts: &[Pair], labels: Vec<String>) -> Self {
        let parts = parts.to_vec();
        Self::new(move |i, j, value| {
            let text = format!("{}: {}", label(&labels, j), number(value.into()));
            let width = parts.first().map_or(1, |p| p.ours.cols().max(1));
            parts.get(j / width).map_or_else(
                || How::Told(text.clone()),
                |p| How::Both(p.cell(i, j % width), text.clone()),
            )
        })
    }

    /// A table. The labels tell what each column measures.
    pub fn measured(columns: Vec<String>) -> Self {
        Self::new(move |_, j, value| {
            How::Told(format!("{}: {}", label(&columns, j), number(value.into())))
        })
    }

    /// −∞ where a token is hidden, and the unchanged score elsewhere.
    pub fn masked(from: &Pair, queries: &[String], keys: &[String]) -> Self {
        let (from, queries, keys) = (from.clone(), queries.to_vec(), keys.to_vec());
        Self::new(move |i, j, value| {
            if value == f32::NEG_INFINITY {
                let (key, query) = (label(&keys, j), label(&queries, i));
                let text =
                    format!("hidden by the mask: {key} comes after {query}, so the score is −∞");
                How::Both(Expr::constant(f64::NEG_INFINITY), text)
            } else {
                How::Both(
                    from.cell(i, j),
                    format!("visible, so the score stays: {}", number(value.into())),
                )
            }
        })
    }

    /// Softmax of each row at a temperature. A score of −∞ is hidden.
    pub fn softmax(from: &Pair, temperature: Temperature) -> Self {
        let from = from.clone();
        Self::new(move |i, j, value| softmax(&from, [i, j], temperature, value))
    }

    /// The scores used as weights. A score of −∞ is hidden.
    pub fn unweighed(from: &Pair) -> Self {
        let from = from.clone();
        Self::new(move |i, j, value| {
            if from.ours.get(i, j) == f32::NEG_INFINITY {
                return hidden();
            }
            How::Both(
                from.cell(i, j),
                format!("the score itself, without softmax: {}", number(value.into())),
            )
        })
    }
}

/// Σ left·right.
pub(crate) fn dot(terms: impl Iterator<Item = [Expr; 2]>) -> Expr {
    Expr::Sum(terms.map(|t| Expr::Product(t.into())).collect())
}

fn label(labels: &[String], i: usize) -> &str {
    labels.get(i).map_or("it", String::as_str)
}

fn hidden() -> How {
    How::Both(Expr::constant(0.0), "hidden by the mask: weight 0".to_owned())
}

fn softmax(from: &Pair, [i, j]: [usize; 2], temperature: Temperature, value: f32) -> How {
    let row = from.ours.row(i);
    if from.ours.get(i, j) == f32::NEG_INFINITY {
        return hidden();
    }
    let visible: Vec<usize> = (0..row.len()).filter(|k| row[*k] > f32::NEG_INFINITY).collect();
    let max = visible.iter().map(|k| row[*k]).fold(f32::NEG_INFINITY, f32::max);
    let result = number(value.into());
    if temperature.is_infinite() {
        let text = format!(
            "at T = ∞ all visible keys get the same weight: 1/{} = {result}",
            visible.len()
        );
        return How::Both(Expr::constant(1.0).over(Expr::constant(visible.len() as f64)), text);
    }
    if temperature.is_zero() {
        let ties = visible.iter().filter(|k| row[**k] == max).count();
        return largest_takes_all(from.ours.get(i, j), max, ties, &result);
    }
    let t = f64::from(temperature.get());
    let exponent = |k: usize| {
        let score = from.cell(i, k);
        if t == 1.0 { score } else { score.over(Expr::Number { name: "T", value: t }) }
    };
    let power = |k: usize| Expr::Exp { exponent: Box::new(exponent(k)), shift: f64::from(max) / t };
    let sum = Expr::Sum(visible.iter().map(|k| power(*k)).collect());
    How::Computed(power(j).over(sum))
}

/// The weight at T = 0.
fn largest_takes_all(score: f32, max: f32, ties: usize, result: &str) -> How {
    let largest = number(max.into());
    if score < max {
        let score = number(score.into());
        let text = format!(
            "at T = 0 the largest score of the row, {largest}, gets all the weight; this score is {score}: weight 0"
        );
        How::Both(Expr::constant(0.0), text)
    } else if ties == 1 {
        let text = format!(
            "at T = 0 the largest score of the row, {largest}, gets all the weight: weight 1"
        );
        How::Both(Expr::constant(1.0), text)
    } else {
        let text = format!(
            "at T = 0 the {ties} largest scores of the row, {largest} each, share the weight: 1/{ties} = {result}"
        );
        How::Both(Expr::constant(1.0).over(Expr::constant(ties as f64)), text)
    }
}
