//! The road from tokens to output that all examples share.

use regard_kernels::{Mask, Position};

use crate::check::Gap;
use crate::origin::Origin;
use crate::pair::{Pair, attention, fused};
use crate::step::Kind;
use crate::trace::{Axes, Measured, Text, Trace, labels};
use crate::{Error, Quantity, Rows, Section, StepKey, Without};

/// One attention, from scores to output.
pub(crate) struct Head<'a> {
    pub section: Section,
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
        Self {
            section: Section::Main,
            of: "",
            subscript: "",
            queries: tokens,
            keys: tokens,
            first: 0,
            maskable: true,
        }
    }
}

impl Head<'_> {
    /// Scores, scaled and masked as the settings say, then weights, and the output where there are values.
    pub fn attend(
        &self,
        trace: &mut Trace<'_>,
        q: &Pair,
        k: &Pair,
        v: Option<&Pair>,
    ) -> Result<Option<Pair>, Error> {
        let (s, settings) = (self.subscript, *trace.settings);
        let scaled = settings.without != Some(Without::Scaling);

        let raw = q.times_transposed(k)?;
        let symbol = format!("S{s}");
        let text = Text {
            key: self.key(Quantity::RawScores),
            symbol: &symbol,
            name: &self.name("Scores QKᵀ"),
            formula: &format!("S{s} = Q{s}·K{s}ᵀ"),
            meaning: "A dot product for every pair, ‖q‖·‖k‖·cos θ: large where one token looks for what the other \
                      advertises; n tokens make n² of them.",
            code: "matmul_transposed(q, k, scores)",
        };
        let raw =
            trace.push(&text, raw, Kind::Signed, self.pairs(), Origin::product_transposed(q, k));
        let (mut scores, mut argument) = if scaled {
            (self.push_scaled(trace, &raw, q, k)?, format!("S{s} / √d_k"))
        } else {
            (raw, symbol)
        };
        if settings.hides() && self.maskable {
            let before = scores;
            let text = Text {
                key: self.key(Quantity::MaskedScores),
                symbol: &format!("M{s}"),
                name: &self.name("Masked scores"),
                formula: "score(i, j) = −∞ for j > i",
                meaning: "A token may not see what comes after it, so that the lower triangle is left: a score of −∞ becomes a \
                          weight of exactly 0. Padding is hidden in the same way; −10⁹, which some write in place of −∞, does \
                          as well until a whole row is hidden, which it would share out evenly.",
                code: "Attention::new().mask(Mask::NONE.causal(position)).scores(Stage::Masked, q, k, scores, scratch)",
            };
            let masked = Pair::scores(q, k, scaled, Some(self.position()))?;
            let origin = Origin::masked(&before, self.queries, self.keys);
            scores = trace.push(&text, masked, Kind::Signed, self.pairs(), origin);
            "masked scores".clone_into(&mut argument);
        }

        let weights = self.push_weights(trace, Quantity::Weights, &argument, &scores);
        let Some(v) = v else { return Ok(None) };
        let causal = (settings.hides() && self.maskable).then(|| self.position());
        self.push_output(
            trace,
            Quantity::Output,
            &format!("O{s} = A{s}·V{s}"),
            [q, k, v],
            &weights,
            causal,
        )
        .map(Some)
    }

    fn push_scaled(
        &self,
        trace: &mut Trace<'_>,
        raw: &Pair,
        q: &Pair,
        k: &Pair,
    ) -> Result<Pair, Error> {
        let (s, d_k) = (self.subscript, q.ours.cols());
        let scores = Pair::scores(q, k, true, None)?;
        let text = Text {
            key: self.key(Quantity::ScaledScores),
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
    pub fn causal_twin(
        &self,
        trace: &mut Trace<'_>,
        q: &Pair,
        k: &Pair,
        v: &Pair,
    ) -> Result<(), Error> {
        let scaled = trace.settings.without != Some(Without::Scaling);
        let mut scores = Pair::scores(q, k, scaled, Some(self.position()))?;
        // Where its scores may be seen, they are those of the attention without the mask.
        let key = self.key(if scaled { Quantity::ScaledScores } else { Quantity::RawScores });
        if let Some(step) = trace.steps.iter().find(|s| s.key == key) {
            scores.name = step.operand_name();
        }
        let weights = self.push_weights(trace, Quantity::CausalWeights, "masked scores", &scores);
        self.push_output(
            trace,
            Quantity::CausalOutput,
            "O = A·V",
            [q, k, v],
            &weights,
            Some(self.position()),
        )?;
        Ok(())
    }

    fn push_weights(
        &self,
        trace: &mut Trace<'_>,
        quantity: Quantity,
        argument: &str,
        scores: &Pair,
    ) -> Pair {
        let t = trace.settings.temperature;
        let (weights, formula, meaning, kind, origin, code) = if trace.settings.without
            == Some(Without::Softmax)
        {
            let meaning = "Left out: magnitudes without meaning, of any sign and any sum, stand in for weights.";
            let formula = format!("A{} = {argument}", self.subscript);
            (scores.hidden_as_zero(), formula, meaning, Kind::Signed, Origin::unweighed(scores), "")
        } else {
            // Between two texts, the diagonal is nothing of its own.
            let meaning = if self.queries == self.keys {
                "Each row says how one query shares out its attention; each column, how much a token receives; the diagonal, how \
                 much a token attends to itself. The row's largest score is subtracted first, so that nothing overflows."
            } else {
                "Each row says how one query shares out its attention; each column, how much a token receives; the row's largest \
                 score is subtracted first, so that nothing overflows."
            };
            let argument =
                if t.get() == 1.0 { argument.to_owned() } else { format!("({argument}) / T") };
            let formula = format!("A{} = softmax({argument})", self.subscript);
            let code = "for row in scores { softmax(row, temperature) }";
            (
                scores.softmax(t),
                formula,
                meaning,
                Kind::Weights,
                Origin::softmax(scores, t.get()),
                code,
            )
        };
        let rows = (0..weights.ours.rows()).map(|i| weights.ours.row(i));
        let sums = rows.map(|row| row.iter().map(|w| f64::from(*w)).sum());
        // The sum of the powers has a rounding each, and the division two.
        let gap = Gap::from_one(sums, weights.ours.cols() + 2);
        Measured::note(&mut trace.measured.row_sum, gap);
        let hidden = scores.ours.as_slice().iter().zip(weights.ours.as_slice());
        for (_, weight) in hidden.filter(|(score, _)| **score == f32::NEG_INFINITY) {
            let gap = Gap { value: f64::from(weight.abs()), limit: Some(0.0) };
            Measured::note(&mut trace.measured.hidden, gap);
        }
        let name = if quantity == Quantity::CausalWeights { "Causal weights" } else { "Weights A" };
        let symbol = format!("A{}", self.subscript);
        let (key, name) = (self.key(quantity), self.name(name));
        let text = Text { key, symbol: &symbol, name: &name, formula: &formula, meaning, code };
        trace.push(&text, weights, kind, self.pairs(), origin)
    }

    fn push_output(
        &self,
        trace: &mut Trace<'_>,
        quantity: Quantity,
        formula: &str,
        [q, k, v]: [&Pair; 3],
        weights: &Pair,
        causal: Option<Position>,
    ) -> Result<Pair, Error> {
        let settings = trace.settings;
        let mut output = weights.blended(v)?;
        let code = if settings.without == Some(Without::Softmax) {
            "matmul(weights, v, output)"
        } else {
            let mask = causal.map_or(Mask::NONE, |p| Mask::NONE.causal(p));
            let attention = attention(settings.without != Some(Without::Scaling), mask);
            let one_call =
                fused(&attention.temperature(settings.temperature), &q.ours, &k.ours, &v.ours)?;
            let gap = Gap::between(&output, &one_call, &output.bound);
            Measured::note(&mut trace.measured.fused, gap);
            // What is shown is what a user of the kernels gets: it is rounded less often.
            output.ours = one_call;
            "attention.forward(q, k, v, output, scratch)"
        };
        let name = if quantity == Quantity::CausalOutput { "Causal output" } else { "Output" };
        let text = Text {
            key: self.key(quantity),
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

    fn key(&self, quantity: Quantity) -> StepKey {
        StepKey::new(self.section, quantity)
    }
}
