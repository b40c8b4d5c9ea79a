//! Writes matrices, and reads them back with independent code.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use regard_figure::{
    Error, Format, Grid, Ground, Label, LabelledMatrix, Look, Map, Palette, Small,
};
use regard_heads::{AttentionMaps, HeadId, from_disk, readable, unattended};
use regard_tests::attention_files::{Folder, weights};

fn palette() -> Palette {
    Palette::weights(1.0, Look { map: Map::Viridis, ..Look::default() })
}

fn tokens(labels: &[&str]) -> Vec<Label> {
    readable(labels.iter().map(|t| (*t).to_owned()).collect())
}

fn matrix(values: &[f32], rows: &[Label], cols: &[Label]) -> LabelledMatrix {
    LabelledMatrix {
        title: "A < B".to_owned(),
        name: "weights".to_owned(),
        values: Arc::new(values.to_vec()),
        masked: f32::NEG_INFINITY,
        rows: rows.to_vec(),
        cols: cols.to_vec(),
        axes: ["query", "key"],
        palette: palette(),
    }
}

fn encode(format: Format, values: &[f32], rows: &[Label], cols: &[Label]) -> Vec<u8> {
    matrix(values, rows, cols).encode(format).unwrap()
}

/// Pixels of a PNG: width, height, RGB.
fn pixels(file: &[u8]) -> (usize, usize, Vec<u8>) {
    let mut decoder = png::Decoder::new(std::io::Cursor::new(file));
    decoder.set_transformations(png::Transformations::EXPAND); // colours in place of places in a table
    let mut reader = decoder.read_info().unwrap();
    let mut image = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut image).unwrap();
    assert_eq!(info.color_type, png::ColorType::Rgb);
    (info.width as usize, info.height as usize, image)
}

#[test]
fn a_bare_png_has_a_square_for_each_cell_in_its_colour() {
    let values = [0.0, 0.25, 1.0, f32::NAN, f32::NEG_INFINITY, 0.5];
    let (rows, cols) = (tokens(&["a", "b"]), tokens(&["a", "b", "c"]));
    let file = matrix(&values, &rows, &cols).bare_png().unwrap();
    let (width, height, image) = pixels(&file);
    assert_eq!((width, height), (768, 512));
    for (i, x) in values.iter().enumerate() {
        for (dx, dy) in [(0, 0), (255, 255)] {
            let at = ((i / 3 * 256 + dy) * width + i % 3 * 256 + dx) * 3;
            assert_eq!(image[at..at + 3], palette().rgb(*x), "{x}");
        }
    }
}

/// The place of the `<rect>` that has this colour in an SVG: left, top, width and height.
fn rect(svg: &str, [r, g, b]: [u8; 3]) -> [f64; 4] {
    let fill = format!("fill=\"#{r:02x}{g:02x}{b:02x}\"/>");
    let line = svg.lines().find(|line| line.starts_with("<rect") && line.ends_with(&fill)).unwrap();
    ["x", "y", "width", "height"].map(|name| {
        let (_, rest) = line.split_once(&format!(" {name}=\"")).unwrap();
        rest.split_once('"').unwrap().0.parse().unwrap()
    })
}

/// The PNG shows the SVG at twice its size: cells have the same places, and labels stand left of a row, above a column and
/// beside the bar.
#[test]
fn a_png_has_the_cells_the_labels_and_the_bar_of_the_svg() {
    let values = [0.0, 0.25, 1.0, f32::NAN, f32::NEG_INFINITY, 0.5];
    let (rows, cols) = (tokens(&["one", "two"]), tokens(&["a", "b", "c"]));
    let (width, _, image) = pixels(&encode(Format::Png, &values, &rows, &cols));
    let svg = String::from_utf8(encode(Format::Svg, &values, &rows, &cols)).unwrap();
    let pixel = |x: f64, y: f64| {
        let at = ((2.0 * y) as usize * width + (2.0 * x) as usize) * 3;
        [image[at], image[at + 1], image[at + 2]]
    };
    for x in values {
        let color = palette().rgb(x);
        let [left, top, wide, high] = rect(&svg, color);
        for (dx, dy) in [(0.1, 0.1), (0.9, 0.1), (0.1, 0.9), (0.9, 0.9)] {
            assert_eq!(pixel(left + dx * wide, top + dy * high), color, "{x}");
        }
    }
    let darkest = |from: [f64; 2], to: [f64; 2]| {
        let steps =
            |a: f64, b: f64| (0..=((b - a) * 2.0) as usize).map(move |i| a + i as f64 / 2.0);
        steps(from[0], to[0])
            .flat_map(|x| steps(from[1], to[1]).map(move |y| (x, y)))
            .map(|(x, y)| pixel(x, y).iter().copied().max().unwrap())
            .min()
            .unwrap()
    };
    let [left, top, wide, high] = rect(&svg, palette().rgb(values[0]));
    let ink = 0x60;
    assert!(darkest([left - 28.0, top + 8.0], [left - 2.0, top + high - 8.0]) < ink, "row");
    assert!(darkest([left, top - 16.0], [left + wide, top - 2.0]) < ink, "column");
    assert!(darkest([8.0, 4.0], [60.0, 24.0]) < ink, "title");
    let right = left + 3.0 * wide;
    assert!(darkest([right + 36.0, top - 6.0], [right + 50.0, top + 6.0]) < ink, "bar");
    assert_eq!(pixel(2.0, 2.0), [255; 3], "paper");
    // A longer label needs more room; a title that is wider than the cells is not cut.
    let long = tokens(&["one", "two and three quarters"]);
    assert!(pixels(&encode(Format::Png, &values, &long, &cols)).0 > width);
}

#[test]
fn a_png_of_many_cells_has_a_pixel_for_each() {
    // At the usual scale, a cell is less than a pixel from 1120 on.
    const N: usize = 1200;
    let labels = Label::numbers(N);
    let mut values = vec![0.0; N * N];
    for i in 0..N {
        values[i * N + i] = 1.0;
    }
    let (width, height, image) = pixels(&encode(Format::Png, &values, &labels, &labels));
    assert!(width >= N && height >= N);
    let [last, first] = [palette().rgb(1.0), palette().rgb(0.0)];
    let count = |color: [u8; 3]| image.chunks(3).filter(|pixel| *pixel == color).count();
    assert!(count(last) >= N && count(first) >= N * (N - 1), "{} {}", count(last), count(first));
}

/// The bits of the numbers of a page: zlib packs the highest byte of each, then the next byte of each, and so on.
fn numbers_of(data: &serde_json::Value) -> Vec<u32> {
    use base64::Engine as _;
    use std::io::Read as _;
    let packed = data["numbers"].as_str().unwrap();
    let packed = base64::engine::general_purpose::STANDARD.decode(packed).unwrap();
    let mut planes = Vec::new();
    flate2::read::ZlibDecoder::new(&packed[..]).read_to_end(&mut planes).unwrap();
    let n = planes.len() / 4;
    (0..n).map(|i| u32::from_be_bytes([0, 1, 2, 3].map(|byte| planes[byte * n + i]))).collect()
}

/// The data of the script of a page.
fn data_of(page: &str) -> serde_json::Value {
    let (_, data) = page.split_once("<script type=\"application/json\">").unwrap();
    serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap()
}

/// The page is one file: its only address is the namespace of SVG. Its script has every number and label.
#[test]
fn a_page_has_all_numbers_and_needs_no_network() {
    let values = [0.0, 0.25, 1.0, f32::NAN, f32::NEG_INFINITY, 0.5];
    let (rows, cols) = (tokens(&["</script>", "two"]), tokens(&["<!--<script>", "Ġb", "c"]));
    let page = String::from_utf8(encode(Format::Html, &values, &rows, &cols)).unwrap();
    let addresses: Vec<&str> =
        page.match_indices("http").map(|(at, _)| &page[at..at + 26]).collect();
    assert_eq!(addresses, ["http://www.w3.org/2000/svg"], "{page}");
    assert!(
        !page.contains("src=") && !page.contains("@import") && !page.contains("url(h"),
        "{page}"
    );
    assert_eq!(page.matches("</script>").count(), 2, "no token ends a script");
    // After these, a page waits for the end of a second script before that of the first.
    assert_eq!((page.matches("<script").count(), page.matches("<!--").count()), (2, 0));
    let data = data_of(&page);
    let cells = &data["cells"][0];
    let label = |axis: &str, i: usize| {
        let list = cells[axis].as_u64().unwrap() as usize;
        data["labels"][list][i].as_str().unwrap().to_owned()
    };
    assert_eq!(label("rows", 0), "</script>");
    assert_eq!([label("cols", 0), label("cols", 1)], ["<!--<script>", "␣b"]);
    assert_eq!(
        (numbers_of(&data), &data["digits"]),
        (values.map(f32::to_bits).to_vec(), &5.into())
    );
    // The script finds a cell by its place and size in the SVG.
    let (_, svg) = page.split_once("<svg").unwrap();
    let [left, top, wide, _] = rect(svg, palette().rgb(0.0));
    let at = |i: usize| cells["at"][i].as_f64().unwrap();
    assert!((at(0) - left).abs() < 0.01 && (at(1) - top).abs() < 0.01, "two decimals");
    assert_eq!(cells["cell"][0], wide);
    // Text and paper follow the theme of the reader.
    assert!(page.contains("prefers-color-scheme: dark") && svg.contains("var(--paper)"), "{page}");
    assert!(!svg.contains("#fff\"") && !svg.contains("#222\""), "{svg}");
    let labels = [Label::numbers(2049), Label::numbers(2048)];
    let error =
        matrix(&vec![0.0; 2049 * 2048], &labels[0], &labels[1]).encode(Format::Html).unwrap_err();
    assert!(matches!(error, Error::TooLarge(_)) && error.to_string().contains(".npy"), "{error}");
}

#[test]
fn lines_are_as_strong_as_the_weights() {
    let labels = tokens(&["the", "Ġcat", "Ġsat"]);
    let values = [1.0, 0.0, 0.0, 0.25, 0.75, f32::NEG_INFINITY, 0.01, 0.49, 0.5];
    let lines = matrix(&values, &labels, &labels).lines().unwrap();
    let svg = lines.svg().unwrap();
    well_formed(&svg);
    let drawn = |tip: &str| svg.contains(&format!("<title>{tip}</title>"));
    assert!(drawn("the → the: 1.0000") && drawn("␣sat → ␣cat: 0.4900"), "{svg}");
    assert_eq!(svg.matches("<polyline").count(), 5, "neither 0 nor masked nor 1 %: {svg}");
    assert!(svg.contains("stroke-opacity=\"1.000\"") && svg.contains("stroke-opacity=\"0.500\""));
    assert_eq!(svg.matches(">␣cat</text>").count(), 2);
    let (width, height, image) = pixels(&lines.png().unwrap());
    assert!(width > 500 && height > 100);
    assert!(image.chunks(3).any(|p| p[2] > p[0].saturating_add(60)), "a blue line");
    assert!(lines.html().unwrap().contains("the → the: 1.0000"));
    assert!(matches!(lines.encode(Format::Csv), Err(Error::NoPicture)));
    // A difference has a colour for each sign.
    let difference = LabelledMatrix {
        palette: Palette::signed(1.0, Look::default()),
        ..matrix(&[0.9, -0.9], &labels[..1], &labels[..2])
    };
    let svg = difference.lines().unwrap().svg().unwrap();
    let ink = |line: &&str| line.split("stroke=").nth(1).map(|rest| rest[..9].to_owned());
    let inks: Vec<_> = svg.split('<').filter(|line| line.starts_with("polyline")).collect();
    assert!(inks.len() == 2 && ink(&inks[0]) != ink(&inks[1]), "{inks:?}");
    let many = Label::numbers(401);
    let error = matrix(&vec![0.0; 401], &many, &labels[..1]).lines().unwrap_err();
    assert!(error.to_string().contains("401 tokens are too many"), "{error}");
}

#[test]
fn a_grid_has_every_matrix_with_its_row_and_column() {
    let labels = tokens(&["a", "b"]);
    let matrix = |i: usize| Small {
        name: format!("layer {}, head {}", i / 3, i % 3),
        values: Arc::new(vec![1.0, 0.0, i as f32 / 8.0, 1.0]),
        palette: palette(),
    };
    let grid = Grid {
        title: "All heads".to_owned(),
        rows: vec!["layer 0".to_owned(), "layer 1".to_owned()],
        cols: (0..3).map(|i| format!("head {i}")).collect(),
        labels: [&labels, &labels],
        axes: ["query", "key"],
        matrices: (0..6).map(matrix).collect(),
    };
    let svg = grid.figure().svg().unwrap();
    well_formed(&svg);
    for name in ["All heads", "layer 0", "layer 1", "head 0", "head 2"] {
        assert_eq!(svg.matches(&format!(">{name}</text>")).count(), 1, "{name}");
    }
    // Head 2 is to the right of head 1, and layer 1 below layer 0.
    let at = |i: usize| rect(&svg, palette().rgb(i as f32 / 8.0));
    assert!(at(2)[0] > at(1)[0] && at(2)[1] == at(1)[1] && at(4)[1] > at(1)[1]);
    let page = grid.figure().html().unwrap();
    assert!(page.contains("\"name\":\"layer 1, head 2\""), "{page}");
    assert_eq!(page.matches(">0.5</text>").count(), 1, "one scale, one bar");
    let data = data_of(&page);
    assert_eq!(data["labels"], serde_json::json!([["a", "b"]]), "all matrices share their labels");
    assert_eq!(numbers_of(&data).len(), 6 * 4);
}

/// A model of 24 layers of 16 heads over 64 tokens, as `--view grid` shows it. A rectangle for each cell would be 120 MB.
#[test]
fn a_page_of_all_heads_is_small_and_keeps_three_digits() {
    const N: usize = 64;
    let labels = Label::numbers(N);
    let values = |seed: u32| -> Vec<f32> {
        let dense = weights(N, N, seed);
        (0..N * N).map(|i| if i % N > i / N { 0.0 } else { dense[i] }).collect()
    };
    let matrices: Vec<Small> = (0..24 * 16)
        .map(|i| {
            let values = Arc::new(values(i));
            Small { name: format!("head {}.{}", i / 16, i % 16), values, palette: palette() }
        })
        .collect();
    let grid = Grid {
        title: "24 layers × 16 heads".to_owned(),
        rows: (0..24).map(|layer| format!("{layer}.x")).collect(),
        cols: (0..16).map(|head| format!("x.{head}")).collect(),
        labels: [&labels, &labels],
        axes: ["query", "key"],
        matrices,
    };
    let page = grid.figure().html().unwrap();
    assert!(page.len() < 3_000_000, "{}", page.len());
    assert_eq!(page.matches("<image").count(), 24 * 16);
    let data = data_of(&page);
    assert_eq!(data["digits"], 3);
    let found = numbers_of(&data);
    let all = grid.matrices.iter().flat_map(|small| small.values.iter());
    for (found, x) in found.into_iter().map(f32::from_bits).zip(all) {
        // 11 significant bits: an error of at most half a unit of the last, 2⁻¹¹ of the number.
        assert!((found - x).abs() <= x.abs() / 2048.0, "{found} {x}");
    }
}

/// A name of a gradient or a pattern is shared by a page: where the first figure is hidden, the second loses what it refers to.
#[test]
fn two_figures_in_one_page_share_no_names() {
    let labels = tokens(&["a", "b"]);
    let svg = encode(Format::Svg, &[1.0, f32::NEG_INFINITY, 0.25, 0.75], &labels, &labels);
    let svg = String::from_utf8(svg).unwrap();
    assert!(!svg.contains(" id=") && !svg.contains("url(#") && !svg.contains("href=\"#"), "{svg}");
}

/// Four queries of 1500 keys are a strip with rows that can be read, not a hairline, and so is its transpose.
#[test]
fn attention_that_is_not_square_has_a_scale_for_each_side() {
    let (few, many) = (tokens(&["one", "two", "three", "four"]), Label::numbers(1500));
    let values = weights(4, 1500, 1);
    for (rows, cols) in [(&few, &many), (&many, &few)] {
        let svg = String::from_utf8(encode(Format::Svg, &values, rows, cols)).unwrap();
        well_formed(&svg);
        let image = svg.split_once("<image ").unwrap().1;
        let side = |name: &str| -> f64 {
            let (_, rest) = image.split_once(&format!("{name}=\"")).unwrap();
            rest.split_once('"').unwrap().0.parse().unwrap()
        };
        let (short, long) = (side("width").min(side("height")), side("width").max(side("height")));
        assert!(short >= 100.0 && (550.0..600.0).contains(&long), "{short} × {long}");
        for token in ["one", "four"] {
            assert!(svg.contains(&format!(">{token}</text>")), "{token}");
        }
    }
    // A grid has as many pixels a side as a matrix has cells.
    let small = |i: usize| Small {
        name: i.to_string(),
        values: Arc::new(weights(4, 94, i as u32)),
        palette: palette(),
    };
    let grid = Grid {
        title: "cross".to_owned(),
        rows: vec!["0.x".to_owned()],
        cols: (0..4).map(|head| format!("x.{head}")).collect(),
        labels: [&few, &many[..94]],
        axes: ["query", "key"],
        matrices: (0..4).map(small).collect(),
    };
    let svg = grid.figure().svg().unwrap();
    assert!(svg.contains(r#"width="160.00" height="56.00""#), "{svg}");
}

#[test]
fn the_columns_of_a_table_are_as_wide_as_its_numbers() {
    let labels = Label::numbers(2);
    let table = matrix(&[-0.000_123, 12.5, -0.0456, 1.0], &labels, &labels);
    let svg = LabelledMatrix { palette: Palette::PLAIN, ..table }.encode(Format::Svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    for number in ["−0.000123", "12.5", "−0.0456", "1"] {
        assert!(svg.contains(&format!(">{number}</text>")), "{number}: {svg}");
    }
}

/// What does not fit in its cell is not drawn, and no number overlaps the next.
#[test]
fn large_and_tiny_numbers_have_exponents_and_stay_in_their_cells() {
    let labels = Label::numbers(3);
    for (values, drawn) in [
        ([3e38, -3e38, 1.5e38, 2e30, 5e8, 1_234_567.0, 0.0, 1.0, -12.5], "−3e38"),
        ([1e-7, 2.5e-7, 0.0, 1e-7, 2.5e-7, 0.0, 1e-7, 2.5e-7, 0.0], "2.5e−7"),
        ([999_999.0, -999_999.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], "−999999"),
    ] {
        let svg = String::from_utf8(encode(Format::Svg, &values, &labels, &labels)).unwrap();
        // A number in a cell is set smaller than a label, in the middle.
        let numbers: Vec<&str> = svg
            .lines()
            .filter(|line| line.contains(r#"font-size="11.0" text-anchor="middle""#))
            .map(|line| line.split_once('>').unwrap().1.split_once('<').unwrap().0)
            .collect();
        assert!(numbers.iter().all(|text| text.chars().count() <= 6), "{numbers:?}");
        let fits = drawn.chars().count() <= 6;
        assert_eq!(numbers.contains(&drawn), fits, "{drawn}: {numbers:?}");
    }
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
    let matrix = LabelledMatrix { masked: 0.0, ..matrix(&values, &labels, &labels) };
    let file = |format| matrix.encode(format).unwrap();
    let text = |format| String::from_utf8(file(format)).unwrap();
    assert!(text(Format::Csv).contains("a,1,0\n"), "{}", text(Format::Csv));
    let svg = text(Format::Svg);
    assert!(!svg.contains('∞') && svg.contains(">masked (0)</text>"), "{svg}");
    // A hatch stands for the number, in the cell and beside the colour bar.
    assert_eq!(svg.matches(r#"<path class="hatch""#).count(), 2, "{svg}");
    assert_eq!(svg.matches(">0</text>").count(), 1, "the tick of the colour bar alone: {svg}");
    let (width, _, image) = pixels(&matrix.bare_png().unwrap());
    assert_eq!(image[3 * (width - 1)..][..3], Ground::Paper.rgb());
    assert!(file(Format::Npy).ends_with(&[0.0_f32, 0.25, 0.75].map(f32::to_le_bytes).concat()));
}

/// The mask of a program without −∞: the numbers of the other cells keep their decimals.
#[test]
fn a_finite_mask_has_a_hatch_in_place_of_its_number() {
    let labels = tokens(&["a", "b"]);
    let values = [1.25, f32::NEG_INFINITY, 0.25, 0.75];
    let matrix = LabelledMatrix { masked: f32::MIN, ..matrix(&values, &labels, &labels) };
    let svg = String::from_utf8(matrix.encode(Format::Svg).unwrap()).unwrap();
    assert!(svg.contains(">masked (−3.4e38)</text>") && svg.contains(">1.25</text>"), "{svg}");
    assert_eq!(svg.matches("e38").count(), 1, "in the legend alone: {svg}");
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
        let maps = AttentionMaps::open(&from_disk, &file, None, &unattended).unwrap();
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

/// Checks that tags close in the right order, and that no `&` is bare.
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
    let one = tokens(&["a"]);
    for &format in Format::ALL {
        let refused = matrix(&[1.0, 2.0], &one, &one).encode(format);
        assert!(matches!(refused, Err(Error::Shape { values: 2, .. })));
        assert!(matches!(matrix(&[], &one, &[]).encode(format), Err(Error::Empty)));
    }
    let error = Format::of("a.bmp".as_ref()).unwrap_err();
    assert!(error.to_string().contains(".svg"), "{error}");
    assert_eq!(Format::of("a.SVG".as_ref()).unwrap(), Format::Svg);
}
