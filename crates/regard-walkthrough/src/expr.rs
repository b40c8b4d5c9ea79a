use crate::StepKey;
use crate::number::{bracketed, number};

/// A cell of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StepCell {
    /// The key of the step.
    pub step: StepKey,
    /// Its row.
    pub row: usize,
    /// Its column.
    pub col: usize,
}

/// A number from which another one was computed.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// The name: "Q\[cat, q0\]".
    pub label: String,
    /// The number, as the kernels computed it.
    pub value: f32,
    /// The cell that shows it, if a step does.
    pub cell: Option<StepCell>,
}

/// The arithmetic of a cell, as a formula with numbers to draw.
///
/// ```
/// use regard_walkthrough::{Example, Expr, Quantity, Settings, Walkthrough};
/// let walk = Walkthrough::run(Example::ILoveRobotics, &Settings::default())?;
/// let score = walk.step(Quantity::RawScores).and_then(|s| s.arithmetic(1, 0)).expect("the cell is there");
/// let Some(Expr::Sum(terms)) = &score.expr else { panic!("a dot product is a sum") };
/// let Expr::Product(factors) = &terms[0] else { panic!("of products") };
/// let Expr::Cell(factor) = &factors[1] else { panic!("of cells") };
/// assert_eq!((factor.label.as_str(), factor.value), ("K[I, k0]", 2.0));
/// assert_eq!(score.expr.map(|e| e.value()), Some(4.0));
/// # Ok::<(), regard_walkthrough::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A number of an earlier step.
    Cell(Operand),
    /// A number that no step shows: a constant, a mean.
    Number {
        /// The name, such as "d_k". Empty if it has none.
        name: &'static str,
        /// The number.
        value: f64,
    },
    /// a + b + …
    Sum(Vec<Self>),
    /// a − b.
    Difference(Box<[Self; 2]>),
    /// a·b·…
    Product(Vec<Self>),
    /// a / b.
    Quotient(Box<[Self; 2]>),
    /// √a.
    Root(Box<Self>),
    /// a².
    Square(Box<Self>),
    /// e^(a − shift). Softmax subtracts the row's largest score, so that nothing overflows. Both sides of a fraction have the
    /// same shift, which the text omits.
    Exp {
        /// The power, before the shift.
        exponent: Box<Self>,
        /// The number that is subtracted from it.
        shift: f64,
    },
    /// The largest of some numbers.
    Max(Vec<Self>),
    /// sin a.
    Sine(Box<Self>),
    /// cos a.
    Cosine(Box<Self>),
}

impl Expr {
    /// A number without a name.
    pub(crate) fn constant(value: f64) -> Self {
        Self::Number { name: "", value }
    }

    pub(crate) fn over(self, divisor: Self) -> Self {
        Self::Quotient(Box::new([self, divisor]))
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self::Difference(Box::new([self, other]))
    }

    pub(crate) fn root(self) -> Self {
        Self::Root(Box::new(self))
    }

    pub(crate) fn square(self) -> Self {
        Self::Square(Box::new(self))
    }

    /// The value in double precision.
    pub fn value(&self) -> f64 {
        match self {
            Self::Cell(operand) => f64::from(operand.value),
            Self::Number { value, .. } => *value,
            Self::Sum(terms) => terms.iter().map(Self::value).sum(),
            Self::Difference(of) => of[0].value() - of[1].value(),
            Self::Product(factors) => factors.iter().map(Self::value).product(),
            Self::Quotient(of) => of[0].value() / of[1].value(),
            Self::Root(of) => of.value().sqrt(),
            Self::Square(of) => of.value().powi(2),
            Self::Exp { exponent, shift } => (exponent.value() - shift).exp(),
            Self::Max(of) => of.iter().map(Self::value).fold(f64::NEG_INFINITY, f64::max),
            Self::Sine(of) => of.value().sin(),
            Self::Cosine(of) => of.value().cos(),
        }
    }

    /// The operands from earlier steps, from left to right.
    ///
    /// ```
    /// use regard_walkthrough::{Example, Quantity, Settings, Walkthrough};
    /// let walk = Walkthrough::run(Example::ILoveRobotics, &Settings::default())?;
    /// let scaled = walk.step(Quantity::ScaledScores).and_then(|s| s.arithmetic(1, 0)).expect("the cell is there");
    /// let operands = scaled.expr.as_ref().map(|e| e.operands()).unwrap_or_default();
    /// let cell = operands[0].cell.as_ref().expect("a step shows it");
    /// assert_eq!((cell.step, cell.row, cell.col), (Quantity::RawScores.into(), 1, 0));
    /// # Ok::<(), regard_walkthrough::Error>(())
    /// ```
    pub fn operands(&self) -> Vec<&Operand> {
        match self {
            Self::Cell(operand) => vec![operand],
            Self::Number { .. } => Vec::new(),
            Self::Sum(of) | Self::Product(of) | Self::Max(of) => {
                of.iter().flat_map(Self::operands).collect()
            }
            Self::Difference(of) | Self::Quotient(of) => {
                of.iter().flat_map(Self::operands).collect()
            }
            Self::Root(of) | Self::Square(of) | Self::Sine(of) | Self::Cosine(of) => of.operands(),
            Self::Exp { exponent, .. } => exponent.operands(),
        }
    }

    /// The expression as text, with rounded numbers: "1·2 + 1·(−1)". A sum of more than 12 terms shows the first four, the sum of
    /// the middle ones, and the last.
    pub fn text(&self) -> String {
        match self {
            Self::Cell(Operand { value, .. }) => number(f64::from(*value)),
            Self::Number { value, .. } => number(*value),
            Self::Sum(terms) => sum(terms),
            Self::Difference(of) => format!("{} − {}", of[0].text(), of[1].factor()),
            Self::Product(factors) => {
                factors.iter().map(Self::factor).collect::<Vec<_>>().join("·")
            }
            Self::Quotient(of) => format!("{} / {}", of[0].dividend(), of[1].factor_alone()),
            Self::Root(of) if of.is_number() && of.value() >= 0.0 => format!("√{}", of.text()),
            Self::Root(of) => format!("√({})", of.text()),
            Self::Square(of) => format!("{}²", of.factor()),
            Self::Exp { exponent, .. } => power(exponent),
            Self::Max(of) => {
                format!("max({})", of.iter().map(Self::text).collect::<Vec<_>>().join(", "))
            }
            Self::Sine(of) => format!("sin({})", of.text()),
            Self::Cosine(of) => format!("cos({})", of.text()),
        }
    }

    /// The text as a factor. Negative numbers, sums and fractions get brackets.
    fn factor(&self) -> String {
        match self {
            Self::Cell(_) | Self::Number { .. } => bracketed(self.value()),
            Self::Sum(_) | Self::Difference(_) | Self::Quotient(_) => format!("({})", self.text()),
            _ => self.text(),
        }
    }

    /// The text as a divisor. Products need brackets here.
    fn factor_alone(&self) -> String {
        if matches!(self, Self::Product(_)) { format!("({})", self.text()) } else { self.factor() }
    }

    /// The text as a dividend. A negative number needs no brackets here.
    fn dividend(&self) -> String {
        if self.is_number() { self.text() } else { self.factor() }
    }

    fn is_number(&self) -> bool {
        matches!(self, Self::Cell(_) | Self::Number { .. })
    }
}

/// The most terms of a sum that is shown in full.
const LONGEST: usize = 12;
/// The terms shown at the start of a cut sum; one more is shown at its end.
const SHOWN: usize = 4;

fn sum(terms: &[Expr]) -> String {
    let term = |e: &Expr| if e.is_number() { e.factor() } else { e.text() };
    let shown = |terms: &[Expr]| terms.iter().map(term).collect::<Vec<_>>().join(" + ");
    let Some((last, rest)) = terms.split_last().filter(|_| terms.len() > LONGEST) else {
        return shown(terms);
    };
    let (first, middle) = rest.split_at(SHOWN);
    // Powers are shown without their shift, so their sum has none either.
    let unshifted = |e: &Expr| {
        if let Expr::Exp { exponent, .. } = e { exponent.value().exp() } else { e.value() }
    };
    let total: f64 = middle.iter().map(unshifted).sum();
    let total = if total.is_finite() {
        format!(" that add up to {}", number(total))
    } else {
        String::new()
    };
    format!("{} + … {} more terms{total} … + {}", shown(first), middle.len(), term(last))
}

/// "e^2", "e^(−2)", "e^(2/0.5)".
fn power(exponent: &Expr) -> String {
    match exponent {
        Expr::Quotient(of) => format!("e^({}/{})", of[0].text(), of[1].text()),
        e if e.is_number() && e.value() >= 0.0 => format!("e^{}", e.text()),
        e => format!("e^({})", e.text()),
    }
}

/// The arithmetic of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Arithmetic {
    /// The number in the cell.
    pub value: f32,
    /// The expression that it was computed from. `None` for given and drawn numbers, and for measurements in a table.
    pub expr: Option<Expr>,
    /// The arithmetic in one line of text.
    pub text: String,
}
