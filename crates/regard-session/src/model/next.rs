//! The tokens that the model expects next, with and without the changes.

use regard_heads::readable;
use regard_models::{Description, Model, OutputHead, Problem};
use serde::{Deserialize, Serialize};

use super::run::Outcome;

/// The maximum number of tokens in the list.
const MOST: usize = 10;

/// The kind of outcome that has the probabilities.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Predicts {
    /// The token after the text.
    Next,
    /// The token in a gap.
    Gap,
    /// A class.
    Class,
}

impl Predicts {
    /// What a model of this description predicts.
    pub fn of(description: &Description) -> Self {
        match description.head {
            OutputHead::Classes { .. } => Self::Class,
            _ if description.stack.causal => Self::Next,
            _ => Self::Gap,
        }
    }
}

/// A token that may come next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Next {
    /// Its id.
    pub id: u32,
    /// The token in a readable form.
    pub token: String,
    /// Its probability in the unchanged run.
    pub before: f32,
    /// Its probability in the run with the changes, or the same without changes.
    pub after: f32,
    /// Its probability in run B, if there is one.
    pub second: Option<f32>,
    /// The text that it appends, if the model writes it.
    pub adds: Option<String>,
    /// Whether the numbers are probabilities. Those of a regression are what it predicts.
    pub is_share: bool,
}

impl Next {
    /// The likeliest tokens of either run, in the order of the unchanged one.
    pub fn likeliest(outcome: &Outcome, model: &Model) -> Vec<Self> {
        let before = outcome.next();
        let after = outcome.next_changed().unwrap_or(before);
        let second = outcome.next_second();
        let of_second = |i: usize| second?.get(i).copied();
        let mut ids: Vec<usize> = (0..before.len().min(after.len())).collect();
        let larger = |i: &usize| before[*i].max(after[*i]).max(of_second(*i).unwrap_or_default());
        let most = MOST.min(ids.len());
        if most < ids.len() {
            let _ = ids.select_nth_unstable_by(most, |i, j| larger(j).total_cmp(&larger(i)));
            ids.truncate(most);
        }
        ids.sort_by(|i, j| before[*j].total_cmp(&before[*i]).then(i.cmp(j)));
        Self::each(outcome, model, ids)
    }

    /// The likeliest token of the run with the changes, of those that the model writes.
    pub fn written(outcome: &Outcome, model: &Model) -> Option<Self> {
        let mut after = outcome.next_changed().unwrap_or_else(|| outcome.next()).to_vec();
        let (description, so_far) = (model.description(), outcome.written());
        description.suppress(&mut after, so_far == description.decoder_start);
        let top = (0..after.len()).reduce(|best, i| if after[i] > after[best] { i } else { best });
        Self::each(outcome, model, vec![top?]).pop()
    }

    fn each(outcome: &Outcome, model: &Model, ids: Vec<usize>) -> Vec<Self> {
        let before = outcome.next();
        let after = outcome.next_changed().unwrap_or(before);
        let of_second = |i: usize| outcome.next_second()?.get(i).copied();
        let classes = &model.description().labels;
        let predicts = Predicts::of(model.description());
        let is_share = !matches!(
            model.description().head,
            OutputHead::Classes { problem: Problem::Regression, .. }
        );
        let name = |id: usize| match predicts {
            Predicts::Class => classes.get(id).cloned().unwrap_or_else(|| format!("class {id}")),
            Predicts::Next | Predicts::Gap => {
                let token = u32::try_from(id).ok().and_then(|id| model.tokenizer()?.token(id));
                token.unwrap_or_else(|| id.to_string())
            }
        };
        // The kind of tokenizer follows from the tokens of the text.
        let text = outcome.tokens().iter().map(|token| token.raw.clone());
        let all = readable(text.chain(ids.iter().map(|id| name(*id))).collect());
        let names = all.into_iter().skip(outcome.tokens().len());
        let tokenizer = model.tokenizer().filter(|_| predicts == Predicts::Next);
        let text = |ids: &[u32]| tokenizer?.decode(ids).ok();
        let so_far = text(outcome.written());
        let adds = |id: u32| {
            let whole = text(&[outcome.written(), &[id]].concat())?;
            // A token may be a part of a letter, which becomes visible with the rest.
            whole
                .strip_prefix(so_far.as_deref()?)
                .map_or_else(|| text(&[id]), |more| Some(more.to_owned()))
        };
        let next = ids.into_iter().zip(names).map(|(i, label)| {
            let id = u32::try_from(i).unwrap_or(u32::MAX);
            let (token, adds) = (label.text, adds(id));
            let (before, after, second) = (before[i], after[i], of_second(i));
            Self { id, token, before, after, second, adds, is_share }
        });
        next.collect()
    }

    /// One of the numbers in a readable form.
    pub fn text(&self, number: f32) -> String {
        if self.is_share { percent(number) } else { format!("{number:.3}").replace('-', "−") }
    }

    /// A difference of two of the numbers, and its unit.
    pub fn difference(&self, difference: f32) -> (String, &'static str) {
        if self.is_share {
            return (points(difference), " points");
        }
        (format!("{difference:+.3}").replace('-', "−"), "")
    }
}

/// A readable probability: "83 %", "0.4 %", "< 0.1 %".
pub fn percent(p: f32) -> String {
    let p = 100.0 * p;
    match p {
        // What is not certain is never 100 %.
        _ if p >= 99.995 && p < 100.0 => "> 99.99 %".to_owned(),
        _ if p >= 99.5 && p < 100.0 => format!("{p:.2} %"),
        _ if p >= 9.95 || p == 0.0 => format!("{p:.0} %"),
        _ if p >= 0.095 => format!("{p:.1} %"),
        _ => "< 0.1 %".to_owned(),
    }
}

/// A difference in percentage points: "+12", "−0.4", "0".
fn points(difference: f32) -> String {
    let points = 100.0 * difference;
    let text = if points.abs() >= 9.95 { format!("{points:+.0}") } else { format!("{points:+.1}") };
    if text.trim_matches(['+', '-', '0', '.']).is_empty() {
        "0".to_owned()
    } else {
        text.replace('-', "−")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_differences_are_short() {
        let shares = [1.0, 0.834, 0.0994, 0.05, 0.004, 0.0001, 0.0].map(percent);
        assert_eq!(shares, ["100 %", "83 %", "9.9 %", "5.0 %", "0.4 %", "< 0.1 %", "0 %"]);
        let differences = [0.5, -0.714, 0.004, -0.0001, 0.0].map(points);
        assert_eq!(differences, ["+50", "−71", "+0.4", "0", "0"]);
    }
}
