use super::one_head;
use crate::pair::Pair;
use crate::step::{Kind, Origin};
use crate::trace::{Labels, Text, Trace, labels};
use crate::{Error, Matrix};

/// Q and K are given, and only the weights are asked for.
pub(super) fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    let q = Matrix::from_rows(&[[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]]);
    let k = Matrix::from_rows(&[[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [0.5, 0.5, 0.5, 0.5]]);
    let [q, k] = [q, k].map(Pair::single);
    let (tokens, dims) = (trace.tokens.clone(), labels("d", 4));
    let given = Labels { rows: &tokens, cols: &dims };
    let text = Text {
        key: "q",
        name: "Queries Q",
        formula: "",
        meaning: "Row i is what position i looks for. Given, not projected.",
    };
    trace.push(&text, &q, Kind::Signed, given, Origin::Given);
    let text = Text {
        key: "k",
        name: "Keys K",
        formula: "",
        meaning: "Row j is what position j advertises; the last has a little of everything, so every query finds some of it.",
    };
    trace.push(&text, &k, Kind::Signed, given, Origin::Given);

    one_head(&tokens).attend(trace, &q, &k, None)?;
    trace.correct(
        "weights",
        "The notebook prints [0.576, 0.212, 0.212] and [0.212, 0.576, 0.212] for the first two rows. \
         softmax([1, 0, 0.5]) is [0.506, 0.186, 0.307], and the second row is [0.186, 0.506, 0.307].",
    );
    Ok(())
}
