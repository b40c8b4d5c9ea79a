//! What the window costs without its display: the laboratory's slider to the new picture, and a frame of a large heatmap.

use core::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use egui::{Context, Event, Modifiers, Pos2, RawInput, Rect, TextureId, vec2};
use regard::Temperature;
use regard_desktop::ui::App;
use regard_desktop::ui::colors::{Look, Palette};
use regard_desktop::ui::heatmap::{Heatmap, Picture, View};
use regard_desktop::ui::laboratory::{Engine, Inputs, Request, Shown};
use regard_walkthrough::{Example, Marks};

/// The slider is moved: softmax again, the picture, and the texture of what is seen.
fn slider(c: &mut Criterion) {
    let mut group = c.benchmark_group("slider to texture");
    group.sample_size(20);
    for tokens in [1024, 4096] {
        for causal in [false, true] {
            let inputs = Inputs { tokens, dim: 64, causal, ..Inputs::default() };
            let (ctx, mut engine) = (Context::default(), Engine::default());
            let mut t = 1.0;
            let mask = if causal { "causal" } else { "no mask" };
            // As the window does it: what is shown is kept until the next is there.
            let mut shown = None;
            group.bench_function(format!("{tokens} tokens, {mask}"), |b| {
                b.iter(|| {
                    t = if t > 5.0 { 0.5 } else { t * 1.01 };
                    let temperature = Temperature::new(t).unwrap_or_default();
                    let inputs = Inputs { temperature, ..inputs.clone() };
                    let request = Request { inputs, pinned: None, shown: Shown::Weights };
                    let Ok(outcome) = engine.run(request, &|_| ()) else { return };
                    let level = (tokens / 512).ilog2() as usize;
                    let part = outcome.picture.part(level, 0..tokens, 0..tokens);
                    black_box(outcome.picture.texture(&ctx, "weights", &outcome.numbers, &part));
                    shown = Some(outcome);
                });
            });
        }
    }
}

/// A frame of a heatmap of 4096 × 4096 cells, laid out and cut into triangles.
fn frame(c: &mut Criterion) {
    const N: usize = 4096;
    let numbers: Arc<Vec<f32>> = Arc::new((0..N * N).map(|i| ((i * 7919) % 10007) as f32 / 10007.0).collect());
    let labels: Vec<String> = (0..N).map(|i| format!("t{i}")).collect();
    let picture = Picture::new(&numbers, N, Palette::weights(1.0, Look::default()));
    let ctx = Context::default();
    App::new(&ctx, Example::TheCatSat);
    let mut view = View::default();
    let mut show = |events: Vec<Event>| {
        let screen_rect = Some(Rect::from_min_size(Pos2::ZERO, vec2(1280.0, 1000.0)));
        let input = RawInput { events, screen_rect, max_texture_side: Some(8192), ..RawInput::default() };
        let output = ctx.run_ui(input, |ui| {
            let map = Heatmap {
                name: "weights",
                numbers: &numbers,
                row_labels: &labels,
                col_labels: &labels,
                picture: &picture,
                captions: None,
                terms: ["query", "key", "weight"],
                pointed: Some((7, 7)),
                marks: Marks::default(),
                edited: &[],
                large: 800.0,
                paints: false,
            };
            map.show(ui, 1000.0, &mut view);
        });
        black_box(ctx.tessellate(output.shapes, output.pixels_per_point));
        output.textures_delta.set.iter().filter(|(id, _)| **id != TextureId::default()).count()
    };
    let mut i = 0.0;
    let mut place = || {
        i = (i + 1.7) % 500.0;
        Pos2::new(200.0 + i, 150.0 + i)
    };
    show(Vec::new());
    c.bench_function("4096 tokens, a frame while the pointer moves", |b| {
        b.iter(|| show(vec![Event::PointerMoved(place())]));
    });
    let mut factor = 1.02;
    let mut steps = 0;
    c.bench_function("4096 tokens, a frame while zooming", |b| {
        b.iter(|| {
            steps += 1;
            if steps % 150 == 0 {
                factor = 1.0 / factor;
            }
            show(vec![Event::PointerMoved(Pos2::new(500.0, 400.0)), Event::Zoom(factor)])
        });
    });
    show(vec![Event::PointerMoved(Pos2::new(500.0, 400.0)), Event::Zoom(6.0)]);
    let button = |pressed| Event::PointerButton {
        pos: Pos2::new(500.0, 400.0),
        button: egui::PointerButton::Primary,
        pressed,
        modifiers: Modifiers::NONE,
    };
    show(vec![button(true)]);
    c.bench_function("4096 tokens, a frame while dragging", |b| {
        b.iter(|| show(vec![Event::PointerMoved(place())]));
    });
    show(vec![button(false)]);
}

criterion_group!(benches, slider, frame);
criterion_main!(benches);
