//! Prepares images for a model of images, as transformers' `ViTImageProcessor`, `CLIPImageProcessor` and their like do.

use serde_json::Value;

use crate::{Checkpoint, Description, Error, Input};

/// The most pixels of an image after resizing, and after resizing its rows alone. A setting of 20 bytes can ask for 65,535 ×
/// 65,535.
const MOST: usize = 1 << 21;

/// Turns an image into numbers. The image is resized, cropped to its middle, multiplied by a factor, and normalized by a mean and
/// a deviation for each channel.
///
/// The settings are those of `processor_config.json` or `preprocessor_config.json`, with the defaults of transformers. Resizing has the bits of Pillow 11:
/// a weighted sum along rows and then one along columns, each rounded to 8 bits. The filter is as wide as the pixels of the
/// smaller image. (Pillow 13 resizes some images along columns first, which can change a pixel by 1 or more.)
///
/// ```
/// use regard_models::{Checkpoint, ImageProcessor, Model};
/// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
/// let checkpoint = Checkpoint::open(format!("{models}/tiny-vit"))?;
/// let model = Model::load(&checkpoint)?;
/// let processor = ImageProcessor::of(&checkpoint, model.description())?;
/// let grey = [128; 2 * 2 * 3]; // an image of 2 × 2 pixels
/// let input = processor.read(&grey, [2, 2])?;
/// assert_eq!(input.pixels.len(), 3 * 12 * 12);
/// assert_eq!(input.pixels[0], (128.0 / 255.0 - 0.5) / 0.5);
/// # Ok::<(), regard_models::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ImageProcessor {
    /// The size after resizing; `None` keeps that of the image.
    size: Option<Size>,
    /// The height and the width of the middle that is kept, if the image is cropped.
    crop: Option<[usize; 2]>,
    filter: Filter,
    /// Whether resized pixels are whole numbers again, as in Pillow.
    rounds: bool,
    /// Factor, mean and deviation of each channel.
    channels: Vec<[f32; 3]>,
}

/// The key of the settings in `processor_config.json`.
const PREPARATION: [&str; 1] = ["image_processor"];

/// A size after resizing.
#[derive(Clone, Copy, Debug)]
enum Size {
    /// The height and the width.
    Both([usize; 2]),
    /// The shorter side. The other one keeps the proportions.
    Shorter(usize),
}

fn side(value: &Value) -> Option<usize> {
    let side = value.as_u64().and_then(|n| u16::try_from(n).ok());
    side.map(usize::from).filter(|side| *side > 0)
}

/// The height and the width in a setting, `usual` without it.
fn sides(setting: &Value, usual: Option<[usize; 2]>) -> Option<[usize; 2]> {
    let named = |key: &str| setting.get(key).and_then(side);
    match setting {
        Value::Null => usual,
        Value::Object(_) => named("height").zip(named("width")).map(Into::into),
        number => side(number).map(|side| [side, side]),
    }
}

/// Whether a single number is the size of the shorter side, in the settings of these processors.
fn of_shorter(config: &Value) -> bool {
    ["CLIP", "Bit"].iter().any(|start| kind(config).starts_with(start))
}

/// The name of the processor's class.
fn kind(config: &Value) -> &str {
    let keys = ["image_processor_type", "feature_extractor_type"];
    keys.iter().find_map(|key| config[*key].as_str()).unwrap_or_default()
}

/// Whether the middle of an image is kept.
fn crops(config: &Value) -> bool {
    config["do_center_crop"].as_bool().unwrap_or_else(|| of_shorter(config))
}

/// The weights of neighbouring pixels, as Pillow numbers them.
#[derive(Clone, Copy, Debug)]
enum Filter {
    Nearest,
    Lanczos,
    Bilinear,
    Bicubic,
}

impl ImageProcessor {
    /// The processor of a checkpoint's model.
    ///
    /// # Errors
    /// An error names the file and the unknown setting.
    pub fn of(checkpoint: &Checkpoint, description: &Description) -> Result<Self, Error> {
        let Some(patches) = &description.embedding.patches else {
            return Err(Error::Unsupported("the model reads no image".into()));
        };
        let (path, config) = checkpoint.preparation(&PREPARATION)?;
        let config = config.unwrap_or_default();
        let wrong =
            |key: &str| Error::file(&path, format!("{key} is {}, which is not known", config[key]));
        let flag = |key: &str| config[key].as_bool().unwrap_or(true);
        let own = [patches.height, patches.width];
        let crop = if crops(&config) {
            Some(sides(&config["crop_size"], Some(own)).ok_or_else(|| wrong("crop_size"))?)
        } else {
            None
        };
        let size = match (&config["size"], config["size"].get("shortest_edge")) {
            (_, Some(edge)) if config["size"].as_object().is_some_and(|size| size.len() == 1) => {
                side(edge).map(Size::Shorter)
            }
            (_, Some(_)) => None,
            (number, None) if number.is_number() && of_shorter(&config) => {
                side(number).map(Size::Shorter)
            }
            (size, None) => sides(size, Some(own)).map(Size::Both),
        };
        let size = size.ok_or_else(|| wrong("size"))?;
        let filter = match config["resample"].as_u64() {
            None | Some(2) => Filter::Bilinear,
            Some(0) => Filter::Nearest,
            Some(1) => Filter::Lanczos,
            Some(3) => Filter::Bicubic,
            Some(_) => return Err(wrong("resample")),
        };
        let of_channel = |key: &str, channel: usize| {
            let number = match &config[key] {
                Value::Null => Some(0.5),
                Value::Array(numbers) if numbers.len() == patches.channels => {
                    numbers[channel].as_f64()
                }
                number => number.as_f64(),
            };
            number.map(|x| x as f32).filter(|x| x.is_finite()).ok_or_else(|| wrong(key))
        };
        if patches.channels > usize::from(u16::MAX) {
            return Err(Error::Range(format!("an image has no {} channels", patches.channels)));
        }
        let normalize = flag("do_normalize");
        let factor = config["rescale_factor"].as_f64().unwrap_or(1.0 / 255.0);
        let factor = if flag("do_rescale") { factor as f32 } else { 1.0 };
        let channel = |channel| {
            let normal = |key| of_channel(key, channel);
            Ok(if normalize {
                [factor, normal("image_mean")?, normal("image_std")?]
            } else {
                [factor, 0.0, 1.0]
            })
        };
        let channels = (0..patches.channels).map(channel).collect::<Result<_, Error>>()?;
        // DINOv3's resizes the numbers that it has scaled.
        let rounds = !kind(&config).starts_with("DINOv3");
        Ok(Self { size: flag("do_resize").then_some(size), crop, filter, rounds, channels })
    }

    /// The height and the width of the images that the processor beside a model makes, if its settings tell.
    pub(crate) fn size(checkpoint: &Checkpoint) -> Result<Option<[usize; 2]>, Error> {
        let (_, config) = checkpoint.preparation(&PREPARATION)?;
        let Some(config) = config else { return Ok(None) };
        Ok(sides(&config[if crops(&config) { "crop_size" } else { "size" }], None))
    }

    /// The processor of a checkpoint's model, or `None` without its settings: nothing then tells how the samples of a
    /// sensor become numbers.
    ///
    /// # Errors
    /// Those of [`of`](Self::of).
    pub fn given(
        checkpoint: &Checkpoint,
        description: &Description,
    ) -> Result<Option<Self>, Error> {
        let (_, found) = checkpoint.preparation(&PREPARATION)?;
        found.map(|_| Self::of(checkpoint, description)).transpose()
    }

    /// The factor, mean and deviation of each channel that turn an 8-bit sample into a number of the model: (sample · factor −
    /// mean) / deviation.
    pub fn channels(&self) -> &[[f32; 3]] {
        &self.channels
    }

    /// The numbers \[channels, height, width\] of an image whose pixels are red, green and blue bytes, row by row. A model of
    /// one channel reads the luma of Pillow's `convert("L")`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the model has neither one channel nor three; [`Error::Shape`] if there are not 3 bytes for each of
    /// height × width pixels, or no pixel; [`Error::Range`] if the resized image or its resized rows have more than 2,097,152 pixels
    /// and more than the image has.
    pub fn read(&self, pixels: &[u8], [height, width]: [usize; 2]) -> Result<Input, Error> {
        if pixels.is_empty()
            || height.checked_mul(width).and_then(|n| n.checked_mul(3)) != Some(pixels.len())
        {
            let bytes = pixels.len();
            return Err(Error::Shape(format!(
                "{bytes} bytes are no image of {height} × {width} pixels"
            )));
        }
        let grey: Vec<u8>;
        let pixels = match self.channels.len() {
            1 => {
                grey = pixels.chunks_exact(3).flat_map(|pixel| [luma(pixel); 3]).collect();
                &grey
            }
            3 => pixels,
            channels => {
                return Err(Error::Unsupported(format!(
                    "the model reads {channels} channels, and an image has red, green and blue"
                )));
            }
        };
        let [new_height, new_width] = match self.size {
            None => [height, width],
            Some(Size::Both(size)) => size,
            Some(Size::Shorter(edge)) => {
                let shorter = height.min(width);
                [height, width].map(|side| edge.saturating_mul(side) / shorter)
            }
        };
        let most = MOST.max(height * width);
        if new_width.saturating_mul(height.max(new_height)) > most {
            return Err(Error::Range(format!(
                "an image of {height} × {width} pixels resized to {new_height} × {new_width} takes more than {most} pixels"
            )));
        }
        let resized = if [new_height, new_width] == [height, width] {
            pixels.iter().map(|x| f32::from(*x)).collect()
        } else {
            // Pillow resizes along rows first.
            let rounds = self.rounds;
            let wide = self.filter.along_rows(pixels, [height, width], new_width, rounds);
            let columns = transposed(&wide, [height, new_width]);
            let columns = self.filter.along_rows(&columns, [new_width, height], new_height, rounds);
            transposed(&columns, [new_width, new_height])
        };
        let resized = match self.crop {
            Some([high, wide]) if high > new_height || wide > new_width => {
                return Err(Error::Range(format!(
                    "the middle {high} × {wide} of an image of {new_height} × {new_width} pixels is not in it"
                )));
            }
            Some([high, wide]) => {
                let (top, left) = ((new_height - high) / 2, (new_width - wide) / 2);
                let row = |row: usize| &resized[(row * new_width + left) * 3..][..wide * 3];
                (top..top + high).flat_map(row).copied().collect()
            }
            None => resized,
        };
        let channel = |(c, [factor, mean, deviation]): (usize, &[f32; 3])| {
            let (factor, mean, deviation) = (*factor, *mean, *deviation);
            let pixels = resized.iter().skip(c).step_by(3);
            pixels.map(move |x| (x * factor - mean) / deviation).collect::<Vec<f32>>()
        };
        Ok(Input::image(self.channels.iter().enumerate().flat_map(channel).collect::<Vec<f32>>()))
    }
}

/// The brightness of a pixel: ITU-R 601-2, in 16 bits after the point.
fn luma(pixel: &[u8]) -> u8 {
    let weighted = pixel.iter().zip([19_595, 38_470, 7_471]).map(|(x, w)| u32::from(*x) * w);
    ((weighted.sum::<u32>() + 0x8000) >> 16) as u8
}

/// The pixels \[width, height\] of an image \[height, width\].
fn transposed(pixels: &[f32], [height, width]: [usize; 2]) -> Vec<f32> {
    let pixel = |i: usize, j: usize| pixels[(i * width + j) * 3..][..3].iter().copied();
    (0..width).flat_map(|j| (0..height).flat_map(move |i| pixel(i, j))).collect()
}

impl Filter {
    /// Half its width, and its value at x.
    fn shape(self) -> (f64, fn(f64) -> f64) {
        fn sinc(x: f64) -> f64 {
            let x = x * core::f64::consts::PI;
            if x == 0.0 { 1.0 } else { x.sin() / x }
        }
        match self {
            Self::Nearest => (0.5, |_| 1.0),
            Self::Bilinear => (1.0, |x| (1.0 - x.abs()).max(0.0)),
            // Keys 1981, with a = −½.
            Self::Bicubic => (2.0, |x| match x.abs() {
                x if x < 1.0 => (1.5 * x - 2.5) * x * x + 1.0,
                x if x < 2.0 => ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0,
                _ => 0.0,
            }),
            Self::Lanczos => (3.0, |x| if x.abs() < 3.0 { sinc(x) * sinc(x / 3.0) } else { 0.0 }),
        }
    }

    /// Every row of an image \[height, width\] resized to `to` pixels. As in Pillow, weights have 22 bits after the point and
    /// pixels none, unless they are not rounded. In f64 all sums of such weights are exact.
    fn along_rows<T: Copy + Into<f64>>(
        self,
        pixels: &[T],
        [height, width]: [usize; 2],
        to: usize,
        rounds: bool,
    ) -> Vec<f32> {
        const ONE: f64 = (1_u32 << 22) as f64;
        let scale = width as f64 / to as f64;
        let mut next = 0.5 * scale;
        let weights: Vec<(usize, Vec<f64>)> = (0..to)
            .map(|x| {
                if matches!(self, Self::Nearest) {
                    // Pillow adds up the positions of pixels, and rounds each sum.
                    let at = next as usize;
                    next += scale;
                    return (at.min(width - 1), vec![1.0]);
                }
                let (half, value) = self.shape();
                let (centre, stretch) = ((x as f64 + 0.5) * scale, scale.max(1.0));
                let reach = half * stretch;
                let first = ((centre - reach + 0.5) as i64).max(0) as usize;
                let end = ((centre + reach + 0.5) as usize).min(width);
                let at = |i: usize| value((i as f64 - centre + 0.5) / stretch);
                let sum: f64 = (first..end).map(at).sum();
                let rounded =
                    |weight: f64| if rounds { (weight * ONE).round() / ONE } else { weight };
                (first, (first..end).map(|i| rounded(at(i) / sum)).collect())
            })
            .collect();
        let mut out = Vec::with_capacity(height * to * 3);
        for row in pixels.chunks_exact(width * 3) {
            for (first, weights) in &weights {
                for c in 0..3 {
                    let pixels = row[first * 3 + c..].iter().step_by(3);
                    let sum: f64 = weights.iter().zip(pixels).map(|(w, x)| w * (*x).into()).sum();
                    let whole = || (sum + 0.5).floor().clamp(0.0, 255.0);
                    out.push(if rounds { whole() } else { sum } as f32);
                }
            }
        }
        out
    }
}
