//! The road from tokens to output that all examples share.

use regard_kernels::{Mask, Position};

use crate::explain::Origin;
use crate::pair::{Pair, attention, fused};
use crate::step::Kind;
use crate::trace::{Axes, Measured, Text, Trace, labels, largest};
use crate::{Error, Matrix, Rows, Without};

/// What a token is turned into.
#[derive(Clone, Copy)]
pub(crate) enum Role {
    Query,
    Key,
    Value,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Query, Self::Key, Self::Value];

    /// The key of its weights.
    pub fn weights(self) -> &'static str {
        match self {
            Self::Query => "w_q",
            Self::Key => "w_k",
            Self::Value => "w_v",
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Query => "matmul(x, w_q, q)",
            Self::Key => "matmul(x, w_k, k)",
            Self::Value => "matmul(x, w_v, v)",
        }
    }

    pub fn rows(self) -> Rows {
        if matches!(self, Self::Query) { Rows::Queries } else { Rows::Keys }
    }

    pub fn symbol(self) -> &'static str {
        match self {
            Self::Query => "Q",
            Self::Key => "K",
            Self::Value => "V",
        }
    }

    pub fn key(self) -> &'static str {
        match self {
            Self::Query => "q",
            Self::Key => "k",
            Self::Value => "v",
        }
    }

    pub fn plural(self) -> &'static str {
        match self {
            Self::Query => "Queries",
            Self::Key => "Keys",
            Self::Value => "Values",
        }
    }

    fn weights_meaning(self) -> &'static str {
        match self {
            Self::Query => "Learned: turns a token into what it looks for in others.",
            Self::Key => "Learned: turns a token into what it advertises, to be found by others.",
            Self::Value => "Learned: turns a token into what it hands over to those who attend to it.",
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            Self::Query => "Row i is what token i looks for: one token, three roles, and this is the first.",
            Self::Key => "Row j is what token j advertises: the queries are compared with it.",
            Self::Value => "Row j is what token j hands over, as far as it is attended to.",
        }
    }
}

/// X, and W_Q, W_K and W_V unless they are left out.
pub(crate) fn give_tokens_and_weights(trace: &mut Trace<'_>) -> Result<(Pair, [Pair; 3]), Error> {
    let x = give_tokens(trace)?;
    let w = give_weights(trace)?;
    Ok((x, w))
}

/// X.
pub(crate) fn give_tokens(trace: &mut Trace<'_>) -> Result<Pair, Error> {
    let tokens = trace.tokens.clone();
    let dims = labels("d", trace.inputs.matrix("x").map_or(0, Matrix::cols));
    let text = Text {
        key: "x",
        symbol: "X",
        name: "Tokens X",
        meaning: "Each row is a token as a list of numbers: without numbers there is nothing to compute with.",
        ..Text::default()
    };
    trace.give(&text, Axes::new(Rows::Tokens, &tokens, &dims))
}

/// W_Q, W_K and W_V, which are not shown if they are left out.
pub(crate) fn give_weights(trace: &mut Trace<'_>) -> Result<[Pair; 3], Error> {
    let [query, key, value] = Role::ALL;
    Ok([give_weight(trace, query)?, give_weight(trace, key)?, give_weight(trace, value)?])
}

fn give_weight(trace: &mut Trace<'_>, role: Role) -> Result<Pair, Error> {
    let key = role.weights();
    if trace.settings.without == Some(Without::Projections)
        && let Some(w) = trace.input(key)
    {
        return Ok(w);
    }
    let (symbol, name) = (format!("W_{}", role.symbol()), format!("Weights W_{}", role.symbol()));
    let text = Text { key, symbol: &symbol, name: &name, meaning: role.weights_meaning(), ..Text::default() };
    let (rows, cols) = trace.inputs.matrix(key).map_or((0, 0), Matrix::shape);
    let (rows, cols) = (labels("d", rows), labels(role.key(), cols));
    trace.give(&text, Axes::new(Rows::Other, &rows, &cols))
}

/// Q, K or V under its key: X·W, or X itself where projections are left out.
pub(crate) fn project(trace: &mut Trace<'_>, role: Role, x: &Pair, w: &Pair) -> Result<Pair, Error> {
    let tokens = x.name.rows.to_vec();
    project_as(trace, role, "", "", (&tokens, 0), x, w)
}

/// Q, K and V of one text.
pub(crate) fn project_all(trace: &mut Trace<'_>, x: &Pair, [w_q, w_k, w_v]: &[Pair; 3]) -> Result<[Pair; 3], Error> {
    let [query, key, value] = Role::ALL;
    Ok([project(trace, query, x, w_q)?, project(trace, key, x, w_k)?, project(trace, value, x, w_v)?])
}

/// [`project`] with something before the key and behind the name, of other rows than all tokens: from the token `first` on.
pub(crate) fn project_as(
    trace: &mut Trace<'_>,
    role: Role,
    prefix: &str,
    of: &str,
    (rows, first): (&[String], usize),
    x: &Pair,
    w: &Pair,
) -> Result<Pair, Error> {
    let (symbol, from) = (role.symbol(), x.name.symbol.as_str());
    let left_out = trace.settings.without == Some(Without::Projections);
    let (pair, formula, meaning, origin) = if left_out {
        let meaning = "Left out: the token plays this role as it is.";
        (x.clone(), format!("{symbol} = {from}"), meaning, Origin::copied(x))
    } else {
        (x.times(w)?, format!("{symbol} = {from}·W_{symbol}"), role.meaning(), Origin::product(x, w))
    };
    let (key, name) = (format!("{prefix}{}", role.key()), format!("{} {symbol}{of}", role.plural()));
    let code = if left_out { "" } else { role.code() };
    let text = Text { key: &key, symbol, name: &name, formula: &formula, meaning, code };
    let cols = labels(if left_out { "d" } else { role.key() }, pair.ours.cols());
    Ok(trace.push(&text, pair, Kind::Signed, Axes { first, ..Axes::new(role.rows(), rows, &cols) }, origin))
}

/// One attention, from scores to output.
pub(crate) struct Head<'a> {
    /// Before each key: "" or "head_1."
    pub prefix: &'a str,
    /// Behind each name: "" or ", head 1".
    pub of: &'a str,
    /// Behind each symbol: "" or "₁".
    pub subscript: &'a str,
    pub queries: &'a [String],
    pub keys: &'a [String],
    /// The token of the first query.
    pub first: usize,
    /// Whether a causal mask makes sense: not between two texts.
    pub maskable: bool,
}

impl<'a> Head<'a> {
    /// All tokens of one text.
    pub fn of_all(tokens: &'a [String]) -> Self {
        Self { prefix: "", of: "", subscript: "", queries: tokens, keys: tokens, first: 0, maskable: true }
    }
}

impl Head<'_> {
    /// Scores, scaled and masked as the settings say, then weights, and the output where there are values.
    pub fn attend(&self, trace: &mut Trace<'_>, q: &Pair, k: &Pair, v: Option<&Pair>) -> Result<Option<Pair>, Error> {
        let (s, settings) = (self.subscript, *trace.settings);
        let scaled = settings.without != Some(Without::Scaling);

        let raw = q.times_transposed(k)?;
        let symbol = format!("S{s}");
        let text = Text {
            key: &self.key("raw_scores"),
            symbol: &symbol,
            name: &self.name("Scores QKᵀ"),
            formula: &format!("S{s} = Q{s}·K{s}ᵀ"),
            meaning: "A dot product for every pair, ‖q‖·‖k‖·cos θ: large where one token looks for what the other \
                      advertises; n tokens make n² of them.",
            code: "matmul_transposed(q, k, scores)",
        };
        let raw = trace.push(&text, raw, Kind::Signed, self.pairs(), Origin::product_transposed(q, k));
        let (mut scores, mut argument) =
            if scaled { (self.push_scaled(trace, &raw, q, k)?, format!("S{s} / √d_k")) } else { (raw, symbol) };
        if settings.hides() && self.maskable {
            let before = scores;
            let text = Text {
                key: &self.key("masked_scores"),
                symbol: &format!("M{s}"),
                name: &self.name("Masked scores"),
                formula: "score(i, j) = −∞ for j > i",
                meaning: "A token may not see what comes after it: a score of −∞ becomes a weight of exactly 0.",
                code: "Attention::new().mask(Mask::NONE.causal(position)).scores(Stage::Masked, q, k, scores, scratch)",
            };
            let masked = Pair::scores(q, k, scaled, Some(self.position()))?;
            let origin = Origin::masked(&before, self.queries, self.keys);
            scores = trace.push(&text, masked, Kind::Signed, self.pairs(), origin);
            "masked scores".clone_into(&mut argument);
        }

        let weights = self.push_weights(trace, "weights", &argument, &scores);
        let Some(v) = v else { return Ok(None) };
        let causal = (settings.hides() && self.maskable).then(|| self.position());
        self.push_output(trace, "output", &format!("O{s} = A{s}·V{s}"), [q, k, v], &weights, causal).map(Some)
    }

    fn push_scaled(&self, trace: &mut Trace<'_>, raw: &Pair, q: &Pair, k: &Pair) -> Result<Pair, Error> {
        let (s, d_k) = (self.subscript, q.ours.cols());
        let scores = Pair::scores(q, k, true, None)?;
        let text = Text {
            key: &self.key("scaled_scores"),
            symbol: &format!("Z{s}"),
            name: &self.name("Scaled scores"),
            formula: &format!("S{s} / √d_k = S{s} / √{d_k}"),
            meaning: "A sum of d_k products spreads as √d_k; divided by it, scores keep the same spread for every d_k, and \
                      softmax neither saturates nor stops learning.",
            code: "Attention::new().scores(Stage::Raw, q, k, scores, scratch)",
        };
        Ok(trace.push(&text, scores, Kind::Signed, self.pairs(), Origin::over_root(raw, d_k)))
    }

    /// The causal twin of an attention that is not causal: its weights and output alone.
    pub fn causal_twin(&self, trace: &mut Trace<'_>, q: &Pair, k: &Pair, v: &Pair) -> Result<(), Error> {
        let scaled = trace.settings.without != Some(Without::Scaling);
        let mut scores = Pair::scores(q, k, scaled, Some(self.position()))?;
        // Where its scores may be seen, they are those of the attention without the mask.
        let key = self.key(if scaled { "scaled_scores" } else { "raw_scores" });
        if let Some(step) = trace.steps.iter().find(|s| s.key == key) {
            scores.name = step.operand_name();
        }
        let weights = self.push_weights(trace, "causal_weights", "masked scores", &scores);
        self.push_output(trace, "causal_output", "O = A·V", [q, k, v], &weights, Some(self.position()))?;
        Ok(())
    }

    fn push_weights(&self, trace: &mut Trace<'_>, key: &str, argument: &str, scores: &Pair) -> Pair {
        let t = trace.settings.temperature;
        let (weights, formula, meaning, kind, origin, code) = if trace.settings.without == Some(Without::Softmax) {
            let meaning = "Left out: magnitudes without meaning, of any sign and any sum, stand in for weights.";
            let formula = format!("A{} = {argument}", self.subscript);
            (scores.hidden_as_zero(), formula, meaning, Kind::Signed, Origin::unweighed(scores), "")
        } else {
            let meaning = "Each row says how one query shares out its attention; each column, how much a token receives; the \
                           row's largest score is subtracted first, so that nothing overflows.";
            let argument = if t.get() == 1.0 { argument.to_owned() } else { format!("({argument}) / T") };
            let formula = format!("A{} = softmax({argument})", self.subscript);
            let code = "for row in scores { softmax(row, temperature) }";
            (scores.softmax(t), formula, meaning, Kind::Weights, Origin::softmax(scores, t.get()), code)
        };
        for i in 0..weights.ours.rows() {
            let sum: f64 = weights.ours.row(i).iter().map(|w| f64::from(*w)).sum();
            Measured::note(&mut trace.measured.row_sum, (sum - 1.0).abs());
        }
        let hidden = scores.ours.as_slice().iter().zip(weights.ours.as_slice());
        for (_, weight) in hidden.filter(|(score, _)| **score == f32::NEG_INFINITY) {
            Measured::note(&mut trace.measured.hidden, f64::from(weight.abs()));
        }
        let name = if key == "causal_weights" { "Causal weights" } else { "Weights A" };
        let symbol = format!("A{}", self.subscript);
        let (key, name) = (self.key(key), self.name(name));
        let text = Text { key: &key, symbol: &symbol, name: &name, formula: &formula, meaning, code };
        trace.push(&text, weights, kind, self.pairs(), origin)
    }

    fn push_output(
        &self,
        trace: &mut Trace<'_>,
        key: &str,
        formula: &str,
        [q, k, v]: [&Pair; 3],
        weights: &Pair,
        causal: Option<Position>,
    ) -> Result<Pair, Error> {
        let settings = trace.settings;
        let mut output = weights.times(v)?;
        let code = if settings.without == Some(Without::Softmax) {
            "matmul(weights, v, output)"
        } else {
            let mask = causal.map_or(Mask::NONE, |p| Mask::NONE.causal(p));
            let attention = attention(settings.without != Some(Without::Scaling), mask);
            let one_call = fused(&attention.temperature(settings.temperature), &q.ours, &k.ours, &v.ours)?;
            let deviation = distance(&output.ours, &one_call) / largest(&v.ours).max(1.0);
            Measured::note(&mut trace.measured.fused, deviation);
            // What is shown is what a user of the kernels gets: it is rounded less often.
            output.ours = one_call;
            "attention.forward(q, k, v, output, scratch)"
        };
        let name = if key == "causal_output" { "Causal output" } else { "Output" };
        let text = Text {
            key: &self.key(key),
            symbol: &format!("O{}", self.subscript),
            name: &self.name(name),
            formula,
            meaning: "Each token's new vector: all values blended, in the proportions of its row of weights.",
            code,
        };
        let cols = labels("v", v.ours.cols());
        let axes = Axes { first: self.first, ..Axes::new(Rows::Queries, self.queries, &cols) };
        Ok(trace.push(&text, output, Kind::Signed, axes, Origin::product(weights, v)))
    }

    /// Where the first query stands among the keys.
    fn position(&self) -> Position {
        Position::Offset(self.first as isize)
    }

    fn pairs(&self) -> Axes<'_> {
        Axes { first: self.first, ..Axes::new(Rows::Pairs, self.queries, self.keys) }
    }

    fn name(&self, name: &str) -> String {
        format!("{name}{}", self.of)
    }

    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }
}

/// The largest distance of two elements at one place.
pub(crate) fn distance(a: &Matrix, b: &Matrix) -> f64 {
    let pairs = a.as_slice().iter().zip(b.as_slice());
    pairs.map(|(a, b)| f64::from((a - b).abs())).fold(0.0, |d, e| if e.is_nan() { e } else { d.max(e) })
}
