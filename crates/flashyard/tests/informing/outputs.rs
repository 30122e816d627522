//! The table of everything that a node only informs with, and of everything that may become of it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::time::Duration;

use fickle::Manner;
use toml::Value;

use crate::receivers::silent;
use crate::served::serving_a_volume;
use crate::trial::{Host, said, seen_by_and_by, trial};

/// What may become of an output. Each comes back in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Full,
    ReadOnly,
    /// With I/O errors.
    Fails,
    Hangs,
    Slow,
    Gone,
}

pub const FAULTS: [Fault; 6] = [
    Fault::Full,
    Fault::ReadOnly,
    Fault::Fails,
    Fault::Hangs,
    Fault::Slow,
    Fault::Gone,
];

impl Fault {
    /// The fault of what is written to a file.
    pub fn manner(self) -> Manner {
        match self {
            Fault::Full => Manner::Full,
            Fault::ReadOnly => Manner::ReadOnly,
            Fault::Fails => Manner::Fails,
            Fault::Hangs => Manner::Hangs,
            Fault::Slow => Manner::Slow(Duration::from_millis(20)),
            Fault::Gone => Manner::Gone,
        }
    }
}

/// What becomes of what an output should have had. Hosts read and write on in each case.
#[derive(Clone, Copy, Debug)]
pub enum Cell {
    /// It is lost or has to wait, which is counted, and said in `status` or an event like this.
    Said(&'static str),
    /// The same, and it is only counted: what would say it is what has the fault.
    Counted,
    /// All of it arrives in the end, and nothing is said.
    Whole,
    /// It is lost, and nobody can tell, because of this.
    Unseen(&'static str),
    /// There is no such fault, because of this.
    Never(&'static str),
}
use Cell::{Counted, Never, Said, Unseen, Whole};

impl Cell {
    pub fn in_words(self) -> &'static str {
        match self {
            Said(words) => words,
            Counted => "counted",
            Whole => "nothing is lost",
            Unseen(why) | Never(why) => why,
        }
    }
}

/// The series in which it shows that something is lost or waits.
#[derive(Clone, Copy, Debug)]
pub enum Series {
    /// It is more than zero.
    Rises(&'static str),
    /// It is zero, and one otherwise.
    Falls(&'static str),
}
use Series::{Falls, Rises};

/// Something that the node informs with.
pub struct Output {
    pub name: &'static str,
    /// Settings that name it: those of the file, and those that change while the node runs.
    named_by: &'static [&'static str],
    pub lost: Option<Series>,
    /// In the order of [`FAULTS`].
    pub cells: [Cell; 6],
}

const STATE: Cell = Said("the state cannot be written");
const SILENT: Cell = Said("the disk does not answer");
const AUDIT: Cell = Said("entries of the audit log wait to be written");
const ENDPOINTS: Cell = Said("endpoints.json cannot be written");
const HISTORY: Cell = Said("the history of figures is not written");
const NO_FILE: Cell = Never("it is a connection, and what its other end does with it is not seen");
const ONCE: Cell = Unseen("it is said once, and the log tells");
const DATAGRAMS: Cell = Unseen("nobody answers a datagram");
const AT_ONCE: Cell = Never("a socket of this machine takes a datagram at once or not at all");
const SYSTEMD: Cell = Unseen("the log tells, which has the fault as well");

/// Every output that a node has.
pub const OUTPUTS: &[Output] = &[
    Output {
        name: "the state: what is to be remembered",
        named_by: &["state_directory"],
        lost: Some(Falls("flashyard_state_writable")),
        cells: [STATE, STATE, STATE, SILENT, Whole, STATE],
    },
    Output {
        name: "the audit log",
        named_by: &[],
        lost: Some(Rises("flashyard_audit_waiting_entries")),
        cells: [AUDIT, AUDIT, AUDIT, SILENT, Whole, AUDIT],
    },
    Output {
        name: "endpoints.json",
        named_by: &[],
        lost: None,
        cells: [ENDPOINTS, ENDPOINTS, ENDPOINTS, Whole, Whole, ENDPOINTS],
    },
    Output {
        name: "the history of figures",
        named_by: &[],
        lost: Some(Rises("flashyard_history_failures_total")),
        cells: [HISTORY, HISTORY, HISTORY, HISTORY, Whole, HISTORY],
    },
    Output {
        name: "standard output",
        named_by: &[],
        lost: None,
        cells: [ONCE, ONCE, ONCE, Whole, Whole, ONCE],
    },
    Output {
        name: "the log, on standard error",
        named_by: &["log.level", "log.format", "settings.log_level"],
        lost: Some(Rises("flashyard_log_dropped_total")),
        // Thousands of lines wait for a disk that hangs.
        cells: [Counted, Counted, Counted, Whole, Whole, Counted],
    },
    Output {
        name: "a syslog receiver over TCP",
        named_by: &["settings.syslog"],
        lost: None,
        cells: [
            NO_FILE,
            NO_FILE,
            NO_FILE,
            Said("has taken no messages for"),
            Whole,
            Said("has taken no messages for"),
        ],
    },
    Output {
        name: "a Graphite receiver",
        named_by: &["settings.graphite"],
        lost: Some(Rises("flashyard_graphite_failures_total")),
        cells: [
            NO_FILE,
            NO_FILE,
            NO_FILE,
            Said("has taken no batches of figures for"),
            Whole,
            Said("has taken no batches of figures for"),
        ],
    },
    Output {
        name: "programs that ask the REST API, such as the console and Prometheus",
        named_by: &["api.listen"],
        lost: None,
        cells: [NO_FILE, NO_FILE, NO_FILE, Whole, Whole, Whole],
    },
    Output {
        name: "announcements by mDNS",
        named_by: &["nvme.mdns"],
        lost: None,
        cells: [NO_FILE, NO_FILE, NO_FILE, DATAGRAMS, AT_ONCE, DATAGRAMS],
    },
    Output {
        name: "systemd",
        named_by: &[],
        lost: None,
        cells: [NO_FILE, NO_FILE, NO_FILE, SYSTEMD, AT_ONCE, SYSTEMD],
    },
];

/// The ways to a syslog receiver beside TCP, which a node has one after the other.
const OTHER_WAYS: [(&str, [Cell; 6]); 2] = [
    (
        "tls",
        [
            NO_FILE,
            NO_FILE,
            NO_FILE,
            Said("has taken no messages for"),
            Never("it is slow as TCP is"),
            Said("has taken no messages for"),
        ],
    ),
    (
        "udp",
        [
            NO_FILE,
            NO_FILE,
            NO_FILE,
            DATAGRAMS,
            Never("what nobody reads is what is read slowly"),
            DATAGRAMS,
        ],
    ),
];

/// Settings that name no output.
const OTHERS: &[&str] = &[
    "state_key_file",
    "state_key_file_previous",
    "node.name",
    "node.cores",
    "nvme.controller_ids",
    "nvme.ports.listen",
    "nvme.ports.advertise",
    "nvme.ports.transport",
    "nvme.ports.tls",
    "api.protocol",
    "api.certificate",
    "api.certificate_key",
    "pools.drive_wait_seconds",
    "pools.map_cache_mib",
    "shutdown.timeout_seconds",
    "settings.shutdown_timeout_seconds",
    "settings.scrub_interval_days",
];

/// The keys of a table of settings, those of tables in it below theirs.
fn keys(table: &toml::Table, above: &str, found: &mut BTreeSet<String>) {
    for (key, value) in table {
        let key = format!("{above}{key}");
        match value {
            Value::Table(table) => keys(table, &format!("{key}."), found),
            Value::Array(tables) if tables.iter().any(Value::is_table) => {
                let tables = tables.iter().filter_map(Value::as_table);
                tables.for_each(|table| keys(table, &format!("{key}."), found));
            }
            _ => drop(found.insert(key)),
        }
    }
}

/// Who adds a setting says whether it names an output, which is in the table then.
#[test]
fn every_setting_names_an_output_of_the_table_or_none() {
    let sample = include_str!("../../../../deploy/flashyard.toml");
    let mut known = BTreeSet::new();
    keys(&sample.parse().unwrap(), "", &mut known);
    let document = include_str!("../../../../docs/openapi.json");
    let document: serde_json::Value = serde_json::from_str(document).unwrap();
    let changing = &document["components"]["schemas"]["Settings"]["properties"];
    let changing = changing.as_object().unwrap().keys();
    known.extend(changing.map(|key| format!("settings.{key}")));
    let named = OUTPUTS.iter().flat_map(|output| output.named_by);
    let listed: Vec<String> = named.chain(OTHERS).map(|key| (*key).to_owned()).collect();
    let once: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(once.len(), listed.len(), "one is listed twice: {listed:?}");
    assert_eq!(once, known);
}

/// All outputs have the same fault at once.
#[test]
fn hosts_read_and_write_whatever_becomes_of_outputs() {
    std::thread::scope(|scope| {
        for fault in FAULTS {
            scope.spawn(move || trial(fault));
        }
        scope.spawn(over_other_ways);
    });
}

/// A receiver over UDP or TLS, which is gone, or answers nothing to what it is sent.
fn over_other_ways() {
    let (_directory, node) = serving_a_volume();
    let host = Host::of(&node);
    for (way, cells) in OTHER_WAYS {
        for (fault, cell) in FAULTS.into_iter().zip(cells) {
            if matches!(cell, Never(_)) {
                continue;
            }
            let (address, _there) = silent(way, fault);
            let to_syslog = format!("{way}://{address}");
            node.answer(&["settings", "set", "--syslog", &to_syslog]);
            node.add_host("told");
            if let Said(words) = cell {
                let words = format!("{address} {words}");
                seen_by_and_by(&words, || said(&node).contains(&words));
            }
            host.goes_on();
        }
    }
    host.end();
}
