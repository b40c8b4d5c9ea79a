//! The files of `regard-mpi attend`: each rank reads its tokens and writes its part of the results.
//!
//! ```text
//! rank 0: a temporary file beside the output ← header, and the length that it will have
//! each:   its results ← to their places in the temporary file
//! rank 0, when all have written: rename the temporary file to the output
//! ```
//!
//! If a run ends early, the output stays as it was. Each output has one name for its temporary file, so the next run uses the
//! same one.

use core::ops::Range;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use regard::Heads;
use regard_tensors::attend::{narrow, widen};
use regard_tensors::safetensors::Dtype;
use regard_tensors::safetensors::tensor::{Metadata, TensorInfo};
use regard_tensors::{Budget, Header};

/// A safetensors file whose header has been read.
pub(crate) struct Input {
    file: File,
    header: Header,
}

/// Some rows of a tensor in `f32`, and the shape of the whole tensor.
pub(crate) struct Rows {
    pub(crate) data: Vec<f32>,
    /// \[batch, heads, tokens, numbers\].
    pub(crate) shape: [usize; 4],
    pub(crate) dtype: Dtype,
}

impl Rows {
    /// The heads of the tokens that were read.
    pub(crate) fn heads(&self, name: &'static str) -> Result<Heads<'_>, regard::Error> {
        let [batch, heads, _, d] = self.shape;
        let tokens = self.data.len() / (batch * heads * d).max(1);
        Heads::new(name, &self.data, [batch, heads, tokens, d])
    }
}

impl Input {
    /// Reads the header of a file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let header = Header::read(&mut file, Some(length), &mut Budget::default())
            .context("it is no safetensors file that can be read")?;
        header.check_length(length)?;
        Ok(Self { file, header })
    }

    /// The header's entry for a tensor, if the file has the tensor.
    pub(crate) fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.header.info(name)
    }

    /// The shape of a tensor that the file must have, padded with 1 on the left to four dimensions.
    pub(crate) fn shape(&self, name: &str) -> Result<[usize; 4]> {
        let info = self.info(name).with_context(|| format!("tensor `{name}` is missing"))?;
        let missing = 4_usize.checked_sub(info.shape.len());
        let missing =
            missing.with_context(|| format!("tensor `{name}` has the shape {:?}", info.shape))?;
        let mut shape = [1; 4];
        shape[missing..].copy_from_slice(&info.shape);
        Ok(shape)
    }

    /// Reads the tokens at some places of several tensors of floats, which follow one another along the tokens.
    pub(crate) fn floats(&self, names: &[&str], places: &[Range<usize>]) -> Result<Rows> {
        let dtype = self.info(names[0]).map_or(Dtype::F32, |info| info.dtype);
        let mut data = Vec::new();
        widen(names[0], dtype, &[], &mut data)?; // a rank may have no tokens
        let shape = self.tokens(names, places, |bytes, of_tensor| {
            data.reserve_exact(if data.is_empty() { of_tensor } else { 0 });
            widen(names[0], dtype, bytes, &mut data)
        })?;
        Ok(Rows { data, shape, dtype })
    }

    /// Calls `each` with the bytes of the tokens at some places, head by head, and with the total number of their elements.
    /// Returns the shape \[batch, heads, tokens, numbers\] of all tensors together.
    pub(crate) fn tokens(
        &self,
        names: &[&str],
        places: &[Range<usize>],
        mut each: impl FnMut(&[u8], usize) -> Result<()>,
    ) -> Result<[usize; 4]> {
        let ([batch, heads, _, d], first_name) = (self.shape(names[0])?, names[0]);
        let (mut all, mut sources) = (0, Vec::new());
        for name in names {
            let shape @ [.., tokens, _] = self.shape(name)?;
            let same_type = self.info(name).map(|info| info.dtype)
                == self.info(first_name).map(|info| info.dtype);
            ensure!(
                shape == [batch, heads, tokens, d] && same_type,
                "tensor `{name}` of the shape {shape:?} does not go with `{first_name}`: only the tokens, the last dimension but one, may differ"
            );
            sources.push((*name, all..all + tokens));
            all += tokens;
        }
        let own = places.iter().map(Range::len).sum::<usize>() * batch * heads * d;
        for (head, range) in
            (0..batch * heads).flat_map(|head| places.iter().map(move |range| (head, range)))
        {
            for (name, source) in &sources {
                let (start, end) = (range.start.max(source.start), range.end.min(source.end));
                if start < end {
                    let first = head * source.len() + start - source.start;
                    each(&self.bytes(name, first * d..(first + end - start) * d)?, own)?;
                }
            }
        }
        Ok([batch, heads, all, d])
    }

    /// The bytes of a range of a tensor's elements.
    fn bytes(&self, name: &str, elements: Range<usize>) -> Result<Vec<u8>> {
        let info = self.info(name).with_context(|| format!("tensor `{name}` is missing"))?;
        let size = info.dtype.bitsize() / 8;
        let mut bytes = vec![0; elements.len() * size];
        let place = info.data_offsets.0 + elements.start * size;
        self.file.read_exact_at(&mut bytes, self.header.start() + place as u64)?;
        Ok(bytes)
    }
}

/// A tensor of the output, and this rank's part of it.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) dtype: Dtype,
    /// The shape in the file.
    pub(crate) shape: Vec<usize>,
    /// The total number of tokens, and the numbers of each.
    pub(crate) size: [usize; 2],
    /// The tokens of this rank.
    pub(crate) places: Vec<Range<usize>>,
    /// The numbers of these tokens, head by head.
    pub(crate) data: Vec<f32>,
}

/// An output file, which replaces the old one when all ranks have written.
pub(crate) struct Output {
    path: PathBuf,
    temporary: PathBuf,
    start: u64,
    infos: Vec<TensorInfo>,
    header: Vec<u8>,
}

impl Output {
    pub(crate) fn new(path: &Path, parts: &[Part]) -> Result<Self> {
        let mut end = 0;
        let infos: Vec<_> = parts
            .iter()
            .map(|part| {
                let bytes = part.shape.iter().product::<usize>() * part.dtype.bitsize() / 8;
                let data_offsets = (end, end + bytes);
                end += bytes;
                TensorInfo { dtype: part.dtype, shape: part.shape.clone(), data_offsets }
            })
            .collect();
        let named = parts.iter().map(|part| part.name.to_owned()).zip(infos.iter().cloned());
        let mut header = serde_json::to_vec(&Metadata::new(None, named.collect())?)?;
        header.resize(header.len().next_multiple_of(8), b' ');
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned()); // the file to which a symbolic link leads
        let name = path.file_name().with_context(|| format!("{} is no file", path.display()))?;
        let temporary = path.with_file_name(format!(".{}.part", name.to_string_lossy()));
        Ok(Self { path, temporary, start: 8 + header.len() as u64, infos, header })
    }

    /// Creates the temporary file. It is locked as long as the result exists.
    pub(crate) fn create(&self) -> Result<File> {
        let new =
            OpenOptions::new().write(true).create(true).truncate(false).open(&self.temporary)?;
        if new.try_lock().is_err() {
            bail!("another run writes it");
        }
        new.set_len(0)?;
        new.write_all_at(&(self.header.len() as u64).to_le_bytes(), 0)?;
        new.write_all_at(&self.header, 8)?;
        new.set_len(self.start + self.infos.last().map_or(0, |info| info.data_offsets.1 as u64))?;
        Ok(new)
    }

    /// Writes this rank's parts.
    pub(crate) fn write(&self, parts: &[Part]) -> Result<()> {
        let file = OpenOptions::new().write(true).open(&self.temporary)?;
        for (part, info) in parts.iter().zip(&self.infos) {
            let ([tokens, width], mut rest) = (part.size, &part.data[..]);
            let mut head = 0;
            while !rest.is_empty() {
                for range in &part.places {
                    let (rows, others) = rest.split_at(range.len() * width);
                    let place = (head * tokens + range.start) * width * part.dtype.bitsize() / 8;
                    let place = self.start + (info.data_offsets.0 + place) as u64;
                    file.write_all_at(&narrow(rows, part.dtype), place)?;
                    rest = others;
                }
                head += 1;
            }
        }
        Ok(file.sync_all()?)
    }

    /// Renames the temporary file to the output.
    pub(crate) fn finish(&self) -> Result<()> {
        Ok(fs::rename(&self.temporary, &self.path)?)
    }

    /// Removes the temporary file.
    pub(crate) fn remove(&self) {
        drop(fs::remove_file(&self.temporary));
    }
}
