//! A formula on one line, with indices below it, powers above, and a bar over what is under a root.

use core::ops::Range;
use std::sync::Arc;

use egui::epaint::text::Glyph;
use egui::text::{LayoutJob, TextFormat};
use egui::text_selection::LabelSelectionState;
use egui::{Align, Color32, FontId, Galley, Label, Role, Stroke, Ui, Vec2, WidgetInfo, vec2};
use regard_walkthrough::{Script, formula_parts};

use crate::style;

/// The size of letters on the line, relative to the name of a step.
const RELATIVE: f32 = 18.0 / 17.0;
/// The relative size of indices and powers.
const SMALL: f32 = 0.7;
/// The relative size of the sign of a root, which is higher than the letters under its bar.
const ROOT: f32 = 1.2;
/// The relative width of the bar of a root.
const BAR: f32 = 0.07;

/// A letter, and where it stands.
type Letter = (char, Script);

/// The size of letters on the line.
pub(crate) fn size(ui: &Ui) -> f32 {
    RELATIVE * style::subheading().resolve(ui.style()).size
}

/// The layout of a formula without roots.
pub(crate) fn galley(ui: &Ui, text: &str, size: f32, color: Color32) -> Arc<Galley> {
    ui.painter().layout_job(job(&letters(text).0, size, color))
}

/// Shows a formula, or words with symbols.
pub(crate) fn show(ui: &mut Ui, text: &str, size: f32, color: Color32) {
    let (letters, roots) = letters(text);
    let label = Label::new(job(&letters, size, color)).wrap();
    let (place, galley, response) = label.layout_in_ui(ui);
    // A screen reader gets the source of the formula: "W_Q".
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, text));
    if ui.is_rect_visible(response.rect) {
        let bars: Vec<_> = roots.into_iter().filter_map(|root| bar(&galley, root)).collect();
        let none = Stroke::NONE;
        LabelSelectionState::label_text_selection(ui, &response, place, galley, color, none);
        let stroke = Stroke::new(BAR * size, color);
        for bar in bars {
            // The bar is below the top of the sign.
            let [from, to] = bar.map(|end| place + end + vec2(0.0, stroke.width));
            ui.painter().line_segment([from, to], stroke);
        }
    }
}

/// The letters of a formula as they are drawn, and those under each root. The bar of a root stands for the brackets after it.
fn letters(text: &str) -> (Vec<Letter>, Vec<Range<usize>>) {
    let parts = formula_parts(text).into_iter();
    let all: Vec<_> = parts.flat_map(|p| p.text.chars().map(move |c| (c, p.script))).collect();
    let (mut letters, mut roots) = (Vec::new(), Vec::new());
    let mut rest = &all[..];
    while let [letter, after @ ..] = rest {
        letters.push(*letter);
        rest = after;
        if letter.0 == '√' {
            let (under, after) = radicand(rest);
            roots.push(letters.len()..letters.len() + under.len());
            // The bar lies over one line.
            let whole = |(c, script): &Letter| (if *c == ' ' { '\u{a0}' } else { *c }, *script);
            letters.extend(under.iter().map(whole));
            rest = after;
        }
    }
    (letters, roots)
}

/// Splits what follows a root: the contents of brackets, or a letter or a number with its index; and the rest.
fn radicand(rest: &[Letter]) -> (&[Letter], &[Letter]) {
    let mut open = 0;
    let depth = |(c, _): &Letter| {
        open += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        open
    };
    let depths: Vec<i32> = rest.iter().map(depth).collect();
    match depths.iter().position(|depth| *depth == 0) {
        Some(end) if end > 0 => (&rest[1..end], &rest[end + 1..]),
        _ => {
            let more = |(c, script): &&Letter| *script != Script::Base || c.is_ascii_digit();
            let end = 1 + rest.iter().skip(1).take_while(more).count();
            rest.split_at(end.min(rest.len()))
        }
    }
}

/// The ends of the bar over these letters, which is level with the top of the root before them.
fn bar(galley: &Galley, letters: Range<usize>) -> Option<[Vec2; 2]> {
    let rows = galley.rows.iter();
    let mut glyphs = rows.flat_map(|row| row.glyphs.iter().map(move |glyph| (row.pos, glyph)));
    let (corner, root) = glyphs.nth(letters.start.checked_sub(1)?)?;
    let from = corner.to_vec2() + top(root);
    let (corner, last) = glyphs.nth(letters.len().checked_sub(1)?)?;
    Some([from, vec2(corner.x + last.pos.x + last.advance_width, from.y)])
}

/// The right end of the top of a root's sign, from the corner of its row.
fn top(root: &Glyph) -> Vec2 {
    root.pos.to_vec2() + root.uv_rect.offset + vec2(root.uv_rect.size.x, 0.0)
}

/// The sign of a root over what is this high, in letters of this size, and where its bar begins.
pub(super) fn sign(ui: &Ui, height: f32, size: f32, color: Color32) -> (Arc<Galley>, Vec2) {
    let line = ui.painter().layout_no_wrap("x".to_owned(), FontId::proportional(size), color);
    let size = ROOT * size * height / line.size().y;
    let sign = ui.painter().layout_no_wrap("√".to_owned(), FontId::proportional(size), color);
    let glyph = sign.rows.first().and_then(|row| row.glyphs.first());
    let at = glyph.map_or(Vec2::ZERO, top);
    (sign, at)
}

fn job(letters: &[Letter], size: f32, color: Color32) -> LayoutJob {
    let mut job = LayoutJob::default();
    let is_root = |letter: &Letter| letter.0 == '√';
    for part in letters.chunk_by(|a, b| a.1 == b.1 && is_root(a) == is_root(b)) {
        let (size, align) = match part[0].1 {
            _ if is_root(&part[0]) => (ROOT * size, Align::Center),
            Script::Base => (size, Align::Center),
            Script::Sub => (SMALL * size, Align::Max),
            Script::Super => (SMALL * size, Align::Min),
        };
        let text: String = part.iter().map(|(c, _)| c).collect();
        let font_id = FontId::proportional(size);
        let format = TextFormat { font_id, color, valign: align, ..TextFormat::default() };
        job.append(&text, 0.0, format);
    }
    job
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_covers_its_brackets_or_a_symbol_with_its_index() {
        for (text, drawn, under) in [
            ("S / √d_k = S / √64", "S / √dk = S / √64", vec!["dk", "64"]),
            ("‖x‖ = √(x·x)", "‖x‖ = √x·x", vec!["x·x"]),
            ("γ_1·(x − m) / √(f(v) + ε)", "γ1·(x − m) / √f(v) + ε", vec!["f(v) + ε"]),
            ("softmax(S / √d_k)·V", "softmax(S / √dk)·V", vec!["dk"]),
            ("a root: √", "a root: √", vec![""]),
        ] {
            let (letters, roots) = letters(text);
            let read = |range: Range<usize>| -> String {
                letters[range].iter().map(|(c, _)| *c).collect::<String>().replace('\u{a0}', " ")
            };
            assert_eq!(read(0..letters.len()), drawn);
            assert_eq!(roots.into_iter().map(read).collect::<Vec<_>>(), under, "{text}");
        }
    }
}
