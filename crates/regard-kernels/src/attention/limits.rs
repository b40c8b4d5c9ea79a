use crate::Mask;
use crate::error::{Error, check_most, check_shape};

/// The limits of an attention that computes in integers.
pub(crate) struct Limits {
    /// The format of its numbers, in words.
    pub(crate) numbers: &'static str,
    /// The most columns of query and key.
    pub(crate) columns: Most,
    pub(crate) keys: Most,
}

/// The largest number that is allowed, and the range in words.
pub(crate) type Most = (usize, &'static str);

/// The shapes of a call's tensors.
pub(crate) struct Shapes {
    pub(crate) q: (usize, usize),
    pub(crate) k: (usize, usize),
    pub(crate) v: (usize, usize),
    pub(crate) out: (usize, usize),
}

impl Limits {
    /// Whether the tensors fit each other, these limits and the mask, and `found` elements of scratch memory are at least as many as
    /// `scratch_len` tells, given n_q, n_k, d_k and d_v.
    pub(crate) fn check(
        &self,
        shapes: &Shapes,
        mask: &Mask<'_>,
        found: usize,
        scratch_len: impl FnOnce(usize, usize, usize, usize) -> usize,
    ) -> Result<(), Error> {
        let Shapes { q: (n_q, d_k), k, v, out } = *shapes;
        let (n_k, d_v) = (k.0, v.1);
        check_shape("key", k, (n_k, d_k), "as many columns as query")?;
        check_shape("value", v, (n_k, d_v), "a row for each key")?;
        check_shape("the output", out, (n_q, d_v), "queries × columns of value")?;
        let Self { numbers, columns, keys } = *self;
        check_most("the number of columns of query", d_k, columns.0, columns.1)?;
        check_most("the number of keys", n_k, keys.0, keys.1)?;
        mask.check(n_q, n_k)?;
        if mask.has_bias() {
            return Err(Error::Unsupported { what: "an additive mask", numbers });
        }
        let needed = scratch_len(n_q, n_k, d_k, d_v);
        if found < needed { Err(Error::Scratch { found, needed }) } else { Ok(()) }
    }
}
