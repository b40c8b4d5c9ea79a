use rand_mt::Mt;

use crate::Matrix;
use crate::inputs::{Input, Sizes};

/// As [`Inputs::seeded`](crate::Inputs::seeded) says.
pub(super) fn inputs(tokens: usize, Sizes { d_model, d_k, seed }: Sizes, heads: usize) -> Vec<Input> {
    let mut twister = Mt::new(seed);
    let mut draw = |rows: usize, cols: usize, divisor: f64| {
        Matrix::from_fn(rows, cols, |_, _| {
            let sum: f64 = (0..12).map(|_| f64::from(twister.next_u32()) / 4_294_967_296.0).sum();
            f64::from(((sum - 6.0) / divisor) as f32)
        })
    };
    let x = draw(tokens, d_model, 1.0);
    let root = (d_model as f64).sqrt();
    let [mut w_q, mut w_k, mut w_v] = [(); 3].map(|()| Matrix::from_fn(d_model, heads * d_k, |_, _| 0.0));
    let mut w_o = Matrix::from_fn(heads * d_k, d_model, |_, _| 0.0);
    for h in 0..heads {
        for w in [&mut w_q, &mut w_k, &mut w_v] {
            let share = draw(d_model, d_k, root);
            for i in 0..d_model {
                w.row_mut(i)[h * d_k..][..d_k].copy_from_slice(share.row(i));
            }
        }
        let share = draw(d_k, d_model, root);
        for i in 0..d_k {
            w_o.row_mut(h * d_k + i).copy_from_slice(share.row(i));
        }
    }
    let generator = format!("seed {seed}");
    let matrices = [("x", x), ("w_q", w_q), ("w_k", w_k), ("w_v", w_v), ("w_o", w_o)];
    matrices.map(|(key, values)| Input::drawn(key, values, &generator)).into()
}
