//! The refusals of models, inputs and changes that make no sense.

use std::fs;

use regard_models::{Ablation, Change, Checkpoint, Description, Input, Logits, Model};
use regard_tests::attention_files::{bytes, safetensors};
use regard_tests::models::{FAMILIES, golden};
use safetensors::Dtype;
use serde_json::{Value, json};

use crate::common::{self, assert_says, copy, open};

/// The refusal of a model whose config.json has other values.
fn with_config(name: &str, values: &[(&str, Value)]) -> String {
    let folder = copy(name);
    let path = folder.path().join("config.json");
    let mut config = common::json(&path);
    for (key, value) in values {
        match key.split_once('/') {
            Some((object, key)) => config[object][key] = value.clone(),
            None => config[key] = value.clone(),
        }
    }
    fs::write(path, config.to_string()).unwrap();
    Model::open(folder.path()).unwrap_err().to_string()
}

#[test]
fn a_family_that_is_not_known_is_named_with_those_that_are() {
    let said = with_config("tiny-llama", &[("model_type", "marvin".into())]);
    let parts = [
        "config.json: the family \"marvin\" is not known",
        "gpt_neox",
        "modernbert, clip and siglip",
    ];
    assert_says(&said, &parts);
    // Its class, and its tensors and settings that no family has.
    let mut config = json!({"model_type": "marvin", "architectures": ["MarvinForCausalLM"], "torch_dtype": "float32"});
    for i in 0..10 {
        config[format!("state_size_{i}")] = i.into();
    }
    let names =
        ["backbone.layers.0.mixer.A_log", "backbone.layers.1.mixer.A_log", "lm_head.weight"];
    let tensors = safetensors(&names.map(|name| (name, Dtype::F32, [1], vec![0; 4])), &[]);
    let files = [("config.json", config.to_string().into_bytes()), ("model.safetensors", tensors)];
    let checkpoint = Checkpoint::from_files("model", files).unwrap();
    let said = Description::of(&checkpoint).unwrap_err().to_string();
    let needs = "\"marvin\" is not known: its class is MarvinForCausalLM, and no known family has its tensors \
                 backbone.layers.{}.mixer.A_log, and no known family has its settings state_size_0, state_size_1, state_size_2, \
                 state_size_3, state_size_4, state_size_5, state_size_6, state_size_7 and 2 more; known are bert";
    assert_says(&said, &[needs]);
    let said = with_config("tiny-llama", &[("model_type", Value::Null)]);
    assert_says(&said, &["config.json: model_type is missing"]);
}

#[test]
fn a_setting_that_makes_no_sense_is_named() {
    let rope = "rope_parameters/rope_type";
    for (model, key, value, part) in [
        ("tiny-llama", "num_hidden_layers", json!(99), "num_hidden_layers is 99, but there are"),
        ("tiny-llama", "num_key_value_heads", json!(3), "cannot share 3 key/value heads"),
        ("tiny-llama", "num_attention_heads", json!(0), "0 query heads"),
        ("tiny-llama", "hidden_size", json!(-1), "hidden_size is -1, which is no size"),
        ("tiny-llama", "hidden_act", json!("selu"), "hidden_act is \"selu\", which is not known"),
        ("tiny-llama", rope, json!("new"), "the rope_type \"new\" is not known"),
        ("tiny-llama", rope, json!("linear"), "no number factor"),
        ("tiny-vit", "patch_size", json!(5), "patches of 5"),
        ("tiny-gpt_neox", "rotary_pct", json!(1e308), "features of a head cannot turn in pairs"),
        ("tiny-gemma2", "attn_logit_softcapping", json!(0), "the soft cap of the scores is 0"),
        ("tiny-gemma2", "final_logit_softcapping", json!(0), "the soft cap of the logits is 0"),
    ] {
        assert_says(&with_config(model, &[(key, value)]), &[part]);
    }
}

#[test]
fn a_tensor_that_does_not_fit_is_named_with_both_shapes() {
    for (model, key, size, parts) in [
        (
            "tiny-llama",
            "intermediate_size",
            63,
            ["model.layers.0.mlp.gate_proj.weight has the shape [64, 32]", "needs [63, 32]"],
        ),
        (
            "tiny-gpt2",
            "n_positions",
            65,
            ["transformer.wpe.weight has the shape [64, 32]", "needs [65, 32]"],
        ),
    ] {
        let said = with_config(model, &[(key, size.into())]);
        assert_says(&said, &[&format!("model.safetensors: the tensor {}", parts[0]), parts[1]]);
    }
}

#[test]
fn a_tensor_that_is_missing_is_named() {
    let qwen3 = [("model_type", "qwen3".into()), ("head_dim", 16.into())];
    let said = with_config("tiny-qwen2", &qwen3);
    assert_says(&said, &["the tensor model.layers.0.self_attn.q_norm.weight is missing"]);
    // The config says that the head is not the embedding: then it is a tensor.
    let said = with_config("tiny-qwen2", &[("tie_word_embeddings", false.into())]);
    assert_says(&said, &["the tensor lm_head.weight is missing"]);
}

/// What can be seen in the headers is seen before any number is read.
#[test]
fn headers_tell_whether_the_weights_load() {
    for name in FAMILIES {
        let checkpoint = Checkpoint::open(golden(name)).unwrap();
        let description = Description::of(&checkpoint).unwrap();
        let unused = Model::check(&checkpoint, &description).unwrap();
        assert_eq!(unused, Model::load(&checkpoint).unwrap().unused(), "{name}");
    }
    for file in ["gemma3.gguf", "qwen3moe.gguf", "gpt-oss.gguf", "phi3-longrope.gguf"] {
        let checkpoint = Checkpoint::open(common::data(file)).unwrap();
        let description = Description::of(&checkpoint).unwrap();
        assert!(Model::check(&checkpoint, &description).unwrap().is_empty(), "{file}");
    }
}

/// The folder of a golden model, with other names or types of tensors and other settings.
fn renamed(
    name: &str,
    rename: impl Fn(&str) -> String,
    dtype: Dtype,
    change: impl Fn(&mut Value),
) -> Checkpoint {
    let folder = golden(name);
    let checkpoint = Checkpoint::open(&folder).unwrap();
    let tensors: Vec<_> = checkpoint
        .names()
        .map(|name| {
            let tensor = checkpoint.read(name).unwrap();
            let numbers = tensor.to_f32();
            let bytes = if dtype == Dtype::F32 { bytes(&numbers) } else { vec![0; numbers.len()] };
            (rename(name), dtype, tensor.shape().to_vec(), bytes)
        })
        .collect();
    let tensors: Vec<_> = tensors
        .iter()
        .map(|(name, dtype, shape, bytes)| (name.as_str(), *dtype, shape.clone(), bytes.clone()))
        .collect();
    let mut config = common::json(folder.join("config.json"));
    change(&mut config);
    let files = [
        ("config.json", config.to_string().into_bytes()),
        ("model.safetensors", safetensors(&tensors, &[])),
    ];
    Checkpoint::from_files("model", files).unwrap()
}

#[test]
fn weights_that_do_not_load_are_refused_by_their_headers() {
    let refused = |checkpoint: &Checkpoint| {
        let description = Description::of(checkpoint).unwrap();
        let said = Model::check(checkpoint, &description).unwrap_err().to_string();
        assert_eq!(Model::load(checkpoint).unwrap_err().to_string(), said);
        said
    };
    let plain = |_: &mut Value| ();
    let said = refused(&renamed("tiny-llama", |name| format!("net.{name}"), Dtype::F32, plain));
    assert_says(&said, &["embed_tokens.weight is missing", "has the file's tensors net."]);
    let said = refused(&renamed("tiny-llama", str::to_owned, Dtype::F8_E4M3, plain));
    assert_says(&said, &["has the type F8_E4M3; known are F32"]);
    for (method, part) in [
        (
            "fp8",
            "quantization_config=FineGrainedFP8Config(dequantize=True)).save_pretrained(\"NEW\")",
        ),
        ("bitsandbytes", "from_pretrained(\"model\").dequantize().save_pretrained(\"NEW\")"),
        ("gptq", "open the model that they were made from, or a GGUF file of it"),
    ] {
        let quantized = |config: &mut Value| {
            config["quantization_config"] = json!({"quant_method": method});
        };
        let said = refused(&renamed("tiny-llama", str::to_owned, Dtype::F8_E4M3, quantized));
        assert_says(&said, &["config.json: the weights are quantized", method, part]);
    }
}

#[test]
fn names_that_torch_puts_around_a_model_are_dropped() {
    let whole = open("tiny-llama");
    let input = Input::tokens([7, 8, 9]);
    for (before, after) in
        [("", "_orig_mod."), ("model.layers.1.", "model.layers.1._orig_mod."), ("", "module.")]
    {
        let rename = |name: &str| match name.strip_prefix(before) {
            Some(rest) => format!("{after}{rest}"),
            None => name.to_owned(),
        };
        let checkpoint = renamed("tiny-llama", rename, Dtype::F32, |_| ());
        let model = Model::load(&checkpoint).unwrap();
        assert!(model.unused().is_empty());
        let logits =
            |model: &Model| model.pass().run(&input).unwrap().logits().unwrap().data.clone();
        assert_eq!(logits(&model), logits(&whole));
    }
}

#[test]
fn the_known_tensors_of_a_family_that_is_not_known_are_not_listed() {
    let said = with_config("tiny-t5", &[("model_type", "umt5".into())]);
    assert_says(
        &said,
        &["the family \"umt5\" is not known", "its tensors have names that known families have"],
    );
}

/// A folder without safetensors says what to run.
#[test]
fn other_forms_of_weights_say_how_to_write_safetensors() {
    let folder = copy("tiny-llama");
    let said = || Checkpoint::open(folder.path()).unwrap_err().to_string();
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    assert!(
        said()
            .ends_with("the folder has neither model.safetensors nor model.safetensors.index.json")
    );
    fs::write(folder.path().join("pytorch_model.bin"), "").unwrap();
    assert_says(
        &said(),
        &[
            "but pytorch_model.bin",
            "AutoModelForCausalLM.from_pretrained(",
            "save_pretrained(\"NEW\")",
        ],
    );
    fs::remove_file(folder.path().join("pytorch_model.bin")).unwrap();
    fs::write(folder.path().join("adapter_config.json"), "{}").unwrap();
    assert_says(&said(), &["but an adapter: merge it", "merge_and_unload()"]);
    fs::remove_file(folder.path().join("config.json")).unwrap();
    assert_says(&said(), &["the folder is an adapter: merge it with its model by peft."]);
    let file = folder.path().join("tokenizer.json");
    let said = Checkpoint::open(file).unwrap_err().to_string();
    assert_says(&said, &["a model is a folder of Hugging Face, or a GGUF file"]);
}

#[test]
fn an_input_that_does_not_fit_is_refused() {
    for (model, input, parts) in [
        ("tiny-gpt2", Input::tokens([]), ["no token", ""]),
        ("tiny-gpt2", Input::tokens([320]), ["320 is not one of the vocabulary's 320", ""]),
        ("tiny-gpt2", Input::tokens([1; 65]), ["65 tokens are too many", "positions for 64"]),
        ("tiny-roberta", Input::tokens([5; 41]), ["41 tokens are too many", "positions for 40"]),
        ("tiny-gpt2", Input::image([0.0]), ["tokens, not an image", ""]),
        ("tiny-gpt2", Input::tokens([1]).decoder([1]), ["no decoder of its own", ""]),
        ("tiny-t5", Input::tokens([1]), ["the decoder needs", ""]),
        ("tiny-vit", Input::image([0.0; 5]), ["an image of [3, 12, 12]", "not one of 5"]),
        ("tiny-gpt2", Input::audio([0.0]), ["tokens, not a recording", ""]),
        ("tiny-whisper", Input::image([0.0]).decoder([1]), ["a recording, not an image", ""]),
        ("tiny-whisper", Input::audio([0.0; 7]).decoder([1]), ["spectrogram of [12, 50]", "of 7,"]),
        ("tiny-whisper", Input::tokens([1]).decoder([1]), ["of [12, 50]", "no tokens beside"]),
        ("tiny-whisper", Input::audio([0.0; 600]), ["the decoder needs", ""]),
        ("tiny-bert", Input::tokens([1, 2]).types([0]), ["1 token types for 2 tokens", ""]),
        ("tiny-bert", Input::tokens([1]).types([2]), ["token type 2", ""]),
    ] {
        assert_says(&open(model).pass().run(&input).unwrap_err().to_string(), &parts);
    }
    let said = open("tiny-bert").generate(&Input::tokens([1]), 1, &[]).unwrap_err().to_string();
    assert_says(&said, &["no head that predicts the next token"]);
}

/// The refusal of a change of a run over 8 tokens.
fn of_change(model: &str, change: Value) -> String {
    let change: Change = match serde_json::from_value(change) {
        Ok(change) => change,
        Err(e) => return e.to_string(),
    };
    let mut input = Input::tokens([9, 8, 7, 6, 5, 4, 3, 2]);
    if model.starts_with("tiny-t5") {
        input = input.decoder([0, 3]);
    }
    match open(model).pass().change(change).run(&input) {
        Err(error) => {
            let variant = format!("{error:?}");
            format!("{}: {error}", variant.split(['(', ' ']).next().unwrap())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_change_that_means_nothing_says_so() {
    let ablate = |head: &str| json!({"ablate": {"head": head, "to": "zero"}});
    let cut = |head: &str, query: usize, key: usize| json!({"cut": {"head": head, "query": query, "key": key}});
    let patch = |layer: usize, position: usize, tokens: usize| {
        let place = format!("blocks.{layer}.hook_resid_pre");
        json!({"patch": {"place": place, "position": position, "from": {"ids": vec![1; tokens]}}})
    };
    let add = |place: &str, position: Option<usize>, vector: &[f32]| json!({"add": {"place": place, "position": position, "vector": vector}});
    let heated = json!({"temperature": {"head": "0.0", "temperature": -1.0}});
    let (pattern, stream) = ("blocks.0.attn.hook_pattern", "blocks.0.hook_resid_pre");
    for (model, change, variant, part) in [
        ("tiny-gpt2", ablate("2.0"), "Missing", "no head 2.0: there are 2 layers of 4 heads"),
        ("tiny-gpt2", ablate("0.4"), "Missing", "no head 0.4: there are 2 layers of 4 heads"),
        ("tiny-gpt2", ablate("encoder.0.0"), "Missing", "the model has one stack"),
        ("tiny-gpt2", ablate("zero"), "", "\"zero\" is no head"),
        ("tiny-t5", ablate("0.0"), "Missing", "the model has encoder, decoder and cross"),
        ("tiny-t5", cut("cross.0.0", 2, 0), "Missing", "2 queries and 8 keys"),
        ("tiny-gpt2", heated, "Range", "the temperature of head 0.0"),
        ("tiny-gpt2", cut("0.0", 8, 0), "Missing", "no edge 8,0 to cut"),
        ("tiny-gpt2", cut("0.0", 1, 2), "Missing", "does not see key 2"),
        ("tiny-mistral", cut("0.0", 7, 1), "Missing", "does not see key 1"), // a window of 6
        ("tiny-gpt2", patch(2, 0, 1), "Place", "no place \"blocks.2"),
        (
            "tiny-gpt2",
            add("blocks.1.hook_resid_prr", None, &[]),
            "",
            "the nearest is blocks.1.hook_resid_pre",
        ),
        (
            "tiny-gpt2",
            add("block.1.mlp.hook_pst", None, &[]),
            "",
            "no place \"block.1.mlp.hook_pst\"",
        ),
        ("tiny-gpt2", patch(1, 0, 1), "Shape", "as many tokens"),
        ("tiny-gpt2", patch(1, 8, 8), "Missing", "no position 8 to patch"),
        ("tiny-gpt2", add(pattern, None, &[]), "Unsupported", "can be read, but not set"),
        (
            "tiny-gpt2",
            add(stream, Some(0), &[1.0]),
            "Shape",
            "1 numbers at position 0 cannot be added",
        ),
    ] {
        assert_says(&of_change(model, change), &[variant, part]);
    }
    let model = open("tiny-gpt2");
    let said = model.pass().keep(["blocks.9.*"]).run(&Input::tokens([1])).unwrap_err().to_string();
    assert_says(&said, &["no place \"blocks.9.*\"", "blocks.0."]);
    let other = model.baseline(&Input::tokens([1])).unwrap();
    let said = model.pass().after(&other).run(&Input::tokens([2])).unwrap_err().to_string();
    assert_says(&said, &["the unchanged run is one of another input"]);
}

/// One change, and what the changed run keeps at a place.
fn kept(model: &Model, input: &Input, change: Option<Change>, place: &str) -> Vec<f32> {
    let pass = model.pass().keep([place]);
    let pass = change.into_iter().fold(pass, regard_models::Pass::change);
    pass.run(input).unwrap().get(place).unwrap().data.clone()
}

#[test]
fn a_cut_edge_has_no_weight_and_no_other_changes_but_its_row() {
    let (model, input) = (open("tiny-mistral"), Input::tokens([9, 8, 7, 6]));
    let place = "blocks.0.attn.hook_pattern";
    let before = kept(&model, &input, None, place);
    let cut = Change::Cut { head: "0.5".parse().unwrap(), query: 2, key: 1 };
    let after = kept(&model, &input, Some(cut), place);
    let row = (5 * 4 + 2) * 4..(5 * 4 + 3) * 4;
    assert_eq!(after[row.start + 1], 0.0);
    for (i, (x, y)) in before.iter().zip(&after).enumerate() {
        if row.contains(&i) {
            // The other weights of the row share what the edge had. Each side exponentiates and divides: 2 ULP for eˣ, 3
            // additions and a division; here are an addition and a division more.
            let rest = before[row.start] + before[row.start + 2];
            let expected = if (row.start + 1..=row.start + 3).contains(&i) && i != row.start + 2 {
                0.0
            } else {
                x / rest
            };
            assert!((y - expected).abs() <= 9.0 * f32::EPSILON * expected, "{i}: {y}");
        } else {
            assert_eq!(x, y, "{i}");
        }
    }
}

#[test]
fn a_mean_is_the_mean_over_positions() {
    let (model, input) = (open("tiny-gpt2"), Input::tokens([9, 8, 7, 6, 5]));
    let place = "blocks.1.attn.hook_z"; // [5, 4, 8]
    let z = kept(&model, &input, None, place);
    let mean = |column: usize| (0..5).map(|token| z[token * 32 + column]).sum::<f32>() / 5.0;
    let head = "1.2".parse().unwrap();
    let same = kept(&model, &input, Some(Change::Ablate { head, to: Ablation::Mean }), place);
    let other = Change::Ablate { head, to: Ablation::MeanOf(input.clone()) };
    assert_eq!(kept(&model, &input, Some(other), place), same);
    for (i, x) in same.iter().enumerate() {
        let column = i % 32;
        let expected = if (16..24).contains(&column) { mean(column) } else { z[i] };
        // Four additions and a division by 5 on either side, of numbers at most as large as the largest.
        let largest = z.iter().fold(0.0_f32, |m, z| m.max(z.abs()));
        assert!((x - expected).abs() <= 5.0 * f32::EPSILON * largest, "{i}");
    }
}

#[test]
fn an_added_vector_is_added_where_it_says() {
    let (model, input) = (open("tiny-gpt2"), Input::tokens([9, 8]));
    let place = "blocks.1.hook_resid_mid";
    let x = kept(&model, &input, None, place);
    for position in [None, Some(1)] {
        let add = Change::Add { place: place.parse().unwrap(), position, vector: vec![0.5; 32] };
        let y = kept(&model, &input, Some(add), place);
        for (i, (x, y)) in x.iter().zip(&y).enumerate() {
            let added = if position.is_none_or(|position| position == i / 32) { 0.5 } else { 0.0 };
            assert_eq!(*y, x + added, "{i}");
        }
    }
}

#[test]
fn a_changed_embedding_is_not_that_of_the_unchanged_run() {
    let (model, input) = (open("tiny-gpt2"), Input::tokens([9, 8]));
    let unchanged = model.baseline(&input).unwrap();
    let add =
        Change::Add { place: "hook_embed".parse().unwrap(), position: None, vector: vec![0.5; 32] };
    let pass = model.pass().change(add.clone());
    let whole = pass.run(&input).unwrap();
    assert_ne!(whole.logits(), unchanged.logits());
    assert_eq!(pass.after(&unchanged).run(&input).unwrap().logits(), whole.logits());
    let swept = model.sweep(&unchanged, &[add.clone(), add], Logits::All, &mut |_| Ok(())).unwrap();
    assert_eq!(swept.iter().map(Some).collect::<Vec<_>>(), [whole.logits(); 2]);
}

#[test]
fn a_change_in_a_generated_text_is_that_of_the_whole_text() {
    let model = open("tiny-gpt2");
    let input = Input::tokens([9, 8, 7, 6]);
    let head = "0.1".parse().unwrap();
    for change in [
        Change::Ablate { head, to: Ablation::Zero },
        Change::Ablate { head, to: Ablation::Mean },
        Change::Temperature { head, temperature: 0.25 },
        Change::Cut { head, query: 3, key: 1 },
        Change::Add {
            place: "blocks.1.hook_resid_pre".parse().unwrap(),
            position: Some(2),
            vector: vec![2.0; 32],
        },
    ] {
        let written = model.generate(&input, 6, core::slice::from_ref(&change)).unwrap();
        let mut text = input.clone();
        for id in written {
            let trace = model.pass().change(change.clone()).run(&text).unwrap();
            let logits = trace.logits().unwrap().last().to_vec();
            assert!(logits.iter().all(|x| *x <= logits[id as usize]), "{change:?}");
            text.ids.push(id);
        }
    }
}

#[test]
fn changes_are_values_that_a_file_can_hold() {
    let change = Change::Patch {
        place: "blocks.1.hook_resid_pre".parse().unwrap(),
        position: 3,
        from: Input::tokens([1, 2]),
    };
    let text = serde_json::to_string(&change).unwrap();
    assert_eq!(
        text,
        r#"{"patch":{"place":"blocks.1.hook_resid_pre","position":3,"from":{"ids":[1,2]}}}"#
    );
    assert_eq!(serde_json::from_str::<Change>(&text).unwrap(), change);
}

#[test]
fn a_description_is_a_value_that_a_file_can_hold() {
    for name in ["tiny-gemma2", "tiny-t5", "tiny-vit", "tiny-gpt_neox"] {
        let model = open(name);
        let text = serde_json::to_string(model.description()).unwrap();
        assert_eq!(&serde_json::from_str::<Description>(&text).unwrap(), model.description());
    }
}
