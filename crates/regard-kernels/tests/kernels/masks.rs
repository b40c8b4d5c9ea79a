//! Masks against the words of the contract, at ordinary places and at the ends of the number range.

use crate::common::{Case, Matrix, Random};
use proptest::prelude::*;
use regard_kernels::{Mask, Position, Window};

fn any_position(random: &mut Random) -> Position {
    match random.below(8) {
        0 | 1 => Position::TopLeft,
        2 | 3 => Position::BottomRight,
        4 => Position::Offset(isize::MAX - random.below(4) as isize),
        5 => Position::Offset(isize::MIN + random.below(4) as isize),
        _ => Position::Offset(random.below(40) as isize - 20),
    }
}

fn any_reach(random: &mut Random) -> Option<usize> {
    match random.below(5) {
        0 => None,
        1 => Some(usize::MAX - random.below(4)),
        _ => Some(random.below(12)),
    }
}

fn any_mask(seed: u64) -> Case {
    let random = &mut Random(seed);
    let (n_q, n_k) = (random.below(24), random.below(24));
    let mut case = Case::new(
        Matrix::filled(n_q, 1, 0.0),
        Matrix::filled(n_k, 1, 0.0),
        Matrix::filled(n_k, 1, 0.0),
    );
    case.causal = random.chance(60).then(|| any_position(random));
    case.window = random.chance(60).then(|| {
        let position = any_position(random);
        (position, Window { left: any_reach(random), right: any_reach(random) })
    });
    case.key_len = random.chance(40).then(|| random.below(n_k + 1));
    case.allowed = random.chance(30).then(|| Matrix::from_fn(n_q, n_k, |_, _| random.chance(70)));
    case.bias = random.chance(30).then(|| {
        Matrix::from_fn(n_q, n_k, |_, _| {
            [0.0, f32::NEG_INFINITY, f32::NAN, f32::INFINITY][random.below(4)]
        })
    });
    case
}

#[test]
fn no_mask_hides_nothing() {
    assert!((0..5).all(|i| (0..7).all(|j| Mask::NONE.sees(i, j, 5, 7))));
}

proptest! {
    #[test]
    fn a_mask_sees_what_the_contract_says(seed: u64) {
        let case = any_mask(seed);
        let (n_q, n_k) = (case.q.rows, case.k.rows);
        for i in 0..n_q {
            for j in 0..n_k {
                let sees = case.mask().sees(i, j, n_q, n_k);
                prop_assert_eq!(sees, case.sees(i, j), "query {} of {}, key {} of {}: {:?}", i, n_q, j, n_k, case.mask());
            }
        }
    }

    #[test]
    fn the_mask_of_some_rows_is_those_rows_of_the_mask(seed: u64) {
        let case = any_mask(seed);
        let (n_q, n_k) = (case.q.rows, case.k.rows);
        let random = &mut Random(!seed);
        let first = random.below(n_q + 1);
        let rows = random.below(n_q - first + 1);
        let part = case.mask().rows(first, rows, n_q, n_k);
        for i in 0..rows {
            for j in 0..n_k {
                prop_assert_eq!(part.sees(i, j, rows, n_k), case.sees(first + i, j), "row {} + {}: {:?}", first, i, case.mask());
            }
        }
    }
}
