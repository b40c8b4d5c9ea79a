//! Weights of layers: stored in half precision, shared, and looked up.

use crate::common::{bits, numbers};
use half::{bf16, f16};
use regard::{Element, Embedding, Error, Linear, Quantization, Sequences, Threads};

/// Layers with more columns than a group of panels, with odd sizes, and without elements. The last one has so many weights that
/// threads divide the columns of few rows.
const SHAPES: [[usize; 2]; 7] =
    [[5, 3], [64, 33], [384, 200], [3000, 40], [0, 20], [7, 0], [384, 700]];

/// A layer whose weight is stored as `T` has the bits of a layer with the same numbers in `f32`, and takes a part of its
/// memory.
fn stored_as<T: Element>(from: fn(f32) -> T) {
    for [inputs, outputs] in SHAPES {
        let weight: Vec<T> = numbers(inputs * outputs, 1).into_iter().map(from).collect();
        let wide: Vec<f32> = weight.iter().map(|w| (*w).into()).collect();
        for (of_rows, narrow, wide) in [
            (
                true,
                Linear::from_conv1d(&weight, [inputs, outputs]),
                Linear::from_conv1d(&wide, [inputs, outputs]),
            ),
            (
                false,
                Linear::from_pytorch(&weight, [outputs, inputs]),
                Linear::from_pytorch(&wide, [outputs, inputs]),
            ),
        ] {
            let bias = numbers(outputs, 2);
            let narrow = narrow.unwrap().with_bias(bias.clone()).unwrap();
            let wide = wide.unwrap().with_bias(bias).unwrap();
            assert_eq!(narrow.weight_bytes() * 4, wide.weight_bytes() * size_of::<T>());
            for rows in [1, 3, 50, 100] {
                let x = numbers(rows * inputs, 3);
                let x = Sequences::new("x", &x, [1, rows, inputs]).unwrap();
                let expected = bits(&wide.forward(x).unwrap());
                for threads in [Threads::ONE, Threads::new(2).unwrap()] {
                    let found = bits(&threads.install(|| narrow.forward(x)).unwrap());
                    assert!(found == expected, "{inputs} × {outputs}, {of_rows}, {rows} rows");
                }
            }
        }
    }
}

#[test]
fn half_precision_has_the_bits_of_the_same_numbers_in_f32() {
    stored_as(f16::from_f32);
    stored_as(bf16::from_f32);
    stored_as(|x| x);
}

#[test]
fn a_token_is_the_same_among_blocks_of_rows_of_columns() {
    // More than one block of each: 512 rows of 256 columns.
    let [tokens, inputs, outputs] = [1030, 17, 530];
    for bias in [None, Some(numbers(outputs, 2))] {
        let mut layer =
            Linear::from_conv1d(numbers(inputs * outputs, 1), [inputs, outputs]).unwrap();
        if let Some(bias) = bias {
            layer = layer.with_bias(bias).unwrap();
        }
        let x = numbers(tokens * inputs, 3);
        let forward = |x: &[f32]| {
            layer.forward(Sequences::new("x", x, [1, x.len() / inputs, inputs]).unwrap()).unwrap()
        };
        let all = forward(&x);
        for (x, found) in x.chunks(inputs).zip(all.as_slice().chunks(outputs)) {
            assert_eq!(forward(x).as_slice(), found);
        }
    }
}

#[test]
fn a_weight_and_its_transpose_are_one_layer() {
    let (inputs, outputs) = (37, 50);
    let weight = numbers(inputs * outputs, 1);
    let transposed: Vec<f32> =
        (0..outputs).flat_map(|c| weight.iter().skip(c).step_by(outputs).copied()).collect();
    let x = numbers(4 * inputs, 2);
    let x = Sequences::new("x", &x, [1, 4, inputs]).unwrap();
    let rows = Linear::from_conv1d(&weight, [inputs, outputs]).unwrap().forward(x).unwrap();
    let columns = Linear::from_pytorch(&transposed, [outputs, inputs]).unwrap().forward(x).unwrap();
    assert_eq!(bits(&rows), bits(&columns));
}

#[test]
fn an_embedding_gives_its_rows_and_its_output_head_their_products() {
    let (tokens, features) = (50, 12);
    let table: Vec<bf16> = numbers(tokens * features, 1).into_iter().map(bf16::from_f32).collect();
    let embedding = Embedding::new(&table, [tokens, features]).unwrap();
    let ids = [49, 0, 17, 17];
    let x = embedding.forward(&ids).unwrap();
    for (id, x) in ids.iter().zip(x.as_slice().chunks(features)) {
        let row = &table[*id as usize * features..][..features];
        assert_eq!(x, row.iter().map(|x| x.to_f32()).collect::<Vec<_>>());
    }
    let x = x.sequences();
    let head = Linear::from_pytorch(&table, [tokens, features]).unwrap();
    let logits = embedding.output_head().forward(x).unwrap();
    assert_eq!(bits(&logits), bits(&head.forward(x).unwrap()));

    let error = embedding.forward(&[3, 50]).unwrap_err();
    assert!(matches!(error, Error::Token { index: 1, id: 50, .. }));
    assert_eq!(error.to_string(), "token 1 has the id 50, but the embedding has 50 tokens");
    assert!(matches!(
        Embedding::new(&table, [tokens, 11]),
        Err(Error::Elements { tensor: "the embedding table", .. })
    ));
    assert!(embedding.forward(&[]).unwrap().as_slice().is_empty());
}

#[test]
fn a_token_times_quantized_weights_is_the_same_among_any_number_of_tokens() {
    const TOKENS: usize = 40;
    let [inputs, outputs] = [768, 70];
    for &format in Quantization::ALL {
        let (block, size) = format.block();
        // No f16 number is infinite or NaN.
        let number = |i: usize| ((i * i * 7919) >> 3) as u8 & 0xbf;
        let blocks = (0..inputs * outputs / block * size).map(number).collect();
        let layer = Linear::quantized(blocks, format, [outputs, inputs]).unwrap();
        let layer = layer.with_bias(numbers(outputs, 2)).unwrap();
        let x = numbers(TOKENS * inputs, 3);
        let forward = |tokens: usize| {
            let x = Sequences::new("x", &x[..tokens * inputs], [1, tokens, inputs]).unwrap();
            bits(&layer.forward(x).unwrap())
        };
        let all = forward(TOKENS);
        for tokens in 1..=10 {
            assert!(forward(tokens) == all[..tokens * outputs], "{format:?}, {tokens} tokens");
        }
    }
}
