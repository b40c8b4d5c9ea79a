//! Arguments that are given for each head, and few queries on so many keys that threads divide the keys.

use crate::common::{bits, numbers};
use core::hash::{Hash as _, Hasher as _};
use half::bf16;
use std::collections::BTreeSet;
use std::hash::DefaultHasher;

use regard::{
    Attention, Element, Heads, Mask, MaskTensor, Position, Stage, Temperature, Threads, Window,
    alibi_slopes,
};

/// Asserts that two ways of computing an attention agree. It has `keys` keys, and vectors of `d` numbers between −1 and 1.
///
/// With the unit roundoff u, a score is at most √d, and its error is within (d + 4)·u. Its exponential is within 8u more. So
/// the error of a weight is within twice that, for the numerator and for the sum. A sum of weights times numbers of at most 1,
/// or the logarithm of a sum, is within (keys + 8)·u more. Each way may be this far from the exact number.
#[track_caller]
fn assert_same_attention(a: &[f32], b: &[f32], keys: usize, d: usize) {
    let of_score = (d as f32 + 4.0) * (d as f32).sqrt() + 8.0;
    let bound = 2.0 * (2.0 * of_score + keys as f32 + 8.0) * f32::EPSILON / 2.0;
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() <= bound, "{a} is not {b} ± {bound:e}");
    }
}

const KEYS: usize = 9_000;

/// The output and the log-sum-exp of 3 queries of 4 heads on 9000 keys of 2 heads.
fn decode<T: Element>(attention: &Attention<'_>, from: fn(f32) -> T) -> (Vec<u32>, Vec<u32>) {
    let stored = |seed, len| -> Vec<T> { numbers(len, seed).into_iter().map(from).collect() };
    let (q, k, v) = (stored(1, 4 * 3 * 8), stored(2, 2 * KEYS * 8), stored(3, 2 * KEYS * 5));
    let q = Heads::new("query", &q, [1, 4, 3, 8]).unwrap();
    let k = Heads::new("key", &k, [1, 2, KEYS, 8]).unwrap();
    let v = Heads::new("value", &v, [1, 2, KEYS, 5]).unwrap();
    let (out, log_sum_exp) = attention.forward_with_log_sum_exp(q, k, v).unwrap();
    (bits(&out), bits(&log_sum_exp))
}

#[test]
fn divided_keys_say_how_far_they_are() {
    use core::sync::atomic::{AtomicUsize, Ordering};
    let (calls, last) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let note = |done: usize, all: usize| {
        calls.fetch_add(1, Ordering::Relaxed);
        last.fetch_max(done, Ordering::Relaxed);
        assert_eq!(all, 4 * 3, "three chunks of each head");
    };
    let two = Threads::new(2).unwrap();
    two.install(|| decode::<f32>(&Attention::new().progress(&note), |x| x));
    assert_eq!((calls.into_inner(), last.into_inner()), (12, 12));
}

#[test]
fn divided_keys_give_the_same_bits_for_any_number_of_threads() {
    let allowed: Vec<bool> = numbers(3 * KEYS, 4).iter().map(|x| *x > -0.5).collect();
    let bias = numbers(4 * KEYS, 5);
    let (slopes, sinks, end) =
        (alibi_slopes(4), [0.5, f32::NEG_INFINITY, 3.0, -1.0], Position::BottomRight);
    let masked = |mask| Attention::new().mask(mask);
    let window = Window { left: Some(4_500), right: Some(0) };
    let described = [
        Attention::new(),
        masked(Mask::NONE.causal(Position::Offset(5_000)))
            .temperature(Temperature::new(0.0).unwrap()),
        masked(Mask::NONE.alibi(end, &slopes)).sinks(&sinks).softcap(2.0),
        masked(Mask::NONE.window(end, window).key_lengths(&[8_900])),
        masked(Mask::NONE.allowed(MaskTensor::new(&allowed, &[3, KEYS]).unwrap())),
        masked(Mask::NONE.bias(MaskTensor::new(&bias, &[4, 1, KEYS]).unwrap())).scale(0.1),
    ];
    let threads = [2, 3, 8].map(|count| Threads::new(count).unwrap());
    for attention in described {
        let whole = || decode(&attention, |x| x);
        let half = || decode(&attention, bf16::from_f32);
        let (expected, expected_half) = Threads::ONE.install(|| (whole(), half()));
        for threads in &threads {
            assert!(threads.install(whole) == expected, "{threads:?}, {attention:?}");
            assert!(threads.install(half) == expected_half, "{threads:?}, {attention:?}");
        }
    }
}

#[test]
fn linear_biases_are_those_of_the_paper() {
    let (heads, n) = (3, 20);
    let x = numbers(heads * n * 4, 6);
    let x = Heads::new("x", &x, [1, heads, n, 4]).unwrap();
    let slopes = alibi_slopes(heads);
    let bias: Vec<f32> = slopes
        .iter()
        .flat_map(|slope| (0..n * n).map(move |e| -slope * (e / n).abs_diff(e % n) as f32))
        .collect();
    let bias = MaskTensor::new(&bias, &[heads, n, n]).unwrap();
    let attend = |mask| Attention::new().mask(mask).forward(x, x, x);
    let by_slope = attend(Mask::CAUSAL.alibi(Position::TopLeft, &slopes)).unwrap();
    let by_matrix = attend(Mask::CAUSAL.bias(bias)).unwrap();
    assert_eq!(bits(&by_slope), bits(&by_matrix));

    assert_eq!(alibi_slopes(0), [0.0; 0]);
    assert_eq!(alibi_slopes(8), [1, 2, 3, 4, 5, 6, 7, 8].map(|h| 0.5_f32.powi(h)));
    assert_eq!(alibi_slopes(12)[8..], [0.5, 1.5, 2.5, 3.5].map(|h: f32| (-h).exp2()));
    let no_slope = [0.5, f32::NAN, 0.5];
    let error = attend(Mask::NONE.alibi(Position::TopLeft, &no_slope)).unwrap_err();
    assert_eq!(error.to_string(), "the slope of ALiBi is NaN, but must be finite");
}

#[test]
fn a_sink_is_a_key_whose_value_is_zero() {
    let (heads, n, d) = (2, 9, 4);
    let (q, k, v) =
        (numbers(heads * n * d, 7), numbers(heads * n * d, 8), numbers(heads * n * d, 9));
    let sinks = [0.7, -0.3];
    // One more key and value of zeros before the others, whose score is that of the sink by way of the additive mask.
    let behind_one = |x: &[f32]| -> Vec<f32> {
        x.chunks_exact(n * d).flat_map(|head| [vec![0.0; d], head.to_vec()].concat()).collect()
    };
    let (longer_k, longer_v) = (behind_one(&k), behind_one(&v));
    let bias: Vec<f32> =
        sinks.iter().flat_map(|sink| [vec![*sink], vec![0.0; n]].concat()).collect();
    let mask = Mask::NONE.bias(MaskTensor::new(&bias, &[heads, 1, n + 1]).unwrap());
    let query = Heads::new("query", &q, [1, heads, n, d]).unwrap();
    let tensor = |x, n| Heads::new("key", x, [1, heads, n, d]).unwrap();
    let with_sinks = Attention::new().sinks(&sinks);
    let found = with_sinks.forward_with_log_sum_exp(query, tensor(&k, n), tensor(&v, n)).unwrap();
    let (masked, longer) = (Attention::new().mask(mask), |x| tensor(x, n + 1));
    let expected = masked.forward_with_log_sum_exp(query, longer(&longer_k), longer(&longer_v));
    let expected = expected.unwrap();
    assert_same_attention(found.0.as_slice(), expected.0.as_slice(), n + 1, d);
    assert_same_attention(found.1.as_slice(), expected.1.as_slice(), n + 1, d);

    let weights = with_sinks.scores(Stage::Weights, query, tensor(&k, n)).unwrap();
    let all = masked.scores(Stage::Weights, query, longer(&longer_k)).unwrap();
    for (row, all) in weights.as_slice().chunks_exact(n).zip(all.as_slice().chunks_exact(n + 1)) {
        assert_same_attention(row, &all[1..], n + 1, d);
    }
}

#[test]
fn heads_with_gaps_give_the_bits_of_dense_ones() {
    // The memory has room for 7 tokens of 5 numbers in each of 2 · 3 heads. It holds 4 tokens, and each token uses the first 3
    // numbers.
    let memory = numbers(2 * 3 * 7 * 5, 9);
    let mut dense = Vec::new();
    for room in memory.chunks(7 * 5) {
        room.chunks(5).take(4).for_each(|token| dense.extend_from_slice(&token[..3]));
    }
    let dense = Heads::new("x", &dense, [2, 3, 4, 3]).unwrap();
    let strided = Heads::strided("x", &memory, [2, 3, 4, 3], [3 * 7 * 5, 7 * 5, 5]).unwrap();
    let attention = Attention::new().mask(Mask::CAUSAL);
    let [a, b] = [dense, strided].map(|x| bits(&attention.forward(x, x, x).unwrap()));
    assert_eq!(a, b);
}

#[test]
fn a_stride_of_0_repeats() {
    let (x, one) = (numbers(2 * 4 * 3, 1), numbers(4 * 3, 2));
    let q = Heads::new("query", &x, [2, 1, 4, 3]).unwrap();
    let twice = [one.clone(), one.clone()].concat();
    let dense = Heads::new("key", &twice, [2, 1, 4, 3]).unwrap();
    let repeated = Heads::strided("key", &one, [2, 1, 4, 3], [0, 12, 3]).unwrap();
    let [a, b] = [dense, repeated].map(|k| bits(&Attention::new().forward(q, k, k).unwrap()));
    assert_eq!(a, b);
}

#[test]
fn strides_that_lead_out_of_memory_are_refused() {
    let (x, shape) = ([0.0; 11], [1, 2, 2, 3]);
    let error = Heads::strided("x", &x, shape, [12, 6, 3]).unwrap_err();
    let said = "x has 11 elements, which do not fill the shape [1, 2, 2, 3]";
    assert_eq!(error.to_string(), said);
    let strided = |strides| Heads::strided("x", &x, shape, strides);
    assert!(strided([usize::MAX, 5, 3]).is_ok(), "one entry has no next one");
    assert!(strided([0, usize::MAX, 3]).is_err(), "more than a usize");
    let none = Heads::strided("x", &[0.0; 0], [2, 0, 3, 4], [12, 12, 4]);
    assert!(none.is_ok(), "no head needs no memory");
}

/// Masks whose rows are shorter than the keys: one number for all keys, or an end where the longest sequence ends.
#[test]
fn short_rows_of_a_mask_give_the_bits_of_whole_ones() {
    const N: usize = 300;
    let x = numbers(2 * 2 * N * 8, 1);
    // Many queries, which are divided into blocks, and few queries, whose keys are divided.
    for (queries, keys) in [(N, N), (2, KEYS)] {
        let k = numbers(2 * keys * 8, 2);
        let q = Heads::new("query", &x[..2 * queries * 8], [1, 2, queries, 8]).unwrap();
        let k = Heads::new("key", &k, [1, 2, keys, 8]).unwrap();
        let column: Vec<f32> = numbers(2 * queries, 3)
            .iter()
            .map(|x| if *x > 0.8 { f32::NEG_INFINITY } else { *x })
            .collect();
        let written_out: Vec<f32> =
            column.iter().flat_map(|x| core::iter::repeat_n(*x, keys)).collect();
        let sees: Vec<bool> = column.iter().map(|x| *x > -0.5).collect();
        let all_see: Vec<bool> = sees.iter().flat_map(|x| core::iter::repeat_n(*x, keys)).collect();
        let (one, whole) = ([2, queries, 1], [2, queries, keys]);
        // A mask that ends before the keys, compared with the same mask filled up with the element that hides a key.
        let end = keys - 40;
        let lengths = [end];
        let short = numbers(end, 4);
        let long = [&short[..], &[f32::NEG_INFINITY; 40]].concat();
        let causal = Mask::NONE.causal(Position::BottomRight);
        let cases = [
            (
                causal.bias(MaskTensor::new(&column, &one).unwrap()),
                causal.bias(MaskTensor::new(&written_out, &whole).unwrap()),
            ),
            (
                causal.allowed(MaskTensor::new(&sees, &one).unwrap()),
                causal.allowed(MaskTensor::new(&all_see, &whole).unwrap()),
            ),
            (
                causal.key_lengths(&lengths).bias(MaskTensor::new(&short, &[end]).unwrap()),
                causal.key_lengths(&lengths).bias(MaskTensor::new(&long, &[keys]).unwrap()),
            ),
        ];
        for (short, whole) in cases {
            let (short, whole) = (Attention::new().mask(short), Attention::new().mask(whole));
            for threads in [1, 2] {
                let of = |attention: &Attention<'_>| {
                    let (out, sums) = attention.forward_with_log_sum_exp(q, k, k).unwrap();
                    let scores = attention.scores(Stage::Masked, q, k).unwrap();
                    [bits(&out), bits(&sums), bits(&scores)]
                };
                let threads = Threads::new(threads).unwrap();
                assert_eq!(threads.install(|| of(&short)), threads.install(|| of(&whole)));
            }
        }
    }
}

/// Each option changes the hash. The elements of a mask tensor and the progress do not.
#[test]
fn attentions_hash_by_their_values() {
    let hash = |attention: &Attention<'_>| {
        let mut hasher = DefaultHasher::new();
        attention.hash(&mut hasher);
        hasher.finish()
    };
    let plain = Attention::new();
    let of = |mask| plain.clone().mask(mask);
    let [left, right] =
        [[Some(1), None], [None, Some(1)]].map(|[left, right]| Window { left, right });
    let tensor = |x: &'static [f32]| MaskTensor::new(x, &[1]).unwrap();
    let different = [
        plain.clone(),
        plain.clone().scale(0.5),
        plain.clone().softcap(0.5),
        plain.clone().temperature(Temperature::new(0.5).unwrap()),
        plain.clone().sinks(&[0.5]),
        plain.clone().sinks(&[0.25]),
        of(Mask::CAUSAL),
        of(Mask::NONE.causal(Position::Offset(0))),
        of(Mask::NONE.window(Position::TopLeft, left)),
        of(Mask::NONE.window(Position::TopLeft, right)),
        of(Mask::NONE.alibi(Position::TopLeft, &[0.5])),
        of(Mask::NONE.key_lengths(&[1])),
        of(Mask::NONE.allowed(MaskTensor::new(&[true], &[1]).unwrap())),
        of(Mask::NONE.bias(tensor(&[0.5]))),
    ];
    let hashes: BTreeSet<u64> = different.iter().map(hash).collect();
    assert_eq!(hashes.len(), different.len());
    let ignore = |_, _| ();
    assert_eq!(hash(&plain.clone().progress(&ignore)), hash(&plain));
    assert_eq!(hash(&of(Mask::NONE.bias(tensor(&[0.25])))), hash(&different[13]));
}
