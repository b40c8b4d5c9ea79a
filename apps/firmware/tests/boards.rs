//! Tests that every emulated core computes the numbers of this machine: the same bits if both round a multiply-add in the same
//! way, and within a bound otherwise. Needs QEMU, Bochs and the targets; `.ci/run` installs them.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]
#![expect(clippy::print_stdout, reason = "the tests say how close each core is")]

mod cores;
mod parts;

use std::process::Command;
use std::sync::LazyLock;

use cores::CORES;
use parts::{elf, flash};
use regard_firmware::{LineNumbers, MEMORY, cases};
use regard_kernels::Tier;

/// The largest distance allowed between cores that round differently, in units of the last place of a line's largest number.
const ULPS: f32 = 16.0;

/// A case's name, and its numbers as hexadecimal digits: eight for a float, two for an 8-bit integer.
type Line = (String, Vec<String>);

/// This machine, with one of its tiers.
struct Host {
    tier: &'static str,
    /// Whether the tier rounds a multiply-add once.
    fused: bool,
    lines: Vec<Line>,
}

/// The tier found at run time, and the tier that is fixed at compile time. A process has one tier, so tests share the results
/// of each.
static HOSTS: LazyLock<[Host; 2]> = LazyLock::new(|| {
    let found = Tier::active();
    let on = |tier: Tier, name| {
        assert!(tier.choose());
        let mut lines = Vec::new();
        let mut memory = vec![0.0; 4 * MEMORY];
        let mut line =
            |name: &str, numbers: LineNumbers<'_>| lines.push(parsed(&format!("{name}:{numbers}")));
        cases::run(&mut memory, &mut line).unwrap();
        Host { tier: name, fused: is_fused(), lines }
    };
    let portable = on(Tier::Portable, "the portable tier");
    [on(found, "the tier found at run time"), portable]
});

/// The lines that a program prints when cargo runs it.
fn cargo(arguments: &[&str]) -> Vec<Line> {
    output(arguments).lines().map(parsed).collect()
}

fn output(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .arg("--quiet")
        .current_dir("../..")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "cargo {}: {text}{}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

fn parsed(line: &str) -> Line {
    let (name, numbers) = line.split_once(": ").unwrap();
    (name.to_owned(), numbers.split(' ').map(str::to_owned).collect())
}

/// Whether the tier found at run time rounds a multiply-add once: (1 + ε)² − (1 + 2ε) then keeps its ε².
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

/// Compares the lines of a core with those of this machine, and prints how close they are.
fn compare(core: &str, fused: bool, found: &[Line]) {
    for Host { tier, fused: fused_here, lines } in &*HOSTS {
        assert_eq!(found.len(), lines.len(), "{core}");
        let mut largest = 0_f32;
        for ((name, found), (expected_name, expected)) in found.iter().zip(lines) {
            assert_eq!((name, found.len()), (expected_name, expected.len()), "{core}");
            if fused == *fused_here {
                assert_eq!(found, expected, "{core}: {name}");
            } else {
                let distance = distance(found, expected);
                assert!(
                    distance <= ULPS,
                    "{core}: {name}: {distance} ULP: {found:?} instead of {expected:?}"
                );
                largest = largest.max(distance);
            }
        }
        let how = if fused == *fused_here {
            "the same bits".to_owned()
        } else {
            format!("within {largest} ULP")
        };
        println!("{core}: {} lines, {how} as {tier}", found.len());
    }
}

/// Interrupts stay on while a kernel runs, and `+strict-align` is respected where addresses that are not aligned are faults.
#[test]
#[ignore = "needs qemu-system-arm and the bare-metal target"]
fn a_timer_interrupts_a_run_at_any_instruction() {
    let strict = "build.rustflags=['-Ctarget-feature=+strict-align']";
    for (flags, trap) in [(&[][..], false), (&["--config", strict], true)] {
        let mut image = Command::new(env!("CARGO"));
        image.args(["m4f", "--quiet", "--example", "interrupts"]).args(flags).current_dir("../..");
        if trap {
            image.env("REGARD_TRAP", "1");
        }
        let output = image.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "trap {trap}: {said}");
        println!("trap {trap}: {said}");
        let numbers: Vec<u32> = said.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [count, late] = numbers[..] else { panic!("{said}") };
        // A tick of this board is 40 instructions. Saving the registers and the first lines of the handler take less.
        assert!(count > 50 && late <= 2, "{said}");
    }
}

#[test]
#[ignore = "needs qemu-system-arm, qemu-system-riscv32 and the bare-metal targets"]
fn all_cores_agree_with_this_machine() {
    for (alias, fused, own) in CORES {
        compare(alias, fused, &cargo(&[alias]));
        if own {
            cargo(&[alias, "--bin", "no_panic"]);
            println!("{alias}: no panic can be reached from the kernels: the image links and runs");
        }
    }
}

/// Helium's vectors treat subnormal numbers as zero, and at these levels the compiler vectorizes loops by itself.
#[test]
#[ignore = "needs qemu-system-arm and the bare-metal targets"]
fn helium_has_the_bits_of_this_machine_at_every_level() {
    for level in ["2", "3", "'z'"] {
        let option = format!("opt-level={level}");
        let found = image("m55-cpu", "regard-firmware", &[&option]);
        let found: Vec<_> = found.lines().map(parsed).collect();
        compare(&format!("m55-cpu, {option}"), true, &found);
    }
}

/// The profiles in which the guide says that no kernel can panic: `opt-level` and `lto`.
/// `cargo m4f` has 's' and 'fat'.
const WITHOUT_PANICS: [(&str, &str); 6] = [
    ("2", "'fat'"),
    ("2", "false"),
    ("3", "'fat'"),
    ("3", "false"),
    ("'s'", "false"),
    ("'z'", "'fat'"),
];

#[test]
#[ignore = "needs qemu-system-arm and the bare-metal targets"]
fn no_panic_can_be_reached_in_the_profiles_of_the_guide() {
    for (level, lto) in WITHOUT_PANICS {
        let options = [format!("opt-level={level}"), format!("lto={lto}")];
        image("m4f", "no_panic", &options);
        println!("m4f: no panic can be reached with {}", options.join(", "));
    }
}

#[test]
#[ignore = "needs qemu-system-arm and the bare-metal targets"]
fn the_stack_is_what_the_guide_says() {
    let dev = ["opt-level=0", "lto=false", "debug-assertions=true", "overflow-checks=true"];
    let dev: Vec<_> = dev.into_iter().chain(["package.regard-kernels.opt-level='s'"]).collect();
    for (name, options, limit) in [("release", vec![], 2048), ("dev", dev, 2560)] {
        // The operation, its shape, its implementation, instructions, stack, scratch and memory.
        let costs = image("m4f", "costs", &options);
        let stacks =
            costs.lines().filter_map(|line| match line.split(';').collect::<Vec<_>>()[..] {
                [_, _, "kernel" | "int8", _, stack, ..] => Some(stack.parse::<usize>().unwrap()),
                _ => None,
            });
        let most = stacks.max().unwrap();
        assert!(most < limit, "{name}: {most} bytes of stack");
        println!("m4f: at most {most} bytes of stack in a {name} build");
    }
}

#[test]
#[ignore = "needs the bare-metal targets"]
fn position_independent_code_is_refused_with_a_reason() {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--profile", "firmware", "-p", "regard-kernels"])
        .args(["--target", "thumbv7em-none-eabihf"])
        .env("RUSTFLAGS", "-C relocation-model=ropi-rwpi")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    let refused = "relocation-model=ropi-rwpi is not supported: constants hold absolute addresses";
    assert!(!built.status.success() && said.contains(refused), "{said}");
    println!("thumbv7em: -C relocation-model=ropi-rwpi is refused");
}

/// Shapes, and CMSIS-DSP's instructions on the Cortex-M55 for an attention and for a product (COSTS.md).
const CMSIS_DSP: [(&str, u32, u32); 4] = [
    ("16x16", 20_921, 3_442),
    ("32x32", 103_498, 24_425),
    ("64x32", 403_901, 93_812),
    ("64x64", 589_482, 186_873),
];

#[test]
#[ignore = "needs qemu-system-arm and the bare-metal targets"]
fn helium_takes_fewer_instructions_than_cmsis_dsp() {
    let costs = output(&["m55-cpu", "--bin", "costs"]);
    let instructions = |name: &str, shape: &str| {
        let line =
            costs.lines().find_map(|line| line.strip_prefix(&format!("{name};{shape};kernel;")));
        line.unwrap().split(';').next().unwrap().parse::<u32>().unwrap()
    };
    for (shape, attention, product) in CMSIS_DSP {
        for (name, theirs, most) in [
            ("attention", attention, 0.9),
            ("causal attention", attention, 0.9),
            ("matmul", product, 1.0),
        ] {
            let share = f64::from(instructions(name, shape)) / f64::from(theirs);
            assert!(share <= most, "{name} {shape}: {share} of CMSIS-DSP's instructions");
            println!("m55-cpu: {name} {shape} takes {share:.2} of CMSIS-DSP's instructions");
        }
    }
}

/// The operations of the image `size` whose bytes of flash are the columns of the guide's table of profiles.
const FLASH: [&str; 4] = ["attention", "causal attention", "any attention", "any int8 attention"];
const GUIDE: &str = include_str!("../../../crates/regard-kernels/src/guide.md");

#[test]
#[ignore = "needs the bare-metal targets"]
fn flash_is_what_the_guide_says() {
    let row = GUIDE.lines().find_map(|line| line.strip_prefix("| the lines above |")).unwrap();
    let limits = row.split('|').filter_map(|x| x.trim().replace(',', "").parse::<u32>().ok());
    let limits: Vec<_> = limits.collect();
    assert_eq!(limits.len(), FLASH.len(), "{row}");
    for (operation, limit) in FLASH.into_iter().zip(limits) {
        let size = |call| {
            flash(&elf(
                "m4f",
                "size",
                &[],
                &[("REGARD_OPERATION", operation), ("REGARD_CALL", call)],
            ))
        };
        let bytes = size("yes") - size("no");
        // A hundredth is a few instructions, by which versions of the compiler may differ.
        assert!(
            bytes <= limit + limit / 100,
            "{operation}: {bytes} bytes of flash, {limit} in the guide"
        );
        println!("m4f: {operation} takes {bytes} bytes of flash");
    }
}

/// The text that an image prints, built with these options of its profile.
fn image(alias: &str, bin: &str, options: &[impl AsRef<str>]) -> String {
    let options = options.iter().flat_map(|option| {
        ["--config".to_owned(), format!("profile.firmware.{}", option.as_ref())]
    });
    let options: Vec<_> =
        [alias, "--bin", bin].map(str::to_owned).into_iter().chain(options).collect();
    output(&options.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
#[ignore = "needs Bochs"]
fn avx512_in_the_emulator_agrees_with_this_machine() {
    // The image fails on any other tier.
    compare("AVX-512 in the emulator Bochs", true, &cargo(&["x86"]));
}
