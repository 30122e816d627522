//! What the settings file promises: the sample is the default, and errors point at the fault.

use std::collections::BTreeSet;

use super::*;

#[test]
fn the_sample_is_the_default() {
    let mut sample = Config::parse(DEFAULT_CONFIG).unwrap();
    sample.api.listen = Spanned::new(0..0, *sample.api.listen.get_ref());
    assert_eq!(sample, Config::default());
    assert_eq!(Config::parse("").unwrap(), Config::default());
}

/// Compares the keys of a table of the sample with those that are known there, and so on in the
/// tables that are in it. `header` is its line in a file: `[api]`, `[[nvme.ports]]`.
fn compare(header: &str, table: &toml::Table) {
    let error = Config::parse(&format!("{header}\nno_such_key = 1\n")).unwrap_err();
    let allowed = error.split("expected ").nth(1).unwrap();
    let allowed = allowed.split(", in").next().unwrap();
    let known: BTreeSet<&str> = allowed.split('`').skip(1).step_by(2).collect();
    let given = table.keys().map(String::as_str).collect();
    assert_eq!(known, given, "in {header:?}: {error}");
    let path = header.trim_matches(['[', ']']);
    for (key, value) in table {
        let below = [path, key].join(".");
        let below = below.trim_start_matches('.');
        match value {
            toml::Value::Table(inner) => compare(&format!("[{below}]"), inner),
            toml::Value::Array(list) => list
                .iter()
                .filter_map(toml::Value::as_table)
                .for_each(|inner| compare(&format!("[[{below}]]"), inner)),
            _ => {}
        }
    }
}

#[test]
fn every_key_of_the_sample_is_known_and_every_known_key_is_in_the_sample() {
    compare("", &DEFAULT_CONFIG.parse().unwrap());
}

/// Each wrong setting, and what its error must contain.
const WRONG: &[(&str, &[&str])] = &[
    (
        "state_dir = 1",
        &["line 1", "unknown field `state_dir`", "`state_directory`"],
    ),
    (
        "[api]\nlisten = \"4400\"",
        &["line 2", "listen", "\"4400\"", "192.0.2.1:4420"],
    ),
    (
        "[api]\nprotocol = \"http\"\nlisten = \"0.0.0.0:4400\"",
        &["line 3", "api.listen", "tokens", "https", "loopback"],
    ),
    (
        "[api]\nprotocol = \"gopher\"",
        &["line 2", "protocol", "gopher", "`https`"],
    ),
    (
        "[api]\ncertificate = \"/c.pem\"",
        &["api.certificate_key", "both"],
    ),
    (
        "[log]\nlevel = \"loud\"",
        &["line 2", "level", "loud", "`warn`", "`trace`"],
    ),
    ("[log]\nformat = 7", &["line 2", "format"]),
    ("[node]\nname = \"A\"", &["line 2", "name", "\"A\"", "a-z"]),
    ("[node]\ncores = [0, 1, 0]", &["node.cores", "CPU 0 twice"]),
    ("[node]\ncores = [-1]", &["line 2", "cores", "-1"]),
    (
        "[nvme]\nports = []",
        &["nvme.ports is empty", "one or more"],
    ),
    (
        "[[nvme.ports]]\nadvertise = \"\"",
        &["line 1", "missing field `listen`"],
    ),
    (
        "[[nvme.ports]]\nlisten = \"[::]:4420\"\nadvertise = \"[::]:4420\"",
        &["advertise [::]:4420", "nothing to connect to"],
    ),
    (
        "[[nvme.ports]]\nlisten = \"0.0.0.0:4420\"\nadvertise = \"192.0.2.1:0\"",
        &["advertise 192.0.2.1:0", "nothing to connect to"],
    ),
    (
        "[[nvme.ports]]\nlisten = \"[fe80::1%none]:4420\"",
        &["line 2", "fe80::1%none", "[fe80::1%eth0]:4420"],
    ),
    (
        "[shutdown]\ntimeout_seconds = 0",
        &["line 2", "timeout_seconds", "0 seconds", "1 to 3600"],
    ),
    (
        "[pools]\ndrive_wait_seconds = 3601",
        &["line 2", "drive_wait_seconds", "3601 seconds", "0 to 3600"],
    ),
    (
        "[pools]\nmap_cache_mib = 0",
        &["line 2", "map_cache_mib", "0 MiB", "1 to 1048576"],
    ),
    (
        "[nvme]\ncontroller_ids = [2, 1]",
        &["line 2", "controller_ids", "2 to 1", "1 to 65519"],
    ),
    (
        "[nvme]\ncontroller_ids = [100, 162]",
        &["nvme.controller_ids has 63", "64 or more"],
    ),
    ("[shutdown", &["line 1"]),
];

#[test]
fn a_wrong_setting_is_named_with_its_line_and_what_is_allowed() {
    for (text, expected) in WRONG {
        let error = Config::parse(text).unwrap_err();
        for part in *expected {
            assert!(
                error.contains(part),
                "{text:?} gave {error:?}, which lacks {part:?}"
            );
        }
    }
}

#[test]
fn a_remote_api_speaks_https() {
    let text = "[api]\nlisten = \"192.0.2.1:4400\"\ncertificate = \"/c\"\ncertificate_key = \"/k\"";
    let api = Config::parse(text).unwrap().api;
    assert_eq!(api.listen.get_ref().to_string(), "192.0.2.1:4400");
    assert_eq!(api.protocol, Protocol::Https);
    assert_eq!(api.certificate_files().unwrap().key, PathBuf::from("/k"));
}
