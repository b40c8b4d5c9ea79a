//! The snippet in the kernels' guide is the example that runs.

const GUIDE: &str = include_str!("../../../crates/regard-kernels/src/guide.md");
const EXAMPLE: &str = include_str!("../examples/embassy.rs");

#[test]
fn the_guide_shows_the_example() {
    let snippet: Vec<_> = EXAMPLE.split("    // [guide]\n").collect();
    let [_, snippet, _] = snippet[..] else { panic!("two marks are expected") };
    let snippet: String =
        snippet.lines().map(|line| line.strip_prefix("    ").unwrap_or(line).to_owned() + "\n").collect();
    assert!(GUIDE.contains(&format!("```ignore\n{snippet}\n```")), "copy it into guide.md:\n{snippet}");
}
