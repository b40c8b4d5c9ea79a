//! Weights in MXFP4 as gpt-oss's folders have them: two tensors of bytes, which become one in ggml's blocks.
//!
//! `X_blocks` \[…, outputs, n, 16\] has 32 numbers in each 16 bytes, of which byte i has number 2i in its low bits and number
//! 2i + 1 in its high ones; `X_scales` \[…, outputs, n\] has a power of two for each. A block of ggml is the byte of its scale and
//! then 16 bytes, of which byte i has numbers i and i + 16.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};

use regard::Quantization;

use super::TensorInFile;
use crate::Error;

const FORMAT: Quantization = Quantization::Mxfp4;
/// The bytes of a block of ggml, and those of its numbers and of its scale.
pub(super) const BYTES: usize = 17;
pub(super) const PARTS: [usize; 2] = [16, 1];

/// Puts a tensor `X` \[…, outputs, 32n\] in the place of each two tensors `X_blocks` and `X_scales`.
pub(super) fn join(tensors: &mut BTreeMap<String, TensorInFile>) -> Result<(), Error> {
    let is_blocks = |(name, stored): (&String, &TensorInFile)| {
        let name = name.strip_suffix("_blocks").filter(|_| stored.kind == "U8");
        name.map(str::to_owned)
    };
    let names: Vec<String> = tensors.iter().filter_map(is_blocks).collect();
    for name in names {
        let of = ["blocks", "scales"].map(|part| format!("{name}_{part}"));
        let [Some(mut blocks), scales] = of.each_ref().map(|name| tensors.remove(name)) else {
            continue;
        };
        let Some(scales) = scales else {
            let what = format!("has no tensor {} beside it", of[1]);
            return Err(Error::tensor(&blocks.file, &of[0], what));
        };
        if scales.kind != "U8" || blocks.shape != [scales.shape.as_slice(), &[16]].concat() {
            let (kind, shape) = (&scales.kind, &scales.shape);
            let what = format!(
                "has the shape {:?}, and {} the shape {shape:?} of the type {kind}: MXFP4 has 16 bytes for each scale of type U8",
                blocks.shape, of[1]
            );
            return Err(Error::tensor(&blocks.file, &of[0], what));
        }
        let too_large = || Error::tensor(&blocks.file, &of[0], "does not fit in memory");
        let mut shape = scales.shape.clone();
        if let Some(last) = shape.last_mut() {
            *last = last.checked_mul(32).ok_or_else(too_large)?;
        }
        blocks.shape = shape;
        blocks.kind = FORMAT.to_string();
        blocks.bytes += scales.bytes;
        blocks.scales = Some(Box::new(scales));
        let file = blocks.file.clone();
        if tensors.insert(name.clone(), blocks).is_some() {
            return Err(Error::tensor(&file, &name, format!("is also there as {}", of[0])));
        }
    }
    Ok(())
}

/// Fills ggml's blocks from the bytes of both tensors.
pub(super) fn read(numbers: impl Read, scales: impl Read, out: &mut [u8]) -> io::Result<()> {
    let (mut numbers, mut scales) = (BufReader::new(numbers), BufReader::new(scales));
    for block in out.chunks_exact_mut(FORMAT.block().1) {
        let ([scale, out @ ..], mut pairs) = (block, [0; 16]) else { break };
        scales.read_exact(core::slice::from_mut(scale))?;
        numbers.read_exact(&mut pairs)?;
        let number = |i: usize| (pairs[i / 2] >> (4 * (i % 2))) & 15;
        for (i, byte) in out.iter_mut().enumerate() {
            *byte = number(i) | (number(i + 16) << 4);
        }
    }
    Ok(())
}
