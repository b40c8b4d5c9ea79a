//! Tests that a model in flash writes the story that the desktop writes: the logits have the same bits. Needs QEMU and the
//! targets for the boards; `.ci/run` installs them.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

mod cores;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use cores::CORES;
use regard_digits::{FILES, SIDE, held_back};
use regard_embed::largest;
use regard_firmware::{FIRST_TOKEN, hash};
use regard_models::embed::{EmbedOptions, Embedded, Stored};
use regard_models::{Checkpoint, ImageProcessor, Input, Model, Sampler};

const STORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/story");
/// The positions that the model has learnt.
const CONTEXT: usize = 96;

fn story() -> Model {
    Model::open(STORY).unwrap()
}

/// Writes the crate to a folder beside the program's other outputs. Later builds of the image find it unchanged.
fn embed(model: &Model, stored: Stored) -> String {
    written(model, stored).1
}

fn written(model: &Model, stored: Stored) -> (Embedded, String) {
    let reads_images = model.description().embedding.patches.is_some();
    let name = match () {
        () if reads_images => "digits",
        () if model.description().stack.causal => "story",
        () => "commands",
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{stored:?}"));
    let embedded = write_crate(model, name, stored, &folder);
    (embedded, folder.to_str().unwrap().to_owned())
}

/// Writes the crate `name` to a folder.
fn write_crate(model: &Model, name: &str, stored: Stored, folder: &Path) -> Embedded {
    // The longest command has 17 tokens.
    let context = if name.starts_with("commands") { 17 } else { CONTEXT };
    let mut options = EmbedOptions::new(name, context);
    options.stored = Some(stored);
    let reads_images = model.description().embedding.patches.is_some();
    options.samples = reads_images.then(|| processor(model));
    let embedded = model.embed(&options).unwrap();
    for (path, bytes) in &embedded.files {
        write(&folder.join(path), bytes);
    }
    embedded
}

/// Writes a file that has other contents.
fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    if fs::read(path).ok().as_deref() != Some(bytes) {
        fs::write(path, bytes).unwrap();
    }
}

/// Cargo with these arguments, which builds images with the model in `folder`.
fn cargo(arguments: &[&str], folder: &str) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.arg("--quiet").args(arguments).env("REGARD_EMBED", folder).current_dir("../..");
    cargo
}

/// The text that a program prints for an input.
fn output(program: &mut Command, input: &str) -> String {
    let mut running = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    running.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = running.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{program:?}: {text}");
    text
}

/// Builds `story` or `classify` for this machine. It is a part of the workspace, whose tests have already built its dependencies.
/// Each model is written to the same file. The tests that run together, those that are ignored or the others, build a program once.
fn built(name: &str, folder: &str) -> Command {
    let build = ["build", "--workspace", "--bin", name];
    assert!(cargo(&build, folder).status().unwrap().success(), "{name}");
    Command::new(format!("{}/../debug/{name}", env!("CARGO_TARGET_TMPDIR")))
}

/// The lines that a program prints without the last one, and the last one, which has the costs of a token or of an image.
fn told(program: &mut Command) -> (Vec<String>, String) {
    let text = output(program, "");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let cost = lines.pop().unwrap();
    (lines, cost)
}

/// The story that the desktop writes, in the lines of the image.
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

/// A third of the stories that training held back, as one line of ids each. The guide tells the perplexity of all.
fn held_back_stories(model: &Model) -> String {
    let stories = fs::read_to_string(format!("{STORY}/held-back.jsonl")).unwrap();
    let mut lines = String::new();
    for story in stories.lines().step_by(3) {
        let story: serde_json::Value = serde_json::from_str(story).unwrap();
        let [prompt, answer] = ["prompt", "answer"].map(|part| story[part].as_str().unwrap());
        let ids = model.tokenizer().unwrap().encode(&format!("{prompt} {answer}"), None).unwrap();
        let ids: Vec<String> = ids.ids.iter().map(u32::to_string).collect();
        lines.extend([ids.join(" "), "\n".into()]);
    }
    lines
}

/// On this machine, if its kernels have fused multiply-add. The boards have the weights in `f32` too.
#[test]
fn the_crate_computes_the_logits_of_the_desktop_and_integers_leave_the_perplexity() {
    let model = story();
    let (expected, stories) = (expected(&model), held_back_stories(&model));
    assert!(expected.len() > 20, "{expected:?}");
    let score = |program: &mut Command| -> f64 {
        output(program.arg("score"), &stories).trim().parse::<f64>().unwrap().exp()
    };
    let mut program = built("story", &embed(&model, Stored::Bf16));
    assert_eq!(told(&mut program).0, expected);
    let float = score(&mut program);
    let integer = score(&mut built("story", &embed(&model, Stored::Int8)));
    println!("perplexity: {float:.4} in floating point, {integer:.4} in integers");
    assert!((integer / float - 1.0).abs() < 0.02, "{integer} instead of {float}");
}

#[test]
#[ignore = "needs qemu-system-arm, qemu-system-riscv32 and the bare-metal targets"]
fn boards_tell_the_story_of_the_desktop() {
    let model = story();
    let floats = expected(&model);
    let (integers, _) = told(&mut built("story", &embed(&model, Stored::Int8)));
    for (alias, stored) in [
        ("m4f", Stored::F32),
        ("m4f", Stored::Bf16),
        ("m55", Stored::Bf16),
        ("m4f", Stored::Int8),
        ("m55", Stored::Int8),
        ("rv32imac", Stored::Int8),
    ] {
        let image = &mut cargo(&[alias, "--bin", "story"], &embed(&model, stored));
        let (lines, cost) = told(image);
        let expected = if stored == Stored::Int8 { &integers } else { &floats };
        assert_eq!(&lines, expected, "{alias}, {stored}");
        println!("{alias}, {stored}: {} tokens; {cost}", lines.len());
    }
}

/// On each core, an image links in exactly the memory that `regard embed` promised, runs there if the emulated board has as much, and
/// does not link in less than the model takes.
#[test]
#[ignore = "needs qemu-system-arm, qemu-system-riscv32 and the bare-metal targets"]
fn the_promised_memory_is_enough_on_each_core() {
    for (alias, ..) in CORES.into_iter().filter(|(_, _, own)| *own) {
        for stored in [Stored::F32, Stored::Int8] {
            println!("{}", memory(alias, "classify", &digits(), stored));
        }
    }
    // The words of a decoder are in flash too.
    println!("{}", memory("m4f", "story", &story(), Stored::Int8));
}

/// Links the image of a model with what it takes and with less, and tells what it takes.
fn memory(alias: &str, bin: &str, model: &Model, stored: Stored) -> String {
    /// What `regard embed` leaves for code.
    const CODE: usize = 40 << 10;
    /// What it leaves for the stack.
    const STACK: usize = 4 << 10;
    let case = format!("{alias}, {bin}, {stored}");
    let (embedded, folder) = written(model, stored);
    // The image of digits has the images that it reads.
    let data = if bin == "classify" { held_back().len() * (1 + SIDE * SIDE) } else { 0 };
    let (weights, ram) = (embedded.flash + embedded.words + data, embedded.ram);
    let run = |flash: usize, ram: usize| {
        let mut image = cargo(&[alias, "--bin", bin], &folder);
        // The emulated Cortex-M0 has 16 KiB of RAM. Its image links.
        if alias == "m0" {
            image.args(["--config", r#"target.'cfg(target_os = "none")'.runner='true'"#]);
        }
        let run = image.env("REGARD_MEMORY", format!("{flash} {ram}")).output().unwrap();
        let [said, errors] = [run.stdout, run.stderr].map(|text| String::from_utf8(text).unwrap());
        (run.status.success(), said, errors)
    };
    // The stack begins at a multiple of 8, and on RISC-V of 16.
    let (fits, said, errors) = run(CODE + weights, (ram + STACK).next_multiple_of(16));
    assert!(fits, "{case}: {said}{errors}");
    let cost = said.lines().last().unwrap_or("linked").to_owned();
    // Cores without the DSP extension need less scratch memory for integers.
    let exact = stored == Stored::F32 || alias == "m4f";
    if exact && alias != "m0" {
        assert!(cost.contains(&format!("{ram} of RAM")), "{case}: {ram}: {cost}");
    }
    let (fits, said, errors) = run(weights, if exact { ram - 4 } else { ram / 2 });
    let overflows = ["'FLASH'", "'RAM'"].iter().all(|region| errors.contains(region));
    assert!(!fits && overflows, "{case}: {said}{errors}");
    format!("{case}: {weights} + {CODE} of flash, {ram} + {STACK} of RAM: {cost}")
}

#[test]
#[ignore = "needs qemu-system-arm and the bare-metal targets"]
fn no_panic_can_be_reached_from_a_model() {
    for model in [story(), digits(), commands().0] {
        for stored in [Stored::F32, Stored::Bf16, Stored::Int8] {
            output(&mut cargo(&["m4f", "--bin", "no_panic"], &embed(&model, stored)), "");
            println!("m4f, {}, {stored}: the image links and runs", model.description().family);
        }
    }
}

/// Steps 7 and 8 of docs/microcontroller.md, and what the page says of decoders and texts: all its code is one firmware.
#[test]
#[ignore = "needs the bare-metal targets"]
fn the_firmware_of_the_page_links() {
    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let page = fs::read_to_string(format!("{ROOT}/docs/microcontroller.md")).unwrap();
    let blocks = |language: &str| -> String {
        let of_language = page.split("```").skip(1).step_by(2).filter_map(|block| {
            let (first, code) = block.split_once('\n')?;
            (first == language).then_some(code)
        });
        of_language.collect()
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    for (model, name) in [
        (digits(), "digits-embedded"),
        (story(), "story-embedded"),
        (commands().0, "commands-embedded"),
    ] {
        write_crate(&model, name, Stored::Int8, &folder.join(name));
    }
    let patches = ["embed", "kernels"].map(|name| {
        format!("[patch.crates-io.regard-{name}]\npath = \"{ROOT}/crates/regard-{name}\"\n")
    });
    let package = "[workspace]\n[package]\nname = \"firmware\"\nedition = \"2024\"\n";
    let firmware = folder.join("firmware");
    for (path, text) in [
        ("Cargo.toml", [package, &blocks("toml"), &patches.concat()].concat()),
        (".cargo/config.toml", blocks("toml,config")),
        ("memory.x", page[page.find("MEMORY").unwrap()..].split("```").next().unwrap().to_owned()),
        ("src/lib.rs", blocks("rust,ignore")),
        ("src/main.rs", blocks("rust,main")),
        // The versions of dependencies that are downloaded already.
        ("Cargo.lock", fs::read_to_string(format!("{ROOT}/Cargo.lock")).unwrap()),
    ] {
        write(&firmware.join(path), text.as_bytes());
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--quiet", "--offline"]).current_dir(&firmware);
    let built = cargo.env("CARGO_TARGET_DIR", folder.join("target")).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    // The vector table begins at the start of flash, and the stack at the end of RAM.
    let image = fs::read(folder.join("target/thumbv7em-none-eabihf/release/firmware")).unwrap();
    let stack = (0x2000_0000_u32 + (256 << 10)).to_le_bytes();
    assert!(image.windows(4).any(|word| word == stack));
}

fn files() -> Checkpoint {
    Checkpoint::from_files("digits", FILES).unwrap()
}

fn digits() -> Model {
    Model::load(&files()).unwrap()
}

fn processor(model: &Model) -> ImageProcessor {
    ImageProcessor::of(&files(), model.description()).unwrap()
}

/// The digit of each held-back image and a hash of its logits, computed on the desktop.
fn read(model: &Model) -> Vec<String> {
    let processor = processor(model);
    let line = |pixels: &[u8]| {
        let rgb: Vec<u8> = pixels.iter().flat_map(|ink| [*ink; 3]).collect();
        let input = processor.read(&rgb, [SIDE, SIDE]).unwrap();
        let trace = model.pass().run(&input).unwrap();
        let logits = &trace.logits().unwrap().data;
        format!("{} {:016x}", largest(logits), hash(logits))
    };
    held_back().map(|digit| line(digit.pixels)).collect()
}

/// The share of the held-back images whose digit these lines name.
fn right(lines: &[String]) -> f64 {
    let right = |(line, label): &(&String, u8)| line.starts_with(&format!("{label} "));
    let labels = held_back().map(|digit| digit.label);
    lines.iter().zip(labels).filter(right).count() as f64 / held_back().len() as f64
}

#[test]
fn digits_are_read_as_on_the_desktop_and_rightly() {
    let model = digits();
    let expected = read(&model);
    let here = |stored| told(&mut built("classify", &embed(&model, stored))).0;
    assert_eq!(here(Stored::F32), expected);
    let integers = here(Stored::Int8);
    let [float, integer] = [right(&expected), right(&integers)];
    println!(
        "{:.1} % right in floating point, {:.1} % in integers",
        100.0 * float,
        100.0 * integer
    );
    assert!(float >= 0.975 && integer >= float - 0.003, "{float}, {integer}");
}

#[test]
#[ignore = "needs qemu-system-arm, qemu-system-riscv32 and the bare-metal targets"]
fn boards_read_digits_as_the_desktop_does() {
    let model = digits();
    let floats = read(&model);
    let (integers, _) = told(&mut built("classify", &embed(&model, Stored::Int8)));
    for (alias, stored, most) in [
        ("m4f", Stored::F32, 1_500_000),
        ("m4f", Stored::Bf16, usize::MAX),
        ("m55", Stored::F32, usize::MAX),
        ("m4f", Stored::Int8, 820_000),
        ("rv32imac", Stored::Int8, usize::MAX),
        ("m0", Stored::Int8, usize::MAX),
    ] {
        let image = &mut cargo(&[alias, "--bin", "classify"], &embed(&model, stored));
        let (lines, cost) = told(image);
        let expected = if stored == Stored::Int8 { &integers } else { &floats };
        assert_eq!(&lines, expected, "{alias}, {stored}");
        println!("{alias}, {stored}: {cost}");
        let instructions = cost.split("; ").find_map(|part| part.strip_suffix(" instructions"));
        assert!(
            instructions.unwrap().parse::<usize>().unwrap() <= most,
            "{alias}, {stored}: {cost}"
        );
    }
}

/// A BERT that classifies commands, and the commands that training held back.
fn commands() -> (Model, Vec<Input>) {
    const FOLDER: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/regard-models/tests/data/commands");
    let model = Model::open(FOLDER).unwrap();
    let texts = fs::read_to_string(format!("{FOLDER}/texts.txt")).unwrap();
    let encode = |text| model.tokenizer().unwrap().encode(text, None).unwrap();
    let inputs = texts.lines().map(encode).collect();
    (model, inputs)
}

/// A program that classifies these texts.
fn reading<'c>(program: &'c mut Command, texts: &[Input]) -> &'c mut Command {
    let ids = |text: &Input| text.ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    program.env("REGARD_TEXTS", texts.iter().map(ids).collect::<Vec<_>>().join(","))
}

/// The class of each text and a hash of its logits, computed on the desktop.
fn classified(model: &Model, texts: &[Input]) -> Vec<String> {
    let line = |text: &Input| {
        let trace = model.pass().run(text).unwrap();
        let logits = &trace.logits().unwrap().data;
        format!("{} {:016x}", model.description().labels[largest(logits)], hash(logits))
    };
    texts.iter().map(line).collect()
}

#[test]
#[ignore = "needs qemu-system-arm, qemu-system-riscv32 and the bare-metal targets"]
fn boards_classify_texts_as_the_desktop_does() {
    let (model, texts) = commands();
    // Texts of several lengths.
    let texts = &texts[..40];
    let floats = classified(&model, texts);
    let folder = embed(&model, Stored::Int8);
    let here = ["run", "-p", "regard-firmware", "--bin", "text"];
    let (integers, _) = told(reading(&mut cargo(&here, &folder), texts));
    let same = floats.iter().zip(&integers).filter(|(a, b)| a[..a.len() - 17] == b[..b.len() - 17]);
    assert!(same.count() >= 39, "{floats:?} {integers:?}");
    for (alias, stored) in [
        ("m4f", Stored::F32),
        ("m55-cpu", Stored::F32),
        ("rv32imafc", Stored::F32),
        ("m4f", Stored::Int8),
        ("m33", Stored::Int8),
        ("m55-cpu", Stored::Int8),
        ("rv32imac", Stored::Int8),
        ("m0", Stored::Int8),
    ] {
        let image = &mut cargo(&[alias, "--bin", "text"], &embed(&model, stored));
        let (lines, cost) = told(reading(image, texts));
        let expected = if stored == Stored::Int8 { &integers } else { &floats };
        assert_eq!(&lines, expected, "{alias}, {stored}");
        println!("{alias}, {stored}: {cost}");
    }
}
