//! A running guest: QEMU, and the agent inside that runs scripts and reports how they ended.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::initramfs::Image;

/// Software emulation on a busy machine takes ten seconds to boot; this is for a stuck one.
const BOOT_TIMEOUT: Duration = Duration::from_secs(120);
/// How long one step may take.
const STEP_TIMEOUT: Duration = Duration::from_secs(180);
/// Two processors, a user network that reaches this machine, and no firmware for what boots fast
/// without. One thread emulates both processors in turn: with a thread each, QEMU before 8.1 can
/// show one a half-patched instruction of the kernel ("Oops: int3" in a boot in a few hundred).
const MACHINE: &str = "-nodefaults -no-reboot -display none -monitor none
    -accel tcg,thread=single -cpu max -smp 2 -m 1024
    -netdev user,id=net,ipv4=on,ipv6=on -device virtio-net-pci,netdev=net,romfile=
    -object rng-random,id=rng,filename=/dev/urandom -device virtio-rng-pci,rng=rng";
/// The guest's second serial port is QEMU's standard input and output.
const AGENT_PORT: &str = "-chardev stdio,id=agent,signal=off -serial chardev:agent";
/// Emulated timers run late on a busy machine: the kernel must not take that for broken hardware.
const KERNEL_OPTIONS: &str =
    "console=ttyS0 panic=-1 no_timer_check nowatchdog mitigations=off nvme_core.multipath=Y";
const CONSOLE_LINES_SHOWN: usize = 30;

/// One virtual machine. It ends when this is dropped.
pub struct Guest {
    qemu: Child,
    requests: ChildStdin,
    answers: Receiver<Answer>,
    console: PathBuf,
    label: String,
    number: u64,
}

/// How a script ended.
#[derive(Debug)]
pub struct Output {
    /// Exit code.
    pub code: i32,
    /// Standard output and error together.
    pub text: String,
}

enum Answer {
    Ready,
    Result { number: u64, output: Output },
}

impl Guest {
    /// Boots `image` in a machine with `devices` (options of QEMU) beside the usual ones; the
    /// console goes to a file in `directory`, `label` names it in reports.
    ///
    /// # Errors
    /// QEMU does not start, or the agent does not answer in time.
    pub fn boot(image: &Image, devices: &[String], directory: &Path, label: &str) -> Result<Guest> {
        let started = Instant::now();
        fs::create_dir_all(directory)?;
        let console = directory.join(format!("{}.console", label.replace(' ', "-")));
        File::create(&console)?;
        let mut qemu = qemu(image, &console)
            .args(devices)
            .spawn()
            .context("cannot start QEMU")?;
        let requests = qemu.stdin.take().context("QEMU has no standard input")?;
        let replies = qemu.stdout.take().context("QEMU has no standard output")?;
        let (sender, answers) = channel();
        thread::spawn(move || read_answers(BufReader::new(replies), &sender));
        let label = label.to_owned();
        let mut guest = Guest {
            qemu,
            requests,
            answers,
            console,
            label,
            number: 0,
        };
        match guest
            .answer(BOOT_TIMEOUT)
            .with_context(|| guest.console_end())?
        {
            Answer::Ready => guest.report(&format!("boot of Linux {}", image.release), started),
            Answer::Result { .. } => bail!("the agent answered before it was asked"),
        }
        Ok(guest)
    }

    /// Runs a script and returns how it ended.
    ///
    /// # Panics
    /// The guest died or did not answer in time.
    pub fn run(&mut self, script: &str) -> Output {
        match self.request(script) {
            Ok(output) => output,
            Err(error) => panic!("{}: {error:#}\nscript: {script}", self.label),
        }
    }

    /// A step that must succeed: runs the script, reports the step, returns what it printed.
    ///
    /// # Panics
    /// The script ends with another code than 0.
    pub fn check(&mut self, step: &str, script: &str) -> String {
        let started = Instant::now();
        // A failing command anywhere in the script fails the step.
        let output = self.run(&format!("set -e\n{script}\n"));
        let Output { code, text } = output;
        assert!(
            code == 0,
            "{}: {step}: exit code {code}\n{script}\n{text}",
            self.label
        );
        self.report(step, started);
        text
    }

    /// A step that must be refused: the script must fail, and say `reason` somewhere.
    ///
    /// # Panics
    /// The script succeeds, or fails with other words.
    pub fn refused(&mut self, step: &str, script: &str, reason: &str) {
        let started = Instant::now();
        let Output { code, text } = self.run(script);
        assert!(
            code != 0,
            "{}: {step}: succeeded\n{script}\n{text}",
            self.label
        );
        let said = text.to_lowercase().contains(&reason.to_lowercase());
        assert!(
            said,
            "{}: {step}: failed without saying `{reason}`\n{text}",
            self.label
        );
        self.report(step, started);
    }

    /// Repeats the script until it succeeds and returns what it printed.
    ///
    /// # Panics
    /// It still fails after `seconds`.
    pub fn eventually(&mut self, step: &str, seconds: u64, script: &str) -> String {
        let started = Instant::now();
        loop {
            let Output { code, text } = self.run(script);
            if code == 0 {
                self.report(step, started);
                return text;
            }
            let waited = started.elapsed() > Duration::from_secs(seconds);
            assert!(
                !waited,
                "{}: {step}: not within {seconds} s\n{script}\n{text}",
                self.label
            );
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Starts a script in the background; [`Guest::join`] waits for it.
    ///
    /// # Panics
    /// The guest died.
    pub fn spawn(&mut self, name: &str, script: &str) {
        // A shell whose child is killed says so, whenever that is: not into somebody's answer.
        let wrapped = format!(
            "rm -f /run/{name}.code\n\
             {{ ( set -e\n{script}\n) >/run/{name}.output 2>&1; echo $? >/run/{name}.code; }} \
             >/dev/null 2>&1 &\n"
        );
        let Output { code, text } = self.run(&wrapped);
        assert!(code == 0, "{}: cannot start {name}: {text}", self.label);
    }

    /// Waits for a script started with [`Guest::spawn`]: a step that must succeed.
    ///
    /// # Panics
    /// It fails, or still runs after `seconds`.
    pub fn join(&mut self, step: &str, name: &str, seconds: u64) -> String {
        let ended = format!("test -s /run/{name}.code");
        self.eventually(&format!("{step}: ends"), seconds, &ended);
        self.check(
            step,
            &format!("cat /run/{name}.output; exit $(cat /run/{name}.code)"),
        )
    }

    /// Runs a script that writes `/run/next`, and waits for the agent of the system that process 1
    /// starts with it.
    ///
    /// # Panics
    /// The script fails, or the agent does not answer in time.
    pub fn hand_over(&mut self, step: &str, seconds: u64, script: &str) {
        self.check(&format!("{step}: prepare"), script);
        let started = Instant::now();
        let answer = self.answer(Duration::from_secs(seconds));
        assert!(
            matches!(answer, Ok(Answer::Ready)),
            "{}: {step}: not within {seconds} s",
            self.label
        );
        self.report(step, started);
    }

    /// Runs a script that has the machine switched off, and waits until it is.
    ///
    /// # Panics
    /// It still runs after `seconds`.
    pub fn switch_off(mut self, seconds: u64, script: &str) {
        let started = Instant::now();
        // The agent may end before it answers.
        if let Err(error) = self.send(script) {
            panic!("{}: {error:#}", self.label);
        }
        while !matches!(self.qemu.try_wait(), Ok(Some(_))) {
            let waited = started.elapsed() > Duration::from_secs(seconds);
            assert!(!waited, "{}: runs after {seconds} s", self.label);
            thread::sleep(Duration::from_millis(200));
        }
        self.report("switched off", started);
    }

    fn send(&mut self, script: &str) -> Result<()> {
        self.number += 1;
        write!(self.requests, "{} {}\n{script}", self.number, script.len())?;
        Ok(self.requests.flush()?)
    }

    fn request(&mut self, script: &str) -> Result<Output> {
        self.send(script)?;
        match self.answer(STEP_TIMEOUT)? {
            Answer::Result { number, output } if number == self.number => Ok(output),
            Answer::Result { .. } | Answer::Ready => bail!("the agent answered out of turn"),
        }
    }

    fn answer(&mut self, timeout: Duration) -> Result<Answer> {
        match self.answers.recv_timeout(timeout) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => bail!("no answer within {timeout:?}"),
            Err(RecvTimeoutError::Disconnected) => bail!("the guest ended"),
        }
    }

    /// What the guest's kernel said last.
    fn console_end(&self) -> String {
        let console = fs::read(&self.console).unwrap_or_default();
        let console = String::from_utf8_lossy(&console);
        let lines: Vec<&str> = console.lines().collect();
        let first = lines.len().saturating_sub(CONSOLE_LINES_SHOWN);
        let place = self.console.display();
        format!(
            "--- end of the console of {} ({place})\n{}",
            self.label,
            lines[first..].join("\n")
        )
    }

    fn report(&self, step: &str, started: Instant) {
        println!(
            "    {}: {step} ({:.1} s)",
            self.label,
            started.elapsed().as_secs_f64()
        );
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Both fail only when QEMU has ended by itself, which is what is wanted.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
        if thread::panicking() {
            println!("{}", self.console_end());
        }
    }
}

/// `setpriv` ends QEMU with the thread that started it, however that thread ends.
fn qemu(image: &Image, console: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "qemu-system-x86_64"]);
    command.args(MACHINE.split_whitespace());
    command
        .arg("-serial")
        .arg(format!("file:{}", console.display()));
    command.args(AGENT_PORT.split_whitespace());
    command.arg("-kernel").arg(&image.kernel);
    command.arg("-initrd").arg(&image.initramfs);
    command.arg("-append").arg(KERNEL_OPTIONS);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn read_answers(mut replies: impl BufRead, answers: &Sender<Answer>) {
    while let Ok(Some(answer)) = read_answer(&mut replies) {
        if answers.send(answer).is_err() {
            return;
        }
    }
}

/// The next answer; nothing when the guest has ended.
fn read_answer(replies: &mut impl BufRead) -> Result<Option<Answer>> {
    let mut line = String::new();
    if replies.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["ready"] => Ok(Some(Answer::Ready)),
        ["result", number, code, bytes] => {
            let mut text = vec![0; bytes.parse()?];
            replies.read_exact(&mut text)?;
            let text = String::from_utf8_lossy(&text).into_owned();
            let output = Output {
                code: code.parse()?,
                text,
            };
            Ok(Some(Answer::Result {
                number: number.parse()?,
                output,
            }))
        }
        _ => bail!("the agent said {line:?}"),
    }
}
