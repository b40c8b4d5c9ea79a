//! Tests that every target has a corpus and takes every input of it.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

use regard_fuzz::TARGETS;

/// An input is read and computed to the end, unless its name says that it is refused.
#[test]
fn each_target_takes_its_corpus() -> anyhow::Result<()> {
    regard_models::hide_caught_panics();
    let mut wrong = Vec::new();
    for (name, target) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let mut inputs = 0;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let refused =
                path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("refused-"));
            let outcome = target(&fs::read(&path)?);
            if outcome.is_err() != refused {
                wrong.push(format!("{}: {outcome:?}", path.display()));
            }
            inputs += usize::from(!refused);
        }
        assert!(inputs > 0, "{name} has no input that it takes");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    large_files();
    Ok(())
}

/// Files that could take a multiple of their size in memory. The targets measure it.
fn large_files() {
    let target = |name: &str| TARGETS.iter().find(|target| target.0 == name).expect("a target").1;
    for session in [
        format!("{{\"format\":\"regard session 1\",\"x\":[0{}]}}", ",0".repeat(2_000_000)),
        format!(
            "{{\"format\":\"regard session 1\",\"heads\":{{\"overlaid\":[[0,0]{}]}}}}",
            ",[0,0]".repeat(650_000)
        ),
        format!(
            "{{\"format\":\"regard session 1\",\"model\":{{\"changes\":[{{}}{}]}}}}",
            ",{}".repeat(1_000_000)
        ),
        format!("[0{}]", ",0".repeat(2_000_000)),
    ] {
        let _ = target("session")(session.as_bytes());
    }
    let most = format!("{{\"format\":\"regard session 1\",\"x\":[0{}]}}", ",0".repeat(2_000_000));
    assert!(target("session")(most.as_bytes()).is_ok());
    assert!(target("session")(&vec![b' '; (4 << 20) + 1]).is_err());
}
