//! Writes the JavaScript around a WebAssembly module, as the command `wasm-bindgen --target web --no-typescript` does, and splits
//! the module in two: see [`split`].
//!
//! `regard-bindgen IN.wasm LATE.txt FOLDER NAME` writes `NAME.js`, `NAME_bg.wasm` and `NAME_rest.wasm`. `LATE.txt` lists what the
//! second module holds.

#![forbid(unsafe_code)]

mod graph;
mod late;
mod split;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use wasm_bindgen_cli_support::Bindgen;

use self::late::Late;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, late, folder, name] = &arguments[..] else {
        eprintln!("usage: regard-bindgen IN.wasm LATE.txt FOLDER NAME");
        return ExitCode::from(2);
    };
    match write(input, late, Path::new(folder), name) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{input}: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn write(input: &str, late: &str, folder: &Path, name: &str) -> Result<()> {
    let linked = std::fs::read(input)?;
    let late = Late::read(&std::fs::read_to_string(late).with_context(|| late.to_owned())?);
    let mut bindgen = Bindgen::new();
    bindgen.input_bytes(name, linked.clone()).out_name(name).typescript(false);
    let mut output = bindgen.web(true)?.omit_default_module_path(false).generate_output()?;
    let module = std::mem::take(output.wasm_mut());
    let [first, rest] = split::split(&linked, module, |name| late.holds(name), "../system.js")?;
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join(format!("{name}.js")), output.js())?;
    std::fs::write(folder.join(format!("{name}_bg.wasm")), first)?;
    std::fs::write(folder.join(format!("{name}_rest.wasm")), rest)?;
    Ok(())
}
