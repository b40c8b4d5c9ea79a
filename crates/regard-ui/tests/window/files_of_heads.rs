//! Files of attention in the model room, driven through the window by the names of its controls.

use core::time::Duration;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::heads::{AttentionSource, Effects, OpenedHeads, Order, Shown, Side};
use crate::model::ModelState;
use crate::{App, Command, Room, Session, Start};
use egui::TextStyle;
use egui::accesskit::Role;
use egui::epaint::text::{FallbackRequest, FontInsert};
use egui_kittest::Harness;
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use regard_heads::{HeadId, Measure};
use safetensors::Dtype;

use super::TestHost;
use super::driver::{
    Window, app, assert_named, cells, choices, click, drop_file, open, pass_a_second, places,
    press, says, session, session_of, set_value, settle, start, type_path, with_file,
};
use super::model::{numbers, open_head, state};
use regard_tests::attention_files::{Folder, attention, bytes, npy, safetensors, weights};
use regard_tests::rounding::gamma;

#[test]
fn a_file_of_another_kind_is_refused_where_the_user_is() {
    let folder = Folder::new();
    let path = folder.file("notes.txt", "hello");
    let window = start(Harness::builder().with_size([1280.0, 800.0]), move |ctx| {
        App::start(ctx, Arc::new(TestHost::DEFAULT), Start::File(path.clone()))
    });
    assert_eq!(session(&window).room, Room::Stage);
    assert!(says(&window, "notes.txt is not opened: Regard opens models"));
}

#[test]
fn an_error_stays_until_the_next_file() {
    let folder = Folder::new();
    let (text, good) = (folder.file("notes.txt", "hello"), dump(1, 2, 4).0);
    let broken = folder.file("broken.safetensors", &good[..40]);
    let good = folder.file("few.safetensors", good);
    let mut window = window();
    for (path, error) in [(text, "notes.txt is not opened"), (broken, "broken.safetensors")] {
        drop_file(&mut window, &path);
        assert!(says(&window, error), "{error}");
        drop_file(&mut window, &good);
        assert!(!says(&window, error), "{error} stays");
    }
}

#[test]
fn a_grey_number_of_a_head_says_why() {
    let mut window = window();
    open_head(&mut window, 0, 3);
    let measures = opened(&window).heads.0.survey.measures(state(&window).heads.id());
    let grey = |measure: &&Measure| {
        measures.get(**measure).is_some() && !measures.is_significant(**measure)
    };
    let grey = *Measure::ALL.iter().find(grey).unwrap();
    let number = grey.short(measures.get(grey).unwrap());
    let why = "The number is grey because it says nothing sure of the head";
    let places: Vec<_> = window.query_all_by_label(&number).map(|node| node.rect()).collect();
    let says_why = places.into_iter().any(|place| {
        window.hover_at(place.center());
        pass_a_second(&mut window);
        says(&window, why)
    });
    assert!(says_why, "{}: {number}", grey.name());
}

fn sample() -> Session {
    Session {
        room: Room::Stage,
        model: ModelState::of_file(AttentionSource::Sample),
        ..Session::default()
    }
}

/// The room with the sample.
fn window() -> Window {
    open(sample(), [1280.0, 900.0])
}

fn source(window: &Window) -> Option<&AttentionSource> {
    session(window).model.file.as_ref()
}

fn opened(window: &Window) -> &OpenedHeads {
    app(window).model().file().unwrap()
}

fn open_file(window: &mut Window, path: &Path) {
    with_file(window, Command::OpenAttention, path, "Open");
}

/// A file of this many layers and heads over repeating tokens.
fn dump(layers: usize, heads: usize, n: usize) -> (Vec<u8>, Vec<f32>) {
    let values = weights(layers * heads * n, n, 7);
    let tokens: Vec<String> = (0..n).map(|i| format!("Ġt{}", i % 10)).collect();
    let tokens = serde_json::to_string(&tokens).unwrap();
    let tensor = ("attentions", Dtype::F32, &[layers, heads, n, n][..], bytes(&values));
    (safetensors(&[tensor], &[("tokens", &tokens)]), values)
}

#[test]
fn a_file_opens_without_the_model_that_the_session_names() {
    let folder = Folder::new();
    let path = folder.file("few.safetensors", dump(1, 2, 4).0);
    let window = start(Harness::builder().with_size([1280.0, 1000.0]), move |ctx| {
        let session =
            Session { model: ModelState::of("/a model that is gone"), ..Session::default() };
        let mut app = App::with_session(ctx, Arc::new(TestHost::DEFAULT), session);
        app.open_file(ctx, &path);
        app
    });
    assert!(matches!(source(&window), Some(AttentionSource::File(_))));
    assert_eq!(app(&window).model().error(), None);
    assert!(!says(&window, "was not opened"));
}

#[test]
fn a_first_visitor_sees_the_sample_and_its_heads_match_their_descriptions() {
    let window = window();
    assert_eq!(opened(&window).source, AttentionSource::Sample);
    let cells = cells(&window);
    assert_eq!(cells.len(), 12);
    assert!(
        cells[0].starts_with("head 0.0, entropy ")
            && cells[0].ends_with(" nats (22 queries), previous token 97 %"),
        "{}",
        cells[0]
    );
    let effects = Effects::default();
    let top = |measure| opened(&window).ordered(Some(Order::Measure(measure)), false, &effects)[0];
    for (measure, layer, head) in [
        (Measure::PreviousToken, 0, 0),
        (Measure::SameToken, 0, 1),
        (Measure::Entropy, 0, 3),
        (Measure::DuplicateToken, 1, 0),
        (Measure::Induction, 1, 1),
        (Measure::FirstToken, 1, 2),
    ] {
        assert_eq!(top(measure), HeadId { layer, head }, "{}", measure.name());
    }
    assert!(opened(&window).survey.is_causal() && opened(&window).survey.warnings().is_empty());
}

#[test]
fn heads_are_sorted_by_each_measure() {
    let mut window = window();
    for &measure in Measure::ALL {
        click(&mut window, measure.name());
        let order = Some(Order::Measure(measure));
        let order = opened(&window).ordered(order, false, &Effects::default());
        let expected: Vec<String> = order.iter().map(|id| format!("head {id}, ")).collect();
        let found = cells(&window);
        assert!(
            found.iter().zip(&expected).all(|(found, expected)| found.starts_with(expected)),
            "{found:?}"
        );
        click(&mut window, "Smallest first");
        let last = &expected[expected.len() - 1];
        assert!(cells(&window)[0].starts_with(last), "{}", measure.name());
        click(&mut window, "Smallest first");
    }
    click(&mut window, "Layer and head");
    assert!(cells(&window)[0].starts_with("head 0.0"));
}

#[test]
fn a_head_is_shown_large_and_the_next_ones_follow() {
    let folder = Folder::new();
    let (file, values) = dump(2, 3, 12);
    let mut window = window();
    open_file(&mut window, &folder.file("a.safetensors", file));
    let cell = cells(&window)[4].clone();
    click(&mut window, &cell);
    assert!(says(&window, "Heatmap of Head 1.1"));
    assert_eq!(numbers(&window), values[4 * 144..5 * 144]);
    click(&mut window, "Next head");
    assert_eq!(numbers(&window), values[5 * 144..]);
    assert!(window.get_by_label("Next head").accesskit_node().is_disabled());
    click(&mut window, "Previous head");
    for (name, value) in [("Which layer", 0.0), ("Which head", 2.0)] {
        window.get_by_label(name).set_value_accesskit(value);
        settle(&mut window);
    }
    assert_eq!(numbers(&window), values[2 * 144..3 * 144]);
    press(&mut window, Command::Undo);
    assert_eq!(session(&window).model.heads.id(), HeadId { layer: 0, head: 1 });
    click(&mut window, "All heads");
    assert_eq!(cells(&window).len(), 6);
}

#[test]
fn means_and_rollout_are_those_of_plain_loops() {
    let folder = Folder::new();
    let (file, values) = dump(2, 3, 9);
    let mut window = window();
    open_file(&mut window, &folder.file("a.safetensors", file));
    let mean = |heads: &[usize]| -> Vec<f64> {
        let sum = |k: usize| heads.iter().map(|h| f64::from(values[h * 81 + k])).sum::<f64>();
        (0..81).map(|k| sum(k) / heads.len() as f64).collect()
    };
    // The largest case is the rollout of two layers: two means of 3 heads, their normalisation, and 9 products that are
    // added. Nothing is negative.
    let relative = gamma(2 * (3 + 4) + 9);
    let near = |window: &Window, expected: &[f64]| {
        let found = numbers(window);
        let close = |(a, b): (&f32, &f64)| (f64::from(*a) - b).abs() <= relative * b;
        assert!(found.iter().zip(expected).all(close));
    };
    let cell = cells(&window)[4].clone();
    click(&mut window, &cell);
    click(&mut window, "Layer mean");
    near(&window, &mean(&[3, 4, 5]));
    click(&mut window, "Rollout");
    let residual = |a: Vec<f64>| -> Vec<f64> {
        let mixed: Vec<f64> =
            a.iter().enumerate().map(|(k, a)| a + f64::from(u8::from(k / 9 == k % 9))).collect();
        mixed.chunks(9).flat_map(|row| row.iter().map(|a| a / row.iter().sum::<f64>())).collect()
    };
    let (first, second) = (residual(mean(&[0, 1, 2])), residual(mean(&[3, 4, 5])));
    let product =
        |k: usize| (0..9).map(|j| second[k / 9 * 9 + j] * first[j * 9 + k % 9]).sum::<f64>();
    near(&window, &(0..81).map(product).collect::<Vec<f64>>());
}

#[test]
fn lines_are_isolated_by_a_token_and_a_long_text_is_seen_in_parts() {
    let folder = Folder::new();
    let mut window = window();
    open_file(&mut window, &folder.file("a.safetensors", dump(1, 2, 200).0));
    click(&mut window, "Head");
    click(&mut window, "Lines");
    assert!(
        says(&window, "query 0: ␣t0")
            && says(&window, "key 0: ␣t0")
            && !says(&window, "query 150: ")
    );
    click(&mut window, "query 3: ␣t3");
    assert_eq!(session(&window).model.heads.isolated, Some((Side::Queries, 3)));
    assert!(says(&window, "of its weight is on keys that are not in view"));
    click(&mut window, "query 3: ␣t3");
    assert_eq!(session(&window).model.heads.isolated, None);
    set_value(&mut window, Role::Slider, "Around token", 150.0);
    assert!(says(&window, "query 150: ␣t0") && !says(&window, "query 3: "));
    click(&mut window, "key 151: ␣t1");
    assert_eq!(session(&window).model.heads.isolated, Some((Side::Keys, 151)));
    click(&mut window, "Heatmap");
    let map = window.get_by_label("Heatmap of Head 0.0").rect();
    super::driver::click_at(&mut window, map.lerp_inside(egui::vec2(0.1, 0.75)));
    let heads = &session(&window).model.heads;
    let chosen = heads.chosen.unwrap();
    assert_eq!(heads.isolated, Some((Side::Queries, chosen.0)), "lines show this token's");
}

#[test]
fn another_attention_of_a_file_is_chosen_from_its_list() {
    let tensor = |name, x: f32| (name, Dtype::F32, &[1, 2, 1, 3, 3][..], bytes(&[x; 18]));
    let file = safetensors(&[tensor("attentions", 0.25), tensor("cross_attentions", 0.5)], &[]);
    let folder = Folder::new();
    let path = folder.file("batch.safetensors", file);
    let mut window = window();
    open_file(&mut window, &path);
    assert_eq!(opened(&window).maps.name(), "attentions[0]");
    super::driver::open_menu(&mut window);
    for name in ["attentions[1]", "cross_attentions"] {
        assert!(window.query_all_by_label(name).next().is_some(), "{name} is in the list");
    }
    window.get_by_label("attentions[1]").click();
    settle(&mut window);
    let chosen = AttentionSource::Tensor(path, "attentions[1]".to_owned());
    assert_eq!(opened(&window).source, chosen);
    assert_eq!(source(&window), Some(&chosen), "a session opens the same");
    assert_eq!(opened(&window).maps.name(), "attentions[1]");
}

/// Four queries of 1500 keys: the rows of the grid and of the large matrix can be read.
#[test]
fn attention_that_is_not_square_is_no_hairline() {
    let folder = Folder::new();
    let path = folder.file("cross.safetensors", attention(&[2, 4, 1500], &weights(8, 1500, 3)));
    let mut window = window();
    open_file(&mut window, &path);
    assert_eq!(opened(&window).survey.thumbnail_shape(), (4, 94));
    open_head(&mut window, 0, 1);
    let cells = window.get_by_label("Heatmap of Head 0.1").rect();
    assert!(cells.width() > 400.0 && cells.height() >= 80.0, "{cells:?}");
    // The pointer finds each row.
    let at = |row: f32| cells.lerp_inside(egui::vec2(0.5, (row + 0.5) / 4.0));
    super::driver::click_at(&mut window, at(2.0));
    assert_eq!(session(&window).model.heads.chosen.unwrap().0, 2);
}

/// Scores with the mask of a program without −∞: what is masked is spoken so, and its number is kept.
#[test]
fn a_finite_mask_is_a_mask() {
    let numbers: Vec<f32> =
        (0..64).map(|i| if i % 8 > i / 8 { f32::MIN } else { i as f32 / 32.0 - 1.0 }).collect();
    let folder = Folder::new();
    let path = folder.file("scores.safetensors", attention(&[1, 8, 8], &numbers));
    let mut window = window();
    open_file(&mut window, &path);
    open_head(&mut window, 0, 0);
    let map = window.get_by_label("Heatmap of Head 0.0").rect();
    super::driver::click_at(&mut window, map.lerp_inside(egui::vec2(0.95, 0.05)));
    assert!(says(&window, "(masked)"), "the cell at the upper right");
}

#[test]
fn a_file_is_opened_by_dropping_it() {
    #[derive(Debug)]
    struct Dropped(std::path::PathBuf);
    impl egui::DroppedFile for Dropped {
        fn path(&self) -> &Path {
            &self.0
        }
        fn bytes(&self) -> Result<Vec<u8>, String> {
            Err("the path is enough".to_owned())
        }
    }
    let folder = Folder::new();
    let path = folder.file("dropped.npy", npy("<f4", "(2, 3, 3)", &bytes(&weights(6, 3, 1))));
    let mut window = open(Session::default(), [1280.0, 800.0]);
    window.input_mut().dropped_files.push(Arc::new(Dropped(path.clone())));
    settle(&mut window);
    assert_eq!(session(&window).room, Room::Stage);
    assert_eq!(opened(&window).source, AttentionSource::File(path));
    assert_eq!(cells(&window).len(), 2);
    super::driver::open_menu(&mut window);
    click(&mut window, "Open the sample");
    assert_eq!(opened(&window).source, AttentionSource::Sample);
}

#[test]
fn a_session_with_a_file_is_continued() {
    let folder = Folder::new();
    let (path, mine) =
        (folder.file("a.safetensors", dump(2, 3, 8).0), folder.path("mine.regard.json"));
    let mut first = window();
    open_file(&mut first, &path);
    let cell = cells(&first)[5].clone();
    click(&mut first, &cell);
    with_file(&mut first, Command::SaveSession, &mine, "Save");
    let second = open(Session::read(&TestHost::DEFAULT, &mine).unwrap(), [900.0, 600.0]);
    assert_eq!(session(&second).model, session(&first).model);
    assert_eq!(numbers(&second), numbers(&first));

    // The file has disappeared: a message appears, and the request is kept.
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut third = open(Session::read(&TestHost::DEFAULT, &mine).unwrap(), [900.0, 600.0]);
    assert!(app(&third).model().error().unwrap().contains("a.safetensors"));
    assert_eq!(session(&third).model, session(&first).model);
    click(&mut third, "Try again");
    assert!(app(&third).model().error().is_some());
    std::fs::write(&path, bytes).unwrap();
    click(&mut third, "Try again");
    assert!(app(&third).model().error().is_none());
    assert_eq!(numbers(&third), numbers(&first));
    // The user may also open something else.
    std::fs::remove_file(&path).unwrap();
    let mut fourth = open(Session::read(&TestHost::DEFAULT, &mine).unwrap(), [900.0, 600.0]);
    super::driver::open_menu(&mut fourth);
    click(&mut fourth, "Open the sample");
    assert_eq!(opened(&fourth).source, AttentionSource::Sample);
}

#[test]
fn an_exported_matrix_is_read_back() {
    let folder = Folder::new();
    let mut window = window();
    with_file(&mut window, Command::ExportMatrix, &folder.path("grid.csv"), "Export");
    assert!(says(&window, "choose a head from the grid first"), "the grid is no matrix");
    let cell = cells(&window)[5].clone();
    click(&mut window, &cell);
    for name in ["a.png", "a.svg", "a.html", "a.csv", "a.npy", "a.safetensors"] {
        let path = folder.path(name);
        with_file(&mut window, Command::ExportMatrix, &path, "Export");
        assert!(says(&window, &format!("Saved {}", path.display())));
        assert!(path.exists());
    }
    let bad = folder.path("a.bmp");
    with_file(&mut window, Command::ExportMatrix, &bad, "Export");
    assert!(says(&window, "a.bmp does not end in") && !bad.exists());
    let written = numbers(&window);
    open_file(&mut window, &folder.path("a.safetensors"));
    click(&mut window, "Head");
    assert_eq!(numbers(&window), written);
    press(&mut window, Command::CopyMatrix);
    assert!(says(&window, "Copied 22 × 22 numbers"));
}

#[test]
fn masked_weights_of_the_laboratory_are_written_as_0() {
    let folder = Folder::new();
    let path = folder.path("weights.npy");
    let mut window = open(session_of(Room::Laboratory), [1280.0, 900.0]);
    with_file(&mut window, Command::ExportMatrix, &path, "Export");
    let shown = Arc::clone(&app(&window).laboratory.outcome().unwrap().numbers);
    let file = std::fs::read(&path).unwrap();
    let written: Vec<f32> = file[file.len() - 4 * shown.len()..]
        .as_chunks()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect();
    assert!(shown.contains(&f32::NEG_INFINITY));
    assert!(
        written
            .iter()
            .zip(&*shown)
            .all(|(a, b)| a == if *b == f32::NEG_INFINITY { &0.0 } else { b })
    );
}

/// Bad files give messages, and the session keeps its previous contents.
mod bad_files {
    use super::*;

    fn refused(folder: &Folder, name: &str, file: impl AsRef<[u8]>, words: &[&str]) {
        let mut window = window();
        let cell = cells(&window)[5].clone();
        click(&mut window, &cell);
        let before = session(&window).model.clone();
        open_file(&mut window, &folder.file(name, file));
        for word in words.iter().chain(&[name]) {
            assert!(says(&window, word), "{word}: {:?}", app(&window).model().error());
        }
        assert_eq!(session(&window).model, before);
        click(&mut window, "Dismiss");
        assert!(app(&window).model().error().is_none() && !says(&window, "was not opened"));
        click(&mut window, "Next head");
        assert_eq!(app(&window).model().large().selected().unwrap().title, "Head 1.2");
    }

    /// The session's own file is also opened, and its success must not remove the message.
    #[test]
    fn at_the_start_are_told_beside_the_file_of_the_session() {
        let folder = Folder::new();
        folder.file("tokens.tokens.txt", "one\ntwo");
        let (good, _) = dump(1, 1, 3);
        for (name, bytes, word) in [
            ("truncated.safetensors", &good[..good.len() - 8], "too early"),
            ("empty.npy", &[][..], "ends before its header does"),
            ("tokens.safetensors", &good[..], "2 tokens"),
        ] {
            let path = folder.file(name, bytes);
            let window = start(Harness::builder().with_size([1280.0, 1000.0]), move |ctx| {
                App::start(ctx, Arc::new(TestHost::DEFAULT), Start::File(path.clone()))
            });
            assert_eq!(session(&window).room, Room::Stage);
            let error = app(&window).model().error().unwrap_or_default();
            assert!(error.contains(name) && error.contains(word), "{name}: {error:?}");
            assert!(says(&window, "was not opened"), "{name}");
            assert_eq!(source(&window), None, "the model stays");
        }
    }

    #[test]
    fn are_named_with_the_tensor_or_the_tokens_that_are_wrong() {
        let folder = Folder::new();
        folder.file("bytes.tokens.txt", b"the\n\xff\xfe\ncat");
        let rank = attention(&[8], &[0.125; 8]);
        let (good, _) = dump(1, 1, 3);
        refused(&folder, "rank.safetensors", rank, &["[8]", "[layers, heads, n, n]"]);
        refused(&folder, "bytes.safetensors", good, &["bytes.tokens.txt", "not UTF-8"]);
    }

    #[test]
    fn with_nan_are_shown_with_a_warning() {
        let folder = Folder::new();
        let (_, mut values) = dump(1, 2, 6);
        values[3] = f32::NAN;
        let mut window = window();
        open_file(&mut window, &folder.file("nan.safetensors", attention(&[1, 2, 6, 6], &values)));
        assert!(says(&window, "1 row in 1 head contains NaN"));
        click(&mut window, "Head");
        assert!(numbers(&window)[3].is_nan());
        click(&mut window, "Lines");
        click(&mut window, "query 0: 0");
    }

    #[test]
    fn with_one_token_are_shown_with_a_warning() {
        let folder = Folder::new();
        let mut window = window();
        open_file(
            &mut window,
            &folder.file("one.safetensors", attention(&[2, 2, 1, 1], &[1.0; 4])),
        );
        assert!(says(&window, "only one key"));
        for way in ["Head", "Lines", "Rollout", "Heatmap", "Layer mean"] {
            click(&mut window, way);
        }
        assert_eq!(numbers(&window), [1.0]);
    }
}

/// Reading a pipe without a writer never ends.
#[cfg(unix)]
#[test]
fn reading_can_be_cancelled() {
    let folder = Folder::new();
    let pipe = folder.path("pipe.safetensors");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut window = window();
    press(&mut window, Command::OpenAttention);
    type_path(&mut window, &pipe);
    window.get_by_role_and_label(Role::Button, "Open").click();
    window.run_steps(3);
    std::thread::sleep(Duration::from_millis(150));
    window.run_steps(3);
    assert!(window.query_by_role_and_label(Role::ProgressIndicator, "Opening").is_some());
    assert_eq!(cells(&window).len(), 12, "the room goes on");
    click(&mut window, "Cancel");
    assert!(!app(&window).is_busy());
    assert_eq!(source(&window), Some(&AttentionSource::Sample));
    // The thread that waits for the pipe is released.
    drop(std::fs::OpenOptions::new().write(true).open(&pipe));
}

/// egui asks the system for a font by a character that its own fonts lack.
#[test]
fn missing_characters_request_a_font_and_the_signs_of_tokens_have_one() {
    let folder = Folder::new();
    folder.file("a.tokens.json", r#"["猫", "قطة", " ", "\n", "\t"]"#);
    let path = folder.file("a.npy", npy("<f4", "(5, 5)", &bytes(&weights(5, 5, 1))));
    let asked = Arc::new(Mutex::new(String::new()));
    let mut window = window();
    // A missing glyph is a box; in other tests it is a panic.
    window.ctx.set_missing_glyph_policy(egui::MissingGlyphPolicy::Tofu);
    let heard = Arc::clone(&asked);
    window.ctx.add_font_provider(Arc::new(
        move |request: &FallbackRequest<'_>| -> Option<FontInsert> {
            heard.lock().unwrap().push_str(request.cluster);
            None
        },
    ));
    open_file(&mut window, &path);
    click(&mut window, "Head");
    click(&mut window, "Lines");
    assert!(says(&window, "query 0: 猫") && says(&window, "query 3: ⏎"));
    let asked = asked.lock().unwrap().clone();
    assert!(asked.contains('猫') && asked.contains('ق'), "{asked}");
    for style in [TextStyle::Body, TextStyle::Small, TextStyle::Monospace, TextStyle::Button] {
        let font = style.resolve(&window.ctx.global_style());
        for sign in ['␣', '⏎', '⇥', '·', '…', '−', '∞', '←', '→'] {
            assert!(
                window.ctx.fonts_mut(|fonts| fonts.has_glyph(&font, sign)),
                "{sign} in {style:?}"
            );
        }
    }
}

#[test]
fn everything_has_a_name_and_fits_in_every_view() {
    let folder = Folder::new();
    let path = folder.file("a.safetensors", dump(12, 12, 20).0);
    let mut window = open(crate::attention(&path), [1280.0, 800.0]);
    assert_eq!(opened(&window).source, AttentionSource::File(path));
    for size in [[900.0, 600.0], [1280.0, 800.0], [640.0, 480.0]] {
        window.set_size(size.into());
        settle(&mut window);
        for view in ["All heads", "Head", "Lines", "Layer mean", "Rollout", "Heatmap"] {
            click(&mut window, view);
            assert_named(&window);
        }
        assert_eq!(session(&window).model.heads.shown, Shown::Rollout);
    }
}

/// At 1920 × 1080 and at 4K, the pictures of the heads fill a fifth of the window, and all of them are visible. Lines
/// between tokens fill the height.
#[test]
fn heads_grow_with_the_window() {
    for [width, height] in [[1920.0, 1080.0], [3840.0, 2160.0]] {
        let mut window = open(sample(), [width, height]);
        let [width, height]: [f32; 2] = window.ctx.content_rect().size().into();
        let heads = places(&window, "head ");
        assert_eq!(heads.len(), 12);
        assert!(heads.iter().all(|rect| rect.bottom() <= height && rect.right() <= width));
        let area: f32 = heads.iter().map(egui::Rect::area).sum();
        assert!(area > 0.2 * width * height, "{width}: {}", area / (width * height));
        let state = &mut choices(&mut window).model.heads;
        (state.shown, state.lines) = (Shown::Head, true);
        settle(&mut window);
        let queries = places(&window, "query ");
        let [top, bottom] = [queries.first().unwrap().top(), queries.last().unwrap().bottom()];
        assert!(bottom <= height && bottom - top > 0.4 * height, "{top} {bottom}");
    }
}
