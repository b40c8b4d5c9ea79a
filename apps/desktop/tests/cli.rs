//! The program as a user calls it: its output, its files, and its messages about bad input.

#![expect(clippy::unwrap_used, reason = "a test that fails is what unwrap is for")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result};
use regard_kernels::Temperature;
use regard_tests::onnx::{Case, Tensor, cases, compare};
use regard_tests::rounding::{gamma, sums_to_one, weight_error};
use regard_walkthrough::{Example, Settings, Walkthrough, Without};
use safetensors::tensor::{TensorView, serialize};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

/// Runs the program without a display.
fn regard(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_regard"));
    for display in ["DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET"] {
        command.env_remove(display);
    }
    command.args(args).output().unwrap()
}

fn stdout(args: &[&str]) -> String {
    let output = regard(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

mod walk {
    use super::*;

    #[test]
    fn without_a_display_one_line_says_so_and_the_first_walkthrough_is_shown() {
        let output = regard(&[]);
        let (out, note) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{note}");
        assert_eq!(note.lines().count(), 1, "{note}");
        assert!(note.contains("no display"), "{note}");
        assert!(out.contains("Tokens X") && out.contains("0.989"), "{out}");
    }

    #[test]
    fn colours_are_for_terminals_that_have_them() {
        assert!(!stdout(&["walk", "the-cat-sat"]).contains('\u{1b}'));
        let forced = Command::new(env!("CARGO_BIN_EXE_regard"))
            .args(["walk", "the-cat-sat"])
            .env("CLICOLOR_FORCE", "1")
            .output()
            .unwrap();
        assert!(
            String::from_utf8(forced.stdout).unwrap().contains("\u{1b}[48;2;"),
            "no 24-bit background"
        );
    }

    #[test]
    fn shapes_the_four_lines_and_the_lines_of_pytorch_are_printed() {
        let text = stdout(&["walk", "math-of-attention"]);
        assert!(text.contains("Q = X·W_Q   [4, 8]·[8, 8] → [4, 8]\n"), "{text}");
        assert!(
            text.contains("In four lines\nQ = X·W_Q,  K = X·W_K,  V = X·W_V\nS = Q·Kᵀ / √d_k\n"),
            "{text}"
        );
        assert!(!text.contains("PyTorch:"), "its numbers are not one's own");
        assert!(
            stdout(&["walk", "seeded"])
                .contains("\ntorch.manual_seed(42)\nX = torch.randn(4, 8)\n")
        );
        assert!(!stdout(&["walk", "layer-norm"]).contains("In four lines"));
    }

    #[test]
    fn without_a_name_the_examples_are_listed() {
        let list = stdout(&["walk"]);
        for name in [
            "math-of-attention",
            "the-cat-sat",
            "foundations",
            "i-love-robotics",
            "attention-scores",
            "why-scale",
            "two-heads",
        ] {
            assert!(list.lines().any(|line| line.starts_with(name)), "{name}");
        }
    }

    /// The numbers of each example, and of one example with each setting, are those of the library, which other tests compare
    /// with golden numbers.
    #[test]
    fn json_is_that_of_the_walkthrough() {
        let temperature =
            |t| Settings { temperature: Temperature::new(t).unwrap(), ..Settings::default() };
        let without = Settings { without: Some(Without::Projections), ..Settings::default() };
        let settings = [
            (&["--temperature", "0"][..], temperature(0.0)),
            (&["--temperature", "inf"], temperature(f32::INFINITY)),
            (&["--causal"], Settings { causal: true, ..Settings::default() }),
            (&["--without", "projections"], without),
        ];
        let examples =
            Example::ALL.iter().copied().map(|example| (example, &[][..], Settings::default()));
        let changed = settings.map(|(args, settings)| (Example::TheCatSat, args, settings));
        for (example, args, settings) in examples.into_iter().chain(changed) {
            let args = [&["walk", example.name(), "--format", "json"], args].concat();
            let expected = Walkthrough::run(example, &settings).unwrap().to_json();
            let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(read(&stdout(&args)), read(&expected.to_string()), "{args:?}");
        }
    }

    /// An example as a chapter: a heading and a picture for each step. A renderer of Markdown passes a picture on if none of
    /// its lines is empty.
    #[test]
    fn an_example_is_a_chapter_with_a_picture_for_each_step() {
        for &example in Example::ALL {
            let text = stdout(&["walk", example.name(), "--format", "markdown"]);
            let walkthrough = Walkthrough::run(example, &Settings::default()).unwrap();
            assert!(
                text.starts_with(&format!("# {}\n", example.title().replace('_', "\\_"))),
                "{text:.200}"
            );
            let pictures: Vec<_> = text.split("\n<figure>\n").skip(1).collect();
            assert_eq!(pictures.len(), walkthrough.steps.len(), "{}", example.name());
            for (picture, step) in pictures.iter().zip(&walkthrough.steps) {
                let (svg, after) = picture.split_once("</figure>").unwrap();
                assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{}", step.name);
                assert!(!svg.contains("\n\n"), "{}", step.name);
                let explained = after.starts_with("\n\nIts first number: ");
                assert_eq!(explained, !step.formula.is_empty(), "{}", step.name);
            }
        }
        let text = stdout(&["walk", "i-love-robotics", "--format", "markdown"]);
        assert!(
            text.contains("## Queries Q\n\n<p class=\"formula\">Q = X·W<sub>Q</sub></p>\n"),
            "{text:.3000}"
        );
        let output = regard(&["walk", "--format", "markdown"]);
        assert_eq!(output.status.code(), Some(2));
    }

    /// An error once made the program print the first walkthrough and exit with 0 for any file.
    #[test]
    fn without_a_display_a_file_is_summarised_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let weights: Vec<u8> =
            [1.0_f32, 0.0, 0.0, 1.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let tensor = TensorView::new(Dtype::F32, vec![1, 1, 2, 2], &weights).unwrap();
        let tokens = HashMap::from([("tokens".to_owned(), r#"["The","Ġcat"]"#.to_owned())]);
        let file = serialize([("attentions", tensor)], Some(tokens)).unwrap();
        std::fs::write(path("dump.safetensors"), &file).unwrap();
        let text = stdout(&[&path("dump.safetensors")]);
        for part in ["`attentions`", "1 layer × 1 head", "2 queries × 2 keys", "2 tokens: The ␣cat"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }

        std::fs::write(
            path("mine.regard.json"),
            r#"{"format": "regard session 1", "room": "model", "model": {"file": "sample"}}"#,
        )
        .unwrap();
        let text = stdout(&[&path("mine.regard.json")]);
        for part in ["Walkthrough: ", "64 tokens × 64 dimensions", "Model (open): ", "the sample"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }

        for (name, bytes) in [
            ("cut.safetensors", &file[..file.len() - 4]),
            ("empty.npy", &[][..]),
            ("notes.txt", b"These are notes, and no tensors."),
            ("cut.regard.json", b"{\"room\": 1"),
            ("model.pt", b"PK\x03\x04 a torch archive"),
        ] {
            std::fs::write(path(name), bytes).unwrap();
            let output = regard(&[&path(name)]);
            let message = String::from_utf8(output.stderr).unwrap();
            assert_eq!((output.status.code(), &output.stdout[..]), (Some(2), &[][..]), "{message}");
            assert!(message.contains(name) && message.lines().count() == 1, "{message}");
        }
    }

    /// Lines are as wide as the terminal. The lines of PyTorch stay whole, so that they can be pasted.
    #[test]
    fn lines_are_as_long_as_the_terminal_is_wide() {
        let walk = |args: &[&str], columns: usize| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_regard"));
            let output = command.args(args).env("COLUMNS", columns.to_string()).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let list = stdout(&["walk"]);
        let names: Vec<&str> = list
            .lines()
            .take_while(|line| !line.is_empty())
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert!(names.len() > 10, "{list}");
        for name in names.iter().map(|name| vec!["walk", *name]).chain([vec!["walk"]]) {
            let free = stdout(&name);
            for columns in [60, 80, 120] {
                let text = walk(&name, columns);
                let python = |line: &&str| !line.contains("torch.") && !line.contains("F.");
                for line in text.lines().filter(python) {
                    let width = unicode_width::UnicodeWidthStr::width(line);
                    assert!(width <= columns, "{name:?}, {columns} columns: {width}: {line}");
                }
                // No number is missing or printed twice. Labels of rows may be.
                let count = |text: &str| words(text).iter().filter(|w| w.contains('.')).count();
                assert_eq!(count(&text), count(&free), "{name:?}, {columns} columns");
            }
        }
        // Eight columns of numbers are two blocks in 60 columns, with all rows in both.
        let text = walk(&["walk", "math-of-attention"], 60);
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().position(|line| line.trim_start().starts_with("d0 ")).unwrap();
        let rows = ["t0", "t1", "t2", "t3"];
        assert!(lines[at].trim_end().ends_with("d6"), "{text}");
        assert!((1..5).all(|i| lines[at + i].starts_with(rows[i - 1])), "{text}");
        assert!(lines[at + 6].trim_start().starts_with("d7"), "{text}");
        assert!((7..11).all(|i| lines[at + i].starts_with(rows[i - 7])), "{text}");
    }

    /// A message about wrong usage suggests the right one.
    #[test]
    fn errors_say_what_may_have_been_meant() {
        let story = |options: &[&'static str]| {
            [&["predict", "story", "--text", "Mia saw Tom ."], options].concat()
        };
        let logit = |token: &'static str| {
            let sweep = ["sweep", "story", "--text", "Mia saw Tom .", "--ablate-each-head"];
            [&sweep[..], &["--logit", token]].concat()
        };
        const RANGE: &str = "expected a number from 0";
        for (args, parts) in [
            (vec!["walk", "two-heads", "--temperature", "-1"], vec!["'-1'", RANGE]),
            (vec!["walk", "two-heads", "--temperature", "warm"], vec!["'warm'", RANGE]),
            (
                vec!["generate", "story", "--text", "Mia", "--temperature", "-1"],
                vec!["-1", "from 0"],
            ),
            (story(&["--top", "-1"]), vec!["'-1'", "a whole number from 0 on"]),
            (vec!["walk", "the-ct"], vec!["'the-cat-sat'", "two-heads"]),
            (vec!["--example", "tow-heads"], vec!["'two-heads'"]),
            (vec!["walk", "two-heads", "--temprature", "1"], vec!["'--temperature'"]),
            (vec!["walk", "two-heads", "--without", "scailing"], vec!["'scaling'"]),
            (vec!["attend", "--input", "x"], vec!["--output"]),
            (vec!["wlak"], vec!["did you mean `regard walk`?"]),
            (vec!["two-haeds"], vec!["did you mean `regard --example two-heads`?"]),
            (vec!["stroy"], vec!["did you mean `regard story`?"]),
            (
                vec!["walk", "layer-norm", "--causal"],
                vec!["--causal changes nothing in layer-norm; it does in", "the-cat-sat"],
            ),
            (vec!["walk", "feed-forward", "--temperature", "2"], vec!["--temperature changes"]),
            (
                vec!["walk", "layer-norm", "--without", "softmax"],
                vec!["--without softmax changes nothing in layer-norm"],
            ),
            (vec!["man", "swep"], vec!["did you mean \"sweep\"?"]),
            (vec!["export", "two-haeds", "--to", "x.svg"], vec!["did you mean \"two-heads\"?"]),
            (
                vec!["export", "two-heads", "--matrix", "outptu", "--to", "x.svg"],
                vec!["did you mean \"output\"?"],
            ),
            (logit("Mai"), vec!["does not know \"Mai\"; did you mean \"Mia\"?"]),
            (story(&["--ablate", "9.0"]), vec!["count from 0, so the last one is "]),
            (story(&["--ablate", "0.99"]), vec!["there is no head 0.99"]),
        ] {
            let output = regard(&args);
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
            assert!(output.stdout.is_empty(), "{args:?}");
            for part in parts {
                assert!(said.contains(part), "{args:?} does not say {part}: {said}");
            }
        }
        let output = regard(&["predict", "story", "--text", "Mai saw Tom ."]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("does not know \"Mai\"; did you mean \"Mia\"?"), "{said}");
    }
}

mod help {
    use regard_tests::attention_files::Folder;

    use super::*;

    /// The commands that the help lists.
    fn commands() -> Vec<String> {
        let help = stdout(&["--help"]);
        let (_, list) = help.split_once("Commands:\n").unwrap();
        let lines = list.lines().take_while(|line| !line.is_empty());
        let names = lines.filter_map(|line| line.split_whitespace().next());
        let names: Vec<String> = names.filter(|name| *name != "help").map(str::to_owned).collect();
        assert!(names.len() >= 12, "{help}");
        names
    }

    #[test]
    fn completions_name_every_command_and_the_names_that_options_take() {
        for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
            let script = stdout(&["completions", shell]);
            for name in commands() {
                assert!(script.contains(&name), "{shell}: {name}");
            }
            let options = ["ablate-each-head", "head-temperature"];
            // clap's scripts for the other shells complete only options.
            let values = ["viridis", "the-cat-sat"];
            let values = values.iter().filter(|_| ["bash", "fish", "zsh"].contains(&shell));
            for name in options.iter().chain(values) {
                assert!(script.contains(name), "{shell}: {name}");
            }
        }
        assert_eq!(regard(&["completions", "tcsh"]).status.code(), Some(2));
    }

    #[test]
    fn the_manual_has_a_page_for_every_command() {
        let main = stdout(&["man"]);
        assert!(main.starts_with(".ie") && main.contains(".TH regard 1"), "{main}");
        let folder = Folder::new();
        let to = folder.path("");
        let output = regard(&["man", "--to", to.to_str().unwrap()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(std::fs::read_to_string(folder.path("regard.1")).unwrap(), main);
        for name in commands() {
            let dashed = format!("regard\\-{name}");
            assert!(main.contains(&dashed), "{name}: {main}");
            let page = stdout(&["man", &name]);
            assert!(page.contains(&format!("regard {name}")), "{name}: {page}");
            let file = folder.path(&format!("regard-{name}.1"));
            assert_eq!(std::fs::read_to_string(file).unwrap(), page);
        }
        assert!(stdout(&["man", "sweep"]).contains("patch\\-each\\-place"));
    }
}

mod attend {
    use super::*;

    type Tensors<'a> = Vec<(&'a str, Dtype, Vec<usize>, Vec<u8>)>;

    fn floats(x: &[f32]) -> Vec<u8> {
        x.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    fn file(tensors: &Tensors<'_>) -> Vec<u8> {
        let view = |(name, dtype, shape, bytes)| {
            let (name, dtype, shape, bytes): (&&str, &Dtype, &Vec<usize>, &Vec<u8>) =
                (name, dtype, shape, bytes);
            (*name, TensorView::new(*dtype, shape.clone(), bytes).unwrap())
        };
        let views: HashMap<_, _> = tensors.iter().map(|(n, d, s, b)| view((n, d, s, b))).collect();
        serialize(views, None).unwrap()
    }

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn output(&self) -> PathBuf {
            self.0.path().join("out.safetensors")
        }

        /// Runs `regard attend` on the bytes of an input file.
        fn attend(&self, input: &[u8], args: &[&str]) -> Output {
            let path = self.0.path().join("in.safetensors");
            std::fs::write(&path, input).unwrap();
            let (path, output) = (path.to_str().unwrap().to_owned(), self.output());
            let paths = ["attend", "--input", &path, "--output", output.to_str().unwrap()];
            regard(&[&paths, args].concat())
        }

        /// Runs `regard attend`, which must succeed, and reads the tensors of these names.
        fn attended<const N: usize>(
            &self,
            tensors: &Tensors<'_>,
            args: &[&str],
            names: [&str; N],
        ) -> [Tensor; N] {
            let output = self.attend(&file(tensors), args);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            names.map(|name| read(&self.output(), name).unwrap())
        }

        /// The error line of a run that must fail with exit 2 and without an output file.
        fn refusal(&self, input: &[u8], args: &[&str]) -> String {
            let output = self.attend(input, args);
            let message = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{message}");
            assert_eq!(message.lines().count(), 1, "{message}");
            let files: Vec<_> =
                std::fs::read_dir(self.0.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
            assert_eq!(files, ["in.safetensors"], "{message}");
            message
        }
    }

    fn read(path: &Path, name: &str) -> Result<Tensor> {
        let bytes = std::fs::read(path)?;
        Tensor::read(&SafeTensors::deserialize(&bytes)?, name)?
            .with_context(|| format!("no {name}"))
    }

    #[test]
    fn every_onnx_case_is_met() {
        let folder = Folder::new();
        let cases = cases().unwrap();
        assert_eq!(cases.len(), 93);
        for case in cases {
            check(&folder, &case).with_context(|| case.name.clone()).unwrap();
        }
    }

    fn check(folder: &Folder, case: &Case) -> Result<()> {
        let inputs = case.inputs.iter();
        let tensors: Tensors<'_> =
            inputs.map(|(name, t)| (*name, t.dtype, t.shape.clone(), t.to_bytes())).collect();
        let position = case.position;
        let mut args = Vec::new();
        if case.causal.is_some() {
            args.push(format!("--causal={position}"));
        }
        if let Some(window) = case.window {
            args.push(format!("--window={window}"));
            args.push(format!("--position={position}"));
        }
        if let Some(scale) = case.scale {
            args.push(format!("--scale={scale}"));
        }
        if let Some(cap) = case.softcap {
            args.push(format!("--softcap={cap}"));
        }
        if let Some(stage) = case.stage {
            args.push(format!("--scores={stage}"));
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = folder.attend(&file(&tensors), &args);
        anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for (name, expected) in &case.expected {
            let found = read(&folder.output(), name)?;
            anyhow::ensure!(
                found.shape == expected.shape,
                "{name} is {:?}, not {:?}",
                found.shape,
                expected.shape
            );
            anyhow::ensure!(
                found.dtype == expected.dtype,
                "{name} is {:?}, not {:?}",
                found.dtype,
                expected.dtype
            );
            compare(name, &found.data, expected)?;
            let computed = matches!(*name, "output" | "scores");
            anyhow::ensure!(computed || found.data == expected.data, "{name} is no copy");
        }
        Ok(())
    }

    fn qkv<'a>(q: &[usize], k: &[usize], v: &[usize]) -> Tensors<'a> {
        let tensor = |name, shape: &[usize]| {
            let n = shape.iter().product::<usize>();
            let numbers: Vec<f32> = (0..n).map(|i| (i % 7) as f32 / 7.0).collect();
            (name, Dtype::F32, shape.to_vec(), floats(&numbers))
        };
        vec![tensor("q", q), tensor("k", k), tensor("v", v)]
    }

    #[test]
    fn two_and_three_dimensions_come_back_as_they_went() {
        let folder = Folder::new();
        for (q, k, v, expected) in [
            (&[3, 4][..], &[5, 4][..], &[5, 2][..], &[3, 2][..]),
            (&[2, 3, 4], &[2, 5, 4], &[2, 5, 2], &[2, 3, 2]),
            (&[4, 3, 4], &[2, 5, 4], &[2, 5, 2], &[4, 3, 2]),
        ] {
            let args = ["--scores", "weights"];
            let [output, scores] = folder.attended(&qkv(q, k, v), &args, ["output", "scores"]);
            let Tensor { data: weights, shape, .. } = scores;
            assert_eq!(output.shape, expected);
            assert_eq!((shape.len(), shape.last()), (q.len(), Some(&5)));
            assert!(weights.chunks(5).all(sums_to_one), "{weights:?}");
        }
    }

    #[test]
    fn values_may_be_of_a_type_of_their_own() {
        let folder = Folder::new();
        let [mut q, mut k, mut v]: [_; 3] = qkv(&[1, 2], &[1, 2], &[1, 2]).try_into().unwrap();
        let halves: Vec<u8> = [0x3C00_u16, 0xC000].iter().flat_map(|x| x.to_le_bytes()).collect(); // 1.0, −2.0
        (v.1, v.3) = (Dtype::F16, halves.clone());
        let past = vec![
            ("past_key", Dtype::F32, vec![1, 2], k.3.clone()),
            ("past_value", Dtype::F16, vec![1, 2], halves.clone()),
        ];
        let tensors = [vec![q.clone(), k.clone(), v.clone()], past].concat();
        let [output, key, value] =
            folder.attended(&tensors, &[], ["output", "present_key", "present_value"]);
        assert_eq!([output.dtype, key.dtype, value.dtype], [Dtype::F32, Dtype::F32, Dtype::F16]);
        assert_eq!(output.data, [1.0, -2.0]);

        (q.1, q.3) = (Dtype::F16, halves.clone());
        let folder = Folder::new();
        let keys = folder.refusal(&file(&vec![q.clone(), k.clone(), v.clone()]), &[]);
        assert!(keys.contains("`k` is F32, but `q` is F16"), "{keys}");
        (k.1, k.3) = (Dtype::F16, halves);
        let tensors = [vec![q, k, v], vec![tensors[3].clone(), tensors[4].clone()]].concat();
        let past = folder.refusal(&file(&tensors), &[]);
        assert!(past.contains("`past_key` is F32, but `k` is F16"), "{past}");
    }

    #[test]
    fn sinks_slopes_and_the_log_sum_exp_are_those_of_their_formulas() {
        const SLOPES: [f32; 2] = [0.5, 0.25];
        const SINKS: [f32; 2] = [0.0, 1.0];
        let folder = Folder::new();
        let mut tensors = qkv(&[2, 3, 4], &[1, 5, 4], &[1, 5, 2]);
        tensors[0].3 = floats(&[0.0; 2 * 3 * 4]); // the slopes alone give scores
        tensors.push(("alibi_slopes", Dtype::F32, vec![2], floats(&SLOPES)));
        tensors.push(("sinks", Dtype::F32, vec![2], floats(&SINKS)));

        let unsaid = folder.refusal(&file(&tensors), &["--lse"]);
        assert!(
            unsaid.contains("`alibi_slopes` needs --position (top-left, bottom-right or an offset): the number of queries is 3, that of keys 5"),
            "{unsaid}"
        );
        let args = ["--lse", "--position", "bottom-right"];
        let [sums, output] = folder.attended(&tensors, &args, ["log_sum_exp", "output"]);
        assert_eq!((sums.shape, output.shape), (vec![2, 3], vec![2, 3, 2]));
        for (row, (found_sum, found)) in sums.data.iter().zip(output.data.chunks(2)).enumerate() {
            let (head, place) = (row / 3, (row % 3 + 2) as f64);
            let weight = |key: usize| (-f64::from(SLOPES[head]) * (key as f64 - place).abs()).exp();
            let sum = (0..5).map(weight).sum::<f64>() + f64::from(SINKS[head]).exp();
            // A score is a slope times a distance of at most 4, and so at most 2. The weights' relative error is that of the
            // sum, and its logarithm makes it absolute. The logarithm is rounded, and so is the largest score that is added to
            // it.
            let error = weight_error(6, 1, 2.0);
            let limit = error + gamma(4) * sum.ln().abs().max(2.0);
            assert!((f64::from(*found_sum) - sum.ln()).abs() <= limit, "{row}: {found_sum}");
            for (column, found) in found.iter().enumerate() {
                let value = |key: usize| f64::from(((key * 2 + column) % 7) as f32 / 7.0);
                let expected = (0..5).map(|key| weight(key) * value(key)).sum::<f64>() / sum;
                // Five products with values up to 1 are added.
                let limit = error + gamma(6);
                assert!((f64::from(*found) - expected).abs() <= limit, "{row}, {column}: {found}");
            }
        }

        tensors.last_mut().unwrap().2 = vec![2, 1];
        let sinks = Folder::new().refusal(&file(&tensors), &["--position", "0"]);
        assert!(sinks.contains("`sinks` has the shape [2, 1], but [2] is needed"), "{sinks}");
    }

    #[test]
    fn nothing_to_see_and_nobody_to_see_it() {
        let folder = Folder::new();
        for (q, k, v, expected) in
            [(&[3, 4], &[0, 4], &[0, 2], &[3, 2]), (&[0, 4], &[5, 4], &[5, 2], &[0, 2])]
        {
            let args = ["--lse", "--scores", "masked"];
            let [output, sums] = folder.attended(&qkv(q, k, v), &args, ["output", "log_sum_exp"]);
            assert_eq!((&output.shape[..], &sums.shape[..]), (&expected[..], &q[..1]));
            assert!(
                output.data.iter().all(|x| *x == 0.0)
                    && sums.data.iter().all(|x| *x == f32::NEG_INFINITY)
            );
        }
    }

    #[test]
    fn a_mask_of_bytes_is_one_of_booleans_and_padding_needs_none() {
        let folder = Folder::new();
        let output = |dtype: Dtype, keys: usize, bytes: [u8; 5]| {
            let mut tensors = qkv(&[3, 4], &[5, 4], &[5, 2]);
            tensors.push(("kv_lengths", Dtype::I64, vec![1], 4_i64.to_le_bytes().to_vec()));
            tensors.push(("attn_mask", dtype, vec![keys], bytes[..keys].to_vec()));
            let [output] = folder.attended(&tensors, &[], ["output"]);
            output.data
        };
        let expected = output(Dtype::BOOL, 5, [1, 0, 1, 1, 1]);
        assert_eq!(output(Dtype::U8, 5, [2, 0, 255, 1, 1]), expected);
        assert_eq!(output(Dtype::BOOL, 4, [1, 0, 1, 1, 0]), expected);
    }

    #[test]
    fn bad_input_is_one_clear_line_exit_2_and_no_output() {
        let folder = Folder::new();
        let good = || qkv(&[3, 4], &[5, 4], &[5, 2]);
        let with = |tensor| [good(), vec![tensor]].concat();
        let mask = |dtype, shape: &[usize], bytes| ("attn_mask", dtype, shape.to_vec(), bytes);
        let lengths = |n: i64| ("kv_lengths", Dtype::I64, vec![1], n.to_le_bytes().to_vec());
        let mut integers = good();
        integers[0].1 = Dtype::I32;
        let padded = [qkv(&[5, 4], &[5, 4], &[5, 2]), vec![lengths(3)]].concat();
        let past = ("past_key", Dtype::F32, vec![2, 4], floats(&[0.0; 8]));
        for (tensors, args, parts) in [
            (qkv(&[3, 4], &[5, 3], &[5, 2]), &[][..], &["k", "[1, 1, 5, 3]", "[1, 1, 5, 4]"][..]),
            (qkv(&[3, 4], &[1, 5, 4], &[5, 2]), &[], &["`k`", "[1, 5, 4]"]),
            (good()[..2].to_vec(), &[], &["`v` is missing", "k, q"]),
            (Vec::new(), &[], &["`q` is missing; the file has no tensor"]),
            (good(), &["--window", "1,0"], &["--position"]),
            // With padding, top-left and bottom-right differ.
            (padded, &["--window", "1,0"], &["--position"]),
            (good(), &["--softcap", "0"], &["soft cap"]),
            (good(), &["--scale", "nan"], &["scale"]),
            (with(mask(Dtype::BOOL, &[4], vec![1; 4])), &[], &["mask", "1, 4]", "1, 5]"]),
            (with(mask(Dtype::BOOL, &[4, 5], vec![1; 20])), &[], &["mask", "4, 5", "3, 5"]),
            (with(mask(Dtype::I32, &[5], floats(&[0.0; 5]))), &[], &["`attn_mask` is I32", "U8"]),
            (integers, &[], &["`q` is I32, but F32"]),
            (with(past), &[], &["past_value"]),
            (with(lengths(-1)), &[], &["`kv_lengths` holds -1\n"]),
        ] {
            let said = folder.refusal(&file(&tensors), args);
            for part in parts {
                assert!(said.contains(part), "{said} does not say {part}");
            }
        }
        let truncated = &file(&good())[..100];
        for bytes in [truncated, b"no safetensors at all", b""] {
            assert!(folder.refusal(bytes, &[]).contains("in.safetensors"));
        }
        let negative = folder.attend(&file(&good()), &["--window", "-1,0"]);
        let said = String::from_utf8(negative.stderr).unwrap();
        assert!(said.contains("'-1,0' for '--window") && said.contains("expected"), "{said}");
    }

    #[test]
    fn an_unreadable_path_is_bad_input_and_an_unwritable_one_is_not() {
        let folder = Folder::new();
        let missing = regard(&["attend", "--input", "/no/such/file", "--output", "/tmp/x"]);
        assert_eq!(missing.status.code(), Some(2));
        let good = file(&qkv(&[3, 4], &[5, 4], &[5, 2]));
        let input = folder.0.path().join("in.safetensors");
        std::fs::write(&input, good).unwrap();
        let unwritable = regard(&[
            "attend",
            "--input",
            input.to_str().unwrap(),
            "--output",
            "/no/such/folder/out",
        ]);
        assert_eq!(
            unwritable.status.code(),
            Some(1),
            "{}",
            String::from_utf8_lossy(&unwritable.stderr)
        );
    }

    #[cfg(unix)]
    #[test]
    fn the_output_has_the_rights_of_any_new_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = Folder::new();
        assert!(
            folder.attend(&file(&qkv(&[3, 4], &[5, 4], &[5, 2])), &[]).status.success(),
            "a good file"
        );
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&folder.output()), mode(&folder.0.path().join("in.safetensors")));
    }

    #[test]
    fn a_tensor_that_is_not_used_is_said() {
        let folder = Folder::new();
        let mut tensors = qkv(&[3, 4], &[5, 4], &[5, 2]);
        tensors.push(("mask", Dtype::F32, vec![5], floats(&[0.0; 5])));
        let output = folder.attend(&file(&tensors), &[]);
        assert!(output.status.success(), "a note, no error");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("`mask` is not used"),
            "{:?}",
            output.stderr
        );
    }
}

mod bench {
    use super::*;

    /// The lines of `regard bench` with these arguments. All numbers must exist and be greater than 0.
    fn lines(args: &str) -> Vec<Value> {
        let args: Vec<&str> = args.split(' ').collect();
        let lines = stdout(&[&["bench"], &args[..], &["--format", "json"]].concat());
        let lines: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for line in &lines {
            assert_eq!(line["op"], args[0]);
            for key in ["threads", "median_s", "gflops", "fraction_of_peak"] {
                assert!(line[key].as_f64().is_some_and(|x| x > 0.0), "{key} in {line}");
            }
        }
        lines
    }

    fn names(lines: &[Value]) -> Vec<&str> {
        lines.iter().map(|line| line["impl"].as_str().unwrap()).collect()
    }

    #[test]
    fn json_has_a_line_for_each_implementation() {
        let lines = lines("attention --queries 16 --dim 8 --heads 2 --threads 2");
        assert_eq!(names(&lines), ["naive", "kernel", "multi-head", "multi-head"]);
        for (line, threads) in lines.iter().zip([1, 1, 1, 2]) {
            assert_eq!(line["shape"]["keys"], 16);
            assert_eq!(line["threads"], threads);
        }
    }

    #[test]
    fn one_implementation_can_be_measured_alone() {
        let lines = lines("softmax --queries 2 --keys 16 --impl kernel");
        assert_eq!(names(&lines), ["kernel"]);
        let (ns, seconds) =
            (lines[0]["ns_per_element"].as_f64().unwrap(), lines[0]["median_s"].as_f64().unwrap());
        assert!((ns - seconds / 32.0 * 1e9).abs() < 1e-6);
    }

    #[test]
    fn decoding_with_grouped_queries_sees_all_keys() {
        let lines = lines(
            "attention --queries 1 --keys 32 --dim 8 --heads 4 --kv-heads 2 --causal --threads 1",
        );
        assert_eq!(names(&lines), ["naive", "kernel", "multi-head"]);
        let flops =
            lines[0]["gflops"].as_f64().unwrap() * lines[0]["median_s"].as_f64().unwrap() * 1e9;
        assert!((flops - 4.0 * 4.0 * 31.5 * 8.0).abs() < 1e-6);
    }

    #[test]
    fn sizes_known_at_compile_time_are_beside_the_others() {
        let shapes = [
            "matmul --fixed --queries 4",
            "matmul --fixed",
            "attention --fixed --queries 4 --dim 8",
            "attention --fixed --causal",
        ];
        for args in shapes {
            assert_eq!(names(&lines(args)), ["naive", "kernel", "fixed"], "{args}");
        }
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let refused = [
            ("dot --dim 0", "from 1 to"),
            ("matmul --queries 99999999999", "from 1 to"),
            ("attention --heads 4 --kv-heads 3", "do not divide"),
            ("attention --impl fixed", "there is: naive, kernel, multi-head"),
            ("matmul --fixed --queries 5", "4, 8, 16, 32 and 64"),
            ("attention --fixed --queries 5", "16 × 16"),
            ("attention --heads 0", "the queries [1, 0, 512, 64] would have 0 elements"),
            ("attention --kv-heads 0", "the keys [1, 0, 512, 64] would have 0 elements"),
            ("dot --fixed", "--fixed is for matmul, attention; dot has no use for it"),
            ("softmax --heads 2", "--heads is for attention, masks; softmax has no use"),
            ("masks --causal", "--causal is for attention;"),
        ];
        for (args, reason) in refused {
            let output = regard(&[&["bench"], &args.split(' ').collect::<Vec<_>>()[..]].concat());
            assert_eq!(output.status.code(), Some(2), "{args}");
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(error.contains(reason), "{args}: {error}");
        }
    }
}
