//! "Did you mean …?": the known name that is most like an unknown one.

use strsim::jaro;

/// Names that are less alike than this, from 0 to 1, are no suggestion. clap demands the same of its own.
const LEAST: f64 = 0.7;
/// How much words of the same letters are alike, such as "Mai" and "Mia". Jaro's measure finds little in common if they are short.
const EXCHANGED: f64 = 0.95;

/// The known name that is most like `word`, if one is. A letter of the other case is half as different as another letter.
pub(crate) fn nearest(
    word: &str,
    known: impl IntoIterator<Item = impl Into<String>>,
) -> Option<String> {
    let lower = word.to_lowercase();
    let likeness = |name: String| {
        let in_lower_case = name.to_lowercase();
        if sorted(&lower) == sorted(&in_lower_case) && !word.is_empty() {
            return (EXCHANGED, name);
        }
        (f64::midpoint(jaro(word, &name), jaro(&lower, &in_lower_case)), name)
    };
    let all = known.into_iter().map(|name| likeness(name.into()));
    all.filter(|(likeness, _)| *likeness > LEAST).max_by(|a, b| a.0.total_cmp(&b.0)).map(|x| x.1)
}

fn sorted(word: &str) -> Vec<char> {
    let mut letters: Vec<char> = word.chars().collect();
    letters.sort_unstable();
    letters
}

/// The end of a message: `; did you mean "Mia"?`, or nothing.
pub(crate) fn hint(word: &str, known: impl IntoIterator<Item = impl Into<String>>) -> String {
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
