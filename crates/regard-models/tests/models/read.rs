//! Tensors as the files store them, and what is said of files that are wrong.

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use anamnesis::{AnamnesisError, F32Out, GgufType, dequantize_gguf_blocks};
use proptest::prelude::*;
use regard::Quantization;
use regard_kernels::{MatMut, Quantized};
use regard_models::{Activation, Checkpoint, Error, Input, Model, NumberFormat, OutputHead};
use regard_tests::models::golden;
use safetensors::{SafeTensors, tensor::TensorView};
use serde_json::json;

use crate::common::{as_transformers, assert_says, copy, json, tensor};

/// The types of GGUF in the order of [`Quantization::ALL`].
const KINDS: [GgufType; 12] = [
    GgufType::Q8_0,
    GgufType::Q4_0,
    GgufType::Q4_1,
    GgufType::Q5_0,
    GgufType::Q5_1,
    GgufType::Q4_K,
    GgufType::Q5_K,
    GgufType::Q6_K,
    GgufType::Q2_K,
    GgufType::Q3_K,
    GgufType::IQ4_NL,
    GgufType::MXFP4,
];

/// The refusal of a checkpoint that cannot be opened.
fn refusal(path: &Path) -> String {
    Checkpoint::open(path).unwrap_err().to_string()
}

fn replace(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{from}");
    fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn every_format_widens_to_the_numbers_of_the_reference() {
    let checkpoint = Checkpoint::open(golden("gguf/types.gguf")).unwrap();
    let bytes = fs::read(golden("gguf/types.expected.safetensors")).unwrap();
    let expected = SafeTensors::deserialize(&bytes).unwrap();
    let formats = "f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q2_k q3_k q4_k q5_k q6_k iq4_nl mxfp4";
    for name in formats.split(' ') {
        let tensor = checkpoint.read(name).unwrap();
        assert_eq!(
            (tensor.shape(), tensor.format().to_string()),
            (&[4, 256][..], name.to_uppercase())
        );
        let expected = self::tensor(&expected, name).data;
        assert_eq!(tensor.to_f32(), expected, "{name}");
        // Rows in the middle are those rows.
        let mut rows = vec![0.0; 2 * 256];
        tensor.widen(1, &mut rows);
        assert_eq!(rows, expected[256..3 * 256], "{name}");
    }
}

#[test]
fn weights_stay_in_the_type_in_which_they_are_stored() {
    let checkpoint = Checkpoint::open(golden("gguf/tiny-llama256.Q4_K.gguf")).unwrap();
    let read: u64 =
        checkpoint.names().map(|name| checkpoint.read(name).unwrap().bytes() as u64).sum();
    assert_eq!(read, checkpoint.bytes());
    assert!(read < fs::metadata(checkpoint.path()).unwrap().len());
    for (model, tensor, format) in [
        ("tiny-qwen3", "model.norm.weight", NumberFormat::Bf16),
        ("tiny-phi3", "model.norm.weight", NumberFormat::F16),
        ("tiny-bert", "cls.predictions.bias", NumberFormat::F32),
    ] {
        let tensor = Checkpoint::open(golden(model)).unwrap().read(tensor).unwrap();
        assert_eq!(tensor.format(), format, "{model}");
        assert_eq!(tensor.bytes(), tensor.cols() * if format == NumberFormat::F32 { 4 } else { 2 });
    }
}

#[test]
fn the_head_of_a_masked_model_has_the_activation_that_its_family_gives_it() {
    // RoBERTa's is GELU, whatever the layers have.
    let families = [
        ("tiny-bert", "hidden_act", Activation::Relu),
        ("tiny-distilbert", "activation", Activation::Relu),
        ("tiny-roberta", "hidden_act", Activation::Gelu),
    ];
    for (name, key, expected) in families {
        let folder = copy(name);
        let path = folder.path().join("config.json");
        let mut config = json(&path);
        config[key] = "relu".into();
        fs::write(&path, config.to_string()).unwrap();
        let model = Model::open(folder.path()).unwrap();
        let OutputHead::Tokens { transform: Some((found, _)), .. } = model.description().head
        else {
            panic!("{name} has no head");
        };
        assert_eq!(found, expected, "{name}");
        assert_eq!(model.description().stack.block.activation, Activation::Relu);
    }
}

#[test]
fn the_encoder_of_t5_is_a_model_of_its_own() {
    let folder = copy("tiny-t5");
    let whole = Model::open(folder.path()).unwrap();
    let config = folder.path().join("config.json");
    replace(&config, "T5ForConditionalGeneration", "T5EncoderModel");
    let path = folder.path().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let kept = tensors.tensors().into_iter().filter(|(name, _)| !name.starts_with("decoder."));
    safetensors::serialize_to_file(kept, None, &path).unwrap();
    let alone = Model::open(folder.path()).unwrap();

    let input = Input::tokens([5, 7, 11]);
    let found = as_transformers(&alone, &[], &input);
    let expected = as_transformers(&whole, &[], &input.decoder([0]));
    for name in ["attentions", "hidden_states", "last_hidden_state"] {
        assert_eq!(found[name], expected[&format!("encoder_{name}")], "{name}");
    }
}

#[test]
fn shards_are_one_model() {
    let checkpoint = Checkpoint::open(golden("tiny-gpt_neox")).unwrap();
    assert_eq!(checkpoint.shape("embed_out.weight"), Some(&[300, 36][..]));
    assert_eq!(checkpoint.read("gpt_neox.final_layer_norm.bias").unwrap().rows(), 1);
}

#[test]
fn a_type_that_is_not_known_is_named_with_those_that_are() {
    let checkpoint = Checkpoint::open(golden("gguf/types.gguf")).unwrap();
    let said = checkpoint.read("iq4_xs").unwrap_err().to_string();
    assert_says(
        &said,
        &["types.gguf: the tensor iq4_xs has the type IQ4_XS; known are F32,", "MXFP4"],
    );
    let said = checkpoint.read("nothing").unwrap_err().to_string();
    assert_says(&said, &["types.gguf: the tensor nothing is missing"]);
}

#[test]
fn what_is_not_there_is_named() {
    assert!(matches!(Checkpoint::open("no/model"), Err(Error::Io { .. })));
    assert_says(&refusal(Path::new("no/model")), &["no/model: "]);
    let folder = tempfile::tempdir().unwrap();
    assert_says(&refusal(folder.path()), &["config.json: "]);
    for (config, part) in [
        ("[", "config.json: is no JSON"),
        ("[]", "config.json: holds no JSON object"),
        ("{}", "neither model.safetensors nor model.safetensors.index.json"),
    ] {
        fs::write(folder.path().join("config.json"), config).unwrap();
        assert_says(&refusal(folder.path()), &[part]);
    }
}

#[test]
fn a_file_that_is_cut_short_is_named_with_the_tensor() {
    let folder = copy("tiny-bert");
    let weights = folder.path().join("model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    let longer = [&bytes[..], b"more"].concat();
    for (bytes, parts) in [
        (&bytes[..bytes.len() - 10], ["the tensor ", "cut short"]),
        (&bytes[..100], ["is no safetensors file that can be read: it ends before its header", ""]),
        (&longer, ["is no safetensors file that can be read: it has ", "its header announces"]),
        (&[0xff; 64], ["is no safetensors file that can be read: its first 8 bytes", ""]),
    ] {
        fs::write(&weights, bytes).unwrap();
        let [first, second] = parts;
        assert_says(&refusal(folder.path()), &[&format!("model.safetensors: {first}"), second]);
    }

    let gguf = folder.path().join("short.gguf");
    let bytes = fs::read(golden("gguf/tiny-gpt2.Q8_0.gguf")).unwrap();
    fs::write(&gguf, &bytes[..bytes.len() - 200]).unwrap();
    assert_says(
        &refusal(&gguf),
        &["short.gguf: the tensor output_norm.weight ends at byte ", "the file is cut short"],
    );
    fs::write(&gguf, &bytes[..500]).unwrap();
    let said = "short.gguf: is no GGUF file that can be read: its header ends after byte 500";
    assert_says(&refusal(&gguf), &[said]);
}

#[test]
fn an_index_leads_only_to_shards_beside_it() {
    const FIRST: &str = "model-00001-of-00002.safetensors";
    const SHARD: &str = "model-00002-of-00002.safetensors";
    const INDEX: &str = "model.safetensors.index.json";
    let spoilt = |to: &str| {
        let folder = copy("tiny-gpt_neox");
        replace(&folder.path().join(INDEX), SHARD, to);
        refusal(folder.path())
    };
    for (to, parts) in [
        ("../other.safetensors", [INDEX, "embed_out.weight", "not a file of the same folder"]),
        ("/etc/passwd", [INDEX, "embed_out.weight", "not a file of the same folder"]),
        (INDEX, [INDEX, "embed_out.weight", "which is no .safetensors file"]),
        ("other.bin", [INDEX, "embed_out.weight", "which is no .safetensors file"]),
        ("gone.safetensors", [INDEX, "embed_out.weight", "gone.safetensors, which is missing"]),
        (FIRST, [FIRST, ": the tensor embed_out.weight", "should be here"]),
    ] {
        assert_says(&spoilt(to), &parts);
    }
    let folder = copy("tiny-gpt_neox");
    fs::remove_file(folder.path().join(SHARD)).unwrap();
    assert_says(&refusal(folder.path()), &["embed_out.weight", SHARD, "which is missing"]);
    let folder = copy("tiny-gpt_neox");
    fs::write(folder.path().join(INDEX), "{}").unwrap();
    assert_says(&refusal(folder.path()), &[INDEX, "has no object weight_map"]);
}

#[test]
fn a_tensor_in_two_shards_is_refused() {
    let folder = copy("tiny-gpt_neox");
    let second = folder.path().join("model-00002-of-00002.safetensors");
    let bytes = fs::read(&second).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let view = tensors.tensor("embed_out.weight").unwrap();
    let view = TensorView::new(view.dtype(), view.shape().to_vec(), view.data()).unwrap();
    let both = [("embed_out.weight", view.clone()), ("gpt_neox.embed_in.weight", view)];
    safetensors::serialize_to_file(both, None, &second).unwrap();
    assert_says(&refusal(folder.path()), &["the tensor gpt_neox.embed_in.weight is also in"]);
}

proptest! {
    /// The kernels decode blocks as another reader of GGUF does. With scales that are powers of two, all numbers are small
    /// multiples of a power of two, so that neither reader rounds.
    #[test]
    fn blocks_are_decoded_as_another_reader_does(
        bytes in prop::collection::vec(any::<u8>(), 2 * 210),
        exponents in [12_u8..18, 12_u8..18],
    ) {
        for (format, kind) in Quantization::ALL.iter().zip(KINDS) {
            prop_assert_eq!(format.to_string(), kind.to_string());
            let (block, row_bytes) = (kind.block_size(), kind.type_size().unwrap());
            prop_assert_eq!(format.block(), (block, row_bytes));
            let mut bytes = bytes[..2 * row_bytes].to_vec();
            let scales = match kind {
                GgufType::Q6_K => &[208][..],
                GgufType::Q2_K => &[80, 82],
                GgufType::Q3_K => &[108],
                GgufType::Q8_0 | GgufType::Q4_0 | GgufType::Q5_0 | GgufType::IQ4_NL => &[0],
                GgufType::MXFP4 => &[],
                _ => &[0, 2],
            };
            for row in bytes.chunks_exact_mut(row_bytes) {
                for (at, exponent) in scales.iter().zip(exponents) {
                    row[*at..at + 2].copy_from_slice(&[0, exponent << 2]);
                }
            }
            let mut expected: Vec<u8> = Vec::new();
            dequantize_gguf_blocks::<F32Out, _>(&bytes, kind, 2 * block, |numbers| {
                expected.extend(numbers);
                Ok::<(), AnamnesisError>(())
            }).unwrap();
            let mut found = vec![0.0_f32; 2 * block];
            let rows = Quantized::new(&bytes, *format, 2, block).unwrap();
            rows.widen(MatMut::new(&mut found, 2, block).unwrap()).unwrap();
            let found: Vec<u8> = found.into_iter().flat_map(f32::to_le_bytes).collect();
            prop_assert_eq!(found, expected, "{}", kind);
        }
    }

    /// Whatever bytes of a header are changed, the file is read or refused: nothing panics, and a refusal is one line.
    #[test]
    fn a_spoilt_gguf_header_is_read_or_refused(changes in prop::collection::vec((0_usize..9000, any::<u8>()), 1..8)) {
        let mut bytes = fs::read(golden("gguf/tiny-qwen2.Q8_0.gguf")).unwrap();
        for (at, value) in changes {
            bytes[at] = value;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        read_or_refuse(file.path());
    }

    /// The same for a folder.
    #[test]
    fn a_spoilt_safetensors_header_is_read_or_refused(changes in prop::collection::vec((0_usize..5000, any::<u8>()), 1..8)) {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = fs::read(golden("tiny-phi3/model.safetensors")).unwrap();
        for (at, value) in changes {
            let at = at % 1900;
            bytes[at] = value;
        }
        fs::write(folder.path().join("config.json"), "{}").unwrap();
        fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
        read_or_refuse(folder.path());
    }
}

fn read_or_refuse(path: &Path) {
    let read = Checkpoint::open(path).map(|checkpoint| {
        for name in checkpoint.names() {
            if let Err(e) = checkpoint.read(name) {
                assert_says(&e.to_string(), &[]);
            }
        }
    });
    if let Err(e) = read {
        assert_says(&e.to_string(), &[]);
    }
}

/// Of a file of more than 64 MiB, its length, its header and the first 4096 bytes of each tensor are read.
#[test]
fn the_parts_of_a_large_file_tell_files_apart() {
    let sizes = [20_usize << 20, 4096]; // numbers of the tensors
    let end = 4 * sizes[0];
    let parts = |name: &str, [a, b]: [usize; 2], changed: &[usize]| {
        let ends = [4 * a, 4 * (a + b)];
        let header = json!({
            name: {"dtype": "F32", "shape": [a], "data_offsets": [0, ends[0]]},
            "b": {"dtype": "F32", "shape": [b], "data_offsets": [ends[0], ends[1]]},
        });
        let header = format!("{header:<256}");
        let folder = copy("tiny-gpt2");
        let mut file = fs::File::create(folder.path().join("model.safetensors")).unwrap();
        file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
        file.write_all(header.as_bytes()).unwrap();
        let start = 8 + header.len() as u64;
        file.set_len(start + ends[1] as u64).unwrap(); // without memory for the zeros
        for at in changed {
            file.seek(SeekFrom::Start(start + *at as u64)).unwrap();
            file.write_all(&[1]).unwrap();
        }
        let mut parts = Vec::new();
        let checkpoint = Checkpoint::open(folder.path());
        checkpoint.unwrap().for_each_part(&mut |part| parts.extend_from_slice(part)).unwrap();
        parts
    };
    let first = parts("a", sizes, &[]);
    assert!(first.len() < 1 << 20, "{}", first.len());
    assert_eq!(first, parts("a", sizes, &[]));
    // A number within a tensor, after its first bytes, is not read.
    assert_eq!(first, parts("a", sizes, &[4096, end - 1, end + 4096]));
    for changed in [0, 4095, end, end + 4095] {
        assert_ne!(first, parts("a", sizes, &[changed]), "{changed}");
    }
    assert_ne!(first, parts("c", sizes, &[]));
    assert_ne!(first, parts("a", [sizes[0], 4095], &[]));
}
