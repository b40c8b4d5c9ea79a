//! Gives the linker the memory of the board and the layout of the start-up code, when an image is built.

use core::error::Error;
use core::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> Result<(), Box<dyn Error>> {
    let mut cargo = io::stdout();
    writeln!(cargo, "cargo::rerun-if-env-changed=REGARD_BOARD")?;
    writeln!(cargo, "cargo::rerun-if-changed=boards")?;
    // The bytes of flash and of RAM of a smaller part, such as `65536 16384`.
    writeln!(cargo, "cargo::rerun-if-env-changed=REGARD_MEMORY")?;
    // Whether the images of models have a model, and whether it reads tokens one by one, texts, windows of numbers or also images of
    // samples.
    writeln!(cargo, "cargo::rerun-if-env-changed=REGARD_EMBED")?;
    writeln!(cargo, "cargo::rustc-check-cfg=cfg(embedded, texts, classifies, samples)")?;
    if let Some(folder) = env::var_os("REGARD_EMBED") {
        let source = PathBuf::from(folder).join("src");
        // An absent file would count as changed, and every model has this file.
        writeln!(cargo, "cargo::rerun-if-changed={}", source.join("model.rs").display())?;
        let model = fs::read_to_string(source.join("model.rs"))?;
        for (function, kind) in [
            ("pub fn next(", "embedded"),
            ("pub fn classify_tokens<", "texts"),
            ("pub fn classify<", "classifies"),
            ("pub fn classify_samples<", "samples"),
        ] {
            if model.contains(function) {
                writeln!(cargo, "cargo::rustc-cfg={kind}")?;
            }
        }
    }
    if env::var("CARGO_CFG_TARGET_OS")? != "none" {
        if env::var_os("CARGO_FEATURE_X86").is_some() {
            link_x86(&mut cargo)?;
        }
        return Ok(());
    }
    let board =
        env::var("REGARD_BOARD").ok().ok_or("set REGARD_BOARD to the name of a file in boards/")?;
    let facts = fs::read_to_string(format!("boards/{board}.board"))?;
    let fact = |name: &str| {
        let line = facts
            .lines()
            .filter_map(|line| line.split_once('='))
            .find(|(key, _)| key.trim() == name);
        line.map(|(_, value)| value.trim())
            .ok_or_else(|| format!("boards/{board}.board has no `{name}`"))
    };
    let given = env::var("REGARD_MEMORY").ok();
    let given = given.as_deref().and_then(|bytes| bytes.split_once(' '));
    let region = |name| {
        let (origin, length) = fact(name)?
            .split_once(' ')
            .ok_or_else(|| format!("`{name}` is not `origin length`"))?;
        let length = given.map_or(length, |(flash, ram)| if name == "flash" { flash } else { ram });
        Ok::<_, String>(format!("ORIGIN = {origin}, LENGTH = {length}"))
    };

    let mut layout =
        format!("MEMORY\n{{\n  FLASH : {}\n  RAM : {}\n}}\n", region("flash")?, region("ram")?);
    if env::var("CARGO_CFG_TARGET_ARCH")? == "riscv32" {
        for (section, memory) in [
            ("TEXT", "FLASH"),
            ("RODATA", "FLASH"),
            ("DATA", "RAM"),
            ("BSS", "RAM"),
            ("HEAP", "RAM"),
            ("STACK", "RAM"),
        ] {
            writeln!(layout, "REGION_ALIAS(\"REGION_{section}\", {memory});")?;
        }
        link_with(&mut cargo, "memory.x")?;
    }
    if let Ok(script) = fact("script") {
        layout.push_str(&fs::read_to_string(format!("boards/{script}"))?);
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("memory.x"), layout)?;
    writeln!(cargo, "cargo::rustc-link-search={}", out.display())?;
    link_with(&mut cargo, "link.x")?;
    writeln!(cargo, "cargo::rustc-env=REGARD_CORE={}", fact("core")?)?;
    // A part counts cycles; an emulated board's timer tells the time.
    writeln!(cargo, "cargo::rustc-check-cfg=cfg(cycles)")?;
    if fact("probe").is_ok() {
        writeln!(cargo, "cargo::rustc-cfg=cycles")?;
    } else {
        writeln!(cargo, "cargo::rustc-env=REGARD_CLOCK={}", fact("clock")?)?;
    }
    Ok(())
}

/// Links the x86 image at fixed addresses, without libc.
fn link_x86(cargo: &mut io::Stdout) -> Result<(), Box<dyn Error>> {
    writeln!(cargo, "cargo::rerun-if-changed=x86")?;
    let script = format!("-T{}/x86/link.x", env::var("CARGO_MANIFEST_DIR")?);
    let page = "-Wl,-z,max-page-size=4096";
    for argument in
        ["-nostdlib", "-nostartfiles", "-static", "-no-pie", "-Wl,--build-id=none", page, &script]
    {
        writeln!(cargo, "cargo::rustc-link-arg-bin=x86={argument}")?;
    }
    Ok(())
}

/// Images are built of `src/bin` and of `examples`.
fn link_with(cargo: &mut io::Stdout, script: &str) -> io::Result<()> {
    writeln!(cargo, "cargo::rustc-link-arg-bins=-T{script}")?;
    writeln!(cargo, "cargo::rustc-link-arg-examples=-T{script}")
}
