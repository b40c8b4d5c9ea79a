use super::{one_head, self_attention, small_torch_randn};
use crate::pair::Pair;
use crate::random::TorchRng;
use crate::step::Origin;
use crate::trace::Trace;
use crate::{Error, Matrix};

/// X is given; `torch.manual_seed(42)`; W_Q, W_K, W_V = randn(4, 4) * 0.1.
pub(super) fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    let mut rng = TorchRng::seed(42);
    let w = weights(&mut rng);
    let [q, k, v] = self_attention(trace, &tokens(), &w, [&Origin::Given, &drawn()])?;
    if !trace.settings.causal {
        let tokens = trace.tokens.clone();
        one_head(&tokens).causal_twin(trace, &q, &k, &v)?;
    }
    Ok(())
}

/// The, cat, sat.
pub(super) fn tokens() -> Pair {
    Pair::single(Matrix::from_rows(&[[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]]))
}

/// W_Q, W_K, W_V, drawn in that order.
pub(super) fn weights(rng: &mut TorchRng) -> [Pair; 3] {
    [(); 3].map(|()| small_torch_randn(rng, 4, 4))
}

pub(super) fn drawn() -> Origin {
    Origin::Drawn("PyTorch, seed 42, times 0.1".to_owned())
}
