//! Loops that need `unsafe`, generic over the tiers.

pub(super) mod gemv;
pub(crate) mod int8;
pub(super) mod known;
pub(super) mod pack;
pub(super) mod tile;
