use crate::Mat;

/// Words of memory that [`Values`] need.
pub(crate) const fn value_words(_n_q: usize, _n_k: usize, _d_v: usize) -> usize {
    0
}

/// Values, which are weighed where they lie.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a>(pub(super) Mat<'a, i8>);

impl<'a> Values<'a> {
    #[inline(always)]
    pub(crate) fn new(v: Mat<'a, i8>, _words: &'a mut [i32]) -> Self {
        Self(v)
    }
}
