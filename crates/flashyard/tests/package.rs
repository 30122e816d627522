//! The Debian package holds a program that runs, what its service names, and settings that are
//! right; a release holds it once more, with symbols, a bill of materials and checksums.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn output(program: &str, arguments: &[&Path]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// systemd itself knows every word of the service, and calls it well confined: 10 is "unsafe", and
/// up to 3 is what it calls OK.
fn systemd_takes(unit: &str, root: &Path, directory: &Path) {
    let installed = root.join("usr/bin/flashyard");
    let unit = unit.replace("=/usr/bin/flashyard", &format!("={}", installed.display()));
    let path = directory.join("flashyard.service");
    std::fs::write(&path, unit).unwrap();
    let analyze = |arguments: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        let output = command.args(arguments).arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}{output:?}");
        said
    };
    // A word that it does not know is no error to it.
    assert_eq!(analyze(&["verify"]), "");
    analyze(&["security", "--offline=true", "--threshold=30"]);
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
    systemd_takes(&unit, &root, directory.path());
    assert!(
        root.join("usr/share/man/man1/flashyard-serve.1.gz")
            .exists()
    );
}

/// Sections of lines and symbols in a program, and the identifier that tells whose they are.
fn debug_sections(program: &Path) -> (usize, String) {
    let sections = output(
        "readelf",
        &[Path::new("--sections"), Path::new("--wide"), program],
    );
    let notes = output("readelf", &[Path::new("--notes"), program]);
    let id = notes
        .lines()
        .find_map(|line| line.trim().strip_prefix("Build ID: "));
    let names = [" .debug_info ", " .debug_line ", " .symtab "];
    let count = names.iter().filter(|name| sections.contains(*name)).count();
    (count, id.unwrap().to_owned())
}

#[test]
fn a_release_is_small_has_its_symbols_apart_and_names_everything_in_it() {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    let directory = tempfile::tempdir().unwrap();
    let made = directory.path().join("made");
    let program = Path::new(env!("CARGO_BIN_EXE_flashyard"));
    let script = deploy.join("release");
    output(script.to_str().unwrap(), &[program, &made]);

    let sums = std::fs::read_to_string(made.join("SHA256SUMS")).unwrap();
    let names: Vec<&str> = sums.lines().map(|line| &line[66..]).collect();
    let files = std::fs::read_dir(&made).unwrap().count();
    assert_eq!((names.len(), files), (4, 5), "{sums}");
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--quiet", "SHA256SUMS"]);
    assert!(check.current_dir(&made).status().unwrap().success());

    let unpacked = |end: &str| {
        let name = names.iter().find(|name| name.ends_with(end)).unwrap();
        let archive = made.join(name);
        output(
            "tar",
            &[
                Path::new("--extract"),
                Path::new("--directory"),
                directory.path(),
                Path::new("--file"),
                &archive,
            ],
        );
        directory.path().join(name.strip_suffix(".tar.gz").unwrap())
    };
    let small = unpacked("-linux.tar.gz").join("usr/bin/flashyard");
    let (sections, id) = debug_sections(&small);
    assert_eq!(sections, 0, "the program has symbols");
    let symbols = unpacked("-symbols.tar.gz").join("usr/lib/debug/.build-id");
    let symbols = symbols.join(&id[..2]).join(format!("{}.debug", &id[2..]));
    let (sections, same) = debug_sections(&symbols);
    assert!(sections == 3 && same == id, "{sections} {same}");
    let bytes = |path: &Path| std::fs::metadata(path).unwrap().len();
    assert!(bytes(&small) < bytes(program) * 3 / 4, "{}", bytes(&small));

    let bill = names
        .iter()
        .find(|name| name.ends_with(".cdx.json"))
        .unwrap();
    let bill = std::fs::read_to_string(made.join(bill)).unwrap();
    let bill: serde_json::Value = serde_json::from_str(&bill).unwrap();
    let parts = bill["components"].as_array().unwrap();
    for name in ["redb", "s2n-tls", "react", "pool"] {
        let part = parts.iter().find(|part| part["name"] == name).unwrap();
        assert!(
            part["version"].is_string() && part["licenses"][0].is_object(),
            "{part}"
        );
    }
    assert!(
        parts.iter().all(|part| part["name"] != "proptest"),
        "for tests only"
    );
}
