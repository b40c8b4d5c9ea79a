//! The memory that an attention takes on a microcontroller. The functions give the same numbers on every machine, so an
//! assertion holds in the firmware and in its tests on the desktop.
//!
//! [`attention_bytes`](crate::attention_bytes) and [`attention_scratch_len`](crate::attention_scratch_len) give the sizes for
//! the target of the compilation: a desktop takes more scratch memory. Declare scratch memory with these, and assert the limits
//! of a part with the functions of this module.
//!
//! ```
//! use regard_kernels::{attention_scratch_len, microcontroller};
//! const PART: usize = 8 * 1024;
//! const _: () = assert!(microcontroller::attention_bytes(16, 16, 8, 8) <= PART);
//! let scratch = [0.0; attention_scratch_len(16, 16, 8, 8)]; // of this machine
//! ```

use crate::arch::TARGET;
use crate::attention::{scalar_scratch_len, tensor_elements};
use crate::int8;

/// Elements of scratch memory of one attention in `f32` on Cortex-M and RISC-V. On these targets it equals
/// [`attention_scratch_len`](crate::attention_scratch_len).
#[must_use]
pub const fn attention_scratch_len(n_q: usize, n_k: usize, _d_k: usize, d_v: usize) -> usize {
    scalar_scratch_len(n_q, n_k, d_v)
}

/// Words of scratch memory of one attention on 8-bit integers on Cortex-M and RISC-V: those of the cores with the DSP extension, as
/// in [`int8_attention_bytes`].
#[must_use]
pub const fn int8_attention_scratch_len(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> usize {
    int8::scalar_scratch_len(n_q, n_k, d_k, d_v)
}

/// Bytes of RAM of one attention in `f32` on Cortex-M and RISC-V. On these targets it equals
/// [`attention_bytes`](crate::attention_bytes).
#[must_use]
pub const fn attention_bytes(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> usize {
    tensor_elements(n_q, n_k, d_k, d_v)
        .saturating_add(scalar_scratch_len(n_q, n_k, d_v))
        .saturating_mul(size_of::<f32>())
}

/// Bytes of RAM of one attention on 8-bit integers on Cortex-M and RISC-V.
///
/// They are [`int8::attention_bytes`] of the cores that take most, those with the DSP extension (Cortex-M4, M7). Other cores
/// take less.
///
/// ```
/// const _: () = assert!(regard_kernels::microcontroller::int8_attention_bytes(64, 64, 32, 32) <= 12 * 1024);
/// ```
#[must_use]
pub const fn int8_attention_bytes(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> usize {
    tensor_elements(n_q, n_k, d_k, d_v).saturating_add(
        int8::scalar_scratch_len(n_q, n_k, d_k, d_v).saturating_mul(size_of::<i32>()),
    )
}

/// On a microcontroller the sizes are those of the target. In 8 bits they may be those of a core that needs more.
const _: () = {
    let sizes = [0, 1, 3, 4, 6, 7, 16, 33, 256, 300, 5000];
    let mut i = 0;
    while i < sizes.len() * sizes.len() {
        let (n_q, n_k) = (sizes[i % sizes.len()], sizes[i / sizes.len()]);
        let (d_k, d_v) = (sizes[i % 9], sizes[(i + 1) % 9]);
        let bytes = crate::attention_bytes(n_q, n_k, d_k, d_v);
        assert!(TARGET.packs || attention_bytes(n_q, n_k, d_k, d_v) == bytes);
        let bytes = int8::attention_bytes(n_q, n_k, d_k, d_v);
        assert!(int8_attention_bytes(n_q, n_k, d_k, d_v) >= bytes);
        i += 1;
    }
};
