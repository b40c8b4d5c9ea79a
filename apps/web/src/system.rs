//! What `system.js` does for the window.

use wasm_bindgen::prelude::*;

// Beside the folder of the build: page.js shares it.
#[wasm_bindgen(raw_module = "../system.js")]
extern "C" {
    /// Calls `work` soon, after the frame that is being drawn.
    pub fn later(work: Closure<dyn FnMut()>);

    /// The text that the browser keeps under this name.
    pub fn kept(name: &str) -> Option<String>;

    /// Keeps a text under this name, if the browser allows it.
    pub fn keep(name: &str, text: &str) -> bool;

    /// Offers a file to the user, who finds it among the downloads.
    pub fn download(name: &str, bytes: &[u8]);

    /// Puts a session into the page's address.
    pub fn address(session: &str);

    /// Asks for files with one of these endings, separated by commas. [`put`](crate::host::put) gets their contents; then `done` is
    /// called with the path of the first, or without one.
    pub fn choose(endings: &str, done: Closure<dyn FnMut(Option<String>)>);

    /// Tells that a frame has been drawn: the page's skeleton can go.
    pub fn drawn();

    /// Applies changes of the accessibility tree to the page, as JSON: see [`crate::mirror`].
    pub fn mirror(changes: &str);
}
