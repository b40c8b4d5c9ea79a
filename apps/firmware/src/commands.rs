//! The texts that the image `classify` classifies.

/// Sentences that somebody says to a house: orders, corrections and other texts. Some have words and marks that `command` does
/// not know.
pub const COMMANDS: [&str; 10] = [
    "Turn on the lamp in the kitchen.",
    "turn on the radio, not the lamp",
    "turn on the lamp, not the radio",
    "switch the stereo off, no, on",
    "Do not close the bedroom curtain!",
    "it is so cold in the office",
    "leave the heater, turn the bulb in the attic off, please",
    "pull the awning up, sorry, pull it down",
    "Könntest du… switch off the \u{201c}boiler\u{201d}?",
    "",
];
