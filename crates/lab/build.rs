//! Names the revision of the source that is built, for results that say what produced them.

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

fn main() {
    // A source that is no checkout has no revision.
    let revision = git(&["describe", "--always", "--dirty", "--abbrev=12"]);
    let revision = revision.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=FLASHYARD_GIT_REVISION={revision}");
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}
