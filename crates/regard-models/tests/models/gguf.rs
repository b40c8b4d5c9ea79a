//! GGUF files of the families that llama.cpp's converter changes most: norms with 1 added, fused and interleaved projections,
//! rotary scaling in metadata and tensors; against transformers with the dequantized weights.
use std::fs;

use regard_models::{
    Checkpoint, Description, Frequencies, Input, Model, OutputHead, RotaryScaling,
};

use crate::common::{self, IDS, assert_says, data};

/// A text longer than the original context of the models that have one, and a shorter one.
fn check(name: &str) -> Model {
    let model = Model::open(data(&format!("{name}.gguf"))).unwrap();
    for (prefix, tokens) in [("long", IDS.len()), ("short", 6)] {
        common::check(&model, tokens, &format!("{name}.expected.safetensors"), prefix);
    }
    model
}

#[test]
fn converted_models_give_the_numbers_of_transformers() {
    let names = "qwen3 qwen3moe gpt-oss gemma2 gemma3 smollm3 olmo2 olmo3 granite phi3 gptneox gptneox-serial qwen bloom starcoder starcoder2 falcon falcon-one mpt phi2 stablelm stablelm-parallel olmo olmoe mixtral \
        qwen2moe phimoe gemma arcee mistral3 nemotron exaone4 glm glm4 command-r cohere2 bert roberta distilbert nomic-bert eurobert modern-bert t5 t5-gated \
        t5encoder xlm-roberta roberta-classes distilbert-classes modern-bert-classes";
    for name in names.split_whitespace() {
        check(name);
    }
}

#[test]
fn classes_have_their_labels_and_those_without_their_pooler_are_not_computed() {
    for name in ["roberta-classes", "distilbert-classes", "modern-bert-classes"] {
        let model = Model::open(data(&format!("{name}.gguf"))).unwrap();
        assert_eq!(model.description().labels, ["no", "perhaps", "yes"], "{name}");
    }
    let bert = Model::open(data("bert-classes.gguf")).unwrap();
    assert_eq!(bert.unused(), ["cls.output.bias", "cls.output.weight"]);
    let input = Input::tokens(IDS);
    let errors = [bert.generate(&input, 1, &[]).unwrap_err(), bert.predicted(&input).unwrap_err()];
    for said in errors.map(|e| e.to_string()) {
        assert_says(&said, &["the head of a BERT without its pooler is not computed"]);
    }
}

/// Any part of a split file opens the model, and so does its folder.
#[test]
fn the_parts_of_a_split_file_are_one_model() {
    let part = |i: usize| format!("split-{i:05}-of-00003.gguf");
    let folder = tempfile::tempdir().unwrap();
    for i in 1..=3 {
        fs::copy(data(&part(i)), folder.path().join(part(i))).unwrap();
    }
    let whole = Model::open(data("smollm3.gguf")).unwrap();
    let logits = |model: &Model| {
        let trace = model.pass().run(&Input::tokens(IDS)).unwrap();
        trace.logits().unwrap().data.clone()
    };
    for path in [folder.path().join(part(1)), folder.path().join(part(3)), folder.path().to_owned()]
    {
        let checkpoint = Checkpoint::open(&path).unwrap();
        assert_eq!(checkpoint.path(), folder.path().join(part(1)));
        assert_eq!(checkpoint.files().len(), 3);
        let model = Model::load(&checkpoint).unwrap();
        assert!(model.unused().is_empty());
        assert_eq!(logits(&model), logits(&whole));
    }
    let files = [2, 3, 1].map(|i| (part(i), fs::read(data(&part(i))).unwrap()));
    let model = Model::load(&Checkpoint::from_files("split", files).unwrap()).unwrap();
    assert_eq!(logits(&model), logits(&whole));

    fs::remove_file(folder.path().join(part(2))).unwrap();
    let said = Checkpoint::open(folder.path().join(part(1))).unwrap_err().to_string();
    assert_says(&said, &["split-00002-of-00003.gguf of the split file is missing"]);
    let renamed = folder.path().join("model.gguf");
    fs::rename(folder.path().join(part(1)), &renamed).unwrap();
    let said = Checkpoint::open(&renamed).unwrap_err().to_string();
    assert_says(&said, &["model.gguf: is one of 3 parts of a split file", "-00001-of-00003.gguf"]);
}

#[test]
fn scaled_frequencies_are_read_from_metadata_and_tensors() {
    let [yarn, long_rope] = ["qwen3-yarn", "phi3-longrope"]
        .map(|name| check(name).description().stack.rotary[0].scaling.clone());
    assert!(matches!(yarn, Frequencies::Scaled(RotaryScaling::Yarn { .. })), "{yarn:?}");
    assert!(matches!(long_rope, Frequencies::LongRope { .. }), "{long_rope:?}");
    let json = serde_json::to_value(&yarn).unwrap();
    assert_eq!((&json["yarn"]["truncate"], &json["yarn"]["fast"]), (&true.into(), &32.0.into()));
    assert_eq!(serde_json::from_value::<Frequencies>(json).unwrap(), yarn);
}

/// The description of a file without these keys, which have another name in it.
fn without(name: &str, keys: &[&str]) -> Description {
    let mut bytes = fs::read(data(&format!("{name}.gguf"))).unwrap();
    for key in keys {
        let at = bytes.windows(key.len()).position(|window| window == key.as_bytes());
        bytes[at.unwrap() + key.len() - 1] = b'_';
    }
    let name = format!("{name}.gguf");
    Description::of(&Checkpoint::from_files(&name, [(name.clone(), bytes)]).unwrap()).unwrap()
}

/// As in transformers' classes, and for Gemma 2's caps and window in llama.cpp.
#[test]
fn keys_that_a_file_leaves_out_are_the_familys() {
    let gemma = without(
        "gemma2",
        &[
            "gemma2.attn_logit_softcapping",
            "gemma2.final_logit_softcapping",
            "gemma2.attention.sliding_window",
            "gemma2.attention.layer_norm_rms_epsilon",
        ],
    );
    assert_eq!(gemma.stack.block.softcap, Some(50.0));
    assert!(matches!(gemma.head, OutputHead::Tokens { softcap: Some(30.0), .. }));
    assert_eq!(gemma.stack.windows, [Some(4096), None]);
    assert_eq!(gemma.stack.block.norm.epsilon, 1e-6);
    // The base of local layers is in newer files alone.
    let gemma = without("gemma3", &["gemma3.rope.freq_base_swa"]);
    assert_eq!([0, 1].map(|i| gemma.stack.rotary[i].base), [1000.0, 10_000.0]);
    let phi3 = without(
        "phi3",
        &["phi3.attention.layer_norm_rms_epsilon", "phi3.attention.sliding_window"],
    );
    assert_eq!((phi3.stack.block.norm.epsilon, &phi3.stack.windows[..]), (1e-5, &[None][..]));
    let neox = without("gptneox", &["gptneox.attention.layer_norm_epsilon"]);
    assert_eq!(neox.stack.block.norm.epsilon, 1e-5);
}

/// Steeper slopes, and norms of queries in a family that has none.
#[test]
fn settings_and_tensors_whose_effect_is_not_computed_are_refused() {
    let refused = |name: &str, old: &[u8], new: &[u8], says: &str| {
        let mut file = fs::read(data(name)).unwrap();
        while let Some(at) = file.windows(old.len()).position(|window| window == old) {
            file[at..at + new.len()].copy_from_slice(new);
        }
        let said = Description::of(&Checkpoint::from_files(name, [(name, file)]).unwrap());
        assert_says(&said.unwrap_err().to_string(), &[says]);
    };
    let bias = |most: f32| {
        let mut setting = b"max_alibi_bias\x06\0\0\0".to_vec(); // 6 is the type F32
        setting.extend(most.to_le_bytes());
        setting
    };
    let says = "mpt.attention.max_alibi_bias is 16; only 8 is known";
    refused("mpt.gguf", &bias(8.0), &bias(16.0), says);
    let says = "blk.0.attn_q_norm.weight is a norm of queries, which qwen2 does not have";
    refused("qwen3.gguf", b"qwen3", b"qwen2", says);
}

#[test]
fn an_architecture_that_is_not_known_is_named_with_its_settings() {
    let mut file = fs::read(data("qwen3.gguf")).unwrap();
    for (old, new) in
        [(&b"qwen3"[..], &b"mamba"[..]), (b"attention.key_length", b"recurrence.state_dim")]
    {
        while let Some(at) = file.windows(old.len()).position(|window| window == old) {
            file[at..at + new.len()].copy_from_slice(new);
        }
    }
    let checkpoint = Checkpoint::from_files("a.gguf", [("a.gguf", file)]).unwrap();
    let said = Description::of(&checkpoint).unwrap_err().to_string();
    let needs = "a.gguf: the architecture \"mamba\" is not known: its tensors have names that known families have, and no \
                 known family has its settings recurrence.state_dim; known are bert, nomic-bert, eurobert, gpt2, gptneox, llama, qwen,";
    assert_says(&said, &[needs]);
}
