//! Hostile files and places. None of them may hang a command, crash it or lose data.

use core::time::Duration;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Instant;

use crate::common::{command, command_line, is_whole, names, text};
use regard_session::heads::AttentionSource;
use regard_session::laboratory::TokenSource;
use regard_session::{Room, Session};
use regard_tests::attention_files::{Folder, attention, bytes, npy, safetensors};
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};

/// A command that takes longer hangs. On a busy machine a command may take many times its usual second.
const PATIENCE: Duration = Duration::from_mins(3);

/// Runs a command and returns its output. A command that hangs fails the test.
fn run(command: &mut Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait(child)
}

fn wait(mut child: Child) -> Output {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("the command hangs");
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// Runs a command that must succeed.
fn succeeds(line: impl AsRef<str>) -> Output {
    let output = run(&mut command_line(line));
    assert!(output.status.success(), "{}", text(&output.stderr));
    output
}

/// The single line that a command prints when it refuses its input.
fn refused(line: impl AsRef<str>, code: i32) -> String {
    let output = run(&mut command_line(line));
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

/// A file of tensors in `f32`, all 0.5.
fn tensors(shapes: &[(&str, &[usize])]) -> Vec<u8> {
    let all: Vec<_> = shapes
        .iter()
        .map(|(name, shape)| (*name, Dtype::F32, *shape, bytes(&vec![0.5; shape.iter().product()])))
        .collect();
    safetensors(&all, &[])
}

fn qkv() -> Vec<u8> {
    tensors(&[("q", &[4, 8]), ("k", &[4, 8]), ("v", &[4, 8])])
}

fn attend(input: &Path, output: &Path, options: &str) -> String {
    format!("attend --input {} --output {} {options}", input.display(), output.display())
}

/// The path of a folder of `tests/golden/models`.
fn golden(name: &str) -> String {
    regard_tests::models::golden(name).display().to_string()
}

/// Characters that a terminal obeys, and those that JSON and CSV escape: DEL, C1, directions, quotes and line breaks.
const HOSTILE: &str = "\u{7f}\u{9b}31m\u{1b}[2J\u{202e}\u{2066}\"',\\\r\n\t<!--<script>猫";

fn token(id: usize) -> String {
    format!("t{id}{HOSTILE}")
}

/// A copy of a model of `tests/golden/models`, whose tokens are hostile. Its folder is `folder`.
fn model(folder: &Folder) {
    for file in ["config.json", "model.safetensors"] {
        fs::copy(format!("{}/{file}", golden("tiny-gpt2")), folder.path(file)).unwrap();
    }
    let config: Value =
        serde_json::from_slice(&fs::read(folder.path("config.json")).unwrap()).unwrap();
    let count = config["vocab_size"].as_u64().unwrap() as usize;
    let vocabulary: serde_json::Map<String, Value> =
        (0..count).map(|id| (token(id), id.into())).chain([("t1".into(), 1.into())]).collect();
    let tokenizer = json!({
        "version": "1.0",
        "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": token(0) },
        "pre_tokenizer": { "type": "WhitespaceSplit" },
    });
    folder.file("tokenizer.json", tokenizer.to_string());
}

mod outputs {
    use super::*;

    #[test]
    fn a_symbolic_link_stays_and_what_it_leads_to_is_written() {
        let folder = Folder::new();
        let (input, target) = (folder.file("in.safetensors", qkv()), folder.file("target", "old"));
        let (link, dangling) = (folder.path("link"), folder.path("dangling"));
        symlink("target", &link).unwrap();
        symlink("new", &dangling).unwrap();
        for link in [&link, &dangling] {
            succeeds(attend(&input, link, ""));
            assert!(link.symlink_metadata().unwrap().is_symlink() && is_whole(link));
        }
        assert!(is_whole(&target) && is_whole(&folder.path("new")));
    }

    #[test]
    fn a_device_and_a_fifo_stay_what_they_are() {
        let folder = Folder::new();
        let input = folder.file("in.safetensors", qkv());
        // For root, the device itself could be lost. A link in the test's folder stands for it.
        let null = folder.path("null");
        symlink("/dev/null", &null).unwrap();
        succeeds(attend(&input, &null, ""));
        assert!(Path::new("/dev/null").metadata().unwrap().file_type().is_char_device());
        assert!(null.symlink_metadata().unwrap().is_symlink());

        let fifo = folder.path("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let reader = thread::spawn({
            let fifo = fifo.clone();
            move || fs::read(fifo).unwrap()
        });
        succeeds(attend(&input, &fifo, ""));
        assert!(fifo.metadata().unwrap().file_type().is_fifo());
        assert!(SafeTensors::deserialize(&reader.join().unwrap()).is_ok());
        // Standard output is a pipe here.
        let output = succeeds(attend(&input, "/dev/stdout".as_ref(), ""));
        assert!(SafeTensors::deserialize(&output.stdout).is_ok());
    }

    #[test]
    fn mode_and_hard_links_stay() {
        let folder = Folder::new();
        let input = folder.file("in.safetensors", qkv());
        let private = folder.file("private", "old");
        fs::set_permissions(&private, fs::Permissions::from_mode(0o600)).unwrap();
        succeeds(attend(&input, &private, ""));
        assert_eq!(private.metadata().unwrap().mode() & 0o777, 0o600);
        assert!(is_whole(&private));

        let (first, second) = (folder.file("first", "old"), folder.path("second"));
        fs::hard_link(&first, &second).unwrap();
        succeeds(attend(&input, &first, ""));
        assert_eq!(first.metadata().unwrap().ino(), second.metadata().unwrap().ino());
        assert!(is_whole(&second));
    }

    #[test]
    fn an_input_is_not_overwritten_by_mistake() {
        let folder = Folder::new();
        let (input, link) = (folder.file("x.safetensors", qkv()), folder.path("link"));
        symlink("x.safetensors", &link).unwrap();
        let hard = folder.path("hard");
        fs::hard_link(&input, &hard).unwrap();
        for output in [&input, &link, &hard] {
            let message = refused(attend(&input, output, ""), 2);
            assert!(message.contains("overwrite") && message.contains("--force"), "{message}");
            assert_eq!(fs::read(&input).unwrap(), qkv());
        }
        succeeds(attend(&input, &link, "--force"));
        assert_ne!(fs::read(&input).unwrap(), qkv());

        let array = npy("<f4", "(2, 2)", &bytes(&[1.0, 0.0, 0.5, 0.5]));
        let maps = folder.file("maps.npy", &array);
        let export = format!("export {0} --to {0}", maps.display());
        let message = refused(&export, 2);
        assert!(message.contains("overwrite"), "{message}");
        assert_eq!(fs::read(&maps).unwrap(), array);
        succeeds(format!("{export} --force"));
    }

    #[test]
    fn a_trace_does_not_overwrite_its_model() {
        let folder = Folder::new();
        model(&folder);
        // A run that needs none of these files does not overwrite them either.
        let others = [
            "model.safetensors.index.json",
            "generation_config.json",
            "tokenizer_config.json",
            "chat_template.jinja",
            "preprocessor_config.json",
        ];
        for name in others {
            folder.file(name, "{}");
        }
        for name in ["config.json", "model.safetensors", "tokenizer.json"].iter().chain(&others) {
            let (place, to) = (folder.path(""), folder.path(name));
            let before = fs::read(&to).unwrap();
            let trace = format!("trace {} --ids 1,2 --output {}", place.display(), to.display());
            let message = refused(trace, 2);
            assert!(message.contains("overwrite"), "{name}: {message}");
            assert_eq!(fs::read(to).unwrap(), before);
        }
        let (place, to) = (folder.path(""), folder.file("table.csv", "{}"));
        symlink("table.csv", folder.path("link.csv")).unwrap();
        fs::remove_file(folder.path("generation_config.json")).unwrap();
        symlink("table.csv", folder.path("generation_config.json")).unwrap();
        let sweep = format!(
            "sweep {} --ids 1,2 --ablate-each-head --logit 3 --to {}",
            place.display(),
            to.display()
        );
        assert!(refused(&sweep, 2).contains("overwrite"));
        succeeds(format!("{sweep} --force"));
    }

    /// A session names its sources, which do not appear on the command line.
    #[test]
    fn an_export_does_not_overwrite_what_its_session_reads() {
        let folder = Folder::new();
        model(&folder);
        let heads = folder.file("heads.npy", npy("<f4", "(2, 2)", &bytes(&[1.0, 0.0, 0.5, 0.5])));
        let both = tensors(&[("q", &[2, 4][..]), ("k", &[2, 4])]);
        let both = folder.file("both.safetensors", both);
        let (mut attention, mut laboratory) = (Session::default(), Session::default());
        (attention.room, laboratory.room) = (Room::Stage, Room::Laboratory);
        attention.model.file = Some(AttentionSource::File(heads.clone()));
        laboratory.laboratory.inputs.source = TokenSource::File { path: both.clone(), head: 0 };
        let mut of_model = Session { room: Room::Stage, ..Session::default() };
        of_model.model.model = folder.path("").display().to_string();
        of_model.model.text = "t1 t2".to_owned();
        let saved = folder.path("session.regard.json");
        for (session, source) in [
            (&attention, &heads),
            (&laboratory, &both),
            (&of_model, &folder.path("model.safetensors")),
            (&of_model, &saved),
        ] {
            fs::write(&saved, session.text().unwrap()).unwrap();
            let before = fs::read(source).unwrap();
            // The name decides the format, and the source is the target of the link.
            let link = folder.path("link.npy");
            drop(fs::remove_file(&link));
            symlink(source, &link).unwrap();
            let export = format!("export {} --to {}", saved.display(), link.display());
            let message = refused(export, 2);
            assert!(message.contains("overwrite"), "{message}");
            assert_eq!(fs::read(source).unwrap(), before);
        }
        fs::remove_file(&heads).unwrap();
        fs::write(&saved, attention.text().unwrap()).unwrap();
        let to = folder.path("out.csv");
        let message = refused(format!("export {} --to {}", saved.display(), to.display()), 2);
        assert!(message.contains("heads.npy"), "{message}");
    }

    /// A run that is killed leaves a temporary file, which the next run removes.
    #[test]
    fn what_a_killed_run_left_is_removed() {
        let folder = Folder::new();
        let input = folder.file("in.safetensors", qkv());
        folder.file(".regard-a1B2c3.part", "left");
        let kept = [".regard-notes", ".regard-a1B2c3.txt", ".regard-longer12.part"];
        for name in kept {
            folder.file(name, "mine");
        }
        let held = folder.file(".regard-d4E5f6.part", "another run writes it");
        let lock = File::open(&held).unwrap();
        lock.lock().unwrap();
        succeeds(attend(&input, &folder.path("out"), ""));
        let expected = [
            ".regard-a1B2c3.txt",
            ".regard-d4E5f6.part",
            ".regard-longer12.part",
            ".regard-notes",
            "in.safetensors",
            "out",
        ];
        assert_eq!(names(&folder.path("")), expected);
    }

    #[test]
    fn a_full_disk_and_a_missing_folder_are_one_line() {
        let folder = Folder::new();
        let input = folder.file("in.safetensors", qkv());
        let message = refused(attend(&input, "/dev/full".as_ref(), ""), 1);
        assert!(message.contains("/dev/full") && message.contains("space"), "{message}");
        assert_eq!(message.matches("os error").count(), 1, "{message}");
        for output in ["none/out", "in.safetensors/out"] {
            let message = refused(attend(&input, &folder.path(output), ""), 1);
            assert_eq!(message.matches("os error").count(), 1, "{message}");
        }
        let message = refused(attend(&input, &folder.path(""), ""), 1);
        assert_eq!(message.matches("os error").count(), 1, "{message}");
        assert_eq!(names(&folder.path("")), ["in.safetensors"]);
    }

    /// A limit of 8 KiB stands for a disk with room for some files of the crate, but not for its weights.
    #[test]
    fn a_crate_is_written_whole_or_not_at_all() {
        let folder = Folder::new();
        let to = folder.path("model");
        let embed = |limit: &str| {
            let mut command = Command::new("sh");
            let limited = format!("trap '' XFSZ; {limit} exec \"$0\" embed story --to \"$1\"");
            run(command.args(["-c", &limited, env!("CARGO_BIN_EXE_regard")]).arg(&to))
        };
        let content = || {
            let files = ["Cargo.toml", "src/lib.rs"].map(|name| to.join(name));
            files.map(|file| fs::read_to_string(file).unwrap_or_default())
        };
        for old in ["", "// Written by `regard embed`"] {
            let output = embed("ulimit -f 16;");
            assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
            assert_eq!(content(), ["", old]);
            assert_eq!(to.exists(), !old.is_empty());
            fs::create_dir_all(to.join("src")).unwrap();
            folder.file("model/src/lib.rs", "// Written by `regard embed`");
        }
        assert_eq!(embed("").status.code(), Some(0));
        assert!(content().iter().all(|text| !text.is_empty()));
    }
}

mod inputs {
    use super::*;

    /// 2⁶⁰ heads without tokens take no byte in the file. Loops over them would never end.
    #[test]
    fn tensors_without_elements_have_a_limit() {
        let folder = Folder::new();
        const HEADS: &[usize] = &[1, 1 << 60, 0, 4];
        const KEYS: &[usize] = &[1, 1, 1 << 31, 0];
        let names = ["q", "k", "v", "past_key", "past_value"];
        let many_heads = tensors(&names.map(|name| (name, HEADS)));
        let query: &[usize] = &[1, 1, 1, 0];
        let many_keys = tensors(&[("q", query), ("k", KEYS), ("v", KEYS)]);
        for file in [many_heads, many_keys] {
            let input = folder.file("in.safetensors", file);
            for more in ["", "--scores weights", "--lse"] {
                let message = refused(attend(&input, &folder.path("out"), more), 2);
                assert!(message.contains("at most 1048576 rows"), "{message}");
            }
        }
    }

    #[test]
    fn results_that_no_memory_holds_are_refused() {
        let folder = Folder::new();
        // 2²⁰ queries on as many keys without elements: 4 TB of scores.
        const ROWS: &[usize] = &[1 << 20, 0];
        let input = folder.file("a", tensors(&["q", "k", "v"].map(|name| (name, ROWS))));
        let message = refused(attend(&input, &folder.path("out"), "--scores raw"), 2);
        assert!(message.contains("of memory left"), "{message}");
    }

    /// Values of 1e5 have an output in F16 that is ∞, and scores of 90,000 too.
    #[test]
    fn numbers_beyond_the_type_of_the_input_are_widened_or_refused() {
        let folder = Folder::new();
        let f16 = |x: f32| half::f16::from_f32(x).to_le_bytes().repeat(2);
        let (small, f32s) = (f16(1.0), bytes(&[1e5; 2]));
        let tensor = |name, dtype, bytes: &[u8]| (name, dtype, [2, 1], bytes.to_vec());
        let of = |q: &[u8], v| {
            safetensors(&[tensor("q", Dtype::F16, q), tensor("k", Dtype::F16, q), v], &[])
        };
        let out = folder.path("out");
        let wide = folder.file("wide", of(&small, tensor("v", Dtype::F32, &f32s)));
        succeeds(attend(&wide, &out, ""));
        let file = fs::read(&out).unwrap();
        let output = SafeTensors::deserialize(&file).unwrap();
        let output = output.tensor("output").unwrap();
        assert_eq!((output.dtype(), output.data()), (Dtype::F32, &f32s[..]));
        let large = folder.file("large", of(&f16(300.0), tensor("v", Dtype::F16, &small)));
        succeeds(attend(&large, &out, ""));
        for stage in ["raw", "softcapped", "masked"] {
            let message = refused(attend(&large, &out, &format!("--scores {stage}")), 2);
            assert!(message.contains("tensor `scores` holds 90000"), "{message}");
        }
    }

    /// This mask of 32 KB would take 256 MB if it were extended to all keys.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_mask_of_one_column_is_not_written_out() {
        const N: usize = 8_000;
        let folder = Folder::new();
        let shape: &[usize] = &[N, 1];
        let file = tensors(&[("q", shape), ("k", shape), ("v", shape), ("attn_mask", shape)]);
        let (input, output) = (folder.file("in.safetensors", file), folder.path("out.safetensors"));
        let mut command = Command::new("sh");
        let limited = "ulimit -v 200000; exec \"$0\" \"$@\"";
        command.args(["-c", limited, env!("CARGO_BIN_EXE_regard")]);
        command.args(attend(&input, &output, "--threads 1").split_whitespace());
        let done = run(&mut command);
        assert!(done.status.success(), "{}", text(&done.stderr));
        assert!(is_whole(&output));
    }

    #[test]
    fn a_device_that_never_ends_is_no_input() {
        let folder = Folder::new();
        let out = folder.path("out");
        let message = refused(attend("/dev/zero".as_ref(), &out, ""), 2);
        assert!(message.contains("/dev/zero"), "{message}");
        let export = format!("export /dev/zero --to {}", folder.path("out.csv").display());
        for line in ["/dev/zero", &export] {
            let message = refused(line, 2);
            assert!(message.contains("not a regular file"), "{message}");
        }
    }

    #[test]
    fn a_header_that_lies_takes_no_memory() {
        let folder = Folder::new();
        let long = [&100_000_000_u64.to_le_bytes()[..], b"{}"].concat();
        let short = [qkv(), vec![0; 3]].concat();
        let cut = qkv()[..qkv().len() - 1].to_vec();
        for (file, word) in [(long, "header"), (short, "announces"), (cut, "announces")] {
            let input = folder.file("in.safetensors", file);
            let message = refused(attend(&input, &folder.path("out"), ""), 2);
            assert!(message.contains(word), "{message}");
        }
    }

    #[test]
    fn a_pipe_is_an_input() {
        let folder = Folder::new();
        let out = folder.path("out");
        let mut command = command_line(attend("/dev/stdin".as_ref(), &out, ""));
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&qkv()).unwrap();
        let output = wait(child);
        assert!(output.status.success() && is_whole(&out), "{}", text(&output.stderr));
    }

    #[test]
    fn a_path_need_not_be_utf_8() {
        let folder = Folder::new();
        let odd = |name: &[u8]| folder.path("").join(OsStr::from_bytes(name));
        let succeeds = |args: &[&OsStr]| {
            let output = run(command().args(args));
            assert!(output.status.success(), "{}", text(&output.stderr));
        };
        let (input, output) = (odd(b"in\xff.safetensors"), odd(b"out\xff.safetensors"));
        fs::write(&input, qkv()).unwrap();
        let [attend, to] = ["--input", "--output"].map(OsStr::new);
        succeeds(&["attend".as_ref(), attend, input.as_ref(), to, output.as_ref()]);
        assert!(is_whole(&output));

        let (maps, table) = (odd(b"maps\xff.safetensors"), odd(b"maps\xff.csv"));
        fs::write(&maps, attention(&[2, 2], &[1.0, 0.0, 0.5, 0.5])).unwrap();
        succeeds(&["export".as_ref(), maps.as_ref(), "--to".as_ref(), table.as_ref()]);
        assert!(table.exists());
        succeeds(&[maps.as_ref()]);

        let model = odd(b"model\xff");
        fs::create_dir(&model).unwrap();
        for file in ["config.json", "model.safetensors"] {
            fs::copy(format!("{}/{file}", golden("tiny-gpt2")), model.join(file)).unwrap();
        }
        succeeds(&["predict".as_ref(), model.as_ref(), "--ids".as_ref(), "1,2".as_ref()]);
        succeeds(&[model.as_ref()]);
    }
}

mod terminal {
    use super::*;

    #[test]
    fn names_from_files_cannot_control_the_terminal() {
        let folder = Folder::new();
        let evil = "\u{1b}]0;owned\u{7}\u{9b}2J\u{1b}[31mred\r\u{202e}";
        let named = [
            ("q", Dtype::F32, &[1, 1][..], bytes(&[1.0])),
            ("k", Dtype::F32, &[1, 1], bytes(&[1.0])),
            ("v", Dtype::F32, &[1, 1], bytes(&[1.0])),
            (evil, Dtype::F32, &[1, 1], bytes(&[1.0])),
        ];
        let input = folder.file("in.safetensors", safetensors(&named, &[]));
        let maps = folder.file("m.safetensors", safetensors(&named[3..], &[]));
        let nothing = folder.file(
            "n.safetensors",
            safetensors(&[named[0].clone(), (evil, Dtype::F32, &[1], bytes(&[1.0]))], &[]),
        );
        let none = attend(&nothing, &folder.path("out"), "");
        let maps = maps.display().to_string();
        for line in [attend(&input, &folder.path("out"), ""), maps, none] {
            let output = run(command_line(line).env("CLICOLOR_FORCE", "1"));
            let printed = format!("{}{}", text(&output.stdout), text(&output.stderr));
            assert!(printed.contains("red"), "{printed:?}");
            for odd in ["\u{1b}]", "\u{7}", "\u{9b}", "\r", "\u{202e}"] {
                assert!(!printed.contains(odd), "{printed:?}");
            }
        }
    }

    /// A command does its work even if its messages cannot be printed.
    #[test]
    fn an_unwritable_standard_error_is_no_failure() {
        let folder = Folder::new();
        let unused = ("spare", &[1, 1][..]);
        let shape: &[usize] = &[1, 1];
        let input = folder
            .file("in.safetensors", tensors(&[("q", shape), ("k", shape), ("v", shape), unused]));
        let out = folder.path("out");
        let full = || File::options().write(true).open("/dev/full").unwrap();
        let status = |line: &str| {
            let mut command = command_line(line);
            command.stdout(Stdio::null()).stderr(full()).status().unwrap().code()
        };
        assert_eq!((status(&attend(&input, &out, "")), is_whole(&out)), (Some(0), true));
        assert_eq!(status("walk no-such-example"), Some(2));
        assert_eq!(status("export nothing --to x.csv"), Some(2));
        assert_eq!(status(""), Some(0));
    }

    #[test]
    fn an_unwritable_standard_output_is_one_line_and_a_closed_one_is_none() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = command_line("walk the-cat-sat");
        let output = wait(command.stdout(full).stderr(Stdio::piped()).spawn().unwrap());
        let message = text(&output.stderr);
        assert_eq!((output.status.code(), message.lines().count()), (Some(1), 1), "{message}");

        // The second one would write for minutes.
        let endless = "generate story --text 'Mia gave Tom the ball' --tokens 100000";
        for line in ["walk the-cat-sat", endless] {
            let mut command = command_line(line);
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut first = [0; 1];
            child.stdout.take().unwrap().read_exact(&mut first).unwrap(); // as `head -c 1` does
            let output = wait(child);
            assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
        }
    }
}

/// Output for programs holds texts unchanged.
mod data {
    use super::*;

    /// The JSON that a command prints. No character of it controls a terminal.
    fn printed(line: &str) -> Value {
        let output = succeeds(format!("{line} --format json"));
        let shown = text(&output.stdout);
        let obeyed = |c: char| c.is_control() && c != '\n' || "\u{202e}\u{2066}".contains(c);
        assert!(!shown.contains(obeyed), "{shown:?}");
        serde_json::from_str(&shown).unwrap()
    }

    fn tokens(ids: impl IntoIterator<Item = usize>) -> Vec<String> {
        ids.into_iter().map(token).collect()
    }

    #[test]
    fn json_has_every_token_as_it_is() {
        let folder = Folder::new();
        model(&folder);
        let place = folder.path("").display().to_string();
        let run = |command: &str, options: &str| {
            printed(&format!("{command} {place} --ids 5,6,7 {options}"))
        };
        let predicted = run("predict", "--top 2");
        assert_eq!(predicted["tokens"], json!(tokens(5..8)));
        let best = predicted["next"][0]["id"].as_u64().unwrap() as usize;
        assert_eq!(predicted["next"][0]["token"], token(best));

        let written = run("generate", "--tokens 3");
        let ids = written["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as usize);
        assert_eq!(written["text"], tokens(ids).join(" "));

        let score = run("score", "--head 1.0 --query 2 --key 1");
        assert_eq!([&score["query_token"], &score["key_token"]], [&token(7), &token(6)]);

        for how in ["--ablate-each-head", "--attribute-each-head"] {
            let swept = run("sweep", &format!("{how} --logit 3"));
            assert_eq!(swept["tokens"], json!(tokens(5..8)));
            assert_eq!(swept["logit"][0]["token"], token(3));
        }
        // Commands without tokens print JSON too.
        assert_eq!(printed(&format!("model {place}"))["family"], "gpt2");
        assert_eq!(printed("walk the-cat-sat")["example"], "the-cat-sat");
        assert_eq!(printed("bench dot --dim 16 --impl naive")["op"], "dot");
    }

    #[test]
    fn labels_of_classes_are_in_json_as_they_are() {
        let folder = Folder::new();
        let [config, weights] = ["config.json", "model.safetensors"]
            .map(|file| fs::read(format!("{}/{file}", golden("tiny-vit"))).unwrap());
        let mut config: Value = serde_json::from_slice(&config).unwrap();
        for (id, label) in config["id2label"].as_object_mut().unwrap() {
            *label = token(id.parse().unwrap()).into();
        }
        folder.file("config.json", config.to_string());
        folder.file("model.safetensors", weights);
        let model = printed(&format!("model {}", folder.path("").display()));
        assert_eq!(model["labels"][1], token(1));
    }

    /// The headings of the rows of a table.
    fn headings(csv: &Path) -> Vec<String> {
        let mut table = csv::ReaderBuilder::new().has_headers(false).from_path(csv).unwrap();
        table.records().skip(1).map(|row| row.unwrap()[0].to_owned()).collect()
    }

    #[test]
    fn files_have_every_token_as_it_is() {
        let folder = Folder::new();
        model(&folder);
        let (place, trace) = (folder.path(""), folder.path("trace.safetensors"));
        let (csv, html) = (folder.path("out.csv"), folder.path("out.html"));
        let model = format!("{} --ids 5,6,7", place.display());
        succeeds(format!("trace {model} --output {}", trace.display()));
        let file = fs::read(&trace).unwrap();
        let metadata = SafeTensors::read_metadata(&file).unwrap().1;
        let written = &metadata.metadata().as_ref().unwrap()["tokens"];
        assert_eq!(serde_json::from_str::<Vec<String>>(written).unwrap(), tokens(5..8));
        succeeds(format!("export {} --to {}", trace.display(), csv.display()));
        assert_eq!(headings(&csv), tokens(5..8));

        let sweep = format!("sweep {model} --patch-each-place --patch-ids 5,6,8 --logit 3 --to");
        succeeds(format!("{sweep} {}", csv.display()));
        let numbered = (5..8).enumerate().map(|(i, id)| format!("{i} {}", token(id)));
        assert_eq!(headings(&csv), numbered.collect::<Vec<_>>());
        // A page shows what is in a token that no font can draw, and its data is JSON.
        succeeds(format!("{sweep} {}", html.display()));
        let page = fs::read_to_string(&html).unwrap();
        let (_, data) = page.split_once("<script type=\"application/json\">").unwrap();
        let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
        assert!(data["labels"][0][0].as_str().unwrap().starts_with("0 t5\\u{7f}"), "{data}");
    }
}

mod options {
    use super::*;

    #[test]
    fn more_threads_than_cores_are_not_started() {
        let folder = Folder::new();
        let input = folder.file("in.safetensors", qkv());
        let output = succeeds(attend(&input, &folder.path("out"), "--threads 100000"));
        let note = text(&output.stderr);
        assert!(note.contains("100000 threads are more than the cores"), "{note}");
        let output = succeeds("bench dot --dim 8 --threads 100000 --format json");
        assert!(!text(&output.stdout).contains("\"threads\":100000"));
    }

    #[test]
    fn options_without_an_effect_are_refused() {
        let folder = Folder::new();
        let input = folder.file("in.safetensors", qkv());
        let out = folder.path("out");
        let message = refused(attend(&input, &out, "--position top-left"), 2);
        assert!(message.contains("--position"), "{message}");
        let export = format!("export the-cat-sat --to {}", folder.path("out.csv").display());
        for (line, part) in [
            ("generate story --text Mia --seed 3", "--seed is for a --temperature above 0"),
            (&format!("{export} --map cividis"), "--map and --log are for pictures"),
            (&format!("{export} --log"), "--map and --log are for pictures"),
        ] {
            let message = refused(line, 2);
            assert!(message.contains(part), "{message}");
        }
        for more in ["--causal", "--temperature 2", "--without softmax"] {
            let output = run(&mut command_line(format!("walk {more}")));
            assert_eq!(output.status.code(), Some(2), "{more:?}");
        }
    }

    /// The kernels themselves ignore such a word.
    #[test]
    fn a_tier_that_does_not_exist_is_refused() {
        for (word, code, part) in
            [("bogus", 2, "REGARD_TIER=bogus: the tiers are portable, avx2"), ("", 0, "")]
        {
            let output = run(command_line("walk").env("REGARD_TIER", word));
            assert_eq!(output.status.code(), Some(code), "{word}");
            assert!(text(&output.stderr).contains(part), "{}", text(&output.stderr));
        }
    }

    #[test]
    fn a_number_that_is_too_large_is_not_the_limit() {
        let folder = Folder::new();
        let input = folder.file("in.safetensors", qkv());
        let output =
            run(&mut command_line(attend(&input, &folder.path("out"), "--temperature 1e50")));
        assert_eq!(output.status.code(), Some(2));
        let message = text(&output.stderr);
        assert!(message.contains("'1e50'") && message.contains("to 3.4e38, or inf"), "{message}");
        for limit in ["inf", "0", "3e38"] {
            succeeds(attend(&input, &folder.path("out"), &format!("--temperature {limit}")));
        }
    }
}

#[test]
fn an_image_that_announces_gigabytes_is_refused() {
    let folder = Folder::new();
    // A PNG of 20000 × 20000 pixels in 41 bytes: its signature, its header with the right checksum, and the start of its pixels.
    let mut file = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    file.extend(20_000_u32.to_be_bytes().repeat(2));
    file.extend([8, 2, 0, 0, 0, 0x6c, 0x12, 0xd1, 0x6e]);
    file.extend(b"\0\0\0\x10IDAT");
    let image = folder.file("wide.png", &file);
    let said = refused(format!("predict {} --image {}", golden("tiny-vit"), image.display()), 2);
    assert!(said.contains("wide.png") && said.contains("limit"), "{said}");
}

#[test]
fn a_fifo_is_no_model_and_no_image() {
    let folder = Folder::new();
    let fifo = folder.path("model.gguf");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let fifo = fifo.display();
    for line in [format!("model {fifo}"), format!("predict {} --image {fifo}", golden("tiny-vit"))]
    {
        let said = refused(line, 2);
        assert!(said.contains("is not a regular file"), "{said}");
    }
}
