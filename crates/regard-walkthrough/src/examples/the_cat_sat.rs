use super::{Entry, Group, Start, attend_to_itself, matrix, small_torch_randn};
use crate::attend::Head;
use crate::input::Input;
use crate::project::give_tokens_and_weights;
use crate::random::TorchRng;
use crate::trace::Trace;
use crate::{Error, Quantity};

pub(super) const ENTRY: Entry = Entry {
    title: "The cat sat",
    summary: "Three tokens and small random projection matrices (PyTorch, seed 42), with and without the causal mask. The matrices are random numbers times 0.1, so the scores are near 0, and softmax of equal scores is uniform: every weight is near 1/3. Lower the temperature to see which token each query prefers.",
    group: Group::Attention,
    tokens: "The cat sat",
    start: Start::Given(inputs),
    run,
    ..Entry::PLAIN
};

/// X is given; `torch.manual_seed(42)`; W_Q, W_K, W_V = randn(4, 4) * 0.1.
fn inputs() -> Vec<Input> {
    let rng = &mut TorchRng::seed(42);
    let x = matrix(&[[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]]);
    let mut inputs = vec![Input::given(Quantity::X, x)];
    inputs.extend(
        [Quantity::WQ, Quantity::WK, Quantity::WV].map(|key| small_torch_randn(rng, key, 4, 4)),
    );
    inputs
}

/// Adds the causal attention beside the plain one, if there is one head and no mask.
fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    let (x, w) = give_tokens_and_weights(trace)?;
    let [q, k, v] = attend_to_itself(trace, &x, &w)?;
    if !trace.settings.hides() && trace.inputs.heads() == 1 {
        Head::of_all(trace.tokens).causal_twin(trace, &q, &k, &v)?;
    }
    Ok(())
}
