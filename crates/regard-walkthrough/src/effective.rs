//! The settings that an example responds to.

use regard_kernels::Temperature;

use crate::{Error, Inputs, Settings, Walkthrough, Without};

/// The settings that change a step of an example. A view shows only their controls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effective {
    /// Whether the temperature changes a step.
    pub temperature: bool,
    /// Whether the causal mask changes a step.
    pub causal: bool,
    /// The steps that can be left out.
    pub without: Vec<Without>,
}

impl Effective {
    /// Computes the example with each setting in turn, and compares its steps with those of the default settings.
    ///
    /// # Errors
    /// Those of [`Walkthrough::compute`].
    ///
    /// ```
    /// use regard_walkthrough::{Effective, Example, Inputs};
    /// let norm = Effective::of(&Inputs::new(Example::LayerNorm))?;
    /// assert!(!norm.temperature && !norm.causal && norm.without.is_empty());
    /// assert!(Effective::of(&Inputs::new(Example::TheCatSat))?.causal);
    /// # Ok::<(), regard_walkthrough::Error>(())
    /// ```
    pub fn of(inputs: &Inputs) -> Result<Self, Error> {
        let plain = Settings::default();
        let before = Walkthrough::steps_of(inputs, &plain)?.steps;
        let changes = |settings: Settings| -> Result<bool, Error> {
            let after = Walkthrough::steps_of(inputs, &settings)?.steps;
            let is_same = before.len() == after.len()
                && before
                    .iter()
                    .zip(&after)
                    .all(|(a, b)| a.key == b.key && a.formula == b.formula && a.matrix == b.matrix);
            Ok(!is_same)
        };
        let temperature = Temperature::new(2.0).unwrap_or_default();
        let causal = changes(Settings { causal: true, ..plain })?;
        let mut without = Vec::new();
        for &step in Without::ALL {
            // Attention without its mask is compared with causal attention.
            let is_effective = if step == Without::Mask {
                causal
            } else {
                changes(Settings { without: Some(step), ..plain })?
            };
            without.extend(is_effective.then_some(step));
        }
        Ok(Self { temperature: changes(Settings { temperature, ..plain })?, causal, without })
    }
}
