//! SHA-256 hashes in hexadecimal digits.

use core::fmt::Write as _;

use regard_models::{Checkpoint, Error, Model};
use sha2::{Digest as _, Sha256};

/// The hash of a model's files.
pub(super) fn of_files(checkpoint: &Checkpoint) -> Result<String, Error> {
    let mut hash = Sha256::new();
    checkpoint.for_each_part(&mut |part| hash.update(part))?;
    Ok(digits(hash))
}

/// The hash of a model's tokens in the order of their ids.
pub(super) fn of_tokens(model: &Model) -> String {
    let mut hash = Sha256::new();
    for id in 0..model.description().vocabulary {
        let token = u32::try_from(id).ok().and_then(|id| model.tokenizer()?.token(id));
        hash.update(token.unwrap_or_default());
        hash.update([0]);
    }
    digits(hash)
}

pub(super) fn digits(hash: Sha256) -> String {
    hash.finalize().iter().fold(String::new(), |mut digits, byte| {
        let _infallible = write!(digits, "{byte:02x}");
        digits
    })
}
