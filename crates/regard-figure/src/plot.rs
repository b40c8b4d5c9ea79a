//! Curves over one axis: a figure with ticks and a legend, or a table of their points.

use crate::figure::{Anchor, Figure, Ink, Line, Shape, Text};
use crate::heatmap::{FONT, GAP, TITLE, TITLE_LINE, title};
use crate::text::width;
use crate::{Error, Format, numbers};

/// The width and the height of the axes, in CSS pixels.
const SIZE: [f64; 2] = [520.0, 260.0];
/// The length of a tick, and of the sample of a line in the legend.
const TICK: f64 = 4.0;
const SAMPLE: f64 = 22.0;
const LEGEND_LINE: f64 = 18.0;
/// The width of a curve, and the width around it in which the pointer finds it.
const WIDTH: f64 = 2.0;
const NEAR: f64 = 10.0;
/// The approximate number of ticks of an axis.
const WANTED: f64 = 5.0;
/// The pointer reaches curves within this share of the y axis.
const REACH: f64 = 0.08;
/// Curves that differ by less than this share of the y axis differ by rounding alone.
const APART: f64 = 1e-6;
/// The number of pieces that coincident curves share in turns.
const PIECES: usize = 24;

/// The meaning of a step along the x axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences.
    Linear,
    /// Equal differences, with ticks at whole numbers.
    Whole,
    /// Equal factors, with ticks at powers of 10.
    Decades,
    /// Equal factors, with ticks at powers of 4.
    Doublings,
}

/// A curve of a [`Plot`].
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The name in the legend and in the heading of a table.
    pub name: String,
    /// The points \[x, y\] from left to right.
    pub points: Vec<[f64; 2]>,
    /// The range \[low, high\] at each point. It is empty if a point stands for one number.
    pub band: Vec<[f64; 2]>,
    /// The colour on light and dark paper.
    pub color: [u8; 3],
    /// Whether the curve is dashed.
    pub dashed: bool,
    /// The number computed at the plot's mark, which may lie between two points.
    pub marked: Option<f64>,
}

/// Curves over one axis.
///
/// ```
/// use regard_figure::{Curve, Format, Plot, Scale};
/// let (band, color) = (Vec::new(), [0x1f, 0x77, 0xb4]);
/// let points = vec![[0.1, 0.9], [1.0, 0.6], [10.0, 0.5]];
/// let plot = Plot {
///     title: "Weights by temperature".to_owned(),
///     axes: ["T", "weight"],
///     scale: Scale::Decades,
///     mark: Some(1.0),
///     curves: vec![Curve { name: "cat".to_owned(), points, band, color, dashed: false, marked: Some(0.6) }],
/// };
/// assert_eq!(plot.encode(Format::Csv)?, b"T,cat\n0.1,0.9\n1,0.6\n10,0.5\n");
/// # Ok::<(), regard_figure::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// The title.
    pub title: String,
    /// The names of the x and the y axis.
    pub axes: [&'static str; 2],
    /// The scale of the x axis.
    pub scale: Scale,
    /// The x of a vertical line, if any.
    pub mark: Option<f64>,
    /// The curves.
    pub curves: Vec<Curve>,
}

impl Scale {
    /// The place of a number on the axis.
    pub fn place(self, x: f64) -> f64 {
        match self {
            Self::Linear | Self::Whole => x,
            Self::Decades => x.log10(),
            Self::Doublings => x.log2(),
        }
    }

    /// The number at a place of the axis.
    pub fn value(self, place: f64) -> f64 {
        match self {
            Self::Linear | Self::Whole => place,
            Self::Decades => 10_f64.powf(place),
            Self::Doublings => place.exp2(),
        }
    }

    /// The distance between ticks of which about `wanted` fit between two places.
    pub fn step(self, [low, high]: [f64; 2], wanted: f64) -> f64 {
        match self {
            Self::Linear => round((high - low).max(f64::MIN_POSITIVE) / wanted),
            Self::Whole => round((high - low).max(1.0) / wanted).max(1.0),
            Self::Decades => 1.0,
            Self::Doublings => 2.0,
        }
    }

    /// The places of about `wanted` ticks between two places.
    pub fn ticks(self, range: [f64; 2], wanted: f64) -> Vec<f64> {
        multiples(self.step(range, wanted), range)
    }
}

impl Plot {
    /// The bytes of a file in this format: a picture, or a CSV file with a row for each x and a column for each curve.
    ///
    /// # Errors
    /// [`Error::Empty`] without a point, [`Error::NoMatrix`] if the format holds a matrix, and those of the pictures.
    pub fn encode(&self, format: Format) -> Result<Vec<u8>, Error> {
        match format {
            Format::Csv if self.curves.iter().all(|curve| curve.points.is_empty()) => {
                Err(Error::Empty)
            }
            Format::Csv => self.csv().map_err(Error::writer),
            Format::Npy | Format::Safetensors => Err(Error::NoMatrix),
            _ => self.figure()?.encode(format),
        }
    }

    /// This curve and those that coincide with it, in ascending order.
    pub fn coincident(&self, curve: usize) -> Vec<usize> {
        let [low, high] = self.heights().unwrap_or_default();
        let near = APART * (high - low).max(f64::MIN_POSITIVE);
        let (one, dashed) = (&self.curves[curve].points, self.curves[curve].dashed);
        let is_same = |other: &Curve| {
            other.dashed == dashed
                && other.points.len() == one.len()
                && one.iter().zip(&other.points).all(|(a, b)| {
                    a[0] == b[0] && ((a[1] - b[1]).abs() <= near || a[1].is_nan() && b[1].is_nan())
                })
        };
        (0..self.curves.len()).filter(|i| is_same(&self.curves[*i])).collect()
    }

    /// The name of a curve, and of those that coincide with it: "cat = mat".
    pub fn name(&self, curve: usize) -> String {
        let names = self.coincident(curve).into_iter().map(|i| self.curves[i].name.as_str());
        names.collect::<Vec<_>>().join(" = ")
    }

    /// The pieces of a curve that are drawn in its colour. Coincident curves take turns, so that every colour is visible.
    pub fn pieces(&self, curve: usize) -> Vec<&[[f64; 2]]> {
        let points = &self.curves[curve].points[..];
        let together = self.coincident(curve);
        if together.len() < 2 {
            return vec![points];
        }
        let turn = together.iter().position(|i| *i == curve).unwrap_or(0);
        let step = (points.len() / PIECES).max(1);
        let starts = (0..points.len().saturating_sub(1)).step_by(step);
        let mine = starts.enumerate().filter(|(i, _)| i % together.len() == turn);
        mine.map(|(_, at)| &points[at..=(at + step).min(points.len() - 1)]).collect()
    }

    /// The lowest and the highest y, including 0.
    fn heights(&self) -> Option<[f64; 2]> {
        let points = self.curves.iter().flat_map(|curve| &curve.points).map(|[_, y]| *y);
        let bands = self.curves.iter().flat_map(|curve| curve.band.as_flattened()).copied();
        range(points.chain(bands).filter(|y| y.is_finite()))
            .map(|[low, high]| [low.min(0.0), high.max(0.0)])
    }

    /// The curve nearest to a place of the axes, and its point nearest to it. `None` if all curves are far away.
    pub fn nearest(&self, [place, y]: [f64; 2]) -> Option<(usize, [f64; 2])> {
        let [low, high] = self.heights()?;
        let distance = |curve: &Curve| {
            // The segments on both sides of the place. A steep curve is near where it crosses the height y.
            let at = |x: f64| (self.scale.place(x) - place).abs();
            let (i, point) = curve
                .points
                .iter()
                .enumerate()
                .filter(|(_, [_, y])| y.is_finite())
                .min_by(|(_, a), (_, b)| at(a[0]).total_cmp(&at(b[0])))?;
            let around = &curve.points[i.saturating_sub(1)..(i + 2).min(curve.points.len())];
            let [below, above] = range(around.iter().map(|[_, y]| *y).filter(|y| y.is_finite()))?;
            Some(((below - y).max(y - above).max(0.0) / (high - low), *point))
        };
        let found =
            self.curves.iter().enumerate().filter_map(|(i, curve)| Some((i, distance(curve)?)));
        let nearest = found.min_by(|(_, (a, _)), (_, (b, _))| a.total_cmp(b));
        nearest.filter(|(_, (distance, _))| *distance <= REACH).map(|(i, (_, point))| (i, point))
    }

    /// The name and the number of a point of a curve: "cat: 0.62 at T = 0.5".
    pub fn told(&self, curve: usize, [x, y]: [f64; 2]) -> String {
        format!("{}: {} at {} = {}", self.name(curve), number(y), self.axes[0], number(x))
    }

    /// The name of a curve, those that coincide with it, and its number at the mark: "cat = mat 0.41 each". Without a mark, the
    /// first and the last number follow: "cat from 0.9 to 0.5". Legends and screen readers use this text.
    pub fn said(&self, curve: usize) -> String {
        let name = self.name(curve);
        let Curve { points, marked, .. } = &self.curves[curve];
        if let Some(y) = marked {
            let each = if self.coincident(curve).len() > 1 { " each" } else { "" };
            return format!("{name} {}{each}", number(*y));
        }
        match (points.first(), points.last()) {
            (Some([_, first]), Some([_, last])) => {
                format!("{name} from {} to {}", number(*first), number(*last))
            }
            _ => name,
        }
    }

    /// The name of a curve and its number at the mark, if there is one.
    fn legend(&self, curve: usize) -> String {
        let Curve { name, marked, .. } = &self.curves[curve];
        marked.map_or_else(|| name.clone(), |y| format!("{name} {}", number(y)))
    }

    /// Writes a row for each x, with an empty cell where a curve has no point.
    fn csv(&self) -> Result<Vec<u8>, csv::Error> {
        let mut xs: Vec<f64> =
            self.curves.iter().flat_map(|curve| &curve.points).map(|[x, _]| *x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let mut out = csv::Writer::from_writer(Vec::new());
        out.write_field(self.axes[0])?;
        for Curve { name, band, .. } in &self.curves {
            out.write_field(name)?;
            if !band.is_empty() {
                out.write_field(format!("{name}, low"))?;
                out.write_field(format!("{name}, high"))?;
            }
        }
        out.write_record(None::<&[u8]>)?;
        let mut next = vec![0; self.curves.len()];
        for x in xs {
            out.write_field(x.to_string())?;
            for (curve, next) in self.curves.iter().zip(&mut next) {
                let i = *next;
                let is_here = curve.points.get(i).is_some_and(|point| point[0] == x);
                *next += usize::from(is_here);
                let text = |y: Option<f64>| {
                    y.filter(|_| is_here).map_or_else(String::new, |y| y.to_string())
                };
                out.write_field(text(curve.points.get(i).map(|point| point[1])))?;
                if !curve.band.is_empty() {
                    let [low, high] = [0, 1].map(|end| curve.band.get(i).map(|band| band[end]));
                    out.write_field(text(low))?;
                    out.write_field(text(high))?;
                }
            }
            out.write_record(None::<&[u8]>)?;
        }
        out.into_inner().map_err(|e| e.into_error().into())
    }

    /// The curves as a picture. A page shows the point under the pointer.
    ///
    /// # Errors
    /// [`Error::Empty`] without a point.
    pub fn figure(&self) -> Result<Figure, Error> {
        let places = self.curves.iter().flat_map(|curve| &curve.points);
        let across = range(places.map(|[x, _]| self.scale.place(*x)).filter(|x| x.is_finite()));
        let (across, up) = across.zip(self.heights()).ok_or(Error::Empty)?;
        let axes =
            Axes { across: wide(across), up: wide(up), left: 0.0, top: TITLE_LINE + 2.0 * GAP };
        let heights = Scale::Linear.ticks(axes.up, WANTED);
        let widest = heights.iter().map(|y| width(&number(*y))).fold(0.0, f64::max) * FONT;
        let axes = Axes { left: widest + FONT + 4.0 * GAP, ..axes };
        let legends: Vec<String> = (0..self.curves.len()).map(|i| self.legend(i)).collect();
        let names = legends.iter().map(|text| width(text)).fold(0.0, f64::max) * FONT;
        let legend = [axes.left + SIZE[0] + 2.0 * GAP, axes.top + FONT / 2.0];
        let total = legend[0] + SAMPLE + GAP + names + GAP;
        let lines = self.curves.len() as f64 * LEGEND_LINE + GAP;
        let mut figure = Figure {
            title: self.title.clone(),
            note: format!("{} by {}", self.axes[1], self.axes[0]),
            size: [
                total.max(width(&self.title) * TITLE + 2.0 * GAP),
                axes.top + SIZE[1].max(lines) + FONT * 2.0 + 4.0 * GAP,
            ],
            shapes: vec![Shape::Text(title(&self.title))],
        };
        self.push_axes(&mut figure, &axes, &heights);
        for i in 0..self.curves.len() {
            self.push_curve(&mut figure, &axes, i);
        }
        for (i, curve) in self.curves.iter().enumerate() {
            let y = legend[1] + i as f64 * LEGEND_LINE;
            let sample = vec![[legend[0], y], [legend[0] + SAMPLE, y]];
            figure.shapes.push(Shape::Line(curve.line(sample)));
            let at = [legend[0] + SAMPLE + GAP, y + FONT * 0.35];
            figure.text(Text::new(at, &legends[i], FONT));
        }
        Ok(figure)
    }

    fn push_axes(&self, figure: &mut Figure, axes: &Axes, heights: &[f64]) {
        let ([left, bottom], [right, top]) = (axes.at([axes.across[0], axes.up[0]]), axes.corner());
        let mut rule = |points: Vec<[f64; 2]>, ink, opacity| {
            figure.shapes.push(Shape::Line(Line { opacity, ..Line::new(points, 1.0, ink) }));
        };
        rule(vec![[left, top], [left, bottom], [right, bottom]], Ink::Text, 1.0);
        let ticks = self.scale.ticks(axes.across, WANTED);
        for place in &ticks {
            let [x, _] = axes.at([*place, axes.up[0]]);
            rule(vec![[x, bottom], [x, bottom + TICK]], Ink::Text, 1.0);
        }
        for y in heights {
            let [_, y] = axes.at([axes.across[0], *y]);
            rule(vec![[left - TICK, y], [right, y]], Ink::Quiet, 0.3);
        }
        if let Some(mark) = self.mark.map(|x| self.scale.place(x)) {
            let [x, _] = axes.at([mark.clamp(axes.across[0], axes.across[1]), axes.up[0]]);
            rule(vec![[x, top], [x, bottom]], Ink::Text, 1.0);
        }
        let middle =
            |at, text: String| Text { anchor: Anchor::Middle, ..Text::new(at, text, FONT) };
        for place in ticks {
            let [x, _] = axes.at([place, axes.up[0]]);
            figure.text(middle([x, bottom + TICK + FONT * 1.2], number(self.scale.value(place))));
        }
        for height in heights {
            let at = [left - TICK - GAP / 2.0, axes.at([0.0, *height])[1] + FONT * 0.35];
            figure.text(Text { anchor: Anchor::End, ..Text::new(at, number(*height), FONT) });
        }
        let [x, y] = self.axes;
        let at = [f64::midpoint(left, right), bottom + TICK + FONT * 2.6];
        figure.text(Text { ink: Ink::Quiet, ..middle(at, x.to_owned()) });
        let at = [GAP + FONT, f64::midpoint(top, bottom)];
        figure.text(Text { ink: Ink::Quiet, upright: true, ..middle(at, y.to_owned()) });
    }

    /// Draws the edges of the band, the curve, and an invisible wide line whose segments show the point under the pointer.
    fn push_curve(&self, figure: &mut Figure, axes: &Axes, i: usize) {
        let curve = &self.curves[i];
        let at = |[x, y]: [f64; 2]| axes.at([self.scale.place(x), y]);
        let visible = |points: &[[f64; 2]]| -> Vec<[f64; 2]> {
            points.iter().filter(|[_, y]| y.is_finite()).map(|point| at(*point)).collect()
        };
        for end in [0, 1] {
            let edge = curve.points.iter().zip(&curve.band).map(|([x, _], band)| [*x, band[end]]);
            let line = Line::new(visible(&edge.collect::<Vec<_>>()), 1.0, Ink::Rgb(curve.color));
            let line = Line { opacity: 0.5, tip: curve.name.clone(), ..line };
            figure.shapes.push(Shape::Line(line));
        }
        for piece in self.pieces(i) {
            figure.shapes.push(Shape::Line(curve.line(visible(piece))));
        }
        for ends in curve.points.windows(2).filter(|ends| ends.iter().all(|[_, y]| y.is_finite())) {
            let line = Line::new(visible(ends), NEAR, Ink::Rgb(curve.color));
            let line = Line { opacity: 0.0, tip: self.told(i, ends[0]), ..line };
            figure.shapes.push(Shape::Line(line));
        }
    }
}

impl Curve {
    /// A line in the look of the curve.
    fn line(&self, points: Vec<[f64; 2]>) -> Line {
        let line = Line::new(points, WIDTH, Ink::Rgb(self.color));
        Line { dashed: self.dashed, tip: self.name.clone(), ..line }
    }
}

/// The rectangle of the curves: its ranges and its position.
struct Axes {
    across: [f64; 2],
    up: [f64; 2],
    left: f64,
    top: f64,
}

impl Axes {
    /// The place of a point in CSS pixels.
    fn at(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let share = |x: f64, [low, high]: [f64; 2]| (x - low) / (high - low);
        [
            self.left + share(x, self.across) * SIZE[0],
            self.top + (1.0 - share(y, self.up)) * SIZE[1],
        ]
    }

    /// The upper right corner.
    fn corner(&self) -> [f64; 2] {
        self.at([self.across[1], self.up[1]])
    }
}

/// The smallest and the largest number.
fn range(numbers: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    numbers.fold(None, |range, x| {
        let [low, high] = range.unwrap_or([x, x]);
        Some([low.min(x), high.max(x)])
    })
}

/// The range itself, or a range of length 1 from its only number.
fn wide([low, high]: [f64; 2]) -> [f64; 2] {
    if high > low { [low, high] } else { [low, low + 1.0] }
}

/// 1, 2 or 5 times a power of ten, near `step`.
fn round(step: f64) -> f64 {
    let unit = 10_f64.powf(step.log10().floor());
    let times = [(1.5, 1.0), (3.0, 2.0), (7.5, 5.0)];
    let times = times.into_iter().find(|(below, _)| step / unit < *below);
    unit * times.map_or(10.0, |(_, times)| times)
}

fn multiples(step: f64, [low, high]: [f64; 2]) -> Vec<f64> {
    let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
    (0..=((last - first).max(0.0) as usize).min(64)).map(|i| (first + i as f64) * step).collect()
}

/// A number to a few digits.
fn number(x: f64) -> String {
    numbers::spoken(x as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(curves: &[&[f64]]) -> Plot {
        let curve = |(i, ys): (usize, &&[f64])| Curve {
            name: format!("c{i}"),
            points: ys.iter().enumerate().map(|(x, y)| [(x + 1) as f64, *y]).collect(),
            band: Vec::new(),
            color: [i as u8; 3],
            dashed: false,
            marked: None,
        };
        let curves = curves.iter().enumerate().map(curve).collect();
        let (title, scale) = ("Curves".to_owned(), Scale::Linear);
        Plot { title, axes: ["x", "y"], scale, mark: None, curves }
    }

    #[test]
    fn coincident_curves_take_turns_and_share_their_name() {
        let ys: Vec<f64> = (0..97).map(|i| f64::from(i) / 96.0).collect();
        let other: Vec<f64> = ys.iter().map(|y| 1.0 - y).collect();
        let nearly: Vec<f64> = ys.iter().map(|y| y + 1e-7).collect();
        let plot = plot(&[&ys, &other, &nearly]);
        assert_eq!([plot.name(0), plot.name(1), plot.name(2)], ["c0 = c2", "c1", "c0 = c2"]);
        assert_eq!(plot.pieces(1), [&plot.curves[1].points[..]]);
        // Together their pieces cover the curve, and each curve has the same number of pieces.
        let (a, b) = (plot.pieces(0), plot.pieces(2));
        assert_eq!((a.len(), b.len()), (12, 12));
        assert!(a[0].last().map(|p| p[0]) == b[0].first().map(|p| p[0]));
        assert!(a.iter().chain(&b).map(|piece| piece.len() - 1).sum::<usize>() == 96);
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(Scale::Decades.ticks([-2.0, 2.0], 5.0), [-2.0, -1.0, 0.0, 1.0, 2.0]);
        assert_eq!(Scale::Doublings.ticks([0.0, 6.0], 5.0), [0.0, 2.0, 4.0, 6.0]);
        assert_eq!(Scale::Whole.ticks([1.0, 2.0], 5.0), [1.0, 2.0]);
        assert_eq!(Scale::Linear.ticks([1.0, 12.0], 5.0), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
    }

    #[test]
    fn curves_of_different_lengths_share_a_table() {
        let mut plot = plot(&[&[1.0, 2.0], &[3.0]]);
        plot.curves[1].points[0][0] = 2.0;
        let csv = String::from_utf8(plot.encode(Format::Csv).unwrap()).unwrap();
        assert_eq!(csv, "x,c0,c1\n1,1,\n2,2,3\n");
        plot.curves[1].band = vec![[2.5, 4.0]];
        let csv = String::from_utf8(plot.encode(Format::Csv).unwrap()).unwrap();
        assert_eq!(csv, "x,c0,c1,\"c1, low\",\"c1, high\"\n1,1,,,\n2,2,3,2.5,4\n");
        assert!(matches!(plot.encode(Format::Npy), Err(Error::NoMatrix)));
    }

    #[test]
    fn the_nearest_curve_is_told_with_its_point() {
        let mut plot = plot(&[&[0.0, 0.0, 1.0, 1.0], &[0.5; 4]]);
        plot.scale = Scale::Doublings;
        // At x = 3, the first curve rises past 0.3; the second is farther away.
        assert_eq!(plot.nearest([3_f64.log2(), 0.3]), Some((0, [3.0, 1.0])));
        assert_eq!(plot.nearest([0.1, 0.52]), Some((1, [1.0, 0.5])));
        assert_eq!(plot.nearest([0.1, 0.8]), None);
        assert_eq!(plot.told(1, [1.0, 0.5]), "c1: 0.5 at x = 1");
    }

    #[test]
    fn a_page_tells_each_point_by_its_name_and_numbers() {
        let html = plot(&[&[0.25, 0.5, 0.75]]).encode(Format::Html).unwrap();
        let html = String::from_utf8(html).unwrap();
        assert!(html.contains("<title>c0: 0.5 at x = 2</title>"), "{html}");
        assert!(matches!(plot(&[]).figure(), Err(Error::Empty)));
    }
}
