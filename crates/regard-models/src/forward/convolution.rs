//! The convolutions over frames of sound, as products: each output reads the numbers of three frames as one row.

use regard::Activation;

use super::run::product;
use crate::Error;
use crate::weights::Convolutions;

impl Convolutions {
    /// The stream \[positions, width\] of a spectrogram \[bands, frames\], before the positions are added.
    pub(super) fn read(&self, features: &[f32]) -> Result<Vec<f32>, Error> {
        let [first, second] = &self.layers;
        let (bands, width) = (first.inputs() / 3, first.outputs());
        let frames = features.len() / bands;
        let mut x = product(first, &threes(features, [bands, frames], [frames, 1], 1))?;
        Activation::Gelu.apply(&mut x);
        let mut x = product(second, &threes(&x, [width, frames], [1, width], 2))?;
        Activation::Gelu.apply(&mut x);
        Ok(x)
    }
}

/// For every `step`th frame, the numbers \[channels, 3\] of the frame before it, of itself and of the one after it. There are zeros
/// before the first frame and after the last. `strides` are the distances between channels and between frames.
fn threes(
    x: &[f32],
    [channels, frames]: [usize; 2],
    [channel_stride, frame_stride]: [usize; 2],
    step: usize,
) -> Vec<f32> {
    let mut rows = vec![0.0; frames.div_ceil(step) * channels * 3];
    let each = rows.chunks_exact_mut(channels * 3).zip((0..frames).step_by(step));
    for (row, frame) in each {
        for (channel, three) in row.chunks_exact_mut(3).enumerate() {
            for (at, number) in (frame..).zip(three) {
                if let Some(at) = at.checked_sub(1).filter(|at| *at < frames) {
                    *number = x[channel * channel_stride + at * frame_stride];
                }
            }
        }
    }
    rows
}
