//! Databases on attached volumes: the TPC-C and Cassandra plans with real programs, what a database
//! has acknowledged after everything below it died, and what a clone or a rollback has of it. Needs
//! root, as attaching does.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/attached.rs"]
mod attached;
#[path = "support/database.rs"]
mod database;
#[path = "support/mariadb.rs"]
mod mariadb;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/raid6.rs"]
mod raid6;
mod support;

use std::io::{self, ErrorKind, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use database::{Bench, Database, Ledger, roll_back};
use mariadb::MariaDb;
use postgres::Postgres;
use raid6::make_pool;
use support::{Node, flashyard, text, tool};
use tempfile::TempDir;

/// A node whose volume `data` is a drive, on a file.
fn on_a_drive() -> Node {
    let node = Node::configured("");
    let image = node.path().join("drive.img");
    let image = image.to_str().unwrap();
    node.answer(&["drive", "add", "disk", image, "--size", "600MiB"]);
    let create = ["volume", "create", "data", "--drive", "disk"];
    node.answer(&[&create[..], &["--allow", "any"]].concat());
    node
}

/// A node whose volume `data` is one of a raid6 pool.
fn in_a_pool() -> Node {
    let node = Node::configured("");
    make_pool(&node, 4, "800MiB", &[]);
    let create = ["volume", "create", "data", "--pool", "pool"];
    node.answer(&[&create[..], &["--size", "600MiB", "--allow", "any"]].concat());
    node
}

fn loses_no_acknowledged_commit<D: Database>(mut node: Node) {
    let mut bench = Bench::<D>::make(&node, "data");
    let ledger = Ledger::start(&bench, 0);
    ledger.wait_for(200);
    // The node dies and comes back: the database waits, and goes on.
    node.kill();
    node.start();
    ledger.wait_for(200);
    // Node, host side and database die together, as by a power loss.
    node.kill();
    bench.kill();
    let acknowledged = ledger.end();
    assert!(acknowledged >= 400);
    node.start();
    bench.recover(&node);
    bench.holds(acknowledged, acknowledged + 1);
    bench.close();
}

#[test]
fn mariadb_loses_no_acknowledged_commit_when_the_node_dies_and_when_everything_does() {
    loses_no_acknowledged_commit::<MariaDb>(on_a_drive());
}

#[test]
fn postgresql_loses_no_acknowledged_commit_when_the_node_dies_and_when_everything_does() {
    loses_no_acknowledged_commit::<Postgres>(in_a_pool());
}

#[test]
fn a_snapshot_of_postgresql_under_load_has_what_was_acknowledged_before() {
    let node = in_a_pool();
    let bench = Bench::<Postgres>::make(&node, "data");
    let ledger = Ledger::start(&bench, 0);
    ledger.wait_for(200);
    let before = ledger.acknowledged();
    node.answer(&["volume", "snapshot", "data", "s"]);
    let asked = bench.last() + 1;
    ledger.wait_for(200);
    node.answer(&["volume", "clone", "s", "copy", "--allow", "any"]);
    let copy = Bench::<Postgres>::open(&node, "copy");
    copy.holds(before, asked);
    copy.close();
    let end = ledger.end();
    bench.holds(end, end + 1);
    bench.close();
    roll_back(&node, "data", "s");
    let bench = Bench::<Postgres>::open(&node, "data");
    bench.holds(before, asked);
    bench.close();
}

/// A plan at size smoke, run in a place of its own.
struct Smoke {
    results: TempDir,
    /// Everything that it makes is below this.
    place: TempDir,
    arguments: Vec<String>,
}

impl Smoke {
    fn of(plan: &str, extra: &[&str]) -> Smoke {
        let results = tempfile::tempdir().unwrap();
        let path = results.path().join("a.json");
        let usual = ["lab", "run", plan, "--size", "smoke", "--results"];
        let words = [&usual[..], &[path.to_str().unwrap()], extra].concat();
        Smoke {
            arguments: words.into_iter().map(str::to_owned).collect(),
            place: tempfile::tempdir().unwrap(),
            results,
        }
    }

    fn command_of(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .args(&self.arguments)
            .env("TMPDIR", self.place.path());
        command
    }

    fn results(&self) -> PathBuf {
        self.results.path().join("a.json")
    }

    fn kept(&self) -> serde_json::Value {
        let kept = std::fs::read_to_string(self.results()).unwrap();
        serde_json::from_str(&kept).unwrap()
    }

    /// The command lines of all that it has started, whoever started them.
    fn processes(&self) -> Vec<String> {
        let mark = format!("TMPDIR={}", self.place.path().display());
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let ours = all.filter_map(|entry| {
            let read = |name: &str| std::fs::read(entry.path().join(name)).ok();
            let environment = read("environ")?;
            let mut set = environment.split(|byte| *byte == 0);
            set.any(|one| one == mark.as_bytes()).then_some(())?;
            Some(String::from_utf8_lossy(&read("cmdline")?).replace('\0', " "))
        });
        ours.collect()
    }

    fn assert_nothing_is_left(&self) {
        assert_eq!(self.processes(), [""; 0]);
        let place = self.place.path().to_str().unwrap();
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains(place), "{mounts}");
        let loops = tool("losetup", &["--list"]);
        assert!(!loops.contains(place), "{loops}");
        assert_eq!(std::fs::read_dir(self.place.path()).unwrap().count(), 0);
    }
}

/// Runs the plan at size smoke, which has to leave nothing behind on this host; gives the results,
/// the report and its page.
fn smoke(plan: &str) -> (serde_json::Value, String, String) {
    let smoke = Smoke::of(plan, &[]);
    // As if it were upgraded meanwhile: the file is gone as soon as it runs.
    let file = Path::new(env!("CARGO_BIN_EXE_flashyard")).with_extension(plan);
    std::fs::hard_link(env!("CARGO_BIN_EXE_flashyard"), &file).unwrap();
    let run = smoke
        .command_of(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    std::fs::remove_file(&file).unwrap();
    let run = run.unwrap().wait_with_output().unwrap();
    assert!(run.status.success(), "{}", text(&run.stderr));
    smoke.assert_nothing_is_left();
    let page = smoke.results.path().join("a.html");
    let (results, page) = (smoke.results(), page.to_str().unwrap());
    let report = ["lab", "report", results.to_str().unwrap()];
    let tables = flashyard(&report);
    assert!(tables.status.success(), "{}", text(&tables.stderr));
    let written = flashyard(&[&report[..], &["--format", "html", "--to", page]].concat());
    assert!(written.status.success(), "{}", text(&written.stderr));
    let page = std::fs::read_to_string(page).unwrap();
    (smoke.kept(), text(&tables.stdout), page)
}

/// What drives and node told is in the results of a run.
fn assert_observed(measured: &serde_json::Value, drives: usize) {
    let observed = &measured["observed"];
    let found = observed["drives"].as_array().unwrap();
    assert_eq!(found.len(), drives);
    // Data units are of 512,000 bytes, which a load of size smoke may not fill.
    let commands = |when: &str| found[0][when]["host_write_commands"].as_u64().unwrap();
    assert!(commands("after") > commands("before"), "{observed}");
    let counters = observed["counters"].as_object().unwrap();
    let written = counters
        .keys()
        .find(|name| name.starts_with("flashyard_drive_write_bytes_total{"));
    assert!(written.is_some(), "{counters:?}");
    let flash = &measured["flash"];
    assert!(
        flash["write_amplification"].as_f64() >= Some(1.0),
        "{flash}"
    );
    assert!(flash["late_percent"].is_number(), "{flash}");
}

/// On a busy machine a node may take a second to greet a client.
#[test]
fn go_ycsb_waits_for_a_node_that_is_slow_to_greet_it() {
    let tools = PathBuf::from(std::env::var_os("FLASHYARD_LAB_TOOLS").unwrap());
    let node = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = node.local_addr().unwrap();
    let mut client = Command::new(tools.join("go-ycsb"))
        .args(["load", "cassandra", "--prop", "workload=core", "--prop"])
        .arg(format!("cassandra.cluster={address}"))
        .args(["--prop", "debug.pprof=127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (sender, connections) = channel();
    std::thread::spawn(move || sender.send(node.accept()));
    let connection = connections.recv_timeout(Duration::from_secs(60));
    let reads = connection.map(|accepted| {
        let (mut connection, _) = accepted.unwrap();
        let patience = Some(Duration::from_secs(3));
        connection.set_read_timeout(patience).unwrap();
        let mut question = [0; 256];
        let asked = connection.read(&mut question);
        // While the client waits for its answer nothing comes; once it has given up, an end.
        // A machine that is stopped and goes on interrupts a read with a time limit.
        let more = loop {
            let more = connection.read(&mut question);
            if more.as_ref().map_err(io::Error::kind) != Err(ErrorKind::Interrupted) {
                break more;
            }
        };
        (asked, more)
    });
    client.kill().unwrap();
    client.wait().unwrap();
    let (asked, more) = reads.expect("it connects");
    assert!(asked.unwrap() > 0, "it asked nothing");
    assert_eq!(more.unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn the_tpcc_plan_runs_and_its_data_is_consistent() {
    let (kept, shown, page) = smoke("tpcc");
    let programs = kept["programs"].to_string();
    assert!(
        programs.contains("MariaDB") && programs.contains("go-tpc v1"),
        "{programs}"
    );
    let runs = kept["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    for run in runs {
        let measured = &run["measured"];
        assert_eq!(measured["conditions_held"], 6);
        let orders = &measured["operations"]["NEW_ORDER"];
        assert!(orders["count"].as_u64() > Some(0), "{orders}");
        assert!(orders["latency"]["p99_us"].as_f64() > Some(0.0), "{orders}");
        assert!(measured["processors"][0]["percent"]["mariadbd"].is_number());
        assert_observed(measured, 1);
    }
    for expected in ["tpm", "tpmC", "560216"] {
        assert!(
            shown.contains(expected),
            "{expected} is missing in\n{shown}"
        );
    }
    for heading in [
        "By transaction",
        "What the drives tell",
        "What the nodes tell",
    ] {
        assert!(page.contains(heading), "{heading}");
    }
}

#[test]
fn the_cassandra_plan_runs_and_every_record_is_there() {
    let (kept, shown, _) = smoke("cassandra");
    let programs = kept["programs"].to_string();
    assert!(programs.contains("cassandra-all-4.1"), "{programs}");
    let runs = kept["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    for run in runs {
        let measured = &run["measured"];
        if run["workload"] == "insert" {
            assert_eq!(measured["conditions_held"], 1);
            assert_eq!(measured["operations"]["INSERT"]["count"], 1000);
        } else {
            assert!(measured["operations"]["UPDATE"]["count"].as_u64() > Some(0));
        }
        assert!(measured["processors"][0]["percent"]["cassandra 3"].is_number());
        assert_observed(measured, 3);
    }
    for expected in ["ops/s", "94825", "us p95"] {
        assert!(
            shown.contains(expected),
            "{expected} is missing in\n{shown}"
        );
    }
}

#[cfg(feature = "long")]
mod interrupted {
    use super::support::{text, wait_until};
    use super::{Path, Smoke};
    use rustix::process::{Pid, Signal};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    impl Smoke {
        fn command(&self) -> Command {
            self.command_of(Path::new(env!("CARGO_BIN_EXE_flashyard")))
        }
    }

    /// Interrupts the plan as a terminal would, when it has results of one load and `program` is at
    /// work on the next; then goes on with it to the end.
    fn interrupted(plan: &str, program: &str, extra: &[&str]) -> serde_json::Value {
        let smoke = Smoke::of(plan, extra);
        let child = smoke
            .command()
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until("results of one load", || smoke.results().exists());
        wait_until("the next load", || {
            let running = smoke.processes();
            running.iter().any(|line| line.contains(program))
        });
        rustix::process::kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
        let ended = child.wait_with_output().unwrap();
        let error = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{error}");
        assert!(
            error.contains("stopped: 3 of 4 runs are left; the same command goes on"),
            "{error}"
        );
        smoke.assert_nothing_is_left();
        let run = smoke.command().output().unwrap();
        assert!(run.status.success(), "{}", text(&run.stderr));
        smoke.assert_nothing_is_left();
        smoke.kept()
    }

    #[test]
    fn ctrl_c_ends_a_database_under_tpcc_and_the_same_command_goes_on() {
        let kept = interrupted("tpcc", "go-tpc tpcc", &[]);
        assert_eq!(kept["runs"].as_array().unwrap().len(), 4);
    }

    #[test]
    fn ctrl_c_ends_cassandras_nodes_and_the_same_command_goes_on_with_scans() {
        let kept = interrupted("cassandra", "go-ycsb run", &["--set", "workload.a.ycsb=e"]);
        let runs = kept["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 4);
        let scans = runs.iter().filter(|run| run["workload"] == "a");
        for run in scans {
            let scans = &run["measured"]["operations"]["SCAN"];
            let of = |what: &str| scans[what].as_u64().unwrap();
            // Among other tests a node may be so busy that others take it for dead for a moment.
            let (succeeded, failed) = (of("count"), of("errors"));
            let reason = &run["measured"]["first_error"];
            assert!(succeeded > 100 * failed, "{scans}, {reason}");
        }
    }
}
