//! Exports have the colours of the screen, in every room and every look.

use crate::colors::Colors as _;
use crate::heads::OpenedHeads;
use crate::laboratory::{LaboratoryInputs, LaboratoryMatrix};
use crate::{Room, Session, attention as attention_session};
use egui::Color32;
use regard_figure::{Error, Format, Ground, LabelledMatrix, Look, Map, Palette, numbers};
use regard_heads::{HeadId, unattended};
use regard_session::walkthrough::of_step;
use regard_tests::attention_files::{Folder, bytes, safetensors, weights};
use regard_walkthrough::{Example, Quantity, Settings, Walkthrough};
use safetensors::Dtype;

use super::TestHost;
use super::driver::{Window, app, open, outcome};

const LOOKS: [Look; 2] = [
    Look { map: Map::YellowOrangeRed, logarithmic: Some(false), end: None, ground: Ground::Paper },
    Look { map: Map::Viridis, logarithmic: Some(true), end: None, ground: Ground::Paper },
];

/// The colour of each of the `n` × `n` cells of a PNG.
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

/// Checks that the file's cells and its colour bar are those of `numbers` on the screen.
fn looks_like(matrix: &LabelledMatrix, numbers: &[f32], palette: Palette, what: &str) {
    let n = matrix.rows.len();
    let palette = palette.on(Ground::Paper);
    let found = cells(&matrix.bare_png().unwrap(), n);
    for (found, x) in found.iter().zip(numbers) {
        let [r, g, b] = *found;
        assert_eq!(Color32::from_rgb(r, g, b), palette.color(*x), "{what}: {x}");
    }
    // The largest number has the map's last colour, and is never blank.
    let map = palette.map().unwrap();
    let largest = numbers
        .iter()
        .copied()
        .filter(|x| x.is_finite())
        .fold(0.0, |a: f32, x| if x.abs() > a.abs() { x } else { a });
    let place = numbers.iter().position(|x| *x == largest).unwrap();
    assert_eq!(
        found[place],
        map.at(if largest < 0.0 { 0.0 } else { 1.0 }, Ground::Paper),
        "{what}"
    );
    let svg = String::from_utf8(matrix.encode(Format::Svg).unwrap()).unwrap();
    let [low, _, high] = palette.marks().map(numbers::tick);
    assert!(
        svg.contains(&format!(">{low}</text>")) && svg.contains(&format!(">{high}</text>")),
        "{what}: {low} {high}"
    );
}

fn laboratory(look: Look, shown: LaboratoryMatrix) -> Window {
    let mut session = Session { room: Room::Laboratory, look, ..Session::default() };
    let state = &mut session.laboratory;
    state.shown = shown;
    state.pinned = (shown == LaboratoryMatrix::Difference).then(|| Box::new(state.inputs.clone()));
    state.inputs = LaboratoryInputs { seed: state.inputs.seed + 1, ..state.inputs.clone() };
    open(session, [1280.0, 900.0])
}

#[test]
fn of_the_laboratory() {
    for (look, shown) in LOOKS.into_iter().flat_map(|look| {
        [LaboratoryMatrix::Weights, LaboratoryMatrix::Scores, LaboratoryMatrix::Difference]
            .map(|s| (look, s))
    }) {
        let window = laboratory(look, shown);
        let (outcome, matrix) = (outcome(&window), app(&window).matrix().unwrap());
        looks_like(
            &matrix,
            &outcome.numbers,
            outcome.picture.palette(),
            &format!("{look:?} {shown:?}"),
        );
        let masked = outcome.numbers.iter().position(|x| *x == f32::NEG_INFINITY).unwrap();
        assert_eq!(cells(&matrix.bare_png().unwrap(), outcome.side)[masked], Ground::Paper.rgb());
        let csv = matrix.csv().unwrap();
        assert_eq!(csv.contains("-inf"), shown == LaboratoryMatrix::Scores, "a masked weight is 0");
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
    let file = dump(&folder, 100);
    for (look, head) in LOOKS.into_iter().flat_map(|look| [(look, 0), (look, 1)]) {
        let mut session = Session { look, ..attention_session(&file) };
        session.model.heads.show(HeadId { layer: 0, head });
        let window = open(session.clone(), [1280.0, 900.0]);
        let (selected, matrix) =
            (app(&window).model().large().selected().unwrap(), app(&window).matrix().unwrap());
        let palette = selected.picture.palette();
        let (low, high) = palette.range();
        assert_eq!(palette.is_diverging(), head == 1);
        assert!(head == 1 || low >= 0.0 && high == 0.02, "{low} {high}");
        looks_like(&matrix, &selected.numbers, palette, &format!("{look:?}, head {head}"));

        // The command line opens the file in this way, from the session or by its flags.
        let opened =
            OpenedHeads::open(&TestHost::DEFAULT, session.model.file.clone().unwrap(), &unattended)
                .unwrap();
        let theirs = opened.matrix(session.model.heads, look).unwrap();
        assert!(theirs.encode(Format::Png).unwrap() == matrix.encode(Format::Png).unwrap());
    }
}

#[test]
fn of_the_walkthrough() {
    let walkthrough = Walkthrough::run(Example::ALL[0], &Settings::default()).unwrap();
    let weights = walkthrough.step(Quantity::Weights).unwrap();
    for look in LOOKS {
        let window = open(Session { look, ..Session::default() }, [1280.0, 900.0]);
        let matrix = app(&window).matrix().unwrap();
        // Weights extend to 1, as the page shows them, whatever the largest is.
        assert_eq!(
            matrix.palette.range(),
            (if look.logarithmic == Some(true) { 1e-6 } else { 0.0 }, 1.0)
        );
        let (found, palette) = (
            cells(&matrix.bare_png().unwrap(), matrix.rows.len()),
            matrix.palette.on(Ground::Paper),
        );
        for (found, x) in found.iter().zip(weights.matrix.as_slice()) {
            assert_eq!(*found, palette.rgb(*x));
        }
        let theirs = of_step(&walkthrough, weights, look);
        assert!(theirs.encode(Format::Png).unwrap() == matrix.encode(Format::Png).unwrap());
    }
}

#[test]
fn a_table_has_no_colours_by_default() {
    let walkthrough = Walkthrough::run(Example::LayerNorm, &Settings::default()).unwrap();
    let moments =
        walkthrough.steps.iter().find(|s| s.kind == regard_walkthrough::Kind::Table).unwrap();
    let matrix = of_step(&walkthrough, moments, Look::default());
    assert!(
        matches!(matrix.bare_png(), Err(Error::Plain(name)) if name == moments.key.to_string())
    );
    let svg = String::from_utf8(matrix.encode(Format::Svg).unwrap()).unwrap();
    assert!(
        !svg.contains("crispEdges") && svg.matches("text-anchor=\"middle\">").count() > 0,
        "{svg}"
    );
    assert_eq!(svg.matches("<rect").count(), 1, "the paper alone");
    assert!(matrix.encode(Format::Png).is_ok(), "numbers alone");
    assert!(matrix.with_map(Map::Magma).bare_png().is_ok());
}
