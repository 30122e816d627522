//! MariaDB as a database of tests, run by root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Child, Command};

use rustix::process::Signal;

use super::database::{Database, Place, asked, option};
use super::support::tool;

pub struct MariaDb;

impl Database for MariaDb {
    const STOP: Signal = Signal::TERM;
    const PREPARE: &str = "create database lab; use lab;";

    fn start(place: &Place) -> Child {
        let data = option("--datadir", &place.data());
        if !place.data().exists() {
            let root = "--auth-root-authentication-method=normal";
            tool(
                "mariadb-install-db",
                &["--no-defaults", &data, "--user=root", root],
            );
        }
        let log = place.log();
        let mut server = Command::new("mariadbd");
        server.args(["--no-defaults", "--user=root", &data]);
        server.args(["--skip-networking", "--skip-log-bin"]);
        server.args([
            "--innodb-flush-method=O_DIRECT",
            "--innodb-log-file-size=16M",
        ]);
        server.arg(option("--socket", &place.path("sock")));
        server.arg(option("--pid-file", &place.path("pid")));
        server.stdout(log.try_clone().unwrap()).stderr(log);
        server.spawn().unwrap()
    }

    fn client(place: &Place) -> Command {
        let mut client = lab::database::mariadb_client(&place.path("sock"));
        client.arg("--unbuffered");
        client
    }

    fn check(place: &Place) {
        let checked = asked::<MariaDb>(place, "check table lab.ledger").unwrap();
        assert!(checked.contains("OK"), "{checked}");
    }

    /// Of the table alone: a page in the system's own file that was being written twice when all
    /// was killed may stay half a page, and is written again before it is used.
    fn check_pages(place: &Place) {
        let table = place.data().join("lab/ledger.ibd");
        tool("innochecksum", &[table.to_str().unwrap()]);
    }
}
