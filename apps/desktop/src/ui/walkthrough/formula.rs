//! A formula on one line, with indices below it and powers above.

use egui::text::{LayoutJob, TextFormat};
use egui::{Align, Color32, FontId, Ui};
use regard_walkthrough::{Script, formula_parts};

/// The size of letters on the line.
pub const SIZE: f32 = 18.0;
/// That of indices and powers, beside it.
const SMALL: f32 = 0.7;

/// Lays out a formula, or words with a symbol, as a step has them.
pub fn job(ui: &Ui, formula: &str, size: f32) -> LayoutJob {
    let mut job = LayoutJob::default();
    let color = ui.visuals().strong_text_color();
    for part in formula_parts(formula) {
        let (size, align) = match part.script {
            Script::Base => (size, Align::Center),
            Script::Sub => (SMALL * size, Align::Max),
            Script::Super => (SMALL * size, Align::Min),
        };
        job.append(part.text, 0.0, format(size, align, color));
    }
    job
}

fn format(size: f32, valign: Align, color: Color32) -> TextFormat {
    TextFormat { font_id: FontId::proportional(size), color, valign, ..TextFormat::default() }
}
