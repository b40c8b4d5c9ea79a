//! The window in a browser: eframe's web shell around [`regard_ui::App`].
//!
//! `page.js` loads this module and calls [`start`]. The browser's side of files, storage and the accessibility tree is in
//! `system.js`; [`system`] declares it.
#![cfg(target_arch = "wasm32")]
#![deny(unsafe_code)]

mod address;
mod host;
mod mirror;
mod shell;
mod system;

use std::sync::Arc;

use eframe::{WebOptions, WebRunner};
use wasm_bindgen::prelude::*;
use web_sys::HtmlCanvasElement;

use self::host::Browser;
use self::shell::Shell;

/// Draws the window on a canvas from now on. `address` is the page's query and fragment: see [`address::Address`].
///
/// # Errors
/// If the browser offers no WebGL.
#[wasm_bindgen]
pub async fn start(canvas: HtmlCanvasElement, address: String) -> Result<(), JsValue> {
    let host = Arc::new(Browser);
    let options = WebOptions::default();
    let create = move |cc: &eframe::CreationContext<'_>| -> Result<Box<dyn eframe::App>, _> {
        Ok(Box::new(Shell::new(&cc.egui_ctx, host, &address)))
    };
    WebRunner::new().start(canvas, options, Box::new(create)).await
}
