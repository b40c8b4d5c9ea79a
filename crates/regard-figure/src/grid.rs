//! Many small matrices in rows, such as all heads of a model.

use std::sync::Arc;

use crate::figure::{Anchor, Cells, Figure, Ink, Shape, Text, Told};
use crate::heatmap::{FONT, GAP, TITLE, TITLE_LINE, legend_width, push_bar, title};
use crate::text::width;
use crate::{COLORS, Ground, Label, Palette};

/// The width of a row of matrices, if the limits of a matrix allow it.
const WIDTH: f64 = 960.0;
const NARROWEST: f64 = 48.0;
const WIDEST: f64 = 160.0;
/// The least part of a matrix's longer side that its shorter side has.
const SHORTEST: f64 = 0.35;
/// Every so many colours of a map are used. The eye does not miss the others in pictures as small as these, which have a tenth of
/// the bytes with a table of colours. The ends and the middle of a map are among them.
const COARSE: usize = 16;

/// A small matrix of a [`Grid`].
#[derive(Clone, Debug)]
pub struct Small {
    /// Its name, such as "layer 3, head 5".
    pub name: String,
    /// The numbers, row by row.
    pub values: Arc<Vec<f32>>,
    /// Its colours.
    pub palette: Palette,
}

/// Small matrices of the same shape in rows and columns with names: a picture of all heads, with a row for each layer.
///
/// ```
/// use std::sync::Arc;
/// use regard_figure::{Grid, Label, Look, Palette, Small};
/// let labels = Label::numbers(2);
/// let palette = Palette::weights(1.0, Look::default());
/// let small = |name: &str| Small { name: name.to_owned(), values: Arc::new(vec![1.0, 0.0, 0.5, 0.5]), palette };
/// let grid = Grid {
///     title: "All heads".to_owned(),
///     rows: vec!["layer 0".to_owned()],
///     cols: vec!["head 0".to_owned(), "head 1".to_owned()],
///     labels: [&labels, &labels],
///     axes: ["query", "key"],
///     matrices: vec![small("layer 0, head 0"), small("layer 0, head 1")],
/// };
/// assert!(grid.figure().svg()?.contains(">head 1</text>"));
/// # Ok::<(), regard_figure::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Grid<'a> {
    /// The title of the figure.
    pub title: String,
    /// The names of the rows of matrices.
    pub rows: Vec<String>,
    /// The names of the columns of matrices.
    pub cols: Vec<String>,
    /// The labels of the rows and the columns of each matrix.
    pub labels: [&'a [Label]; 2],
    /// The meaning of the rows and of the columns of each matrix.
    pub axes: [&'static str; 2],
    /// The matrices, row by row.
    pub matrices: Vec<Small>,
}

/// The parts of a square that a matrix of so many columns and rows fills, each at least 0.35: a width and a height.
///
/// ```
/// assert_eq!(regard_figure::extents([96, 96]), [1.0, 1.0]);
/// assert_eq!(regard_figure::extents([96, 48]), [1.0, 0.5]);
/// assert_eq!(regard_figure::extents([1500, 4]), [1.0, 0.35], "it is not a hairline");
/// ```
pub fn extents(sides: [usize; 2]) -> [f64; 2] {
    let longest = sides[0].max(sides[1]).max(1) as f64;
    sides.map(|side| (side as f64 / longest).max(SHORTEST))
}

impl Grid<'_> {
    /// The picture. It has a colour bar if all matrices have the same colours.
    pub fn figure(&self) -> Figure {
        let [rows, cols] = self.labels;
        let across = self.cols.len().max(1) as f64;
        let side = (WIDTH / across - GAP).clamp(NARROWEST, WIDEST);
        let box_of = extents([cols.len(), rows.len()]).map(|part| part * side);
        let cell = [box_of[0] / cols.len().max(1) as f64, box_of[1] / rows.len().max(1) as f64];
        let names = self.rows.iter().map(|name| width(name)).fold(0.0, f64::max) * FONT;
        let left = 2.0 * GAP + names;
        let top = TITLE_LINE + 2.0 * GAP + FONT;
        let [wide, high] = box_of.map(|side| side + GAP);
        let height = self.rows.len() as f64 * high;
        let on_paper = |small: &Small| small.palette.on(Ground::Paper);
        let first = self.matrices.first().map_or(Palette::PLAIN, on_paper);
        let is_shared = self.matrices.iter().all(|small| on_paper(small) == first);
        let right = left + across * wide;
        let values = self.matrices.iter().flat_map(|small| small.values.iter().copied());
        let values: Vec<f32> = values.collect();
        let legend = if is_shared { legend_width(first, &values, f32::NEG_INFINITY) } else { 0.0 };
        let total = (right + legend).max(width(&self.title) * TITLE + 2.0 * GAP);
        let note =
            if is_shared { first.to_string() } else { "each matrix has its own scale".to_owned() };
        let size = [total, top + height.max(if is_shared { 160.0 } else { 0.0 }) + GAP];
        let shapes = vec![Shape::Text(title(&self.title))];
        let mut figure = Figure { title: self.title.clone(), note, size, shapes };
        for (i, name) in self.cols.iter().enumerate() {
            let at = [left + i as f64 * wide + box_of[0] / 2.0, top - GAP / 2.0];
            let text = Text::new(at, name, FONT);
            figure.text(Text { anchor: Anchor::Middle, ink: Ink::Quiet, ..text });
        }
        for (i, name) in self.rows.iter().enumerate() {
            let at = [left - GAP, top + i as f64 * high + box_of[1] / 2.0 + FONT * 0.35];
            figure.text(Text { anchor: Anchor::End, ink: Ink::Quiet, ..Text::new(at, name, FONT) });
        }
        for (i, small) in self.matrices.iter().enumerate() {
            let (row, col) = (i / self.cols.len().max(1), i % self.cols.len().max(1));
            let (palette, texels) = (on_paper(small), on_paper(small).texels());
            let color = |x: &f32| match texels(*x) {
                texel if texel < COLORS => palette.texel((texel + COARSE / 2) / COARSE * COARSE),
                _ => palette.rgb(*x),
            };
            figure.cells(Cells {
                at: [left + col as f64 * wide, top + row as f64 * high],
                cell,
                cols: cols.len(),
                colors: small.values.iter().map(color).collect(),
                told: Told {
                    name: small.name.clone(),
                    values: Arc::clone(&small.values),
                    rows: rows.to_vec(),
                    cols: cols.to_vec(),
                    axes: self.axes.map(str::to_owned),
                    masked: f32::NEG_INFINITY,
                },
            });
        }
        if is_shared {
            push_bar(&mut figure, &values, f32::NEG_INFINITY, first, [right + GAP, top], 110.0);
        }
        figure
    }
}
