//! Scaled dot-product attention. A user composes an [`Attention`] ([`describe`]) with a [`mask`].
//!
//! The way of a call from [`Attention::forward`] to the output has seven steps. All but the third have a file here, of the same
//! name:
//!
//! 1. [`forward`] has the public methods. It takes all keys at once, or more than 4096 keys in chunks that [`partial`] merges
//!    in order.
//! 2. [`check`] checks that the tensors fit each other. It computes once what follows from the description: the factor of the
//!    softmax, the keys that each query sees, and the parts of the [`scratch`] memory.
//! 3. `dispatch` (`crate::arch`) picks the tier, the instructions of this CPU.
//! 4. [`tiles`] is the loop over tiles of keys and blocks of queries. Each of them takes the next three steps. An attention whose
//!    keys and values are few enough for the registers goes to [`small`] instead.
//! 5. [`scores`] multiplies queries and keys, and scales, caps and masks the products.
//! 6. [`weights`] turns the scores into weights by the online softmax.
//! 7. [`values`] multiplies the weights and the values, and adds the products to the output.
//!
//! The innermost loop of steps 5 and 7 is `Tiles::run` (`arch/generic/tile.rs`), and for one query `gemv`
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
pub(crate) use self::mask::Visible;
pub use self::mask::{Mask, Position, Window};
pub use self::partial::{CHUNK_KEYS, Partial, TILE_KEYS, merge_finished};
pub use self::scratch::{attention_bytes, attention_scratch_len};
pub(crate) use self::scratch::{scalar_scratch_len, tensor_elements};
