use super::matrix;
use crate::inputs::Input;
use crate::layers::push_feed_forward;
use crate::project::give_tokens;
use crate::trace::Trace;
use crate::{Error, Rows};

/// Four numbers become eight, and four again.
pub(super) fn inputs() -> Vec<Input> {
    let mut inputs = vec![Input::given(
        "x",
        matrix(&[[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, -1.0]]),
    )];
    inputs.extend(weights());
    inputs
}

/// Small numbers that can be worked by hand.
pub(super) fn weights() -> [Input; 4] {
    let w_1 = matrix(&[
        [1.0, -1.0, 0.0, 0.0, 0.5, 0.0, 1.0, -0.5],
        [0.0, 1.0, -1.0, 0.0, 0.5, 1.0, -1.0, 0.0],
        [0.5, 0.0, 1.0, -1.0, 0.0, -1.0, 0.0, 0.5],
        [0.0, 0.5, 0.0, 1.0, -1.0, 0.0, 0.5, 1.0],
    ]);
    let b_1 = matrix(&[[0.0, 0.0, -0.5, 0.5, 0.0, 0.0, -1.0, 0.0]]);
    let w_2 = matrix(&[
        [0.5, 0.0, 0.0, -0.5],
        [0.0, 0.5, 0.0, 0.0],
        [0.0, -0.5, 0.5, 0.0],
        [0.5, 0.0, 0.0, 0.5],
        [0.0, 0.0, 1.0, 0.0],
        [-0.5, 0.5, 0.0, 0.0],
        [0.0, 0.0, -0.5, 1.0],
        [0.0, 1.0, 0.0, 0.0],
    ]);
    let b_2 = matrix(&[[0.0, 0.1, 0.0, -0.1]]);
    [("w_1", w_1), ("b_1", b_1), ("w_2", w_2), ("b_2", b_2)].map(|(key, m)| Input::given(key, m))
}

pub(super) fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    let x = give_tokens(trace)?;
    push_feed_forward(trace, &x, Rows::Tokens)?;
    Ok(())
}
