//! Prints a walkthrough as text: every matrix is a heatmap of coloured cells with its numbers.
//!
//! The text holds colour codes, which `anstream` removes if the terminal has no colours. Lines are as long as the terminal is
//! wide: sentences break between words, and a wide matrix is printed in blocks of columns.

use core::fmt::Write as _;
use std::io::IsTerminal as _;

use anstyle::{Color, RgbColor, Style};
use regard_figure::{Look, Palette, ink_on, largest, numbers};
use regard_session::walkthrough::palette;
use regard_walkthrough::{Example, Step, Walkthrough};
use unicode_width::UnicodeWidthStr as _;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// The columns of the terminal: the number in `COLUMNS`, or what the terminal says. A file or a pipe has no limit.
fn columns() -> usize {
    let set = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let asked = || {
        let (terminal_size::Width(columns), _) = terminal_size::terminal_size()?;
        std::io::stdout().is_terminal().then_some(usize::from(columns))
    };
    set.filter(|columns| *columns > 0).or_else(asked).unwrap_or(usize::MAX)
}

/// A paragraph in lines of at most [`columns`]. Lines after the first begin with `indent` spaces.
fn wrapped(text: &str, indent: usize) -> String {
    let indent = " ".repeat(indent);
    textwrap::fill(text, textwrap::Options::new(columns()).subsequent_indent(&indent))
}

/// All examples, one a line.
pub(crate) fn list_of_examples() -> String {
    let mut out = String::new();
    for &example in Example::ALL {
        let line = format!("{BOLD}{:<18}{BOLD:#} {}", example.name(), example.summary());
        let _ = writeln!(out, "{}", wrapped(&line, 19));
    }
    out.push_str("\nregard walk EXAMPLE shows one.\n");
    out
}

/// The steps of a walkthrough in the order in which they are computed.
pub(crate) fn walkthrough(walkthrough: &Walkthrough) -> String {
    let mut out = String::new();
    let example = walkthrough.example;
    let _ = writeln!(out, "{BOLD}{}{BOLD:#}\n{}", example.title(), wrapped(example.summary(), 0));
    if let Some(python) = &walkthrough.python {
        let _ = writeln!(out, "\n{DIM}The same numbers in PyTorch:{DIM:#}\n{python}");
    }
    if let Some(broken) = &walkthrough.broken {
        let _ = writeln!(out, "\n{}", wrapped(&format!("{BOLD}What breaks{BOLD:#}: {broken}"), 0));
    }
    for step in &walkthrough.steps {
        push_step(&mut out, step);
    }
    if let Some(lines) = walkthrough.in_four_lines() {
        let lines: Vec<String> = lines.iter().map(|line| wrapped(line, 4)).collect();
        let _ = writeln!(out, "\n{BOLD}In four lines{BOLD:#}\n{}", lines.join("\n"));
    }
    if !walkthrough.checks.is_empty() {
        let _ = writeln!(out, "\n{BOLD}Checks{BOLD:#}");
    }
    for check in &walkthrough.checks {
        let verdict = match check.holds() {
            Some(true) => "ok",
            Some(false) => "FAILED",
            None => "–",
        };
        let limit = check.limit.map_or_else(
            || "no limit".to_owned(),
            |limit| format!("at most {} allowed", numbers::error(limit)),
        );
        let value = numbers::error(check.value);
        let line = format!("{verdict:<6} {}: {value}, {limit}", check.name);
        let _ = writeln!(out, "{}", wrapped(&line, 7));
    }
    out
}

fn push_step(out: &mut String, step: &Step) {
    let mut heading = format!("{BOLD}{}{BOLD:#}", step.name);
    if !step.formula.is_empty() {
        let _ = write!(heading, "   {}", step.formula);
    }
    let _ = write!(heading, "   {DIM}{}{DIM:#}", step.shapes());
    let _ = writeln!(out, "\n{}\n{}", wrapped(&heading, 4), wrapped(&step.meaning, 0));
    push_matrix(out, step);
    let (error, ulp) = (numbers::error(step.max_error), numbers::fixed(step.max_ulp as f32, 1));
    let _ = writeln!(out, "{DIM}largest distance from f64: {error}, {ulp} ULP{DIM:#}");
    if let Some(correction) = &step.correction {
        let _ = writeln!(out, "{}", wrapped(&format!("{BOLD}Note{BOLD:#}: {correction}"), 0));
    }
}

fn push_matrix(out: &mut String, step: &Step) {
    let numbers = step.matrix.as_slice();
    let palette = palette(step.kind, numbers, Look::default());
    push_cells(out, &step.row_labels, &step.col_labels, numbers, palette);
}

/// A labelled matrix of numbers of both signs, with colours.
pub(crate) fn push_signed(out: &mut String, rows: &[String], cols: &[String], numbers: &[f32]) {
    let palette = Palette::signed(largest(numbers), Look::default());
    push_cells(out, rows, cols, numbers, palette);
}

/// A matrix with its labels. If it is wider than the terminal, it is printed in blocks of as many columns as fit, each with all
/// rows.
fn push_cells(
    out: &mut String,
    rows: &[String],
    cols: &[String],
    numbers: &[f32],
    palette: Palette,
) {
    let decimals = numbers::decimals(numbers);
    let text = |x: f32| palette.number(x, decimals);
    let widest = |labels: &[String]| labels.iter().map(|label| label.width()).max().unwrap_or(0);
    let widest_number = numbers.iter().map(|x| text(*x).width()).max().unwrap_or(0);
    let width = 2 + widest_number.max(widest(cols));
    let labels = widest(rows);

    let fit = (columns().saturating_sub(labels + 1) / width).max(1);
    for first in (0..cols.len()).step_by(fit) {
        let block = first..cols.len().min(first + fit);
        if first > 0 {
            out.push('\n');
        }
        let _ = write!(out, "{:labels$} ", "");
        for label in &cols[block.clone()] {
            let _ = write!(out, "{DIM}{}{DIM:#}", padded(label, width));
        }
        out.push('\n');
        for (i, row) in numbers.chunks(cols.len()).enumerate() {
            let label = rows.get(i).map_or("", String::as_str);
            let _ = write!(out, "{DIM}{}{DIM:#} ", padded(label, labels));
            for &x in &row[block.clone()] {
                let style = if palette.is_plain() { Style::new() } else { cell_style(palette, x) };
                let _ = write!(out, "{style}{:>1$} {style:#}", text(x), width - 1);
            }
            out.push('\n');
        }
    }
}

/// The text, padded on the left to `width` columns. East Asian letters take two columns each.
fn padded(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(text.width())))
}

fn cell_style(palette: Palette, x: f32) -> Style {
    let rgb = |[r, g, b]: [u8; 3]| Color::Rgb(RgbColor(r, g, b));
    let background = palette.rgb(x);
    Style::new().bg_color(Some(rgb(background))).fg_color(Some(rgb(ink_on(background))))
}
