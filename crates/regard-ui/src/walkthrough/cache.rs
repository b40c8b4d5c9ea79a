//! The results that follow from the state, kept until the state changes.

use std::collections::HashMap;

use regard_walkthrough::{
    Effective, Error, Example, Inputs, Settings, Step, StepKey, Walkthrough, WhyScale, why_scale,
};

use super::WalkthroughState;
use super::stage::Stage;
use regard_session::walkthrough::palette;

use crate::colors::Look;
use crate::heatmap::{Cell, Picture};

/// The walkthrough of the present state, with a picture of each step.
pub(crate) struct Cache {
    from: (Inputs, Settings),
    walkthrough: Result<Walkthrough, Error>,
    pictures: HashMap<StepKey, Picture>,
    stages: HashMap<StepKey, Option<Stage>>,
    /// The cells that were typed over, by the key of the step.
    edited: HashMap<StepKey, Vec<Cell>>,
    /// The walkthrough before the last edit.
    before: Option<Walkthrough>,
    /// The largest change of a number by the last edit, by the key of the step. Steps that did not change are missing.
    changed: HashMap<StepKey, f32>,
    look: Look,
    why_scale: Option<Vec<WhyScale>>,
    /// The settings that the example responds to.
    effective: Effective,
}

impl Cache {
    /// Computes all results.
    pub(crate) fn new(state: &WalkthroughState, look: Look) -> Self {
        let mut cache = Self {
            from: (state.inputs.clone(), state.settings),
            walkthrough: Walkthrough::compute(&state.inputs, &state.settings),
            pictures: HashMap::new(),
            stages: HashMap::new(),
            edited: edited(&state.inputs),
            before: None,
            changed: HashMap::new(),
            look,
            why_scale: measured(state),
            effective: effective(state),
        };
        cache.repaint(None);
        cache
    }

    /// Computes the results again if the state has changed. Returns whether it has. All positions of a slider during one drag are
    /// one edit: from the second on, `goes_on` is true.
    pub(crate) fn update(&mut self, state: &WalkthroughState, look: Look, goes_on: bool) -> bool {
        if self.look != look {
            self.look = look;
            self.pictures.clear();
            self.repaint(None);
        }
        let is_changed = self.from.0 != state.inputs || self.from.1 != state.settings;
        if is_changed {
            let walkthrough = Walkthrough::compute(&state.inputs, &state.settings);
            let before = core::mem::replace(&mut self.walkthrough, walkthrough);
            if self.from.1.temperature != state.settings.temperature
                || self.from.0.example() != state.example()
            {
                self.why_scale = measured(state);
            }
            let is_other = self.from.0.example() != state.example()
                || self.from.0.heads() != state.inputs.heads()
                || self.from.0.tokens().len() != state.inputs.tokens().len();
            if is_other {
                self.effective = effective(state);
            }
            self.from = (state.inputs.clone(), state.settings);
            self.edited = edited(&state.inputs);
            let before = before.ok();
            self.repaint(before.as_ref());
            if !goes_on {
                self.before = before;
            }
            self.changed = match (&self.before, &self.walkthrough) {
                (Some(before), Ok(now)) => changes(before, now),
                _ => HashMap::new(),
            };
        }
        is_changed
    }

    /// The walkthrough of the present state.
    pub(crate) fn walkthrough(&self) -> Result<&Walkthrough, &Error> {
        self.walkthrough.as_ref()
    }

    pub(crate) fn settings(&self) -> Settings {
        self.from.1
    }

    pub(crate) fn picture(&self, step: &Step) -> Option<&Picture> {
        self.pictures.get(&step.key)
    }

    pub(crate) fn stage(&self, step: &Step) -> Option<&Stage> {
        self.stages.get(&step.key)?.as_ref()
    }

    /// The cells of a step that were typed over.
    pub(crate) fn edited(&self, step: StepKey) -> &[Cell] {
        self.edited.get(&step).map_or(&[], Vec::as_slice)
    }

    /// The largest change of a number of a step by the last edit. It is infinite if the step is new, if its shape changed or if a number became
    /// infinite; `None` if nothing changed.
    pub(crate) fn changed(&self, step: StepKey) -> Option<f32> {
        self.changed.get(&step).copied()
    }

    /// The measurements to plot, in `why-scale`.
    pub(crate) fn why_scale(&self) -> Option<&[WhyScale]> {
        self.why_scale.as_deref()
    }

    /// The settings that the example responds to.
    pub(crate) fn effective(&self) -> &Effective {
        &self.effective
    }

    /// Makes new pictures of the steps whose numbers differ from `before`.
    fn repaint(&mut self, before: Option<&Walkthrough>) {
        let Ok(walkthrough) = &self.walkthrough else { return };
        self.pictures.retain(|key, _| walkthrough.step(*key).is_some());
        self.stages = walkthrough.steps.iter().map(|step| (step.key, Stage::of(step))).collect();
        for step in &walkthrough.steps {
            let old = before.and_then(|before| before.step(step.key));
            let is_old = old.is_some_and(|old| old.kind == step.kind && old.matrix == step.matrix);
            if !is_old || !self.pictures.contains_key(&step.key) {
                let numbers = step.matrix.as_slice();
                let palette = palette(step.kind, numbers, self.look);
                self.pictures.insert(step.key, Picture::new(numbers, step.matrix.cols(), palette));
            }
        }
    }
}

/// The largest change of each step that changed.
fn changes(before: &Walkthrough, now: &Walkthrough) -> HashMap<StepKey, f32> {
    if before.example != now.example || before.tokens != now.tokens {
        return HashMap::new();
    }
    let of = |step: &Step| {
        let old = before.step(step.key).map(|step| &step.matrix);
        // A step that was not there before has changed too: that of another head, or of a mask.
        let Some(old) = old.filter(|old| old.shape() == step.matrix.shape()) else {
            return Some((step.key, f32::INFINITY));
        };
        let both = old.as_slice().iter().zip(step.matrix.as_slice());
        // Two hidden scores are equal, although −∞ − (−∞) is NaN.
        let distances = both.map(|(a, b)| if a == b { 0.0 } else { (a - b).abs() });
        let most = distances.fold(0.0, f32::max);
        (most > 0.0).then_some((step.key, most))
    };
    now.steps.iter().filter_map(of).collect()
}

fn edited(inputs: &Inputs) -> HashMap<StepKey, Vec<Cell>> {
    let mut edited: HashMap<StepKey, Vec<Cell>> = HashMap::new();
    for edit in inputs.edits() {
        edited.entry(edit.matrix).or_default().push((edit.row, edit.col));
    }
    edited
}

fn effective(state: &WalkthroughState) -> Effective {
    Effective::of(&state.inputs).unwrap_or_default()
}

fn measured(state: &WalkthroughState) -> Option<Vec<WhyScale>> {
    (state.example() == Example::WhyScale)
        .then(|| why_scale(state.settings.temperature).ok())
        .flatten()
}
