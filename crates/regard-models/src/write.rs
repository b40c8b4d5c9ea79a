//! Text that a model writes, one token after another.

use core::mem;

use rand_mt::Mt;

use crate::change::Plan;
use crate::forward::{Caches, Runner};
use crate::place::Keep;
use crate::{Change, Error, Input, Model, OutputHead, check_logits};

/// Chooses the next token.
///
/// At temperature 0 it is the token with the largest logit, the first of equal ones. At a temperature T it is drawn with the
/// probabilities softmax(logits / T): for a random number u in [0, 1), it is the first token, by id, at which the sum of
/// probabilities exceeds u. The random numbers are those of NumPy's `numpy.random.RandomState(seed).random_sample()`, a
/// Mersenne twister (MT19937, Matsumoto & Nishimura 1998) whose numbers have 53 bits. The same seed gives the same tokens.
///
/// ```
/// use regard_models::Sampler;
/// let logits = [0.0, 3.0, 1.0];
/// assert_eq!(Sampler::greedy().choose(&logits), Some(1));
/// let mut sampler = Sampler::new(1.0, 42)?; // p = [0.04, 0.84, 0.11]; u = 0.375, 0.951, 0.732
/// assert_eq!([(); 3].map(|()| sampler.choose(&logits)), [Some(1), Some(2), Some(1)]);
/// # Ok::<(), regard_models::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sampler {
    temperature: f64,
    random: Mt,
}

impl Sampler {
    /// Chooses the largest logit.
    pub fn greedy() -> Self {
        Self { temperature: 0.0, random: Mt::new(0) }
    }

    /// Draws at a temperature, or chooses the largest logit if it is 0.
    ///
    /// # Errors
    /// [`Error::Range`] if the temperature is negative or not finite.
    pub fn new(temperature: f64, seed: u32) -> Result<Self, Error> {
        if !(temperature >= 0.0 && temperature.is_finite()) {
            let what = format!(
                "the temperature is {temperature}; a token is drawn at a temperature from 0 (the likeliest token) up to a finite number"
            );
            return Err(Error::Range(what));
        }
        Ok(Self { temperature, random: Mt::new(seed) })
    }

    /// The id of the token, or `None` if there are no logits. [`check_logits`] tells whether all of them are numbers.
    pub fn choose(&mut self, logits: &[f32]) -> Option<u32> {
        let best =
            (0..logits.len()).reduce(|best, i| if logits[i] > logits[best] { i } else { best })?;
        if self.temperature == 0.0 {
            return u32::try_from(best).ok();
        }
        let largest = f64::from(logits[best]);
        let weight = |x: f32| ((f64::from(x) - largest) / self.temperature).exp();
        let sum: f64 = logits.iter().map(|x| weight(*x)).sum();
        let (high, low) = (self.random.next_u32() >> 5, self.random.next_u32() >> 6);
        let u = (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0;
        let mut left = u * sum;
        let chosen = logits.iter().position(|x| {
            left -= weight(*x);
            left < 0.0
        });
        // Rounding can leave a remainder after the last token.
        u32::try_from(chosen.unwrap_or(best)).ok()
    }
}

/// A text that a model writes: [`Model::write`] begins one. The items are its tokens.
///
/// It ends when the number of tokens is reached, and after a token that ends a text.
#[derive(Debug)]
pub struct Writing<'m> {
    model: &'m Model,
    /// All tokens so far.
    input: Input,
    keep: Keep,
    plans: [Plan; 1],
    caches: Option<Caches>,
    sampler: Sampler,
    left: usize,
    is_first: bool,
}

impl Model {
    /// Continues `input` (the decoder's text if there is one) by at most `count` tokens, but for those that
    /// [`suppress`](crate::Description::suppress) leaves out. Keys and values are cached, unless a change makes earlier tokens depend
    /// on later ones.
    ///
    /// # Errors
    /// As [`Pass::run`](crate::Pass::run); and [`Error::Unsupported`] if the model has no head that predicts tokens,
    /// [`Error::Range`] if it has too few positions for so many.
    ///
    /// ```
    /// use regard_models::{Input, Model, Sampler};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let model = Model::open(format!("{models}/tiny-gpt2"))?;
    /// for id in model.write(&Input::tokens([7, 8, 9]), 4, &[], Sampler::new(0.8, 1)?)? {
    ///     assert!((id? as usize) < model.description().vocabulary);
    /// }
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn write(
        &self,
        input: &Input,
        count: usize,
        changes: &[Change],
        sampler: Sampler,
    ) -> Result<Writing<'_>, Error> {
        let description = self.description();
        if !description.stack.causal || !self.predicts_tokens() {
            let why = match &description.head {
                OutputHead::Classes { .. } => ": it is a classifier".to_owned(),
                head => head.refusal().map_or_else(String::new, |why| format!(": {why}")),
            };
            let what = format!("the model has no head that predicts the next token{why}");
            return Err(Error::Unsupported(what));
        }
        let given =
            if description.encoder.is_some() { &input.decoder_ids } else { &input.ids }.len();
        // The last token is written but not read.
        let all = given.saturating_add(count.saturating_sub(1));
        if let Some(positions) = description.embedding.positions
            && all > positions.most()
        {
            let most = positions.most();
            return Err(Error::Range(format!(
                "{given} tokens and {count} more are too many: the model has positions for {most}"
            )));
        }
        let plan = Plan::new(changes, self, input)?;
        let cacheable = plan.cacheable && !description.embedding.counts_tokens();
        let caches =
            if cacheable { Some(Caches::new(self, all, self.tokens(input))?) } else { None };
        let (keep, input) = (Keep::default(), input.clone());
        Ok(Writing {
            model: self,
            input,
            keep,
            plans: [plan],
            caches,
            sampler,
            left: count,
            is_first: true,
        })
    }

    /// The most likely tokens after those of `input`, at most `count`: [`write`](Self::write) at the temperature 0.
    ///
    /// # Errors
    /// The errors of [`write`](Self::write).
    ///
    /// ```
    /// use regard_models::{Input, Model};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let model = Model::open(format!("{models}/tiny-gpt2"))?;
    /// let next = model.generate(&Input::tokens([7, 8, 9]), 4, &[])?;
    /// let after_two = Input::tokens([7, 8, 9, next[0], next[1]]);
    /// assert_eq!(model.generate(&after_two, 2, &[])?, next[2..]);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn generate(
        &self,
        input: &Input,
        count: usize,
        changes: &[Change],
    ) -> Result<Vec<u32>, Error> {
        self.write(input, count, changes, Sampler::greedy())?.collect()
    }
}

impl Writing<'_> {
    /// The next token.
    fn step(&mut self) -> Result<Option<u32>, Error> {
        let description = self.model.description();
        let decoding = description.encoder.is_some();
        let ids = if decoding { &mut self.input.decoder_ids } else { &mut self.input.ids };
        let known = self.caches.as_mut().map_or(0, |caches| caches.keep(description, ids.len()));
        let cached: Vec<u32> = ids.drain(..known).collect();
        let mut runner = Runner::new(self.model, &self.keep, &self.plans);
        runner.caches = self.caches.as_mut();
        runner.last_only = true;
        let (trace, _) = runner.run(core::slice::from_ref(&self.input))?;
        let mut logits = trace.logits.map_or_else(Vec::new, |logits| logits.data);
        check_logits(&logits)?;
        description.suppress(&mut logits, mem::take(&mut self.is_first));
        let next = self.sampler.choose(&logits);
        let ids = if decoding { &mut self.input.decoder_ids } else { &mut self.input.ids };
        ids.splice(..0, cached);
        ids.extend(next);
        if next.is_some_and(|next| description.ends.contains(&next)) {
            self.left = 0;
        }
        Ok(next)
    }
}

impl Iterator for Writing<'_> {
    type Item = Result<u32, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let next = self.step();
        if next.is_err() {
            self.left = 0;
        }
        next.transpose()
    }
}
