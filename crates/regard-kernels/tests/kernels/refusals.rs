//! Inputs that are refused: the messages, which name the tensor or the number at fault, and that nothing is written.

use crate::common::Matrix;
use regard_kernels::int8::{Embedding, Linear, Norm, Scales, dequantize, quantize};
use regard_kernels::{
    Attention, Error, Mask, Mat, MatMut, Packed, Pairing, Position, Stage, Store, Temperature, add,
    add_row, attention_scratch_len, cosine_similarity, dot, fixed, int8, layer_norm, matmul,
    matmul_packed, matmul_transposed, merge_finished, multiply, packed_len, rms_norm, rotate,
};

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;

/// The message of a result that must be an error.
#[track_caller]
fn said<T>(result: Result<T, Error>) -> String {
    result.err().unwrap().to_string()
}

/// Compares messages with the lines of a file.
#[track_caller]
fn assert_said(found: &[String], expected: &str) {
    assert!(found.iter().eq(expected.lines()), "{}\nexpected:\n{expected}", found.join("\n"));
}

fn ones(rows: usize, cols: usize) -> Matrix {
    Matrix::filled(rows, cols, 1.0)
}

/// An output that no result of ones equals.
fn nines(rows: usize, cols: usize) -> Matrix {
    Matrix::filled(rows, cols, 9.0)
}

#[test]
fn of_products() {
    let (a, b, fits, mut out) = (ones(2, 3), ones(4, 5), ones(3, 4), nines(2, 5));
    let (wide, memory) = (ones(3, 17), [1.0; packed_len(3, 17)]);
    let (packed, mut product) = (Packed::new(&memory, 3, 17).unwrap(), nines(2, 17));
    let mut add = |a: Matrix| matmul_packed(a.view(), packed, product.view_mut(), Store::Add);
    let found = [
        said(matmul(a.view(), b.view(), out.view_mut())),
        said(matmul_transposed(a.view(), b.view(), out.view_mut())),
        said(matmul(a.view(), fits.view(), out.view_mut())),
        said(matmul_transposed(a.view(), fits.transposed().view(), out.view_mut())),
        said(Packed::pack(wide.view(), &mut [0.0; 95])),
        said(Packed::new(&[0.0; 95], 3, 17)),
        said(add(ones(2, 4))),
        said(add(ones(3, 3))),
    ];
    assert_said(&found, include_str!("refusals/products.txt"));
    assert_eq!((out, product), (nines(2, 5), nines(2, 17)), "something was written");
    assert!(Packed::new(&[0.0; 95], usize::MAX, usize::MAX).is_err());
}

#[test]
fn of_rows() {
    let (mut x, mut square, angles) = (nines(1, 3), nines(2, 2), ones(1, 1));
    let turn =
        |x: &mut Matrix| rotate(x.view_mut(), angles.view(), angles.view(), Pairing::HalfSplit);
    let mut found = vec![
        said(layer_norm(x.view_mut(), &[1.0; 2], &[0.0; 3], 0.0)),
        said(layer_norm(x.view_mut(), &[1.0; 3], &[0.0; 2], 0.0)),
        said(rms_norm(x.view_mut(), &[2.0; 2], 0.0)),
        said(add_row(x.view_mut(), &[1.0; 2])),
        said(add(&mut x.data, &[1.0; 2])),
        said(multiply(&mut x.data, &[2.0; 2])),
        said(turn(&mut x)),
        said(turn(&mut square)),
        said(dot(&[0.0; 3], &[0.0; 2])),
        said(cosine_similarity(&[0.0; 3], &[0.0; 2])),
    ];
    found.extend([-1.0, -1e-45, -INF, NAN].map(|t| said(Temperature::new(t))));
    assert_said(&found, include_str!("refusals/rows.txt"));
    assert_eq!((x, square), (nines(1, 3), nines(2, 2)), "something was written");
}

/// An attention of two queries, with an output of this shape, and a log-sum-exp and scratch memory of these lengths.
fn attend(
    attention: Attention<'_>,
    [k, v]: [&Matrix; 2],
    (rows, cols): (usize, usize),
    [sums, scratch]: [usize; 2],
) -> Result<(), Error> {
    let (q, mut out) = (ones(2, 3), nines(rows, cols));
    let (mut sums, mut scratch) = (vec![9.0; sums], vec![0.0; scratch]);
    let (q, k, v, view) = (q.view(), k.view(), v.view(), out.view_mut());
    let result = attention.forward_with_log_sum_exp(q, k, v, view, &mut sums, &mut scratch);
    assert!(out.data.iter().chain(&sums).all(|x| *x == 9.0), "something was written");
    result
}

#[test]
fn of_attention() {
    let needed = attention_scratch_len(2, 4, 3, 5);
    // The log-sum-exp and the scratch memory have these lengths.
    let (k, v, whole, fits, plain) =
        (ones(4, 3), ones(4, 5), (2, 5), [2, needed], Attention::new());
    let tensors = |k: &Matrix, v: &Matrix, out| said(attend(plain, [k, v], out, fits));
    let described = |attention| said(attend(attention, [&k, &v], whole, fits));
    let masked = |mask| described(plain.mask(mask));
    let scores = |mut out: Matrix| {
        let mut scratch = vec![0.0; attention_scratch_len(2, 4, 3, 0)];
        let result =
            plain.scores(Stage::Masked, ones(2, 3).view(), k.view(), out.view_mut(), &mut scratch);
        assert!(out.data.iter().all(|x| *x == 9.0), "something was written");
        result
    };
    let (allowed, bias) = (Matrix::from_fn(2, 3, |_, _| true), ones(1, 4));
    let (one, mut out, mut merged) = ([[1.0]; 2], [[9.0]; 2], [[9.0]; 2]);
    let padded = plain.mask(Mask::NONE.key_len(2));
    let mut found = vec![
        tensors(&ones(4, 2), &v, whole),
        tensors(&k, &ones(3, 5), whole),
        tensors(&k, &v, (2, 4)),
        tensors(&k, &v, (3, 5)),
        tensors(&k, &v, (0, 0)),
        said(attend(plain, [&k, &v], whole, [3, needed])),
        said(scores(nines(2, 5))),
        masked(Mask::NONE.allowed(allowed.view())),
        masked(Mask::NONE.bias(bias.view())),
        masked(Mask::NONE.key_len(5)),
        masked(Mask::NONE.alibi(Position::TopLeft, NAN)),
        said(fixed::attention(&padded, &one, &[[1.0]], &[[1.0]], &mut out, &mut [0.0; 500])),
        said(plain.partial(2, ones(2, 2).view_mut(), &mut [0.0; 3])),
        said(merge_finished(MatMut::from(&mut merged), &mut [0.0; 2], Mat::from(&[[1.0]]), &[0.0])),
    ];
    found.extend([NAN, INF, -INF].map(|x| described(plain.scale(x))));
    found.extend([INF, NAN].map(|x| described(plain.sink(x))));
    let caps = [NAN, INF, 0.0, -0.0, -1.0, 1.4e-45, 1.1e-38];
    found.extend(caps.map(|x| described(plain.softcap(x))));
    assert_said(&found, include_str!("refusals/attention.txt"));
    assert_eq!((out, merged), ([[9.0]; 2], [[9.0]; 2]), "something was written");

    // How much scratch memory is needed depends on the tier.
    for found in [0, needed - 1] {
        let error = attend(plain, [&k, &v], whole, [2, found]).unwrap_err();
        assert_eq!(error, Error::Scratch { found, needed });
    }
    let (needed, mut out) = (attention_scratch_len(2, 4, 3, 0), ones(2, 4));
    for stage in Stage::ALL {
        let mut scores = |attention: Attention<'_>, scratch| {
            let (q, scratch) = (ones(2, 3), &mut vec![0.0; scratch]);
            attention.scores(*stage, q.view(), k.view(), out.view_mut(), scratch).unwrap_err()
        };
        assert_eq!(scores(plain, needed - 1), Error::Scratch { found: needed - 1, needed });
        assert!(matches!(scores(plain.scale(NAN), needed), Error::Range { name: "scale", .. }));
    }
    assert_eq!(out, ones(2, 4), "something was written");
}

const SCALES: Scales = Scales { query: 0.031, key: 0.027, value: 0.02, output: 0.013 };

#[test]
fn of_attention_on_integers() {
    let integers = |rows, cols| Matrix::from_fn(rows, cols, |_, _| 1_i8);
    let (q, k, v) = (integers(3, 4), integers(5, 4), integers(5, 2));
    let (q, k, v) = (q.view(), k.view(), v.view());
    let plain = int8::Attention::new(SCALES, 1.0, Temperature::ONE).unwrap();
    let enough = int8::attention_scratch_len(3, 5, 4, 2);
    let run = |attention: int8::Attention<'_>, q, k, v, (rows, cols), scratch: usize| {
        let mut out = [7; 20];
        let view = MatMut::new(&mut out, rows, cols).unwrap();
        let result = attention.forward(q, k, v, view, &mut vec![0; scratch]);
        assert_eq!(out, [7; 20], "something was written");
        result
    };
    let tensors = |q, k, v, out| said(run(plain, q, k, v, out, enough));
    let masked = |mask| said(run(plain.mask(mask), q, k, v, (3, 2), enough));
    let (allowed, bias) = (Matrix::from_fn(3, 4, |_, _| true), ones(3, 5));
    let columns = vec![0; 32769];
    let wide = Mat::strided(&columns, 3, 32769, 0).unwrap();
    let many = Mat::strided(&[0; 4], 131_073, 4, 0).unwrap();
    let found = [
        tensors(q, k.block(0, 5, 0, 3), v, (3, 2)),
        tensors(q, k, v.rows_from(1, 4), (3, 2)),
        tensors(q, k, v, (2, 3)),
        tensors(wide, wide, v.rows_from(0, 3), (3, 2)),
        tensors(q, many, many, (3, 4)),
        masked(Mask::NONE.allowed(allowed.view())),
        masked(Mask::NONE.key_len(6)),
        masked(Mask::NONE.bias(bias.view())),
        masked(Mask::NONE.alibi(Position::TopLeft, 0.5)),
    ];
    assert_said(&found, include_str!("refusals/integers.txt"));
    let error = run(plain, q, k, v, (3, 2), enough - 1).unwrap_err();
    assert!(matches!(error, Error::Scratch { .. }), "{error}");
}

#[test]
fn of_scales() {
    let new = |scales, softmax| said(int8::Attention::new(scales, softmax, Temperature::ONE));
    let mut found = [
        Scales { query: 0.0, ..SCALES },
        Scales { key: NAN, ..SCALES },
        Scales { value: -1.0, ..SCALES },
        Scales { output: INF, ..SCALES },
        Scales { output: SCALES.value * 300.0, ..SCALES },
        Scales { output: SCALES.value / 4097.0, ..SCALES },
    ]
    .map(|scales| new(scales, 1.0))
    .to_vec();
    found.extend([-1.0, NAN, INF].map(|softmax| new(SCALES, softmax)));
    found.extend([0.0, -1.0, NAN, INF].map(|scale| said(quantize(&[1.0], scale, &mut [0]))));
    found.push(said(quantize(&[1.0; 14], 1.0, &mut [0; 3])));
    found.push(said(dequantize(&[1; 14], 1.0, &mut [0.0; 3])));
    assert_said(&found, include_str!("refusals/scales.txt"));
}

#[test]
fn of_layers_of_integers() {
    let mut out = [9; 2];
    let layer = Linear { weight: &[1; 6], bias: &[], mantissas: &[1 << 30; 2], exponent: 0 };
    let table = Embedding { rows: &[1; 6], mantissas: &[1 << 30; 2], exponent: 0 };
    let norm = Norm { mantissas: &[1; 2049], exponent: 0, epsilon: 0, beta: &[] };
    let found = [
        said(layer.forward(&[1; 4], &mut out)),
        said(layer.forward(&[1; 3], &mut [9; 3])),
        said(Linear { bias: &[1], ..layer }.forward(&[1; 3], &mut out)),
        said(table.row(0, &mut out)),
        said(norm.apply(&[1; 2049], &mut [0; 2049])),
    ];
    assert_said(&found, include_str!("refusals/layers.txt"));
    assert_eq!(out, [9; 2], "something was written");
}
