use super::{Entry, Group, HeadCounts, Start, self_attention, torch_randn};
use crate::Quantity;
use crate::input::{Input, Sizes};
use crate::random::TorchRng;

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
pub(super) fn inputs(tokens: usize, sizes: Sizes, heads: usize) -> Vec<Input> {
    let Sizes { d_model, d_k, seed } = sizes;
    let mut rng = TorchRng::seed(seed);
    let generator = format!("PyTorch, seed {seed}");
    let x = Input::drawn(
        Quantity::X,
        torch_randn(&mut rng, tokens, d_model).map(f64::from),
        &generator,
    );
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

/// The lines of Python that draw the same numbers.
pub(crate) fn python(tokens: usize, Sizes { d_model, d_k, seed }: Sizes, heads: usize) -> String {
    let all = heads * d_k;
    let weights = ["W_Q", "W_K", "W_V"]
        .map(|w| format!("{w} = torch.randn({d_model}, {all}) / {d_model}**0.5\n"));
    format!(
        "torch.manual_seed({seed})\nX = torch.randn({tokens}, {d_model})\n{}W_O = torch.randn({all}, {d_model}) / {d_model}**0.5",
        weights.concat()
    )
}
