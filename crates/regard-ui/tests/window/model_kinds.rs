//! The model room with a model of an encoder and a decoder (t5), and with one of images (vit).

use std::path::{Path, PathBuf};

use crate::heads::{AttentionSource, Side};
use crate::model::{ModelState, View};
use crate::{Command, Room, Session};
use egui::accesskit::Role;
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use regard_bundled::DIGITS;
use regard_models::{
    Ablation, AttentionPlace, Change, Checkpoint, ImageProcessor, Input, Model, Trace, Which,
};
use safetensors::{Dtype, SafeTensors};

use super::driver::{
    Window, alter, app, button, buttons, cells, click, drag, drop_file, open, places, press, saved,
    says, session_of, settle, with_file,
};
use super::model::{self, MODELS, numbers, open_head, run, state, type_into, type_text};

/// The texts of the golden data of tiny-t5.
const TEXT: &str = "the quick brown fox jumps over it";
const DECODER: &str = "tokens look at other tokens";

fn opened(model: &str, change: impl FnOnce(&mut ModelState)) -> Window {
    let mut session = session_of(Room::Stage);
    session.model = ModelState::of(format!("{MODELS}/{model}"));
    TEXT.clone_into(&mut session.model.text);
    change(&mut session.model);
    open(session, [1400.0, 1000.0])
}

fn t5() -> Window {
    opened("tiny-t5", |state| DECODER.clone_into(&mut state.decoder))
}

/// A tensor of a model's golden data, as transformers computes it.
fn tensor(model: &str, name: &str) -> (Vec<usize>, Vec<f32>) {
    let bytes = std::fs::read(format!("{MODELS}/{model}/expected.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let tensor = tensors.tensor(name).unwrap();
    let bytes: &[u8] = tensor.data();
    let numbers = match tensor.dtype() {
        Dtype::I64 => {
            let integers = bytes.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()));
            integers.map(|x| x as f32).collect()
        }
        _ => bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect(),
    };
    (tensor.shape().to_vec(), numbers)
}

/// A head's weights as transformers computes them.
fn golden(model: &str, name: &str, layer: usize, head: usize) -> Vec<f32> {
    let (shape, numbers) = tensor(model, name);
    let [_, heads, queries, keys] = shape[..] else { panic!("{shape:?}") };
    let len = queries * keys;
    numbers[(layer * heads + head) * len..][..len].to_vec()
}

/// Checks numbers against those of transformers, which are below 1. The bounds are those of the models' golden tests.
fn assert_near(found: &[f32], expected: &[f32], bound: f32, what: &str) {
    assert_eq!(found.len(), expected.len());
    let far = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(far < bound, "{what}: {far}");
}

fn predicted(model: &Model, trace: &Trace) -> Vec<f32> {
    let probabilities = model.description().probabilities(trace.logits().unwrap().last());
    probabilities.unwrap().into_iter().map(|p| p as f32).collect()
}

/// A model without logits gives a vector of the whole text.
#[test]
fn a_vector_of_the_whole_input_is_shown_where_next_tokens_would_be() {
    let window = opened("tiny-clip_text_model", |_| ());
    assert!(says(&window, "Vector of the whole input"));
    let model = Model::open(format!("{MODELS}/tiny-clip_text_model")).unwrap();
    let trace = model.pass().run(&Input::tokens(run(&window).ids())).unwrap();
    let vector = trace.pooled().unwrap();
    assert_eq!(run(&window).pooled(), vector.data);
    let numbers = format!("{} numbers, of length", vector.data.len());
    assert!(says(&window, &numbers), "{numbers}");
}

/// A window of ModernBERT ends on both sides. A cut beyond it would fail the whole run.
#[test]
fn a_mask_is_painted_within_a_window_on_both_sides() {
    let mut window = opened("tiny-modernbert", |_| ());
    open_head(&mut window, 1, 0);
    click(&mut window, "Hide");
    let model = Model::open(format!("{MODELS}/tiny-modernbert")).unwrap();
    let n = run(&window).tokens().len();
    let map = window.get_by_label("Heatmap of Head 1.0").rect();
    let (query, head) = (1, "1.0".parse().unwrap());
    let center = |i: usize| (i as f32 + 0.5) / n as f32;
    let row: Vec<_> = (0..n)
        .map(|key| map.min + egui::vec2(center(key) * map.width(), center(query) * map.height()))
        .collect();
    drag(&mut window, &row);
    let reach = model.description().stack.windows[1].unwrap();
    assert!(query + reach < n, "the row has keys beyond the window: {reach} of {n}");
    let cuts: Vec<Change> =
        (0..query + reach).map(|key| Change::Cut { head, query, key }).collect();
    assert_eq!(state(&window).active(), cuts);
    assert_eq!(numbers(&window)[query * n..][..n], vec![0.0; n], "the changed model runs");
}

#[test]
fn each_attention_of_an_encoder_and_a_decoder_is_shown() {
    let mut window = t5();
    assert!(says(&window, "t5, 2 + 3 layers of 5 heads"));
    for (name, which, tensor, layers) in [
        ("Encoder", Which::Encoder, "encoder_attentions", 2),
        ("Decoder", Which::Decoder, "decoder_attentions", 3),
        ("Cross", Which::Cross, "cross_attentions", 3),
    ] {
        if state(&window).attention != which {
            click(&mut window, name);
        }
        click(&mut window, "All heads");
        assert_eq!(cells(&window).len(), layers * 5, "{name}");
        open_head(&mut window, 1, 2);
        assert_near(&numbers(&window), &golden("tiny-t5", tensor, 1, 2), 1e-5, name);
        // Rows and columns have the tokens of their texts.
        let [queries, keys] = run(&window).heads(which).labels();
        let of = |start: &str| if start == "<pad>" { 11 } else { 24 };
        assert_eq!(queries[0] == "<pad>", which != Which::Encoder);
        assert_eq!(keys[0] == "<pad>", which == Which::Decoder);
        assert_eq!([queries.len(), keys.len()], [of(&queries[0]), of(&keys[0])]);
    }
}

#[test]
fn the_lens_and_the_parts_of_a_logit_are_those_of_the_decoder() {
    let mut window = t5();
    alter(&mut window, |s| s.model.view = View::Lens);
    let rows = &app(&window).model().lens.value().unwrap().rows;
    assert_eq!((rows.len(), rows[0].len()), (1 + 3, 11)); // the streams of 3 layers, the tokens of the decoder
    assert!(says(&window, "layer 2, after "));
    alter(&mut window, |s| s.model.view = View::Attribution);
    let parts = &app(&window).model().attributed.value().unwrap().attribution;
    assert_eq!((parts.position, parts.layers.len()), (10, 3));
}

#[test]
fn a_score_of_each_attention_is_unfolded() {
    let mut window = t5();
    for (name, has_bias) in [("Encoder", true), ("Decoder", true), ("Cross", false)] {
        if !matches!((name, state(&window).attention), ("Encoder", Which::Encoder)) {
            click(&mut window, name);
        }
        click(&mut window, "All heads");
        open_head(&mut window, 1, 3);
        alter(&mut window, |s| s.model.heads.chosen = Some((3, 2)));
        let score = app(&window).model().unfolded.value().unwrap();
        let keys = run(&window).heads(state(&window).attention).maps.shape().keys;
        assert_eq!(score.weight.value, numbers(&window)[3 * keys + 2], "{name}");
        assert!(score.weight.error.abs() < 1e-6);
        assert_eq!(score.bias.is_some(), has_bias, "{name}");
        assert_eq!(says(&window, "(relative position bias)"), has_bias, "{name}");
    }
}

#[test]
fn heads_of_each_attention_are_changed() {
    let mut window = t5();
    click(&mut window, "Cross");
    open_head(&mut window, 0, 1);
    assert!(says(&window, "Change head cross.0.1"));
    click(&mut window, "Zero");
    let change = Change::Ablate { head: "cross.0.1".parse().unwrap(), to: Ablation::Zero };
    assert_eq!(state(&window).active(), core::slice::from_ref(&change));
    assert!(cells(&window).iter().any(|cell| cell.ends_with(", changed")));
    let model = Model::open(format!("{MODELS}/tiny-t5")).unwrap();
    let tokenizer = model.tokenizer().unwrap();
    let start = model.description().decoder_start.clone();
    let ids = [start, tokenizer.encode_as_is(DECODER).unwrap()].concat();
    let input = tokenizer.encode(TEXT, None).unwrap().decoder(ids);
    let trace = model.pass().change(change).run(&input).unwrap();
    assert_eq!(run(&window).next_changed().unwrap(), predicted(&model, &trace));

    // A head of the encoder with the same numbers is another head.
    click(&mut window, "Encoder");
    assert!(!cells(&window).iter().any(|cell| cell.ends_with(", changed")));
    // Every head of all three attentions is ablated in turn.
    click(&mut window, "Ablation effect");
    for (which, layers) in [(Which::Encoder, 2), (Which::Decoder, 3), (Which::Cross, 3)] {
        assert_eq!(app(&window).model().ablation(which).len(), layers * 5, "{which:?}");
    }
}

#[test]
fn the_decoder_writes_on() {
    let mut window = opened("tiny-t5", |_| ());
    let model = Model::open(format!("{MODELS}/tiny-t5")).unwrap();
    let start = model.description().decoder_start[0];
    let input = model.tokenizer().unwrap().encode(TEXT, None).unwrap().decoder([start]);
    let expected = model.generate(&input, 3, &[]).unwrap();
    for written in 1..=3 {
        click(&mut window, "Add next word");
        assert_eq!(run(&window).written(), [&[start], &expected[..written]].concat());
        assert_eq!(state(&window).text, TEXT, "the text of the encoder stays");
    }
    type_into(&mut window, "Text of the decoder", DECODER);
    assert_eq!(run(&window).written().len(), 11);
    type_text(&mut window, "the");
    assert_eq!(run(&window).tokens().len(), 2, "the token and the end");
}

fn experts(window: &Window, layer: usize) -> &[f32] {
    &app(window).model().experts.value().unwrap().of(layer).unwrap().numbers
}

#[test]
fn the_experts_of_each_token_are_shown() {
    for (name, layers) in [("tiny-qwen3_moe", &[0, 2][..]), ("tiny-gpt_oss", &[0, 1, 2])] {
        let mut window = opened(name, |state| "the cat sat on the na".clone_into(&mut state.text));
        click(&mut window, "Experts");
        assert_eq!(app(&window).model().error(), None);
        for layer in layers {
            if state(&window).mixture != *layer {
                click(&mut window, &format!("layer {layer}"));
            }
            let (shape, weights) = tensor(name, &format!("experts/{layer}.weights"));
            let (_, indices) = tensor(name, &format!("experts/{layer}.indices"));
            let mut expected = vec![0.0; shape[0] * 5];
            for (i, (weight, expert)) in weights.iter().zip(&indices).enumerate() {
                expected[i / shape[1] * 5 + *expert as usize] = *weight;
            }
            let found = experts(&window, *layer);
            assert_near(found, &expected, 1e-5, &format!("{name}, layer {layer}"));
        }
        // The cell under the pointer is told below.
        let map = window.get_by_label_contains("Heatmap of the weight of each expert").rect();
        window.hover_at(map.center());
        window.run_steps(3);
        let last = *layers.last().unwrap();
        let weight = experts(&window, last)[5 * 5 + 2];
        let weight = regard_figure::numbers::spoken(weight);
        let token = &run(&window).tokens()[5].text;
        assert!(says(&window, &format!("token {token}, expert 2, weight {weight}")), "{name}");

        // A change of a head changes the weights of later layers.
        let head = "0.1".parse().unwrap();
        let change = Change::Ablate { head, to: Ablation::Zero };
        alter(&mut window, |s| s.model.toggle(&change));
        let model = Model::open(format!("{MODELS}/{name}")).unwrap();
        let place = format!("blocks.{last}.mlp.hook_expert_weights");
        let input = Input::tokens(run(&window).ids());
        let trace = model.pass().change(change).keep([place.clone()]).run(&input).unwrap();
        assert_eq!(experts(&window, last), trace.get(&place).unwrap().data);
    }
    // A layer without experts gives way to the first one that has them.
    let window = opened("tiny-qwen3_moe", |state| (state.view, state.mixture) = (View::Experts, 1));
    assert_eq!(state(&window).mixture, 0);
}

#[test]
fn a_view_that_a_model_lacks_is_disabled_and_says_why() {
    let of_file = "this is a file of attention";
    for (name, lacks) in [
        ("tiny-llama", &[("Experts", "It needs a mixture of experts")][..]),
        ("tiny-bert", &[("Patch", "predicts the next token")]),
        ("digits", &[("Lens", "reads a text"), ("Attribution", "reads a text")]),
        ("", &[("Lens", of_file), ("Attribution", of_file), ("Patch", of_file)]),
    ] {
        let model = match name {
            "" => ModelState::of_file(AttentionSource::Sample),
            DIGITS => ModelState { view: View::Experts, ..ModelState::of(DIGITS) },
            name => ModelState {
                view: View::Experts,
                text: TEXT.to_owned(),
                ..ModelState::of(format!("{MODELS}/{name}"))
            },
        };
        let session = Session { room: Room::Stage, model, ..Session::default() };
        let window = open(session, [1280.0, 800.0]);
        assert_eq!(
            state(&window).view,
            View::Attention,
            "{name}: the session asks for what is not there"
        );
        for (view, reason) in lacks {
            let tab = window.get_by_role_and_label(Role::Button, view);
            let tab = tab.accesskit_node();
            let said = tab.data().description().unwrap_or_default().to_owned();
            assert!(tab.is_disabled() && said.contains(reason), "{name}, {view}: {said:?}");
        }
        let tab = window.get_by_role_and_label(Role::Button, "Arithmetic");
        assert!(!tab.accesskit_node().is_disabled());
    }
}

#[test]
fn a_click_on_a_register_moves_no_patch() {
    let folder = tempfile::tempdir().unwrap();
    let path = picture(folder.path());
    let mut window = opened("tiny-dinov3_vit", |_| ());
    with_file(&mut window, Command::OpenImage, &path, "Open");
    open_head(&mut window, 1, 1);
    let patches = |window: &Window| places(window, "patch ");
    let before = patches(&window);
    assert!(!before.is_empty());
    let registers: Vec<String> =
        buttons(&window).into_iter().filter(|name| name.starts_with("register ")).collect();
    assert!(!registers.is_empty(), "{:?}", buttons(&window));
    for register in registers {
        click(&mut window, &register);
        assert_eq!(patches(&window), before, "{register}");
    }
}

#[test]
fn a_recording_is_read_and_its_attention_lies_over_its_spectrogram() {
    let folder = format!("{MODELS}/tiny-whisper");
    let mut window = opened("tiny-whisper", |_| ());
    assert!(says(&window, "Open a recording (WAV), or drop one onto the window."));
    let own = tempfile::tempdir().unwrap();
    let sound = own.path().join("sound.wav");
    std::fs::copy(format!("{folder}/sound.wav"), &sound).unwrap();
    with_file(&mut window, Command::OpenRecording, &sound, "Open");
    assert_eq!(app(&window).model().error(), None);
    assert!(says(&window, "whisper, 2 + 3 layers of 4 and 3 heads") && says(&window, "sound.wav"));
    assert_eq!(state(&window).attention, Which::Cross, "what the words look at");

    // The decoder writes on from its first tokens, and the recording is not read again.
    own.close().unwrap();
    let model = Model::open(&folder).unwrap();
    let start = model.description().decoder_start.clone();
    let (_, features) = tensor("tiny-whisper", "input_features");
    let input = Input::audio(features).decoder(start.clone());
    let expected = model.generate(&input, 2, &[]).unwrap();
    for written in 1..=2 {
        click(&mut window, "Add next word");
        assert_eq!(run(&window).written(), [&start, &expected[..written]].concat());
    }
    type_into(&mut window, "Text of the decoder", " tokens look at other");

    let over = |window: &Window| -> Vec<String> {
        buttons(window).into_iter().filter(|name| name.contains(" s, weight ")).collect()
    };
    for (name, which, tensor, [layers, heads], times) in [
        ("Cross", Which::Cross, "cross_attentions", [3, 3], 25),
        ("Encoder", Which::Encoder, "encoder_attentions", [2, 4], 25),
        ("Decoder", Which::Decoder, "decoder_attentions", [3, 3], 0),
    ] {
        if state(&window).attention != which {
            click(&mut window, name);
            click(&mut window, "All heads");
        }
        assert_eq!(cells(&window).len(), layers * heads, "{name}");
        open_head(&mut window, 1, heads - 1);
        let found = numbers(&window);
        assert_near(&found, &golden("tiny-whisper", tensor, 1, heads - 1), 1e-4, name);
        assert_eq!(over(&window).len(), times, "{name}");
        if which == Which::Cross {
            // The query is the last token, and a click on a time chooses its cell.
            let weight = regard_figure::numbers::spoken(found[11 * 25 + 5]);
            let query = &run(&window).heads(which).labels()[0][11];
            let words = format!("0.20 s, weight {weight} from {query}");
            click(&mut window, &words);
            assert_eq!(state(&window).heads.chosen, Some((11, 5)));
        }
    }
    // Every head of all three attentions is ablated in turn.
    click(&mut window, "Ablation effect");
    for (which, count) in [(Which::Encoder, 8), (Which::Decoder, 9), (Which::Cross, 9)] {
        assert_eq!(app(&window).model().ablation(which).len(), count, "{which:?}");
    }
}

/// A picture of 6 × 9 pixels, as PNG.
fn picture(folder: &Path) -> PathBuf {
    let path = folder.join("picture.png");
    let pixel = |x: u32, y: u32| image::Rgb([(x * 40) as u8, (y * 25) as u8, (x * y * 7) as u8]);
    image::RgbImage::from_fn(6, 9, pixel).save(&path).unwrap();
    path
}

/// The input that tiny-vit reads from the picture.
fn pixels(path: &Path) -> (Model, Input) {
    let checkpoint = Checkpoint::open(format!("{MODELS}/tiny-vit")).unwrap();
    let model = Model::load(&checkpoint).unwrap();
    let processor = ImageProcessor::of(&checkpoint, model.description()).unwrap();
    let picture = image::open(path).unwrap().into_rgb8();
    let input = processor.read(picture.as_raw(), [9, 6]).unwrap();
    (model, input)
}

fn patches(window: &Window) -> Vec<String> {
    buttons(window).into_iter().filter(|name| name.starts_with("patch ")).collect()
}

#[test]
fn an_image_is_read_and_its_attention_lies_over_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = picture(folder.path());
    let mut window = opened("tiny-vit", |_| ());
    assert!(says(&window, "Open an image (PNG or JPEG), or drop one onto the window."));
    with_file(&mut window, Command::OpenImage, &path, "Open");
    assert_eq!(app(&window).model().error(), None);
    assert!(says(&window, "picture.png") && says(&window, "Class"));
    assert_eq!(patches(&window).len(), 9);
    assert_eq!(cells(&window).len(), 2 * 3);

    // The classes are those of the model.
    let (model, input) = pixels(&path);
    let weights = Which::Only.place(1, AttentionPlace::Pattern);
    let trace = model.pass().keep([weights]).run(&input).unwrap();
    assert_eq!(run(&window).next(), predicted(&model, &trace));
    let next = app(&window).model().next();
    assert!(next.len() == 5 && next.iter().all(|class| class.token.starts_with("LABEL_")));

    // Each patch shows its weight from the query: [CLS], or the patch that is kept.
    open_head(&mut window, 1, 2);
    let weights = &trace.at(weights).unwrap().data[2 * 100..3 * 100];
    assert_eq!(numbers(&window), weights);
    let spoken = |query: usize, key: usize| {
        let name = |i: usize| match i {
            0 => "[CLS]".to_owned(),
            i => format!("patch {},{}", (i - 1) / 3, (i - 1) % 3),
        };
        let weight = regard_figure::numbers::spoken(weights[query * 10 + key]);
        format!("{}, weight {weight} from {}", name(key), name(query))
    };
    // The pointer is over a row of the heatmap, and leaves it.
    click(&mut window, "[CLS]");
    assert_eq!(patches(&window)[4], spoken(0, 5));
    click(&mut window, &spoken(0, 5));
    assert_eq!(state(&window).heads.isolated, Some((Side::Queries, 5)));
    assert_eq!(patches(&window)[8], spoken(5, 9));
    assert!(says(&window, "Weights of patch 1,1 over the image"));
    click(&mut window, "[CLS]");
    assert_eq!(patches(&window)[8], spoken(0, 9));

    // A change of a head changes the classes, and each head is ablated in turn.
    click(&mut window, "Ablation effect");
    assert_eq!(app(&window).model().ablation(Which::Only).len(), 6);
    click(&mut window, "Zero");
    let change = Change::Ablate { head: "1.2".parse().unwrap(), to: Ablation::Zero };
    let trace = model.pass().change(change).run(&input).unwrap();
    assert_eq!(run(&window).next_changed().unwrap(), predicted(&model, &trace));
    assert!(says(&window, "Without head 1.2, “LABEL_"));

    // Two runs side by side have an image each, and so has their difference.
    click(&mut window, "Side by side");
    window.hover_at(egui::Pos2::ZERO);
    settle(&mut window);
    let names = patches(&window);
    let of = |run: &str| names.iter().filter(|name| name.ends_with(run)).count();
    assert_eq!(
        [of("A  changed"), of("B  unchanged"), of("A − B  difference")],
        [9, 9, 9],
        "{names:?}"
    );
    let weights = |run: usize| app(&window).model().side_by_side()[run].unwrap().numbers.to_vec();
    for (run, name) in [(0, "A  changed"), (1, "B  unchanged"), (2, "A − B  difference")] {
        let weight = regard_figure::numbers::spoken(weights(run)[9]);
        assert!(
            names.contains(&format!("patch 2,2, weight {weight} from [CLS], {name}")),
            "{names:?}"
        );
    }
}

/// Tokens before the patches have buttons, and a model without logits is shown with its attention.
#[test]
fn tokens_before_the_patches_stand_beside_the_image() {
    let folder = tempfile::tempdir().unwrap();
    let path = picture(folder.path());
    for (name, before, count) in
        [("tiny-deit", &["[CLS]", "[DIST]"][..], 9), ("tiny-siglip_vision_model", &[], 9)]
    {
        let mut window = opened(name, |_| ());
        with_file(&mut window, Command::OpenImage, &path, "Open");
        assert_eq!(app(&window).model().error(), None, "{name}");
        assert_eq!((patches(&window).len(), cells(&window).len()), (count, 6), "{name}");
        open_head(&mut window, 1, 2);
        for (token, own) in before.iter().enumerate() {
            click(&mut window, own);
            assert_eq!(state(&window).heads.isolated, Some((Side::Queries, token)), "{name}");
            assert!(says(&window, &format!("Weights of {own} over the image")), "{name}");
        }
    }
}

#[test]
fn one_of_each_kind_of_text_model_opens() {
    for (name, heads) in [
        ("tiny-deberta-v2", 8),
        ("tiny-bart", 8), // of the encoder, which is shown first
        ("tiny-bloom", 12),
        ("tiny-mixtral", 12),
        ("tiny-clip_text_model", 8),
    ] {
        let window = opened(name, |_| ());
        assert_eq!(app(&window).model().error(), None, "{name}");
        assert_eq!(cells(&window).len(), heads, "{name}");
    }
}

#[test]
fn an_image_is_dropped_and_a_wrong_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (path, wrong) = (picture(folder.path()), folder.path().join("wrong.png"));
    std::fs::write(&wrong, b"not an image").unwrap();
    let mut window = opened("tiny-vit", |_| ());
    drop_file(&mut window, &wrong);
    let message = app(&window).model().error().unwrap();
    assert!(message.contains("wrong.png"), "{message}");
    drop_file(&mut window, &path);
    assert_eq!(app(&window).model().error(), None);
    // A session restores the image.
    let again = open(saved(&window), [900.0, 600.0]);
    assert_eq!(run(&again).next(), run(&window).next());

    // A model of text reads no image, and a message says so.
    let mut window = model::window();
    drop_file(&mut window, &path);
    assert!(says(&window, "the model of this room reads no image"));
    drop_file(&mut window, &folder.path().join("sound.wav"));
    assert!(says(&window, "the model of this room reads no recording"));
}

/// The number of the first image of a digit that training held back.
fn first(label: u8) -> usize {
    regard_digits::held_back().position(|digit| digit.label == label).unwrap()
}

/// `digits`, and an image that training held back as it reads it.
fn read(number: usize) -> (Model, Input) {
    let checkpoint = regard_bundled::checkpoint(DIGITS).unwrap().unwrap();
    let model = Model::load(&checkpoint).unwrap();
    let processor = ImageProcessor::of(&checkpoint, model.description()).unwrap();
    let digit = regard_digits::held_back().nth(number).unwrap();
    let rgb: Vec<u8> = digit.pixels.iter().flat_map(|ink| [*ink; 3]).collect();
    let input = processor.read(&rgb, [8, 8]).unwrap();
    (model, input)
}

/// The classes of such an image with a change.
fn classes(number: usize, change: Option<Change>) -> Vec<f32> {
    let (model, input) = read(number);
    let pass = change.into_iter().fold(model.pass(), regard_models::Pass::change);
    predicted(&model, &pass.run(&input).unwrap())
}

#[test]
fn a_digit_is_drawn_changed_and_patched() {
    let begun = Session { model: ModelState::of(DIGITS), ..session_of(Room::Stage) };
    let mut window = open(begun, [1400.0, 1000.0]);
    let likeliest = |window: &Window| app(window).model().next()[0].token.clone();
    let shown = (cells(&window).len(), patches(&window).len());
    assert_eq!((likeliest(&window).as_str(), shown), ("3", (8, 16)), "all heads, and one of them");
    assert_eq!(run(&window).next(), classes(9, None));
    assert_eq!(numbers(&window).len(), 17 * 17);

    // The classes keep their places, whichever is the likeliest.
    let rows = window.query_all_by_label_contains(" %");
    let rows = rows.filter_map(|row| row.accesskit_node().value());
    let rows = rows.filter(|row| !row.starts_with("The model "));
    let names: Vec<String> = rows.filter_map(|row| Some(row.split_once(": ")?.0.into())).collect();
    assert_eq!(names, (0..10).map(|digit| digit.to_string()).collect::<Vec<_>>());

    // A head without output changes the classes.
    click(&mut window, "Zero");
    let ablation = Change::Ablate { head: "0.0".parse().unwrap(), to: Ablation::Zero };
    assert_eq!(run(&window).next_changed().unwrap(), classes(9, Some(ablation)));
    assert!(says(&window, "Without head 0.0, “3” "));
    click(&mut window, "As is");

    // A digit to begin with, and the next one of its kind.
    for _ in 0..2 {
        let before = state(&window).drawing.clone();
        click(&mut window, "Drawing pad: 8");
        assert_eq!(likeliest(&window), "8");
        assert_ne!(state(&window).drawing, before);
    }

    // One stroke down the middle is a 1, which grows.
    click(&mut window, "Drawing pad: Clear");
    let shown = (cells(&window).len(), patches(&window).len());
    assert_eq!(shown, (8, 16), "heads and patches stay where they are");
    let blank = state(&window).drawing.clone();
    let pad = window.get_by_role_and_label(Role::Canvas, "Drawing pad").rect();
    let at = |y: f32| pad.left_top() + pad.size() * egui::vec2(0.5, y);
    window.hover_at(at(0.12));
    window.drag_at(at(0.12));
    settle(&mut window);
    let (dot, weights) = (run(&window).next().to_vec(), numbers(&window));
    for y in [0.5, 0.88] {
        window.hover_at(at(y));
        settle(&mut window);
    }
    window.drop_at(at(0.88));
    settle(&mut window);
    assert_ne!(run(&window).next(), dot, "the classes follow the stroke");
    assert_ne!(numbers(&window)[..17], weights[..17], "so does what the class token attends to");
    assert_eq!(likeliest(&window), "1");
    press(&mut window, Command::Undo);
    assert_eq!(state(&window).drawing, blank, "a stroke is undone at once");
    press(&mut window, Command::Redo);

    // A second drawing begins as the first. Each has its own picture.
    click(&mut window, "Second drawing");
    let same = |window: &Window| {
        let [first, second, _] = app(window).model().pictures();
        first.unwrap() == second.unwrap()
    };
    assert!(same(&window));
    click(&mut window, "Drawing pad: 4");
    click(&mut window, "Second drawing pad: 9");
    assert!(!same(&window));
    assert_eq!(run(&window).next(), classes(first(4), None));
    assert_eq!(run(&window).next_second().unwrap(), classes(first(9), None));

    // A patch of the second goes into the first.
    let patch = button(&window, "patch token 5 ");
    click(&mut window, &patch);
    let place = "blocks.0.hook_resid_post".parse().unwrap();
    let change = Change::Patch { place, position: 5, from: read(first(9)).1 };
    assert_eq!(state(&window).active(), core::slice::from_ref(&change));
    let patched = classes(first(4), Some(change));
    assert_ne!(patched, classes(first(4), None));
    assert_eq!(run(&window).next_changed().unwrap(), patched);
    assert!(says(&window, "With the stream after layer 0 at “1,0” from the other image, “4” "));

    // The session keeps what is drawn.
    let again = open(saved(&window), [900.0, 800.0]);
    assert_eq!(run(&again).next(), run(&window).next());
    assert_eq!(run(&again).next_changed(), run(&window).next_changed());
}
