//! Says which targets are cores without vectors (`cfg(scalar)`), and which of these have fused multiply-add (`cfg(fused)`), no FPU at all (`cfg(soft)`), and
//! the DSP extension of Cortex-M (`cfg(dsp)`, and `cfg(dsp_by_cpu)` where only the named CPU tells): on stable Rust no `cfg` of their
//! own tells. `cfg(integers)` is for targets that
//! may have vectors for attention on 8-bit integers: x86-64 and, in the byte order that is used today, aarch64 with NEON.

use std::env;
use std::io::{self, Write as _};

fn main() -> io::Result<()> {
    let scalar =
        matches!(env::var("CARGO_CFG_TARGET_ARCH").as_deref(), Ok("arm" | "riscv32" | "riscv64"));
    // The target's name is where extensions are spelled out.
    let target = env::var("TARGET").unwrap_or_default();
    let architecture = target.split('-').next().unwrap_or_default();
    let fused = match architecture
        .strip_prefix("riscv32")
        .or_else(|| architecture.strip_prefix("riscv64"))
    {
        Some(extensions) => extensions.contains(['f', 'g']),
        // FPv4-SP and FPv5, which the hard-float ABI promises. (Cortex-R and -A with it may have VFPv3, which lacks VFMA.)
        None => matches!(architecture, "thumbv7em" | "thumbv8m.main") && target.ends_with("eabihf"),
    };
    // The ABI without floating-point registers, which cores with an FPU can have too: the bits are the same then.
    let soft = !fused && (target.ends_with("-none-eabi") || architecture.starts_with("riscv"));
    // ARMv7E-M is ARMv7-M with the extension; in ARMv8-M it is each core's choice, which `-C target-cpu` tells.
    let dsp_by_cpu = architecture == "thumbv8m.main" && names_a_core_with_dsp();
    let dsp = architecture == "thumbv7em" || dsp_by_cpu;
    let set = |name, expected: &str| {
        env::var(name).is_ok_and(|found| found.split(',').any(|x| x == expected))
    };
    let integers = env::var_os("CARGO_FEATURE_PORTABLE").is_none()
        && (set("CARGO_CFG_TARGET_ARCH", "x86_64")
            || set("CARGO_CFG_TARGET_ARCH", "aarch64")
                && set("CARGO_CFG_TARGET_ENDIAN", "little")
                && set("CARGO_CFG_TARGET_FEATURE", "neon"));
    let mut cargo = io::stdout();
    for (name, holds) in [
        ("scalar", scalar),
        ("fused", scalar && fused),
        ("soft", scalar && soft),
        ("dsp", dsp),
        ("dsp_by_cpu", dsp_by_cpu),
        ("integers", integers),
    ] {
        writeln!(cargo, "cargo::rustc-check-cfg=cfg({name})")?;
        if holds {
            writeln!(cargo, "cargo::rustc-cfg={name}")?;
        }
    }
    writeln!(cargo, "cargo::rerun-if-changed=build.rs")
}

/// Whether the compiler's flags name a core of ARMv8-M that has the DSP extension, and do not take the extension from it.
fn names_a_core_with_dsp() -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let values = flags.split('\x1f').map(|flag| flag.strip_prefix("-C").unwrap_or(flag).trim());
    let (mut named, mut without) = (false, false);
    for value in values {
        if let Some(cpu) = value.strip_prefix("target-cpu=") {
            named = matches!(cpu, "cortex-m33" | "cortex-m35p" | "cortex-m55" | "cortex-m85");
        } else if let Some(features) = value.strip_prefix("target-feature=") {
            without |= features.split(',').any(|feature| feature == "-dsp");
        }
    }
    named && !without
}
