//! Tests that the bits of a result depend neither on the path to the kernels nor on what is computed together with it.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use proptest::prelude::*;
use regard::{Attention, Heads, Position, Threads};
use regard_firmware::cases;
use regard_kernels::{Mask, Mat, MatMut, attention_scratch_len};
use regard_walkthrough::{Example, Settings, StepKey, Walkthrough};

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn the_firmware_computes_what_the_window_shows() {
    let [weights, output] = cases::robotics().unwrap();
    let window = Walkthrough::run(Example::ILoveRobotics, &Settings::default()).unwrap();
    let step =
        |key: &str| bits(window.step(key.parse::<StepKey>().unwrap()).unwrap().matrix.as_slice());
    assert_eq!(bits(weights.as_flattened()), step("weights"));
    assert_eq!(bits(output.as_flattened()), step("output"));
}

/// Pseudo-random numbers between −1 and 1, the same on every machine.
fn numbers(len: usize, seed: u64) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| 2.0 * random.f32() - 1.0).collect()
}

/// The sizes of an attention: a key/value head for every `group` query heads.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    kv_heads: usize,
    group: usize,
    n_q: usize,
    n_k: usize,
    d_k: usize,
    d_v: usize,
}

/// Checks that the layer computes each row as the kernel computes its query alone, for each number of threads. It compares
/// every `step`th row.
fn check(sizes: Sizes, causal: Option<Position>, threads: &[Threads], step: usize) {
    let Sizes { batch, kv_heads, group, n_q, n_k, d_k, d_v } = sizes;
    let heads = kv_heads * group;
    let (q, k) = (numbers(batch * heads * n_q * d_k, 1), numbers(batch * kv_heads * n_k * d_k, 2));
    let v = numbers(batch * kv_heads * n_k * d_v, 3);
    let layer = |threads: &Threads| {
        let mask = causal.map_or(regard::Mask::NONE, |p| regard::Mask::NONE.causal(p));
        let attention = Attention::new().mask(mask);
        let (q, k) = (
            Heads::new("q", &q, [batch, heads, n_q, d_k]),
            Heads::new("k", &k, [batch, kv_heads, n_k, d_k]),
        );
        let v = Heads::new("v", &v, [batch, kv_heads, n_k, d_v]);
        let (q, k, v) = (q.unwrap(), k.unwrap(), v.unwrap());
        let (out, log_sum_exp) =
            threads.install(|| attention.forward_with_log_sum_exp(q, k, v)).unwrap();
        (bits(out.as_slice()), bits(log_sum_exp.as_slice()))
    };
    let (out, log_sum_exp) = layer(&Threads::ONE);
    for threads in threads {
        assert!(
            layer(threads) == (out.clone(), log_sum_exp.clone()),
            "{} threads: {sizes:?}, {causal:?}",
            threads.count()
        );
    }

    let mask = causal.map_or(Mask::NONE, |position| Mask::NONE.causal(position));
    let mut scratch = vec![f32::NAN; attention_scratch_len(1, n_k, d_k, d_v)];
    for row in (0..batch * heads * n_q).step_by(step) {
        let (head, i) = (row / n_q, row % n_q);
        let kv = head / group; // heads of all batch entries, one after another
        let k = Mat::new(&k[kv * n_k * d_k..], n_k, d_k).unwrap();
        let v = Mat::new(&v[kv * n_k * d_v..], n_k, d_v).unwrap();
        let (mut alone, mut alone_lse) = (vec![f32::NAN; d_v], [f32::NAN]);
        let q = Mat::new(&q[row * d_k..], 1, d_k).unwrap();
        regard_kernels::Attention::new()
            .mask(mask.rows(i, 1, n_q, n_k))
            .forward_with_log_sum_exp(
                q,
                k,
                v,
                MatMut::new(&mut alone, 1, d_v).unwrap(),
                &mut alone_lse,
                &mut scratch,
            )
            .unwrap();
        assert_eq!(
            bits(&alone),
            out[row * d_v..][..d_v],
            "head {head}, query {i}: {sizes:?}, {causal:?}"
        );
        assert_eq!(
            bits(&alone_lse),
            log_sum_exp[row..=row],
            "head {head}, query {i}: {sizes:?}, {causal:?}"
        );
    }
}

fn threads() -> Vec<Threads> {
    [2, 3, 8].map(|n| Threads::new(n).unwrap()).into()
}

#[test]
fn a_row_of_the_parallel_layer_is_that_of_its_query_alone() {
    let sizes = |batch, kv_heads, group, n_q, n_k, d_k, d_v| Sizes {
        batch,
        kv_heads,
        group,
        n_q,
        n_k,
        d_k,
        d_v,
    };
    // There is enough work for all threads.
    for sizes in [
        sizes(1, 1, 1, 500, 500, 64, 64),
        sizes(2, 2, 3, 130, 200, 24, 40),
        sizes(1, 3, 1, 301, 301, 20, 20),
        sizes(3, 8, 1, 65, 65, 64, 64),
        sizes(1, 3, 3, 1, 2048, 64, 64), // decodes one token after another
        sizes(5, 1, 8, 7, 300, 33, 17),
    ] {
        for causal in [None, Some(Position::TopLeft), Some(Position::BottomRight)] {
            check(sizes, causal, &threads(), 13);
        }
    }
}

proptest! {
    #[test]
    fn a_row_is_the_same_in_any_batch_among_any_heads_and_rows(
        (batch, kv_heads, group) in (1_usize..4, 1_usize..4, 1_usize..4),
        (n_q, n_k, d_k, d_v) in (1_usize..71, 0_usize..140, 0_usize..70, 0_usize..70),
        causal in prop_oneof![
            Just(None),
            Just(Some(Position::TopLeft)),
            Just(Some(Position::BottomRight)),
            (-20_isize..140).prop_map(|offset| Some(Position::Offset(offset))),
        ],
    ) {
        check(Sizes { batch, kv_heads, group, n_q, n_k, d_k, d_v }, causal, &[Threads::default()], 1);
    }
}
