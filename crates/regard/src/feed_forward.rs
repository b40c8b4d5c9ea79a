use regard_kernels::{Mat, multiply};

use crate::error::{Error, check_shape};
use crate::view::saturating_product;
use crate::{Activation, Linear, Sequences, Tensor, Threads};

/// The position-wise feed-forward network of a transformer block, plain or gated.
///
/// Hidden features are computed for a block of tokens at a time, in the threads' scratch memory. Those of all tokens never
/// exist at once.
///
/// ```
/// use regard::{Activation, FeedForward, Linear, Sequences};
/// let up = Linear::from_conv1d(vec![1.0, -1.0], [1, 2])?;
/// let down = Linear::from_conv1d(vec![1.0, 10.0], [2, 1])?;
/// let layer = FeedForward::new(up, Activation::Relu, down)?; // max(x, 0) + 10·max(−x, 0)
/// let y = layer.forward(Sequences::new("x", &[2.0, -3.0], [1, 2, 1])?)?;
/// assert_eq!(y, [2.0, 30.0]);
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FeedForward {
    gate: Option<Linear>,
    up: Linear,
    activation: Activation,
    down: Linear,
}

/// The parts of a gated feed-forward layer: see [`FeedForward::gated`].
#[derive(Clone, Debug)]
pub struct GatedParts {
    /// \[inputs, hidden\]: its outputs go through the activation.
    pub gate: Linear,
    /// The function that is applied to the gate's outputs.
    pub activation: Activation,
    /// \[inputs, hidden\]: its outputs are multiplied by the gate.
    pub up: Linear,
    /// \[hidden, outputs\].
    pub down: Linear,
}

impl FeedForward {
    /// down(f(up(x))): Vaswani et al. 2017, equation 2. `up` is \[inputs, hidden\], `down` \[hidden, outputs\].
    ///
    /// # Errors
    /// [`Error::Shape`] if the inputs of `down` are not the outputs of `up`.
    pub fn new(up: Linear, activation: Activation, down: Linear) -> Result<Self, Error> {
        check_shape(
            "the down projection's inputs",
            &[down.inputs()],
            &[up.outputs()],
            "the up projection's outputs",
        )?;
        Ok(Self { gate: None, up, activation, down })
    }

    /// down(f(gate(x)) · up(x)), element by element: a gated linear unit (Shazeer 2020, equation 6). It is SwiGLU with
    /// [`Activation::Silu`] and GeGLU with [`Activation::GeluTanh`].
    ///
    /// # Errors
    /// [`Error::Shape`] if `gate` and `up` differ in their shapes, or if the inputs of `down` are not their outputs.
    ///
    /// ```
    /// use regard::{Activation, FeedForward, GatedParts, Linear, Sequences};
    /// let one = |weight: f32| Linear::from_conv1d(vec![weight], [1, 1]);
    /// let parts =
    ///     GatedParts { gate: one(1.0)?, activation: Activation::Relu, up: one(2.0)?, down: one(10.0)? };
    /// let layer = FeedForward::gated(parts)?; // 10·(max(x, 0)·2x)
    /// let y = layer.forward(Sequences::new("x", &[3.0, -3.0], [1, 2, 1])?)?;
    /// assert_eq!(y, [180.0, 0.0]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[doc(alias = "SwiGLU")]
    #[doc(alias = "GeGLU")]
    pub fn gated(parts: GatedParts) -> Result<Self, Error> {
        let GatedParts { gate, activation, up, down } = parts;
        let shape = |layer: &Linear| [layer.inputs(), layer.outputs()];
        check_shape(
            "the gate projection",
            &shape(&gate),
            &shape(&up),
            "that of the up projection",
        )?;
        Ok(Self { gate: Some(gate), ..Self::new(up, activation, down)? })
    }

    /// The number of input features.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.up.inputs()
    }

    /// The number of hidden features.
    #[must_use]
    pub fn hidden(&self) -> usize {
        self.up.outputs()
    }

    /// The number of output features.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.down.outputs()
    }

    /// y \[batch, tokens, outputs\] for x \[batch, tokens, inputs\], in parallel over blocks of tokens.
    ///
    /// # Errors
    /// [`Error::Shape`] if x has another number of features.
    pub fn forward(&self, x: Sequences<'_>) -> Result<Tensor<3>, Error> {
        let [batch, n, features] = x.shape();
        let expected = [batch, n, self.inputs()];
        check_shape("the input", &[batch, n, features], &expected, "the layer's inputs")?;
        let shape = [batch, n, self.outputs()];
        let mut out = Tensor::zeros("the output of the feed-forward layer", shape)?;
        let rows = x.rows()?;
        /// The number of hidden features that stay in a second-level cache.
        const HIDDEN: usize = 72 * 1024;
        let wide = self.hidden().saturating_mul(1 + usize::from(self.gate.is_some()));
        let most = (HIDDEN / wide.max(1)).clamp(24, Threads::ROWS);
        let up = saturating_product(&[rows.rows(), self.inputs(), wide]);
        let work = up.saturating_add(self.down.multiply_adds(rows.rows()));
        Threads::current().for_each_rows(
            out.as_mut_slice(),
            self.outputs(),
            most,
            work,
            |rows| saturating_product(&[rows, wide]),
            |scratch, first, out| {
                let x = rows.rows_from(first, out.len() / self.outputs());
                self.down.rows(self.hide(x, scratch)?, out)
            },
        )?;
        Ok(out)
    }

    /// Computes the hidden features of rows of x, at the start of `scratch`.
    fn hide<'s>(&self, x: Mat<'_>, scratch: &'s mut [f32]) -> Result<Mat<'s>, Error> {
        let len = saturating_product(&[x.rows(), self.hidden()]);
        let (hidden, rest) = scratch.split_at_mut(len);
        if let Some(gate) = &self.gate {
            let up = &mut rest[..len];
            gate.rows(x, hidden)?;
            self.up.rows(x, up)?;
            self.activation.apply_here(hidden);
            multiply(hidden, up)?;
        } else {
            self.up.rows(x, hidden)?;
            self.activation.apply_here(hidden);
        }
        Ok(Mat::new(hidden, x.rows(), self.hidden())?)
    }
}
