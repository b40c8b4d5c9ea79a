//! How the output of a sublayer is added to its input.

use regard_kernels::{Mat, add};

use crate::error::{Error, check_shape};
use crate::{Linear, Norm};

/// The norms and the residual connection around a sublayer f, which is attention or a feed-forward layer.
///
/// The last step of f is a projection. Its product adds to x where it is written, so that the residual connection costs no
/// pass of its own; an output norm takes that chance away.
#[derive(Clone, Debug)]
pub(crate) struct Residual {
    /// Before f, or after the residual connection.
    pub(crate) norm: Norm,
    /// The norm stands after the residual connection: norm(x + f(x)) instead of x + f(norm(x)).
    pub(crate) after: bool,
    /// A second norm, between f and the residual connection.
    pub(crate) output_norm: Option<Norm>,
}

impl Residual {
    pub(crate) fn new(norm: Norm, after: bool) -> Self {
        Self { norm, after, output_norm: None }
    }

    /// The same with a norm of f's output. `name` is what errors call the norm.
    pub(crate) fn with_output_norm(
        mut self,
        name: &'static str,
        norm: Norm,
    ) -> Result<Self, Error> {
        let features = self.norm.features();
        check_shape(name, &[norm.features()], &[features], "the block's features")?;
        self.output_norm = Some(norm);
        Ok(self)
    }

    /// What f takes: norm(x) in `normed`, or x itself if the norm comes after. For rows x.
    pub(crate) fn input<'x>(
        &self,
        x: &'x [f32],
        normed: &'x mut [f32],
    ) -> Result<&'x [f32], Error> {
        if self.after {
            return Ok(x);
        }
        normed.copy_from_slice(x);
        self.norm.rows(normed)?;
        Ok(normed)
    }

    /// Elements of scratch memory that [`add_rows`](Self::add_rows) takes for each element of x.
    pub(crate) fn scratch(&self) -> usize {
        usize::from(self.output_norm.is_some())
    }

    /// Rows x ← x + output_norm(hW + b), where `last` is the projection that ends f; then the norm, if it comes after.
    pub(crate) fn add_rows(
        &self,
        last: &Linear,
        h: Mat<'_>,
        x: &mut [f32],
        scratch: &mut [f32],
    ) -> Result<(), Error> {
        if let Some(norm) = &self.output_norm {
            let out = &mut scratch[..x.len()];
            last.rows(h, out)?;
            norm.rows(out)?;
            add(x, out)?;
        } else {
            last.add_rows(h, x)?;
        }
        if self.after { self.norm.rows(x) } else { Ok(()) }
    }
}
