use super::{attend_to_itself, matrix};
use crate::attend::Head;
use crate::inputs::Input;
use crate::pair::Pair;
use crate::project::{Role, give_tokens_and_weights, project_as};
use crate::trace::Trace;
use crate::{Error, Without};

/// Whole numbers.
pub(super) fn inputs() -> Vec<Input> {
    let x = matrix(&[[1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]]);
    let w_q = matrix(&[[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]);
    let w_k = matrix(&[[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]);
    let w_v = matrix(&[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]);
    [("x", x), ("w_q", w_q), ("w_k", w_k), ("w_v", w_v)].map(|(key, m)| Input::given(key, m)).into()
}

/// The row of "love" as one would work it by hand, then all rows as matrices.
pub(super) fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    let (x, w) = give_tokens_and_weights(trace)?;
    if trace.inputs.heads() == 1 {
        by_hand(trace, &x, &w)?;
    }
    attend_to_itself(trace, &x, &w)?;
    if trace.inputs.heads() == 1 {
        for key in ["love.output", "output"] {
            trace.correct(
                key,
                "The notebook prints [1.332, 0.666, 0.666] for \"love\", because it rounds 1/3 to 0.333 before it adds. \
                 The row is [4/3, 2/3, 2/3], or [1.333, 0.667, 0.667].",
            );
        }
    }
    Ok(())
}

/// One query against all keys.
fn by_hand(trace: &mut Trace<'_>, x: &Pair, [w_q, w_k, w_v]: &[Pair; 3]) -> Result<(), Error> {
    const LOVE: usize = 1;
    const PREFIX: &str = "love.";
    const OF: &str = ", by hand for \"love\"";
    let tokens = trace.tokens.clone();
    let love = &tokens[LOVE..=LOVE];
    let [query, key, value] = Role::ALL;
    let q = project_as(trace, query, PREFIX, OF, (love, LOVE), &x.rows(LOVE, 1), w_q)?;
    let k = project_as(trace, key, PREFIX, OF, (&tokens, 0), x, w_k)?;
    let v = project_as(trace, value, PREFIX, OF, (&tokens, 0), x, w_v)?;
    let head = Head { prefix: PREFIX, of: OF, queries: love, first: LOVE, ..Head::of_all(&tokens) };
    head.attend(trace, &q, &k, Some(&v))?;

    let left_out: &[&str] = match trace.settings.without {
        Some(Without::Projections) => &["love.q", "love.k", "love.v"],
        Some(Without::Softmax) => &["love.weights"],
        _ => &[],
    };
    // Of other tokens, other sums are right.
    let changed: &[&str] = if trace.inputs.is_changed() {
        &["love.q", "love.k", "love.v", "love.weights"]
    } else {
        &[]
    };
    for (key, meaning) in BY_HAND {
        let said = |s: &str| s == key && !left_out.contains(&key) && !changed.contains(&key);
        if let Some(step) = trace.steps.iter_mut().find(|s| said(&s.key)) {
            meaning.clone_into(&mut step.meaning);
        }
    }
    Ok(())
}

/// What one does with a pencil.
const BY_HAND: [(&str, &str); 7] = [
    ("love.q", "\"love\" is [1, 1, 0, 0], so its query is the sum of the first two rows of W_Q."),
    (
        "love.k",
        "In the same way each token's key is the sum of the rows of W_K where the token has a 1.",
    ),
    ("love.v", "And each token's value is the sum of the rows of W_V where it has a 1."),
    (
        "love.raw_scores",
        "The query of \"love\" with each key: multiply number by number and add up.",
    ),
    (
        "love.scaled_scores",
        "Each score over the root of the number of elements that were added up.",
    ),
    (
        "love.weights",
        "Raise e to each score and divide by the sum of these powers: equal scores get equal shares.",
    ),
    ("love.output", "Each value times its weight, added up: the new vector of \"love\"."),
];
