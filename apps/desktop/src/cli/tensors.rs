//! Reads tensors from safetensors files, and writes them.

use std::borrow::Cow;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use regard_tensors::attend::{narrow, widen};
use regard_tensors::{Budget, Header};
use safetensors::Dtype;
use safetensors::tensor::{TensorInfo, TensorView, View};

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

/// A safetensors file in memory.
pub(crate) struct TensorsOfFile {
    header: Header,
    data: Vec<u8>,
}

impl TensorsOfFile {
    /// Reads a file whose header agrees with its length.
    ///
    /// The header is read first. So neither a device that never ends nor a header that claims more bytes than the file has can
    /// take much memory. The file may also be a pipe.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let mut file = opened::file(path)?;
        let about = file.metadata()?;
        let length = about.is_file().then_some(about.len());
        let header = Header::read(&mut file, length, &mut Budget::default())
            .context("it is no safetensors file that can be read")?;
        let (mut data, expected) = (Vec::new(), header.end() - header.start());
        if let Some(length) = length {
            header.check_length(length)?;
            data.try_reserve_exact(expected as usize)?;
        }
        // One byte more than expected tells whether the file continues.
        file.take(expected + 1).read_to_end(&mut data)?;
        header.check_length(header.start() + data.len() as u64)?;
        Ok(Self { header, data })
    }

    pub(crate) fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        let TensorInfo { dtype, shape, data_offsets: (start, end) } = self.header.info(name)?;
        TensorView::new(*dtype, shape.clone(), self.data.get(*start..*end)?).ok()
    }

    /// The names of the tensors with their shapes.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = (String, &[usize])> {
        self.header.tensors().map(|(name, info)| (name, info.shape.as_slice()))
    }
}

pub(crate) fn floats(file: &TensorsOfFile, name: &str) -> Result<Option<Tensor>> {
    file.tensor(name).map(|view| numbers(name, &view)).transpose()
}

pub(crate) fn numbers(name: &str, view: &TensorView<'_>) -> Result<Tensor> {
    let mut tensor = Tensor { shape: view.shape().to_vec(), ..Tensor::empty(view.dtype()) };
    tensor.data.reserve_exact(view.shape().iter().product());
    tensor.push(name, view.data())?;
    Ok(tensor)
}

pub(crate) fn required<'f>(file: &'f TensorsOfFile, name: &str) -> Result<TensorView<'f>> {
    file.tensor(name).with_context(|| {
        let mut names: Vec<String> = file.shapes().map(|(name, _)| name).collect();
        names.sort_unstable();
        let names = if names.is_empty() { "no tensor".to_owned() } else { names.join(", ") };
        format!("tensor `{name}` is missing; the file has {names}")
    })
}

/// The boolean tensor `name` (BOOL or U8, nonzero is true) with its shape, if the file has it in one of these types.
pub(crate) fn booleans(file: &TensorsOfFile, name: &str) -> Option<(Vec<bool>, Vec<usize>)> {
    let view = file.tensor(name)?;
    matches!(view.dtype(), Dtype::BOOL | Dtype::U8)
        .then(|| (view.data().iter().map(|b| *b != 0).collect(), view.shape().to_vec()))
}

/// The lengths (I64) in tensor `name`, if the file has it.
pub(crate) fn lengths(file: &TensorsOfFile, name: &str) -> Result<Option<Vec<usize>>> {
    let Some(view) = file.tensor(name) else { return Ok(None) };
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
