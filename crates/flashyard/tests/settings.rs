//! Settings on the command line: the sample is printed and correct, mistakes end with code 2, and
//! what is said to be correct starts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use support::{Node, flashyard, text};

/// `serve` over a file with these settings.
fn serve(directory: &Path, settings: &str, extra: &[&str]) -> std::process::Output {
    let path = directory.join("flashyard.toml");
    std::fs::write(&path, settings).unwrap();
    let arguments = ["serve", "--config", path.to_str().unwrap()];
    flashyard(&[&arguments[..], extra].concat())
}

fn check(directory: &Path, settings: &str) -> std::process::Output {
    serve(directory, settings, &["--check-config"])
}

#[test]
fn the_printed_default_settings_are_correct() {
    let printed = flashyard(&["serve", "--print-default-config"]);
    assert!(printed.status.success());
    let directory = tempfile::tempdir().unwrap();
    // Not everybody may make the directory of a service.
    let state = directory.path().join("state");
    let settings = text(&printed.stdout).replace("/var/lib/flashyard", state.to_str().unwrap());
    let checked = check(directory.path(), &settings);
    assert!(checked.status.success(), "{checked:?}");
    assert!(!state.exists(), "checking settings makes nothing");
}

#[test]
fn a_wrong_setting_ends_with_code_2_and_names_file_line_and_key() {
    let directory = tempfile::tempdir().unwrap();
    let checked = check(directory.path(), "[log]\nlevel = \"loud\"\n");
    assert_eq!(checked.status.code(), Some(2));
    let message = text(&checked.stderr);
    for part in ["flashyard.toml", "line 2", "level", "loud", "`debug`"] {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}

#[test]
fn a_missing_settings_file_is_named() {
    let checked = flashyard(&["serve", "--check-config", "--config", "/no/such/file.toml"]);
    assert_eq!(checked.status.code(), Some(2));
    assert!(text(&checked.stderr).contains("/no/such/file.toml"));
}

/// The exit code of a node over the settings of the last check; none if it serves.
fn start(directory: &Path) -> Option<i32> {
    let mut node = Command::new(env!("CARGO_BIN_EXE_flashyard"))
        .args(["serve", "--config"])
        .arg(directory.join("flashyard.toml"))
        .current_dir(directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    for _ in 0..1000 {
        if let Some(ended) = node.try_wait().unwrap() {
            return ended.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    node.kill().unwrap();
    node.wait().unwrap();
    None
}

/// Settings with which no node starts, and the one that is at fault, with its section. `DIR` stands
/// for a directory that has a file called `file`, and `STATE` for a state directory.
const WRONG: &[(&str, &str)] = &[
    (
        "[[nvme.ports]]\nlisten = \"127.0.0.1:4420\"\ntransport = \"udp\"",
        "nvme.ports.transport",
    ),
    (
        "[[nvme.ports]]\nlisten = \"127.0.0.1:4420\"\ntransport = \"rdma\"\ntls = true",
        "nvme.ports.transport",
    ),
    ("state_directory = \"\"", "state_directory"),
    ("state_directory = \"DIR/file\"", "state_directory"),
    ("state_directory = \"DIR/file/state\"", "state_directory"),
    ("state_directory = \"/proc/state\"", "state_directory"),
    ("state_directory = \"DIR/a\\nb\"", "state_directory"),
    ("STATEstate_key_file = \"/nowhere/key\"", "state_key_file"),
    ("STATEstate_key_file = \"DIR/file\"", "state_key_file"),
    (
        "STATEstate_key_file_previous = \"credential\"",
        "state_key_file_previous",
    ),
    ("STATE[node]\nname = \"-\"", "node.name"),
    ("STATE[node]\ncores = [4095]", "node.cores"),
    ("STATE[node]\ncores = [-1]", "node.cores"),
    ("STATE[node]\ncores = [0, 0]", "node.cores"),
    ("STATE[nvme]\nports = []", "nvme.ports"),
    (
        "STATE[nvme]\ncontroller_ids = [0, 100]",
        "nvme.controller_ids",
    ),
    (
        "STATE[nvme]\ncontroller_ids = [9, 8]",
        "nvme.controller_ids",
    ),
    (
        "STATE[nvme]\ncontroller_ids = [1, 65520]",
        "nvme.controller_ids",
    ),
    ("STATE[nvme]\ncontroller_ids = [1]", "nvme.controller_ids"),
    (
        "STATE[node]\ncores = [0, 1]\n[nvme]\ncontroller_ids = [1, 127]",
        "nvme.controller_ids",
    ),
    ("STATE[nvme]\nmdns = 1", "nvme.mdns"),
    (
        "STATE[[nvme.ports]]\nlisten = \"192.0.2.1:4420\"",
        "nvme.ports.listen",
    ),
    (
        "STATE[[nvme.ports]]\nlisten = \"127.0.0.1\"",
        "nvme.ports.listen",
    ),
    (
        "STATE[[nvme.ports]]\nlisten = \"127.0.0.1:65536\"",
        "nvme.ports.listen",
    ),
    (
        "STATE[[nvme.ports]]\nlisten = \"127.0.0.1:4420\"\n\
         [[nvme.ports]]\nlisten = \"0.0.0.0:4420\"",
        "nvme.ports.listen",
    ),
    (
        "STATE[[nvme.ports]]\nlisten = \"127.0.0.1:0\"\nadvertise = \"0.0.0.0:4420\"",
        "nvme.ports.advertise",
    ),
    (
        "STATE[[nvme.ports]]\nlisten = \"127.0.0.1:0\"\nadvertise = \"192.0.2.1:0\"",
        "nvme.ports.advertise",
    ),
    (
        "STATE[[nvme.ports]]\nlisten = \"127.0.0.1:0\"\ntls = 1",
        "nvme.ports.tls",
    ),
    ("STATE[api]\nlisten = \"192.0.2.1:4400\"", "api.listen"),
    ("STATE[api]\nlisten = \"127.0.0.1:4420\"", "api.listen"),
    ("STATE[api]\nprotocol = \"ftp\"", "api.protocol"),
    (
        "STATE[api]\ncertificate = \"DIR/none\"\ncertificate_key = \"DIR/none\"",
        "api.certificate",
    ),
    (
        "STATE[api]\ncertificate = \"DIR/file\"\ncertificate_key = \"DIR/file\"",
        "api.certificate",
    ),
    (
        "STATE[api]\ncertificate_key = \"DIR/file\"",
        "api.certificate_key",
    ),
    (
        "STATE[pools]\ndrive_wait_seconds = 3601",
        "pools.drive_wait_seconds",
    ),
    (
        "STATE[pools]\ndrive_wait_seconds = -1",
        "pools.drive_wait_seconds",
    ),
    ("STATE[pools]\nmap_cache_mib = 0", "pools.map_cache_mib"),
    (
        "STATE[pools]\nmap_cache_mib = 9223372036854775807",
        "pools.map_cache_mib",
    ),
    ("STATE[log]\nlevel = \"loud\"", "log.level"),
    ("STATE[log]\nformat = \"xml\"", "log.format"),
    (
        "STATE[shutdown]\ntimeout_seconds = 0",
        "shutdown.timeout_seconds",
    ),
    (
        "STATE[shutdown]\ntimeout_seconds = 1e300",
        "shutdown.timeout_seconds",
    ),
];

#[test]
fn no_settings_are_called_correct_with_which_no_node_starts() {
    for (settings, setting) in WRONG {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        std::fs::write(path.join("file"), "neither a directory nor a certificate").unwrap();
        let state = format!("state_directory = \"{}\"\n", path.join("state").display());
        let written = settings.replace("STATE", &state);
        let written = written.replace("DIR", path.to_str().unwrap());
        let checked = check(path, &written);
        let message = text(&checked.stderr);
        assert_eq!(checked.status.code(), Some(2), "{settings}: {message}");
        // A message about one line need not say in which section that is.
        let (line, key) = (
            message.contains("line "),
            setting.rsplit('.').next().unwrap(),
        );
        let named = message.contains(setting) || (line && message.contains(key));
        assert!(named, "{settings}: {message}");
        let made = std::fs::read_dir(path).unwrap().count();
        assert_eq!(made, 2, "{settings}: checking made something");
        let started = start(path);
        assert!(matches!(started, Some(1 | 2)), "{settings}: {started:?}");
    }
}

#[test]
fn every_setting_is_among_those_that_are_wrong() {
    fn keys(path: &str, table: &toml::Table, into: &mut BTreeSet<String>) {
        for (key, value) in table {
            let key = format!("{path}{key}");
            let tables = match value {
                toml::Value::Table(inner) => vec![inner],
                toml::Value::Array(list) => list.iter().filter_map(toml::Value::as_table).collect(),
                _ => Vec::new(),
            };
            for inner in &tables {
                keys(&format!("{key}."), inner, into);
            }
            if tables.is_empty() {
                into.insert(key);
            }
        }
    }
    let mut all = BTreeSet::new();
    keys(
        "",
        &server::config::DEFAULT_CONFIG.parse().unwrap(),
        &mut all,
    );
    let mut tried: BTreeSet<String> = WRONG.iter().map(|(_, key)| (*key).to_owned()).collect();
    // The list of ports is no key of a value.
    assert!(tried.remove("nvme.ports"));
    assert_eq!(tried, all);
}

#[test]
fn settings_that_are_called_correct_start_a_node_and_stay_so_beside_it() {
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path().join("certificate");
    let settings = "[pools]\ndrive_wait_seconds = 0\n[node]\nname = \"node-7\"\ncores = [0]\n";
    let written = format!("state_directory = \"{}\"\n{settings}", own.display());
    let checked = check(directory.path(), &written);
    assert!(checked.status.success(), "{checked:?}");
    assert!(!own.exists(), "checking settings makes nothing");
    let node = Node::configured_secure(settings);
    // Its addresses, its state and its certificate are in use.
    let [nvme, api] = [
        node.endpoints().nvme[0].to_string(),
        node.endpoints()
            .api
            .trim_start_matches("https://")
            .to_owned(),
    ];
    let state = node.path().display();
    let running = format!(
        "state_directory = \"{state}\"\n{settings}[[nvme.ports]]\nlisten = \"{nvme}\"\n\
         [api]\nlisten = \"{api}\"\n"
    );
    let checked = check(directory.path(), &running);
    assert!(checked.status.success(), "{checked:?}");
    let given = format!(
        "{running}certificate = \"{state}/certificate.pem\"\n\
         certificate_key = \"{state}/certificate-key.pem\"\n"
    );
    let checked = check(directory.path(), &given);
    assert!(checked.status.success(), "{checked:?}");
    let swapped = given.replace("certificate-key.pem", "admin.token");
    let checked = check(directory.path(), &swapped);
    assert_eq!(checked.status.code(), Some(2), "{checked:?}");
}
