//! `regard export`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use regard_desktop::host::Native;
use regard_figure::{Format, Ground, Look, Map};
use regard_heads::{HeadId, unattended};
use regard_tests::attention_files::{Folder, bytes, safetensors, weights};
use regard_tests::rounding::{gamma, sums_to_one};
use regard_ui::heads::{AttentionSource, OpenedHeads, Shown};
use regard_ui::{Room, Session, attention as attention_session, of_step};
use regard_walkthrough::{Example, Kind, Quantity, Settings, Walkthrough};
use safetensors::{Dtype, SafeTensors};

fn export(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_regard")).arg("export").args(args).output().unwrap()
}

fn exported(args: &[&str], to: &Path) -> Vec<u8> {
    let output = export(&[args, &["--to", to.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(to).unwrap()
}

fn save(session: &Session, path: &Path) {
    std::fs::write(path, session.text().unwrap()).unwrap();
}

fn numbers(file: &[u8]) -> Vec<f32> {
    let file = SafeTensors::deserialize(file).unwrap();
    let (_, view) = file.iter().next().unwrap();
    view.data().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// A file of 2 layers of 3 heads over 4 tokens.
fn dump(folder: &Folder) -> (String, Vec<f32>) {
    let values = weights(24, 4, 1);
    let metadata = [("tokens", r#"["The", "Ġcat", "Ġsat", "."]"#)];
    let file = safetensors(&[("attentions", Dtype::F32, &[2, 3, 4, 4], bytes(&values))], &metadata);
    (folder.file("in.safetensors", file).to_str().unwrap().to_owned(), values)
}

/// A file of a head between two texts.
fn dump_between(folder: &Folder) -> PathBuf {
    let values = bytes(&weights(2, 3, 1));
    folder.file(
        "between.safetensors",
        safetensors(&[("attentions", Dtype::F32, &[1, 1, 2, 3], values)], &[]),
    )
}

#[test]
fn every_matrix_of_every_example_in_every_format() {
    let folder = Folder::new();
    for &example in Example::ALL {
        let walkthrough = Walkthrough::run(example, &Settings::default()).unwrap();
        for (i, step) in walkthrough.steps.iter().enumerate() {
            // Each step is written in one format, and the weights in all formats.
            let all = step.key == Quantity::Weights.into();
            let count = Format::ALL.len();
            let formats = Format::ALL.iter().copied();
            let (first, how_many) = if all { (0, count) } else { (i % count, 1) };
            for format in formats.skip(first).take(how_many) {
                let to = folder.path(&format!("out.{}", format.extension()));
                let file = exported(&[example.name(), "--matrix", &step.key.to_string()], &to);
                if format == Format::Safetensors {
                    assert_eq!(
                        numbers(&file),
                        step.matrix.as_slice(),
                        "{} {}",
                        example.name(),
                        step.key
                    );
                }
            }
        }
    }
}

#[test]
fn a_head_a_mean_and_rollout_of_a_file() {
    let folder = Folder::new();
    let (file, values) = dump(&folder);
    let to = folder.path("out.safetensors");
    let head = numbers(&exported(&[&file, "--layer", "1", "--head", "2"], &to));
    assert_eq!(head, values[5 * 16..]);
    let near = |found: Vec<f32>, heads: &[usize]| {
        for (k, found) in found.into_iter().enumerate() {
            let mean = heads.iter().map(|h| values[h * 16 + k]).sum::<f32>() / heads.len() as f32;
            // The share of a head, and a product and an addition for each head, in both computations.
            let relative = 2.0 * gamma(heads.len() + 2) as f32;
            assert!((found - mean).abs() <= relative * mean, "{found}, not {mean}");
        }
    };
    near(numbers(&exported(&[&file, "--layer", "1"], &to)), &[3, 4, 5]);
    near(numbers(&exported(&[&file, "--head", "2"], &to)), &[2, 5]);
    near(numbers(&exported(&[&file], &to)), &[0, 1, 2, 3, 4, 5]);
    let rollout = numbers(&exported(&[&file, "--rollout"], &to));
    // Two layers, each a normalised mean of 3 heads; 4 products that are added, and the 4 numbers of a row here.
    let relative = gamma(2 * (3 + 4) + 4 + 4) as f32;
    let is_whole = |row: &[f32]| (row.iter().sum::<f32>() - 1.0).abs() <= relative;
    assert!(rollout.chunks(4).all(is_whole), "{rollout:?}");
    let svg = exported(
        &[&file, "--layer", "0", "--head", "1", "--map", "magma", "--log"],
        &folder.path("out.svg"),
    );
    let svg = String::from_utf8(svg).unwrap();
    assert!(svg.contains("Head 0.1") && svg.contains("␣cat"), "{svg}");
}

#[test]
fn weights_are_the_attention_of_a_file_whatever_it_calls_them() {
    let folder = Folder::new();
    let (file, values) = dump(&folder);
    let to = folder.path("out.safetensors");
    let head = ["--matrix", "weights", "--layer", "1", "--head", "2"];
    assert_eq!(numbers(&exported(&[&[&file[..]], &head[..]].concat(), &to)), values[5 * 16..]);
    // The layers as two tensors, and the attention beside a tensor with the name `weights`.
    let layers: Vec<Vec<u8>> = values.chunks(3 * 16).map(bytes).collect();
    let shape = &[3, 4, 4][..];
    let named = |names: [&str; 2]| {
        let tensors = [
            (names[0], Dtype::F32, shape, layers[0].clone()),
            (names[1], Dtype::F32, shape, layers[1].clone()),
        ];
        folder.file("two.safetensors", safetensors(&tensors, &[])).to_str().unwrap().to_owned()
    };
    let file = named(["layer_0", "layer_1"]);
    assert_eq!(numbers(&exported(&[&[&file[..]], &head[..]].concat(), &to)), values[5 * 16..]);
    let file = named(["attentions", "weights"]);
    assert_eq!(
        numbers(&exported(&[&file, "--matrix", "weights", "--head", "2", "--layer", "0"], &to)),
        values[5 * 16..]
    );
    // Nothing tells which of the two is meant.
    let file = named(["first", "second"]);
    let output = export(&[&file, "--matrix", "weights", "--to", to.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("first") && error.contains("second"), "{error}");
}

#[test]
fn a_masked_cell_makes_no_weight_signed() {
    let folder = Folder::new();
    let values = [1.0, f32::NEG_INFINITY, 0.5, 0.5];
    let file = safetensors(&[("attentions", Dtype::F32, &[1, 1, 2, 2], bytes(&values))], &[]);
    let file = folder.file("in.safetensors", file);
    let svg =
        exported(&[file.to_str().unwrap(), "--layer", "0", "--head", "0"], &folder.path("out.svg"));
    let [r, g, b] = Map::Magma.at(1.0, Ground::Paper);
    assert!(String::from_utf8(svg).unwrap().contains(&format!("fill=\"#{r:02x}{g:02x}{b:02x}\"")));
}

#[test]
fn what_a_session_shows() {
    let folder = Folder::new();
    let (file, values) = dump(&folder);
    let (to, saved) = (folder.path("out.safetensors"), folder.path("mine.regard.json"));
    let export_of = |session: &Session| {
        save(session, &saved);
        numbers(&exported(&[saved.to_str().unwrap()], &to))
    };
    let mut session = attention_session(Path::new(&file));
    session.model.heads.show(HeadId { layer: 1, head: 0 });
    assert_eq!(export_of(&session), values[3 * 16..4 * 16]);
    // Rollout between two texts has no meaning, and no other matrix may be written instead.
    let between = dump_between(&folder);
    let mut rollout = attention_session(&between);
    rollout.model.heads.shown = Shown::Rollout;
    save(&rollout, &saved);
    let output = export(&[saved.to_str().unwrap(), "--to", to.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    session.room = Room::Laboratory;
    session.laboratory.inputs.tokens = 10;
    let weights = export_of(&session);
    assert!(weights.chunks(10).all(sums_to_one));
    assert_eq!(weights[1], 0.0, "masked");
    session.room = Room::Walkthrough;
    let walkthrough = Walkthrough::run(Example::ALL[0], &Settings::default()).unwrap();
    assert_eq!(export_of(&session), walkthrough.step(Quantity::Weights).unwrap().matrix.as_slice());
    let flags = export(&[saved.to_str().unwrap(), "--layer", "1", "--to", to.to_str().unwrap()]);
    assert_eq!(flags.status.code(), Some(2));
}

#[test]
fn without_a_name_the_weights_of_an_example_are_exported() {
    let folder = Folder::new();
    let to = folder.path("out.npy");
    let weights = exported(&["the-cat-sat", "--matrix", "weights"], &to);
    assert_eq!(exported(&["the-cat-sat"], &to), weights);
    let output = export(&["the-cat-sat", "--to", to.to_str().unwrap()]);
    let note = String::from_utf8(output.stderr).unwrap();
    assert!(note.contains("out.npy") && note.contains("3 × 3"), "{note}");
}

#[test]
fn bad_input_is_exit_2_and_says_what_there_is() {
    let folder = Folder::new();
    let (file, _) = dump(&folder);
    let broken = folder.file("broken.npz", b"PK\x03\x04").to_str().unwrap().to_owned();
    let to = folder.path("out.svg");
    let to = to.to_str().unwrap();
    for (args, reason) in [
        (&["the-dog-sat", "--to", to][..], "the-cat-sat"),
        (&["the-cat-sat", "--matrix", "wights", "--to", to], "weights"),
        (&["the-cat-sat", "--matrix", "weights", "--head", "1", "--to", to], "--head"),
        (&["the-cat-sat", "--matrix", "weights", "--to", "out.bmp"], ".safetensors"),
        (&["the-cat-sat", "--matrix", "weights", "--map", "jet", "--to", to], "viridis"),
        (&["the-cat-sat", "--matrix", "weights"], "--to"),
        (&[&file, "--layer", "2", "--to", to], "from 0 to 1"),
        (&[&file, "--head", "3", "--to", to], "from 0 to 2"),
        (&[&file, "--matrix", "scores", "--to", to], "attentions"),
        (&[&broken, "--to", to], "broken.npz"),
    ] {
        let output = export(args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(reason), "{args:?}: {error}");
    }
    assert!(!Path::new(to).exists());
    let unwritable =
        export(&["the-cat-sat", "--matrix", "weights", "--to", "/no/such/folder/out.csv"]);
    assert_eq!(unwritable.status.code(), Some(1));
}

/// A labelled picture has a colour bar, so it is larger than its cells alone, which `--bare` writes.
#[test]
fn a_png_is_labelled_unless_it_is_bare() {
    let folder = Folder::new();
    let size = |args: &[&str]| {
        let file = exported(args, &folder.path("out.png"));
        let number = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().unwrap());
        [number(16), number(20)]
    };
    assert_eq!(size(&["the-cat-sat", "--bare"]), [768, 768]);
    let [width, height] = size(&["the-cat-sat"]);
    assert!(width > height && [width, height] != [768, 768], "{width} × {height}");
    for args in [
        &["the-cat-sat", "--bare", "--to", "a.svg"][..],
        &["the-cat-sat", "--bare", "--view", "lines", "--to", "a.png"],
        &["the-cat-sat", "--view", "grid", "--to", "a.png"],
        &["the-cat-sat", "--view", "lines", "--to", "a.csv"],
    ] {
        assert_eq!(export(args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn lines_all_heads_and_pages_are_written() {
    let folder = Folder::new();
    let (file, _) = dump(&folder);
    let text =
        |args: &[&str], to: &str| String::from_utf8(exported(args, &folder.path(to))).unwrap();
    let lines = text(&[&file, "--layer", "1", "--head", "0", "--view", "lines"], "lines.svg");
    assert!(lines.contains("<polyline") && lines.contains(" → "), "{lines}");
    let grid = text(&[&file, "--view", "grid"], "grid.svg");
    for name in ["0.x", "1.x", "x.0", "x.2"] {
        assert!(grid.contains(&format!(">{name}</text>")), "{name}");
    }
    let page = text(&[&file, "--view", "grid"], "grid.html");
    assert!(page.contains("\"head 1.2\"") && page.contains("prefers-color-scheme"));
    let page = text(&["the-cat-sat"], "cat.html");
    assert!(page.contains("\"rows\":[\"The\"") || page.contains("\"rows\":[\"the\""), "{page}");
    let map = text(&[&file, "--view", "grid", "--map", "viridis"], "grid.svg");
    let [r, g, b] = Map::Viridis.at(1.0, Ground::Paper);
    assert!(map.contains(&format!("#{r:02x}{g:02x}{b:02x}")));
}

#[test]
fn the_weights_of_a_query_by_temperature_are_curves() {
    let folder = Folder::new();
    let to = |args: &[&str], name: &str| String::from_utf8(exported(args, &folder.path(name)));
    let csv = to(&["i-love-robotics", "--view", "curves"], "curves.csv").unwrap();
    assert!(csv.starts_with("T,I,love,robotics\n0.01,"), "{csv}");
    let svg = to(&["i-love-robotics", "--view", "curves"], "curves.svg").unwrap();
    assert!(svg.contains("<polyline") && svg.contains(">robotics 0.299</text>"), "{svg}");
    for args in [
        &["i-love-robotics", "--view", "curves", "--to", "a.npy"][..],
        &["layer-norm", "--view", "curves", "--to", "a.svg"],
        &["i-love-robotics", "--view", "curves", "--head", "0", "--to", "a.svg"],
    ] {
        assert_eq!(export(args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn a_session_exports_the_curves_and_the_grid_of_its_room() {
    let folder = Folder::new();
    let path = folder.path("session.json");
    let source = path.to_str().unwrap();
    let text = |session: &Session, view: &str, to: &str| {
        save(session, &path);
        String::from_utf8(exported(&[source, "--view", view], &folder.path(to))).unwrap()
    };
    let refused = |session: &Session, view: &str| {
        save(session, &path);
        let to = folder.path("refused.svg");
        let output = export(&[source, "--view", view, "--to", to.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{view}");
        String::from_utf8(output.stderr).unwrap()
    };
    let in_room = |room: Room| Session { room, ..Session::default() };

    let mut laboratory = in_room(Room::Laboratory);
    laboratory.laboratory.inputs.tokens = 3;
    laboratory.laboratory.chosen = Some((1, 0));
    // The causal mask leaves two keys to the chosen query.
    let sorted = text(&laboratory, "curves", "sorted.csv");
    assert!(sorted.starts_with("rank,weight\n1,0.") && sorted.lines().count() >= 3, "{sorted}");
    for (view, head) in [
        ("entropy", "T,entropy\n0.01,"),
        ("gradient", "T,gradient norm\n0.01,"),
        ("gradient-by-d", "d,without 1/√d,\"without 1/√d, low\""),
    ] {
        let csv = text(&laboratory, view, "plot.csv");
        assert!(csv.starts_with(head), "{csv}");
    }
    let error = refused(&laboratory, "grid");
    assert!(error.contains("the laboratory of this session has no model"), "{error}");

    let mut of_file = in_room(Room::Model);
    of_file.model.file = Some(AttentionSource::Sample);
    for session in [of_file, in_room(Room::Model)] {
        let grid = text(&session, "grid", "grid.svg");
        assert!(grid.contains(">0.x</text>") && grid.contains(">x.3</text>"));
        let error = refused(&session, "curves");
        assert!(error.contains("of this session shows no curves"), "{error}");
    }
    let example = regard_ui::example(Example::ILoveRobotics);
    assert!(text(&example, "curves", "curves.csv").starts_with("T,I,love,robotics\n"));
    let error = refused(&example, "entropy");
    assert!(error.contains("for a session of the laboratory"), "{error}");
    // The first page shows a head of story for its sentence.
    let first = text(&regard_ui::greeting(), "matrix", "first.csv");
    assert!(first.contains("yellow") && first.contains("[STORY]"), "{first}");
}

/// The file has the numbers that the command prints as JSON.
#[test]
fn a_sweep_is_a_table_in_a_file() {
    let folder = Folder::new();
    let sweep = ["sweep", "story", "--text", "Mia and Tom met. Tom gave the ball to"];
    let run = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_regard"));
        let output = command.args(sweep).args(options).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let to = folder.path("sweep.csv");
    let heads = ["--ablate-each-head", "--logit", "Mia-Tom"];
    run(&[&heads[..], &["--to", to.to_str().unwrap()]].concat());
    let csv = std::fs::read_to_string(&to).unwrap();
    let json = run(&[&heads[..], &["--format", "json"]].concat());
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("layer \\ head,head 0,head 1"), "{csv}");
    for (layer, row) in json["effect"].as_array().unwrap().iter().enumerate() {
        let found: Vec<f32> =
            lines[layer + 1].split(',').skip(1).map(|x| x.parse().unwrap()).collect();
        let right: Vec<f32> =
            row.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect();
        assert_eq!(found, right, "layer {layer}");
    }
    for (options, part) in [
        (&["--ablate-each-head", "--logit", "Mia"][..], ">head 3</text>"),
        (&["--attribute-each-head", "--logit", "Mia"], ">feed-forward</text>"),
        (
            &[
                "--patch-each-place",
                "--patch-text",
                "Mia and Tom met. Mia gave the ball to",
                "--logit",
                "Mia",
            ],
            ">layer 3</text>",
        ),
    ] {
        let to = folder.path("sweep.svg");
        run(&[options, &["--to", to.to_str().unwrap()]].concat());
        let svg = std::fs::read_to_string(&to).unwrap();
        assert!(svg.contains(part), "{options:?}: {svg}");
    }
}

const LOOKS: [Look; 2] = [
    Look { map: Map::YellowOrangeRed, logarithmic: Some(false), end: None, ground: Ground::Paper },
    Look { map: Map::Viridis, logarithmic: Some(true), end: None, ground: Ground::Paper },
];

/// A file with a head of weights and one of scores, over so many tokens that each weight is small.
fn dump_of_scores(folder: &Folder, n: usize) -> PathBuf {
    let mut values = weights(2 * n, n, 3);
    for score in &mut values[n * n..] {
        *score = 40.0 * *score - 0.5;
    }
    folder.file(
        "scores.safetensors",
        safetensors(&[("attentions", Dtype::F32, &[1, 2, n, n], bytes(&values))], &[]),
    )
}

#[test]
fn a_head_has_the_colours_of_the_window() {
    let folder = Folder::new();
    let file = dump_of_scores(&folder, 300);
    let to = folder.path("out.png");
    for (look, head) in LOOKS.into_iter().flat_map(|look| [(look, 0), (look, 1)]) {
        let mut session = Session { look, ..attention_session(&file) };
        session.model.heads.show(HeadId { layer: 0, head });
        let opened =
            OpenedHeads::open(&Native, session.model.file.clone().unwrap(), &unattended).unwrap();
        let matrix = opened.matrix(session.model.heads.clone(), look).unwrap();
        let png = matrix.encode(Format::Png).unwrap();
        let saved = folder.path("mine.regard.json");
        save(&session, &saved);
        assert!(exported(&[saved.to_str().unwrap()], &to) == png);
        let (number, mut flags) = (head.to_string(), vec![file.to_str().unwrap(), "--layer", "0"]);
        flags.extend(["--head", &number]);
        // Numbers of both signs have the diverging map, unless another one is requested.
        if head == 0 {
            flags.extend(["--map", look.map.name()]);
        }
        if look.logarithmic == Some(true) {
            flags.push("--log");
        }
        assert!(exported(&flags, &to) == png, "{flags:?}");
    }
}

#[test]
fn a_step_has_the_colours_of_the_window() {
    let folder = Folder::new();
    let walkthrough = Walkthrough::run(Example::ALL[0], &Settings::default()).unwrap();
    let weights = walkthrough.step(Quantity::Weights).unwrap();
    for look in LOOKS {
        let png = of_step(&walkthrough, weights, look).encode(Format::Png).unwrap();
        let flags =
            [Example::ALL[0].name(), "--matrix", "weights", "--map", look.map.name(), "--log"];
        let flags = &flags[..if look.logarithmic == Some(true) { 6 } else { 5 }];
        assert!(exported(flags, &folder.path("out.png")) == png);
    }
}

#[test]
fn bare_cells_of_a_table_need_a_map() {
    let walkthrough = Walkthrough::run(Example::LayerNorm, &Settings::default()).unwrap();
    let moments = walkthrough.steps.iter().find(|s| s.kind == Kind::Table).unwrap();
    let folder = Folder::new();
    let run = export(&[
        "layer-norm",
        "--matrix",
        &moments.key.to_string(),
        "--bare",
        "--to",
        folder.path("a.png").to_str().unwrap(),
    ]);
    assert_eq!(run.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&run.stderr).contains("--map"));
}
