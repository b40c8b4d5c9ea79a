//! Ctrl-C leaves no incomplete file.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::time::Duration;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Once;
use std::thread;

use regard_tests::attention_files::Folder;
use safetensors::SafeTensors;

/// The names of the files in a folder.
fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap();
    files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

/// Makes the programs that this process starts obey Ctrl-C, even if this process was started to ignore it. A signal that a
/// process handles has its default effect in the programs that it starts.
fn let_programs_obey_ctrl_c() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| ctrlc::set_handler(|| std::process::abort()).unwrap());
}

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/models/tiny-llama");

/// Traces a long text, whose file takes so long to write that a signal arrives meanwhile. If the file is complete by then, the
/// test tries again.
#[test]
fn a_trace_that_ctrl_c_ends_leaves_no_file() {
    let_programs_obey_ctrl_c();
    let ids = vec!["7"; 1500].join(",");
    for _ in 0..10 {
        let folder = Folder::new();
        let (place, output) = (folder.path(""), folder.path("out.safetensors"));
        let mut trace = Command::new(env!("CARGO_BIN_EXE_regard"))
            .args(["trace", MODEL, "--ids", &ids, "--output", output.to_str().unwrap()])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while names(&place).is_empty() && trace.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_micros(200));
        }
        let pid = trace.id().to_string();
        Command::new("kill").args(["-INT", &pid]).stderr(Stdio::null()).status().unwrap();
        let status = trace.wait().unwrap();
        if status.success() {
            let file = fs::read(&output).unwrap();
            assert!(SafeTensors::deserialize(&file).is_ok(), "a file with its name is whole");
            assert_eq!(names(&place), ["out.safetensors"]);
            continue;
        }
        assert_eq!(status.code(), Some(130));
        assert_eq!(names(&place), [""; 0]);
        return;
    }
    panic!("no signal came before the file was whole");
}

/// `nohup`, and a script that starts a background job, make it ignore the signal.
#[test]
fn a_trace_that_ignores_ctrl_c_goes_on() {
    let folder = Folder::new();
    let (place, output) = (folder.path(""), folder.path("out.safetensors"));
    let ids = vec!["7"; 500].join(",");
    let ignoring = "trap '' INT; exec \"$0\" \"$@\"";
    let mut trace = Command::new("sh")
        .args(["-c", ignoring, env!("CARGO_BIN_EXE_regard"), "trace", MODEL, "--ids", &ids])
        .args(["--output", output.to_str().unwrap()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while names(&place).is_empty() && trace.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_micros(200));
    }
    let pid = trace.id().to_string();
    Command::new("kill").args(["-INT", &pid]).stderr(Stdio::null()).status().unwrap();
    assert!(trace.wait().unwrap().success());
    assert!(SafeTensors::deserialize(&fs::read(&output).unwrap()).is_ok());
}
