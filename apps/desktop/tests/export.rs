//! Matrices written out, read back by other means; and `regard export`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "shared with other tests")]
mod files;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use regard_desktop::export::{Error, Format, Matrix, Table};
use regard_desktop::heads::{AttentionMaps, HeadId, unattended};
use regard_desktop::palette::{HIDDEN, Look, Map, NOT_A_NUMBER, Palette};
use regard_desktop::token::Token;
use regard_desktop::ui::heads::Shown;
use regard_desktop::ui::{Room, Session, attention as attention_session};
use regard_walkthrough::{Example, Kind, Quantity, Settings, Walkthrough};
use safetensors::{Dtype, SafeTensors};

use self::files::{Folder, bytes, safetensors, weights};

fn palette() -> Palette {
    Palette::weights(1.0, Look { map: Map::Viridis, logarithmic: false })
}

fn tokens(labels: &[&str]) -> Vec<Token> {
    Token::readable(labels.iter().map(|t| (*t).to_owned()).collect())
}

fn encode(format: Format, values: &[f32], rows: &[Token], cols: &[Token]) -> Vec<u8> {
    let table =
        Table { title: "A < B", name: "weights", values, rows, cols, axes: ["query", "key"] };
    table.encode(format, palette()).unwrap()
}

/// Pixels of a PNG: width, height, RGB.
fn pixels(file: &[u8]) -> (usize, usize, Vec<u8>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
    let mut image = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut image).unwrap();
    assert_eq!(info.color_type, png::ColorType::Rgb);
    (info.width as usize, info.height as usize, image)
}

mod formats {
    use super::*;

    #[test]
    fn a_png_has_a_square_for_each_cell_in_its_colour() {
        let values = [0.0, 0.25, 1.0, f32::NAN, f32::NEG_INFINITY, 0.5];
        let file = encode(Format::Png, &values, &tokens(&["a", "b"]), &tokens(&["a", "b", "c"]));
        let (width, height, image) = pixels(&file);
        assert_eq!((width, height), (768, 512));
        for (i, x) in values.iter().enumerate() {
            for (dx, dy) in [(0, 0), (255, 255)] {
                let at = ((i / 3 * 256 + dy) * width + i % 3 * 256 + dx) * 3;
                assert_eq!(image[at..at + 3], palette().rgb(*x), "{x}");
            }
        }
        assert_ne!(HIDDEN, NOT_A_NUMBER);
    }

    #[test]
    fn csv_quotes_what_needs_it_and_keeps_every_bit() {
        let labels = tokens(&["a,b", "say \"hi\"", "line\nbreak", " space", "Ġcat"]);
        let values = weights(5, 5, 1);
        let file = String::from_utf8(encode(Format::Csv, &values, &labels, &labels)).unwrap();
        let records = records(&file);
        assert_eq!(records[0][0], "query \\ key");
        for (i, token) in labels.iter().enumerate() {
            assert_eq!([&records[0][i + 1], &records[i + 1][0]], [&token.raw, &token.raw]);
            let numbers: Vec<f32> =
                records[i + 1][1..].iter().map(|x| x.parse().unwrap()).collect();
            assert_eq!(numbers, values[i * 5..][..5]);
        }
        let odd = encode(
            Format::Csv,
            &[f32::NAN, f32::NEG_INFINITY],
            &tokens(&["a"]),
            &tokens(&["", "b"]),
        );
        assert_eq!(String::from_utf8(odd).unwrap(), "query \\ key,,b\na,NaN,-inf\n");
    }

    /// Reads CSV by RFC 4180, letter by letter.
    fn records(text: &str) -> Vec<Vec<String>> {
        let (mut records, mut quoted) = (vec![vec![String::new()]], false);
        let mut letters = text.strip_suffix('\n').unwrap().chars().peekable();
        while let Some(c) = letters.next() {
            let record = records.last_mut().unwrap();
            match c {
                '"' if quoted && letters.peek() == Some(&'"') => {
                    letters.next();
                    record.last_mut().unwrap().push('"');
                }
                '"' => quoted = !quoted,
                ',' if !quoted => record.push(String::new()),
                '\n' if !quoted => records.push(vec![String::new()]),
                c => record.last_mut().unwrap().push(c),
            }
        }
        records
    }

    #[test]
    fn npy_and_safetensors_open_as_attention_with_their_tokens() {
        let folder = Folder::new();
        let values = weights(3, 3, 4);
        let labels = tokens(&["The", "Ġcat", "Ċ"]);
        for format in [Format::Npy, Format::Safetensors] {
            let file = folder.file(
                &format!("a.{}", format.extension()),
                encode(format, &values, &labels, &labels),
            );
            let maps = AttentionMaps::open(&file, None, &unattended).unwrap();
            assert_eq!(&*maps.head(HeadId { layer: 0, head: 0 }), values);
            if format == Format::Safetensors {
                assert_eq!(maps.name(), "weights");
                assert_eq!(
                    (maps.query_tokens(), maps.key_tokens()),
                    (Some(&*labels), Some(&*labels))
                );
            }
        }
    }

    #[test]
    fn an_svg_has_every_label_number_and_colour() {
        let labels = tokens(&["<s>", "Ġcat", "猫"]);
        let values = [1.0, 0.0, f32::NEG_INFINITY, 0.25, 0.75, 0.0, 0.5, 0.25, f32::NAN];
        let svg = String::from_utf8(encode(Format::Svg, &values, &labels, &labels)).unwrap();
        well_formed(&svg);
        let count = |part: &str| svg.matches(part).count();
        assert_eq!(count("<title>A &lt; B</title>"), 1);
        assert_eq!(
            [count(">&lt;s&gt;</text>"), count(">␣cat</text>"), count(">猫</text>")],
            [2; 3],
            "on both axes"
        );
        assert_eq!(
            [count(">query</text>"), count(">key</text>"), count(">0.75</text>")],
            [1, 1, 1],
            "a cell"
        );
        let bar: Vec<&str> = ["0", "0.5", "1"]
            .into_iter()
            .filter(|x| svg.contains(&format!(">{x}</text>")))
            .collect();
        assert_eq!(bar, ["0", "0.5", "1"]);
        assert_eq!(
            [count("masked (−∞)"), count(">NaN</text>")],
            [1, 2],
            "a cell, and what its colour means"
        );
        assert_eq!(count("<image"), 0);
        for x in values {
            let [r, g, b] = palette().rgb(x);
            assert!(svg.contains(&format!("fill=\"#{r:02x}{g:02x}{b:02x}\"")), "{x}");
        }
    }

    #[test]
    fn an_svg_of_many_cells_embeds_a_picture_of_a_pixel_each() {
        use base64::Engine as _;
        let labels = Token::numbers(100);
        let values = weights(100, 100, 1);
        let svg = String::from_utf8(encode(Format::Svg, &values, &labels, &labels)).unwrap();
        well_formed(&svg);
        let picture = svg.split_once("base64,").unwrap().1.split_once('"').unwrap().0;
        let picture = base64::engine::general_purpose::STANDARD.decode(picture).unwrap();
        let (width, height, image) = pixels(&picture);
        assert_eq!((width, height), (100, 100));
        let expected: Vec<u8> = values.iter().flat_map(|x| palette().rgb(*x)).collect();
        assert_eq!(image, expected);
        assert!(svg.len() < 100_000, "{}", svg.len());
    }

    /// Tags that close in the order in which they open, and no bare `&`.
    fn well_formed(svg: &str) {
        let mut open = Vec::new();
        for tag in svg.split('<').skip(1) {
            let (tag, text) = tag.split_once('>').unwrap();
            match tag.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name)),
                None if tag.ends_with('/') => {}
                None => open.push(tag.split(' ').next().unwrap()),
            }
            assert!(
                text.split('&')
                    .skip(1)
                    .all(|t| t.split_once(';').is_some_and(|(name, _)| name.len() < 5)),
                "{text}"
            );
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        let table =
            |values, rows, cols| Table { title: "", name: "a", values, rows, cols, axes: ["", ""] };
        let one = tokens(&["a"]);
        for format in Format::ALL {
            assert!(matches!(
                table(&[1.0, 2.0], &one, &one).encode(format, palette()),
                Err(Error::Shape { values: 2, .. })
            ));
            assert!(matches!(table(&[], &one, &[]).encode(format, palette()), Err(Error::Empty)));
        }
        let matrix = Matrix {
            title: String::new(),
            name: "a".to_owned(),
            values: Arc::new(vec![1.0]),
            masked: f32::NEG_INFINITY,
            rows: one.clone(),
            cols: one,
            axes: ["", ""],
            palette: palette(),
        };
        let error = matrix.write("a.bmp".as_ref()).unwrap_err();
        assert!(error.to_string().contains(".svg"), "{error}");
        let error = matrix.write("/no/such/folder/a.SVG".as_ref()).unwrap_err();
        assert!(matches!(error, Error::Write { .. }), "{error}");
    }
}

mod command {
    use super::*;

    fn export(args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_regard")).arg("export").args(args).output().unwrap()
    }

    fn exported(args: &[&str], to: &Path) -> Vec<u8> {
        let output = export(&[args, &["--to", to.to_str().unwrap()]].concat());
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        std::fs::read(to).unwrap()
    }

    fn numbers(file: &[u8]) -> Vec<f32> {
        let file = SafeTensors::deserialize(file).unwrap();
        let (_, view) = file.iter().next().unwrap();
        view.data().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    }

    /// A file of 2 layers of 3 heads over 4 tokens.
    fn dump(folder: &Folder) -> (String, Vec<f32>) {
        let values = weights(24, 4, 1);
        let metadata = [("tokens", r#"["The", "Ġcat", "Ġsat", "."]"#)];
        let file =
            safetensors(&[("attentions", Dtype::F32, &[2, 3, 4, 4], bytes(&values))], &metadata);
        (folder.file("in.safetensors", file).to_str().unwrap().to_owned(), values)
    }

    /// A file of a head between two texts.
    fn dump_between(folder: &Folder) -> PathBuf {
        let values = bytes(&weights(2, 3, 1));
        folder.file(
            "between.safetensors",
            safetensors(&[("attentions", Dtype::F32, &[1, 1, 2, 3], values)], &[]),
        )
    }

    #[test]
    fn every_matrix_of_every_example_in_every_format() {
        let folder = Folder::new();
        for example in Example::ALL {
            let walkthrough = Walkthrough::run(example, &Settings::default()).unwrap();
            for (i, step) in walkthrough.steps.iter().enumerate() {
                // Each in one format, and the weights in all of them.
                let all = step.key == Quantity::Weights.into();
                // A table of numbers of several units has no colours.
                let is_table = step.kind == Kind::Table;
                let formats =
                    Format::ALL.into_iter().filter(|format| !is_table || *format != Format::Png);
                for format in
                    formats.skip(if all { 0 } else { i % 5 }).take(if all { 5 } else { 1 })
                {
                    let to = folder.path(&format!("out.{}", format.extension()));
                    let file = exported(&[example.name(), "--matrix", &step.key.to_string()], &to);
                    if format == Format::Safetensors {
                        assert_eq!(
                            numbers(&file),
                            step.matrix.as_slice(),
                            "{} {}",
                            example.name(),
                            step.key
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_head_a_mean_and_rollout_of_a_file() {
        let folder = Folder::new();
        let (file, values) = dump(&folder);
        let to = folder.path("out.safetensors");
        let head = numbers(&exported(&[&file, "--layer", "1", "--head", "2"], &to));
        assert_eq!(head, values[5 * 16..]);
        let near = |found: Vec<f32>, heads: &[usize]| {
            for (k, found) in found.into_iter().enumerate() {
                let mean =
                    heads.iter().map(|h| values[h * 16 + k]).sum::<f32>() / heads.len() as f32;
                assert!((found - mean).abs() < 1e-6, "{found}, not {mean}");
            }
        };
        near(numbers(&exported(&[&file, "--layer", "1"], &to)), &[3, 4, 5]);
        near(numbers(&exported(&[&file, "--head", "2"], &to)), &[2, 5]);
        near(numbers(&exported(&[&file], &to)), &[0, 1, 2, 3, 4, 5]);
        let rollout = numbers(&exported(&[&file, "--rollout"], &to));
        assert!(
            rollout.chunks(4).all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-6),
            "{rollout:?}"
        );
        let svg = exported(
            &[&file, "--layer", "0", "--head", "1", "--map", "magma", "--log"],
            &folder.path("out.svg"),
        );
        let svg = String::from_utf8(svg).unwrap();
        assert!(svg.contains("Layer 0, head 1") && svg.contains("␣cat"), "{svg}");
    }

    #[test]
    fn weights_are_the_attention_of_a_file_whatever_it_calls_them() {
        let folder = Folder::new();
        let (file, values) = dump(&folder);
        let to = folder.path("out.safetensors");
        let head = ["--matrix", "weights", "--layer", "1", "--head", "2"];
        assert_eq!(numbers(&exported(&[&[&file[..]], &head[..]].concat(), &to)), values[5 * 16..]);
        // By layers; and beside something that is called so.
        let layers: Vec<Vec<u8>> = values.chunks(3 * 16).map(bytes).collect();
        let shape = &[3, 4, 4][..];
        let named = |names: [&str; 2]| {
            let tensors = [
                (names[0], Dtype::F32, shape, layers[0].clone()),
                (names[1], Dtype::F32, shape, layers[1].clone()),
            ];
            folder.file("two.safetensors", safetensors(&tensors, &[])).to_str().unwrap().to_owned()
        };
        let file = named(["layer_0", "layer_1"]);
        assert_eq!(numbers(&exported(&[&[&file[..]], &head[..]].concat(), &to)), values[5 * 16..]);
        let file = named(["attentions", "weights"]);
        assert_eq!(
            numbers(&exported(&[&file, "--matrix", "weights", "--head", "2", "--layer", "0"], &to)),
            values[5 * 16..]
        );
        // Nothing says which of two is meant.
        let file = named(["first", "second"]);
        let output = export(&[&file, "--matrix", "weights", "--to", to.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("first") && error.contains("second"), "{error}");
    }

    #[test]
    fn a_masked_cell_makes_no_weight_signed() {
        let folder = Folder::new();
        let values = [1.0, f32::NEG_INFINITY, 0.5, 0.5];
        let file = safetensors(&[("attentions", Dtype::F32, &[1, 1, 2, 2], bytes(&values))], &[]);
        let file = folder.file("in.safetensors", file);
        let svg = exported(
            &[file.to_str().unwrap(), "--layer", "0", "--head", "0"],
            &folder.path("out.svg"),
        );
        let [r, g, b] = Map::YellowOrangeRed.at(1.0);
        assert!(
            String::from_utf8(svg).unwrap().contains(&format!("fill=\"#{r:02x}{g:02x}{b:02x}\""))
        );
    }

    #[test]
    fn what_a_session_shows() {
        let folder = Folder::new();
        let (file, values) = dump(&folder);
        let (to, saved) = (folder.path("out.safetensors"), folder.path("mine.regard.json"));
        let export_of = |session: &Session| {
            session.write(&saved).unwrap();
            numbers(&exported(&[saved.to_str().unwrap()], &to))
        };
        let mut session = attention_session(Path::new(&file));
        session.heads.show(HeadId { layer: 1, head: 0 });
        assert_eq!(export_of(&session), values[3 * 16..4 * 16]);
        // Rollout between two texts has no meaning, and no other matrix takes its place.
        let between = dump_between(&folder);
        let mut rollout = attention_session(&between);
        rollout.heads.shown = Shown::Rollout;
        rollout.write(&saved).unwrap();
        let output = export(&[saved.to_str().unwrap(), "--to", to.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2));
        session.room = Room::Laboratory;
        session.laboratory.inputs.tokens = 10;
        let weights = export_of(&session);
        assert!(weights.chunks(10).all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-5));
        assert_eq!(weights[1], 0.0, "masked");
        session.room = Room::Walkthrough;
        let walkthrough = Walkthrough::run(Example::ALL[0], &Settings::default()).unwrap();
        assert_eq!(
            export_of(&session),
            walkthrough.step(Quantity::Weights).unwrap().matrix.as_slice()
        );
        let flags =
            export(&[saved.to_str().unwrap(), "--layer", "1", "--to", to.to_str().unwrap()]);
        assert_eq!(flags.status.code(), Some(2));
    }

    #[test]
    fn bad_input_is_exit_2_and_says_what_there_is() {
        let folder = Folder::new();
        let (file, _) = dump(&folder);
        let broken = folder.file("broken.npz", b"PK\x03\x04").to_str().unwrap().to_owned();
        let to = folder.path("out.svg");
        let to = to.to_str().unwrap();
        for (args, reason) in [
            (&["the-dog-sat", "--to", to][..], "the-cat-sat"),
            (&["the-cat-sat", "--to", to], "raw_scores"),
            (&["the-cat-sat", "--matrix", "wights", "--to", to], "weights"),
            (&["the-cat-sat", "--matrix", "weights", "--head", "1", "--to", to], "--head"),
            (&["the-cat-sat", "--matrix", "weights", "--to", "out.bmp"], ".safetensors"),
            (&["the-cat-sat", "--matrix", "weights", "--map", "jet", "--to", to], "viridis"),
            (&["the-cat-sat", "--matrix", "weights"], "--to"),
            (&[&file, "--layer", "2", "--to", to], "from 0 to 1"),
            (&[&file, "--head", "3", "--to", to], "from 0 to 2"),
            (&[&file, "--matrix", "scores", "--to", to], "attentions"),
            (&[&broken, "--to", to], "broken.npz"),
        ] {
            let output = export(args);
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
            assert!(error.contains(reason), "{args:?}: {error}");
        }
        assert!(!Path::new(to).exists());
        let unwritable =
            export(&["the-cat-sat", "--matrix", "weights", "--to", "/no/such/folder/out.csv"]);
        assert_eq!(unwritable.status.code(), Some(1));
    }
}
