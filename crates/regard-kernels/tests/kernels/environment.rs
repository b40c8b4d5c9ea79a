//! The bits of every kernel in a floating-point environment that counts subnormal numbers as 0 and rounds up, beside those in the
//! default one. Many inputs, products and results are subnormal.

use regard_kernels::{
    Attention, Half, Mask, Mat, MatMut, Packed, PackedHalf, Pairing, Quantization, Quantized,
    Stage, Store, Temperature, add, add_row, attention_scratch_len, cosine_similarity, dot, exp,
    fixed, gelu, gelu_tanh, int8,
    internal::{f32_from_f16, with_other_environment},
    layer_norm, matmul, matmul_packed, matmul_packed_half, matmul_transposed, merge_finished,
    multiply, norm, packed_len, quantized_scratch_len, relu, rms_norm, rotate, silu, softmax,
    softmax_rows, softmax_with_log_sum_exp, tanh, with_default_environment,
};

use crate::common::{Random, bits};

/// `with_other_environment` does something: without it no test of this file would fail.
#[test]
fn the_other_environment_flushes_and_rounds_up() {
    let [least, one] = core::hint::black_box([f32::MIN_POSITIVE, 1.0]);
    let results = || [core::hint::black_box(least) / 2.0, one + core::hint::black_box(least)];
    let default = results();
    assert_eq!(default, [f32::from_bits(1 << 22), 1.0]);
    if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) && !cfg!(miri) {
        with_other_environment(|| {
            assert_eq!(core::hint::black_box(&results)(), [0.0, 1.0 + f32::EPSILON]);
            assert_eq!(with_default_environment(results), default);
            assert_eq!(core::hint::black_box(&results)(), [0.0, 1.0 + f32::EPSILON]);
        });
    }
    assert_eq!(results(), default);
}

/// Also outside of a kernel.
#[test]
fn every_f16_is_widened_alike_in_another_environment() {
    let all = || (0..=u16::MAX).map(|x| f32_from_f16(x).to_bits()).collect::<Vec<_>>();
    assert!(with_other_environment(all) == all());
}

#[test]
fn a_temperature_is_refused_alike_in_another_environment() {
    let accepted =
        || [-1e-40, -0.0, 1e-40].map(|t| Temperature::new(core::hint::black_box(t)).is_ok());
    assert_eq!(with_other_environment(accepted), [false, true, true]);
}

const ROWS: usize = 5;
const COLS: usize = 37;

/// Normal numbers and subnormal ones by turns.
fn numbers(rows: usize, cols: usize, seed: u64) -> Vec<f32> {
    let random = &mut Random(seed);
    (0..rows * cols).map(|i| random.within(if i % 2 == 0 { 1.0 } else { 1e-38 })).collect()
}

fn mat(x: &[f32], rows: usize) -> Mat<'_> {
    Mat::new(x, rows, x.len() / rows).unwrap()
}

fn mat_mut(x: &mut [f32], rows: usize) -> MatMut<'_> {
    let cols = x.len() / rows;
    MatMut::new(x, rows, cols).unwrap()
}

#[track_caller]
fn assert_same(name: &str, kernel: impl Fn() -> Vec<f32>) {
    let (found, expected) = (with_other_environment(&kernel), kernel());
    assert_eq!(bits(&found), bits(&expected), "{name}");
}

#[test]
fn vectors_have_the_same_bits_in_another_environment() {
    let (a, b) = (numbers(1, 2 * COLS, 1), numbers(1, 2 * COLS, 2));
    let tiny: Vec<f32> = a.iter().map(|x| x * 1e-38).collect();
    for (a, b) in [(&a, &b), (&tiny, &b), (&tiny, &tiny)] {
        assert_same("dot", || vec![dot(a, b).unwrap()]);
        assert_same("norm", || vec![norm(a)]);
        assert_same("cosine", || vec![cosine_similarity(a, b).unwrap()]);
        let arrays = || [a, b].map(|x| *x.first_chunk::<COLS>().unwrap());
        assert_same("fixed", || {
            let [a, b] = arrays();
            vec![fixed::dot(&a, &b), fixed::norm(&a), fixed::cosine_similarity(&a, &b)]
        });
        type InPlace = fn(&mut [f32], &[f32]);
        let functions: [(&str, InPlace); 12] = [
            ("add", |x, y| add(x, y).unwrap()),
            ("multiply", |x, y| multiply(x, y).unwrap()),
            ("add_row", |x, y| add_row(mat_mut(x, 2), &y[..COLS]).unwrap()),
            ("exp", |x, _| exp(x)),
            ("relu", |x, _| relu(x)),
            ("gelu", |x, _| gelu(x)),
            ("gelu_tanh", |x, _| gelu_tanh(x)),
            ("silu", |x, _| silu(x)),
            ("tanh", |x, _| tanh(x)),
            ("layer_norm", |x, y| layer_norm(mat_mut(x, 2), &y[..COLS], &y[COLS..], 0.0).unwrap()),
            ("rms_norm", |x, y| rms_norm(mat_mut(x, 2), &y[..COLS], 1e-40).unwrap()),
            ("rotate", |x, y| {
                let (x, y) = (mat_mut(&mut x[..40], 2), mat(&y[..20], 2));
                rotate(x, y, y, Pairing::Interleaved).unwrap();
            }),
        ];
        for (name, function) in functions {
            for factor in [1.0, 80.0] {
                assert_same(name, || {
                    let mut x: Vec<f32> =
                        with_default_environment(|| a.iter().map(|x| x * factor).collect());
                    function(&mut x, b);
                    x
                });
            }
        }
        for t in [1.0, 0.3, 1e-38, 1e38].map(|t| Temperature::new(t).unwrap()) {
            assert_same("softmax", || {
                let (mut x, mut rows) = (a.clone(), a.clone());
                softmax(&mut x, t);
                softmax_rows(mat_mut(&mut rows, 2), t);
                let log_sum_exp = softmax_with_log_sum_exp(&mut a.clone(), t);
                [x, rows, vec![log_sum_exp]].concat()
            });
        }
    }
}

#[test]
fn products_have_the_same_bits_in_another_environment() {
    let (a, b) = (numbers(ROWS, COLS, 1), numbers(COLS, 48, 2));
    let out = || vec![1e-40; ROWS * 48];
    assert_same("matmul", || {
        let mut out = out();
        matmul(mat(&a, ROWS), mat(&b, COLS), mat_mut(&mut out, ROWS)).unwrap();
        out
    });
    assert_same("matmul_transposed", || {
        let mut out = out();
        matmul_transposed(mat(&a, ROWS), mat(&b, 48), mat_mut(&mut out, ROWS)).unwrap();
        out
    });
    for rows in [1, ROWS] {
        let a = mat(&a, ROWS).rows_from(0, rows);
        assert_same("matmul_packed", || {
            let mut memory = vec![0.0; packed_len(COLS, 48)];
            let packed = Packed::pack(mat(&b, COLS), &mut memory).unwrap();
            let mut out = out();
            matmul_packed(a, packed, mat_mut(&mut out[..rows * 48], rows), Store::Add).unwrap();
            out
        });
        for kind in [Half::F16, Half::Bf16] {
            // Every third number is subnormal.
            let stored: Vec<u16> = (0..packed_len(COLS, 48) as u16)
                .map(|i| if i % 3 == 0 { i % 128 } else { 0x3c00 + i })
                .collect();
            assert_same("matmul_packed_half", || {
                let half = PackedHalf::new(&stored, kind, COLS, 48).unwrap();
                let mut out = out();
                let view = mat_mut(&mut out[..rows * 48], rows);
                matmul_packed_half(a, half, view, Store::Set).unwrap();
                out
            });
        }
    }
}

/// Scales that are subnormal as f16, as those of Q6_K usually are, or as `f32`, as the least ones of MXFP4.
#[test]
fn quantized_rows_have_the_same_bits_in_another_environment() {
    for &format in Quantization::ALL {
        let (block, size) = format.block();
        let cols = 256.max(block);
        let bytes: Vec<u8> = (0..ROWS * cols / block * size)
            .map(|i| match (format, i % size) {
                (Quantization::Mxfp4, 0) => (i / size % 3) as u8,
                (Quantization::Mxfp4, _) => ((i * 151) >> 2) as u8,
                _ => ((i * 151) >> 2) as u8 & 3, // every f16 in it is below 2⁻¹⁴
            })
            .collect();
        let w = Quantized::new(&bytes, format, ROWS, cols).unwrap();
        let x = numbers(3, cols, 7);
        let product = || {
            let (mut wide, mut out) = (vec![0.0; ROWS * cols], vec![0.0; 3 * ROWS]);
            w.widen(mat_mut(&mut wide, ROWS)).unwrap();
            let scratch = &mut vec![0.0; quantized_scratch_len(3)];
            w.multiply(mat(&x, 3), mat_mut(&mut out, 3), Store::Set, scratch).unwrap();
            [wide, out].concat()
        };
        assert!(product()[..ROWS * cols].iter().any(|x| *x != 0.0), "{format:?} has numbers");
        assert_same(&format!("{format:?}"), product);
    }
}

#[test]
fn attention_has_the_same_bits_in_another_environment() {
    const N_Q: usize = 7;
    for (n_k, d) in [(5, 8), (300, 24), (300, 1)] {
        let (q, k) = (numbers(N_Q, d, 1), numbers(n_k, d, 2));
        let v: Vec<f32> = numbers(n_k, d, 3).iter().map(|x| x * 1e-38).collect();
        let bias = numbers(N_Q, n_k, 4);
        let plain = Attention::new();
        let attentions = [
            plain,
            plain.softcap(1e-3).temperature(Temperature::new(0.7).unwrap()).sink(1e-39),
            plain.scale(1e-39).mask(Mask::NONE.bias(mat(&bias, N_Q))),
            plain.mask(Mask::NONE.alibi(regard_kernels::Position::TopLeft, 1e-40)),
        ];
        for (index, attention) in attentions.iter().enumerate() {
            let views = || (mat(&q, N_Q), mat(&k, n_k), mat(&v, n_k));
            let scratch = || vec![0.0; attention_scratch_len(N_Q, n_k, d, d)];
            assert_same(&format!("attention {index}, {n_k} keys"), || {
                let ((q, k, v), mut scratch) = (views(), scratch());
                let (mut out, mut sums) = (vec![0.0; N_Q * d], vec![0.0; N_Q]);
                let view = mat_mut(&mut out, N_Q);
                attention.forward_with_log_sum_exp(q, k, v, view, &mut sums, &mut scratch).unwrap();
                let (other, other_sums) = (out.clone(), sums.clone());
                merge_finished(mat_mut(&mut out, N_Q), &mut sums, mat(&other, N_Q), &other_sums)
                    .unwrap();
                [out, sums].concat()
            });
            assert_same(&format!("parts {index}, {n_k} keys"), || {
                let ((q, k, v), mut scratch) = (views(), scratch());
                let [mut out, mut other] = [(); 2].map(|()| vec![0.0; N_Q * d]);
                let [mut state, mut other_state] = [(); 2].map(|()| vec![0.0; 2 * N_Q]);
                let mut part = attention.partial(d, mat_mut(&mut out, N_Q), &mut state).unwrap();
                attention.forward_partial(q, k, v, &mut part, &mut scratch).unwrap();
                let mut more =
                    attention.partial(d, mat_mut(&mut other, N_Q), &mut other_state).unwrap();
                attention.forward_partial(q, k, v, &mut more, &mut scratch).unwrap();
                part.merge(&more).unwrap();
                part.finish(None).unwrap();
                out
            });
            for stage in [Stage::Raw, Stage::Softcapped, Stage::Masked, Stage::Weights] {
                assert_same(&format!("{stage:?} {index}, {n_k} keys"), || {
                    let ((q, k, _), mut out) = (views(), vec![0.0; N_Q * n_k]);
                    let view = mat_mut(&mut out, N_Q);
                    attention.scores(stage, q, k, view, &mut scratch()).unwrap();
                    out
                });
            }
        }
    }
}

#[test]
fn integers_have_the_same_values_in_another_environment() {
    // The compiler must not check the scale in its own environment.
    let (x, scale) = (numbers(1, COLS, 5), core::hint::black_box(3.3e-40));
    let tiny: Vec<f32> = x.iter().map(|x| x * 1e-38).collect();
    assert_same("int8", || {
        let (mut integers, mut wide) = ([0; COLS], vec![0.0; COLS]);
        int8::quantize(&tiny, scale, &mut integers).unwrap();
        int8::dequantize(&integers, scale, &mut wide).unwrap();
        let integers = integers.map(f32::from);
        [wide, integers.to_vec(), vec![int8::scale_for(&x)]].concat()
    });
}
