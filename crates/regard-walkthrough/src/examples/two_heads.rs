use super::the_cat_sat::drawn_with;
use super::{Entry, Group, Start, self_attention, small_torch_randn};
use crate::Quantity;
use crate::input::Input;
use crate::random::TorchRng;

pub(super) const ENTRY: Entry = Entry {
    title: "Two heads",
    summary: "\"The cat sat\" with two heads of two features each. Their outputs are put side by side and mixed by W_O.",
    group: Group::Attention,
    tokens: "The cat sat",
    start: Start::Given(inputs),
    heads: 2,
    run: self_attention,
    ..Entry::PLAIN
};

/// `the-cat-sat` split in two heads of two numbers each; W_O = randn(4, 4) * 0.1 comes next from the same generator.
pub(super) fn inputs() -> Vec<Input> {
    let mut rng = TorchRng::seed(42);
    let mut inputs = drawn_with(&mut rng);
    inputs.push(small_torch_randn(&mut rng, Quantity::WO, 4, 4));
    inputs
}
