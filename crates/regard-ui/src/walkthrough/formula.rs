//! A formula on one line, with indices below it and powers above.

use std::sync::Arc;

use egui::text::{LayoutJob, TextFormat};
use egui::{Align, Color32, FontId, Galley, Label, Role, Ui, WidgetInfo};
use regard_walkthrough::{Script, formula_parts};

use crate::style;

/// The size of letters on the line, relative to the name of a step.
const RELATIVE: f32 = 18.0 / 17.0;
/// The relative size of indices and powers.
const SMALL: f32 = 0.7;

/// The size of letters on the line.
pub(crate) fn size(ui: &Ui) -> f32 {
    RELATIVE * style::subheading().resolve(ui.style()).size
}

/// The layout of a formula.
pub(crate) fn galley(ui: &Ui, text: &str, size: f32, color: Color32) -> Arc<Galley> {
    ui.painter().layout_job(job(text, size, color))
}

/// Shows a formula, or words with symbols.
pub(crate) fn show(ui: &mut Ui, text: &str, size: f32, color: Color32) {
    let label = ui.add(Label::new(job(text, size, color)).wrap());
    // A screen reader gets the source of the formula: "W_Q".
    label.widget_info(|| WidgetInfo::labeled(Role::Label, true, text));
}

fn job(text: &str, size: f32, color: Color32) -> LayoutJob {
    let mut job = LayoutJob::default();
    for part in formula_parts(text) {
        let (size, align) = match part.script {
            Script::Base => (size, Align::Center),
            Script::Sub => (SMALL * size, Align::Max),
            Script::Super => (SMALL * size, Align::Min),
        };
        let font_id = FontId::proportional(size);
        let format = TextFormat { font_id, color, valign: align, ..TextFormat::default() };
        job.append(part.text, 0.0, format);
    }
    job
}
