//! Writes the JavaScript around the page's WebAssembly, as `wasm-bindgen --target web --no-typescript` does: `bindgen IN.wasm FOLDER`.
//!
//! Neither crates.io nor npm has the command alone: the crate `wasm-bindgen-cli` also compiles a web server, TLS and a test runner. Its
//! library is a quarter of that, and one lockfile gives it the version of `wasm-bindgen` that the page has.

use std::error::Error;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(input), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: bindgen IN.wasm FOLDER".into());
    };
    let mut bindgen = Bindgen::new();
    bindgen.input_path(input).out_name("regard").typescript(false);
    Ok(bindgen.web(true)?.generate(folder)?)
}
