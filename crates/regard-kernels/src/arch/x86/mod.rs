//! x86-64: the tiers that are found at run time.

mod avx2;
mod avx512;

pub(super) use self::avx2::Avx2;
pub(super) use self::avx512::Avx512;
