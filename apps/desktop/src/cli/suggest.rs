//! "Did you mean …?": the known name that is most similar to an unknown one.

use strsim::jaro;

/// Names that are less similar than this, from 0 to 1, are not suggested. clap has the same limit for its own names.
const LEAST: f64 = 0.7;
/// The similarity of words of the same letters, such as "Mai" and "Mia". Jaro's measure gives them a low similarity if they are
/// short.
const EXCHANGED: f64 = 0.95;

/// The known name that is most similar to `word`, if one is similar enough. A letter of the other case counts as half as
/// different as another letter.
pub(crate) fn nearest(
    word: &str,
    known: impl IntoIterator<Item = impl AsRef<str>>,
) -> Option<String> {
    let lower = word.to_lowercase();
    let letters: Vec<char> = lower.chars().collect();
    let in_order = sorted(&lower);
    let likeness = |name: &str| {
        let in_lower_case = name.to_lowercase();
        if in_order == sorted(&in_lower_case) && !word.is_empty() {
            return EXCHANGED;
        }
        f64::midpoint(jaro(word, name), jaro(&lower, &in_lower_case))
    };
    let all = known.into_iter().filter(|name| may_be_like(&letters, name.as_ref()));
    let all = all.map(|name| (likeness(name.as_ref()), name));
    let best = all.filter(|(likeness, _)| *likeness > LEAST).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, name)| name.as_ref().to_owned())
}

/// Whether a name has enough of a word's letters to be similar. If two texts of a and b letters have m letters in common,
/// Jaro's measure gives at most (m/a + m/b + 1)/3. A vocabulary has tens of thousands of names, and few of them pass.
fn may_be_like(letters: &[char], name: &str) -> bool {
    let (mut len, mut common) = (0_usize, 0_usize);
    for c in name.chars() {
        let lower = if c.is_ascii() {
            c.to_ascii_lowercase()
        } else {
            c.to_lowercase().next().unwrap_or(c)
        };
        len += 1;
        common += usize::from(letters.contains(&lower));
    }
    let common = common.min(letters.len()) as f64;
    let share = |len: usize| common / len.max(1) as f64;
    share(letters.len()) + share(len) + 1.0 > 3.0 * LEAST
}

fn sorted(word: &str) -> Vec<char> {
    let mut letters: Vec<char> = word.chars().collect();
    letters.sort_unstable();
    letters
}

/// The end of a message: `; did you mean "Mia"?`, or nothing.
pub(crate) fn hint(word: &str, known: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    nearest(word, known).map_or_else(String::new, |name| format!("; did you mean {name:?}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_name_is_suggested_if_one_is_similar() {
        let known = ["weights", "raw_scores", "Mia", "Tim", "map", "the-cat-sat"];
        for (word, meant) in [
            ("wieghts", Some("weights")),
            ("Mai", Some("Mia")),
            ("mia", Some("Mia")),
            ("the-ct", Some("the-cat-sat")),
            ("raw-scores", Some("raw_scores")),
            ("xyz", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known).as_deref(), meant, "{word}");
        }
        assert_eq!(hint("Mai", known), "; did you mean \"Mia\"?");
        assert_eq!(hint("xyz", known), "");
    }
}
