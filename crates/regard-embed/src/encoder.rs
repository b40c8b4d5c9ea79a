//! An encoder, which reads all patches of an image or all tokens of a text at once. A window of samples is an image of one row.

use core::fmt::Debug;

use regard_kernels::Error as KernelError;

use crate::numbers::Numbers;
use crate::state::{Memory, Model, ModelShape, State, Weights, Wide, array, first};
use crate::{Error, Tokens};

/// The input of an encoder of images: turns an image into the residual stream. The stream has a class token, and then the patches row by
/// row.
#[derive(Clone, Copy, Debug)]
pub struct Image<'w, N: Numbers> {
    /// The image's channels, height and width.
    pub size: [usize; 3],
    /// The height and width of a patch.
    pub patch: [usize; 2],
    /// The unit of the integers that stand for the numbers of each channel. Floats need none.
    pub scales: &'w [f32],
    /// \[numbers of a patch, width\].
    pub projection: N::Linear,
    /// \[1 + patches, width\]: the vector that is added at each position. The class token consists of the first vector alone.
    pub positions: &'w [N::Wide],
    /// For each channel, the factor, mean and deviation that turn 8-bit samples into numbers: (sample · factor − mean) /
    /// deviation.
    pub samples: &'w [[f32; 3]],
}

impl<
    N: Numbers + 'static,
    M: Model<Numbers = N, Input = Image<'static, N>>,
    const NARROW: usize,
    const WIDE: usize,
> State<M, NARROW, WIDE>
{
    /// Reads an image \[channels, height, width\]. Returns the logits of the classes.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes of the image, of the weights or of the state's memory are not those of the model.
    pub fn classify<const OUTPUTS: usize>(
        &mut self,
        image: &[f32],
    ) -> Result<&[Wide<M>; OUTPUTS], Error> {
        let memory = Memory::new(|| M::SHAPE, &mut self.wide, &mut self.narrow);
        array::<M, OUTPUTS>(memory.classify(M::weights(), image)?)
    }

    /// [`classify`](Self::classify) for 8-bit samples.
    ///
    /// # Errors
    /// Those of [`classify`](Self::classify).
    pub fn classify_samples<const OUTPUTS: usize>(
        &mut self,
        image: &[u8],
    ) -> Result<&[Wide<M>; OUTPUTS], Error> {
        let (weights, channels) = (M::weights(), M::weights().input.samples);
        let memory = Memory::new(|| M::SHAPE, &mut self.wide, &mut self.narrow);
        let logits = memory.encode(weights, image.len(), |channel, place| {
            let sample = image.get(place).copied().unwrap_or_default();
            let [factor, mean, deviation] =
                channels.get(channel).copied().unwrap_or([1.0, 0.0, 1.0]);
            (f32::from(sample) * factor - mean) / deviation
        });
        array::<M, OUTPUTS>(logits?)
    }
}

/// The input of an encoder of texts, as BERT is: turns tokens into the residual stream.
#[derive(Clone, Copy, Debug)]
pub struct Text<'w, N: Numbers> {
    /// The vectors of the tokens and of the positions.
    pub tokens: Tokens<'w, N>,
    /// \[width\]: a vector that is added to each token, that of the first type of tokens. Empty if there is none.
    pub kind: &'w [N::Wide],
    /// The norm of these sums.
    pub norm: N::Norm,
}

impl<
    N: Numbers + 'static,
    M: Model<Numbers = N, Input = Text<'static, N>>,
    const NARROW: usize,
    const WIDE: usize,
> State<M, NARROW, WIDE>
{
    /// Reads a text, with the tokens that begin and end it. Returns the logits of the classes.
    ///
    /// # Errors
    /// [`Error::Token`] if a token is not in the vocabulary, [`Error::Context`] if there are more tokens than the state has room for.
    /// [`Error::Shape`] if there is none, or if the shapes of the weights or of the state's memory are not those of the model.
    pub fn classify_tokens<const OUTPUTS: usize>(
        &mut self,
        tokens: &[usize],
    ) -> Result<&[Wide<M>; OUTPUTS], Error> {
        let memory = Memory::new(|| M::SHAPE, &mut self.wide, &mut self.narrow);
        array::<M, OUTPUTS>(memory.classify_tokens(M::weights(), tokens)?)
    }
}

impl<'s, N: Numbers, S: Fn() -> ModelShape> Memory<'s, N, S> {
    /// Reads a text. Returns the logits of the classes.
    ///
    /// # Errors
    /// Those of [`State::classify_tokens`].
    pub fn classify_tokens(
        mut self,
        weights: &Weights<'_, N, Text<'_, N>>,
        tokens: &[usize],
    ) -> Result<&'s [N::Wide], Error> {
        let (ModelShape { context, width, .. }, input) = ((self.shape)(), &weights.input);
        if tokens.is_empty() {
            let tensor = "the text";
            return Err(Error::Shape(KernelError::Length { tensor, found: 0, expected: 1 }));
        }
        if tokens.len() > context {
            return Err(Error::Context { context });
        }
        let mut step = self.step(0, tokens.len());
        for (position, (x, token)) in step.x.chunks_exact_mut(width.max(1)).zip(tokens).enumerate()
        {
            input.tokens.check(*token)?;
            input.tokens.embed(*token, position, x)?;
            if !input.kind.is_empty() {
                N::add(x, input.kind)?;
            }
            N::settle(&input.norm, x)?;
        }
        step.run(weights, input.tokens.rotary.as_ref())?;
        Ok(self.logits())
    }

    /// Reads an image \[channels, height, width\]. Returns the logits of the classes.
    ///
    /// # Errors
    /// Those of [`State::classify`].
    pub fn classify(
        self,
        weights: &Weights<'_, N, Image<'_, N>>,
        image: &[f32],
    ) -> Result<&'s [N::Wide], Error> {
        let number = |_, place| image.get(place).copied().unwrap_or_default();
        self.encode(weights, image.len(), number)
    }

    /// The logits of an image. `number` returns the number at a channel and a place.
    fn encode(
        mut self,
        weights: &Weights<'_, N, Image<'_, N>>,
        len: usize,
        number: impl Fn(usize, usize) -> f32,
    ) -> Result<&'s [N::Wide], Error> {
        let (shape, image) = ((self.shape)(), &weights.input);
        let [channels, height, width] = image.size;
        if len != channels * height * width {
            let (tensor, expected) = ("the image", channels * height * width);
            return Err(Error::Shape(KernelError::Length { tensor, found: len, expected }));
        }
        let mut step = self.step(0, shape.context);
        for (x, position) in step.x.iter_mut().zip(image.positions) {
            *x = *position;
        }
        let (features, per_patch) = (shape.width, shape.patch);
        let patches = shape.context.saturating_sub(1);
        for start in (0..patches).step_by(shape.block()) {
            let count = shape.block().min(patches - start);
            let numbers = first(step.narrow, count * per_patch);
            for (i, out) in numbers.chunks_exact_mut(per_patch.max(1)).enumerate() {
                let rows = out.chunks_exact_mut(image.patch[1].max(1));
                for (row, (channel, first)) in rows.zip(image.rows(start + i)) {
                    let scale = image.scales.get(channel).copied().unwrap_or(1.0);
                    for (x, place) in row.iter_mut().zip(first..) {
                        *x = N::narrow(number(channel, place), scale);
                    }
                }
            }
            let added = first(step.added, count * features);
            N::multiply(&image.projection, numbers, added)?;
            let x = step.x.get_mut((1 + start) * features..).unwrap_or_default();
            N::add(first(x, count * features), added)?;
        }
        step.run(weights, None)?;
        Ok(self.logits())
    }
}

impl<N: Numbers> Image<'_, N> {
    /// The channel of each row of a patch, and the place of the row's first number.
    fn rows(&self, patch: usize) -> impl Iterator<Item = (usize, usize)> {
        let ([channels, height, width], [high, wide]) = (self.size, self.patch);
        let in_row = width.checked_div(wide).unwrap_or(0).max(1);
        let (top, left) = (patch / in_row * high, patch % in_row * wide);
        (0..channels).flat_map(move |channel| {
            (top..top + high).map(move |y| (channel, (channel * height + y) * width + left))
        })
    }
}
