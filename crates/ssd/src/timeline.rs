//! [`Timeline`]: when a request completes, in a handful of additions (the default timing).
//!
//! Each resource is a time at which it is next free: the controller, the link each way, every
//! group of planes for reads, and one shared budget of program time that host writes, copies and
//! interrupted programs draw on. Requests are given in the order they arrive.

use crate::cleaning::Debt;
use crate::flash::Cleaned;
use crate::pace::{Cost, Pace};
use crate::profile::{PAGE_BYTES, Profile};

/// The timing of one drive.
#[derive(Clone, Debug)]
pub struct Timeline {
    timing: Timing,
    debt: Debt,
    command: Pace,
    link_read: Pace,
    link_write: Pace,
    /// When each group of planes has done its reads.
    units: Vec<u64>,
    programs: Pace,
    interrupted: Interrupted,
}

/// The constants that both simulated fidelities share.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    pub(crate) command: Cost,
    pub(crate) link_read_page: Cost,
    pub(crate) link_write_page: Cost,
    pub(crate) read_ns: u64,
    pub(crate) read_overhead_ns: u64,
    pub(crate) suspend_wait_ns: u64,
    /// What a read takes from the program it interrupts: of host data, and of a copy.
    pub(crate) interrupt_host_ns: u64,
    pub(crate) interrupt_copy_ns: u64,
    pub(crate) write_acknowledge_ns: u64,
    pub(crate) buffer_pages: u64,
    pub(crate) units: u32,
    /// Mapped pages that one sensing of the flash covers.
    pub(crate) pages_per_sense: u32,
}

impl Timing {
    pub(crate) fn new(profile: &Profile) -> Timing {
        let per_page = |gb_s: f64| Cost::per_second(gb_s * 1e9 / PAGE_BYTES as f64);
        let ns = |us: f64| (us * 1e3).round() as u64;
        let nand = &profile.nand;
        Timing {
            command: Cost::per_second(profile.controller.command_kiops * 1e3),
            link_read_page: per_page(profile.link.sequential_read_gb_s),
            link_write_page: per_page(profile.link.sequential_write_gb_s),
            read_ns: ns(nand.read_us),
            read_overhead_ns: ns(profile.controller.read_overhead_us),
            suspend_wait_ns: ns(nand.suspend_wait_us),
            interrupt_host_ns: ns(nand.read_us),
            interrupt_copy_ns: ns(nand.suspend_copy_us),
            write_acknowledge_ns: ns(profile.controller.write_acknowledge_us),
            buffer_pages: u64::from(profile.controller.buffer_pages),
            units: profile.read_units(),
            pages_per_sense: nand.page_kib / 4,
        }
    }

    /// The group of planes that holds a physical page.
    #[inline]
    pub(crate) fn unit_of(&self, physical: u32) -> usize {
        (physical / self.pages_per_sense % self.units) as usize
    }
}

/// How the time of programs divides into copies and host data, which says what a read that
/// interrupts one of them costs. Copies are interrupted at a higher price, so they also take a
/// larger part of the time than of the pages.
#[derive(Clone, Debug)]
struct Interrupted {
    /// Program time spent on each, in 1/1024 ns of the shared budget, recent time counting more.
    host: u64,
    copies: u64,
    /// What interrupting a program now takes from the budget, by where it is taken from.
    from_host: u64,
    from_copies: u64,
}

/// The division is looked at anew after this much program time, in 1/1024 ns.
const LOOK_AGAIN: u64 = 1_000_000 << 10;

impl Interrupted {
    fn new(timing: &Timing) -> Interrupted {
        let mut new = Interrupted {
            host: 0,
            copies: 0,
            from_host: 0,
            from_copies: 0,
        };
        new.look(timing);
        new
    }

    fn look(&mut self, timing: &Timing) {
        let total = (self.host + self.copies).max(1) as f64;
        let copies = self.copies as f64 / total;
        let cost =
            |ns: u64, share: f64| Cost::from_ns(ns as f64 * share / f64::from(timing.units)).0;
        self.from_host = cost(timing.interrupt_host_ns, 1.0 - copies);
        self.from_copies = cost(timing.interrupt_copy_ns, copies);
        self.host /= 2;
        self.copies /= 2;
    }
}

impl Timeline {
    /// An idle drive whose superblocks have `pages_per_superblock` pages.
    pub fn new(profile: &Profile, pages_per_superblock: u32) -> Timeline {
        let timing = Timing::new(profile);
        Timeline {
            debt: Debt::new(profile, pages_per_superblock),
            command: Pace::default(),
            link_read: Pace::default(),
            link_write: Pace::default(),
            units: vec![0; timing.units as usize],
            programs: Pace::default(),
            interrupted: Interrupted::new(&timing),
            timing,
        }
    }

    /// A read of `pages` pages in all, of which `physical` (in order) hold data, arrives at
    /// `at_ns`. Returns when it completes.
    #[inline]
    pub fn read(&mut self, at_ns: u64, pages: u32, physical: impl Iterator<Item = u32>) -> u64 {
        let start = self.command.take(at_ns, self.timing.command);
        let transfer = Cost(self.timing.link_read_page.0 * u64::from(pages));
        let mut done = self.link_read.take(start, transfer);
        let mut sensed = u32::MAX;
        for page in physical {
            let sense = page / self.timing.pages_per_sense;
            if sense != sensed {
                sensed = sense;
                done = done.max(self.sense(start, page));
            }
        }
        done + self.timing.read_overhead_ns
    }

    #[inline]
    fn sense(&mut self, start: u64, physical: u32) -> u64 {
        let unit = &mut self.units[self.timing.unit_of(physical)];
        let mut begin = start.max(*unit);
        if self.programs.free_at_ns() > start {
            if begin == start {
                begin += self.timing.suspend_wait_ns;
            }
            let (host, copies) = (self.interrupted.from_host, self.interrupted.from_copies);
            self.interrupted.host += host;
            self.interrupted.copies += copies;
            self.programs.take(start, Cost(host + copies));
        }
        *unit = begin + self.timing.read_ns;
        *unit
    }

    /// A write of `pages` pages, for which the translation layer has `cleaned`, arrives at
    /// `at_ns`. Returns when it is acknowledged: it then is in the protected buffer.
    #[inline]
    pub fn write(&mut self, at_ns: u64, pages: u32, cleaned: Cleaned) -> u64 {
        self.debt.add(cleaned);
        let start = self.command.take(at_ns, self.timing.command);
        let transfer = Cost(self.timing.link_write_page.0 * u64::from(pages));
        let arrived = self.link_write.take(start, transfer);
        let program = self.debt.program_cost();
        let copies = self.debt.pay(pages);
        let copy_work = self.debt.copy_cost(copies, program);
        let host_work = Cost(program.0 * u64::from(pages));
        let work = Cost(host_work.0 + copy_work.0);
        let buffered = Cost(work.0 / u64::from(pages.max(1)) * self.timing.buffer_pages);
        let room_at = self.programs.free_at_ns().saturating_sub(buffered.ns());
        self.account(host_work, copy_work);
        self.programs.take(arrived, work);
        arrived.max(room_at) + self.timing.write_acknowledge_ns
    }

    #[inline]
    fn account(&mut self, host_work: Cost, copy_work: Cost) {
        self.interrupted.host += host_work.0;
        self.interrupted.copies += copy_work.0;
        if self.interrupted.host + self.interrupted.copies > LOOK_AGAIN {
            self.interrupted.look(&self.timing);
        }
    }

    /// A command that moves no data (a deallocate, a flush) arrives at `at_ns`.
    #[inline]
    pub fn command(&mut self, at_ns: u64) -> u64 {
        self.command.take(at_ns, self.timing.command)
    }
}
