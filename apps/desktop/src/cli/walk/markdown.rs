//! A walkthrough as Markdown: a heading, a formula, a sentence and a picture for each step, in one file without links.
//!
//! Formulas and pictures are HTML and SVG, which CommonMark passes on as long as no line is empty.

use core::fmt::Write as _;

use anyhow::{Context as _, Result};
use regard_figure::{Format, Look, numbers};
use regard_session::walkthrough::of_step;
use regard_walkthrough::{Script, Step, Walkthrough, formula_parts};

/// The example's title, its summary, each step, the whole computation in four lines, and the checks.
pub(super) fn walkthrough(walkthrough: &Walkthrough) -> Result<String> {
    let example = walkthrough.example;
    let mut out = format!("# {}\n\n{}\n", escaped(example.title()), escaped(example.summary()));
    if let Some(python) = &walkthrough.python {
        let _ = write!(
            out,
            "\nThe same numbers in PyTorch:\n\n```python\n{}\n```\n",
            python.trim_end()
        );
    }
    if let Some(broken) = &walkthrough.broken {
        let _ = write!(out, "\n**What breaks**: {}\n", escaped(broken));
    }
    for step in &walkthrough.steps {
        push_step(&mut out, walkthrough, step).with_context(|| step.name.clone())?;
    }
    if let Some(lines) = walkthrough.in_four_lines() {
        out.push_str("\n## In four lines\n\n");
        for line in lines {
            let _ = writeln!(out, "1. {}", formula(&line));
        }
    }
    if !walkthrough.checks.is_empty() {
        out.push_str("\n## Checks\n\n| | measured | limit |\n|---|---|---|\n");
    }
    for check in &walkthrough.checks {
        let limit = check.limit.map_or_else(|| "–".to_owned(), numbers::error);
        let (name, meaning) = (escaped(&check.name), escaped(&check.meaning));
        let _ =
            writeln!(out, "| **{name}**: {meaning} | {} | {limit} |", numbers::error(check.value));
    }
    Ok(out)
}

fn push_step(out: &mut String, walkthrough: &Walkthrough, step: &Step) -> Result<()> {
    let _ = write!(out, "\n## {}\n", formula(&step.name));
    if !step.formula.is_empty() {
        let _ = write!(out, "\n<p class=\"formula\">{}</p>\n", formula(&step.formula));
    }
    let _ = write!(out, "\n{}\n", escaped(&step.meaning));
    let picture = of_step(walkthrough, step, Look::default()).encode(Format::Svg)?;
    let picture = String::from_utf8(picture).context("the picture is no UTF-8")?;
    let _ = write!(out, "\n<figure>\n{}</figure>\n", picture.replace("\n\n", "\n"));
    // A given number has no arithmetic.
    if let Some(text) = step.explain(0, 0).filter(|_| !step.formula.is_empty()) {
        let _ = write!(out, "\nIts first number: {}\n", escaped(&text));
    }
    if let Some(correction) = &step.correction {
        let _ = write!(out, "\n**Note**: {}\n", escaped(correction));
    }
    Ok(())
}

/// A formula with its indices and powers as HTML.
fn formula(text: &str) -> String {
    formula_parts(text)
        .into_iter()
        .map(|part| match part.script {
            Script::Base => escaped(part.text),
            Script::Sub => format!("<sub>{}</sub>", escaped(part.text)),
            Script::Super => format!("<sup>{}</sup>", escaped(part.text)),
        })
        .collect()
}

/// Text in which no character has a meaning in Markdown or HTML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '$' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}
