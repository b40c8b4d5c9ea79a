//! The same bits on every machine: recorded once, compared everywhere. Tiers with fused multiply-add (AVX2, NEON, `wide`
//! compiled for FMA) share one record, tiers without it (SSE2, wasm, scalar) the other.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

mod common;

use common::{Case, Matrix, Random};
use regard_kernels::{Position, Stage, Tier, cosine_similarity, dot, matmul, matmul_transposed, norm};

/// Fowler, Noll and Vo's hash (1a, 64 bits) of the numbers' bits.
fn hash(numbers: &[f32]) -> u64 {
    numbers
        .iter()
        .flat_map(|x| x.to_bits().to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Whether this tier rounds a multiply-add once: then (1 + ε)² − (1 + 2ε) keeps its ε².
fn is_fused() -> bool {
    let x = 1.0 + 2_f32.powi(-13);
    let mut out = [[0.0]];
    matmul((&[[1.0, x]]).into(), (&[[-(1.0 + 2_f32.powi(-12))], [x]]).into(), (&mut out).into()).unwrap();
    out[0][0] != 0.0
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

    let mut case = Case::random(23, 150, 40, 33, random);
    let plain = case.run();
    case.causal = Some(Position::Offset(100));
    case.softcap = Some(3.0);
    case.temperature = 0.7;
    let masked = case.run();

    let found = [
        hash(&product.data),
        hash(&vectors),
        hash(&plain.out.data),
        hash(&plain.log_sum_exp),
        hash(&masked.out.data),
        hash(&masked.log_sum_exp),
        hash(&case.scores(Stage::Weights).data),
    ];
    // Change these only with a change of the kernels that is meant to change last bits, and say so in the changelog.
    let expected = if is_fused() {
        [
            0xe4b2d78f77275f93,
            0xdb055272ab7ca1cc,
            0x749b28d07046e25e,
            0x2135c84877999971,
            0x61bc8412b8030196,
            0x68ac9f752f558c42,
            0x27eae391e79c19df,
        ]
    } else {
        [
            0xea6938078d83da9d,
            0x3265bc0c7f5d95dd,
            0x705935cf64220f73,
            0x2305b17a20086db0,
            0x3c6f64f5e5f5f702,
            0x7ea6c3a1111d0226,
            0xae0d6b15dc76c936,
        ]
    };
    let tier = Tier::active().name();
    assert_eq!(found, expected, "{tier}, fused: {}; found {found:#018x?}", is_fused());
}
