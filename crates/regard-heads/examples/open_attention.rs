//! Opens a file of attention as the window does, and prints the time of each part, the peak memory (on Linux), and
//! which heads stand out.
//!
//! `cargo run --release -p regard-heads --example open_attention ATTENTION.safetensors`

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result};
use regard_heads::{AttentionMaps, Measure, Survey, unattended};

fn main() -> Result<()> {
    let path: PathBuf = std::env::args_os().nth(1).context("which file?")?.into();
    let size = std::fs::metadata(&path)?.len() as f64;
    let before = peak_memory();
    let start = Instant::now();
    let maps = AttentionMaps::open(&path, None, &unattended)?;
    let opened = start.elapsed();
    let start = Instant::now();
    let survey = Survey::new(&maps, &unattended)?;
    let surveyed = start.elapsed();
    let shape = maps.shape();
    anstream::println!(
        "{} layers of {} heads, {} × {}, {:.1} MB",
        shape.layers,
        shape.heads,
        shape.queries,
        shape.keys,
        size / 1e6
    );
    anstream::println!(
        "read in {opened:.3?}, measured and drawn in {surveyed:.3?}: {:.3?}",
        opened + surveyed
    );
    if let (Some(before), Some(after)) = (before, peak_memory()) {
        let grown = after - before;
        anstream::println!(
            "memory: {:.1} MB at most, {:.3} × the file's size",
            grown / 1e6,
            grown / size
        );
    }
    for warning in survey.warnings() {
        anstream::println!("note: {warning}");
    }
    for measure in Measure::ALL {
        if let Some(id) = survey
            .sorted_by(measure)
            .first()
            .filter(|id| survey.measures(**id).get(measure).is_some())
        {
            let value = survey.measures(*id).get(measure).unwrap_or_default();
            anstream::println!("{:<20} {value:<10.4} {id}", measure.name());
        }
    }
    Ok(())
}

/// The peak memory of this process so far, in bytes.
fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? * 1024.0)
}
