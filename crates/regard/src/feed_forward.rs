use regard_kernels::{Mat, multiply};

use crate::error::{Error, check_shape};
use crate::view::{saturating_product, zeros};
use crate::{Activation, Linear, Norm, Sequences, Threads};

/// The position-wise feed-forward network of a transformer block, plain or gated.
///
/// Hidden features live in a thread's scratch memory, a block of tokens at a time; they are never all there at once.
///
/// ```
/// use regard::{Activation, FeedForward, Linear, Sequences};
/// let up = Linear::new(vec![1.0, -1.0], 1, 2)?;
/// let down = Linear::new(vec![1.0, 10.0], 2, 1)?;
/// let layer = FeedForward::new(up, Activation::Relu, down)?; // max(x, 0) + 10·max(−x, 0)
/// let y = layer.forward(Sequences::new("x", &[2.0, -3.0], [1, 2, 1])?)?;
/// assert_eq!(y, [2.0, 30.0]);
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FeedForward {
    gate: Option<Linear>,
    up: Linear,
    activation: Activation,
    down: Linear,
}

impl FeedForward {
    /// down(f(up(x))): Vaswani et al. 2017, equation 2. `up` is \[inputs, hidden\], `down` \[hidden, outputs\].
    ///
    /// # Errors
    /// [`Error::Shape`] if `down` does not take what `up` gives.
    pub fn new(up: Linear, activation: Activation, down: Linear) -> Result<Self, Error> {
        check_shape(
            "the down projection's inputs",
            &[down.inputs()],
            &[up.outputs()],
            "the up projection's outputs",
        )?;
        Ok(Self { gate: None, up, activation, down })
    }

    /// down(f(gate(x)) · up(x)), element by element: a gated linear unit (Shazeer 2020, equation 6), SwiGLU with
    /// [`Activation::Silu`]. `gate` and `up` are \[inputs, hidden\], `down` \[hidden, outputs\].
    ///
    /// # Errors
    /// [`Error::Shape`] if `gate` and `up` differ, or if `down` does not take what they give.
    ///
    /// ```
    /// use regard::{Activation, FeedForward, Linear, Sequences};
    /// let one = |weight: f32| Linear::new(vec![weight], 1, 1);
    /// let layer = FeedForward::gated(one(1.0)?, Activation::Relu, one(2.0)?, one(10.0)?)?; // 10·(max(x, 0)·2x)
    /// let y = layer.forward(Sequences::new("x", &[3.0, -3.0], [1, 2, 1])?)?;
    /// assert_eq!(y, [180.0, 0.0]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn gated(
        gate: Linear,
        activation: Activation,
        up: Linear,
        down: Linear,
    ) -> Result<Self, Error> {
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
    pub fn inputs(&self) -> usize {
        self.up.inputs()
    }

    /// The number of hidden features.
    pub fn hidden(&self) -> usize {
        self.up.outputs()
    }

    /// The number of output features.
    pub fn outputs(&self) -> usize {
        self.down.outputs()
    }

    /// y \[batch, tokens, outputs\] for x \[batch, tokens, inputs\], in parallel over blocks of tokens.
    ///
    /// # Errors
    /// [`Error::Shape`] if x has another number of features.
    pub fn forward(&self, x: Sequences<'_>) -> Result<Vec<f32>, Error> {
        let [batch, n, features] = x.shape();
        check_shape(
            "the input",
            &[batch, n, features],
            &[batch, n, self.inputs()],
            "the layer's inputs",
        )?;
        let rows = x.rows()?;
        let mut out = zeros("the output of the feed-forward layer", &[batch, n, self.outputs()])?;
        self.for_each_rows(&mut out, |scratch, first, out| {
            let x = rows.rows_from(first, out.len() / self.outputs());
            self.down.rows(self.hide(x, scratch)?, out)
        })?;
        Ok(out)
    }

    /// x ← x + f(norm(x)), or norm(x + f(x)) if the norm comes `after`; in place, row by row.
    pub(crate) fn add_in_place(
        &self,
        x: &mut [f32],
        norm: &Norm,
        after: bool,
    ) -> Result<(), Error> {
        self.for_each_rows(x, |scratch, _, x| {
            let count = x.len() / self.outputs();
            let (normed, scratch) = scratch.split_at_mut_checked(x.len()).unwrap_or_default();
            if after {
                let hidden = self.hide(Mat::new(x, count, self.inputs())?, scratch)?;
                self.down.add_rows(hidden, x)?;
                norm.rows(x)
            } else {
                normed.copy_from_slice(x);
                norm.rows(normed)?;
                self.down.add_rows(self.hide(Mat::new(normed, count, self.inputs())?, scratch)?, x)
            }
        })
    }

    /// Calls `each` with scratch memory for a row of input and all hidden features of a block of rows.
    fn for_each_rows(
        &self,
        out: &mut [f32],
        each: impl Fn(&mut [f32], usize, &mut [f32]) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        /// As many hidden features stay in a second-level cache.
        const HIDDEN: usize = 72 * 1024;
        let wide = self.hidden().saturating_mul(1 + usize::from(self.gate.is_some()));
        let most = (HIDDEN / wide.max(1)).clamp(24, Threads::ROWS);
        let rows = out.len().checked_div(self.outputs()).unwrap_or(0);
        let up = self.up.multiply_adds(rows).saturating_mul(1 + usize::from(self.gate.is_some()));
        let work = up.saturating_add(self.down.multiply_adds(rows));
        let scratch = |rows| saturating_product(&[rows, wide.saturating_add(self.inputs())]);
        Threads::current().for_each_rows(out, self.outputs(), most, work, scratch, each)
    }

    /// The hidden features of rows of x, at the start of `scratch`.
    fn hide<'s>(&self, x: Mat<'_>, scratch: &'s mut [f32]) -> Result<Mat<'s>, Error> {
        let len = saturating_product(&[x.rows(), self.hidden()]);
        let (hidden, rest) = scratch.split_at_mut_checked(len).unwrap_or_default();
        if let Some(gate) = &self.gate {
            let up = rest.get_mut(..len).unwrap_or_default();
            gate.rows(x, hidden)?;
            self.up.rows(x, up)?;
            self.activation.apply(hidden);
            multiply(hidden, up)?;
        } else {
            self.up.rows(x, hidden)?;
            self.activation.apply(hidden);
        }
        Ok(Mat::new(hidden, x.rows(), self.hidden())?)
    }
}
