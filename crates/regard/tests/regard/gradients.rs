//! Gradients, compared with those of the formulas in `f64`, within bounds that the formulas also compute, and with closed
//! forms. The formulas' gradients are compared with central differences.

use core::slice::from_ref;

use crate::bounded::{Num, assert_within};
use crate::common::{U, numbers};
use crate::slopes::{Case, Inputs, assert_slopes};
use proptest::prelude::*;
use regard::{
    Attention, Gradients, Heads, Mask, MaskTensor, Position, Temperature, Tensor, Threads, Window,
    alibi_slopes, softmax_backward, softmax_jacobian,
};

/// Two query heads for each of two key/value heads, in two entries, without a mask.
const PLAIN: Case = Case {
    batch: 2,
    kv_heads: 2,
    group: 2,
    n_q: 4,
    n_k: 6,
    d_k: 3,
    d_v: 2,
    causal: false,
    window: None,
    key_lengths: vec![],
    slopes: vec![],
    sinks: false,
    scale: None,
    softcap: None,
    temperature: 1.0,
    bias: None,
    threads: 1,
};

/// One head of tokens of one number.
fn column(x: &[f32]) -> Heads<'_> {
    Heads::new("x", x, [1, 1, x.len(), 1]).unwrap()
}

/// The output of an attention, and the gradients for this gradient of the output.
fn backward(
    attention: &Attention<'_>,
    [q, k, v]: [Heads<'_>; 3],
    d_out: &[f32],
) -> (Tensor<4>, Gradients) {
    let out = attention.forward(q, k, v).unwrap();
    let gradients = attention.backward(q, k, v, out.as_slice(), d_out).unwrap();
    (out, gradients)
}

fn exact(x: &[f32]) -> Vec<Num> {
    x.iter().copied().map(Num::exact).collect()
}

/// Asserts that the computed gradients are within the bounds of the formulas' gradients, and that these are the slopes of the
/// formulas.
fn check(case: &Case) {
    let Case { batch, kv_heads, n_q, n_k, d_k, d_v, .. } = *case;
    let heads = case.heads();
    let (q, k) = (numbers(batch * heads * n_q * d_k, 1), numbers(batch * kv_heads * n_k * d_k, 2));
    let (v, d_out) =
        (numbers(batch * kv_heads * n_k * d_v, 3), numbers(batch * heads * n_q * d_v, 4));
    let bias = numbers(case.bias.map_or(0, |shape| shape.iter().product()), 5);
    let sinks = numbers(if case.sinks { heads } else { 0 }, 6);
    let end = Position::BottomRight;
    let mut mask = Mask::NONE;
    if case.causal {
        mask = mask.causal(end);
    }
    if let Some(window) = case.window {
        mask = mask.window(end, window);
    }
    if !case.key_lengths.is_empty() {
        mask = mask.key_lengths(&case.key_lengths);
    }
    if !case.slopes.is_empty() {
        mask = mask.alibi(end, &case.slopes);
    }
    if let Some(shape) = case.bias {
        mask = mask.bias(MaskTensor::new(&bias, &shape).unwrap());
    }
    let temperature = Temperature::new(case.temperature).unwrap();
    let mut attention = Attention::new().mask(mask).temperature(temperature);
    if case.sinks {
        attention = attention.sinks(&sinks);
    }
    if let Some(scale) = case.scale {
        attention = attention.scale(scale);
    }
    if let Some(cap) = case.softcap {
        attention = attention.softcap(cap);
    }
    let query = Heads::new("query", &q, [batch, heads, n_q, d_k]).unwrap();
    let key = Heads::new("key", &k, [batch, kv_heads, n_k, d_k]).unwrap();
    let value = Heads::new("value", &v, [batch, kv_heads, n_k, d_v]).unwrap();
    let threads = Threads::new(case.threads).unwrap();
    let (out, found) = threads.install(|| backward(&attention, [query, key, value], &d_out));

    let default_scale = Num::constant(1.0 / (d_k as f64).sqrt());
    let scale = vec![case.scale.map_or(default_scale, Num::exact)];
    let [q, k, v, bias, sinks] = [&q, &k, &v, &bias, &sinks].map(|x| exact(x));
    let x = Inputs { q, k, v, scale, bias, sinks };
    let d_out = exact(&d_out);
    assert_within(out.as_slice(), &[case.forward(&x)]);
    let expected = case.backward(&x, &d_out);
    assert_within(found.query.as_slice(), from_ref(&expected.q));
    assert_within(found.key.as_slice(), from_ref(&expected.k));
    assert_within(found.value.as_slice(), from_ref(&expected.v));
    assert_within(&[found.scale], from_ref(&expected.scale));
    assert_eq!(found.bias.is_some(), case.bias.is_some());
    assert_within(&found.bias.map_or_else(Vec::new, Tensor::into_vec), from_ref(&expected.bias));
    assert_eq!(found.sinks.is_some(), case.sinks);
    assert_within(&found.sinks.unwrap_or_default(), from_ref(&expected.sinks));

    let loss = |[q, k, v, scale, bias, sinks]: [&[f64]; 6]| {
        let num = |x: &[f64]| x.iter().map(|x| Num { x: *x, e: 0.0 }).collect();
        let [q, k, v, scale, bias, sinks] = [q, k, v, scale, bias, sinks].map(num);
        let out = case.forward(&Inputs { q, k, v, scale, bias, sinks });
        out.iter().zip(&d_out).map(|(x, d)| x.x * d.x).sum()
    };
    // Values are at most 1, so no output is larger.
    let size = d_out.iter().map(|d| d.x.abs()).sum();
    let Inputs { q, k, v, scale, bias, sinks } = &x;
    let g = &expected;
    assert_slopes(
        loss,
        [q, k, v, scale, bias, sinks],
        [&g.q, &g.k, &g.v, &g.scale, &g.bias, &g.sinks],
        size,
    );
}

proptest! {
    #[test]
    fn gradients_are_those_of_central_differences(
        (batch, kv_heads, group) in (1..3_usize, 1..3_usize, 1..3_usize),
        (n_q, n_k, d_k, d_v) in (1..6_usize, 1..6_usize, 1..5_usize, 1..5_usize),
        (causal, sinks) in any::<(bool, bool)>(),
        window in prop::option::of((prop::option::of(0..4_usize), prop::option::of(0..4_usize))),
        lengths in prop::option::of((0..6_usize, 0..6_usize)),
        slope in prop::option::of(0.1..1.0_f32),
        scale in prop::option::of(0.1..2.0_f32),
        softcap in prop::option::of(0.5..3.0_f32),
        temperature in 0.3..3.0_f32,
        bias in prop::option::of(any::<[bool; 4]>()),
        threads in 1..3_usize,
    ) {
        let heads = kv_heads * group;
        let full = [batch, heads, n_q, n_k];
        let bias = bias.map(|given| [0, 1, 2, 3].map(|i| if given[i] { full[i] } else { 1 }));
        let window = window.map(|(left, right)| Window { left, right });
        let key_lengths = lengths.map(|(a, b)| [a.min(n_k), b.min(n_k)][..batch].to_vec()).unwrap_or_default();
        let slopes = slope.map(|slope| (1..=heads).map(|h| slope / h as f32).collect()).unwrap_or_default();
        check(&Case {
            batch, kv_heads, group, n_q, n_k, d_k, d_v,
            causal, window, key_lengths, slopes, sinks, scale, softcap, temperature, bias, threads,
        });
    }
}

/// Every option of an attention, alone, with grouped queries.
#[test]
fn nothing_that_is_asked_for_lacks_its_gradient() {
    check(&PLAIN);
    check(&Case { causal: true, ..PLAIN });
    check(&Case { causal: true, n_q: 6, n_k: 4, ..PLAIN }); // two queries stand before all keys and see none
    check(&Case { window: Some(Window { left: Some(1), right: Some(1) }), ..PLAIN });
    check(&Case { key_lengths: vec![2, 5], ..PLAIN });
    check(&Case { key_lengths: vec![0, 6], causal: true, ..PLAIN });
    check(&Case { slopes: alibi_slopes(4), ..PLAIN });
    check(&Case { sinks: true, ..PLAIN });
    let capped = Case { sinks: true, temperature: 0.4, softcap: Some(1.5), ..PLAIN };
    check(&Case { causal: true, n_q: 6, n_k: 4, ..capped });
    check(&Case { scale: Some(-0.8), ..PLAIN });
    check(&Case { softcap: Some(0.7), ..PLAIN });
    check(&Case { temperature: 0.4, ..PLAIN });
    for mask in 0..16 {
        let full = [2, 4, 4, 6];
        let bias =
            [0, 1, 2, 3].map(|axis: usize| if (mask >> axis) & 1 == 1 { full[axis] } else { 1 });
        check(&Case { bias: Some(bias), ..PLAIN });
    }
}

#[test]
fn more_queries_than_a_block() {
    for softcap in [None, Some(1.0)] {
        let (n_q, n_k) = (37, 41);
        let case = Case { batch: 1, kv_heads: 1, n_q, n_k, causal: true, sinks: true, ..PLAIN };
        check(&Case { softcap, temperature: 0.7, threads: 2, ..case });
    }
}

#[test]
fn a_sink_without_weight_has_no_gradient() {
    let x = column(&[1.0, 2.0]);
    // The first query sees neither a key nor the sink.
    let mask = MaskTensor::new(&[false, true], &[2, 1]).unwrap();
    let attention = Attention::new().mask(Mask::NONE.allowed(mask)).sinks(&[f32::NEG_INFINITY]);
    let (out, log_sum_exp) = attention.forward_with_log_sum_exp(x, x, x).unwrap();
    assert_eq!(log_sum_exp.as_slice()[0], f32::NEG_INFINITY);
    let gradients = attention.backward(x, x, x, out.as_slice(), &[1.0, 1.0]).unwrap();
    assert_eq!(gradients.sinks, Some(vec![0.0]));
}

#[test]
fn what_no_query_sees_has_gradient_zero_even_if_it_is_nan() {
    let (q, d_out) = (numbers(4, 1), numbers(4, 2));
    let (mut k, mut v) = (numbers(6, 3), numbers(6, 4));
    k[4..].fill(f32::NAN);
    v[4..].fill(f32::NAN);
    let q = Heads::new("query", &q, [1, 1, 2, 2]).unwrap();
    let [k, v] = [&k, &v].map(|x| Heads::new("x", x, [1, 1, 3, 2]).unwrap());
    // The first query sees no key, and the second sees the keys 0 and 1.
    let hidden = [false, false, false, true, true, false];
    let mask = MaskTensor::new(&hidden, &[2, 3]).unwrap();
    let attention = Attention::new().mask(Mask::NONE.allowed(mask));
    let (_, Gradients { query, key, value, .. }) = backward(&attention, [q, k, v], &d_out);
    assert_eq!(query.as_slice()[..2], [0.0; 2]);
    assert_eq!([&key, &value].map(|x| &x.as_slice()[4..]), [[0.0; 2]; 2]);
    let are_finite = |x: Tensor<4>| x.as_slice().iter().all(|x| x.is_finite());
    assert!([query, key, value].into_iter().all(are_finite));
}

#[test]
fn a_query_that_sees_nothing_has_no_part_even_if_it_is_nan() {
    let (q, x) = ([f32::NAN, 1.0], [1.0, 2.0]);
    let [q, x] = [&q, &x].map(|x| column(x));
    // The second query sees the first key alone, and the first query sees none. This holds for any gradient of the output.
    let attention = Attention::new().mask(Mask::NONE.causal(Position::Offset(-1)));
    let (_, gradients) = backward(&attention, [q, x, x], &[f32::NAN, 3.0]);
    assert!(gradients.query == [0.0; 2] && gradients.key == [0.0; 2] && gradients.scale == 0.0);
    assert_eq!(gradients.value, [3.0, 0.0]);
    // With a sink whose score is that of the visible key, which is ln 1 = 0: half the weight. Its gradient is −P·(dO·O) = −½·(3·½).
    let zero = column(&[f32::NAN, 0.0]);
    let attention = attention.sinks(&[0.0]);
    for of_blind in [f32::NAN, f32::INFINITY, 1.0] {
        let (out, gradients) = backward(&attention, [zero, x, x], &[of_blind, 3.0]);
        assert_eq!(out, [0.0, 0.5]);
        assert_eq!(gradients.sinks, Some(vec![-0.75]));
        assert_eq!(gradients.value, [1.5, 0.0]);
    }
}

#[test]
fn large_scores_have_the_gradients_of_their_weights() {
    let [q, k, v] = [&[1.0][..], &[0.5; 4], &[1.0, 2.0, 3.0, 4.0]].map(column);
    for bias in [0.0, -1e5, -1e9, f32::MIN, 1e30] {
        // The log-sum-exp of four such scores is that of one.
        let bias = [bias];
        let bias = MaskTensor::new(&bias, &[1]).unwrap();
        let attention = Attention::new().mask(Mask::NONE.bias(bias));
        let (_, gradients) = backward(&attention, [q, k, v], &[1.0]);
        assert_eq!(gradients.value, [0.25; 4], "{bias:?}");
        assert_eq!(gradients.key, [-0.375, -0.125, 0.125, 0.375], "{bias:?}");
    }
    // A score of ∞ has all weight and no slope.
    let bias = [0.0, f32::INFINITY, 0.0, 0.0];
    let bias = MaskTensor::new(&bias, &[4]).unwrap();
    let attention = Attention::new().mask(Mask::NONE.bias(bias));
    let (_, gradients) = backward(&attention, [q, k, v], &[1.0]);
    assert_eq!(gradients.value, [0.0, 1.0, 0.0, 0.0]);
    assert_eq!(gradients.key, [0.0; 4]);
    // A sink shares the weight with a key of the same score, at any temperature.
    let [k, v] = [&[2.0], &[4.0]].map(|x| column(x));
    let cold = Attention::new().sinks(&[2.0]).temperature(Temperature::new(1e-30).unwrap());
    let (out, gradients) = backward(&cold, [q, k, v], &[1.0]);
    assert!(out == [2.0] && gradients.value == [0.5]);
    assert_eq!(gradients.sinks, Some(vec![-1e30]));
}

#[test]
fn a_temperature_of_zero_has_no_gradient() {
    let x = column(&[1.0]);
    let attention = Attention::new().temperature(Temperature::new(0.0).unwrap());
    let error = attention.backward(x, x, x, &[1.0], &[1.0]).unwrap_err();
    assert_eq!(error.to_string(), "temperature is 0, but must be 2⁻¹²⁶ or more for gradients");
    let hot = Attention::new().temperature(Temperature::new(f32::INFINITY).unwrap());
    let (_, gradients) = backward(&hot, [x, x, x], &[3.0]);
    assert!(gradients.query == [0.0] && gradients.value == [3.0]);
}

#[test]
fn softmax_has_its_jacobian() {
    let (weights, t) = ([0.2, 0.3, 0.5], Temperature::new(2.0).unwrap());
    let jacobian = softmax_jacobian(&weights, t).unwrap();
    for (i, p) in weights.iter().enumerate() {
        for (j, other) in weights.iter().enumerate() {
            let (p, other) = (f64::from(*p), f64::from(*other));
            let expected = if i == j { p * (1.0 - p) } else { -p * other } / 2.0;
            // The difference and the two products are each rounded once.
            let error = (f64::from(jacobian[i * 3 + j]) - expected).abs();
            assert!(error <= 3.1 * U * expected.abs());
        }
    }
    let d_weights = [1.0, -2.0, 0.5];
    let product = softmax_backward(&weights, &d_weights, t).unwrap();
    for (row, found) in jacobian.chunks_exact(3).zip(product) {
        // Both ways take less than ten roundings of a term, and no term is larger than 1/2.
        let expected: f64 = row.iter().zip(d_weights).map(|(x, d)| f64::from(x * d)).sum();
        assert!((f64::from(found) - expected).abs() <= 10.0 * U * 3.0 * 0.5);
    }
    assert!(softmax_backward(&weights, &[1.0], t).is_err());
    let zero = Temperature::new(0.0).unwrap();
    assert!(softmax_backward(&weights, &d_weights, zero).is_err());
    assert!(softmax_jacobian(&weights, zero).is_err());
}
