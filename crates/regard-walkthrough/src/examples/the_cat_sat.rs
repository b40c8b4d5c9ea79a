use super::{matrix, self_attention, small_torch_randn};
use crate::Error;
use crate::attend::Head;
use crate::inputs::Input;
use crate::random::TorchRng;
use crate::trace::Trace;

/// X is given; `torch.manual_seed(42)`; W_Q, W_K, W_V = randn(4, 4) * 0.1.
pub(super) fn inputs() -> Vec<Input> {
    drawn_with(&mut TorchRng::seed(42))
}

pub(super) fn drawn_with(rng: &mut TorchRng) -> Vec<Input> {
    let x = matrix(&[[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]]);
    let mut inputs = vec![Input::given("x", x)];
    inputs.extend(["w_q", "w_k", "w_v"].map(|key| small_torch_randn(rng, key, 4, 4)));
    inputs
}

/// Plain beside causal. With several heads there is no twin: the mask can be switched.
pub(super) fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    let [q, k, v] = self_attention(trace)?;
    if !trace.settings.hides() && trace.inputs.heads() == 1 {
        let tokens = trace.tokens.clone();
        Head::of_all(&tokens).causal_twin(trace, &q, &k, &v)?;
    }
    Ok(())
}
