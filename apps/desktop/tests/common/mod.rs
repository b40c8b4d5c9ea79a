//! The program as a user calls it.
#![allow(dead_code, clippy::allow_attributes, reason = "each test uses a part")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::sync::Once;

use safetensors::SafeTensors;
use serde_json::Value;

/// The program, without a display.
pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_regard"));
    for display in ["DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET"] {
        command.env_remove(display);
    }
    command
}

/// The program with the words of a line, which a shell would separate in the same way.
pub fn command_line(line: impl AsRef<str>) -> Command {
    let mut command = command();
    command.args(shlex::split(line.as_ref()).unwrap());
    command
}

pub fn regard(line: impl AsRef<str>) -> Output {
    command_line(line).output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The standard output of a run that succeeds.
pub fn printed(line: impl AsRef<str>) -> String {
    let output = regard(&line);
    assert!(output.status.success(), "{}: {}", line.as_ref(), text(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The JSON that a command prints.
pub fn json(line: impl AsRef<str>) -> Value {
    serde_json::from_str(&printed(format!("{} --format json", line.as_ref()))).unwrap()
}

/// The message about wrong arguments or files, with exit code 2 and without output.
pub fn refused(line: impl AsRef<str>) -> String {
    let output = regard(&line);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{}: {said}", line.as_ref());
    assert!(output.stdout.is_empty(), "{}", line.as_ref());
    said
}

/// Asserts that a message is one line and has these parts.
#[track_caller]
pub fn assert_refused(line: impl AsRef<str>, parts: &[&str]) {
    let said = refused(&line);
    assert_eq!(said.lines().count(), 1, "{said}");
    for part in parts {
        assert!(said.contains(part), "{}: {said:?} does not say {part:?}", line.as_ref());
    }
}

pub fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Whether a file is a whole safetensors file.
pub fn is_whole(file: &Path) -> bool {
    SafeTensors::deserialize(&fs::read(file).unwrap()).is_ok()
}

/// Makes the programs that this process starts obey Ctrl-C, even if this process was started to ignore it. A signal that a
/// process handles has its default effect in the programs that it starts.
pub fn let_programs_obey_ctrl_c() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| ctrlc::set_handler(|| std::process::abort()).unwrap());
}

/// A shell that runs the program so that it ignores Ctrl-C, as `nohup` does, and a script that starts a background job.
pub fn ignoring_ctrl_c() -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' INT; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_regard")]);
    shell
}

pub fn send_ctrl_c(to: &Child) {
    let kill = Command::new("kill").args(["-INT", &to.id().to_string()]).output().unwrap();
    drop(kill); // the program may have ended
}
