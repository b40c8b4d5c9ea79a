//! Matrices written out, and read back by other means.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use regard_figure::{Error, Format, HIDDEN, Label, Look, Map, NOT_A_NUMBER, Palette, Table};
use regard_heads::{AttentionMaps, HeadId, readable, unattended};
use regard_tests::attention_files::{Folder, weights};

fn palette() -> Palette {
    Palette::weights(1.0, Look { map: Map::Viridis, logarithmic: false })
}

fn tokens(labels: &[&str]) -> Vec<Label> {
    readable(labels.iter().map(|t| (*t).to_owned()).collect())
}

fn encode(format: Format, values: &[f32], rows: &[Label], cols: &[Label]) -> Vec<u8> {
    let table = Table {
        title: "A < B",
        name: "weights",
        values,
        masked: f32::NEG_INFINITY,
        rows,
        cols,
        axes: ["query", "key"],
    };
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
        let numbers: Vec<f32> = records[i + 1][1..].iter().map(|x| x.parse().unwrap()).collect();
        assert_eq!(numbers, values[i * 5..][..5]);
    }
    let odd =
        encode(Format::Csv, &[f32::NAN, f32::NEG_INFINITY], &tokens(&["a"]), &tokens(&["", "b"]));
    assert_eq!(String::from_utf8(odd).unwrap(), "query \\ key,,b\na,NaN,-inf\n");
}

/// A masked cell of weights is marked by −∞ and has the weight 0.
#[test]
fn a_masked_weight_is_0_in_every_file_and_keeps_its_colour() {
    let labels = tokens(&["a", "b"]);
    let values = [1.0, f32::NEG_INFINITY, 0.25, 0.75];
    let table = Table {
        title: "",
        name: "weights",
        values: &values,
        masked: 0.0,
        rows: &labels,
        cols: &labels,
        axes: ["query", "key"],
    };
    let file = |format| table.encode(format, palette()).unwrap();
    let text = |format| String::from_utf8(file(format)).unwrap();
    assert!(text(Format::Csv).contains("a,1,0\n"), "{}", text(Format::Csv));
    let svg = text(Format::Svg);
    assert!(!svg.contains('∞') && svg.contains(">masked (0)</text>"), "{svg}");
    let (width, _, image) = pixels(&file(Format::Png));
    assert_eq!(image[3 * (width - 1)..][..3], HIDDEN);
    assert!(file(Format::Npy).ends_with(&[0.0_f32, 0.25, 0.75].map(f32::to_le_bytes).concat()));
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
        let file = folder
            .file(&format!("a.{}", format.extension()), encode(format, &values, &labels, &labels));
        let maps = AttentionMaps::open(&file, None, &unattended).unwrap();
        assert_eq!(&*maps.head(HeadId { layer: 0, head: 0 }), values);
        if format == Format::Safetensors {
            assert_eq!(maps.name(), "weights");
            assert_eq!((maps.query_tokens(), maps.key_tokens()), (Some(&*labels), Some(&*labels)));
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
    let bar: Vec<&str> =
        ["0", "0.5", "1"].into_iter().filter(|x| svg.contains(&format!(">{x}</text>"))).collect();
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
    let labels = Label::numbers(100);
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
    let table = |values, rows, cols| Table {
        title: "",
        name: "a",
        values,
        masked: f32::NEG_INFINITY,
        rows,
        cols,
        axes: ["", ""],
    };
    let one = tokens(&["a"]);
    for &format in Format::ALL {
        assert!(matches!(
            table(&[1.0, 2.0], &one, &one).encode(format, palette()),
            Err(Error::Shape { values: 2, .. })
        ));
        assert!(matches!(table(&[], &one, &[]).encode(format, palette()), Err(Error::Empty)));
    }
    let error = Format::of("a.bmp".as_ref()).unwrap_err();
    assert!(error.to_string().contains(".svg"), "{error}");
    assert_eq!(Format::of("a.SVG".as_ref()).unwrap(), Format::Svg);
}
