//! A formula on one line, with indices below it and powers above.

use egui::text::{LayoutJob, TextFormat};
use egui::{Align, Color32, FontId, Ui};
use regard_walkthrough::{Script, formula_parts};

/// The size of letters on the line.
const SIZE: f32 = 18.0;
/// That of indices and powers.
const SMALL: f32 = 12.5;

/// Lays out a formula as a step has it.
pub fn job(ui: &Ui, formula: &str) -> LayoutJob {
    let mut job = LayoutJob::default();
    let color = ui.visuals().strong_text_color();
    for part in formula_parts(formula) {
        let (size, align) = match part.script {
            Script::Base => (SIZE, Align::Center),
            Script::Sub => (SMALL, Align::Max),
            Script::Super => (SMALL, Align::Min),
        };
        job.append(part.text, 0.0, format(size, align, color));
    }
    job
}

fn format(size: f32, valign: Align, color: Color32) -> TextFormat {
    TextFormat { font_id: FontId::proportional(size), color, valign, ..TextFormat::default() }
}
