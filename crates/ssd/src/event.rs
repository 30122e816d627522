//! [`EventModel`]: the drive as queues and events, to check the cheaper fidelities against.
//!
//! Every group of planes programs one group of pages at a time and serves its own reads, which
//! suspend the program; every request passes the controller, the link and the write buffer as a
//! queue. It costs several times what [`Timeline`](crate::Timeline) does.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::cleaning::{COPY_UNIT, Debt};
use crate::flash::Cleaned;
use crate::pace::{Cost, Pace};
use crate::profile::Profile;
use crate::timeline::Timing;

/// Pages programmed together on a group of planes: one word line of three bits, four planes of
/// two mapped pages each.
const PROGRAM_PAGES: u32 = 24;

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A read has passed the controller.
    ReadStarts(u32),
    /// A write has passed the controller and the link.
    WriteArrives(u32),
    /// A group of planes should have finished its program.
    ProgramEnds(u32),
    /// A request is complete.
    Completes(u32),
}

/// Pages to be programmed together.
#[derive(Clone, Copy, Debug)]
struct Batch {
    copies: bool,
    cost: Cost,
}

#[derive(Clone, Copy, Debug, Default)]
struct Unit {
    reads_until_ns: u64,
    program: Option<Program>,
}

#[derive(Clone, Copy, Debug)]
struct Program {
    copies: bool,
    ends_at_ns: u64,
}

/// What a request is, while it is under way.
#[derive(Clone, Copy, Debug, Default)]
struct Request {
    pages: u32,
    transferred_at_ns: u64,
}

/// The translation layer, as the event model sees it: asked when a request is its turn.
pub(crate) trait Translation {
    /// Physical pages of read `slot`, in order, those that hold data.
    fn physical(&mut self, slot: u32, into: &mut Vec<u32>);
    /// Writes the pages of `slot`, which has just got into the buffer.
    fn write(&mut self, slot: u32) -> Cleaned;
}

/// The event model of one drive. Requests are known by a slot number, below `slots`.
#[derive(Debug)]
pub(crate) struct EventModel {
    timing: Timing,
    debt: Debt,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    requests: Vec<Request>,
    command: Pace,
    link_read: Pace,
    link_write: Pace,
    units: Vec<Unit>,
    idle: VecDeque<u32>,
    batches: VecDeque<Batch>,
    /// Written pages, and copies, that do not fill a batch yet.
    loose_pages: u32,
    loose_copies: u64,
    buffered_pages: u64,
    waiting_writes: VecDeque<u32>,
    physical: Vec<u32>,
}

impl EventModel {
    pub(crate) fn new(profile: &Profile, pages_per_superblock: u32, slots: u32) -> EventModel {
        let timing = Timing::new(profile);
        EventModel {
            debt: Debt::new(profile, pages_per_superblock),
            events: BinaryHeap::new(),
            requests: vec![Request::default(); slots as usize],
            command: Pace::default(),
            link_read: Pace::default(),
            link_write: Pace::default(),
            units: vec![Unit::default(); timing.units as usize],
            idle: (0..timing.units).collect(),
            batches: VecDeque::new(),
            loose_pages: 0,
            loose_copies: 0,
            buffered_pages: 0,
            waiting_writes: VecDeque::new(),
            physical: Vec::new(),
            timing,
        }
    }

    /// A read of `pages` pages arrives.
    pub(crate) fn read(&mut self, slot: u32, at_ns: u64, pages: u32) {
        let start = self.command.take(at_ns, self.timing.command);
        let transfer = Cost(self.timing.link_read_page.0 * u64::from(pages));
        let transferred_at_ns = self.link_read.take(start, transfer);
        self.requests[slot as usize] = Request {
            pages,
            transferred_at_ns,
        };
        self.events.push(Reverse((start, Event::ReadStarts(slot))));
    }

    /// A write of `pages` pages arrives.
    pub(crate) fn write(&mut self, slot: u32, at_ns: u64, pages: u32) {
        let start = self.command.take(at_ns, self.timing.command);
        let transfer = Cost(self.timing.link_write_page.0 * u64::from(pages));
        let transferred_at_ns = self.link_write.take(start, transfer);
        self.requests[slot as usize] = Request {
            pages,
            transferred_at_ns,
        };
        self.events
            .push(Reverse((transferred_at_ns, Event::WriteArrives(slot))));
    }

    /// Runs until a request completes: its slot, and when. `None` when nothing is under way.
    pub(crate) fn next_completion(
        &mut self,
        translation: &mut impl Translation,
    ) -> Option<(u32, u64)> {
        while let Some(Reverse((now, event))) = self.events.pop() {
            match event {
                Event::ReadStarts(slot) => self.start_read(slot, now, translation),
                Event::WriteArrives(slot) => {
                    self.waiting_writes.push_back(slot);
                    self.admit_writes(now, translation);
                }
                Event::ProgramEnds(unit) => self.end_program(unit, now, translation),
                Event::Completes(slot) => return Some((slot, now)),
            }
        }
        None
    }

    fn start_read(&mut self, slot: u32, now: u64, translation: &mut impl Translation) {
        let mut physical = std::mem::take(&mut self.physical);
        physical.clear();
        translation.physical(slot, &mut physical);
        let mut done = self.requests[slot as usize].transferred_at_ns;
        let mut sensed = u32::MAX;
        for page in &physical {
            let sense = page / self.timing.pages_per_sense;
            if sense != sensed {
                sensed = sense;
                done = done.max(self.sense(self.timing.unit_of(*page), now));
            }
        }
        self.physical = physical;
        let completes = done + self.timing.read_overhead_ns;
        self.events
            .push(Reverse((completes, Event::Completes(slot))));
    }

    fn sense(&mut self, unit: usize, now: u64) -> u64 {
        let unit = &mut self.units[unit];
        let mut begin = now.max(unit.reads_until_ns);
        if let Some(program) = &mut unit.program {
            if begin == now {
                begin += self.timing.suspend_wait_ns;
            }
            program.ends_at_ns += if program.copies {
                self.timing.interrupt_copy_ns
            } else {
                self.timing.interrupt_host_ns
            };
        }
        unit.reads_until_ns = begin + self.timing.read_ns;
        unit.reads_until_ns
    }

    /// Lets writes into the buffer, in order, as far as there is room.
    fn admit_writes(&mut self, now: u64, translation: &mut impl Translation) {
        while let Some(slot) = self.waiting_writes.front().copied() {
            let pages = self.requests[slot as usize].pages;
            let room = self.timing.buffer_pages.saturating_sub(self.buffered_pages);
            // With a whole batch in the buffer, room will come; with less, it would not.
            if u64::from(pages) > room && self.buffered_pages >= u64::from(PROGRAM_PAGES) {
                return;
            }
            self.waiting_writes.pop_front();
            self.buffered_pages += u64::from(pages);
            let acknowledged = now + self.timing.write_acknowledge_ns;
            self.events
                .push(Reverse((acknowledged, Event::Completes(slot))));
            self.debt.add(translation.write(slot));
            self.loose_pages += pages;
            self.loose_copies += self.debt.pay(pages);
            self.form_batches();
            self.start_programs(now);
        }
    }

    fn form_batches(&mut self) {
        let program = self.debt.program_cost();
        while self.loose_copies >= u64::from(PROGRAM_PAGES) * COPY_UNIT {
            let copies = u64::from(PROGRAM_PAGES) * COPY_UNIT;
            self.loose_copies -= copies;
            let cost = self.debt.copy_cost(copies, program);
            self.batches.push_back(Batch { copies: true, cost });
        }
        while self.loose_pages >= PROGRAM_PAGES {
            self.loose_pages -= PROGRAM_PAGES;
            let cost = Cost(program.0 * u64::from(PROGRAM_PAGES));
            self.batches.push_back(Batch {
                copies: false,
                cost,
            });
        }
    }

    fn start_programs(&mut self, now: u64) {
        while !self.batches.is_empty() {
            let Some(index) = self.idle.pop_front() else {
                return;
            };
            let Some(batch) = self.batches.pop_front() else {
                return;
            };
            // The budget is shared by all units: one of them takes that many times as long.
            let length = Cost(batch.cost.0 * u64::from(self.timing.units)).ns();
            let unit = &mut self.units[index as usize];
            let ends_at_ns = now.max(unit.reads_until_ns) + length;
            unit.program = Some(Program {
                copies: batch.copies,
                ends_at_ns,
            });
            self.events
                .push(Reverse((ends_at_ns, Event::ProgramEnds(index))));
        }
    }

    fn end_program(&mut self, index: u32, now: u64, translation: &mut impl Translation) {
        let unit = &mut self.units[index as usize];
        let Some(program) = unit.program else { return };
        if program.ends_at_ns > now {
            // Reads interrupted it meanwhile.
            self.events
                .push(Reverse((program.ends_at_ns, Event::ProgramEnds(index))));
            return;
        }
        unit.program = None;
        self.idle.push_back(index);
        if !program.copies {
            self.buffered_pages -= u64::from(PROGRAM_PAGES);
        }
        self.start_programs(now);
        self.admit_writes(now, translation);
    }
}
