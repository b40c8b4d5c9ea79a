//! Many changes of one run, each alone.

use crate::{Baseline, Change, Description, Error, HeadAddress, Model, Values, Which};

impl Description {
    /// All heads: layer by layer; an encoder's, then a decoder's over its own tokens, then those from decoder to encoder.
    ///
    /// ```
    /// use regard_models::{Checkpoint, Description};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/models");
    /// let gpt = Description::of(&Checkpoint::open(format!("{models}/tiny-gpt2"))?)?;
    /// let heads: Vec<String> = gpt.heads().iter().map(ToString::to_string).collect();
    /// assert_eq!(heads, ["0.0", "0.1", "0.2", "0.3", "1.0", "1.1", "1.2", "1.3"]);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn heads(&self) -> Vec<HeadAddress> {
        let of = |attention, stack: &crate::Stack| {
            let heads = stack.block.heads;
            (0..stack.layers())
                .flat_map(move |layer| {
                    (0..heads).map(move |head| HeadAddress { attention, layer, head })
                })
                .collect::<Vec<_>>()
        };
        match &self.encoder {
            None => of(Which::Only, &self.stack),
            Some(encoder) => {
                let stacks = [
                    (Which::Encoder, encoder),
                    (Which::Decoder, &self.stack),
                    (Which::Cross, &self.stack),
                ];
                stacks.into_iter().flat_map(|(attention, stack)| of(attention, stack)).collect()
            }
        }
    }
}

impl Model {
    /// The logits of the unchanged run's input with each change alone: \[positions, vocabulary\], or those of the last position
    /// with `last`. Layers before a change are not computed anew. `done` is told the number of changes that are done.
    ///
    /// # Errors
    /// [`Error::Input`] if a change does not fit, or if the model has no head.
    ///
    /// ```
    /// use regard_models::{Ablation, Change, Input, Model};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/models");
    /// let model = Model::open(format!("{models}/tiny-gpt2"))?;
    /// let unchanged = model.baseline(&Input::tokens([7, 8, 9]))?;
    /// let heads = model.description().heads();
    /// let changes: Vec<_> = heads.iter().map(|head| Change::Ablate { head: *head, to: Ablation::Zero }).collect();
    /// let logits = model.sweep(&unchanged, &changes, true, &mut |_| ())?;
    /// let one = model.pass().change(changes[5].clone()).last_logits().run(unchanged.input())?;
    /// assert_eq!(one.logits(), Some(&logits[5]));
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn sweep(
        &self,
        unchanged: &Baseline,
        changes: &[Change],
        last: bool,
        done: &mut dyn FnMut(usize),
    ) -> Result<Vec<Values>, Error> {
        let mut all = Vec::with_capacity(changes.len());
        for change in changes {
            let pass = self.pass().change(change.clone()).after(unchanged);
            let pass = if last { pass.last_logits() } else { pass };
            let logits = pass.run(unchanged.input())?.logits;
            all.push(
                logits
                    .ok_or_else(|| Error::Input("the model has no head, and no logits".into()))?,
            );
            done(all.len());
        }
        Ok(all)
    }
}
