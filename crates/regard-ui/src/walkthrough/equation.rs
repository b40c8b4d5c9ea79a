//! The arithmetic of a cell, typeset: fractions with a bar, raised powers, and links to the numbers of earlier steps.

use std::sync::Arc;

use egui::{
    Color32, FontId, Galley, Pos2, Rect, Role, Sense, Stroke, Ui, Vec2, WidgetInfo, pos2, vec2,
};
use regard_walkthrough::{Arithmetic, Expr, Operand};

use super::At;
use super::formula;
use crate::style;

/// Sums with more terms are cut in the middle. The smaller limits are for sums that do not fit otherwise.
const MOST_TERMS: [usize; 3] = [12, 6, 3];
/// The usual size of the font.
const SIZE: f32 = 16.0;
/// The relative size of powers. They can still be clicked.
const SMALLER: f32 = 0.85;
/// The gap between the lines of a sum that does not fit in one.
const LEADING: f32 = 8.0;

/// The size of the font, which grows with the rest of the panel.
fn size(ui: &Ui) -> f32 {
    SIZE * style::enlarged(ui)
}

/// Shows `expr = value`, broken into lines or cut if it is too wide. Returns the operand that was clicked.
pub(crate) fn show(ui: &mut Ui, expr: &Expr, arithmetic: &Arithmetic) -> Option<At> {
    let room = ui.available_width();
    let pieces = MOST_TERMS
        .iter()
        .map(|most| Setter { ui, most: *most, size: size(ui) }.pieces(expr, arithmetic));
    let fits = |pieces: &Vec<Set>| pieces.iter().all(|piece| piece.width <= room);
    let mut all: Vec<Vec<Set>> = pieces.collect();
    let chosen = all.iter().position(fits).unwrap_or(all.len() - 1);
    let lines = broken(all.swap_remove(chosen), room);

    let height: f32 = lines.iter().map(|line| line.above + line.below + LEADING).sum();
    let width = lines.iter().map(|line| line.width).fold(0.0, f32::max);
    let (rect, response) = ui.allocate_exact_size(vec2(width, height), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, &arithmetic.text));
    let mut y = rect.top();
    let mut clicked = None;
    let mut number = 0;
    for line in lines {
        let axis = pos2(rect.left(), y + line.above);
        y += line.above + line.below + LEADING;
        for (at, mark) in line.marks {
            clicked = draw(ui, axis + at, mark, &mut number).or(clicked);
        }
    }
    clicked
}

/// A typeset expression. Its extent is measured from its axis, the line through the middle of its minus signs.
#[derive(Default)]
struct Set {
    width: f32,
    above: f32,
    below: f32,
    /// The marks, each with its position from the left end of the axis.
    marks: Vec<(Vec2, Mark)>,
}

enum Mark {
    Text(Arc<Galley>, Color32),
    /// A number of an earlier step.
    Operand(Arc<Galley>, Operand),
    /// A bar of this extent.
    Bar(Vec2, Color32),
}

impl Set {
    /// One mark, centred on the axis.
    fn of(size: Vec2, mark: Mark) -> Self {
        let half = size.y / 2.0;
        Self { width: size.x, above: half, below: half, marks: vec![(vec2(0.0, -half), mark)] }
    }

    fn row(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut row = Self::default();
        parts.into_iter().for_each(|part| row.push(part));
        row
    }

    fn raised(mut self, power: Self) -> Self {
        let at = vec2(self.width, -self.above * 0.5 - power.below * 0.5);
        self.place(power, at);
        self
    }

    /// Appends another expression.
    fn push(&mut self, other: Self) {
        self.place(other, vec2(self.width, 0.0));
    }

    /// Places another expression.
    fn place(&mut self, other: Self, at: Vec2) {
        self.width = self.width.max(at.x + other.width);
        self.above = self.above.max(other.above - at.y);
        self.below = self.below.max(other.below + at.y);
        self.marks.extend(other.marks.into_iter().map(|(place, mark)| (place + at, mark)));
    }
}

/// Fills lines with pieces.
fn broken(pieces: Vec<Set>, room: f32) -> Vec<Set> {
    let mut lines: Vec<Set> = Vec::new();
    for piece in pieces {
        match lines.last_mut() {
            Some(line) if line.width + piece.width <= room => line.push(piece),
            _ => lines.push(piece),
        }
    }
    lines
}

struct Setter<'a> {
    ui: &'a Ui,
    /// The most terms of a sum.
    most: usize,
    size: f32,
}

impl Setter<'_> {
    /// The pieces that can begin a line: the terms of a sum, and the result.
    fn pieces(&self, expr: &Expr, arithmetic: &Arithmetic) -> Vec<Set> {
        let mut pieces = match expr {
            Expr::Sum(terms) => self.terms(terms),
            _ => vec![self.set(expr)],
        };
        let mut result = self.text(" = ");
        result.push(
            self.strong(&Expr::Number { name: "", value: f64::from(arithmetic.value) }.text()),
        );
        pieces.push(result);
        pieces
    }

    fn set(&self, expr: &Expr) -> Set {
        match expr {
            Expr::Cell(operand) => self.operand(operand),
            Expr::Number { .. } => self.text(&expr.text()),
            Expr::Sum(terms) => Set::row(self.terms(terms)),
            Expr::Difference(of) => {
                Set::row([self.set(&of[0]), self.text(" − "), self.factor(&of[1])])
            }
            Expr::Product(factors) => {
                let mut row = Set::default();
                for (i, factor) in factors.iter().enumerate() {
                    if i > 0 {
                        row.push(self.text(" · "));
                    }
                    row.push(self.factor(factor));
                }
                row
            }
            Expr::Quotient(of) => self.fraction(self.set(&of[0]), self.set(&of[1])),
            Expr::Root(of) => self.root(self.set(of)),
            Expr::Square(of) => self.factor(of).raised(self.for_power().text("2")),
            Expr::Exp { exponent, .. } => self.text("e").raised(self.for_power().set(exponent)),
            Expr::Max(of) => {
                let mut row = self.text("max(");
                for (i, expr) in of.iter().enumerate() {
                    if i > 0 {
                        row.push(self.text(", "));
                    }
                    row.push(self.set(expr));
                }
                row.push(self.text(")"));
                row
            }
            Expr::Sine(of) => Set::row([self.text("sin("), self.set(of), self.text(")")]),
            Expr::Cosine(of) => Set::row([self.text("cos("), self.set(of), self.text(")")]),
        }
    }

    /// A factor, in brackets if it needs them.
    fn factor(&self, expr: &Expr) -> Set {
        let brackets = match expr {
            Expr::Cell(_) | Expr::Number { .. } => expr.value() < 0.0,
            Expr::Sum(_) | Expr::Difference(_) => true,
            _ => false,
        };
        if brackets {
            Set::row([self.text("("), self.set(expr), self.text(")")])
        } else {
            self.set(expr)
        }
    }

    /// The terms of a sum, each with its sign.
    fn terms(&self, terms: &[Expr]) -> Vec<Set> {
        let term = |i: usize| {
            let set = if matches!(terms[i], Expr::Product(_)) {
                self.set(&terms[i])
            } else {
                self.factor(&terms[i])
            };
            if i == 0 { set } else { Set::row([self.text(" + "), set]) }
        };
        let n = terms.len();
        if n <= self.most {
            return (0..n).map(term).collect();
        }
        let first = self.most.div_ceil(2).min(4);
        let left_out =
            Set::row([self.text(" + "), self.weak(&format!("… {} more …", n - first - 1))]);
        (0..first).map(term).chain([left_out, term(n - 1)]).collect()
    }

    fn fraction(&self, dividend: Set, divisor: Set) -> Set {
        const PAD: f32 = 4.0;
        let width = dividend.width.max(divisor.width) + 2.0 * PAD;
        let mut set = Set { width, ..Set::default() };
        let at = vec2((width - dividend.width) / 2.0, -dividend.below - 3.0);
        set.place(dividend, at);
        let at = vec2((width - divisor.width) / 2.0, divisor.above + 3.0);
        set.place(divisor, at);
        set.marks.push((
            vec2(1.0, 0.0),
            Mark::Bar(vec2(width - 1.0, 0.0), self.ui.visuals().text_color()),
        ));
        set
    }

    fn root(&self, of: Set) -> Set {
        let color = self.ui.visuals().text_color();
        let (sign, bar) = formula::sign(self.ui, of.above + of.below, self.size, color);
        let mut set = Set::of(sign.size(), Mark::Text(sign, color));
        let (start, y) = (bar.x, bar.y + 1.0 - set.above);
        set.push(of);
        set.marks.push((vec2(start, y), Mark::Bar(vec2(set.width - start, y), color)));
        set
    }

    /// The setter for powers. It cuts sums early.
    fn for_power(&self) -> Setter<'_> {
        Setter { ui: self.ui, most: self.most.min(3), size: size(self.ui) * SMALLER }
    }

    fn operand(&self, operand: &Operand) -> Set {
        let galley = self.galley(&Expr::Cell(operand.clone()).text());
        Set::of(galley.size(), Mark::Operand(galley, operand.clone()))
    }

    fn text(&self, text: &str) -> Set {
        self.colored(text, self.ui.visuals().text_color())
    }

    fn weak(&self, text: &str) -> Set {
        self.colored(text, self.ui.visuals().weak_text_color())
    }

    fn strong(&self, text: &str) -> Set {
        self.colored(text, self.ui.visuals().strong_text_color())
    }

    fn colored(&self, text: &str, color: Color32) -> Set {
        let galley = self.galley(text);
        Set::of(galley.size(), Mark::Text(galley, color))
    }

    fn galley(&self, text: &str) -> Arc<Galley> {
        self.ui.painter().layout_no_wrap(
            text.to_owned(),
            FontId::proportional(self.size),
            Color32::PLACEHOLDER,
        )
    }
}

/// Draws a mark. Returns the cell of an operand that was clicked.
fn draw(ui: &Ui, at: Pos2, mark: Mark, number: &mut usize) -> Option<At> {
    match mark {
        Mark::Text(galley, color) => {
            ui.painter().galley(at, galley, color);
            None
        }
        Mark::Bar(to, color) => {
            let stroke = Stroke::new(1.2, color);
            ui.painter().hline(at.x..=at.x + to.x - 1.0, at.y, stroke);
            None
        }
        Mark::Operand(galley, operand) => {
            *number += 1;
            let rect = Rect::from_min_size(at, galley.size());
            let is_shown = operand.cell.is_some();
            let sense = if is_shown { Sense::click() } else { Sense::hover() };
            let response = ui.interact(
                rect.expand2(vec2(2.0, 0.0)),
                ui.scope_id().with(("operand", *number)),
                sense,
            );
            let visuals = ui.visuals();
            let color = if is_shown { visuals.hyperlink_color } else { visuals.text_color() };
            if response.hovered() || response.has_focus() {
                ui.painter().rect_filled(
                    rect.expand2(vec2(2.0, 0.0)),
                    3,
                    color.gamma_multiply(0.18),
                );
            }
            ui.painter().galley(at, galley, color);
            response.widget_info(|| WidgetInfo::labeled(Role::Link, is_shown, &operand.label));
            let response = response.on_hover_text(&operand.label);
            let cell = operand.cell.filter(|_| response.clicked())?;
            Some(At { step: cell.step, cell: (cell.row, cell.col) })
        }
    }
}
