//! A model in flash tells the story that the desktop tells: the logits have the same bits. Needs QEMU and the targets for the
//! boards; `.ci/run` has them.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use regard_embed::largest;
use regard_firmware::{COMMANDS, FIRST_TOKEN, hash};
use regard_models::embed::{Options, Part, Stored};
use regard_models::{Input, Model, Sampler};

const STORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/story");
const COMMAND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/command");
/// The positions that the model has learnt.
const CONTEXT: usize = 96;
const COMMAND_CONTEXT: usize = 32;

fn story() -> Model {
    Model::open(STORY).unwrap()
}

/// Writes the crate to a folder beside the program's other outputs, which later builds of the image find unchanged.
fn embed(model: &Model, stored: Stored) -> String {
    let (name, context) = match model.description().labels.len() {
        0 => ("story", CONTEXT),
        _ => ("command", COMMAND_CONTEXT),
    };
    let part = Part::default();
    let options = Options { name: name.into(), stored: Some(stored), context, part };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{stored:?}"));
    for (path, bytes) in model.embed(&options).unwrap().files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if fs::read(&path).ok().as_deref() != Some(&bytes) {
            fs::write(&path, bytes).unwrap();
        }
    }
    folder.to_str().unwrap().to_owned()
}

/// The text that the image with the model of `folder` prints, given an input. The arguments are those of cargo, or [`HERE`], a
/// program's name and its arguments.
fn output(arguments: &[&str], folder: &str, input: &str) -> String {
    // Each model becomes the same file, which is built and run by one test at a time.
    static IMAGE: Mutex<()> = Mutex::new(());
    let _alone = IMAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let cargo = |arguments: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.arg("--quiet").args(arguments).env("REGARD_EMBED", folder).current_dir("../..");
        cargo
    };
    let mut image = match arguments {
        [HERE, name, more @ ..] => {
            // As a part of the workspace, whose tests have built its dependencies.
            let built = cargo(&["build", "--workspace", "--bin", name]).status().unwrap();
            assert!(built.success(), "{name}");
            let mut program =
                Command::new(format!("{}/../debug/{name}", env!("CARGO_TARGET_TMPDIR")));
            program.args(more);
            program
        }
        _ => cargo(arguments),
    };
    let mut image = image.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    image.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = image.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "cargo {}: {text}", arguments.join(" "));
    text
}

/// In place of a core's alias: the program runs on this machine.
const HERE: &str = "here";
/// The program that writes a story.
const STORY_HERE: [&str; 2] = [HERE, "story"];

/// The lines that the image prints, without the last one, and the last one, which says what a token costs.
fn told(arguments: &[&str], folder: &str) -> (Vec<String>, String) {
    let text = output(arguments, folder, "");
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
        let (lines, _) = told(&STORY_HERE, &embed(&model, stored));
        assert_eq!(lines, expected, "{stored}");
    }
}

/// The stories that training held back, as ids: a line each.
fn held_back(model: &Model) -> String {
    let stories = fs::read_to_string(format!("{STORY}/held-back.jsonl")).unwrap();
    let mut lines = String::new();
    for story in stories.lines() {
        let story: serde_json::Value = serde_json::from_str(story).unwrap();
        let [prompt, answer] = ["prompt", "answer"].map(|part| story[part].as_str().unwrap());
        let ids = model.tokenizer().unwrap().encode(&format!("{prompt} {answer}"), None).unwrap();
        let ids: Vec<String> = ids.ids.iter().map(u32::to_string).collect();
        lines.extend([ids.join(" "), "\n".into()]);
    }
    lines
}

#[test]
fn integers_leave_the_perplexity_within_two_percent() {
    let model = story();
    let stories = held_back(&model);
    let score = |stored| -> f64 {
        let arguments = [&STORY_HERE[..], &["score"]].concat();
        output(&arguments, &embed(&model, stored), &stories).trim().parse().unwrap()
    };
    let [float, integer] = [Stored::Bf16, Stored::Int8].map(|stored| score(stored).exp());
    println!("perplexity: {float:.4} in floating point, {integer:.4} in integers");
    assert!((integer / float - 1.0).abs() < 0.02, "{integer} instead of {float}");
}

#[test]
#[ignore = "needs qemu-system-arm, qemu-system-riscv32 and the bare-metal targets"]
fn boards_tell_the_story_of_the_desktop() {
    let model = story();
    let floats = expected(&model);
    let (integers, _) = told(&STORY_HERE, &embed(&model, Stored::Int8));
    for (alias, stored) in [
        ("m4f", Stored::F32),
        ("m4f", Stored::Bf16),
        ("m55", Stored::Bf16),
        ("m4f", Stored::Int8),
        ("m55", Stored::Int8),
        ("rv32imac", Stored::Int8),
    ] {
        let (lines, cost) = told(&[alias, "--bin", "story"], &embed(&model, stored));
        let expected = if stored == Stored::Int8 { &integers } else { &floats };
        assert_eq!(&lines, expected, "{alias}, {stored}");
        println!("{alias}, {stored}: {} tokens; {cost}", lines.len());
    }
}

#[test]
#[ignore = "needs qemu-system-arm and the bare-metal targets"]
fn no_panic_can_be_reached_from_a_model() {
    let (story, command) = (story(), command());
    for (model, stored) in [
        (&story, Stored::F32),
        (&story, Stored::Bf16),
        (&story, Stored::Int8),
        (&command, Stored::Bf16),
    ] {
        output(&["m4f", "--bin", "no_panic"], &embed(model, stored), "");
        println!("m4f, {stored}: the image links and runs");
    }
}

fn command() -> Model {
    Model::open(COMMAND).unwrap()
}

/// The program that classifies texts.
const CLASSIFY_HERE: [&str; 2] = [HERE, "classify"];

/// The label of each text and a hash of its logits, as the desktop gives them.
fn sorted(model: &Model, texts: &[&str]) -> Vec<String> {
    let labels = &model.description().labels;
    let line = |text: &&str| {
        let input = model.tokenizer().unwrap().encode(text, None).unwrap();
        let trace = model.pass().run(&input).unwrap();
        let logits = &trace.logits().unwrap().data;
        format!("{}; {:016x}; {text}", labels[largest(logits)], hash(logits))
    };
    texts.iter().map(line).collect()
}

/// The lines that the image on this machine prints for texts.
fn sorted_here(model: &Model, stored: Stored, texts: &[&str]) -> Vec<String> {
    let text =
        output(&CLASSIFY_HERE, &embed(model, stored), &[texts.join("\n"), "\n".into()].concat());
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.pop(); // the memory
    lines
}

/// The commands that training held back: texts and labels.
fn held_back_commands() -> Vec<(String, String)> {
    let lines = fs::read_to_string(format!("{COMMAND}/held-back.jsonl")).unwrap();
    let part = |line: &serde_json::Value, part: &str| line[part].as_str().unwrap().to_owned();
    let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.map(|line| (part(&line, "text"), part(&line, "label"))).collect()
}

#[test]
fn commands_are_sorted_as_on_the_desktop_and_rightly() {
    let (model, held_back) = (command(), held_back_commands());
    let texts: Vec<&str> =
        held_back.iter().map(|(text, _)| text.as_str()).chain(COMMANDS).collect();
    let floats = sorted_here(&model, Stored::Bf16, &texts);
    assert_eq!(floats, sorted(&model, &texts));
    let integers = sorted_here(&model, Stored::Int8, &texts);
    for (lines, kind) in [(floats, "floating point"), (integers, "integers")] {
        let of = |line: &String| line.split(';').next().unwrap().to_owned();
        let right = held_back.iter().zip(&lines).filter(|((_, label), line)| of(line) == *label);
        let share = right.count() as f64 / held_back.len() as f64;
        println!("{:.1} % of {} held-back texts in {kind}", 100.0 * share, held_back.len());
        assert!(share >= 0.98, "{share} in {kind}");
    }
}

/// On every character below U+20000, where all marks and small letters are, and on texts of words, marks, spaces and special tokens in any order.
#[test]
fn the_board_has_the_tokens_of_the_desktop_on_every_text() {
    let model = command();
    let all: Vec<char> = (1..0x20000).filter_map(char::from_u32).collect();
    let between = |c: &char| ["on", c.encode_utf8(&mut [0; 4]), "on "].concat();
    let mut texts: Vec<String> =
        all.chunks(8192).map(|chunk| chunk.iter().map(between).collect()).collect();
    let parts = [
        "turn",
        "Lamp",
        "DARK",
        "dar\u{212a}",
        "l\u{130}ght",
        "it",
        "[UNK]",
        "[PAD",
        "]",
        "[HOUSE]",
        "[PAD]",
        "[",
        "x",
        "é",
        "—",
        "…",
        ",",
        "!",
        "$",
        " ",
        "  ",
        "\t",
        "\n",
        "\u{a0}",
        "\u{3000}",
        "\u{301}",
        "灯",
        "\u{1f4a1}",
        "off",
        "5",
    ];
    // A linear congruence, of which the upper bits choose.
    let mut state = 1_u64;
    let mut random = |n: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    for _ in 0..500 {
        texts.push((0..random(12)).map(|_| parts[random(parts.len())]).collect());
    }
    let found = output(
        &[&CLASSIFY_HERE[..], &["tokens"]].concat(),
        &embed(&model, Stored::Bf16),
        &[texts.join("\0"), "\0".into()].concat(),
    );
    let found: Vec<&str> = found.lines().collect();
    assert_eq!(found.len(), texts.len());
    for (text, found) in texts.iter().zip(found) {
        let ids = model.tokenizer().unwrap().encode(text, None).unwrap().ids;
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        let same = ids.join(" ") == found;
        let differ = || ids.iter().zip(found.split(' ')).position(|(a, b)| a != b);
        assert!(same, "{:?} at {:?}", text.chars().take(40).collect::<String>(), differ());
    }
}

#[test]
#[ignore = "needs qemu-system-arm and the bare-metal targets"]
fn a_board_sorts_texts_as_the_desktop_does() {
    let model = command();
    for stored in [Stored::F32, Stored::Bf16, Stored::Int8] {
        let expected = match stored {
            Stored::Int8 => sorted_here(&model, stored, &COMMANDS),
            _ => sorted(&model, &COMMANDS),
        };
        let (lines, cost) = told(&["m4f", "--bin", "classify"], &embed(&model, stored));
        assert_eq!(lines, expected, "{stored}");
        println!("m4f, {stored}: {} texts; {cost}", lines.len());
    }
}
