//! Tests that a row has the same bits whatever is computed with it, and through both kinds of functions. The bits are recorded,
//! and compared on every machine. Tiers with fused multiply-add (AVX2, NEON, `wide` compiled for FMA) share one record; tiers
//! without it (SSE2, wasm, scalar) share the other.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

mod common;

use common::{Case, Matrix, Random, array, is_fused};
use regard_kernels::{
    Pairing, Position, Stage, Temperature, Tier, attention_scratch_len, cosine_similarity, dot,
    fixed, gelu, gelu_tanh, layer_norm, matmul, matmul_transposed, norm, rms_norm, rotate, silu,
    softmax, tanh,
};

/// Compares results with the hashes recorded for tiers with fused multiply-add, and for those without.
#[track_caller]
fn assert_recorded(results: &[(&str, &[f32], [u64; 2])]) {
    let line = |name: &str, hash: u64| format!("{name}: {hash:#018x}");
    let hash = |x: &[f32]| common::hash(x.iter().flat_map(|x| x.to_bits().to_le_bytes()));
    let found = results.iter().map(|(name, x, _)| line(name, hash(x)));
    let expected =
        results.iter().map(|(name, _, hashes)| line(name, hashes[usize::from(!is_fused())]));
    let tier = Tier::active().name();
    assert_eq!(
        found.collect::<Vec<_>>(),
        expected.collect::<Vec<_>>(),
        "{tier}, fused: {}",
        is_fused()
    );
}

#[test]
fn a_multiply_add_rounds_once_where_the_tier_has_it_fused() {
    let fixed = cfg!(any(
        fused,
        target_feature = "fma",
        all(target_arch = "aarch64", target_feature = "neon")
    ));
    let found = matches!(Tier::active(), Tier::Avx2 | Tier::Avx512);
    assert_eq!(
        is_fused(),
        found || fixed && Tier::active() != Tier::Scalar,
        "{}",
        Tier::active().name()
    );
}

/// No suite may pass on another tier than the one it is run for.
#[test]
fn the_tier_that_the_environment_names_is_active() {
    if let Ok(word) = std::env::var("REGARD_TIER") {
        assert_eq!(Some(Tier::active()), Tier::from_word(&word), "REGARD_TIER={word}");
    }
}

#[test]
fn results_have_the_recorded_bits() {
    let random = &mut Random(2026);
    let (a, b) = (Matrix::random(13, 77, 1.0, random), Matrix::random(77, 37, 1.0, random));
    let mut product = Matrix::filled(13, 37, 0.0);
    matmul(a.view(), b.view(), product.view_mut()).unwrap();
    let mut transposed = Matrix::filled(13, 37, 0.0);
    matmul_transposed(a.view(), b.transposed().view(), transposed.view_mut()).unwrap();
    assert_eq!(product.bits(), transposed.bits());

    let (x, y) = (&b.data[..1000], &b.data[1000..2000]);
    let vectors = [dot(x, y).unwrap(), norm(x), cosine_similarity(x, y).unwrap()];

    let mut case = Case::random(23, 350, 40, 33, random);
    let plain = case.run();
    case.causal = Some(Position::Offset(300));
    case.softcap = Some(3.0);
    case.temperature = 0.7;
    let masked = case.run();

    // Change these only with a change of the kernels that is meant to change last bits, and say so in the changelog.
    let weights = case.scores(Stage::Weights);
    assert_recorded(&[
        ("product", &product.data, [0xe4b2d78f77275f93, 0xea6938078d83da9d]),
        ("vectors", &vectors, [0xdb055272ab7ca1cc, 0x3265bc0c7f5d95dd]),
        ("attention", &plain.out.data, [0xdfd93727b8451e30, 0x27f11d77ff668f5d]),
        ("its log-sum-exp", &plain.log_sum_exp, [0x2426baea3987a9ea, 0x80022c8263e67a71]),
        ("masked attention", &masked.out.data, [0xd1aea1931b926087, 0xde18f0d8439a98ce]),
        ("masked log-sum-exp", &masked.log_sum_exp, [0x89331182b6f9c5d3, 0xf70c0aab6b6d65d2]),
        ("masked weights", &weights.data, [0x070ba459d2b2af2b, 0x4abd7485eef719f5]),
    ]);
}

#[test]
fn kernels_of_a_block_have_the_recorded_bits() {
    let random = &mut Random(2027);
    let (x, row) = (Matrix::random(5, 77, 6.0, random), Matrix::random(2, 77, 1.0, random));
    let changed = |change: &dyn Fn(&mut Matrix)| {
        let mut x = x.clone();
        change(&mut x);
        x.data
    };
    let (angles, turned) = (Matrix::random(5, 38, 1.0, random), Matrix::random(5, 76, 1.0, random));
    let rotated = |pairing| {
        let mut x = turned.clone();
        rotate(x.view_mut(), angles.view(), angles.view(), pairing).unwrap();
        x.data
    };
    let activated = |activation: fn(&mut [f32])| changed(&|x| activation(&mut x.data));
    let layer_normed =
        changed(&|x| layer_norm(x.view_mut(), row.row(0), row.row(1), 1e-5).unwrap());
    let rms_normed = changed(&|x| rms_norm(x.view_mut(), row.row(0), 1e-5).unwrap());
    // As above: change these only with a change of the kernels that is meant to change last bits. Rotation multiplies and adds in
    // separate roundings on every tier.
    assert_recorded(&[
        ("gelu", &activated(gelu), [0xee5d73ce30115483, 0x15fbce1e1de74ba7]),
        ("gelu_tanh", &activated(gelu_tanh), [0xd29f5fe27766bced, 0x48411f4d8f98d2c2]),
        ("silu", &activated(silu), [0xc44dae9eff8e1a55, 0x6fc30d424d285751]),
        ("tanh", &activated(tanh), [0xcfe736eb4fa2c212, 0xd2de87707ad7993a]),
        ("layer_norm", &layer_normed, [0x70ac0053e078931d, 0xef11df12000e5d47]),
        ("rms_norm", &rms_normed, [0xe8fdf79e60cad599; 2]),
        ("rotate, interleaved", &rotated(Pairing::Interleaved), [0xdb43709d1a223735; 2]),
        ("rotate, half-split", &rotated(Pairing::HalfSplit), [0xb8530124166825c6; 2]),
    ]);
}

/// Compares the function for shapes known at compile time with the one for all shapes.
fn check_fixed_attention<
    const N_Q: usize,
    const N_K: usize,
    const D: usize,
    const SCRATCH: usize,
>() {
    let mut case = Case::random(N_Q, N_K, D, D, &mut Random(5));
    for (causal, softcap) in [(None, None), (Some(Position::BottomRight), None), (None, Some(5.0))]
    {
        (case.causal, case.softcap) = (causal, softcap);
        let what = format!("{N_Q} × {N_K} × {D}, {causal:?}, {softcap:?}");
        let (q, k, v) =
            (array::<_, N_Q, D>(&case.q), array::<_, N_K, D>(&case.k), array::<_, N_K, D>(&case.v));
        let (attention, expected) = (&case.attention(), case.run());
        let (mut out, mut sums, mut scratch) = ([[7.0; D]; N_Q], [7.0; N_Q], [f32::NAN; SCRATCH]);
        let mut weights = [[7.0; N_K]; N_Q];
        fixed::attention(attention, &q, &k, &v, &mut out, &mut scratch).unwrap();
        assert_eq!(common::bits(out.as_flattened()), expected.out.bits(), "{what}");
        fixed::attention_with_log_sum_exp(attention, &q, &k, &v, &mut out, &mut sums, &mut scratch)
            .unwrap();
        assert_eq!(common::bits(out.as_flattened()), expected.out.bits(), "{what}");
        assert_eq!(common::bits(&sums), common::bits(&expected.log_sum_exp), "{what}");
        fixed::attention_weights(attention, &q, &k, &mut weights, &mut scratch).unwrap();
        let expected = case.scores(Stage::Weights).bits();
        assert_eq!(common::bits(weights.as_flattened()), expected, "{what}");
    }
}

fn check_fixed_product<const M: usize, const K: usize, const N: usize>() {
    let random = &mut Random(6);
    let (a, b) = (Matrix::random(M, K, 1.0, random), Matrix::random(K, N, 1.0, random));
    let mut expected = Matrix::filled(M, N, 7.0);
    matmul(a.view(), b.view(), expected.view_mut()).unwrap();
    let (a, b, bt) =
        (array::<_, M, K>(&a), array::<_, K, N>(&b), array::<_, N, K>(&b.transposed()));
    for product in [fixed::matmul(&a, &b), fixed::matmul_transposed(&a, &bt)] {
        let found = common::bits(product.as_flattened());
        assert_eq!(found, expected.bits(), "{M} × {K} × {N}");
    }
}

fn check_fixed_vectors<const N: usize>() {
    let random = &mut Random(7);
    let [x, y]: [[f32; N]; 2] =
        core::array::from_fn(|_| core::array::from_fn(|_| random.within(3.0)));
    let found = [fixed::dot(&x, &y), fixed::norm(&x), fixed::cosine_similarity(&x, &y)];
    let expected = [dot(&x, &y).unwrap(), norm(&x), cosine_similarity(&x, &y).unwrap()];
    assert_eq!(common::bits(&found), common::bits(&expected), "{N} elements");
    for temperature in [Temperature::ONE, Temperature::ZERO, Temperature::INFINITE] {
        let mut expected = x;
        softmax(&mut expected, temperature);
        let found = common::bits(&fixed::softmax(&x, temperature));
        assert_eq!(found, common::bits(&expected), "softmax of {N} elements");
    }
}

#[test]
fn both_doors_give_the_same_bits() {
    macro_rules! attention {
        ($([$n_q:literal, $n_k:literal, $d:literal])+) => {
            $(check_fixed_attention::<$n_q, $n_k, $d, { attention_scratch_len($n_q, $n_k, $d, $d) }>();)+
        };
    }
    attention!([1, 1, 1] [4, 4, 8] [5, 17, 3] [7, 65, 24] [33, 40, 64] [1, 200, 64] [0, 3, 4] [2, 0, 4]);
    macro_rules! product {
        ($([$m:literal, $k:literal, $n:literal])+) => { $(check_fixed_product::<$m, $k, $n>();)+ };
    }
    product!([1, 1, 1] [4, 4, 4] [7, 1, 9] [13, 33, 17] [5, 100, 15] [64, 64, 64] [0, 3, 4] [13, 0, 16] [7, 9, 48] [1, 5, 8]);
    macro_rules! vectors {
        ($($n:literal)+) => { $(check_fixed_vectors::<$n>();)+ };
    }
    vectors!(0 1 3 8 15 16 17 33 64 100 300);
}
