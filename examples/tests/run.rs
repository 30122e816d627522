//! The examples do what their pages say: a device is served, a host writes to it and reads back,
//! and the drive model has more to give the more of it is left free.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_device_of_ones_own_is_served_to_the_host_library() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_own_device"))
        .arg("127.0.0.1:0")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = server.stdout.take().unwrap();
    let _server = Ended(server);
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let (address, nqn) = line
        .trim()
        .strip_prefix("tcp://")
        .unwrap()
        .split_once('/')
        .unwrap();
    let said = output(env!("CARGO_BIN_EXE_host_library"), &[address, nqn]);
    assert_eq!(
        said, "268435456 blocks of 4096 bytes\nblock 7 reads back\n",
        "a terabyte of which one block was written"
    );
}

#[test]
fn a_smaller_namespace_takes_more_writes() {
    let said = output(env!("CARGO_BIN_EXE_drive_model"), &[]);
    let figures = said
        .lines()
        .filter_map(|line| line.split_once(" IOPS")?.0.rsplit_once(' '));
    let iops: Vec<f64> = figures.map(|(_, figure)| figure.parse().unwrap()).collect();
    assert_eq!(iops.len(), 4, "{said}");
    assert!(iops.is_sorted() && iops[0] < iops[3], "{said}");
}
