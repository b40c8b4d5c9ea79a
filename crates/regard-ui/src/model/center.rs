//! The middle of the room: the text, the runs, and the open view of them.

use core::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use egui::accesskit::Role;
use egui::{
    Align, CentralPanel, FontId, Frame, Label, Layout, Margin, Panel, Rect, RichText, ScrollArea,
    TextEdit, TextStyle, Ui, UiBuilder, WidgetInfo, vec2,
};
use regard_bundled::ENGLISH;
use regard_models::{Change, Which};

use super::Outcome;
use super::Reads;
use super::View;
use super::compare::OpenChoice;
use super::overlay::PictureParts;
use super::room::{Pane, outcome};
use super::sentence::{Done, SentenceView};
use super::{
    ModelRoom, ModelState, Version, attribution, changes, compare, experts, lens, note, pad, patch,
    patches, strip,
};
use crate::choice::{self, Choice};
use crate::colors::Look;
use crate::explain::{explain, explanation};
use crate::heads::{AttentionSource, Contents, MapKind, Shown, Side, Surveyed, bar};
use crate::heatmap::widest;
use crate::style::lone;
use crate::{Command, file_name, message, style};
use regard_session::model::{blank, size_for};

/// The attention of a model with an encoder and a decoder.
const KINDS: [Choice<Which>; 3] = [
    (
        Which::Encoder,
        "Encoder",
        Ok("Tokens of the text, or times of the recording, attend to each other."),
    ),
    (Which::Decoder, "Decoder", Ok("Tokens of the decoder attend to the earlier ones.")),
    (Which::Cross, "Cross", Ok("Tokens of the decoder attend to the text or the recording.")),
];

/// The views in the drawer beside the heads.
const VIEWS: [Choice<View>; 5] = [
    (
        View::Attention,
        "Arithmetic",
        Ok("Show what a head attends to, and how a weight is computed."),
    ),
    (View::Lens, "Lens", Ok("Show what the model would predict after each layer.")),
    (View::Attribution, "Attribution", Ok("Show what each part of the model adds to a logit.")),
    (View::Patches, "Patch", Ok("Show what each place of another sentence does in this one.")),
    (View::Experts, "Experts", Ok("Show which experts each token takes.")),
];
/// A file has the first view alone, for this reason.
const OF_FILE: &str = "It needs a model that runs: this is a file of attention.";

/// The width of the controls of the heads beside the choice of the view. A narrower row wraps.
const CONTROLS: f32 = 460.0;
pub(super) const NARROW: f32 = 560.0;
/// The most rows of a text that is typed.
const ROWS: f32 = 3.0;
/// From this width on, all heads are shown beside the chosen one.
const BESIDE: f32 = 560.0;
/// From this width on, the arithmetic of a weight stands beside its head: its share of the width, and the least and the most.
const UNFOLDED: f32 = 520.0;
const ARITHMETIC: [f32; 3] = [0.42, 232.0, 420.0];
/// From this height on, an image and a head, or all heads and one of them, fit below each other.
const BOTH: f32 = 320.0;
/// From this height on, the spectrogram of a recording fits above its heads.
const ABOVE: f32 = 240.0;
/// From this width on, three panes fit beside each other.
const BESIDE_EACH_OTHER: f32 = 480.0;
/// From this width on, the headline of a few changes fits in a line.
const WIDE: f32 = 1100.0;
/// The sizes of its letters: the largest with which it fits.
const SIZES: [f32; 6] = [19.0, 17.0, 15.0, 13.5, 12.0, 11.0];
/// The height of the sentence with its ribbons: the least, its share of the page, and the most.
const SENTENCE: [f32; 3] = [92.0, 0.27, 300.0];
/// The width of the steps to try, in small letters.
const STEPS: f32 = 524.0;
/// More words have no ribbons.
const MOST_WORDS: usize = 1024;

impl ModelRoom {
    /// Shows the text, and the chosen view of its run.
    pub(super) fn central(
        &mut self,
        ui: &mut Ui,
        state: &mut ModelState,
        look: Look,
    ) -> Option<OpenChoice> {
        self.messages(ui, state);
        if state.file.is_some() {
            self.of_file(ui, state, look);
            return None;
        }
        let opened = self.here(state)?;
        let description = &opened.description;
        let reads = Reads::of(description);
        let mut asked = None;
        match reads {
            Reads::Image => draw(ui, state, size_for(description)),
            Reads::TextAndDecoder => {
                text(ui, &mut state.text, "Type a text for the encoder to read.", "Text");
            }
            Reads::Text | Reads::Recording => {}
        }
        if reads.decodes() {
            let row = ui.horizontal_top(|ui| {
                let opens = (reads == Reads::Recording)
                    .then(|| ui.horizontal(|ui| file(ui, state, reads)).inner)
                    .flatten();
                let hint = "Type what the decoder has written so far, or let it write.";
                ui.vertical(|ui| text(ui, &mut state.decoder, hint, "Text of the decoder"));
                opens
            });
            asked = row.inner;
        }
        if let Some(message) = self.latest.error() {
            let is_empty = match reads {
                Reads::Image => state.image.is_none() && state.drawing.is_none(),
                Reads::Recording => state.image.is_none(),
                Reads::Text | Reads::TextAndDecoder => state.text.trim().is_empty(),
            };
            let color =
                if is_empty { ui.visuals().weak_text_color() } else { ui.visuals().error_fg_color };
            ui.colored_label(color, message);
        }
        if self.outcome().is_none() {
            if reads == Reads::Image {
                asked = ui.horizontal_wrapped(|ui| file(ui, state, reads)).inner;
            }
            if reads == Reads::Text {
                let mut typed = state.text.clone();
                text(ui, &mut typed, "Type a text for the model to read.", "Text");
                state.read(typed);
            }
            return asked;
        }
        if reads == Reads::Text {
            self.stage(ui, state);
        } else {
            let looks = String::new();
            let title = self.outcome().map(|o| note::headline(o, &o.list, &looks));
            headline(ui, &title.unwrap_or_default(), self.latest.is_late());
        }
        let Some(outcome) = outcome(&self.latest) else { return asked };
        let large = Some(&self.panes[0].large).filter(|_| state.version != Version::Second);
        if reads.decodes() {
            let which = state.attention;
            let labels = outcome.labels(which);
            // The spectrogram shows the positions of a recording.
            let hears = reads == Reads::Recording;
            let words = [labels[0].clone(), Vec::new()];
            let labels = if hears && which == Which::Cross { &words } else { labels };
            let dropped = if hears && which == Which::Encoder {
                None
            } else {
                strip::show(ui, labels, which, large, &mut state.heads, look)
            };
            if let Some((from, to)) = dropped {
                self.dropped = patch::drop_at(state, outcome, description, from, to).err();
            }
        }
        let switched = ui.horizontal_wrapped(|ui| {
            let opens = (reads == Reads::Image).then(|| file(ui, state, reads)).flatten();
            if state.model == ENGLISH && ui.button("Another sentence").clicked() {
                state.read(state.following().to_owned());
                state.heads.isolated = None;
                state.tried[2] = true;
            }
            let draws = size_for(description).is_some();
            let (cached, host) = (&mut self.cached, &self.background.host);
            let asked = compare::menu(ui, state, reads, draws, cached, host);
            compare::versions(ui, state, outcome);
            if reads == Reads::Text {
                steps(ui, state.tried);
            }
            opens.or(asked)
        });
        asked = asked.or(switched.inner);
        self.model_b.messages(ui, state, Some(outcome));
        let context = description.context.filter(|_| reads != Reads::Recording);
        told(ui, outcome, context, self.dropped.as_deref());
        self.views(ui, state, reads.decodes(), |view| view.lacks(description));
        compare::field(ui, state, outcome);
        if !reads.decodes() {
            patch::show(ui, state, outcome, description);
        }
        // The streams are those of the stack that the head reads: of a decoder, if there is one.
        if state.view == View::Attention {
            self.attention(ui, state, look);
            return asked;
        }
        if let Some(heads) = self.heads(state) {
            self.strip(ui, &heads, state, look);
        }
        let Some(outcome) = self::outcome(&self.latest) else { return asked };
        let tokens = &outcome.labels(Which::Decoder)[0];
        let margin = Margin { left: 8, ..Margin::ZERO };
        CentralPanel::default().frame(Frame::new().inner_margin(margin)).show(ui, |ui| match state
            .view
        {
            View::Attention => {}
            View::Lens => lens::show(ui, &self.lens, tokens, look),
            View::Attribution => {
                attribution::show(ui, &mut self.attributed, state, &outcome.list, look);
            }
            View::Patches => patches::show(ui, &mut self.patches, state, outcome, look),
            View::Experts => experts::show(ui, &mut self.experts, state, description, look),
        });
        asked
    }

    /// Shows the choice of the view, and of the heads in it, in a row that wraps where it is narrow.
    fn views(
        &self,
        ui: &mut Ui,
        state: &mut ModelState,
        decodes: bool,
        lacks: impl Fn(View) -> Option<&'static str>,
    ) {
        let size = vec2(ui.available_width(), ui.spacing().interact_size.y);
        let row = Layout::left_to_right(Align::Center).with_main_wrap(decodes || size.x < NARROW);
        ui.allocate_ui_with_layout(size, row, |ui| {
            drawer(ui, state, lacks);
            if let Some(heads) = self.heads(state).filter(|_| state.view == View::Attention) {
                if decodes {
                    choice::show(ui, "Attention of", &mut state.attention, &KINDS, CONTROLS);
                    let name = "Encoder, decoder and cross-attention";
                    explain(ui, name, explanation!("Encoder, decoder and cross-attention"));
                }
                let effects = self.effects_of(state);
                bar::show(ui, &heads, &mut state.heads, &effects);
            }
            if let Some(spoken) = self.spoken(state) {
                ui.add(Label::new(RichText::new(spoken).monospace()).truncate());
            }
        });
    }

    fn of_file(&mut self, ui: &mut Ui, state: &mut ModelState, look: Look) {
        let Some(heads) = self.heads(state) else { return };
        let is_self = heads.maps.is_self_attention();
        if is_self && heads.kind == MapKind::Weights && heads.labels()[0].len() <= MOST_WORDS {
            self.stage(ui, state);
        } else {
            let which = if is_self { Which::Only } else { Which::Cross };
            let large = Some(&self.panes[0].large);
            strip::show(ui, heads.labels(), which, large, &mut state.heads, look);
        }
        self.views(ui, state, false, |view| (view != View::Attention).then_some(OF_FILE));
        for warning in heads.survey.warnings() {
            let text = RichText::new(format!("Note: {warning}.")).small();
            ui.colored_label(ui.visuals().warn_fg_color, text);
        }
        self.attention(ui, state, look);
    }

    /// Shows the sentence with the ribbons of a head, below the headline.
    fn stage(&mut self, ui: &mut Ui, state: &mut ModelState) {
        let heads = match outcome(&self.latest) {
            Some(outcome) if state.file.is_none() => {
                Some(Arc::clone(outcome.version(Version::Changed, state.attention)))
            }
            _ => self.heads(state),
        };
        let Some(heads) = heads else { return };
        let words = &heads.labels()[0];
        let count = words.len();
        let Pane { grid, large, .. } = &self.panes[0];
        let id = grid.pointed.filter(|id| heads.maps.shape().index(*id).is_some());
        let id = id.unwrap_or_else(|| state.heads.id());
        let kept = match state.heads.isolated {
            Some((Side::Queries, i)) => Some(i),
            _ => None,
        };
        let of_map = state.heads.chosen.map(|(row, _)| row);
        let hovered = large.hovered().map(|(row, _)| row);
        let query = hovered.or(kept).or(of_map);
        let query = query.filter(|i| *i < count).unwrap_or_else(|| count.saturating_sub(1));
        let numbers = self.sentence.numbers(&heads, id, query);
        if hovered.is_none() && id == state.heads.id() {
            self.looked = target(&numbers).map(|key| (query, key));
        }
        let head = heads.maps.name_of(id);
        let is_typed = state.file.is_none();
        let is_stale = is_typed && self.latest.is_late();
        let looks = looks(&head, words, query, &numbers);
        let title = match outcome(&self.latest) {
            Some(outcome) if is_typed => note::headline(outcome, &outcome.list, &looks),
            _ => looks,
        };
        headline(ui, &title, is_stale);
        let height = (SENTENCE[1] * ui.available_height()).clamp(SENTENCE[0], SENTENCE[2]);
        let mut typed = state.text.clone();
        let none = BTreeSet::new();
        let hidden = state.hidden.clone();
        let shown = SentenceView {
            words,
            query,
            weights: &numbers,
            hidden: if is_typed { &hidden } else { &none },
            hides: is_typed,
            head: &head,
            is_stale,
        };
        let done = self.sentence.show(ui, height, is_typed.then_some(&mut typed), &shown);
        if typed != state.text && is_typed {
            state.read(typed);
            (state.heads.isolated, state.heads.chosen) = (None, None);
            state.tried[2] = true;
            return;
        }
        let outcome = outcome(&self.latest).filter(|_| is_typed);
        match done {
            Some(Done::Look(i)) => {
                let key = state.heads.chosen.map_or(0, |(_, key)| key);
                (state.heads.isolated, state.heads.around) = (Some((Side::Queries, i)), i);
                state.heads.chosen = state.heads.chosen.map(|_| (i, key));
            }
            Some(Done::Open(key)) => {
                state.heads.show(id);
                state.view = View::Attention;
                state.heads.chosen = Some((query, key));
            }
            // The words are those of the sentence before, until the model has read the new one.
            _ if outcome.is_none_or(|outcome| outcome.request.text != state.text) => {}
            Some(Done::Hide(i)) => {
                if !state.hidden.remove(&i) {
                    state.hidden.insert(i);
                }
                state.tried[1] = true;
            }
            Some(Done::Cut(key)) => {
                state.toggle(&Change::Cut { head: state.address(id), query, key });
            }
            Some(Done::Drop(from, to)) => {
                if let Some((opened, outcome)) = self.here(state).zip(outcome) {
                    let description = &opened.description;
                    self.dropped = patch::drop_at(state, outcome, description, from, to).err();
                }
            }
            None => {}
        }
    }

    /// Shows the attention of one run or file, or of two runs side by side.
    fn attention(&mut self, ui: &mut Ui, state: &mut ModelState, look: Look) {
        let Some(heads) = self.heads(state) else { return };
        if let Some(outcome) = outcome(&self.latest) {
            compare::no_difference(ui, state, outcome);
            if state.version == Version::SideBySide && outcome.pair(state.attention).is_some() {
                self.three_panes(ui, state, look);
                return;
            }
        }
        self.panes[0].call("");
        self.panes[0].large.is_named = false;
        if self.overlaid(ui, &heads, state, look) {
            return;
        }
        self.spectrogram(ui, &heads, state, look);
        if state.heads.shown == Shown::Grid || state.heads.part().is_none() {
            self.grid(ui, 0, &heads, state, look);
            return;
        }
        self.strip(ui, &heads, state, look);
        let width = ui.available_width();
        let is_one = state.heads.shown == Shown::Head && state.file.is_none();
        self.unfolds = is_one && width >= UNFOLDED;
        if self.unfolds {
            let [share, least, most] = ARITHMETIC;
            let wanted = (share * width).clamp(least, most);
            let beside = Panel::right("arithmetic").resizable(false).exact_size(wanted);
            beside.frame(Frame::new().inner_margin(Margin { left: 8, ..Margin::ZERO })).show(
                ui,
                |ui| {
                    ScrollArea::vertical()
                        .auto_shrink(false)
                        .show(ui, |ui| self.show_arithmetic(ui));
                },
            );
        }
        CentralPanel::default()
            .frame(Frame::new().inner_margin(Margin { left: 8, ..Margin::ZERO }))
            .show(ui, |ui| self.head(ui, 0, state, look));
    }

    /// Shows all heads at the left, if the page is wide enough. A click on one chooses it.
    fn strip(&mut self, ui: &mut Ui, heads: &Arc<Surveyed>, state: &mut ModelState, look: Look) {
        let width = ui.available_width();
        if width >= BESIDE {
            let count = heads.maps.shape().heads as f32;
            let wanted = (0.36 * width).clamp(180.0, (72.0 * count).clamp(180.0, 480.0));
            let beside = Panel::left("all heads").resizable(false).exact_size(wanted);
            beside.frame(Frame::new().inner_margin(Margin { right: 8, ..Margin::ZERO })).show(
                ui,
                |ui| {
                    let naming = RichText::new(bar::naming(heads, state.heads.id())).small().weak();
                    ui.add(Label::new(naming).truncate());
                    self.grid(ui, 0, heads, state, look);
                },
            );
        }
    }

    /// Shows an image with the weights over it, and beside it all heads or one of them. Returns whether there is an image.
    fn overlaid(
        &mut self,
        ui: &mut Ui,
        heads: &Arc<Surveyed>,
        state: &mut ModelState,
        look: Look,
    ) -> bool {
        let outcome = self.outcome().filter(|outcome| outcome.reads() == Reads::Image);
        let picture = outcome.and_then(|outcome| outcome.picture(state.version).cloned());
        let patches = self.patches_of_images();
        let (Some(picture), Some(patches)) = (picture, patches) else { return false };
        let room = ui.available_size();
        let is_narrow = room.x < BESIDE_EACH_OTHER;
        let image = if is_narrow {
            Panel::top("image").exact_size(0.45 * room.y)
        } else {
            Panel::left("image").exact_size(0.5 * room.x)
        };
        image
            .resizable(false)
            .frame(Frame::new().inner_margin(Margin { right: 12, ..Margin::ZERO }))
            .show(ui, |ui| {
                // The title and the choice of [CLS] stand above, and a line may stand below.
                let room = vec2(ui.available_width(), (ui.available_height() - 84.0).max(120.0));
                let Pane { large, overlay, .. } = &mut self.panes[0];
                overlay.show(ui, &picture, patches, large, &mut state.heads, look, room);
            });
        let margin = Margin { left: 8, ..Margin::ZERO };
        CentralPanel::default().frame(Frame::new().inner_margin(margin)).show(ui, |ui| {
            if state.heads.part().is_none() {
                self.grid(ui, 0, heads, state, look);
                return;
            }
            if !is_narrow && ui.available_height() >= BOTH {
                let half = 0.5 * ui.available_height();
                let above = Panel::top("all heads of the image").resizable(false).exact_size(half);
                above.frame(Frame::NONE).show(ui, |ui| self.grid(ui, 0, heads, state, look));
            }
            CentralPanel::default().frame(Frame::NONE).show(ui, |ui| {
                self.head(ui, 0, state, look);
            });
        });
        true
    }

    /// Shows the spectrogram of a recording above the heads whose keys are its positions.
    fn spectrogram(&mut self, ui: &mut Ui, heads: &Surveyed, state: &mut ModelState, look: Look) {
        let outcome = self.outcome().filter(|outcome| outcome.reads() == Reads::Recording);
        let picture = outcome.and_then(|outcome| outcome.picture(state.version).cloned());
        let (height, which) = (ui.available_height(), state.attention);
        let Some(picture) = picture.filter(|_| which != Which::Decoder && height >= ABOVE) else {
            return;
        };
        let above = Panel::top("spectrogram").resizable(false).exact_size(0.35 * height);
        above.frame(Frame::NONE).show(ui, |ui| {
            // The title stands above, and a line may stand below.
            let room = vec2(ui.available_width(), ui.available_height() - 56.0);
            let Pane { large, overlay, .. } = &mut self.panes[0];
            let parts = PictureParts::Times(heads.labels(), which);
            overlay.show(ui, &picture, parts, large, &mut state.heads, look, room);
        });
    }

    /// Shows the runs A and B and their difference.
    fn three_panes(&mut self, ui: &mut Ui, state: &mut ModelState, look: Look) {
        let pair = self.outcome().and_then(|outcome| outcome.pair(state.attention));
        let Some(pair) = pair else { return };
        let [a, b] = &pair.names;
        let names = [format!("A  {a}"), format!("B  {b}"), "A − B  difference".to_owned()];
        let difference = pair.difference.ok().map(|difference| &difference.heads);
        let [a, b] = pair.heads;
        let heads = [Some(a), Some(b), difference.map(|heads| &**heads)]
            .map(Option::<&Arc<Surveyed>>::cloned);
        let rows_of_a = heads[0].as_ref().map(|heads| &heads.labels()[0][..]);
        let rows = rows_of_a.map(<[String]>::len);
        let shows_grid = state.heads.part().is_none();
        // The difference stands over the first image.
        let pictures = [Version::Changed, Version::Second, Version::FirstMinusSecond];
        let outcome = || self.outcome().filter(|outcome| outcome.reads() == Reads::Image);
        let picture = |version| outcome()?.picture(version).cloned();
        let pictures = pictures.map(|version| picture(version).filter(|_| !shows_grid));
        let patches = self.patches_of_images();
        let is_low = ui.available_height() < BOTH;
        // The name and the choice of [CLS] stand above.
        let height = ui.available_height();
        let room = vec2(f32::INFINITY, if is_low { height - 70.0 } else { 0.4 * height });
        // The first pane has the labels of all rows, and their room.
        let gap = ui.spacing().item_spacing.x;
        let width = ui.available_width();
        let names_rows = !(shows_grid || state.heads.lines);
        let labels = rows_of_a
            .filter(|_| names_rows)
            .map_or(0.0, |rows| widest(rows, &TextStyle::Small, ui));
        let each = ((width - labels - 2.0 * gap) / 3.0).max(1.0);
        let is_stacked = width < BESIDE_EACH_OTHER;
        let contents = |ui: &mut Ui| {
            for (i, (name, heads)) in names.iter().zip(&heads).enumerate() {
                let size = if is_stacked {
                    vec2(ui.available_width(), width)
                } else {
                    vec2(if i == 0 { each + labels } else { each }, height)
                };
                let place = Rect::from_min_size(ui.cursor().min, size);
                ui.allocate_space(size);
                let pane = UiBuilder::new()
                    .id_salt(i)
                    .max_rect(place)
                    .layout(Layout::top_down(Align::Min));
                ui.scope_builder(pane, |ui| {
                    let Some(heads) = heads else { return };
                    self.panes[i].call(name);
                    if shows_grid {
                        bar::title(ui, name);
                        self.grid(ui, i, heads, state, look);
                        return;
                    }
                    let picture = pictures[i].as_ref().zip(patches);
                    let Pane { large, overlay, .. } = &mut self.panes[i];
                    large.is_named = picture.is_some();
                    // The rows of equally many tokens are level with those of A, and the columns have their names.
                    let is_level = rows == Some(heads.labels()[0].len());
                    large.is_beside = i > 0 && !is_stacked && is_level;
                    if let Some((picture, patches)) = picture {
                        bar::title(ui, name);
                        let room = room.min(ui.available_size());
                        overlay.show(ui, picture, patches, large, &mut state.heads, look, room);
                        if is_low {
                            return;
                        }
                    }
                    self.head(ui, i, state, look);
                });
            }
        };
        if is_stacked {
            ScrollArea::vertical().id_salt("panes").show(ui, contents);
        } else {
            ui.horizontal_top(contents);
        }
    }

    /// The parts of the images that the opened model reads.
    fn patches_of_images(&self) -> Option<PictureParts<'static>> {
        self.models.opened()?.description.embedding.patches.map(PictureParts::Patches)
    }

    /// Shows all heads of a pane.
    fn grid(
        &mut self,
        ui: &mut Ui,
        pane: usize,
        heads: &Arc<Surveyed>,
        state: &mut ModelState,
        look: Look,
    ) {
        // The changes and the effects are those of the first pane's run.
        let (changed, effects) = if pane == 0 && state.file.is_none() {
            (state.changed_heads(), self.effects_of(state))
        } else {
            Default::default()
        };
        let contents = Contents { heads, changed: &changed, effects: &effects, look };
        self.panes[pane].grid.show(ui, contents, &mut state.heads);
    }

    /// Shows the chosen head, or the mean.
    fn head(&mut self, ui: &mut Ui, pane: usize, state: &mut ModelState, look: Look) {
        let large = &mut self.panes[pane].large;
        large.progress(ui);
        large.paints = pane == 0 && state.brush.is_some() && state.heads.shown == Shown::Head;
        let Some(pointing) = large.show(ui, &mut state.heads, look) else { return };
        if pane > 0 || state.heads.shown != Shown::Head {
            return;
        }
        let Some(opened) = self.here(state) else { return };
        changes::paint(state, &pointing, &opened.description);
        // A menu of the cell that was clicked last with the second button.
        if pointing.response.secondary_clicked() {
            state.heads.chosen = pointing.hovered.or(state.heads.chosen);
        }
        let outcome = outcome(&self.latest);
        pointing.response.context_menu(|ui| {
            if let Some(outcome) = outcome {
                let heads = outcome.heads(state.attention);
                let cell = state.heads.chosen;
                changes::edge(ui, state, heads, Some(&opened.description), cell);
            }
        });
    }

    /// Shows the error, and the progress of reading.
    fn messages(&mut self, ui: &mut Ui, state: &mut ModelState) {
        let is_here = self.here(state).is_some() || self.file_here(state).is_some();
        if self.models.messages(ui, is_here, String::clone) {
            self.models.cancel();
        }
        if self.files.messages(ui, is_here, AttentionSource::to_string) {
            self.files.cancel();
        }
        if let Some(message) = self.differs
            && message::show(ui, message, ui.visuals().warn_fg_color, "Keep this run")
        {
            (self.differs, state.record) = (None, None);
            self.latest.forget();
        }
        if self.latest.is_late() && outcome(&self.latest).is_none() {
            ui.horizontal(|ui| {
                ui.spinner();
                ui.label("The model is reading.");
            });
        }
    }
}

/// The word with the largest of some weights.
pub(super) fn target(weights: &[f32]) -> Option<usize> {
    let target = (0..weights.len()).max_by(|a, b| weights[*a].total_cmp(&weights[*b]));
    target.filter(|target| weights[*target] > 0.0)
}

/// Where a head looks from a word: "Head 5.3 looks from “to” back at “Mary”."
fn looks(head: &str, words: &[String], query: usize, weights: &[f32]) -> String {
    let word = |i: usize| words.get(i).map_or_else(String::new, |word| lone(word));
    let Some(target) = target(weights) else { return String::new() };
    let (from, to) = (word(query), word(target));
    // The token that begins each text says nothing.
    let begins = |word: &String| word.starts_with(['<', '[']);
    match target.cmp(&query) {
        Ordering::Less if target == 0 && words.first().is_some_and(begins) => {
            format!("Head {head} looks from “{from}” back at “{to}”, where heads rest.")
        }
        Ordering::Less => format!("Head {head} looks from “{from}” back at “{to}”."),
        Ordering::Equal => format!("Head {head} looks from “{from}” at itself."),
        Ordering::Greater => format!("Head {head} looks from “{from}” at “{to}”."),
    }
}

/// Shows the tabs of the drawer. A view that is not there says why.
fn drawer(ui: &mut Ui, state: &mut ModelState, lacks: impl Fn(View) -> Option<&'static str>) {
    let views = VIEWS.map(|(view, name, hint)| (view, name, lacks(view).map_or(hint, Err)));
    let before = state.view;
    choice::show(ui, "View", &mut state.view, &views, CONTROLS);
    if before == state.view {
        return;
    }
    // Two equal texts would have nothing to patch. The text that was filled in goes with the view, unless something needs it.
    let filled_in = state.to_patch_from();
    if state.view == View::Patches {
        state.second.get_or_insert(filled_in);
    } else if before == View::Patches
        && state.second == Some(filled_in)
        && state.changes.is_empty()
        && !state.version.is_of_second()
    {
        state.second = None;
    }
}

/// Shows the headline in the same height always, so that a change moves nothing: a long one has smaller letters.
fn headline(ui: &mut Ui, text: &str, is_late: bool) {
    let width = ui.available_width();
    let height = if width < WIDE { 44.0 } else { 26.0 };
    let (_, area) = ui.allocate_space(vec2(width, height));
    let text = if is_late { format!("Computing… {text}") } else { text.to_owned() };
    let visuals = ui.visuals();
    let color = if is_late { visuals.weak_text_color() } else { visuals.strong_text_color() };
    let high = |size: &f32| {
        let font = FontId::proportional(*size);
        ui.painter().layout(text.clone(), font, color, width).size().y
    };
    let size = SIZES.into_iter().find(|size| high(size) <= height).unwrap_or(SIZES[5]);
    let text = RichText::new(text).size(size).strong().color(color);
    ui.new_child(UiBuilder::new().max_rect(area)).add(Label::new(text).wrap());
}

/// Shows what there is to try, each with a mark once it has been done. In a narrow row, it is the first that is left.
fn steps(ui: &mut Ui, tried: [bool; 3]) {
    let all = [
        (2, "Type your own sentence", explanation!("Type your own sentence")),
        (1, "Click a word to hide it", explanation!("Click a word to hide it")),
        (0, "Change how sharply the heads look", explanation!("How sharply the heads look")),
    ];
    let is_narrow = ui.available_size_before_wrap().x < STEPS;
    let shown = all.into_iter().filter(|(step, ..)| !is_narrow || !tried[*step]);
    for (i, (step, name, text)) in shown.take(if is_narrow { 1 } else { 3 }).enumerate() {
        let done = tried[step];
        let color = if done { style::QUERY } else { ui.visuals().weak_text_color() };
        let words = if done { format!("{name}: done") } else { format!("{name}: not done yet") };
        // An empty circle would look like a button.
        let mark = if done { "✓".to_owned() } else { format!("{}.", i + 1) };
        let label = RichText::new(format!("{mark} {name}")).small().color(color);
        let label = ui.add(Label::new(label).extend());
        label.widget_info(|| WidgetInfo::labeled(Role::Label, true, &words));
        label.on_hover_text(text);
    }
}

/// Names the parts of the text, the changes and the second text that have no effect, and the reason.
fn told(ui: &mut Ui, outcome: &Outcome, context: Option<usize>, dropped: Option<&str>) {
    let (warning, error) = (ui.visuals().warn_fg_color, ui.visuals().error_fg_color);
    let count = outcome.unchanged.tokens.len();
    let long = context.filter(|most| count > *most).map(|most| {
        format!("The text has {count} tokens. The model has learnt to read {most}: do not rely on what it says of the rest.")
    });
    let [unknown, known] = &outcome.unchanged.unknown;
    let strange = (!unknown.is_empty()).then(|| {
        let words: Vec<String> = unknown.iter().map(|word| format!("“{word}”")).collect();
        let words = format!("The model does not know {}.", words.join(", "));
        if known.is_empty() { words } else { format!("{words} It knows {} …", known.join(", ")) }
    });
    for text in long.into_iter().chain(strange) {
        ui.label(RichText::new(text).small().color(warning));
    }
    let refusal = outcome.refusal().map(|refusal| format!("The changes are not made: {refusal}."));
    for text in refusal.into_iter().chain(dropped.map(str::to_owned)) {
        ui.colored_label(error, text);
    }
}

/// Shows a field for a text. A long text scrolls.
pub(super) fn text(ui: &mut Ui, text: &mut String, hint: &str, name: &str) {
    let height = ROWS * ui.text_style_height(&TextStyle::Body) + 16.0;
    ScrollArea::vertical().id_salt(name).max_height(height).show(ui, |ui| {
        let width = ui.available_width();
        // A message above the field, which appears while somebody types, leaves it its focus.
        let field = TextEdit::multiline(text).id_salt(name).desired_rows(1).desired_width(width);
        ui.add(field.hint_text(hint).margin(Margin::symmetric(8, 6))).accessible_name(name);
    });
}

/// Shows the pads on which images are drawn.
fn draw(ui: &mut Ui, state: &mut ModelState, drawn: Option<[usize; 2]>) {
    let Some(size) = drawn else { return };
    let before = state.drawing.clone();
    let pads = 1 + usize::from(state.second_drawing.is_some());
    let side = pad::side(ui.available_size(), pads);
    ui.horizontal_top(|ui| {
        pad::show(ui, &mut state.drawing, size, side, "Drawing pad");
        if let Some(mut second) = state.second_drawing.clone().map(Some) {
            ui.add_space(16.0);
            pad::show(ui, &mut second, size, side, "Second drawing pad");
            state.second_drawing = Some(second.unwrap_or_else(|| blank(size)));
        } else {
            let text = "Draw on the black square with the pointer or a finger. The second button, or Shift, takes ink away.";
            ui.vertical(|ui| ui.weak(text));
        }
    });
    if state.drawing != before {
        state.image = None;
    }
}

/// Shows the choice of the file of an image or of a recording.
fn file(ui: &mut Ui, state: &ModelState, reads: Reads) -> Option<OpenChoice> {
    let is_sound = reads == Reads::Recording;
    let open = if is_sound { Command::OpenRecording } else { Command::OpenImage };
    let asked = open.button(ui).map(OpenChoice::Dialog);
    if let Some(path) = state.image.as_ref().filter(|_| ui.available_width() >= NARROW) {
        ui.scope(|ui| {
            ui.set_max_width(0.4 * ui.available_width());
            let name = RichText::new(file_name(path)).strong();
            ui.add(Label::new(name).truncate()).on_hover_text(path.display().to_string());
        });
    }
    asked
}
