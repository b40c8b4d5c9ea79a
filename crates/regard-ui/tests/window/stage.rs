//! The stage: a stranger's first minute, by the names of the controls.

use core::time::Duration;

use egui::accesskit::Role;
use egui::{Key, Modifiers, Pos2, Rect};
use egui_kittest::kittest::{NodeT as _, Queryable as _};

use super::driver::{
    Window, app, button, click, key, open_smooth, places, press, says, session, set_value, settle,
};
use crate::{Command, Room};
use regard_models::Change;

fn open(size: [f32; 2]) -> Window {
    open_smooth(crate::greeting(), size)
}

/// The likeliest next word with the changes.
fn winner(window: &Window) -> String {
    let next = app(window).model().next();
    let winner = next.iter().max_by(|a, b| a.after.total_cmp(&b.after)).unwrap();
    winner.token.trim_start_matches('␣').to_owned()
}

/// Checks the winner against the headline. The shares are those of the bundled weights of 8 bits, which are up
/// to a hundredth from those of the trained ones.
fn expects(window: &Window, word: &str, share: &str) {
    assert_eq!(winner(window), word);
    assert!(says(window, &format!("expects “{word}”: {share} %.")), "the headline names it");
}

fn sharpness(window: &mut Window, t: f64) {
    set_value(window, Role::Slider, "How sharply the heads look", t);
}

/// Clicks a word.
fn hide(window: &mut Window, word: &str) {
    let name = button(window, &format!("Hide {word},"));
    click(window, &name);
}

fn sentence(window: &mut Window, text: &str) {
    super::model::type_text(window, text);
}

#[test]
fn the_words_are_one_stop_of_tab_with_arrows_inside() {
    let mut window = open([1280.0, 800.0]);
    let named = |window: &Window, start: &str| button(window, &format!("Hide {start},"));
    window.get_by_label(&named(&window, "⟨start⟩ at 0")).focus();
    window.run_steps(3);
    for name in ["When at 1", "Mary at 2", "and at 3"] {
        key(&mut window, Key::ArrowRight);
        let word = named(&window, name);
        assert!(window.get_by_label(&word).accesskit_node().is_focused(), "{name}");
    }
    key(&mut window, Key::Tab);
    let words = window.query_all_by_label_contains("Hide ");
    assert!(words.into_iter().all(|word| !word.accesskit_node().is_focused()), "Tab leaves them");
}

/// A stranger types a sentence, reads what a head looks at and what the model expects, hides a word, and sees it change.
#[test]
fn each_step_of_the_first_minute_moves_the_prediction() {
    let mut window = open([1280.0, 800.0]);
    expects(&window, "Mary", "99.97");
    assert!(says(&window, "Head 5.3 looks from “to” back at “Mary”."));
    sentence(&mut window, "Priya met Kofi at the zoo. Kofi gave the map to");
    assert!(winner(&window) == "Priya" && says(&window, "The model expects “Priya”: "));
    assert!(says(&window, "looks from “to” back at “P"));
    assert!(says(&window, "Type your own sentence: done"));
    for text in ["", "!", "ναι", "a\tb"] {
        sentence(&mut window, text);
        assert!(!winner(&window).is_empty(), "{text:?} is read");
    }
    sentence(&mut window, "When Mary and John went to the store, John gave a drink to");
    hide(&mut window, "Mary at 2");
    expects(&window, "John", "99");
    assert!(says(
        &window,
        "Without “Mary”, the model expects “John”: 99 %. “Mary” falls from 99.97 % to "
    ));
    assert!(says(&window, "Head 5.3 looks from “to” back at “John”."));
    hide(&mut window, "John at 4");
    assert!(says(&window, "Without “Mary”, “John”, "), "another word can be hidden too");
    for _ in 0..2 {
        press(&mut window, Command::Undo);
    }
    expects(&window, "Mary", "99.97");
    sharpness(&mut window, 3.0);
    expects(&window, "Sarah", "11");
    assert!(says(&window, "With all heads at T = 3, the model expects “Sarah”"));
    for what in
        ["Change how sharply the heads look", "Click a word to hide it", "Type your own sentence"]
    {
        assert!(says(&window, &format!("{what}: done")), "{what}");
    }
    sharpness(&mut window, 1.0);
    click(&mut window, "Another sentence");
    expects(&window, "bag", "99.99");
    sharpness(&mut window, 3.0);
    expects(&window, "box", "57");
    sharpness(&mut window, 1.0);
    hide(&mut window, "bag at 13");
    expects(&window, "box", "74");
}

#[test]
fn a_word_stays_hidden_from_the_last_word_while_the_sentence_grows() {
    let mut window = open([1280.0, 800.0]);
    hide(&mut window, "Mary at 2");
    click(&mut window, "Add next word");
    assert_eq!(session(&window).model.hidden.len(), 1);
    let heads = app(&window).model().heads(&session(&window).model).unwrap();
    let (n, shape) = (heads.labels()[0].len(), heads.maps.shape());
    for id in shape.ids() {
        let weights = heads.maps.head(id);
        assert_eq!(weights[(n - 1) * n + 2], 0.0, "{id}");
    }
    sentence(&mut window, "Attention is all you");
    assert!(session(&window).model.hidden.is_empty(), "it was a word of the other sentence");
    expects(&window, "need", "69");
}

#[test]
fn what_is_typed_anywhere_goes_to_the_end_of_the_sentence() {
    let mut window = open([1280.0, 800.0]);
    window.input_mut().events.push(egui::Event::Text(" the".to_owned()));
    settle(&mut window);
    assert!(session(&window).model.text.ends_with("a drink to the"));
}

#[test]
fn a_click_with_shift_looks_from_a_word() {
    let mut window = open([1280.0, 800.0]);
    let name = button(&window, "Hide gave at 11,");
    window.get_by_label(&name).click_modifiers(Modifiers::SHIFT);
    settle(&mut window);
    assert!(says(&window, "Head 5.3 looks from “gave” back at “⟨start⟩”, where heads rest."));
    assert!(says(&window, "5.3 is head 3 of layer 5."));
    assert!(session(&window).model.hidden.is_empty());
}

#[test]
fn the_first_screen_fits_without_scrolling() {
    for size in [[1280.0, 800.0], [900.0, 600.0], [1920.0, 1080.0]] {
        let mut window = open(size);
        sharpness(&mut window, 3.0);
        let screen = Rect::from_min_size(Pos2::ZERO, size.into());
        for name in ["Hide Mary at 2,", "Another sentence", "Sarah: 11 %", "head 5.3,"] {
            let rect = window.get_by_label_contains(name).rect();
            assert!(screen.contains_rect(rect), "{name} at {rect} in {size:?}");
        }
        let slider = (Role::Slider, "How sharply the heads look");
        let rect = window.get_by_role_and_label(slider.0, slider.1).rect();
        assert!(screen.contains_rect(rect), "{rect} in {size:?}");
        assert_eq!(places(&window, "Hide ").len(), 15);
    }
}

#[test]
fn ribbons_move_for_a_moment_and_then_nothing_is_drawn() {
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
    hide(&mut window, "Mary at 2");
    let moving = (0..60).take_while(|_| frame(&mut window).is_zero()).count();
    assert!(
        says(&window, "expects “John”: 99 %") && moving <= 9,
        "{moving} frames of a sixtieth of a second"
    );
    assert!(rests(&mut window));
    sharpness(&mut window, 10.0);
    window.ctx.all_styles_mut(|style| style.animation_time = 0.0);
    settle(&mut window);
    assert!(rests(&mut window), "nothing moves where the system asks for less motion");
}

#[test]
fn a_head_takes_its_output_from_another_sentence() {
    let mut window = open([1280.0, 1600.0]);
    click(&mut window, "From another sentence");
    let second = "When Mary and John went to the store, Mary gave a drink to";
    assert_eq!(session(&window).model.second.as_deref(), Some(second));
    let [change] = &session(&window).model.active()[..] else { panic!() };
    assert!(
        matches!(change, Change::PatchHead { position: None, from, .. } if from.ids.len() == 15)
    );
    let mary = app(&window).model().next()[0].clone();
    assert!(mary.after < mary.before, "{mary:?}");
    assert!(says(&window, "With head 5.3 from the other text, “Mary” falls from "));
    assert_eq!(button(&window, "Undo"), "Undo: Head 5.3: from the other text");
    press(&mut window, Command::Undo);
    assert!(session(&window).model.changes.is_empty());
}

#[test]
fn hidden_words_and_the_sharpness_stand_among_the_changes() {
    let mut window = open([1280.0, 800.0]);
    let none = "None: the model is as it was trained.";
    assert!(says(&window, none));
    hide(&mut window, "Mary at 2");
    sharpness(&mut window, 3.0);
    assert!(says(&window, "“Mary” is hidden") && says(&window, "All heads at T = 3"));
    assert!(!says(&window, none));
    click(&mut window, "Remove: “Mary” is hidden");
    click(&mut window, "Remove: All heads at T = 3");
    expects(&window, "Mary", "99.97");
    assert!(says(&window, none));
}

/// What the menus and the buttons do stands beside them, so that a finger finds it too.
#[test]
fn the_controls_above_the_heads_explain_themselves() {
    let mut window = open([1280.0, 800.0]);
    for (choice, hint) in [
        ("Value-weighted", "how much the key adds to the head's output"),
        ("Rollout", "how much of each word reaches each place through all layers"),
    ] {
        assert!(!says(&window, hint));
        click(&mut window, choice);
        let menu = if choice == "Rollout" { "Which heads" } else { "Weights of" };
        window.get_by_label(menu).click();
        window.run_steps(3);
        assert!(says(&window, hint), "{choice}");
        key(&mut window, Key::Escape);
    }
    click(&mut window, "Head");
    click(&mut window, "Patch");
    assert!(says(&window, "hidden words and other changes are not made"));
    click(&mut window, "Add next word");
    assert!(session(&window).model.text.ends_with("a drink to Mary"));
    let window = open([390.0, 844.0]);
    let named =
        |name: &str| window.get_by_role_and_label(Role::SpinButton, name).accesskit_node().value();
    let named = ["Which layer", "Which head"].map(named);
    assert_eq!(named.map(Option::unwrap_or_default), ["layer 5", "head 3"]);
}

/// The controls at the right stay in their places, and each row keeps its bar.
#[test]
fn a_first_change_moves_no_control() {
    for size in [[1280.0, 800.0], [900.0, 600.0], [390.0, 844.0]] {
        let mut window = open(size);
        let slider = |window: &Window| {
            window.get_by_role_and_label(Role::Slider, "How sharply the heads look").rect()
        };
        let before = slider(&window);
        hide(&mut window, "Mary at 2");
        assert_eq!(slider(&window), before, "{size:?}");
    }
}

/// A line that is longer than the window shows the word that looks, and names the one that it looks at.
#[test]
fn a_word_beyond_the_edge_is_named_there() {
    let mut window = open([390.0, 844.0]);
    let mary = |window: &Window| window.get_by_label_contains("Hide Mary at 2,").rect();
    assert!(mary(&window).right() < 12.0);
    let edge = window.get_by_label("← Mary 90 %").rect();
    assert!(edge.left() >= 12.0 && edge.right() < 120.0, "{edge}");
    click(&mut window, "← Mary 90 %");
    assert!(mary(&window).left() >= 12.0 && !says(&window, "← Mary"));
    // At this size the whole sentence is visible.
    let window = open([900.0, 600.0]);
    let start = window.get_by_label_contains("Hide ⟨start⟩ at 0,").rect();
    assert!(start.left() >= 12.0 && !says(&window, "← Mary"), "{start}");
}

#[test]
fn undo_names_its_step_and_never_changes_the_room() {
    let mut window = open([1280.0, 800.0]);
    hide(&mut window, "Mary at 2");
    assert_eq!(button(&window, "Undo"), "Undo: hide “Mary”");
    press(&mut window, Command::Room(Room::Laboratory));
    assert_eq!(button(&window, "Undo"), "Undo");
    press(&mut window, Command::Undo);
    assert_eq!((session(&window).room, session(&window).model.hidden.len()), (Room::Laboratory, 1));
    press(&mut window, Command::Room(Room::Stage));
    click(&mut window, "Undo: hide “Mary”");
    assert!(session(&window).model.hidden.is_empty());
    assert_eq!(button(&window, "Redo"), "Redo: hide “Mary”");
}

#[test]
fn the_drawer_opens_beside_the_heads_and_its_tabs_stay() {
    let mut window = open([1280.0, 800.0]);
    assert!(says(&window, "Weight of to → Mary") && says(&window, "q·k = "));
    let tab = |window: &Window| window.get_by_role_and_label(Role::Button, "Arithmetic").rect();
    let before = tab(&window);
    for (name, shown) in [
        ("Lens", "layer 5, after "),
        ("Attribution", "All parts add up"),
        ("Patch", "each place patched"),
    ] {
        window.query_all_by_label(name).next().unwrap().click();
        settle(&mut window);
        assert!(says(&window, shown), "{name}");
        assert_eq!(tab(&window), before, "{name} moves no tab");
        assert_eq!(places(&window, "head 5.3,").len(), 1, "{name}: all heads stay");
    }
    assert!(session(&window).model.second.is_some(), "a name of the sentence is swapped");
    sentence(&mut window, "Tom met Mia. Tom said");
    assert_eq!(session(&window).model.second.as_deref(), Some("Tom met Mia. Mia said"));
    window.query_all_by_label("Lens").next().unwrap().click();
    settle(&mut window);
    assert_eq!(session(&window).model.second, None, "it goes with its view");
}

/// The heatmap has no room for a token that is written shorter than the tokenizer has it.
#[test]
fn the_heatmap_is_as_large_as_its_words_allow() {
    for (size, least) in [([1280.0, 800.0], 210.0), ([390.0, 844.0], 130.0)] {
        let window = open(size);
        let map = window.get_by_label_contains("Heatmap of Head 5.3").rect();
        assert!(map.width() > least && map.height() > least, "{map} in {size:?}");
    }
}

/// The headline keeps its size: a long one has a second line.
#[test]
fn the_headline_of_two_changes_is_as_large_as_without() {
    let mut window = open([1280.0, 800.0]);
    let line = |window: &Window| {
        let of = window.get_all_by_label_contains(" looks from “to” back at ").next().unwrap();
        of.rect().height()
    };
    let one = line(&window);
    hide(&mut window, "Mary at 2");
    sharpness(&mut window, 3.0);
    assert!((line(&window) - 2.0 * one).abs() < 3.0, "{one} {}", line(&window));
}
