use super::{Entry, Group, Start, attend_to_itself, given, matrix};
use crate::attend::Head;
use crate::input::Input;
use crate::pair::Pair;
use crate::project::{give_tokens_and_weights, project_as};
use crate::role::Role;
use crate::trace::Trace;
use crate::{Error, Quantity, Section, StepKey, Without};

pub(super) const ENTRY: Entry = Entry {
    title: "I love robotics",
    summary: "Whole numbers to compute by hand: first the row of \"love\", then all rows at once.",
    group: Group::Attention,
    tokens: "I love robotics",
    start: Start::Given(inputs),
    run,
    ..Entry::PLAIN
};

/// Whole numbers.
pub(super) fn inputs() -> Vec<Input> {
    let x = matrix(&[[1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]]);
    let w_q = matrix(&[[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]);
    let w_k = matrix(&[[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]);
    let w_v = matrix(&[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]);
    given([(Quantity::X, x), (Quantity::WQ, w_q), (Quantity::WK, w_k), (Quantity::WV, w_v)]).into()
}

/// Computes the row of "love" by hand, then all rows as matrices.
pub(super) fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    let (x, w) = give_tokens_and_weights(trace)?;
    if trace.inputs.heads() == 1 {
        by_hand(trace, &x, &w)?;
    }
    attend_to_itself(trace, &x, &w)?;
    if trace.inputs.heads() == 1 {
        for section in [LOVE, Section::Main] {
            trace.correct(
                StepKey::new(section, Quantity::Output),
                "The notebook \"Full walkthrough\" prints [1.332, 0.666, 0.666] for \"love\", because it rounds 1/3 to 0.333 before it \
                 adds. \
                 The row is [4/3, 2/3, 2/3], or [1.333, 0.667, 0.667].",
            );
        }
    }
    Ok(())
}

const LOVE: Section = Section::Love;

/// Sentences about these quantities name numbers of the example, and would be wrong for typed numbers.
const OF_NUMBERS: [Quantity; 4] = [Quantity::Q, Quantity::K, Quantity::V, Quantity::Weights];

/// Computes one query against all keys.
fn by_hand(trace: &mut Trace<'_>, x: &Pair, [w_q, w_k, w_v]: &[Pair; 3]) -> Result<(), Error> {
    const ROW: usize = 1;
    const OF: &str = ", by hand for \"love\"";
    let tokens = trace.tokens;
    let love = &tokens[ROW..=ROW];
    let [query, key, value] = Role::ALL;
    let q = project_as(trace, query, LOVE, OF, (love, ROW), &x.rows(ROW, 1), w_q)?;
    let k = project_as(trace, key, LOVE, OF, (tokens, 0), x, w_k)?;
    let v = project_as(trace, value, LOVE, OF, (tokens, 0), x, w_v)?;
    let head = Head { section: LOVE, of: OF, queries: love, first: ROW, ..Head::of_all(tokens) };
    head.attend(trace, &q, &k, Some(&v))?;

    let left_out: &[Quantity] = match trace.settings.without {
        Some(Without::Projections) => &OF_NUMBERS[..3],
        Some(Without::Softmax) => &OF_NUMBERS[3..],
        _ => &[],
    };
    let is_true = |quantity: Quantity| {
        !(left_out.contains(&quantity)
            || trace.inputs.is_changed() && OF_NUMBERS.contains(&quantity))
    };
    for (quantity, meaning) in BY_HAND.into_iter().filter(|(quantity, _)| is_true(*quantity)) {
        let key = StepKey::new(LOVE, quantity);
        if let Some(step) = trace.steps.iter_mut().find(|step| step.key == key) {
            meaning.clone_into(&mut step.meaning);
        }
    }
    Ok(())
}

/// The steps of a computation by hand.
const BY_HAND: [(Quantity, &str); 7] = [
    (
        Quantity::Q,
        "\"love\" is [1, 1, 0, 0], so its query is the sum of the first two rows of W_Q.",
    ),
    (Quantity::K, "Each token's key is the sum of the rows of W_K where the token has a 1."),
    (Quantity::V, "Each token's value is the sum of the rows of W_V where the token has a 1."),
    (
        Quantity::RawScores,
        "The dot product of the query of \"love\" with each key: multiply number by number, then add.",
    ),
    (
        Quantity::ScaledScores,
        "Each score divided by the square root of the number of products in its sum.",
    ),
    (
        Quantity::Weights,
        "e to the power of each score, divided by the sum of these powers. Equal scores get equal weights.",
    ),
    (Quantity::Output, "The sum of all values, each times its weight: the new vector of \"love\"."),
];
