//! Numbers that move to new values.
//!
//! The drawing depends only on the numbers and the time, so that a test can step it. At rest, no frame is requested.

use egui::Ui;

/// The usual time of a movement, in seconds.
pub(crate) const SECONDS: f64 = 0.15;

#[derive(Clone, Debug, Default)]
pub(crate) struct Motion {
    from: Vec<f32>,
    to: Vec<f32>,
    /// The time at which they began to move.
    since: f64,
}

impl Motion {
    /// The numbers of this frame on the way to `to`. The first numbers, and numbers of another count, appear at once.
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

/// The share of a movement that is done, from 0 to 1. It slows down towards the end: 1 − (1 − t)³. Requests another frame until it
/// is 1. It is 1 at once if the system asks for less motion.
pub(crate) fn progress(ui: &Ui, since: f64, seconds: f64) -> f32 {
    let is_still = ui.style().animation_time == 0.0;
    let t = (ui.input(|input| input.time) - since) / seconds;
    if is_still || t >= 1.0 {
        return 1.0;
    }
    ui.ctx().request_repaint();
    (1.0 - (1.0 - t.max(0.0)).powi(3)) as f32
}
