//! The road from tokens to output that all examples share.

use regard_kernels::{Mask, Position};

use crate::pair::{Pair, attention, fused};
use crate::step::{Kind, Origin};
use crate::trace::{Labels, Measured, Text, Trace, labels, largest};
use crate::{Error, Matrix, Without};

/// What a token is turned into.
#[derive(Clone, Copy)]
pub(crate) enum Role {
    Query,
    Key,
    Value,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Query, Self::Key, Self::Value];

    fn symbol(self) -> &'static str {
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

    fn plural(self) -> &'static str {
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
pub(crate) fn push_inputs(trace: &mut Trace<'_>, x: &Pair, w: &[Pair; 3], origins: [&Origin; 2]) {
    let tokens = trace.tokens.clone();
    let dims = labels("d", x.ours.cols());
    let text = Text {
        key: "x",
        name: "Tokens X",
        formula: "",
        meaning: "Each row is a token as a list of numbers: without numbers there is nothing to compute with.",
    };
    trace.push(&text, x, Kind::Signed, Labels { rows: &tokens, cols: &dims }, origins[0].clone());
    if trace.settings.without == Some(Without::Projections) {
        return;
    }
    for (role, w) in Role::ALL.into_iter().zip(w) {
        let symbol = role.symbol();
        let text = Text {
            key: &format!("w_{}", role.key()),
            name: &format!("Weights W_{symbol}"),
            formula: "",
            meaning: role.weights_meaning(),
        };
        let cols = labels(role.key(), w.ours.cols());
        trace.push(&text, w, Kind::Signed, Labels { rows: &dims, cols: &cols }, origins[1].clone());
    }
}

/// Q, K or V under its key: X·W, or X itself where projections are left out.
pub(crate) fn project(trace: &mut Trace<'_>, role: Role, x: &Pair, w: &Pair) -> Result<Pair, Error> {
    let tokens = trace.tokens.clone();
    project_as(trace, role, "", "", &tokens, x, w)
}

/// [`project`] with something before the key and behind the name, of other rows than all tokens.
pub(crate) fn project_as(
    trace: &mut Trace<'_>,
    role: Role,
    prefix: &str,
    of: &str,
    rows: &[String],
    x: &Pair,
    w: &Pair,
) -> Result<Pair, Error> {
    let symbol = role.symbol();
    let left_out = trace.settings.without == Some(Without::Projections);
    let (pair, formula, meaning, origin) = if left_out {
        let meaning = "Left out: the token plays this role as it is.";
        (x.clone(), format!("{symbol} = X"), meaning, Origin::Copied("X"))
    } else {
        let origin = Origin::Product { left: x.ours.clone(), right: w.ours.clone() };
        (x.times(w)?, format!("{symbol} = X·W_{symbol}"), role.meaning(), origin)
    };
    let (key, name) = (format!("{prefix}{}", role.key()), format!("{} {symbol}{of}", role.plural()));
    let text = Text { key: &key, name: &name, formula: &formula, meaning };
    let cols = labels(if left_out { "d" } else { role.key() }, pair.ours.cols());
    trace.push(&text, &pair, Kind::Signed, Labels { rows, cols: &cols }, origin);
    Ok(pair)
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
    /// Where the first query stands among the keys.
    pub position: Position,
}

impl Head<'_> {
    /// Scores, scaled and masked as the settings say, then weights, and the output where there are values.
    pub fn attend(&self, trace: &mut Trace<'_>, q: &Pair, k: &Pair, v: Option<&Pair>) -> Result<Option<Pair>, Error> {
        let pairs = Labels { rows: self.queries, cols: self.keys };
        let (s, settings) = (self.subscript, *trace.settings);
        let scaled = settings.without != Some(Without::Scaling);

        let raw = q.times_transposed(k)?;
        let text = Text {
            key: &self.key("raw_scores"),
            name: &self.name("Scores QKᵀ"),
            formula: &format!("S{s} = Q{s}·K{s}ᵀ"),
            meaning: "A dot product for every pair, ‖q‖·‖k‖·cos θ: large where one token looks for what the other \
                      advertises; n tokens make n² of them.",
        };
        let origin = Origin::ProductTransposed { left: q.ours.clone(), right: k.ours.clone() };
        trace.push(&text, &raw, Kind::Signed, pairs, origin);
        let (mut scores, mut symbol) = if scaled {
            (self.push_scaled(trace, &raw, q, k)?, format!("S{s} / √d_k"))
        } else {
            (raw, format!("S{s}"))
        };

        if settings.causal {
            scores = Pair::scores(q, k, scaled, Some(self.position))?;
            let text = Text {
                key: &self.key("masked_scores"),
                name: &self.name("Masked scores"),
                formula: "score(i, j) = −∞ for j > i",
                meaning: "A token may not see what comes after it: a score of −∞ becomes a weight of exactly 0.",
            };
            trace.push(&text, &scores, Kind::Signed, pairs, Origin::Masked);
            "masked scores".clone_into(&mut symbol);
        }

        let weights = self.push_weights(trace, "weights", &symbol, &scores);
        let Some(v) = v else { return Ok(None) };
        let causal = settings.causal.then_some(self.position);
        self.push_output(trace, "output", &format!("O{s} = A{s}·V{s}"), [q, k, v], &weights, causal).map(Some)
    }

    fn push_scaled(&self, trace: &mut Trace<'_>, raw: &Pair, q: &Pair, k: &Pair) -> Result<Pair, Error> {
        let (s, d_k) = (self.subscript, q.ours.cols());
        let scores = Pair::scores(q, k, true, None)?;
        let text = Text {
            key: &self.key("scaled_scores"),
            name: &self.name("Scaled scores"),
            formula: &format!("S{s} / √d_k = S{s} / √{d_k}"),
            meaning: "A sum of d_k products spreads as √d_k; divided by it, scores keep the same spread for every d_k, and \
                      softmax neither saturates nor stops learning.",
        };
        let origin = Origin::Scaled { from: raw.ours.clone(), divisor: format!("√{d_k}") };
        trace.push(&text, &scores, Kind::Signed, Labels { rows: self.queries, cols: self.keys }, origin);
        Ok(scores)
    }

    /// The causal twin of an attention that is not causal: its weights and output alone.
    pub fn causal_twin(&self, trace: &mut Trace<'_>, q: &Pair, k: &Pair, v: &Pair) -> Result<(), Error> {
        let scaled = trace.settings.without != Some(Without::Scaling);
        let scores = Pair::scores(q, k, scaled, Some(self.position))?;
        let weights = self.push_weights(trace, "causal_weights", "masked scores", &scores);
        self.push_output(trace, "causal_output", "O = A·V", [q, k, v], &weights, Some(self.position))?;
        Ok(())
    }

    fn push_weights(&self, trace: &mut Trace<'_>, key: &str, symbol: &str, scores: &Pair) -> Pair {
        let settings = trace.settings;
        let t = settings.temperature;
        let from = scores.ours.clone();
        let (weights, formula, meaning, kind, origin) = if settings.without == Some(Without::Softmax) {
            let meaning = "Left out: magnitudes without meaning, of any sign and any sum, stand in for weights.";
            let origin = Origin::Unweighed { from };
            (scores.hidden_as_zero(), format!("A{} = {symbol}", self.subscript), meaning, Kind::Signed, origin)
        } else {
            let meaning = "Each row says how one query shares out its attention; each column, how much a token receives; the \
                           row's largest score is subtracted first, so that nothing overflows.";
            let argument = if t.get() == 1.0 { symbol.to_owned() } else { format!("({symbol}) / T") };
            let formula = format!("A{} = softmax({argument})", self.subscript);
            let origin = Origin::Softmax { from, temperature: t.get() };
            (scores.softmax(t), formula, meaning, Kind::Weights, origin)
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
        let text = Text { key: &self.key(key), name: &self.name(name), formula: &formula, meaning };
        trace.push(&text, &weights, kind, Labels { rows: self.queries, cols: self.keys }, origin);
        weights
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
        if settings.without != Some(Without::Softmax) {
            let mask = causal.map_or(Mask::NONE, |p| Mask::NONE.causal(p));
            let attention = attention(settings.without != Some(Without::Scaling), mask);
            let one_call = fused(&attention.temperature(settings.temperature), &q.ours, &k.ours, &v.ours)?;
            let deviation = distance(&output.ours, &one_call) / largest(&v.ours).max(1.0);
            Measured::note(&mut trace.measured.fused, deviation);
            // What is shown is what a user of the kernels gets: it is rounded less often.
            output.ours = one_call;
        }
        let name = if key == "causal_output" { "Causal output" } else { "Output" };
        let text = Text {
            key: &self.key(key),
            name: &self.name(name),
            formula,
            meaning: "Each token's new vector: all values blended, in the proportions of its row of weights.",
        };
        let origin = Origin::Product { left: weights.ours.clone(), right: v.ours.clone() };
        let cols = labels("v", v.ours.cols());
        trace.push(&text, &output, Kind::Signed, Labels { rows: self.queries, cols: &cols }, origin);
        Ok(output)
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
