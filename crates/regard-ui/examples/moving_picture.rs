//! Writes the pictures of the pages. The first screen moves, as an animated PNG: the temperature is dragged, a word is hidden, and
//! other sentences are opened. Every other picture is that of a session.
//!
//! `cargo run -p regard-ui --features snapshots --example moving_picture docs/screenshots`
#![expect(clippy::unwrap_used, reason = "a program of the developers")]

#[path = "../tests/window/host.rs"]
mod host;

use core::time::Duration;
use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use egui::accesskit::Role;
use egui::{Pos2, Rect, ThemePreference};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;
use image::{GrayImage, Luma, RgbImage, buffer::ConvertBuffer as _, imageops};
use png::{BitDepth, BlendOp, ColorType, Compression, Encoder};
use regard_ui::walkthrough::{At, Picked};
use regard_ui::{App, Command, Session};
use regard_walkthrough::{Example, Quantity};

const SIZE: [f32; 2] = [900.0, 600.0];
/// The margin that the harness leaves around the window.
const MARGIN: u32 = 8;
/// The squared distance of two colours that look alike.
const NEAR: u32 = 300;
/// The most colours of the moving picture.
const COLORS: usize = 48;
/// The time from one frame to the next, in milliseconds.
const STEP: u16 = 50;

/// The window, and the frames so far: each with the number of steps for which it is shown.
struct Film {
    window: Harness<'static, Option<App>>,
    pointer: Pos2,
    frames: Vec<(RgbImage, u16)>,
}

impl Film {
    /// Lets the time pass, and draws.
    fn steps(&mut self, count: u16) {
        for _ in 0..count {
            // The model has answered when the next frame is drawn.
            std::thread::sleep(Duration::from_millis(60));
            self.window.run_steps(1);
            let frame = picture(&mut self.window);
            match self.frames.last_mut() {
                Some((last, steps)) if *last == frame => *steps += 1,
                _ => self.frames.push((frame, 1)),
            }
        }
    }

    /// Moves the pointer there.
    fn go(&mut self, to: Pos2, count: u16) {
        let from = self.pointer;
        for i in 1..=count {
            let t = f32::from(i) / f32::from(count);
            self.pointer = from.lerp(to, t * t * (3.0 - 2.0 * t));
            self.window.hover_at(self.pointer);
            self.steps(1);
        }
    }

    fn place(&self, name: &str) -> Rect {
        self.window.query_all_by_label_contains(name).next().unwrap().rect()
    }

    fn click(&mut self, name: &str) {
        self.go(self.place(name).center(), 9);
        self.window.drag_at(self.pointer);
        self.window.run_steps(1);
        self.window.drop_at(self.pointer);
        self.window.hover_at(self.pointer);
        self.steps(30);
    }
}

/// The sessions of the pictures that do not move, in dark or light.
const ROOMS: [(&str, &str, ThemePreference); 4] = [
    (
        "model",
        r#"{"room": "stage", "model": {"model": "story", "text": "Mary and John went to the store. John had a cold drink. John gave the drink to",
            "changes": [{"change": {"ablate": {"head": "0.2", "to": "zero"}}, "on": true}],
            "heads": {"shown": "head", "layer": 3, "head": 3, "chosen": [19, 14]}}}"#,
        ThemePreference::Dark,
    ),
    (
        "heads",
        r#"{"room": "stage", "model": {"file": "sample", "heads": {"order": "induction"}}}"#,
        ThemePreference::Light,
    ),
    (
        "lines",
        r#"{"room": "stage", "model": {"file": "sample",
            "heads": {"shown": "head", "layer": 1, "head": 1, "lines": true, "isolated": ["queries", 17], "around": 17}}}"#,
        ThemePreference::Light,
    ),
    (
        "laboratory",
        r#"{"room": "laboratory", "laboratory": {"inputs": {"tokens": 512, "alibi": 0.02, "sink": 6.0}, "chosen": [400, 380]}}"#,
        ThemePreference::Dark,
    ),
];

/// Writes the picture of a session.
fn room(folder: &Path, name: &str, session: Session, theme: ThemePreference) {
    let is_alone = name == "page-embedded";
    let size = if is_alone { [720.0, 480.0] } else { [1280.0, 800.0] };
    let begin = move |ctx: &egui::Context| {
        let host = Arc::new(host::TestHost::DEFAULT);
        let mut app = App::with_session(ctx, host, session.clone());
        app.alone = is_alone;
        app.perform(ctx, Command::Theme(theme));
        app
    };
    let mut window = Harness::builder().with_size(with_margin(size)).wgpu().build_ui_state(
        move |ui, app: &mut Option<App>| match app {
            Some(app) => app.ui(ui),
            None => *app = Some(begin(ui.ctx())),
        },
        None,
    );
    while window.state().as_ref().is_none_or(App::is_busy) {
        std::thread::sleep(Duration::from_millis(20));
        window.run_steps(4);
    }
    window.run_steps(8);
    picture(&mut window).save(folder.join(name).with_extension("png")).unwrap();
}

/// The window without the margin that the harness leaves around it.
fn picture(window: &mut Harness<'static, Option<App>>) -> RgbImage {
    let whole: RgbImage = window.render().unwrap().convert();
    let [width, height] = [whole.width(), whole.height()].map(|side| side - 2 * MARGIN);
    imageops::crop_imm(&whole, MARGIN, MARGIN, width, height).to_image()
}

/// The size of a harness whose window has this size.
fn with_margin(size: [f32; 2]) -> [f32; 2] {
    size.map(|side| side + 2.0 * MARGIN as f32)
}

fn main() {
    let folder =
        std::env::args_os().nth(1).expect("into which folder are the pictures to be written?");
    let folder = Path::new(&folder);
    for (name, session, theme) in ROOMS {
        let session = session.replacen('{', r#"{"format": "regard session 1", "#, 1);
        room(folder, name, Session::parse(session.as_bytes()).unwrap(), theme);
    }
    let mut session = regard_ui::example(Example::ILoveRobotics);
    let step = Quantity::Weights.into();
    session.walkthrough.picked = Some(Picked::Cell(At { step, cell: (0, 2) }));
    room(folder, "walkthrough", session, ThemePreference::Dark);
    let session = regard_ui::example(Example::TheCatSat);
    room(folder, "page-embedded", session, ThemePreference::Light);
    let builder =
        Harness::builder().with_size(with_margin(SIZE)).with_step_dt(f32::from(STEP) / 1000.0);
    let begin = |ctx: &egui::Context| {
        let host = Arc::new(host::TestHost::DEFAULT);
        let mut app = App::with_session(ctx, host, regard_ui::greeting());
        app.perform(ctx, Command::Theme(ThemePreference::Dark));
        // The harness asks for less motion.
        ctx.all_styles_mut(|style| style.animation_time = egui::Style::default().animation_time);
        app
    };
    let mut window = builder.wgpu().build_ui_state(
        move |ui, app: &mut Option<App>| match app {
            Some(app) => app.ui(ui),
            None => *app = Some(begin(ui.ctx())),
        },
        None,
    );
    window.set_render_cursor(true);
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(40));
        window.run_steps(2);
    }
    let pointer = Pos2::new(450.0, 560.0);
    window.hover_at(pointer);
    let mut film = Film { window, pointer, frames: Vec::new() };
    film.steps(25);

    // The handle of a logarithmic slider from 0.1 to 10 is in the middle at 1.
    let slider = film.window.get_by_role_and_label(Role::Slider, "How sharply the heads look");
    let slider = slider.rect();
    film.go(slider.center(), 12);
    film.window.drag_at(film.pointer);
    film.go(slider.right_center(), 22);
    film.steps(40);
    film.go(slider.center(), 11);
    film.window.drop_at(film.pointer);
    film.window.hover_at(film.pointer);
    film.steps(15);
    film.click("Mary at 2,");
    film.click("Mary at 2,");
    film.click("Another sentence");

    write(&folder.join("landing.png"), &film.frames);
}

/// The colours of the picture, and the place of each colour of the frames among them: the nearest of the most frequent ones.
fn palette(frames: &[(RgbImage, u16)]) -> (Vec<[u8; 3]>, HashMap<[u8; 3], u8>) {
    let mut counts: HashMap<[u8; 3], u64> = HashMap::new();
    for pixel in frames.iter().flat_map(|(frame, _)| frame.pixels()) {
        *counts.entry(pixel.0).or_default() += 1;
    }
    let mut colors: Vec<[u8; 3]> = counts.keys().copied().collect();
    colors.sort_by_key(|color| (core::cmp::Reverse(counts[color]), *color));
    let apart = |a: &[u8; 3], b: &[u8; 3]| -> u32 {
        a.iter().zip(b).map(|(a, b)| u32::from(a.abs_diff(*b)).pow(2)).sum()
    };
    let mut kept: Vec<[u8; 3]> = Vec::new();
    for color in &colors {
        if kept.len() < COLORS && kept.iter().all(|other| apart(color, other) > NEAR) {
            kept.push(*color);
        }
    }
    let nearest =
        |color: &[u8; 3]| (0..kept.len()).min_by_key(|i| apart(color, &kept[*i])).unwrap();
    let places = colors.iter().map(|color| (*color, nearest(color) as u8)).collect();
    (kept, places)
}

/// Writes the frames in few colours. Each after the first holds only the rectangle that differs from the one before, and in it what
/// is the same is transparent: one colour packs well.
fn write(path: &Path, frames: &[(RgbImage, u16)]) {
    const SAME: Luma<u8> = Luma([COLORS as u8]);
    let (width, height) = frames[0].0.dimensions();
    let mut encoder = Encoder::new(BufWriter::new(File::create(path).unwrap()), width, height);
    let (mut colors, places) = palette(frames);
    colors.resize(COLORS + 1, [0; 3]);
    encoder.set_color(ColorType::Indexed);
    encoder.set_palette(colors.concat());
    encoder.set_trns([vec![255; COLORS], vec![0]].concat());
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::High);
    encoder.set_filter(png::Filter::NoFilter); // flat colours are smaller so
    encoder.set_animated(u32::try_from(frames.len()).unwrap(), 0).unwrap();
    encoder.set_blend_op(BlendOp::Over).unwrap();
    let mut writer = encoder.write_header().unwrap();
    let mut before: Option<GrayImage> = None;
    for (frame, steps) in frames {
        let now = GrayImage::from_fn(width, height, |x, y| Luma([places[&frame[(x, y)].0]]));
        let mut part = now.clone();
        for (pixel, before) in part.pixels_mut().zip(before.iter().flat_map(|b| b.pixels())) {
            *pixel = if pixel == before { SAME } else { *pixel };
        }
        let [left, top, width, height] = extent(&part, SAME);
        writer.reset_frame_position().unwrap();
        writer.set_frame_dimension(width, height).unwrap();
        writer.set_frame_position(left, top).unwrap();
        writer.set_frame_delay(steps * STEP, 1000).unwrap();
        let part = imageops::crop_imm(&part, left, top, width, height).to_image();
        writer.write_image_data(part.as_raw()).unwrap();
        before = Some(now);
    }
    writer.finish().unwrap();
}

/// The rectangle of the pixels that have another colour: left, top, width and height.
fn extent(image: &GrayImage, color: Luma<u8>) -> [u32; 4] {
    let mut others = image.enumerate_pixels().filter(|(_, _, pixel)| **pixel != color);
    let Some((x, y, _)) = others.next() else { return [0, 0, 1, 1] };
    let [left, top, right, bottom] = others
        .fold([x, y, x, y], |[l, t, r, b], (x, y, _)| [l.min(x), t.min(y), r.max(x), b.max(y)]);
    [left, top, right - left + 1, bottom - top + 1]
}
