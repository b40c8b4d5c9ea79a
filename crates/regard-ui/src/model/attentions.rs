//! A value for each kind of attention of a model.

use regard_models::{Description, Stack, Which};
use serde::{Deserialize, Serialize};

/// A value for each kind of attention: one for most models; for a model with an encoder and a decoder, one for the attention of
/// each and one for that from decoder to encoder.
#[derive(Serialize, Deserialize)]
pub(super) struct PerAttention<T> {
    first: T,
    others: Vec<(Which, T)>,
}

impl<T> PerAttention<T> {
    pub(crate) fn new(
        description: &Description,
        mut value: impl FnMut(Which, &Stack) -> Result<T, String>,
    ) -> Result<Self, String> {
        let mut attentions = description.attentions().into_iter();
        let (which, stack) = attentions.next().ok_or("the model has no attention")?;
        let first = value(which, stack)?;
        let others = attentions.map(|(which, stack)| Ok((which, value(which, stack)?)));
        Ok(Self { first, others: others.collect::<Result<_, String>>()? })
    }

    /// The value of a kind of attention, or of the first kind if the model lacks it.
    pub(crate) fn of(&self, which: Which) -> &T {
        let other = self.others.iter().find(|(of, _)| *of == which);
        other.map_or(&self.first, |(_, value)| value)
    }

    /// The values in the order of [`Description::attentions`].
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        core::iter::once(&self.first).chain(self.others.iter().map(|(_, value)| value))
    }
}
