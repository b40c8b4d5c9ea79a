//! The laboratory's queries and keys from a file: accepted files, refused files, and the weights, against plain loops in `f64`.

use std::path::Path;
use std::sync::Arc;

use crate::laboratory::{
    LaboratoryInputs, LaboratoryMatrix, LaboratoryOutcome, LaboratoryRequest, TokenSource,
};
use regard_figure::Look;
use regard_heads::{QueriesAndKeys, from_disk, unattended};
use regard_kernels::Temperature;
use regard_session::laboratory::Engine;
use safetensors::Dtype;
use zip::CompressionMethod;

use super::TestHost;
use regard_tests::attention_files::{Folder, bytes, npy, npz, safetensors};
use regard_tests::rounding::weight_error;

/// Numbers between −2 and 2.
fn numbers(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| (((i + 31 * seed) * 7919 % 129) as f32 - 64.0) / 32.0).collect()
}

/// All tokens of a head, without a mask.
fn inputs(path: &Path, head: usize) -> LaboratoryInputs {
    let source = TokenSource::File { path: path.to_owned(), head };
    LaboratoryInputs {
        source,
        tokens: 4096,
        dim: 256,
        causal: false,
        ..LaboratoryInputs::default()
    }
}

fn engine() -> Engine {
    Engine::new(Arc::new(TestHost::DEFAULT))
}

fn run(engine: &mut Engine, inputs: &LaboratoryInputs) -> Result<LaboratoryOutcome, String> {
    let request = LaboratoryRequest {
        inputs: inputs.clone(),
        pinned: None,
        shown: LaboratoryMatrix::Weights,
    };
    engine.run(request, &|_| ()).map_err(|e| e.to_string())
}

/// The weights of the first `n` tokens by their first `d` numbers, of `width` each; and the bound on the error of each in `f32`.
fn reference(queries: &[f32], keys: &[f32], width: usize, n: usize, d: usize) -> Vec<(f64, f64)> {
    let mut weights = Vec::new();
    for query in queries.chunks(width).take(n) {
        let (mut exps, mut size) = (Vec::new(), 0.0_f64);
        for key in keys.chunks(width).take(n) {
            let products =
                query[..d].iter().zip(&key[..d]).map(|(q, k)| f64::from(*q) * f64::from(*k));
            let scale = 1.0 / (d as f64).sqrt();
            exps.push((products.clone().sum::<f64>() * scale).exp());
            size = size.max(products.map(f64::abs).sum::<f64>() * scale);
        }
        let sum: f64 = exps.iter().sum();
        let error = weight_error(exps.len(), d, size);
        weights.extend(exps.iter().map(|x| (x / sum, error * x / sum)));
    }
    weights
}

fn assert_close(found: &[f32], right: &[(f64, f64)], what: &str) {
    assert_eq!(found.len(), right.len(), "{what}");
    for (i, (found, (right, error))) in found.iter().zip(right).enumerate() {
        assert!((f64::from(*found) - right).abs() <= *error, "{what}, {i}: {found} {right}");
    }
}

/// A safetensors file with `q` and `k`.
fn pair(q: (&[usize], Vec<u8>), k: (&[usize], Vec<u8>)) -> Vec<u8> {
    safetensors(&[("q", Dtype::F32, q.0, q.1), ("k", Dtype::F32, k.0, k.1)], &[])
}

/// The name of a case, its bytes, a head, and the queries and keys of this head.
type Case<'a> = (&'a str, Vec<u8>, usize, &'a [f32], &'a [f32]);

#[test]
fn weights_of_every_kind_of_file_are_those_of_the_definition() {
    let (n, d) = (5, 3);
    let one = n * d;
    // A batch of 2, whose second entry must not be read, with 4 heads; the keys have 2, each for two of the queries'.
    let (q, k, shared) = (numbers(8 * one, 1), numbers(8 * one, 2), numbers(4 * one, 3));
    let (first_q, first_k) = (&q[..one], &k[..one]);
    let [whole, few]: [&[usize]; 2] = [&[2, 4, n, d], &[2, 2, n, d]];
    let numpy = |numbers: &[f32], shape: &str| npy("<f4", shape, &bytes(numbers));
    let arrays = [("q.npy", numpy(&q, "(2, 4, 5, 3)")), ("k.npy", numpy(&k, "(2, 4, 5, 3)"))];
    let strings: Vec<u8> = "abcde".chars().flat_map(|c| (c as u32).to_le_bytes()).collect();
    let lone = [("x.npy", numpy(first_q, "(5, 3)")), ("tokens.npy", npy("<U1", "(5,)", &strings))];
    let cases: Vec<Case<'_>> = vec![
        (
            "a batch of heads",
            pair((whole, bytes(&q)), (whole, bytes(&k))),
            1,
            &q[one..2 * one],
            &k[one..2 * one],
        ),
        (
            "shared keys",
            pair((whole, bytes(&q)), (few, bytes(&shared))),
            1,
            &q[one..2 * one],
            &shared[..one],
        ),
        ("npy", numpy(&q[..4 * one], "(4, 5, 3)"), 1, &q[one..2 * one], &q[one..2 * one]),
        ("npz", npz(&arrays, CompressionMethod::Stored), 0, first_q, first_k),
        ("npz of one", npz(&lone, CompressionMethod::Stored), 0, first_q, first_q),
    ];
    let folder = Folder::new();
    let mut engine = engine();
    for (i, (what, bytes, head, queries, keys)) in cases.into_iter().enumerate() {
        let path = folder.file(&format!("{i}.bin"), bytes);
        let outcome = run(&mut engine, &inputs(&path, head)).unwrap();
        let found = &outcome.request.inputs;
        assert_eq!(
            (found.tokens, found.dim, found.source.path()),
            (n, d, Some(path.as_path())),
            "{what}"
        );
        assert_close(&outcome.weights, &reference(queries, keys, d, n, d), what);
    }
}

#[test]
fn fewer_tokens_and_dimensions_are_the_first() {
    let (q, k) = (numbers(7 * 6, 4), numbers(7 * 6, 5));
    let path = Folder::new();
    let path = path.file("a", pair((&[7, 6], bytes(&q)), (&[7, 6], bytes(&k))));
    let mut engine = engine();
    for (tokens, dim) in [(7, 6), (3, 6), (7, 1), (2, 5)] {
        let outcome = run(&mut engine, &LaboratoryInputs { tokens, dim, ..inputs(&path, 0) });
        let what = format!("{tokens} × {dim}");
        match outcome {
            Ok(outcome) => {
                assert_close(&outcome.weights, &reference(&q, &k, 6, tokens, dim), &what);
            }
            Err(e) => panic!("{what}: {e}"),
        }
    }
}

#[test]
fn the_inputs_of_random_numbers_do_not_affect_a_file() {
    let folder = Folder::new();
    let path = folder.file("a", npy("<f4", "(4, 2)", &bytes(&numbers(8, 6))));
    let plain = run(&mut engine(), &inputs(&path, 0)).unwrap();
    let other =
        LaboratoryInputs { seed: 9, alike: 0.0, smooth: 0.3, sink: 8.0, ..inputs(&path, 0) };
    assert_eq!(run(&mut engine(), &other).unwrap().weights, plain.weights);
}

#[test]
fn a_large_file_is_limited_and_a_missing_head_becomes_the_last() {
    let folder = Folder::new();
    let many = numbers(4100 * 2, 7);
    let path = folder.file("many", npy("<f4", "(4100, 2)", &bytes(&many)));
    let outcome = run(&mut engine(), &inputs(&path, 0)).unwrap();
    assert_eq!((outcome.request.inputs.tokens, outcome.side), (4096, 4096));
    let last = reference(&many[4095 * 2..], &many, 2, 4096, 2);
    assert_close(&outcome.weights[4095 * 4096..], &last[..4096], "the last row");

    let wide = numbers(2 * 3 * 300, 8);
    let path = folder.file("wide", npy("<f4", "(2, 3, 300)", &bytes(&wide)));
    let outcome = run(&mut engine(), &inputs(&path, 9)).unwrap();
    assert_eq!(outcome.request.inputs.source, TokenSource::File { path, head: 1 });
    assert_eq!(outcome.request.inputs.dim, 256);
    assert_close(
        &outcome.weights,
        &reference(&wide[900..], &wide[900..], 300, 3, 256),
        "the second head",
    );
}

#[test]
fn a_file_names_its_tokens() {
    let folder = Folder::new();
    let x = bytes(&numbers(6, 9));
    let texts = |outcome: &LaboratoryOutcome| -> Vec<Vec<String>> {
        outcome
            .names
            .iter()
            .map(|names| names.iter().map(|name| name.text.clone()).collect())
            .collect()
    };
    let mut engine = engine();
    let metadata = [("tokens", r#"["The", "Ġcat", "Ġsat"]"#)];
    let path = folder.file("a", safetensors(&[("x", Dtype::F32, &[3, 2], x.clone())], &metadata));
    let outcome = run(&mut engine, &inputs(&path, 0)).unwrap();
    assert_eq!(texts(&outcome), vec![["The", "␣cat", "␣sat"]; 2]);
    let matrix = outcome.matrix(Look::default());
    assert_eq!((matrix.rows[1].raw.as_str(), matrix.cols.len()), ("Ġcat", 3));
    let two = run(&mut engine, &LaboratoryInputs { tokens: 2, ..inputs(&path, 0) }).unwrap();
    assert_eq!(texts(&two), vec![["The", "␣cat"]; 2]);

    let keys = [("key_tokens", r#"["a", "b", "c"]"#)];
    let path = folder.file("b", safetensors(&[("x", Dtype::F32, &[3, 2], x)], &keys));
    assert_eq!(
        texts(&run(&mut engine, &inputs(&path, 0)).unwrap()),
        [["t0", "t1", "t2"], ["a", "b", "c"]]
    );
    let random =
        run(&mut engine, &LaboratoryInputs { tokens: 2, ..LaboratoryInputs::default() }).unwrap();
    assert_eq!(texts(&random), vec![["t0", "t1"]; 2]);
}

#[test]
fn nan_shows_in_the_rows_that_see_it() {
    let (mut q, k) = (numbers(4 * 2, 10), numbers(4 * 2, 11));
    let right = reference(&q, &k, 2, 4, 2);
    q[3] = f32::NAN;
    let folder = Folder::new();
    let path = folder.file("a", pair((&[4, 2], bytes(&q)), (&[4, 2], bytes(&k))));
    let outcome = run(&mut engine(), &inputs(&path, 0)).unwrap();
    assert!(outcome.weights[4..8].iter().all(|x| x.is_nan()), "{:?}", &outcome.weights[4..8]);
    assert_close(&outcome.weights[..4], &right[..4], "the row before");
    assert_close(&outcome.weights[8..], &right[8..], "the rows after it");
}

#[test]
fn a_file_is_read_once_while_requests_name_it() {
    let folder = Folder::new();
    let path = folder.file("a", npy("<f4", "(2, 4, 2)", &bytes(&numbers(16, 12))));
    let mut engine = engine();
    let first = run(&mut engine, &inputs(&path, 0)).unwrap();
    std::fs::remove_file(&path).unwrap();
    let warm = LaboratoryInputs { temperature: Temperature::new(3.0).unwrap(), ..inputs(&path, 0) };
    assert_ne!(run(&mut engine, &warm).unwrap().weights, first.weights);
    assert_ne!(run(&mut engine, &inputs(&path, 1)).unwrap().weights, first.weights);

    // A is a file, B is not.
    let b = LaboratoryInputs { tokens: 4, ..LaboratoryInputs::default() };
    let request = |shown| LaboratoryRequest {
        inputs: b.clone(),
        pinned: Some(Box::new(inputs(&path, 0))),
        shown,
    };
    let outcome = engine.run(request(LaboratoryMatrix::Pinned), &|_| ()).unwrap();
    assert_eq!((&outcome.numbers, outcome.side), (&first.weights, 4));
    assert!(outcome.file.is_none());

    run(&mut engine, &b).unwrap();
    let gone = run(&mut engine, &inputs(&path, 0)).err().unwrap();
    assert!(gone.contains(&path.display().to_string()), "{gone}");
}

#[test]
fn unfit_tensors_are_refused_by_name_and_shape() {
    let f32s = |len: usize| bytes(&numbers(len, 13));
    let two = |q: &[usize], k: &[usize]| {
        pair((q, f32s(q.iter().product())), (k, f32s(k.iter().product())))
    };
    let one = |shape: &[usize]| {
        safetensors(&[("emb", Dtype::F32, shape, f32s(shape.iter().product()))], &[])
    };
    let ints = safetensors(&[("emb", Dtype::I32, &[2, 2], vec![0; 16])], &[]);
    let others = safetensors(
        &[("q", Dtype::F32, &[2, 2], f32s(4)), ("v", Dtype::F32, &[2, 2], f32s(4))],
        &[],
    );
    let misnamed =
        safetensors(&[("emb", Dtype::F32, &[3, 2], f32s(6))], &[("tokens", r#"["one", "two"]"#)]);
    let whole = two(&[4, 8], &[4, 8]);
    let cases: Vec<(Vec<u8>, &[&str])> = vec![
        (Vec::new(), &["safetensors"]),
        (whole[..whole.len() - 4].to_vec(), &["[4, 8]", "128 bytes", "124"]),
        (npy("<f4", "(9, 8)", &f32s(8)), &["[9, 8]", "288 bytes", "32"]),
        (one(&[8]), &["`emb`", "[8]", "[n, d]"]),
        (one(&[1, 1, 2, 2, 2]), &["`emb`", "[1, 1, 2, 2, 2]", "[batch, heads, n, d]"]),
        (two(&[4, 8], &[4, 6]), &["`k`", "[4, 6]", "`q`", "[4, 8]"]),
        (two(&[4, 8], &[5, 8]), &["[5, 8]", "[4, 8]"]),
        (two(&[3, 4, 8], &[2, 4, 8]), &["[2, 4, 8]", "[3, 4, 8]", "multiple"]),
        (two(&[2, 3, 4, 8], &[1, 3, 4, 8]), &["[1, 3, 4, 8]", "batch"]),
        (one(&[1, 4]), &["`emb`", "[1, 4]", "2 tokens"]),
        (one(&[0, 4]), &["`emb`", "[0, 4]", "2 tokens"]),
        (one(&[4, 0]), &["`emb`", "[4, 0]", "at least 1 of"]),
        (one(&[0, 2, 4, 4]), &["`emb`", "[0, 2, 4, 4]"]),
        (two(&[0, 4, 8], &[0, 4, 8]), &["`q`", "[0, 4, 8]"]),
        (ints, &["`emb`", "I32", "F32"]),
        (others, &["q, v", "`k`"]),
        (npz(&[], CompressionMethod::Stored), &["no tensor"]),
        (misnamed, &["2 tokens", "`emb`", "3"]),
    ];
    let folder = Folder::new();
    let mut engine = engine();
    for (i, (bytes, words)) in cases.into_iter().enumerate() {
        let path = folder.file(&format!("{i}.bin"), bytes);
        let message =
            run(&mut engine, &inputs(&path, 0)).err().unwrap_or_else(|| panic!("{i}: {words:?}"));
        assert!(message.starts_with(&format!("{} was not opened: ", path.display())), "{message}");
        for word in words {
            assert!(message.contains(word), "{i}: {word} is not in: {message}");
        }
        // The engine still works.
        assert_eq!(run(&mut engine, &LaboratoryInputs::default()).unwrap().side, 64);
    }
    for missing in [folder.path("none"), folder.path("")] {
        assert!(run(&mut engine, &inputs(&missing, 0)).is_err());
    }
}

#[test]
fn missing_heads_and_tokens_are_empty() {
    let folder = Folder::new();
    let file = folder.file("a", npy("<f4", "(2, 3, 2)", &bytes(&numbers(12, 14))));
    let file = QueriesAndKeys::open(&from_disk, &file, &unattended).unwrap();
    assert_eq!((file.heads(), file.tokens(), file.dim()), (2, 3, 2));
    assert_eq!(file.first(1, 9, 9)[0], numbers(12, 14)[6..]);
    assert_eq!(file.first(2, 3, 2), [[0.0_f32; 0]; 2]);
}
