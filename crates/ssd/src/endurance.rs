//! [`Endurance`]: what a drive may write in its life, and how a namespace's size changes it.

use serde::Serialize;

use crate::profile::{Profile, TERABYTE};

const DAYS_PER_YEAR: f64 = 365.0;
const SECONDS_PER_DAY: f64 = 86_400.0;

/// The warranted writes of a drive, taken as a budget of media writes: the budget is what uniform
/// 4 KiB random writes over the full capacity, at the rated drive writes per day, make of it.
///
/// A maker may rate for kinder traffic (JESD219) or keep a margin; then the flash lasts longer
/// than the budget says, and the *ratios* between namespaces stay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Endurance {
    /// Bytes that the host may write in the warranty, over the full capacity.
    pub host_bytes: f64,
    /// Bytes that the flash then takes.
    pub media_bytes: f64,
    /// Program and erase cycles that this makes of every cell.
    pub cycles: f64,
    /// The warranty in days.
    pub warranty_days: f64,
}

/// A namespace's share of that budget at one write amplification.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NamespaceEndurance {
    /// Bytes that the host may write until the media budget is used up.
    pub host_bytes: f64,
    /// The same as writes of the namespace per day of the warranty.
    pub drive_writes_per_day: f64,
    /// Days until the media budget is used up at the given load; infinite without writes.
    pub days_to_wear_out: f64,
}

impl Endurance {
    /// The budget of `profile`.
    pub fn of(profile: &Profile) -> Endurance {
        let rated = &profile.endurance;
        let warranty_days = rated.warranty_years * DAYS_PER_YEAR;
        let capacity_tb = profile.drive.capacity_tb;
        let host_bytes = rated.drive_writes_per_day * warranty_days * capacity_tb * TERABYTE;
        let media_bytes = host_bytes * profile.write_amplification(capacity_tb);
        let cycles = media_bytes / (profile.nand.raw_tb * TERABYTE);
        Endurance {
            host_bytes,
            media_bytes,
            cycles,
            warranty_days,
        }
    }

    /// What is left of it for a namespace of `live_bytes` at `write_amplification`, and how long
    /// it lasts at `host_bytes_per_second`.
    pub fn at(
        &self,
        live_bytes: f64,
        write_amplification: f64,
        host_bytes_per_second: f64,
    ) -> NamespaceEndurance {
        let host_bytes = self.media_bytes / write_amplification;
        NamespaceEndurance {
            host_bytes,
            drive_writes_per_day: host_bytes / live_bytes / self.warranty_days,
            days_to_wear_out: host_bytes / host_bytes_per_second / SECONDS_PER_DAY,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::profiles;

    #[test]
    fn one_drive_write_a_day_for_five_years_is_14_petabytes_of_a_7_68_tb_drive() {
        let profile = profiles::named("cm7-r-7.68").unwrap();
        let endurance = profile.endurance();
        assert!((endurance.host_bytes / 1e12 - 14_016.0).abs() < 1.0);
        assert!(
            (endurance.cycles - 5756.0).abs() < 30.0,
            "{}",
            endurance.cycles
        );
        let full = endurance.at(7.68e12, profile.write_amplification(7.68), 1e9);
        assert!((full.drive_writes_per_day - 1.0).abs() < 1e-9);
        let smaller = endurance.at(6.4e12, profile.write_amplification(6.4), 0.0);
        assert!((smaller.drive_writes_per_day - 2.26).abs() < 0.01);
        assert!(smaller.days_to_wear_out.is_infinite());
    }
}
