//! The image: computes, prints by semihosting and exits, with failure if a number is wrong. On the host, the same by std.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
mod image {
    use core::panic::PanicInfo;

    use cortex_m as _; // brings the critical section that semihosting locks its output with
    use cortex_m_rt::entry;
    use cortex_m_semihosting::debug::{EXIT_FAILURE, EXIT_SUCCESS, ExitStatus, exit};
    use cortex_m_semihosting::hprintln;
    use regard_firmware::Robotics;

    #[entry]
    fn main() -> ! {
        match Robotics::compute() {
            Ok(robotics) => {
                hprintln!("{robotics}");
                stop(if robotics.is_right() { EXIT_SUCCESS } else { EXIT_FAILURE })
            }
            Err(error) => {
                hprintln!("{error}");
                stop(EXIT_FAILURE)
            }
        }
    }

    #[panic_handler]
    fn panic(info: &PanicInfo<'_>) -> ! {
        hprintln!("{info}");
        stop(EXIT_FAILURE)
    }

    /// Ends the emulator, or halts a board's debugger.
    fn stop(status: ExitStatus) -> ! {
        loop {
            exit(status);
        }
    }
}

#[cfg(not(target_os = "none"))]
fn main() -> std::io::Result<std::process::ExitCode> {
    use std::io::Write as _;
    use std::process::ExitCode;

    let robotics = regard_firmware::Robotics::compute().map_err(std::io::Error::other)?;
    writeln!(std::io::stdout(), "{robotics}")?;
    Ok(if robotics.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
