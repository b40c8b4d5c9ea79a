// If a link is defined twice, the first definition counts. These definitions lead to the items; those at the end of the file
// lead to the source files.
//! [`Attention::forward`]: crate::Attention::forward
//! [`Error`]: crate::Error
//! [`Mask::rows`]: crate::Mask::rows
//! [`MatMut`]: crate::MatMut
//! [`Mat`]: crate::Mat
//! [`attention_bytes`]: crate::attention_bytes
//! [`attention_scratch_len`]: crate::attention_scratch_len
//! [`int8::attention_bytes`]: crate::int8::attention_bytes
//! [`int8`]: crate::int8
//! [`microcontroller`]: crate::microcontroller
//! [`naive`]: crate::naive
//!
#![doc = include_str!("guide.md")]

use crate::microcontroller;

/// The tables of the guide: KiB of RAM, the number of columns, then the most tokens in `f32` and in `i8`, and the most keys.
/// The compiler checks on every target that this many fit, and that 8 more do not.
const _: () = {
    const TABLE: [(usize, usize, [usize; 4]); 12] = [
        (20, 8, [96, 336, 232, 816]),
        (20, 16, [48, 168, 120, 448]),
        (20, 32, [24, 88, 56, 232]),
        (20, 64, [8, 40, 24, 120]),
        (64, 8, [400, 1272, 936, 3064]),
        (64, 16, [208, 760, 464, 1704]),
        (64, 32, [112, 424, 232, 896]),
        (64, 64, [56, 176, 112, 456]),
        (256, 8, [1848, 5368, 4008, 12896]),
        (256, 16, [952, 3224, 2000, 7160]),
        (256, 32, [480, 1784, 1000, 3792]),
        (256, 64, [240, 944, 496, 1952]),
    ];
    const fn fits(bytes: usize, kib: usize) -> bool {
        bytes + 4096 <= kib * 1024
    }
    let mut rest = TABLE.as_slice();
    while let [(kib, d, [tokens, tokens_i8, keys, keys_i8]), after @ ..] = rest {
        let (kib, d) = (*kib, *d);
        let mut more = 0;
        while more <= 8 {
            let [tokens, tokens_i8, keys, keys_i8] =
                [*tokens + more, *tokens_i8 + more, *keys + more, *keys_i8 + more];
            assert!(
                fits(microcontroller::attention_bytes(tokens, tokens, d, d), kib) == (more == 0)
            );
            assert!(fits(microcontroller::attention_bytes(1, keys, d, d), kib) == (more == 0));
            assert!(
                fits(microcontroller::int8_attention_bytes(tokens_i8, tokens_i8, d, d), kib)
                    == (more == 0)
            );
            assert!(
                fits(microcontroller::int8_attention_bytes(1, keys_i8, d, d), kib) == (more == 0)
            );
            more += 8;
        }
        rest = after;
    }
};
