//! Writes the JavaScript around a WebAssembly module, as the command `wasm-bindgen --target web --no-typescript` does.
//!
//! `regard-bindgen IN.wasm FOLDER NAME` writes `NAME.js` and `NAME_bg.wasm`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, folder, name] = &arguments[..] else {
        eprintln!("usage: regard-bindgen IN.wasm FOLDER NAME");
        return ExitCode::from(2);
    };
    let written = Bindgen::new()
        .input_path(input)
        .out_name(name)
        .typescript(false)
        .web(true)
        .and_then(|bindgen| bindgen.omit_default_module_path(false).generate(folder));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{input}: {e:#}");
            ExitCode::FAILURE
        }
    }
}
