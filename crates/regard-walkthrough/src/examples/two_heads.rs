use super::small_torch_randn;
use super::the_cat_sat::drawn_with;
use crate::inputs::Input;
use crate::random::TorchRng;

/// `the-cat-sat` split in two heads of two numbers each; W_O = randn(4, 4) * 0.1 comes next from the same generator.
pub(super) fn inputs() -> Vec<Input> {
    let mut rng = TorchRng::seed(42);
    let mut inputs = drawn_with(&mut rng);
    inputs.push(small_torch_randn(&mut rng, "w_o", 4, 4));
    inputs
}
