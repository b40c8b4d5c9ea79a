//! The operand stage: the operands of a step, drawn around its matrix.
//!
//! | step | drawing |
//! |---|---|
//! | a product | the left factor at the left and the right one above; the products of the cell under the pointer stand on the diagonal between them, and then add up |
//! | softmax | above a row of weights its scores, their exponentials, and a bar that the weights fill |
//! | rotary positions | above the columns, the arrow of each pair of features before and after it turns |
//! | a mask | a lid that closes over the hidden scores |
//!
//! The stage is found in the arithmetic of the cells, so no step names its own. A movement begins when the pointer reaches a cell.
//! A click ends it.

use core::f32::consts::PI;

use egui::{
    Align2, Color32, FontId, Painter, Pos2, Rect, Shape, Stroke, StrokeKind, TextStyle, Ui, Vec2,
    pos2, vec2,
};
use regard_walkthrough::{Expr, Kind, Operand, Quantity, Step, StepKey};

use crate::colors::{self, Colors as _, Palette};
use crate::heatmap::{Cell, Inset, Pointing};
use crate::widgets::progress;
use crate::{numbers, style};

/// A step with a longer side has no stage: its cells would be too small to follow.
const MOST: usize = 32;
/// The width of a cell that has a number, relative to the size of its font.
const NUMBERED: f32 = 2.2;
/// The time of a movement, in seconds.
const SECONDS: f64 = 0.4;

type StepColors<'a> = dyn Fn(StepKey) -> Option<(Palette, &'a [f32])> + 'a;

/// The power of a score at a temperature.
const DIVIDED: &str = "e^((s−max)/T)";

/// The operands of a step.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// Two factors: the left one by rows, and the right one by rows.
    Product([Factor; 2]),
    /// The scores of each weight, row by row. A hidden one is −∞.
    Softmax(Vec<f32>),
    /// The features before they turn, row by row.
    Turn(Vec<f32>),
    /// The scores before they are hidden.
    Lid(StepKey),
}

/// A factor as it stands beside the result.
#[derive(Clone, Debug)]
pub(crate) struct Factor {
    /// The symbol: "Kᵀ".
    symbol: String,
    /// The step whose colours it has.
    of: Option<StepKey>,
    numbers: Vec<f32>,
    cols: usize,
    /// The labels along the side that is summed over.
    labels: Vec<String>,
}

impl Factor {
    /// The factor of these operands, in `cols` columns. `inner` are the operands along the side that is summed over.
    fn new(all: &[&Operand], cols: usize, inner: &[&Operand], is_right: bool) -> Self {
        let cells: Vec<_> = inner.iter().filter_map(|operand| operand.cell).collect();
        // The rows of a left factor, and the columns of a right one, are summed over. In a transposed one it is the other way round.
        let is_turned = match &cells[..] {
            [a, b, ..] if is_right => a.row == b.row,
            [a, b, ..] => a.col == b.col,
            _ => false,
        };
        // "K[love, k0]"
        let parts = |operand: &&Operand| {
            let (symbol, inside) = operand.label.split_once('[').unwrap_or_default();
            let (row, col) = inside.trim_end_matches(']').rsplit_once(", ").unwrap_or_default();
            let along = if is_right == is_turned { col } else { row };
            (symbol.to_owned(), along.to_owned())
        };
        let (mut symbols, labels): (Vec<_>, Vec<_>) = inner.iter().map(parts).unzip();
        // A sum of several products has their factors side by side.
        symbols.dedup();
        let symbol = match &symbols[..] {
            [symbol] => symbol.clone(),
            several => format!("[{}]", several.join(" | ")),
        };
        Self {
            symbol: if is_turned { format!("{symbol}^T") } else { symbol },
            of: cells.first().map(|cell| cell.step),
            numbers: all.iter().map(|operand| operand.value).collect(),
            cols,
            labels,
        }
    }

    fn get(&self, row: usize, col: usize) -> f32 {
        self.numbers.get(row * self.cols + col).copied().unwrap_or_default()
    }
}

impl Stage {
    pub(crate) fn of(step: &Step) -> Option<Self> {
        let (rows, cols) = step.matrix.shape();
        if rows.max(cols) > MOST {
            return None;
        }
        let expr = |i, j| step.expr(i, j);
        let all = || (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j)));
        if step.key.quantity == Quantity::MaskedScores {
            let shown = all().find_map(|(i, j)| Some(expr(i, j)?.operands().first()?.cell?.step));
            return shown.map(Self::Lid);
        }
        match expr(0, 0)? {
            Expr::Quotient(of)
                if step.kind == Kind::Weights && matches!(of[0], Expr::Exp { .. }) =>
            {
                let score = |(i, j)| match expr(i, j) {
                    Some(Expr::Quotient(of)) => of[0].operands().first().map_or(0.0, |o| o.value),
                    _ => f32::NEG_INFINITY,
                };
                Some(Self::Softmax(all().map(score).collect()))
            }
            Expr::Difference(of) if is_turned(&of) => {
                let feature = |(i, j)| {
                    let of_pair = expr(i, j)?;
                    // a, φ, b, φ: the features of the pair are the first and the third.
                    of_pair.operands().get(2 * (j % 2)).map(|operand| operand.value)
                };
                all().map(feature).collect::<Option<_>>().map(Self::Turn)
            }
            Expr::Sum(_) => product(step),
            _ => None,
        }
    }

    /// The room that it takes at the left of the cells and above them.
    pub(crate) fn inset(&self, ui: &Ui) -> Inset {
        let line = ui.text_style_height(&TextStyle::Small);
        match self {
            Self::Product([left, right]) => {
                let font = TextStyle::Small.resolve(ui.style());
                let width = |label: &String| {
                    ui.painter()
                        .layout_no_wrap(label.clone(), font.clone(), Color32::PLACEHOLDER)
                        .size()
                        .x
                };
                let widest = right.labels.iter().map(width).fold(0.0, f32::max);
                let cells = [left.cols, left.cols];
                Inset { cells, gap: vec2(widest + 12.0, line + 6.0), label: 0.0, is_staged: true }
            }
            Self::Softmax(_) => {
                let (size, color) =
                    (style::digits().resolve(ui.style()).size, Color32::PLACEHOLDER);
                let label = super::formula::galley(ui, DIVIDED, size, color).size().x;
                Inset { cells: [0, 3], gap: vec2(0.0, 10.0), label, is_staged: true }
            }
            Self::Turn(_) => {
                Inset { cells: [0, 3], gap: vec2(0.0, 10.0), is_staged: true, ..Inset::default() }
            }
            Self::Lid(_) => Inset { is_staged: true, ..Inset::default() },
        }
    }

    /// Draws it around the cells of the step. `pointed` is the cell whose computation is shown. The pointer has been on that cell
    /// and on its step since the times `since`. `colors` returns the colours of a step.
    pub(crate) fn draw(
        &self,
        ui: &Ui,
        step: &Step,
        pointing: &Pointing,
        pointed: Option<Cell>,
        [since, step_since]: [f64; 2],
        colors: &StepColors<'_>,
    ) {
        let is_lid = matches!(self, Self::Lid(_));
        let moved = progress(ui, if is_lid { step_since } else { since }, SECONDS);
        let at = StagePlace::new(ui, step, pointing, self.inset(ui));
        match self {
            Self::Product(factors) => at.product(factors, pointed, moved, colors),
            Self::Softmax(scores) => at.softmax(scores, pointed.map_or(0, |(row, _)| row), moved),
            Self::Turn(before) => at.turn(before, pointed.map(|(row, _)| row), moved),
            Self::Lid(from) => at.lid(*from, moved, colors),
        }
    }
}

fn is_turned(of: &[Expr; 2]) -> bool {
    matches!(&of[0], Expr::Product(factors) if matches!(factors[..], [_, Expr::Cosine(_)]))
}

/// The factors of a sum of products.
fn product(step: &Step) -> Option<Stage> {
    let (rows, cols) = step.matrix.shape();
    // The factors of a cell's products, on one side.
    let side = |i: usize, j: usize, side: usize| -> Option<Vec<Operand>> {
        let Some(Expr::Sum(terms)) = step.expr(i, j) else { return None };
        let factors = terms.into_iter().filter_map(|term| match term {
            Expr::Product(factors) => <[Expr; 2]>::try_from(factors).ok(),
            _ => None,
        });
        let operand = |factors: [Expr; 2]| match factors {
            [Expr::Cell(left), Expr::Cell(right)] => Some(if side == 0 { left } else { right }),
            _ => None,
        };
        factors.map(operand).collect()
    };
    let left: Vec<Vec<Operand>> = (0..rows).map(|i| side(i, 0, 0)).collect::<Option<_>>()?;
    let right: Vec<Vec<Operand>> = (0..cols).map(|j| side(0, j, 1)).collect::<Option<_>>()?;
    let inner = left.first()?.len();
    let fits = (1..=MOST).contains(&inner)
        && left.iter().chain(&right).all(|operands| operands.len() == inner);
    if !fits {
        return None;
    }
    let by_rows: Vec<&Operand> = left.iter().flatten().collect();
    let by_cols = (0..inner).flat_map(|t| right.iter().map(move |operands| &operands[t]));
    let by_cols: Vec<&Operand> = by_cols.collect();
    let first = |of: &'_ [Vec<Operand>]| of[0].clone();
    let (a, b) = (first(&left), first(&right));
    Some(Stage::Product([
        Factor::new(&by_rows, inner, &a.iter().collect::<Vec<_>>(), false),
        Factor::new(&by_cols, cols, &b.iter().collect::<Vec<_>>(), true),
    ]))
}

/// The cells of a step on the screen, and the room around them.
struct StagePlace<'a> {
    ui: &'a Ui,
    step: &'a Step,
    pointing: &'a Pointing,
    painter: Painter,
    cell: Vec2,
    /// The cells of the step.
    frame: Rect,
    inset: Inset,
    font: FontId,
}

impl<'a> StagePlace<'a> {
    fn new(ui: &'a Ui, step: &'a Step, pointing: &'a Pointing, inset: Inset) -> Self {
        let first = pointing.whole((0, 0));
        let (rows, cols) = step.matrix.shape();
        let frame = Rect::from_min_size(first.min, first.size() * vec2(cols as f32, rows as f32));
        let font = style::digits().resolve(ui.style());
        let painter = ui.painter().clone();
        Self { ui, step, pointing, painter, cell: first.size(), frame, inset, font }
    }

    /// The cell of a grid that begins at a corner.
    fn in_grid(&self, corner: Pos2, row: usize, col: usize) -> Rect {
        Rect::from_min_size(corner + self.cell * vec2(col as f32, row as f32), self.cell)
    }

    /// The upper left corners of the left factor, of the right one, and of the square between them.
    fn corners(&self) -> [Pos2; 3] {
        let [cols, rows] = self.inset.cells.map(|n| n as f32);
        let away = self.cell * vec2(cols, rows) + self.inset.gap;
        let (left, top) = (self.frame.left() - away.x, self.frame.top() - away.y);
        [pos2(left, self.frame.top()), pos2(self.frame.left(), top), pos2(left, top)]
    }

    fn text(&self, at: Pos2, align: Align2, text: impl ToString, color: Color32) -> Rect {
        self.painter.text(at, align, text, self.font.clone(), color)
    }

    fn small(&self, at: Pos2, align: Align2, text: &str, color: Color32) {
        let font = TextStyle::Small.resolve(self.ui.style());
        self.painter.text(at, align, text, font, color);
    }

    /// Fills a cell with its colour and its number.
    fn number(&self, rect: Rect, x: f32, decimals: usize, palette: Palette, faded: bool) {
        let ground = self.ui.visuals().panel_fill;
        let fade = |color: Color32| if faded { color.lerp_to_gamma(ground, 0.55) } else { color };
        let fill = palette.color(x);
        self.painter.rect_filled(rect.shrink(0.5), 2, fade(fill));
        let ink = if palette.is_plain() {
            self.ui.visuals().text_color()
        } else {
            colors::ink_on(fade(fill))
        };
        self.in_cell(rect.center(), palette.number(x, decimals), ink);
    }

    /// Writes a number into a cell, if it has room for one.
    fn in_cell(&self, center: Pos2, text: String, color: Color32) {
        if self.cell.x >= NUMBERED * self.font.size {
            self.text(center, Align2::CENTER_CENTER, text, color);
        }
    }

    fn product(
        &self,
        factors: &[Factor; 2],
        pointed: Option<Cell>,
        moved: f32,
        colors: &StepColors<'_>,
    ) {
        let [left, top, between] = self.corners();
        let inner = factors[0].cols;
        let weak = self.ui.visuals().weak_text_color();
        let marks = [style::QUERY, style::KEY].map(|mark| style::readable(mark, self.ui.visuals()));
        for (side, (factor, corner)) in factors.iter().zip([left, top]).enumerate() {
            let found = factor.of.and_then(colors);
            let palette =
                found.map_or_else(|| Palette::plain(Default::default()), |(palette, _)| palette);
            let decimals = numbers::decimals(&factor.numbers).min(2);
            for (place, x) in factor.numbers.iter().enumerate() {
                let (row, col) = (place / factor.cols, place % factor.cols);
                let is_lit = pointed.is_none_or(|(i, j)| [row == i, col == j][side]);
                self.number(self.in_grid(corner, row, col), *x, decimals, palette, !is_lit);
            }
            let size = 1.5 * self.font.size;
            let galley = super::formula::galley(self.ui, &factor.symbol, size, marks[side]);
            let square = Rect::from_two_pos(between, pos2(top.x, left.y) - self.inset.gap);
            let at = if side == 0 {
                square.left_bottom() + vec2(2.0, -galley.size().y)
            } else {
                square.right_top() + vec2(-galley.size().x - 2.0, 0.0)
            };
            self.painter.galley(at, galley, marks[side]);
            // As many labels as have room for a line.
            let line = self.ui.text_style_height(&TextStyle::Small);
            let step = (line / self.cell.min_elem()).ceil().max(1.0) as usize;
            let step = if side == 0 && step > 1 { 2 * step } else { step };
            for (t, label) in factor.labels.iter().enumerate().step_by(step) {
                if side == 0 {
                    let at = self.in_grid(corner, 0, t).center_top() - vec2(0.0, 2.0);
                    self.small(at, Align2::CENTER_BOTTOM, label, weak);
                } else {
                    let at = self.in_grid(corner, t, 0).left_center() - vec2(6.0, 0.0);
                    self.small(at, Align2::RIGHT_CENTER, label, weak);
                }
            }
        }
        let Some((i, j)) = pointed else { return };
        let row = self.in_grid(left, i, 0).union(self.in_grid(left, i, inner - 1));
        let col = self.in_grid(top, 0, j).union(self.in_grid(top, inner - 1, j));
        for (rect, color) in [(row, marks[0]), (col, marks[1])] {
            self.painter.rect_stroke(rect, 2, Stroke::new(2.0, color), StrokeKind::Middle);
        }
        // The factors meet on the diagonal in the first half of the time. Then their products go to the sum.
        let (meet, add) = ((2.0 * moved).min(1.0), (2.0 * moved - 1.0).max(0.0));
        let sum = self.pointing.whole((i, j)).center();
        let strong = self.ui.visuals().strong_text_color();
        let products = (0..inner).map(|t| factors[0].get(i, t) * factors[1].get(t, j));
        let products: Vec<f32> = products.collect();
        let decimals = numbers::decimals(&products).min(2);
        let write = |at: Pos2, x: f32, color: Color32| {
            self.in_cell(at, numbers::fixed(x, decimals), color);
        };
        for t in 0..inner {
            let (a, b) = (factors[0].get(i, t), factors[1].get(t, j));
            let (from, above) =
                (self.in_grid(left, i, t).center(), self.in_grid(top, t, j).center());
            let met = self.in_grid(between, t, t).center();
            if meet < 1.0 {
                let apart = vec2(0.22 * self.cell.x * meet, 0.0);
                write(from.lerp(met, meet) - apart, a, marks[0]);
                write(above.lerp(met, meet) + apart, b, marks[1]);
                continue;
            }
            write(met, a * b, strong);
            if add < 1.0 {
                write(met.lerp(sum, add), a * b, strong.gamma_multiply(1.0 - 0.5 * add));
            }
        }
    }

    fn softmax(&self, scores: &[f32], row: usize, moved: f32) {
        let [_, top, _] = self.corners();
        let cols = self.step.matrix.cols();
        let weights = self.step.matrix.row(row);
        // e^(s − max) = weight / largest weight.
        let largest = weights.iter().copied().fold(0.0, f32::max);
        let power = |j: usize| if largest > 0.0 { weights[j] / largest } else { 0.0 };
        let (text, weak) = (self.ui.visuals().text_color(), self.ui.visuals().weak_text_color());
        let scores = &scores[row * cols..][..cols];
        let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let is_plain = (0..cols).all(|j| ((scores[j] - most).exp() - power(j)).abs() < 1e-3);
        let power_name = if is_plain { "e^(s−max)" } else { DIVIDED };
        let decimals = numbers::decimals(scores).min(2);
        let shown = |from: f32| ((moved - from) * 3.0).clamp(0.0, 1.0);
        for (line, name) in ["score", power_name, "share"].into_iter().enumerate() {
            let at = self.in_grid(top, line, 0).left_center() - vec2(6.0, 0.0);
            let galley = super::formula::galley(self.ui, name, self.font.size, weak);
            self.painter.galley(at - vec2(galley.size().x, 0.5 * galley.size().y), galley, weak);
        }
        for (j, score) in scores.iter().enumerate() {
            let rect = |line: usize| self.in_grid(top, line, j);
            let at = |line: usize| rect(line).center();
            self.in_cell(at(0), numbers::fixed(*score, decimals), text);
            let color = text.gamma_multiply(shown(0.0));
            self.in_cell(at(1), numbers::fixed(power(j), 2), color);
        }
        // The bar first has the exponentials' lengths, each at most a column; divided by their sum, they fill it.
        let bar = self.in_grid(top, 2, 0).union(self.in_grid(top, 2, cols - 1));
        let bar = bar.shrink2(vec2(0.0, 0.22 * self.cell.y));
        self.painter.rect_stroke(
            bar,
            2,
            self.ui.visuals().widgets.noninteractive.bg_stroke,
            StrokeKind::Outside,
        );
        let mut left = bar.left();
        for (j, weight) in weights.iter().enumerate() {
            let (before, after) = (power(j) / cols as f32, *weight);
            let width = bar.width() * egui::lerp(before..=after, shown(0.5)) * shown(0.2);
            let part = Rect::from_min_size(pos2(left, bar.top()), vec2(width, bar.height()));
            left += width;
            let fill = colors::curve(j);
            self.painter.rect_filled(part, 0, fill);
            let label = &self.step.col_labels[j];
            let font = TextStyle::Small.resolve(self.ui.style());
            let ink = colors::ink_on(fill);
            let galley = self.painter.layout_no_wrap(label.clone(), font, ink);
            if galley.size().x + 4.0 < width {
                self.painter.galley(part.center() - galley.size() / 2.0, galley, ink);
            }
        }
        let sum = format!("= {}", numbers::fixed(weights.iter().sum(), 2));
        self.text(
            bar.right_center() + vec2(6.0, 0.0),
            Align2::LEFT_CENTER,
            sum,
            text.gamma_multiply(shown(0.66)),
        );
    }

    fn turn(&self, before: &[f32], row: Option<usize>, moved: f32) {
        let [_, top, _] = self.corners();
        let cols = self.step.matrix.cols();
        // The first token does not turn.
        let row = row.unwrap_or_else(|| 1.min(self.step.matrix.rows() - 1));
        let (old, new) = (&before[row * cols..][..cols], self.step.matrix.row(row));
        let length = |pair: usize| old[2 * pair].hypot(old[2 * pair + 1]);
        let longest = (0..cols / 2).map(length).fold(f32::MIN_POSITIVE, f32::max);
        let weak = self.ui.visuals().weak_text_color();
        for pair in 0..cols / 2 {
            let area = self.in_grid(top, 0, 2 * pair).union(self.in_grid(top, 2, 2 * pair + 1));
            let radius = 0.5 * area.size().min_elem() - 4.0;
            let center = area.center();
            let line = self.ui.visuals().widgets.noninteractive.bg_stroke;
            self.painter.circle_stroke(center, radius, line);
            let angle = |of: &[f32]| of[2 * pair + 1].atan2(of[2 * pair]);
            let mut turn = angle(new) - angle(old);
            // Positions turn counterclockwise.
            if turn < -1e-4 {
                turn += 2.0 * PI;
            }
            let to = |angle: f32| {
                let length = radius * length(pair) / longest;
                center + length * vec2(angle.cos(), -angle.sin())
            };
            let arrow =
                |tip: Pos2, stroke: Stroke| self.painter.arrow(center, tip - center, stroke);
            arrow(to(angle(old)), Stroke::new(1.5, weak));
            let now = angle(old) + turn * moved;
            let arc = |i: usize| {
                let angle = egui::lerp(angle(old)..=now, i as f32 / 24.0);
                center + 0.35 * radius * vec2(angle.cos(), -angle.sin())
            };
            let mark = style::readable(style::QUERY, self.ui.visuals());
            self.painter.add(Shape::line((0..=24).map(arc).collect(), Stroke::new(1.5, mark)));
            arrow(to(now), Stroke::new(2.5, mark));
        }
        let name = &self.step.row_labels[row];
        self.small(top - vec2(6.0, 0.0), Align2::RIGHT_TOP, name, weak);
    }

    fn lid(&self, from: StepKey, moved: f32, colors: &StepColors<'_>) {
        if moved >= 1.0 {
            return;
        }
        let Some((palette, scores)) = colors(from) else { return };
        let (rows, cols) = self.step.matrix.shape();
        let decimals = numbers::decimals(scores).min(2);
        let edge = egui::lerp(self.frame.right()..=self.frame.left(), moved);
        for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
            let rect = self.pointing.whole((i, j));
            if self.step.matrix.get(i, j) == f32::NEG_INFINITY && rect.left() < edge {
                self.number(rect, scores[i * cols + j], decimals, palette, false);
                let lid = Rect::from_min_max(pos2(rect.left().max(edge), rect.top()), rect.max);
                self.painter.rect_filled(lid, 0, self.ui.visuals().weak_text_color());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regard_walkthrough::{Example, Inputs, Settings, Walkthrough};

    #[test]
    fn a_transposed_factor_says_so() {
        let walk = Walkthrough::run(Example::Gradients, &Settings::default()).unwrap();
        let factors = |quantity| {
            let step = walk.step(quantity).unwrap();
            let Some(Stage::Product([left, right])) = Stage::of(step) else {
                unreachable!("{quantity:?} is a product")
            };
            assert_eq!(left.labels, right.labels, "{quantity:?}: both are summed over the same");
            ([left.symbol, right.symbol], left.labels)
        };
        assert_eq!(factors(Quantity::DV), (["A^T", "dO"].map(str::to_owned), walk.tokens.clone()));
        assert_eq!(factors(Quantity::DWQ), (["X^T", "dQ"].map(str::to_owned), walk.tokens.clone()));
        let (symbols, _) = factors(Quantity::DX);
        assert_eq!(symbols, ["[dQ | dK | dV]", "[W_Q | W_K | W_V]^T"]);
    }

    /// The factors that are drawn are those of the numbers: their products add up to each cell. Each of k products and sums rounds
    /// once, by half an ULP of the sum of the sizes at most, and the weights of an output have up to 14 such roundings of their
    /// own. A bias is not a factor.
    #[test]
    fn the_operands_around_a_step_give_its_numbers() {
        let mut found = [0; 4];
        let many = (0..20).map(|i| format!("t{i}")).collect();
        let many = Inputs::seeded(many, 24, 8, 1, 0).unwrap();
        let all = Example::ALL.iter().map(|example| Inputs::new(*example)).chain([many]);
        for inputs in all {
            let settings = Settings { causal: true, ..Settings::default() };
            let (walk, example) =
                (Walkthrough::compute(&inputs, &settings).unwrap(), inputs.example());
            for step in &walk.steps {
                let Some(stage) = Stage::of(step) else { continue };
                let (rows, cols) = step.matrix.shape();
                let name = format!("{} of {}", step.key, example.name());
                match stage {
                    Stage::Product([left, right]) => {
                        found[0] += 1;
                        assert_eq!(
                            [left.numbers.len(), right.numbers.len()],
                            [rows, cols].map(|n| n * left.cols)
                        );
                        let has_bias =
                            matches!(step.expr(0, 0), Some(Expr::Sum(of)) if of.len() > left.cols);
                        for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
                            let terms = (0..left.cols)
                                .map(|t| f64::from(left.get(i, t)) * f64::from(right.get(t, j)));
                            let (sum, size) =
                                terms.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
                            let bound =
                                (left.cols + 15) as f64 * f64::from(f32::EPSILON) / 2.0 * size;
                            let value = f64::from(step.matrix.get(i, j));
                            assert!(
                                has_bias || (sum - value).abs() <= bound,
                                "{name}: {sum} {value}"
                            );
                        }
                    }
                    Stage::Softmax(scores) => {
                        found[1] += 1;
                        for i in 0..rows {
                            let largest =
                                |row: &[f32]| (0..cols).max_by(|a, b| row[*a].total_cmp(&row[*b]));
                            assert_eq!(
                                largest(&scores[i * cols..][..cols]),
                                largest(step.matrix.row(i)),
                                "{name}"
                            );
                        }
                    }
                    Stage::Turn(before) => {
                        found[2] += 1;
                        for (pair, turned) in before.chunks(2).zip(step.matrix.as_slice().chunks(2))
                        {
                            assert!(
                                (pair[0].hypot(pair[1]) - turned[0].hypot(turned[1])).abs() < 1e-6,
                                "{name}"
                            );
                        }
                    }
                    Stage::Lid(from) => {
                        found[3] += 1;
                        assert_eq!(
                            walk.step(from).map(|step| step.matrix.shape()),
                            Some((rows, cols)),
                            "{name}"
                        );
                    }
                }
            }
        }
        assert!(found.iter().all(|n| *n > 1), "{found:?}");
    }
}
