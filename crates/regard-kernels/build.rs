//! Sets a `cfg` for cores without vectors (`scalar`), and for those of them that have fused multiply-add (`fused`), the DSP
//! extension of Cortex-M (`dsp`, with `dsp_by_cpu` if only the CPU's name tells) or Helium (`helium`). Stable Rust has no `cfg`
//! of its own for these.
//!
//! The build fails for position-independent code on Cortex-M, because that code would call wrong addresses.

use std::env;
use std::io::{self, Write as _};

fn main() -> io::Result<()> {
    let scalar =
        matches!(env::var("CARGO_CFG_TARGET_ARCH").as_deref(), Ok("arm" | "riscv32" | "riscv64"));
    // The target's name tells the extensions.
    let target = env::var("TARGET").unwrap_or_default();
    let architecture = target.split('-').next().unwrap_or_default();
    let fused = match architecture
        .strip_prefix("riscv32")
        .or_else(|| architecture.strip_prefix("riscv64"))
    {
        Some(extensions) => extensions.contains(['f', 'g']),
        // The hard-float ABI promises FPv4-SP or FPv5. (Cortex-R and -A with that ABI may have VFPv3, which lacks VFMA.)
        None => matches!(architecture, "thumbv7em" | "thumbv8m.main") && target.ends_with("eabihf"),
    };
    // ARMv7E-M is ARMv7-M with the extension. In ARMv8-M each core may have the extension or not, and `-C target-cpu` tells.
    let v8 = architecture == "thumbv8m.main";
    // The assembly for the extension loads words of bytes from any address, which `+strict-align` forbids.
    let dsp_by_cpu = v8 && !is_strict() && names_a_core(&WITH_DSP, &["-dsp"]);
    let helium = v8 && fused && names_a_core(&WITH_HELIUM, &["-mve", "-mve.fp", "-lob"]);
    let dsp = architecture == "thumbv7em" && !is_strict() || dsp_by_cpu;
    let mut cargo = io::stdout();
    for (name, holds) in [
        ("scalar", scalar),
        ("fused", scalar && fused),
        ("dsp", dsp),
        ("dsp_by_cpu", dsp_by_cpu),
        ("helium", helium),
    ] {
        writeln!(cargo, "cargo::rustc-check-cfg=cfg({name})")?;
        if holds {
            writeln!(cargo, "cargo::rustc-cfg={name}")?;
        }
    }
    let model = codegen_options("relocation-model").pop().unwrap_or_default();
    if matches!(model.as_str(), "ropi" | "rwpi" | "ropi-rwpi") {
        // ROPI: the pointers to functions in `linked.rs` are constants, and hold the addresses that the linker gave them. RWPI:
        // an interrupt could find r9 overwritten by the naked functions of `arch`.
        writeln!(
            cargo,
            "cargo::error=relocation-model={model} is not supported: constants hold absolute addresses of functions, which \
             nothing moves when the image is loaded elsewhere, and assembly uses r9, the base of relocated data. Link the image \
             for the address where it runs, with relocation-model=static"
        )?;
    }
    writeln!(cargo, "cargo::rerun-if-changed=build.rs")
}

/// The values that the compiler's flags give to a codegen option, in the order of the flags.
fn codegen_options(name: &str) -> Vec<String> {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let values = flags.split('\x1f').filter_map(|flag| {
        let flag = ["-C", "--codegen="]
            .iter()
            .find_map(|prefix| flag.strip_prefix(prefix))
            .unwrap_or(flag);
        flag.trim().strip_prefix(name)?.strip_prefix('=')
    });
    values.map(str::to_owned).collect()
}

/// Whether the compiler's flags forbid loads from addresses that are not aligned.
fn is_strict() -> bool {
    let sets = codegen_options("target-feature");
    let mut features = sets.iter().flat_map(|set| set.split(','));
    features.rfind(|feature| feature.ends_with("strict-align")) == Some("+strict-align")
}

/// Cores of ARMv8-M with the DSP extension, and cores with Helium, the vector extension. The FPU decides whether Helium
/// computes floats.
const WITH_DSP: [&str; 5] = ["cortex-m33", "cortex-m35p", "cortex-m52", "cortex-m55", "cortex-m85"];
const WITH_HELIUM: [&str; 3] = ["cortex-m52", "cortex-m55", "cortex-m85"];

/// Whether the compiler's flags name one of the `cores`, and disable no feature that the extension needs.
fn names_a_core(cores: &[&str], without: &[&str]) -> bool {
    codegen_options("target-cpu").last().is_some_and(|cpu| cores.contains(&cpu.as_str()))
        && !codegen_options("target-feature")
            .iter()
            .any(|set| set.split(',').any(|feature| without.contains(&feature)))
}
