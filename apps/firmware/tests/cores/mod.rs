//! The emulated cores.

/// The aliases in `.cargo/config.toml`, whether the core has fused multiply-add, and whether it runs code of its own. The M7
/// and the M55 run the code of the M4F and of the M33.
pub(crate) const CORES: [(&str, bool, bool); 9] = [
    ("m0", false, true),
    ("m4f", true, true),
    ("m7", true, false),
    ("m33", true, true),
    ("m33-cpu", true, true),
    ("m55", true, false),
    ("m55-cpu", true, true),
    ("rv32imac", false, true),
    ("rv32imafc", true, true),
];
