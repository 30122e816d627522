//! [`Health`] and [`EnduranceLog`]: the values of the SMART and endurance group logs.

use serde::{Deserialize, Serialize};

use crate::flash::FlashCounters;
use crate::namespaces::Capacity;
use crate::profile::PAGE_BYTES;

/// What the host moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    read_pages: u64,
    written_pages: u64,
    read_commands: u64,
    write_commands: u64,
}

impl Traffic {
    pub(crate) fn read(&mut self, pages: u64) {
        self.read_pages += pages;
        self.read_commands += 1;
    }

    pub(crate) fn write(&mut self, pages: u64) {
        self.written_pages += pages;
        self.write_commands += 1;
    }

    /// Pages moved, either way.
    pub(crate) fn pages(&self) -> u64 {
        self.read_pages.saturating_add(self.written_pages)
    }
}

/// SMART / Health Information (log 02h, NVMe Base 2.0 §5.16.1.3): what a model can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Spare flash left, in percent. The model retires no flash, so this is 100.
    pub available_spare_percent: u8,
    /// Media writes as percent of the budget; may pass 100, saturates at 255.
    pub percentage_used: u8,
    /// Thousands of 512-byte units read, rounded up.
    pub data_units_read: u64,
    /// Thousands of 512-byte units written, rounded up.
    pub data_units_written: u64,
    /// Read commands.
    pub host_read_commands: u64,
    /// Write commands.
    pub host_write_commands: u64,
    /// Media writes per host write, in thousandths.
    pub write_amplification_thousandths: u64,
}

/// Endurance Group Information (log 09h, NVMe Base 2.0 §5.16.1.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EnduranceLog {
    /// As in [`Health`].
    pub available_spare_percent: u8,
    /// As in [`Health`].
    pub percentage_used: u8,
    /// Bytes that the host may write in the drive's life, in billions, rounded up.
    pub endurance_estimate_billions: u64,
    /// Bytes the host read, in billions, rounded up.
    pub data_read_billions: u64,
    /// Bytes the host wrote, in billions, rounded up.
    pub data_written_billions: u64,
    /// Bytes the flash programmed, in billions, rounded up.
    pub media_written_billions: u64,
    /// TEGCAP: capacity in all.
    pub total_bytes: u64,
    /// UEGCAP: unallocated capacity.
    pub unallocated_bytes: u64,
}

const THOUSAND_UNITS: u64 = 512_000;
const BILLION: u64 = 1_000_000_000;

fn rounded_up(pages: u64, unit_bytes: u64) -> u64 {
    let units = (u128::from(pages) * u128::from(PAGE_BYTES)).div_ceil(u128::from(unit_bytes));
    u64::try_from(units).unwrap_or(u64::MAX)
}

fn percentage_used(flash: &FlashCounters, budget_bytes: f64) -> u8 {
    let bytes = flash.media_pages() as f64 * PAGE_BYTES as f64;
    // A float to integer cast saturates, as the log does.
    (bytes * 100.0 / budget_bytes) as u8
}

impl Health {
    pub(crate) fn new(traffic: &Traffic, flash: &FlashCounters, budget_bytes: f64) -> Health {
        Health {
            available_spare_percent: 100,
            percentage_used: percentage_used(flash, budget_bytes),
            data_units_read: rounded_up(traffic.read_pages, THOUSAND_UNITS),
            data_units_written: rounded_up(traffic.written_pages, THOUSAND_UNITS),
            host_read_commands: traffic.read_commands,
            host_write_commands: traffic.write_commands,
            write_amplification_thousandths: (flash.write_amplification() * 1000.0) as u64,
        }
    }
}

impl EnduranceLog {
    pub(crate) fn new(
        traffic: &Traffic,
        flash: &FlashCounters,
        budget_bytes: f64,
        capacity: Capacity,
    ) -> EnduranceLog {
        let estimate = budget_bytes / flash.write_amplification() / BILLION as f64;
        EnduranceLog {
            available_spare_percent: 100,
            percentage_used: percentage_used(flash, budget_bytes),
            endurance_estimate_billions: estimate.ceil() as u64,
            data_read_billions: rounded_up(traffic.read_pages, BILLION),
            data_written_billions: rounded_up(traffic.written_pages, BILLION),
            media_written_billions: rounded_up(flash.media_pages(), BILLION),
            total_bytes: capacity.total_bytes,
            unallocated_bytes: capacity.unallocated_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_a_32_tb_drive_worn_ten_times_over_do_not_overflow() {
        // 32 TB at one write a day for five years, ten times, at an amplification of 5.
        let host_pages = 32_000_000_000_000 / PAGE_BYTES * 365 * 5 * 10;
        let mut traffic = Traffic::default();
        traffic.write(host_pages);
        traffic.read(host_pages);
        let flash = FlashCounters {
            host_pages,
            copied_pages: 4 * host_pages,
            ..Default::default()
        };
        let budget = 5.0 * 32e12 * 365.0 * 5.0;
        let health = Health::new(&traffic, &flash, budget);
        assert_eq!(health.data_units_written, 1_140_625_000_000);
        assert_eq!(health.percentage_used, 255);
        assert_eq!(health.write_amplification_thousandths, 5000);
        let once = FlashCounters {
            host_pages: host_pages / 50,
            ..flash
        };
        let once = FlashCounters {
            copied_pages: 4 * once.host_pages,
            ..once
        };
        assert_eq!(Health::new(&traffic, &once, budget).percentage_used, 20);
    }

    #[test]
    fn one_page_counts_as_one_unit() {
        let mut traffic = Traffic::default();
        traffic.write(1);
        let health = Health::new(&traffic, &FlashCounters::default(), 1e12);
        assert_eq!((health.data_units_written, health.data_units_read), (1, 0));
    }
}
