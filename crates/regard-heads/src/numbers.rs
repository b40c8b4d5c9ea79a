use std::path::Path;

use super::source::{Entry, TensorFile};
use super::values::{Batch, Values};
use super::{Error, Opener, unattended};

/// The numbers of a tensor in a file, widened or rounded to `f32`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FileNumbers {
    /// The tensor's name: that of the file in an npy file.
    pub name: String,
    /// The shape.
    pub shape: Vec<usize>,
    /// The numbers, row-major.
    pub data: Vec<f32>,
}

impl FileNumbers {
    /// The tensors of a safetensors, npy or npz file. Types: F32, F16, BF16, F64, and integers of 32 and 64 bits.
    ///
    /// `open` opens the file: [`from_disk`](super::from_disk), or a function of the caller.
    ///
    /// # Errors
    /// See [`Error`]. A tensor of another type is an error too.
    ///
    /// ```
    /// use regard_heads::{FileNumbers, from_disk};
    /// use safetensors::{Dtype, tensor::TensorView};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("labels.safetensors");
    /// let labels: Vec<u8> = [3_i64, 1].iter().flat_map(|x| x.to_le_bytes()).collect();
    /// safetensors::serialize_to_file([("labels", TensorView::new(Dtype::I64, vec![2], &labels)?)], None, &path)?;
    ///
    /// let all = FileNumbers::of_file(&from_disk, &path)?;
    /// assert_eq!((all[0].name.as_str(), &all[0].data[..]), ("labels", &[3.0, 1.0][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_file(open: &Opener<'_>, path: &Path) -> Result<Vec<Self>, Error> {
        let mut source = TensorFile::open(open, path)?;
        let entries = source.entries.clone();
        let read = |entry: Entry| {
            let data = if entry.dtype.is_some() {
                let values = Values::of(&mut source, &[&entry], Batch::NONE, &unattended)?;
                values.get(0..entry.len).into_owned()
            } else {
                let size = match entry.type_name.as_str() {
                    "I64" | "<i8" => 8,
                    "I32" | "<i4" => 4,
                    other => {
                        return Err(entry.error(format!("has the type {other}, which is not read")));
                    }
                };
                source.read(&entry, |file| {
                    let (mut numbers, mut bytes) = (Vec::new(), [0; 8]);
                    for _ in 0..entry.len {
                        file.read_exact(&mut bytes[8 - size..])?;
                        // The number is in the upper bytes.
                        numbers.push((i64::from_le_bytes(bytes) >> (64 - 8 * size)) as f32);
                    }
                    Ok(numbers)
                })?
            };
            Ok(Self { name: entry.name, shape: entry.shape, data })
        };
        entries.into_iter().map(read).collect()
    }
}
