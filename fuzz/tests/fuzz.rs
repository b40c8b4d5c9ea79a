//! Runs libFuzzer on the target that the environment variable `FUZZ` names. `run` builds and starts this program.
#![no_main]

use std::sync::OnceLock;

use regard_fuzz::{TARGETS, Target};

static TARGET: OnceLock<Target> = OnceLock::new();

fn named() -> Target {
    let name = std::env::var("FUZZ").expect("FUZZ names a target");
    // libFuzzer's hook aborts even where the panic would become an error.
    regard_models::hide_caught_panics();
    let found = TARGETS.iter().find(|(target, _)| *target == name);
    found.unwrap_or_else(|| panic!("{name} is no target")).1
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = TARGET.get_or_init(named)(input);
});
