//! A file of attention in npy. The text of the header is fuzzed: magic, version and length are put before it.

pub(crate) fn fuzz(file: &[u8]) -> crate::Outcome {
    let end = file.iter().position(|byte| *byte == b'\n').map_or(file.len(), |at| at + 1);
    let length = u16::try_from(end).unwrap_or(u16::MAX).to_le_bytes();
    let file = [b"\x93NUMPY\x01\x00", &length[..], file].concat();
    crate::bounded(file.len(), || crate::attention("a.npy", &file, None))
}
