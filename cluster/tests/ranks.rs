//! Attention over 1, 2, 3, 4 and 7 ranks. If it is not started as a rank, this program starts itself and `regard-mpi` under
//! mpirun.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]
#![expect(clippy::single_range_in_vec_init, reason = "the tokens of a rank may be one range")]

use core::ops::Range;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::{env, thread, time::Duration};

use fastrand::Rng;
use mpi::traits::Communicator;
use regard::{
    Attention, CHUNK_KEYS, Heads, KvCache, KvCacheShape, Mask, MaskTensor, Position, Temperature,
    Threads, Window, alibi_slopes,
};
use regard_mpi::{RankTokens, attend, query_block, share};
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};

fn main() {
    let mode = env::args().nth(1);
    if env::var_os("OMPI_COMM_WORLD_RANK").is_some() {
        let universe = mpi::initialize_with_threading(mpi::Threading::Funneled).unwrap().0;
        match mode.as_deref() {
            Some("configurations") => {
                (0..200).for_each(|seed| configuration(&universe.world(), seed))
            }
            _ => {
                refusals(&universe.world());
                decoding(&universe.world());
            }
        }
        return;
    }
    for ranks in [1, 2, 3, 4, 7] {
        succeeds(mpirun(ranks).arg(env::current_exe().unwrap()).arg("configurations"));
        println!("{ranks} ranks: 200 configurations have the bits of one process");
    }
    succeeds(mpirun(3).arg(env::current_exe().unwrap()).arg("others"));
    println!(
        "what does not fit is the same error on all ranks; a cache is decoded to the same bits"
    );
    let folder = tempfile::tempdir().unwrap();
    program(folder.path());
    println!("the program writes what one process computes, or names what is wrong");
    killed(folder.path());
    println!("a killed rank is named, and leaves no output");
}

fn mpirun(ranks: usize) -> Command {
    let mut command = Command::new("mpirun");
    command.args([
        "--allow-run-as-root",
        "--oversubscribe",
        "--bind-to",
        "none",
        "-n",
        &ranks.to_string(),
    ]);
    command
}

/// The program that reads one file and writes the other.
fn attend_files(ranks: usize, input: &Path, output: &Path) -> Command {
    let mut command = mpirun(ranks);
    command.arg(env!("CARGO_BIN_EXE_regard-mpi")).arg("attend");
    command.arg("--input").arg(input).arg("--output").arg(output);
    command
}

fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn numbers(random: &mut Rng, len: usize) -> Vec<f32> {
    (0..len).map(|_| 2.0 * random.f32() - 1.0).collect()
}

/// The tokens at some places, \[batch, heads, n, d\].
fn tokens<T: Copy>(x: &[T], [batch, heads, n, d]: [usize; 4], places: &[Range<usize>]) -> Vec<T> {
    let rows = |head: usize| places.iter().cloned().flatten().map(move |token| head * n + token);
    (0..batch * heads).flat_map(rows).flat_map(|row| x[row * d..][..d].iter().copied()).collect()
}

/// The bits, with one payload for all NaN.
fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect()
}

/// The places of a rank's tokens out of `n`: by `share`, all on one rank, or random ranges.
fn division(random: &mut Rng, n: usize, ranks: usize, rank: usize) -> Vec<Range<usize>> {
    match random.u8(..4) {
        0 => share(n, CHUNK_KEYS, ranks, rank),
        1 => share(n, query_block(n, ranks), ranks, rank),
        2 => {
            if random.usize(..ranks) == rank {
                vec![0..n]
            } else {
                Vec::new()
            }
        }
        _ => {
            let mut cuts: Vec<_> =
                (0..random.usize(..9)).map(|_| random.usize(..=n)).chain([0, n]).collect();
            cuts.sort_unstable();
            let mut own: Vec<_> = cuts.windows(2).map(|pair| pair[0]..pair[1]).collect();
            own.retain(|_| random.usize(..ranks) == rank);
            own.reverse(); // the places of a rank may be in any order
            own
        }
    }
}

fn configuration(world: &impl Communicator, seed: u64) {
    let random = &mut Rng::with_seed(seed);
    let (ranks, rank) = (world.size() as usize, world.rank() as usize);
    let (batch, kv_heads) = (random.usize(1..=2), random.usize(1..=2));
    let heads = kv_heads * random.usize(1..=3);
    let n_q = [1, random.usize(1..6), random.usize(1..50)][random.usize(..3)];
    let n_k = [random.usize(1..40), random.usize(4_090..4_200), random.usize(8_000..13_000)]
        [random.usize(..3)];
    let (d_k, d_v) = (random.usize(1..=12), random.usize(1..=20));
    let shapes =
        [[batch, heads, n_q, d_k], [batch, kv_heads, n_k, d_k], [batch, kv_heads, n_k, d_v]];
    let [q, mut k, mut v] = shapes.map(|shape| numbers(random, shape.iter().product()));
    if random.u8(..8) == 0 {
        let (at_k, at_v) = (random.usize(..k.len()), random.usize(..v.len()));
        (k[at_k], v[at_v]) = (f32::INFINITY, f32::NAN);
    }
    let position =
        [Position::TopLeft, Position::BottomRight, Position::Offset(random.isize(-20..9_000))]
            [random.usize(..3)];
    let (slopes, sinks) = (alibi_slopes(heads), numbers(random, heads));
    let lengths: Vec<_> = (0..batch).map(|_| random.usize(..=n_k)).collect();
    let mut mask = Mask::NONE;
    let mut attention = Attention::new();
    if random.bool() {
        mask = mask.causal(position);
    }
    if random.u8(..4) == 0 {
        mask = mask.window(
            position,
            Window { left: Some(random.usize(..5_000)), right: Some(random.usize(..9)) },
        );
    }
    if random.u8(..4) == 0 {
        mask = mask.alibi(position, &slopes);
    }
    if random.u8(..4) == 0 {
        mask = mask.key_lengths(&lengths);
    }
    if random.u8(..4) == 0 {
        attention = attention.sinks(&sinks);
    }
    if random.u8(..4) == 0 {
        attention = attention.softcap(2.0);
    }
    if random.u8(..4) == 0 {
        attention = attention
            .scale(0.3)
            .temperature(Temperature::new([0.0, 0.7, f32::INFINITY][random.usize(..3)]).unwrap());
    }
    let of_tensors = [random.bool(), random.bool()]
        .map(|all| if all { [1, heads, n_q, n_k] } else { [batch, 1, 1, n_k] });
    let [allowed, bias] = [(); 2].map(|()| random.u8(..5) == 0);
    let shown: Vec<bool> =
        (0..of_tensors[0].iter().product()).map(|_| random.u8(..5) != 0).collect();
    let added = numbers(random, of_tensors[1].iter().product());

    let with_tensors = |shown, added, shapes: [[usize; 4]; 2]| {
        let mask =
            if allowed { mask.allowed(MaskTensor::new(shown, &shapes[0]).unwrap()) } else { mask };
        let mask = if bias { mask.bias(MaskTensor::new(added, &shapes[1]).unwrap()) } else { mask };
        attention.clone().mask(mask)
    };
    let view = |x, shape| Heads::new("x", x, shape).unwrap();
    let (all_q, all_k, all_v) = (view(&q, shapes[0]), view(&k, shapes[1]), view(&v, shapes[2]));
    let expected = with_tensors(&shown, &added, of_tensors)
        .forward_with_log_sum_exp(all_q, all_k, all_v)
        .unwrap();

    // The same random numbers on each rank, of which each takes another part.
    let queries = division(&mut Rng::with_seed(seed + 1), n_q, ranks, rank);
    let keys = division(&mut Rng::with_seed(seed + 2), n_k, ranks, rank);
    let count = |places: &[Range<usize>]| places.iter().map(Range::len).sum();
    let of_rows =
        |shape: [usize; 4]| if shape[2] == n_q && n_q > 1 { queries.clone() } else { vec![0..1] };
    let (shown, added) = (
        tokens(&shown, of_tensors[0], &of_rows(of_tensors[0])),
        tokens(&added, of_tensors[1], &of_rows(of_tensors[1])),
    );
    let of_tensors = of_tensors.map(|[b, h, _, n]| [b, h, 0, n]).map(|shape| shape);
    let shapes_of_own = [0, 1].map(|i| {
        let [b, h, _, n] = of_tensors[i];
        [b, h, [shown.len(), added.len()][i] / (b * h * n), n]
    });
    let (q, k, v) = (
        tokens(&q, shapes[0], &queries),
        tokens(&k, shapes[1], &keys),
        tokens(&v, shapes[2], &keys),
    );
    let own = |x, places: &[Range<usize>], [batch, heads, _, d]: [usize; 4]| {
        Heads::new("x", x, [batch, heads, count(places), d]).unwrap()
    };
    let attention = with_tensors(&shown, &added, shapes_of_own);
    let of_q = RankTokens { heads: own(&q, &queries, shapes[0]), places: &queries };
    let of_k = RankTokens { heads: own(&k, &keys, shapes[1]), places: &keys };
    let threads = Threads::new(1 + (seed as usize + rank) % 2).unwrap();
    let (out, sums) = threads
        .install(|| attend(world, &attention, of_q, of_k, own(&v, &keys, shapes[2])))
        .unwrap();
    let same = bits(&out)
        == bits(&tokens(expected.0.as_slice(), [batch, heads, n_q, d_v], &queries))
        && bits(&sums) == bits(&tokens(expected.1.as_slice(), [batch, heads, n_q, 1], &queries));
    assert!(
        same,
        "rank {rank} of {ranks}: configuration {seed}: {shapes:?} {queries:?} {keys:?} {attention:?}"
    );
}

/// Tests that all three ranks get the same error.
fn refusals(world: &impl Communicator) {
    let rank = world.rank() as usize;
    let odd = |is: usize, x: usize, other: usize| if rank == is { x } else { other };
    let data = [0.5; 64];
    for (width, capped, values, first, said) in [
        (
            odd(2, 3, 2),
            false,
            2,
            2 * rank,
            "rank 2 computes with 1 heads of query and 1 of key, vectors of 2, 3 and (value) 3",
        ),
        (
            2,
            rank == 1,
            2,
            2 * rank,
            "rank 1 computes with 1 heads of query and 1 of key, vectors of 2, 2 and (value) 2 numbers",
        ),
        (2, false, odd(1, 4, 2), 2 * rank, "rank 1: value has 4 tokens, but key has 2"),
        (2, false, 2, 2 * odd(1, 0, rank), "token 0 of key is held by more than one rank"),
        (2, false, 2, 2 * odd(2, 3, rank), "token 4 of key is held by no rank"),
    ] {
        let attention = if capped { Attention::new().softcap(1.0) } else { Attention::new() };
        let heads = |tokens, d| Heads::new("x", &data[..tokens * d], [1, 1, tokens, d]).unwrap();
        let (own, keys) = ([2 * rank..2 * rank + 2], [first..first + 2]);
        let q = RankTokens { heads: heads(2, 2), places: &own };
        let k = RankTokens { heads: heads(2, width), places: &keys };
        let error = attend(world, &attention, q, k, heads(values, width)).unwrap_err().to_string();
        assert!(error.starts_with(said), "rank {rank}: {error}");
    }
}

/// Decodes one query at a time with a cache whose chunks are divided among the ranks.
fn decoding(world: &impl Communicator) {
    let (ranks, rank) = (world.size() as usize, world.rank() as usize);
    let shape = KvCacheShape { batch: 1, kv_heads: 1, capacity: 9_000, key_dim: 4, value_dim: 4 };
    let (mut own, mut whole) = (KvCache::new(shape).unwrap(), KvCache::new(shape).unwrap());
    let x = numbers(&mut Rng::with_seed(1), 8_195 * 4);
    let attention = Attention::new().mask(Mask::CAUSAL);
    for (n, token) in x.chunks_exact(4).enumerate() {
        let token = Heads::new("token", token, [1, 1, 1, 4]).unwrap();
        whole.append(token, token).unwrap();
        let places = share(n + 1, CHUNK_KEYS, ranks, rank);
        if places.last().is_some_and(|range| range.end == n + 1) {
            own.append(token, token).unwrap();
        }
        if n % CHUNK_KEYS > 2 {
            continue;
        }
        // The last rank holds the query.
        let (here, none) = ([0..1], Heads::new("no token", &[], [1, 1, 0, 4]).unwrap());
        let q = if rank == ranks - 1 {
            RankTokens { heads: token, places: &here }
        } else {
            RankTokens { heads: none, places: &[] }
        };
        let k = RankTokens { heads: own.keys(), places: &places };
        let (out, _) = attend(world, &attention, q, k, own.values()).unwrap();
        let expected = attention.forward(token, whole.keys(), whole.values()).unwrap();
        assert_eq!(
            bits(&out),
            if rank == ranks - 1 { bits(expected.as_slice()) } else { Vec::new() }
        );
    }
}

/// Writes tensors of pseudo-random numbers.
fn save(path: &Path, tensors: &[(&str, Dtype, &[usize])]) {
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(name, dtype, shape)| {
            let random = &mut Rng::with_seed(name.len() as u64 + u64::from(name.as_bytes()[0]));
            let count = shape.iter().product();
            match dtype {
                Dtype::F16 => numbers(random, count)
                    .iter()
                    .flat_map(|x| half::f16::from_f32(*x).to_le_bytes())
                    .collect(),
                Dtype::U8 => (0..count).map(|_| random.u8(..3)).collect(),
                Dtype::I64 => (0..count).flat_map(|i| (5_000 - i as i64).to_le_bytes()).collect(),
                _ => numbers(random, count).iter().flat_map(|x| x.to_le_bytes()).collect(),
            }
        })
        .collect();
    let views = tensors.iter().zip(&bytes).map(|((name, dtype, shape), bytes)| {
        (*name, TensorView::new(*dtype, shape.to_vec(), bytes).unwrap())
    });
    fs::write(path, serialize(views, None).unwrap()).unwrap();
}

fn program(folder: &Path) {
    let [input, one, many] =
        ["in", "one", "many"].map(|name| folder.join(name).with_extension("safetensors"));
    let run = |ranks: usize, to: &Path, options: &[&str]| {
        attend_files(ranks, &input, to).args(options).output().unwrap()
    };
    let past: &[_] = &[
        ("q", Dtype::F16, &[2, 4, 700, 8][..]),
        ("k", Dtype::F16, &[2, 2, 900, 8]),
        ("v", Dtype::F32, &[2, 2, 900, 6]),
        ("past_key", Dtype::F16, &[2, 2, 4_100, 8]),
        ("past_value", Dtype::F32, &[2, 2, 4_100, 6]),
        ("attn_mask", Dtype::U8, &[4, 700, 5_000]),
        ("kv_lengths", Dtype::I64, &[2]),
        ("sinks", Dtype::F32, &[4]),
    ];
    let plain: &[_] = &[
        ("q", Dtype::F32, &[9_000, 4][..]),
        ("k", Dtype::F32, &[9_000, 4]),
        ("v", Dtype::F32, &[9_000, 4]),
    ];
    for (tensors, options) in [
        (past, &["--causal", "bottom-right", "--lse", "--softcap", "3"][..]),
        (plain, &["--window", "6000,0", "--scale", "0.7", "--temperature", "0.5"]),
    ] {
        save(&input, tensors);
        for (ranks, to) in [(1, &one), (3, &many)] {
            let output = run(ranks, to, options);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        let (one, many) = (fs::read(&one).unwrap(), fs::read(&many).unwrap());
        assert_eq!(one, many);
        // The test of `attend` compares the numbers; this one compares the tensors of the file.
        let file = SafeTensors::deserialize(&one).unwrap();
        let values = if tensors[0].1 == tensors[2].1 { tensors[0].1 } else { Dtype::F32 };
        assert_eq!(file.tensor("output").unwrap().dtype(), values);
        if file.len() > 1 {
            let saved = fs::read(&input).unwrap();
            let saved = SafeTensors::deserialize(&saved).unwrap();
            let (present, past) =
                (file.tensor("present_key").unwrap(), saved.tensor("past_key").unwrap());
            assert_eq!((present.shape(), file.len()), (&[2, 2, 5_000, 8][..], 4));
            assert_eq!(present.data()[..4_100 * 16], past.data()[..4_100 * 16]);
        }
    }
    for (options, said) in [
        (&["--causal", "left"][..], "expected top-left, bottom-right or a whole number of keys"),
        (&["--softcap", "0"], "soft cap"),
        (&["--position", "3"], "--position is for --window and `alibi_slopes`"),
    ] {
        let output = run(2, &many, options);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && text.contains(said), "{text}");
    }
}

/// Kills a rank while it computes.
fn killed(folder: &Path) {
    let [input, output] =
        ["long", "absent"].map(|name| folder.join(name).with_extension("safetensors"));
    save(&input, &["q", "k", "v"].map(|name| (name, Dtype::F32, &[100_000, 16][..])));
    let run = attend_files(2, &input, &output).stderr(Stdio::piped()).spawn().unwrap();
    let part = fs::metadata(&input).unwrap().len() / 2;
    // The bytes that a process has read.
    let read = |process: &Path| {
        let io = fs::read_to_string(process.join("io")).ok()?;
        io.lines().find_map(|line| line.strip_prefix("rchar: "))?.parse::<u64>().ok()
    };
    let rank_1 = || {
        fs::read_dir("/proc").unwrap().flatten().find_map(|process| {
            let environment = fs::read(process.path().join("environ")).ok()?;
            let has =
                |text: &str| environment.split(|b| *b == 0).any(|line| line == text.as_bytes());
            let arguments = fs::read(process.path().join("cmdline")).ok()?;
            let ours = arguments.windows(4).any(|text| text == b"long");
            (ours && has("OMPI_COMM_WORLD_RANK=1") && read(&process.path())? >= part)
                .then(|| process.path())
        })
    };
    // The rank computes once it has read its part of the file. Open MPI's mpirun can wait forever for a rank that dies before
    // MPI_Init.
    let process = loop {
        match rank_1() {
            Some(process) => break process,
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    let pid = process.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    let ended = run.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && text.contains("rank 1"), "{text}");
    assert!(File::open(&output).is_err());
}
