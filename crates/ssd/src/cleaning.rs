//! [`Debt`]: the copies that cleaning owes, spread over the writes until it runs again.
//!
//! The translation layer reclaims a superblock in one step. A drive does not stop for that: the
//! copies are paid for little by little, so that the debt is gone when the next superblock falls
//! due.

use crate::flash::Cleaned;
use crate::pace::Cost;
use crate::profile::{PAGE_BYTES, Profile};

/// Copies are counted in 1/65,536 of a page.
pub(crate) const COPY_UNIT: u64 = 1 << 16;

/// Cleaning reclaims now one superblock for each that the host fills, now several. Paid over the
/// writes of this many, the copies come evenly.
const SPREAD_SUPERBLOCKS: u64 = 4;

/// The share of copies among programs at which flash programs at the rate it has while cleaning.
/// Below it, the rate goes over to the sequential one. An assumption: figures are published only
/// for no copies at all and for a share of a third and more.
const FULL_SHARE: f64 = 0.1;

/// Outstanding copies, and what programs cost meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct Debt {
    pages_per_superblock: u32,
    outstanding: u64,
    per_host_page: u64,
    /// Cost of a program with no cleaning, and with cleaning in full, per page.
    idle_cost: Cost,
    full_cost: Cost,
    /// The cost now, while there is debt.
    cleaning_cost: Cost,
    /// What a copy costs, in 1/1024 of a program.
    copy_weight: u64,
}

impl Debt {
    pub(crate) fn new(profile: &Profile, pages_per_superblock: u32) -> Debt {
        let (full_cost, idle_cost) = program_costs(profile);
        Debt {
            pages_per_superblock,
            outstanding: 0,
            per_host_page: 0,
            idle_cost,
            full_cost,
            cleaning_cost: idle_cost,
            copy_weight: ((1.0 + profile.nand.copy_read_share) * 1024.0).round() as u64,
        }
    }

    /// Adds what cleaning has just done, to be paid by the writes until it runs next.
    #[inline]
    pub(crate) fn add(&mut self, cleaned: Cleaned) {
        if cleaned.erased == 0 {
            return;
        }
        self.outstanding += u64::from(cleaned.copied) * COPY_UNIT;
        let spread = u64::from(self.pages_per_superblock) * SPREAD_SUPERBLOCKS;
        self.per_host_page = self.outstanding.div_ceil(spread);
        let copies = self.per_host_page as f64 / COPY_UNIT as f64;
        self.cleaning_cost = program_cost(self.idle_cost, self.full_cost, copies / (1.0 + copies));
    }

    /// Pays for `pages` host pages: returns the copies that fall due, in [`COPY_UNIT`]s.
    #[inline]
    pub(crate) fn pay(&mut self, pages: u32) -> u64 {
        let due = self.outstanding.min(self.per_host_page * u64::from(pages));
        self.outstanding -= due;
        due
    }

    /// What programming one page costs now.
    #[inline]
    pub(crate) fn program_cost(&self) -> Cost {
        if self.outstanding == 0 {
            self.idle_cost
        } else {
            self.cleaning_cost
        }
    }

    /// The cost of `copies` (in [`COPY_UNIT`]s) when a page costs `program`.
    #[inline]
    pub(crate) fn copy_cost(&self, copies: u64, program: Cost) -> Cost {
        let pages = (copies * self.copy_weight) >> 10;
        Cost((pages * program.0) / COPY_UNIT)
    }
}

/// The cost of programming one page while cleaning in full, and with no cleaning.
pub(crate) fn program_costs(profile: &Profile) -> (Cost, Cost) {
    let pages_per_second = |gb_s: f64| gb_s * 1e9 / PAGE_BYTES as f64;
    let full = Cost::per_second(pages_per_second(profile.nand.program_gb_s));
    let idle = Cost::per_second(pages_per_second(profile.link.sequential_write_gb_s));
    (full, Cost(idle.0.min(full.0)))
}

/// The cost of programming one page when `share` of all programs are copies.
pub(crate) fn program_cost(idle: Cost, full: Cost, share: f64) -> Cost {
    let weight = (share / FULL_SHARE).clamp(0.0, 1.0);
    Cost(idle.0 + ((full.0 - idle.0) as f64 * weight).round() as u64)
}
