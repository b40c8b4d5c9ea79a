//! The program as a user calls it: its output, its files, and its messages about bad input.

#![expect(clippy::unwrap_used, reason = "a test that fails is what unwrap is for")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Context as _, Result, ensure};
use common::{command, json, printed, refused, regard, text};
use regard_kernels::Temperature;
use regard_tests::attention_files::{Folder, bytes, safetensors};
use regard_tests::onnx::{Case, cases, compare};
use regard_tests::rounding::{gamma, sums_to_one, weight_error};
use regard_tests::tensor::Tensor;
use regard_walkthrough::{Example, Settings, Walkthrough, Without};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

mod walk {
    use super::*;

    #[test]
    fn without_a_display_one_line_says_so_and_the_first_walkthrough_is_shown() {
        let output = regard("");
        let (out, note) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{note}");
        assert_eq!(note.lines().count(), 1, "{note}");
        assert!(note.contains("no display"), "{note}");
        assert!(out.contains("Tokens X") && out.contains("0.989"), "{out}");
    }

    #[test]
    fn colours_are_for_terminals_that_have_them() {
        assert!(!printed("walk the-cat-sat").contains('\u{1b}'));
        let mut forced = command();
        let forced = forced.args(["walk", "the-cat-sat"]).env("CLICOLOR_FORCE", "1").output();
        assert!(text(&forced.unwrap().stdout).contains("\u{1b}[48;2;"), "no 24-bit background");
    }

    #[test]
    fn shapes_the_four_lines_and_the_lines_of_pytorch_are_printed() {
        let text = printed("walk math-of-attention");
        assert!(text.contains("Q = X·W_Q   [4, 8]·[8, 8] → [4, 8]\n"), "{text}");
        let lines = "In four lines\nQ = X·W_Q,  K = X·W_K,  V = X·W_V\nS = Q·Kᵀ / √d_k\n";
        assert!(text.contains(lines), "{text}");
        assert!(!text.contains("PyTorch:"), "its numbers are not one's own");
        let seeded = printed("walk seeded");
        assert!(seeded.contains("\ntorch.manual_seed(42)\nX = torch.randn(4, 8)\n"), "{seeded}");
        assert!(!printed("walk layer-norm").contains("In four lines"));
    }

    #[test]
    fn without_a_name_the_examples_are_listed() {
        let list = printed("walk");
        for example in Example::ALL {
            let name = example.name();
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
            ("--temperature 0", temperature(0.0)),
            ("--temperature inf", temperature(f32::INFINITY)),
            ("--causal", Settings { causal: true, ..Settings::default() }),
            ("--without projections", without),
        ];
        let examples =
            Example::ALL.iter().copied().map(|example| (example, "", Settings::default()));
        let changed = settings.map(|(args, settings)| (Example::TheCatSat, args, settings));
        for (example, args, settings) in examples.into_iter().chain(changed) {
            let line = format!("walk {} {args}", example.name());
            let expected = Walkthrough::run(example, &settings).unwrap().to_json().to_string();
            assert_eq!(json(&line), serde_json::from_str::<Value>(&expected).unwrap(), "{line}");
        }
    }

    /// An example as a chapter: a heading and a picture for each step. A renderer of Markdown passes a picture on if none of
    /// its lines is empty.
    #[test]
    fn an_example_is_a_chapter_with_a_picture_for_each_step() {
        for &example in Example::ALL {
            let text = printed(format!("walk {} --format markdown", example.name()));
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
        let text = printed("walk i-love-robotics --format markdown");
        let formula = "## Queries Q\n\n<p class=\"formula\">Q = X·W<sub>Q</sub></p>\n";
        assert!(text.contains(formula), "{text:.3000}");
        refused("walk --format markdown");
    }

    /// An error once made the program print the first walkthrough and exit with 0 for any file.
    #[test]
    fn without_a_display_a_file_is_summarised_or_refused() {
        let folder = Folder::new();
        let summary = |name: &str| printed(folder.path(name).display().to_string());
        let weights = bytes(&[1.0, 0.0, 0.0, 1.0]);
        let tokens = [("tokens", r#"["The","Ġcat"]"#)];
        let file = safetensors(&[("attentions", Dtype::F32, &[1, 1, 2, 2], weights)], &tokens);
        folder.file("dump.safetensors", &file);
        let one = bytes(&[1.0]);
        folder.file(
            "one.safetensors",
            safetensors(&[("attentions", Dtype::F32, &[1, 1, 1, 1], one)], &[]),
        );
        folder.file(
            "mine.regard.json",
            r#"{"format": "regard session 1", "room": "model", "model": {"file": "sample"}}"#,
        );
        for (name, parts) in [
            (
                "dump.safetensors",
                ["`attentions`", "1 layer × 1 head, 2 queries × 2 keys", "2 tokens: The ␣cat"],
            ),
            ("one.safetensors", ["1 layer × 1 head", "1 query × 1 key", "no tokens"]),
            (
                "mine.regard.json",
                ["64 tokens × 64 dimensions", "Stage (open): ", "the attention of the sample"],
            ),
        ] {
            let text = summary(name);
            for part in parts {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
        let session = folder.path("mine.regard.json");
        let link = regard_session::Session::parse(&std::fs::read(session).unwrap()).unwrap().link();
        for link in [format!("http://localhost/{link}"), link] {
            assert_eq!(printed(format!("'{link}'")), summary("mine.regard.json"));
        }

        for (name, bytes) in [
            ("cut.safetensors", &file[..file.len() - 4]),
            ("empty.npy", &[][..]),
            ("notes.txt", b"These are notes, and no tensors."),
            ("cut.regard.json", b"{\"room\": 1"),
            ("model.pt", b"PK\x03\x04 a torch archive"),
        ] {
            let message = refused(folder.file(name, bytes).display().to_string());
            assert!(message.contains(name) && message.lines().count() == 1, "{message}");
        }
    }

    /// Lines are as wide as the terminal. The lines of PyTorch stay whole, so that they can be pasted.
    #[test]
    fn lines_are_as_long_as_the_terminal_is_wide() {
        let walk = |line: &str, columns: usize| {
            let mut command = command();
            let words = command.args(line.split(' ')).env("COLUMNS", columns.to_string());
            text(&words.output().unwrap().stdout)
        };
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let names = Example::ALL.iter().map(|example| format!("walk {}", example.name()));
        for line in names.chain(["walk".to_owned()]) {
            let free = printed(&line);
            for columns in [60, 80, 120] {
                let text = walk(&line, columns);
                let python = |line: &&str| !line.contains("torch.") && !line.contains("F.");
                for line in text.lines().filter(python) {
                    let width = unicode_width::UnicodeWidthStr::width(line);
                    assert!(width <= columns, "{columns} columns: {width}: {line}");
                }
                // No number is missing or printed twice. Labels of rows may be.
                let count = |text: &str| words(text).iter().filter(|w| w.contains('.')).count();
                assert_eq!(count(&text), count(&free), "{line}, {columns} columns");
            }
        }
        // Eight columns of numbers are two blocks in 60 columns, with all rows in both.
        let text = walk("walk math-of-attention", 60);
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
        const RANGE: &str = "expected a number from 0";
        let story = "--text 'Mia saw Tom .'";
        for (line, parts) in [
            ("walk two-heads --temperature -1", &["'-1'", RANGE][..]),
            ("walk two-heads --temperature warm", &["'warm'", RANGE]),
            ("generate story --text Mia --temperature -1", &["-1", "from 0"]),
            (&format!("predict story {story} --top -1"), &["'-1'", "a whole number from 0 on"]),
            ("walk the-ct", &["'the-cat-sat'", "two-heads"]),
            ("--example tow-heads", &["'two-heads'"]),
            ("walk two-heads --temprature 1", &["'--temperature'"]),
            ("walk two-heads --without scailing", &["'scaling'"]),
            (
                "walk layer-norm --causal",
                &["--causal changes nothing in layer-norm; it does in", "the-cat-sat"],
            ),
            ("walk feed-forward --temperature 2", &["--temperature changes nothing in"]),
            ("walk layer-norm --without softmax", &["--without softmax changes nothing in"]),
            ("attend --input x", &["--output"]),
            ("wlak", &["did you mean `regard walk`?"]),
            ("two-haeds", &["did you mean `regard --example two-heads`?"]),
            ("stroy", &["did you mean `regard story`?"]),
            ("man swep", &["did you mean \"sweep\"?"]),
            ("export two-haeds --to x.svg", &["did you mean \"two-heads\"?"]),
            ("export two-heads --matrix outptu --to x.svg", &["did you mean \"output\"?"]),
            (
                &format!("sweep story {story} --ablate-each-head --logit Mai"),
                &["does not know \"Mai\"; did you mean \"Mia\"?"],
            ),
            (
                &format!("predict story {story} --ablate 9.0"),
                &["count from 0, so the last one is "],
            ),
            (&format!("predict story {story} --ablate 0.99"), &["there is no head 0.99"]),
        ] {
            let said = refused(line);
            for part in parts {
                assert!(said.contains(part), "{line} does not say {part}: {said}");
            }
        }
    }
}

mod help {
    use super::*;

    /// The commands that the help lists.
    fn commands() -> Vec<String> {
        let help = printed("--help");
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
            let script = printed(format!("completions {shell}"));
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
        refused("completions tcsh");
    }

    #[test]
    fn the_manual_has_a_page_for_every_command() {
        let main = printed("man");
        assert!(main.starts_with(".ie") && main.contains(".TH regard 1"), "{main}");
        let folder = Folder::new();
        printed(format!("man --to {}", folder.path("").display()));
        assert_eq!(fs::read_to_string(folder.path("regard.1")).unwrap(), main);
        for name in commands() {
            let dashed = format!("regard\\-{name}");
            assert!(main.contains(&dashed), "{name}: {main}");
            let page = printed(format!("man {name}"));
            assert!(page.contains(&format!("regard {name}")), "{name}: {page}");
            let file = folder.path(&format!("regard-{name}.1"));
            assert_eq!(fs::read_to_string(file).unwrap(), page);
        }
        assert!(printed("man sweep").contains("patch\\-each\\-place"));
    }
}

mod attend {
    use super::*;

    type Tensors<'a> = Vec<(&'a str, Dtype, Vec<usize>, Vec<u8>)>;

    fn output(folder: &Folder) -> PathBuf {
        folder.path("out.safetensors")
    }

    /// Runs `regard attend` on the bytes of an input file.
    fn attend(folder: &Folder, input: &[u8], options: &str) -> Output {
        let input = folder.file("in.safetensors", input);
        let (input, output) = (input.display(), output(folder));
        regard(format!("attend --input {input} --output {} {options}", output.display()))
    }

    /// Runs `regard attend`, which must succeed, and reads the tensors of these names.
    fn attended<const N: usize>(
        tensors: &Tensors<'_>,
        options: &str,
        names: [&str; N],
    ) -> [Tensor; N] {
        let folder = Folder::new();
        let done = attend(&folder, &safetensors(tensors, &[]), options);
        assert!(done.status.success(), "{}", text(&done.stderr));
        names.map(|name| read(&output(&folder), name).unwrap())
    }

    /// The error line of a run that must fail with exit 2 and without an output file.
    fn refusal(input: &[u8], options: &str) -> String {
        let folder = Folder::new();
        let done = attend(&folder, input, options);
        let message = text(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
        let files = fs::read_dir(folder.path("")).unwrap().map(|file| file.unwrap().file_name());
        assert_eq!(files.collect::<Vec<_>>(), ["in.safetensors"], "{message}");
        message
    }

    fn refusal_of(tensors: &Tensors<'_>, options: &str) -> String {
        refusal(&safetensors(tensors, &[]), options)
    }

    fn read(path: &Path, name: &str) -> Result<Tensor> {
        let bytes = fs::read(path)?;
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
        let mut options = Vec::new();
        if case.causal.is_some() {
            options.push(format!("--causal={position}"));
        }
        if let Some(window) = case.window {
            options.push(format!("--window={window} --position={position}"));
        }
        if let Some(scale) = case.scale {
            options.push(format!("--scale={scale}"));
        }
        if let Some(cap) = case.softcap {
            options.push(format!("--softcap={cap}"));
        }
        if let Some(stage) = case.stage {
            options.push(format!("--scores={stage}"));
        }
        let done = attend(folder, &safetensors(&tensors, &[]), &options.join(" "));
        ensure!(done.status.success(), "{}", text(&done.stderr));
        for (name, expected) in &case.expected {
            let found = read(&output(folder), name)?;
            let [kind, right] = [&found, expected].map(|tensor| (&tensor.shape, tensor.dtype));
            ensure!(kind == right, "{name} is {kind:?}, not {right:?}");
            compare(name, &found.data, expected)?;
            let computed = matches!(*name, "output" | "scores");
            ensure!(computed || found.data == expected.data, "{name} is no copy");
        }
        Ok(())
    }

    fn qkv<'a>(q: &[usize], k: &[usize], v: &[usize]) -> Tensors<'a> {
        let tensor = |name, shape: &[usize]| {
            let n = shape.iter().product::<usize>();
            let numbers: Vec<f32> = (0..n).map(|i| (i % 7) as f32 / 7.0).collect();
            (name, Dtype::F32, shape.to_vec(), bytes(&numbers))
        };
        vec![tensor("q", q), tensor("k", k), tensor("v", v)]
    }

    #[test]
    fn two_and_three_dimensions_come_back_as_they_went() {
        for (q, k, v, expected) in [
            (&[3, 4][..], &[5, 4][..], &[5, 2][..], &[3, 2][..]),
            (&[2, 3, 4], &[2, 5, 4], &[2, 5, 2], &[2, 3, 2]),
            (&[4, 3, 4], &[2, 5, 4], &[2, 5, 2], &[4, 3, 2]),
        ] {
            let names = ["output", "scores"];
            let [output, scores] = attended(&qkv(q, k, v), "--scores weights", names);
            let Tensor { data: weights, shape, .. } = scores;
            assert_eq!(output.shape, expected);
            assert_eq!((shape.len(), shape.last()), (q.len(), Some(&5)));
            assert!(weights.chunks(5).all(sums_to_one), "{weights:?}");
        }
    }

    #[test]
    fn values_may_be_of_a_type_of_their_own() {
        let [mut q, mut k, mut v]: [_; 3] = qkv(&[1, 2], &[1, 2], &[1, 2]).try_into().unwrap();
        let halves: Vec<u8> = [0x3C00_u16, 0xC000].iter().flat_map(|x| x.to_le_bytes()).collect(); // 1.0, −2.0
        (v.1, v.3) = (Dtype::F16, halves.clone());
        let past = vec![
            ("past_key", Dtype::F32, vec![1, 2], k.3.clone()),
            ("past_value", Dtype::F16, vec![1, 2], halves.clone()),
        ];
        let tensors = [vec![q.clone(), k.clone(), v.clone()], past].concat();
        let names = ["output", "present_key", "present_value"];
        let [output, key, value] = attended(&tensors, "", names);
        assert_eq!([output.dtype, key.dtype, value.dtype], [Dtype::F32, Dtype::F32, Dtype::F16]);
        assert_eq!(output.data, [1.0, -2.0]);

        (q.1, q.3) = (Dtype::F16, halves.clone());
        let keys = refusal_of(&vec![q.clone(), k.clone(), v.clone()], "");
        assert!(keys.contains("`k` is F32, but `q` is F16"), "{keys}");
        (k.1, k.3) = (Dtype::F16, halves);
        let tensors = [vec![q, k, v], vec![tensors[3].clone(), tensors[4].clone()]].concat();
        let past = refusal_of(&tensors, "");
        assert!(past.contains("`past_key` is F32, but `k` is F16"), "{past}");
    }

    #[test]
    fn sinks_slopes_and_the_log_sum_exp_are_those_of_their_formulas() {
        const SLOPES: [f32; 2] = [0.5, 0.25];
        const SINKS: [f32; 2] = [0.0, 1.0];
        let mut tensors = qkv(&[2, 3, 4], &[1, 5, 4], &[1, 5, 2]);
        tensors[0].3 = bytes(&[0.0; 2 * 3 * 4]); // the slopes alone give scores
        tensors.push(("alibi_slopes", Dtype::F32, vec![2], bytes(&SLOPES)));
        tensors.push(("sinks", Dtype::F32, vec![2], bytes(&SINKS)));

        let unsaid = refusal_of(&tensors, "--lse");
        let needs = "`alibi_slopes` needs --position (top-left, bottom-right or an offset): the number of queries is 3, that of keys 5";
        assert!(unsaid.contains(needs), "{unsaid}");
        let names = ["log_sum_exp", "output"];
        let [sums, output] = attended(&tensors, "--lse --position bottom-right", names);
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
        let sinks = refusal_of(&tensors, "--position 0");
        assert!(sinks.contains("`sinks` has the shape [2, 1], but [2] is needed"), "{sinks}");
    }

    #[test]
    fn nothing_to_see_and_nobody_to_see_it() {
        for (q, k, v, expected) in
            [(&[3, 4], &[0, 4], &[0, 2], &[3, 2]), (&[0, 4], &[5, 4], &[5, 2], &[0, 2])]
        {
            let names = ["output", "log_sum_exp"];
            let [output, sums] = attended(&qkv(q, k, v), "--lse --scores masked", names);
            assert_eq!((&output.shape[..], &sums.shape[..]), (&expected[..], &q[..1]));
            assert!(
                output.data.iter().all(|x| *x == 0.0)
                    && sums.data.iter().all(|x| *x == f32::NEG_INFINITY)
            );
        }
    }

    #[test]
    fn a_mask_of_bytes_is_one_of_booleans_and_padding_needs_none() {
        let output = |dtype: Dtype, keys: usize, bytes: [u8; 5]| {
            let mut tensors = qkv(&[3, 4], &[5, 4], &[5, 2]);
            tensors.push(("kv_lengths", Dtype::I64, vec![1], 4_i64.to_le_bytes().to_vec()));
            tensors.push(("attn_mask", dtype, vec![keys], bytes[..keys].to_vec()));
            let [output] = attended(&tensors, "", ["output"]);
            output.data
        };
        let expected = output(Dtype::BOOL, 5, [1, 0, 1, 1, 1]);
        assert_eq!(output(Dtype::U8, 5, [2, 0, 255, 1, 1]), expected);
        assert_eq!(output(Dtype::BOOL, 4, [1, 0, 1, 1, 0]), expected);
    }

    #[test]
    fn bad_input_is_one_clear_line_exit_2_and_no_output() {
        let good = || qkv(&[3, 4], &[5, 4], &[5, 2]);
        let with = |tensor| [good(), vec![tensor]].concat();
        let mask = |dtype, shape: &[usize], bytes| ("attn_mask", dtype, shape.to_vec(), bytes);
        let lengths = |n: i64| ("kv_lengths", Dtype::I64, vec![1], n.to_le_bytes().to_vec());
        let mut integers = good();
        integers[0].1 = Dtype::I32;
        let padded = [qkv(&[5, 4], &[5, 4], &[5, 2]), vec![lengths(3)]].concat();
        let past = ("past_key", Dtype::F32, vec![2, 4], bytes(&[0.0; 8]));
        for (tensors, options, parts) in [
            (qkv(&[3, 4], &[5, 3], &[5, 2]), "", &["k", "[1, 1, 5, 3]", "[1, 1, 5, 4]"][..]),
            (qkv(&[3, 4], &[1, 5, 4], &[5, 2]), "", &["`k`", "[1, 5, 4]"]),
            (good()[..2].to_vec(), "", &["`v` is missing", "k, q"]),
            (Vec::new(), "", &["`q` is missing; the file has no tensor"]),
            (good(), "--window 1,0", &["--position"]),
            // With padding, top-left and bottom-right differ.
            (padded, "--window 1,0", &["--position"]),
            (good(), "--softcap 0", &["soft cap"]),
            (good(), "--scale nan", &["scale"]),
            (with(mask(Dtype::BOOL, &[4], vec![1; 4])), "", &["mask", "1, 4]", "1, 5]"]),
            (with(mask(Dtype::BOOL, &[4, 5], vec![1; 20])), "", &["mask", "4, 5", "3, 5"]),
            (with(mask(Dtype::I32, &[5], bytes(&[0.0; 5]))), "", &["`attn_mask` is I32", "U8"]),
            (integers, "", &["`q` is I32, but F32"]),
            (with(past), "", &["past_value"]),
            (with(lengths(-1)), "", &["`kv_lengths` holds -1\n"]),
        ] {
            let said = refusal_of(&tensors, options);
            for part in parts {
                assert!(said.contains(part), "{said} does not say {part}");
            }
        }
        let good = safetensors(&good(), &[]);
        for bytes in [&good[..100], b"no safetensors at all", b""] {
            assert!(refusal(bytes, "").contains("in.safetensors"));
        }
        let folder = Folder::new();
        let said = text(&attend(&folder, &good, "--window -1,0").stderr);
        assert!(said.contains("'-1,0' for '--window") && said.contains("expected"), "{said}");
        // A path that cannot be read is bad input, and one that cannot be written is not.
        refused("attend --input /no/such/file --output /tmp/x");
        let input = folder.path("in.safetensors");
        let unwritable =
            regard(format!("attend --input {} --output /no/such/folder/out", input.display()));
        assert_eq!(unwritable.status.code(), Some(1), "{}", text(&unwritable.stderr));
    }

    #[cfg(unix)]
    #[test]
    fn the_output_has_the_rights_of_any_new_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = Folder::new();
        let done = attend(&folder, &safetensors(&qkv(&[3, 4], &[5, 4], &[5, 2]), &[]), "");
        assert!(done.status.success(), "{}", text(&done.stderr));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&output(&folder)), mode(&folder.path("in.safetensors")));
    }

    #[test]
    fn a_tensor_that_is_not_used_is_said() {
        let mut tensors = qkv(&[3, 4], &[5, 4], &[5, 2]);
        tensors.push(("mask", Dtype::F32, vec![5], bytes(&[0.0; 5])));
        let done = attend(&Folder::new(), &safetensors(&tensors, &[]), "");
        let said = text(&done.stderr);
        assert!(done.status.success() && said.contains("`mask` is not used"), "{said}");
    }
}

mod bench {
    use super::*;

    /// The lines of `regard bench` with these arguments. All numbers must exist and be greater than 0.
    fn lines(args: &str) -> Vec<Value> {
        let lines = printed(format!("bench {args} --format json"));
        let lines: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for line in &lines {
            assert_eq!(line["op"], args.split(' ').next().unwrap());
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
        for (args, reason) in [
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
        ] {
            let said = refused(format!("bench {args}"));
            assert!(said.contains(reason), "{args}: {said}");
        }
    }
}
