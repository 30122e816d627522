//! PostgreSQL as a database of tests, run by the user that its package makes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::process::Signal;

use super::database::{Database, Place, option};
use super::support::{text, tool};

/// Where Debian has its programs, a folder for each version.
const VERSIONS: &str = "/usr/lib/postgresql";

const USER: &str = "postgres";

pub struct Postgres;

impl Postgres {
    /// One of its programs, as its user.
    pub fn program(name: &str) -> Command {
        let folders = std::fs::read_dir(VERSIONS).unwrap().map(Result::unwrap);
        let programs = folders.map(|folder| folder.path().join("bin").join(name));
        let mut there: Vec<PathBuf> = programs.filter(|path| path.exists()).collect();
        there.sort();
        let mut command = Command::new(there.pop().expect("PostgreSQL is installed"));
        let (user, group) = (number_of("-u"), number_of("-g"));
        command.uid(user).gid(group).current_dir("/");
        command
    }

    /// One of its client programs, which connects to the server.
    pub fn client_program(name: &str, place: &Place) -> Command {
        let mut command = Postgres::program(name);
        command.arg("--host").arg(place.path("socket"));
        command.args(["--username", USER]);
        command
    }
}

/// A number of its user: `-u`, or `-g` of the group.
fn number_of(which: &str) -> u32 {
    tool("id", &[which, USER]).trim().parse().unwrap()
}

/// Runs a program to its end, which must be a success.
pub fn run(mut command: Command) -> String {
    let output = command.output().unwrap();
    let said = [text(&output.stdout), text(&output.stderr)].concat();
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// A directory that its user alone has.
fn own_directory(path: &Path) {
    if !path.exists() {
        std::fs::create_dir(path).unwrap();
        chown(path, Some(number_of("-u")), Some(number_of("-g"))).unwrap();
    }
}

impl Database for Postgres {
    /// A fast shutdown: clients are sent away.
    const STOP: Signal = Signal::INT;
    const PREPARE: &str = "create schema lab; set search_path = lab;";

    fn start(place: &Place) -> Child {
        let data = place.data();
        // Its user has to reach the directories in it.
        let open = std::fs::Permissions::from_mode(0o711);
        std::fs::set_permissions(place.path(""), open).unwrap();
        own_directory(&place.path("socket"));
        if !data.exists() {
            own_directory(&data);
            let mut make = Postgres::program("initdb");
            make.args(["--data-checksums", "--auth=trust", "--pgdata"]);
            make.arg(&data);
            run(make);
        }
        // Of a server that was killed, or of the one that had what this is a clone of.
        let _ = std::fs::remove_file(data.join("postmaster.pid"));
        let log = place.log();
        let mut server = Postgres::program("postgres");
        server.arg("-D").arg(&data);
        let socket = option("unix_socket_directories", &place.path("socket"));
        server.args(["-c", &socket, "-c", "listen_addresses="]);
        // Checkpoints come often, so that a kill meets one now and then.
        server.args(["-c", "max_wal_size=64MB", "-c", "min_wal_size=32MB"]);
        server.args(["-c", "checkpoint_timeout=30s"]);
        server.stdout(log.try_clone().unwrap()).stderr(log);
        server.spawn().unwrap()
    }

    fn client(place: &Place) -> Command {
        let mut client = Postgres::client_program("psql", place);
        client.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only"]);
        client.args(["--set", "ON_ERROR_STOP=1", "postgres"]);
        client
    }

    fn check(place: &Place) {
        let mut check = Postgres::client_program("pg_amcheck", place);
        check.args([
            "--all",
            "--install-missing",
            "--heapallindexed",
            "--parent-check",
        ]);
        run(check);
    }

    fn check_pages(place: &Place) {
        let mut check = Postgres::program("pg_checksums");
        check.arg("--check").arg("--pgdata").arg(place.data());
        let said = run(check);
        assert!(said.contains("Bad checksums:  0"), "{said}");
    }
}
