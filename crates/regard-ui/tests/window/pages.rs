//! Sessions of the pages of the model room, for pictures and for their controls.

use std::path::{Path, PathBuf};

use regard_bundled::{DIGITS, STORY};
use regard_models::Which;
use regard_ui::heads::{AttentionSource, Shown};
use regard_ui::model::{Drawing, ModelState, Version, View};
use regard_ui::{Room, Session};

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/models");
const FIRST: &str = "Mia and Tom went to the park. Tom gave the ball to";
const SECOND: &str = "Mia and Max went to the park. Max gave the ball to";

/// The number of an image of an 8 that training held back.
const EIGHT: usize = 8;

/// The model room with story.
fn page(change: impl FnOnce(&mut ModelState)) -> Session {
    let model = ModelState::of(STORY);
    let mut session = Session { room: Room::Stage, model, ..Session::default() };
    change(&mut session.model);
    session
}

/// The model room with one of the tiny models.
fn tiny(model: &str, change: impl FnOnce(&mut ModelState)) -> Session {
    page(|state| {
        *state = ModelState::of(format!("{MODELS}/{model}"));
        "the quick brown fox".clone_into(&mut state.text);
        change(state);
    })
}

/// The patches from a second text, the attribution of a logit, two models side by side, an encoder with a decoder, a
/// mixture of experts, a model of sound, one of images, and one that is drawn for, alone and with a second drawing.
pub fn all(folder: &Path) -> Vec<(&'static str, Session)> {
    let (picture, rounded) = (picture(folder), rounded(folder));
    vec![
        (
            "patches",
            page(|state| {
                FIRST.clone_into(&mut state.text);
                state.second = Some(SECOND.to_owned());
                state.view = View::Patches;
            }),
        ),
        ("attribution", page(|state| state.view = View::Attribution)),
        ("file", page(|state| *state = ModelState::of_file(AttentionSource::Sample))),
        (
            "compare",
            page(|state| {
                FIRST.clone_into(&mut state.text);
                state.compare_with(rounded);
                state.heads.shown = Shown::Head;
                state.heads.layer = 2;
            }),
        ),
        (
            "t5",
            tiny("tiny-t5", |state| {
                "tokens look at".clone_into(&mut state.decoder);
                (state.attention, state.heads.shown) = (Which::Cross, Shown::Head);
            }),
        ),
        (
            "experts",
            tiny("tiny-gpt_oss", |state| {
                "the cat sat on the mat".clone_into(&mut state.text);
                state.view = View::Experts;
            }),
        ),
        (
            "whisper",
            tiny("tiny-whisper", |state| {
                state.image = Some(format!("{MODELS}/tiny-whisper/sound.wav").into());
                " tokens look at".clone_into(&mut state.decoder);
                (state.attention, state.heads.shown) = (Which::Cross, Shown::Head);
            }),
        ),
        (
            "vit",
            tiny("tiny-vit", |state| {
                (state.image, state.heads.shown) = (Some(picture), Shown::Head);
            }),
        ),
        ("digits", page(|state| *state = ModelState::of(DIGITS))),
        (
            "digits-compare",
            page(|state| {
                *state = ModelState::of(DIGITS);
                state.second_drawing = Drawing::of_digit(EIGHT);
                state.version = Version::SideBySide;
            }),
        ),
    ]
}

/// A copy of story whose weights have 3 fraction bits fewer.
fn rounded(folder: &Path) -> String {
    let path = folder.join("story-rounded");
    std::fs::create_dir(&path).unwrap();
    for (name, bytes) in regard_story::FILES {
        let mut bytes = bytes.to_vec();
        if name.ends_with(".safetensors") {
            let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            // The first byte of a bfloat16 has the last bits of its fraction.
            bytes[8 + header..].iter_mut().step_by(2).for_each(|byte| *byte &= 0xf8);
        }
        std::fs::write(path.join(name), bytes).unwrap();
    }
    path.to_str().unwrap().to_owned()
}

/// A picture of 48 × 36 pixels.
fn picture(folder: &Path) -> PathBuf {
    let path = folder.join("picture.png");
    let pixel = |x: u32, y: u32| {
        let inside = (x as f32 - 24.0).hypot(y as f32 - 18.0) < 12.0;
        let sky = [90, 140 + y as u8, 200 - x as u8];
        image::Rgb(if inside { [230, 170, 60] } else { sky })
    };
    image::RgbImage::from_fn(48, 36, pixel).save(&path).unwrap();
    path
}
