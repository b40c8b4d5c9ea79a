//! A file of attention or a session in a few lines, for a machine without a display.

use core::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use regard_heads::{AttentionMaps, Measure, Survey, unattended};
use regard_session::{Room, Session};

use crate::host::Native;
use crate::opened;

/// The most tokens that are listed.
const MOST_TOKENS: usize = 12;

/// The contents of a file.
///
/// # Errors
/// If the file is neither a session nor attention. The error names the file.
pub(crate) fn of_file(path: &Path) -> Result<String> {
    if Session::is_named(path) {
        Ok(of_session(&Session::read(&Native, path)?))
    } else {
        of_attention(path).with_context(|| format!("cannot open {}", path.display()))
    }
}

fn of_attention(path: &Path) -> Result<String> {
    let maps = AttentionMaps::open(&opened::stream, path, None, &unattended)?;
    let survey = Survey::new(&maps, &unattended)?;
    let shape = maps.shape();
    let mut out = format!("{}: attention, tensor `{}`\n", path.display(), maps.name());
    if maps.names().len() > 1 {
        let _ = writeln!(out, "other attentions: {}", super::export::others(&maps));
    }
    let kind = match (maps.is_self_attention(), survey.is_causal()) {
        (true, true) => "causal self-attention",
        (true, false) => "self-attention",
        (false, _) => "cross-attention",
    };
    let _ = writeln!(
        out,
        "{} × {}, {} × {}, {kind}",
        counted(shape.layers, "layer", "layers"),
        counted(shape.heads, "head", "heads"),
        counted(shape.queries, "query", "queries"),
        counted(shape.keys, "key", "keys")
    );
    let tokens = maps.key_tokens().or_else(|| maps.query_tokens());
    let _ = match tokens {
        Some(tokens) => {
            let texts: Vec<&str> = tokens.iter().map(|t| t.text.as_str()).collect();
            let first = texts[..texts.len().min(MOST_TOKENS)].join(" ");
            let more = if texts.len() > MOST_TOKENS { " …" } else { "" };
            writeln!(out, "{}: {first}{more}", counted(texts.len(), "token", "tokens"))
        }
        None => writeln!(out, "no tokens"),
    };
    for warning in survey.warnings() {
        let _ = writeln!(out, "note: {warning}");
    }
    for &measure in Measure::ALL {
        let first = survey.sorted_by(measure).into_iter().next();
        let first = first.filter(|id| survey.measures(*id).is_significant(measure));
        if let Some((id, x)) = first.and_then(|id| Some((id, survey.measures(id).get(measure)?))) {
            let value = measure.in_words(x);
            let _ = writeln!(out, "largest {value}: head {}", maps.name_of(id));
        }
    }
    Ok(out)
}

fn of_session(session: &Session) -> String {
    let name = |room: Room| {
        let open = if session.room == room { " (open)" } else { "" };
        format!("{}{open}:", room.name())
    };
    let mut out = String::from("a session of the window\n");
    let (walkthrough, laboratory) = (&session.walkthrough, &session.laboratory);
    let _ = writeln!(
        out,
        "{:<20} {}, {} changed, T = {}",
        name(Room::Walkthrough),
        walkthrough.example().title(),
        counted(walkthrough.inputs.edits().len(), "number", "numbers"),
        walkthrough.settings.temperature.get()
    );
    let inputs = &laboratory.inputs;
    let _ = writeln!(
        out,
        "{:<20} {} × {} dimensions, {}, T = {}",
        name(Room::Laboratory),
        counted(inputs.tokens, "token", "tokens"),
        inputs.dim,
        inputs.source.path().map_or_else(
            || format!("random (seed {})", inputs.seed),
            |path| path.display().to_string()
        ),
        inputs.temperature.get()
    );
    let (model, name) = (&session.model, name(Room::Stage));
    let changes = counted(model.changes.len(), "change", "changes");
    let _ = match &model.file {
        Some(file) => writeln!(out, "{name:<20} the attention of {file}"),
        None => writeln!(out, "{name:<20} {}, {changes}, {:?}", model.model, model.text),
    };
    out
}

/// A number of things: "1 query", "3 queries".
fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
