//! `flashyard perf`: load on a volume over NVMe/TCP or NVMe/RDMA, in fio's words.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use initiator::{ConnectOptions, Error, Reconnect, TargetName};
use lab::load::{
    Pattern, PerfError, PerfOptions, Report, Snapshot, Stop, Verify, Workload, parse_bytes,
    parse_duration,
};

use crate::exit;
use crate::host_secrets::HostSecrets;
use crate::output::{self, Output};
use crate::reach::first_that_answers;

/// Options named as fio names them.
#[derive(Args)]
pub struct Perf {
    /// tcp://HOST:PORT/SUBSYSTEM-NQN?nsid=N, with a host's name, an IPv4 address, or an IPv6
    /// address in brackets; rdma:// instead of tcp:// connects over RDMA; namespace 1 if none is
    /// named
    target: TargetName,
    /// read, write, rw, randread, randwrite or randrw
    #[arg(long, default_value = "randread")]
    rw: Pattern,
    /// Percentage of reads in rw and randrw
    #[arg(long, default_value_t = 50, value_name = "PERCENT")]
    rwmixread: u8,
    /// Bytes per I/O
    #[arg(long, default_value = "4k", value_parser = parse_bytes, value_name = "SIZE")]
    bs: u64,
    /// I/Os in flight per job
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    iodepth: u32,
    /// Jobs, each with its own connection
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    numjobs: u32,
    /// Measured time; without it each job goes over the region once
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    runtime: Option<Duration>,
    /// Run this long before measuring
    #[arg(long, default_value = "0", value_parser = parse_duration, value_name = "TIME")]
    ramp_time: Duration,
    /// Length of the region used; the whole volume if not given
    #[arg(long, value_parser = parse_bytes, value_name = "SIZE")]
    size: Option<u64>,
    /// Start of the region used
    #[arg(long, default_value = "0", value_parser = parse_bytes, value_name = "SIZE")]
    offset: u64,
    /// Each job ends after this many I/Os
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    number_ios: Option<u64>,
    /// Open loop: I/Os a second that each job issues, whether or not earlier ones are done
    #[arg(long, value_name = "IOPS")]
    rate_iops: Option<u64>,
    /// Chooses addresses, directions and content
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Draw random addresses independently instead of visiting each once
    #[arg(long)]
    norandommap: bool,
    /// none, or crc32c: stamp what is written, check what is read, read back what was written
    #[arg(long, default_value = "none")]
    verify: Verify,
    /// Keep what was acknowledged in FILE.JOB, and check against it if it exists
    #[arg(long, value_name = "FILE", requires = "verify")]
    verify_journal: Option<PathBuf>,
    /// Count failed I/Os and go on
    #[arg(long)]
    continue_on_error: bool,
    #[command(flatten)]
    connection: Connection,
    /// CPUs to run on, jobs in turn; not pinned if not given
    #[arg(long, value_delimiter = ',', value_name = "CPU")]
    cores: Vec<usize>,
}

/// How jobs connect.
#[derive(Args)]
struct Connection {
    /// Host NQN to connect with
    #[arg(
        long,
        default_value = "nqn.2026-11.example.flashyard:perf",
        value_name = "NQN"
    )]
    host_nqn: String,
    #[command(flatten)]
    secrets: HostSecrets,
    /// Ask for header digests, which RDMA has not
    #[arg(long)]
    header_digest: bool,
    /// Ask for data digests, which RDMA has not
    #[arg(long)]
    data_digest: bool,
    /// Never send data inside command capsules
    #[arg(long)]
    no_in_capsule: bool,
    /// Ride out a lost connection for up to this time
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    reconnect: Option<Duration>,
}

impl Perf {
    pub fn run(self, output: Output) -> ExitCode {
        let options = match self.options() {
            Ok(options) => options,
            Err(error) => return exit::usage(&error),
        };
        let stop = Stop::default();
        crate::interrupt::stop_on_interrupt(&stop);
        let mut display = Display::new();
        let outcome = lab::load::run(&options, &stop, |snapshot| display.show(snapshot));
        display.clear();
        match outcome {
            Ok(report) => print(&report, output),
            Err(error) => refuse(&error),
        }
    }

    fn options(self) -> Result<PerfOptions, String> {
        let transfer_bytes =
            u32::try_from(self.bs).map_err(|_| format!("bs: {} is above 4 GiB", self.bs))?;
        let mut connect = ConnectOptions::new(self.connection.host_nqn);
        self.connection.secrets.apply(&mut connect)?;
        connect.header_digest = self.connection.header_digest;
        connect.data_digest = self.connection.data_digest;
        connect.in_capsule = !self.connection.no_in_capsule;
        connect.reconnect = self
            .connection
            .reconnect
            .map(|controller_loss_timeout| Reconnect {
                controller_loss_timeout,
                ..Reconnect::default()
            });
        let addresses = self.target.resolve();
        let addresses = addresses.map_err(|error| format!("{}: {error}", self.target.host()))?;
        let target = first_that_answers(addresses);
        Ok(PerfOptions {
            target: target.ok_or("the target has no address")?,
            connect,
            workload: Workload {
                pattern: self.rw,
                read_percent: self.rwmixread,
                transfer_bytes,
                depth: self.iodepth,
                jobs: self.numjobs,
                offset_bytes: self.offset,
                size_bytes: self.size,
                runtime: self.runtime,
                ramp_time: self.ramp_time,
                number_ios: self.number_ios,
                rate_iops: self.rate_iops,
                seed: self.seed,
                random_map: !self.norandommap,
                verify: self.verify,
                continue_on_error: self.continue_on_error,
            },
            cores: self.cores,
            journal: self.verify_journal,
        })
    }
}

fn print(report: &Report, output: Output) -> ExitCode {
    output.show(report, Report::to_string);
    if report.is_clean() {
        exit::done()
    } else {
        exit::failed(&"I/O or verification failed")
    }
}

fn refuse(error: &PerfError) -> ExitCode {
    match error {
        PerfError::Workload(_)
        | PerfError::Target {
            source: Error::Option { .. },
            ..
        } => exit::usage(error),
        PerfError::Target {
            source: Error::Unreachable { .. },
            ..
        } => exit::unreachable(error),
        _ => exit::failed(error),
    }
}

/// One line on the terminal, rewritten while the run goes on; nothing where there is no terminal.
struct Display {
    shown: bool,
    before: Snapshot,
    at: Instant,
    started: Instant,
}

impl Display {
    fn new() -> Display {
        Display {
            shown: std::io::stderr().is_terminal(),
            before: Snapshot::default(),
            at: Instant::now(),
            started: Instant::now(),
        }
    }

    fn show(&mut self, snapshot: Snapshot) {
        let seconds = self.at.elapsed().as_secs_f64();
        if !self.shown || seconds < 0.1 {
            return;
        }
        let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let line = format!(
            "{:5.0} s  read {:8.0} IOPS  write {:8.0} IOPS  {:8.1} MB/s  errors {}",
            self.started.elapsed().as_secs_f64(),
            per_second(snapshot.reads, self.before.reads),
            per_second(snapshot.writes, self.before.writes),
            per_second(snapshot.bytes, self.before.bytes) / 1e6,
            snapshot.errors,
        );
        let verified = match snapshot.verified_blocks {
            0 => String::new(),
            blocks => format!("  verified {blocks} blocks"),
        };
        output::hint(&format_args!("\r\x1b[K{line}{verified}"));
        self.before = snapshot;
        self.at = Instant::now();
    }

    fn clear(&self) {
        if self.shown {
            output::hint(&"\r\x1b[K");
        }
    }
}
