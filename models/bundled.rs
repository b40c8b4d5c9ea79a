//! The models that come with the program, by their names.
#![forbid(unsafe_code)]

use regard_models::{Checkpoint, Error};

/// The model that reads any English.
pub const ENGLISH: &str = "english";
/// The model that writes stories, a word a token.
pub const STORY: &str = "story";
/// The model that reads a digit, which is drawn.
pub const DIGITS: &str = "digits";
/// The names of the models.
pub const NAMES: [&str; 3] = [ENGLISH, STORY, DIGITS];

/// The model of this name, if it comes with the program.
///
/// A program for wasm32 does not hold [`ENGLISH`], because a page is loaded sooner without it: there the result is `None`.
///
/// # Errors
/// None in practice, because the files are part of the program.
///
/// ```
/// use regard_bundled::{ENGLISH, checkpoint};
/// use regard_models::Model;
/// let model = Model::load(&checkpoint(ENGLISH).ok_or("no such model")??)?;
/// assert_eq!(model.description().vocabulary, 4096);
/// assert!(checkpoint("gpt2").is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn checkpoint(name: &str) -> Option<Result<Checkpoint, Error>> {
    match name {
        #[cfg(not(target_arch = "wasm32"))]
        ENGLISH => Some(Checkpoint::from_files(ENGLISH, regard_english::FILES)),
        STORY => Some(Checkpoint::from_files(STORY, regard_story::FILES)),
        DIGITS => Some(Checkpoint::from_files(DIGITS, regard_digits::FILES)),
        _ => None,
    }
}

/// A text that shows what the model of this name does. Other models of texts read that of [`ENGLISH`].
pub fn text(name: &str) -> &'static str {
    if name == STORY { regard_story::TEXT } else { regard_english::TEXT }
}
