//! The steps from scores to output that all examples share.

use regard_kernels::{Mask, Position};

use crate::check::Gap;
use crate::origin::Origin;
use crate::pair::{Pair, attention, fused};
use crate::step::Kind;
use crate::trace::{Axes, Text, Trace, labels};
use crate::{Error, Quantity, RowRole, Section, StepKey, Without};

/// Attention from tokens to output without its steps in between, and the operands of its last product.
pub(crate) struct Whole {
    pub output: Pair,
    weights: Pair,
    v: Pair,
}

impl Whole {
    /// The attention of the tokens `x` to one another. A position stands for a causal mask.
    pub fn new(
        trace: &Trace<'_>,
        x: &Pair,
        w: &[Pair; 3],
        causal: Option<Position>,
    ) -> Result<Self, Error> {
        let settings = trace.settings;
        let left_out = settings.without == Some(Without::Projections);
        let project = |w: &Pair| if left_out { Ok(x.clone()) } else { x.times(w) };
        let (q, k, v) = (project(&w[0])?, project(&w[1])?, project(&w[2])?);
        let scaled = settings.without != Some(Without::Scaling);
        let scores = Pair::scores(&q, &k, scaled, causal)?;
        if settings.without == Some(Without::Softmax) {
            let weights = scores.hidden_as_zero();
            return Ok(Self { output: weights.blended(&v)?, weights, v });
        }
        let weights = scores.softmax(settings.temperature);
        let mask = causal.map_or(Mask::NONE, |position| Mask::NONE.causal(position));
        let attention = attention(scaled, mask).temperature(settings.temperature);
        let ours = fused(&attention, &q.ours, &k.ours, &v.ours)?;
        Ok(Self { output: Pair { ours, ..weights.blended(&v)? }, weights, v })
    }

    /// Adds the output of these tokens.
    pub fn push(
        self,
        trace: &mut Trace<'_>,
        section: Section,
        (rows, tokens): (RowRole, &[String]),
    ) -> Pair {
        let Self { output, weights, v } = self;
        let cols = labels("v", v.ours.cols());
        let (weights, v) = (weights.named("A", tokens, tokens), v.named("V", tokens, &cols));
        let text = Text::of(StepKey::new(section, Quantity::Output));
        let (axes, origin) = (Axes::new(rows, tokens, &cols), Origin::product(&weights, &v));
        trace.push(&text, output, Kind::Signed, axes, origin)
    }
}

/// One attention, from scores to output.
pub(crate) struct Head<'a> {
    pub section: Section,
    /// The suffix of each name: "" or ", head 1".
    pub of: &'a str,
    /// The suffix of each symbol: "" or "₁".
    pub subscript: &'a str,
    pub queries: &'a [String],
    pub keys: &'a [String],
    /// The token of the first query.
    pub first: usize,
    /// Whether a causal mask makes sense. Between two texts it does not.
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
    /// Adds the scores, scaled and masked by the settings, then the weights, and the output if there are values.
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
            ..Text::of(Quantity::RawScores)
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
                ..Text::of(Quantity::MaskedScores)
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
            ..Text::of(Quantity::ScaledScores)
        };
        Ok(trace.push(&text, scores, Kind::Signed, self.pairs(), Origin::over_root(raw, d_k)))
    }

    /// Adds the weights and the output of the same attention with a causal mask, for comparison.
    pub fn causal_twin(
        &self,
        trace: &mut Trace<'_>,
        q: &Pair,
        k: &Pair,
        v: &Pair,
    ) -> Result<(), Error> {
        let scaled = trace.settings.without != Some(Without::Scaling);
        let mut scores = Pair::scores(q, k, scaled, Some(self.position()))?;
        // The mask does not change the visible scores, so these are the scores without it.
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
        let (t, symbol) = (trace.settings.temperature, format!("A{}", self.subscript));
        let (heading, formula, weights, kind, origin) =
            if trace.settings.without == Some(Without::Softmax) {
                let (weights, origin) = (scores.hidden_as_zero(), Origin::unweighed(scores));
                let formula = format!("{symbol} = {argument}");
                ("weights without softmax", formula, weights, Kind::Signed, origin)
            } else {
                // Between two texts, the diagonal has no meaning.
                let is_of_one = self.queries == self.keys;
                let heading = if is_of_one { "weights" } else { "weights between texts" };
                let argument =
                    if t.get() == 1.0 { argument.to_owned() } else { format!("({argument}) / T") };
                let formula = format!("{symbol} = softmax({argument})");
                (heading, formula, scores.softmax(t), Kind::Weights, Origin::softmax(scores, t))
            };
        let rows = (0..weights.ours.rows()).map(|i| weights.ours.row(i));
        let sums = rows.map(|row| row.iter().map(|w| f64::from(*w)).sum());
        // Each power of the sum is rounded once, and the division twice.
        let gap = Gap::from_one(sums, weights.ours.cols() + 2);
        trace.measure("rows sum to 1", gap);
        let hidden = scores.ours.as_slice().iter().zip(weights.ours.as_slice());
        let gaps = hidden
            .filter(|(score, _)| **score == f32::NEG_INFINITY)
            .map(|(_, weight)| Gap { value: f64::from(weight.abs()), limit: Some(0.0) });
        if let Some(gap) = gaps.reduce(Gap::worse) {
            trace.measure("nothing hidden is seen", gap);
        }
        let name = if quantity == Quantity::CausalWeights {
            "Causal attention weights"
        } else {
            "Attention weights A"
        };
        let text = Text {
            symbol: &symbol,
            name: &self.name(name),
            formula: &formula,
            ..Text::named(heading, self.key(quantity))
        };
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
            trace.measure("step by step equals one call", gap);
            // The step shows the output of one call, as a user of the kernels gets it. It has fewer roundings.
            output.ours = one_call;
            "attention.forward(q, k, v, output, scratch)"
        };
        let name = if quantity == Quantity::CausalOutput { "Causal output" } else { "Output" };
        let text = Text {
            key: self.key(quantity),
            symbol: &format!("O{}", self.subscript),
            name: &self.name(name),
            formula,
            meaning: "Each token's new vector: the mean of all values, weighted by the token's row of A.",
            code,
        };
        let cols = labels("v", v.ours.cols());
        let axes = Axes { first: self.first, ..Axes::new(RowRole::Queries, self.queries, &cols) };
        Ok(trace.push(&text, output, Kind::Signed, axes, Origin::product(weights, v)))
    }

    /// The position of the first query among the keys.
    fn position(&self) -> Position {
        Position::Offset(self.first as isize)
    }

    fn pairs(&self) -> Axes<'_> {
        Axes { first: self.first, ..Axes::new(RowRole::Pairs, self.queries, self.keys) }
    }

    fn name(&self, name: &str) -> String {
        format!("{name}{}", self.of)
    }

    fn key(&self, quantity: Quantity) -> StepKey {
        StepKey::new(self.section, quantity)
    }
}
