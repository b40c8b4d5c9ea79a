//! Many changes of one run, each alone.
//!
//! Runs whose changes begin in the same layer go through the layers from there on together, with stacked rows, because a
//! product of many rows is faster than many products of a few. They share one stream up to the first place that changes. If
//! only the logits of the last position are needed, the last layer computes the keys and values of all positions, and the rest
//! only for the last one.

use core::slice::from_ref;

use crate::change::Plan;
use crate::forward::Runner;
use crate::place::Keep;
use crate::{Baseline, Change, Description, Error, HeadAddress, Model, Stack, Values, Which};

/// The most runs that go together. More would take more memory and be no faster.
const TOGETHER: usize = 16;

/// The most numbers of the heads' streams for runs that go together: 256 MiB.
const SPLIT: usize = 64 << 20;

impl Description {
    /// All heads, layer by layer: those of an encoder, those of a decoder over its own tokens, and those from decoder to
    /// encoder.
    ///
    /// ```
    /// use regard_models::{Checkpoint, Description};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let gpt = Description::of(&Checkpoint::open(format!("{models}/tiny-gpt2"))?)?;
    /// let heads: Vec<String> = gpt.heads().iter().map(ToString::to_string).collect();
    /// assert_eq!(heads, ["0.0", "0.1", "0.2", "0.3", "1.0", "1.1", "1.2", "1.3"]);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn heads(&self) -> Vec<HeadAddress> {
        let heads = |(attention, stack): (Which, &Stack)| {
            let (layers, heads) = (stack.layers(), stack.block.heads);
            (0..layers).flat_map(move |layer| {
                (0..heads).map(move |head| HeadAddress { attention, layer, head })
            })
        };
        self.attentions().into_iter().flat_map(heads).collect()
    }

    /// Each kind of attention of the model, with its stack. There is one kind, or there are those of an encoder, of a decoder
    /// over its own tokens, and from decoder to encoder.
    ///
    /// ```
    /// use regard_models::{Checkpoint, Description, Which};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let t5 = Description::of(&Checkpoint::open(format!("{models}/tiny-t5"))?)?;
    /// let attentions: Vec<Which> = t5.attentions().into_iter().map(|(which, _)| which).collect();
    /// assert_eq!(attentions, [Which::Encoder, Which::Decoder, Which::Cross]);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn attentions(&self) -> Vec<(Which, &Stack)> {
        match &self.encoder {
            None => vec![(Which::Only, &self.stack)],
            Some(encoder) => vec![
                (Which::Encoder, encoder),
                (Which::Decoder, &self.stack),
                (Which::Cross, &self.stack),
            ],
        }
    }
}

/// The positions whose logits a sweep computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logits {
    /// Those of each position.
    All,
    /// Only those of the last position, which takes less time.
    Last,
}

impl Model {
    /// The logits of the unchanged run's input with each change alone: \[positions, vocabulary\], or \[classes\]. Layers before
    /// a change are not computed again. `done` is called with the number of changes that have run, and an error of it ends the
    /// sweep.
    ///
    /// # Errors
    /// As [`Pass::run`](crate::Pass::run), [`Error::Unsupported`] if the model has no head, and the error of `done`.
    ///
    /// ```
    /// use regard_models::{Ablation, Change, Input, Logits, Model};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let model = Model::open(format!("{models}/tiny-gpt2"))?;
    /// let unchanged = model.baseline(&Input::tokens([7, 8, 9]))?;
    /// let heads = model.description().heads();
    /// let changes: Vec<_> = heads.iter().map(|head| Change::Ablate { head: *head, to: Ablation::Zero }).collect();
    /// let logits = model.sweep(&unchanged, &changes, Logits::Last, &mut |_| Ok(()))?;
    /// let one = model.pass().change(changes[5].clone()).last_logits().run(unchanged.input())?;
    /// assert_eq!(one.logits(), Some(&logits[5]));
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn sweep(
        &self,
        unchanged: &Baseline,
        changes: &[Change],
        which: Logits,
        done: &mut dyn FnMut(usize) -> Result<(), Error>,
    ) -> Result<Vec<Values>, Error> {
        let input = unchanged.input();
        let keep = Keep::default();
        let plans = Plan::each(changes, self, input)?;
        let mut all = Vec::with_capacity(changes.len());
        for together in plans.chunk_by(Plan::go_together) {
            let mut most = TOGETHER;
            if together.iter().any(Plan::splits_inputs) {
                let block = &self.description().stack.block;
                let streams = self.tokens(input) * block.heads * self.description().width;
                most = (SPLIT / streams.max(1)).clamp(1, most);
            }
            for plans in together.chunks(most) {
                let mut runner = Runner::new(self, &keep, plans);
                runner.from = Some(&unchanged.streams);
                runner.last_only = which == Logits::Last && !self.description().reads_all();
                let (trace, _) = runner.run(from_ref(input))?;
                let missing = || Error::Unsupported("the model has no head, and no logits".into());
                let logits = trace.logits.ok_or_else(missing)?;
                all.extend(logits.split(plans.len()));
                done(all.len())?;
            }
        }
        Ok(all)
    }
}
