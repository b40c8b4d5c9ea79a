//! The first page: one head of the bundled model over a short sentence, the word that the model expects next, and three
//! invitations to change the head.
//!
//! The model room runs the model and draws its parts. This page chooses the sentence, the head and the changes.

use std::sync::Arc;

use egui::{
    CentralPanel, Frame, Label, Margin, Panel, RichText, ScrollArea, Slider, TextStyle, Ui,
};
use regard_figure::Matrix;
use regard_heads::HeadId;
use regard_models::{Change, HeadAddress, Which};
use serde::{Deserialize, Serialize};

use super::{State, sidebar};
use crate::colors::Look;
use crate::explain::label;
use crate::heads::{Shown, Surveyed};
use crate::heatmap::Cell;
use crate::model::{self, ModelRoom, STORY, percent};
use crate::style::{self, panel};
use crate::{Host, side};

/// The title in the list.
pub(crate) const TITLE: &str = "A real head";
/// The content of the page.
pub(crate) const SUMMARY: &str =
    "One attention head of a small trained model: change it, and see what the model then expects.";

/// The model continues this sentence with near certainty: Lily gets the ball.
const SENTENCE: &str = "Lily and Max went to the park. Max had a red ball. Max gave the ball to";

/// From this width on, the next words have their own panel.
const WIDE: f32 = 720.0;
/// A page of this width has text of the usual size. On a wider one, the text grows with the width, up to a limit.
pub(crate) const USUAL: f32 = 960.0;
pub(crate) const MOST_ENLARGED: f32 = 2.0;
/// The maximum number of words in the list of next words.
const MOST: usize = 5;

const TEMPERATURE: &str = "\
    The head divides its scores by T before softmax. Below 1, the largest weight grows; above 1, the weights become equal.";

const HIDE: &str = "\
    No later word may attend to a hidden word, in any head of any layer: its scores are set to −∞, as a mask does.";

const ARITHMETIC: &str = "\
    A weight is a dot product of a query and a key, scaled, and compared with those of all other keys by softmax. Click any cell of \
    the picture to open its arithmetic.";

/// The changes of the real head.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RealHead {
    /// The temperature of the head.
    pub temperature: f32,
    /// The position of the word that is hidden.
    pub hidden: Option<usize>,
    /// The weight whose arithmetic is open, by query and key.
    pub weight: Option<Cell>,
}

impl Default for RealHead {
    fn default() -> Self {
        Self { temperature: 1.0, hidden: None, weight: None }
    }
}

impl RealHead {
    /// The changes of the model.
    fn changes(self, head: HeadId, heads: &Surveyed) -> Vec<Change> {
        let address =
            |id: HeadId| HeadAddress { attention: Which::Only, layer: id.layer, head: id.head };
        let mut changes = Vec::new();
        if self.temperature != 1.0 {
            let temperature = self.temperature;
            changes.push(Change::Temperature { head: address(head), temperature });
        }
        if let Some(key) = self.hidden {
            let shape = heads.maps.shape();
            let later = key + 1..shape.queries;
            changes.extend(shape.ids().flat_map(|id| {
                later.clone().map(move |query| Change::Cut { head: address(id), query, key })
            }));
        }
        changes
    }
}

/// The initial state of the model room: story reads the sentence, and one head is shown.
fn beginning() -> model::State {
    let mut state = model::State::of(STORY);
    SENTENCE.clone_into(&mut state.text);
    state.heads.shown = Shown::Head;
    state
}

fn listed(changes: Vec<Change>) -> Vec<model::Listed> {
    changes.into_iter().map(|change| model::Listed { change, on: true }).collect()
}

/// The weights of the head with the changes of a session, to export them.
///
/// # Errors
/// If story cannot be run.
pub fn matrix(host: &dyn Host, real: RealHead, look: Look) -> anyhow::Result<Matrix> {
    let mut state = beginning();
    let chosen = |heads: &Surveyed| {
        let head = of_names(heads);
        (head, real.changes(head, heads))
    };
    let (head, changes) = model::heads_of(host, &state, chosen)?;
    state.heads.show(head);
    state.changes = listed(changes);
    model::matrix(host, &state, look)
}

/// The view of a [`RealHead`].
pub(crate) struct RealHeadPage {
    model: ModelRoom,
    state: model::State,
    /// The head that is shown, once the model has read the sentence.
    head: Option<HeadId>,
}

impl RealHeadPage {
    /// A page that has opened nothing.
    pub(crate) fn new(host: Arc<dyn Host>) -> Self {
        Self { model: ModelRoom::new(host), state: beginning(), head: None }
    }

    /// Whether a thread is at work.
    pub(crate) fn is_busy(&self) -> bool {
        self.model.is_busy()
    }

    /// The weights of the head.
    pub fn matrix(&self, look: Look) -> Option<Matrix> {
        self.model.matrix(look)
    }

    /// Whether the weights of the head exist.
    pub(crate) fn has_matrix(&self) -> bool {
        self.model.selected().is_some()
    }

    /// The likeliest next word, with its probability without and with the changes.
    pub(crate) fn next(&self) -> Option<&model::Next> {
        self.model.likeliest()
    }

    /// Draws the page and handles the user's input.
    pub(crate) fn ui(&mut self, ui: &mut Ui, state: &mut State, look: Look, side: bool) {
        self.follow(ui, &mut state.real);
        let before = self.state.heads.chosen;
        if side {
            side::show(ui, "real head", |ui| {
                sidebar::choose(ui, state);
                ui.separator();
                self.invitations(ui, &mut state.real);
            });
        }
        let is_wide = ui.available_width() >= WIDE;
        if is_wide {
            let right = Panel::right("real next").resizable(false).exact_size(288.0);
            right.frame(panel(ui, 16, 12)).show(ui, |ui| {
                ScrollArea::vertical().auto_shrink(false).show(ui, |ui| self.consequences(ui));
            });
        }
        CentralPanel::default().frame(panel(ui, 0, 0)).show(ui, |ui| {
            ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                Frame::new().inner_margin(Margin::same(16)).show(ui, |ui| {
                    self.central(ui, look);
                    // A click on a cell opens its arithmetic.
                    if self.state.heads.chosen != before {
                        state.real.weight = self.state.heads.chosen;
                    }
                    if !side {
                        ui.separator();
                        self.invitations(ui, &mut state.real);
                    }
                    if !is_wide {
                        ui.separator();
                        self.consequences(ui);
                    }
                });
            });
        });
    }

    /// Chooses the head and its changes, and runs the model.
    fn follow(&mut self, ui: &Ui, real: &mut RealHead) {
        if let Some(heads) = self.model.unchanged() {
            let head = *self.head.get_or_insert_with(|| of_names(heads));
            self.state.heads.show(head);
            let tokens = heads.maps.shape().queries;
            real.hidden = real.hidden.filter(|hidden| *hidden < tokens);
            self.state.changes = listed(real.changes(head, heads));
        }
        self.state.heads.chosen = real.weight;
        self.model.follow(ui.ctx(), &mut self.state);
    }

    /// The three invitations.
    fn invitations(&self, ui: &mut Ui, real: &mut RealHead) {
        label(ui, "1  Drag the temperature", TEMPERATURE);
        ui.horizontal(|ui| {
            ui.spacing_mut().slider_width = (ui.available_width() - 72.0).max(80.0);
            let slider = Slider::new(&mut real.temperature, 0.1..=10.0);
            ui.add(slider.logarithmic(true).max_decimals(2))
                .accessible_name("Temperature of the head");
        });
        ui.separator();
        label(ui, "2  Hide a word", HIDE);
        let tokens = self.tokens();
        ui.horizontal_wrapped(|ui| {
            ui.spacing_mut().item_spacing = egui::vec2(4.0, 4.0);
            for (i, token) in tokens.iter().enumerate().filter(|(_, token)| is_word(token)) {
                let is_hidden = real.hidden == Some(i);
                let button = ui.selectable_label(is_hidden, token);
                button.widget_info(|| {
                    let name = format!("Hide {token} at {i}");
                    egui::WidgetInfo::selected(egui::Role::Button, true, is_hidden, name)
                });
                if button.clicked() {
                    real.hidden = (!is_hidden).then_some(i);
                }
            }
        });
        ui.separator();
        label(ui, "3  Open the arithmetic", ARITHMETIC);
        if let Some(cell) = self.largest() {
            let token = |i: usize| tokens.get(i).map_or("", String::as_str);
            let name = format!("Weight of {} → {}", token(cell.0), token(cell.1));
            let is_open = real.weight == Some(cell);
            if ui.selectable_label(is_open, name).clicked() {
                real.weight = (!is_open).then_some(cell);
            }
        }
        ui.separator();
        if *real != RealHead::default() && ui.button("Undo all changes").clicked() {
            *real = RealHead::default();
        }
    }

    fn tokens(&self) -> Vec<String> {
        self.model.unchanged().map(|heads| heads.labels()[0].clone()).unwrap_or_default()
    }

    /// The cell of the largest weight of the last word.
    fn largest(&self) -> Option<Cell> {
        let heads = self.model.unchanged()?;
        let row = last_row(heads, self.head?)?;
        let largest = (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b]))?;
        Some((heads.maps.shape().queries.checked_sub(1)?, largest))
    }

    fn central(&mut self, ui: &mut Ui, look: Look) {
        style::enlarge(ui, (ui.available_width() / USUAL).clamp(1.0, MOST_ENLARGED));
        ui.heading(TITLE);
        if let Some(error) = self.model.error() {
            ui.colored_label(ui.visuals().error_fg_color, error);
            return;
        }
        let (Some(head), Some(cell)) = (self.head, self.largest()) else {
            ui.label("Opening the model.");
            return;
        };
        let tokens = self.tokens();
        let token = |i: usize| tokens.get(i).map_or("", String::as_str);
        let text = format!(
            "A small trained model reads the sentence below, word by word, and predicts the next one. In {head}, \
             the last word, “{}”, attends most to “{}”. The darker a word, the larger its weight: point at a word to see what it \
             attends to.",
            token(cell.0),
            token(cell.1),
        );
        ui.add(Label::new(text).wrap());
        self.model.show_tokens(ui, &mut self.state, look);
        if let Some(sentence) = self.sentence() {
            ui.add(Label::new(RichText::new(sentence).text_style(style::subheading())).wrap());
        }
        self.model.show_weights(ui, &mut self.state, look);
    }

    /// Describes the model's expectation and the effect of the changes.
    fn sentence(&self) -> Option<String> {
        let next = self.next()?;
        let (word, before, after) = (&next.token, percent(next.before), percent(next.after));
        Some(if self.state.changes.is_empty() {
            format!("The model expects “{word}” next, with a probability of {before}.")
        } else if before == after {
            format!(
                "With this change, the model still expects “{word}”, with a probability of {after}: other heads do the same work."
            )
        } else {
            let verb = if next.after < next.before { "falls" } else { "rises" };
            format!(
                "With this change, the probability of “{word}” {verb} from {before} to {after}."
            )
        })
    }

    /// The next words, and the arithmetic of a weight.
    fn consequences(&self, ui: &mut Ui) {
        self.model.show_next(ui, MOST);
        self.model.show_arithmetic(ui);
        if self.state.heads.chosen.is_none() {
            ui.separator();
            let text = "Click a cell to see how its weight is computed, or go on to the worked examples with ›.";
            let text = RichText::new(text).text_style(TextStyle::Small).weak();
            ui.add(Label::new(text).wrap());
        }
    }
}

/// Whether a token is a word, not punctuation.
fn is_word(token: &str) -> bool {
    token.chars().all(char::is_alphabetic)
}

/// Whether a token is a name.
fn is_name(token: &str) -> bool {
    is_word(token) && token.chars().next().is_some_and(char::is_uppercase)
}

/// The head whose last word attends most to names.
fn of_names(heads: &Surveyed) -> HeadId {
    let tokens = &heads.labels()[0];
    let on_names = |id: HeadId| -> f32 {
        let row = last_row(heads, id).unwrap_or_default();
        let both = row.iter().zip(tokens.iter());
        both.filter(|(_, token)| is_name(token)).map(|(weight, _)| weight).sum()
    };
    let all = heads.maps.shape().ids();
    let best = all.max_by(|a, b| on_names(*a).total_cmp(&on_names(*b)));
    best.unwrap_or(HeadId { layer: 0, head: 0 })
}

/// The weights of the last word.
fn last_row(heads: &Surveyed, id: HeadId) -> Option<Vec<f32>> {
    let shape = heads.maps.shape();
    let weights = heads.maps.head(id);
    let first = shape.queries.checked_sub(1)? * shape.keys;
    weights.get(first..).map(<[f32]>::to_vec)
}
