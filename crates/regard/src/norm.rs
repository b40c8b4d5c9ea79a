use regard_kernels::{Error as KernelError, MatMut, layer_norm, rms_norm};

use crate::error::{Error, check_shape};
use crate::view::check_elements;
use crate::{Sequences, Tensor, Threads};

const OUTPUT: &str = "the output of the norm";

/// Normalization of each token's features: layer norm or RMS norm.
///
/// ```
/// use regard::{Norm, Sequences};
/// let norm = Norm::layer(vec![1.0; 2], vec![0.5; 2], 0.0)?;
/// let y = norm.forward(Sequences::new("x", &[1.0, 3.0, 12.0, 10.0], [1, 2, 2])?)?;
/// assert_eq!(y, [-0.5, 1.5, 1.5, -0.5]);
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Norm {
    gamma: Vec<f32>,
    /// RMS norm has no β.
    beta: Option<Vec<f32>>,
    epsilon: f32,
}

impl Norm {
    /// Layer norm (Ba, Kiros and Hinton 2016): (x − mean)/√(variance + ε) · γ + β, with γ and β \[features\].
    ///
    /// # Errors
    /// [`Error::Shape`] if γ and β differ in length, [`KernelError::Range`] if ε is negative, infinite or NaN.
    pub fn layer(gamma: Vec<f32>, beta: Vec<f32>, epsilon: f32) -> Result<Self, Error> {
        check_shape("beta", &[beta.len()], &[gamma.len()], "as many as gamma")?;
        Self::rms(gamma, epsilon).map(|norm| Self { beta: Some(beta), ..norm })
    }

    /// RMS norm (Zhang and Sennrich 2019): x/√(mean of x² + ε) · γ, with γ \[features\].
    ///
    /// # Errors
    /// [`KernelError::Range`] if ε is negative, infinite or NaN.
    ///
    /// ```
    /// use regard::{Norm, Sequences};
    /// let norm = Norm::rms(vec![1.0; 2], 0.0)?;
    /// assert_eq!(norm.forward(Sequences::new("x", &[7.0, 1.0], [1, 1, 2])?)?, [1.4, 0.2]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn rms(gamma: Vec<f32>, epsilon: f32) -> Result<Self, Error> {
        if !(epsilon >= 0.0 && epsilon.is_finite()) {
            return Err(KernelError::Range {
                name: "epsilon",
                value: epsilon,
                range: "finite and 0 or above",
            }
            .into());
        }
        Ok(Self { gamma, beta: None, epsilon })
    }

    /// The number of features.
    #[must_use]
    pub fn features(&self) -> usize {
        self.gamma.len()
    }

    /// γ, the factor of each feature.
    #[must_use]
    pub fn gamma(&self) -> &[f32] {
        &self.gamma
    }

    /// β, which is added to each feature; `None` for RMS norm.
    #[must_use]
    pub fn beta(&self) -> Option<&[f32]> {
        self.beta.as_deref()
    }

    /// ε, which is added to the variance or to the mean square.
    #[must_use]
    pub fn epsilon(&self) -> f32 {
        self.epsilon
    }

    /// y \[batch, tokens, features\] for x of the same shape, in parallel over blocks of tokens.
    ///
    /// # Errors
    /// [`Error::Shape`] if x has another number of features.
    pub fn forward(&self, x: Sequences<'_>) -> Result<Tensor<3>, Error> {
        let mut out = Tensor::zeros(OUTPUT, x.shape())?;
        self.forward_into(x, out.as_mut_slice())?;
        Ok(out)
    }

    /// [`forward`](Self::forward) into `out`, which has as many elements as x, whatever they are.
    ///
    /// # Errors
    /// As [`forward`](Self::forward), and [`Error::Elements`] if `out` has another number of elements.
    ///
    /// ```
    /// use regard::{Norm, Sequences};
    /// let (norm, mut y) = (Norm::rms(vec![1.0, 1.0], 0.0)?, [0.0; 2]);
    /// norm.forward_into(Sequences::new("x", &[7.0, -1.0], [1, 1, 2])?, &mut y)?;
    /// assert_eq!(y, [1.4, -0.2]); // divided by the root of the mean square, 5
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn forward_into(&self, x: Sequences<'_>, out: &mut [f32]) -> Result<(), Error> {
        let [batch, n, features] = x.shape();
        let expected = [batch, n, self.features()];
        check_shape("the input", &[batch, n, features], &expected, "the norm's features")?;
        check_elements(OUTPUT, out.len(), &expected)?;
        // Three passes over numbers in a cache take as long as about ten multiply-adds for each number.
        let work = x.data().len().saturating_mul(10);
        Threads::current().for_each_rows(
            out,
            self.features(),
            Threads::ROWS,
            work,
            |_| 0,
            |_, first, out| {
                out.copy_from_slice(&x.data()[first * features..][..out.len()]);
                self.rows(out)
            },
        )
    }

    /// Normalizes whole rows in place.
    fn rows(&self, x: &mut [f32]) -> Result<(), Error> {
        let x = MatMut::new(x, x.len().checked_div(self.features()).unwrap_or(0), self.features())?;
        match &self.beta {
            Some(beta) => layer_norm(x, &self.gamma, beta, self.epsilon)?,
            None => rms_norm(x, &self.gamma, self.epsilon)?,
        }
        Ok(())
    }
}
