use core::fmt;
use std::borrow::Cow;
use std::path::Path;

use regard_figure::Label;
use serde::{Deserialize, Serialize};

use super::error::counted;
use super::select::{Layers, none, select};
use super::source::{Entry, TensorFile};
use super::tokens::{self, FoundTokens};
use super::values::{Batch, Values};
use super::{Error, Opener, Progress};

/// The attention of a model on one text: a matrix of weights, queries × keys, for each layer and head.
///
/// ```no_run
/// use regard_heads::{AttentionMaps, HeadId, from_disk, unattended};
/// let maps = AttentionMaps::open(&from_disk, "bert.safetensors".as_ref(), None, &unattended)?;
/// let shape = maps.shape();
/// println!("{} layers of {} heads, {} × {}", shape.layers, shape.heads, shape.queries, shape.keys);
/// let weights = maps.head(HeadId { layer: 3, head: 5 });
/// # Ok::<(), regard_heads::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AttentionMaps {
    name: String,
    names: Vec<String>,
    shape: AttentionShape,
    layer_numbers: Vec<usize>,
    values: Values,
    masked: Option<f32>,
    queries: Option<Vec<Label>>,
    keys: Option<Vec<Label>>,
    /// The result is kept, because it is read often, and computing it compares all tokens.
    is_self_attention: bool,
}

/// The sizes of an attention. None is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttentionShape {
    /// Layers.
    pub layers: usize,
    /// Heads of each layer.
    pub heads: usize,
    /// Queries, the rows of a head's matrix.
    pub queries: usize,
    /// Keys, its columns.
    pub keys: usize,
}

/// A head by its indices in the file, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HeadId {
    /// The index of its layer. [`AttentionMaps::layer_number`] gives the number of the layer.
    pub layer: usize,
    /// Its index within the layer.
    pub head: usize,
}

/// "3.5": the layer and the head.
impl fmt::Display for HeadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.layer, self.head)
    }
}

impl AttentionShape {
    /// The heads of all layers, layer by layer.
    pub fn ids(self) -> impl ExactSizeIterator<Item = HeadId> + Clone {
        (0..self.layers * self.heads)
            .map(move |i| HeadId { layer: i / self.heads, head: i % self.heads })
    }

    /// The index of a head in that order, if there is such a head.
    pub fn index(self, id: HeadId) -> Option<usize> {
        (id.layer < self.layers && id.head < self.heads).then(|| id.layer * self.heads + id.head)
    }

    /// The number of weights of a head.
    pub fn size(self) -> usize {
        self.queries * self.keys
    }
}

impl AttentionMaps {
    /// The attention that a model has just computed: \[layers, heads, queries, keys\], and the tokens of its queries and keys.
    ///
    /// # Errors
    /// [`Error::Unfit`] if the number of weights or tokens does not match the shape or is 0.
    ///
    /// ```
    /// use regard_heads::{AttentionMaps, HeadId, AttentionShape};
    /// let shape = AttentionShape { layers: 1, heads: 1, queries: 2, keys: 2 };
    /// let tokens = regard_heads::readable(vec!["the".into(), "cat".into()]);
    /// let maps = AttentionMaps::new(shape, vec![1.0, 0.0, 0.5, 0.5], [tokens.clone(), tokens])?;
    /// assert_eq!(*maps.head(HeadId { layer: 0, head: 0 }), [1.0, 0.0, 0.5, 0.5]);
    /// assert!(maps.is_self_attention());
    /// # Ok::<(), regard_heads::Error>(())
    /// ```
    pub fn new(
        shape: AttentionShape,
        weights: Vec<f32>,
        [queries, keys]: [Vec<Label>; 2],
    ) -> Result<Self, Error> {
        let needed = shape.layers * shape.heads * shape.size();
        if needed == 0
            || weights.len() != needed
            || [queries.len(), keys.len()] != [shape.queries, shape.keys]
        {
            let AttentionShape { layers, heads, queries: n_q, keys: n_k } = shape;
            return Err(Error::Unfit(format!(
                "{} weights, {} query tokens and {} key tokens do not fit the shape {:?}",
                weights.len(),
                queries.len(),
                keys.len(),
                [layers, heads, n_q, n_k]
            )));
        }
        let is_self_attention = queries == keys;
        Ok(Self {
            name: "attentions".to_owned(),
            names: vec!["attentions".to_owned()],
            masked: None,
            shape,
            layer_numbers: (0..shape.layers).collect(),
            values: Values::F32(weights),
            queries: Some(queries),
            keys: Some(keys),
            is_self_attention,
        })
    }

    /// Reads a safetensors, npy or npz file. If it holds several attentions, `name` chooses one of [`names`](Self::names); without
    /// a name, the first that is known by its own is meant. The name `weights` also chooses the only attention of a file that has
    /// no tensor of this name.
    ///
    /// Shapes: \[layers, heads, n, n\], \[heads, n, n\] or \[n, n\]; also \[layers, batch, heads, n, n\]; or one tensor a layer,
    /// \[heads, n, n\], \[batch, heads, n, n\] or \[n, n\]. `attentions[1]` is the second entry of a batch. Types: F32, F16, BF16 or F64. Tokens are read if the
    /// file has them. The weights are not checked here, but by [`Survey::new`](super::Survey::new). Among scores, numbers up to about −10⁴
    /// that are ten times as large as all others are masked: they become −∞.
    ///
    /// `open` opens the file and the file of tokens beside it: [`from_disk`](super::from_disk), or a function of the caller.
    ///
    /// # Errors
    /// See [`Error`]. The function reserves no more memory than the file's numbers can fill.
    pub fn open(
        open: &Opener<'_>,
        path: &Path,
        name: Option<&str>,
        progress: &Progress<'_>,
    ) -> Result<Self, Error> {
        Self::read(TensorFile::open(open, path)?, Some((open, path)), name, progress)
    }

    /// Reads a file in memory.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn in_memory(
        bytes: &'static [u8],
        name: &str,
        progress: &Progress<'_>,
    ) -> Result<Self, Error> {
        Self::read(TensorFile::in_memory(bytes, name)?, None, None, progress)
    }

    fn read(
        mut source: TensorFile,
        beside: Option<(&Opener<'_>, &Path)>,
        name: Option<&str>,
        progress: &Progress<'_>,
    ) -> Result<Self, Error> {
        let entries = source.entries.clone();
        let selection = select(&entries, name)?;
        let (layers, layer_numbers): (Vec<(&Entry, Batched)>, Vec<usize>) = match selection.layers {
            Layers::One(entry) => {
                let shape = shape_of(entry, false)?;
                (vec![(entry, shape)], (0..shape.shape.layers).collect())
            }
            Layers::Each(layers) => {
                let shapes: Result<_, Error> =
                    layers.iter().map(|(_, e)| Ok((*e, shape_of(e, true)?))).collect();
                (shapes?, layers.iter().map(|(number, _)| *number).collect())
            }
        };
        let Batched { shape, batch } = shape_of_equals(&layers)?;
        let (plain, entry) = (selection.name, selection.entry.unwrap_or(0));
        if entry >= batch {
            let reason = format!("has no entry {entry}: its batch has {batch}, from 0");
            return Err(Error::Tensor { tensor: plain, reason });
        }
        let found = tokens::find(beside, &mut source, &plain, shape, entry)?;
        let (queries, keys) = tokens_for(&plain, shape, found)?;
        let entries: Vec<&Entry> = layers.iter().map(|(entry, _)| *entry).collect();
        let together = shape.heads * shape.size();
        let batch_entry = Batch { size: batch, entry, together };
        let mut values = Values::of(&mut source, &entries, batch_entry, progress)?;
        let masked = values.mask();
        let is_self_attention = shape.queries == shape.keys && queries == keys;
        let of_batch = |entry: usize| format!("{plain}[{entry}]");
        let names = selection.all.into_iter().flat_map(|name| {
            let entries = if name == plain && batch > 1 { batch.min(MOST_NAMED) } else { 0 };
            let whole = (entries == 0).then_some(name);
            whole.into_iter().chain((0..entries).map(of_batch))
        });
        Ok(Self {
            names: names.collect(),
            name: if batch > 1 { of_batch(entry) } else { plain.clone() },
            shape,
            layer_numbers,
            values,
            masked,
            queries,
            keys,
            is_self_attention,
        })
    }

    /// The name of the tensor. Where each layer is a tensor, `*` stands for the number of the layer; `[1]` is an entry of a batch.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of the attentions of the file, with that of this one: those of the entries of its batch, and those of other tensors.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The number that −∞ stands for, where the numbers are scores of which some are masked.
    pub fn masked(&self) -> Option<f32> {
        self.masked
    }

    /// The numbers of layers, heads, queries and keys.
    pub fn shape(&self) -> AttentionShape {
        self.shape
    }

    /// The number of a layer. Where tensors are named by layer, the file may lack some numbers.
    pub fn layer_number(&self, layer: usize) -> usize {
        self.layer_numbers.get(layer).copied().unwrap_or(layer)
    }

    /// The name of a head, such as "3.5": the number of its layer, and its own.
    pub fn name_of(&self, id: HeadId) -> String {
        HeadId { layer: self.layer_number(id.layer), ..id }.to_string()
    }

    /// The head with these numbers.
    ///
    /// # Errors
    /// [`Error::Missing`], which lists the numbers.
    pub fn find(&self, layer_number: usize, head: usize) -> Result<HeadId, Error> {
        let (layer, heads) = (self.find_layer(layer_number)?, self.shape.heads);
        if head < heads {
            return Ok(HeadId { layer, head });
        }
        let there_are = format!("{} a layer, from 0 to {}", counted(heads, "head"), heads - 1);
        Err(no_such("head", head, &there_are))
    }

    /// The index of the layer with this number.
    ///
    /// # Errors
    /// [`Error::Missing`], which lists the numbers.
    pub fn find_layer(&self, number: usize) -> Result<usize, Error> {
        let layer = self.layer_numbers.iter().position(|n| *n == number);
        layer.ok_or_else(|| {
            let first = self.layer_number(0);
            let last = self.layer_number(self.shape.layers - 1);
            let layers = counted(self.shape.layers, "layer");
            no_such("layer", number, &format!("{layers}, from {first} to {last}"))
        })
    }

    /// The weights of a head, row by row. Half precision is widened. Empty if there is no such head.
    pub fn head(&self, id: HeadId) -> Cow<'_, [f32]> {
        self.shape.index(id).map_or_else(Cow::default, |i| {
            self.values.get(i * self.shape.size()..(i + 1) * self.shape.size())
        })
    }

    /// A row of a head: the weights of one query.
    pub(super) fn row(&self, id: HeadId, query: usize) -> Cow<'_, [f32]> {
        let AttentionShape { queries, keys, .. } = self.shape;
        let start =
            self.shape.index(id).filter(|_| query < queries).map(|i| (i * queries + query) * keys);
        start.map_or_else(Cow::default, |start| self.values.get(start..start + keys))
    }

    /// The tokens of the queries, if the file has them.
    pub fn query_tokens(&self) -> Option<&[Label]> {
        self.queries.as_deref()
    }

    /// The tokens of the keys, if the file has them.
    pub fn key_tokens(&self) -> Option<&[Label]> {
        self.keys.as_deref()
    }

    /// The labels of queries and keys: their tokens, or their numbers if the file has no tokens.
    pub fn tokens(&self) -> [Vec<Label>; 2] {
        let named = |tokens: Option<&[Label]>, n| {
            tokens.map_or_else(|| Label::numbers(n), <[Label]>::to_vec)
        };
        [named(self.query_tokens(), self.shape.queries), named(self.key_tokens(), self.shape.keys)]
    }

    /// Whether queries and keys are the same tokens: their numbers are equal, and their texts too if the file has them. Otherwise
    /// positions cannot be compared.
    pub fn is_self_attention(&self) -> bool {
        self.is_self_attention
    }
}

/// The most entries of a batch that are named.
const MOST_NAMED: usize = 64;

/// The sizes of an attention, and the entries of the batch that it is one of.
#[derive(Clone, Copy, PartialEq)]
struct Batched {
    shape: AttentionShape,
    batch: usize,
}

/// The shape of a tensor that holds all layers, or one of them.
fn shape_of(entry: &Entry, is_one_layer: bool) -> Result<Batched, Error> {
    let (batch, [layers, heads, queries, keys]) = match entry.shape[..] {
        [queries, keys] => (1, [1, 1, queries, keys]),
        [heads, queries, keys] => (1, [1, heads, queries, keys]),
        [batch, heads, queries, keys] if is_one_layer => (batch, [1, heads, queries, keys]),
        [layers, heads, queries, keys] => (1, [layers, heads, queries, keys]),
        [layers, batch, heads, queries, keys] if !is_one_layer => {
            (batch, [layers, heads, queries, keys])
        }
        _ => {
            return Err(entry.shape_error(if is_one_layer {
                ", but [heads, n, n], [batch, heads, n, n] or [n, n] for each layer is needed"
            } else {
                ", but [layers, heads, n, n], [layers, batch, heads, n, n], [heads, n, n] or [n, n] is needed"
            }));
        }
    };
    checked(entry, Batched { shape: AttentionShape { layers, heads, queries, keys }, batch })
}

/// The error of a layer or a head that the file lacks.
pub(super) fn no_such(what: &str, number: usize, there_are: &str) -> Error {
    Error::Missing(format!("there is no {what} {number}: the file has {there_are}"))
}

/// Returns the shape if the type is supported and the shape is not empty.
pub(super) fn checked<T>(entry: &Entry, shape: T) -> Result<T, Error> {
    if entry.dtype.is_none() {
        return Err(entry.error(format!(
            "is {}; F32, F16, BF16 or F64 in little-endian and row-major order is needed",
            entry.type_name
        )));
    }
    if entry.len == 0 {
        return Err(entry.shape_error(": it holds no attention, because a dimension is 0"));
    }
    Ok(shape)
}

/// The common shape of all layers.
fn shape_of_equals(layers: &[(&Entry, Batched)]) -> Result<Batched, Error> {
    let Some((&(first, batched), others)) = layers.split_first() else {
        return Err(none("the file has no attention", Vec::new()));
    };
    match others.iter().find(|(entry, other)| *other != batched || entry.dtype != first.dtype) {
        Some((other, _)) => Err(other.error(format!(
            "is {}, but `{}` is {}: all layers must be alike in type and shape",
            other.description(),
            first.name,
            first.description()
        ))),
        None if others.is_empty() => Ok(batched),
        None => Ok(Batched {
            shape: AttentionShape { layers: layers.len(), ..batched.shape },
            ..batched
        }),
    }
}

pub(super) type TokenLabels = Option<Vec<Label>>;

/// The labels of the tokens found. Their numbers must match the queries and keys.
pub(super) fn tokens_for(
    tensor: &str,
    shape: AttentionShape,
    found: FoundTokens,
) -> Result<(TokenLabels, TokenLabels), Error> {
    let fit = |found: Option<(String, Vec<String>)>, axis, needed| match found {
        Some((place, tokens)) if tokens.len() != needed => {
            Err(Error::token_count(&place, tokens.len(), tensor, needed, axis))
        }
        found => Ok(found.map(|(_, tokens)| super::readable(tokens))),
    };
    Ok((fit(found.queries, "queries", shape.queries)?, fit(found.keys, "keys", shape.keys)?))
}
