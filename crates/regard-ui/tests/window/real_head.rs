//! The first screen: a head of a trained model, and the effect of everything that the visitor is invited to try.

use core::time::Duration;

use egui::accesskit::Role;
use egui::{Key, Pos2, Rect};
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use regard_walkthrough::Example;

use super::driver::{
    Window, click, click_on, key, open_smooth, places, press, says, session, set_value, settle,
};
use crate::Command;

fn open(size: [f32; 2]) -> Window {
    open_smooth(crate::greeting(), size)
}

/// The likeliest next word and its probability in percent, as the first bar says them.
fn winner(window: &Window) -> (String, String) {
    let bars = window.query_all_by_role(Role::Label).filter_map(|node| {
        let (rect, node) = (node.rect(), node.accesskit_node());
        let label = node.label().or_else(|| node.value())?;
        let (word, share) = label.split_once(": ")?;
        Some((rect.top(), word.to_owned(), share.strip_suffix(" %")?.to_owned()))
    });
    let (_, word, share) = bars.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    (word, share)
}

/// Checks the winner against the bar, the sentence and the list. The shares are those of the bundled weights of 8 bits, which are up
/// to a hundredth from those of the trained ones.
fn expects(window: &Window, word: &str, share: &str) {
    let (found, of) = winner(window);
    assert_eq!((found.as_str(), of.as_str()), (word, share));
    assert!(says(window, &format!("expects “{word}” next: {share} %")), "the sentence names it");
}

fn sharpness(window: &mut Window, t: f64) {
    set_value(window, Role::Slider, "How sharply the heads look", t);
}

fn sentence(window: &mut Window, text: &str) {
    window.get_by_role_and_label(Role::TextInput, "Sentence").set_text_value_accesskit(text);
    settle(window);
}

#[test]
fn the_words_are_one_stop_of_tab_with_arrows_inside() {
    let mut window = open([1280.0, 800.0]);
    window.get_by_label("Hide ⟨start⟩ at 0").focus();
    window.run_steps(3);
    for name in ["Hide When at 1", "Hide Mary at 2", "Hide and at 3"] {
        key(&mut window, Key::ArrowRight);
        assert!(window.get_by_label(name).accesskit_node().is_focused(), "{name}");
    }
    key(&mut window, Key::Tab);
    let words = window.query_all_by_label_contains("Hide ");
    assert!(words.into_iter().all(|word| !word.accesskit_node().is_focused()), "Tab leaves them");
}

#[test]
fn each_step_of_the_first_minute_moves_the_prediction() {
    let mut window = open([1280.0, 800.0]);
    expects(&window, "Mary", "99.97");
    assert!(says(&window, "Head 5.3 looks from the last word, “to”, back at “Mary”"));
    sharpness(&mut window, 3.0);
    expects(&window, "Sarah", "11");
    assert!(says(&window, "“Mary” goes from 99.97 % to "), "the expected word is still told");
    sharpness(&mut window, 1.0);

    click(&mut window, "Hide Mary at 2");
    expects(&window, "John", "99");
    assert!(says(&window, "Without “Mary”, “to” looks at “John”"));
    click(&mut window, "Hide John at 4");
    assert!(says(&window, "Without “Mary”, “John”"), "another word can be hidden too");
    for _ in 0..2 {
        press(&mut window, Command::Undo);
    }
    expects(&window, "Mary", "99.97");

    click(&mut window, "Another sentence");
    expects(&window, "bag", "99.99");
    assert!(says(&window, "back at what came after “the” last time: “bag”"));
    sharpness(&mut window, 3.0);
    expects(&window, "box", "57");
    sharpness(&mut window, 1.0);
    click(&mut window, "Hide bag at 13");
    expects(&window, "box", "74");
    for what in ["How sharply the heads look", "Click a word to hide it", "Type your own sentence"]
    {
        assert!(says(&window, &format!("{what}: done")), "{what}");
    }
    click(&mut window, "See how these numbers are computed");
    assert!(says(&window, "q·k = ") && says(&window, "in f64: "));
    click(&mut window, "Go on to small numbers");
    assert_eq!(session(&window).walkthrough.example(), Example::ILoveRobotics);
}

#[test]
fn a_sentence_of_ones_own_is_read_as_it_is_typed() {
    let mut window = open([1280.0, 800.0]);
    click(&mut window, "Hide Mary at 2");
    sentence(&mut window, "Priya met Kofi at the zoo. Kofi gave the map to");
    assert!(
        session(&window).walkthrough.real.hidden.is_empty(),
        "the hidden word is of the other sentence"
    );
    assert_eq!(winner(&window).0, "Priya");
    assert!(says(&window, "Type your own sentence: done"));
    // The last word has another place now, and hiding counts from there.
    let priya = window.query_all_by_label_contains("Hide ").find_map(|node| {
        let label = node.accesskit_node().label()?;
        label.starts_with("Hide Priya").then_some(label)
    });
    click(&mut window, &priya.unwrap());
    assert_ne!(winner(&window).0, "Priya");
    for text in ["", "!", "ναι", "a\tb"] {
        sentence(&mut window, text);
        assert!(!winner(&window).0.is_empty(), "{text:?} is read");
    }
    sentence(&mut window, "Attention is all you");
    expects(&window, "need", "69");
}

#[test]
fn the_first_screen_fits_without_scrolling() {
    for size in [[1280.0, 800.0], [900.0, 600.0], [1920.0, 1080.0], [390.0, 844.0]] {
        let mut window = open(size);
        sharpness(&mut window, 3.0);
        // Margins of 8 around the window and of 12 around the page: nothing scrolls.
        let screen = Rect::from_min_size(Pos2::ZERO, size.into()).shrink(20.0);
        let names = [
            "Hide Mary at 2",
            "Another sentence",
            "See how these numbers are computed",
            "Heatmap of Head 5.3",
        ];
        for name in names {
            let rect = window.get_by_label(name).rect();
            assert!(screen.contains_rect(rect), "{name} at {rect} in {size:?}");
        }
        let (slider, field) = (Role::Slider, Role::TextInput);
        for (role, name) in [(slider, "How sharply the heads look"), (field, "Sentence")] {
            let rect = window.get_by_role_and_label(role, name).rect();
            assert!(screen.contains_rect(rect), "{name} at {rect} in {size:?}");
        }
        let bar = window.get_by_label("Sarah: 11 %").rect();
        assert!(screen.contains_rect(bar), "{bar:?} in {size:?}");
        assert!(places(&window, "Hide ").len() == 14, "the last word cannot be hidden");
    }
}

#[test]
fn ribbons_and_bars_move_for_a_moment_and_then_nothing_is_drawn() {
    let mut window = open([1280.0, 800.0]);
    let frame = |window: &mut Window| {
        window.run_steps(1);
        window.output().viewport_output[&egui::ViewportId::ROOT].repaint_delay
    };
    // A thread that has just answered may still wake the window once.
    let rests = |window: &mut Window| {
        (0..20).any(|_| {
            std::thread::sleep(Duration::from_millis(2));
            frame(window) > Duration::from_secs(1)
        })
    };
    assert!(rests(&mut window), "nothing moves at rest");
    // The harness asks for less motion, as a system may.
    window.ctx.all_styles_mut(|style| style.animation_time = 0.1);
    click(&mut window, "Hide Mary at 2");
    let moving = (0..60).take_while(|_| frame(&mut window).is_zero()).count();
    assert!(
        says(&window, "John: 99 %") && moving <= 9,
        "{moving} frames of a sixtieth of a second"
    );
    assert!(rests(&mut window));
    sharpness(&mut window, 10.0);
    window.ctx.all_styles_mut(|style| style.animation_time = 0.0);
    settle(&mut window);
    assert!(rests(&mut window), "nothing moves where the system asks for less motion");
}

#[test]
fn a_click_on_a_cell_opens_its_arithmetic() {
    let mut window = open([1280.0, 800.0]);
    let cells = window.get_by_label("Heatmap of Head 5.3").rect();
    window.hover_at(cells.center());
    super::driver::click_at(&mut window, cells.center());
    settle(&mut window);
    assert!(says(&window, "q·k = "));
    click_on(&mut window, Role::Button, "Show all weights");
    assert!(!says(&window, "q·k = "));
    press(&mut window, Command::Reset);
}
