//! Settings that few files have, and keys that files leave out, against transformers. `data/families.py` writes the cases.

use std::collections::BTreeMap;
use std::fs;

use regard_models::{Checkpoint, Description, Error, Input, Model, OutputHead, Values};
use regard_tests::attention_files::{bytes, safetensors};
use regard_tests::models::{FAMILIES, golden};
use safetensors::Dtype;
use serde_json::{Value, json};

use crate::common::{self, assert_near, best, data};

/// Those of families.py.
fn numbers(name: &str, shape: &[usize]) -> Vec<f32> {
    let seed =
        (1_u64..).zip(name.bytes()).map(|(i, byte)| i * u64::from(byte)).sum::<u64>() % 65536;
    let drawn = |i: u64| ((i * 40503 + seed * 2_654_435 + i * i * 9973) >> 4) % 65536;
    let offset = if shape.len() == 1 { 0.0 } else { -0.5 };
    let count = shape.iter().product::<usize>() as u64;
    (0..count).map(|i| drawn(i) as f32 / 65536.0 + offset).collect()
}

fn cases() -> Vec<Value> {
    common::json(data("families.json")).as_array().unwrap().clone()
}

fn open(case: &Value, config: &Value) -> Result<Model, Error> {
    Model::load(&Checkpoint::from_files("model", files(case, config))?)
}

fn files(case: &Value, config: &Value) -> [(&'static str, Vec<u8>); 2] {
    let shapes = case["shapes"].as_object().unwrap();
    let tensors = shapes.iter().map(|(name, shape)| {
        let shape: Vec<usize> = serde_json::from_value(shape.clone()).unwrap();
        let numbers = bytes(&numbers(name, &shape));
        (name.as_str(), Dtype::F32, shape, numbers)
    });
    let weights = safetensors(&tensors.collect::<Vec<_>>(), &[]);
    [("config.json", config.to_string().into_bytes()), ("model.safetensors", weights)]
}

fn input(case: &Value) -> Input {
    let list =
        |key: &str| -> Vec<u32> { serde_json::from_value(case[key].clone()).unwrap_or_default() };
    if case["ids"].is_null() {
        let channels = case["config"]["num_channels"].as_u64().unwrap_or(3) as usize;
        return Input::image(numbers("pixels", &[1, channels, 4, 4]));
    }
    Input::tokens(list("ids")).decoder(list("decoder"))
}

#[test]
fn settings_mean_what_they_mean_in_transformers() {
    let mut compared = 0;
    for case in cases() {
        let name = case["name"].as_str().unwrap();
        let opened = open(&case, &case["config"]);
        if let Some(says) = case["says"].as_str() {
            let said = opened.unwrap_err().to_string();
            assert!(said.contains(says), "{said:?} does not say {says:?}");
            continue;
        }
        let model = opened.unwrap_or_else(|e| panic!("{name}: {e}"));
        let trace = model.pass().run(&input(&case)).unwrap();
        let Some(expected) = case["logits"].as_array() else {
            assert!(trace.logits().is_none(), "{name}");
            assert!(matches!(model.description().head, OutputHead::Other { .. }), "{name}");
            continue;
        };
        let data = expected.iter().map(|x| x.as_f64().unwrap() as f32).collect();
        let found = trace.logits().or_else(|| trace.pooled()).unwrap();
        assert_near(found, &Values { shape: found.shape.clone(), data }, name);
        assert_eq!(found.data.len(), expected.len(), "{name}");
        compared += 1;
    }
    assert!(compared > 50, "{compared}");
}

/// The vector of a text as sentence-transformers makes it, whatever the class beside it is.
#[test]
fn the_vector_of_a_sentence_is_a_state_or_the_mean_of_all() {
    const POOLING: &str = "1_Pooling/config.json";
    let cases = cases();
    let case = cases.iter().find(|case| case["name"] == "pooled: BertModel").unwrap();
    for (mode, mean) in [("pooling_mode_mean_tokens", true), ("pooling_mode_cls_token", false)] {
        let settings = json!({mode: true});
        let [config, weights] = files(case, &case["config"]);
        let base = [config, weights, (POOLING, settings.to_string().into_bytes())];
        let base = Model::load(&Checkpoint::from_files("model", base).unwrap()).unwrap();
        assert_eq!(base.unused(), [""; 0]);
        let with_head = Model::load(&common::with_file("tiny-mpnet", POOLING, &settings)).unwrap();
        for model in [base, with_head] {
            let outputs = common::as_transformers(&model, &[], &Input::tokens([3, 7, 1, 9]));
            let (states, width) = (&outputs["hidden_states"], model.description().width);
            let last = &states.data[states.data.len() - 4 * width..];
            let mean_of = |i: usize| (0..4).map(|t| last[t * width + i] / 4.0).sum::<f32>();
            let data = (0..width).map(|i| if mean { mean_of(i) } else { last[i] }).collect();
            assert_near(&outputs["pooler_output"], &Values { shape: vec![width], data }, mode);
        }
    }
}

#[test]
fn a_head_that_is_not_computed_is_named() {
    let cases = cases();
    let case = cases.iter().find(|case| case["name"] == "head: GPT2ForTokenClassification");
    let model = open(case.unwrap(), &case.unwrap()["config"]).unwrap();
    let said = model.generate(&Input::tokens([1]), 1, &[]).unwrap_err().to_string();
    assert!(said.contains("the head of GPT2ForTokenClassification is not computed"), "{said}");
}

/// A text that grows past the length at which the rotary frequencies change: every token is that of a whole run.
#[test]
fn what_is_written_past_the_original_length_is_as_in_one_run() {
    let cases = cases();
    let case = |name: &str| cases.iter().find(|case| case["name"] == name).unwrap();
    let phi3 = case("longrope, long: Phi3ForCausalLM");
    let llama = case("defaults: LlamaForCausalLM");
    let mut dynamic = llama["config"].clone();
    dynamic["max_position_embeddings"] = 4.into();
    dynamic["rope_scaling"] = json!({"rope_type": "dynamic", "factor": 3.0});
    for model in [open(phi3, &phi3["config"]).unwrap(), open(llama, &dynamic).unwrap()] {
        let mut text = Input::tokens([3, 7]);
        let mut written = Vec::new();
        for _ in 0..8 {
            let trace = model.pass().last_logits().run(&text).unwrap();
            written.push(best(trace.logits().unwrap().last()));
            text.ids.extend(written.last());
        }
        let ends = &model.description().ends;
        let end = written.iter().position(|id| ends.contains(id)).map_or(8, |at| at + 1);
        assert!(end > 4, "the text ends before it is long");
        let found = model.generate(&Input::tokens([3, 7]), 8, &[]).unwrap();
        assert_eq!(found, written[..end]);
    }
}

/// The table of defaults has every key that it is asked for: a file with nothing but its family is refused for its tensors alone.
#[test]
fn a_family_has_a_default_for_every_setting() {
    let families = "bert roberta distilbert gpt2 gpt_neox llama mistral qwen qwen2 qwen3 qwen3_moe gpt_oss gemma2 phi3 t5 vit whisper modernbert gpt_neo gptj gpt_bigcode opt bloom falcon mpt phi stablelm starcoder2 mixtral olmo olmoe gemma qwen2_moe phimoe ministral ministral3 arcee nemotron helium exaone4 glm glm4 cohere cohere2 xlm-roberta camembert electra albert mpnet nomic_bert eurobert deberta-v2 bart mbart marian pegasus mt5 deit dinov2 dinov2_with_registers dinov3_vit clip_vision_model clip_text_model siglip_vision_model siglip_text_model";
    for family in families.split(' ') {
        let shapes: serde_json::Map<String, Value> =
            (0..50).map(|i| (format!("{i}"), json!([1]))).collect();
        let case = json!({"shapes": shapes});
        let said = open(&case, &json!({"model_type": family})).unwrap_err().to_string();
        assert!(
            said.contains("the tensor ") && said.contains(" is missing; no known family has"),
            "{family}: {said}"
        );
    }
}

/// Transformers 5 writes the token with which a decoder begins, and those that end a text, into generation_config.json.
#[test]
fn the_first_token_and_the_last_ones_are_those_of_the_settings_of_generation() {
    let cases = cases();
    let case = cases.iter().find(|case| case["name"] == "defaults: T5ForConditionalGeneration");
    let config = case.unwrap()["config"].to_string().into_bytes();
    let weights = safetensors(&[("shared.weight", Dtype::F32, [1], vec![0; 4])], &[]);
    let read = |files: &[(&'static str, Vec<u8>)]| {
        let files =
            [&[("config.json", config.clone()), ("model.safetensors", weights.clone())][..], files];
        Description::of(&Checkpoint::from_files("model", files.concat()).unwrap()).unwrap()
    };
    let usual = read(&[]);
    assert_eq!((usual.decoder_start, usual.ends), (vec![0], vec![1]));
    let settings = json!({"decoder_start_token_id": 7, "eos_token_id": [3, 4]});
    let own = read(&[("generation_config.json", settings.to_string().into_bytes())]);
    assert_eq!((own.decoder_start, own.ends), (vec![7], vec![3, 4]));
}

#[test]
fn weights_of_64_bits_are_refused_with_the_types_that_are_known() {
    let weights = safetensors(&[("x", Dtype::F64, [1], vec![0; 8])], &[]);
    let files = [("config.json", b"{}".to_vec()), ("model.safetensors", weights)];
    let said = Checkpoint::from_files("model", files).unwrap().read("x").unwrap_err().to_string();
    assert!(said.contains("the tensor x has the type F64; known are F32, F16, BF16"), "{said}");
}

/// transformers 5 writes rope_parameters, layer_types and dtype, where older files have other keys.
#[test]
fn a_config_that_transformers_5_writes_anew_means_the_same() {
    let forms: BTreeMap<String, Value> =
        serde_json::from_str(include_str!("../data/forms.json")).unwrap();
    assert_eq!(forms.len() + 1, FAMILIES.len()); // transformers has no class of the first Qwen
    for (name, form) in forms {
        let folder = common::copy(&name);
        let described = || Description::of(&Checkpoint::open(folder.path()).unwrap()).unwrap();
        let own = described();
        fs::write(folder.path().join("config.json"), form.to_string()).unwrap();
        assert_eq!(described(), own, "{name}");
    }
}

/// Settings of families whose effect is not computed, and those that would take memory without bound, are refused.
#[test]
fn settings_without_an_effect_here_are_refused() {
    let refused = |name: &str, key: &str, value: Value, says: &str| {
        let folder = common::copy(name);
        let path = folder.path().join("config.json");
        let mut config = common::json(path.clone());
        config[key] = value;
        fs::write(&path, config.to_string()).unwrap();
        let said = Model::open(folder.path()).unwrap_err().to_string();
        assert!(said.contains(says), "{name}: {said:?} does not say {says:?}");
    };
    let many = json!(4_000_000_000_u32);
    refused("tiny-opt", "do_layer_norm_before", json!(false), "do_layer_norm_before is false");
    refused("tiny-opt", "word_embed_proj_dim", json!(16), "word_embed_proj_dim is 16");
    refused("tiny-falcon", "alibi", json!(true), "alibi is true, which is not computed");
    refused("tiny-phi", "qk_layernorm", json!(true), "qk_layernorm is true");
    refused("tiny-stablelm", "qk_layernorm", json!(true), "qk_layernorm is true");
    refused("tiny-gpt_bigcode", "multi_query", json!(false), "multi_query is false");
    refused("tiny-mpt", "attn_config", json!({"alibi_bias_max": 16}), "alibi_bias_max is 16");
    refused("tiny-olmo", "clip_qkv", json!(-1.0), "are clipped at -1");
    refused("tiny-bloom", "n_head", many.clone(), "4000000000 heads are too many");
    refused("tiny-gptj", "rotary_dim", json!(3), "3 features of a head cannot turn in pairs");
    let key = "attention_types";
    let kinds = json!([[["global", "other"], 2]]);
    refused("tiny-gpt_neo", key, kinds, "attention_types has \"other\"");
    let kinds = json!([[["global", "local"], many]]);
    refused("tiny-gpt_neo", key, kinds, "has 5 entries for 4 layers");
}

/// A family that is not computed is refused with the reason, and a hybrid with those of its layers that are attention.
#[test]
fn hybrids_are_refused_with_their_attention_layers() {
    let case = json!({"shapes": {"x.weight": [1]}});
    let refused = |config: Value, says: &str| {
        let said = open(&case, &config).unwrap_err().to_string();
        assert!(said.contains(says), "{said:?} does not say {says:?}");
    };
    refused(
        json!({"model_type": "mamba"}),
        "the family \"mamba\" is not computed: it has no attention",
    );
    let kinds = json!(["conv", "full_attention", "conv", "full_attention"]);
    let of_lfm = json!({"model_type": "lfm2", "layer_types": kinds});
    refused(of_lfm, "it is a hybrid: its layers 1, 3 are attention");
    let kinds = json!(["mamba", "attention", "mamba"]);
    refused(
        json!({"model_type": "granitemoehybrid", "layer_types": kinds}),
        "its layer 1 is attention",
    );
    let text = json!({"layer_types": ["linear_attention", "full_attention"]});
    refused(json!({"model_type": "qwen3_5", "text_config": text}), "its layer 1 is attention");
    let text = json!({"model_type": "lfm2", "layer_types": ["conv", "full_attention"]});
    refused(json!({"model_type": "lfm2_vl", "text_config": text}), "its layer 1 is attention");
    let linear = json!({"full_attn_layers": [4, 8], "kda_layers": [1, 2, 3, 5, 6, 7]});
    refused(
        json!({"model_type": "kimi_linear", "linear_attn_config": linear}),
        "its layers 3, 7 are attention",
    );
    let every =
        json!({"model_type": "qwen3_next", "num_hidden_layers": 8, "full_attention_interval": 4});
    refused(every, "its layers 3, 7 are attention");
    let period = json!({"model_type": "jamba", "num_hidden_layers": 8, "attn_layer_period": 4, "attn_layer_offset": 2});
    refused(period, "its layers 2, 6 are attention");
    let pattern = json!({"model_type": "nemotron_h", "hybrid_override_pattern": "M-*-"});
    refused(pattern, "its layer 2 is attention");
    let few = json!(["recurrent", "recurrent", "attention"]);
    let gemma =
        json!({"model_type": "recurrent_gemma", "block_types": few, "num_hidden_layers": 8});
    refused(gemma, "its layers 2, 5 are attention");
    let zamba =
        json!({"model_type": "zamba2", "layers_block_type": ["linear_attention", "hybrid"]});
    refused(zamba, "its layer 1 is attention");
    refused(json!({"model_type": "bamba", "attn_layer_indices": [9]}), "its layer 9 is attention");
    refused(
        json!({"model_type": "zamba2"}),
        "the file does not say which of its layers are attention",
    );
    refused(json!({"model_type": "gemma3n"}), "four streams");
}

/// The files of a model with both towers open each of them, with the same numbers as its own files.
#[test]
fn each_tower_of_a_model_with_both_opens() {
    let folder = tempfile::tempdir().unwrap();
    let towers = ["vision", "text"].map(|part| {
        let checkpoint = Checkpoint::open(golden(&format!("tiny-clip_{part}_model"))).unwrap();
        let config = common::json(golden(&format!("tiny-clip_{part}_model")).join("config.json"));
        (part, checkpoint, config)
    });
    let mut tensors = vec![("logit_scale", Dtype::F32, vec![], bytes(&[2.5]))];
    let mut config = json!({"model_type": "clip", "architectures": ["CLIPModel"]});
    for (part, checkpoint, own) in &towers {
        for name in checkpoint.names() {
            let tensor = checkpoint.read(name).unwrap();
            tensors.push((name, Dtype::F32, tensor.shape().to_vec(), bytes(&tensor.to_f32())));
        }
        config[format!("{part}_config")] = own.clone();
    }
    // As the first files are written: what differs from the class's defaults stands a second time.
    config["text_config"]["num_attention_heads"] = json!(3);
    config["text_config_dict"] = json!({"num_attention_heads": 4});
    let write = |file: &str, content: Vec<u8>| fs::write(folder.path().join(file), content);
    write("config.json", config.to_string().into_bytes()).unwrap();
    write("model.safetensors", safetensors(&tensors, &[])).unwrap();
    for (part, checkpoint, _) in &towers {
        let own = Model::load(checkpoint).unwrap();
        let path = format!("{}#{part}", folder.path().display());
        let model = Model::open(&path).unwrap();
        assert_eq!(model.unused(), [""; 0], "{part}");
        assert_eq!(model.description(), own.description(), "{part}");
        let input = common::input(&model);
        let run = |model: &Model| model.pass().run(&input).unwrap().pooled().unwrap().clone();
        // The files of one have the same numbers in 16 bits.
        assert_near(&run(&model), &run(&own), part);
    }
    let usual = Model::open(folder.path()).unwrap();
    assert_eq!(usual.description().family, "clip_vision_model");
    let said = |part: &str| {
        let path = format!("{}#{part}", folder.path().display());
        Model::open(path).unwrap_err().to_string()
    };
    assert!(said("sound").contains("has no part \"sound\"; it has vision, text"));
}
