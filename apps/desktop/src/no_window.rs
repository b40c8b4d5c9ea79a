//! The program without its window.

use regard_session::Start;

/// Says that there is no window.
///
/// # Errors
/// Always.
pub(crate) fn open(_: Start) -> Result<(), String> {
    Err("this program was built without the window".to_owned())
}
