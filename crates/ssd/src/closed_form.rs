//! The closed form: what limits a load, as formulas over a profile.
//!
//! Throughput is the least of: requests outstanding over the least latency; the controller's
//! ceiling; the link each way; reads that the groups of planes sense; and the shared budget of
//! program time, in which a host page costs a program, cleaning adds copies, and every read takes
//! its sensing time (more, when it interrupts a copy) from a group of planes that programs.

use crate::cleaning::{program_cost, program_costs};
use crate::load::Pattern;
use crate::outcome::Outcome;
use crate::precondition::Precondition;
use crate::profile::{PAGE_BYTES, Profile};
use crate::study::Study;

/// What the formulas need to know of a load.
pub(crate) struct Demand {
    pub(crate) read_share: f64,
    pub(crate) pages: f64,
    pub(crate) outstanding: f64,
    pub(crate) write_amplification: f64,
}

/// The rates, in requests a second.
pub(crate) fn iops(profile: &Profile, demand: &Demand) -> f64 {
    let budget = budget_iops(profile, demand);
    let ceiling = ceiling_iops(profile, demand).min(budget);
    latency_bound_iops(profile, demand, ceiling, budget)
}

/// The study's outcome by formulas alone.
pub(crate) fn outcome(study: &Study) -> Outcome {
    let load = study.load;
    let random = load.pattern == Pattern::Random;
    let steady = study.precondition != Precondition::Purge;
    let write_amplification = if random && steady {
        study.profile.write_amplification(study.live_tb())
    } else {
        1.0
    };
    let demand = Demand {
        read_share: load.read_share(),
        pages: f64::from(load.pages()),
        outstanding: f64::from(load.outstanding()),
        write_amplification,
    };
    let iops = iops(study.profile, &demand);
    let mut outcome = Outcome {
        iops,
        read_iops: iops * load.read_share(),
        write_iops: iops * (1.0 - load.read_share()),
        bytes_per_second: iops * f64::from(load.block_bytes),
        read_latency: None,
        write_latency: None,
        write_amplification: None,
        endurance: None,
        mapped_share: if steady { 1.0 } else { 0.0 },
        requests: 0,
        simulated_seconds: 0.0,
        intervals: Vec::new(),
    };
    if load.read_percent < 100 {
        outcome.wear(study, write_amplification);
    }
    outcome
}

/// What the controller, the link and the planes carry.
fn ceiling_iops(profile: &Profile, demand: &Demand) -> f64 {
    let block_gb = demand.pages * PAGE_BYTES as f64 / 1e9;
    let share = |of: f64, ceiling: f64| {
        if of > 0.0 {
            ceiling / of
        } else {
            f64::INFINITY
        }
    };
    let reads = demand.read_share;
    (profile.controller.command_kiops * 1e3)
        .min(share(reads, profile.link.sequential_read_gb_s / block_gb))
        .min(share(
            1.0 - reads,
            profile.link.sequential_write_gb_s / block_gb,
        ))
}

/// Times the planes sense for a read.
fn senses(profile: &Profile, demand: &Demand) -> f64 {
    (demand.pages * PAGE_BYTES as f64 / 1024.0 / f64::from(profile.nand.page_kib)).max(1.0)
}

/// What the shared budget of program time carries, by bisection: the time left of a program's
/// own shrinks as reads interrupt it.
fn budget_iops(profile: &Profile, demand: &Demand) -> f64 {
    let writes = 1.0 - demand.read_share;
    if writes <= 0.0 {
        return f64::INFINITY;
    }
    let copies = demand.write_amplification - 1.0;
    let (full, idle) = program_costs(profile);
    let share = copies / demand.write_amplification;
    let program = program_cost(idle, full, share).0 as f64 / 1024.0 / 1e9;
    let units = f64::from(profile.read_units());
    let copy_cost = copies * (1.0 + profile.nand.copy_read_share);
    let senses = senses(profile, demand) * demand.read_share;
    let used = |iops: f64| {
        let reads_per_unit = iops * senses / units;
        let left = |interrupt_us: f64| 1.0 - reads_per_unit * interrupt_us / 1e6;
        let (host, copy) = (
            left(profile.nand.read_us),
            left(profile.nand.suspend_copy_us),
        );
        if host <= 0.0 || (copies > 0.0 && copy <= 0.0) {
            return f64::INFINITY;
        }
        let copying = if copies > 0.0 { copy_cost / copy } else { 0.0 };
        iops * writes * demand.pages * program * (1.0 / host + copying)
    };
    let (mut low, mut high) = (0.0, 1e9);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if used(middle) > 1.0 {
            high = middle
        } else {
            low = middle
        }
    }
    low
}

/// Throughput with so many requests outstanding, by mean value analysis: each request waits for
/// those it finds at its group of planes (half of one that is being served), for the fixed parts
/// of its latency, and the whole for the slowest ceiling.
fn latency_bound_iops(profile: &Profile, demand: &Demand, ceiling: f64, budget: f64) -> f64 {
    let nand = &profile.nand;
    let units = f64::from(profile.read_units());
    let page_bytes = demand.pages * PAGE_BYTES as f64;
    let command = 1e6 / (profile.controller.command_kiops * 1e3);
    let read_link = page_bytes / profile.link.sequential_read_gb_s / 1e3;
    let write_link = page_bytes / profile.link.sequential_write_gb_s / 1e3;
    let senses = senses(profile, demand).min(units);
    let mut queued = 0.0;
    let mut iops = 0.0;
    let outstanding = demand.outstanding.max(1.0) as u32;
    for number in 1..=outstanding {
        let utilisation = (iops * demand.read_share * senses * nand.read_us / 1e6 / units).min(1.0);
        let waiting = nand.read_us * (queued * senses / units - utilisation / 2.0).max(0.0);
        // Where no budget is set there are no programs to suspend.
        let suspended = nand.suspend_wait_us * (iops / budget).min(1.0);
        let sensing = nand.read_us + waiting + suspended * (1.0 - utilisation);
        let read = command + sensing.max(read_link) + profile.controller.read_overhead_us;
        let write = command + write_link + profile.controller.write_acknowledge_us;
        let latency = demand.read_share * read + (1.0 - demand.read_share) * write;
        iops = (f64::from(number) / latency * 1e6).min(ceiling);
        queued = iops * demand.read_share * (nand.read_us + waiting) / 1e6;
    }
    iops
}
