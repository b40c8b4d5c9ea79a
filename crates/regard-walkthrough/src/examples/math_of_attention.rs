use super::torch_randn;
use crate::inputs::Input;
use crate::random::TorchRng;

/// `torch.manual_seed(42)`; X = randn(4, 8); W_Q, W_K, W_V = randn(8, 8).
pub(super) fn inputs() -> Vec<Input> {
    let mut rng = TorchRng::seed(42);
    let matrices = [("x", 4), ("w_q", 8), ("w_k", 8), ("w_v", 8)];
    let draw = |(key, rows)| {
        Input::drawn(key, torch_randn(&mut rng, rows, 8).map(f64::from), "PyTorch, seed 42")
    };
    matrices.map(draw).into()
}
