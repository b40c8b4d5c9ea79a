//! The effect of the changes, in a sentence; and each change in words.

use std::collections::BTreeMap;

use regard_models::{Ablation, Change, Input, LayerPlace, Place, StreamPlace};

use super::Listed;
use super::Next;
use super::Outcome;
use super::Request;
use crate::style::lone;
use crate::temperature;

/// A change in a few words: "Head 1.2 gives zeros". `tokens` are those of the first text, and `words` those of patches, by their
/// ids.
pub(crate) fn change(change: &Change, tokens: &[String], words: &BTreeMap<u32, String>) -> String {
    let token =
        |i: usize| tokens.get(i).map_or_else(|| i.to_string(), |token| format!("{i} {token}"));
    match change {
        Change::Ablate { head, to: Ablation::Zero } => format!("Head {head} gives zeros"),
        Change::Ablate { head, .. } => format!("Head {head} gives its mean"),
        Change::Temperature { head, temperature } => {
            format!("Head {head} at T = {}", temperature::text(f64::from(*temperature)))
        }
        Change::Cut { head, query, key } => {
            format!("Head {head}: {} does not see {}", token(*query), token(*key))
        }
        Change::Patch { place, position, from } => {
            let (place, from) = (capital(&self::place(*place)), name(words, from, *position));
            format!("{place} at {}: from {from}", token(*position))
        }
        Change::PatchHead { head, position: Some(position), from } => {
            let from = name(words, from, *position);
            format!("Head {head} at {}: from {from}", token(*position))
        }
        Change::PatchHead { head, from, .. } => format!("Head {head}: from {}", other(from)),
        Change::Add { place, .. } => format!("A vector is added to {place}"),
        _ => "Another change".to_owned(),
    }
}

/// Several edges of one head in a few words.
pub(super) fn cuts(changes: &[Listed]) -> String {
    let count = changes.len();
    match changes.first().map(|listed| &listed.change) {
        Some(Change::Cut { head, .. }) => format!("Head {head}: {count} edges are cut"),
        _ => format!("{count} changes"),
    }
}

/// The name of a place: "the stream after layer 2".
pub(super) fn place(place: Place) -> String {
    let Some((layer, LayerPlace::Stream(stream))) = place.layer().zip(place.in_layer()) else {
        return place.to_string();
    };
    match stream {
        StreamPlace::Pre => format!("the stream into layer {layer}"),
        StreamPlace::Post | StreamPlace::NormedPost => format!("the stream after layer {layer}"),
        StreamPlace::AttentionOut => format!("the attention output of layer {layer}"),
        StreamPlace::FeedForwardOut => format!("the feed-forward output of layer {layer}"),
        _ => place.to_string(),
    }
}

/// The id of the token that a patch takes, if the change is one.
pub(super) fn patched(change: &Change) -> Option<u32> {
    match change {
        Change::Patch { position, from, .. }
        | Change::PatchHead { position: Some(position), from, .. } => {
            from.ids.get(*position).copied()
        }
        _ => None,
    }
}

/// The token of an input at a position: "“Tom”".
fn name(words: &BTreeMap<u32, String>, input: &Input, position: usize) -> String {
    let Some(id) = input.ids.get(position) else { return other(input).to_owned() };
    format!("“{}”", words.get(id).map_or_else(|| id.to_string(), |text| text.trim().to_owned()))
}

/// The source of a patch.
fn other(input: &Input) -> &'static str {
    if input.pixels.is_empty() { "the other text" } else { "the other image" }
}

pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
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
            format!("With head {head} at T = {temperature}")
        }
        [Change::Cut { head, query, key }] => {
            format!("When {} does not see {} in head {head}", token(*query), token(*key))
        }
        [Change::Patch { place, position, from }] => {
            format!("With {} at {} from {}", self::place(*place), token(*position), other(from))
        }
        [Change::PatchHead { head, position: Some(position), from }] => {
            format!("With head {head} at {} from {}", token(*position), other(from))
        }
        [Change::PatchHead { head, from, .. }] => format!("With head {head} from {}", other(from)),
        changes if all_cuts(changes) => format!("Without {} edges", changes.len()),
        changes => format!("With {} changes", changes.len()),
    }
}

fn all_cuts(changes: &[Change]) -> bool {
    changes.len() > 1 && changes.iter().all(|change| matches!(change, Change::Cut { .. }))
}

/// The effect of the changes on the likeliest token, in one sentence: "Without head 1.2, “Mary” falls from 83 % to 12 %;
/// “Tom” is now the likeliest (60 %)."
pub(super) fn sentence(outcome: &Outcome, list: &[Next]) -> Option<String> {
    outcome.next_changed()?;
    let top = list.first()?;
    let (before, after) = (top.text(top.before), top.text(top.after));
    let tokens: Vec<String> = outcome.tokens().iter().map(|token| token.text.clone()).collect();
    let start = causes(&outcome.request, &tokens);
    let token = &top.token;
    let what = match top.after - top.before {
        _ if before == after => format!("stays at {after}"),
        d if d < 0.0 => format!("falls from {before} to {after}"),
        _ => format!("rises from {before} to {after}"),
    };
    let first = list.iter().max_by(|a, b| a.after.total_cmp(&b.after))?;
    let (token, other) = (lone(token), lone(&first.token));
    Some(if first.id == top.id || !top.is_share {
        format!("{start}, “{token}” {what}.")
    } else {
        let now = first.text(first.after);
        format!("{start}, the model expects “{other}”: {now}. “{token}” {what}.")
    })
}

/// The headline: what the model expects, with what has changed it, and where a head looks.
pub(super) fn headline(outcome: &Outcome, list: &[Next], looks: &str) -> String {
    let winner = list.first().filter(|next| next.is_share);
    let expects = winner.map(|next| {
        format!("The model expects “{}”: {}.", lone(&next.token), next.text(next.after))
    });
    let expects = sentence(outcome, list).or(expects).unwrap_or_default();
    format!("{expects} {looks}").trim().to_owned()
}

/// All changes as the beginning of a sentence: "Without “Mary”, and with all heads at T = 3".
fn causes(request: &Request, tokens: &[String]) -> String {
    let mut causes = Vec::new();
    let hidden = request.hidden.iter().filter_map(|i| tokens.get(*i));
    let hidden: Vec<String> = hidden.map(|token| format!("“{}”", lone(token))).collect();
    if !hidden.is_empty() {
        causes.push(format!("Without {}", hidden.join(", ")));
    }
    if request.sharpness != 1.0 {
        let t = temperature::text(f64::from(request.sharpness));
        causes.push(format!("With all heads at T = {t}"));
    }
    if !request.changes.is_empty() {
        causes.push(with(&request.changes, tokens));
    }
    let mut causes = causes.into_iter();
    let first = causes.next().unwrap_or_default();
    causes.fold(first, |all, cause| {
        let (letter, rest) = cause.split_at(1);
        format!("{all}, and {}{rest}", letter.to_lowercase())
    })
}

#[cfg(test)]
mod tests {
    use regard_models::StackName;

    use super::*;

    #[test]
    fn changes_have_words() {
        let head = "1.2".parse().unwrap();
        let tokens = ["Mia".to_owned(), "gave".to_owned()];
        let words = BTreeMap::from([(7, " Tom".to_owned())]);
        let cut = Change::Cut { head, query: 1, key: 0 };
        assert_eq!(change(&cut, &tokens, &words), "Head 1.2: 1 gave does not see 0 Mia");
        assert_eq!(change(&cut, &[], &words), "Head 1.2: 1 does not see 0");
        assert_eq!(with(&[cut], &tokens), "When “gave” does not see “Mia” in head 1.2");
        let from = Input::tokens([7, 8]);
        let place = StackName::Only.place(2, StreamPlace::Post);
        let patch = Change::Patch { place, position: 1, from: from.clone() };
        assert_eq!(change(&patch, &tokens, &words), "The stream after layer 2 at 1 gave: from “8”");
        let patch_head = Change::PatchHead { head, position: Some(0), from };
        assert_eq!(change(&patch_head, &tokens, &words), "Head 1.2 at 0 Mia: from “Tom”");
    }
}
