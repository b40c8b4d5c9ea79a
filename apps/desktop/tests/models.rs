//! The commands of models, through the program. What they write and print is compared with the numbers of transformers, each
//! within 1e-4 of max(1, the tensor's largest number).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use regard_tests::attention_files::Folder;
use regard_tests::models::{FAMILIES, golden};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

fn path(name: &str) -> String {
    golden(name).to_str().unwrap().to_owned()
}

fn regard(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_regard")).args(args).output().unwrap()
}

fn printed(args: &[&str]) -> String {
    let output = regard(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&printed(&[args, &["--format", "json"]].concat())).unwrap()
}

/// The line that the program prints about wrong arguments or files, with exit code 2.
fn refused(args: &[&str]) -> String {
    let output = regard(args);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    said
}

fn assert_refused(args: &[&str], parts: &[&str]) {
    let said = refused(args);
    assert_eq!(said.lines().count(), 1, "{said}");
    for part in parts {
        assert!(said.contains(part), "{args:?}: {said:?} does not say {part:?}");
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Tensor {
    shape: Vec<usize>,
    data: Vec<f64>,
}

/// The tensors of a file, and its metadata.
fn read(path: &Path) -> (BTreeMap<String, Tensor>, BTreeMap<String, String>) {
    let bytes = fs::read(path).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let values = tensors.iter().map(|(name, view)| {
        let data = match view.dtype() {
            Dtype::F32 => {
                view.data().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b).into()).collect()
            }
            Dtype::I64 => {
                view.data().as_chunks().0.iter().map(|b| i64::from_le_bytes(*b) as f64).collect()
            }
            other => panic!("{name} has the type {other:?}"),
        };
        (name.to_owned(), Tensor { shape: view.shape().to_vec(), data })
    });
    let metadata = header.metadata().clone().unwrap_or_default().into_iter().collect();
    (values.collect(), metadata)
}

fn expected(name: &str) -> (BTreeMap<String, Tensor>, Value) {
    let text = fs::read(golden(name).join("expected.json")).unwrap();
    (read(&golden(name).join("expected.safetensors")).0, serde_json::from_slice(&text).unwrap())
}

fn assert_close(found: &Tensor, expected: &Tensor, what: &str) {
    assert_eq!(found.shape, expected.shape, "{what}");
    let largest = expected.data.iter().fold(1.0_f64, |largest, x| largest.max(x.abs()));
    for (x, y) in found.data.iter().zip(&expected.data) {
        assert!((x - y).abs() <= 1e-4 * largest, "{what}: {x} is not {y}");
    }
}

/// The ids of a tensor, as an option's value.
fn ids(tensor: &Tensor) -> String {
    tensor.data.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(",")
}

/// The options for the input of a golden model: its text if it has one.
fn reads(name: &str, tensors: &BTreeMap<String, Tensor>, notes: &Value) -> Vec<String> {
    let mut options = if let Some(text) = notes["text"].as_str() {
        vec!["--text".to_owned(), text.to_owned()]
    } else {
        let file = golden(name).join("expected.safetensors");
        let option = if tensors.contains_key("pixel_values") { "--image" } else { "--audio" };
        vec![option.to_owned(), file.to_str().unwrap().to_owned()]
    };
    if let Some(decoder) = notes["decoder_text"].as_str() {
        options.extend(["--decoder-text".to_owned(), decoder.to_owned()]);
    }
    options
}

fn traced(
    folder: &Folder,
    args: &[&str],
) -> (BTreeMap<String, Tensor>, BTreeMap<String, String>, PathBuf) {
    let output = folder.path("trace.safetensors");
    printed(&[&["trace"], args, &["--output", output.to_str().unwrap()]].concat());
    let (tensors, metadata) = read(&output);
    (tensors, metadata, output)
}

/// Every tensor that transformers computed for a family: plain, ablated, at another temperature, and patched.
#[test]
fn trace_gives_what_transformers_gives() {
    let folder = Folder::new();
    for name in FAMILIES {
        let (tensors, notes) = expected(name);
        let (model, reads) = (path(name), reads(name, &tensors, &notes));
        let reads: Vec<&str> = reads.iter().map(String::as_str).collect();
        let trace =
            |change: &[&str]| traced(&folder, &[&[model.as_str()], &reads[..], change].concat());
        let (plain, metadata, _) = trace(&[]);
        let mut changed: BTreeMap<String, BTreeMap<String, Tensor>> = BTreeMap::new();
        for (tensor, values) in &tensors {
            let parts: Vec<&str> = tensor.split('/').collect();
            let found = match parts[..] {
                ["lens" | "lens_logits" | "generated" | "input_ids_b" | "input_features_b"]
                | ["experts", _] => continue,
                [plain_name] => &plain[plain_name],
                [kind, at, output] => {
                    let other = match (tensors.get("input_ids_b"), tensors.get("input_features_b"))
                    {
                        (Some(other), _) => ["--patch-ids".to_owned(), ids(other)],
                        (None, Some(other)) => {
                            let file = folder.path("other.safetensors");
                            let bytes: Vec<u8> =
                                other.data.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect();
                            let view =
                                TensorView::new(Dtype::F32, other.shape.clone(), &bytes).unwrap();
                            safetensors::serialize_to_file([("input_features", view)], None, &file)
                                .unwrap();
                            ["--patch-file".to_owned(), file.to_str().unwrap().to_owned()]
                        }
                        (None, None) => Default::default(),
                    };
                    let options = match kind {
                        "ablated" => vec!["--ablate", at],
                        "tempered" => vec!["--head-temperature", at],
                        "patched" => vec!["--patch", at, &other[0], &other[1]],
                        other => panic!("{other}"),
                    };
                    let run =
                        changed.entry(format!("{kind}/{at}")).or_insert_with(|| trace(&options).0);
                    &run[output]
                }
                _ => panic!("{tensor}"),
            };
            assert_close(found, values, &format!("{name}: {tensor}"));
        }
        let tokens: Value = serde_json::from_str(&metadata["tokens"]).unwrap();
        assert_eq!(tokens, notes["tokens"], "{name}");
        if let Some(decoder_tokens) = notes.get("decoder_tokens") {
            let found: Value = serde_json::from_str(&metadata["decoder_tokens"]).unwrap();
            assert_eq!(found, *decoder_tokens, "{name}");
        }
    }
}

#[test]
fn generate_writes_what_transformers_writes() {
    for name in FAMILIES {
        let (tensors, notes) = expected(name);
        let Some(generated) = tensors.get("generated") else { continue };
        let (model, reads) = (path(name), reads(name, &tensors, &notes));
        // A decoder begins with its first token alone.
        let reads = if notes.get("decoder_text").is_some() { &reads[..2] } else { &reads[..] };
        let count = generated.data.len().to_string();
        let mut args = vec!["generate", model.as_str(), "--tokens", &count];
        args.extend(reads.iter().map(String::as_str));
        let found = json(&args);
        let ids: Vec<f64> =
            found["ids"].as_array().unwrap().iter().map(|id| id.as_f64().unwrap()).collect();
        assert_eq!(ids, generated.data, "{name}");
        assert_eq!(found["text"], notes["generated_text"], "{name}");
        assert_eq!(
            printed(&args),
            format!("{}\n", notes["generated_text"].as_str().unwrap()),
            "{name}"
        );
    }
}

#[test]
fn a_seed_gives_the_same_text_again() {
    let model = path("tiny-llama");
    let with = |options: &[&str]| {
        json(&[&["generate", &model, "--ids", "7,8,9", "--tokens", "20"], options].concat())["ids"]
            .clone()
    };
    let first = with(&["--temperature", "1", "--seed", "5"]);
    assert_eq!(first, with(&["--temperature", "1", "--seed", "5"]));
    assert_ne!(first, with(&["--temperature", "1", "--seed", "6"]));
    assert_eq!(with(&["--temperature", "0.0001", "--seed", "5"]), with(&[]), "a low temperature");
}

#[test]
fn predict_ranks_the_next_tokens() {
    let (tensors, notes) = expected("tiny-llama");
    let model = path("tiny-llama");
    let found = json(&["predict", &model, "--text", notes["text"].as_str().unwrap(), "--top", "5"]);
    assert_eq!(found["tokens"], notes["tokens"]);
    let logits = &tensors["logits"];
    let row = &logits.data[logits.data.len() - logits.shape[1]..];
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|i, j| row[*j].total_cmp(&row[*i]));
    let largest = row[order[0]];
    let sum: f64 = row.iter().map(|x| (x - largest).exp()).sum();
    let next = found["next"].as_array().unwrap();
    assert_eq!(next.len(), 5);
    for (next, id) in next.iter().zip(order) {
        assert_eq!(next["id"].as_u64().unwrap() as usize, id);
        assert!((next["logit"].as_f64().unwrap() - row[id]).abs() <= 1e-4 * largest.abs().max(1.0));
        let probability = (row[id] - largest).exp() / sum;
        assert!((next["probability"].as_f64().unwrap() - probability).abs() <= 1e-3 * probability);
        assert!(next["token"].is_string());
    }
    let text =
        printed(&["predict", &model, "--text", notes["text"].as_str().unwrap(), "--top", "2"]);
    assert_eq!(text.lines().count(), 3, "{text}");
    // A decoder's prediction follows its text.
    let (tensors, notes) = expected("tiny-t5");
    let (text, decoder) = (notes["text"].as_str().unwrap(), ids(&tensors["decoder_input_ids"]));
    let found = json(&[
        "predict",
        &path("tiny-t5"),
        "--text",
        text,
        "--decoder-ids",
        &decoder,
        "--top",
        "1",
    ]);
    let logits = &tensors["logits"];
    let last = &logits.data[logits.data.len() - logits.shape[1]..];
    let best = (0..last.len()).max_by(|i, j| last[*i].total_cmp(&last[*j])).unwrap();
    assert_eq!(found["next"][0]["id"].as_u64(), Some(best as u64));
    assert_eq!(found["decoder_tokens"], notes["decoder_tokens"]);
}

#[test]
fn predict_fills_a_mask_and_sorts_images() {
    let model = path("tiny-bert");
    let folder = Folder::new();
    let (tensors, ..) = traced(&folder, &[&model, "--text", "the [MASK] sat"]);
    let found = json(&["predict", &model, "--text", "the [MASK] sat", "--top", "1"]);
    let logits = &tensors["logits"];
    let row = &logits.data[2 * logits.shape[1]..3 * logits.shape[1]];
    let best = (0..row.len()).max_by(|i, j| row[*i].total_cmp(&row[*j])).unwrap();
    assert_eq!(found["next"][0]["id"].as_u64(), Some(best as u64));
    assert_refused(&["predict", &model, "--text", "the cat"], &["put [MASK] where"]);
    assert_refused(&["predict", &model, "--text", "[MASK] [MASK]"], &["several [MASK]"]);

    let (tensors, _) = expected("tiny-vit");
    let image = path("tiny-vit/expected.safetensors");
    let found = json(&["predict", &path("tiny-vit"), "--image", &image]);
    let best =
        (0..5).max_by(|i, j| tensors["logits"].data[*i].total_cmp(&tensors["logits"].data[*j]));
    assert_eq!(found["next"][0]["id"].as_u64(), best.map(|id| id as u64));
    assert_eq!(found["next"].as_array().unwrap().len(), 5);
}

/// PNG and JPEG files of the model's own size. Each pixel x from 0 to 255 is read as (x / 255 − mean) / deviation, where both
/// are 0.5.
#[test]
fn images_of_both_kinds_are_read() {
    let folder = Folder::new();
    let pixel = |x: u32, y: u32| image::Rgb([20 * x, 20 * y, 9 * (x + y)].map(|x| x as u8));
    let drawn = image::RgbImage::from_fn(12, 12, pixel);
    for kind in ["png", "jpg"] {
        let file = folder.path(&format!("image.{kind}"));
        drawn.save(&file).unwrap();
        let pixels = image::open(&file).unwrap().into_rgb8();
        let vit = path("tiny-vit");
        let (tensors, ..) = traced(&folder, &[&vit, "--image", file.to_str().unwrap()]);
        let Tensor { shape, data } = &tensors["pixel_values"];
        assert_eq!(shape, &[3, 12, 12]);
        for (x, y, pixel) in pixels.enumerate_pixels() {
            for (channel, number) in pixel.0.into_iter().enumerate() {
                let found = data[(channel * 12 + y as usize) * 12 + x as usize];
                let expected = (f64::from(number) / 255.0 - 0.5) / 0.5;
                // Three roundings of numbers of at most 1; the last two are doubled.
                assert!((found - expected).abs() <= 3.0 * f64::from(f32::EPSILON), "{kind}");
            }
        }
        let found = json(&["predict", &vit, "--image", file.to_str().unwrap(), "--top", "5"]);
        assert_eq!(found["next"].as_array().unwrap().len(), 5);
    }
    let wrong = folder.path("image.png");
    fs::write(&wrong, b"no image").unwrap();
    assert_refused(
        &["predict", &path("tiny-vit"), "--image", wrong.to_str().unwrap()],
        &["image.png"],
    );
}

/// A WAV file through every command.
#[test]
fn recordings_are_read() {
    let folder = Folder::new();
    let (expected, whisper) = (expected("tiny-whisper").0, path("tiny-whisper"));
    let wav = path("tiny-whisper/sound.wav");
    let (tensors, ..) = traced(
        &folder,
        &[&whisper, "--audio", &wav, "--decoder-ids", &ids(&expected["decoder_input_ids"])],
    );
    for name in ["input_features", "logits", "cross_attentions"] {
        assert_close(&tensors[name], &expected[name], name);
    }
    let first = json(&["predict", &whisper, "--audio", &wav, "--decoder-text", ""]);
    assert_eq!(first, json(&["predict", &whisper, "--audio", &wav]));
    let found = json(&["sweep", &whisper, "--audio", &wav, "--ablate-each-head", "--logit", "7"]);
    assert_eq!(found["effect"]["cross"].as_array().unwrap().len(), 3);
    json(&[
        "score",
        &whisper,
        "--audio",
        &wav,
        "--head",
        "cross.2.1",
        "--query",
        "1",
        "--key",
        "24",
    ]);

    let cut = folder.path("cut.wav");
    fs::write(&cut, &fs::read(&wav).unwrap()[..500]).unwrap();
    for (model, option, file, parts) in [
        (
            &whisper,
            "--audio",
            cut.to_str().unwrap(),
            &["cut.wav", "no WAV file that can be read"][..],
        ),
        (&whisper, "--audio", &path("tiny-gpt2/model.safetensors"), &["input_features"]),
        (&whisper, "--image", &wav, &["reads no image"]),
        (&whisper, "--text", "the fox", &["reads a recording (--audio FILE)"]),
        (&path("tiny-t5"), "--audio", &wav, &["reads no recording"]),
    ] {
        assert_refused(&["predict", model, option, file], parts);
    }
}

/// A sweep's numbers are those of single runs, whose tensors are compared with those of transformers.
#[test]
fn sweep_gives_a_number_for_each_head() {
    let (tensors, notes) = expected("tiny-qwen2");
    let (model, text) = (path("tiny-qwen2"), notes["text"].as_str().unwrap());
    let args = ["sweep", &model, "--text", text, "--ablate-each-head", "--logit", "7-9"];
    let found = json(&args);
    let difference = |logits: &Tensor| {
        let row = &logits.data[logits.data.len() - logits.shape[1]..];
        row[7] - row[9]
    };
    let unchanged = difference(&tensors["logits"]);
    assert!((found["unchanged"].as_f64().unwrap() - unchanged).abs() < 1e-4);
    let mut checked = 0;
    for (tensor, values) in &tensors {
        let Some(head) =
            tensor.strip_prefix("ablated/").and_then(|rest| rest.strip_suffix("/logits"))
        else {
            continue;
        };
        let (layer, head) = head.split_once('.').unwrap();
        let at = |key: &str| {
            found[key][layer.parse::<usize>().unwrap()][head.parse::<usize>().unwrap()]
                .as_f64()
                .unwrap()
        };
        assert!((at("ablated") - difference(values)).abs() < 1e-4, "{tensor}");
        assert!((at("effect") - (difference(values) - unchanged)).abs() < 2e-4, "{tensor}");
        checked += 1;
    }
    assert!(checked >= 2);
    let text = printed(&args);
    assert!(text.contains("head 0") && text.contains("layer 0"), "{text}");

    let found = json(&[
        "sweep",
        &path("tiny-t5"),
        "--text",
        "the fox",
        "--ablate-each-head=mean",
        "--logit",
        "7",
    ]);
    assert_eq!(found["effect"]["encoder"].as_array().unwrap().len(), 2);
    assert_eq!(found["effect"]["cross"].as_array().unwrap().len(), 3);
}

#[test]
fn sweep_patches_each_place() {
    let model = path("tiny-gpt2");
    let (text, other) = ("the quick fox", "the quick dog");
    let sweep = ["sweep", &model, "--text", text, "--logit", "5-7", "--patch-each-place"];
    let found = json(&[&sweep[..], &["--patch-text", other]].concat());
    let n = found["tokens"].as_array().unwrap().len();
    let layers = found["patched"].as_array().unwrap();
    assert_eq!(layers.len(), 2);
    let measure = |args: &[&str]| {
        let found = json(&[&["predict", &model, "--top", "400"], args].concat());
        let logit = |id: u64| {
            let next = found["next"].as_array().unwrap();
            next.iter().find(|next| next["id"] == id).unwrap()["logit"].as_f64().unwrap()
        };
        logit(5) - logit(7)
    };
    let whole = measure(&["--text", text]);
    assert!((found["unchanged"].as_f64().unwrap() - whole).abs() < 1e-5);
    for layer in 0..2 {
        assert_eq!(layers[layer].as_array().unwrap().len(), n);
        for position in 0..n {
            let at = format!("{layer}.{position}");
            let alone = measure(&["--text", text, "--patch", &at, "--patch-text", other]);
            assert!((layers[layer][position].as_f64().unwrap() - alone).abs() < 1e-5, "{at}");
            let effect = found["effect"][layer][position].as_f64().unwrap();
            assert!((effect - (alone - whole)).abs() < 1e-5, "{at}");
        }
    }
    let table = printed(&[&sweep[..], &["--patch-text", other]].concat());
    assert!(table.contains("layer 1") && table.contains("0 the"), "{table}");
    let t5 = ["sweep", &path("tiny-t5"), "--ids", "5,6,7", "--decoder-ids", "0,3", "--logit", "4"];
    let found = json(&[&t5[..], &["--patch-each-place", "--patch-ids", "5,9,7"]].concat());
    assert_eq!(found["patched"]["encoder"][0].as_array().unwrap().len(), 3);
    assert_eq!(found["patched"]["decoder"][0].as_array().unwrap().len(), 2);
    assert_refused(
        &[&sweep[..], &["--patch-text", "the quick brown fox jumps"]].concat(),
        &["tokens, but the text has"],
    );
}

/// A path of the residual stream through the queries of every later head: one number for each later head, and none for the
/// others. A prediction through a lens ends with the prediction itself.
#[test]
fn sweep_patches_paths_and_predict_looks_through_a_lens() {
    let model = path("tiny-gpt2");
    let (text, other) = ("the quick fox", "the quick dog");
    let sweep = ["sweep", &model, "--text", text, "--logit", "5-7", "--patch-text", other];
    let found = json(&[&sweep[..], &["--path", "0.1"]].concat());
    assert_eq!(found["first_layer"], 1);
    let heads = found["path"][0].as_array().unwrap();
    assert!(found["path"].as_array().unwrap().len() == 1 && heads.len() == 4, "{found}");
    let unchanged = found["unchanged"].as_f64().unwrap();
    for (head, effect) in heads.iter().zip(found["effect"][0].as_array().unwrap()) {
        let expected = head.as_f64().unwrap() - unchanged;
        assert!((effect.as_f64().unwrap() - expected).abs() < 1e-5 && expected != 0.0);
    }
    let table = printed(&[&sweep[..], &["--path", "0.1", "--into", "v"]].concat());
    assert!(table.contains("layer 1") && !table.contains("layer 0"), "{table}");
    assert_refused(&[&sweep[..], &["--path", "0.9"]].concat(), &["there is no head 0.9"]);
    assert_refused(&[&sweep[..], &["--path", "1.2"]].concat(), &["--path 1.2 leads to no head"]);
    let said = refused(&[&sweep[..], &["--patch-each-place", "--into", "k"]].concat());
    assert!(said.contains("--into"), "{said}");
    let said = refused(&["sweep", &model, "--text", text, "--logit", "5", "--path", "0.1"]);
    assert!(said.contains("--patch-text"), "{said}");

    let found = json(&["predict", &model, "--text", text, "--top", "3", "--lens"]);
    let lens = found["lens"].as_array().unwrap();
    assert!(lens.len() == 3 && lens[2] == found["next"] && lens[0] != lens[2], "{found}");
    let table = printed(&["predict", &model, "--text", text, "--top", "3", "--lens"]);
    assert!(table.contains("before layer 0") && table.contains("after layer 1"), "{table}");
}

/// A head's output and its mean from another text, and a vector from a file, as options.
#[test]
fn changes_take_another_text_and_a_vector() {
    let (model, folder) = (path("tiny-gpt2"), Folder::new());
    let logit = |options: &[&str]| {
        let args = [&["predict", &model, "--text", "the fox", "--top", "1"], options].concat();
        json(&args)["next"][0]["logit"].as_f64().unwrap()
    };
    let plain = logit(&[]);
    for option in [["--patch-head", "0.1"], ["--patch-head", "0.1:1"]] {
        let with = |text| logit(&[&option[..], &["--patch-text", text]].concat());
        assert_eq!(with("the fox"), plain, "{option:?}");
        // The first two tokens of both texts are the same.
        assert_eq!(with("the box") == plain, option[1].ends_with(":1"), "{option:?}");
    }
    let mean = |text| logit(&["--ablate", "0.1=other", "--patch-text", text]);
    assert_eq!(mean("the fox"), logit(&["--ablate", "0.1=mean"]));
    assert_ne!(mean("the box"), mean("the fox"));

    let file = |name: &str, width: usize, number: f32| {
        let to = folder.path(name);
        let bytes = number.to_le_bytes().repeat(width);
        let vector = TensorView::new(Dtype::F32, vec![width], &bytes).unwrap();
        safetensors::serialize_to_file([("vector", vector)], None, &to).unwrap();
        to.to_str().unwrap().to_owned()
    };
    let (zeros, ones, short) = (file("0", 32, 0.0), file("1", 32, 1.0), file("s", 3, 1.0));
    let at = |position: &str, file: &str| format!("blocks.1.hook_resid_mid{position}={file}");
    assert_eq!(logit(&["--add", &at("", &zeros)]), plain);
    // A norm that subtracts the mean does not change if the same number is added to all features.
    assert!((logit(&["--add", &at(":0", &ones)]) - plain).abs() < 1e-4);
    let add = |at: String| {
        ["predict", &model, "--text", "the fox", "--add"]
            .map(str::to_owned)
            .into_iter()
            .chain([at])
            .collect::<Vec<_>>()
    };
    for (at, says) in [
        (at("", &short), "3 numbers"),
        (at(":99", &ones), "position 99"),
        ("nowhere=0".into(), "0: "),
        (format!("nowhere={ones}"), "no place \"nowhere\""),
    ] {
        let args = add(at);
        assert_refused(&args.iter().map(String::as_str).collect::<Vec<_>>(), &[says]);
    }
}

#[test]
fn sweep_attributes_a_logit_to_its_parts() {
    let model = path("tiny-gpt2");
    let args =
        ["sweep", &model, "--text", "the quick fox", "--attribute-each-head", "--logit", "5-7"];
    let found = json(&args);
    let number = |value: &Value| value.as_f64().unwrap();
    let mut sum: f64 =
        ["embedding", "positions", "bias"].map(|part| number(&found[part])).iter().sum();
    for layer in found["layers"].as_array().unwrap() {
        let heads = layer["heads"].as_array().unwrap();
        assert_eq!(heads.len(), 4);
        sum += heads.iter().map(number).sum::<f64>();
        sum += number(&layer["bias"]) + number(&layer["feed_forward"]);
    }
    assert!((sum - number(&found["sum"])).abs() < 1e-9);
    let ablated =
        ["sweep", &model, "--text", "the quick fox", "--ablate-each-head", "--logit", "5-7"];
    let whole = number(&json(&ablated)["unchanged"]);
    assert!((sum - whole).abs() < 1e-4, "{sum} is not {whole}");
    assert!((number(&found["unchanged"]) - whole).abs() < 1e-5);
    assert_eq!(found["logit"][1]["id"], 7);
    let table = printed(&args);
    assert!(table.contains("feed-forward") && table.contains("layer 1"), "{table}");
    let table = printed(&[
        "sweep",
        &path("tiny-t5"),
        "--ids",
        "5,6",
        "--attribute-each-head",
        "--logit",
        "4",
    ]);
    assert!(table.contains("cross 4"), "{table}");
    let bert = [
        "sweep",
        &path("tiny-bert"),
        "--text",
        "the [MASK]",
        "--attribute-each-head",
        "--logit",
        "5",
    ];
    assert_refused(&bert, &["the model's head has an activation"]);
}

#[test]
fn a_score_is_the_number_of_the_trace() {
    let folder = Folder::new();
    for (name, head) in [("tiny-llama", "1.3"), ("tiny-gemma2", "0.1"), ("tiny-gpt2", "0.2")] {
        let keep = ["--text", "the quick brown fox", "--keep", "*hook_attn_scores,*hook_pattern"];
        let (tensors, ..) = traced(&folder, &[&[path(name).as_str()], &keep[..]].concat());
        let (layer, h) = head.split_once('.').unwrap();
        let score = json(&[
            "score",
            &path(name),
            "--text",
            "the quick brown fox",
            "--head",
            head,
            "--query",
            "3",
            "--key",
            "1",
        ]);
        let at = |place: &str| {
            let Tensor { shape, data } = &tensors[&format!("blocks.{layer}.attn.{place}")];
            data[(h.parse::<usize>().unwrap() * shape[1] + 3) * shape[2] + 1] as f32
        };
        assert_eq!(score["score"].as_f64().unwrap() as f32, at("hook_attn_scores"), "{name}");
        assert_eq!(score["weight"]["value"].as_f64().unwrap() as f32, at("hook_pattern"), "{name}");
        assert!(score["weight"]["error"].as_f64().unwrap().abs() < 1e-6);
        assert_eq!(score["q_before"].is_array(), name != "tiny-gpt2");
        assert!(score["query_token"].is_string());
    }
    let args = [
        "score",
        &path("tiny-gpt2"),
        "--ids",
        "5,6,7",
        "--head",
        "1.2",
        "--query",
        "1",
        "--key",
        "2",
    ];
    let text = printed(&args);
    for part in ["head 1.2: query 1", "product", "dot product q·k", "the key comes after the query"]
    {
        assert!(text.contains(part), "{text}");
    }
    // A large product has the decimals that its error is told in.
    let large = ["score", "story", "--text", "Mia", "--head", "0.0", "--query", "1", "--key", "0"];
    let large = printed(&large);
    assert!(large.contains("dot product q·k        127.831"), "{large}");
    let changed = json(&[&args[..8], &["--key", "0", "--head-temperature", "1.2=inf"]].concat());
    assert_eq!(changed["temperature"], "inf");
    assert_eq!(changed["weight"]["value"], 0.5);
    assert_refused(&[&args[..8], &["--key", "3"]].concat(), &["3 queries and 3 keys"]);
}

#[test]
fn a_second_text_is_for_models_that_read_two() {
    for model in ["story".to_owned(), path("tiny-llama"), path("tiny-t5")] {
        let args = ["predict", &model, "--text", "Mia", "--text-pair", "Tom"];
        assert_refused(&args, &["reads one text", "--text-pair"]);
    }
    json(&["predict", &path("tiny-bert"), "--text", "[MASK] fox", "--text-pair", "the dog"]);
}

#[test]
fn a_word_that_is_unknown_is_told_once_and_ten_are_told() {
    let words: Vec<String> = (0..30).map(|i| format!("zz{i:02}qq")).collect();
    let text = format!("{0} {0} Mia {0}", words.join(" "));
    let said = |text: &str| {
        String::from_utf8(regard(&["predict", "story", "--text", text]).stderr).unwrap()
    };
    let notes = said(&text);
    assert_eq!(notes.lines().count(), 11, "{notes}");
    assert_eq!(notes.matches("zz00qq").count(), 1, "{notes}");
    assert!(notes.contains("it does not know 20 more"), "{notes}");
    assert!(said("Mai saw Tom").contains("\"Mai\"; did you mean \"Mia\"?"));
}

/// A number of tokens does not wrap around to a small amount of memory.
#[test]
fn more_tokens_than_there_can_be_are_refused() {
    for count in [u64::MAX, u64::MAX / 2, 1 << 60] {
        let (count, model) = (count.to_string(), path("tiny-llama"));
        let args = ["generate", &model, "--ids", "1,2", "--tokens", &count];
        let output = regard(&args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        json(&["model", &model, "--tokens", &count]);
    }
}

/// A copy of tiny-llama in which one number of a tensor is changed.
fn spoilt(folder: &Folder, tensor: &str, number: f32) -> String {
    let mut file = fs::read(golden("tiny-llama/model.safetensors")).unwrap();
    let (header, metadata) = SafeTensors::read_metadata(&file).unwrap();
    let info = metadata.info(tensor).unwrap();
    let start = 8 + header + info.data_offsets.0;
    let bytes = match info.dtype {
        Dtype::F32 => number.to_le_bytes().to_vec(),
        Dtype::BF16 => half::bf16::from_f32(number).to_le_bytes().to_vec(),
        _ => half::f16::from_f32(number).to_le_bytes().to_vec(),
    };
    file[start..start + bytes.len()].copy_from_slice(&bytes);
    folder.file("model.safetensors", file);
    for name in ["config.json", "tokenizer.json"] {
        folder.file(name, fs::read(golden("tiny-llama").join(name)).unwrap());
    }
    folder.path("").to_str().unwrap().to_owned()
}

#[test]
fn weights_that_are_no_numbers_choose_no_token() {
    const TENSOR: &str = "model.layers.1.mlp.down_proj.weight";
    let folder = Folder::new();
    let model = spoilt(&folder, TENSOR, f32::NAN);
    let parts = ["logits are NaN", "model.safetensors", TENSOR, "holds NaN"];
    let ids = ["--ids", "1,2,3"];
    let sweep = ["sweep", &model, "--logit", "3"];
    for args in [
        &["generate", &model][..],
        &["generate", &model, "--temperature", "1"],
        &["predict", &model],
        &[&sweep[..], &["--ablate-each-head"]].concat(),
        &[&sweep[..], &["--attribute-each-head"]].concat(),
    ] {
        assert_refused(&[args, &ids].concat(), &parts);
    }
    for number in [f32::NAN, f32::INFINITY] {
        let model = spoilt(&folder, TENSOR, number);
        let to = folder.path("board");
        let embed = ["embed", &model, "--to", to.to_str().unwrap(), "--int8"];
        assert_refused(&embed, &[TENSOR, &format!("holds {number}")]);
        assert!(!to.exists());
    }
}

#[test]
fn a_token_of_a_logit_is_an_id_a_token_or_a_text() {
    let model = path("tiny-gpt2");
    let logit = |logit: &str| {
        json(&["sweep", &model, "--text", "the fox", "--ablate-each-head", "--logit", logit])["logit"].clone()
    };
    let the = logit("Ġthe");
    assert_eq!(the[0]["token"], "Ġthe");
    assert_eq!(the, logit(" the"));
    assert_eq!(the, logit(&the[0]["id"].to_string()));
    assert_eq!(logit("Ġthe-the")[1]["token"], "the");
    assert_eq!(logit("-")[0]["token"], "-");
    let with = |logit: &'static str| {
        ["sweep", &model, "--text", "a", "--ablate-each-head", "--logit", logit]
    };
    assert_refused(&with("the fox"), &["\"the fox\" is", "tokens, and not one"]);
    assert_refused(&with("99999"), &["99999 is not one of the vocabulary's 320"]);
}

#[test]
fn model_says_what_a_model_is() {
    let text = printed(&["model", &path("tiny-llama")]);
    for part in [
        "llama",
        "2 × 4 heads of 8 features, which share 2 key/value heads",
        "320",
        "for the weights",
    ] {
        assert!(text.contains(part), "{text}");
    }
    for name in FAMILIES {
        let found = json(&["model", &path(name)]);
        assert!(found["memory"]["weights"].as_u64().unwrap() > 1000, "{found}");
        assert!(found["memory"]["run"].as_u64().unwrap() > 1000, "{found}");
        assert!(
            name.starts_with(&format!("tiny-{}", found["family"].as_str().unwrap())),
            "{found}"
        );
        printed(&["model", &path(name)]);
    }
    let found = json(&["model", &path("gguf/tiny-llama256.Q4_K.gguf")]);
    assert_eq!(found["stack"]["block"]["kv_heads"], 1);
}

#[test]
fn the_bundled_model_runs_by_its_name() {
    let text = regard_story::TEXT;
    assert_eq!(
        json(&["predict", "story", "--text", text, "--top", "1"])["next"][0]["token"],
        "Mary"
    );
    assert!(printed(&["model", "story"]).starts_with("model        story\n"));
    assert!(printed(&["generate", "story", "--text", text, "--tokens", "8"]).contains("Mary"));
}

#[test]
fn a_model_that_classifies_names_its_classes() {
    let folder = Folder::new();
    let digit = regard_digits::held_back().find(|digit| digit.label == 7).unwrap();
    let file = folder.path("seven.png");
    let side = regard_digits::SIDE as u32;
    image::GrayImage::from_raw(side, side, digit.pixels.to_vec()).unwrap().save(&file).unwrap();
    let read = ["digits", "--image", file.to_str().unwrap()];
    let predicted = json(&[&["predict"], &read[..]].concat());
    assert_eq!(predicted["next"][0]["token"], "7");
    let table = printed(&[&["predict"], &read[..], &["--top", "1"]].concat());
    assert!(table.starts_with("class ") && table.contains("\n7 "), "{table}");

    let sweep = [&["sweep"], &read[..], &["--ablate-each-head", "--logit"]].concat();
    let swept = json(&[&sweep[..], &["7"]].concat());
    assert_eq!(swept["logit"][0]["token"], "7");
    let number = |x: &Value| x.as_f64().unwrap() as f32;
    assert_eq!(number(&swept["unchanged"]), number(&predicted["next"][0]["logit"]));
    assert_refused(&[&sweep[..], &["10"]].concat(), &["the model has 10 classes, and none is 10"]);
}

/// The name of the first key in a table.
fn first_token(csv: &str) -> &str {
    csv.split(',').nth(1).unwrap()
}

/// The files of a trace are files of attention, which `regard export` reads.
#[test]
fn traces_are_files_of_attention() {
    let folder = Folder::new();
    let out = folder.path("head.csv");
    let out = out.to_str().unwrap();
    let export = |file: &Path, options: &[&str]| {
        let args = [&["export", file.to_str().unwrap(), "--to", out], options].concat();
        printed(&args);
        fs::read_to_string(out).unwrap()
    };
    let (tensors, _, file) = traced(&folder, &[&path("tiny-gpt2"), "--text", "the quick fox"]);
    let csv = export(&file, &["--layer", "1", "--head", "2"]);
    assert!(csv.lines().next().unwrap().contains(",the,Ġqu,"), "{csv}");
    let n = tensors["input_ids"].shape[0];
    assert_eq!(csv.lines().count(), n + 1);
    let (_, _, file) = traced(
        &folder,
        &[&path("tiny-gpt2"), "--text", "the quick fox", "--keep", "blocks.*.attn.hook_pattern"],
    );
    assert_eq!(export(&file, &["--layer", "1", "--head", "2"]), csv);
    // In a model with an encoder and a decoder, each attention has its own tokens.
    let t5 = ["--text", "the fox", "--decoder-text", "a"];
    let (tensors, _, file) = traced(&folder, &[&[path("tiny-t5").as_str()], &t5[..]].concat());
    let [.., queries, keys] = tensors["cross_attentions"].shape[..] else { panic!() };
    assert_ne!(queries, keys);
    let csv = export(&file, &["--matrix", "cross_attentions", "--layer", "0", "--head", "0"]);
    assert!(first_token(&csv) == "▁the" && csv.contains("\n<pad>,"), "{csv}");
    let csv = export(&file, &["--matrix", "decoder_attentions", "--layer", "0", "--head", "0"]);
    assert_eq!(first_token(&csv), "<pad>", "{csv}");
    let csv = export(&file, &["--layer", "0", "--head", "0"]);
    assert_eq!(first_token(&csv), "▁the", "the encoder's attention comes first: {csv}");
    let keep = ["--keep", "decoder.*.cross_attn.hook_pattern"];
    let (_, _, file) = traced(&folder, &[&[path("tiny-t5").as_str()], &t5[..], &keep[..]].concat());
    assert!(export(&file, &["--layer", "0", "--head", "0"]).contains("\n<pad>,"));
}

#[test]
fn keep_names_places_and_outputs() {
    let folder = Folder::new();
    let args = [
        "--text",
        "the fox",
        "--keep",
        "blocks.0.attn.hook_q,attentions",
        "--keep",
        "*hook_resid_mid",
    ];
    let (tensors, ..) = traced(&folder, &[&[path("tiny-llama").as_str()], &args[..]].concat());
    let names: Vec<&str> = tensors.keys().map(String::as_str).collect();
    let expected = [
        "attentions",
        "blocks.0.attn.hook_q",
        "blocks.0.hook_resid_mid",
        "blocks.1.hook_resid_mid",
        "input_ids",
    ];
    assert_eq!(names, expected);
    let output = folder.path("none.safetensors");
    let output = output.to_str().unwrap();
    let keep = |name: &'static str| {
        vec![
            "trace".to_owned(),
            path("tiny-llama"),
            "--text".into(),
            "a".into(),
            "--output".into(),
            output.into(),
            "--keep".into(),
            name.into(),
        ]
    };
    let args = keep("blocks.7.hook_resid_pre");
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    assert_refused(&args, &["the model has no \"blocks.7.hook_resid_pre\""]);
    assert!(!Path::new(output).exists());
}

#[test]
fn a_cut_edge_has_no_weight() {
    let folder = Folder::new();
    let model = path("tiny-gpt2");
    let args = [model.as_str(), "--text", "the quick fox", "--cut", "1.2:3,1", "--cut", "1.2:3,2"];
    let attentions = traced(&folder, &args).0.remove("attentions").unwrap();
    let [_, heads, n, _] = attentions.shape[..] else { panic!() };
    let row = &attentions.data[((heads + 2) * n + 3) * n..][..n];
    assert_eq!((row[1], row[2], row[4]), (0.0, 0.0, 0.0));
    assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-6 && row[0] > 0.0);
}

#[test]
fn changes_without_a_meaning_are_refused() {
    let (gpt, t5) = (path("tiny-gpt2"), path("tiny-t5"));
    let of = |model: &str, options: &[&str]| {
        let mut args = vec!["predict", model, "--text", "the fox", "--top", "1"];
        args.extend(options);
        refused(&args)
    };
    for (options, part) in [
        (&["--ablate", "2.0"][..], "there is no head 2.0: there are 2 layers of 4 heads"),
        (&["--ablate", "0.4"], "there is no head 0.4"),
        (&["--ablate", "encoder.0.0"], "the model has one stack"),
        (
            &["--ablate", "0.1=half"],
            "\"half\" is neither zero nor mean; the form is L.H[=zero|mean|other]",
        ),
        (&["--ablate", "7"], "a head is written LAYER.HEAD"),
        (&["--head-temperature", "0.1"], "L.H=T"),
        (&["--head-temperature", "0.1=-1"], "0.1=-1"),
        (&["--head-temperature", "0.1=1e50"], "to 3.4e38, or inf"),
        (&["--cut", "0.1:1,2"], "query 1 of head 0.1 does not see key 2: there is nothing to cut"),
        (&["--cut", "0.1:99,2"], "there is no edge 99,2 to cut"),
        (&["--patch", "1.1"], "--patch-text"),
        (&["--patch-text", "the fox"], "--patch"),
        (&["--patch", "1.1", "--patch-text", "the quick fox"], "tokens, but the text has"),
        (&["--patch", "1.9", "--patch-text", "the fox"], "there is no position 9 to patch"),
        (&["--patch", "5.1", "--patch-text", "the fox"], "no layer of --patch 5.1"),
        (&["--decoder-text", "a"], "--decoder-text and --decoder-ids are for t5"),
        (&["--image", "a.png"], "--image"),
    ] {
        let said = of(&gpt, options);
        assert!(said.contains(part), "{options:?}: {said}");
    }
    let said = of(&t5, &["--ablate", "0.1"]);
    assert!(said.contains("the model has encoder, decoder and cross"), "{said}");
    // Options that belong to a text, beside other inputs; and a list that clap could take for an option.
    for input in [["--ids", "1"], ["--image", "a.png"], ["--audio", "a.wav"]] {
        for options in [["--text-pair", "a"].as_slice(), &["--chat"]] {
            let said = refused(&[&["predict", &gpt], &input[..], options].concat());
            assert!(said.contains("cannot be used with"), "{said}");
        }
    }
    let said = refused(&["predict", &gpt, "--ids", "-1,2"]);
    assert!(said.contains("'-1' for '--ids <IDS>'"), "{said}");
    assert_refused(
        &["predict", &gpt, "--ids", "999"],
        &["the token 999 is not one of the vocabulary's 320"],
    );
    assert_refused(
        &["generate", &path("tiny-bert"), "--text", "the"],
        &["no head that predicts the next token"],
    );
    assert_refused(
        &["generate", &gpt, "--ids", "1", "--tokens", "9999"],
        &["the model has positions for"],
    );
}

#[test]
fn a_trace_says_what_it_wrote_and_which_place_may_have_been_meant() {
    let folder = Folder::new();
    let to = folder.path("story.safetensors");
    let to = to.to_str().unwrap();
    let output = regard(&["trace", "story", "--text", "Mia saw Tom.", "--output", to]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(to) && said.contains("attentions [4, 4, 5, 5]"), "{said}");
    let keep = ["trace", "story", "--text", "Mia", "--output", to, "--keep"];
    for (name, meant) in [
        ("blocks.0.attn.hook_patern", "blocks.0.attn.hook_pattern"),
        ("atentions", "attentions"),
        ("inputids", "input_ids"),
    ] {
        let said = refused(&[&keep[..], &[name]].concat());
        assert!(said.ends_with(&format!("has no {name:?}; did you mean {meant:?}?\n")), "{said}");
    }
    // A name of the input is a name of the table, too.
    let output = regard(&[&keep[..], &["input_ids"]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.ends_with("input_ids [2]\n"), "{said}");
}

/// A patch with a text's own run changes nothing, in any stack of t5.
#[test]
fn patches_reach_every_stack() {
    let model = path("tiny-t5");
    let logit = |options: &[&str]| {
        let mut args =
            vec!["predict", &model, "--text", "the fox", "--decoder-text", "a", "--top", "1"];
        args.extend(options);
        json(&args)["next"][0]["logit"].as_f64().unwrap()
    };
    let plain = logit(&[]);
    for at in ["encoder.1.1", "decoder.1.0", "cross.1.1"] {
        assert_eq!(logit(&["--patch", at, "--patch-text", "the fox"]), plain, "{at}");
        let other = logit(&["--patch", at, "--patch-text", "the box"]);
        assert!(other != plain || at.starts_with("decoder"), "{at}");
    }
}

#[test]
fn files_that_are_wrong_are_named_in_one_line() {
    let folder = Folder::new();
    assert_refused(
        &["model", "no/such/model/here"],
        &["no/such/model/here: there is no such file or folder"],
    );
    let copy = |name: &str| {
        let to = folder.path(name);
        fs::create_dir_all(&to).unwrap();
        for file in fs::read_dir(golden(name)).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
        to
    };
    let model = copy("tiny-gpt2");
    let name = model.to_str().unwrap().to_owned();
    let weights = model.join("model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    fs::write(&weights, &bytes[..bytes.len() - 100]).unwrap();
    assert_refused(
        &["predict", &name, "--text", "a"],
        &["model.safetensors: the tensor", "cut short"],
    );
    fs::write(&weights, b"short").unwrap();
    assert_refused(&["model", &name], &["model.safetensors: ends before its header does"]);
    fs::remove_file(&weights).unwrap();
    assert_refused(
        &["model", &name],
        &["neither model.safetensors nor model.safetensors.index.json"],
    );

    let shards = copy("tiny-gpt_neox");
    fs::remove_file(shards.join("model-00002-of-00002.safetensors")).unwrap();
    assert_refused(
        &["model", shards.to_str().unwrap()],
        &["model.safetensors.index.json: the tensor", "missing"],
    );

    let file = folder.path("short.gguf");
    fs::write(&file, &fs::read(golden("gguf/tiny-gpt2.F16.gguf")).unwrap()[..2000]).unwrap();
    assert_refused(&["model", file.to_str().unwrap()], &["short.gguf: is no GGUF file"]);
}

#[test]
fn models_are_found_in_the_cache_by_their_names() {
    let folder = Folder::new();
    let snapshot = folder.path("hub/models--some--gpt/snapshots/abc");
    fs::create_dir_all(&snapshot).unwrap();
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        fs::copy(golden("tiny-gpt2").join(file), snapshot.join(file)).unwrap();
    }
    let refs = folder.path("hub/models--some--gpt/refs");
    fs::create_dir_all(&refs).unwrap();
    fs::write(refs.join("main"), "abc").unwrap();
    let regard = |name: &str, value: &Path, args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_regard"));
        for name in ["HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HF_ENDPOINT"] {
            command.env_remove(name);
        }
        command.env(name, value).args(args).output().unwrap()
    };
    let found = regard("HF_HOME", &folder.path(""), &["model", "some/gpt"]);
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    let found = regard("HF_HUB_CACHE", &folder.path("hub"), &["model", "some/gpt", "--download"]);
    assert!(found.status.success(), "what is there is not downloaded again");
    let missing = regard("HF_HOME", &folder.path(""), &["model", "some/other"]);
    let said = String::from_utf8(missing.stderr).unwrap();
    assert_eq!(missing.status.code(), Some(2));
    assert!(said.contains("models--some--other") && said.contains("--download"), "{said}");
}

#[test]
fn a_model_is_embedded_as_a_crate_and_no_other_crate_is_replaced() {
    let folder = Folder::new();
    let to = folder.path("story");
    let embed = |to: &Path, flash: &str| {
        regard(&[
            "embed",
            "story",
            "--to",
            to.to_str().unwrap(),
            "--context",
            "96",
            "--flash",
            flash,
        ])
    };
    for _ in 0..2 {
        let output = embed(&to, "512K");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        assert!(said.contains("425216 bytes of weights in flash (bf16)"), "{said}");
        let library = fs::read_to_string(to.join("src/lib.rs")).unwrap();
        assert!(library.contains("425216 bytes of flash"), "{library}");
        assert!(to.join("src/model.rs").exists() && to.join("Cargo.toml").exists());
    }

    let absent = folder.path("small");
    let said = String::from_utf8(embed(&absent, "300K").stderr).unwrap();
    assert!(said.contains("--weights int8") && !absent.exists(), "{said}");

    for (name, whose) in [
        ("regard-embed", "a crate that it depends on"),
        ("regard_kernels", "a crate that it depends on"),
        ("libm", "a crate that it depends on"),
        ("match", "a keyword of Rust"),
        ("core", "a crate that comes with Rust"),
        ("test", "a crate that comes with Rust"),
        ("build", "a folder in which Cargo builds"),
        ("AUX", "a device on Windows"),
    ] {
        let to = folder.path(name);
        assert_refused(&["embed", "story", "--to", to.to_str().unwrap()], &[name, whose]);
        assert!(!to.exists());
    }

    let firmware = folder.path("firmware");
    fs::create_dir_all(&firmware).unwrap();
    fs::write(firmware.join("Cargo.toml"), "[package]").unwrap();
    assert_refused(
        &["embed", "story", "--to", firmware.to_str().unwrap()],
        &["firmware/Cargo.toml belongs to a crate that `regard embed` did not write"],
    );
    assert_eq!(fs::read_to_string(firmware.join("Cargo.toml")).unwrap(), "[package]");
}
