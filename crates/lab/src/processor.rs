//! Processor time: of processes, of the machine, and of both each second.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// How long a sample is.
const PERIOD: Duration = Duration::from_secs(1);

/// Processor time that a process has used since it started; `None` once it is gone.
pub fn time_of(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The fields after the command's name, which may hold anything: utime is the 12th of them,
    // stime the 13th, both in clock ticks.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.flat_map(str::parse::<u64>).sum();
    let per_second = rustix::param::clock_ticks_per_second();
    Some(Duration::from_secs_f64(ticks as f64 / per_second as f64))
}

/// Ticks that the machine's processors were busy, and in all.
fn machine_ticks() -> Option<(u64, u64)> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let fields = stat.lines().next()?.split_whitespace().skip(1);
    // user nice system idle iowait irq softirq steal; guest time is part of user's.
    let ticks: Vec<u64> = fields.take(8).flat_map(str::parse).collect();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    let all: u64 = ticks.iter().sum();
    Some((all - idle, all))
}

/// One second of processor use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessorSecond {
    /// All processors of the machine, in percent of them.
    pub machine_percent: f64,
    /// By process, in percent of one processor.
    pub percent: BTreeMap<String, f64>,
}

/// Watches processes until it is asked for what it saw.
pub struct ProcessorWatch {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Vec<ProcessorSecond>>,
}

impl ProcessorWatch {
    /// Watches the machine and the processes given by name and number.
    pub fn start(processes: Vec<(String, u32)>) -> ProcessorWatch {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || watch(&processes, &stopped));
        ProcessorWatch { stop, thread }
    }

    /// Ends watching; whole seconds only, unless there was none.
    pub fn end(self) -> Vec<ProcessorSecond> {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

/// Where counters stand.
struct Reading {
    at: Instant,
    machine: (u64, u64),
    processes: Vec<Duration>,
}

impl Reading {
    fn take(processes: &[(String, u32)]) -> Reading {
        let time = |(_, pid): &(String, u32)| time_of(*pid).unwrap_or_default();
        Reading {
            at: Instant::now(),
            machine: machine_ticks().unwrap_or_default(),
            processes: processes.iter().map(time).collect(),
        }
    }

    fn since(&self, before: &Reading, processes: &[(String, u32)]) -> ProcessorSecond {
        let seconds = (self.at - before.at).as_secs_f64().max(0.001);
        let busy = self.machine.0.saturating_sub(before.machine.0) as f64;
        let all = self.machine.1.saturating_sub(before.machine.1) as f64;
        let used = self.processes.iter().zip(&before.processes);
        let percent =
            used.map(|(now, before)| 100.0 * now.saturating_sub(*before).as_secs_f64() / seconds);
        let names = processes.iter().map(|(name, _)| name.clone());
        ProcessorSecond {
            machine_percent: 100.0 * busy / all.max(1.0),
            percent: names.zip(percent).collect(),
        }
    }
}

fn watch(processes: &[(String, u32)], stopped: &mpsc::Receiver<()>) -> Vec<ProcessorSecond> {
    let mut seconds = Vec::new();
    let mut before = Reading::take(processes);
    loop {
        let ended = stopped.recv_timeout(PERIOD) != Err(mpsc::RecvTimeoutError::Timeout);
        if ended && !seconds.is_empty() {
            return seconds;
        }
        let now = Reading::take(processes);
        seconds.push(now.since(&before, processes));
        before = now;
        if ended {
            return seconds;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_time_and_none_that_does_not_exist() {
        let me = std::process::id();
        assert!(time_of(me).is_some());
        assert_eq!(time_of(u32::MAX), None);
        let watch = ProcessorWatch::start(vec![("lab".to_owned(), me)]);
        let seconds = watch.end();
        assert!(!seconds.is_empty());
        assert!(
            seconds
                .iter()
                .all(|second| second.percent.contains_key("lab"))
        );
    }

    #[test]
    fn shares_are_of_the_time_that_passed() {
        let at = Instant::now();
        let before = Reading {
            at,
            machine: (100, 1000),
            processes: vec![Duration::from_secs(5)],
        };
        let now = Reading {
            at: at + Duration::from_secs(2),
            machine: (150, 1200),
            processes: vec![Duration::from_secs(6)],
        };
        let second = now.since(&before, &[("node".to_owned(), 1)]);
        assert_eq!(second.machine_percent, 25.0);
        assert!((second.percent["node"] - 50.0).abs() < 1e-6);
    }
}
