//! Tests that the model reads the images that training held back, and that its card states how well and by which heads.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::array;
use core::fmt::Write as _;

use regard_digits::{FILES, SIDE, held_back};
use regard_models::{Ablation, Change, Checkpoint, HeadAddress, ImageProcessor, Input, Model};

const CARD: &str = include_str!("../README.md");
/// The share of the held-back images that the model must read.
const GOAL: f64 = 0.975;
/// The rows and columns of patches.
const GRID: usize = SIDE / 2;

/// The images in the form that the model reads.
fn images(checkpoint: &Checkpoint, model: &Model) -> Vec<Input> {
    let processor = ImageProcessor::of(checkpoint, model.description()).unwrap();
    let read = |pixels: &[u8]| {
        let rgb: Vec<u8> = pixels.iter().flat_map(|ink| [*ink; 3]).collect();
        processor.read(&rgb, [SIDE, SIDE]).unwrap()
    };
    held_back().map(|digit| read(digit.pixels)).collect()
}

/// The digits of the images while a head's output is zero: how many images of each digit (rows) are read as each digit.
fn confusion(model: &Model, images: &[Input], ablated: Option<HeadAddress>) -> [[usize; 10]; 10] {
    let mut counts = [[0; 10]; 10];
    let pass = ablated.map_or_else(
        || model.pass(),
        |head| model.pass().change(Change::Ablate { head, to: Ablation::Zero }),
    );
    for (input, digit) in images.iter().zip(held_back()) {
        let trace = pass.run(input).unwrap();
        let logits = &trace.logits().unwrap().data;
        let best = (0..10).max_by(|i, j| logits[*i].total_cmp(&logits[*j])).unwrap();
        counts[usize::from(digit.label)][best] += 1;
    }
    counts
}

/// The number of images that are read correctly.
fn right(confusion: &[[usize; 10]; 10]) -> usize {
    (0..10).map(|i| confusion[i][i]).sum()
}

/// The mean weights of a head over all images: of the class token on itself, on patches with ink, and on the rows of patches; of
/// the patches on the class token, on themselves, and on the patches at their four sides.
struct Looks {
    class: [f64; 2],
    ink: f64,
    rows: [f64; GRID],
    patches: [f64; 3],
}

fn looks(model: &Model, images: &[Input], head: HeadAddress) -> Looks {
    const TOKENS: usize = 1 + GRID * GRID;
    let place = format!("{}.hook_pattern", head.places());
    let (mut mean, mut ink) = ([[0.0; TOKENS]; TOKENS], 0.0);
    for (input, digit) in images.iter().zip(held_back()) {
        let trace = model.pass().keep([place.as_str()]).run(input).unwrap();
        let pattern = &trace.get(&place).unwrap().data[head.head * TOKENS * TOKENS..];
        for (i, row) in mean.iter_mut().enumerate() {
            for (j, mean) in row.iter_mut().enumerate() {
                *mean += f64::from(pattern[i * TOKENS + j]) / images.len() as f64;
            }
        }
        // A patch has ink if a pixel of it is at least half dark.
        let has_ink = |patch: usize| {
            let (top, left) = (patch / GRID * 2, patch % GRID * 2);
            [0, 1, SIDE, SIDE + 1].iter().any(|at| digit.pixels[top * SIDE + left + at] >= 128)
        };
        let inked = (1..TOKENS).filter(|token| has_ink(token - 1));
        ink += inked.map(|token| f64::from(pattern[token])).sum::<f64>() / images.len() as f64;
    }
    let patches = 1..TOKENS;
    let count = patches.len() as f64;
    let beside = |i: usize, j: usize| {
        let [[y, x], [v, w]] = [i - 1, j - 1].map(|patch| [patch / GRID, patch % GRID]);
        y.abs_diff(v) + x.abs_diff(w) == 1
    };
    let sides =
        |i: usize| patches.clone().filter(move |j| beside(i, *j)).map(|j| mean[i][j]).sum::<f64>();
    Looks {
        class: [mean[0][0], 1.0 - mean[0][0]],
        ink,
        rows: array::from_fn(|row| (0..GRID).map(|x| mean[0][1 + row * GRID + x]).sum()),
        patches: [
            patches.clone().map(|i| mean[i][0]).sum::<f64>() / count,
            patches.clone().map(|i| mean[i][i]).sum::<f64>() / count,
            patches.clone().map(sides).sum::<f64>() / count,
        ],
    }
}

#[test]
fn the_card_has_what_is_measured() {
    let checkpoint = Checkpoint::from_files("digits", FILES).unwrap();
    let model = Model::load(&checkpoint).unwrap();
    assert!(model.unused().is_empty(), "{:?}", model.unused());
    let images = images(&checkpoint, &model);
    let unchanged = confusion(&model, &images, None);
    let share = right(&unchanged) as f64 / images.len() as f64;
    let mut card = format!(
        "{} of {} held-back images, {:.1} %\n",
        right(&unchanged),
        images.len(),
        100.0 * share
    );
    for (digit, row) in unchanged.iter().enumerate() {
        let cells = row.map(|n| if n == 0 { String::new() } else { format!("{n}") });
        let _ = writeln!(card, "| **{digit}** | {} |", cells.join(" | "));
    }
    for head in model.description().heads() {
        let without = confusion(&model, &images, Some(head));
        let places = (0..10).flat_map(|i| (0..10).map(move |j| (i, j))).filter(|(i, j)| i != j);
        let gained = |(i, j): &(usize, usize)| without[*i][*j] as i64 - unchanged[*i][*j] as i64;
        let most = places.max_by_key(gained).unwrap();
        let looks = looks(&model, &images, head);
        let two = |x: f64| format!("{x:.2}");
        let numbers: Vec<String> = [looks.class[0], looks.ink]
            .into_iter()
            .chain(looks.rows)
            .chain(looks.patches)
            .map(two)
            .collect();
        let _ = writeln!(
            card,
            "| {head} | {} | {} | {} as {}: {} |",
            numbers.join(" | "),
            right(&without),
            most.0,
            most.1,
            gained(&most),
        );
    }
    println!("{card}");
    assert!(share >= GOAL, "{share}");
    for line in card.lines() {
        assert!(CARD.contains(line), "the card lacks: {line}");
    }
}
