use crate::{Kind, Quantity, Section, StepKey, Walkthrough};

impl Walkthrough {
    /// The attention of this walkthrough in four lines: projections, scores, weights and output, with the symbols, the heads,
    /// the mask and the temperature of its steps. `None` if the walkthrough has no attention with an output.
    ///
    /// ```
    /// use regard_walkthrough::{Example, Settings, Walkthrough};
    /// let walk = Walkthrough::run(Example::CrossAttention, &Settings::default())?;
    /// assert_eq!(walk.in_four_lines().as_ref().map(|lines| lines[0].as_str()), Some("Q = X·W_Q,  K = E·W_K,  V = E·W_V"));
    /// # Ok::<(), regard_walkthrough::Error>(())
    /// ```
    pub fn in_four_lines(&self) -> Option<[String; 4]> {
        let output = self.step(Quantity::Output)?;
        let heads = self.steps.iter().filter_map(|step| step.key.head()).max().unwrap_or(0);
        let first = if heads == 0 { Section::Main } else { Section::Head(1) };
        let of_first = |quantity| self.step(StepKey::new(first, quantity));
        let weights = of_first(Quantity::Weights)?;
        let [s, q, k] = [Quantity::RawScores, Quantity::Q, Quantity::K]
            .map(|quantity| of_first(quantity).map_or("", |step| step.symbol.as_str()));

        let formulas = [Quantity::Q, Quantity::K, Quantity::V]
            .map(|quantity| self.step(quantity).map_or("", |step| step.formula.as_str()));
        let scale = if of_first(Quantity::ScaledScores).is_some() { " / √d_k" } else { "" };
        let mask =
            if of_first(Quantity::MaskedScores).is_some() { ",  −∞ where j > i" } else { "" };
        let each =
            if heads > 1 { format!(",  and so in each of {heads} heads") } else { String::new() };
        let temperature = if self.settings.temperature.get() == 1.0 { "" } else { " / T" };
        let a = &weights.symbol;
        Some([
            formulas.join(",  "),
            format!("{s} = {q}·{k}ᵀ{scale}{mask}{each}"),
            match weights.kind {
                Kind::Weights => format!("{a} = softmax({s}{temperature}), row by row"),
                _ => format!("{a} = {s}, without softmax"),
            },
            if heads == 0 { output.formula.clone() } else { self.mixture(heads) },
        ])
    }

    /// The last line for several heads: "O = \[A₁·V₁ A₂·V₂\]·W_O".
    fn mixture(&self, heads: usize) -> String {
        let symbol = |head, quantity| {
            let step = self.step(StepKey::new(Section::Head(head), quantity));
            step.map_or("", |step| step.symbol.as_str())
        };
        let blend =
            |head| format!("{}·{}", symbol(head, Quantity::Weights), symbol(head, Quantity::V));
        format!("O = [{}]·W_O", (1..=heads).map(blend).collect::<Vec<_>>().join(" "))
    }
}
