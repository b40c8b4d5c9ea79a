//! The image: computes the cases and prints the bits of every number by semihosting, and on the host by `std`.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
mod image {
    use regard_firmware::image::println;
    use regard_firmware::{cases, memory};

    regard_firmware::image!(run);

    fn run() -> i32 {
        let done = cases::run(memory(), &mut |name, numbers| println!("{name}:{numbers}"));
        if let Err(error) = done {
            println!("{error}");
        }
        i32::from(done.is_err())
    }
}

#[cfg(not(target_os = "none"))]
fn main() -> std::io::Result<()> {
    use std::io::Write as _;

    let mut memory = vec![0.0; 4 * regard_firmware::MEMORY];
    let mut out = std::io::stdout().lock();
    let mut written = Ok(());
    let mut line = |name: &str, numbers: regard_firmware::LineNumbers<'_>| {
        if written.is_ok() {
            written = writeln!(out, "{name}:{numbers}");
        }
    };
    regard_firmware::cases::run(&mut memory, &mut line).map_err(std::io::Error::other)?;
    written
}
