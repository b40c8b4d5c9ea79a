//! Recordings as transformers' `WhisperFeatureExtractor` prepares them.

use std::fs;

use hound::{SampleFormat, WavSpec, WavWriter};
use regard_models::{AudioProcessor, Checkpoint, Description, Error, read_wav};
use regard_tests::attention_files::safetensors;
use regard_tests::models::golden;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};

use crate::common::{assert_says, json as read_json, tensor};

/// The processor of a model that reads so many bands and frames, with these settings.
fn processor([bands, frames]: [usize; 2], settings: &Value) -> Result<AudioProcessor, Error> {
    let mut config = read_json(golden("tiny-whisper").join("config.json"));
    config["num_mel_bins"] = bands.into();
    config["max_source_positions"] = (frames / 2).into();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let tensors = names.map(|name| (name, Dtype::F32, [1], vec![0; 4]));
    let files = [
        ("config.json", config.to_string().into_bytes()),
        ("model.safetensors", safetensors(&tensors, &[])),
        ("preprocessor_config.json", settings.to_string().into_bytes()),
    ];
    let checkpoint = Checkpoint::from_files("model", files).unwrap();
    AudioProcessor::of(&checkpoint, &Description::of(&checkpoint)?)
}

/// transformers 5 writes the settings into a file of all processors.
#[test]
fn processor_config_has_the_settings_of_recordings_too() {
    let read = |file: &str| fs::read(golden("tiny-whisper").join(file)).unwrap();
    let mut own: Value = serde_json::from_slice(&read("preprocessor_config.json")).unwrap();
    own["sampling_rate"] = 8000.into();
    own["hop_length"] = (own["hop_length"].as_u64().unwrap() / 2).into();
    for key in ["feature_extractor", "audio_processor"] {
        let all = json!({key: own, "processor_class": "WhisperProcessor"});
        let files = [
            ("config.json", read("config.json")),
            ("model.safetensors", read("model.safetensors")),
            ("preprocessor_config.json", read("preprocessor_config.json")),
            ("processor_config.json", all.to_string().into_bytes()),
        ];
        let checkpoint = Checkpoint::from_files("model", files).unwrap();
        let description = Description::of(&checkpoint).unwrap();
        assert_eq!(AudioProcessor::of(&checkpoint, &description).unwrap().rate(), 8000);
    }
}

/// The samples of `golden/mel.py`.
fn signal(samples: usize) -> Vec<f32> {
    let sample = |i: f64| {
        let noise = ((i * 7919.0 + i * i * 13.0) % 256.0) / 256.0 - 0.5;
        (0.4 * (i * (0.05 + i * 1e-6)).sin() + 0.1 * noise) as f32
    };
    (0..samples).map(|i| sample(i as f64)).collect()
}

/// A WAV file in memory.
fn wav(channels: u16, bits: u16, sample_format: SampleFormat, samples: &[f32]) -> Vec<u8> {
    let spec = WavSpec { channels, sample_rate: 16_000, bits_per_sample: bits, sample_format };
    let mut bytes = std::io::Cursor::new(Vec::new());
    let mut file = WavWriter::new(&mut bytes, spec).unwrap();
    for x in samples {
        match sample_format {
            SampleFormat::Float => file.write_sample(*x).unwrap(),
            SampleFormat::Int => {
                file.write_sample((f64::from(*x) * 2.0_f64.powi(i32::from(bits) - 1)) as i32)
                    .unwrap();
            }
        }
    }
    file.finalize().unwrap();
    bytes.into_inner()
}

#[test]
fn spectrograms_are_those_of_transformers() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("../golden/mel.json")).unwrap();
    assert_eq!(cases.len(), 4);
    for case in cases {
        let size = |value: &Value| value.as_u64().unwrap() as usize;
        let shape = [0, 1].map(|i| size(&case["shape"][i]));
        let processor = processor(shape, &case["settings"]).unwrap();
        let samples = signal(size(&case["samples"]));
        let found = processor.read(&samples, processor.rate()).unwrap().features;
        assert_eq!(found.len(), shape[0] * shape[1]);
        let expected = case["numbers"].as_array().unwrap();
        assert!(expected.len() > 3);
        for (x, y) in found.iter().step_by(size(&case["step"])).zip(expected) {
            // Both compute in f64, and the files have six digits.
            assert!((f64::from(*x) - y.as_f64().unwrap()).abs() < 2e-6, "{case}: {x} is not {y}");
        }
    }
    // A whole file, of which transformers computes in f32.
    let checkpoint = Checkpoint::open(golden("tiny-whisper")).unwrap();
    let processor =
        AudioProcessor::of(&checkpoint, &Description::of(&checkpoint).unwrap()).unwrap();
    let file = |name: &str| fs::read(golden("tiny-whisper").join(name)).unwrap();
    let (samples, rate) = read_wav(&file("sound.wav")).unwrap();
    let found = processor.read(&samples, rate).unwrap().features;
    let expected = file("expected.safetensors");
    let expected = tensor(&SafeTensors::deserialize(&expected).unwrap(), "input_features");
    for (x, y) in found.iter().zip(&expected.data) {
        assert!((x - y).abs() < 1e-4, "{x} is not {y}");
    }
}

/// Every kind of sample, and two channels of which the mean is read.
#[test]
fn wav_files_are_read_and_mixed() {
    let samples = [0.5, -0.25, 0.0, 0.75, -1.0, 0.25];
    let mixed = [0.125, 0.375, -0.375];
    for (bits, format) in [
        (8, SampleFormat::Int),
        (16, SampleFormat::Int),
        (24, SampleFormat::Int),
        (32, SampleFormat::Int),
        (32, SampleFormat::Float),
    ] {
        for (channels, expected) in [(1, &samples[..]), (2, &mixed)] {
            let file = wav(channels, bits, format, &samples);
            assert_eq!(read_wav(&file).unwrap(), (expected.to_vec(), 16_000), "{bits} bits");
            let said = read_wav(&file[..file.len() - 3]).unwrap_err().to_string();
            assert_says(&said, &["no WAV file that can be read"]);
        }
    }
    for wrong in [&b""[..], b"RIFF", b"no sound at all, but enough bytes for a header"] {
        assert!(read_wav(wrong).is_err());
    }
}

#[test]
fn settings_and_recordings_that_make_no_sense_are_refused() {
    let second = json!({"chunk_length": 1, "feature_size": 12, "hop_length": 320});
    for (key, value, part) in [
        ("feature_size", json!(80), "80 bands and 50 frames, but the model reads 12 and 50"),
        ("chunk_length", json!(30), "12 bands and 1500 frames, but the model reads 12 and 50"),
        ("chunk_length", json!(-1), "chunk_length is -1"),
        ("hop_length", json!(0), "hop_length is 0"),
        ("n_fft", json!(1e9), "n_fft is 1000000000.0"),
        ("n_fft", json!(401), "n_fft is 401, which is no even number"),
        ("sampling_rate", json!("16k"), "sampling_rate is \"16k\""),
        ("dither", json!(0.1), "dither is 0.1"),
    ] {
        let mut settings = second.clone();
        settings[key] = value;
        let said = processor([12, 50], &settings).unwrap_err().to_string();
        assert_says(&said, &["preprocessor_config.json: ", part]);
    }
    let usual = processor([12, 50], &second).unwrap();
    for (samples, rate, part) in [
        (vec![], 16_000, "the recording has no samples"),
        (
            vec![0.0; 16_001],
            16_000,
            "has 16001 samples (1.00 s), but the model reads at most 16000",
        ),
        (vec![0.0; 100], 44_100, "has 44100 samples a second, but the model reads 16000"),
        (vec![0.0, f32::NAN], 16_000, "sample 1 of the recording is NaN"),
        (vec![f32::INFINITY], 16_000, "sample 0 of the recording is inf"),
    ] {
        assert_says(&usual.read(&samples, rate).unwrap_err().to_string(), &[part]);
    }
}
