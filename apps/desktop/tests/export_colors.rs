//! What is exported has the colours of the screen, in every room and every look.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "shared with tests that need more of it")]
mod driver;
#[expect(dead_code, reason = "shared with tests that need more of it")]
mod files;

use std::path::Path;
use std::process::Command;

use egui::Color32;
use regard_desktop::export::{Error, Format, Matrix};
use regard_desktop::heads::HeadId;
use regard_desktop::palette::{HIDDEN, Look, Map, Palette};
use regard_desktop::ui::laboratory::{Inputs, Shown};
use regard_desktop::ui::{Room, Session, attention as attention_session};
use regard_walkthrough::{Example, Quantity, Settings, Walkthrough};
use safetensors::Dtype;

use self::driver::{Window, app, open};
use self::files::{Folder, bytes, safetensors, weights};

const LOOKS: [Look; 2] = [
    Look { map: Map::YellowOrangeRed, logarithmic: false },
    Look { map: Map::Viridis, logarithmic: true },
];

/// The colour of each cell of a PNG: those of `n` × `n` cells.
fn cells(png: &[u8], n: usize) -> Vec<[u8; 3]> {
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let mut image = vec![0; reader.output_buffer_size().unwrap()];
    let width = reader.next_frame(&mut image).unwrap().width as usize;
    let side = width / n;
    let pixel = |row: usize, col: usize| 3 * (row * side * width + col * side);
    (0..n * n)
        .map(|i| pixel(i / n, i % n))
        .map(|at| [image[at], image[at + 1], image[at + 2]])
        .collect()
}

/// The file's cells and its colour bar are those of `numbers` on the screen.
fn looks_like(matrix: &Matrix, numbers: &[f32], palette: Palette, what: &str) {
    let n = matrix.rows.len();
    let found = cells(&matrix.encode(Format::Png).unwrap(), n);
    for (found, x) in found.iter().zip(numbers) {
        let [r, g, b] = *found;
        assert_eq!(Color32::from_rgb(r, g, b), palette.color(*x), "{what}: {x}");
    }
    // What matters most has the map's last colour, and is never blank.
    let map = palette.map().unwrap();
    let largest = numbers
        .iter()
        .copied()
        .filter(|x| x.is_finite())
        .fold(0.0, |a: f32, x| if x.abs() > a.abs() { x } else { a });
    let place = numbers.iter().position(|x| *x == largest).unwrap();
    assert_eq!(found[place], map.at(if largest < 0.0 { 0.0 } else { 1.0 }), "{what}");
    let svg = String::from_utf8(matrix.encode(Format::Svg).unwrap()).unwrap();
    let [low, _, high] = palette.marks().map(two_digits);
    assert!(
        svg.contains(&format!(">{low}</text>")) && svg.contains(&format!(">{high}</text>")),
        "{what}: {low} {high}"
    );
}

/// A number as the bar of the heatmap writes it, here for numbers that need no exponent but below 0.001.
fn two_digits(x: f32) -> String {
    let text = match x.abs() {
        0.0 => "0".to_owned(),
        size if size < 1e-3 => format!("{x:.1e}").replace(".0e", "e"),
        size => {
            let decimals = (1 - size.log10().floor() as i32).max(0) as usize;
            let text = format!("{x:.decimals$}");
            if text.contains('.') {
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            } else {
                text
            }
        }
    };
    text.replace('-', "−")
}

fn laboratory(look: Look, shown: Shown) -> Window {
    let mut session = Session { room: Room::Laboratory, look, ..Session::default() };
    let state = &mut session.laboratory;
    state.shown = shown;
    state.pinned = (shown == Shown::Difference).then(|| Box::new(state.inputs.clone()));
    state.inputs = Inputs { seed: state.inputs.seed + 1, ..state.inputs.clone() };
    open(session, [1280.0, 900.0])
}

#[test]
fn of_the_laboratory() {
    for (look, shown) in LOOKS
        .into_iter()
        .flat_map(|look| [Shown::Weights, Shown::Scores, Shown::Difference].map(|s| (look, s)))
    {
        let window = laboratory(look, shown);
        let (outcome, matrix) =
            (app(&window).laboratory().outcome().unwrap(), app(&window).matrix().unwrap());
        looks_like(
            &matrix,
            &outcome.numbers,
            outcome.picture.palette(),
            &format!("{look:?} {shown:?}"),
        );
        let masked = outcome.numbers.iter().position(|x| *x == f32::NEG_INFINITY).unwrap();
        assert_eq!(cells(&matrix.encode(Format::Png).unwrap(), outcome.side)[masked], HIDDEN);
        let csv = matrix.csv().unwrap();
        assert_eq!(csv.contains("-inf"), shown == Shown::Scores, "a masked weight is 0");
    }
}

/// A file of a head of weights and one of scores over so many tokens that each weight is small.
fn dump(folder: &Folder, n: usize) -> std::path::PathBuf {
    let mut values = weights(2 * n, n, 3);
    for w in &mut values {
        *w = w.min(0.015);
    }
    values[n] = 0.02;
    for score in &mut values[n * n..] {
        *score = 40.0 * *score - 0.5;
    }
    folder.file(
        "in.safetensors",
        safetensors(&[("attentions", Dtype::F32, &[1, 2, n, n], bytes(&values))], &[]),
    )
}

#[test]
fn of_heads() {
    let folder = Folder::new();
    let file = dump(&folder, 300);
    for (look, head) in LOOKS.into_iter().flat_map(|look| [(look, 0), (look, 1)]) {
        let mut session = Session { look, ..attention_session(&file) };
        session.heads.show(HeadId { layer: 0, head });
        let window = open(session.clone(), [1280.0, 900.0]);
        let (selected, matrix) =
            (app(&window).heads().selected().unwrap(), app(&window).matrix().unwrap());
        let palette = selected.picture.palette();
        let (low, high) = palette.range();
        assert_eq!(palette.is_diverging(), head == 1);
        assert!(head == 1 || low >= 0.0 && high == 0.02, "{low} {high}");
        looks_like(&matrix, &selected.numbers, palette, &format!("{look:?}, head {head}"));

        // The command line writes the same file, from the session and from the file.
        let png = matrix.encode(Format::Png).unwrap();
        let saved = folder.path("mine.regard.json");
        session.write(&saved).unwrap();
        assert!(exported(&folder, &[saved.to_str().unwrap()]) == png);
        let flags = [
            file.to_str().unwrap(),
            "--head",
            &head.to_string(),
            "--layer",
            "0",
            "--map",
            look.map.name(),
            "--log",
        ];
        let flags = &flags[..if look.logarithmic { 8 } else { 7 }];
        // Of both signs, the map is the diverging one unless another is asked for.
        let flags = if head == 1 { [&flags[..5], &flags[7..]].concat() } else { flags.to_vec() };
        assert!(exported(&folder, &flags) == png, "{flags:?}");
    }
}

fn exported(folder: &Folder, args: &[&str]) -> Vec<u8> {
    let to = folder.path("out.png");
    let run = Command::new(env!("CARGO_BIN_EXE_regard"))
        .arg("export")
        .args(args)
        .arg("--to")
        .arg(&to)
        .output()
        .unwrap();
    assert!(run.status.success(), "{args:?}: {}", String::from_utf8_lossy(&run.stderr));
    std::fs::read(to).unwrap()
}

#[test]
fn of_the_walkthrough() {
    let folder = Folder::new();
    let walkthrough = Walkthrough::run(Example::ALL[0], &Settings::default()).unwrap();
    let weights = walkthrough.step(Quantity::Weights).unwrap();
    for look in LOOKS {
        let window = open(Session { look, ..Session::default() }, [1280.0, 900.0]);
        let matrix = app(&window).matrix().unwrap();
        // Weights go to 1, as the page shows them, whatever the largest is.
        assert_eq!(matrix.palette.range(), (if look.logarithmic { 1e-6 } else { 0.0 }, 1.0));
        let (found, palette) =
            (cells(&matrix.encode(Format::Png).unwrap(), matrix.rows.len()), matrix.palette);
        for (found, x) in found.iter().zip(weights.matrix.as_slice()) {
            assert_eq!(*found, palette.rgb(*x));
        }
        let flags =
            [Example::ALL[0].name(), "--matrix", "weights", "--map", look.map.name(), "--log"];
        let flags = &flags[..if look.logarithmic { 6 } else { 5 }];
        assert!(exported(&folder, flags) == matrix.encode(Format::Png).unwrap());
    }
}

#[test]
fn a_table_has_no_colours_unless_some_are_asked_for() {
    let walkthrough = Walkthrough::run(Example::LayerNorm, &Settings::default()).unwrap();
    let moments =
        walkthrough.steps.iter().find(|s| s.kind == regard_walkthrough::Kind::Table).unwrap();
    let matrix = Matrix::of_step(&walkthrough, moments, Look::default());
    assert!(
        matches!(matrix.encode(Format::Png), Err(Error::Plain(name)) if name == moments.key.to_string())
    );
    let svg = String::from_utf8(matrix.encode(Format::Svg).unwrap()).unwrap();
    assert!(
        !svg.contains("linearGradient") && svg.matches("text-anchor=\"middle\">").count() > 0,
        "{svg}"
    );
    assert_eq!(svg.matches("<rect").count(), 1, "the paper alone");
    assert!(matrix.with_map(Map::Magma).encode(Format::Png).is_ok());
    let out = Path::new("/no/such/folder/a.png");
    let run = Command::new(env!("CARGO_BIN_EXE_regard"))
        .args([
            "export",
            "layer-norm",
            "--matrix",
            &moments.key.to_string(),
            "--to",
            out.to_str().unwrap(),
        ])
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&run.stderr).contains("--map"));
}
