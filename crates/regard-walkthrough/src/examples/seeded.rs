use super::{Entry, Group, HeadCounts, Start, self_attention, torch_randn};
use crate::input::{Input, Sizes};
use crate::random::TorchRng;
use crate::{Matrix, Quantity};

pub(super) const ENTRY: Entry = Entry {
    title: "Your own tokens",
    summary: "Your tokens and sizes, one to eight heads, and the random numbers that PyTorch draws from a seed.",
    group: Group::Own,
    tokens: "the quick brown fox",
    start: Start::Drawn(inputs),
    heads: 2,
    possible_heads: HeadCounts::Any,
    largest: LARGEST,
    run: self_attention,
    ..Entry::PLAIN
};

/// With 64 tokens of 256 features, eight heads of 64 features and numbers up to L, and without softmax, Q, K and V ≤ 256·L²,
/// A = S ≤ 64·Q·K/8, O ≤ 64·A·V, and W_O gives 512·O·L ≤ 4.4·10¹²·L⁷, which is 4.4·10³³.
const LARGEST: f64 = 1000.0;

/// The matrices that [`Inputs::seeded`](crate::Inputs::seeded) describes.
pub(super) fn inputs(tokens: &[String], sizes: Sizes, heads: usize) -> Vec<Input> {
    let Sizes { d_model, d_k, seed } = sizes;
    let mut rng = TorchRng::seed(seed);
    let generator = format!("PyTorch, seed {seed}");
    let drawn = torch_randn(&mut rng, tokens.len(), d_model);
    let first = first(tokens);
    let x = Matrix::from_fn(tokens.len(), d_model, |i, j| f64::from(drawn.get(first[i], j)));
    let x = Input::drawn(Quantity::X, x, &generator);
    let (generator, root) =
        (format!("{generator}, over √{d_model}"), (d_model as f64).sqrt() as f32);
    let all = heads * d_k;
    let weights = [
        (Quantity::WQ, d_model, all),
        (Quantity::WK, d_model, all),
        (Quantity::WV, d_model, all),
        (Quantity::WO, all, d_model),
    ];
    let mut inputs = vec![x];
    inputs.extend(weights.map(|(key, rows, cols)| {
        Input::drawn(
            key,
            torch_randn(&mut rng, rows, cols).map(|x| f64::from(x / root)),
            &generator,
        )
    }));
    inputs
}

/// The first place of each token: equal words have equal numbers.
fn first(tokens: &[String]) -> Vec<usize> {
    let place = |token| tokens.iter().position(|other| other == token).unwrap_or_default();
    tokens.iter().map(place).collect()
}

/// The lines of Python that draw the same numbers.
pub(crate) fn python(
    tokens: &[String],
    Sizes { d_model, d_k, seed }: Sizes,
    heads: usize,
) -> String {
    let (all, count, first) = (heads * d_k, tokens.len(), first(tokens));
    let repeats = first.iter().enumerate().any(|(i, first)| i != *first);
    let rows = if repeats { format!("[{first:?}]") } else { String::new() };
    let weights = ["W_Q", "W_K", "W_V"]
        .map(|w| format!("{w} = torch.randn({d_model}, {all}) / {d_model}**0.5\n"));
    format!(
        "torch.manual_seed({seed})\nX = torch.randn({count}, {d_model}){rows}\n{}W_O = torch.randn({all}, {d_model}) / {d_model}**0.5",
        weights.concat()
    )
}
