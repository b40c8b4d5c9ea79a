use core::ops::Range;
use std::borrow::Cow;
use std::io::{self, Read};

use half::slice::HalfFloatSliceExt as _;
use half::{bf16, f16};
use safetensors::Dtype;
use serde::de::Deserializer;
use serde::{Deserialize, Serialize, Serializer};

use super::source::{self, Entry, TensorFile, truncated};
use super::{Error, Progress, packed, tell};

/// Numbers in the type of the file, so that half precision takes half the memory. `f64` is rounded to `f32`.
#[derive(Clone, Debug)]
pub(super) enum Values {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

/// Half precision is widened, because a message need not have the type of a file.
impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let len = match self {
            Self::F32(numbers) => numbers.len(),
            Self::F16(numbers) => numbers.len(),
            Self::Bf16(numbers) => numbers.len(),
        };
        packed::serialize(&self.get(0..len), serializer)
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        packed::deserialize(deserializer).map(Self::F32)
    }
}

/// The number of values that are read at a time.
const CHUNK: usize = 1 << 16;

impl Values {
    /// The numbers of some tensors of one type, concatenated.
    pub(super) fn of(
        source: &mut TensorFile,
        entries: &[&Entry],
        progress: &Progress<'_>,
    ) -> Result<Self, Error> {
        let Some(first) = entries.first() else { return Ok(Self::F32(Vec::new())) };
        let all: usize = entries.iter().map(|entry| entry.len).sum();
        let dtype = first.dtype.unwrap_or(Dtype::F32);
        let too_large = || source::too_large(first.name.clone(), &first.shape);
        let mut values = Self::with_capacity(dtype, all).ok_or_else(too_large)?;
        let mut done = 0;
        for entry in entries {
            let before = done;
            let step = |len| {
                done += len;
                tell(progress, done, all)
            };
            let outcome = source.read(entry, |file| values.read(dtype, entry.len, file, step));
            match outcome {
                // The number of compressed values is known only after reading them.
                Err(Error::Io(e)) if e.kind() == io::ErrorKind::UnexpectedEof => {
                    let size = dtype.bitsize() as u64 / 8;
                    let (needed, found) = (entry.len as u64 * size, (done - before) as u64 * size);
                    return Err(truncated(entry.name.clone(), &entry.shape, needed, found));
                }
                Err(Error::Io(e)) if e.kind() == io::ErrorKind::InvalidData => {
                    return Err(Error::format("npz", &format!("`{}`: {e}", entry.name)));
                }
                outcome => outcome?,
            }
        }
        Ok(values)
    }

    /// An empty list with capacity for `len` numbers of a supported type. Pages take memory only when they are written.
    pub(super) fn with_capacity(dtype: Dtype, len: usize) -> Option<Self> {
        fn room<T>(len: usize) -> Option<Vec<T>> {
            let mut numbers = Vec::new();
            numbers.try_reserve_exact(len).ok()?;
            Some(numbers)
        }
        match dtype {
            Dtype::F16 => room(len).map(Self::F16),
            Dtype::BF16 => room(len).map(Self::Bf16),
            _ => room(len).map(Self::F32),
        }
    }

    /// Reads `len` more numbers of type `dtype` in chunks. After each chunk, `each` is called with its length.
    pub(super) fn read<E: From<io::Error>>(
        &mut self,
        dtype: Dtype,
        len: usize,
        file: &mut dyn Read,
        mut each: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        for start in (0..len).step_by(CHUNK) {
            let len = CHUNK.min(len - start);
            match self {
                Self::F32(numbers) if dtype == Dtype::F64 => {
                    let mut wide = vec![0; len * 8];
                    file.read_exact(&mut wide)?;
                    numbers
                        .extend(wide.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b) as f32));
                }
                Self::F32(numbers) => {
                    let bytes = bytemuck::cast_slice_mut(more(numbers, len, 0.0));
                    file.read_exact(bytes)?;
                    to_native::<4>(bytes);
                }
                Self::F16(numbers) => {
                    read_half(more(numbers, len, f16::ZERO).reinterpret_cast_mut(), file)?;
                }
                Self::Bf16(numbers) => {
                    read_half(more(numbers, len, bf16::ZERO).reinterpret_cast_mut(), file)?;
                }
            }
            each(len)?;
        }
        Ok(())
    }

    /// A range of the numbers, widened to `f32`. Empty if the range is not within the list.
    pub(super) fn get(&self, range: Range<usize>) -> Cow<'_, [f32]> {
        fn widened(part: usize, widen: impl FnOnce(&mut [f32])) -> Cow<'static, [f32]> {
            let mut wide = vec![0.0; part];
            widen(&mut wide);
            wide.into()
        }
        match self {
            Self::F32(numbers) => numbers.get(range).unwrap_or_default().into(),
            Self::F16(numbers) => {
                let part = numbers.get(range).unwrap_or_default();
                widened(part.len(), |wide| part.convert_to_f32_slice(wide))
            }
            Self::Bf16(numbers) => {
                let part = numbers.get(range).unwrap_or_default();
                widened(part.len(), |wide| part.convert_to_f32_slice(wide))
            }
        }
    }
}

/// Extends a vector and returns its new end.
fn more<T: Copy>(numbers: &mut Vec<T>, len: usize, zero: T) -> &mut [T] {
    let old = numbers.len();
    numbers.resize(old + len, zero);
    &mut numbers[old..]
}

fn read_half(bits: &mut [u16], file: &mut dyn Read) -> io::Result<()> {
    let bytes = bytemuck::cast_slice_mut(bits);
    file.read_exact(bytes)?;
    to_native::<2>(bytes);
    Ok(())
}

/// Converts little-endian numbers of N bytes to the byte order of this machine.
fn to_native<const N: usize>(bytes: &mut [u8]) {
    if cfg!(target_endian = "big") {
        bytes.as_chunks_mut::<N>().0.iter_mut().for_each(|number| number.reverse());
    }
}
