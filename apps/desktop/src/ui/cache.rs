//! What follows from the state, kept until the state changes.

use std::collections::HashMap;

use egui::{Context, TextureHandle, TextureId, TextureOptions};
use regard_walkthrough::{Error, Example, Kind, Settings, Step, Walkthrough, WhyScale, why_scale};

use super::State;
use super::colors::Palette;

/// The walkthrough of the present state, and a texture for each of its steps.
pub struct Cache {
    /// What the walkthrough was computed from.
    from: (Example, Settings),
    walkthrough: Result<Walkthrough, Error>,
    pictures: HashMap<String, Picture>,
    bars: HashMap<&'static str, TextureHandle>,
    why_scale: Option<Vec<WhyScale>>,
}

/// A step as colours.
struct Picture {
    palette: Palette,
    cells: TextureHandle,
}

impl Cache {
    /// Computes everything.
    pub fn new(ctx: &Context, state: &State) -> Self {
        let mut cache = Self {
            from: (state.example, state.settings),
            walkthrough: Walkthrough::run(state.example, &state.settings),
            pictures: HashMap::new(),
            bars: HashMap::new(),
            why_scale: measured(state),
        };
        cache.repaint(ctx, None);
        cache
    }

    /// Computes again what has changed, if anything has.
    pub fn update(&mut self, ctx: &Context, state: &State) {
        let from = (state.example, state.settings);
        if self.from != from {
            let walkthrough = Walkthrough::run(state.example, &state.settings);
            let before = core::mem::replace(&mut self.walkthrough, walkthrough);
            self.from = from;
            self.why_scale = measured(state);
            self.repaint(ctx, before.ok().as_ref());
        }
    }

    /// The walkthrough of the present state.
    pub fn walkthrough(&self) -> Result<&Walkthrough, &Error> {
        self.walkthrough.as_ref()
    }

    /// The palette of a step, and its pictures: the cells and the colour bar.
    pub fn picture(&self, step: &Step) -> (Palette, Option<[TextureId; 2]>) {
        let Some(picture) = self.pictures.get(&step.key) else { return (Palette::Plain, None) };
        let bar = self.bars.get(bar_name(step.kind));
        (picture.palette, bar.map(|bar| [picture.cells.id(), bar.id()]))
    }

    /// The measurements to plot, in `why-scale`.
    pub fn why_scale(&self) -> Option<&[WhyScale]> {
        self.why_scale.as_deref()
    }

    /// Makes the textures of those steps whose numbers differ from `before`.
    fn repaint(&mut self, ctx: &Context, before: Option<&Walkthrough>) {
        let Ok(walkthrough) = &self.walkthrough else { return };
        self.pictures.retain(|key, _| walkthrough.step(key).is_some());
        for step in walkthrough.steps.iter().filter(|step| step.kind != Kind::Table) {
            let numbers = step.matrix.as_slice();
            let palette = Palette::new(step.kind, numbers);
            self.bars
                .entry(bar_name(step.kind))
                .or_insert_with(|| ctx.load_texture(bar_name(step.kind), palette.bar(), TextureOptions::LINEAR));
            let old = before.and_then(|before| before.step(&step.key));
            if self.pictures.contains_key(&step.key)
                && old.is_some_and(|old| old.kind == step.kind && old.matrix == step.matrix)
            {
                continue;
            }
            let image = palette.image(numbers, step.matrix.cols());
            let cells = ctx.load_texture(&step.key, image, TextureOptions::NEAREST);
            self.pictures.insert(step.key.clone(), Picture { palette, cells });
        }
    }
}

fn measured(state: &State) -> Option<Vec<WhyScale>> {
    (state.example == Example::WhyScale).then(|| why_scale(state.settings.temperature).ok()).flatten()
}

fn bar_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Signed => "diverging",
        Kind::Weights => "sequential",
        Kind::Table => "plain",
    }
}
