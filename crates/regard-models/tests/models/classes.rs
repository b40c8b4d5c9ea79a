//! Models that classify, against transformers.

use regard_models::{Checkpoint, Description, Input, Model};
use regard_tests::attention_files::{bytes, safetensors};
use regard_tests::models::golden;
use safetensors::Dtype;

use crate::common::{assert_says, json};

/// transformers' `…ForSequenceClassification` of every family of decoders: the matrix `score` times the last position's residual
/// stream after the final norm.
#[test]
fn every_decoder_has_a_head_of_classes() {
    const CLASSES: usize = 3;
    let input = Input::tokens([5, 7, 11, 3]);
    for family in ["gpt2", "gpt_neox", "llama", "mistral", "qwen2", "qwen3", "gemma2", "phi3"] {
        let folder = golden(&format!("tiny-{family}"));
        let checkpoint = Checkpoint::open(&folder).unwrap();
        let of_tokens = Model::load(&checkpoint).unwrap();
        let width = of_tokens.description().width;
        let score: Vec<f32> = (0..CLASSES * width).map(|i| (i as f32).sin()).collect();

        let kept = checkpoint
            .names()
            .filter(|name| !["lm_head.weight", "embed_out.weight"].contains(name));
        let mut tensors: Vec<_> = kept
            .map(|name| {
                let tensor = checkpoint.read(name).unwrap();
                (name, Dtype::F32, tensor.shape().to_vec(), bytes(&tensor.to_f32()))
            })
            .collect();
        tensors.push(("score.weight", Dtype::F32, vec![CLASSES, width], bytes(&score)));
        let mut config = json(folder.join("config.json"));
        let architecture = config["architectures"][0].as_str().unwrap();
        let stem = architecture.trim_end_matches("LMHeadModel").trim_end_matches("ForCausalLM");
        config["architectures"][0] = format!("{stem}ForSequenceClassification").into();
        config["id2label"] = serde_json::json!({"0": "no", "1": "maybe", "2": "yes"});
        let files = [
            ("config.json", config.to_string().into_bytes()),
            ("model.safetensors", safetensors(&tensors, &[])),
        ];
        let model = Model::load(&Checkpoint::from_files("model", files).unwrap()).unwrap();
        assert!(model.description().classifies(), "{family}");
        assert_eq!(model.description().labels, ["no", "maybe", "yes"]);
        assert!(model.unused().is_empty(), "{family}: {:?}", model.unused());

        let trace = of_tokens.pass().keep(["ln_final.hook_out"]).run(&input).unwrap();
        let normed = &trace.get("ln_final.hook_out").unwrap().data;
        let last = &normed[3 * width..];
        let logits = model.pass().run(&input).unwrap().logits().unwrap().data.clone();
        assert_eq!(logits.len(), CLASSES);
        for (found, row) in logits.iter().zip(score.chunks_exact(width)) {
            let terms = || row.iter().zip(last).map(|(w, x)| f64::from(*w) * f64::from(*x));
            // A sum of n products that are rounded: n · 2⁻²⁴ of the sum of magnitudes (Higham, section 3.1).
            let bound = width as f64 * 2_f64.powi(-24) * terms().map(f64::abs).sum::<f64>();
            let exact: f64 = terms().sum();
            assert!((f64::from(*found) - exact).abs() <= bound, "{family}: {found} {exact}");
        }
        // Only the last position is asked for, and several texts run together.
        let last = model.pass().last_logits().run(&input).unwrap();
        assert_eq!(last.logits().unwrap().data, logits);
        let both = model.pass().run_batch(&[input.clone(), input.clone()]).unwrap();
        assert_eq!(both.logits().unwrap().data, [&logits[..], &logits].concat());

        let attributed = model.pass().attribute(&input, 3, 1, None).unwrap();
        assert!((attributed.logit - f64::from(logits[1])).abs() < 1e-4, "{family}");
        let said = model.pass().attribute(&input, 0, 1, None).unwrap_err().to_string();
        assert!(said.contains("read at position 3, not 0"), "{said}");
        let said = model.generate(&input, 3, &[]).unwrap_err().to_string();
        assert!(said.contains("it is a classifier"), "{said}");
    }
}

/// `TextClassificationPipeline.postprocess` of transformers 5.24 for logits of three classes and of one.
#[test]
fn classes_have_the_probabilities_of_a_pipeline() {
    let folder = golden("tiny-bert");
    let described = |problem: Option<&str>| {
        let mut config = json(folder.join("config.json"));
        config["architectures"][0] = "BertForSequenceClassification".into();
        config["problem_type"] = problem.into();
        let files = [
            ("config.json", config.to_string().into_bytes()),
            ("model.safetensors", std::fs::read(folder.join("model.safetensors")).unwrap()),
        ];
        Description::of(&Checkpoint::from_files("bert", files).unwrap())
    };
    let of_one = Some(vec![0.880_797_029]);
    let softmax = vec![0.830_394_089, 0.105_572_768, 0.064_033_121];
    let sigmoids = vec![0.880_797_029, 0.484_380_037, 0.362_969_220];
    for (problem, of_three, of_one) in [
        (None, Some(softmax.clone()), of_one.clone()),
        (Some("single_label_classification"), Some(softmax), of_one.clone()),
        (Some("multi_label_classification"), Some(sigmoids), of_one),
        (Some("regression"), None, None),
    ] {
        let description = described(problem).unwrap();
        for (logits, expected) in [(&[2.0, -0.0625, -0.5625][..], of_three), (&[2.0], of_one)] {
            let found = description.probabilities(logits);
            assert_eq!(found.is_some(), expected.is_some(), "{problem:?}");
            for (p, expected) in found.unwrap_or_default().iter().zip(expected.unwrap_or_default())
            {
                // transformers computes in f32.
                assert!(
                    (p - expected).abs() <= expected * 2_f64.powi(-22),
                    "{problem:?}: {p} {expected}"
                );
            }
        }
    }
    let said = described(Some("ranking")).unwrap_err().to_string();
    assert_says(&said, &["config.json: problem_type is \"ranking\"", "multi_label_classification"]);
}
