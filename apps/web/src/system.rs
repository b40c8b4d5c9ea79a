//! The functions of `system.js` for the window.

use js_sys::{Array, Uint8Array};
use wasm_bindgen::prelude::*;

// Beside the folder of the build: page.js shares it.
#[wasm_bindgen(raw_module = "../system.js")]
extern "C" {
    /// Calls [`work_on`](crate::host::work_on) soon, after the frame that is being drawn and after the work before.
    pub fn later();

    /// Gives the page's worker a question for [`begin`](crate::host::begin). `reply` is called with the share of the work that is done;
    /// or with an error; or with bytes to show, and whether they are the answer. [`take`](crate::host::take) has their lists of numbers
    /// by then. `reply` returns whether somebody waits for the answer.
    pub fn ask(question: &[u8], lists: Array, reply: Closure<Take>);

    /// In the worker: tells the window the share of the work on a question that is done.
    pub fn progress(number: u32, part: f32);

    /// In the worker: fetches a file that lies beside the page. `told` gets the number of bytes that are here, and in the end the file or
    /// the reason why there is none.
    pub fn fetched(name: &str, told: Closure<Told>);

    /// The text that the browser keeps under this name.
    pub fn kept(name: &str) -> Option<String>;

    /// Keeps a text under this name, if the browser allows it.
    pub fn keep(name: &str, text: &str) -> bool;

    /// Offers a file to the user, who finds it among the downloads.
    pub fn download(name: &str, bytes: &[u8]);

    /// Opens the book in a new tab, if the browser allows it.
    pub fn open_book() -> bool;

    /// Gives the page's address this end, and returns the address.
    pub fn address(end: &str) -> String;

    /// Asks for files with one of these endings, separated by commas. [`put`](crate::host::put) gets their contents; then `done` is
    /// called with the path of the first, or without one.
    pub fn choose(endings: &str, done: Closure<dyn FnMut(Option<String>)>);

    /// Whether the visitor has asked the system for less motion.
    pub fn is_still() -> bool;

    /// Tells that a frame has been drawn: the page's skeleton can go.
    pub fn drawn();

    /// Applies changes of the accessibility tree to the page, as JSON: see [`crate::mirror`].
    pub fn mirror(changes: &str);
}

type Told = dyn FnMut(f64, Option<Uint8Array>, Option<String>);
type Take = dyn FnMut(Option<f32>, Option<String>, Option<Uint8Array>, bool) -> bool;
