//! Every emulated core computes what this machine computes: bit by bit where both round a multiply-add alike, else within a
//! bound. Needs QEMU and the targets; `.ci/run` has both, and runs this on both kinds of host tier.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::process::Command;

use regard_firmware::cases::{self, Numbers};

/// The aliases in `.cargo/config.toml`, and whether the core has fused multiply-add.
const CORES: [(&str, bool); 8] = [
    ("m0", false),
    ("m4f", true),
    ("m7", true),
    ("m33", true),
    ("m55", true),
    ("m55-cpu", true),
    ("rv32imac", false),
    ("rv32imafc", true),
];

/// How far a number may be from that of another way of rounding, in units of the last place of the line's largest.
const ULPS: f32 = 16.0;

/// A case's name, and its numbers as they are written: eight digits each, or two for 8-bit integers.
type Line = (String, Vec<String>);

fn here() -> Vec<Line> {
    let mut lines = Vec::new();
    let mut memory = vec![0.0; 4 * cases::MEMORY];
    let mut line =
        |name: &str, numbers: Numbers<'_>| lines.push(parsed(&format!("{name}:{numbers}")));
    cases::run(&mut memory, &mut line).unwrap();
    lines
}

fn on_core(alias: &str) -> Vec<Line> {
    let output = Command::new(env!("CARGO")).arg(alias).current_dir("../..").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "cargo {alias}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text.lines().map(parsed).collect()
}

fn parsed(line: &str) -> Line {
    let (name, numbers) = line.split_once(": ").unwrap();
    (name.to_owned(), numbers.split(' ').map(str::to_owned).collect())
}

/// Whether this machine's tier rounds a multiply-add once: then (1 + ε)² − (1 + 2ε) keeps its ε².
fn is_fused() -> bool {
    let x = 1.0 + 2_f32.powi(-13);
    let [[found]] = regard_kernels::fixed::matmul(&[[1.0, x]], &[[-(1.0 + 2_f32.powi(-12))], [x]]);
    found != 0.0
}

/// The largest distance between two lines, in units of the last place of the largest finite number; 8-bit integers have
/// none, and must agree.
fn distance(found: &[String], expected: &[String]) -> f32 {
    if found == expected {
        return 0.0;
    }
    if expected.iter().any(|bits| bits.len() != 8) {
        return f32::INFINITY;
    }
    let float = |bits: &String| f32::from_bits(u32::from_str_radix(bits, 16).unwrap());
    let [found, expected] = [found, expected].map(|all| all.iter().map(float).collect::<Vec<_>>());
    let finite = expected.iter().filter(|x| x.is_finite());
    let largest = finite.fold(f32::MIN_POSITIVE, |largest, x| largest.max(x.abs()));
    let unit = largest.next_up() - largest;
    let distances =
        found.iter().zip(&expected).map(|(a, b)| if a == b { 0.0 } else { (a - b).abs() / unit });
    distances.fold(0.0, f32::max)
}

#[test]
#[ignore = "needs qemu-system-arm, qemu-system-riscv32 and the bare-metal targets"]
fn all_cores_agree_with_this_machine() {
    let expected = here();
    for (alias, fused) in CORES {
        let found = on_core(alias);
        assert_eq!(found.len(), expected.len(), "{alias}");
        let mut largest = 0_f32;
        for ((name, found), (expected_name, expected)) in found.iter().zip(&expected) {
            assert_eq!((name, found.len()), (expected_name, expected.len()), "{alias}");
            if fused == is_fused() {
                assert_eq!(found, expected, "{alias}: {name}");
            } else {
                let distance = distance(found, expected);
                assert!(
                    distance <= ULPS,
                    "{alias}: {name}: {distance} ULP: {found:?} instead of {expected:?}"
                );
                largest = largest.max(distance);
            }
        }
        let how = if fused == is_fused() {
            "the same bits".to_owned()
        } else {
            format!("within {largest} ULP")
        };
        println!("{alias}: {} lines, {how}", found.len());
    }
}
