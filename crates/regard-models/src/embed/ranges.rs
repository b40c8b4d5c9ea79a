//! The ranges of numbers at a model's places, and what a model in integers loses.
//!
//! Integers of 8 bits stand for the numbers within ±T. A smaller T has finer units and clips more. The choice is that of least
//! squares (as in Banner et al. 2019, arXiv 1810.05723):
//!
//! ```text
//! s        ← T / 127
//! error(T) ← Σ over the calibration's numbers x of  (|x| − T)²  if |x| > T,  x²  if |x| < s/2,  else  s²/12
//! T        ← the one with the least error, from the largest magnitude down to 1/16 of it
//! ```
//!
//! s²/12 is the mean square of a rounding error. The magnitudes are counted in bins 1/64 of an octave wide, so that one pass over
//! the inputs is enough.

use std::collections::BTreeMap;

use rand_mt::Mt;

use super::{EmbedOptions, float};
use crate::forward::product;
use crate::{Error, Input, Model, Patches, Placement, Sampler};

/// The bits of a magnitude below those that name its bin: the exponent and 6 bits of the fraction.
const SHIFT: u32 = 17;
/// The bins of all magnitudes.
const BINS: usize = 1 << (31 - SHIFT);
/// The bins in the four octaves from the largest magnitude down.
const CHOICES: usize = 4 << 6;
/// The inputs that are made if none are given.
const MADE: u32 = 48;

/// The features between the last norm and the head of classes.
pub(super) const POOLED: &str = "pooler";

/// The range of the 8-bit integers at a place.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Range {
    /// The place, as in a [`Trace`](crate::Trace), or a channel of the image.
    pub place: String,
    /// The largest magnitude in the calibration's inputs.
    pub most: f32,
    /// The largest magnitude that an integer stands for. Larger ones are clipped to it.
    pub kept: f32,
    /// The share of the numbers that are clipped, from 0 to 1.
    pub clipped: f64,
}

/// What a model in integers loses on the calibration's inputs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Loss {
    /// The images, or the tokens of the texts, whose logits are compared.
    pub rows: usize,
    /// The rows whose largest logit is that of `f32`.
    pub same: usize,
    /// The images that have a label and get it, in `f32` and in integers. `None` if there are no labels.
    pub right: Option<[usize; 2]>,
    /// The root of the mean square of the difference between logits in integers and in `f32`.
    pub error: f64,
    /// The standard deviation of the logits in `f32`, for comparison.
    pub deviation: f64,
}

/// How a model was turned into integers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Calibration {
    /// The number of inputs.
    pub inputs: usize,
    /// Whether the caller gave them. Otherwise they are images of noise, texts that the model writes, or texts of random words.
    pub given: bool,
    /// The ranges at all places with 8-bit integers, in the order of computation.
    pub ranges: Vec<Range>,
    /// The loss on these inputs.
    pub loss: Loss,
}

/// How often magnitudes occur.
#[derive(Debug)]
struct Magnitudes {
    bins: Vec<u32>,
    most: f32,
}

impl Magnitudes {
    fn add(&mut self, x: f32) {
        let magnitude = x.abs();
        self.most = self.most.max(magnitude);
        let bin = &mut self.bins[(magnitude.to_bits() >> SHIFT) as usize];
        *bin = bin.saturating_add(1);
    }

    /// The bins that are not empty: the middle of each, and its count.
    fn counts(&self) -> impl Iterator<Item = (f64, f64)> {
        let counts = self.bins.iter().enumerate().filter(|(_, count)| **count > 0);
        let middle = |bin: usize| f32::from_bits(((2 * bin as u32) + 1) << (SHIFT - 1));
        counts.map(move |(bin, count)| (f64::from(middle(bin)), f64::from(*count)))
    }

    /// The largest magnitude that is kept: see the top of this file. 0 if all numbers are 0.
    fn kept(&self) -> f32 {
        let counts: Vec<(f64, f64)> = self.counts().collect();
        let error = |kept: f32| {
            let (kept, unit) = (f64::from(kept), f64::from(kept) / 127.0);
            let of_bin = |(x, count): &(f64, f64)| {
                let square =
                    if *x > kept { (x - kept).powi(2) } else { (unit * unit / 12.0).min(x * x) };
                count * square
            };
            counts.iter().map(of_bin).sum::<f64>()
        };
        let top = self.most.to_bits() >> SHIFT;
        let ends = (1..CHOICES as u32)
            .map_while(|down| Some(f32::from_bits(top.checked_sub(down - 1)? << SHIFT)));
        let mut best = (error(self.most), self.most);
        for kept in ends.filter(|kept| *kept > 0.0 && *kept < self.most) {
            let error = error(kept);
            if error < best.0 {
                best = (error, kept);
            }
        }
        best.1
    }

    /// The share of the numbers that are larger than `kept`.
    fn above(&self, kept: f32) -> f64 {
        let all: f64 = self.counts().map(|(_, count)| count).sum();
        let above = self.counts().filter(|(x, _)| *x > f64::from(kept));
        // The sum of no numbers would be −0.
        above.fold(0.0, |sum, (_, count)| sum + count) / all.max(1.0)
    }
}

/// The numbers at a model's places for the calibration's inputs.
#[derive(Debug)]
pub(super) struct Ranges {
    inputs: Vec<Input>,
    labels: Vec<usize>,
    given: bool,
    /// The places of queries and keys in a block, as the attention reads them.
    queries_and_keys: [&'static str; 2],
    /// The place of what the head reads.
    pub(super) last: String,
    /// The channels of an image.
    channels: usize,
    magnitudes: BTreeMap<String, Magnitudes>,
    /// The logits of each input, row by row.
    logits: Vec<Vec<f32>>,
}

impl Ranges {
    pub(super) fn of(model: &Model, context: usize, options: &EmbedOptions) -> Result<Self, Error> {
        let description = model.description();
        let patches = description.embedding.patches;
        let given = !options.inputs.is_empty();
        let inputs = if given { options.inputs.clone() } else { made(model, context, options)? };
        let known = description.named_places();
        let turns = known.iter().any(|(place, _)| place.ends_with("hook_rot_q"));
        let queries_and_keys = if turns {
            ["attn.hook_rot_q", "attn.hook_rot_k"]
        } else {
            ["attn.hook_q", "attn.hook_k"]
        };
        let mut all = Self {
            inputs,
            labels: options.labels.clone(),
            given,
            queries_and_keys,
            last: match description.stack.block.placement {
                Placement::After => {
                    let layers = description.stack.layers();
                    format!("blocks.{}.ln2.hook_out", layers.saturating_sub(1))
                }
                _ => "ln_final.hook_out".to_owned(),
            },
            channels: patches.map_or(0, |patches| patches.channels),
            magnitudes: BTreeMap::new(),
            logits: Vec::new(),
        };
        if !all.labels.is_empty() && all.labels.len() != all.inputs.len() {
            let (labels, inputs) = (all.labels.len(), all.inputs.len());
            return Err(Error::Range(format!("there are {labels} labels for {inputs} inputs")));
        }
        let kept: Vec<_> = known.into_iter().filter(|(place, _)| all.reads(place)).collect();
        for index in 0..all.inputs.len() {
            all.inputs[index].ids.truncate(context);
            let input = &all.inputs[index];
            let trace = model.pass().keep(kept.iter().map(|(name, _)| name.as_str())).run(input)?;
            let of_channel = input.pixels.len() / all.channels.max(1);
            let pixels = input.pixels.clone();
            for (channel, numbers) in pixels.chunks(of_channel.max(1)).enumerate() {
                all.add(&channel_of(channel), numbers)?;
            }
            for (name, place) in &kept {
                all.add(name, trace.at(*place).map_or(&[], |values| &values.data))?;
            }
            let last = kept.iter().find(|(name, _)| *name == all.last);
            if let (Some((linear, activation)), Some((_, place))) = (float::pooler(model), last) {
                let position = description.class_position(&all.inputs[index]) * description.width;
                let states = trace.at(*place).map_or(&[][..], |values| &values.data);
                let state = states.get(position..position + description.width).unwrap_or_default();
                let mut features = product(linear, state)?;
                activation.apply(&mut features);
                all.add(POOLED, &features)?;
            }
            let logits = trace.logits().map(|values| values.data.clone()).unwrap_or_default();
            all.add("logits", &logits)?;
            all.logits.push(logits);
        }
        Ok(all)
    }

    /// Whether the runtime has numbers of this place, or sums that are larger.
    fn reads(&self, place: &str) -> bool {
        let kept = ["hook_out", "attn.hook_v", "attn.hook_z", "mlp.hook_post"];
        let sums = [
            "hook_resid_pre",
            "hook_resid_mid",
            "hook_resid_post",
            "mlp.hook_pre",
            "mlp.hook_pre_linear",
        ];
        kept.iter().chain(&self.queries_and_keys).chain(&sums).any(|end| place.ends_with(end))
    }

    fn add(&mut self, place: &str, numbers: &[f32]) -> Result<(), Error> {
        if numbers.iter().any(|x| !x.is_finite()) {
            return Err(Error::Unsupported(format!(
                "the numbers at {place} are not finite, and no integer stands for them"
            )));
        }
        let empty = || Magnitudes { bins: vec![0; BINS], most: 0.0 };
        let magnitudes = self.magnitudes.entry(place.to_owned()).or_insert_with(empty);
        for x in numbers {
            magnitudes.add(*x);
        }
        Ok(())
    }

    pub(super) fn queries_and_keys(&self) -> [&'static str; 2] {
        self.queries_and_keys
    }

    /// The largest magnitude at a place.
    pub(super) fn most(&self, place: &str) -> f64 {
        self.magnitudes.get(place).map_or(0.0, |magnitudes| f64::from(magnitudes.most))
    }

    /// The scale of 8-bit integers at a place.
    pub(super) fn scale(&self, place: &str) -> f64 {
        let kept = self.magnitudes.get(place).map_or(0.0, Magnitudes::kept);
        if kept > 0.0 { f64::from(kept / 127.0) } else { 1.0 }
    }

    /// The scale of each channel of an image.
    pub(super) fn of_channels(&self) -> Vec<f64> {
        (0..self.channels).map(|channel| self.scale(&channel_of(channel))).collect()
    }

    /// The unit of the residual stream: a power of two of which `1 / largest` are the largest magnitude, or `least` if that is larger.
    pub(super) fn unit(&self, largest: f64, least: f64) -> f64 {
        let streams = self.magnitudes.iter().filter(|(place, _)| place.contains("hook_resid"));
        let most =
            streams.fold(least.max(1e-3), |most: f64, (_, found)| most.max(f64::from(found.most)));
        2_f64.powf((largest * most).log2().ceil())
    }

    /// The ranges, and the loss of a model whose logits of an input `integers` computes, in units of `unit`.
    pub(super) fn report(
        &self,
        model: &Model,
        unit: f64,
        integers: impl Fn(&Input) -> Result<Vec<Vec<i32>>, Error>,
    ) -> Result<Calibration, Error> {
        let channels = (0..self.channels).map(channel_of);
        let places = model.description().named_places().into_iter().map(|(name, _)| name);
        let places = places.filter(|place| {
            self.reads(place) && !place.contains("resid") && !place.contains("hook_pre")
        });
        // Layers whose norms stand after their sums read the stream.
        let after = model.description().stack.block.placement == Placement::After;
        let stream = after.then(|| "blocks.0.hook_resid_pre".to_owned());
        let places = channels.chain(stream).chain(places).chain([POOLED.to_owned()]);
        let ranges = places.filter_map(|place| {
            let found = self.magnitudes.get(&place)?;
            let kept = found.kept();
            Some(Range { most: found.most, kept, clipped: found.above(kept), place })
        });
        let (mut loss, mut right) =
            (Loss { rows: 0, same: 0, right: None, error: 0.0, deviation: 0.0 }, [0; 2]);
        let mut count = 0.0;
        for (index, (input, floats)) in self.inputs.iter().zip(&self.logits).enumerate() {
            let integers = integers(input)?;
            let floats: Vec<&[f32]> = floats.chunks(model.outputs().max(1)).collect();
            // A model that classifies texts has logits for the last token alone.
            let after = integers.len().saturating_sub(floats.len());
            for (floats, integers) in floats.into_iter().zip(&integers[after..]) {
                let largest = [regard_embed::largest(floats), regard_embed::largest(integers)];
                loss.rows += 1;
                loss.same += usize::from(largest[0] == largest[1]);
                if let Some(label) = self.labels.get(index) {
                    right = core::array::from_fn(|i| right[i] + usize::from(largest[i] == *label));
                }
                let mean = floats.iter().map(|x| f64::from(*x)).sum::<f64>() / floats.len() as f64;
                for (x, y) in floats.iter().zip(integers) {
                    let (x, y) = (f64::from(*x), f64::from(*y) * unit);
                    loss.error += (x - y).powi(2);
                    loss.deviation += (x - mean).powi(2);
                    count += 1.0;
                }
            }
        }
        loss.right = (!self.labels.is_empty()).then_some(right);
        [loss.error, loss.deviation] =
            [loss.error, loss.deviation].map(|squares| (squares / f64::max(count, 1.0)).sqrt());
        let (inputs, given) = (self.inputs.len(), self.given);
        Ok(Calibration { inputs, given, ranges: ranges.collect(), loss })
    }
}

/// The name of a channel of the image.
fn channel_of(channel: usize) -> String {
    format!("image, channel {channel}")
}

/// Inputs for a model that the caller gives none for.
fn made(model: &Model, context: usize, options: &EmbedOptions) -> Result<Vec<Input>, Error> {
    let description = model.description();
    let vocabulary = description.vocabulary as u32;
    let made = |seed: u32| {
        if let Some(patches) = &description.embedding.patches {
            let channels = options.samples.as_ref().ok_or_else(|| {
                Error::Unsupported(
                    "8-bit integers need the range of the model's input, and no preprocessor_config.json tells it: \
                     give inputs by --calibrate FILE"
                        .into(),
                )
            })?;
            return Ok(image(patches, channels.channels(), seed));
        }
        if description.classifies() {
            return Ok(Input::tokens(random(model, context, seed)?));
        }
        // A text begins with the token that ends texts, or else with any token.
        let start = description.ends.first().copied().unwrap_or(seed * vocabulary / MADE);
        let start = Input::tokens([start.min(vocabulary - 1)]);
        let count = context.min(256).saturating_sub(1);
        let more = model.write(&start, count, &[], Sampler::new(1.0, seed)?)?;
        let more = more.collect::<Result<Vec<u32>, Error>>()?;
        Ok(Input::tokens([start.ids, more].concat()))
    };
    (0..MADE).map(made).collect()
}

/// An image of random samples. Each sample fills a square of one to four pixels a side, so there is noise and there are patches
/// of one brightness. A channel has the factor, mean and deviation of its samples.
fn image(patches: &Patches, channels_of: &[[f32; 3]], seed: u32) -> Input {
    let Patches { channels, height, width, .. } = *patches;
    let (mut samples, side) = (Mt::new(seed), 1 + seed as usize % 4);
    let mut pixels = Vec::with_capacity(channels * height * width);
    for [factor, mean, deviation] in channels_of.iter().take(channels) {
        let (rows, columns) = (height.div_ceil(side), width.div_ceil(side));
        let squares: Vec<u8> =
            (0..rows * columns).map(|_| (samples.next_u32() >> 24) as u8).collect();
        let pixel = |place: usize| {
            let sample = squares[place / width / side * columns + place % width / side];
            (f32::from(sample) * factor - mean) / deviation
        };
        pixels.extend((0..height * width).map(pixel));
    }
    Input::image(pixels)
}

/// A text of random words, after the tokens that the tokenizer puts before every text.
fn random(model: &Model, context: usize, seed: u32) -> Result<Vec<u32>, Error> {
    let before = model.tokenizer().map(|tokenizer| tokenizer.encode("", None)).transpose()?;
    let mut text = before.map_or_else(Vec::new, |input| input.ids);
    let (mut words, vocabulary) = (Mt::new(seed), model.description().vocabulary as u32);
    let more = context.min(256).saturating_sub(text.len());
    text.extend((0..more).map(|_| words.next_u32() % vocabulary.max(1)));
    text.truncate(context);
    Ok(text)
}
