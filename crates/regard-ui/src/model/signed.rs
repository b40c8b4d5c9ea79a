//! A map of numbers of both signs: layers × something, in the diverging colours.

use std::sync::Arc;

use egui::{ScrollArea, Ui};
use regard_figure::{Label, Matrix};
use regard_heads::packed;
use serde::{Deserialize, Serialize};

use crate::colors::{Look, Palette, largest};
use crate::heatmap::{Cell, Heatmap, Picture, Pointing, View};

/// The numbers and their display.
#[derive(Serialize, Deserialize)]
pub(super) struct SignedMap {
    /// The numbers, row by row.
    #[serde(with = "packed")]
    pub(crate) numbers: Vec<f32>,
    picture: Picture,
    labels: [Vec<String>; 2],
    /// The cursor of the keyboard.
    pointed: Option<Cell>,
    view: View,
}

impl SignedMap {
    /// A map with a row for each of the first labels and a column for each of the second ones.
    pub(crate) fn new(numbers: Vec<f32>, labels: [Vec<String>; 2]) -> Self {
        let palette = Palette::signed(largest(&numbers), Look::default());
        let picture = Picture::new(&numbers, labels[1].len(), palette);
        Self { numbers, picture, labels, pointed: None, view: View::default() }
    }

    /// The map with its title, to export it. `terms` are the words for a row, a column and a number.
    pub(crate) fn matrix(
        &self,
        title: String,
        [row, col, number]: [&'static str; 3],
        look: Look,
    ) -> Matrix {
        let plain = |labels: &Vec<String>| labels.iter().map(|label| Label::plain(label)).collect();
        let [rows, cols] = self.labels.each_ref().map(plain);
        Matrix {
            title,
            name: number.replace(' ', "_"),
            values: Arc::new(self.numbers.clone()),
            masked: f32::NEG_INFINITY,
            rows,
            cols,
            axes: [row, col],
            palette: Palette::signed(largest(&self.numbers), look),
        }
    }

    /// Draws the map over the width of the page, but at most `large` points high, with the cell `pointed` marked.
    pub(crate) fn draw(
        &mut self,
        ui: &mut Ui,
        look: Look,
        name: &str,
        terms: [&str; 3],
        pointed: Option<Cell>,
        large: f32,
    ) -> Pointing {
        self.picture.set_palette(Palette::signed(largest(&self.numbers), look));
        let [rows, cols] = &self.labels;
        let map = Heatmap {
            terms,
            pointed,
            large,
            ..Heatmap::new(name, &self.numbers, [rows, cols], &self.picture)
        };
        let width = ui.available_width();
        map.show_enlarged(ui, width, &mut self.view)
    }

    /// Fills the rest of the page except for `below` points. Returns the cell that was clicked: arrow keys move the cursor, and
    /// Enter clicks.
    pub(crate) fn fill(
        &mut self,
        ui: &mut Ui,
        look: Look,
        name: &str,
        terms: [&str; 3],
        below: f32,
    ) -> Option<Cell> {
        let large = (ui.available_height() - below).max(200.0);
        let pointed = self.pointed;
        let area = ScrollArea::both().auto_shrink(false);
        let pointing = area.show(ui, |ui| self.draw(ui, look, name, terms, pointed, large)).inner;
        self.pointed = pointing.chosen.or(self.pointed);
        self.pointed.filter(|_| pointing.response.clicked())
    }
}
