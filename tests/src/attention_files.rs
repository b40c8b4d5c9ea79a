//! Files of attention, made for tests.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Cursor, Write as _};
use std::path::PathBuf;

pub use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize};
use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// A folder that is removed after the test.
pub struct Folder(TempDir);

impl Folder {
    /// A new, empty folder.
    #[expect(clippy::new_without_default, reason = "a new folder each time is no default")]
    pub fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// Writes a file into it, and returns its path.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// The bytes of numbers in a file.
pub fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Tensors of any type.
pub fn safetensors<S: AsRef<[usize]>>(
    tensors: &[(&str, Dtype, S, Vec<u8>)],
    metadata: &[(&str, &str)],
) -> Vec<u8> {
    let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
        (*name, TensorView::new(*dtype, shape.as_ref().to_vec(), bytes).unwrap())
    });
    let owned = |(key, text): &(&str, &str)| ((*key).to_owned(), (*text).to_owned());
    // An empty table of metadata makes a header that cannot be read.
    let metadata = (!metadata.is_empty()).then(|| metadata.iter().map(owned).collect());
    serialize(views, metadata).unwrap()
}

/// One tensor of `f32`.
pub fn attention(shape: &[usize], numbers: &[f32]) -> Vec<u8> {
    safetensors(&[("attention", Dtype::F32, shape, bytes(numbers))], &[])
}

/// An npy file as NumPy writes it.
pub fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), data]
        .concat()
}

/// An npz file that contains these npy files.
pub fn npz(files: &[(&str, Vec<u8>)], method: CompressionMethod) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        archive.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// Random rows of weights that sum to 1. The logarithms of the weights are spread over 4.
pub fn weights(rows: usize, cols: usize, seed: u32) -> Vec<f32> {
    let mut rng = fastrand::Rng::with_seed(seed.into());
    let mut all = Vec::new();
    for _ in 0..rows {
        let row: Vec<f64> = (0..cols).map(|_| (4.0 * rng.f64()).exp()).collect();
        let sum: f64 = row.iter().sum();
        all.extend(row.iter().map(|x| (x / sum) as f32));
    }
    all
}
