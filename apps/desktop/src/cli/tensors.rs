//! Reads tensors from safetensors files, and writes them.

use std::borrow::Cow;
use std::io::{self, Read as _};
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, ensure};
use safetensors::tensor::{Metadata, TensorView, View};
use safetensors::{Dtype, SafeTensors};

use super::attention::{narrow, widen};
use crate::opened;

/// A tensor of numbers, widened to `f32`.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) data: Vec<f32>,
    pub(crate) shape: Vec<usize>,
    /// The type in the file.
    pub(crate) dtype: Dtype,
}

impl Tensor {
    pub(crate) fn empty(dtype: Dtype) -> Self {
        Self { data: Vec::new(), shape: Vec::new(), dtype }
    }

    /// Appends numbers of a file that have the type of this tensor. `name` is the name of the file's tensor in errors.
    pub(crate) fn push(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        widen(name, self.dtype, bytes, &mut self.data)
    }
}

/// The bytes of a safetensors file whose header agrees with the length of the file.
///
/// The header is read first. So neither a device that never ends nor a header that claims more bytes than the file has can take
/// much memory. The file may also be a pipe.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    const START: u64 = size_of::<u64>() as u64;
    let mut file = opened::file(path)?;
    let (mut bytes, mut start) = (Vec::new(), [0; START as usize]);
    let short = |_| anyhow!("it is no safetensors file: it ends before its header does");
    file.read_exact(&mut start).map_err(short)?;
    bytes.extend_from_slice(&start);
    let header = u64::from_le_bytes(start);
    ensure!(
        header <= LARGEST_HEADER,
        "it is no safetensors file: its first 8 bytes announce a header of {header} bytes, and {LARGEST_HEADER} are the most"
    );
    (&mut file).take(header).read_to_end(&mut bytes)?;
    ensure!(bytes.len() as u64 == START + header, short(io::ErrorKind::UnexpectedEof.into()));
    let metadata: Metadata =
        serde_json::from_slice(&bytes[START as usize..]).context("its header cannot be read")?;
    let expected = START + header + metadata.data_len() as u64;
    let about = file.metadata()?;
    if about.is_file() {
        ensure!(about.len() == expected, wrong_length(about.len(), expected));
        bytes.try_reserve_exact((expected - START - header) as usize)?;
    }
    // One byte more than expected tells whether the file continues.
    file.take(expected - START - header + 1).read_to_end(&mut bytes)?;
    ensure!(bytes.len() as u64 == expected, wrong_length(bytes.len() as u64, expected));
    Ok(bytes)
}

/// The most bytes of a header, enough for 20 000 tensors. A parsed header takes up to 20 times its size.
const LARGEST_HEADER: u64 = 3 << 20;

fn wrong_length(found: u64, expected: u64) -> String {
    format!("it has {found} bytes or more, but its header announces {expected}")
}

pub(crate) fn floats(file: &SafeTensors<'_>, name: &str) -> Result<Option<Tensor>> {
    file.tensor(name).ok().map(|view| numbers(name, &view)).transpose()
}

pub(crate) fn numbers(name: &str, view: &TensorView<'_>) -> Result<Tensor> {
    let mut tensor = Tensor { shape: view.shape().to_vec(), ..Tensor::empty(view.dtype()) };
    tensor.data.reserve_exact(view.shape().iter().product());
    tensor.push(name, view.data())?;
    Ok(tensor)
}

pub(crate) fn required<'f>(file: &SafeTensors<'f>, name: &str) -> Result<TensorView<'f>> {
    file.tensor(name).ok().with_context(|| {
        let mut names = file.names();
        names.sort_unstable();
        let names = if names.is_empty() { "no tensor".to_owned() } else { names.join(", ") };
        format!("tensor `{name}` is missing; the file has {names}")
    })
}

/// The boolean tensor `name` (BOOL or U8, nonzero is true) with its shape, if the file has it in one of these types.
pub(crate) fn booleans(file: &SafeTensors<'_>, name: &str) -> Option<(Vec<bool>, Vec<usize>)> {
    let view = file.tensor(name).ok()?;
    matches!(view.dtype(), Dtype::BOOL | Dtype::U8)
        .then(|| (view.data().iter().map(|b| *b != 0).collect(), view.shape().to_vec()))
}

/// The lengths (I64) in tensor `name`, if the file has it.
pub(crate) fn lengths(file: &SafeTensors<'_>, name: &str) -> Result<Option<Vec<usize>>> {
    let Ok(view) = file.tensor(name) else { return Ok(None) };
    ensure!(view.dtype() == Dtype::I64, "tensor `{name}` is {:?}, but I64 is needed", view.dtype());
    ensure!(
        view.shape().len() <= 1,
        "tensor `{name}` has the shape {:?}, but [batch] is needed",
        view.shape()
    );
    let numbers = view.data().as_chunks().0.iter().map(|b| i64::from_le_bytes(*b));
    let lengths = numbers
        .map(|n| usize::try_from(n).ok().with_context(|| format!("tensor `{name}` holds {n}")));
    lengths.collect::<Result<_>>().map(Some)
}

/// The bytes of numbers in a file. They are those of memory if it has the same byte order.
pub(crate) fn bytes(numbers: &[f32]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        return bytemuck::cast_slice(numbers).into();
    }
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

impl View for Tensor {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match self.dtype {
            Dtype::F32 => bytes(&self.data),
            dtype => narrow(&self.data, dtype).into(),
        }
    }

    fn data_len(&self) -> usize {
        self.data.len() * self.dtype.bitsize() / 8
    }
}
