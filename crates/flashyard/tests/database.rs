//! Databases on attached volumes: the TPC-C and Cassandra plans with real programs, and what a
//! database has acknowledged after everything below it died. Needs root, as attaching does.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use support::{Node, flashyard, text};
use tempfile::TempDir;

/// Longer than anything here takes on the slowest machine.
const LIMIT: Duration = Duration::from_secs(120);

fn tool(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    text(&output.stdout)
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < LIMIT, "{what}: not after {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A volume on a file, attached, with XFS on it, and MariaDB on that.
struct Bench {
    directory: TempDir,
    node: Node,
    server: Option<Child>,
}

impl Bench {
    fn new() -> Bench {
        let mut node = Node::configured("");
        node.keep_ports();
        let image = node.path().join("drive.img");
        let image = image.to_str().unwrap();
        node.answer(&["drive", "add", "disk", image, "--size", "600MiB"]);
        node.answer(&[
            "volume", "create", "data", "--drive", "disk", "--allow", "any",
        ]);
        let bench = Bench {
            directory: tempfile::tempdir().unwrap(),
            node,
            server: None,
        };
        std::fs::create_dir(bench.mount()).unwrap();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn mount(&self) -> PathBuf {
        self.path("mount")
    }

    fn socket(&self) -> String {
        self.path("sock").display().to_string()
    }

    fn attachment(&self, verb: &str, extra: &[&str]) -> String {
        let directory = self.path("attached");
        let usual = [verb, "data", "--directory", directory.to_str().unwrap()];
        self.node.answer(&[&usual[..], extra].concat())
    }

    fn attach(&self) -> PathBuf {
        PathBuf::from(self.attachment("attach", &["--method", "fuse"]).trim())
    }

    fn start_server(&mut self) {
        let log = std::fs::File::create(self.path("log")).unwrap();
        let data = self.mount().join("data");
        if !data.exists() {
            let data = format!("--datadir={}", data.display());
            let root = "--auth-root-authentication-method=normal";
            tool(
                "mariadb-install-db",
                &["--no-defaults", &data, "--user=root", root],
            );
        }
        let server = Command::new("mariadbd")
            .args([
                "--no-defaults",
                "--user=root",
                "--skip-networking",
                "--skip-log-bin",
            ])
            .args([
                "--innodb-flush-method=O_DIRECT",
                "--innodb-log-file-size=16M",
            ])
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", self.socket()))
            .arg(format!("--pid-file={}", self.path("pid").display()))
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.server = Some(server);
        wait_until("MariaDB answers", || {
            self.client(&["--execute", "select 1"])
                .status()
                .unwrap()
                .success()
        });
    }

    fn client(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("mariadb");
        command.args([
            "--no-defaults",
            "--user=root",
            "--batch",
            "--skip-column-names",
        ]);
        command
            .args(["--unbuffered", "--socket", &self.socket()])
            .args(arguments);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .stdin(Stdio::null());
        command
    }

    /// Kills the database, and the process that serves the volume to this host's kernel: before
    /// that, the kernel does not let the database go, whose I/O waits for the volume.
    fn kill_host_side(&mut self) {
        let mut server = self.server.take();
        if let Some(server) = &mut server {
            server.kill().unwrap();
        }
        if let Some(pid) = self.bridge() {
            // It may have ended already.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        if let Some(server) = &mut server {
            server.wait().unwrap();
        }
    }

    fn bridge(&self) -> Option<Pid> {
        let state = std::fs::read_to_string(self.path("attached/data.json")).ok()?;
        let state: serde_json::Value = serde_json::from_str(&state).ok()?;
        let pid = state["way"]["fuse"]["pid"].as_i64()?;
        Pid::from_raw(i32::try_from(pid).ok()?)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.kill_host_side();
        // After a failure it may not be mounted.
        let _ = Command::new("umount").arg(self.mount()).status();
        let directory = self.path("attached");
        self.node
            .ask(&["detach", "data", "--directory", directory.to_str().unwrap()]);
    }
}

/// A client that commits 1, 2, 3 and so on, each by itself, and hears of each commit.
struct Ledger {
    client: Child,
    acknowledged: Arc<AtomicU64>,
}

impl Ledger {
    fn start(bench: &Bench) -> Ledger {
        let mut client = bench.client(&[]).stdin(Stdio::piped()).spawn().unwrap();
        let mut statements = client.stdin.take().unwrap();
        std::thread::spawn(move || {
            let first = "create database lab; use lab; create table ledger (n bigint primary key);";
            let mut number = 0;
            // Until the client is gone.
            let mut done = writeln!(statements, "{first}");
            while done.is_ok() {
                number += 1;
                done = writeln!(
                    statements,
                    "insert into ledger values ({number}); select {number};"
                );
            }
        });
        let acknowledged = Arc::new(AtomicU64::new(0));
        let heard = Arc::clone(&acknowledged);
        let answers = BufReader::new(client.stdout.take().unwrap());
        std::thread::spawn(move || {
            for number in answers.lines().map_while(Result::ok) {
                heard.store(number.parse().unwrap(), Ordering::SeqCst);
            }
        });
        Ledger {
            client,
            acknowledged,
        }
    }

    fn wait_for(&self, more: u64) {
        let wanted = self.acknowledged.load(Ordering::SeqCst) + more;
        let enough = || self.acknowledged.load(Ordering::SeqCst) >= wanted;
        wait_until("more commits", enough);
    }

    /// Ends the client; gives the last number that was acknowledged.
    fn end(mut self) -> u64 {
        self.client.wait().unwrap();
        // What it printed before its end has been read when nothing more comes.
        std::thread::sleep(Duration::from_millis(200));
        self.acknowledged.load(Ordering::SeqCst)
    }
}

#[test]
fn no_acknowledged_commit_is_lost_when_the_node_dies_and_when_everything_does() {
    let mut bench = Bench::new();
    let mount = |device: &Path, at: &Path| {
        tool("mount", &[device.to_str().unwrap(), at.to_str().unwrap()]);
    };
    let device = bench.attach();
    tool("mkfs.xfs", &["-q", device.to_str().unwrap()]);
    mount(&device, &bench.mount());
    bench.start_server();
    let ledger = Ledger::start(&bench);
    ledger.wait_for(200);
    // The node dies and comes back: the database waits, and goes on.
    bench.node.kill();
    bench.node.start();
    ledger.wait_for(200);
    // Node, host side and database die together, as by a power loss.
    bench.node.kill();
    bench.kill_host_side();
    let acknowledged = ledger.end();
    assert!(acknowledged >= 400);
    bench.node.start();
    tool("umount", &[bench.mount().to_str().unwrap()]);
    let device = bench.attach();
    mount(&device, &bench.mount());
    bench.start_server();
    let query = format!("select count(*) from lab.ledger where n <= {acknowledged}");
    let found = bench.client(&["--execute", &query]).output().unwrap();
    assert_eq!(text(&found.stdout).trim(), acknowledged.to_string());
    let checked = bench
        .client(&["--execute", "check table lab.ledger"])
        .output()
        .unwrap();
    assert!(
        text(&checked.stdout).contains("OK"),
        "{}",
        text(&checked.stdout)
    );
}

/// Runs the plan at size smoke, which has to leave nothing behind on this host; gives the results,
/// the report and its page.
fn smoke(plan: &str) -> (serde_json::Value, String, String) {
    let directory = tempfile::tempdir().unwrap();
    let [results, page] = ["a.json", "a.html"].map(|name| directory.path().join(name));
    let (results, page) = (results.to_str().unwrap(), page.to_str().unwrap());
    // Everything that it makes is below a place of its own.
    let place = tempfile::tempdir().unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_flashyard"))
        .args(["lab", "run", plan, "--size", "smoke", "--results", results])
        .env("TMPDIR", place.path())
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", text(&run.stderr));
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(place.path().to_str().unwrap()), "{mounts}");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    let kept = std::fs::read_to_string(results).unwrap();
    let report = flashyard(&["lab", "report", results, "--html", page]);
    assert!(report.status.success(), "{}", text(&report.stderr));
    let page = std::fs::read_to_string(page).unwrap();
    (
        serde_json::from_str(&kept).unwrap(),
        text(&report.stdout),
        page,
    )
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
    }
    for expected in ["tpm", "tpmC", "560216"] {
        assert!(
            shown.contains(expected),
            "{expected} is missing in\n{shown}"
        );
    }
    assert!(page.contains("By transaction"));
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
    }
    for expected in ["ops/s", "94825", "us p95"] {
        assert!(
            shown.contains(expected),
            "{expected} is missing in\n{shown}"
        );
    }
}
