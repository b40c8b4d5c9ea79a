//! Layer norm, RMS norm, residual sums and rotary position embedding against `f64`.

use crate::common::{Matrix, Random, U, assert_close, bits, gamma};
use proptest::prelude::*;
use regard_kernels::{
    MatMut, Pairing, add, add_row, fixed, layer_norm, multiply, rms_norm, rotate,
};

/// Numbers around `centre`, γ and β.
fn input(n: usize, d: usize, centre: f32, random: &mut Random) -> (Matrix, Vec<f32>, Vec<f32>) {
    let x = Matrix::from_fn(n, d, |_, _| centre + random.within(2.0));
    let mut row = || (0..d).map(|_| random.within(2.0)).collect();
    (x, row(), row())
}

#[track_caller]
fn check_layer_norm(x: &Matrix, g: &[f32], b: &[f32], epsilon: f32) {
    let mut found = x.clone();
    layer_norm(found.view_mut(), g, b, epsilon).unwrap();
    let d = x.cols as f64;
    for i in 0..x.rows {
        let row: Vec<f64> = x.row(i).iter().map(|x| f64::from(*x)).collect();
        let mean = row.iter().sum::<f64>() / d;
        let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / d;
        let factor = 1.0 / (variance + f64::from(epsilon)).sqrt();
        let largest = row.iter().fold(0.0_f64, |m, x| m.max((x - mean).abs()));
        for c in 0..x.cols {
            let (g, b) = (f64::from(g[c]), f64::from(b[c]));
            let expected = (row[c] - mean) * factor * g + b;
            // Every x − mean is rounded relative to the largest of them, wherever the row lies. The variance is a sum of d such
            // squares.
            let tolerance = gamma(x.cols + 12) * largest * factor * g.abs() + U * expected.abs();
            let what = format_args!("[{i}, {c}] of {} columns", x.cols);
            assert_close(found.at(i, c), expected, tolerance, what);
        }
    }
}

#[track_caller]
fn check_rms_norm(x: &Matrix, g: &[f32], epsilon: f32) {
    let mut found = x.clone();
    rms_norm(found.view_mut(), g, epsilon).unwrap();
    for i in 0..x.rows {
        let row: Vec<f64> = x.row(i).iter().map(|x| f64::from(*x)).collect();
        let square = row.iter().map(|x| x * x).sum::<f64>() / x.cols as f64;
        for c in 0..x.cols {
            let expected = row[c] / (square + f64::from(epsilon)).sqrt() * f64::from(g[c]);
            let (found, tolerance) = (found.at(i, c), gamma(x.cols + 6) * expected.abs());
            assert_close(found, expected, tolerance, format_args!("[{i}, {c}]"));
        }
    }
}

proptest! {
    #[test]
    fn norms_are_their_formulas(n in 0_usize..5, d in 0_usize..200, seed: u64, far in 0_usize..4) {
        let centre = [0.0, 3.0, -1e3, 1e6][far];
        let (x, g, b) = input(n, d, centre, &mut Random(seed));
        // All numbers of the row are equal, so its variance is 0. ε alone keeps the result finite.
        for epsilon in [1e-12, 1e-5] {
            check_layer_norm(&x, &g, &b, epsilon);
            check_rms_norm(&x, &g, epsilon);
        }
    }

    #[test]
    fn rotation_is_its_formula(n in 0_usize..5, pairs in 0_usize..40, half_split: bool, seed: u64) {
        let random = &mut Random(seed);
        let x = Matrix::random(n, 2 * pairs, 3.0, random);
        let angles = Matrix::random(n, pairs, 4.0, random);
        let of_angles = |f: fn(f32) -> f32| Matrix::from_fn(n, pairs, |i, j| f(angles.at(i, j)));
        let (cos, sin) = (of_angles(f32::cos), of_angles(f32::sin));
        let pairing = if half_split { Pairing::HalfSplit } else { Pairing::Interleaved };
        let mut found = x.clone();
        rotate(found.view_mut(), cos.view(), sin.view(), pairing).unwrap();
        for t in 0..n {
            for i in 0..pairs {
                let (first, second) = if half_split { (i, i + pairs) } else { (2 * i, 2 * i + 1) };
                let [a, b, c, s] = [x.at(t, first), x.at(t, second), cos.at(t, i), sin.at(t, i)].map(f64::from);
                let tolerance = 2.0 * U * (a.abs() + b.abs());
                assert_close(found.at(t, first), a * c - b * s, tolerance, "first of a pair");
                assert_close(found.at(t, second), b * c + a * s, tolerance, "second of a pair");
            }
        }
    }
}

#[test]
fn a_row_is_the_same_among_any_number_of_rows_and_through_either_door() {
    const N: usize = 7;
    const D: usize = 37;
    let (x, g, b) = input(N, D, 1.0, &mut Random(3));
    let (mut by_layer, mut by_rms) = (x.clone(), x.clone());
    layer_norm(by_layer.view_mut(), &g, &b, 1e-5).unwrap();
    rms_norm(by_rms.view_mut(), &g, 1e-5).unwrap();
    for i in 0..N {
        let (mut layer, mut rms) = (x.pick(&[i]), x.pick(&[i]));
        layer_norm(layer.view_mut(), &g, &b, 1e-5).unwrap();
        rms_norm(rms.view_mut(), &g, 1e-5).unwrap();
        assert_eq!(layer.bits(), by_layer.pick(&[i]).bits());
        assert_eq!(rms.bits(), by_rms.pick(&[i]).bits());
    }
    let array: [[f32; D]; N] = core::array::from_fn(|i| x.row(i).try_into().unwrap());
    let (mut layer, mut rms) = (array, array);
    let (g, b) = (g.first_chunk::<D>().unwrap(), b.first_chunk::<D>().unwrap());
    fixed::layer_norm(&mut layer, g, b, 1e-5);
    fixed::rms_norm(&mut rms, g, 1e-5);
    assert_eq!(bits(layer.as_flattened()), by_layer.bits());
    assert_eq!(bits(rms.as_flattened()), by_rms.bits());
}

#[test]
fn what_is_constant_becomes_beta() {
    let mut x = [[5.0, 5.0, 5.0], [-1e6, -1e6, -1e6]];
    fixed::layer_norm(&mut x, &[3.0, 4.0, 5.0], &[0.1, 0.2, 0.3], 1e-12);
    assert_eq!(x, [[0.1, 0.2, 0.3]; 2]);
    let mut zeros = [[0.0; 20]];
    fixed::rms_norm(&mut zeros, &[3.0; 20], 1e-6);
    assert_eq!(zeros, [[0.0; 20]]);
}

#[test]
fn sums_and_products_are_those_of_their_elements() {
    let random = &mut Random(5);
    for len in 0..50 {
        let (x, y) =
            (Matrix::random(1, len, 9.0, random).data, Matrix::random(1, len, 9.0, random).data);
        let (mut sum, mut product) = (x.clone(), x.clone());
        add(&mut sum, &y).unwrap();
        multiply(&mut product, &y).unwrap();
        for i in 0..len {
            assert_eq!((sum[i], product[i]), (x[i] + y[i], x[i] * y[i]));
        }
        // There are gaps between the rows, whose contents must stay.
        let mut rows = vec![7.0; 3 * (len + 2)];
        add_row(MatMut::strided(&mut rows, 3, len, len + 2).unwrap(), &y).unwrap();
        for row in rows.chunks(len + 2) {
            assert!(row[..len].iter().zip(&y).all(|(found, y)| *found == 7.0 + y));
            assert_eq!(row[len..], [7.0; 2]);
        }
    }
}
