use super::{Entry, Group, Start, given, matrix, self_attention};
use crate::Quantity;
use crate::input::Input;

pub(super) const ENTRY: Entry = Entry {
    title: "Two heads",
    summary: "Two heads of two features each: head 1 attends to the word before, head 2 leads from the article and the verb to the noun, and from the noun to the verb. Their outputs are put side by side and mixed by W_O.",
    group: Group::Attention,
    tokens: "the cat sat",
    start: Start::Given(inputs),
    heads: 2,
    run: self_attention,
    ..Entry::PLAIN
};

/// The tokens and projections of [`projected`], and W_O.
fn inputs() -> Vec<Input> {
    let w_o = matrix(&[
        [0.5, 0.0, 0.5, 0.0],
        [0.0, 1.0, 0.0, -0.5],
        [0.0, 0.5, 1.0, 0.0],
        [-0.5, 0.0, 0.0, 1.0],
    ]);
    let mut inputs = projected();
    inputs.push(Input::given(Quantity::WO, w_o));
    inputs
}

/// The features of a token encode whether it is an article, a noun or a verb, and how lively it is.
///
/// The keys of both heads have different directions for the three kinds of words. In head 1, the queries of the article and of the
/// noun point to the key of the article, and the query of the verb to the key of the noun. In head 2, the queries of the article
/// and of the verb point to the key of the noun, and the query of the noun to the key of the verb.
pub(super) fn projected() -> Vec<Input> {
    let x = matrix(&[[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.5], [0.0, 0.0, 1.0, 1.0]]);
    let w_q = matrix(&[
        [1.5, 0.0, 1.5, 0.0],
        [1.5, 0.0, 0.0, 1.5],
        [0.0, 1.5, 1.5, 0.0],
        [0.0, 0.0, 0.0, 0.0],
    ]);
    let w_k = matrix(&[
        [2.0, 0.0, -1.0, -1.0],
        [0.0, 2.0, 2.0, 0.0],
        [-1.0, -1.0, 0.0, 2.0],
        [0.0, 0.0, 0.0, 0.0],
    ]);
    let w_v = matrix(&[
        [1.0, 0.0, -0.5, 0.0],
        [0.0, 1.0, 0.5, 0.0],
        [-0.5, 0.5, 1.0, 0.0],
        [0.0, 0.0, 0.0, 1.0],
    ]);
    given([(Quantity::X, x), (Quantity::WQ, w_q), (Quantity::WK, w_k), (Quantity::WV, w_v)]).into()
}
