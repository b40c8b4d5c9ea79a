//! A small labelled matrix of a view: numbers of both signs in the diverging colours, or weights in those of attention.

use std::sync::Arc;

use egui::{ScrollArea, Ui};
use regard_figure::{Label, LabelledMatrix, Signs};
use regard_heads::packed;
use serde::{Deserialize, Serialize};

use crate::colors::{Look, Palette, largest};
use crate::heatmap::{Cell, Heatmap, Picture, Viewport};

#[derive(Serialize, Deserialize)]
pub(crate) struct Chart {
    /// The numbers, row by row.
    #[serde(with = "packed")]
    pub(crate) numbers: Vec<f32>,
    picture: Picture,
    labels: [Vec<String>; 2],
    /// The cursor of the keyboard.
    pointed: Option<Cell>,
    /// The cell under the pointer, or that of the cursor, in words.
    pub(crate) spoken: Option<String>,
    view: Viewport,
}

impl Chart {
    /// Numbers of these signs, with a row for each of the first labels and a column for each of the second ones.
    pub(crate) fn new(signs: Signs, numbers: Vec<f32>, labels: [Vec<String>; 2]) -> Self {
        let palette = Palette::up_to(largest(&numbers), signs, Look::default());
        let picture = Picture::new(&numbers, labels[1].len(), palette);
        let (pointed, spoken, view) = Default::default();
        Self { numbers, picture, labels, pointed, spoken, view }
    }

    fn palette(&self, look: Look) -> Palette {
        Palette::up_to(largest(&self.numbers), self.picture.palette().signs(), look)
    }

    /// The matrix with its title, to export it. `terms` are the words for a row, a column and a number.
    pub(crate) fn matrix(
        &self,
        title: String,
        [row, col, number]: [&'static str; 3],
        look: Look,
    ) -> LabelledMatrix {
        let plain = |labels: &Vec<String>| labels.iter().map(|label| Label::plain(label)).collect();
        let [rows, cols] = self.labels.each_ref().map(plain);
        LabelledMatrix {
            title,
            name: number.replace(' ', "_"),
            values: Arc::new(self.numbers.clone()),
            masked: f32::NEG_INFINITY,
            rows,
            cols,
            axes: [row, col],
            palette: self.palette(look),
        }
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
        self.picture.set_palette(self.palette(look));
        let [rows, cols] = &self.labels;
        let map = Heatmap {
            terms,
            pointed: self.pointed,
            large: (ui.available_height() - below).max(200.0),
            ..Heatmap::new(name, &self.numbers, [rows, cols], &self.picture)
        };
        let area = ScrollArea::both().auto_shrink(false);
        let pointing = area.show(ui, |ui| {
            let width = ui.available_width();
            map.show_enlarged(ui, width, &mut self.view)
        });
        let pointing = pointing.inner;
        self.spoken = pointing.hovered.or(self.pointed).and_then(|cell| map.words(cell));
        self.pointed = pointing.chosen.or(self.pointed);
        self.pointed.filter(|_| pointing.response.clicked())
    }
}
