//! The page about the way from a trained model to a board: its commands run, and its code compiles.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

const PAGE: &str = include_str!("../../../../docs/microcontroller.md");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The page's code in a language, without the indentation of a list.
fn code(language: &str) -> String {
    let (mut code, mut inside) = (String::new(), None);
    for line in PAGE.lines() {
        let text = line.trim_start();
        if let Some(opened) = text.strip_prefix("```") {
            inside = (inside.is_none() && opened == language).then(|| line.len() - text.len());
        } else if let Some(indent) = inside {
            code.extend([line.get(indent..).unwrap_or_default(), "\n"]);
        }
    }
    code
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_commands_of_the_page_run_and_its_code_compiles() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    symlink(format!("{ROOT}/models"), path("models")).unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_regard")).parent().unwrap();
    let programs = format!("{}:{}", programs.display(), env::var("PATH").unwrap());
    let commands = code("sh");
    let commands: Vec<&str> = commands.lines().filter(|line| line.starts_with("regard ")).collect();
    assert_eq!(commands.len(), 4, "{commands:?}");
    for command in commands {
        let mut shell = Command::new("sh");
        run(shell.args(["-c", command]).current_dir(folder.path()).env("PATH", &programs));
    }

    let (toml, rust) = (code("toml"), code("rust,ignore"));
    fs::create_dir_all(path("firmware/src")).unwrap();
    let package = "[package]\nname = \"firmware\"\nedition = \"2024\"\n\n";
    let patch = ["embed", "kernels"].map(|name| {
        format!("[patch.crates-io.regard-{name}]\npath = \"{ROOT}/crates/regard-{name}\"\n")
    });
    fs::write(path("firmware/Cargo.toml"), [package, &toml, &patch.concat()].concat()).unwrap();
    fs::write(path("firmware/src/lib.rs"), &rust).unwrap();
    // The versions of dependencies that are downloaded already.
    fs::copy(format!("{ROOT}/Cargo.lock"), path("firmware/Cargo.lock")).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["check", "--quiet", "--offline"]).current_dir(path("firmware"));
    run(cargo.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("page")));
}
