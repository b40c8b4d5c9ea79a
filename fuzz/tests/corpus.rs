//! Every target takes every input of its corpus, and has one.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

use regard_fuzz::TARGETS;

#[test]
fn each_target_takes_its_corpus() -> anyhow::Result<()> {
    for (name, target) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let mut inputs = 0;
        for entry in fs::read_dir(folder)? {
            target(&fs::read(entry?.path())?);
            inputs += 1;
        }
        assert!(inputs > 0, "{name} has no corpus");
    }
    Ok(())
}
