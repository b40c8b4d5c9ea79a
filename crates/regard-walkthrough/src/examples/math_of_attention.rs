use super::{Entry, Group, Start, self_attention, torch_randn};
use crate::Quantity;
use crate::input::Input;
use crate::random::TorchRng;

pub(super) const ENTRY: Entry = Entry {
    title: "The math of attention",
    summary: "Four tokens of eight random numbers (PyTorch, seed 42). The scores are so large that softmax picks one token.",
    group: Group::Attention,
    tokens: "t0 t1 t2 t3",
    start: Start::Given(inputs),
    run: self_attention,
    ..Entry::PLAIN
};

/// `torch.manual_seed(42)`; X = randn(4, 8); W_Q, W_K, W_V = randn(8, 8).
pub(super) fn inputs() -> Vec<Input> {
    let mut rng = TorchRng::seed(42);
    let matrices = [(Quantity::X, 4), (Quantity::WQ, 8), (Quantity::WK, 8), (Quantity::WV, 8)];
    let draw = |(key, rows)| {
        Input::drawn(key, torch_randn(&mut rng, rows, 8).map(f64::from), "PyTorch, seed 42")
    };
    matrices.map(draw).into()
}
