//! The matrix that is shown large. A thread computes it, and the previous one is shown until then.

use std::sync::Arc;

use egui::{Context, Label, RichText, ScrollArea, Ui};
use regard_figure::{Figure, LabelledMatrix, overlaid};
use regard_heads::{HeadId, MapPart};

use super::lines::LineSet;
use super::{HeadsState, Side, bar, lines};
use super::{Select, Selected, Surveyed};
use crate::colors::Look;
use crate::heatmap::{Cell, Heatmap, Pointing};
use crate::work::{self, Background, Once, PATIENCE};
use crate::{numbers, style};

/// A lower page has neither a title nor captions.
const LOW: f32 = 280.0;
/// The least height of the cells.
const LEAST: f32 = 120.0;

/// The matrix, and the next one that is being computed.
#[derive(Default)]
pub(crate) struct Large {
    computing: Option<(Of, Once<Selected>)>,
    shown: Option<(Of, Selected)>,
    hovered: Option<Cell>,
    /// The numbers of the heads whose lines are drawn together.
    together: Together,
    /// Whether dragging over the heatmap paints, which the caller handles.
    pub(crate) paints: bool,
    /// The name of the run, if several stand side by side.
    pub(crate) of: String,
    /// Whether the rows have no labels, because those of the run beside it are the same.
    pub(crate) is_beside: bool,
    /// Whether the name of the run already stands above an image.
    pub(crate) is_named: bool,
}

/// The numbers of some heads of an attention.
#[derive(Default)]
struct Together {
    of: Option<Arc<Surveyed>>,
    ids: Vec<HeadId>,
    numbers: Vec<Vec<f32>>,
}

impl Together {
    /// Reads the numbers of these heads, unless they are here.
    fn take(&mut self, heads: &Arc<Surveyed>, ids: &[HeadId]) {
        if !self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, heads)) || self.ids != ids {
            let numbers = ids.iter().map(|id| heads.maps.head(*id).into_owned()).collect();
            *self = Self { of: Some(Arc::clone(heads)), ids: ids.to_vec(), numbers };
        }
    }
}

struct Of {
    heads: Arc<Surveyed>,
    part: MapPart,
}

impl Large {
    /// Takes the matrix that has been computed, and asks for the next one. `None` shows no matrix.
    pub(crate) fn exchange(
        &mut self,
        background: &Arc<Background>,
        ctx: &Context,
        asked: Option<(&Arc<Surveyed>, MapPart)>,
    ) -> Result<(), String> {
        let mut outcome = Ok(());
        if let Some(done) = self.computing.as_ref().and_then(|(_, once)| once.take())
            && let Some((of, _)) = self.computing.take()
        {
            match done {
                Ok(selected) => self.shown = Some((of, selected)),
                Err(message) => outcome = Err(message),
            }
        }
        let Some((heads, part)) = asked.filter(|_| outcome.is_ok()) else {
            *self = Self::default();
            return outcome;
        };
        // The matrix that is being computed comes first, then the shown one.
        let latest = self.computing.as_ref().map(|(of, _)| of);
        let latest = latest.or_else(|| self.shown.as_ref().map(|(of, _)| of));
        if !latest.is_some_and(|of| Arc::ptr_eq(&of.heads, heads) && of.part == part) {
            let of = Of { heads: Arc::clone(heads), part };
            let once = background.ask(ctx, Select { heads: background.id(heads), part });
            self.computing = Some((of, once));
        }
        outcome
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.computing.is_some()
    }

    pub(crate) fn selected(&self) -> Option<&Selected> {
        self.shown.as_ref().map(|(_, selected)| selected)
    }

    pub(crate) fn matrix(&self, look: Look) -> Option<LabelledMatrix> {
        self.shown.as_ref().map(|(of, selected)| selected.matrix(&of.heads, look))
    }

    /// The lines that are shown, to export them: those of the matrix, or of all heads of the layer.
    pub(crate) fn lines(
        &self,
        state: &HeadsState,
        look: Look,
    ) -> Option<Result<Figure, regard_figure::Error>> {
        let (of, selected) = self.shown.as_ref()?;
        let matrix = selected.matrix(&of.heads, look);
        let head = |(place, id): (usize, &HeadId)| {
            let (numbers, part) = (of.heads.maps.head(*id).into_owned(), MapPart::Head(*id));
            let of_head = of.heads.maps.labelled(part, Arc::new(numbers), matrix.palette);
            let [r, g, b, _] = lines::color(place).to_array();
            (state.with_lines(of_head), [r, g, b])
        };
        let together = state.together(of.heads.maps.shape());
        let layers: Vec<_> = together.iter().enumerate().map(head).collect();
        if layers.is_empty() {
            return Some(state.with_lines(matrix).lines());
        }
        Some(overlaid(&layers))
    }

    pub(crate) fn hovered(&self) -> Option<Cell> {
        self.hovered
    }

    /// The progress, if the matrix takes long.
    pub(crate) fn progress(&self, ui: &mut Ui) {
        let computing = self.computing.as_ref().filter(|(_, once)| once.elapsed() > PATIENCE);
        if let Some((_, once)) = computing {
            work::bar(ui, once.progress(), "Computing");
        }
    }

    /// Shows the matrix as a heatmap or as lines. Returns the input of the pointer on the heatmap.
    pub(crate) fn show(
        &mut self,
        ui: &mut Ui,
        state: &mut HeadsState,
        look: Look,
    ) -> Option<Pointing> {
        let (_, selected) = self.shown.as_mut()?;
        selected.set_look(look);
        let is_one = self.of.is_empty();
        // In a low page, the height is better used for cells: the bar above also names the head.
        let is_low = ui.available_height() < LOW;
        if !self.is_named && (!is_one || !is_low || state.lines) {
            let words = self.spoken(state);
            let (_, selected) = self.shown.as_ref()?;
            ui.horizontal(|ui| {
                bar::title(ui, if is_one { &selected.title } else { &self.of });
                if let Some(words) = words {
                    ui.add(Label::new(RichText::new(words).small().weak()).truncate());
                }
            });
        }
        let (of, selected) = self.shown.as_mut()?;
        let heads = &of.heads;
        let name = if is_one {
            selected.title.clone()
        } else {
            format!("{}, {}", selected.title, self.of)
        };
        if state.lines {
            self.hovered = None;
            let together = state.together(heads.maps.shape());
            self.together.take(heads, &together);
            let each = together.iter().enumerate().zip(&self.together.numbers);
            let each = each.map(|((place, id), numbers)| LineSet {
                name: heads.maps.title(MapPart::Head(*id)),
                numbers,
                colors: [lines::color(place); 2],
            });
            let mut layers: Vec<LineSet<'_>> = each.collect();
            if layers.is_empty() {
                layers.push(LineSet {
                    name: selected.title.clone(),
                    numbers: &selected.numbers,
                    colors: match selected.picture.palette().of_signs() {
                        Some(signs) => signs.map(|[r, g, b]| egui::Color32::from_rgb(r, g, b)),
                        None => [ui.visuals().hyperlink_color; 2],
                    },
                });
            }
            lines::show(ui, heads, selected, &layers, state);
            return None;
        }
        let [rows, cols] = &heads.labels;
        let around = if is_low { 40.0 } else { 60.0_f32.max(50.0 * style::enlarged(ui)) };
        let large = (ui.available_height() - around).max(LEAST);
        let pointing = ScrollArea::vertical()
            .auto_shrink(false)
            .show(ui, |ui| {
                let map = Heatmap {
                    masked: heads.masked(),
                    captions: (is_one && !is_low).then_some(["attending from", "attending to"]),
                    terms: ["query", "key", heads.term()],
                    // The cursor may belong to a larger matrix beside this one.
                    pointed: state
                        .chosen
                        .filter(|(row, col)| *row < rows.len() && *col < cols.len()),
                    large,
                    paints: self.paints,
                    has_row_labels: !self.is_beside,
                    usual_tick: if is_one { "" } else { "−0.00" },
                    ..Heatmap::new(&name, &selected.drawn, [rows, cols], &selected.picture)
                };
                let width = ui.available_width();
                let pointing = map.show_enlarged(ui, width, &mut state.view);
                if let Some((row, _)) = pointing.chosen {
                    state.chosen = pointing.chosen;
                    state.around = row;
                    if pointing.response.clicked() {
                        // Lines show this token's.
                        state.isolated = Some((Side::Queries, row));
                    }
                }
                pointing
            })
            .inner;
        if pointing.hovered != self.hovered {
            self.hovered = pointing.hovered;
            ui.ctx().request_repaint();
        }
        Some(pointing)
    }

    /// A cell in words: the one under the pointer, or the chosen one.
    pub(crate) fn spoken(&self, state: &HeadsState) -> Option<String> {
        self.words(self.hovered.or(state.chosen)?)
    }

    fn words(&self, (row, col): Cell) -> Option<String> {
        let (of, selected) = self.shown.as_ref()?;
        let [rows, cols] = &of.heads.labels;
        let (query, key, weight) = (rows.get(row)?, cols.get(col)?, selected.cell((row, col))?);
        let (term, weight) = (of.heads.term(), numbers::spoken_masked(weight, of.heads.masked()));
        Some(format!("query {row} {query}, key {col} {key}: {term} {weight}"))
    }
}
