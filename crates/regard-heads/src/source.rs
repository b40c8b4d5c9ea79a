use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use regard_figure::npy;
use regard_tensors::{Budget, Header};
use safetensors::Dtype;
use zip::{CompressionMethod, ZipArchive};

use super::Error;

/// A file of tensors whose headers have been read.
pub(super) struct TensorFile {
    container: Container,
    pub(super) entries: Vec<Entry>,
    /// The metadata of a safetensors file, sorted by key.
    pub(super) metadata: Vec<(String, String)>,
}

enum Container {
    Plain(ByteStream),
    Zip(ZipArchive<BufReader<ByteStream>>),
}

/// An open file: bytes that can be read from any position.
pub trait Stream: Read + Seek + Send {}

impl<T: Read + Seek + Send> Stream for T {}

/// Opens a file by its path.
///
/// An error of the kind [`NotFound`](io::ErrorKind::NotFound) means that there is no such file.
pub type Opener<'a> = dyn Fn(&Path) -> io::Result<Box<dyn Stream>> + Sync + 'a;

/// Opens a regular file of this machine.
///
/// # Errors
/// Those of the file system. It refuses a folder, a device and a FIFO, whose opening blocks.
pub fn from_disk(path: &Path) -> io::Result<Box<dyn Stream>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(Box::new(File::open(path)?))
}

type ByteStream = Box<dyn Stream>;

/// A tensor as its header describes it. A plain file is known to have room for its numbers; a compressed file may
/// still be too short.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    /// The product of the shape.
    pub(super) len: usize,
    /// The type of the numbers. `None` for a type that is not supported.
    pub(super) dtype: Option<Dtype>,
    /// The type's name in the file.
    pub(super) type_name: String,
    place: Place,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// An offset into the file, in bytes.
    At(u64),
    /// The index of a file in the archive, and an offset into it, in bytes.
    In(usize, usize),
}

/// The largest ratio of uncompressed to compressed bytes that Deflate can reach.
const MOST_EXPANSION: u64 = 1032;

impl TensorFile {
    /// Opens a file and reads its headers.
    pub(super) fn open(open: &Opener<'_>, path: &Path) -> Result<Self, Error> {
        let mut file = open(path)?;
        let len = file.seek(SeekFrom::End(0))?;
        file.rewind()?;
        Self::new(file, len, &path.file_stem().unwrap_or_default().to_string_lossy())
    }

    /// Reads the headers of a file in memory.
    pub(super) fn in_memory(bytes: &'static [u8], name: &str) -> Result<Self, Error> {
        Self::new(Box::new(Cursor::new(bytes)), bytes.len() as u64, name)
    }

    /// The first bytes tell the kind of file.
    fn new(mut file: ByteStream, len: u64, name: &str) -> Result<Self, Error> {
        let mut start = Vec::new();
        (&mut file).take(6).read_to_end(&mut start)?;
        file.rewind()?;
        if start == npy::MAGIC {
            Self::npy(file, len, name.to_owned())
        } else if start.starts_with(b"PK") {
            Self::npz(file, len)
        } else {
            Self::safetensors(file, len)
        }
    }

    fn safetensors(mut file: ByteStream, file_len: u64) -> Result<Self, Error> {
        let format = |e| Error::format("safetensors", &e);
        let header = Header::read(&mut file, Some(file_len), &mut Budget::default());
        let header = header.map_err(format)?;
        let start = header.start();
        let mut entries = Vec::new();
        for (name, info) in header.tensors() {
            let (from, to) = info.data_offsets;
            let shape = info.shape.clone();
            // The header's shape fits the offsets, but the file may lack these bytes.
            let found = (file_len - start).saturating_sub(from as u64);
            let needed = (to - from) as u64;
            if found < needed {
                return Err(truncated(name, &shape, needed, found));
            }
            let dtype = is_read(info.dtype).then_some(info.dtype);
            let (len, place) = (shape.iter().product(), Place::At(start + from as u64));
            let type_name = format!("{:?}", info.dtype);
            entries.push(Entry { name, shape, len, dtype, type_name, place });
        }
        header.check_length(file_len).map_err(format)?;
        let metadata = header.texts();
        Ok(Self { container: Container::Plain(file), entries, metadata })
    }

    fn npy(mut file: ByteStream, len: u64, name: String) -> Result<Self, Error> {
        let header = npy::read_header(&mut file).map_err(|e| Error::format("npy", &e))?;
        let found = len.saturating_sub(header.len as u64);
        let place = Place::At(header.len as u64);
        let entry = Entry::of_npy(name, header, place, found)?;
        entry.check_end("npy", found)?;
        Ok(Self { container: Container::Plain(file), entries: vec![entry], metadata: Vec::new() })
    }

    fn npz(file: ByteStream, file_len: u64) -> Result<Self, Error> {
        let format = |reason: &dyn ToString| Error::format("npz", reason);
        let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|e| format(&e))?;
        let mut entries = Vec::new();
        for index in 0..archive.len() {
            let mut file = archive.by_index(index).map_err(|e| format(&e))?;
            let name = file.name().map_err(|e| format(&e))?;
            let Some(name) = name.strip_suffix(".npy").map(str::to_owned) else { continue };
            // The sizes in the archive may be wrong. The size of the archive itself is right.
            let stored = file.compressed_size().min(file_len);
            let expansion =
                if file.compression() == CompressionMethod::Stored { 1 } else { MOST_EXPANSION };
            let most = file.size().min(stored.saturating_mul(expansion));
            let header =
                npy::read_header(&mut file).map_err(|e| format(&format!("`{name}`: {e}")))?;
            let place = Place::In(index, header.len);
            let [found, declared] =
                [most, file.size()].map(|bytes| bytes.saturating_sub(header.len as u64));
            let entry = Entry::of_npy(name, header, place, found)?;
            entry.check_end("npz", declared)?;
            entries.push(entry);
        }
        Ok(Self { container: Container::Zip(archive), entries, metadata: Vec::new() })
    }

    /// Calls `read` with a reader positioned at the first number of `entry`.
    pub(super) fn read<T>(
        &mut self,
        entry: &Entry,
        read: impl FnOnce(&mut dyn Read) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match (&mut self.container, entry.place) {
            (Container::Plain(file), Place::At(at)) => {
                file.seek(SeekFrom::Start(at))?;
                read(file)
            }
            (Container::Zip(archive), Place::In(index, header_len)) => {
                let mut file = archive.by_index(index).map_err(|e| Error::format("npz", &e))?;
                io::copy(&mut (&mut file).take(header_len as u64), &mut io::sink())?;
                let numbers = read(&mut file)?;
                // The checksum is compared at the end of the file.
                io::copy(&mut file, &mut io::sink())?;
                Ok(numbers)
            }
            _ => Err(Error::format("npz", &format!("it does not contain `{}`", entry.name))),
        }
    }

    pub(super) fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.name == name)
    }
}

/// The error of a tensor whose file ends before its numbers do. `found` is the number of bytes that the file has, or can have at
/// most if they are compressed.
pub(super) fn truncated(tensor: String, shape: &[usize], needed: u64, found: u64) -> Error {
    let reason = format!(
        "ends too early: its shape {shape:?} needs {needed} bytes, but the file has {found}"
    );
    Error::Tensor { tensor, reason }
}

pub(super) fn too_large(tensor: String, shape: &[usize]) -> Error {
    Error::Tensor { tensor, reason: format!("with the shape {shape:?} does not fit in memory") }
}

impl Entry {
    pub(super) fn error(&self, reason: impl Into<String>) -> Error {
        Error::Tensor { tensor: self.name.clone(), reason: reason.into() }
    }

    /// The error of this tensor, whose shape is not one that is possible.
    pub(super) fn shape_error(&self, reason: &str) -> Error {
        self.error(format!("has the shape {:?}{reason}", self.shape))
    }

    /// The type and the shape, in words.
    pub(super) fn description(&self) -> String {
        format!("{} with the shape {:?}", self.type_name, self.shape)
    }

    /// Checks that an array which ends `found` bytes after its header has no more numbers than its shape.
    fn check_end(&self, format: &'static str, found: u64) -> Result<(), Error> {
        let Some(dtype) = self.dtype else { return Ok(()) };
        let needed = self.len as u64 * (dtype.bitsize() as u64 / 8);
        match found.checked_sub(needed) {
            Some(extra @ 1..) => {
                let reason = format!("`{}` goes on for {extra} bytes after its array", self.name);
                Err(Error::format(format, &reason))
            }
            _ => Ok(()),
        }
    }

    /// The tensor of an npy file whose header is followed by `found` bytes.
    fn of_npy(name: String, header: npy::Header, place: Place, found: u64) -> Result<Self, Error> {
        let npy::Header { descr, fortran_order, shape, .. } = header;
        let dtype = match descr.as_str() {
            "<f2" => Some(Dtype::F16),
            "<f4" => Some(Dtype::F32),
            "<f8" => Some(Dtype::F64),
            _ => None,
        };
        let type_name = match descr.as_str() {
            "" => "a structure".to_owned(),
            "|O" => "a list of Python objects".to_owned(),
            _ if fortran_order => format!("{descr} in column-major order"),
            _ => descr,
        };
        let product = shape.iter().try_fold(1_usize, |all, n| all.checked_mul(*n));
        let needed = product
            .and_then(|n| (n as u64).checked_mul(dtype.map_or(1, |d| d.bitsize() as u64 / 8)));
        let (Some(len), Some(needed)) = (product, needed) else {
            return Err(too_large(name, &shape));
        };
        if dtype.is_some() && needed > found {
            return Err(truncated(name, &shape, needed, found));
        }
        let one_axis = shape.iter().filter(|n| **n != 1).count() <= 1;
        let dtype = dtype.filter(|_| !fortran_order || one_axis);
        Ok(Self { name, shape, len, dtype, type_name, place })
    }
}

fn is_read(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64)
}
