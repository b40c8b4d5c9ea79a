//! The program `regard`: the window, and the subcommands.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    regard_desktop::cli::main()
}
