//! The Debian package holds a program that runs, what its service names, and settings that are
//! right.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn output(program: &str, arguments: &[&Path]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_package_is_whole() {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    let directory = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_flashyard"));
    let script = deploy.join("package");
    let made = output(script.to_str().unwrap(), &[program, directory.path()]);
    let package = PathBuf::from(made.trim_end());

    let fields = output("dpkg-deb", &[Path::new("--field"), &package]);
    for part in [
        "Package: flashyard\n",
        concat!("Version: ", env!("CARGO_PKG_VERSION"), "\n"),
        "libc6 (>= ",
    ] {
        assert!(fields.contains(part), "{fields:?} lacks {part:?}");
    }
    let marks = fields.matches('@').count();
    assert_eq!(
        marks, 1,
        "one is the maintainer's, none is left to fill in: {fields}"
    );

    let root = directory.path().join("root");
    output("dpkg-deb", &[Path::new("--extract"), &package, &root]);
    let control = directory.path().join("control");
    output("dpkg-deb", &[Path::new("--control"), &package, &control]);
    let kept = std::fs::read_to_string(control.join("conffiles")).unwrap();
    let settings = root.join(kept.trim_end().trim_start_matches('/'));
    // Not everybody may make the directory of a service.
    let text = std::fs::read_to_string(&settings).unwrap();
    let state = directory.path().join("state");
    let text = text.replace("/var/lib/flashyard", state.to_str().unwrap());
    let settings = directory.path().join("settings.toml");
    std::fs::write(&settings, text).unwrap();
    let check = Command::new(root.join("usr/bin/flashyard"))
        .args(["serve", "--check-config", "--config"])
        .arg(settings)
        .status();
    assert!(check.unwrap().success());

    let unit = root.join("lib/systemd/system/flashyard.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    let named: Vec<&str> = unit
        .lines()
        .filter_map(|line| line.strip_prefix("Exec"))
        .flat_map(|line| line.split([' ', '=']))
        .filter(|word| word.starts_with('/'))
        .collect();
    assert!(named.len() >= 4, "{named:?}");
    for path in named {
        assert!(root.join(&path[1..]).exists(), "the service names {path}");
    }
    assert!(
        root.join("usr/share/man/man1/flashyard-serve.1.gz")
            .exists()
    );
}
