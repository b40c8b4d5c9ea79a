//! A model in flash tells the story that the desktop tells: the logits have the same bits. Needs QEMU and the targets for the
//! boards; `.ci/run` has them.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use regard_firmware::{FIRST_TOKEN, hash};
use regard_models::embed::{Options, Part, Stored};
use regard_models::{Input, Model, Sampler};

const STORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/story");
/// The positions that the model has learnt.
const CONTEXT: usize = 96;

fn story() -> Model {
    Model::open(STORY).unwrap()
}

fn options(stored: Stored) -> Options {
    Options { name: "story".into(), stored: Some(stored), context: CONTEXT, part: Part::default() }
}

/// Writes the crate to a folder beside the program's other outputs, which later builds of the image find unchanged.
fn embed(model: &Model, stored: Stored) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("story-{stored:?}"));
    for (path, bytes) in model.embed(&options(stored)).unwrap().files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if fs::read(&path).ok().as_deref() != Some(&bytes) {
            fs::write(&path, bytes).unwrap();
        }
    }
    folder.to_str().unwrap().to_owned()
}

/// The lines that the image prints; the last one apart, which says what a token costs.
fn told(arguments: &[&str], folder: &str) -> (Vec<String>, String) {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--bin", "story", "--quiet"])
        .env("REGARD_EMBED", folder)
        .current_dir("../..")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {}: {text}{errors}", arguments.join(" "));
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let cost = lines.pop().unwrap();
    (lines, cost)
}

/// The story that the desktop tells, in the lines of the image.
fn expected(model: &Model) -> Vec<String> {
    let input = Input::tokens([FIRST_TOKEN as u32]);
    let ids: Vec<u32> =
        model.write(&input, CONTEXT, &[], Sampler::greedy()).unwrap().map(Result::unwrap).collect();
    let read: Vec<u32> = [&input.ids, &ids[..ids.len() - 1]].concat();
    let trace = model.pass().run(&Input::tokens(read.clone())).unwrap();
    let logits = &trace.logits().unwrap().data;
    let words = model.tokenizer().unwrap();
    let rows = logits.chunks_exact(model.description().vocabulary);
    rows.zip(read.iter().zip(&ids))
        .map(|(row, (token, next))| {
            format!("{token} {:016x} {}", hash(row), words.token(*next).unwrap())
        })
        .collect()
}

/// This machine, if its kernels have fused multiply-add.
#[test]
fn the_crate_computes_the_logits_of_the_desktop() {
    let model = story();
    let expected = expected(&model);
    assert!(expected.len() > 20, "{expected:?}");
    for stored in [Stored::F32, Stored::Bf16] {
        let (lines, _) = told(&["run", "-p", "regard-firmware"], &embed(&model, stored));
        assert_eq!(lines, expected, "{stored}");
    }
}

#[test]
#[ignore = "needs qemu-system-arm and the bare-metal targets"]
fn boards_tell_the_story_of_the_desktop() {
    let model = story();
    let expected = expected(&model);
    for (alias, stored) in [("m4f", Stored::F32), ("m4f", Stored::Bf16), ("m55", Stored::Bf16)] {
        let (lines, cost) = told(&[alias], &embed(&model, stored));
        assert_eq!(lines, expected, "{alias}, {stored}");
        println!("{alias}, {stored}: {} tokens; {cost}", lines.len());
    }
}
