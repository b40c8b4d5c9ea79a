//! The first page: `english` reads a sentence, and the words that one of its heads looks back at decide what it expects next.
//!
//! The head finds who gets a thing, and the second time of a phrase. The sentence is the picture, with a ribbon to each word that
//! is attended to. The visitor changes how sharply all heads look, hides a word from the last one, and types a sentence. Then the
//! arithmetic of the largest weight opens.
//!
//! The model room runs the model and draws its matrix. This page chooses the sentence, the head and the changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use egui::accesskit::Role;
use egui::{
    Button, CentralPanel, Label, RichText, ScrollArea, Sense, Shape, Slider, Stroke, TextEdit,
    TextStyle, Ui, Vec2, WidgetInfo, vec2,
};
use regard_figure::Matrix;
use regard_models::Change;
use regard_session::walkthrough::{HEAD, RealHead};

use super::{State, sidebar};
use crate::colors::Look;
use crate::explain::{explanation, label};
use crate::model::{self, ModelRoom, Next, percent};
use crate::style::{self, panel};
use crate::widgets::{Bar, Bars, Ribbons};
use crate::{GREETING, Host, temperature};

/// The title in the list.
pub(crate) const TITLE: &str = "A real head";
/// The content of the page.
pub(crate) const SUMMARY: &str = "A head decides which words a word looks at. Change one and see.";

/// The name of the token that begins each text.
const START: &str = "⟨start⟩";

/// From this width on, the next words and the matrix stand beside the sentence, which takes this share.
const WIDE: f32 = 720.0;
const SHARE: f32 = 0.62;
/// A page of this width has text of the usual size. On a wider one, the text grows with the width, up to a limit.
pub(crate) const USUAL: f32 = 960.0;
pub(crate) const MOST_ENLARGED: f32 = 2.0;
/// The same for this page, by width and height, so that it fits the window.
const FITTING: Vec2 = vec2(860.0, 510.0);
/// The most characters of a sentence, which are fewer tokens than the 256 that `english` has learnt to read.
const MOST_TYPED: usize = 600;
/// What there is to try.
const HIDE: &str = "Click a word to hide it";
const SHARPNESS: &str = "How sharply the heads look";
const TYPE: &str = "Type your own sentence";
/// The number of words in the list of next words.
const MOST: usize = 5;

/// The view of a [`RealHead`].
pub(crate) struct RealHeadPage {
    model: ModelRoom,
    state: model::State,
    ribbons: Ribbons,
    bars: Bars,
}

impl RealHeadPage {
    /// A page that has opened nothing.
    pub(crate) fn new(host: Arc<dyn Host>) -> Self {
        Self {
            model: ModelRoom::new(host),
            state: RealHead::default().asked(),
            ribbons: Ribbons::default(),
            bars: Bars::default(),
        }
    }

    /// Whether a thread is at work.
    pub(crate) fn is_busy(&self) -> bool {
        self.model.is_busy()
    }

    /// The weights of the head.
    pub fn matrix(&self, look: Look) -> Option<Matrix> {
        self.model.large().matrix(look)
    }

    /// Draws the page and handles the user's input.
    pub(crate) fn ui(&mut self, ui: &mut Ui, state: &mut State, look: Look) {
        let asked = state.real.asked();
        (self.state.text, self.state.changes) = (asked.text, asked.changes);
        self.state.heads.chosen = state.real.weight;
        self.model.exchange(ui.ctx(), &mut self.state);
        CentralPanel::default().frame(panel(ui, 16, 12)).show(ui, |ui| {
            ScrollArea::vertical().auto_shrink(false).show(ui, |ui| self.page(ui, state, look));
        });
    }

    fn page(&mut self, ui: &mut Ui, state: &mut State, look: Look) {
        let room = ui.available_size();
        let is_wide = room.x >= WIDE;
        if is_wide {
            let fits = (room / FITTING).min_elem();
            style::enlarge(ui, fits.clamp(1.0, MOST_ENLARGED));
        }
        ui.horizontal(|ui| {
            let width = (280.0 * style::enlarged(ui)).min(ui.available_width());
            ui.scope(|ui| {
                ui.set_max_width(width);
                sidebar::choose(ui, state);
            });
            let is_changed = state.real != RealHead::default();
            if is_changed && is_wide && ui.button("Undo all changes").clicked() {
                state.real = RealHead::default();
            }
            if is_wide {
                ui.add(Label::new(RichText::new(SUMMARY).weak()).truncate());
            }
        });
        if let Some(error) = self.model.error() {
            ui.colored_label(ui.visuals().error_fg_color, error);
            typing(ui, state);
            return;
        }
        let Some(shown) = HeadRun::of(&self.model) else {
            self.model.opening(ui);
            return;
        };
        shown.sentences(ui, is_wide);
        if !is_wide {
            self.sentence(ui, &shown, state, 0.4 * room.x);
            self.consequences(ui, &shown, state, look);
            return;
        }
        let (width, gap) = ((SHARE * room.x).floor(), 24.0);
        ui.horizontal_top(|ui| {
            ui.spacing_mut().item_spacing.x = gap;
            let spacing = ui.spacing().item_spacing.y;
            ui.vertical(|ui| {
                ui.spacing_mut().item_spacing.x = spacing;
                ui.set_width(width);
                let rows = 5.0 * (row(ui) + spacing);
                let height = (ui.available_height() - rows).clamp(110.0, 0.5 * width);
                self.sentence(ui, &shown, state, height);
            });
            ui.vertical(|ui| {
                ui.spacing_mut().item_spacing.x = spacing;
                ui.set_width(room.x - width - gap);
                self.consequences(ui, &shown, state, look);
            });
        });
    }

    /// The sentence with its ribbons, and the controls of the head.
    fn sentence(&mut self, ui: &mut Ui, shown: &HeadRun, state: &mut State, height: f32) {
        let size = vec2(ui.available_width(), height);
        let real = &mut state.real;
        let clicked = self.ribbons.show(ui, size, &shown.words, &shown.weights, &real.hidden);
        // The words are those of the sentence before, until the model has read the new one.
        if let Some(word) = clicked.filter(|_| shown.text == real.text) {
            if !real.hidden.remove(&word) {
                real.hidden.insert(word);
            }
            real.last = shown.last();
            state.tried[1] = true;
        }
        line(ui, state.tried[0], [SHARPNESS, explanation!(SHARPNESS)], &mut |ui| {
            let number = 64.0 * style::enlarged(ui);
            ui.spacing_mut().slider_width = (ui.available_width() - number).max(60.0);
            let slider = Slider::new(&mut real.temperature, 0.1..=10.0);
            let slider = slider.logarithmic(true).max_decimals(2);
            if ui.add(slider).accessible_name(SHARPNESS).changed() {
                state.tried[0] = true;
            }
        });
        line(ui, state.tried[1], [HIDE, explanation!(HIDE)], &mut |_| ());
        typing(ui, state);
        let text = RichText::new("See how these numbers are computed");
        let button = if state.tried == [true; 3] {
            let selection = &ui.visuals().selection;
            Button::new(text.color(selection.stroke.color)).fill(selection.bg_fill)
        } else {
            Button::new(text)
        };
        if ui.add(button).clicked() {
            state.real.weight = Some((shown.last(), shown.target()));
        }
    }

    /// The next words, and the matrix or the arithmetic of a weight.
    fn consequences(&mut self, ui: &mut Ui, shown: &HeadRun, state: &mut State, look: Look) {
        label(ui, "Next word", explanation!("Next word"));
        let bars = shown.next.iter().map(|next| Bar {
            id: next.id,
            name: &next.token,
            share: next.after,
            text: percent(next.after),
        });
        let bars: Vec<Bar<'_>> = bars.collect();
        self.bars.show(ui, ui.available_width(), &bars, MOST);
        if state.real.weight.is_none() {
            self.model.show_weights(ui, &mut self.state, look);
            // A click on a cell opens its arithmetic.
            state.real.weight = self.state.heads.chosen;
            return;
        }
        self.model.show_arithmetic(ui);
        ui.horizontal_wrapped(|ui| {
            if ui.button("Show all weights").clicked() {
                state.real.weight = None;
            }
            let hint = "The worked examples compute every step with numbers that fit in your head.";
            if ui.button("Go on to small numbers").on_hover_text(hint).clicked() {
                state.open(GREETING);
            }
        });
    }
}

/// A run of the model over the sentence.
struct HeadRun {
    /// The sentence, and its words as the model reads them.
    text: String,
    words: Vec<String>,
    /// The weights of the last word in the head.
    weights: Vec<f32>,
    /// The likeliest next words. With the changes, the first comes first.
    next: Vec<Next>,
    /// The temperature and the hidden words of the run.
    temperature: f32,
    hidden: BTreeSet<usize>,
}

impl HeadRun {
    fn of(model: &ModelRoom) -> Option<Self> {
        let (heads, changes) = model.changed()?;
        let mut words: Vec<String> = heads.labels()[0].iter().map(|token| plain(token)).collect();
        let weights = heads.maps.head(HEAD);
        let weights = weights.get(words.len().checked_sub(1)? * words.len()..)?.to_vec();
        START.clone_into(words.first_mut()?);
        let mut next = model.next().to_vec();
        for next in &mut next {
            next.token = plain(&next.token);
        }
        next.sort_by(|a, b| b.after.total_cmp(&a.after));
        // The word that was expected before the changes stays in the list.
        let expected =
            (0..next.len()).max_by(|a, b| next[*a].before.total_cmp(&next[*b].before))?;
        if expected >= MOST {
            let expected = next.remove(expected);
            next.insert(MOST - 1, expected);
        }
        let (mut temperature, mut hidden) = (1.0, BTreeSet::new());
        for change in changes {
            match change {
                Change::Temperature { temperature: t, .. } => temperature = *t,
                Change::Cut { key, .. } => drop(hidden.insert(*key)),
                _ => {}
            }
        }
        let text = model.outcome()?.request.text.clone();
        Some(Self { text, words, weights, next, temperature, hidden })
    }

    /// The position of the last word.
    fn last(&self) -> usize {
        self.words.len().saturating_sub(1)
    }

    /// The word that gets the largest weight.
    fn target(&self) -> usize {
        let larger = |a: &usize, b: &usize| self.weights[*a].total_cmp(&self.weights[*b]);
        (0..self.weights.len()).max_by(larger).unwrap_or_default()
    }

    fn word(&self, i: usize) -> &str {
        self.words.get(i).map_or("", String::as_str)
    }

    /// A sentence about the attention of the head.
    fn attention(&self) -> String {
        let (target, last) = (self.target(), self.word(self.last()));
        let word = self.word(target);
        if self.hidden.is_empty() && self.temperature == 1.0 {
            let comes_after = target > 0 && self.word(target - 1) == last;
            return if comes_after {
                format!(
                    "Head {HEAD} looks from the last word, “{last}”, back at what came after “{last}” last time: “{word}”."
                )
            } else {
                format!("Head {HEAD} looks from the last word, “{last}”, back at “{word}”.")
            };
        }
        let hidden: Vec<String> =
            self.hidden.iter().map(|i| format!("“{}”", self.word(*i))).collect();
        let without = (!hidden.is_empty()).then(|| format!("without {}", hidden.join(", ")));
        let at = (self.temperature != 1.0)
            .then(|| format!("at temperature {}", temperature::text(f64::from(self.temperature))));
        let cause: Vec<String> = at.into_iter().chain(without).collect();
        let cause = cause.join(" and ");
        let (first, rest) = cause.split_at(1);
        let share = self.weights.get(target).copied().unwrap_or_default();
        let most = if share > 0.9 { "" } else { " most" };
        format!(
            "{}{rest}, “{last}” looks{most} at “{word}”, with {} of its attention.",
            first.to_uppercase(),
            percent(share)
        )
    }

    /// A sentence about the prediction of the model.
    fn expectation(&self) -> String {
        let Some(winner) = self.next.first() else { return String::new() };
        let (word, after) = (&winner.token, percent(winner.after));
        let before = self.next.iter().max_by(|a, b| a.before.total_cmp(&b.before));
        match before {
            Some(before) if before.id != winner.id => format!(
                "The model expects “{word}” next: {after}. “{}” goes from {} to {}.",
                before.token,
                percent(before.before),
                percent(before.after)
            ),
            Some(before) if percent(before.before) != after => {
                let was = percent(before.before);
                format!("The model still expects “{word}” next: {after}, after {was}.")
            }
            _ => format!("The model expects “{word}” next: {after}."),
        }
    }

    /// Shows both sentences in the same height, so that a change moves nothing.
    fn sentences(&self, ui: &mut Ui, is_wide: bool) {
        let texts = [self.attention(), self.expectation()];
        let lines = if is_wide { 1.0 } else { 2.0 };
        for (text, is_strong) in texts.into_iter().zip([false, true]) {
            let text = RichText::new(text).text_style(style::subheading());
            let text = if is_strong { text.strong() } else { text };
            let height = lines * ui.text_style_height(&style::subheading());
            let least = ui.cursor().top() + height;
            ui.label(text);
            ui.add_space((least - ui.min_rect().bottom()).max(0.0));
        }
    }
}

/// A token without the mark of the space before it: the words stand apart anyway.
fn plain(token: &str) -> String {
    token.strip_prefix('␣').filter(|word| !word.is_empty()).unwrap_or(token).to_owned()
}

/// The line in which a sentence is typed, and the field.
fn typing(ui: &mut Ui, state: &mut State) {
    let State { real, tried, .. } = state;
    line(ui, tried[2], [TYPE, explanation!(TYPE)], &mut |ui| {
        if ui.button("Another sentence").clicked() {
            real.read(real.following().to_owned());
            tried[2] = true;
        }
    });
    let mut text = real.text.clone();
    let field = TextEdit::singleline(&mut text).char_limit(MOST_TYPED).desired_width(f32::INFINITY);
    if ui.add(field).accessible_name("Sentence").changed() {
        real.read(text);
        tried[2] = true;
    }
}

/// A line with something to try, and its control.
fn line(ui: &mut Ui, done: bool, [text, why]: [&str; 2], add: &mut dyn FnMut(&mut Ui)) {
    let width = ui.available_width();
    ui.horizontal(|ui| {
        ui.set_height(row(ui));
        ui.set_max_width(width);
        tick(ui, done, text, why);
        add(ui);
    });
}

/// The height of a line with a control.
fn row(ui: &Ui) -> f32 {
    1.9 * TextStyle::Body.resolve(ui.style()).size
}

/// Something to try, with a mark once it has been done.
fn tick(ui: &mut Ui, done: bool, text: &str, why: &str) {
    let size = TextStyle::Body.resolve(ui.style()).size;
    let (rect, response) = ui.allocate_exact_size(Vec2::splat(1.2 * size), Sense::hover());
    let words = if done { format!("{text}: done") } else { format!("{text}: not done yet") };
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, &words));
    let (center, radius) = (rect.center(), 0.5 * size);
    if done {
        ui.painter().circle_filled(center, radius, style::QUERY);
        let points = [(-0.45, 0.0), (-0.1, 0.38), (0.5, -0.4)];
        let points = points.map(|(x, y)| center + radius * vec2(x, y)).to_vec();
        let stroke = Stroke::new(0.14 * size, egui::Color32::WHITE);
        ui.painter().add(Shape::line(points, stroke));
    } else {
        let stroke = Stroke::new(1.5, ui.visuals().weak_text_color());
        ui.painter().circle_stroke(center, radius, stroke);
    }
    ui.label(text).on_hover_text(why);
}
