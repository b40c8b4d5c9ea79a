//! Tests that images for real parts lie within the parts' memory and begin where the parts start. None of them has run on
//! hardware.

use core::ops::Range;
use std::fs;
use std::process::Command;

use crate::cargo;

/// The image that an alias runs, built with these options and environment variables.
pub(crate) fn elf(alias: &str, bin: &str, options: &[&str], variables: &[(&str, &str)]) -> Vec<u8> {
    let image = Command::new(env!("CARGO"))
        .args([alias, "--quiet", "--bin", bin])
        .args(["--config", r#"target.'cfg(target_os = "none")'.runner='cat'"#])
        .args(options)
        .envs(variables.iter().copied())
        .current_dir("../..")
        .output()
        .unwrap();
    assert!(image.status.success(), "{alias}: {}", String::from_utf8_lossy(&image.stderr));
    image.stdout
}

/// Little-endian numbers of an image.
fn word(elf: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(elf[at..at + 4].try_into().unwrap())
}

fn half(elf: &[u8], at: usize) -> usize {
    u16::from_le_bytes(elf[at..at + 2].try_into().unwrap()).into()
}

/// The bytes of flash that an image of 32 bits occupies: its loaded sections.
pub(crate) fn flash(elf: &[u8]) -> u32 {
    let (start, size, count) = (word(elf, 0x20) as usize, half(elf, 0x2e), half(elf, 0x30));
    let sections = (0..count).map(|i| start + i * size);
    // SHT_PROGBITS and SHF_ALLOC.
    sections
        .filter(|s| word(elf, s + 4) == 1 && word(elf, s + 8) & 2 != 0)
        .map(|s| word(elf, s + 20))
        .sum()
}

/// The aliases of parts, and the largest images.
const PARTS: [&str; 3] = ["stm32f411", "nrf52840", "rp2350"];
const IMAGES: [&str; 2] = ["regard-firmware", "costs"];
/// Images without LTO are larger and link faster, and another test has already compiled their code.
const WITHOUT_LTO: [&str; 2] = ["--config", "profile.firmware.lto=false"];

#[test]
#[ignore = "needs the bare-metal targets"]
fn images_lie_within_the_memory_of_the_parts() {
    for part in PARTS {
        let facts = fs::read_to_string(format!("boards/{part}.board")).unwrap();
        let region = |name| {
            let fact = facts.lines().filter_map(|line| line.split_once('='));
            let (_, region) = fact.into_iter().find(|(key, _)| key.trim() == name).unwrap();
            let (origin, length) = region.trim().split_once(' ').unwrap();
            let origin = u32::from_str_radix(origin.strip_prefix("0x").unwrap(), 16).unwrap();
            let (count, unit) = length.split_at(length.len() - 1);
            let unit = if unit == "M" { 1 << 20 } else { 1 << 10 };
            origin..origin + count.parse::<u32>().unwrap() * unit
        };
        let (flash, ram) = (region("flash"), region("ram"));
        for bin in IMAGES {
            let elf = elf(part, bin, &WITHOUT_LTO, &[]);
            let size = half(&elf, 0x2a);
            let headers = (0..half(&elf, 0x2c)).map(|i| word(&elf, 0x1c) as usize + i * size);
            // PT_LOAD segments that are not empty.
            let loaded = headers.filter(|h| word(&elf, *h) == 1 && word(&elf, h + 20) > 0);
            let mut begin = None;
            for header in loaded {
                let [offset, address, source, stored, size] =
                    [4, 8, 12, 16, 20].map(|at| word(&elf, header + at));
                let within = |region: &Range<u32>, from: u32, len: u32| {
                    region.contains(&from) && from + len <= region.end
                };
                assert!(
                    within(&flash, address, size) || within(&ram, address, size),
                    "{part}, {bin}: {size} bytes at {address:#x}"
                );
                assert!(
                    stored == 0 || within(&flash, source, stored),
                    "{part}, {bin}: {source:#x}"
                );
                if stored > 0 && source == flash.start {
                    begin = Some((offset as usize, stored as usize));
                }
            }
            let (offset, stored) = begin.unwrap();
            let begin = &elf[offset..offset + stored];
            let [stack, reset] = [0, 4].map(|at| word(begin, at));
            assert_eq!(stack, ram.end, "{part}, {bin}");
            assert!(
                flash.contains(&reset) && reset % 2 == 1,
                "{part}, {bin}: starts at {reset:#x}"
            );
            if part == "rp2350" {
                let block = [0xffff_ded3_u32, 0x1021_0142, 0x1ff, 0, 0xab12_3579];
                let words: Vec<_> = (0..stored.min(4096) / 4).map(|i| word(begin, 4 * i)).collect();
                assert!(words.windows(5).any(|words| words == block), "{bin}: no image definition");
            }
        }
        println!("{part}: {} fit in flash and RAM", IMAGES.join(", "));
    }
    // An ESP32-C3 has no atomics. Its start-up code is not part of this project.
    cargo(&["rv32imc", "--bin", "no_panic"]);
    println!("rv32imc: the image links and runs");
}
