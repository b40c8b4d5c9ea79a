//! Hands the linker the board's memory and the start-up code's layout, when an image is built.

use core::error::Error;
use std::io::Write as _;
use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> Result<(), Box<dyn Error>> {
    let target_os = env::var("CARGO_CFG_TARGET_OS")?;
    if target_os == "none" {
        let out = PathBuf::from(env::var("OUT_DIR")?);
        // link.x of cortex-m-rt includes memory.x from the search path.
        fs::copy("memory.x", out.join("memory.x"))?;
        let mut cargo = io::stdout();
        writeln!(cargo, "cargo::rustc-link-search={}", out.display())?;
        writeln!(cargo, "cargo::rustc-link-arg-bins=-Tlink.x")?;
        writeln!(cargo, "cargo::rerun-if-changed=memory.x")?;
    }
    Ok(())
}
