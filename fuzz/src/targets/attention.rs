//! A file of attention in safetensors, with tokens in its metadata.

pub(crate) fn fuzz(file: &[u8]) -> crate::Outcome {
    crate::bounded(file.len(), || crate::attention("a.safetensors", file, None))
}
