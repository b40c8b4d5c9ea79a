//! The questions of all rooms, by their names.

use std::sync::Arc;

use regard_session::message::Message;

use crate::heads::{OpenAttention, Select};
use crate::laboratory::{Compute, MeasureSpeed};
use crate::model::{Attribute, Open, PatchEach, Predict, Route, Run, Sweep, Unfold, Weigh};
use crate::work::{self, Background, Begun, Forget, Question};

type Begin = fn(&Arc<Background>, Message) -> Result<Begun, String>;

const fn kind<Q: Question>() -> (&'static str, Begin) {
    (Q::NAME, work::begin::<Q>)
}

const KINDS: [(&str, Begin); 14] = [
    kind::<Open>(),
    kind::<Run>(),
    kind::<Sweep>(),
    kind::<Predict>(),
    kind::<Route>(),
    kind::<Attribute>(),
    kind::<PatchEach>(),
    kind::<Unfold>(),
    kind::<Weigh>(),
    kind::<OpenAttention>(),
    kind::<Select>(),
    kind::<Compute>(),
    kind::<MeasureSpeed>(),
    kind::<Forget>(),
];

/// Begins to answer a question that a window has sent.
///
/// # Errors
/// If the message is not a question.
pub fn begin(background: &Arc<Background>, question: Message) -> Result<Begun, String> {
    let name: String = question.first()?;
    let kind = KINDS.iter().find(|(known, _)| *known == name);
    let (_, begin) = kind.ok_or_else(|| format!("there is no question {name}"))?;
    begin(background, question)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_question_has_its_own_name() {
        let names: BTreeSet<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), KINDS.len());
    }
}
