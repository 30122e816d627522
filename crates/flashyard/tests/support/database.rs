//! A database on an attached volume, and a client that commits and hears of each commit.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test file uses what it needs")]

use std::io::{BufRead, BufReader, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use super::attached::{Attached, is_there};
use super::support::{Node, name, text, tool, wait_until};

/// A kind of database, one server of which has its data at a [`Place`].
pub trait Database {
    /// The signal that ends a server in order.
    const STOP: Signal;
    /// Makes the schema `lab`, and has what follows be about it.
    const PREPARE: &str;

    /// Starts a server; makes its data first if there is none.
    fn start(place: &Place) -> Child;

    /// A client that takes statements from its standard input, prints a line for each row, and
    /// ends at the first error.
    fn client(place: &Place) -> Command;

    /// That the database finds its own data sound, while it runs.
    fn check(place: &Place);

    /// That the checksums of all pages are right, of a server that ended in order.
    fn check_pages(place: &Place);
}

/// Where one server has its things: a mount for its data, the rest beside that.
pub struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Place {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("mount")).unwrap();
        Place { directory }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn mount(&self) -> PathBuf {
        self.path("mount")
    }

    pub fn data(&self) -> PathBuf {
        self.path("mount/data")
    }

    /// A new log for a server.
    pub fn log(&self) -> std::fs::File {
        std::fs::File::create(self.path("log")).unwrap()
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

/// A volume, attached, with XFS on it, and a server on that.
pub struct Bench<D: Database> {
    attached: Attached,
    place: Place,
    server: Option<Child>,
    database: PhantomData<D>,
}

impl<D: Database> Bench<D> {
    /// With a new file system and a new database.
    pub fn make(node: &Node, volume: &str) -> Bench<D> {
        let mut bench = Bench::new(node, volume);
        tool("mkfs.xfs", &["-q", bench.attached.device_name()]);
        bench.start();
        bench
    }

    /// With what the volume has.
    pub fn open(node: &Node, volume: &str) -> Bench<D> {
        let mut bench = Bench::new(node, volume);
        bench.start();
        bench
    }

    fn new(node: &Node, volume: &str) -> Bench<D> {
        Bench {
            attached: Attached::new(node, volume),
            place: Place::new(),
            server: None,
            database: PhantomData,
        }
    }

    /// Mounts, and waits until the server answers.
    fn start(&mut self) {
        let mount = self.place.mount();
        // A clone's file system has the identity of the one that it is a clone of.
        let options = ["-o", "nouuid", self.attached.device_name()];
        tool(
            "mount",
            &[&options[..], &[mount.to_str().unwrap()]].concat(),
        );
        let server = self.server.insert(D::start(&self.place));
        wait_until("the database answers", || {
            let ended = server.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", self.place.said());
            asked::<D>(&self.place, "select 1").is_ok()
        });
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The rows of an answer.
    pub fn query(&self, statement: &str) -> String {
        asked::<D>(&self.place, statement).unwrap_or_else(|error| panic!("{statement}: {error}"))
    }

    /// Kills the server with all its processes, and what serves the volume to this host's kernel:
    /// before that, the kernel does not let the server go, whose I/O waits for the volume.
    pub fn kill(&mut self) {
        let Some(mut server) = self.server.take() else {
            return self.attached.kill();
        };
        // Stopped, it begets no more while they are counted.
        let leader = Pid::from_child(&server);
        rustix::process::kill_process(leader, Signal::STOP).unwrap();
        let others = children(leader);
        for pid in others.iter().chain([&leader]) {
            // It may have ended already.
            let _ = rustix::process::kill_process(*pid, Signal::KILL);
        }
        self.attached.kill();
        server.wait().unwrap();
        wait_until("the database is gone", || {
            !others.iter().any(|pid| is_there(*pid))
        });
    }

    /// Attaches, mounts and starts what was killed.
    pub fn recover(&mut self, node: &Node) {
        tool("umount", &[self.place.mount().to_str().unwrap()]);
        self.attached.again(node);
        self.start();
    }

    /// Ends the server in order, checks its pages, and detaches the volume.
    pub fn close(mut self) {
        let mut server = self.server.take().unwrap();
        rustix::process::kill_process(Pid::from_child(&server), D::STOP).unwrap();
        let status = server.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.place.said());
        D::check_pages(&self.place);
        tool("umount", &[self.place.mount().to_str().unwrap()]);
        self.attached.detach();
    }

    /// The last number of the ledger.
    pub fn last(&self) -> u64 {
        let last = self.query("select max(n) from lab.ledger");
        last.trim().parse().unwrap()
    }

    /// That all that was acknowledged is there, nothing that was never asked for, and that the
    /// database is sound; gives the last number.
    pub fn holds(&self, acknowledged: u64, asked: u64) -> u64 {
        let kept = format!("select count(*) from lab.ledger where n <= {acknowledged}");
        assert_eq!(self.query(&kept).trim(), acknowledged.to_string());
        let last = self.last();
        assert!(last <= asked, "{last} was never asked for, but {asked}");
        D::check(&self.place);
        last
    }
}

impl<D: Database> Drop for Bench<D> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}\n{}", self.place.said(), self.attached.said());
        }
        if self.server.is_some() {
            self.kill();
        }
        // After a failure; otherwise it is not mounted.
        let umount = Command::new("umount").arg(self.place.mount()).output();
        umount.unwrap();
    }
}

/// The rows that one statement gives, or why it fails.
pub fn asked<D: Database>(place: &Place, statement: &str) -> Result<String, String> {
    let mut client = D::client(place);
    client.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = client.stderr(Stdio::piped()).spawn().unwrap();
    // A client that cannot connect may have ended already; it says so.
    let _ = writeln!(client.stdin.take().unwrap(), "{statement};");
    let output = client.wait_with_output().unwrap();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}

/// The processes that one has started, and those have.
fn children(of: Pid) -> Vec<Pid> {
    let task = of.as_raw_nonzero();
    let path = format!("/proc/{task}/task/{task}/children");
    let children = std::fs::read_to_string(path).unwrap_or_default();
    let children = children
        .split_whitespace()
        .map(|word| word.parse().unwrap());
    let children: Vec<Pid> = children.filter_map(Pid::from_raw).collect();
    let further: Vec<Pid> = children
        .iter()
        .flat_map(|pid| self::children(*pid))
        .collect();
    [children, further].concat()
}

/// A client that commits one number after the other, each by itself, and hears of each commit.
pub struct Ledger {
    client: Child,
    acknowledged: Arc<AtomicU64>,
    listener: JoinHandle<()>,
}

impl Ledger {
    /// Goes on after `last`; 0 makes the table first.
    pub fn start<D: Database>(bench: &Bench<D>, last: u64) -> Ledger {
        let mut client = D::client(&bench.place);
        client.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = client.stderr(Stdio::null()).spawn().unwrap();
        let mut statements = client.stdin.take().unwrap();
        std::thread::spawn(move || {
            let first = match last {
                0 => format!("{} create table ledger (n bigint primary key);", D::PREPARE),
                _ => String::new(),
            };
            let mut number = last;
            // Until the client is gone.
            let mut done = writeln!(statements, "{first}");
            while done.is_ok() {
                number += 1;
                done = writeln!(
                    statements,
                    "insert into lab.ledger values ({number}); select {number};"
                );
            }
        });
        let acknowledged = Arc::new(AtomicU64::new(last));
        let heard = Arc::clone(&acknowledged);
        let answers = BufReader::new(client.stdout.take().unwrap());
        let listener = std::thread::spawn(move || {
            for number in answers.lines().map_while(Result::ok) {
                heard.store(number.parse().unwrap(), Ordering::SeqCst);
            }
        });
        Ledger {
            client,
            acknowledged,
            listener,
        }
    }

    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    pub fn wait_for(&self, more: u64) {
        let wanted = self.acknowledged() + more;
        let enough = || self.acknowledged() >= wanted || self.listener.is_finished();
        wait_until("more commits", enough);
        assert!(self.acknowledged() >= wanted, "the client has ended");
    }

    /// Ends the client; gives the last number that was acknowledged.
    pub fn end(mut self) -> u64 {
        // It may have ended with the server.
        let _ = self.client.kill();
        self.client.wait().unwrap();
        // All that it printed before its end has been read when nothing more comes.
        self.listener.join().unwrap();
        self.acknowledged.load(Ordering::SeqCst)
    }
}

/// Takes a volume that nobody has attached back to a snapshot of it.
pub fn roll_back(node: &Node, volume: &str, snapshot: &str) {
    let nqn = node.client().volume(&name(volume)).unwrap().nqn;
    wait_until("the node has seen the host go", || {
        let sessions = node.client().sessions().unwrap().items;
        !sessions.iter().any(|session| session.nqn == nqn)
    });
    node.answer(&["volume", "rollback", volume, snapshot]);
}

/// As `path` and `option` of a server: `option=path`.
pub fn option(option: &str, path: &Path) -> String {
    format!("{option}={}", path.display())
}
