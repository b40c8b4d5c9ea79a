//! Ctrl-C leaves no incomplete file.

use core::time::Duration;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::common::{
    command, ignoring_ctrl_c, is_whole, let_programs_obey_ctrl_c, names, send_ctrl_c,
};
use regard_tests::attention_files::Folder;
use regard_tests::models::golden;

/// Starts to trace a text of so many tokens, and sends Ctrl-C when the file is begun.
fn interrupted(mut program: Command, tokens: usize, output: &Path) -> Child {
    let ids = vec!["7"; tokens].join(",");
    let trace = program.arg("trace").arg(golden("tiny-llama")).args(["--ids", &ids]);
    let mut trace = trace.arg("--output").arg(output).stderr(Stdio::null()).spawn().unwrap();
    let place = output.parent().unwrap();
    while names(place).is_empty() && trace.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_micros(200));
    }
    send_ctrl_c(&trace);
    trace
}

/// Traces a long text, whose file takes so long to write that a signal arrives meanwhile. If the file is complete by then, the
/// test tries again.
#[test]
fn a_trace_that_ctrl_c_ends_leaves_no_file() {
    let_programs_obey_ctrl_c();
    for _ in 0..10 {
        let folder = Folder::new();
        let (place, output) = (folder.path(""), folder.path("out.safetensors"));
        let status = interrupted(command(), 1500, &output).wait().unwrap();
        if status.success() {
            assert!(is_whole(&output), "a file with its name is whole");
            assert_eq!(names(&place), ["out.safetensors"]);
            continue;
        }
        assert_eq!(status.code(), Some(130));
        assert_eq!(names(&place), [""; 0]);
        return;
    }
    panic!("no signal came before the file was whole");
}

#[test]
fn a_trace_that_ignores_ctrl_c_goes_on() {
    let folder = Folder::new();
    let output = folder.path("out.safetensors");
    assert!(interrupted(ignoring_ctrl_c(), 500, &output).wait().unwrap().success());
    assert!(is_whole(&output));
}
