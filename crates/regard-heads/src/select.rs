use super::Error;
use super::source::Entry;

/// Names that identify attention among other tensors, as the whole name or as its last part: `blocks.*.attn.hook_pattern`. The
/// attention with the first of these names is the one that is meant without a name.
const KNOWN: [&str; 10] = [
    "attentions",
    "attention",
    "attn",
    "weights",
    "hook_pattern",
    "encoder_attentions",
    "decoder_attentions",
    "cross_attentions",
    "scores",
    "hook_attn_scores",
];

/// A name that stands for the only attention of a file.
const WEIGHTS: &str = "weights";

/// The names of tensors of tokens.
pub(super) const TOKENS: [&str; 3] = ["tokens", "query_tokens", "key_tokens"];

/// The tensors of an attention.
#[derive(Debug)]
pub(super) struct Selection<'a> {
    /// The name of the tensor. Where each layer is a tensor, `*` stands for the number of the layer.
    pub(super) name: String,
    /// One tensor with all layers, or a tensor for each layer, sorted by number.
    pub(super) layers: Layers<'a>,
    /// The entry of a batch, if its name was given: 1 in `attentions[1]`.
    pub(super) entry: Option<usize>,
    /// The names of all attentions of the file: those that are known by their names, or else all that can be attention.
    pub(super) all: Vec<String>,
}

#[derive(Debug)]
pub(super) enum Layers<'a> {
    One(&'a Entry),
    Each(Vec<(usize, &'a Entry)>),
}

impl<'a> Selection<'a> {
    fn new(name: String, layers: Layers<'a>) -> Self {
        Self { name, layers, entry: None, all: Vec::new() }
    }
}

/// The attention called `wanted`, or the only one of the file. [`WEIGHTS`] also stands for the only one, if no tensor has this name.
///
/// Tensors whose names differ in one number (`layer_0`, `layer_1`, …) are one attention called `layer_*`.
pub(super) fn select<'a>(
    entries: &'a [Entry],
    wanted: Option<&str>,
) -> Result<Selection<'a>, Error> {
    let mut all = selections(entries);
    let names: Vec<String> = all.iter().map(|s| s.name.clone()).collect();
    let known: Vec<String> = names.iter().filter(|name| rank(name).is_some()).cloned().collect();
    let (wanted, entry) = match wanted.map(|name| (name, entry_of(name))) {
        // A tensor may have such a name itself.
        Some((name, _)) if names.iter().any(|known| known == name) => (Some(name), None),
        Some((_, Some((name, entry)))) => (Some(name), Some(entry)),
        wanted => (wanted.map(|(name, _)| name), None),
    };
    let is_any = |name: &str| name == WEIGHTS && !names.iter().any(|known| known == name);
    let missing = |what: &str| Error::Missing(format!("the file has {what} {}", names.join(", ")));
    let place = match wanted.filter(|name| !is_any(name)) {
        Some(wanted) => {
            let place = names.iter().position(|name| name == wanted);
            place.ok_or_else(|| missing(&format!("no tensor `{wanted}`; it has")))?
        }
        None if all.is_empty() => {
            return Err(none("the file has no attention", entries));
        }
        None if all.len() == 1 => 0,
        None => {
            let first = known.iter().min_by_key(|name| rank(name));
            let place = first.and_then(|first| names.iter().position(|name| name == first));
            place.ok_or_else(|| missing("several attentions; name one of"))?
        }
    };
    let all_names = if known.is_empty() { names.clone() } else { known };
    Ok(Selection { entry, all: all_names, ..all.swap_remove(place) })
}

/// The place of an attention's name among the [`KNOWN`] ones. The number of a layer may end it: `decoder_attentions.*`.
fn rank(name: &str) -> Option<usize> {
    let name = name.strip_suffix('*').map_or(name, |name| name.trim_end_matches(['.', '_']));
    let last = name.rsplit('.').next();
    KNOWN.iter().position(|known| name == *known || last == Some(known))
}

/// The name of a tensor and the entry of its batch: `attentions[1]` is (`attentions`, 1).
fn entry_of(name: &str) -> Option<(&str, usize)> {
    let (name, entry) = name.strip_suffix(']')?.rsplit_once('[')?;
    Some((name, entry.parse().ok()?))
}

/// The error of a file without the tensors that are needed, which names those that it has.
pub(super) fn none<'a>(what: &str, entries: impl IntoIterator<Item = &'a Entry>) -> Error {
    let names: Vec<&str> = entries.into_iter().map(|entry| entry.name.as_str()).collect();
    let has = if names.is_empty() { "it has no tensors" } else { "its tensors are " };
    Error::Missing(format!("{what}: {has}{}", names.join(", ")))
}

/// All tensors of a file that can be attention, by name: those of at least two dimensions.
fn selections(entries: &[Entry]) -> Vec<Selection<'_>> {
    let mut all: Vec<Selection<'_>> = Vec::new();
    let tensors = || entries.iter().filter(|e| !TOKENS.contains(&e.name.as_str()));
    // In a file with matrices, vectors and scalars are not attention.
    let some_matrix = tensors().any(|e| e.shape.len() >= 2);
    for entry in tensors().filter(|e| e.shape.len() >= 2 || !some_matrix) {
        let Some((pattern, number)) = numbered(&entry.name) else {
            all.push(Selection::new(entry.name.clone(), Layers::One(entry)));
            continue;
        };
        match all.iter_mut().find(|s| s.name == pattern) {
            Some(Selection { layers: Layers::Each(layers), .. }) => layers.push((number, entry)),
            _ => all.push(Selection::new(pattern, Layers::Each(vec![(number, entry)]))),
        }
    }
    for selection in &mut all {
        match &mut selection.layers {
            // A single tensor with a number in its name is not a series of layers.
            Layers::Each(layers) if layers.len() == 1 => {
                let entry = layers[0].1;
                *selection = Selection::new(entry.name.clone(), Layers::One(entry));
            }
            Layers::Each(layers) => layers.sort_by_key(|(number, _)| *number),
            Layers::One(_) => {}
        }
    }
    all
}

/// A name with `*` for its first number, and that number: `layer_3.attention` is (`layer_*.attention`, 3).
fn numbered(name: &str) -> Option<(String, usize)> {
    let start = name.find(|c: char| c.is_ascii_digit())?;
    let (before, rest) = name.split_at(start);
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, after) = rest.split_at(end);
    Some((format!("{before}*{after}"), number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attention_is_known_by_the_last_part_of_its_name() {
        assert_eq!(rank("attentions"), Some(0));
        assert_eq!(rank("attentions.*"), rank("attentions"));
        assert_eq!(rank("decoder.blocks.*.attn.hook_pattern"), rank("hook_pattern"));
        assert!(rank("encoder_attentions") < rank("cross_attentions_*"));
        assert_eq!([rank("blocks.*.attn.hook_q"), rank("layer_*")], [None, None]);
        assert_eq!(entry_of("attentions[12]"), Some(("attentions", 12)));
        assert_eq!([entry_of("attentions"), entry_of("a[b]")], [None, None]);
    }

    #[test]
    fn the_first_number_of_a_name_is_the_layer() {
        assert_eq!(numbered("layer_12"), Some(("layer_*".to_owned(), 12)));
        assert_eq!(numbered("h.3.attn.w2"), Some(("h.*.attn.w2".to_owned(), 3)));
        assert_eq!(numbered("attention"), None);
        assert_eq!(numbered("layer_99999999999999999999999"), None);
    }
}
