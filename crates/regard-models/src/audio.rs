//! Sound as a model of sound reads it, as transformers' `WhisperFeatureExtractor` prepares it.
//!
//! ```text
//! samples, with zeros up to the length that the model reads, mirrored at both ends by half a window
//! for each hop: a window of n_fft samples × Hann → squared magnitudes of its Fourier transform
//!               → weighted sums over triangles of the mel scale (Slaney's) → log10, at least of 1e-10
//! x ← max(x, largest − 8); (x + 4) / 4
//! ```
//!
//! Everything is computed in `f64`. The Fourier transform is a sum over samples: cosines of the window's even part and sines of its
//! odd part.

use core::f64::consts::TAU;
use std::io::Cursor;

use hound::{SampleFormat, WavReader};
use serde_json::Value;

use crate::{Checkpoint, Description, Error, Frames, Input};

/// The longest window, in samples: the tables of its Fourier transform take 8 MiB.
const MOST: usize = 1024;

/// Turns a recording into the numbers that a model of sound reads: a log-mel spectrogram.
///
/// The settings are those of `processor_config.json` or `preprocessor_config.json`, with the defaults of transformers.
///
/// ```
/// use regard_models::{AudioProcessor, Checkpoint, Model};
/// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
/// let checkpoint = Checkpoint::open(format!("{models}/tiny-whisper"))?;
/// let model = Model::load(&checkpoint)?;
/// let processor = AudioProcessor::of(&checkpoint, model.description())?;
/// let tone: Vec<f32> = (0..8000).map(|i| (i as f32 * 0.2).sin()).collect(); // half a second
/// let input = processor.read(&tone, 16_000)?.decoder([0]);
/// assert_eq!(model.tokens(&input), 25);
/// assert_eq!(processor.seconds(), 0.04); // from one position of the encoder to the next
/// # Ok::<(), regard_models::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AudioProcessor {
    rate: u32,
    hop: usize,
    /// The number of samples of a window.
    window: usize,
    /// The number of samples of the whole input.
    samples: usize,
    padding: f32,
    frames: Frames,
}

impl AudioProcessor {
    /// The processor of a checkpoint's model.
    ///
    /// # Errors
    /// An error names the file and the setting that is not known or does not fit the model.
    pub fn of(checkpoint: &Checkpoint, description: &Description) -> Result<Self, Error> {
        let Some(frames) = description.embedding.frames else {
            return Err(Error::Unsupported("the model reads no recording".into()));
        };
        let keys = ["feature_extractor", "audio_processor"];
        let (path, config) = checkpoint.preparation(&keys)?;
        let has_file = config.is_some();
        let config = config.unwrap_or_default();
        let number = |key: &str, default: f64| match &config[key] {
            Value::Null => Some(default),
            value => value.as_f64().filter(|x| x.is_finite()),
        };
        let wrong = |key: &str, what: &str| {
            Error::file(&path, format!("{key} is {}, which is {what}", config[key]))
        };
        let size = |key: &str, default: f64, most: usize| {
            let found = number(key, default).filter(|x| x.fract() == 0.0);
            let found = found.filter(|x| (1.0..=most as f64).contains(x)).map(|x| x as usize);
            found.ok_or_else(|| wrong(key, &format!("no whole number from 1 to {most}")))
        };
        let rate = size("sampling_rate", 16_000.0, 1 << 20)?;
        let (hop, window) = (size("hop_length", 160.0, MOST)?, size("n_fft", 400.0, MOST)?);
        if !window.is_multiple_of(2) {
            return Err(wrong("n_fft", "no even number"));
        }
        if number("dither", 0.0) != Some(0.0) {
            return Err(wrong("dither", "not known: noise that is added differs in each run"));
        }
        let padding =
            number("padding_value", 0.0).ok_or_else(|| wrong("padding_value", "no number"))?;
        let Frames { bands, count } = frames;
        let samples = if has_file {
            let seconds = number("chunk_length", 30.0).filter(|x| (0.0..=3600.0).contains(x));
            let seconds = seconds.ok_or_else(|| wrong("chunk_length", "no time up to 3600 s"))?;
            let found = size("feature_size", 80.0, usize::from(u16::MAX))?;
            let samples = (seconds * rate as f64) as usize;
            if [found, samples / hop] != [bands, count] {
                return Err(Error::file(
                    &path,
                    format!(
                        "{seconds} s at {rate} samples a second give a spectrogram of {found} bands and {} frames, but the model reads {bands} and {count}",
                        samples / hop
                    ),
                ));
            }
            samples
        } else {
            count * hop
        };
        if samples <= window / 2 {
            return Err(Error::file(
                &path,
                format!("{samples} samples are less than half of a window of {window}"),
            ));
        }
        let (rate, padding) = (u32::try_from(rate).unwrap_or(u32::MAX), padding as f32);
        Ok(Self { rate, hop, window, samples, padding, frames })
    }

    /// The number of samples per second.
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// The time from one position of the encoder to the next, in seconds.
    pub fn seconds(&self) -> f64 {
        (2 * self.hop) as f64 / f64::from(self.rate)
    }

    /// The log-mel spectrogram \[bands, frames\] of a recording with one channel of `rate` samples per second.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are no samples, or more than the model reads; [`Error::Range`] if a sample is not finite or the
    /// rate is not the model's.
    pub fn read(&self, recording: &[f32], rate: u32) -> Result<Input, Error> {
        let seconds = |samples: usize| samples as f64 / f64::from(self.rate);
        if rate != self.rate {
            return Err(Error::Range(format!(
                "the recording has {rate} samples a second, but the model reads {}",
                self.rate
            )));
        }
        if recording.is_empty() {
            return Err(Error::Shape("the recording has no samples".into()));
        }
        if recording.len() > self.samples {
            return Err(Error::Shape(format!(
                "the recording has {} samples ({:.2} s), but the model reads at most {} ({:.2} s)",
                recording.len(),
                seconds(recording.len()),
                self.samples,
                seconds(self.samples)
            )));
        }
        if let Some(i) = recording.iter().position(|x| !x.is_finite()) {
            return Err(Error::Range(format!("sample {i} of the recording is {}", recording[i])));
        }
        let Frames { bands, count } = self.frames;
        let last = self.samples - 1;
        let sample = |i: usize| {
            // The samples are mirrored at the first and at the last one.
            let i = i.abs_diff(self.window / 2);
            let i = if i > last { 2 * last - i } else { i };
            f64::from(recording.get(i).copied().unwrap_or(self.padding))
        };
        let (spectrum, filters) = (Spectrum::new(self.window), self.filters());
        let mut features = vec![0.0; bands * count];
        for frame in 0..count {
            let samples = (frame * self.hop..).take(self.window).map(&sample);
            let power = spectrum.power(samples.collect());
            for (band, filter) in filters.iter().enumerate() {
                let sum: f64 = filter.iter().zip(&power).map(|(w, x)| w * x).sum();
                features[band * count + frame] = sum.max(1e-10).log10();
            }
        }
        let floor = features.iter().copied().fold(f64::NEG_INFINITY, f64::max) - 8.0;
        let scaled = features.iter().map(|x| ((x.max(floor) + 4.0) / 4.0) as f32);
        Ok(Input::audio(scaled.collect::<Vec<_>>()))
    }

    /// Each band's weights of the frequencies of a window: triangles between 0 and 8000 Hz that are equally wide on Slaney's mel
    /// scale, divided by half of their width in Hz.
    fn filters(&self) -> Vec<Vec<f64>> {
        const LINEAR: f64 = 1000.0; // Hz up to which a mel is 200/3 Hz; from there on 27 mels are a factor of 6.4
        let log_step = 6.4_f64.ln() / 27.0;
        let hz = |mel: f64| match mel * 200.0 / 3.0 {
            hz if hz < LINEAR => hz,
            hz => LINEAR * ((hz - LINEAR) * 3.0 / 200.0 * log_step).exp(),
        };
        let most = (8000.0 / LINEAR).ln() / log_step + LINEAR * 3.0 / 200.0;
        let bands = self.frames.bands;
        let edges: Vec<f64> =
            (0..bands + 2).map(|i| hz(most * i as f64 / (bands + 1) as f64)).collect();
        let step = f64::from(self.rate / 2) / (self.window / 2) as f64;
        let filter = |edges: &[f64]| {
            let (low, centre, high) = (edges[0], edges[1], edges[2]);
            let weight = |i: usize| {
                let hz = i as f64 * step;
                let triangle = ((hz - low) / (centre - low)).min((high - hz) / (high - centre));
                triangle.max(0.0) * 2.0 / (high - low)
            };
            (0..=self.window / 2).map(weight).collect()
        };
        edges.windows(3).map(filter).collect()
    }
}

/// The Fourier transform of a window of samples.
struct Spectrum {
    hann: Vec<f64>,
    /// Cosine and sine of 2π·n·k / window, for each n the numbers of all k up to half of the window.
    turns: Vec<[Vec<f64>; 2]>,
}

impl Spectrum {
    fn new(window: usize) -> Self {
        let angle = |n: usize| TAU * n as f64 / window as f64;
        let half = window / 2;
        let row = |n: usize, f: fn(f64) -> f64| {
            (0..=half).map(|k| f(angle(n * k % window))).collect::<Vec<_>>()
        };
        Self {
            hann: (0..window).map(|n| 0.5 - 0.5 * angle(n).cos()).collect(),
            turns: (0..=half).map(|n| [row(n, f64::cos), row(n, f64::sin)]).collect(),
        }
    }

    /// The squared magnitudes of the frequencies up to half of the window.
    fn power(&self, mut samples: Vec<f64>) -> Vec<f64> {
        let mut sums = [vec![0.0; self.turns.len()], vec![0.0; self.turns.len()]];
        if samples.iter().any(|x| *x != 0.0) {
            samples.iter_mut().zip(&self.hann).for_each(|(x, hann)| *x *= hann);
            let len = samples.len();
            for (n, turns) in self.turns.iter().enumerate() {
                let (x, mirrored) = (samples[n], samples[(len - n) % len]);
                // Sample 0 and the middle one are their own mirrors.
                let parts =
                    if n % (len / 2) == 0 { [x, 0.0] } else { [x + mirrored, x - mirrored] };
                for ((sums, turns), part) in sums.iter_mut().zip(turns).zip(parts) {
                    sums.iter_mut().zip(turns).for_each(|(sum, turn)| *sum += part * turn);
                }
            }
        }
        let [cosines, sines] = sums;
        cosines.iter().zip(&sines).map(|(x, y)| x * x + y * y).collect()
    }
}

/// The samples of a WAV file, and their number per second. Several channels become their mean. Integers are divided so that they
/// lie between −1 and 1.
///
/// # Errors
/// [`Error::Shape`] with the reason, if the bytes are not a whole WAV file of integers or of 32-bit floating point.
///
/// ```
/// let header = b"RIFF\x28\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0data\x04\0\0\0";
/// let file = [&header[..], &[0, 0x40, 0, 0x80]].concat();
/// assert_eq!(regard_models::read_wav(&file)?, (vec![0.5, -1.0], 16_000));
/// # Ok::<(), regard_models::Error>(())
/// ```
pub fn read_wav(bytes: &[u8]) -> Result<(Vec<f32>, u32), Error> {
    let wrong =
        |e: hound::Error| Error::Shape(format!("this is no WAV file that can be read: {e}"));
    let mut reader = WavReader::new(Cursor::new(bytes)).map_err(wrong)?;
    let spec = reader.spec();
    let channels = usize::from(spec.channels);
    let factor = (2.0_f32).powi(1 - i32::from(spec.bits_per_sample)) / f32::from(spec.channels);
    // The number of samples that the file states is not trusted before they are read.
    let (mut recording, mut read) = (Vec::new(), 0);
    let mut add = |sample: f32| {
        if read % channels == 0 {
            recording.push(0.0);
        }
        if let Some(sum) = recording.last_mut() {
            *sum += sample;
        }
        read += 1;
    };
    match spec.sample_format {
        SampleFormat::Int => {
            for sample in reader.samples::<i32>() {
                add(sample.map_err(wrong)? as f32 * factor);
            }
        }
        SampleFormat::Float => {
            for sample in reader.samples::<f32>() {
                add(sample.map_err(wrong)? / f32::from(spec.channels));
            }
        }
    }
    Ok((recording, spec.sample_rate))
}
