//! The benchmark panel: naive loops, the kernel, and the multi-head layer on one thread and on all.

use core::num::NonZero;
use std::sync::{Arc, Mutex};
use std::thread::available_parallelism;

use egui::{Context, ProgressBar, RichText, Ui};
use regard_benches::{MeasureProgress, Measuring, Operation, ResultLine, Shape, duration, ours};
use serde::{Deserialize, Serialize};

use super::LaboratoryInputs;
use crate::explain::{explanation, heading};
use crate::work::{Advance, Background, Once, Question, Steps, lock};
use crate::{Command, colors, counted};

/// The largest product of queries, dimensions and heads. With more, a naive call would take too long.
const MOST_WORK: usize = 8 * 4096 * 64;

#[derive(Default)]
pub(crate) struct Benchmark {
    running: Option<Once<MeasureProgress>>,
    shape: Option<Shape>,
    pub(crate) last: Option<Result<MeasureProgress, String>>,
}

impl Benchmark {
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Stops a running benchmark or starts a new one. The results of a stopped one stay.
    pub(crate) fn toggle(
        &mut self,
        background: &Arc<Background>,
        ctx: &Context,
        inputs: &LaboratoryInputs,
    ) {
        self.receive();
        if self.running.take().is_some() {
            return;
        }
        let shape = shape(inputs);
        (self.shape, self.last) = (Some(shape), None);
        self.running = Some(background.ask(ctx, MeasureSpeed(shape)));
    }

    pub(crate) fn receive(&mut self) {
        let Some(running) = &self.running else { return };
        // The end is read first, so that the last result is taken before the work is dropped.
        let has_ended = !running.is_running();
        if let Some(last) = running.take() {
            self.last = Some(last);
        }
        if has_ended {
            self.running = None;
        }
    }

    /// Shows the button and the bars. Returns the command if its button was pressed.
    pub(crate) fn show(&mut self, ui: &mut Ui, inputs: &LaboratoryInputs) -> Option<Command> {
        self.receive();
        heading(ui, "Benchmark", explanation!("Benchmark"));
        let clicked = ui
            .horizontal_wrapped(|ui| {
                let name = if self.is_running() { "Stop benchmark" } else { "Start benchmark" };
                let clicked = ui.button(name).on_hover_text(Command::Benchmark.tooltip()).clicked();
                let shape = self.shape.unwrap_or_else(|| shape(inputs));
                ui.label(RichText::new(shape.text(Operation::Attention)).small().weak());
                clicked
            })
            .inner;
        match &self.last {
            Some(Ok(progress)) => bars(ui, progress, self.is_running()),
            Some(Err(error)) => {
                ui.colored_label(ui.visuals().error_fg_color, error);
            }
            None => {}
        }
        clicked.then_some(Command::Benchmark)
    }
}

/// The shape that is measured: the laboratory's sizes, with as many heads as the largest work allows.
fn shape(inputs: &LaboratoryInputs) -> Shape {
    let LaboratoryInputs { tokens, dim, causal, .. } = *inputs;
    let heads = (MOST_WORK / (tokens * dim)).clamp(1, 8);
    Shape {
        batch: 1,
        heads,
        kv_heads: heads,
        queries: tokens,
        keys: tokens,
        dim,
        causal,
        fixed: false,
        threads: available_parallelism().map_or(1, NonZero::get),
    }
}

/// Asks how fast attention of a shape is.
#[derive(Serialize, Deserialize)]
pub(crate) struct MeasureSpeed(Shape);

impl Question for MeasureSpeed {
    type Answer = MeasureProgress;
    const NAME: &'static str = "benchmark";

    fn begin(self, _: Arc<Background>) -> impl Steps<MeasureProgress> {
        let mut measuring = None;
        move |_| {
            let said = |e: anyhow::Error| format!("{e:#}");
            let measuring = match &mut measuring {
                Some(measuring) => measuring,
                none => none.insert(begun(self.0).map_err(said)?),
            };
            // A benchmark that was stopped finishes its sample. Two at once would disturb each other.
            static ONE: Mutex<()> = Mutex::new(());
            let _one = lock(&ONE);
            let more = measuring.sample().map_err(said)?;
            let progress = measuring.progress.clone();
            Ok(if more { Advance::Shown(progress) } else { Advance::Done(progress) })
        }
    }
}

fn begun(shape: Shape) -> anyhow::Result<Measuring> {
    let mut subjects = ours::subjects(Operation::Attention, shape)?;
    subjects.keep(&[])?;
    Ok(Measuring::new(subjects))
}

/// Draws a bar for each implementation, relative to the FMA peak of all threads.
fn bars(ui: &mut Ui, progress: &MeasureProgress, running: bool) {
    if running {
        let part = progress.done as f32 / progress.of.max(1) as f32;
        ui.add(ProgressBar::new(part).desired_height(8.0)).accessible_name("Measuring");
    }
    let most = progress.lines.iter().map(ResultLine::peak_gflops).fold(0.0, f64::max);
    for (i, line) in progress.lines.iter().enumerate() {
        let name = format!("{}, {}", line.name(), counted(line.threads(), "thread"));
        let numbers = format!(
            "{name}: {:.1} GFLOP/s, {:.0} % of the FMA peak, {} a call",
            line.gflops(),
            100.0 * line.fraction_of_peak(),
            duration(line.seconds()),
        );
        ui.small(numbers);
        let bar = ProgressBar::new((line.gflops() / most) as f32)
            .desired_height(8.0)
            .fill(colors::curve(i));
        ui.add(bar).accessible_name(name);
    }
}
