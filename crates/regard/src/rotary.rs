//! Rotary positions: the angles by the usual scalings of frequencies, and the rotation of queries and keys.

use core::f64::consts::TAU;
use core::ops::Range;
use std::sync::Arc;

use regard_kernels::{Error as KernelError, Mat, MatMut, Pairing, rotate};

use crate::error::{Error, check_positions, check_shape};
use crate::view::{check_elements, saturating_product, zeros};

/// The frequency of each pair of features: pair i of the token at position t is rotated by the angle t·fᵢ.
///
/// ```
/// use regard::{Pairing, Rotary, RotaryFrequencies, RotaryScaling};
/// // Llama 3.1: eight times as many positions as the model was first trained on.
/// let scaling = RotaryScaling::Llama3 {
///     factor: 8.0,
///     low_frequency_factor: 1.0,
///     high_frequency_factor: 4.0,
///     original_positions: 8192.0,
/// };
/// let frequencies = RotaryFrequencies::scaled(128, 500_000.0, scaling)?;
/// let rotary = Rotary::with_frequencies(&frequencies, 1024, Pairing::HalfSplit)?;
/// let other_layer = rotary.clone(); // shares the table
/// assert_eq!((other_layer.features(), other_layer.positions()), (128, 1024));
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RotaryFrequencies {
    /// 1/fᵢ for each pair.
    reciprocals: Vec<f64>,
    /// The factor for sines and cosines.
    amplitude: f64,
}

/// A change of the frequencies with which a model reads more tokens than it was first trained on.
///
/// Each field is followed by its name in a `config.json` in Hugging Face's format.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
#[doc(alias = "rope_scaling")]
#[doc(alias = "rope_parameters")]
pub enum RotaryScaling {
    /// fᵢ / factor for all pairs: position interpolation (Chen et al. 2023, arXiv 2306.15595).
    Linear {
        /// `factor`.
        factor: f64,
    },
    /// Llama 3.1. Pairs that make fewer than `low_frequency_factor` turns over the original positions take fᵢ / factor. Pairs
    /// that make more than `high_frequency_factor` turns keep fᵢ. Pairs between them are interpolated linearly in the number of
    /// turns (Grattafiori et al. 2024, arXiv 2407.21783, and Meta's reference code).
    Llama3 {
        /// `factor`.
        factor: f64,
        /// `low_freq_factor`.
        #[cfg_attr(feature = "serde", serde(rename = "low"))]
        low_frequency_factor: f64,
        /// `high_freq_factor`.
        #[cfg_attr(feature = "serde", serde(rename = "high"))]
        high_frequency_factor: f64,
        /// `original_max_position_embeddings`.
        #[cfg_attr(feature = "serde", serde(rename = "original"))]
        original_positions: f64,
    },
    /// YaRN (Peng et al. 2023, arXiv 2309.00071, section 3.4, and its reference code). Pairs below ⌊i(beta_fast)⌋ keep fᵢ,
    /// pairs above ⌈i(beta_slow)⌉ take fᵢ / factor, and pairs between them are interpolated linearly in i. i(r) is the pair
    /// that makes r turns over the original positions, as a real number. Sines and cosines are multiplied by `amplitude`.
    Yarn {
        /// `factor`.
        factor: f64,
        /// `original_max_position_embeddings`.
        #[cfg_attr(feature = "serde", serde(rename = "original"))]
        original_positions: f64,
        /// `beta_fast`: 32 in the paper.
        #[cfg_attr(feature = "serde", serde(rename = "fast"))]
        beta_fast: f64,
        /// `beta_slow`: 1 in the paper.
        #[cfg_attr(feature = "serde", serde(rename = "slow"))]
        beta_slow: f64,
        /// `attention_factor`; `None` means the paper's 0.1·ln(factor) + 1.
        #[cfg_attr(feature = "serde", serde(rename = "attention_factor"))]
        amplitude: Option<f64>,
        /// `truncate`: whether i(beta_fast) and i(beta_slow) are rounded to whole pairs, as above.
        #[cfg_attr(feature = "serde", serde(rename = "truncate"))]
        whole_pairs: bool,
    },
}

impl RotaryFrequencies {
    /// fᵢ = base^(−2i/features) for the pairs of `features` (Su et al. 2021). `base`, also called θ, is 10000 in the paper.
    ///
    /// # Errors
    /// [`Error::Shape`] if `features` is odd; [`Error::Kernel`] if `base` is not finite and greater than 0.
    #[doc(alias = "rope_theta")]
    pub fn new(features: usize, base: f64) -> Result<Self, Error> {
        check_positive("rotary base", base)?;
        let pairs = features / 2;
        check_shape("rotary features", &[features], &[2 * pairs], "pairs of features")?;
        let reciprocal = |i| base.powf((2 * i) as f64 / features as f64);
        Ok(Self { reciprocals: (0..pairs).map(reciprocal).collect(), amplitude: 1.0 })
    }

    /// The frequencies of [`new`](Self::new), changed by a scaling.
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`Error::Kernel`] if a number of `scaling` is not finite and greater than 0, or if its number
    /// for high frequencies is not greater than that for low ones.
    pub fn scaled(features: usize, base: f64, scaling: RotaryScaling) -> Result<Self, Error> {
        let Self { mut reciprocals, mut amplitude } = Self::new(features, base)?;
        // `own` is the share of f in a pair's frequency; the rest is f / factor.
        let blend = |r: &mut f64, factor: f64, own: f64| {
            *r = 1.0 / (own / *r + (1.0 - own) / (factor * *r));
        };
        match scaling {
            RotaryScaling::Linear { factor } => {
                check_positive("rotary factor", factor)?;
                for r in &mut reciprocals {
                    *r *= factor;
                }
            }
            RotaryScaling::Llama3 {
                factor,
                low_frequency_factor: low,
                high_frequency_factor: high,
                original_positions,
            } => {
                check_positive("rotary factor", factor)?;
                check_positive("low_frequency_factor", low)?;
                check_above("high_frequency_factor", high, low)?;
                for r in &mut reciprocals {
                    let turns = original_positions / (TAU * *r);
                    blend(r, factor, ((turns - low) / (high - low)).clamp(0.0, 1.0));
                }
            }
            RotaryScaling::Yarn {
                factor,
                original_positions,
                beta_fast,
                beta_slow,
                amplitude: given,
                whole_pairs,
            } => {
                check_positive("rotary factor", factor)?;
                check_positive("beta_slow", beta_slow)?;
                check_above("beta_fast", beta_fast, beta_slow)?;
                check_above("rotary base", base, 1.0)?;
                // The pair that makes this number of turns: original / (2π·base^(2i/features)) = turns.
                let pair = |turns: f64| {
                    let reciprocal = original_positions / (TAU * turns);
                    features as f64 * reciprocal.ln() / (2.0 * base.ln())
                };
                let (mut first, mut last) = (pair(beta_fast), pair(beta_slow));
                if whole_pairs {
                    (first, last) = (first.floor(), last.ceil());
                }
                let (first, last) = (first.max(0.0), last.min(features as f64 - 1.0));
                // If both are the same pair, the step has the steepness of the reference code. If the original positions are
                // fewer than a turn, `last` comes before `first`, and the step goes the other way.
                let width = if last == first { 1e-3 } else { last - first };
                for (i, r) in reciprocals.iter_mut().enumerate() {
                    blend(r, factor, 1.0 - ((i as f64 - first) / width).clamp(0.0, 1.0));
                }
                amplitude = given.unwrap_or_else(|| 0.1 * factor.max(1.0).ln() + 1.0);
                check_positive("rotary amplitude", amplitude)?;
            }
        }
        Ok(Self { reciprocals, amplitude })
    }

    /// Any frequencies, in radians for each position, one for each pair. This serves for scalings that [`RotaryScaling`] lacks,
    /// such as LongRoPE.
    ///
    /// # Errors
    /// [`Error::Kernel`] if a frequency is negative or not finite.
    ///
    /// ```
    /// use regard::{Pairing, Rotary, RotaryFrequencies};
    /// let frequencies = RotaryFrequencies::custom(&[1.0, 0.0])?; // the second pair does not turn
    /// let rotary = Rotary::with_frequencies(&frequencies, 2, Pairing::Interleaved)?;
    /// let mut x = [1.0, 0.0, 1.0, 0.0];
    /// rotary.rotate(&mut x, [1, 1, 1, 4], 1)?;
    /// assert_eq!(x, [1_f32.cos(), 1_f32.sin(), 1.0, 0.0]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn custom(frequencies: &[f64]) -> Result<Self, Error> {
        let bad = |f: &&f64| !(**f >= 0.0 && f.is_finite());
        if let Some(f) = frequencies.iter().find(bad) {
            return Err(out_of_range("rotary frequency", *f, "finite and 0 or greater"));
        }
        Ok(Self { reciprocals: frequencies.iter().map(|f| 1.0 / f).collect(), amplitude: 1.0 })
    }

    /// The same frequencies, with sines and cosines multiplied by `amplitude`, as YaRN and LongRoPE do. The part of a score
    /// that comes from rotated features is then multiplied by amplitude².
    ///
    /// # Errors
    /// [`Error::Kernel`] if it is not finite and greater than 0.
    #[doc(alias = "attention_factor")]
    #[doc(alias = "mscale")]
    pub fn with_amplitude(self, amplitude: f64) -> Result<Self, Error> {
        check_positive("rotary amplitude", amplitude)?;
        Ok(Self { amplitude, ..self })
    }

    /// The number of rotated features: two for each frequency.
    #[must_use]
    pub fn features(&self) -> usize {
        2 * self.reciprocals.len()
    }

    /// The frequencies, in radians for each position.
    pub fn frequencies(&self) -> impl Iterator<Item = f64> {
        self.reciprocals.iter().map(|r| 1.0 / r)
    }
}

fn check_positive(name: &'static str, value: f64) -> Result<(), Error> {
    if value > 0.0 && value.is_finite() {
        Ok(())
    } else {
        Err(out_of_range(name, value, "finite and greater than 0"))
    }
}

fn check_above(name: &'static str, value: f64, other: f64) -> Result<(), Error> {
    check_positive(name, value)?;
    if value > other {
        Ok(())
    } else {
        Err(out_of_range(name, value, "greater than the other end"))
    }
}

fn out_of_range(name: &'static str, value: f64, range: &'static str) -> Error {
    KernelError::Range { name, value: value as f32, range }.into()
}

/// Rotary position embedding (Su et al. 2021). Pairs of features of queries and keys are rotated by an angle that grows with
/// the position, so their dot products depend on their distance.
///
/// Sines and cosines are computed once, in `f64`, into a table \[positions, features / 2\]. Clones share the table, so one
/// table serves all layers of a model.
///
/// ```
/// use regard::{Pairing, Rotary};
/// let rotary = Rotary::new(2, 16, 10_000.0, Pairing::HalfSplit)?;
/// let mut q = [1.0, 0.0, 1.0, 0.0]; // two tokens, one head of two features
/// rotary.rotate(&mut q, [1, 2, 1, 2], 0)?;
/// assert_eq!(q, [1.0, 0.0, 1_f32.cos(), 1_f32.sin()]); // the first stands at 0, and does not turn
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[doc(alias = "RoPE")]
pub struct Rotary {
    /// \[positions, features / 2\], from position `start` on.
    cos: Arc<[f32]>,
    sin: Arc<[f32]>,
    start: usize,
    /// The end of the positions of the table.
    positions: usize,
    features: usize,
    pairing: Pairing,
}

impl Rotary {
    /// Angles t / base^(2i/features) for `positions` t from 0 on and pairs i of the first `features` of each head. For partial
    /// rotation these are fewer than head_dim. `base`, also called θ, is 10000 in the paper.
    ///
    /// # Errors
    /// As [`RotaryFrequencies::new`] and [`with_frequencies`](Self::with_frequencies).
    pub fn new(
        features: usize,
        positions: usize,
        base: f64,
        pairing: Pairing,
    ) -> Result<Self, Error> {
        Self::with_frequencies(&RotaryFrequencies::new(features, base)?, positions, pairing)
    }

    /// Angles for any frequencies, for `positions` from 0 on.
    ///
    /// # Errors
    /// [`Error::Memory`] if the table does not fit in memory.
    pub fn with_frequencies(
        frequencies: &RotaryFrequencies,
        positions: usize,
        pairing: Pairing,
    ) -> Result<Self, Error> {
        Self::between(frequencies, 0..positions, pairing)
    }

    /// Angles for any frequencies, for these `positions` alone, such as those of tokens that continue a text.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is no memory for the table.
    ///
    /// ```
    /// use regard::{Pairing, Rotary, RotaryFrequencies};
    /// let frequencies = RotaryFrequencies::new(2, 10_000.0)?;
    /// let rotary = Rotary::between(&frequencies, 7..8, Pairing::HalfSplit)?;
    /// let mut q = [1.0, 0.0]; // the eighth token
    /// rotary.rotate(&mut q, [1, 1, 1, 2], 7)?;
    /// assert_eq!(q, [7_f32.cos(), 7_f32.sin()]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn between(
        frequencies: &RotaryFrequencies,
        positions: Range<usize>,
        pairing: Pairing,
    ) -> Result<Self, Error> {
        let RotaryFrequencies { reciprocals, amplitude } = frequencies;
        let angle = |t: usize, pair: usize| t as f64 / reciprocals[pair];
        Self::table(frequencies.features(), positions, (angle, *amplitude), pairing)
    }

    /// Any angles, such as those of patches by row and column: `angle` of a position and of a pair of the first `features` of
    /// each head.
    ///
    /// # Errors
    /// [`Error::Shape`] if `features` is odd; [`Error::Memory`] if there is no memory for the table.
    ///
    /// ```
    /// use regard::{Pairing, Rotary};
    /// // The patches of a grid of two columns: the first pair turns by the row, the second one by the column.
    /// let angle = |patch: usize, pair: usize| [patch / 2, patch % 2][pair] as f64;
    /// let rotary = Rotary::of_angles(4, 0..4, angle, Pairing::Interleaved)?;
    /// let mut q = [1.0, 0.0, 1.0, 0.0]; // the patch in row 1 and column 0
    /// rotary.rotate(&mut q, [1, 1, 1, 4], 2)?;
    /// assert_eq!(q, [1_f32.cos(), 1_f32.sin(), 1.0, 0.0]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn of_angles(
        features: usize,
        positions: Range<usize>,
        angle: impl Fn(usize, usize) -> f64,
        pairing: Pairing,
    ) -> Result<Self, Error> {
        let pairs = features / 2;
        check_shape("rotary features", &[features], &[2 * pairs], "pairs of features")?;
        Self::table(features, positions, (angle, 1.0), pairing)
    }

    fn table(
        features: usize,
        positions: Range<usize>,
        (angle, amplitude): (impl Fn(usize, usize) -> f64, f64),
        pairing: Pairing,
    ) -> Result<Self, Error> {
        const TABLE: &str = "the rotary table";
        let pairs = features / 2;
        let mut cos = zeros(TABLE, &[positions.len(), pairs])?;
        let mut sin = zeros(TABLE, &[positions.len(), pairs])?;
        let rows = cos.chunks_mut(pairs.max(1)).zip(sin.chunks_mut(pairs.max(1)));
        for (t, (cos, sin)) in positions.clone().zip(rows) {
            for (pair, (cos, sin)) in cos.iter_mut().zip(sin).enumerate() {
                let angle = angle(t, pair);
                *cos = (amplitude * angle.cos()) as f32;
                *sin = (amplitude * angle.sin()) as f32;
            }
        }
        let Range { start, end: positions } = positions;
        Ok(Self { cos: cos.into(), sin: sin.into(), start, positions, features, pairing })
    }

    /// The number of features of each head that are rotated.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }

    /// The end of the positions. It is their number if they begin at 0.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// Rotates queries or keys in place. `x` has the `shape` \[batch, tokens, heads, head_dim\], as the output of a projection
    /// has. `first` is the position of the first token of each batch entry: 0, or the number of keys before it in a cache.
    /// Features after the rotated ones stay the same.
    ///
    /// # Errors
    /// [`Error::Elements`] or [`Error::Shape`] if `x` does not fit, [`Error::Positions`] if the angles end before the tokens
    /// do; `x` is then unchanged.
    pub fn rotate(&self, x: &mut [f32], shape: [usize; 4], first: usize) -> Result<(), Error> {
        check_elements("the input", x.len(), &shape)?;
        let [_, n, heads, head_dim] = shape;
        self.check(n, head_dim, first)?;
        self.rotate_rows(x, heads, head_dim, |row| first + row % n.max(1))
    }

    /// [`rotate`](Self::rotate) for a ragged batch: `firsts` \[batch\] are the positions of the first tokens of the batch
    /// entries.
    ///
    /// # Errors
    /// As [`rotate`](Self::rotate), and [`Error::Shape`] if the number of `firsts` is not that of the batch entries.
    ///
    /// ```
    /// use regard::{Pairing, Rotary};
    /// let rotary = Rotary::new(2, 16, 10_000.0, Pairing::HalfSplit)?;
    /// let mut q = [1.0, 0.0, 1.0, 0.0]; // the next token of two texts, of three and of seven tokens
    /// rotary.rotate_ragged(&mut q, [2, 1, 1, 2], &[3, 7])?;
    /// assert_eq!(q, [3_f32.cos(), 3_f32.sin(), 7_f32.cos(), 7_f32.sin()]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn rotate_ragged(
        &self,
        x: &mut [f32],
        shape: [usize; 4],
        firsts: &[usize],
    ) -> Result<(), Error> {
        check_elements("the input", x.len(), &shape)?;
        let [batch, n, heads, head_dim] = shape;
        check_shape("the first positions", &[firsts.len()], &[batch], "one a batch entry")?;
        for first in firsts {
            self.check(n, head_dim, *first)?;
        }
        self.rotate_rows(x, heads, head_dim, |row| firsts[row / n.max(1)] + row % n.max(1))
    }

    /// `Ok` if there are angles for `n` tokens from `first` on, and heads are wide enough.
    pub(crate) fn check(&self, n: usize, head_dim: usize, first: usize) -> Result<(), Error> {
        let fitting = self.features.min(head_dim);
        check_shape("rotary features", &[self.features], &[fitting], "at most head_dim")?;
        let possible = first.max(self.start);
        let why = "the start of the rotary table, or after";
        check_shape("the first position", &[first], &[possible], why)?;
        check_positions("the rotary table", first, n, self.positions)
    }

    /// Rotates rows \[heads · head_dim\]. `position` gives the position of a row.
    pub(crate) fn rotate_rows(
        &self,
        x: &mut [f32],
        heads: usize,
        head_dim: usize,
        position: impl Fn(usize) -> usize,
    ) -> Result<(), Error> {
        let pairs = self.features / 2;
        if pairs == 0 {
            return Ok(());
        }
        for (row, x) in x.chunks_mut(saturating_product(&[heads, head_dim]).max(1)).enumerate() {
            // All heads of a token are rotated by the same angles.
            let start = (position(row) - self.start) * pairs;
            let [cos, sin] = [&self.cos, &self.sin].map(|angles| &angles[start..]);
            let (cos, sin) =
                (Mat::strided(cos, heads, pairs, 0)?, Mat::strided(sin, heads, pairs, 0)?);
            rotate(MatMut::strided(x, heads, self.features, head_dim)?, cos, sin, self.pairing)?;
        }
        Ok(())
    }
}
