use regard::Threads;

use crate::trace::Trace;
use crate::{Check, Error, Example, Inputs, Settings, Step, StepKey, Without, broken};

/// An attention computed step by step.
///
/// ```
/// use regard_walkthrough::{Example, Settings, Walkthrough};
/// let walk = Walkthrough::run(Example::TheCatSat, &Settings::default())?;
/// for step in &walk.steps {
///     println!("{}: {} {:?}", step.name, step.formula, step.matrix.shape());
/// }
/// assert!(walk.checks.iter().all(|check| check.holds() == Some(true)));
/// # Ok::<(), regard_walkthrough::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Walkthrough {
    /// The example.
    pub example: Example,
    /// The settings.
    pub settings: Settings,
    /// The tokens. Empty if the example has none.
    pub tokens: Vec<String>,
    /// The steps in the order in which they are computed.
    pub steps: Vec<Step>,
    /// The checks, measured on the numbers of the steps.
    pub checks: Vec<Check>,
    /// The lines of Python that draw the same numbers in PyTorch, for the user's own tokens.
    pub python: Option<String>,
    /// The effect of leaving out a step, compared with the full computation. `None` if nothing is left out.
    pub broken: Option<String>,
}

impl Walkthrough {
    /// Computes all steps of an example.
    ///
    /// # Errors
    /// No error is known, because the examples' shapes fit. Errors of the kernels are passed on.
    pub fn run(example: Example, settings: &Settings) -> Result<Self, Error> {
        Self::compute(&Inputs::new(example), settings)
    }

    /// Computes all steps that follow from some inputs.
    ///
    /// # Errors
    /// No error is known, because inputs are checked. Errors of the kernels are passed on.
    ///
    /// ```
    /// use regard_walkthrough::{Example, Inputs, Quantity, Section, Settings, StepKey, Walkthrough};
    /// let mut inputs = Inputs::new(Example::MathOfAttention);
    /// inputs.set_heads(4)?;
    /// let walk = Walkthrough::compute(&inputs, &Settings::default())?;
    /// assert_eq!(walk.step(StepKey::new(Section::Head(4), Quantity::Weights)).map(|w| w.matrix.shape()), Some((4, 4)));
    /// # Ok::<(), regard_walkthrough::Error>(())
    /// ```
    pub fn compute(inputs: &Inputs, settings: &Settings) -> Result<Self, Error> {
        let mut walk = Self::steps_of(inputs, settings)?;
        if let Some(without) = settings.without {
            // Attention without its mask is compared with causal attention.
            let causal = settings.causal || without == Without::Mask;
            let full = Self::steps_of(inputs, &Settings { without: None, causal, ..*settings })?;
            walk.broken = Some(broken::describe(without, settings.t(), &full.steps, &walk.steps));
        }
        Ok(walk)
    }

    pub(crate) fn steps_of(inputs: &Inputs, settings: &Settings) -> Result<Self, Error> {
        let mut trace = Trace::new(settings, inputs);
        Threads::ONE.install(|| (inputs.example().entry().run)(&mut trace))?;
        let checks = trace.checks();
        Ok(Self {
            example: inputs.example(),
            settings: *settings,
            tokens: inputs.tokens().to_vec(),
            steps: trace.steps,
            checks,
            python: inputs.python(),
            broken: None,
        })
    }

    /// The step with this key.
    pub fn step(&self, key: impl Into<StepKey>) -> Option<&Step> {
        let key = key.into();
        self.steps.iter().find(|s| s.key == key)
    }
}
