//! What the changes did, in a sentence; and each change in words.

use regard_models::{Ablation, Change};

use super::next::{Next, percent};
use super::run::Outcome;
use crate::temperature;

/// A change in a few words: "Head 1.2 gives zeros".
pub(super) fn change(change: &Change, tokens: &[String]) -> String {
    let token =
        |i: usize| tokens.get(i).map_or_else(|| i.to_string(), |token| format!("{i} {token}"));
    match change {
        Change::Ablate { head, to: Ablation::Zero } => format!("Head {head} gives zeros"),
        Change::Ablate { head, .. } => format!("Head {head} gives its mean"),
        Change::Temperature { head, temperature } => {
            format!("Head {head} at temperature {}", temperature::text(f64::from(*temperature)))
        }
        Change::Cut { head, query, key } => {
            format!("Head {head}: {} does not see {}", token(*query), token(*key))
        }
        Change::Patch { place, position, .. } => {
            format!("{place} at {} from another text", token(*position))
        }
        Change::Add { place, .. } => format!("A vector is added to {place}"),
        _ => "Another change".to_owned(),
    }
}

/// The changes as the beginning of a sentence: "Without head 1.2".
fn with(changes: &[Change], tokens: &[String]) -> String {
    let token =
        |i: usize| tokens.get(i).map_or_else(|| i.to_string(), |token| format!("“{token}”"));
    match changes {
        [Change::Ablate { head, to: Ablation::Zero }] => format!("Without head {head}"),
        [Change::Ablate { head, .. }] => format!("With the mean of head {head} at every position"),
        [Change::Temperature { head, temperature }] => {
            let temperature = temperature::text(f64::from(*temperature));
            format!("With head {head} at temperature {temperature}")
        }
        [Change::Cut { head, query, key }] => {
            format!("When {} does not see {} in head {head}", token(*query), token(*key))
        }
        [_] => "With the change".to_owned(),
        changes => format!("With {} changes", changes.len()),
    }
}

/// What the changes did to the likeliest token, in one sentence: "Without head 1.2, “Mary” falls from 83 % to 12 %; “Tom” is
/// now the likeliest (60 %)."
pub(super) fn sentence(outcome: &Outcome, list: &[Next]) -> Option<String> {
    outcome.next_changed()?;
    let top = list.first()?;
    let (before, after) = (percent(top.before), percent(top.after));
    let tokens: Vec<String> = outcome.tokens().iter().map(|token| token.text.clone()).collect();
    let start = with(&outcome.request.changes, &tokens);
    let token = &top.token;
    let what = match top.after - top.before {
        _ if before == after => format!("stays at {after}"),
        d if d < 0.0 => format!("falls from {before} to {after}"),
        _ => format!("rises from {before} to {after}"),
    };
    let first = list.iter().max_by(|a, b| a.after.total_cmp(&b.after))?;
    let other = if first.id == top.id {
        String::new()
    } else {
        format!("; “{}” is now the likeliest ({})", first.token, percent(first.after))
    };
    Some(format!("{start}, “{token}” {what}{other}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_words() {
        let head = "1.2".parse().unwrap();
        let tokens = ["Mia".to_owned(), "gave".to_owned()];
        let zero = Change::Ablate { head, to: Ablation::Zero };
        let cut = Change::Cut { head, query: 1, key: 0 };
        let warm = Change::Temperature { head, temperature: 0.5 };
        assert_eq!(change(&zero, &tokens), "Head 1.2 gives zeros");
        assert_eq!(change(&cut, &tokens), "Head 1.2: 1 gave does not see 0 Mia");
        assert_eq!(change(&cut, &[]), "Head 1.2: 1 does not see 0");
        assert_eq!(with(core::slice::from_ref(&zero), &tokens), "Without head 1.2");
        assert_eq!(with(&[cut], &tokens), "When “gave” does not see “Mia” in head 1.2");
        assert_eq!(with(core::slice::from_ref(&warm), &tokens), "With head 1.2 at temperature 0.5");
        assert_eq!(with(&[zero, warm], &tokens), "With 2 changes");
    }
}
