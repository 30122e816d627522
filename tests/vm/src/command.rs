//! Runs a program and turns a failure into an error that shows what it said.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Standard output of `command`.
///
/// # Errors
/// It cannot be started or exits with another code than 0.
pub fn output_of(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {name}: `make vm-test` installs what is missing"))?;
    ensure!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
