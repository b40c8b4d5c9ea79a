//! Mixtures of experts: routes that change, and files that contradict themselves.

use std::fs;

use regard_models::{Change, Checkpoint, Input, Model};
use regard_tests::models::golden;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use crate::common::{assert_says, json, open};

const WEIGHTS: &str = "blocks.1.mlp.hook_expert_weights";
const INDICES: &str = "blocks.1.mlp.hook_expert_indices";

/// The experts \[tokens, used\] that a text takes in layer 1, and their weights \[tokens, experts\].
fn taken(model: &Model, changes: &[Change]) -> Result<[Vec<f32>; 2], regard_models::Error> {
    let pass = changes.iter().fold(model.pass(), |pass, change| pass.change(change.clone()));
    let trace = pass.keep([WEIGHTS, INDICES]).run(&Input::tokens([7, 8, 9]))?;
    Ok([INDICES, WEIGHTS].map(|place| trace.get(place).unwrap().data.clone()))
}

#[test]
fn a_weight_that_is_changed_sends_a_token_to_another_expert() {
    let model = open("tiny-gpt_oss");
    let [plain, weights] = taken(&model, &[]).unwrap();
    // Weights of 3 of 5 experts, the largest first, which sum to 1.
    for (experts, weights) in plain.chunks(3).zip(weights.chunks(5)) {
        let own: Vec<f32> = experts.iter().map(|expert| weights[*expert as usize]).collect();
        assert!(own.is_sorted_by(|a, b| a >= b) && own[2] > 0.0, "{own:?}");
        assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-6, "{weights:?}");
        assert_eq!(weights.iter().filter(|weight| **weight == 0.0).count(), 2);
    }
    let spare = (0..5).find(|expert| !plain[3..6].contains(&(*expert as f32))).unwrap();
    let mut vector = vec![0.0; 5];
    vector[spare] = 2.0;
    let add = |place: &str, vector| Change::Add {
        place: place.parse().unwrap(),
        position: Some(1),
        vector,
    };
    let [found, weights] = taken(&model, &[add(WEIGHTS, vector)]).unwrap();
    assert_eq!(found[3..6], [spare as f32, plain[3], plain[4]]);
    assert_eq!((weights[5 + spare], &found[..3], &found[6..]), (2.0, &plain[..3], &plain[6..]));

    let said = taken(&model, &[add(INDICES, vec![0.0, 0.5, 0.0])]).unwrap_err().to_string();
    assert_says(&said, &[INDICES, "is no number of the 5 experts"]);
    let said = taken(&model, &[add(INDICES, vec![9.0, 0.0, 0.0])]).unwrap_err().to_string();
    assert_says(&said, &["which is no number of the 5 experts"]);
}

/// An expert that a token does not take has no part in it: weights that are no numbers do not show.
#[test]
fn a_token_is_multiplied_by_the_experts_that_it_takes_alone() {
    let model = open("tiny-qwen3_moe");
    let input = Input::tokens([7, 8, 9]);
    let logits = model.pass().run(&input).unwrap().take_logits().unwrap();
    let trace = model.pass().keep(["*hook_expert_indices"]).run(&input).unwrap();
    let files = fs::read_dir(golden("tiny-qwen3_moe")).unwrap().map(|file| file.unwrap().path());
    let mut spoiled = 0;
    let files = files.map(|path| {
        let (name, mut bytes) =
            (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap());
        if name.ends_with(".safetensors") && name.starts_with("model") {
            let start = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
            for tensor in header.offset_keys() {
                let parts: Vec<&str> = tensor.split('.').collect();
                let [_, _, layer, _, "experts", expert, ..] = parts[..] else { continue };
                let taken = trace.get(&format!("blocks.{layer}.mlp.hook_expert_indices")).unwrap();
                if !taken.data.contains(&expert.parse().unwrap()) {
                    let (first, end) = header.info(&tensor).unwrap().data_offsets;
                    bytes[start + first..start + end].fill(0xff); // NaN
                    spoiled += 1;
                }
            }
        }
        (name, bytes)
    });
    let files: Vec<_> = files.collect();
    assert!(spoiled >= 3, "{spoiled}");
    let model = Model::load(&Checkpoint::from_files("spoiled", files).unwrap()).unwrap();
    assert_eq!(model.pass().run(&input).unwrap().take_logits().unwrap(), logits);
}

/// tiny-gpt_oss-mxfp4 with one of its tensors in another shape or type, or without it.
fn refused(tensor: &str, other: Option<(Dtype, &[usize])>) -> String {
    let bytes = fs::read(golden("tiny-gpt_oss-mxfp4/model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let views = tensors.iter().filter_map(|(name, view)| match other {
        None if name == tensor => None,
        Some((kind, shape)) if name == tensor => {
            let len = shape.iter().product::<usize>() * kind.bitsize() / 8;
            Some((name, TensorView::new(kind, shape.to_vec(), &view.data()[..len]).unwrap()))
        }
        _ => Some((name, view)),
    });
    let weights = safetensors::serialize(views, None).unwrap();
    let config = json(golden("tiny-gpt_oss-mxfp4/config.json")).to_string().into_bytes();
    let files = [("config.json", config), ("model.safetensors", weights)];
    let checkpoint = Checkpoint::from_files("spoiled", files);
    checkpoint.and_then(|checkpoint| Model::load(&checkpoint)).unwrap_err().to_string()
}

#[test]
fn experts_that_do_not_fit_are_named() {
    let experts = |part: &str| format!("model.layers.0.mlp.experts.{part}");
    let blocks = experts("down_proj_blocks");
    for (tensor, other, parts) in [
        (blocks.clone(), None, &["down_proj is missing"][..]),
        (experts("down_proj_scales"), None, &["down_proj_blocks has no tensor", "_scales beside"]),
        (blocks.clone(), Some((Dtype::U8, &[3, 32, 2, 8][..])), &["[3, 32, 2, 8]", "[3, 32, 2]"]),
        (experts("down_proj_scales"), Some((Dtype::I8, &[3, 32, 2])), &["of the type I8"]),
        (
            experts("down_proj_bias"),
            Some((Dtype::BF16, &[3, 16])),
            &["model.safetensors", "[3, 16]", "needs [3, 32]"],
        ),
        (
            "model.layers.1.mlp.router.weight".into(),
            Some((Dtype::BF16, &[2, 32])),
            &["router.weight has the shape [2, 32]", "needs [3, 32]"],
        ),
        (
            "model.layers.1.self_attn.sinks".into(),
            Some((Dtype::BF16, &[3])),
            &["sinks has the shape [3]", "needs [4]"],
        ),
    ] {
        assert_says(&refused(&tensor, other), parts);
    }
    let both = |part: &str| Checkpoint::open(golden("tiny-gpt_oss-mxfp4")).unwrap().read(part);
    let weight = both(&experts("gate_up_proj")).unwrap();
    assert_eq!((weight.shape(), weight.format().to_string()), (&[3, 128, 32][..], "MXFP4".into()));
    assert_eq!(weight.bytes(), 3 * 128 * 17);
}
