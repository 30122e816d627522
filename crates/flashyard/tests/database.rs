//! Databases on attached volumes: the TPC-C and Cassandra plans with real programs, and what a
//! database has acknowledged after everything below it died. Needs root, as attaching does.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use support::{Node, flashyard, text, wait_until};
use tempfile::TempDir;

fn tool(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    text(&output.stdout)
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

    fn socket(&self) -> PathBuf {
        self.path("sock")
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
            .arg(format!("--socket={}", self.socket().display()))
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
        let mut command = lab::database::mariadb_client(&self.socket());
        command.arg("--unbuffered").args(arguments);
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

    fn command(&self) -> Command {
        self.command_of(Path::new(env!("CARGO_BIN_EXE_flashyard")))
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
    let report = ["lab", "report", results.to_str().unwrap(), "--html", page];
    let report = flashyard(&report);
    assert!(report.status.success(), "{}", text(&report.stderr));
    let page = std::fs::read_to_string(page).unwrap();
    (smoke.kept(), text(&report.stdout), page)
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

#[test]
fn ctrl_c_ends_a_database_under_tpcc_and_the_same_command_goes_on() {
    let kept = interrupted("tpcc", "go-tpc tpcc", &[]);
    assert_eq!(kept["runs"].as_array().unwrap().len(), 4);
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
        (asked, connection.read(&mut question))
    });
    client.kill().unwrap();
    client.wait().unwrap();
    let (asked, more) = reads.expect("it connects");
    assert!(asked.unwrap() > 0, "it asked nothing");
    assert_eq!(more.unwrap_err().kind(), ErrorKind::WouldBlock);
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
