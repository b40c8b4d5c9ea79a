use core::ops::Range;
use std::borrow::Cow;
use std::io::{self, Read};

use bytemuck::Pod;
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
    /// The numbers of some tensors of one type, concatenated. Of a batch, those of one entry.
    pub(super) fn of(
        source: &mut TensorFile,
        entries: &[&Entry],
        batch: Batch,
        progress: &Progress<'_>,
    ) -> Result<Self, Error> {
        let Some(first) = entries.first() else { return Ok(Self::F32(Vec::new())) };
        let all: usize = entries.iter().map(|entry| entry.len).sum();
        let dtype = first.dtype.unwrap_or(Dtype::F32);
        let too_large = || source::too_large(first.name.clone(), &first.shape);
        let mut values = Self::with_capacity(dtype, all / batch.size).ok_or_else(too_large)?;
        let mut done = 0;
        for entry in entries {
            let before = done;
            let mut step = |len| {
                done += len;
                tell(progress, done, all)
            };
            let size = dtype.bitsize() as u64 / 8;
            let outcome = source.read(entry, |file| {
                for (part, len) in batch.parts(entry.len) {
                    if part == batch.entry {
                        values.read(dtype, len, file, &mut step)?;
                    } else {
                        let bytes = len as u64 * size;
                        if io::copy(&mut (&mut *file).take(bytes), &mut io::sink())? < bytes {
                            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                        }
                        step(len)?;
                    }
                }
                Ok(())
            });
            match outcome {
                // The number of compressed values is known only after reading them.
                Err(Error::Io(e)) if e.kind() == io::ErrorKind::UnexpectedEof => {
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

    /// Marks the masked numbers by −∞. Returns the number that masks, or `None` if nothing is masked. Where masked numbers differ,
    /// because a score was added to the mask, it is −∞.
    pub(super) fn mask(&mut self) -> Option<f32> {
        match self {
            Self::F32(numbers) => mask(numbers, |x| x, f32::NEG_INFINITY),
            Self::F16(numbers) => mask(numbers, f16::to_f32, f16::NEG_INFINITY),
            Self::Bf16(numbers) => mask(numbers, bf16::to_f32, bf16::NEG_INFINITY),
        }
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
                    let mut wide: Vec<f64> = Vec::new();
                    extend(&mut wide, len, file)?;
                    numbers.extend(wide.into_iter().map(|x| x as f32));
                }
                Self::F32(numbers) => extend(numbers, len, file)?,
                Self::F16(numbers) => extend(numbers, len, file)?,
                Self::Bf16(numbers) => extend(numbers, len, file)?,
            }
            each(len)?;
        }
        Ok(())
    }

    /// A range of the numbers, widened to `f32`. Empty if the range is not within the list.
    pub(super) fn get(&self, range: Range<usize>) -> Cow<'_, [f32]> {
        match self {
            Self::F32(numbers) => numbers.get(range).unwrap_or_default().into(),
            Self::F16(numbers) => numbers.get(range).unwrap_or_default().to_f32_vec().into(),
            Self::Bf16(numbers) => numbers.get(range).unwrap_or_default().to_f32_vec().into(),
        }
    }
}

/// The entry of a batch that is read. Without a batch, it is entry 0 of 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub(super) size: usize,
    pub(super) entry: usize,
    /// The numbers of an entry that stand together: those of one layer.
    pub(super) together: usize,
}

impl Batch {
    pub(super) const NONE: Self = Self { size: 1, entry: 0, together: 0 };

    /// The parts of a tensor of `len` numbers, each with the entry that it belongs to and its length.
    fn parts(self, len: usize) -> impl Iterator<Item = (usize, usize)> {
        let together = if self.size == 1 { len } else { self.together };
        (0..len / together.max(1)).map(move |i| (i % self.size, together))
    }
}

/// The scores with −∞ in the place of a large negative number that masks some of them, and that number.
///
/// The number is −∞ where masked scores differ, because a score was added to the mask. `None` if no finite number masks.
///
/// ```
/// let (scores, by) = regard_heads::masked_scores(&[2.5, -1e9, -3.0]).unwrap();
/// assert_eq!((&*scores, by), (&[2.5, f32::NEG_INFINITY, -3.0][..], -1e9));
/// assert!(regard_heads::masked_scores(&[2.5, -9.0, f32::NEG_INFINITY]).is_none());
/// ```
pub fn masked_scores(scores: &[f32]) -> Option<(Vec<f32>, f32)> {
    let mut found = Masked::default();
    for x in scores {
        found.add(*x);
    }
    found.limit().filter(|limit| limit.is_finite())?;
    let mut scores = scores.to_vec();
    let by = mask(&mut scores, |x| x, f32::NEG_INFINITY)?;
    Some((scores, by))
}

/// See [`Values::mask`].
fn mask<T: Copy>(numbers: &mut [T], wide: impl Fn(T) -> f32, masked: T) -> Option<f32> {
    let mut found = Masked::default();
    for x in &*numbers {
        found.add(wide(*x));
    }
    let limit = found.limit()?;
    let by = numbers.iter().map(|x| wide(*x)).filter(|x| *x <= limit);
    let by = by.reduce(|a, b| if a == b { a } else { f32::NEG_INFINITY });
    if limit > f32::NEG_INFINITY {
        numbers.iter_mut().filter(|x| wide(**x) <= limit).for_each(|x| *x = masked);
    }
    by
}

/// Finds out which scores are masked, though they are finite.
///
/// A program without −∞ masks with a large negative number: the smallest of its type, −10⁹ or −10⁴, to which a score may have been
/// added. Numbers up to [`MASK`](Self::MASK) are masked if they are at least [`FAR`](Self::FAR) times as large as all others.
#[derive(Debug, Default)]
struct Masked {
    /// The masked number that is nearest to 0, if any is finite.
    nearest: Option<f32>,
    /// The largest absolute value of the others.
    largest: Option<f32>,
    is_infinite: bool,
}

impl Masked {
    /// −10⁴ plus a score.
    const MASK: f32 = -9e3;
    const FAR: f32 = 10.0;

    fn add(&mut self, x: f32) {
        if x == f32::NEG_INFINITY {
            self.is_infinite = true;
        } else if x <= Self::MASK {
            self.nearest = Some(self.nearest.map_or(x, |nearest| nearest.max(x)));
        } else if x.is_finite() {
            let size = x.abs();
            self.largest = Some(self.largest.map_or(size, |largest| largest.max(size)));
        }
    }

    /// The largest number that is masked.
    fn limit(&self) -> Option<f32> {
        let finite = self.nearest.zip(self.largest);
        let finite = finite.filter(|(nearest, largest)| -nearest >= Self::FAR * largest);
        let infinite = self.is_infinite.then_some(f32::NEG_INFINITY);
        finite.map(|(nearest, _)| nearest).or(infinite)
    }
}

/// Appends `len` numbers of a file, whose bytes are little-endian.
fn extend<T: Pod>(numbers: &mut Vec<T>, len: usize, file: &mut dyn Read) -> io::Result<()> {
    let old = numbers.len();
    numbers.resize(old + len, T::zeroed());
    let bytes = bytemuck::cast_slice_mut(&mut numbers[old..]);
    file.read_exact(bytes)?;
    if cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers after masking, and the number that masks.
    fn masked(numbers: &[f32]) -> (Vec<f32>, Option<f32>) {
        let mut values = Values::F32(numbers.to_vec());
        let by = values.mask();
        (values.get(0..numbers.len()).into_owned(), by)
    }

    #[test]
    fn a_large_negative_number_far_from_the_others_is_a_mask() {
        const HIDDEN: f32 = f32::NEG_INFINITY;
        for mask in [f32::MIN, -1e9, -1e4, -65504.0, HIDDEN] {
            assert_eq!(
                masked(&[2.5, mask, -3.0, mask]),
                (vec![2.5, HIDDEN, -3.0, HIDDEN], Some(mask))
            );
        }
        // Scores have been added to the mask, so it is not one number.
        assert_eq!(masked(&[2.5, -9_997.0, -10_002.0]), (vec![2.5, HIDDEN, HIDDEN], Some(HIDDEN)));
        // Numbers of one size are numbers, and so is a mask alone.
        for numbers in
            [&[2e30, -2e30, 1e30][..], &[-1e4, -5e3, 3.0], &[-8e3, 1.0], &[-1e9, -1e9], &[0.5, 0.0]]
        {
            assert_eq!(masked(numbers), (numbers.to_vec(), None));
        }
        let half = [2.5, -65504.0].map(f16::from_f32);
        let mut values = Values::F16(half.to_vec());
        assert_eq!(values.mask(), Some(-65504.0));
        assert_eq!(*values.get(0..2), [2.5, HIDDEN]);
    }

    #[test]
    fn the_parts_of_a_batch_alternate() {
        let parts =
            |size, len| -> Vec<_> { Batch { size, entry: 0, together: 10 }.parts(len).collect() };
        assert_eq!(parts(2, 40), [(0, 10), (1, 10), (0, 10), (1, 10)]);
        assert_eq!(parts(1, 40), [(0, 40)]);
    }
}
