//! Numbers that move to new values.
//!
//! What is drawn follows from the numbers and the time alone, so that a test can step it. At rest no frame is asked for.

use egui::Ui;

/// The usual time of a movement, in seconds.
pub(crate) const SECONDS: f64 = 0.15;

/// Numbers on their way to others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Motion {
    from: Vec<f32>,
    to: Vec<f32>,
    /// The time at which they began to move.
    since: f64,
}

impl Motion {
    /// The numbers of this frame, on their way to `to`. The first numbers, and as many as there were not before, are there at
    /// once.
    pub(crate) fn towards(&mut self, ui: &Ui, to: &[f32]) -> Vec<f32> {
        let now = ui.input(|input| input.time);
        if !self.to.iter().map(|x| x.to_bits()).eq(to.iter().map(|x| x.to_bits())) {
            let is_new = self.to.len() != to.len();
            self.from =
                if is_new { to.to_vec() } else { self.at(progress(ui, self.since, SECONDS)) };
            (self.to, self.since) = (to.to_vec(), now);
        }
        let share = if self.from == self.to { 1.0 } else { progress(ui, self.since, SECONDS) };
        self.at(share)
    }

    fn at(&self, share: f32) -> Vec<f32> {
        let both = self.from.iter().zip(&self.to);
        both.map(|(from, to)| egui::lerp(*from..=*to, share)).collect()
    }
}

/// The share of a movement's way, from 0 to 1, which slows down towards its end: 1 − (1 − t)³. Asks for another frame until it is
/// 1. Where the system asks for less motion, it is 1 at once.
pub(crate) fn progress(ui: &Ui, since: f64, seconds: f64) -> f32 {
    let is_still = ui.style().animation_time == 0.0;
    let t = (ui.input(|input| input.time) - since) / seconds;
    if is_still || t >= 1.0 {
        return 1.0;
    }
    ui.ctx().request_repaint();
    (1.0 - (1.0 - t.max(0.0)).powi(3)) as f32
}
