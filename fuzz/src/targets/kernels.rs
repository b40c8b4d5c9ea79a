//! Attention of the kernels, compared with the tests' reference in `f64`: shapes, strides, masks, options, and numbers of any
//! bits.
//!
//! If all numbers are finite and so small that no sum overflows, the result must be within the tests' bound of the reference.
//! For any other bits, the numbers that the masks hide from a query must not change the query's row.

#[path = "../../../crates/regard-kernels/tests/common/mod.rs"]
mod common;

use arbitrary::{Arbitrary as _, Result, Unstructured};
use common::{Case, Matrix, bits};
use regard_kernels::{Mat, MatMut, Position, Stage, Window, matmul};

/// A number of any bits, or one of moderate size.
fn number(u: &mut Unstructured<'_>, moderate: bool) -> Result<f32> {
    let bits = u32::arbitrary(u)?;
    let small = (bits >> 8) as f32 / 2_097_152.0 - 4.0;
    Ok(if moderate { small } else { f32::from_bits(bits) })
}

fn matrix(u: &mut Unstructured<'_>, rows: usize, cols: usize, moderate: bool) -> Result<Matrix> {
    // An input has only a few bytes. They seed a generator for the other numbers.
    let mut random = common::Random(u64::arbitrary(u)?);
    let own = rows * cols <= 64;
    let mut failed = None;
    let matrix = Matrix::from_fn(rows, cols, |_, _| {
        if own {
            number(u, moderate).unwrap_or_else(|e| {
                failed = Some(e);
                0.0
            })
        } else if moderate {
            random.within(4.0)
        } else {
            f32::from_bits(random.next() as u32)
        }
    });
    failed.map_or(Ok(matrix), Err)
}

fn position(u: &mut Unstructured<'_>) -> Result<Position> {
    Ok(match u.int_in_range(0..=3)? {
        0 => Position::TopLeft,
        1 => Position::BottomRight,
        2 => Position::Offset(isize::arbitrary(u)?),
        _ => Position::Offset(u.int_in_range(-40..=40)?),
    })
}

fn option<T>(
    u: &mut Unstructured<'_>,
    make: impl FnOnce(&mut Unstructured<'_>) -> Result<T>,
) -> Result<Option<T>> {
    if u.ratio(1, 3)? { make(u).map(Some) } else { Ok(None) }
}

fn case(u: &mut Unstructured<'_>, moderate: bool) -> Result<Case> {
    let n_q = u.int_in_range(0..=18)?;
    let n_k = *u.choose(&[0, 1, 2, 3, 7, 15, 16, 17, 63, 64, 65, 100, 257])?;
    let (d_k, d_v) = (u.int_in_range(0..=34)?, u.int_in_range(0..=34)?);
    let mut case = Case::new(
        matrix(u, n_q, d_k, moderate)?,
        matrix(u, n_k, d_k, moderate)?,
        matrix(u, n_k, d_v, moderate)?,
    );
    case.causal = option(u, position)?;
    case.window = option(u, |u| {
        let side = |u: &mut Unstructured<'_>| option(u, |u| u.int_in_range(0..=70));
        Ok((position(u)?, Window { left: side(u)?, right: side(u)? }))
    })?;
    case.key_len = option(u, |u| u.int_in_range(0..=n_k))?;
    case.allowed = option(u, |u| {
        let (mut random, hidden) = (common::Random(u64::arbitrary(u)?), u.int_in_range(0..=100)?);
        Ok(Matrix::from_fn(n_q, n_k, |_, _| !random.chance(hidden)))
    })?;
    case.bias = option(u, |u| matrix(u, n_q, n_k, moderate))?;
    // A slope times a distance of 2⁶³ keys would leave the range of the bound.
    case.alibi =
        option(u, |u| Ok((Position::Offset(u.int_in_range(-40..=40)?), number(u, true)?)))?;
    case.scale = option(u, |u| number(u, moderate))?.filter(|scale| scale.is_finite());
    case.softcap = option(u, |u| Ok(number(u, true)?.abs() + 0.01))?;
    case.sink = option(u, |u| number(u, true))?;
    case.temperature = *u.choose(&[1.0, 1.0, 0.05, 2.0, 1e6])?;
    Ok(case)
}

/// Rows and columns that are `stride` apart give the bits of contiguous ones. A view outside its slice is an error.
fn strided(u: &mut Unstructured<'_>, case: &Case) -> Result<()> {
    let (a, b) = (&case.q, case.k.transposed());
    let mut expected = Matrix::filled(a.rows, b.cols, f32::NAN);
    matmul(a.view(), b.view(), expected.view_mut()).expect("the shapes fit");
    let gap = u.int_in_range(0..=3)?;
    let stride = a.cols + gap;
    let mut spread = vec![f32::NAN; a.rows * stride];
    for i in 0..a.rows {
        spread[i * stride..][..a.cols].copy_from_slice(a.row(i));
    }
    let view = Mat::strided(&spread, a.rows, a.cols, stride).expect("the view fits");
    let mut found = Matrix::filled(a.rows, b.cols, f32::NAN);
    matmul(view, b.view(), found.view_mut()).expect("the shapes fit");
    assert_eq!(bits(&found.data), bits(&expected.data));
    let [rows, cols, stride] = <[usize; 3]>::arbitrary(u)?;
    let mut numbers = [0.0_f32; 64];
    for (rows, cols, stride) in [(rows, cols, stride), (rows % 16, cols % 16, stride % 32)] {
        if let Ok(view) = Mat::strided(&numbers, rows, cols, stride) {
            assert!((0..rows.min(64)).all(|i| view.row(i).len() == cols));
        }
        let _ = MatMut::strided(&mut numbers, rows, cols, stride);
    }
    Ok(())
}

pub(crate) fn fuzz(data: &[u8]) -> crate::Outcome {
    let mut u = Unstructured::new(data);
    let moderate = bool::arbitrary(&mut u)?;
    let mut case = case(&mut u, moderate)?;
    strided(&mut u, &case)?;
    let _ = case.scores(Stage::Weights);
    if moderate {
        case.assert_matches_reference();
        return Ok(());
    }
    // The numbers that a query does not see must not change its row.
    let i = u.int_in_range(0..=case.q.rows)?;
    let before = case.run();
    if i == case.q.rows {
        return Ok(());
    }
    for j in (0..case.k.rows).filter(|j| !case.sees(i, *j)).collect::<Vec<_>>() {
        (0..case.k.cols).for_each(|c| case.k.set(j, c, f32::NAN));
        (0..case.v.cols).for_each(|c| case.v.set(j, c, f32::INFINITY));
    }
    let after = case.run();
    assert_eq!(bits(after.out.row(i)), bits(before.out.row(i)));
    assert_eq!(bits(&after.log_sum_exp[i..=i]), bits(&before.log_sum_exp[i..=i]));
    Ok(())
}
