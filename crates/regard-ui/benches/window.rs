//! The cost of the window without its display: its start, the time from the laboratory's slider to the new picture, a frame
//! of the laboratory with a large heatmap, opening the attention of a model, and the time from a key or a change in the model
//! room to the frame that shows the new grid. `REGARD_MODEL=PATH` also measures that room with another model than story.

#[path = "../tests/window/host.rs"]
mod host;

use core::hint::black_box;
use core::time::Duration;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};
use egui::{Context, Event, Key, Modifiers, PointerButton, Pos2, RawInput, Rect, vec2};
use regard::Temperature;
use regard_figure::Look;
use regard_models::{Ablation, Change, HeadAddress, Which};
use regard_session::laboratory::{Engine, LaboratoryInputs, LaboratoryMatrix, LaboratoryRequest};
use regard_ui::heatmap::Picture;
use regard_ui::model::{Listed, ModelState};
use regard_ui::{App, Room, Session};

use self::host::TestHost;

/// A frame of the window, laid out and cut into triangles.
fn draw(ctx: &Context, app: &mut App, events: Vec<Event>) {
    let screen_rect = Some(Rect::from_min_size(Pos2::ZERO, vec2(1280.0, 800.0)));
    let input =
        RawInput { events, screen_rect, max_texture_side: Some(8192), ..RawInput::default() };
    let output = ctx.run_ui(input, |ui| app.ui(ui));
    black_box(ctx.tessellate(output.shapes, output.pixels_per_point));
}

/// Draws until nothing more is computed.
fn settle(ctx: &Context, app: &mut App) {
    draw(ctx, app, Vec::new());
    while app.is_busy() {
        std::thread::sleep(Duration::from_millis(1));
        draw(ctx, app, Vec::new());
    }
    draw(ctx, app, Vec::new());
}

/// The events of a frame that zooms in and out at a place.
fn zooming(at: Pos2) -> impl FnMut() -> Vec<Event> {
    let (mut factor, mut steps) = (1.02, 0);
    move || {
        steps += 1;
        if steps % 150 == 0 {
            factor = 1.0 / factor;
        }
        vec![Event::PointerMoved(at), Event::Zoom(factor)]
    }
}

/// Opens the whole laboratory with 4096 tokens, its knobs and curves.
fn laboratory(c: &mut Criterion) {
    let mut session = Session { room: Room::Laboratory, ..Session::default() };
    session.laboratory.inputs = LaboratoryInputs { tokens: 4096, ..LaboratoryInputs::default() };
    let ctx = Context::default();
    let mut app = App::with_session(&ctx, Arc::new(TestHost::DEFAULT), session);
    settle(&ctx, &mut app);
    let mut i = 0.0;
    let mut place = || {
        i = (i + 1.7) % 400.0;
        Event::PointerMoved(Pos2::new(400.0 + i, 200.0 + i))
    };
    c.bench_function("4096 tokens, a frame of the laboratory while the pointer moves", |b| {
        b.iter(|| draw(&ctx, &mut app, vec![place()]));
    });
    let at = Pos2::new(600.0, 400.0);
    let mut zoom = zooming(at);
    c.bench_function("4096 tokens, a frame of the laboratory while zooming", |b| {
        b.iter(|| draw(&ctx, &mut app, zoom()));
    });
    draw(&ctx, &mut app, vec![Event::Zoom(6.0), button(at, true)]);
    c.bench_function("4096 tokens, a frame of the laboratory while dragging", |b| {
        b.iter(|| draw(&ctx, &mut app, vec![place()]));
    });
    draw(&ctx, &mut app, vec![button(at, false)]);
}

fn button(pos: Pos2, pressed: bool) -> Event {
    let (button, modifiers) = (PointerButton::Primary, Modifiers::NONE);
    Event::PointerButton { pos, button, pressed, modifiers }
}

/// Measures the time to the first frame of the first example, including fonts.
fn start(c: &mut Criterion) {
    c.bench_function("start to first frame", |b| {
        b.iter(|| {
            let ctx = Context::default();
            draw(
                &ctx,
                &mut App::with_session(&ctx, Arc::new(TestHost::DEFAULT), Session::default()),
                Vec::new(),
            );
        });
    });
}

/// Measures the time from a file of 12 layers × 12 heads over 512 tokens to the frame that shows all heads.
fn open(c: &mut Criterion) {
    let Ok(folder) = tempfile::tempdir() else { return };
    let path = folder.path().join("dump.safetensors");
    if dump(&path).is_err() {
        return;
    }
    let mut group = c.benchmark_group("file to full grid");
    group.sample_size(10);
    group.bench_function("12 layers, 12 heads, 512 tokens", |b| {
        b.iter(|| {
            let ctx = Context::default();
            let mut app =
                App::with_session(&ctx, Arc::new(TestHost::DEFAULT), regard_ui::attention(&path));
            settle(&ctx, &mut app);
            assert!(app.model().file().is_some(), "{:?}", app.model().error());
        });
    });
}

/// Writes causal weights, with no two heads alike: 151 MB.
fn dump(path: &Path) -> anyhow::Result<()> {
    const N: usize = 512;
    let heads = 12 * 12;
    let mut numbers = vec![0.0_f32; heads * N * N];
    for (i, row) in numbers.chunks_mut(N).enumerate() {
        let (head, query) = (i / N, i % N);
        for (key, score) in row.iter_mut().enumerate().take(query + 1) {
            *score = (((i * 7919 + key * 104_729) % 10007) as f32 / 10007.0) * head as f32 / 16.0;
        }
        regard_kernels::softmax(&mut row[..=query], Temperature::ONE);
    }
    let view = safetensors::tensor::TensorView::new(
        safetensors::Dtype::F32,
        vec![12, 12, N, N],
        bytemuck::cast_slice(&numbers),
    )?;
    Ok(safetensors::serialize_to_file([("attention", view)], None, path)?)
}

/// Measures the time from a key or a change in the model room to the frame that shows the new grid. The frame before it
/// handles the key, and a thread runs the model.
fn model(c: &mut Criterion) {
    let model = std::env::var("REGARD_MODEL");
    let text = "When Mary and John went to the store in the middle of the town, John gave a bottle of milk to \
                Mary, and then Mary gave it back";
    follow(c, "story", "story", regard_story::TEXT);
    if let Ok(model) = model {
        follow(c, &model, "REGARD_MODEL", text);
    }
}

/// Measures the room with a model: a key, a key in a changed run, and a change of the first layer.
fn follow(c: &mut Criterion, model: &str, name: &str, text: &str) {
    let mut session = Session { room: Room::Stage, ..Session::default() };
    session.model = ModelState::of(model);
    text.clone_into(&mut session.model.text);
    let ctx = Context::default();
    let mut app = App::with_session(&ctx, Arc::new(TestHost::DEFAULT), session);
    settle(&ctx, &mut app);
    assert_eq!(app.model().error(), None, "{name} reads no text");
    let tokens = app.model().outcome().map_or(0, |outcome| outcome.tokens().len());
    let mut group = c.benchmark_group(format!("{name}, {tokens} tokens"));
    group.sample_size(10);
    let head = HeadAddress { attention: Which::Only, layer: 0, head: 1 };
    let zero = Change::Ablate { head, to: Ablation::Zero };
    // The cursor is at the end of the text.
    let field = Pos2::new(500.0, 78.0);
    for events in [
        vec![Event::PointerMoved(field), button(field, true)],
        vec![button(field, false)],
        pressed(Key::End),
    ] {
        draw(&ctx, &mut app, events);
    }
    for changes in [Vec::new(), vec![zero.clone()]] {
        let what = if changes.is_empty() { "a key" } else { "a key in a changed run" };
        app.session.model.changes =
            changes.into_iter().map(|change| Listed { change, on: true }).collect();
        settle(&ctx, &mut app);
        // No two keys in a row are the same, so that nothing of the run of the last one is reused.
        let mut keys = "abcdefghijklmnopqrstuvwxyz".chars().cycle();
        group.bench_function(what, |b| {
            b.iter_custom(|times| {
                let all = (0..times).zip(&mut keys).map(|(_, key)| {
                    let time = until_shown(&ctx, &mut app, vec![Event::Text(key.to_string())]);
                    assert!(app.session.model.text.ends_with(key), "the key was not for the text");
                    until_shown(&ctx, &mut app, pressed(Key::Backspace));
                    time
                });
                all.sum()
            });
        });
    }
    // The previous run has another change, so that nothing of it is cached.
    let mut head = head;
    group.bench_function("a head set to zero", |b| {
        b.iter_custom(|times| {
            let all = (0..times).map(|_| {
                app.session.model.changes.clear();
                until_shown(&ctx, &mut app, Vec::new());
                head.head = (head.head + 1) % 2;
                app.session.model.ablate(head, Some(Ablation::Zero));
                until_shown(&ctx, &mut app, Vec::new())
            });
            all.sum()
        });
    });
}

/// The events of a pressed key.
fn pressed(key: Key) -> Vec<Event> {
    let modifiers = Modifiers::NONE;
    vec![Event::Key { key, physical_key: None, pressed: true, repeat: false, modifiers }]
}

/// Sends these events to the window, and draws until it shows the requested run. Returns the time that it took. Later
/// computations, such as the sweep, end before this returns.
fn until_shown(ctx: &Context, app: &mut App, events: Vec<Event>) -> Duration {
    let start = Instant::now();
    draw(ctx, app, events);
    let is_shown = |app: &App| {
        let request = app.model().outcome().map(|outcome| &outcome.request);
        let state = &app.session.model;
        request.is_some_and(|r| r.text == state.text && r.changes == state.active())
    };
    while !is_shown(app) {
        std::thread::sleep(Duration::from_micros(200));
        draw(ctx, app, Vec::new());
    }
    let time = start.elapsed();
    settle(ctx, app);
    time
}

/// Measures a move of the slider: softmax again, the picture, and the texture of the visible part.
fn slider(c: &mut Criterion) {
    let mut group = c.benchmark_group("slider to texture");
    group.sample_size(20);
    for tokens in [1024, 4096] {
        for causal in [false, true] {
            let inputs =
                LaboratoryInputs { tokens, dim: 64, causal, ..LaboratoryInputs::default() };
            let (ctx, mut engine) = (Context::default(), Engine::new(Arc::new(TestHost::DEFAULT)));
            let mut t = 1.0;
            let mask = if causal { "causal" } else { "no mask" };
            // As in the window, the shown picture is kept until the next one exists.
            let mut shown = None;
            group.bench_function(format!("{tokens} tokens, {mask}"), |b| {
                b.iter(|| {
                    t = if t > 5.0 { 0.5 } else { t * 1.01 };
                    let temperature = Temperature::new(t).unwrap_or_default();
                    let inputs = LaboratoryInputs { temperature, ..inputs.clone() };
                    let request = LaboratoryRequest {
                        inputs,
                        pinned: None,
                        shown: LaboratoryMatrix::Weights,
                    };
                    let Ok(outcome) = engine.run(request, &|_| ()) else { return };
                    let level = (tokens / 512).ilog2() as usize;
                    let palette = outcome.palette(Look::default());
                    let picture = Picture::new(&outcome.numbers, tokens, palette);
                    let part = picture.blocks(level, 0..tokens, 0..tokens);
                    black_box(picture.texture(&ctx, "weights", &outcome.numbers, &part));
                    shown = Some(outcome);
                });
            });
        }
    }
}

criterion_group!(benches, start, slider, laboratory, open, model);
criterion_main!(benches);
