//! A file of attention in npz. If the first byte is odd, the other bytes are the whole archive. If it is even, they are the
//! contents of two members, so that the checksums are right.
use std::io::{Cursor, Write as _};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

fn archive(members: &[(&str, &[u8])]) -> Option<Vec<u8>> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, content) in members {
        writer.start_file(*name, stored).ok()?;
        writer.write_all(content).ok()?;
    }
    Some(writer.finish().ok()?.into_inner())
}

pub(crate) fn fuzz(data: &[u8]) -> crate::Outcome {
    let Some((kind, rest)) = data.split_first() else { return Err("it is empty".into()) };
    let file = if kind % 2 == 1 {
        rest.to_vec()
    } else {
        let (tokens, weights) = rest.split_at(rest.len() * usize::from(*kind) / 256);
        archive(&[("tokens.npy", tokens), ("attentions.npy", weights)])
            .ok_or("an archive cannot be written")?
    };
    crate::bounded(file.len(), || crate::attention("a.npz", &file, None))
}
