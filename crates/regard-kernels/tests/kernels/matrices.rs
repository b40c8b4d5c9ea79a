//! A·B and A·Bᵀ against `f64`, over every small shape.

use crate::common::{self, Matrix, Random, assert_close, gamma};
use proptest::prelude::*;
use regard_kernels::{
    Mat, MatMut, Packed, Store, matmul, matmul_packed, matmul_transposed, naive, packed_len,
};

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    let mut out = Matrix::filled(a.rows, b.cols, f32::NAN);
    matmul(a.view(), b.view(), out.view_mut()).unwrap();
    out
}

fn product_transposed(a: &Matrix, b: &Matrix) -> Matrix {
    let mut out = Matrix::filled(a.rows, b.rows, f32::NAN);
    matmul_transposed(a.view(), b.view(), out.view_mut()).unwrap();
    out
}

#[track_caller]
fn check(m: usize, k: usize, n: usize, seed: u64) {
    let random = &mut Random(seed);
    let (a, b) = (Matrix::random(m, k, 1.0, random), Matrix::random(k, n, 1.0, random));
    let (out, columns) = (product(&a, &b), b.transposed());
    for i in 0..m {
        for j in 0..n {
            let (exact, size) = common::dot(a.row(i), columns.row(j));
            // One chain of k products and k sums.
            assert_close(
                out.at(i, j),
                exact,
                gamma(k + 1) * size,
                format_args!("{m} × {k} × {n} at [{i}, {j}]"),
            );
        }
    }
    assert_eq!(product_transposed(&a, &columns).bits(), out.bits(), "{m} × {k} × {n}, transposed");
    check_packed(&a, &b, &out, random);
}

/// Products with a packed B, from either layout, have the same bits. They can also be added to what `out` holds.
#[track_caller]
fn check_packed(a: &Matrix, b: &Matrix, expected: &Matrix, random: &mut Random) {
    let what = &format!("{} × {} × {}, packed", a.rows, a.cols, b.cols);
    let mut memory = vec![f32::NAN; packed_len(b.rows, b.cols)];
    let packed = Packed::pack(b.view(), &mut memory).unwrap();
    let mut out = Matrix::filled(a.rows, b.cols, f32::NAN);
    matmul_packed(a.view(), packed, out.view_mut(), Store::Set).unwrap();
    assert_eq!(out.bits(), expected.bits(), "{what}");

    let mut again = vec![f32::NAN; memory.len()];
    let packed = Packed::pack_transposed(b.transposed().view(), &mut again).unwrap();
    let there = Matrix::random(a.rows, b.cols, 5.0, random);
    let mut out = there.clone();
    matmul_packed(a.view(), packed, out.view_mut(), Store::Add).unwrap();
    assert_eq!(memory, again, "{what}");
    let columns = b.transposed();
    for i in 0..a.rows {
        for j in 0..b.cols {
            let ((exact, size), start) =
                (common::dot(a.row(i), columns.row(j)), f64::from(there.at(i, j)));
            assert_close(
                out.at(i, j),
                exact + start,
                gamma(a.cols + 1) * (size + start.abs()),
                what,
            );
        }
    }
}

/// A row, a column and an element of a product have the same bits when they are computed alone.
#[track_caller]
fn check_alone(m: usize, k: usize, n: usize, seed: u64) {
    let random = &mut Random(seed);
    let (a, b) = (Matrix::random(m, k, 1.0, random), Matrix::random(k, n, 1.0, random));
    let whole = product(&a, &b);
    for _ in 0..5 {
        let (row, column) = ([random.below(m)], [random.below(n)]);
        let (one_row, one_column) = (a.pick(&row), b.pick_cols(&column));
        let (of_row, of_column) = (whole.pick(&row), whole.pick_cols(&column));
        assert_eq!(product(&one_row, &b).bits(), of_row.bits(), "row {row:?}");
        assert_eq!(product(&a, &one_column).bits(), of_column.bits(), "column {column:?}");
        let element = product(&one_row, &one_column);
        assert_eq!(element.bits(), of_row.pick_cols(&column).bits(), "{row:?}, {column:?}");
    }
}

#[test]
fn every_small_shape() {
    let rows = if cfg!(miri) { vec![0, 1, 7] } else { (0..=13).collect() };
    let depths = if cfg!(miri) { vec![0, 33] } else { vec![0, 1, 2, 3, 5, 16, 31, 32, 33, 64, 65] };
    let cols = if cfg!(miri) { vec![0, 17] } else { (0..=34).collect() };
    for &m in &rows {
        for &k in &depths {
            for &n in &cols {
                check(m, k, n, 1);
            }
        }
    }
}

#[test]
fn packed_products_of_more_rows_columns_and_steps_than_fit_a_cache() {
    for (m, k, n) in [(300, 600, 70), (13, 256, 300), (257, 257, 17), (150, 1100, 300)] {
        if !cfg!(miri) {
            check(m, k, n, 8);
            check_alone(m, k, n, 4);
        }
    }
}

#[test]
fn a_stride_of_zero_repeats_a_row() {
    let row = [1.0, 2.0, 3.0];
    let a = Mat::strided(&row, 8, 3, 0).unwrap();
    let mut out = Matrix::filled(8, 3, f32::NAN);
    matmul(a, Mat::from(&[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), out.view_mut())
        .unwrap();
    assert_eq!(out.data, row.repeat(8));
}

#[test]
fn nan_stays_in_its_row_of_a_and_its_column_of_b() {
    let random = &mut Random(6);
    let (clean_a, clean_b) =
        (Matrix::random(9, 40, 1.0, random), Matrix::random(40, 21, 1.0, random));
    let clean = product(&clean_a, &clean_b);
    let (mut a, mut b) = (clean_a, clean_b);
    a.set(4, 33, f32::NAN);
    b.set(7, 18, f32::NAN);
    let out = product(&a, &b);
    for i in 0..9 {
        for j in 0..21 {
            let hit = i == 4 || j == 18;
            assert!(
                if hit { out.at(i, j).is_nan() } else { out.at(i, j) == clean.at(i, j) },
                "[{i}, {j}]"
            );
        }
    }
    assert_eq!(
        common::bits(&product_transposed(&a, &b.transposed()).data),
        common::bits(&out.data)
    );
}

#[test]
fn the_naive_loops_agree() {
    let random = &mut Random(8);
    let (a, b) = (Matrix::random(5, 30, 1.0, random), Matrix::random(30, 9, 1.0, random));
    let mut out = Matrix::filled(5, 9, f32::NAN);
    naive::matmul(a.view(), b.view(), out.view_mut());
    let (found, columns) = (product(&a, &b), b.transposed());
    // Each is within γ₃₀ times the sum of magnitudes from the exact one.
    let tolerance = |a: &[f32], b: &[f32]| 2.0 * common::gamma(30) * common::dot(a, b).1;
    for i in 0..5 {
        for c in 0..9 {
            let tolerance = tolerance(a.row(i), columns.row(c));
            common::assert_close(out.at(i, c), f64::from(found.at(i, c)), tolerance, "product");
        }
    }
    let (x, y) = (a.row(0), a.row(1));
    let expected = regard_kernels::dot(x, y).unwrap();
    common::assert_close(naive::dot(x, y), f64::from(expected), tolerance(x, y), "dot");
}

proptest! {
    #[test]
    fn any_shape(m in 0_usize..40, k in 0_usize..140, n in 0_usize..70, seed: u64) {
        check(m, k, n, seed);
    }

    #[test]
    fn an_element_depends_on_its_row_and_column_alone(m in 1_usize..20, k in 0_usize..70, n in 1_usize..40, seed: u64) {
        check_alone(m, k, n, seed);
    }
}

#[test]
fn a_product_over_no_column_is_zero_whatever_the_stride() {
    let a = Mat::strided(&[], 13, 0, usize::MAX).unwrap();
    let mut out = [[7.0; 3]; 13];
    matmul(a, Mat::strided(&[], 0, 3, usize::MAX).unwrap(), MatMut::from(&mut out)).unwrap();
    assert_eq!(out, [[0.0; 3]; 13]);
}

#[test]
fn no_rows_times_any_number_of_columns_takes_no_time() {
    const MANY: usize = usize::MAX >> 8; // a loop over 2⁵⁶ columns would not end
    let none = Mat::new(&[], 0, 0).unwrap();
    let wide = || MatMut::new(&mut [], 0, MANY).unwrap();
    matmul(none, Mat::new(&[], 0, MANY).unwrap(), wide()).unwrap();
    matmul_transposed(none, Mat::new(&[], MANY, 0).unwrap(), wide()).unwrap();
}
