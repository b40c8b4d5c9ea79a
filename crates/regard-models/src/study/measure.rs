//! The number of a run that a study compares: a logit, or the difference of two.

use crate::{Error, Input, Logits, Model, Values, check_logits};

/// The tokens that stand for a gap, which a model that fills gaps predicts.
const MASKS: [&str; 2] = ["[MASK]", "<mask>"];

/// A logit of a run, or the difference of two.
///
/// ```
/// use regard_models::{Input, MeasuredLogit, Model};
/// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
/// let model = Model::open(format!("{models}/tiny-gpt2"))?;
/// let input = Input::tokens([7, 8, 9]);
/// let measure = MeasuredLogit::new(&model, &input, 40, Some(41), None)?;
/// assert_eq!(measure.position, 2); // the next token is predicted at the last one
/// let logits = model.pass().last_logits().run(&input)?.take_logits().unwrap();
/// assert_eq!(measure.of(&logits)?, logits.data[40] - logits.data[41]);
/// # Ok::<(), regard_models::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MeasuredLogit {
    /// The token A, or the class.
    pub plus: usize,
    /// The token B whose logit is subtracted.
    pub minus: Option<usize>,
    /// The position whose logits are read, or at which those of classes are.
    pub position: usize,
    /// The positions whose logits a run needs.
    pub logits: Logits,
    /// The row of these logits.
    pub row: usize,
}

impl MeasuredLogit {
    /// The logit of `plus`, or that of `plus` minus that of `minus`, at a position: the [predicted](Model::predicted) one unless
    /// given. Of a model that writes, only the logits of the last position are then computed.
    ///
    /// # Errors
    /// [`Error::Missing`] if the model does not have such a logit, or the input such a position; and those of
    /// [`Model::predicted`].
    pub fn new(
        model: &Model,
        input: &Input,
        plus: usize,
        minus: Option<usize>,
        position: Option<usize>,
    ) -> Result<Self, Error> {
        for id in [Some(plus), minus].into_iter().flatten() {
            model.check_logit(id)?;
        }
        let description = model.description();
        let classifies = description.classifies();
        let count = model.logit_positions(input);
        if let Some(position) = position.filter(|position| *position >= count) {
            let what = format!("there is no position {position}: the text has {count} tokens");
            return Err(Error::Missing(what));
        }
        let is_last = position.is_none() && description.stack.causal && !classifies;
        let logits = if is_last { Logits::Last } else { Logits::All };
        let position = position.map_or_else(|| model.predicted(input), Ok)?;
        let row = if is_last || classifies { 0 } else { position };
        Ok(Self { plus, minus, position, logits, row })
    }

    /// The number, from the logits of a run that has computed [`logits`](Self::logits).
    ///
    /// # Errors
    /// [`Error::Nan`] if a logit of the position is NaN.
    pub fn of(&self, logits: &Values) -> Result<f32, Error> {
        let width = logits.shape.last().copied().unwrap_or(0);
        let row = logits.data.get(self.row * width..(self.row + 1) * width).unwrap_or_default();
        check_logits(row)?;
        let logit = |id: usize| row.get(id).copied().unwrap_or(f32::NAN);
        Ok(logit(self.plus) - self.minus.map_or(0.0, logit))
    }
}

impl Model {
    /// The position whose logits a prediction reads: the last one of a model that writes, the mask of one that fills gaps, and
    /// the position that is [classified](crate::Description::class_position).
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the model's head is not computed. [`Error::Missing`] if a model that fills gaps has no mask token,
    /// or if the input has none or several of them.
    ///
    /// ```
    /// use regard_models::{Input, Model};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let bert = Model::open(format!("{models}/tiny-bert"))?;
    /// let gap = bert.tokenizer().unwrap().encode("the [MASK] sat", None)?;
    /// assert_eq!(bert.predicted(&gap)?, 2);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn predicted(&self, input: &Input) -> Result<usize, Error> {
        let description = self.description();
        if let Some(why) = description.head.refusal() {
            return Err(Error::Unsupported(why));
        }
        if description.classifies() {
            return Ok(description.class_position(input));
        }
        if description.stack.causal {
            return Ok(self.logit_positions(input).saturating_sub(1));
        }
        let missing = |what: String| Err(Error::Missing(what));
        let Some(mask) = self.mask() else {
            return missing("the model does not write, and it has no mask token".to_owned());
        };
        let name = self.name(mask);
        match self.gaps(input).as_slice() {
            [place] => Ok(*place),
            [] => missing(format!(
                "the model fills gaps: put {name} where it is to predict a token, or give the position"
            )),
            _ => missing(format!("the text has several {name}: one token is predicted at a time")),
        }
    }

    /// The positions of the gaps that a model that fills gaps predicts.
    pub fn gaps(&self, input: &Input) -> Vec<usize> {
        let mask = self.mask();
        let gaps = input.ids.iter().enumerate().filter(|(_, id)| Some(**id) == mask);
        gaps.map(|(place, _)| place).collect()
    }

    fn mask(&self) -> Option<u32> {
        MASKS.iter().find_map(|mask| self.tokenizer()?.id(mask))
    }

    /// The positions that the stack reads whose logits are computed.
    fn logit_positions(&self, input: &Input) -> usize {
        if self.description().encoder.is_some() {
            input.decoder_ids.len()
        } else {
            self.tokens(input)
        }
    }

    /// The logit of a token as the tokenizer writes it (`Ġthe`), or as a text that is one token (` the`); of a class by its name
    /// if the model classifies.
    ///
    /// # Errors
    /// [`Error::Missing`] if it is no class, no single token, or unknown; [`Error::Unsupported`] without a tokenizer.
    ///
    /// ```
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let model = regard_models::Model::open(format!("{models}/tiny-bert"))?;
    /// assert_eq!(model.logit_named("cat")?, model.tokenizer().unwrap().id("cat").unwrap() as usize);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn logit_named(&self, text: &str) -> Result<usize, Error> {
        let description = self.description();
        let missing = |what: String| Err(Error::Missing(what));
        if description.classifies() {
            let place = description.labels.iter().position(|label| label == text);
            return place.map_or_else(|| missing(format!("the model has no class {text:?}")), Ok);
        }
        let advised = |e| Error::Unsupported(format!("{e}: give the id of a token"));
        let tokenizer = self.need_tokenizer().map_err(advised)?;
        if let Some(id) = tokenizer.id(text) {
            return Ok(id as usize);
        }
        if tokenizer.unknown(text)?.iter().any(|part| part == text) {
            return missing(format!("the model does not know {text:?}"));
        }
        match tokenizer.encode_as_is(text)?.as_slice() {
            [id] => Ok(*id as usize),
            ids => missing(format!("{text:?} is {} tokens, and not one", ids.len())),
        }
    }

    /// The name of a logit: that of a token or of a class, or its number if it has no name.
    pub fn output_name(&self, id: usize) -> String {
        let label = self.description().labels.get(id).filter(|_| self.description().classifies());
        let token = || u32::try_from(id).ok().map(|id| self.name(id));
        label.cloned().or_else(token).unwrap_or_else(|| id.to_string())
    }

    /// Refuses the id of a logit that the model does not have.
    ///
    /// # Errors
    /// [`Error::Missing`].
    pub fn check_logit(&self, id: usize) -> Result<(), Error> {
        let count = self.outputs();
        if id < count || count == 0 {
            return Ok(()); // a model without a head is refused when it runs
        }
        Err(Error::Missing(if self.description().classifies() {
            format!("the model has {count} classes, and none is {id}")
        } else {
            format!("the token {id} is not one of the vocabulary's {count}")
        }))
    }
}
