//! Tests that the tiers with fused multiply-add that this CPU has give the same bits, and so do those without it.
//!
//! It is a program of its own with one test, because choosing a tier concerns the whole process.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

mod common;

use std::io::{self, Write as _};

use common::{Case, Matrix, Random, array, bits, is_fused};
use regard_kernels::{
    Packed, Pairing, Position, Quantization, Quantized, Stage, Store, Temperature, Tier, Window,
    add, cosine_similarity, dot, exp, fixed, gelu, gelu_tanh, layer_norm, matmul, matmul_packed,
    matmul_transposed, multiply, norm, packed_len, quantized_scratch_len, relu, rms_norm, rotate,
    silu, softmax, softmax_with_log_sum_exp, tanh,
};

/// The results of one tier: a name and the numbers for each call.
struct Results(Vec<(String, Vec<f32>)>);

impl Results {
    fn add(&mut self, name: impl Into<String>, numbers: Vec<f32>) {
        self.0.push((name.into(), numbers));
    }
}

/// Calls everything that has loops of vectors, in sizes around those of tiles, blocks and groups of queries.
fn compute() -> Results {
    let mut results = Results(Vec::new());
    products(&mut results);
    attention(&mut results);
    rows(&mut results);
    results
}

fn products(results: &mut Results) {
    let random = &mut Random(1);
    let sizes = [1, 2, 3, 5, 7, 12, 13, 15, 17, 25, 29, 43].map(|m| (m, 33, 37));
    let wide = [1, 2, 3, 11].map(|m| (m, 70, 300));
    let deep = [(14, 600, 70), (300, 70, 33), (13, 0, 17), (25, 1, 129)];
    for (m, k, n) in sizes.into_iter().chain(wide).chain(deep) {
        let (a, b) = (Matrix::random(m, k, 1.0, random), Matrix::random(k, n, 1.0, random));
        let mut out = Matrix::filled(m, n, 7.0);
        matmul(a.view(), b.view(), out.view_mut()).unwrap();
        results.add(format!("matmul, {m} × {k} × {n}"), out.data.clone());
        matmul_transposed(a.view(), b.transposed().view(), out.view_mut()).unwrap();
        results.add(format!("matmul_transposed, {m} × {k} × {n}"), out.data.clone());
        let mut memory = vec![0.0; packed_len(k, n)];
        let packed = Packed::pack(b.view(), &mut memory).unwrap();
        for store in [Store::Set, Store::Add] {
            matmul_packed(a.view(), packed, out.view_mut(), store).unwrap();
            results.add(format!("matmul_packed, {store:?}, {m} × {k} × {n}"), out.data.clone());
        }
    }
    for &format in Quantization::ALL {
        let ((numbers, size), (rows, tokens)) = (format.block(), (13, 7));
        let cols = 1088 / numbers * numbers;
        let mut bytes = vec![0; rows * cols / numbers * size];
        for (i, byte) in (0_u64..).zip(&mut bytes) {
            *byte = ((i * i * 7919) >> 3) as u8 & 0xbf; // no f16 that is infinite or NaN
        }
        let x = Matrix::random(tokens, cols, 1.0, random);
        let mut scratch = vec![0.0; quantized_scratch_len(tokens)];
        let mut out = Matrix::filled(tokens, rows, 7.0);
        let w = Quantized::new(&bytes, format, rows, cols).unwrap();
        w.multiply(x.view(), out.view_mut(), Store::Set, &mut scratch).unwrap();
        results.add(format!("quantized, {format:?}"), out.data.clone());
        let mut wide = Matrix::filled(rows, cols, 0.0);
        w.widen(wide.view_mut()).unwrap();
        results.add(format!("widened, {format:?}"), wide.data);
    }
    macro_rules! fixed {
        ($([$m:literal, $k:literal, $n:literal])+) => {$({
            let (a, b) = (Matrix::random($m, $k, 1.0, random), Matrix::random($k, $n, 1.0, random));
            let product = fixed::matmul(&array::<_, $m, $k>(&a), &array::<_, $k, $n>(&b));
            let product = product.as_flattened().to_vec();
            results.add(concat!("fixed, ", $m, " × ", $k, " × ", $n), product);
        })+};
    }
    fixed!([4, 4, 4] [8, 8, 8] [13, 5, 8] [16, 16, 16] [29, 3, 32] [64, 64, 64] [5, 7, 9]);
}

fn attention(results: &mut Results) {
    let random = &mut Random(2);
    let mut case_of = |n_q, n_k, d_k, d_v| Case::random(n_q, n_k, d_k, d_v, random);
    let mut cases = Vec::new();
    for n_q in [1, 2, 3, 4, 6, 7, 11, 12, 13, 14, 15, 24, 25, 28, 29, 49, 50] {
        cases.push(case_of(n_q, 330, 24, 40));
    }
    for (n_k, d_k, d_v) in [(16, 16, 16), (5, 4, 8), (270, 64, 64), (100, 32, 17), (65, 3, 129)] {
        cases.push(case_of(37, n_k, d_k, d_v));
    }
    cases.push(case_of(3, 4100, 16, 16));
    for case in cases {
        let (n_q, n_k) = (case.q.rows, case.k.rows);
        let plain = case.clone();
        let causal = Case { causal: Some(Position::BottomRight), ..case.clone() };
        let window = Window { left: Some(20), right: Some(3) };
        let window =
            Case { window: Some((Position::Offset(n_k as isize / 2), window)), ..case.clone() };
        let capped = Case {
            softcap: Some(3.0),
            temperature: 0.7,
            sink: Some(0.5),
            key_len: Some(n_k - n_k / 3),
            alibi: Some((Position::TopLeft, 0.1)),
            ..case.clone()
        };
        let bias = Matrix::from_fn(n_q, n_k, |i, j| {
            if (i + j) % 3 == 0 { f32::NEG_INFINITY } else { (i * j % 7) as f32 * 0.3 }
        });
        let biased = Case { bias: Some(bias), ..case };
        let named = [
            ("plain", plain),
            ("causal", causal),
            ("window", window),
            ("capped", capped),
            ("biased", biased),
        ];
        for (name, mut case) in named {
            let name =
                format!("{name} attention, {n_q} on {n_k}, d {} and {}", case.q.cols, case.v.cols);
            let outcome = case.run();
            results.add(format!("{name}: output"), outcome.out.data);
            results.add(format!("{name}: log-sum-exp"), outcome.log_sum_exp);
            results.add(format!("{name}: scores"), case.scores(Stage::Masked).data);
            results.add(format!("{name}: weights"), case.scores(Stage::Weights).data);
            // Values that are not finite are added key by key.
            case.v.set(n_k / 2, 0, f32::NAN);
            case.v.set(n_k - 1, case.v.cols - 1, f32::INFINITY);
            results
                .add(format!("{name}: output of values that are not finite"), case.run().out.data);
        }
    }
}

/// Calls the kernels that compute a row or an element at a time, for rows with and without a rest.
fn rows(results: &mut Results) {
    let random = &mut Random(3);
    let mut all: Vec<f32> =
        (0..1_000_000).map(|_| f32::from_bits(random.next() as u32) % 128.0).collect();
    exp(&mut all);
    results.add("exp of all magnitudes", all);
    for n in [1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 129, 256, 300, 1000] {
        let x = Matrix::random(3, n, 6.0, random);
        let y = Matrix::random(3, n, 1.0, random);
        let (a, b) = (x.row(0), y.row(0));
        results.add(
            format!("vectors of {n}"),
            vec![dot(a, b).unwrap(), norm(a), cosine_similarity(a, b).unwrap()],
        );
        let mut changed = |name: &str, change: &dyn Fn(&mut Matrix)| {
            let mut x = x.clone();
            change(&mut x);
            results.add(format!("{name} of {n}"), x.data);
        };
        changed("exp", &|x| exp(&mut x.data));
        changed("gelu", &|x| gelu(&mut x.data));
        changed("gelu_tanh", &|x| gelu_tanh(&mut x.data));
        changed("silu", &|x| silu(&mut x.data));
        changed("tanh", &|x| tanh(&mut x.data));
        changed("relu", &|x| relu(&mut x.data));
        changed("add", &|x| add(&mut x.data, &y.data).unwrap());
        changed("multiply", &|x| multiply(&mut x.data, &y.data).unwrap());
        changed("layer_norm", &|x| layer_norm(x.view_mut(), b, y.row(1), 1e-5).unwrap());
        changed("rms_norm", &|x| rms_norm(x.view_mut(), b, 1e-5).unwrap());
        for (name, temperature) in [("1", 1.0), ("0.3", 0.3), ("0", 0.0), ("∞", f32::INFINITY)] {
            let temperature = Temperature::new(temperature).unwrap();
            changed(&format!("softmax at temperature {name}"), &|x| {
                softmax(&mut x.data, temperature);
            });
            changed(&format!("log-sum-exp at temperature {name}"), &|x| {
                x.data = vec![softmax_with_log_sum_exp(&mut x.data, temperature)];
            });
        }
        if n.is_multiple_of(2) {
            let angles = Matrix::random(3, n / 2, 1.0, random);
            for pairing in [Pairing::Interleaved, Pairing::HalfSplit] {
                changed(&format!("rotate, {pairing:?},"), &|x| {
                    rotate(x.view_mut(), angles.view(), angles.view(), pairing).unwrap();
                });
            }
        }
    }
}

#[test]
fn tiers_that_round_a_multiply_add_alike_give_the_same_bits() {
    // `println!` would not show in a test that passes.
    let say = |text: &str| writeln!(io::stderr(), "{text}").unwrap();
    // The first tier without fused multiply-add, and the first with it.
    let mut first: [Option<(Tier, Results)>; 2] = [None, None];
    for &tier in Tier::ALL {
        if !tier.choose() {
            say(&format!("NOT TESTED: the tier {}, which this CPU or program lacks", tier.name()));
            continue;
        }
        assert_eq!(Tier::active(), tier);
        let first = &mut first[usize::from(is_fused())];
        let results = compute();
        let Some((other, expected)) = first else {
            *first = Some((tier, results));
            continue;
        };
        let (tier, other) = (tier.name(), other.name());
        for ((name, found), (_, expected)) in results.0.iter().zip(&expected.0) {
            assert_eq!(bits(found), bits(expected), "{name}: {tier} instead of {other}");
        }
        say(&format!("{} calls gave the same bits on {other} and {tier}", results.0.len()));
    }
}
