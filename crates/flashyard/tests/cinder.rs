//! The Cinder driver, built and installed as it is published, against real nodes: by Cinder's own
//! compliance test and its manager of volumes. And the client of the REST API that it stands on.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use support::{Node, text};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn scratch() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// One of the programs that `.ci/install --cinder` brings.
fn tool(program: &str) -> Command {
    let tools = scratch().parent().unwrap().join("cinder/bin");
    let path = tools.join(program);
    assert!(
        path.exists(),
        "{} is missing: .ci/install --cinder",
        path.display()
    );
    let others = std::env::var("PATH").unwrap();
    let mut command = Command::new(path);
    command
        .env("PATH", format!("{}:{others}", tools.display()))
        .env("LC_ALL", "C.UTF-8")
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// What a program prints, which must succeed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// The driver and the client as they are published, built and installed once, with the driver's
/// tests beside them: their folder.
fn installed() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = scratch().join("cinder-driver");
        let _ = std::fs::remove_dir_all(&folder);
        let (wheels, site) = (folder.join("wheels"), folder.join("site"));
        let pip = |arguments: &[&str]| {
            let mut command = tool("pip");
            command.args(["--quiet", "--disable-pip-version-check"]);
            run(command.args(arguments).current_dir(root()))
        };
        let offline = ["--no-deps", "--no-index"];
        let into = [
            "--no-build-isolation",
            "--wheel-dir",
            wheels.to_str().unwrap(),
        ];
        let sources = ["./clients/python", "./openstack"];
        pip(&[&["wheel"], &offline[..], &into, &sources].concat());
        let into = ["--target", site.to_str().unwrap()];
        let find = [
            "--find-links",
            wheels.to_str().unwrap(),
            "cinder-flashyard",
            "flashyard-client",
        ];
        pip(&[&["install"], &offline[..], &into, &find].concat());
        let tests = root().join("openstack/tests");
        support::tool(
            "cp",
            &[
                "--recursive",
                tests.to_str().unwrap(),
                folder.to_str().unwrap(),
            ],
        );
        folder
    })
}

/// Runs the tests of a module below `openstack/tests`, all of which pass.
fn passes(module: &str) {
    let mut python = tool("python");
    python
        .args(["-W", "ignore", "-m", "unittest", "-v"])
        .arg(format!("tests.{module}"))
        .current_dir(installed())
        .env("PYTHONPATH", installed().join("site"))
        .env("FLASHYARD", env!("CARGO_BIN_EXE_flashyard"))
        .env("FLASHYARD_CINDER_PAGE", root().join("docs/openstack.md"));
    let said = run(&mut python);
    assert!(said.ends_with("\nOK\n"), "{said}");
}

#[test]
fn driver_complies() {
    passes("test_compliance");
}

#[test]
fn volume_lives_through_kills_of_the_node() {
    passes("test_life");
}

#[test]
fn features_work() {
    passes("test_features");
}

#[test]
fn volume_migrates_from_a_node_to_another() {
    passes("test_migration");
}

#[test]
fn bad_input_is_refused_and_nothing_is_half_made() {
    passes("test_refusals");
}

#[test]
fn answers_may_be_lost() {
    passes("test_lost_answers");
}

/// The example on the page about clients.
#[test]
fn documented_client_works() {
    let page = std::fs::read_to_string(root().join("docs/clients.md")).unwrap();
    let example = page.split("```python\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    let node = Node::secure_with_data();
    let example = node.in_place_of_documented(example);
    let mut python = tool("python");
    let said = run(python
        .args(["-c", &example])
        .env("PYTHONPATH", installed().join("site")));
    assert_eq!(
        said,
        "data has 64 MiB and is online\nno volume is named archive\n"
    );
}

#[test]
fn code_is_formatted_and_without_lint() {
    for arguments in [&["format", "--check"][..], &["check"]] {
        let mut ruff = tool("ruff");
        run(ruff
            .arg(arguments[0])
            .args(&arguments[1..])
            .args(["--no-cache", "--line-length", "100"])
            .args(["openstack", "clients/python", "tests/vm"])
            .current_dir(root()));
    }
}
