//! The fonts of figures, which the window shares. `fonts/make.py` makes them.

/// Latin, Greek and Cyrillic letters and signs: a part of IBM Plex Sans (SIL Open Font License 1.1) under another name. "I" has
/// serifs, and figures have one width.
pub const SANS: &[u8] = include_bytes!("../fonts/regard-sans.ttf");

/// Signs of mathematics and of keys: a part of DejaVu Sans under another name.
pub const SYMBOLS: &[u8] = include_bytes!("../fonts/symbols.ttf");
