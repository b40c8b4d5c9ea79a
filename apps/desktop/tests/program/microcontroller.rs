//! The page about the way from a trained model to a board: its commands run, and its code compiles.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use regard_digits::held_back;
use regard_tests::attention_files::{npy, npz};
use safetensors::SafeTensors;
use zip::CompressionMethod;

const PAGE: &str = include_str!("../../../../docs/microcontroller.md");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The page's code in a language, without the indentation of a list.
fn code(language: &str) -> String {
    let (mut code, mut inside) = (String::new(), None);
    for line in PAGE.lines() {
        let text = line.trim_start();
        if let Some(opened) = text.strip_prefix("```") {
            inside = (inside.is_none() && opened == language).then(|| line.len() - text.len());
        } else if let Some(indent) = inside {
            code.extend([line.get(indent..).unwrap_or_default(), "\n"]);
        }
    }
    code
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_commands_of_the_page_run_and_its_code_compiles() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for folder in ["models", "crates"] {
        symlink(format!("{ROOT}/{folder}"), path(folder)).unwrap();
    }
    let programs = Path::new(env!("CARGO_BIN_EXE_regard")).parent().unwrap();
    let programs = format!("{}:{}", programs.display(), env::var("PATH").unwrap());
    let commands = code("sh");
    let commands: Vec<&str> = commands.lines().filter(|line| line.starts_with("regard ")).collect();
    assert_eq!(commands.len(), 5, "{commands:?}");
    for command in commands {
        let mut shell = Command::new("sh");
        run(shell.args(["-c", command]).current_dir(folder.path()).env("PATH", &programs));
    }

    let (toml, rust) = (code("toml"), code("rust,ignore"));
    fs::create_dir_all(path("firmware/src")).unwrap();
    let package = "[package]\nname = \"firmware\"\nedition = \"2024\"\n\n";
    let patch = ["embed", "kernels"].map(|name| {
        format!("[patch.crates-io.regard-{name}]\npath = \"{ROOT}/crates/regard-{name}\"\n")
    });
    fs::write(path("firmware/Cargo.toml"), [package, &toml, &patch.concat()].concat()).unwrap();
    fs::write(path("firmware/src/lib.rs"), &rust).unwrap();
    // The versions of dependencies that are downloaded already.
    fs::copy(format!("{ROOT}/Cargo.lock"), path("firmware/Cargo.lock")).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["check", "--quiet", "--offline"]).current_dir(path("firmware"));
    run(cargo.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("page")));
}

/// Windows of a sensor in its own units: `regard embed` asks for them, measures them and says what int8 loses.
#[test]
fn integers_are_calibrated_on_the_files_that_are_given() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let model = format!("{ROOT}/crates/regard-models/tests/data/sensors/motion");
    let given = fs::read(format!("{model}/windows.safetensors")).unwrap();
    let given = SafeTensors::deserialize(&given).unwrap();
    let [windows, labels] = ["pixel_values", "labels"].map(|name| given.tensor(name).unwrap());
    let labels: Vec<u8> = labels
        .data()
        .as_chunks::<4>()
        .0
        .iter()
        .flat_map(|x| (f32::from_le_bytes(*x) as i64).to_le_bytes())
        .collect();
    let array = npy("<f4", "(400, 6, 32)", windows.data());
    fs::write(path("windows.npy"), &array).unwrap();
    let both = [("x.npy", array), ("labels.npy", npy("<i8", "(400,)", &labels))];
    fs::write(path("windows.npz"), npz(&both, CompressionMethod::Deflated)).unwrap();
    fs::write(path("short.npy"), npy("<f4", "(2, 3)", &[0; 24])).unwrap();
    let embed = |arguments: &[&str]| {
        let mut regard = Command::new(env!("CARGO_BIN_EXE_regard"));
        regard.args(["embed", &model, "--to", &path("motion")]).args(arguments);
        let output = regard.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = embed(&["--int8"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--calibrate"), "{said}");
    let (code, said) = embed(&["--int8", "--calibrate", &path("short.npy")]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("short.npy: tensor `short` has the shape [2, 3]"), "{said}");
    assert!(said.contains("[n, 6, 1, 32]"), "{said}");
    let (code, said) = embed(&["--weights", "f32", "--calibrate", &path("windows.npy")]);
    assert_eq!(code, Some(2), "{said}");
    let (code, plain) = embed(&["--int8", "--calibrate", &path("windows.npy")]);
    assert_eq!(code, Some(0), "{plain}");
    assert!(plain.contains("image, channel 5") && !plain.contains("right:"), "{plain}");
    let (code, said) = embed(&["--int8", "--calibrate", &path("windows.npz")]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("right: 380 of 400 in f32 (95.0 %)"), "{said}");
    assert!(said.contains("ranges of least squares over 400 inputs"), "{said}");
    let library = fs::read_to_string(path("motion/src/model.rs")).unwrap();
    assert!(library.contains("pub fn classify<"));
    assert!(!library.contains("classify_samples"), "no file says how samples become numbers");
}

/// A folder of images, whose folders have the names of the classes.
#[test]
fn integers_are_calibrated_on_a_folder_of_images() {
    let folder = tempfile::tempdir().unwrap();
    for digit in held_back().take(20) {
        let class = folder.path().join(format!("images/{}", digit.label));
        fs::create_dir_all(&class).unwrap();
        let image = image::GrayImage::from_raw(8, 8, digit.pixels.to_vec()).unwrap();
        let count = fs::read_dir(&class).unwrap().count();
        image.save(class.join(format!("{count}.png"))).unwrap();
    }
    let mut regard = Command::new(env!("CARGO_BIN_EXE_regard"));
    regard.args(["embed", &format!("{ROOT}/models/digits"), "--int8", "--to", "digits-embedded"]);
    let output =
        regard.args(["--calibrate", "images"]).current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("right: 20 of 20 in f32"), "{said}");
}
