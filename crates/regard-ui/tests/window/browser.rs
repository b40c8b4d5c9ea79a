//! The page around the heads: what stays in its place, what is visible at once, and what the keyboard reaches.

use crate::heads::{AttentionSource, Effects, Shown};
use crate::model::{ModelState, Version};
use crate::{Command, Room, Session};
use egui::accesskit::Role;
use egui::{Key, pos2};
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use regard_heads::HeadId;
use regard_tests::attention_files::{Folder, attention, weights};

use super::driver::{
    alter, app, assert_named, choose, click, click_at, click_on, key, open, places, press, room,
    says, session, session_of, settle, shows, type_path,
};
use super::model::{numbers, open_head, reference, state, window};

#[test]
fn all_heads_of_a_model_are_visible_at_once() {
    let folder = Folder::new();
    let file = attention(&[30, 9, 12, 12], &weights(30 * 9 * 12, 12, 3));
    let file = AttentionSource::File(folder.file("a.safetensors", file));
    let start =
        Session { room: Room::Stage, model: ModelState::of_file(file), ..Session::default() };
    let mut window = open(start, [3840.0, 2160.0]);
    let heads = places(&window, "head ");
    assert_eq!(heads.len(), 270);
    let screen = window.ctx.content_rect();
    let is_visible = |rect: &egui::Rect| screen.contains_rect(*rect);
    assert!(heads.iter().all(|rect| is_visible(rect) && rect.width() >= 22.0), "{:?}", heads[0]);
    // In a small window they would be too small: they scroll, and the bar covers none of them.
    window.set_size([900.0, 600.0].into());
    settle(&mut window);
    let heads = places(&window, "head ");
    assert!(heads.iter().all(|rect| rect.width() >= 24.0 && rect.right() <= 900.0 - 18.0));
    assert!(heads.iter().any(|rect| rect.bottom() > 600.0));
}

#[test]
fn the_first_token_is_left_out_of_the_pictures() {
    let mut window = window();
    let heads = app(&window).model().heads(state(&window)).unwrap();
    let id = HeadId { layer: 0, head: 0 };
    let (_, cols) = heads.survey.thumbnail_shape();
    let [with, without] = [false, true].map(|hides| heads.thumbnail(id, hides).into_owned());
    let is_same = |i: usize| i.is_multiple_of(cols) || with[i] == without[i];
    assert!((0..with.len()).all(is_same));
    assert!(without.iter().step_by(cols).all(|x| *x == f32::NEG_INFINITY));
    click(&mut window, "Without first token");
    assert!(!says(&window, "first token "), "the sink is no pattern then");
}

#[test]
fn rollout_opens_at_the_last_layer() {
    let mut window = window();
    click(&mut window, "Rollout");
    let heads = app(&window).model().heads(state(&window)).unwrap();
    assert_eq!(state(&window).heads.layer, heads.maps.shape().layers - 1);
}

#[test]
fn weights_are_multiplied_by_the_norms_of_their_values() {
    let mut window = window();
    open_head(&mut window, 1, 2);
    let plain = numbers(&window);
    click(&mut window, "Value-weighted");
    assert_eq!(state(&window).version, Version::ValueWeighted);
    let (model, input) = reference(regard_story::TEXT);
    let place = "blocks.1.attn.hook_v";
    let trace = model.pass().keep([place]).run(&input).unwrap();
    let values = trace.get(place).unwrap();
    let (heads, size) = (values.shape[1], values.shape[2]);
    let n = input.ids.len();
    for (i, (found, weight)) in numbers(&window).iter().zip(&plain).enumerate() {
        let value = &values.data[((i % n) * heads + 2) * size..][..size];
        let norm = value.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        let expected = f64::from(*weight) * norm;
        // The norm and the product are rounded to `f32` once each.
        let bound = 2.0 * f64::from(f32::EPSILON) * expected;
        assert!((f64::from(*found) - expected).abs() <= bound, "{i}: {found} {expected}");
    }
    assert!(says(&window, "largest weight × ‖v‖"));
}

#[test]
fn a_change_shifts_nothing_and_a_long_text_leaves_the_heatmap_on_the_page() {
    let mut window = window();
    open_head(&mut window, 0, 2);
    let map = |window: &super::driver::Window| {
        window.get_by_role_and_label(Role::Image, "Heatmap of Head 0.2").rect()
    };
    let before = map(&window);
    click(&mut window, "Zero");
    assert_eq!(map(&window).top(), before.top());
    click(&mut window, "As is");
    alter(&mut window, |s| s.model.text = "Mia gave the ball to Tom . ".repeat(13));
    let after = map(&window);
    assert!(after.top() < 600.0 && after.bottom() <= 1000.0, "{after}");
}

#[test]
fn words_are_one_stop_of_the_tab_key() {
    let mut window = window();
    let focused = |window: &super::driver::Window| -> Option<String> {
        let mut nodes = window.query_all_by_role(Role::Button);
        nodes.find(|node| node.accesskit_node().is_focused())?.accesskit_node().label()
    };
    window.get_by_role_and_label(Role::MultilineTextInput, "Text").focus();
    window.run_steps(2);
    let step = |window: &mut super::driver::Window, key| {
        window.key_press(key);
        window.run_steps(4);
        focused(window).unwrap_or_default()
    };
    // In the text, Tab is a letter.
    key(&mut window, Key::Escape);
    let mut stop = String::new();
    for _ in 0..80 {
        stop = step(&mut window, Key::Tab);
        if stop.starts_with("Hide ") {
            break;
        }
    }
    assert!(stop.starts_with("Hide [STORY] at 0"), "{stop}");
    assert!(step(&mut window, Key::ArrowRight).contains(" at 1, "));
    assert!(step(&mut window, Key::ArrowRight).contains(" at 2, "));
    assert!(step(&mut window, Key::ArrowLeft).contains(" at 1, "));
    assert!(!step(&mut window, Key::Tab).starts_with("Hide "));
}

#[test]
fn lines_side_by_side_do_not_overlap() {
    let mut start = session_of(Room::Stage);
    start.model.second = Some(regard_story::TEXT.replace("Mary", "Mia"));
    start.model.version = Version::SideBySide;
    (start.model.heads.shown, start.model.heads.lines) = (Shown::Head, true);
    let window = open(start, [900.0, 1200.0]);
    // The tokens of a column are at the left of those of the next one.
    let [queries, keys] = ["query ", "key "].map(|start| places(&window, start));
    assert_eq!((queries.len() % 3, queries.len()), (0, keys.len()));
    let count = queries.len() / 3;
    for column in 0..3 {
        let of = |rects: &[egui::Rect]| rects[column * count..][..count].to_vec();
        let [queries, keys] = [of(&queries), of(&keys)];
        assert!(queries.iter().zip(&keys).all(|(query, key)| query.right() <= key.left()));
        let next = places(&window, "query ").get((column + 1) * count).copied();
        let end = next.map_or(900.0, |next| next.left());
        assert!(keys.iter().all(|key| key.right() <= end), "{column}: {end} {:?}", keys[0]);
    }
}

#[test]
fn runs_side_by_side_stay_within_the_window_and_have_cells_of_one_size() {
    for lines in [true, false] {
        for (width, height) in [(1280.0, 800.0), (900.0, 600.0), (390.0, 844.0)] {
            let mut start = session_of(Room::Stage);
            start.model.second = Some(regard_story::TEXT.replace("Mary", "Mia"));
            start.model.version = Version::SideBySide;
            (start.model.heads.shown, start.model.heads.lines) = (Shown::Head, lines);
            let window = open(start, [width, height]);
            assert_named(&window);
            if lines {
                continue;
            }
            let maps = window.query_all_by_label_contains("Heatmap of Head").map(|map| map.rect());
            let heights: Vec<f32> = maps.map(|rect| rect.height()).collect();
            // A side of a cell is a whole number of points. The panes have colour bars of different widths.
            let [least, most] =
                [f32::min, f32::max].map(|of| heights.iter().copied().fold(heights[0], of));
            let tokens = 20.0;
            assert!(most - least <= 2.0 * tokens, "{width}: {heights:?}");
        }
    }
}

#[test]
fn controls_above_the_picture_stand_in_three_rows() {
    for (width, height) in [(1280.0, 800.0), (900.0, 600.0)] {
        for shown in [Shown::Grid, Shown::Head] {
            let mut start = session_of(Room::Stage);
            start.model.heads.shown = shown;
            let window = open(start, [width, height]);
            let field = window.get_by_role_and_label(Role::MultilineTextInput, "Text").rect();
            let picture = places(&window, "head ").first().map(|rect| rect.top());
            let map = || window.query_all_by_label_contains("Heatmap of Head").next();
            let end = picture.or_else(|| Some(map()?.rect().top())).unwrap();
            let mut rows: Vec<i32> = [Role::Button, Role::ComboBox, Role::CheckBox]
                .into_iter()
                .flat_map(|role| window.query_all_by_role(role))
                .filter(|node| {
                    !node.accesskit_node().label().is_some_and(|l| l.starts_with("Hide "))
                })
                .map(|node| node.rect())
                .filter(|rect| field.x_range().contains(rect.center().x))
                .filter(|rect| (field.bottom()..end - 12.0).contains(&rect.center().y))
                .map(|rect| (rect.center().y / 8.0).round() as i32)
                .collect();
            rows.sort_unstable();
            rows.dedup_by(|a, b| *a - *b <= 1);
            assert!((2..=3).contains(&rows.len()), "{width} {shown:?}: {rows:?}");
        }
    }
}

#[test]
fn the_side_panel_of_a_narrow_window_is_a_drawer() {
    let mut window = open(session_of(Room::Laboratory), [400.0, 800.0]);
    click_on(&mut window, Role::Button, "Side panel");
    assert!(shows(&window, "Explain: Softmax"));
    click_at(&mut window, pos2(390.0, 700.0));
    settle(&mut window);
    assert!(!shows(&window, "Explain: Softmax") && session(&window).appearance.side.is_none());
    for is_shown in [true, false] {
        press(&mut window, Command::SidePanel);
        assert_eq!(shows(&window, "Explain: Softmax"), is_shown);
    }
}

#[test]
fn a_mistyped_path_keeps_the_dialog_and_its_text() {
    let folder = Folder::new();
    let path = folder.path("no-such-file.safetensors");
    for command in [Command::OpenAttention, Command::OpenModel, Command::OpenSession] {
        let mut window = room(Room::Stage);
        press(&mut window, command);
        type_path(&mut window, &path);
        click_on(&mut window, Role::Button, "Open");
        let field = window.get_by_label("Path of the file");
        assert_eq!(field.accesskit_node().value().as_deref(), path.to_str(), "{command:?}");
        assert!(says(&window, &format!("There is no {}.", path.display())), "{command:?}");
        click(&mut window, "Cancel");
        assert!(!shows(&window, "Path of the file"));
    }
}

#[test]
fn a_message_stays_in_its_room() {
    let mut window = room(Room::Walkthrough);
    choose(&mut window, Command::ExportSweep);
    assert!(says(&window, "the effects are not known"));
    press(&mut window, Command::Room(Room::Laboratory));
    assert!(!says(&window, "the effects are not known"));
    press(&mut window, Command::Room(Room::Walkthrough));
    assert!(says(&window, "the effects are not known"));
}

#[test]
fn heads_are_sorted_by_effects_once_all_of_them_are_known() {
    let window = window();
    let heads = app(&window).model().heads(state(&window)).unwrap();
    let order = Some(crate::heads::Order::Effect(crate::heads::Effect::Ablation));
    let count = heads.maps.shape().ids().len();
    let ids = |known: usize| {
        let ablation = (0..known).map(|i| if i == 5 { -9.0 } else { i as f32 / 100.0 });
        let effects = Effects { ablation: ablation.collect(), ..Effects::default() };
        heads.ordered(order, false, &effects)[0]
    };
    assert_eq!(ids(count - 1), HeadId { layer: 0, head: 0 });
    assert_eq!(heads.maps.shape().index(ids(count)), Some(5));
}
