//! Exit codes: 0 done, 1 refused, failed or not shown, 2 wrong usage or settings, 3 no node
//! answers.

use std::fmt::Display;
use std::process::ExitCode;

use crate::output;

/// It worked.
pub fn done() -> ExitCode {
    ExitCode::SUCCESS
}

/// It was refused, or it failed.
pub fn failed(error: &impl Display) -> ExitCode {
    report(error, 1)
}

/// Nobody answers.
pub fn unreachable(error: &impl Display) -> ExitCode {
    report(error, 3)
}

/// The command line or the settings are wrong.
pub fn usage(error: &impl Display) -> ExitCode {
    report(error, 2)
}

/// The same where that has been said.
pub fn wrong_usage() -> ExitCode {
    ExitCode::from(2)
}

fn report(error: &impl Display, code: u8) -> ExitCode {
    output::tell(&format_args!("flashyard: {error}"));
    ExitCode::from(code)
}
