use std::path::Path;

use regard_figure::Label;

use super::maps::{self, TokenLabels};
use super::select::{TOKENS, none};
use super::source::{Entry, TensorFile};
use super::values::{Batch, Values};
use super::{AttentionShape, Error, Opener, Progress, tokens};

/// The queries and keys of a file, from which attention is computed. One tensor can be both.
///
/// ```
/// use regard_heads::{QueriesAndKeys, from_disk, unattended};
/// use safetensors::{Dtype, tensor::TensorView};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("embeddings.safetensors");
/// let numbers: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().flat_map(|x| x.to_le_bytes()).collect();
/// let tokens = TensorView::new(Dtype::F32, vec![3, 2], &numbers)?;
/// safetensors::serialize_to_file([("x", tokens)], None, &path)?;
///
/// let file = QueriesAndKeys::open(&from_disk, &path, &unattended)?;
/// assert_eq!((file.heads(), file.tokens(), file.dim()), (1, 3, 2));
/// let [queries, keys] = file.first(0, 2, 1);
/// assert_eq!(queries, [1.0, 3.0]);
/// assert_eq!(keys, queries);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct QueriesAndKeys {
    queries: Tensor,
    /// `None` if `queries` holds both.
    keys: Option<Tensor>,
    names: [TokenLabels; 2],
}

/// The first entry of the batch, \[heads, tokens, dim\].
#[derive(Clone, Debug)]
struct Tensor {
    values: Values,
    size: Size,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    batch: usize,
    heads: usize,
    tokens: usize,
    dim: usize,
}

impl QueriesAndKeys {
    /// Reads a safetensors, npy or npz file: its tensors `q` and `k`, or its only tensor, which is then both.
    ///
    /// Shapes: \[n, d\], \[heads, n, d\] or \[batch, heads, n, d\], whose first batch entry is read. Several heads of `q` may
    /// share one of `k`. Types: F32, F16, BF16 or F64. Tokens are read if the file has them.
    ///
    /// `open` opens the file and the file of tokens beside it: [`from_disk`](super::from_disk), or a function of the caller.
    ///
    /// # Errors
    /// See [`Error`]. The function reserves no more memory than the file's numbers can fill.
    pub fn open(open: &Opener<'_>, path: &Path, progress: &Progress<'_>) -> Result<Self, Error> {
        let mut source = TensorFile::open(open, path)?;
        let (q, k) = select(&source)?;
        let (size, of_keys) = (size_of(&q)?, k.as_ref().map(size_of).transpose()?);
        if let Some((k, of_keys)) = k.as_ref().zip(of_keys)
            && !goes_with(of_keys, size)
        {
            return Err(k.shape_error(&format!(
                ", which does not fit `q` {:?}: batch, tokens and dimensions must be the same, and the number of heads of `q` a multiple of that of `k`",
                q.shape
            )));
        }
        let of_maps = AttentionShape {
            layers: 1,
            heads: size.heads,
            queries: size.tokens,
            keys: size.tokens,
        };
        let found = tokens::find(Some((open, path)), &mut source, "", of_maps, 0)?;
        let names = maps::tokens_for(&q.name, of_maps, found)?.into();
        let parts = if k.is_some() { 2.0 } else { 1.0 };
        let queries = Tensor::read(&mut source, q, size, &|part| progress(part / parts))?;
        let keys = match k.zip(of_keys) {
            Some((k, size)) => {
                Some(Tensor::read(&mut source, k, size, &|part| progress((1.0 + part) / parts))?)
            }
            None => None,
        };
        Ok(Self { queries, keys, names })
    }

    /// The number of heads. 1 if the shape has no heads.
    pub fn heads(&self) -> usize {
        self.queries.size.heads
    }

    /// The number of queries, and of keys.
    pub fn tokens(&self) -> usize {
        self.queries.size.tokens
    }

    /// The number of dimensions of a query and of a key.
    pub fn dim(&self) -> usize {
        self.queries.size.dim
    }

    /// The first `tokens` queries and keys of a head with their first `dim` dimensions, or all if the file has fewer. Empty if
    /// there is no such head.
    pub fn first(&self, head: usize, tokens: usize, dim: usize) -> [Vec<f32>; 2] {
        let queries = self.queries.first(head, tokens, dim);
        let keys = match &self.keys {
            Some(keys) => keys.first(head * keys.size.heads / self.heads(), tokens, dim),
            None => queries.clone(),
        };
        [queries, keys]
    }

    /// The labels of queries and of keys, if the file has them.
    pub fn names(&self) -> [Option<&[Label]>; 2] {
        self.names.each_ref().map(Option::as_deref)
    }
}

impl Tensor {
    fn read(
        source: &mut TensorFile,
        mut entry: Entry,
        size: Size,
        progress: &Progress<'_>,
    ) -> Result<Self, Error> {
        // The first batch entry comes first in the file.
        entry.len /= size.batch;
        Ok(Self { values: Values::of(source, &[&entry], Batch::NONE, progress)?, size })
    }

    fn first(&self, head: usize, tokens: usize, dim: usize) -> Vec<f32> {
        let all = self.size.tokens * self.size.dim;
        let (start, len) = (head * all, tokens.min(self.size.tokens) * self.size.dim);
        let numbers = self.values.get(start..start + len);
        if dim >= self.size.dim {
            return numbers.into_owned();
        }
        numbers.chunks_exact(self.size.dim).flat_map(|token| &token[..dim]).copied().collect()
    }
}

/// The tensors of queries and of keys. A single tensor is both.
fn select(source: &TensorFile) -> Result<(Entry, Option<Entry>), Error> {
    if let (Some(q), Some(k)) = (source.entry("q"), source.entry("k")) {
        return Ok((q.clone(), Some(k.clone())));
    }
    let tensors: Vec<&Entry> =
        source.entries.iter().filter(|e| !TOKENS.contains(&e.name.as_str())).collect();
    match tensors[..] {
        [alone] => Ok((alone.clone(), None)),
        _ => Err(none("the file has neither `q` and `k` nor a single tensor", tensors)),
    }
}

fn size_of(entry: &Entry) -> Result<Size, Error> {
    let (batch, heads, tokens, dim) = match entry.shape[..] {
        [tokens, dim] => (1, 1, tokens, dim),
        [heads, tokens, dim] => (1, heads, tokens, dim),
        [batch, heads, tokens, dim] => (batch, heads, tokens, dim),
        _ => {
            let needed = ", but [n, d], [heads, n, d] or [batch, heads, n, d] is needed";
            return Err(entry.shape_error(needed));
        }
    };
    if tokens < 2 || entry.len == 0 {
        let needed = ", but at least 2 tokens are needed, and at least 1 of everything else";
        return Err(entry.shape_error(needed));
    }
    maps::checked(entry, Size { batch, heads, tokens, dim })
}

/// Whether keys of one size fit queries of the other. Several heads may share keys.
fn goes_with(keys: Size, queries: Size) -> bool {
    queries == Size { heads: queries.heads, ..keys } && queries.heads.is_multiple_of(keys.heads)
}
