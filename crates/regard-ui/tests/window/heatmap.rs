//! The heatmap by itself: the effects of the pointer, the wheel and the keyboard.

use std::sync::Arc;

use crate::colors::{Look, Palette};
use crate::heatmap::{Cell, Heatmap, Picture, Viewport};
use crate::{App, Session};
use egui::{Event, Key, Modifiers, MouseWheelUnit, Pos2, Rect, TouchPhase, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::{NodeT as _, Queryable as _};

use super::TestHost;
use super::driver::{click_at, pointer_button, textures};

struct Shown {
    n: usize,
    numbers: Vec<f32>,
    labels: Vec<String>,
    picture: Picture,
    view: Viewport,
    hovered: Option<Cell>,
    chosen: Option<Cell>,
    styled: bool,
}

type Window = Harness<'static, Shown>;

fn open(n: usize, number: impl Fn(usize, usize) -> f32) -> Window {
    let numbers: Vec<f32> = (0..n * n).map(|i| number(i / n, i % n)).collect();
    let picture = Picture::new(&numbers, n, Palette::weights(1.0, Look::default()));
    let labels = (0..n).map(|i| format!("t{i}")).collect();
    let (view, hovered, chosen) = (Viewport::default(), None, None);
    let shown = Shown { n, numbers, labels, picture, view, hovered, chosen, styled: false };
    let builder = Harness::builder().with_size([800.0, 700.0]).with_step_dt(0.02);
    let mut window = builder.build_ui_state(
        |ui, shown: &mut Shown| {
            if !shown.styled {
                // The styles that the window sets.
                App::with_session(ui.ctx(), Arc::new(TestHost::DEFAULT), Session::default());
                shown.styled = true;
                return;
            }
            egui::ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                let map = Heatmap {
                    pointed: shown.chosen,
                    ..Heatmap::new(
                        "weights",
                        &shown.numbers,
                        [&shown.labels, &shown.labels],
                        &shown.picture,
                    )
                };
                let pointing = map.show(ui, 700.0, &mut shown.view);
                shown.hovered = pointing.hovered;
                shown.chosen = pointing.chosen.or(shown.chosen);
                ui.add_space(3000.0);
            });
        },
        shown,
    );
    window.run_steps(4);
    window
}

#[test]
fn the_arrows_win_over_a_resting_pointer_until_it_moves() {
    let mut window = open(6, |_, _| 0.5);
    click_and_rest(&mut window, (1, 1));
    for _ in 0..3 {
        window.key_press(Key::ArrowRight);
        window.run_steps(3);
    }
    assert_eq!((window.state().chosen, window.state().hovered), (Some((1, 4)), None));
    window.hover_at(at(&window, (3, 3)));
    window.run_steps(3);
    assert_eq!(window.state().hovered, Some((3, 3)));
}

/// Clicks a cell, and leaves the pointer there.
fn click_and_rest(window: &mut Window, cell: Cell) {
    let place = at(window, cell);
    window.hover_at(place);
    window.drag_at(place);
    window.run_steps(1);
    window.event(pointer_button(place, false, Modifiers::NONE));
    window.run_steps(2);
}

fn cells(window: &Window) -> Rect {
    window.get_by_label("Heatmap of weights").rect()
}

fn at(window: &Window, cell: Cell) -> Pos2 {
    let (cells, n) = (cells(window), window.state().n as f32);
    cells.min + cells.size() * vec2((cell.1 as f32 + 0.5) / n, (cell.0 as f32 + 0.5) / n)
}

/// Turns the wheel once.
fn turn(window: &Window, by: f32, modifiers: Modifiers) {
    let (unit, phase, source, delta) =
        (MouseWheelUnit::Point, TouchPhase::Move, egui::MouseWheelSource::Wheel, vec2(0.0, by));
    window.event(Event::MouseWheel { unit, delta, phase, modifiers, source });
}

fn wheel(window: &mut Window, by: f32, modifiers: Modifiers) {
    turn(window, by, modifiers);
    window.run_steps(40);
}

/// Different numbers between 0 and 1.
fn ramp(n: usize) -> impl Fn(usize, usize) -> f32 {
    move |row, col| (row * n + col) as f32 / (n * n) as f32
}

#[test]
fn the_cell_under_the_pointer_is_known_at_any_size() {
    for n in [2, 33, 512, 2000] {
        let mut window = open(n, ramp(n));
        for cell in [(0, 0), (n / 3, n / 2), (n - 1, n - 1), (0, n - 1)] {
            window.hover_at(at(&window, cell));
            window.step();
            assert_eq!(window.state().hovered, Some(cell), "{n}");
        }
    }
}

/// Puts a finger on the screen or lifts it, as a browser reports it.
fn finger(window: &Window, at: Pos2, phase: TouchPhase) {
    let pressed = phase == TouchPhase::Start;
    window.event(pointer_button(at, pressed, Modifiers::NONE));
    if !pressed {
        window.event(Event::PointerGone);
    }
    let (device_id, id) = (egui::TouchDeviceId(0), egui::TouchId(0));
    window.event(Event::Touch { device_id, id, phase, pos: at, force: None });
}

#[test]
fn a_finger_that_rests_shows_the_cell_under_it() {
    let mut window = open(10, ramp(10));
    for cell in [(3, 4), (7, 2), (7, 2), (0, 9)] {
        let place = at(&window, cell);
        finger(&window, place, TouchPhase::Start);
        for time in 0..5 {
            window.run_steps(20); // 0.4 s
            assert_eq!(window.state().hovered, Some(cell), "{time}");
        }
        finger(&window, place, TouchPhase::End);
        window.run_steps(2);
        assert_eq!(window.state().hovered, None);
    }
}

#[test]
fn the_wheel_scrolls_the_page_and_with_control_zooms_about_the_pointer() {
    let mut window = open(1000, ramp(1000));
    let (pointer, top) = (at(&window, (700, 300)), cells(&window).top());
    window.hover_at(pointer);
    window.run_steps(2);

    wheel(&mut window, 300.0, Modifiers::COMMAND);
    assert!(window.state().view.zoom() > 1.5, "{:?}", window.state().view);
    assert_eq!(cells(&window).top(), top);
    let (row, col) = window.state().hovered.unwrap();
    assert!(row.abs_diff(700) <= 1 && col.abs_diff(300) <= 1, "{row} {col}");

    let zoomed = window.state().view.clone();
    wheel(&mut window, -100.0, Modifiers::NONE);
    assert!(cells(&window).top() < top - 50.0);
    assert_eq!(window.state().view, zoomed);
}

#[test]
fn dragging_moves_the_cells_once_zoomed_in_and_a_double_click_shows_all() {
    let mut window = open(1000, ramp(1000));
    let start = at(&window, (500, 500));
    window.hover_at(start);
    window.run_steps(2);
    wheel(&mut window, 600.0, Modifiers::COMMAND);
    let before = window.state().hovered.unwrap();
    window.drag_at(start);
    window.step();
    window.hover_at(start + vec2(60.0, 40.0));
    window.run_steps(2);
    assert_eq!(window.state().hovered, Some(before), "the cell moves with the pointer");
    window.drop_at(start + vec2(60.0, 40.0));
    window.run_steps(2);

    assert!(!window.state().view.is_whole());
    for _ in 0..2 {
        window.drag_at(start);
        window.drop_at(start);
        window.step();
    }
    window.run_steps(3);
    assert_eq!(window.state().view, Viewport::default());
}

#[test]
fn the_keyboards_cursor_is_spoken() {
    let mut window =
        open(100, |row, col| if col > row { f32::NEG_INFINITY } else { ramp(100)(row, col) });
    let place = at(&window, (50, 20));
    click_at(&mut window, place);
    assert_eq!(window.state().chosen, Some((50, 20)));
    let spoken = |window: &Window| window.get_by_label("Heatmap of weights").value().unwrap();
    for (key, modifiers, cell, words) in [
        (Key::ArrowDown, Modifiers::NONE, (51, 20), "query t51, key t20, weight 0.512"),
        (Key::ArrowLeft, Modifiers::NONE, (51, 19), "query t51, key t19, weight 0.512"),
        (Key::PageUp, Modifiers::NONE, (41, 19), "query t41, key t19, weight 0.412"),
        (Key::End, Modifiers::NONE, (41, 99), "query t41, key t99, weight masked"),
        (Key::Home, Modifiers::COMMAND, (0, 0), "query t0, key t0, weight 0"),
    ] {
        window.key_press_modifiers(modifiers, key);
        window.run_steps(2);
        assert_eq!(window.state().chosen, Some(cell));
        assert_eq!(spoken(&window), words);
    }
    let node = window.get_by_label("Heatmap of weights");
    assert_eq!(node.accesskit_node().data().live(), Some(egui::accesskit::Live::Polite));
}

#[test]
fn the_cursor_is_followed_and_keys_zoom() {
    let mut window = open(200, ramp(200));
    let place = at(&window, (100, 100));
    click_at(&mut window, place);
    for _ in 0..8 {
        window.key_press(Key::Plus);
        window.step();
    }
    assert!(window.state().view.zoom() > 5.0);
    window.key_press_modifiers(Modifiers::COMMAND, Key::End);
    window.run_steps(2);
    assert_eq!(window.state().chosen, Some((199, 199)));
    window.hover_at(cells(&window).max - vec2(1.0, 1.0));
    window.step();
    assert_eq!(window.state().hovered, Some((199, 199)), "the cursor's cell is seen");
    window.key_press(Key::Num0);
    window.run_steps(2);
    assert!(window.state().view.is_whole());
}

#[test]
fn cells_are_pinned_with_shift_or_p() {
    let mut window = open(10, ramp(10));
    // The chosen cell, and the pinned ones after P. Another cell stays pinned.
    for (cell, pinned) in [
        ((7, 1), vec![(7, 1)]),
        ((3, 4), vec![(7, 1), (3, 4)]),
        ((3, 4), vec![(7, 1)]),
        ((7, 1), vec![]),
    ] {
        let before = window.state().view.pinned.clone();
        let place = at(&window, cell);
        click_at(&mut window, place);
        assert_eq!(window.state().view.pinned, before, "a click pins nothing");
        window.key_press(Key::P);
        window.run_steps(2);
        assert_eq!(window.state().view.pinned, pinned);
    }
}

#[test]
fn a_texture_is_hardly_larger_than_the_visible_part() {
    let mut window = open(4096, ramp(4096));
    let before = textures(&window.ctx);
    assert_eq!(before.len(), 1);
    window.hover_at(at(&window, (2000, 2000)));
    window.step();
    assert_eq!(textures(&window.ctx), before, "hovering makes no texture");
    for _ in 0..30 {
        turn(&window, 60.0, Modifiers::COMMAND);
        window.step();
        let [(id, [width, height])] = textures(&window.ctx)[..] else {
            panic!("one texture for all")
        };
        assert_eq!(id, before[0].0);
        let (most, zoom) = (width.max(height), window.state().view.zoom());
        assert!(
            most <= 514 * 5 / 4 && (most >= 256 || zoom > 16.0),
            "{width} × {height} at {zoom}"
        );
    }
    assert!(window.state().view.zoom() > 20.0);
}
