use super::{self_attention, torch_randn};
use crate::Error;
use crate::pair::Pair;
use crate::random::TorchRng;
use crate::step::Origin;
use crate::trace::Trace;

/// `torch.manual_seed(42)`; X = randn(4, 8); W_Q, W_K, W_V = randn(8, 8).
pub(super) fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    let mut rng = TorchRng::seed(42);
    let x = Pair::single(torch_randn(&mut rng, 4, 8));
    let w = [(); 3].map(|()| Pair::single(torch_randn(&mut rng, 8, 8)));
    let drawn = Origin::Drawn("PyTorch, seed 42".to_owned());
    self_attention(trace, &x, &w, [&drawn, &drawn])?;
    Ok(())
}
