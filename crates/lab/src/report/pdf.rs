//! The page as PDF: printed by Chromium, which is started for it.

use std::path::Path;
use std::process::Command;

use super::ReportError;
use crate::program::{ProgramError, answer};

/// What Chromium is called, by distribution.
const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

/// The page of [`super::html()`] as PDF.
///
/// # Errors
/// When there is no Chromium, or it does not print.
pub fn pdf(page: &str) -> Result<Vec<u8>, ReportError> {
    let failed = |source| ReportError::Pdf(format!("a temporary folder: {source}"));
    // Of this user alone: Chromium keeps its profile there, too.
    let folder = tempfile::tempdir().map_err(failed)?;
    let (from, to) = (
        folder.path().join("page.html"),
        folder.path().join("page.pdf"),
    );
    std::fs::write(&from, page).map_err(failed)?;
    for name in NAMES {
        match answer(&mut printing(name, folder.path(), &from, &to)) {
            Err(ProgramError::Missing { .. }) => {}
            Err(error) => return Err(ReportError::Pdf(error.to_string())),
            Ok(_) => {
                let printed = std::fs::read(&to);
                return printed
                    .map_err(|_| ReportError::Pdf(format!("{name} has printed nothing")));
            }
        }
    }
    Err(ReportError::NoChromium)
}

fn printing(name: &str, folder: &Path, from: &Path, to: &Path) -> Command {
    let mut command = Command::new(name);
    command.args(["--headless", "--disable-gpu", "--no-pdf-header-footer"]);
    // Its sandbox takes no root. The page is ours, without scripts, and nothing is fetched.
    if rustix::process::geteuid().is_root() {
        command.arg("--no-sandbox");
    }
    command.arg(format!(
        "--user-data-dir={}",
        folder.join("profile").display()
    ));
    command.arg(format!("--print-to-pdf={}", to.display()));
    command.arg(format!("file://{}", from.display()));
    command
}
