//! A small labelled matrix of a view: numbers of both signs in the diverging colours, or weights in those of attention.

use std::sync::Arc;

use egui::{ScrollArea, Ui};
use regard_figure::{Label, Matrix};
use regard_heads::packed;
use serde::{Deserialize, Serialize};

use crate::colors::{Look, Palette, largest};
use crate::heatmap::{Cell, Heatmap, Picture, Pointing, Viewport, words};

#[derive(Serialize, Deserialize)]
pub(super) struct Chart {
    /// The numbers, row by row.
    #[serde(with = "packed")]
    pub(crate) numbers: Vec<f32>,
    is_signed: bool,
    picture: Picture,
    labels: [Vec<String>; 2],
    /// The cursor of the keyboard.
    pointed: Option<Cell>,
    /// The cell under the pointer, or that of the cursor, in words.
    pub(crate) spoken: Option<String>,
    view: Viewport,
}

impl Chart {
    /// Numbers of both signs, with a row for each of the first labels and a column for each of the second ones.
    pub(crate) fn new(numbers: Vec<f32>, labels: [Vec<String>; 2]) -> Self {
        Self::of(true, numbers, labels)
    }

    /// Weights, which go from 0.
    pub(crate) fn of_weights(numbers: Vec<f32>, labels: [Vec<String>; 2]) -> Self {
        Self::of(false, numbers, labels)
    }

    fn of(is_signed: bool, numbers: Vec<f32>, labels: [Vec<String>; 2]) -> Self {
        let palette = palette(is_signed, &numbers, Look::default());
        let picture = Picture::new(&numbers, labels[1].len(), palette);
        let (pointed, spoken, view) = Default::default();
        Self { numbers, is_signed, picture, labels, pointed, spoken, view }
    }

    /// The matrix with its title, to export it. `terms` are the words for a row, a column and a number.
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
            palette: palette(self.is_signed, &self.numbers, look),
        }
    }

    /// Draws it over the width of the page, but at most `large` points high, with the cell `pointed` marked.
    pub(crate) fn draw(
        &mut self,
        ui: &mut Ui,
        look: Look,
        name: &str,
        terms: [&str; 3],
        pointed: Option<Cell>,
        large: f32,
    ) -> Pointing {
        self.picture.set_palette(palette(self.is_signed, &self.numbers, look));
        let [rows, cols] = &self.labels;
        let map = Heatmap {
            terms,
            pointed,
            large,
            ..Heatmap::new(name, &self.numbers, [rows, cols], &self.picture)
        };
        let width = ui.available_width();
        let pointing = map.show_enlarged(ui, width, &mut self.view);
        self.spoken = pointing.hovered.or(pointed).and_then(|cell| words(&map, cell));
        pointing
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

fn palette(is_signed: bool, numbers: &[f32], look: Look) -> Palette {
    let make = if is_signed { Palette::signed } else { Palette::weights };
    make(largest(numbers), look)
}
