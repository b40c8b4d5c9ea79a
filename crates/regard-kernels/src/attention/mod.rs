//! Scaled dot-product attention. [`Attention`] is what a user composes ([`describe`], with its [`mask`]).
//!
//! The way of a call, from [`Attention::forward`] to the output, each step in the file of its name:
//!
//! 1. [`forward`]: the doors, and the choice: all keys at once; more than 4096 of them in chunks, which [`partial`] merges in
//!    their order; or so few that they fit in registers ([`small`]).
//! 2. [`check`]: whether the tensors fit, and what follows from the description for them, worked out once: the factor of the
//!    softmax, what each query sees, the parts of the [`scratch`] memory.
//! 3. `dispatch` (`crate::arch`) picks the tier, the instructions of this CPU.
//! 4. [`tiles`]: the loop over tiles of keys and blocks of queries, which takes the next three steps for each.
//! 5. [`scores`]: the products of queries and keys, scaled, capped and masked.
//! 6. [`weights`]: the online softmax makes weights of them.
//! 7. [`values`]: the weights multiply the values, and the products are added to the output.
//!
//! The innermost loop of steps 5 and 7 is `Tiles::microkernel` (`arch/generic/tile.rs`), and for one query `gemv`
//! (`arch/generic/gemv.rs`).

mod check;
mod describe;
mod forward;
mod mask;
mod partial;
mod scores;
mod scratch;
mod small;
mod tiles;
mod values;
mod weights;

pub use self::describe::{Attention, Stage};
pub(crate) use self::mask::{Linked, RowStep, Visible};
pub use self::mask::{Mask, Position, Window};
pub use self::partial::{CHUNK_KEYS, Partial, TILE_KEYS, merge_finished};
pub use self::scratch::{attention_bytes, attention_scratch_len};
pub(crate) use self::scratch::{scalar_scratch_len, tensor_elements};
