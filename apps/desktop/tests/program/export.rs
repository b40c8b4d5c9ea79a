//! `regard export`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{json, printed, refused, regard, text};
use regard_desktop::host::Native;
use regard_figure::{Format, Ground, Look, Map};
use regard_heads::{HeadId, unattended};
use regard_session::heads::{AttentionSource, OpenedHeads, Shown};
use regard_session::walkthrough::of_step;
use regard_session::{Room, Session, attention as attention_session};
use regard_tests::attention_files::{Folder, bytes, safetensors, weights};
use regard_tests::rounding::{gamma, sums_to_one};
use regard_walkthrough::{Example, Kind, Quantity, Settings, Walkthrough};
use safetensors::{Dtype, SafeTensors};

/// The file that `regard export` writes with these options.
fn exported(options: &str, to: &Path) -> Vec<u8> {
    printed(format!("export {options} --to {}", to.display()));
    fs::read(to).unwrap()
}

fn save(session: &Session, path: &Path) {
    fs::write(path, session.text().unwrap()).unwrap();
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
    (folder.file("in.safetensors", file).display().to_string(), values)
}

/// A file of a head between two texts.
fn dump_between(folder: &Folder) -> PathBuf {
    let values = bytes(&weights(2, 3, 1));
    folder.file(
        "between.safetensors",
        safetensors(&[("attentions", Dtype::F32, &[1, 1, 2, 3], values)], &[]),
    )
}

/// Every step has a name that leads to it, and numbers in every format. The program writes a step of each example in one format.
#[test]
fn every_matrix_of_every_example_in_every_format() {
    let folder = Folder::new();
    for (i, &example) in Example::ALL.iter().enumerate() {
        let walkthrough = Walkthrough::run(example, &Settings::default()).unwrap();
        for step in &walkthrough.steps {
            assert_eq!(step.key.to_string().parse().ok(), Some(step.key), "{}", example.name());
            let matrix = of_step(&walkthrough, step, Look::default());
            for format in Format::ALL.iter().filter(|format| **format != Format::Png) {
                matrix.encode(*format).unwrap();
            }
            let file = matrix.encode(Format::Safetensors).unwrap();
            assert_eq!(numbers(&file), step.matrix.as_slice(), "{}: {}", example.name(), step.key);
        }
        let step = &walkthrough.steps[i % walkthrough.steps.len()];
        let format = Format::ALL[i % Format::ALL.len()];
        let to = folder.path(&format!("out.{}", format.extension()));
        let file = exported(&format!("{} --matrix {}", example.name(), step.key), &to);
        let expected = of_step(&walkthrough, step, Look::default()).encode(format).unwrap();
        // The metadata of a safetensors file has no order.
        let is_same = match format {
            Format::Safetensors => numbers(&file) == numbers(&expected),
            _ => file == expected,
        };
        assert!(is_same, "{}: {}", example.name(), step.key);
    }
}

#[test]
fn a_head_a_mean_and_rollout_of_a_file() {
    let folder = Folder::new();
    let (file, values) = dump(&folder);
    let to = folder.path("out.safetensors");
    let head = |options: &str| numbers(&exported(&format!("{file} {options}"), &to));
    assert_eq!(head("--layer 1 --head 2"), values[5 * 16..]);
    let near = |found: Vec<f32>, heads: &[usize]| {
        for (k, found) in found.into_iter().enumerate() {
            let mean = heads.iter().map(|h| values[h * 16 + k]).sum::<f32>() / heads.len() as f32;
            // The share of a head, and a product and an addition for each head, in both computations.
            let relative = 2.0 * gamma(heads.len() + 2) as f32;
            assert!((found - mean).abs() <= relative * mean, "{found}, not {mean}");
        }
    };
    near(head("--layer 1"), &[3, 4, 5]);
    // The last layer is the one that is meant if none is named.
    assert_eq!(head("--head 2"), values[5 * 16..]);
    assert_eq!(head(""), head("--layer 1"));
    let rollout = head("--rollout");
    // Two layers, each a normalised mean of 3 heads; 4 products that are added, and the 4 numbers of a row here.
    let relative = gamma(2 * (3 + 4) + 4 + 4) as f32;
    let is_whole = |row: &[f32]| (row.iter().sum::<f32>() - 1.0).abs() <= relative;
    assert!(rollout.chunks(4).all(is_whole), "{rollout:?}");
    let options = format!("{file} --layer 0 --head 1 --map magma --log");
    let svg = text(&exported(&options, &folder.path("out.svg")));
    assert!(svg.contains("Head 0.1") && svg.contains("␣cat"), "{svg}");
}

#[test]
fn weights_are_the_attention_of_a_file_whatever_it_calls_them() {
    let folder = Folder::new();
    let (file, values) = dump(&folder);
    let to = folder.path("out.safetensors");
    let of = |file: &str, options: &str| {
        numbers(&exported(&format!("{file} --matrix weights --head 2 {options}"), &to))
    };
    assert_eq!(of(&file, "--layer 1"), values[5 * 16..]);
    // The layers as two tensors, and the attention beside a tensor with the name `weights`.
    let layers: Vec<Vec<u8>> = values.chunks(3 * 16).map(bytes).collect();
    let shape = &[3, 4, 4][..];
    let named = |names: [&str; 2]| {
        let tensors = [
            (names[0], Dtype::F32, shape, layers[0].clone()),
            (names[1], Dtype::F32, shape, layers[1].clone()),
        ];
        folder.file("two.safetensors", safetensors(&tensors, &[])).display().to_string()
    };
    assert_eq!(of(&named(["layer_0", "layer_1"]), "--layer 1"), values[5 * 16..]);
    assert_eq!(of(&named(["attentions", "weights"]), "--layer 0"), values[5 * 16..]);
    // Nothing tells which of the two is meant.
    let file = named(["first", "second"]);
    let error = refused(format!("export {file} --matrix weights --to {}", to.display()));
    assert!(error.contains("first") && error.contains("second"), "{error}");
}

#[test]
fn a_masked_cell_makes_no_weight_signed() {
    let folder = Folder::new();
    let values = [1.0, f32::NEG_INFINITY, 0.5, 0.5];
    let file = safetensors(&[("attentions", Dtype::F32, &[1, 1, 2, 2], bytes(&values))], &[]);
    let file = folder.file("in.safetensors", file);
    let options = format!("{} --layer 0 --head 0", file.display());
    let svg = text(&exported(&options, &folder.path("out.svg")));
    let [r, g, b] = Map::Magma.at(1.0, Ground::Paper);
    assert!(svg.contains(&format!("fill=\"#{r:02x}{g:02x}{b:02x}\"")));
}

#[test]
fn what_a_session_shows() {
    let folder = Folder::new();
    let (file, values) = dump(&folder);
    let (to, saved) = (folder.path("out.safetensors"), folder.path("mine.regard.json"));
    let export_of = |session: &Session| {
        save(session, &saved);
        numbers(&exported(&saved.display().to_string(), &to))
    };
    let mut session = attention_session(Path::new(&file));
    session.model.heads.show(HeadId { layer: 1, head: 0 });
    assert_eq!(export_of(&session), values[3 * 16..4 * 16]);
    // Rollout between two texts has no meaning, and no other matrix may be written instead.
    let between = dump_between(&folder);
    let mut rollout = attention_session(&between);
    rollout.model.heads.shown = Shown::Rollout;
    save(&rollout, &saved);
    let export = format!("export {} --to {}", saved.display(), to.display());
    refused(&export);
    session.room = Room::Laboratory;
    session.laboratory.inputs.tokens = 10;
    let weights = export_of(&session);
    assert!(weights.chunks(10).all(sums_to_one));
    assert_eq!(weights[1], 0.0, "masked");
    session.room = Room::Walkthrough;
    let walkthrough = Walkthrough::run(Example::ALL[0], &Settings::default()).unwrap();
    assert_eq!(export_of(&session), walkthrough.step(Quantity::Weights).unwrap().matrix.as_slice());
    refused(format!("{export} --layer 1"));
}

#[test]
fn without_a_name_the_weights_of_an_example_are_exported() {
    let folder = Folder::new();
    let to = folder.path("out.npy");
    let weights = exported("the-cat-sat --matrix weights", &to);
    assert_eq!(exported("the-cat-sat", &to), weights);
    let note = text(&regard(format!("export the-cat-sat --to {}", to.display())).stderr);
    assert!(note.contains("out.npy") && note.contains("3 × 3"), "{note}");
}

#[test]
fn bad_input_is_exit_2_and_says_what_there_is() {
    let folder = Folder::new();
    let (file, _) = dump(&folder);
    let broken = folder.file("broken.npz", b"PK\x03\x04").display().to_string();
    let to = folder.path("out.svg");
    for (options, reason) in [
        ("the-dog-sat", "the-cat-sat"),
        ("the-cat-sat --matrix wights", "weights"),
        ("the-cat-sat --matrix weights --head 1", "--head"),
        ("the-cat-sat --matrix weights --map jet", "viridis"),
        (&format!("{file} --layer 2"), "from 0 to 1"),
        (&format!("{file} --head 3"), "from 0 to 2"),
        (&format!("{file} --matrix scores"), "attentions"),
        (&broken, "broken.npz"),
    ] {
        let error = refused(format!("export {options} --to {}", to.display()));
        assert!(error.contains(reason), "{options}: {error}");
    }
    assert!(!to.exists());
    for (options, reason) in [("--to out.bmp", ".safetensors"), ("", "--to")] {
        let error = refused(format!("export the-cat-sat --matrix weights {options}"));
        assert!(error.contains(reason), "{options}: {error}");
    }
    let unwritable = regard("export the-cat-sat --matrix weights --to /no/such/folder/out.csv");
    assert_eq!(unwritable.status.code(), Some(1));
}

/// A labelled picture has a colour bar, so it is larger than its cells alone, which `--bare` writes.
#[test]
fn a_png_is_labelled_unless_it_is_bare() {
    let folder = Folder::new();
    let size = |options: &str| {
        let file = exported(options, &folder.path("out.png"));
        let number = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().unwrap());
        [number(16), number(20)]
    };
    assert_eq!(size("the-cat-sat --bare"), [768, 768]);
    let [width, height] = size("the-cat-sat");
    assert!(width > height && [width, height] != [768, 768], "{width} × {height}");
    for options in [
        "--bare --to a.svg",
        "--bare --view lines --to a.png",
        "--view grid --to a.png",
        "--view lines --to a.csv",
    ] {
        refused(format!("export the-cat-sat {options}"));
    }
}

#[test]
fn lines_all_heads_and_pages_are_written() {
    let folder = Folder::new();
    let (file, _) = dump(&folder);
    let text = |options: &str, to: &str| text(&exported(options, &folder.path(to)));
    let lines = text(&format!("{file} --layer 1 --head 0 --view lines"), "lines.svg");
    assert!(lines.contains("<polyline") && lines.contains(" → "), "{lines}");
    let all_heads = format!("{file} --view grid");
    let grid = text(&all_heads, "grid.svg");
    for name in ["0.x", "1.x", "x.0", "x.2"] {
        assert!(grid.contains(&format!(">{name}</text>")), "{name}");
    }
    let page = text(&all_heads, "grid.html");
    assert!(page.contains("\"head 1.2\"") && page.contains("prefers-color-scheme"));
    let page = text("the-cat-sat", "cat.html");
    assert!(
        page.contains("\"labels\":[[\"The\"") || page.contains("\"labels\":[[\"the\""),
        "{page}"
    );
    let map = text(&format!("{all_heads} --map viridis"), "grid.svg");
    let [r, g, b] = Map::Viridis.at(1.0, Ground::Paper);
    assert!(map.contains(&format!("#{r:02x}{g:02x}{b:02x}")));
}

#[test]
fn the_weights_of_a_query_by_temperature_are_curves() {
    let folder = Folder::new();
    let curves = |name: &str| text(&exported("i-love-robotics --view curves", &folder.path(name)));
    let csv = curves("curves.csv");
    assert!(csv.starts_with("T,I,love,robotics\n0.01,"), "{csv}");
    let svg = curves("curves.svg");
    assert!(svg.contains("<polyline") && svg.contains(">robotics 0.299</text>"), "{svg}");
    for options in [
        "i-love-robotics --to a.npy",
        "layer-norm --to a.svg",
        "i-love-robotics --head 0 --to a.svg",
    ] {
        refused(format!("export {options} --view curves"));
    }
}

#[test]
fn a_session_exports_the_curves_and_the_grid_of_its_room() {
    let folder = Folder::new();
    let path = folder.path("session.json");
    let source = path.display();
    let text = |session: &Session, view: &str, to: &str| {
        save(session, &path);
        text(&exported(&format!("{source} --view {view}"), &folder.path(to)))
    };
    let refused = |session: &Session, view: &str| {
        save(session, &path);
        let to = folder.path("refused.svg");
        refused(format!("export {source} --view {view} --to {}", to.display()))
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

    let mut of_file = in_room(Room::Stage);
    of_file.model.file = Some(AttentionSource::Sample);
    for session in [of_file, in_room(Room::Stage)] {
        let grid = text(&session, "grid", "grid.svg");
        assert!(grid.contains(">0.x</text>") && grid.contains(">x.3</text>"));
        let error = refused(&session, "curves");
        assert!(error.contains("of this session shows no curves"), "{error}");
    }
    let example = regard_session::example(Example::ILoveRobotics);
    assert!(text(&example, "curves", "curves.csv").starts_with("T,I,love,robotics\n"));
    let error = refused(&example, "entropy");
    assert!(error.contains("for a session of the laboratory"), "{error}");
    // The first page shows a head of english for its sentence.
    let first = text(&regard_session::greeting(), "matrix", "first.csv");
    assert!(first.contains("Mary") && first.contains("<|endoftext|>"), "{first}");
}

/// The file has the numbers that the command prints as JSON.
#[test]
fn a_sweep_is_a_table_in_a_file() {
    let folder = Folder::new();
    let sweep = "sweep story --text 'Mia and Tom met. Tom gave the ball to'";
    let written = |options: &str, name: &str| {
        let to = folder.path(name);
        printed(format!("{sweep} {options} --to {}", to.display()));
        fs::read_to_string(to).unwrap()
    };
    let heads = "--ablate-each-head --logit Mia-Tom";
    let (csv, json) = (written(heads, "sweep.csv"), json(format!("{sweep} {heads}")));
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("layer \\ head,x.0,x.1"), "{csv}");
    for (layer, row) in json["effect"].as_array().unwrap().iter().enumerate() {
        let found: Vec<f32> =
            lines[layer + 1].split(',').skip(1).map(|x| x.parse().unwrap()).collect();
        let right: Vec<f32> =
            row.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect();
        assert_eq!(found, right, "layer {layer}");
    }
    let patches = "--patch-each-place --patch-text 'Mia and Tom met. Mia gave the ball to'";
    for (options, part) in [
        ("--ablate-each-head", ">x.3</text>"),
        ("--attribute-each-head", ">feed-forward</text>"),
        (patches, ">layer 3</text>"),
    ] {
        let svg = written(&format!("{options} --logit Mia"), "sweep.svg");
        assert!(svg.contains(part), "{options}: {svg}");
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
    let to = folder.path("out.svg");
    for (look, head) in LOOKS.into_iter().flat_map(|look| [(look, 0), (look, 1)]) {
        let mut session = Session { look, ..attention_session(&file) };
        session.model.heads.show(HeadId { layer: 0, head });
        let opened =
            OpenedHeads::open(&Native, session.model.file.clone().unwrap(), &unattended).unwrap();
        let matrix = opened.matrix(session.model.heads.clone(), look).unwrap();
        let svg = matrix.encode(Format::Svg).unwrap();
        let saved = folder.path("mine.regard.json");
        save(&session, &saved);
        assert!(exported(&saved.display().to_string(), &to) == svg);
        // Numbers of both signs have the diverging map, unless another one is requested.
        let map = if head == 0 { format!("--map {}", look.map.name()) } else { String::new() };
        let log = if look.logarithmic == Some(true) { "--log" } else { "" };
        let options = format!("{} --layer 0 --head {head} {map} {log}", file.display());
        assert!(exported(&options, &to) == svg, "{options}");
    }
}

#[test]
fn a_step_has_the_colours_of_the_window() {
    let folder = Folder::new();
    let walkthrough = Walkthrough::run(Example::ALL[0], &Settings::default()).unwrap();
    let weights = walkthrough.step(Quantity::Weights).unwrap();
    for look in LOOKS {
        let svg = of_step(&walkthrough, weights, look).encode(Format::Svg).unwrap();
        let log = if look.logarithmic == Some(true) { "--log" } else { "" };
        let (name, map) = (Example::ALL[0].name(), look.map.name());
        let options = format!("{name} --matrix weights --map {map} {log}");
        assert!(exported(&options, &folder.path("out.svg")) == svg);
    }
}

#[test]
fn bare_cells_of_a_table_need_a_map() {
    let walkthrough = Walkthrough::run(Example::LayerNorm, &Settings::default()).unwrap();
    let moments = walkthrough.steps.iter().find(|s| s.kind == Kind::Table).unwrap();
    let said = refused(format!("export layer-norm --matrix {} --bare --to a.png", moments.key));
    assert!(said.contains("--map"), "{said}");
}
