//! Attentions in block floating point, whose bits are the same on every core, without exception.

use regard_kernels::block_floating_point::Attention;
use regard_kernels::{Error, MatMut, int8};

use crate::hash::hash;
use crate::int8_cases::CASES;
use crate::line::Numbers::{self, Integers};
use crate::numbers::numbers;

/// The shapes and masks of the attentions on 8-bit integers. The line has a hash of each output.
pub(crate) fn run(
    memory: &mut [f32],
    line: &mut impl FnMut(&str, Numbers<'_>),
) -> Result<(), Error> {
    let mut hashes = [[0; 8]; CASES.len()];
    for (case, found) in CASES.iter().zip(&mut hashes) {
        let [n_q, n_k, d_k, d_v] = case.shape;
        let attention = Attention::new(case.factor * int8::default_scale(d_k), case.temperature)?
            .mask(case.mask);
        let (q, k, v) = (numbers(3, n_q, d_k)?, numbers(900, n_k, d_k)?, numbers(1700, n_k, d_v)?);
        let (out, scratch) = memory.split_at_mut_checked(n_q * d_v).unwrap_or_default();
        let scratch = bytemuck::cast_slice_mut(scratch);
        attention.forward(q, k, v, MatMut::new(out, n_q, d_v)?, scratch)?;
        let out = memory.get(..n_q * d_v).unwrap_or_default();
        *found = hash(out).to_le_bytes().map(|byte| byte as i8);
    }
    line("block floating point, hashes", Integers(hashes.as_flattened()));
    Ok(())
}
