//! Models in 8-bit integers: what they lose, on the inputs that they meet, whatever the units of these.

use std::fs;

use regard_models::embed::{EmbedOptions, Embedded, Loss, Stored};
use regard_models::{Checkpoint, ImageProcessor, Input, Model};
use regard_tests::attention_files::{bytes, safetensors};
use safetensors::{Dtype, SafeTensors};

use crate::common::{bundled, data, open, tensor};

/// The most points of accuracy that integers may lose.
const POINTS: f64 = 0.3;

/// Tensors with their names and shapes.
type Tensors = Vec<(String, Vec<usize>, Vec<f32>)>;

/// The files of a bundled model with other numbers. Without its preprocessor's settings, nothing says in which units it reads.
fn digits(change: impl Fn(&mut Tensors)) -> Model {
    let read = |file: &str| fs::read(bundled("digits").join(file)).unwrap();
    let weights = read("model.safetensors");
    let file = SafeTensors::deserialize(&weights).unwrap();
    let mut tensors: Tensors = Vec::new();
    for (name, view) in file.iter() {
        let numbers = view.data().as_chunks::<2>().0.iter();
        let numbers = numbers.map(|b| f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16));
        tensors.push((name.to_owned(), view.shape().to_vec(), numbers.collect()));
    }
    change(&mut tensors);
    let tensors: Vec<(&str, Dtype, &Vec<usize>, Vec<u8>)> = tensors
        .iter()
        .map(|(name, shape, numbers)| (name.as_str(), Dtype::F32, shape, bytes(numbers)))
        .collect();
    let files =
        [("config.json", read("config.json")), ("model.safetensors", safetensors(&tensors, &[]))];
    Model::load(&Checkpoint::from_files("digits", files).unwrap()).unwrap()
}

/// The images that training held back, in units of 1/`factor`, with their labels.
fn images(factor: f32) -> (Vec<Input>, Vec<usize>) {
    let held_back = fs::read(bundled("digits").join("held-back.bin")).unwrap();
    let images = held_back.chunks_exact(65).map(|bytes| {
        let pixels = bytes[1..].iter().map(|sample| (f32::from(*sample) / 127.5 - 1.0) * factor);
        (Input::image(pixels.collect::<Vec<f32>>()), usize::from(bytes[0]))
    });
    images.unzip()
}

fn embedded(model: &Model, (inputs, labels): (Vec<Input>, Vec<usize>)) -> Embedded {
    let mut options = EmbedOptions::new("m", 1);
    options.stored = Some(Stored::Int8);
    (options.inputs, options.labels) = (inputs, labels);
    model.embed(&options).unwrap()
}

/// The shares that are right in `f32` and in integers, in points.
fn points(loss: &Loss) -> [f64; 2] {
    loss.right.unwrap().map(|right| 100.0 * right as f64 / loss.rows as f64)
}

#[test]
fn digits_in_any_units_are_read_as_well_in_integers() {
    for factor in [1.0, 3.0, 10.0] {
        let model = digits(|tensors| {
            let projection =
                tensors.iter_mut().find(|(name, ..)| name.contains("projection.weight"));
            projection.unwrap().2.iter_mut().for_each(|x| *x /= factor);
        });
        let calibration = embedded(&model, images(factor)).calibration.unwrap();
        let [float, integer] = points(&calibration.loss);
        println!("units × {factor}: {float:.2} and {integer:.2} % right; {:?}", calibration.loss);
        assert!(float > 99.0 && integer >= float - POINTS, "× {factor}: {float}, {integer}");
        let image = &calibration.ranges[0];
        assert_eq!((image.place.as_str(), image.most), ("image, channel 0", factor));
        assert!(image.kept <= factor && image.kept > 0.5 * factor && image.clipped < 0.6);
    }
}

#[test]
fn sensors_of_several_units_are_read_as_well_in_integers() {
    for (name, right) in [("motion", 94.0), ("vibration", 92.0)] {
        let folder = data("sensors").join(name);
        let model = Model::open(&folder).unwrap();
        let windows = fs::read(folder.join("windows.safetensors")).unwrap();
        let windows = SafeTensors::deserialize(&windows).unwrap();
        let pixels = tensor(&windows, "pixel_values");
        let size = pixels.data.len() / pixels.shape[0];
        let inputs = pixels.data.chunks(size).map(Input::image).collect();
        let labels = tensor(&windows, "labels").data.iter().map(|x| *x as usize).collect();
        let calibration = embedded(&model, (inputs, labels)).calibration.unwrap();
        let [float, integer] = points(&calibration.loss);
        println!("{name}: {float:.2} and {integer:.2} % right; {:?}", calibration.loss);
        assert!(float > right && integer >= float - POINTS, "{name}: {float}, {integer}");
        assert!(calibration.loss.error < 0.1 * calibration.loss.deviation);
    }
}

/// Hidden features whose weights are small beside their bias are constants. The next layer's bias takes them away again, so that the
/// logits stay those of the model with zeros in these rows.
#[test]
fn the_bias_of_a_row_of_small_weights_stays() {
    for size in [0.0, 1e-4, 1e-7, 1e-10, 1e-38] {
        let model = digits(|tensors| {
            let mut of = |end: &str| {
                let found = tensors.iter().position(|(name, ..)| name.ends_with(end)).unwrap();
                core::mem::take(&mut tensors[found].2)
            };
            let ends = ["weight", "bias"].map(|end| {
                ["intermediate", "output"].map(|part| format!("layer.0.{part}.dense.{end}"))
            });
            let [[mut up, mut down], [mut bias, mut after]] =
                ends.each_ref().map(|ends| ends.each_ref().map(|end| of(end)));
            for row in [3, 17, 40] {
                let weights = &mut up[row * 32..][..32];
                let most = weights.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
                for x in weights {
                    *x *= size / most;
                }
                bias[row] = 2.0;
                for (output, after) in after.iter_mut().enumerate() {
                    down[output * 64 + row] *= 4.0;
                    *after -= down[output * 64 + row] * 1.954_499_7; // GELU(2)
                }
            }
            let changed = [[up, down], [bias, after]];
            for (end, numbers) in ends.iter().flatten().zip(changed.into_iter().flatten()) {
                tensors.iter_mut().find(|(name, ..)| name.ends_with(end)).unwrap().2 = numbers;
            }
        });
        let calibration = embedded(&model, images(1.0)).calibration.unwrap();
        let [float, integer] = points(&calibration.loss);
        println!("rows of {size:e}: {float:.2} and {integer:.2} % right; {:?}", calibration.loss);
        assert!(integer >= float - POINTS, "rows of {size:e}: {float}, {integer}");
    }
}

#[test]
fn inputs_of_an_unknown_range_are_asked_for() {
    let model = digits(|_| ());
    let mut options = EmbedOptions::new("m", 1);
    options.stored = Some(Stored::Int8);
    let refused = |options: &EmbedOptions| model.embed(options).unwrap_err().to_string();
    assert!(refused(&options).contains("--calibrate"), "{}", refused(&options));
    options.inputs = vec![Input::image(vec![f32::NAN; 64])];
    assert!(refused(&options).contains("not finite"), "{}", refused(&options));
    options.inputs = vec![Input::image(vec![0.0; 63])];
    assert!(model.embed(&options).is_err());
    options.inputs = images(1.0).0;
    options.labels = vec![1];
    assert!(refused(&options).contains("1 labels for 360 inputs"), "{}", refused(&options));
    // 8-bit samples have a known range.
    let checkpoint = Checkpoint::open(bundled("digits")).unwrap();
    options.samples = Some(ImageProcessor::of(&checkpoint, model.description()).unwrap());
    (options.inputs, options.labels) = Default::default();
    let made = model.embed(&options).unwrap().calibration.unwrap();
    assert!(!made.given && made.loss.right.is_none() && made.ranges[0].most <= 1.0);
}

/// The texts of a decoder: each of its tokens is compared.
#[test]
fn a_decoder_is_compared_token_by_token() {
    let story = Model::open(bundled("story")).unwrap();
    let mut options = EmbedOptions::new("m", 24);
    options.stored = Some(Stored::Int8);
    let text = story.tokenizer().unwrap().encode("Mia gave Tom the red ball .", None).unwrap();
    let read = text.ids.len().min(24);
    options.inputs = vec![text];
    let calibration = story.embed(&options).unwrap().calibration.unwrap();
    let loss = calibration.loss;
    println!("{loss:?}");
    assert_eq!((loss.rows, loss.right), (read, None));
    // A text of 8 tokens does not tell the ranges well. A sixth of the tokens of a grammar's stories are a choice between equals.
    assert!(loss.same + 1 >= loss.rows && loss.error < 0.2 * loss.deviation, "{loss:?}");
    options.inputs.clear();
    let made = story.embed(&options).unwrap().calibration.unwrap().loss;
    println!("{made:?}");
    assert!(made.same * 20 > made.rows * 17 && made.error < 0.1 * made.deviation, "{made:?}");
    assert!(calibration.ranges.iter().any(|range| range.place == "blocks.0.attn.hook_rot_q"));
}

/// GPT-2 adds a vector at each position. Without them the logits would be those of other texts.
#[test]
fn learned_positions_of_tokens_are_added_in_integers() {
    let model = open("tiny-gpt2");
    let mut options = EmbedOptions::new("m", 12);
    options.stored = Some(Stored::Int8);
    let loss = model.embed(&options).unwrap().calibration.unwrap().loss;
    println!("{loss:?}");
    assert!(loss.error < 0.1 * loss.deviation, "{loss:?}");
}

/// BERT: norms after the sums, embeddings with a norm and types, and a pooler.
#[test]
fn a_text_is_classified_as_well_in_integers() {
    let folder = data("commands");
    let model = Model::open(&folder).unwrap();
    let lines = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let encode = |text| model.tokenizer().unwrap().encode(text, None).unwrap();
    let mut options = EmbedOptions::new("m", 24);
    options.stored = Some(Stored::Int8);
    options.inputs = lines("texts.txt").lines().map(encode).collect();
    options.labels = lines("labels.txt").lines().map(|label| label.parse().unwrap()).collect();
    let calibration = model.embed(&options).unwrap().calibration.unwrap();
    let [float, integer] = points(&calibration.loss);
    println!("{float:.2} and {integer:.2} % right; {:?}", calibration.loss);
    assert!(float > 99.0 && integer >= float - POINTS, "{float}, {integer}");
    assert!(calibration.loss.error < 0.05 * calibration.loss.deviation);
    assert!(calibration.ranges.iter().all(|range| range.clipped.is_sign_positive()));
    let places = ["blocks.0.hook_resid_pre", "blocks.1.ln2.hook_out", "pooler"];
    let has = |place: &&str| calibration.ranges.iter().any(|range| range.place == *place);
    assert!(places.iter().all(has), "{:?}", calibration.ranges);
}
