//! The snippet in the kernels' guide is the example that runs.

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
