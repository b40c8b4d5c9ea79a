//! Tests that the model reads the images that training held back, and that its card states how well and by which heads.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::fmt::Write as _;

use regard_digits::{FILES, SIDE, held_back};
use regard_models::{
    Ablation, AttentionPlace, Change, Checkpoint, HeadAddress, ImageProcessor, Input, Logits,
    Model, Values,
};

const CARD: &str = include_str!("../README.md");
/// The share of the held-back images that the model must read.
const GOAL: f64 = 0.975;
/// The rows and columns of patches.
const GRID: usize = SIDE / 2;
/// The class token and the patches.
const TOKENS: usize = 1 + GRID * GRID;

/// The images in the form that the model reads.
fn images(checkpoint: &Checkpoint, model: &Model) -> Vec<Input> {
    let processor = ImageProcessor::of(checkpoint, model.description()).unwrap();
    let read = |pixels: &[u8]| {
        let rgb: Vec<u8> = pixels.iter().flat_map(|ink| [*ink; 3]).collect();
        processor.read(&rgb, [SIDE, SIDE]).unwrap()
    };
    held_back().map(|digit| read(digit.pixels)).collect()
}

/// How many images of each digit (rows) are read as each digit.
#[derive(Clone, Copy, Default)]
struct Confusion([[usize; 10]; 10]);

impl Confusion {
    fn add(&mut self, digit: u8, logits: &Values) {
        let best = (0..10).max_by(|i, j| logits.data[*i].total_cmp(&logits.data[*j])).unwrap();
        self.0[usize::from(digit)][best] += 1;
    }

    /// The number of images that are read correctly.
    fn right(&self) -> usize {
        (0..10).map(|i| self.0[i][i]).sum()
    }
}

/// The mean weights of a head over all images, and the mean weight of the class token on patches with ink.
#[derive(Clone)]
struct Looks {
    mean: Vec<[f64; TOKENS]>,
    ink: f64,
}

impl Looks {
    /// Adds this share of a head's weights on an image.
    fn add(&mut self, pattern: &[f32], pixels: &[u8], share: f64) {
        let weights = self.mean.as_flattened_mut().iter_mut().zip(pattern);
        weights.for_each(|(mean, weight)| *mean += f64::from(*weight) * share);
        // A patch has ink if a pixel of it is at least half dark.
        let has_ink = |patch: usize| {
            let (top, left) = (patch / GRID * 2, patch % GRID * 2);
            [0, 1, SIDE, SIDE + 1].iter().any(|at| pixels[top * SIDE + left + at] >= 128)
        };
        let inked = (1..TOKENS).filter(|token| has_ink(token - 1));
        self.ink += inked.map(|token| f64::from(pattern[token])).sum::<f64>() * share;
    }

    /// The weights of the class token on itself, on patches with ink, and on the rows of patches; those of the patches on the
    /// class token, on themselves, and on the patches at their four sides.
    fn numbers(&self) -> Vec<f64> {
        let mean = &self.mean;
        let patches = 1..TOKENS;
        let beside = |i: usize, j: usize| {
            let [[y, x], [v, w]] = [i - 1, j - 1].map(|patch| [patch / GRID, patch % GRID]);
            y.abs_diff(v) + x.abs_diff(w) == 1
        };
        let sides = |i: usize| {
            patches.clone().filter(move |j| beside(i, *j)).map(|j| mean[i][j]).sum::<f64>()
        };
        let of_patches = |weight: &dyn Fn(usize) -> f64| {
            patches.clone().map(weight).sum::<f64>() / (TOKENS - 1) as f64
        };
        let rows = mean[0][1..].chunks(GRID).map(|row| row.iter().sum());
        let on_patches =
            [of_patches(&|i| mean[i][0]), of_patches(&|i| mean[i][i]), of_patches(&sides)];
        [mean[0][0], self.ink].into_iter().chain(rows).chain(on_patches).collect()
    }
}

#[test]
fn the_card_has_what_is_measured() {
    let checkpoint = Checkpoint::from_files("digits", FILES).unwrap();
    let model = Model::load(&checkpoint).unwrap();
    assert!(model.unused().is_empty(), "{:?}", model.unused());
    let images = images(&checkpoint, &model);
    let heads = model.description().heads();
    let ablate = |head: &HeadAddress| Change::Ablate { head: *head, to: Ablation::Zero };
    let ablated: Vec<Change> = heads.iter().map(ablate).collect();
    let (mut unchanged, mut without) =
        (Confusion::default(), vec![Confusion::default(); heads.len()]);
    let mut looks = vec![Looks { mean: vec![[0.0; TOKENS]; TOKENS], ink: 0.0 }; heads.len()];
    for (input, digit) in images.iter().zip(held_back()) {
        let baseline = model.baseline(input).unwrap();
        unchanged.add(digit.label, baseline.logits().unwrap());
        let logits = model.sweep(&baseline, &ablated, Logits::All, &mut |_| Ok(())).unwrap();
        without.iter_mut().zip(&logits).for_each(|(counts, x)| counts.add(digit.label, x));
        let trace = model.pass().keep(["*hook_pattern"]).run(input).unwrap();
        for (head, looks) in heads.iter().zip(&mut looks) {
            let pattern = &trace.at(head.place(AttentionPlace::Pattern)).unwrap().data;
            let pattern = &pattern[head.head * TOKENS * TOKENS..][..TOKENS * TOKENS];
            looks.add(pattern, digit.pixels, 1.0 / images.len() as f64);
        }
    }
    let share = unchanged.right() as f64 / images.len() as f64;
    let mut card = format!(
        "{} of {} held-back images, {:.1} %\n",
        unchanged.right(),
        images.len(),
        100.0 * share
    );
    for (digit, row) in unchanged.0.iter().enumerate() {
        let cells = row.map(|n| if n == 0 { String::new() } else { format!("{n}") });
        let _ = writeln!(card, "| **{digit}** | {} |", cells.join(" | "));
    }
    for ((head, without), looks) in heads.iter().zip(&without).zip(&looks) {
        let places = (0..10).flat_map(|i| (0..10).map(move |j| (i, j))).filter(|(i, j)| i != j);
        let gained =
            |(i, j): &(usize, usize)| without.0[*i][*j] as i64 - unchanged.0[*i][*j] as i64;
        let most = places.max_by_key(gained).unwrap();
        let numbers: Vec<String> = looks.numbers().iter().map(|x| format!("{x:.2}")).collect();
        let _ = writeln!(
            card,
            "| {head} | {} | {} | {} as {}: {} |",
            numbers.join(" | "),
            without.right(),
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
