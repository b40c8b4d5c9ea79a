use crate::{Error, Example, Settings, Step, broken};

/// An attention computed step by step, ready to be shown.
///
/// ```
/// use regard_walkthrough::{Example, Settings, Walkthrough};
/// let walk = Walkthrough::run(Example::TheCatSat, &Settings::default())?;
/// for step in &walk.steps {
///     println!("{}: {} {:?}", step.name, step.formula, step.matrix.shape());
/// }
/// assert!(walk.checks.iter().all(|check| check.holds()));
/// # Ok::<(), regard_walkthrough::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Walkthrough {
    /// Which example this is.
    pub example: Example,
    /// What the learner chose.
    pub settings: Settings,
    /// The tokens, where the example has some.
    pub tokens: Vec<String>,
    /// The steps in the order in which they are computed.
    pub steps: Vec<Step>,
    /// What must hold for the numbers shown, measured on them.
    pub checks: Vec<Check>,
    /// What leaving a step out broke, beside the full computation. `None` if nothing is left out.
    pub broken: Option<String>,
}

/// Something that must hold, as measured on the numbers shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// What must hold: "rows sum to 1".
    pub name: String,
    /// The deviation measured.
    pub value: f64,
    /// The most that rounding explains.
    pub limit: f64,
    /// What was measured, in one sentence.
    pub meaning: String,
}

impl Check {
    /// Whether the deviation is within the limit. Without softmax, rows do not sum to 1: that check fails, and should.
    pub fn holds(&self) -> bool {
        self.value <= self.limit
    }
}

impl Walkthrough {
    /// Computes all steps of an example.
    ///
    /// # Errors
    /// None that is known: the examples' shapes fit. What the kernels might say is passed on.
    pub fn run(example: Example, settings: &Settings) -> Result<Self, Error> {
        let mut walk = Self::of(example, settings)?;
        if let Some(without) = settings.without {
            let full = Self::of(example, &Settings { without: None, ..*settings })?;
            walk.broken = Some(broken::describe(without, &full, &walk));
        }
        Ok(walk)
    }

    fn of(example: Example, settings: &Settings) -> Result<Self, Error> {
        let trace = example.run(settings)?;
        let checks = trace.checks();
        Ok(Self { example, settings: *settings, tokens: trace.tokens, steps: trace.steps, checks, broken: None })
    }

    /// The step of that key.
    pub fn step(&self, key: &str) -> Option<&Step> {
        self.steps.iter().find(|s| s.key == key)
    }
}
