//! The commands of models, through the program. What they write and print is compared with the numbers of transformers, each
//! within 1e-4 of max(1, the tensor's largest number).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{assert_refused, command, json, printed, refused, regard, text};
use regard_tests::attention_files::{Folder, bytes, safetensors};
use regard_tests::models::{FAMILIES, golden};
use regard_tests::tensor;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

fn path(name: &str) -> String {
    golden(name).display().to_string()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// The number of elements of a list.
fn len(value: &Value) -> usize {
    value.as_array().unwrap().len()
}

/// The index of the largest number.
fn largest(row: &[f64]) -> usize {
    (0..row.len()).max_by(|i, j| row[*i].total_cmp(&row[*j])).unwrap()
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
    let values = tensors.names().into_iter().map(|name| {
        let tensor = tensor::Tensor::read(&tensors, name).unwrap().unwrap();
        let tensor::Tensor { shape, data, dtype } = tensor;
        assert!(matches!(dtype, Dtype::F32 | Dtype::I64), "{name}: {dtype:?}");
        (name.to_owned(), Tensor { shape, data: data.into_iter().map(f64::from).collect() })
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

/// The logits of a position.
fn row(tensors: &BTreeMap<String, Tensor>, position: usize) -> &[f64] {
    let Tensor { shape, data } = &tensors["logits"];
    &data[position * shape[1]..][..shape[1]]
}

/// The logits of the last position.
fn last_row(tensors: &BTreeMap<String, Tensor>) -> &[f64] {
    row(tensors, tensors["logits"].shape[0] - 1)
}

/// The options for the input of a golden model: its text if it has one.
fn reads(name: &str, tensors: &BTreeMap<String, Tensor>, notes: &Value) -> [String; 2] {
    let file = path(&format!("{name}/expected.safetensors"));
    let input = match notes["text"].as_str() {
        Some(text) => format!("--text {}", quoted(text)),
        None if tensors.contains_key("pixel_values") => format!("--image {file}"),
        None => format!("--audio {file}"),
    };
    let decoder = notes["decoder_text"].as_str();
    [input, decoder.map_or(String::new(), |text| format!("--decoder-text {}", quoted(text)))]
}

/// A word of a command line.
fn quoted(text: &str) -> String {
    shlex::try_quote(text).unwrap().into_owned()
}

fn traced(
    folder: &Folder,
    args: impl AsRef<str>,
) -> (BTreeMap<String, Tensor>, BTreeMap<String, String>, PathBuf) {
    let output = folder.path("trace.safetensors");
    printed(format!("trace {} --output {}", args.as_ref(), output.display()));
    let (tensors, metadata) = read(&output);
    (tensors, metadata, output)
}

/// One model for each kind of input, with tokenizers of each kind. The program treats other families alike, and the library's
/// tests compare all of them.
const KINDS: [&str; 7] = [
    "tiny-bert",
    "tiny-gpt2",
    "tiny-llama",
    "tiny-qwen3_moe",
    "tiny-t5",
    "tiny-vit",
    "tiny-whisper",
];

/// Every tensor that transformers computed for a model: plain, ablated, at another temperature, and patched.
#[test]
fn trace_gives_what_transformers_gives() {
    let folder = Folder::new();
    for name in KINDS {
        let (tensors, notes) = expected(name);
        let [input, decoder] = reads(name, &tensors, &notes);
        let trace =
            |change: &str| traced(&folder, format!("{} {input} {decoder} {change}", path(name)));
        let (plain, metadata, _) = trace("");
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
                        (Some(other), _) => format!("--patch-ids {}", ids(other)),
                        (None, Some(other)) => {
                            let numbers: Vec<f32> = other.data.iter().map(|x| *x as f32).collect();
                            let features = file_of("input_features", &other.shape, &numbers);
                            let file = folder.file("other.safetensors", features);
                            format!("--patch-file {}", file.display())
                        }
                        (None, None) => String::new(),
                    };
                    let options = match kind {
                        "ablated" => format!("--ablate {at}"),
                        "tempered" => format!("--head-temperature {at}"),
                        "patched" => format!("--patch {at} {other}"),
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
        for tokens in ["tokens", "decoder_tokens"] {
            let found = metadata.get(tokens).map(|found| serde_json::from_str(found).unwrap());
            assert_eq!(found.as_ref(), notes.get(tokens), "{name}");
        }
    }
}

/// A file with one tensor.
fn file_of(name: &str, shape: &[usize], numbers: &[f32]) -> Vec<u8> {
    safetensors(&[(name, Dtype::F32, shape, bytes(numbers))], &[])
}

#[test]
fn generate_writes_what_transformers_writes() {
    for name in KINDS {
        let (tensors, notes) = expected(name);
        let Some(generated) = tensors.get("generated") else { continue };
        // A decoder begins with its first token alone.
        let [input, _] = reads(name, &tensors, &notes);
        let line = format!("generate {} --tokens {} {input}", path(name), generated.data.len());
        let found = json(&line);
        let ids: Vec<f64> = found["ids"].as_array().unwrap().iter().map(number).collect();
        assert_eq!(ids, generated.data, "{name}");
        assert_eq!(found["text"], notes["generated_text"], "{name}");
        let text = format!("{}\n", notes["generated_text"].as_str().unwrap());
        assert_eq!(printed(&line), text, "{name}");
    }
}

#[test]
fn a_seed_gives_the_same_text_again() {
    let model = path("tiny-llama");
    let with = |options: &str| {
        json(format!("generate {model} --ids 7,8,9 --tokens 20 {options}"))["ids"].clone()
    };
    let first = with("--temperature 1 --seed 5");
    assert_eq!(first, with("--temperature 1 --seed 5"));
    assert_ne!(first, with("--temperature 1 --seed 6"));
    assert_eq!(with("--temperature 0.0001 --seed 5"), with(""), "a low temperature");
}

#[test]
fn predict_ranks_the_next_tokens() {
    let (tensors, notes) = expected("tiny-llama");
    let text = quoted(notes["text"].as_str().unwrap());
    let predict = format!("predict {} --text {text}", path("tiny-llama"));
    let found = json(format!("{predict} --top 5"));
    assert_eq!(found["tokens"], notes["tokens"]);
    let row = last_row(&tensors);
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|i, j| row[*j].total_cmp(&row[*i]));
    let first = row[order[0]];
    let sum: f64 = row.iter().map(|x| (x - first).exp()).sum();
    let next = found["next"].as_array().unwrap();
    assert_eq!(next.len(), 5);
    for (next, id) in next.iter().zip(order) {
        assert_eq!(next["id"].as_u64().unwrap() as usize, id);
        assert!((number(&next["logit"]) - row[id]).abs() <= 1e-4 * first.abs().max(1.0));
        let probability = (row[id] - first).exp() / sum;
        assert!((number(&next["probability"]) - probability).abs() <= 1e-3 * probability);
        assert!(next["token"].is_string());
    }
    let table = printed(format!("{predict} --top 2"));
    assert_eq!(table.lines().count(), 3, "{table}");
    // A decoder's prediction follows its text.
    let (tensors, notes) = expected("tiny-t5");
    let [input, _] = reads("tiny-t5", &tensors, &notes);
    let (t5, decoder) = (path("tiny-t5"), ids(&tensors["decoder_input_ids"]));
    let found = json(format!("predict {t5} {input} --decoder-ids {decoder} --top 1"));
    assert_eq!(found["next"][0]["id"], largest(last_row(&tensors)));
    assert_eq!(found["decoder_tokens"], notes["decoder_tokens"]);
}

#[test]
fn predict_fills_a_mask_and_sorts_images() {
    let model = path("tiny-bert");
    let (tensors, ..) = traced(&Folder::new(), format!("{model} --text 'the [MASK] sat'"));
    let found = json(format!("predict {model} --text 'the [MASK] sat' --top 1"));
    assert_eq!(found["next"][0]["id"], largest(row(&tensors, 2)));
    assert_refused(format!("predict {model} --text 'the cat'"), &["put [MASK] where"]);
    assert_refused(format!("predict {model} --text '[MASK] [MASK]'"), &["several [MASK]"]);

    let (tensors, _) = expected("tiny-vit");
    let vit = path("tiny-vit");
    let found = json(format!("predict {vit} --image {vit}/expected.safetensors"));
    assert_eq!(found["next"][0]["id"], largest(&tensors["logits"].data));
    assert_eq!(len(&found["next"]), 5);

    for name in ["tiny-deit", "tiny-dinov2"] {
        let (tensors, _) = expected(name);
        let model = path(name);
        let found = json(format!("predict {model} --image {model}/expected.safetensors"));
        let best = largest(&tensors["logits"].data);
        assert_eq!(found["next"][0]["id"], best, "{name}");
        assert_eq!(found["next"][0]["token"], ["cat", "dog", "owl", "newt"][best], "{name}");
    }
}

/// A model that compares texts with images predicts a vector of each.
#[test]
fn predict_shows_the_vector_of_a_text_or_an_image() {
    let (tensors, notes) = expected("tiny-clip_text_model");
    let text = format!("--text {}", quoted(notes["text"].as_str().unwrap()));
    for (name, input) in [
        ("tiny-clip_text_model", text),
        ("tiny-clip_vision_model", "--image MODEL/expected.safetensors".to_owned()),
        ("tiny-siglip_vision_model", "--image MODEL/expected.safetensors".to_owned()),
        ("tiny-dinov3_vit", "--image MODEL/expected.safetensors".to_owned()),
    ] {
        let model = path(name);
        let line = format!("predict {model} {}", input.replace("MODEL", &model));
        let (own, _) = expected(name);
        let vector: Vec<f64> =
            serde_json::from_value(json(line.clone())["pooled"].clone()).unwrap();
        let wanted = &own["pooler_output"].data;
        assert_eq!(vector.len(), wanted.len(), "{name}");
        for (x, y) in vector.iter().zip(wanted) {
            assert!((x - y).abs() < 1e-4, "{name}: {x} is not {y}");
        }
        let said = printed(format!("{line} --top 2"));
        assert!(
            said.starts_with(&format!("a vector of {} numbers, of length", wanted.len())),
            "{said}"
        );
        assert!(
            printed(format!("model {model}")).contains("a vector of the whole input"),
            "{name}"
        );
    }
    assert_eq!(tensors["pooler_output"].shape, [6]);
    assert_refused(format!("model {}#text", path("tiny-vit")), &["has no part \"text\""]);
}

/// PNG and JPEG files of the model's own size. Each pixel x from 0 to 255 is read as (x / 255 − mean) / deviation, where both
/// are 0.5.
#[test]
fn images_of_both_kinds_are_read() {
    let (folder, vit) = (Folder::new(), path("tiny-vit"));
    let pixel = |x: u32, y: u32| image::Rgb([20 * x, 20 * y, 9 * (x + y)].map(|x| x as u8));
    let drawn = image::RgbImage::from_fn(12, 12, pixel);
    for kind in ["png", "jpg"] {
        let file = folder.path(&format!("image.{kind}"));
        drawn.save(&file).unwrap();
        let pixels = image::open(&file).unwrap().into_rgb8();
        let read = format!("{vit} --image {}", file.display());
        let (tensors, ..) = traced(&folder, &read);
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
        assert_eq!(len(&json(format!("predict {read} --top 5"))["next"]), 5);
    }
    let wrong = folder.file("image.png", b"no image");
    assert_refused(format!("predict {vit} --image {}", wrong.display()), &["image.png"]);
}

/// A WAV file through every command.
#[test]
fn recordings_are_read() {
    let folder = Folder::new();
    let (expected, whisper) = (expected("tiny-whisper").0, path("tiny-whisper"));
    let wav = format!("{whisper}/sound.wav");
    let read = format!("{whisper} --audio {wav}");
    let decoder = ids(&expected["decoder_input_ids"]);
    let (tensors, ..) = traced(&folder, format!("{read} --decoder-ids {decoder}"));
    for name in ["input_features", "logits", "cross_attentions"] {
        assert_close(&tensors[name], &expected[name], name);
    }
    let predict = format!("predict {read}");
    assert_eq!(json(format!("{predict} --decoder-text ''")), json(&predict));
    let found = json(format!("sweep {read} --ablate-each-head --logit 7"));
    assert_eq!(len(&found["effect"]["cross"]), 3);
    json(format!("score {read} --head cross.2.1 --query 1 --key 24"));

    let cut = folder.file("cut.wav", &fs::read(&wav).unwrap()[..500]);
    let (gpt, t5) = (path("tiny-gpt2"), path("tiny-t5"));
    let dot = folder.path("dot.png");
    image::RgbImage::new(1, 1).save(&dot).unwrap();
    for (line, parts) in [
        (
            format!("{whisper} --audio {}", cut.display()),
            &["cut.wav", "no WAV file that can be read"][..],
        ),
        (format!("{whisper} --audio {gpt}/model.safetensors"), &["input_features"]),
        (format!("{whisper} --image {}", dot.display()), &["reads no image"]),
        (format!("{whisper} --text 'the fox'"), &["reads a recording, not a text"]),
        (format!("{t5} --audio {wav}"), &["reads no recording"]),
    ] {
        assert_refused(format!("predict {line}"), parts);
    }
}

/// A sweep's numbers are those of single runs, whose tensors are compared with those of transformers.
#[test]
fn sweep_gives_a_number_for_each_head() {
    let (tensors, notes) = expected("tiny-qwen2");
    let [input, _] = reads("tiny-qwen2", &tensors, &notes);
    let line = format!("sweep {} {input} --ablate-each-head --logit 7-9", path("tiny-qwen2"));
    let found = json(&line);
    let difference = |logits: &Tensor| {
        let row = &logits.data[logits.data.len() - logits.shape[1]..];
        row[7] - row[9]
    };
    let unchanged = difference(&tensors["logits"]);
    assert!((number(&found["unchanged"]) - unchanged).abs() < 1e-4);
    let mut checked = 0;
    for (tensor, values) in &tensors {
        let head = tensor.strip_prefix("ablated/").and_then(|rest| rest.strip_suffix("/logits"));
        let Some((layer, head)) = head.and_then(|head| head.split_once('.')) else { continue };
        let index = |x: &str| x.parse::<usize>().unwrap();
        let at = |key: &str| number(&found[key][index(layer)][index(head)]);
        assert!((at("ablated") - difference(values)).abs() < 1e-4, "{tensor}");
        assert!((at("effect") - (difference(values) - unchanged)).abs() < 2e-4, "{tensor}");
        checked += 1;
    }
    assert!(checked >= 2);
    let table = printed(&line);
    assert!(table.contains("x.0") && table.contains("0.x"), "{table}");

    let t5 = path("tiny-t5");
    let found = json(format!("sweep {t5} --text 'the fox' --ablate-each-head=mean --logit 7"));
    assert_eq!(["encoder", "cross"].map(|which| len(&found["effect"][which])), [2, 3]);
}

#[test]
fn sweep_patches_each_place() {
    let (model, t5) = (path("tiny-gpt2"), path("tiny-t5"));
    let read = "--text 'the quick fox'";
    let sweep = format!("sweep {model} {read} --logit 5-7 --patch-each-place --patch-text");
    let found = json(format!("{sweep} 'the quick dog'"));
    assert_eq!(len(&found["patched"]), 2);
    let measure = |options: &str| {
        let found = json(format!("predict {model} {read} --top 400 {options}"));
        let logit = |id: u64| {
            let next = found["next"].as_array().unwrap();
            number(&next.iter().find(|next| next["id"] == id).unwrap()["logit"])
        };
        logit(5) - logit(7)
    };
    let whole = measure("");
    assert!((number(&found["unchanged"]) - whole).abs() < 1e-5);
    for layer in 0..2 {
        assert_eq!(len(&found["patched"][layer]), len(&found["tokens"]));
        for position in 0..len(&found["tokens"]) {
            let at = format!("{layer}.{position}");
            let alone = measure(&format!("--patch {at} --patch-text 'the quick dog'"));
            let of = |key: &str| number(&found[key][layer][position]);
            assert!((of("patched") - alone).abs() < 1e-5, "{at}");
            assert!((of("effect") - (alone - whole)).abs() < 1e-5, "{at}");
        }
    }
    let table = printed(format!("{sweep} 'the quick dog'"));
    assert!(table.contains("layer 1") && table.contains("0 the"), "{table}");
    let read = format!("{t5} --ids 5,6,7 --decoder-ids 0,3 --logit 4");
    let found = json(format!("sweep {read} --patch-each-place --patch-ids 5,9,7"));
    assert_eq!(len(&found["patched"]["encoder"][0]), 3);
    assert_eq!(len(&found["patched"]["decoder"][0]), 2);
    for kind in ["--ablate-each-head", "--attribute-each-head"] {
        let found = json(format!("sweep {read} {kind}"));
        assert_eq!(["tokens", "decoder_tokens"].map(|key| len(&found[key])), [3, 2]);
    }
    assert_refused(format!("{sweep} 'the quick brown fox jumps'"), &["tokens, but the text has"]);
}

/// A path of the residual stream through the queries of every later head: one number for each later head, and none for the
/// others. A prediction through a lens ends with the prediction itself.
#[test]
fn sweep_patches_paths_and_predict_looks_through_a_lens() {
    let model = path("tiny-gpt2");
    let read = format!("{model} --text 'the quick fox'");
    let sweep = format!("sweep {read} --logit 5-7 --patch-text 'the quick dog'");
    let found = json(format!("{sweep} --path 0.1"));
    assert_eq!(found["first_layer"], 1);
    assert!(len(&found["path"]) == 1 && len(&found["path"][0]) == 4, "{found}");
    for head in 0..4 {
        let expected = number(&found["path"][0][head]) - number(&found["unchanged"]);
        let effect = number(&found["effect"][0][head]);
        assert!((effect - expected).abs() < 1e-5 && expected != 0.0);
    }
    let table = printed(format!("{sweep} --path 0.1 --into v"));
    assert!(table.contains("1.x") && !table.contains("0.x"), "{table}");
    assert_refused(format!("{sweep} --path 0.9"), &["there is no head 0.9"]);
    assert_refused(format!("{sweep} --path 1.2"), &["the path from head 1.2 leads to no head"]);
    let said = refused(format!("{sweep} --patch-each-place --into k"));
    assert!(said.contains("--into"), "{said}");
    let said = refused(format!("sweep {read} --logit 5 --path 0.1"));
    assert!(said.contains("--patch-text"), "{said}");

    let predict = format!("predict {read} --top 3 --lens");
    let found = json(&predict);
    let lens = found["lens"].as_array().unwrap();
    assert!(lens.len() == 3 && lens[2] == found["next"] && lens[0] != lens[2], "{found}");
    let table = printed(&predict);
    assert!(table.contains("before layer 0") && table.contains("after layer 1"), "{table}");
}

/// A head's output and its mean from another text, and a vector from a file, as options.
#[test]
fn changes_take_another_text_and_a_vector() {
    let (model, folder) = (path("tiny-gpt2"), Folder::new());
    let predict = format!("predict {model} --text 'the fox' --top 1");
    let logit = |options: &str| number(&json(format!("{predict} {options}"))["next"][0]["logit"]);
    let plain = logit("");
    for head in ["0.1", "0.1:1"] {
        let with = |text| logit(&format!("--patch-head {head} --patch-text '{text}'"));
        assert_eq!(with("the fox"), plain, "{head}");
        // The first two tokens of both texts are the same.
        assert_eq!(with("the box") == plain, head.ends_with(":1"), "{head}");
    }
    let mean = |text| logit(&format!("--ablate 0.1=other --patch-text '{text}'"));
    assert_eq!(mean("the fox"), logit("--ablate 0.1=mean"));
    assert_ne!(mean("the box"), mean("the fox"));

    let file = |name: &str, width: usize, number: f32| {
        let vector = file_of("vector", &[width], &vec![number; width]);
        folder.file(name, vector).display().to_string()
    };
    let (zeros, ones, short) = (file("0", 32, 0.0), file("1", 32, 1.0), file("s", 3, 1.0));
    let place = "--add blocks.1.hook_resid_mid";
    assert_eq!(logit(&format!("{place}={zeros}")), plain);
    // A norm that subtracts the mean does not change if the same number is added to all features.
    assert!((logit(&format!("{place}:0={ones}")) - plain).abs() < 1e-4);
    for (add, says) in [
        (format!("{place}={short}"), "3 numbers"),
        (format!("{place}:99={ones}"), "position 99"),
        ("--add nowhere=0".to_owned(), "0: "),
        (format!("--add nowhere={ones}"), "no place \"nowhere\""),
    ] {
        assert_refused(format!("{predict} {add}"), &[says]);
    }
}

#[test]
fn sweep_attributes_a_logit_to_its_parts() {
    let [gpt, t5, bert] = ["tiny-gpt2", "tiny-t5", "tiny-bert"].map(path);
    let sweep = format!("sweep {gpt} --text 'the quick fox' --logit 5-7");
    let found = json(format!("{sweep} --attribute-each-head"));
    let mut sum: f64 =
        ["embedding", "positions", "bias"].map(|part| number(&found[part])).iter().sum();
    for layer in found["layers"].as_array().unwrap() {
        let heads = layer["heads"].as_array().unwrap();
        assert_eq!(heads.len(), 4);
        sum += heads.iter().map(number).sum::<f64>();
        sum += number(&layer["bias"]) + number(&layer["feed_forward"]);
    }
    assert!((sum - number(&found["sum"])).abs() < 1e-9);
    let whole = number(&json(format!("{sweep} --ablate-each-head"))["unchanged"]);
    assert!((sum - whole).abs() < 1e-4, "{sum} is not {whole}");
    assert!((number(&found["unchanged"]) - whole).abs() < 1e-5);
    assert_eq!(found["logit"][1]["id"], 7);
    let table = printed(format!("{sweep} --attribute-each-head"));
    assert!(table.contains("feed-forward") && table.contains("1.x"), "{table}");
    let table = printed(format!("sweep {t5} --ids 5,6 --attribute-each-head --logit 4"));
    assert!(table.contains("cross.x.4"), "{table}");
    let line = format!("sweep {bert} --text 'the [MASK]' --attribute-each-head --logit 5");
    assert_refused(line, &["the model's head has an activation"]);
}

#[test]
fn a_score_is_the_number_of_the_trace() {
    let folder = Folder::new();
    for (name, layer, head) in [("tiny-llama", 1, 3), ("tiny-gemma2", 0, 1), ("tiny-gpt2", 0, 2)] {
        let read = format!("{} --text 'the quick brown fox'", path(name));
        let keep = "--keep '*hook_attn_scores,*hook_pattern'";
        let (tensors, ..) = traced(&folder, format!("{read} {keep}"));
        let score = json(format!("score {read} --head {layer}.{head} --query 3 --key 1"));
        let at = |place: &str| {
            let Tensor { shape, data } = &tensors[&format!("blocks.{layer}.attn.{place}")];
            data[(head * shape[1] + 3) * shape[2] + 1] as f32
        };
        assert_eq!(number(&score["score"]) as f32, at("hook_attn_scores"), "{name}");
        assert_eq!(number(&score["weight"]["value"]) as f32, at("hook_pattern"), "{name}");
        assert!(number(&score["weight"]["error"]).abs() < 1e-6);
        assert_eq!(score["q_before"].is_array(), name != "tiny-gpt2");
        assert!(score["query_token"].is_string());
    }
    let score = format!("score {} --ids 5,6,7 --head 1.2 --query 1", path("tiny-gpt2"));
    let table = printed(format!("{score} --key 2"));
    for part in ["head 1.2: query 1", "product", "dot product q·k", "the key comes after the query"]
    {
        assert!(table.contains(part), "{table}");
    }
    // A large product has the decimals that its error is told in.
    let large = printed("score story --text Mia --head 0.0 --query 1 --key 0");
    assert!(large.contains("dot product q·k        127.831"), "{large}");
    let changed = json(format!("{score} --key 0 --head-temperature 1.2=inf"));
    assert_eq!(changed["temperature"], "inf");
    assert_eq!(changed["weight"]["value"], 0.5);
    assert_refused(format!("{score} --key 3"), &["3 queries and 3 keys"]);
}

#[test]
fn a_second_text_is_for_models_that_read_two() {
    for model in ["story".to_owned(), path("tiny-llama"), path("tiny-t5")] {
        let line = format!("predict {model} --text Mia --text-pair Tom");
        assert_refused(line, &["reads one text", "a second text is for a model"]);
    }
    json(format!("predict {} --text '[MASK] fox' --text-pair 'the dog'", path("tiny-bert")));
}

#[test]
fn a_word_that_is_unknown_is_told_once_and_ten_are_told() {
    let words: Vec<String> = (0..30).map(|i| format!("zz{i:02}qq")).collect();
    let said = |words: &str| text(&regard(format!("predict story --text '{words}'")).stderr);
    let notes = said(&format!("{0} {0} Mia {0}", words.join(" ")));
    assert_eq!(notes.lines().count(), 11, "{notes}");
    assert_eq!(notes.matches("zz00qq").count(), 1, "{notes}");
    assert!(notes.contains("it does not know 20 more"), "{notes}");
    assert!(said("Mai saw Tom").contains("\"Mai\"; did you mean \"Mia\"?"));
}

/// A number of tokens does not wrap around to a small amount of memory.
#[test]
fn more_tokens_than_there_can_be_are_refused() {
    let model = path("tiny-llama");
    for count in [u64::MAX, u64::MAX / 2, 1 << 60] {
        let output = regard(format!("generate {model} --ids 1,2 --tokens {count}"));
        let said = text(&output.stderr);
        assert!(!output.status.success() && output.stdout.is_empty(), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        json(format!("model {model} --tokens {count}"));
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
    for line in [
        format!("generate {model}"),
        format!("generate {model} --temperature 1"),
        format!("predict {model}"),
        format!("sweep {model} --logit 3 --ablate-each-head"),
        format!("sweep {model} --logit 3 --attribute-each-head"),
    ] {
        assert_refused(format!("{line} --ids 1,2,3"), &parts);
    }
    for number in [f32::NAN, f32::INFINITY] {
        let (model, to) = (spoilt(&folder, TENSOR, number), folder.path("board"));
        let line = format!("embed {model} --to {} --int8", to.display());
        assert_refused(line, &[TENSOR, &format!("holds {number}")]);
        assert!(!to.exists());
    }
}

#[test]
fn a_token_of_a_logit_is_an_id_a_token_or_a_text() {
    let model = path("tiny-gpt2");
    let with = |logit: &str| {
        format!("sweep {model} --text 'the fox' --ablate-each-head --logit '{logit}'")
    };
    let logit = |logit: &str| json(with(logit))["logit"].clone();
    let the = logit("Ġthe");
    assert_eq!(the[0]["token"], "Ġthe");
    assert_eq!(the, logit(" the"));
    assert_eq!(the, logit(&the[0]["id"].to_string()));
    assert_eq!(logit("Ġthe-the")[1]["token"], "the");
    assert_eq!(logit("-")[0]["token"], "-");
    assert_refused(with("the fox"), &["\"the fox\" is", "tokens, and not one"]);
    assert_refused(with("99999"), &["99999 is not one of the vocabulary's 320"]);
}

#[test]
fn model_says_what_a_model_is() {
    let table = printed(format!("model {}", path("tiny-llama")));
    let heads = "2 × 4 heads of 8 features, which share 2 key/value heads";
    for part in ["llama", heads, "320", "for the weights"] {
        assert!(table.contains(part), "{table}");
    }
    for name in FAMILIES {
        let line = format!("model {}", path(name));
        let found = json(&line);
        for what in ["weights", "run"] {
            assert!(number(&found["memory"][what]) > 1000.0, "{found}");
        }
        let family = format!("tiny-{}", found["family"].as_str().unwrap());
        assert!(name.starts_with(&family), "{found}");
        printed(line);
    }
    let found = json(format!("model {}", path("gguf/tiny-llama256.Q4_K.gguf")));
    assert_eq!(found["stack"]["block"]["kv_heads"], 1);
}

#[test]
fn the_bundled_model_runs_by_its_name() {
    let read = format!("story --text {}", quoted(regard_story::TEXT));
    assert_eq!(json(format!("predict {read} --top 1"))["next"][0]["token"], "Mary");
    assert!(printed("model story").starts_with("model        story\n"));
    assert!(printed(format!("generate {read} --tokens 8")).contains("Mary"));
}

#[test]
fn a_model_that_classifies_names_its_classes() {
    let folder = Folder::new();
    let digit = regard_digits::held_back().find(|digit| digit.label == 7).unwrap();
    let file = folder.path("seven.png");
    let side = regard_digits::SIDE as u32;
    image::GrayImage::from_raw(side, side, digit.pixels.to_vec()).unwrap().save(&file).unwrap();
    let read = format!("digits --image {}", file.display());
    let predicted = json(format!("predict {read}"));
    assert_eq!(predicted["next"][0]["token"], "7");
    let table = printed(format!("predict {read} --top 1"));
    assert!(table.starts_with("class ") && table.contains("\n7 "), "{table}");

    let sweep = format!("sweep {read} --ablate-each-head --logit");
    let swept = json(format!("{sweep} 7"));
    assert_eq!(swept["logit"][0]["token"], "7");
    let [swept, predicted] = [&swept["unchanged"], &predicted["next"][0]["logit"]].map(number);
    assert_eq!(swept as f32, predicted as f32);
    assert_refused(format!("{sweep} 10"), &["the model has 10 classes, and none is 10"]);
}

#[test]
fn classes_that_do_not_exclude_each_other_have_a_probability_each() {
    let folder = Folder::new();
    let [config, weights] = ["config.json", "model.safetensors"]
        .map(|file| fs::read(golden("tiny-vit").join(file)).unwrap());
    folder.file("model.safetensors", weights);
    let mut config: Value = serde_json::from_slice(&config).unwrap();
    image::RgbImage::new(12, 12).save(folder.path("black.png")).unwrap();
    let [place, black] = ["", "black.png"].map(|file| folder.path(file).display().to_string());
    let command = format!("predict {place} --image {black} --top 5");
    let mut predicted = |problem: &str| {
        config["problem_type"] = problem.into();
        folder.file("config.json", config.to_string());
        json(&command)["next"].as_array().unwrap().clone()
    };
    let sum = |next: &[Value]| next.iter().map(|next| number(&next["probability"])).sum::<f64>();
    assert!((sum(&predicted("single_label_classification")) - 1.0).abs() < 1e-12);
    for next in predicted("multi_label_classification") {
        let [logit, probability] = ["logit", "probability"].map(|key| number(&next[key]));
        // The printed digits of the logit are those of an f32, within 2⁻²⁴ of it.
        assert!((probability - 1.0 / (1.0 + (-logit).exp())).abs() < 1e-7, "{next}");
    }
    for next in predicted("regression") {
        assert!(next["probability"].is_null() && next["logit"].is_f64(), "{next}");
    }
    let table = printed(&command);
    assert!(table.starts_with("class ") && table.contains("number\n"), "{table}");
    assert!(!table.contains("probability"), "{table}");
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
    let export = |file: &Path, options: &str| {
        printed(format!("export {} --to {} {options}", file.display(), out.display()));
        fs::read_to_string(&out).unwrap()
    };
    let gpt = format!("{} --text 'the quick fox'", path("tiny-gpt2"));
    let (tensors, _, file) = traced(&folder, &gpt);
    let csv = export(&file, "--layer 1 --head 2");
    assert!(csv.lines().next().unwrap().contains(",the,Ġqu,"), "{csv}");
    let n = tensors["input_ids"].shape[0];
    assert_eq!(csv.lines().count(), n + 1);
    let (_, _, file) = traced(&folder, format!("{gpt} --keep 'blocks.*.attn.hook_pattern'"));
    assert_eq!(export(&file, "--layer 1 --head 2"), csv);
    // In a model with an encoder and a decoder, each attention has its own tokens.
    let t5 = format!("{} --text 'the fox' --decoder-text a", path("tiny-t5"));
    let (tensors, _, file) = traced(&folder, &t5);
    let [.., queries, keys] = tensors["cross_attentions"].shape[..] else { panic!() };
    assert_ne!(queries, keys);
    let csv = export(&file, "--matrix cross_attentions --layer 0 --head 0");
    assert!(first_token(&csv) == "▁the" && csv.contains("\n<pad>,"), "{csv}");
    let csv = export(&file, "--matrix decoder_attentions --layer 0 --head 0");
    assert_eq!(first_token(&csv), "<pad>", "{csv}");
    let csv = export(&file, "--layer 0 --head 0");
    assert_eq!(first_token(&csv), "▁the", "the encoder's attention comes first: {csv}");
    let (_, _, file) = traced(&folder, format!("{t5} --keep 'decoder.*.cross_attn.hook_pattern'"));
    assert!(export(&file, "--layer 0 --head 0").contains("\n<pad>,"));
}

#[test]
fn keep_names_places_and_outputs() {
    let folder = Folder::new();
    let model = path("tiny-llama");
    let keep = "--keep blocks.0.attn.hook_q,attentions --keep '*hook_resid_mid'";
    let (tensors, ..) = traced(&folder, format!("{model} --text 'the fox' {keep}"));
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
    let trace = format!("trace {model} --text a --output {}", output.display());
    assert_refused(
        format!("{trace} --keep blocks.7.hook_resid_pre"),
        &["the model has no \"blocks.7.hook_resid_pre\""],
    );
    assert!(!output.exists());
}

#[test]
fn a_cut_edge_has_no_weight() {
    let model = path("tiny-gpt2");
    let line = format!("{model} --text 'the quick fox' --cut 1.2:3,1 --cut 1.2:3,2");
    let attentions = traced(&Folder::new(), line).0.remove("attentions").unwrap();
    let [_, heads, n, _] = attentions.shape[..] else { panic!() };
    let row = &attentions.data[((heads + 2) * n + 3) * n..][..n];
    assert_eq!((row[1], row[2], row[4]), (0.0, 0.0, 0.0));
    assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-6 && row[0] > 0.0);
}

#[test]
fn changes_without_a_meaning_are_refused() {
    let gpt = path("tiny-gpt2");
    for (options, part) in [
        ("--ablate 2.0", "there is no head 2.0: there are 2 layers of 4 heads"),
        (
            "--ablate 0.1=half",
            "\"half\" is neither zero nor mean; the form is L.H[=zero|mean|other]",
        ),
        ("--ablate 7", "a head is written LAYER.HEAD"),
        ("--head-temperature 0.1", "L.H=T"),
        ("--head-temperature 0.1=-1", "0.1=-1"),
        ("--head-temperature 0.1=1e50", "to 3.4e38, or inf"),
        ("--cut 0.1:99,2", "there is no edge 99,2 to cut"),
        ("--patch 1.1", "--patch-text"),
        ("--patch-text 'the fox'", "--patch"),
        ("--patch 1.1 --patch-text 'the quick fox'", "tokens, but the text has"),
        ("--patch 1.9 --patch-text 'the fox'", "there is no position 9 to patch"),
        ("--patch 5.1 --patch-text 'the fox'", "no layer of --patch 5.1"),
        ("--decoder-text a", "no decoder beside an encoder, as t5"),
        ("--image a.png", "--image"),
    ] {
        let said = refused(format!("predict {gpt} --text 'the fox' --top 1 {options}"));
        assert!(said.contains(part), "{options}: {said}");
    }
    // Options that belong to a text, beside other inputs; and a list that clap could take for an option.
    for input in ["--ids 1", "--image a.png", "--audio a.wav"] {
        for option in ["--text-pair a", "--chat"] {
            let said = refused(format!("predict {gpt} {input} {option}"));
            assert!(said.contains("cannot be used with"), "{said}");
        }
    }
    let said = refused(format!("predict {gpt} --ids -1,2"));
    assert!(said.contains("'-1' for '--ids <IDS>'"), "{said}");
    let unknown = "the token 999 is not one of the vocabulary's 320";
    assert_refused(format!("predict {gpt} --ids 999"), &[unknown]);
    let many = format!("generate {gpt} --ids 1 --tokens 9999");
    assert_refused(many, &["the model has positions for"]);
}

#[test]
fn a_trace_says_what_it_wrote_and_which_place_may_have_been_meant() {
    let folder = Folder::new();
    let to = folder.path("story.safetensors").display().to_string();
    let said = text(&regard(format!("trace story --text 'Mia saw Tom.' --output {to}")).stderr);
    assert!(said.contains(&to) && said.contains("attentions [4, 4, 5, 5]"), "{said}");
    let keep = format!("trace story --text Mia --output {to} --keep");
    for (name, meant) in [
        ("blocks.0.attn.hook_patern", "blocks.0.attn.hook_pattern"),
        ("atentions", "attentions"),
        ("inputids", "input_ids"),
    ] {
        let said = refused(format!("{keep} {name}"));
        assert!(said.ends_with(&format!("has no {name:?}; did you mean {meant:?}?\n")), "{said}");
    }
    // A name of the input is a name of the table, too.
    let said = text(&regard(format!("{keep} input_ids")).stderr);
    assert!(said.ends_with("input_ids [2]\n"), "{said}");
}

/// A patch with a text's own run changes nothing, in any stack of t5.
#[test]
fn patches_reach_every_stack() {
    let predict = format!("predict {} --text 'the fox' --decoder-text a --top 1", path("tiny-t5"));
    let logit = |options: &str| number(&json(format!("{predict} {options}"))["next"][0]["logit"]);
    let plain = logit("");
    for at in ["encoder.1.1", "decoder.1.0", "cross.1.1"] {
        assert_eq!(logit(&format!("--patch {at} --patch-text 'the fox'")), plain, "{at}");
        let other = logit(&format!("--patch {at} --patch-text 'the box'"));
        assert!(other != plain || at.starts_with("decoder"), "{at}");
    }
}

/// The tests of regard-models spoil files in every way.
#[test]
fn a_file_that_is_wrong_is_named_in_one_line() {
    let absent = "no/such/model/here: there is no such file or folder";
    assert_refused("model no/such/model/here", &[absent]);
    let whole = fs::read(golden("gguf/tiny-gpt2.F16.gguf")).unwrap();
    let folder = Folder::new();
    let file = folder.file("short.gguf", &whole[..2000]);
    assert_refused(format!("model {}", file.display()), &["short.gguf: is no GGUF file"]);
}

#[test]
fn models_are_found_in_the_cache_by_their_names() {
    let folder = Folder::new();
    let repository = folder.path("hub/models--some--gpt");
    for part in ["snapshots/abc", "refs"] {
        fs::create_dir_all(repository.join(part)).unwrap();
    }
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        fs::copy(golden("tiny-gpt2").join(file), repository.join("snapshots/abc").join(file))
            .unwrap();
    }
    fs::write(repository.join("refs/main"), "abc").unwrap();
    let regard = |name: &str, value: &str, args: &str| {
        let mut command = command();
        for name in ["HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HF_ENDPOINT"] {
            command.env_remove(name);
        }
        let output = command.env(name, folder.path(value)).args(args.split(' ')).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let (code, said) = regard("HF_HOME", "", "model some/gpt");
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = regard("HF_HUB_CACHE", "hub", "model some/gpt --download");
    assert_eq!(code, Some(0), "what is there is not downloaded again: {said}");
    let (code, said) = regard("HF_HOME", "", "model some/other");
    assert_eq!(code, Some(2));
    assert!(said.contains("models--some--other") && said.contains("--download"), "{said}");
}

#[test]
fn a_model_is_embedded_as_a_crate_and_no_other_crate_is_replaced() {
    let folder = Folder::new();
    let embed = |name: &str, options: &str| {
        let to = folder.path(name);
        (format!("embed story --to {} {options}", to.display()), to)
    };
    for _ in 0..2 {
        let (line, to) = embed("story", "--context 96 --flash 512K");
        let output = regard(line);
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("425216 bytes of weights in flash (bf16)"), "{said}");
        let library = fs::read_to_string(to.join("src/lib.rs")).unwrap();
        assert!(library.contains("425216 bytes of flash"), "{library}");
        assert!(to.join("src/model.rs").exists() && to.join("Cargo.toml").exists());
    }

    let (line, absent) = embed("small", "--context 96 --flash 300K");
    let said = refused(line);
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
        let (line, to) = embed(name, "");
        assert_refused(line, &[name, whose]);
        assert!(!to.exists());
    }

    let (line, firmware) = embed("firmware", "");
    fs::create_dir_all(&firmware).unwrap();
    let manifest = folder.file("firmware/Cargo.toml", "[package]");
    let taken = "firmware/Cargo.toml belongs to a crate that `regard embed` did not write";
    assert_refused(line, &[taken]);
    assert_eq!(fs::read_to_string(manifest).unwrap(), "[package]");
}
