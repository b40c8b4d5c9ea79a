//! Statements of the kernels' guide about firmware that need no emulator.

use std::process::Command;

const GUIDE: &str = include_str!("../../../crates/regard-kernels/src/guide.md");
const EXAMPLE: &str = include_str!("../examples/embassy.rs");

#[test]
fn the_guide_shows_the_example() {
    let parts: Vec<_> = EXAMPLE.split("    // [guide]\n").collect();
    let [_, snippet, _] = parts[..] else { panic!("two marks are expected") };
    let lines: Vec<_> =
        snippet.lines().map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
    let snippet = lines.join("\n");
    assert!(
        GUIDE.contains(&format!("```ignore\n{snippet}\n```")),
        "copy it into guide.md:\n{snippet}"
    );
}

/// One assertion about a part holds in the firmware and here, because the sizes are those of a Cortex-M4F.
#[test]
fn the_memory_of_a_microcontroller_is_the_same_on_the_desktop() {
    use regard_kernels::{attention_bytes, microcontroller};
    const {
        assert!(microcontroller::attention_bytes(8, 8, 8, 8) <= 4096 - 2048);
        assert!(microcontroller::int8_attention_bytes(16, 16, 16, 16) <= 4096);
    }
    // q, k, v and the output, 6 rows of 32 scores, 2 numbers for each query, and 15 for the alignment.
    assert_eq!(microcontroller::attention_bytes(8, 8, 8, 8), 4 * (4 * 64 + 6 * 32 + 16 + 15));
    assert!(attention_bytes(8, 8, 8, 8) >= microcontroller::attention_bytes(8, 8, 8, 8));
}

#[test]
fn cores_without_vectors_do_not_compile_wide() {
    for (target, compiles) in [
        ("thumbv6m-none-eabi", false),
        ("thumbv7em-none-eabihf", false),
        ("riscv32imac-unknown-none-elf", false),
        ("riscv64gc-unknown-linux-gnu", false),
        ("x86_64-unknown-linux-gnu", true),
        ("wasm32-unknown-unknown", true),
    ] {
        let tree = Command::new(env!("CARGO"))
            .args(["tree", "--offline", "--quiet", "-p", "regard-kernels", "-e", "normal"])
            .args(["--prefix", "none", "--target", target])
            .output()
            .unwrap();
        assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
        let tree = String::from_utf8(tree.stdout).unwrap();
        assert_eq!(
            tree.lines().any(|line| line.starts_with("wide ")),
            compiles,
            "{target}: {tree}"
        );
    }
}
