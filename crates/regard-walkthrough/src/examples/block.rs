use regard_kernels::add;

use super::{Entry, Group, Start, feed_forward, matrix, positions};
use crate::attend::Head;
use crate::check::Gap;
use crate::embed::{look_up, push_placed, push_positions};
use crate::heads::{attention, multi_head, sequences};
use crate::input::Input;
use crate::layers::{Which, push_feed_forward, push_norm, push_residual};
use crate::project::{give_weights, project_all};
use crate::trace::Trace;
use crate::{Error, Matrix, Quantity, RowRole, Without, heads};

pub(super) const ENTRY: Entry = Entry {
    title: "A whole block",
    summary: "\"the cat sat\" through an encoder block: positions, layer norms, two heads, feed-forward layers and residual connections.",
    group: Group::Around,
    tokens: "the cat sat",
    start: Start::Given(inputs),
    heads: 2,
    largest: LARGEST,
    run,
    ..Entry::PLAIN
};

const VOCABULARY: [&str; 3] = ["cat", "sat", "the"];

/// Three words of four numbers, two heads, eight hidden features.
pub(super) fn inputs() -> Vec<Input> {
    let embeddings =
        matrix(&[[1.0, 0.2, -0.5, 0.0], [-0.5, 1.0, 0.4, -0.2], [0.1, -0.3, 0.2, 0.9]]);
    let w_o = matrix(&[
        [0.5, 0.0, 0.0, 0.5],
        [0.0, 0.5, -0.5, 0.0],
        [0.0, 0.5, 0.5, 0.0],
        [-0.5, 0.0, 0.0, 0.5],
    ]);
    let (ones, zeros) = (matrix(&[[1.0; 4]]), matrix(&[[0.0; 4]]));
    let mut inputs = vec![
        Input::given(Quantity::Embeddings, embeddings),
        Input::given(Quantity::Gamma1, ones.clone()),
        Input::given(Quantity::Beta1, zeros.clone()),
    ];
    inputs.extend(positions::weights());
    inputs.extend([
        Input::given(Quantity::WO, w_o),
        Input::given(Quantity::Gamma2, ones),
        Input::given(Quantity::Beta2, zeros),
    ]);
    inputs.extend(feed_forward::weights());
    inputs
}

/// The second layer norm squares its rows. With numbers up to L and without softmax, its γ, β and the four features of a token
/// give N₁ ≤ (√3 + 1)·L and Q, K, V ≤ 4·N₁·L, three tokens give A = S ≤ 4·Q·K/2 and O ≤ 3·A·V, and W_O gives 4·O·L ≤
/// 3.3·10⁴·L⁷. Four squares of that are 4.4·10³⁷.
const LARGEST: f64 = 100.0;

/// Computes an encoder block with its norms before its layers, as in GPT-2.
pub(super) fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    let x = look_up(trace, &VOCABULARY)?;
    let positions = push_positions(trace, x.ours.cols())?;
    let placed = push_placed(trace, &x, &positions);
    let (normed, norm_1) = push_norm(trace, &placed, Which::FIRST, RowRole::Tokens)?;

    let w = give_weights(trace)?;
    let qkv = project_all(trace, &normed, &w)?;
    let tokens = trace.tokens;
    let attended = heads::attend(trace, &Head::of_all(tokens), [&normed; 2], &w, &qkv)?;
    let text = ["Y", "Tokens plus attention"];
    let residual =
        push_residual(trace, Quantity::Residual, text, [&placed, &attended], RowRole::Queries);

    let (normed, norm_2) = push_norm(trace, &residual, Which::SECOND, RowRole::Queries)?;
    let (fed, feed_forward) = push_feed_forward(trace, &normed, RowRole::Queries)?;
    let text = ["B", "Output of the block"];
    let output =
        push_residual(trace, Quantity::BlockOutput, text, [&residual, &fed], RowRole::Queries);

    if !matches!(trace.settings.without, Some(Without::Projections | Without::Softmax))
        && !trace.inputs.has_typed_projections()
        && let Some(w_o) = trace.input(Quantity::WO)
    {
        let weights = [&w[0], &w[1], &w[2], &w_o].map(|w| &w.ours);
        let layer = multi_head(trace.inputs.heads(), weights)?;
        let normed = norm_1.forward(sequences(&placed.ours)?)?;
        let x = normed.sequences();
        let mut whole = layer.forward(x, x, x, &attention(trace.settings, true))?;
        add(whole.as_mut_slice(), placed.ours.as_slice())?;
        let fed = feed_forward.forward(norm_2.forward(whole.sequences())?.sequences())?;
        add(whole.as_mut_slice(), fed.as_slice())?;
        let (rows, cols) = output.ours.shape();
        let whole = Matrix::from_vec(rows, cols, whole.into_vec());
        trace.measure(
            "step by step equals the layers",
            Gap::between(&output, &whole, &output.bound),
        );
    }
    Ok(())
}
