//! Secrets that are typed: the terminal shows again what is typed, however the program ends.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use support::{text, wait_until};

/// Runs the program under the terminal of `script`, and shows how it ended and what became of the
/// terminal.
const SCRIPT: &str = "sh -c 'echo process $$ ; exec \"$PROGRAM\" login http://127.0.0.1:1' ; \
                      echo code $? ; stty -a";

/// A terminal, and the program asking for a token there.
struct Asking {
    script: Child,
    typed: ChildStdin,
    shown: ChildStdout,
    program: Pid,
}

impl Asking {
    fn new() -> Asking {
        let mut script = Command::new("script");
        script.args(["--quiet", "--command", SCRIPT, "/dev/null"]);
        script.env("PROGRAM", env!("CARGO_BIN_EXE_flashyard"));
        script.env("SHELL", "/bin/sh");
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut script = script.spawn().unwrap();
        let (typed, shown) = (script.stdin.take().unwrap(), script.stdout.take());
        let mut shown = shown.unwrap();
        let mut said = Vec::new();
        while !said.ends_with(b"Token: ") {
            let mut byte = [0];
            shown.read_exact(&mut byte).unwrap();
            said.extend(byte);
        }
        let said = text(&said);
        let number = said.lines().find_map(|line| line.strip_prefix("process "));
        let program = Pid::from_raw(number.unwrap().trim().parse().unwrap()).unwrap();
        let asking = Asking {
            script,
            typed,
            shown,
            program,
        };
        wait_until("the terminal hides what is typed", || {
            asking.modes().contains("-echo ")
        });
        asking
    }

    fn modes(&self) -> String {
        let input = format!("/proc/{}/fd/0", self.program.as_raw_nonzero());
        let terminal: PathBuf = std::fs::read_link(input).unwrap();
        let stty = Command::new("stty").arg("-aF").arg(terminal).output();
        text(&stty.unwrap().stdout)
    }

    /// What was shown at the end.
    fn ended(mut self) -> String {
        let mut said = String::new();
        self.shown.read_to_string(&mut said).unwrap();
        drop(self.typed);
        self.script.wait().unwrap();
        said
    }
}

#[test]
fn the_terminal_is_as_before_after_every_signal_that_ends_the_program() {
    let signals = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];
    for signal in signals {
        let asking = Asking::new();
        kill_process(asking.program, signal).unwrap();
        let said = asking.ended();
        assert!(
            said.contains(&format!("code {}", 128 + signal.as_raw())),
            "{signal:?}: {said}"
        );
        assert!(
            said.contains(" echo ") && said.contains("susp = ^Z"),
            "{signal:?}: {said}"
        );
    }
}

/// Ctrl-Z would leave the terminal to a shell that does not show what is typed there.
#[test]
fn the_terminal_is_as_before_after_an_answer_and_cannot_be_left_hidden() {
    let mut asking = Asking::new();
    let modes = asking.modes();
    assert!(modes.contains("susp = <undef>"), "{modes}");
    asking.typed.write_all(b"fy_token\n").unwrap();
    let said = asking.ended();
    // Nobody answers at that address, and the token is not shown.
    assert!(
        said.contains("code 3") && !said.contains("fy_token"),
        "{said}"
    );
    assert!(
        said.contains(" echo ") && said.contains("susp = ^Z"),
        "{said}"
    );
}
