//! Tests that partial results, in which chunks of keys are added in order, have the bits of all keys at once.

#![expect(clippy::single_range_in_vec_init, reason = "keys stand in one range")]

use crate::common::{bits, numbers};
use core::ops::Range;
use proptest::prelude::*;
use regard::{
    Attention, CHUNK_KEYS, Error, Heads, Mask, MaskTensor, Partial, Position, Temperature, Threads,
    Window, alibi_slopes,
};

/// The tokens of a range, \[batch, heads, n, d\].
fn tokens(x: &[f32], [batch, heads, n, d]: [usize; 4], ranges: &[Range<usize>]) -> Vec<f32> {
    let rows = |head: usize| ranges.iter().cloned().flatten().map(move |token| head * n + token);
    (0..batch * heads).flat_map(rows).flat_map(|row| &x[row * d..][..d]).copied().collect()
}

fn positions() -> impl Strategy<Value = Position> {
    prop_oneof![
        Just(Position::TopLeft),
        Just(Position::BottomRight),
        (-20..9_000_isize).prop_map(Position::Offset)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn queries_and_chunks_apart_have_the_bits_of_the_whole(
        (batch, kv_heads, group) in (1..3_usize, 1..3_usize, 1..3_usize),
        (n_q, n_k) in (1..40_usize, prop_oneof![1..40_usize, 4_000..9_000_usize]),
        (d_k, d_v) in (1..9_usize, 1..20_usize),
        cuts in prop::collection::vec(0..40_usize, 0..4),
        (causal, window) in (prop::option::of(positions()), prop::option::of((positions(), 0..9_000_usize, 0..9_usize))),
        (bias, allowed, alibi, sinks, lengths, softcap, hot) in any::<[bool; 7]>().prop_map(|x| x.into()),
        (threads, seed) in (1..3_usize, 0..1000_u64),
    ) {
        let heads = kv_heads * group;
        let shapes = [[batch, heads, n_q, d_k], [batch, kv_heads, n_k, d_k], [batch, kv_heads, n_k, d_v]];
        let [q, k, v] = shapes.map(|shape| numbers(shape.iter().product(), seed + shape[3] as u64 + shape[2] as u64));
        let of_pairs = numbers(n_q * n_k, seed);
        let shown: Vec<bool> = of_pairs.iter().map(|x| *x < 0.7).collect();
        let (slopes, sinks_of_heads) = (alibi_slopes(heads), numbers(heads, seed));
        let lengths_of_entries = [n_k / 2, n_k];
        let mut mask = Mask::NONE;
        if let Some(position) = causal { mask = mask.causal(position); }
        if let Some((position, left, right)) = window {
            mask = mask.window(position, Window { left: Some(left), right: Some(right) });
        }
        if alibi { mask = mask.alibi(Position::BottomRight, &slopes); }
        if lengths { mask = mask.key_lengths(&lengths_of_entries[..batch]); }
        let mut attention = Attention::new();
        if sinks { attention = attention.sinks(&sinks_of_heads); }
        if softcap { attention = attention.softcap(0.5); }
        if hot { attention = attention.temperature(Temperature::new(3.0).unwrap()); }

        // The queries of two machines: every other range between the cuts, and the other ranges.
        let mut cuts = [vec![0, n_q], cuts.into_iter().filter(|cut| *cut < n_q).collect()].concat();
        cuts.sort_unstable();
        let ranges: Vec<_> = cuts.windows(2).map(|pair| pair[0]..pair[1]).collect();
        let threads = Threads::new(threads).unwrap();
        let of_all = mask;
        let of_all = if bias { of_all.bias(MaskTensor::new(&of_pairs, &[n_q, n_k]).unwrap()) } else { of_all };
        let of_all = if allowed { of_all.allowed(MaskTensor::new(&shown, &[n_q, n_k]).unwrap()) } else { of_all };
        let [all_q, all_k, all_v] = [("q", &q, shapes[0]), ("k", &k, shapes[1]), ("v", &v, shapes[2])]
            .map(|(name, x, shape)| Heads::new(name, x, shape).unwrap());
        let whole = attention.clone().mask(of_all);
        let (expected, expected_sums) = whole.forward_with_log_sum_exp(all_q, all_k, all_v).unwrap();
        // What memory holds before does not matter, not even for queries that see no key.
        let mut old = vec![f32::NAN; expected.as_slice().len()];
        threads.install(|| whole.forward_into(all_q, all_k, all_v, &mut old)).unwrap();
        prop_assert_eq!(bits(&old), bits(&expected));
        for machine in 0..2 {
            let own: Vec<_> = ranges.iter().skip(machine).step_by(2).cloned().collect();
            let n: usize = own.iter().map(Range::len).sum();
            let rows = |x: &[f32]| tokens(x, [1, 1, n_q, n_k], &own);
            let (of_pairs, mut mask) = (rows(&of_pairs), mask);
            let shown: Vec<bool> = of_pairs.iter().map(|x| *x < 0.7).collect();
            if bias { mask = mask.bias(MaskTensor::new(&of_pairs, &[n, n_k]).unwrap()); }
            if allowed { mask = mask.allowed(MaskTensor::new(&shown, &[n, n_k]).unwrap()); }
            let (attention, q) = (attention.clone().mask(mask), tokens(&q, shapes[0], &own));
            let q = Heads::new("q", &q, [batch, heads, n, d_k]).unwrap();
            let begin = || attention.partial(q, &own, [n_q, n_k], d_v);
            let add = |partial: &mut Partial<'_>, first: usize| {
                let keys = [first..n_k.min(first + CHUNK_KEYS)];
                let of_chunk = [batch, kv_heads, keys[0].len()];
                let [k, v] = [(&k, shapes[1]), (&v, shapes[2])].map(|(x, shape)| tokens(x, shape, &keys));
                let heads = |x, d| Heads::new("chunk", x, [of_chunk[0], of_chunk[1], of_chunk[2], d]);
                if partial.sees(keys[0].clone())? { partial.add(first, heads(&k, d_k)?, heads(&v, d_v)?) } else { Ok(()) }
            };
            let (mut in_order, mut merged) = (begin().unwrap(), begin().unwrap());
            threads.install(|| {
                for first in (0..n_k).step_by(CHUNK_KEYS) {
                    add(&mut in_order, first)?;
                    let mut chunk = begin()?;
                    add(&mut chunk, first)?;
                    merged.merge(chunk.numbers())?;
                }
                Ok::<(), Error>(())
            }).unwrap();
            for (out, sums) in [in_order.finish().unwrap(), merged.finish().unwrap()] {
                prop_assert_eq!(bits(out.as_slice()), bits(&tokens(expected.as_slice(), [batch, heads, n_q, d_v], &own)));
                prop_assert_eq!(bits(sums.as_slice()), bits(&tokens(expected_sums.as_slice(), [batch, heads, n_q, 1], &own)));
            }
        }
    }
}
