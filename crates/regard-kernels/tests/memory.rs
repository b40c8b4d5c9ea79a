//! Every kernel at every remainder of a tile, on views that end where their memory ends. Miri runs this and finds any access
//! outside. Natively the results and the memory beside them are compared, which would take too long under Miri.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

mod common;

use common::{Case, Matrix, Random, SHAPES, assert_close, bits, gamma};
use regard_kernels::{
    Attention, Mat, MatMut, Position, Stage, Temperature, Tier, Window, attention_scratch_len,
    cosine_similarity, dot, fixed, internal::multiply_add_rounds, matmul, matmul_transposed, norm,
    softmax,
};

/// A matrix with a gap of NaN after each row but the last, which ends with the memory.
struct Strided {
    data: Box<[f32]>,
    rows: usize,
    cols: usize,
    stride: usize,
}

impl Strided {
    const GAP: usize = 3;

    fn new(m: &Matrix) -> Self {
        let stride = m.cols + Self::GAP;
        let len = if m.rows == 0 || m.cols == 0 { 0 } else { (m.rows - 1) * stride + m.cols };
        let at =
            |i: usize| if i % stride < m.cols { m.at(i / stride, i % stride) } else { f32::NAN };
        Self { data: (0..len).map(at).collect(), rows: m.rows, cols: m.cols, stride }
    }

    fn filled(rows: usize, cols: usize, x: f32) -> Self {
        Self::new(&Matrix::filled(rows, cols, x))
    }

    fn view(&self) -> Mat<'_> {
        Mat::strided(&self.data, self.rows, self.cols, self.stride).unwrap()
    }

    fn view_mut(&mut self) -> MatMut<'_> {
        MatMut::strided(&mut self.data, self.rows, self.cols, self.stride).unwrap()
    }

    #[track_caller]
    fn assert_is(&self, expected: &Matrix, what: &str) {
        assert_eq!(bits(&self.data), bits(&Self::new(expected).data), "{what}");
    }
}

#[test]
fn products() {
    let random = &mut Random(1);
    // Shapes with more depth than one part of a packed matrix, more rows than one group, and more columns than one panel.
    let mut shapes = vec![(0, 3, 5), (3, 0, 20), (3, 5, 0), (13, 2, 50), (6, 65, 16), (1, 40, 49)];
    let depths = if cfg!(miri) { vec![5] } else { vec![1, 2, 31, 32, 33, 100] };
    for k in depths {
        shapes.extend([
            (1, k, 1),
            (2, k, 15),
            (3, k, 16),
            (4, k, 17),
            (5, k, 31),
            (6, k, 33),
            (7, k, 8),
        ]);
    }
    for (m, k, n) in shapes {
        let what = &format!("{m} × {k} × {n}");
        let (a, bt) = (Matrix::random(m, k, 1.0, random), Matrix::random(n, k, 1.0, random));
        let (sa, sb, sbt) = (Strided::new(&a), Strided::new(&bt.transposed()), Strided::new(&bt));
        let (mut product, mut transposed) =
            (Strided::filled(m, n, 7.0), Strided::filled(m, n, 7.0));
        matmul(sa.view(), sb.view(), product.view_mut()).unwrap();
        matmul_transposed(sa.view(), sbt.view(), transposed.view_mut()).unwrap();
        if cfg!(miri) {
            continue;
        }
        let mut dense = Matrix::filled(m, n, 7.0);
        matmul(a.view(), bt.transposed().view(), dense.view_mut()).unwrap();
        product.assert_is(&dense, what);
        transposed.assert_is(&dense, what);
    }
}

/// Compares all results of an attention on strided views with those on dense ones, and these with the reference.
fn check_attention(case: &Case) {
    let (q, k, v) = (Strided::new(&case.q), Strided::new(&case.k), Strided::new(&case.v));
    let scratch =
        || vec![f32::NAN; attention_scratch_len(q.rows, k.rows, q.cols, v.cols)].into_boxed_slice();
    let mut out = Strided::filled(q.rows, v.cols, 7.0);
    let mut log_sum_exp = vec![7.0; q.rows].into_boxed_slice();
    case.attention()
        .forward_with_log_sum_exp(
            q.view(),
            k.view(),
            v.view(),
            out.view_mut(),
            &mut log_sum_exp,
            &mut scratch(),
        )
        .unwrap();
    let scores = |stage| {
        let mut scores = Strided::filled(q.rows, k.rows, 7.0);
        case.attention()
            .scores(stage, q.view(), k.view(), scores.view_mut(), &mut scratch())
            .unwrap();
        scores
    };
    if cfg!(miri) {
        scores(Stage::Weights);
        return;
    }

    let what = &format!("{} queries, {} keys, d {} and {}", q.rows, k.rows, q.cols, v.cols);
    let dense = case.run();
    out.assert_is(&dense.out, what);
    assert_eq!(bits(&log_sum_exp), bits(&dense.log_sum_exp), "{what}");
    case.attention().forward(q.view(), k.view(), v.view(), out.view_mut(), &mut scratch()).unwrap();
    out.assert_is(&dense.out, what);
    for stage in [Stage::Raw, Stage::Softcapped, Stage::Masked, Stage::Weights] {
        scores(stage).assert_is(&case.scores(stage), what);
    }
}

#[test]
fn attention_of_every_shape() {
    let random = &mut Random(2);
    let mut shapes = SHAPES.to_vec();
    if !cfg!(miri) {
        for n_q in 1..14 {
            shapes.extend([(n_q, 16, 16, 16), (n_q, 65, 24, 40), (n_q, 129, 64, 64)]);
        }
    }
    for (n_q, n_k, d_k, d_v) in shapes {
        check_attention(&Case::random(n_q, n_k, d_k, d_v, random));
    }
}

#[test]
fn attention_with_every_mask() {
    let random = &mut Random(3);
    let (n_q, n_k) = (5, 66);
    let case = Case::random(n_q, n_k, 3, 5, random);
    let window = Window { left: Some(4), right: Some(1) };
    let hides = |i: usize, j: usize| (i * 5 + j).is_multiple_of(3);
    for masked in [
        Case { causal: Some(Position::TopLeft), ..case.clone() },
        Case { causal: Some(Position::BottomRight), ..case.clone() },
        Case {
            causal: Some(Position::Offset(62)),
            window: Some((Position::Offset(10), window)),
            ..case.clone()
        },
        Case { key_len: Some(18), softcap: Some(2.0), ..case.clone() },
        Case { allowed: Some(Matrix::from_fn(n_q, n_k, hides)), temperature: 0.3, ..case.clone() },
        Case {
            bias: Some(Matrix::from_fn(n_q, n_k, |i, j| {
                if hides(i, j) { f32::NEG_INFINITY } else { 0.25 }
            })),
            scale: Some(-0.7),
            ..case.clone()
        },
    ] {
        check_attention(&masked);
        // Values that are not finite take the slow path.
        let mut broken = masked;
        broken.v.set(n_k - 1, 4, f32::NAN);
        broken.v.set(3, 0, f32::INFINITY);
        check_attention(&broken);
    }
    // The limits of temperature.
    for temperature in [0.0, f32::INFINITY] {
        let weights = Case { temperature, ..case.clone() }.scores(Stage::Weights);
        assert!(weights.data.iter().all(|w| w.is_finite()));
    }
}

#[test]
fn vectors_and_softmax() {
    let random = &mut Random(4);
    let lengths: Vec<usize> =
        if cfg!(miri) { vec![0, 1, 15, 16, 17, 63, 64, 65, 130] } else { (0..300).collect() };
    for len in lengths {
        let [x, y]: [Box<[f32]>; 2] =
            core::array::from_fn(|_| (0..len).map(|_| random.within(2.0)).collect());
        let (exact, size) = common::dot(&x, &y);
        assert_close(dot(&x, &y).unwrap(), exact, gamma(len + 1) * size, "dot");
        let square = common::dot(&x, &x).0;
        assert_close(norm(&x), square.sqrt(), gamma(len + 3) * square.sqrt(), "norm");
        assert!(cosine_similarity(&x, &y).unwrap().abs() <= 1.0);

        let wide: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        for t in [0.0, 0.5, f32::INFINITY] {
            let mut weights = x.clone();
            softmax(&mut weights, Temperature::new(t).unwrap());
            for (found, exact) in weights.iter().zip(common::softmax(&wide, f64::from(t)).0) {
                assert_close(*found, exact, gamma(len + 30) * exact, "weight");
            }
        }
    }
}

#[test]
fn the_fixed_door() {
    fn check<const N: usize, const D: usize, const SCRATCH: usize>() {
        let random = &mut Random(5);
        let x: Box<[[f32; D]; N]> =
            Box::new(core::array::from_fn(|_| core::array::from_fn(|_| random.within(1.0))));
        let transposed: Box<[[f32; N]; D]> =
            Box::new(core::array::from_fn(|c| core::array::from_fn(|i| x[i][c])));
        let scores = fixed::matmul_transposed(&x, &x);
        assert_eq!(
            bits(fixed::matmul(&x, &transposed).as_flattened()),
            bits(scores.as_flattened())
        );
        let (mut out, mut scratch) = (Box::new([[7.0; D]; N]), Box::new([f32::NAN; SCRATCH]));
        fixed::attention(&Attention::new(), &x, &x, &x, &mut out, &mut scratch).unwrap();
        // The outputs are means of numbers within ±1; three roundings and the sums of weights move them.
        assert!(out.as_flattened().iter().all(|x| x.abs() <= 1.0 + gamma(2 * N + 3) as f32));
    }
    check::<1, 1, { attention_scratch_len(1, 1, 1, 1) }>();
    check::<4, 8, { attention_scratch_len(4, 4, 8, 8) }>();
    check::<7, 17, { attention_scratch_len(7, 7, 17, 17) }>();
    check::<16, 16, { attention_scratch_len(16, 16, 16, 16) }>();
}

#[test]
fn the_measure_of_the_peak() {
    let (multiply_adds, sum) = multiply_add_rounds(3);
    assert!(multiply_adds > 0 && sum.is_finite());
}

#[test]
fn what_was_compiled_for_avx2_runs_on_it() {
    // Under Miri the CPU has only the features of the compilation. Without this check both runs might use the portable tier.
    if cfg!(all(target_feature = "avx2", target_feature = "fma")) {
        assert_eq!(Tier::active(), Tier::Avx2);
    }
}
