//! A matrix as colours: maxima of blocks for a matrix larger than the screen, and the texture of the visible part.

use core::cell::RefCell;
use core::ops::Range;

use egui::{Color32, Context, Id, Mesh, Painter, Rect, TextureHandle, TextureId, TextureOptions};
use rayon::prelude::*;
use regard_figure::Ground;
use regard_heads::packed;
use serde::{Deserialize, Serialize};

use crate::colors::{self, Colors as _, Palette};

/// Blocks are pooled until at most this many rows and columns remain.
const SMALL: usize = 64;

/// The maxima of a matrix's blocks, to draw it at any size. It does not hold the numbers themselves, and takes a third of their
/// memory, or as much as they if one side is far longer than the other.
#[derive(Serialize, Deserialize)]
pub struct Picture {
    palette: Palette,
    shape: (usize, usize),
    /// Level 1 has blocks of 2 × 2 cells, level 2 of 4 × 4, and so on. While one side is more than twice as long as the other, it
    /// alone is halved, so that four rows of 1500 columns stay four.
    levels: Vec<Level>,
    #[serde(skip)]
    drawn: RefCell<Option<DrawnTexture>>,
}

#[derive(Serialize, Deserialize)]
struct Level {
    #[serde(with = "packed")]
    numbers: Vec<f32>,
    rows: usize,
    cols: usize,
    /// A block has 2ⁿ rows and 2ᵐ columns.
    halved: [usize; 2],
}

struct DrawnTexture {
    blocks: Blocks,
    palette: Palette,
    texture: TextureHandle,
    /// The runs of masked blocks: a row, and the columns from and to.
    masked: Vec<(usize, Range<usize>)>,
}

/// More runs of masked blocks than this would be finer than their hatch.
const MOST_RUNS: usize = 1 << 13;

/// A range of a level's blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    pub(crate) level: usize,
    pub(crate) rows: Range<usize>,
    pub(crate) cols: Range<usize>,
}

impl Picture {
    /// The picture of a matrix, row by row, of `cols` columns.
    pub fn new(numbers: &[f32], cols: usize, palette: Palette) -> Self {
        let shape = (numbers.len() / cols.max(1), cols);
        let mut levels: Vec<Level> = Vec::new();
        loop {
            let (from, (rows, cols), halved) = match levels.last() {
                Some(level) => (&level.numbers[..], (level.rows, level.cols), level.halved),
                None => (numbers, shape, [0, 0]),
            };
            let longer = rows.max(cols);
            if longer <= SMALL {
                break;
            }
            let halves = [rows, cols].map(|side| 2 * side >= longer);
            let level = if palette.is_diverging() {
                pool(from, cols, halves, farther)
            } else {
                pool(from, cols, halves, greater)
            };
            let halved = [0, 1].map(|i| halved[i] + usize::from(halves[i]));
            levels.push(Level { halved, ..level });
        }
        Self { palette, shape, levels, drawn: RefCell::new(None) }
    }

    pub(crate) fn palette(&self) -> Palette {
        self.palette
    }

    pub(crate) fn set_palette(&mut self, palette: Palette) {
        debug_assert_eq!(
            palette.is_diverging(),
            self.palette.is_diverging(),
            "pooled for the other kind"
        );
        self.palette = palette;
    }

    /// The largest absolute value of the numbers. Negative numbers are allowed only with diverging colours.
    ///
    /// It is searched among the largest blocks, unless one holds NaN or ∞.
    pub(crate) fn largest(&self, numbers: &[f32]) -> f32 {
        let blocks = self.levels.last().map_or(numbers, |level| &level.numbers[..]);
        let hides = |x: &f32| x.is_nan() || *x == f32::INFINITY;
        if blocks.iter().any(hides) {
            return numbers.par_chunks(1 << 14).map(colors::largest).reduce(|| 0.0, f32::max);
        }
        colors::largest(blocks)
    }

    pub(crate) fn levels(&self) -> usize {
        self.levels.len()
    }

    /// The powers of 2 of a level's blocks: its rows and its columns.
    pub(super) fn halved(&self, level: usize) -> [usize; 2] {
        let level = level.checked_sub(1).and_then(|i| self.levels.get(i));
        level.map_or([0, 0], |level| level.halved)
    }

    /// The blocks of a level that cover these cells.
    pub fn blocks(&self, level: usize, rows: Range<usize>, cols: Range<usize>) -> Blocks {
        let [down, across] = self.halved(level);
        let covering =
            |cells: Range<usize>, by: usize| cells.start >> by..cells.end.div_ceil(1 << by);
        Blocks { level, rows: covering(rows, down), cols: covering(cols, across) }
    }

    /// Draws a hatch on the masked blocks of the texture that was made last. `place` is the rectangle of the blocks in a row
    /// and some columns.
    pub(super) fn hatch(
        &self,
        painter: &Painter,
        place: impl Fn(&Range<usize>, &Range<usize>) -> Rect,
    ) {
        const PERIOD: f32 = 8.0;
        let drawn = self.drawn.borrow();
        let runs = drawn.as_ref().map_or(&[][..], |drawn| &drawn.masked);
        if runs.is_empty() {
            return;
        }
        let mut mesh = Mesh::with_texture(hatch(painter.ctx(), self.palette.ground()));
        for (row, cols) in runs {
            let rect = place(&(*row..row + 1), cols).intersect(painter.clip_rect());
            if rect.is_positive() {
                let uv = Rect::from_min_max(
                    (rect.min.to_vec2() / PERIOD).to_pos2(),
                    (rect.max.to_vec2() / PERIOD).to_pos2(),
                );
                mesh.add_rect_with_uv(rect, uv, Color32::WHITE);
            }
        }
        painter.add(mesh);
    }

    /// A texture that contains these blocks, and all the blocks that it contains.
    ///
    /// The texture of the previous call is used again if it contains the blocks in the same colours. A new one has a margin, so
    /// that it lasts while the view moves.
    pub fn texture(
        &self,
        ctx: &Context,
        name: &str,
        numbers: &[f32],
        blocks: &Blocks,
    ) -> (TextureId, Blocks) {
        let mut drawn = self.drawn.borrow_mut();
        if let Some(drawn) = &*drawn
            && drawn.blocks.has(blocks)
            && drawn.palette == self.palette
        {
            return (drawn.texture.id(), drawn.blocks.clone());
        }
        let (from, (rows, cols)) =
            match blocks.level.checked_sub(1).and_then(|i| self.levels.get(i)) {
                Some(level) => (&level.numbers[..], (level.rows, level.cols)),
                None => (numbers, self.shape),
            };
        let blocks = Blocks {
            level: blocks.level,
            rows: around(&blocks.rows, rows),
            cols: around(&blocks.cols, cols),
        };
        let color = self.palette.colors();
        let mut texels = vec![Color32::TRANSPARENT; blocks.rows.len() * blocks.cols.len()];
        let mut masked = Vec::new();
        // This runs in the window's thread, which must not wait for a pool that computes the next picture.
        for (texels, row) in
            texels.chunks_exact_mut(blocks.cols.len().max(1)).zip(blocks.rows.clone())
        {
            let numbers = &from[row * cols..][blocks.cols.clone()];
            let mut col = blocks.cols.start;
            for run in numbers.chunk_by(|a, b| is_masked(*a) == is_masked(*b)) {
                if run.first().copied().is_some_and(is_masked) && masked.len() <= MOST_RUNS {
                    masked.push((row, col..col + run.len()));
                }
                col += run.len();
            }
            for (texel, x) in texels.iter_mut().zip(numbers) {
                *texel = color(*x);
            }
        }
        if masked.len() > MOST_RUNS {
            masked.clear();
        }
        let image = egui::ColorImage::new([blocks.cols.len(), blocks.rows.len()], texels);
        let texture = match drawn.take() {
            Some(mut before) => {
                before.texture.set(image, TextureOptions::NEAREST);
                before.texture
            }
            None => ctx.load_texture(name, image, TextureOptions::NEAREST),
        };
        let id = texture.id();
        *drawn =
            Some(DrawnTexture { blocks: blocks.clone(), palette: self.palette, texture, masked });
        (id, blocks)
    }
}

impl Blocks {
    /// The margin of a texture on each side is this fraction of its blocks: an eighth.
    const AROUND: usize = 8;

    fn has(&self, other: &Self) -> bool {
        let has = |a: &Range<usize>, b: &Range<usize>| a.start <= b.start && b.end <= a.end;
        self.level == other.level && has(&self.rows, &other.rows) && has(&self.cols, &other.cols)
    }

    /// The longer side of the texture that these blocks need.
    pub(crate) fn texture_side(&self) -> usize {
        let side = self.rows.len().max(self.cols.len());
        side + 2 * (side / Self::AROUND)
    }
}

fn is_masked(x: f32) -> bool {
    x == f32::NEG_INFINITY
}

/// The texture of a hatch, which repeats.
fn hatch(ctx: &Context, ground: Ground) -> TextureId {
    const SIDE: usize = 16;
    let id = Id::unique(("hatch", ground));
    if let Some(texture) = ctx.data(|data| data.get_temp::<TextureHandle>(id)) {
        return texture.id();
    }
    let [r, g, b] = ground.hatch();
    let line = |i: usize| (i % SIDE + i / SIDE) % SIDE < 2;
    let color = |i| if line(i) { Color32::from_rgb(r, g, b) } else { Color32::TRANSPARENT };
    let image = egui::ColorImage::new([SIDE; 2], (0..SIDE * SIDE).map(color).collect());
    let texture = ctx.load_texture("hatch", image, TextureOptions::LINEAR_REPEAT);
    let made = texture.id();
    ctx.data_mut(|data| data.insert_temp(id, texture));
    made
}

/// The blocks with a margin on both sides, within the matrix.
fn around(blocks: &Range<usize>, all: usize) -> Range<usize> {
    let more = blocks.len() / Blocks::AROUND;
    let end = (blocks.end + more).min(all);
    blocks.start.saturating_sub(more).min(end)..end
}

/// Blocks of 2 × 2 numbers, or fewer at an odd end, or of 2 along the only side that is halved. `pick` chooses the number of a block.
fn pool(
    numbers: &[f32],
    cols: usize,
    [by_rows, by_cols]: [bool; 2],
    pick: impl Fn(f32, f32) -> f32 + Sync,
) -> Level {
    let half = if by_cols { cols.div_ceil(2) } else { cols };
    let all = numbers.len().div_ceil(cols.max(1));
    let (rows, height) = if by_rows { (all.div_ceil(2), 2) } else { (all, 1) };
    let mut pooled = vec![0.0; rows * half];
    let each = |(out, rows): (&mut [f32], &[f32])| {
        let (upper, lower) = rows.split_at(cols.min(rows.len()));
        let lower = if lower.is_empty() { upper } else { lower };
        if !by_cols {
            for ((out, upper), lower) in out.iter_mut().zip(upper).zip(lower) {
                *out = pick(*upper, *lower);
            }
            return;
        }
        for ((out, upper), lower) in
            out.iter_mut().zip(upper.chunks_exact(2)).zip(lower.chunks_exact(2))
        {
            *out = pick(pick(upper[0], lower[0]), pick(upper[1], lower[1]));
        }
        if cols % 2 == 1 {
            out[cols / 2] = pick(upper[cols - 1], lower[cols - 1]);
        }
    };
    let some_rows = (height * cols).max(1);
    if numbers.len() < 1 << 16 {
        pooled.chunks_mut(half.max(1)).zip(numbers.chunks(some_rows)).for_each(each);
    } else {
        pooled
            .par_chunks_mut(half)
            .zip(numbers.par_chunks(some_rows))
            .with_min_len(16)
            .for_each(each);
    }
    Level { numbers: pooled, rows, cols: half, halved: [0, 0] }
}

/// The greater of two numbers. NaN wins, so that it is never missed. −∞ loses.
fn greater(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// The number farther from 0. NaN wins. −∞, which marks a masked cell, loses.
fn farther(a: f32, b: f32) -> f32 {
    let size = |x: f32| if x == f32::NEG_INFINITY { -1.0 } else { x.abs() };
    if size(a) > size(b) || a.is_nan() { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colors::Look;

    /// The largest of a block, found cell by cell.
    fn block(
        numbers: &[f32],
        (rows, cols): (usize, usize),
        halved: [usize; 2],
        (i, j): (usize, usize),
    ) -> f32 {
        let [high, wide] = halved.map(|n| 1 << n);
        let cells = (i * high..((i + 1) * high).min(rows))
            .flat_map(|r| (j * wide..((j + 1) * wide).min(cols)).map(move |c| (r, c)));
        cells.map(|(r, c)| numbers[r * cols + c]).fold(f32::NEG_INFINITY, |a, b| {
            if a.is_nan() || b.is_nan() { f32::NAN } else { a.max(b) }
        })
    }

    #[test]
    fn a_block_has_the_largest_of_its_cells() {
        for shape in [(130, 131), (1, 300), (257, 2), (65, 65), (400, 403)] {
            let (rows, cols) = shape;
            let mut numbers: Vec<f32> =
                (0..rows * cols).map(|i| ((i * 7919) % 10007) as f32).collect();
            numbers[rows * cols / 2] = f32::NAN;
            numbers[0] = f32::NEG_INFINITY;
            let picture = Picture::new(&numbers, cols, Palette::weights(1.0, Look::default()));
            assert!(picture.levels() > 0);
            for (i, level) in picture.levels.iter().enumerate() {
                let [high, wide] = level.halved.map(|n| 1 << n);
                assert_eq!((level.rows, level.cols), (rows.div_ceil(high), cols.div_ceil(wide)));
                for row in 0..level.rows {
                    for col in 0..level.cols {
                        let (found, right) = (
                            level.numbers[row * level.cols + col],
                            block(&numbers, shape, level.halved, (row, col)),
                        );
                        assert!(
                            found == right || found.is_nan() && right.is_nan(),
                            "{shape:?} {i} {row} {col}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn the_longer_side_is_halved_first() {
        let halved = |rows: usize, cols: usize| -> Vec<[usize; 2]> {
            let picture = Picture::new(&vec![0.0; rows * cols], cols, Palette::PLAIN);
            (1..=picture.levels()).map(|level| picture.halved(level)).collect()
        };
        assert_eq!(halved(256, 256), [[1, 1], [2, 2]]);
        assert_eq!(halved(4, 300), [[0, 1], [0, 2], [0, 3]]);
        assert_eq!(halved(100, 400), [[0, 1], [1, 2], [2, 3]]);
        let picture = Picture::new(&[0.0; 4 * 300], 300, Palette::PLAIN);
        let Blocks { rows, cols, .. } = picture.blocks(2, 0..4, 8..20);
        assert_eq!((rows, cols), (0..4, 2..5));
    }

    #[test]
    fn a_block_of_both_signs_has_the_farthest_from_zero_and_is_masked_only_if_all_cells_are() {
        let masked = f32::NEG_INFINITY;
        assert_eq!(farther(-3.0, 2.0), -3.0);
        assert_eq!(farther(2.0, -3.0), -3.0);
        assert_eq!(farther(masked, 0.0), 0.0);
        assert_eq!(farther(0.0, masked), 0.0);
        assert_eq!(farther(masked, masked), masked);
        assert!(farther(f32::NAN, 1.0).is_nan() && farther(1.0, f32::NAN).is_nan());
        assert!(greater(f32::NAN, 1.0).is_nan() && greater(1.0, f32::NAN).is_nan());
    }

    /// The texels of the texture that was made last.
    fn texels(ctx: &Context) -> Vec<Color32> {
        let mut delta = ctx.tex_manager().write().take_delta();
        let (_, changes) = delta.set.iter().max_by_key(|(id, _)| *id).unwrap();
        let egui::ImageData::Color(image) = &changes.last().unwrap().image;
        let texels = image.pixels.clone();
        delta.clear();
        texels
    }

    #[test]
    fn a_texture_has_the_colours_of_its_part_and_lasts_while_it_moves_a_little() {
        let (ctx, cols) = (Context::default(), 300);
        let mut numbers: Vec<f32> =
            (0..cols * 500).map(|i| ((i * 7919) % 10007) as f32 / 10007.0).collect();
        numbers[250 * cols + 150] = f32::NAN;
        numbers[251 * cols + 150] = f32::NEG_INFINITY;
        let mut picture = Picture::new(&numbers, cols, Palette::weights(1.0, Look::default()));
        let asked = picture.blocks(0, 200..300, 100..200);
        let (id, blocks) = picture.texture(&ctx, "x", &numbers, &asked);
        assert_eq!((blocks.rows.clone(), blocks.cols.clone()), (188..312, 88..212));
        let colors: Vec<Color32> = blocks
            .rows
            .clone()
            .flat_map(|row| blocks.cols.clone().map(move |col| row * cols + col))
            .map(|i| picture.palette().color(numbers[i]))
            .collect();
        assert_eq!(texels(&ctx), colors);
        let moved = picture.blocks(0, 210..310, 90..190);
        assert_eq!(picture.texture(&ctx, "x", &numbers, &moved), (id, blocks));
        let far = picture.blocks(0, 400..500, 200..300);
        let (same, blocks) = picture.texture(&ctx, "x", &numbers, &far);
        assert_eq!((same, blocks.rows, blocks.cols), (id, 388..500, 188..300));
        let before = texels(&ctx);
        picture.set_palette(Palette::weights(0.5, Look::default()));
        picture.texture(&ctx, "x", &numbers, &far);
        assert_ne!(texels(&ctx), before);
        let coarse = picture.blocks(2, 0..500, 0..300);
        assert_eq!(picture.texture(&ctx, "x", &numbers, &coarse).1, coarse);
    }

    #[test]
    fn the_largest_number_is_found_without_looking_at_all() {
        let mut numbers = vec![0.25; 200 * 100];
        numbers[12_345] = 0.75;
        numbers[0] = f32::NEG_INFINITY;
        let largest =
            |numbers: &[f32], palette| Picture::new(numbers, 100, palette).largest(numbers);
        let (weights, signed) =
            (Palette::weights(1.0, Look::default()), Palette::signed(1.0, Look::default()));
        assert_eq!(largest(&numbers, weights), 0.75);
        numbers[12_344] = -0.875;
        assert_eq!(largest(&numbers, signed), 0.875);
        // A special number hides the other numbers of its block.
        for special in [f32::NAN, f32::INFINITY] {
            numbers[12_346] = special;
            assert_eq!(largest(&numbers, signed), 0.875);
        }
        assert_eq!(largest(&[0.5, f32::NAN, 0.25], weights), 0.5);
        assert_eq!(largest(&[], weights), 0.0);
    }

    #[test]
    fn a_picture_takes_a_third_of_the_numbers() {
        let numbers = vec![0.0; 1024 * 1024];
        let picture = Picture::new(&numbers, 1024, Palette::PLAIN);
        let bytes: usize = picture.levels.iter().map(|level| size_of_val(&level.numbers[..])).sum();
        assert!(bytes < size_of_val(&numbers[..]) * 34 / 100, "{bytes}");
    }
}
