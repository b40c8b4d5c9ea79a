//! The promises about threads, heads, masks and errors of attention.

use crate::common::{U, numbers};
use regard::{
    Attention, Error, Heads, Linear, Mask, MaskTensor, MultiHeadAttention, Projections, Sequences,
    Tensor, Threads,
};

/// An attention so large that all threads take part.
fn long_attention(attention: &Attention<'_>, n: usize) -> Tensor<4> {
    let data = numbers(2 * 3 * n * 20, 5);
    let heads = Heads::new("x", &data, [2, 3, n, 20]).unwrap();
    attention.forward(heads, heads, heads).unwrap()
}

#[test]
fn the_callers_pool_is_used() {
    use std::collections::HashSet;
    use std::sync::Mutex;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(3)
        .thread_name(|i| format!("mine-{i}"))
        .build()
        .unwrap();
    let names = Mutex::new(HashSet::new());
    let note = |_done: usize, _all: usize| {
        names.lock().unwrap().insert(std::thread::current().name().unwrap_or_default().to_owned());
    };
    pool.install(|| long_attention(&Attention::new().progress(&note), 301));
    let names = names.into_inner().unwrap();
    assert!(!names.is_empty() && names.iter().all(|name| name.starts_with("mine-")), "{names:?}");
}

#[test]
fn progress_ends_with_all_done() {
    use core::sync::atomic::{AtomicUsize, Ordering};
    let most = AtomicUsize::new(0);
    let all_parts = AtomicUsize::new(0);
    let note = |done: usize, all: usize| {
        most.fetch_max(done, Ordering::Relaxed);
        all_parts.store(all, Ordering::Relaxed);
    };
    long_attention(&Attention::new().progress(&note), 301);
    assert_eq!(most.into_inner(), all_parts.into_inner());
}

/// Each block of a divided head transposes the head's keys anew.
#[test]
fn heads_that_keep_two_threads_busy_are_not_divided() {
    use core::sync::atomic::{AtomicUsize, Ordering};
    let two = Threads::new(2).unwrap();
    for (heads, n, parts) in [(8, 128, 8), (8, 512, 8), (12, 512, 12), (9, 512, 18), (1, 512, 6)] {
        let data = numbers(heads * n * 4, 9);
        let x = Heads::new("x", &data, [1, heads, n, 4]).unwrap();
        let done = AtomicUsize::new(0);
        let note = |_done: usize, all: usize| {
            done.fetch_add(1, Ordering::Relaxed);
            assert_eq!(all, parts, "{heads} heads of {n}");
        };
        two.install(|| Attention::new().progress(&note).forward(x, x, x)).unwrap();
        assert_eq!(done.into_inner(), parts);
    }
}

#[test]
fn a_mask_repeats_over_the_dimensions_it_has_not() {
    let data = numbers(2 * 3 * 4 * 5, 6);
    let x = Heads::new("x", &data, [2, 3, 4, 5]).unwrap();
    let weights = |allowed: &[bool], shape: &[usize]| {
        let mask = Mask::NONE.allowed(MaskTensor::new(allowed, shape).unwrap());
        Attention::new().mask(mask).scores(regard::Stage::Weights, x, x).unwrap()
    };
    let keys = [true, false, true, true];
    let by_keys = weights(&keys, &[4]);
    let full: Vec<bool> = keys.iter().copied().cycle().take(2 * 3 * 4 * 4).collect();
    assert_eq!(by_keys, weights(&full, &[2, 3, 4, 4]));
    // One value for each query, repeated over the keys. One query sees no key.
    let queries = [true, false, true, true];
    let by_queries = weights(&queries, &[4, 1]);
    for (i, row) in by_queries.as_slice().chunks(4).enumerate() {
        assert_eq!(row.iter().all(|w| *w == 0.0), !queries[i % 4]);
    }
}

#[test]
fn a_mask_may_end_where_the_longest_key_length_does() {
    let (data, mask) = (numbers(2 * 3 * 6 * 5, 7), numbers(2 * 6 * 4, 8));
    let x = Heads::new("x", &data, [2, 3, 6, 5]).unwrap();
    let padded: Vec<f32> = mask
        .chunks(4)
        .flat_map(|row| row.iter().copied().chain([f32::NAN, f32::NEG_INFINITY]))
        .collect();
    let short = MaskTensor::new(&mask, &[2, 1, 6, 4]).unwrap();
    let long = MaskTensor::new(&padded, &[2, 1, 6, 6]).unwrap();
    let lengths = Mask::CAUSAL.key_lengths(&[4, 2]);
    let [by_short, by_long] = [short, long].map(|bias| Attention::new().mask(lengths.bias(bias)));
    let out = by_short.forward(x, x, x).unwrap();
    assert_eq!(out, by_long.forward(x, x, x).unwrap());
    // The gradient of the mask has the mask's shape.
    let gradient =
        |a: &Attention<'_>| a.backward(x, x, x, out.as_slice(), &data).unwrap().bias.unwrap();
    let (of_short, of_long) = (gradient(&by_short), gradient(&by_long));
    assert_eq!((of_short.as_slice().len(), of_long.as_slice().len()), (2 * 6 * 4, 2 * 6 * 6));
    for (short, long) in of_short.as_slice().chunks(4).zip(of_long.as_slice().chunks(6)) {
        assert_eq!((short, [0.0; 2].as_slice()), long.split_at(4));
    }

    let nobody = Mask::NONE.key_lengths(&[0, 0]).allowed(MaskTensor::new(&[], &[6, 0]).unwrap());
    let nothing = Attention::new().mask(nobody);
    assert!(nothing.forward(x, x, x).unwrap().as_slice().iter().all(|x| *x == 0.0));

    let too_short = "the additive mask must have the shape [2, 1, 6, 6] (broadcast to [batch, heads, queries, keys]), not [2, 1, 6, 4]";
    for mask in [Mask::NONE, Mask::NONE.key_lengths(&[2, 5])] {
        let attention = Attention::new().mask(mask.bias(short));
        assert_eq!(attention.forward(x, x, x).unwrap_err().to_string(), too_short);
    }
}

#[test]
fn a_mask_that_repeats_over_more_keys_than_memory_holds_is_not_written_out_in_vain() {
    let empty: [f32; 0] = [];
    let q = Heads::new("query", &empty, [1, 1, 3, 0]).unwrap();
    let k = Heads::new("key", &empty, [1, 1, 1 << 60, 0]).unwrap();
    let mask = Mask::NONE.bias(MaskTensor::new(&[0.0], &[1]).unwrap());
    // The values have no features, so there is nothing to compute.
    assert_eq!(Attention::new().mask(mask).forward(q, k, k).unwrap(), empty);
}

#[test]
fn the_layer_takes_empty_sequences() {
    let bias = numbers(4, 23);
    let linear = |inputs: usize, outputs: usize| {
        Linear::from_conv1d(numbers(inputs * outputs, 10), [inputs, outputs]).unwrap()
    };
    let (query, key, value) = (linear(4, 6), linear(4, 3), linear(4, 2));
    let output = linear(4, 4).with_bias(bias.clone()).unwrap();
    let layer = MultiHeadAttention::new(2, Projections { query, key, value, output }).unwrap();
    let (x, none) = (numbers(3 * 4, 1), []);
    let three = Sequences::new("x", &x, [1, 3, 4]).unwrap();
    let empty = Sequences::new("x", &none, [1, 0, 4]).unwrap();
    assert_eq!(layer.forward(empty, three, three, &Attention::new()).unwrap(), none, "no query");
    assert_eq!(layer.attention_weights(empty, three, &Attention::new()).unwrap(), none);
    // There is no key to see. The heads' outputs are 0, and the result is the bias of the output projection.
    let out = layer.forward(three, empty, empty, &Attention::new()).unwrap();
    assert!(out.as_slice().chunks(4).all(|row| row == bias), "{out:?}");
    let no_batch = Sequences::new("x", &none, [0, 3, 4]).unwrap();
    assert_eq!(layer.forward(no_batch, no_batch, no_batch, &Attention::new()).unwrap(), none);
}

#[test]
fn shapes_larger_than_memory_are_errors() {
    let empty: [f32; 0] = [];
    let values = [0.0; 4 * 8];
    for many in [1 << 40, 1 << 61, 1 << 62, usize::MAX] {
        let q = Heads::new("q", &empty, [1, 1, many, 0]).unwrap();
        let k = Heads::new("k", &empty, [1, 1, 4, 0]).unwrap();
        let v = Heads::new("v", &values, [1, 1, 4, 8]).unwrap();
        let attended = Attention::new().forward(q, k, v);
        assert!(matches!(attended, Err(Error::Memory { .. })), "{many} queries");
        let wide = Heads::split("x", &empty, [0, many, many], many).unwrap();
        assert_eq!(Attention::new().forward(wide, wide, wide).unwrap(), empty);
        let error = Heads::new("q", &empty, [many; 4]).unwrap_err().to_string();
        assert!(error.contains("do not fill"), "{error}");
        let weightless = Linear::from_conv1d::<f32>([], [0, many]).unwrap();
        let x = Sequences::new("x", &empty, [1, 2, 0]).unwrap();
        assert!(matches!(weightless.forward(x), Err(Error::Memory { .. })), "{many} outputs");
        // Two query heads share one key/value head. Their values side by side are more than a number can hold.
        let linear = |outputs| Linear::from_conv1d::<f32>([], [0, outputs]).unwrap();
        let (query, key, value, output) = (linear(2), linear(1), linear(many), linear(1));
        let layer = MultiHeadAttention::new(2, Projections { query, key, value, output });
        let error = layer.err().unwrap().to_string();
        assert!(error.starts_with("the output projection's inputs"), "{many} outputs: {error}");
    }
}

#[test]
fn the_log_sum_exp_is_that_of_the_masked_scores() {
    let data = numbers(2 * 3 * 70 * 20, 5);
    let x = Heads::new("x", &data, [2, 3, 70, 20]).unwrap();
    let attention = Attention::new().mask(Mask::CAUSAL);
    let two = Threads::new(2).unwrap();
    let (out, log_sum_exp) = two.install(|| attention.forward_with_log_sum_exp(x, x, x)).unwrap();
    assert_eq!(out, attention.forward(x, x, x).unwrap());
    let scores = attention.scores(regard::Stage::Masked, x, x).unwrap();
    for (row, found) in scores.as_slice().chunks(70).zip(log_sum_exp.as_slice()) {
        let expected = row.iter().map(|s| f64::from(*s).exp()).sum::<f64>().ln();
        // With the unit roundoff u, each exponential is within 4u plus as many u as the size of its exponent, |s − m| ≤
        // 2·max|s|. The sum of 70 terms is within 70u. The logarithm, the maximum that is added, and their sum are within 4u of
        // the result's parts, which are at most max|s| and ln 70 < 5.
        let size =
            row.iter().filter(|s| s.is_finite()).fold(0.0_f64, |m, s| m.max(f64::from(s.abs())));
        let bound = U * (4.0 + 8.0 * size + 70.0 + 4.0 * (size + 5.0));
        let error = (f64::from(*found) - expected).abs();
        assert!(error <= bound, "{found} is not {expected} ± {bound:e}");
    }
}

#[test]
fn a_parameter_is_refused_even_where_there_is_nothing_to_do() {
    let empty: [f32; 0] = [];
    let x = Heads::new("x", &empty, [0, 1, 2, 3]).unwrap();
    assert!(Attention::new().softcap(-1.0).forward(x, x, x).is_err());
    assert!(Attention::new().scale(f32::NAN).forward(x, x, x).is_err());
}

#[test]
fn nothing_to_do_is_no_error() {
    let empty: [f32; 0] = [];
    for shape in [[0, 2, 3, 4], [1, 0, 3, 4], [1, 2, 0, 4], [1, 2, 3, 0]] {
        let heads = Heads::new("x", &empty, shape).unwrap();
        assert_eq!(Attention::new().forward(heads, heads, heads).unwrap(), empty);
    }
    // Queries without keys see nothing.
    let q = Heads::new("q", &[1.0; 6], [1, 1, 3, 2]).unwrap();
    let none = Heads::new("k", &empty, [1, 1, 0, 2]).unwrap();
    assert_eq!(Attention::new().forward(q, none, none).unwrap(), [0.0; 6]);
}
