//! Files of attention: accepted files, refused files, and the measures, against plain loops in `f64`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::ops::ControlFlow;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::path::Path;

use half::{bf16, f16};
use regard_figure::Look;
use regard_heads::{
    AttentionMaps, AttentionShape, DefectiveRows, Error, HeadId, MapPart, Measure, Survey, Warning,
    from_disk, unattended,
};
use safetensors::Dtype;
use zip::CompressionMethod;

use regard_tests::attention_files::{Folder, attention, bytes, npy, npz, safetensors, weights};
use regard_tests::rounding::gamma;

const FIRST: HeadId = HeadId { layer: 0, head: 0 };

fn open(path: &Path) -> Result<AttentionMaps, Error> {
    AttentionMaps::open(&from_disk, path, None, &unattended)
}

fn opened(bytes: &[u8]) -> Result<AttentionMaps, Error> {
    open(&Folder::new().file("a.safetensors", bytes))
}

fn survey(maps: &AttentionMaps) -> Survey {
    Survey::new(maps, &unattended).unwrap()
}

fn texts(tokens: Option<&[regard_figure::Label]>) -> Vec<&str> {
    tokens.unwrap().iter().map(|t| t.text.as_str()).collect()
}

#[track_caller]
fn assert_says(error: &Error, part: &str) {
    assert!(error.to_string().contains(part), "{error} does not say {part}");
}

/// The header of a file may hold any number. No memory is reserved for it.
#[test]
fn a_header_as_large_as_memory_is_refused() {
    let folder = Folder::new();
    let path = folder.file("model.gguf", 14_000_000_000_u64.to_le_bytes());
    // The file is sparse.
    std::fs::File::options().write(true).open(&path).unwrap().set_len(15_000_000_000).unwrap();
    assert_says(&open(&path).unwrap_err(), "header");
}

mod opens {
    use super::*;

    #[test]
    fn two_to_five_dimensions() {
        for (shape, expected) in [
            (&[3, 4][..], [1, 1, 3, 4]),
            (&[2, 3, 4], [1, 2, 3, 4]),
            (&[5, 2, 3, 4], [5, 2, 3, 4]),
            (&[5, 1, 2, 3, 4], [5, 2, 3, 4]),
        ] {
            let n = shape.iter().product();
            let numbers: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let maps = opened(&attention(shape, &numbers)).unwrap();
            let [layers, heads, queries, keys] = expected;
            assert_eq!(maps.shape(), AttentionShape { layers, heads, queries, keys });
            let read: Vec<f32> =
                maps.shape().ids().flat_map(|id| maps.head(id).into_owned()).collect();
            assert_eq!(read, numbers);
        }
    }

    #[test]
    fn every_type_of_number_in_every_kind_of_file() {
        // All types hold these numbers exactly.
        let numbers = [0.5_f32, 0.25, 0.25, 0.0, 1.0, 0.0, 0.125, 0.375, 0.5];
        let half =
            numbers.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect::<Vec<u8>>();
        let brain =
            numbers.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect::<Vec<u8>>();
        let double = numbers.iter().flat_map(|x| f64::from(*x).to_le_bytes()).collect::<Vec<u8>>();
        let single =
            |dtype, bytes: &[u8]| safetensors(&[("a", dtype, &[3, 3], bytes.to_vec())], &[]);
        let archived =
            |descr, data: &[u8], method| npz(&[("a.npy", npy(descr, "(3, 3)", data))], method);
        for file in [
            single(Dtype::F32, &bytes(&numbers)),
            single(Dtype::F16, &half),
            single(Dtype::BF16, &brain),
            single(Dtype::F64, &double),
            npy("<f4", "(3, 3)", &bytes(&numbers)),
            npy("<f2", "(3, 3)", &half),
            npy("<f8", "(1, 3, 3)", &double),
            archived("<f4", &bytes(&numbers), CompressionMethod::Stored),
            archived("<f8", &double, CompressionMethod::Deflated),
            archived("<f2", &half, CompressionMethod::Deflated),
        ] {
            assert_eq!(&*opened(&file).unwrap().head(FIRST), numbers);
        }
    }

    #[test]
    fn a_tensor_a_layer_in_the_order_of_their_numbers() {
        let layer = |x: f32| bytes(&[x; 8]);
        let tensors: Vec<_> = [("layer_10", 10.0), ("layer_2", 2.0), ("layer_9", 9.0)]
            .map(|(name, x)| (name, Dtype::F32, &[1, 2, 2, 2][..], layer(x)))
            .to_vec();
        let maps = opened(&safetensors(&tensors, &[])).unwrap();
        assert_eq!((maps.name(), maps.shape().layers, maps.shape().heads), ("layer_*", 3, 2));
        for (layer, number) in [(0, 2), (1, 9), (2, 10)] {
            assert_eq!(maps.layer_number(layer), number);
            assert_eq!(maps.head(HeadId { layer, head: 1 })[0], number as f32);
            assert_eq!(maps.find(number, 1).unwrap(), HeadId { layer, head: 1 });
        }
        let none = "no layer 3: the file has 3 layers, from 2 to 10";
        assert_says(&maps.find(3, 0).unwrap_err(), none);
        assert_says(&maps.find(2, 2).unwrap_err(), "from 0 to 1");
    }

    #[test]
    fn one_of_several_attentions_by_name() {
        let tensor = |name, x| (name, Dtype::F32, &[1, 1][..], bytes(&[x]));
        let folder = Folder::new();
        let tensors = [
            tensor("encoder.0", 1.0),
            tensor("encoder.1", 2.0),
            tensor("cross.0", 3.0),
            tensor("cross.1", 4.0),
        ];
        let path = folder.file("a.safetensors", safetensors(&tensors, &[]));
        assert_says(&open(&path).unwrap_err(), "name one of cross.*, encoder.*");
        let cross = AttentionMaps::open(&from_disk, &path, Some("cross.*"), &unattended).unwrap();
        assert_eq!(cross.head(HeadId { layer: 1, head: 0 })[0], 4.0);
        let unknown =
            AttentionMaps::open(&from_disk, &path, Some("decoder"), &unattended).unwrap_err();
        assert_says(&unknown, "no tensor `decoder`; it has cross.*, encoder.*");

        let known = [tensor("output", 1.0), tensor("scores", 2.0)];
        assert_eq!(
            opened(&safetensors(&known, &[])).unwrap().name(),
            "scores",
            "as `regard attend` writes it"
        );
        let beside = [("mask", Dtype::F32, &[2][..], bytes(&[0.0; 2])), tensor("a", 1.0)];
        assert_eq!(opened(&safetensors(&beside, &[])).unwrap().name(), "a");
    }

    /// A cache with all places of a model has queries, residual streams and scores beside the weights.
    #[test]
    fn a_cache_of_all_places_opens_its_weights_and_names_its_scores() {
        let n = 3;
        let layer = |i: usize| {
            let place = |name: &str, shape: &[usize], x: f32| {
                let name = format!("blocks.{i}.{name}");
                (name, shape.to_vec(), vec![x; shape.iter().product()])
            };
            [
                place("attn.hook_attn_scores", &[1, 2, n, n], -1.0),
                place("attn.hook_pattern", &[1, 2, n, n], i as f32),
                place("attn.hook_q", &[1, n, 2, 4], 7.0),
                place("hook_resid_pre", &[1, n, 8], 8.0),
            ]
        };
        let places: Vec<_> = (0..2).flat_map(layer).collect();
        let tensors: Vec<_> = places
            .iter()
            .map(|(name, shape, x)| (name.as_str(), Dtype::F32, &shape[..], bytes(x)))
            .collect();
        let file = safetensors(&tensors, &[]);
        let maps = opened(&file).unwrap();
        assert_eq!((maps.name(), maps.shape().layers), ("blocks.*.attn.hook_pattern", 2));
        assert_eq!(maps.head(HeadId { layer: 1, head: 1 })[0], 1.0);
        let names = ["blocks.*.attn.hook_attn_scores", "blocks.*.attn.hook_pattern"];
        assert_eq!(maps.names(), names);
        let folder = Folder::new();
        let path = folder.file("a.safetensors", file);
        let scores = AttentionMaps::open(&from_disk, &path, Some(names[0]), &unattended).unwrap();
        assert_eq!((scores.name(), scores.head(FIRST)[0]), (names[0], -1.0));
    }

    #[test]
    fn an_encoder_and_a_decoder_have_three_attentions() {
        let tensor = |name, shape: &'static [usize]| {
            let len = shape.iter().product();
            (name, Dtype::F32, shape, bytes(&vec![0.5; len]))
        };
        let tensors = [
            tensor("cross_attentions", &[1, 1, 2, 3]),
            tensor("decoder_attentions", &[1, 1, 2, 2]),
            tensor("encoder_attentions", &[1, 1, 3, 3]),
            tensor("logits", &[2, 9]),
        ];
        let maps = opened(&safetensors(&tensors, &[])).unwrap();
        assert_eq!(maps.name(), "encoder_attentions");
        assert_eq!(maps.names(), ["cross_attentions", "decoder_attentions", "encoder_attentions"]);
    }

    #[test]
    fn each_entry_of_a_batch_is_an_attention() {
        let (layers, batch, heads, n) = (2, 3, 2, 4);
        let numbers = weights(layers * batch * heads * n, n, 1);
        let at = |layer: usize, entry: usize, head: usize| {
            let size = n * n;
            &numbers[((layer * batch + entry) * heads + head) * size..][..size]
        };
        let tokens = r#"[["a", "b", "c", "d"], ["e", "f", "g", "h"], ["i", "j", "k", "l"]]"#;
        let shape = [layers, batch, heads, n, n];
        let one = [("attentions", Dtype::F32, &shape[..], bytes(&numbers))];
        let each: Vec<_> = (0..layers)
            .map(|layer| {
                let numbers = &numbers[layer * batch * heads * n * n..][..batch * heads * n * n];
                (["layer_0", "layer_1"][layer], Dtype::F32, &shape[1..], bytes(numbers))
            })
            .collect();
        let folder = Folder::new();
        for (name, file) in [("attentions", &one[..]), ("layer_*", &each[..])] {
            let path = folder.file("a.safetensors", safetensors(file, &[("tokens", tokens)]));
            let named = |entry: usize| format!("{name}[{entry}]");
            for entry in 0..batch {
                let name = named(entry);
                let wanted = (entry > 0).then_some(name.as_str());
                let maps = AttentionMaps::open(&from_disk, &path, wanted, &unattended).unwrap();
                assert_eq!((maps.name(), maps.shape().heads), (&*name, heads));
                assert_eq!(maps.names(), [0, 1, 2].map(named));
                let id = HeadId { layer: 1, head: 1 };
                assert_eq!(*maps.head(id), *at(1, entry, 1));
                assert_eq!(texts(maps.key_tokens())[0], ["a", "e", "i"][entry]);
            }
            let name = named(3);
            let beyond = AttentionMaps::open(&from_disk, &path, Some(&name), &unattended);
            assert_says(&beyond.unwrap_err(), "has no entry 3: its batch has 3, from 0");
        }
    }

    #[test]
    fn scores_are_masked_where_a_program_without_infinity_masks() {
        for mask in [f32::MIN, -1e9, -1e4] {
            let numbers: Vec<f32> =
                (0..64).map(|i| if i % 8 > i / 8 { mask } else { i as f32 / 10.0 }).collect();
            let maps = opened(&attention(&[8, 8], &numbers)).unwrap();
            let matrix = maps.matrix(MapPart::Head(FIRST), Look::default(), &unattended).unwrap();
            assert_eq!((matrix.values[1], matrix.masked), (f32::NEG_INFINITY, mask));
            // The colours are those of the scores that are seen, and a file of numbers keeps the mask.
            assert_eq!(matrix.palette.range().1, 6.3);
            let csv = matrix.csv().unwrap();
            assert!(csv.lines().nth(1).unwrap().ends_with(&format!(",{mask}")), "{csv}");
        }
    }

    /// Four queries of many keys keep their rows.
    #[test]
    fn each_side_of_a_thumbnail_is_pooled_by_itself() {
        let (rows, cols) = (4, 1500);
        let numbers = weights(rows, cols, 2);
        let maps = opened(&attention(&[rows, cols], &numbers)).unwrap();
        let survey = survey(&maps);
        assert_eq!((survey.factors(), survey.thumbnail_shape()), ([1, 16], (4, 94)));
        let thumbnail = survey.thumbnail(&maps, FIRST);
        for (k, found) in thumbnail.iter().enumerate() {
            let (row, col) = (k / 94, k % 94 * 16);
            let part = &numbers[row * cols..][col..cols.min(col + 16)];
            assert_eq!(*found, part.iter().copied().fold(0.0, f32::max));
        }
    }

    #[test]
    fn tokens_from_every_place() {
        let file = |metadata: &[(&str, &str)]| {
            safetensors(&[("a", Dtype::F32, &[2, 2], bytes(&[0.5; 4]))], metadata)
        };
        let in_metadata = opened(&file(&[("tokens", r#"["Ġa", "猫"]"#)])).unwrap();
        assert_eq!(texts(in_metadata.key_tokens()), ["␣a", "猫"]);
        assert!(in_metadata.is_self_attention());
        let cross =
            opened(&file(&[("query_tokens", r#"["a", "b"]"#), ("key_tokens", r#"["c", "d"]"#)]))
                .unwrap();
        assert_eq!(
            (texts(cross.query_tokens()), texts(cross.key_tokens())),
            (vec!["a", "b"], vec!["c", "d"])
        );
        assert!(!cross.is_self_attention(), "as many, but others");

        let folder = Folder::new();
        let path = folder.file("b.npy", npy("<f4", "(2, 2)", &bytes(&[0.5; 4])));
        assert!(open(&path).unwrap().key_tokens().is_none());
        folder.file("b.tokens.txt", "one\r\ntwo\n");
        assert_eq!(texts(open(&path).unwrap().query_tokens()), ["one", "two"]);
        folder.file("b.tokens.json", r#"["with\nbreak", ""]"#);
        assert_eq!(
            texts(open(&path).unwrap().query_tokens()),
            ["with⏎break", "\"\""],
            "JSON goes first"
        );
        folder.file("b.tokens.json", r#"{"query_tokens": ["x", "y"], "key_tokens": ["x", "z"]}"#);
        assert_eq!(texts(open(&path).unwrap().key_tokens()), ["x", "z"]);

        let strings: Vec<u8> = ["a\0", "猫b"]
            .iter()
            .flat_map(|t| t.chars())
            .flat_map(|c| u32::from(c).to_le_bytes())
            .collect();
        let with_tokens = [
            ("attention.npy", npy("<f4", "(2, 2)", &bytes(&[0.5; 4]))),
            ("tokens.npy", npy("<U2", "(2,)", &strings)),
        ];
        let maps = opened(&npz(&with_tokens, CompressionMethod::Deflated)).unwrap();
        assert_eq!(texts(maps.key_tokens()), ["a", "猫b"]);
    }

    #[test]
    fn progress_is_told_and_can_cancel() {
        let folder = Folder::new();
        let path =
            folder.file("a.safetensors", attention(&[2, 3, 200, 200], &weights(1200, 200, 1)));
        let calls = AtomicUsize::new(0);
        let count = |part: f32| {
            assert!((0.0..=1.0).contains(&part));
            calls.fetch_add(1, Ordering::Relaxed);
            ControlFlow::Continue(())
        };
        let maps = AttentionMaps::open(&from_disk, &path, None, &count).unwrap();
        Survey::new(&maps, &count).unwrap();
        assert!(calls.into_inner() >= 4 + 6, "a call for each chunk and each head");
        let stop = |_: f32| ControlFlow::Break(());
        assert!(matches!(
            AttentionMaps::open(&from_disk, &path, None, &stop),
            Err(Error::Cancelled)
        ));
        assert!(matches!(Survey::new(&maps, &stop), Err(Error::Cancelled)));
        assert!(matches!(maps.rollout(1, &stop), Err(Error::Cancelled)));
    }
}

mod refuses {
    use super::*;

    fn refused(file: &[u8]) -> Error {
        opened(file).unwrap_err()
    }

    #[track_caller]
    fn assert_refused(file: &[u8], part: &str) {
        assert_says(&refused(file), part);
    }

    #[test]
    fn what_is_cut_off() {
        let safe = attention(&[2, 4, 4], &weights(8, 4, 1));
        let array = npy("<f4", "(2, 4, 4)", &bytes(&weights(8, 4, 1)));
        let [stored, deflated] = [CompressionMethod::Stored, CompressionMethod::Deflated]
            .map(|method| npz(&[("a.npy", array.clone())], method));
        for (file, good) in [&safe, &array, &stored, &deflated].into_iter().enumerate() {
            for len in 0..good.len() {
                let error = refused(&good[..len]);
                let is_cut = error.to_string().contains("ends too early");
                assert!(
                    matches!(error, Error::Format { .. }) || is_cut,
                    "{len} bytes of file {file}: {error}"
                );
            }
        }
        let needed = "its shape [2, 4, 4] needs 128 bytes, but the file has 127";
        assert_refused(
            &safe[..safe.len() - 1],
            &format!("tensor `attention` ends too early: {needed}"),
        );
        let short = npy("<f4", "(2, 4, 4)", &bytes(&[0.5; 31]));
        let short = npz(&[("a.npy", short)], CompressionMethod::Deflated);
        assert_refused(&short, "tensor `a` ends too early");
    }

    #[test]
    fn numbers_that_are_declared_but_absent() {
        // 10⁹ and 10¹⁷ elements, and more than a number can hold. The file does not have their bytes.
        let header = |shape: &str, end: &str| {
            let text =
                format!(r#"{{"a":{{"dtype":"F32","shape":{shape},"data_offsets":[0,{end}]}}}}"#);
            [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &[0; 64]].concat()
        };
        let numpy = |shape| npy("<f4", shape, &[0; 64]);
        let zipped = npz(&[("a.npy", numpy("(1000, 1000, 1000)"))], CompressionMethod::Deflated);
        for (file, part) in [
            (
                header("[1000,1000,1000]", "4000000000"),
                "ends too early: its shape [1000, 1000, 1000] needs 4000000000 bytes, but the file has 64",
            ),
            (header("[100000000,1000000000]", "400000000000000000"), "ends too early"),
            (header("[4294967296,4294967296,9]", "64"), "is not a readable safetensors file"),
            (u64::MAX.to_le_bytes().to_vec(), "is not a readable safetensors file"),
            (numpy("(1000, 1000, 1000)"), "ends too early"),
            (numpy("(4294967296, 4294967296, 9)"), "does not fit in memory"),
            (zipped, "ends too early"),
        ] {
            assert_refused(&file, part);
        }
        // This archive misstates the size of its file too.
        let mut lying = npz(&[("a.npy", numpy("(16, 1000, 1000)"))], CompressionMethod::Stored);
        let directory = lying.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
        lying[directory + 20..directory + 24].copy_from_slice(&64_000_200_u32.to_le_bytes());
        lying[directory + 24..directory + 28].copy_from_slice(&64_000_200_u32.to_le_bytes());
        assert_refused(&lying, "ends too early");

        let tokens = npz(
            &[
                ("a.npy", npy("<f4", "(1, 1)", &[0; 4])),
                ("tokens.npy", npy("<U9", "(1000000000000,)", &[0; 72])),
            ],
            CompressionMethod::Stored,
        );
        assert_refused(&tokens, "there are 1000000000000 tokens in ");
    }

    #[test]
    fn shapes_that_are_not_attention() {
        let (rank, empty) = (", but [layers, heads, n, n], ", ": it holds no attention");
        for (shape, part) in [
            (&[4][..], rank),
            (&[1, 1, 1, 1, 2, 2], rank),
            (&[3, 0, 0], empty),
            (&[0, 2, 2], empty),
        ] {
            let file = attention(shape, &vec![0.0; shape.iter().product()]);
            assert_refused(&file, &format!("tensor `attention` has the shape {shape:?}{part}"));
        }
        let empty = safetensors::<&[usize]>(&[], &[("title", "nothing")]);
        let text = npz(&[("readme.txt", vec![1])], CompressionMethod::Stored);
        for file in [empty, text] {
            assert_refused(&file, "the file has no attention: it has no tensors");
        }
    }

    #[test]
    fn layers_that_differ() {
        let ragged = npz(
            &[
                ("layer_0.npy", npy("<f4", "(2, 3, 3)", &bytes(&weights(6, 3, 1)))),
                ("layer_1.npy", npy("<f4", "(2, 4, 4)", &bytes(&weights(8, 4, 1)))),
            ],
            CompressionMethod::Stored,
        );
        let alike = "tensor `layer_1` is <f4 with the shape [2, 4, 4], but `layer_0` is <f4 with the shape [2, 3, 3]: all layers must be alike";
        assert_refused(&ragged, alike);
        let types = [
            ("layer_0", Dtype::F32, &[1, 1][..], bytes(&[1.0])),
            ("layer_1", Dtype::F16, &[1, 1][..], f16::ONE.to_le_bytes().to_vec()),
        ];
        assert_refused(&safetensors(&types, &[]), "all layers must be alike");
    }

    #[test]
    fn types_that_are_not_floats() {
        for (descr, size) in [("<i4", 4), (">f4", 4), ("|O", 8), ("<c8", 8)] {
            assert_refused(&npy(descr, "(2, 2)", &vec![0; 4 * size]), "F32, F16, BF16 or F64");
        }
        let fortran = npy("<f4", "(2, 2)", &[0; 16]);
        let at = fortran.windows(5).position(|w| w == b"False").unwrap();
        let fortran = [&fortran[..at], b"True ", &fortran[at + 5..]].concat();
        assert_refused(&fortran, "column-major");
        let integers = safetensors(&[("a", Dtype::I32, &[1, 1], vec![0; 4])], &[]);
        assert_refused(&integers, "`a` is I32");
    }

    #[test]
    fn tokens_that_do_not_fit_or_cannot_be_read() {
        let folder = Folder::new();
        let path = folder.file("a.npy", npy("<f4", "(2, 2)", &bytes(&[0.5; 4])));
        let with = |name: &str, text: &[u8]| {
            let tokens = folder.file(name, text);
            let error = open(&path).unwrap_err();
            std::fs::remove_file(tokens).unwrap();
            assert_says(&error, name);
            error
        };
        let count = with("a.tokens.txt", b"one\ntwo\nthree\n");
        assert_says(&count, ".tokens.txt, but tensor `a` has 2 queries");
        assert_says(&with("a.tokens.txt", b"one\n\xFF\n"), "UTF-8");
        for json in
            [&b"[1, 2]"[..], b"{}", b"[", b"\"a\"", b"{\"tokens\": 3}", b"[\"\xFF\", \"a\"]"]
        {
            let error = with("a.tokens.json", json);
            assert!(matches!(error, Error::Tokens { .. }), "{error}");
        }
        assert_says(&with("a.tokens.json", b"[\"a\"]"), "there is 1 token in ");
        assert!(open(&path).is_ok(), "without them it opens");
    }

    #[test]
    fn a_missing_file() {
        assert!(matches!(open("/no/such/file".as_ref()), Err(Error::Io(_))));
    }
}

mod warns {
    use super::*;

    fn warnings(shape: &[usize], numbers: &[f32]) -> Vec<Warning> {
        survey(&opened(&attention(shape, numbers)).unwrap()).warnings().to_vec()
    }

    #[test]
    fn of_nan_of_scores_and_of_rows_that_do_not_sum_to_one() {
        let rows =
            |rows, heads, first: &str| DefectiveRows { rows, heads, first: first.to_owned() };
        let good = weights(8, 4, 3);
        assert_eq!(warnings(&[2, 4, 4], &good), []);
        let changed = |change: &dyn Fn(&mut [f32])| {
            let mut numbers = good.clone();
            change(&mut numbers);
            warnings(&[2, 4, 4], &numbers)
        };
        let nan = changed(&|w| w[17] = f32::NAN);
        assert_eq!(nan, [Warning::NotANumber(rows(1, 1, "head 0.1"))]);
        let scores = changed(&|w| (w[0], w[20]) = (-1.0, f32::NEG_INFINITY));
        assert_eq!(scores, [Warning::NotWeights(rows(2, 2, "head 0.0"))]);
        let sums = changed(&|w| w[..8].iter_mut().for_each(|w| *w *= 0.9));
        assert_eq!(sums, [Warning::NotADistribution(rows(2, 1, "head 0.0"))]);
        assert_eq!(changed(&|w| w[4..8].fill(0.0)), [], "a query that sees nothing");
        assert_eq!(warnings(&[1, 1], &[1.0]), [Warning::OneKey]);
    }

    #[test]
    fn but_not_of_rounding() {
        let rounded: Vec<u8> =
            (0..4 * 4096).flat_map(|_| bf16::from_f32(1.0 / 4096.3).to_le_bytes()).collect();
        let maps = opened(&safetensors(&[("a", Dtype::BF16, &[4, 4096], rounded)], &[])).unwrap();
        assert_eq!(survey(&maps).warnings(), []);
    }

    #[test]
    fn and_leaves_bad_rows_out_of_the_measures() {
        let good = weights(1, 5, 3);
        let bad: Vec<f32> = good.iter().copied().chain([f32::NAN, 0.0, 0.0, 0.0, 1.0]).collect();
        let [alone, beside] = [attention(&[1, 5], &good), attention(&[2, 5], &bad)].map(|file| {
            let maps = opened(&file).unwrap();
            survey(&maps).measures(FIRST)
        });
        assert_eq!(alone, beside);
    }
}

mod measures {
    use super::*;

    /// All measures of a head by plain loops in f64, as their descriptions say.
    fn reference(weights: &[f32], n: usize, tokens: &[&str]) -> Vec<Option<f64>> {
        let w = |i: usize, j: usize| {
            f64::from(weights[i * n + j])
                / (0..n).map(|j| f64::from(weights[i * n + j])).sum::<f64>()
        };
        let mean = |values: Vec<f64>| {
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let over = |f: &dyn Fn(usize) -> Option<f64>| mean((0..n).filter_map(f).collect());
        let entropy = |i: usize| {
            (0..n).map(|j| w(i, j)).filter(|w| *w > 0.0).map(|w| -w * w.ln()).sum::<f64>()
        };
        let places = |i: usize, after: usize| {
            let places = (0..i)
                .filter(move |j| tokens[*j] == tokens[i])
                .map(move |j| j + after)
                .filter(move |j| *j < i);
            let places: Vec<usize> = places.collect();
            (!places.is_empty()).then(|| places.iter().map(|j| w(i, *j)).sum())
        };
        vec![
            over(&|i| Some(entropy(i))),
            over(&|i| Some((0..n).map(|j| w(i, j) * i.abs_diff(j) as f64).sum())),
            over(&|i| Some(w(i, 0))),
            over(&|i| (i > 0).then(|| w(i, i - 1))),
            over(&|i| Some(w(i, i))),
            over(&|i| places(i, 0)),
            over(&|i| places(i, 1)),
        ]
    }

    fn causal(mut weights: Vec<f32>, n: usize) -> Vec<f32> {
        for (i, row) in weights.chunks_mut(n).enumerate() {
            row[i % n + 1..].fill(0.0);
            let sum: f32 = row.iter().sum();
            for w in row {
                *w /= sum;
            }
        }
        weights
    }

    #[test]
    fn are_those_of_plain_loops_in_f64() {
        for (n, is_causal) in
            [(2, false), (7, true), (8, false), (33, true), (100, false), (257, true)]
        {
            let words = ["the", "cat", "sat", "the", "the", "on"];
            let tokens: Vec<&str> = (0..n).map(|i| words[i * i % 6]).collect();
            let numbers = weights(3 * n, n, n as u32);
            let numbers = if is_causal { causal(numbers, n) } else { numbers };
            let list = serde_json::to_string(&tokens).unwrap();
            let file = safetensors(
                &[("a", Dtype::F32, &[3, n, n], bytes(&numbers))],
                &[("tokens", &list)],
            );
            let maps = opened(&file).unwrap();
            let survey = survey(&maps);
            assert_eq!((survey.is_causal(), survey.warnings()), (is_causal, &[][..]));
            // A lane adds n / 8 + 1 numbers, and three additions join the lanes; the logarithm and its product take four
            // roundings. A measure divides one such sum by another.
            let relative = gamma(2 * (n / 8 + 8));
            for id in maps.shape().ids() {
                let head = &numbers[id.head * n * n..][..n * n];
                let expected = reference(head, n, &tokens);
                assert_eq!(expected.len(), Measure::ALL.len());
                for (measure, expected) in Measure::ALL.iter().copied().zip(expected) {
                    let found = survey.measures(id).get(measure).map(f64::from);
                    let near = match (found, expected) {
                        (Some(found), Some(expected)) => {
                            (found - expected).abs() <= relative * expected.abs().max(1.0)
                        }
                        (found, expected) => found == expected,
                    };
                    assert!(near, "{measure:?} of {id}, n = {n}: {found:?}, not {expected:?}");
                }
            }
        }
    }

    /// A head that puts the whole weight of each query on one place, over the tokens A B C A B C ….
    fn head(n: usize, place: impl Fn(usize) -> usize) -> Vec<f32> {
        (0..n * n).map(|k| f32::from(u8::from(place(k / n) == k % n))).collect()
    }

    #[test]
    fn of_heads_as_in_the_textbook_are_exact() {
        let n = 12;
        let tokens =
            serde_json::to_string(&(0..n).map(|i| ["A", "B", "C"][i % 3]).collect::<Vec<_>>())
                .unwrap();
        let uniform = vec![1.0 / n as f32; n * n];
        let heads = [
            uniform,
            head(n, |i| i.saturating_sub(1)),
            head(n, |i| i),
            head(n, |_| 0),
            head(n, |i| i.checked_sub(3).unwrap_or(i)),
            head(n, |i| i.checked_sub(2).unwrap_or(i)),
        ];
        let file = safetensors(
            &[("a", Dtype::F32, &[6, n, n], bytes(&heads.concat()))],
            &[("tokens", &tokens)],
        );
        let maps = opened(&file).unwrap();
        let survey = survey(&maps);
        let get = |head, measure| survey.measures(HeadId { layer: 0, head }).get(measure).unwrap();
        let near = |found: f32, expected: f64| {
            (f64::from(found) - expected).abs() <= gamma(2 * (n / 8 + 8)) * expected
        };
        assert!(near(get(0, Measure::Entropy), 12_f64.ln()));
        // The mean of |i − j| over a square is (n² − 1) / 3n.
        assert!(near(get(0, Measure::Distance), 143.0 / 36.0));
        assert!((1..6).all(|h| get(h, Measure::Entropy) == 0.0));
        assert_eq!([get(1, Measure::PreviousToken), get(1, Measure::Distance)], [1.0, 11.0 / 12.0]);
        assert_eq!([get(2, Measure::SameToken), get(2, Measure::Distance)], [1.0, 0.0]);
        assert_eq!([get(3, Measure::FirstToken), get(3, Measure::Distance)], [1.0, 5.5]);
        assert_eq!([get(4, Measure::DuplicateToken), get(4, Measure::Induction)], [1.0, 0.0]);
        assert_eq!([get(5, Measure::Induction), get(5, Measure::DuplicateToken)], [1.0, 0.0]);
        for (measure, head) in [
            (Measure::Entropy, 0),
            (Measure::PreviousToken, 1),
            (Measure::SameToken, 2),
            (Measure::FirstToken, 3),
            (Measure::DuplicateToken, 4),
            (Measure::Induction, 5),
        ] {
            assert_eq!(survey.sorted_by(measure)[0].head, head, "{measure:?}");
        }
    }

    #[test]
    fn that_compare_places_are_for_self_attention_alone() {
        let maps = opened(&attention(&[2, 5], &weights(2, 5, 1))).unwrap();
        let measures = survey(&maps).measures(FIRST);
        for measure in
            [Measure::Distance, Measure::PreviousToken, Measure::SameToken, Measure::Induction]
        {
            assert_eq!(measures.get(measure), None, "{measure:?}");
        }
        assert!(
            measures.get(Measure::Entropy).is_some() && measures.get(Measure::FirstToken).is_some()
        );
        let maps = opened(&attention(&[4, 4], &weights(4, 4, 1))).unwrap();
        assert_eq!(
            survey(&maps).measures(FIRST).get(Measure::DuplicateToken),
            None,
            "without tokens"
        );
        assert_eq!(
            survey(&maps).measures(HeadId { layer: 9, head: 0 }).get(Measure::Entropy),
            None
        );
    }

    #[test]
    fn each_has_a_name_and_an_explanation_of_its_own() {
        let mut names: Vec<_> = Measure::ALL.iter().map(|m| m.name()).collect();
        let mut explanations: Vec<_> = Measure::ALL.iter().map(|m| m.description()).collect();
        for list in [&mut names, &mut explanations] {
            list.sort_unstable();
            list.dedup();
            assert_eq!(list.len(), Measure::ALL.len());
        }
    }
}

mod combines {
    use super::*;

    #[test]
    fn thumbnails_are_the_largest_of_each_square() {
        let n = 200;
        let numbers = weights(2 * n, n, 5);
        let maps = opened(&attention(&[2, n, n], &numbers)).unwrap();
        let survey = survey(&maps);
        assert_eq!((survey.factors(), survey.thumbnail_shape()), ([3, 3], (67, 67)));
        let id = HeadId { layer: 0, head: 1 };
        let thumbnail = survey.thumbnail(&maps, id);
        assert_eq!(thumbnail.len(), 67 * 67);
        for (k, found) in thumbnail.iter().enumerate() {
            let (row, col) = (k / 67 * 3, k % 67 * 3);
            let square =
                (row..n.min(row + 3)).flat_map(|i| (col..n.min(col + 3)).map(move |j| (i, j)));
            let largest = square.map(|(i, j)| numbers[n * n + i * n + j]).fold(0.0, f32::max);
            assert_eq!(*found, largest);
        }
        let small = opened(&attention(&[5, 5], &weights(5, 5, 1))).unwrap();
        let of_small = super::survey(&small);
        assert_eq!(
            of_small.thumbnail(&small, FIRST),
            small.head(FIRST),
            "as it is, where it is small"
        );
    }

    #[test]
    fn means_are_those_of_plain_loops() {
        let (layers, heads, n) = (3, 4, 70);
        let numbers = weights(layers * heads * n, n, 2);
        let maps = opened(&attention(&[layers, heads, n, n], &numbers)).unwrap();
        let found = maps.mean(1, &unattended).unwrap();
        for (k, found) in found.iter().enumerate() {
            let of = |head: usize| f64::from(numbers[(heads + head) * n * n + k]);
            let expected = (0..heads).map(of).sum::<f64>() / heads as f64;
            // The share 1 / m, a product and an addition for each of the m heads.
            assert!(
                (f64::from(*found) - expected).abs() <= gamma(heads + 2) * expected,
                "{found}, not {expected}"
            );
        }
        assert_says(&maps.mean(3, &unattended).unwrap_err(), "no layer 3");
        assert_says(&maps.find(0, 4).unwrap_err(), "no head 4");
        assert!(matches!(maps.mean(0, &|_| ControlFlow::Break(())), Err(Error::Cancelled)));
    }

    #[test]
    fn rollout_is_that_of_plain_loops_in_f64() {
        let (layers, heads, n) = (4, 2, 150);
        let numbers = weights(layers * heads * n, n, 7);
        let maps = opened(&attention(&[layers, heads, n, n], &numbers)).unwrap();
        // Abnar & Zuidema's own code adds the residual, normalises, then multiplies layer by layer.
        let mut expected: Vec<f64> = Vec::new();
        for layer in 0..layers {
            let mut a = vec![0.0; n * n];
            for head in 0..heads {
                let start = (layer * heads + head) * n * n;
                a.iter_mut()
                    .zip(&numbers[start..])
                    .for_each(|(a, w)| *a += f64::from(*w) / heads as f64);
            }
            for (i, row) in a.chunks_mut(n).enumerate() {
                row[i] += 1.0;
                let sum: f64 = row.iter().sum();
                for x in row {
                    *x /= sum;
                }
            }
            expected = if layer == 0 {
                a
            } else {
                let product =
                    |k: usize| (0..n).map(|t| a[k / n * n + t] * expected[t * n + k % n]).sum();
                (0..n * n).map(product).collect()
            };
            let found = maps.rollout(layer, &unattended).unwrap();
            // No number is negative, so relative errors add up: a layer's mean and normalisation take heads + 4 roundings,
            // a product n.
            let relative = gamma((layer + 1) * (heads + 4) + layer * n);
            for (found, expected) in found.iter().zip(&expected) {
                assert!(
                    (f64::from(*found) - expected).abs() <= relative * expected,
                    "{found}, not {expected}"
                );
            }
        }
        assert_says(&maps.rollout(layers, &unattended).unwrap_err(), "no layer 4");
        let cross = opened(&attention(&[2, 3], &weights(2, 3, 1))).unwrap();
        assert_says(&cross.rollout(0, &unattended).unwrap_err(), "rollout needs self-attention");
    }
}

/// Files that claim more than they hold, or hold more than they claim.
mod hostile {
    use super::*;

    /// A compressed list of 4·10⁸ tokens takes 1.5 MB in the file and would take gigabytes in memory.
    #[test]
    fn a_list_of_too_many_tokens_is_refused_before_it_is_read() {
        let folder = Folder::new();
        let claimed = 400_000_000;
        let weights = npy("<f4", "(2, 2)", &bytes(&[1.0, 0.0, 0.5, 0.5]));
        for (name, axis) in
            [("tokens", "queries or keys"), ("query_tokens", "queries"), ("key_tokens", "keys")]
        {
            // The member itself is short: reading it would end in another error.
            let tokens = npy("<U1", &format!("({claimed},)"), &[0; 64]);
            let files = [("weights.npy", weights.clone()), (&format!("{name}.npy"), tokens)];
            let path = folder.file("many.npz", npz(&files, CompressionMethod::Deflated));
            let error = open(&path).unwrap_err();
            let count = format!("`{name}`, but tensor `weights` has 2 {axis}");
            assert_says(&error, &count);
        }
    }

    #[test]
    fn a_flipped_bit_in_an_archive_is_noticed() {
        let folder = Folder::new();
        let numbers = [1.0, 0.0, 0.25, 0.75];
        let files = [("weights.npy", npy("<f4", "(2, 2)", &bytes(&numbers)))];
        let mut archive = npz(&files, CompressionMethod::Stored);
        let whole = folder.file("whole.npz", &archive);
        open(&whole).unwrap();
        let place = archive.windows(4).position(|b| b == 0.75_f32.to_le_bytes()).unwrap();
        archive[place + 3] ^= 0x40;
        let flipped = folder.file("flipped.npz", &archive);
        let error = open(&flipped).unwrap_err().to_string();
        assert!(error.contains("checksum") && error.contains("weights"), "{error}");
    }

    #[test]
    fn bytes_after_the_last_number_are_refused() {
        let folder = Folder::new();
        let numbers = bytes(&[1.0, 0.0, 0.5, 0.5]);
        let longer = |bytes: Vec<u8>| [bytes, vec![0; 3]].concat();
        let array = npy("<f4", "(2, 2)", &numbers);
        let more = "goes on for 3 bytes";
        let tensors = longer(attention(&[2, 2], &[1.0, 0.0, 0.5, 0.5]));
        for (name, file, said) in [
            ("a.safetensors", tensors, "but its header announces"),
            ("a.npy", longer(array.clone()), more),
            ("a.npz", npz(&[("a.npy", longer(array))], CompressionMethod::Deflated), more),
        ] {
            let path = folder.file(name, file);
            assert_says(&open(&path).unwrap_err(), said);
        }
    }

    #[test]
    fn a_large_file_of_tokens_is_not_read() {
        let folder = Folder::new();
        let path = folder.file("a.npy", npy("<f4", "(2, 2)", &bytes(&[1.0, 0.0, 0.5, 0.5])));
        folder.file("a.tokens.json", vec![b' '; (4 << 20) + 1]);
        assert_says(&open(&path).unwrap_err(), "more than 4194304 bytes");
    }

    /// Opening a FIFO would wait for a writer that never comes.
    #[cfg(unix)]
    #[test]
    fn a_file_that_is_not_regular_is_refused() {
        let folder = Folder::new();
        let path = folder.path("fifo.npy");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        for path in [path.as_path(), "/dev/zero".as_ref(), &folder.path("")] {
            assert_says(&open(path).unwrap_err(), "it is not a regular file");
        }
    }
}
