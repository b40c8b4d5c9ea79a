use regard_kernels::{Mat, MatMut, Pairing, rotate};

use crate::{Error, Rotary};

/// Cosines and sines of the positions of one run.
pub(crate) struct Angles {
    /// \[positions, pairs\]
    cos: Vec<f32>,
    sin: Vec<f32>,
    pairs: usize,
}

impl Angles {
    /// The angles of `count` positions from `first` on.
    pub(crate) fn new(
        rotary: &Rotary,
        divisors: Option<&[f32]>,
        first: usize,
        count: usize,
    ) -> Self {
        let (frequencies, factor) = rotary.frequencies(first + count, divisors);
        let angles = || {
            (first..first + count).flat_map(|position| {
                frequencies.iter().map(move |frequency| position as f64 * frequency)
            })
        };
        Self {
            cos: angles().map(|angle| (angle.cos() * factor) as f32).collect(),
            sin: angles().map(|angle| (angle.sin() * factor) as f32).collect(),
            pairs: frequencies.len(),
        }
    }

    /// Turns queries or keys \[positions, heads, head size\] in place.
    pub(crate) fn turn(&self, x: &mut [f32], heads: usize, head_size: usize) -> Result<(), Error> {
        if self.pairs == 0 {
            return Ok(());
        }
        let angles = self.cos.chunks_exact(self.pairs).zip(self.sin.chunks_exact(self.pairs));
        for (x, (cos, sin)) in x.chunks_exact_mut(heads * head_size).zip(angles) {
            // All heads of a token turn by the same angles.
            let mut turned = || {
                let cos = Mat::strided(cos, heads, self.pairs, 0)?;
                let sin = Mat::strided(sin, heads, self.pairs, 0)?;
                let x = MatMut::strided(x, heads, 2 * self.pairs, head_size)?;
                rotate(x, cos, sin, Pairing::HalfSplit)
            };
            turned().map_err(regard::Error::from)?;
        }
        Ok(())
    }
}
