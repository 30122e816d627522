//! [`Measures`]: what a node counted since it started, gathered from its cores.
//!
//! Each core counts for itself, in plain numbers that nobody else touches; gathering them is one
//! message to each core.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use access::Nqn;
use nvme_target::{Latency, NamespaceCounters};
use reactor::Usage;

/// What a node counted since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    /// Each core, in the order of the specification.
    pub cores: Vec<CoreMeasure>,
    /// Each namespace that is served, by subsystem and identifier.
    pub volumes: BTreeMap<(Nqn, u32), VolumeCounts>,
    /// Each open drive, by name.
    pub drives: BTreeMap<String, DriveCounts>,
}

/// What one core did, and what it holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreMeasure {
    /// Where its time went.
    pub usage: Usage,
    /// Connections open now.
    pub connections: u64,
    /// Connections ever accepted.
    pub connections_accepted: u64,
    /// Associations of hosts with subsystems whose admin queue is here.
    pub sessions: u64,
    /// Queue pairs of these sessions, admin queues included.
    pub queue_pairs: u64,
    /// Connections that ended because a host broke the protocol.
    pub protocol_errors: u64,
    /// Controllers that ended because a host kept silent.
    pub keep_alive_expirations: u64,
    /// Connections that found no place.
    pub connections_refused: u64,
    /// Connections that made room for others.
    pub connections_displaced: u64,
    /// Times that a host was refused.
    pub hosts_refused: u64,
}

/// What hosts did to a volume, on all cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeCounts {
    /// How long read commands took.
    pub read_latency: Latency,
    /// Bytes read.
    pub read_bytes: u64,
    /// How long write commands took.
    pub write_latency: Latency,
    /// Bytes written.
    pub write_bytes: u64,
    /// Flush commands.
    pub flushes: u64,
    /// Dataset Management commands.
    pub deallocates: u64,
    /// Write Zeroes, Compare and Verify commands.
    pub others: u64,
    /// Commands that ended with an error.
    pub errors: u64,
    /// Commands that waited for their turn: limits, or others that go first.
    pub delayed: u64,
    /// How long together.
    pub delay: Duration,
}

/// Counts what is done to a drive, on one core.
#[derive(Debug, Default)]
pub struct DriveTally {
    reads: Cell<u64>,
    read_bytes: Cell<u64>,
    writes: Cell<u64>,
    write_bytes: Cell<u64>,
    errors: Cell<u64>,
}

impl DriveTally {
    /// Counts a read of so many bytes.
    pub fn count_read(&self, bytes: usize) {
        add(&self.reads, 1);
        add(&self.read_bytes, bytes as u64);
    }

    /// Counts a write of so many bytes.
    pub fn count_write(&self, bytes: usize) {
        add(&self.writes, 1);
        add(&self.write_bytes, bytes as u64);
    }

    /// Counts a failure; gives how many there were.
    pub fn count_error(&self) -> u64 {
        add(&self.errors, 1);
        self.errors.get()
    }

    /// Counts what was counted elsewhere.
    pub fn add(&self, counts: DriveCounts) {
        add(&self.reads, counts.reads);
        add(&self.read_bytes, counts.read_bytes);
        add(&self.writes, counts.writes);
        add(&self.write_bytes, counts.write_bytes);
        add(&self.errors, counts.errors);
    }

    /// What was counted.
    pub fn read(&self) -> DriveCounts {
        DriveCounts {
            reads: self.reads.get(),
            read_bytes: self.read_bytes.get(),
            writes: self.writes.get(),
            write_bytes: self.write_bytes.get(),
            errors: self.errors.get(),
        }
    }
}

fn add(counter: &Cell<u64>, amount: u64) {
    counter.set(counter.get().wrapping_add(amount));
}

/// What was done to a drive since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveCounts {
    /// Read operations.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write operations.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Operations of any kind that failed through the drive's fault.
    pub errors: u64,
}

impl VolumeCounts {
    /// Adds what was counted of another volume.
    pub fn add(&mut self, other: &VolumeCounts) {
        self.read_latency.add(&other.read_latency);
        self.read_bytes += other.read_bytes;
        self.write_latency.add(&other.write_latency);
        self.write_bytes += other.write_bytes;
        self.flushes += other.flushes;
        self.deallocates += other.deallocates;
        self.others += other.others;
        self.errors += other.errors;
        self.delayed += other.delayed;
        self.delay += other.delay;
    }

    /// Adds what one core has counted of a namespace.
    pub fn count(&mut self, counters: &NamespaceCounters) {
        self.read_latency.add(&counters.read_latency);
        self.read_bytes += counters.read_bytes;
        self.write_latency.add(&counters.write_latency);
        self.write_bytes += counters.write_bytes;
        self.flushes += counters.flushes;
        self.deallocates += counters.deallocates;
        self.others += counters.others;
        self.errors += counters.errors;
        self.delayed += counters.delayed;
        self.delay += counters.delay;
    }
}

impl DriveCounts {
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: DriveCounts) {
        self.reads += other.reads;
        self.read_bytes += other.read_bytes;
        self.writes += other.writes;
        self.write_bytes += other.write_bytes;
        self.errors += other.errors;
    }
}
