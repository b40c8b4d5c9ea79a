//! Every family against transformers in f64: attentions, hidden states, logits, greedy tokens, changes and the logit lens, each
//! to 1e-4 of max(1, the tensor's largest number), and each row of a tensor to 1e-5 of its length.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use regard_kernels::internal::with_other_environment;
use regard_models::{Ablation, Change, HeadAddress, Input, Logits, Model, Values};
use regard_tests::models::{FAMILIES, golden};
use safetensors::SafeTensors;

use crate::common::{as_transformers, assert_near, json, open, tensor};

/// Expected tensors by name.
struct Expected(BTreeMap<String, Values>);

impl Expected {
    fn of(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let values = tensors.names().into_iter().map(|name| (name.into(), tensor(&tensors, name)));
        Self(values.collect())
    }

    fn ids(&self, name: &str) -> Vec<u32> {
        self.0.get(name).map_or(Vec::new(), |ids| ids.data.iter().map(|x| *x as u32).collect())
    }

    fn input(&self) -> Input {
        self.input_of("")
    }

    /// The input whose tensors' names end with this.
    fn input_of(&self, end: &str) -> Input {
        let numbers = |name: &str| Some(self.0.get(&format!("{name}{end}"))?.data.clone());
        match (numbers("pixel_values"), numbers("input_features")) {
            (Some(pixels), _) => return Input::image(pixels),
            (None, Some(features)) => Input::audio(features),
            (None, None) => Input::tokens(self.ids(&format!("input_ids{end}"))),
        }
        .decoder(self.ids("decoder_input_ids"))
    }
}

fn assert_close(found: &Values, expected: &Values, what: &str) {
    assert_near(found, expected, what);
    let width = expected.shape.last().copied().unwrap_or(1).max(1);
    for (found, expected) in found.data.chunks(width).zip(expected.data.chunks(width)) {
        let length = |x: &mut dyn Iterator<Item = f32>| x.map(|x| x * x).sum::<f32>().sqrt();
        let error = length(&mut found.iter().zip(expected).map(|(x, y)| x - y));
        let length = length(&mut expected.iter().copied());
        assert!(error <= 1e-5 * length, "{what}: a row of length {length} is off by {error}");
    }
}

/// Everything that a folder expects.
fn check(name: &str) {
    let model = open(name);
    assert_eq!(model.unused(), [""; 0], "{name}");
    let expected = Expected::of(&golden(name).join("expected.safetensors"));
    let notes = json(golden(name).join("expected.json"));
    let input = expected.input();
    let run = |changes: &[Change]| as_transformers(&model, changes, &input);
    let unchanged = run(&[]);
    let baseline = model.baseline(&input).unwrap();
    if baseline.logits().is_some() {
        check_together(name, &model, &input);
    }
    let mut checked = 0;
    for (tensor, values) in &expected.0 {
        let parts: Vec<&str> = tensor.split('/').collect();
        let change = match parts.as_slice() {
            [plain] => match *plain {
                "input_ids" | "input_ids_b" | "decoder_input_ids" | "pixel_values"
                | "pixel_values_b" | "lens" | "lens_logits" | "input_features"
                | "input_features_b" => continue,
                "generated" => {
                    let mut start = input.clone();
                    start.decoder_ids.truncate(model.description().decoder_start.len());
                    let found = model.generate(&start, values.data.len(), &[]).unwrap();
                    assert_eq!(found, expected.ids("generated"), "{name}");
                    let text = model.tokenizer().unwrap().decode(&found).unwrap();
                    assert_eq!(notes["generated_text"], text, "{name}");
                    checked += 1;
                    continue;
                }
                plain => {
                    assert_close(&unchanged[plain], values, &format!("{name}: {plain}"));
                    checked += 1;
                    continue;
                }
            },
            ["ablated", head, _] => {
                Change::Ablate { head: head.parse().unwrap(), to: Ablation::Zero }
            }
            ["tempered", change, _] => {
                let (head, temperature) = change.split_once('=').unwrap();
                Change::Temperature {
                    head: head.parse().unwrap(),
                    temperature: temperature.parse().unwrap(),
                }
            }
            ["patched", at, _] => {
                let (layer, position) = at.rsplit_once('.').unwrap();
                let stack = if layer.contains('.') { "" } else { "blocks." };
                Change::Patch {
                    place: format!("{stack}{layer}.hook_resid_pre").parse().unwrap(),
                    position: position.parse().unwrap(),
                    from: expected.input_of("_b"),
                }
            }
            ["experts", place] => {
                let (layer, part) = place.split_once('.').unwrap();
                let place = |part| format!("blocks.{layer}.mlp.hook_expert_{part}");
                let trace = model.pass().keep([place("weights"), place("indices")]);
                let trace = trace.run(&input).unwrap();
                let [weights, indices] =
                    ["weights", "indices"].map(|part| trace.get(&place(part)).unwrap());
                let [count, used] = [weights, indices].map(|values| values.shape[1]);
                let weight =
                    |(i, index): (usize, &f32)| weights.data[i / used * count + *index as usize];
                let data = indices.data.iter().enumerate().map(weight).collect();
                let taken = Values { shape: indices.shape.clone(), data };
                let found = if part == "weights" { &taken } else { indices };
                assert_close(found, values, &format!("{name}: {tensor}"));
                // All others are 0.
                let [all, of_taken] = [weights, &taken].map(|x| x.data.iter().sum::<f32>());
                assert!((all - of_taken).abs() <= 1e-5 * all, "{name}: {tensor}");
                checked += 1;
                continue;
            }
            other => panic!("{other:?}"),
        };
        let what = format!("{name}: {tensor}");
        assert_close(&run(core::slice::from_ref(&change))[parts[2]], values, &what);
        let resumed = model.pass().change(change.clone()).after(&baseline).run(&input).unwrap();
        let whole = model.pass().change(change).run(&input).unwrap();
        assert!(
            resumed.logits() == whole.logits(),
            "{what}: a run that begins at the change differs"
        );
        checked += 1;
    }
    if expected.0.contains_key("lens") {
        check_lens(name, &model, &expected, &unchanged);
        checked += 1;
    }
    assert!(checked >= 3, "{name}");
}

/// Runs that go together give what each gives alone: the heads ablated in turn, all positions and the last, and a batch.
fn check_together(name: &str, model: &Model, input: &Input) {
    let baseline = model.baseline(input).unwrap();
    let ablated = |head| Change::Ablate { head, to: Ablation::Zero };
    let changes: Vec<Change> = model.description().heads().into_iter().map(ablated).collect();
    let [all, last] = [Logits::All, Logits::Last]
        .map(|last| model.sweep(&baseline, &changes, last, &mut |_| Ok(())).unwrap());
    for ((change, all), last) in changes.into_iter().zip(&all).zip(&last) {
        let what = format!("{name}: {change:?} in a sweep");
        let alone = model.pass().change(change.clone()).run(input).unwrap();
        assert_close(all, alone.logits().unwrap(), &what);
        let alone = model.pass().change(change).last_logits().run(input).unwrap();
        assert_close(last, alone.logits().unwrap(), &what);
        assert_eq!(last.last().len(), all.last().len(), "{what}");
        let ends = Values { shape: vec![all.last().len()], data: all.last().to_vec() };
        let last = Values { shape: ends.shape.clone(), data: last.last().to_vec() };
        assert_close(&last, &ends, &what);
    }
    let logits = baseline.logits().unwrap();
    let batch = model.pass().run_batch(&[input.clone(), input.clone()]).unwrap();
    let twice =
        Values { shape: [&[2], logits.shape.as_slice()].concat(), data: logits.data.repeat(2) };
    assert_close(batch.logits().unwrap(), &twice, &format!("{name}: a batch"));
}

/// The logit lens at the ids that are expected, and that no other id has a larger logit.
fn check_lens(name: &str, model: &Model, expected: &Expected, outputs: &BTreeMap<String, Values>) {
    let (ids, logits) = (&expected.0["lens"], &expected.0["lens_logits"]);
    let stack = if outputs.contains_key("hidden_states") { "" } else { "decoder_" };
    let hidden = &outputs[&format!("{stack}hidden_states")];
    let [layers, tokens, width] = hidden.shape[..] else { panic!("{name}") };
    let mut found = Values { shape: logits.shape.clone(), data: Vec::new() };
    for layer in 0..layers {
        let stream = if layer + 1 == layers {
            outputs[&format!("{stack}residual_last")].clone()
        } else {
            let numbers = layer * tokens * width..(layer + 1) * tokens * width;
            Values { shape: vec![tokens, width], data: hidden.data[numbers].to_vec() }
        };
        let all = model.lens(&stream).unwrap().unwrap();
        let vocabulary = all.shape[1];
        for token in 0..tokens {
            let row = &all.data[token * vocabulary..(token + 1) * vocabulary];
            let mut best: Vec<usize> = (0..vocabulary).collect();
            best.sort_by(|i, j| row[*j].total_cmp(&row[*i]));
            let first = (layer * tokens + token) * 5;
            let expected: Vec<usize> =
                ids.data[first..first + 5].iter().map(|x| *x as usize).collect();
            assert_eq!(best[..5], expected, "{name}: lens of layer {layer}, token {token}");
            found.data.extend(best[..5].iter().map(|i| row[*i]));
        }
    }
    assert_close(&found, logits, &format!("{name}: lens_logits"));
}

#[test]
fn families() {
    for name in FAMILIES {
        check(name);
    }
}

/// The GGUF files of a model, whose numbers are those of the dequantized weights.
fn check_gguf(model: &str, types: &[&str]) {
    let expected = Expected::of(&golden(&format!("gguf/{model}.expected.safetensors")));
    for kind in types {
        let what = format!("{model}.{kind}");
        let model = open(&format!("gguf/{what}.gguf"));
        assert_eq!(model.unused(), [""; 0], "{what}");
        let input = expected.input();
        let trace = model.pass().keep(["*hook_pattern"]).run(&input).unwrap();
        for (tensor, values) in trace.as_transformers(model.description()) {
            assert_close(
                &values,
                &expected.0[&format!("{kind}/{tensor}")],
                &format!("{what}: {tensor}"),
            );
        }
        let generated = expected.ids(&format!("{kind}/generated"));
        assert_eq!(model.generate(&input, generated.len(), &[]).unwrap(), generated, "{what}");
    }
}

#[test]
fn gguf_files() {
    for name in ["tiny-llama", "tiny-qwen2", "tiny-gpt2"] {
        check_gguf(name, &["F16", "Q8_0", "Q4_0"]);
    }
    check_gguf("tiny-llama256", &["Q4_K"]);
}

#[test]
fn a_head_is_read_as_it_is_written() {
    for head in ["0.3", "encoder.1.2", "decoder.0.0", "cross.11.7"] {
        assert_eq!(head.parse::<HeadAddress>().unwrap().to_string(), head);
    }
    for wrong in ["", "3", "a.b", "cross.1", "1.2.3", "other.1.2"] {
        assert!(wrong.parse::<HeadAddress>().is_err(), "{wrong}");
    }
}

/// The caller's environment counts subnormal numbers as 0 and rounds up.
#[test]
fn a_run_has_the_same_bits_in_another_floating_point_environment() {
    for family in FAMILIES {
        let folder = golden(family);
        let (model, expected) =
            (Model::open(&folder).unwrap(), Expected::of(&folder.join("expected.safetensors")));
        let input = expected.input();
        let logits = || -> Vec<u32> {
            let trace = model.pass().run(&input).unwrap();
            let output = trace.logits().or_else(|| trace.pooled()).unwrap();
            output.data.iter().map(|x| x.to_bits()).collect()
        };
        assert!(with_other_environment(logits) == logits(), "{family}");
    }
}

/// The memory that is told for places is that of the numbers which a run keeps there.
#[test]
fn places_take_the_memory_that_is_told() {
    for family in FAMILIES {
        let folder = golden(family);
        let (model, expected) =
            (Model::open(&folder).unwrap(), Expected::of(&folder.join("expected.safetensors")));
        let input = expected.input();
        let description = model.description();
        let trace = model.pass().keep(description.places()).run(&input).unwrap();
        let lengths = [model.tokens(&input), input.decoder_ids.len()];
        for place in description.places() {
            let kept = trace.at(place).unwrap_or_else(|| panic!("{family} keeps no {place}"));
            let bytes = size_of_val(kept.data.as_slice()) as u64;
            assert_eq!(description.place_bytes(&[place], lengths), bytes, "{family}: {place}");
        }
    }
}
