//! [`Profile`]: what one model of drive is, read from TOML, each value with its source.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::endurance::Endurance;
use crate::error::ProfileError;
use crate::flash::FlashGeometry;
use crate::theory;

/// Bytes in a page: the unit of the map, and of every random figure.
pub const PAGE_BYTES: u64 = 4096;

/// Bytes in a terabyte as drives are sold.
pub const TERABYTE: f64 = 1e12;

/// A drive: capacity, flash, timing and endurance, and where each value comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What it is called and how much it holds.
    pub drive: DriveTable,
    /// What it is warranted for.
    pub endurance: EnduranceTable,
    /// What its link and host path carry.
    pub link: LinkTable,
    /// What its controller takes for a command.
    pub controller: ControllerTable,
    /// What its flash is and does.
    pub nand: NandTable,
    /// For every value above, as `table.key`: `published`, `fitted`, `derived` or `assumed`, with
    /// a word on where from.
    pub source: BTreeMap<String, String>,
}

/// `[drive]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveTable {
    /// The model's name.
    pub name: String,
    /// User capacity in 10^12 bytes.
    pub capacity_tb: f64,
}

/// `[endurance]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnduranceTable {
    /// Drive writes per day over the warranty.
    pub drive_writes_per_day: f64,
    /// The warranty.
    pub warranty_years: f64,
}

/// `[link]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkTable {
    /// PCI Express generation, 3 to 6.
    pub pcie_generation: u32,
    /// PCI Express lanes.
    pub lanes: u32,
    /// Sequential read ceiling in 10^9 bytes a second.
    pub sequential_read_gb_s: f64,
    /// Sequential write ceiling in 10^9 bytes a second.
    pub sequential_write_gb_s: f64,
}

/// `[controller]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerTable {
    /// Commands a second that the controller takes, in thousands.
    pub command_kiops: f64,
    /// Fixed part of a read's latency beside the flash.
    pub read_overhead_us: f64,
    /// From a write's arrival in the buffer to its acknowledgement.
    pub write_acknowledge_us: f64,
    /// Pages that the power-protected write buffer holds.
    pub buffer_pages: u32,
}

/// `[nand]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NandTable {
    /// All flash that takes part in the translation layer, in 10^12 bytes.
    pub raw_tb: f64,
    /// Superblocks it is divided into.
    pub superblocks: u32,
    /// Superblocks kept free.
    pub low_water: u32,
    /// Dies.
    pub dies: u32,
    /// Groups of planes in a die that work independently.
    pub plane_groups: u32,
    /// Kibibytes that one read senses at once.
    pub page_kib: u32,
    /// Time of one read in its plane group.
    pub read_us: f64,
    /// What programs get while cleaning runs, in 10^9 bytes a second.
    pub program_gb_s: f64,
    /// Program time that reading a page to be copied costs, as a share of a program.
    pub copy_read_share: f64,
    /// What a read waits when it suspends a program.
    pub suspend_wait_us: f64,
    /// What a read takes from the program it suspends, when that is a copy.
    pub suspend_copy_us: f64,
}

/// One value that is not published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Provenance {
    /// `table.key`.
    pub key: String,
    /// What the profile says about it.
    pub source: String,
}

/// A value's key, where it is, the least and the most it may be.
type Bound = (&'static str, fn(&Profile) -> f64, f64, f64);

/// Every value of a profile. The largest drive is the one that the arithmetic is checked for.
const BOUNDS: [Bound; 22] = [
    ("drive.capacity_tb", |p| p.drive.capacity_tb, 0.001, 64.0),
    (
        "endurance.drive_writes_per_day",
        |p| p.endurance.drive_writes_per_day,
        0.001,
        1e3,
    ),
    (
        "endurance.warranty_years",
        |p| p.endurance.warranty_years,
        0.001,
        1e3,
    ),
    (
        "link.pcie_generation",
        |p| f64::from(p.link.pcie_generation),
        3.0,
        6.0,
    ),
    ("link.lanes", |p| f64::from(p.link.lanes), 1.0, 16.0),
    (
        "link.sequential_read_gb_s",
        |p| p.link.sequential_read_gb_s,
        0.001,
        1e3,
    ),
    (
        "link.sequential_write_gb_s",
        |p| p.link.sequential_write_gb_s,
        0.001,
        1e3,
    ),
    (
        "controller.command_kiops",
        |p| p.controller.command_kiops,
        0.1,
        1e5,
    ),
    (
        "controller.read_overhead_us",
        |p| p.controller.read_overhead_us,
        0.0,
        1e6,
    ),
    (
        "controller.write_acknowledge_us",
        |p| p.controller.write_acknowledge_us,
        0.0,
        1e6,
    ),
    (
        "controller.buffer_pages",
        |p| f64::from(p.controller.buffer_pages),
        1.0,
        1e8,
    ),
    ("nand.raw_tb", |p| p.nand.raw_tb, 0.001, 128.0),
    (
        "nand.superblocks",
        |p| f64::from(p.nand.superblocks),
        1.0,
        65536.0,
    ),
    (
        "nand.low_water",
        |p| f64::from(p.nand.low_water),
        1.0,
        4096.0,
    ),
    ("nand.dies", |p| f64::from(p.nand.dies), 1.0, 4096.0),
    (
        "nand.plane_groups",
        |p| f64::from(p.nand.plane_groups),
        1.0,
        64.0,
    ),
    ("nand.page_kib", |p| f64::from(p.nand.page_kib), 4.0, 1024.0),
    ("nand.read_us", |p| p.nand.read_us, 0.1, 1e6),
    ("nand.program_gb_s", |p| p.nand.program_gb_s, 0.001, 1e3),
    (
        "nand.copy_read_share",
        |p| p.nand.copy_read_share,
        0.0,
        10.0,
    ),
    ("nand.suspend_wait_us", |p| p.nand.suspend_wait_us, 0.0, 1e6),
    ("nand.suspend_copy_us", |p| p.nand.suspend_copy_us, 0.1, 1e6),
];

impl Profile {
    /// Reads and checks a profile.
    pub fn parse(text: &str) -> Result<Profile, ProfileError> {
        let profile: Profile =
            toml::from_str(text).map_err(|error| ProfileError::Syntax(error.to_string()))?;
        profile.validate()?;
        Ok(profile)
    }

    /// The profile as TOML, as [`Profile::parse`] reads it.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("a profile is plain tables of numbers and text")
    }

    /// Checks every value, and that each has a source.
    pub fn validate(&self) -> Result<(), ProfileError> {
        for (key, value, lowest, highest) in BOUNDS {
            let value = value(self);
            if !(lowest..=highest).contains(&value) {
                let rule = format!("it has to be from {lowest} to {highest}");
                return Err(ProfileError::Value { key, value, rule });
            }
        }
        let refuse = |key, value, rule: &str| {
            let rule = rule.to_owned();
            Err(ProfileError::Value { key, value, rule })
        };
        if !self.nand.page_kib.is_multiple_of(4) {
            let value = f64::from(self.nand.page_kib);
            return refuse("nand.page_kib", value, "it has to be a multiple of 4");
        }
        if self.nand.suspend_copy_us < self.nand.read_us {
            let value = self.nand.suspend_copy_us;
            return refuse(
                "nand.suspend_copy_us",
                value,
                "it has to be at least nand.read_us",
            );
        }
        self.check_sources()?;
        let link = self.link_gb_s();
        for (key, value) in [
            ("link.sequential_read_gb_s", self.link.sequential_read_gb_s),
            (
                "link.sequential_write_gb_s",
                self.link.sequential_write_gb_s,
            ),
        ] {
            if value > link {
                return refuse(key, value, "more than the PCI Express link carries");
            }
        }
        if self.nand.raw_tb < self.drive.capacity_tb {
            return Err(self.no_spare("there is less flash than user capacity".into()));
        }
        self.geometry(self.study_scale())?;
        Ok(())
    }

    fn check_sources(&self) -> Result<(), ProfileError> {
        let known = |key: &str| BOUNDS.iter().any(|bound| bound.0 == key);
        for (key, ..) in BOUNDS {
            if !self.source.contains_key(key) {
                let problem = "missing: every value says where it comes from";
                return Err(ProfileError::Source {
                    key: key.into(),
                    problem,
                });
            }
        }
        for (key, source) in &self.source {
            let kind = source.split([':', ' ']).next().unwrap_or_default();
            let problem = if !known(key) {
                "no such value"
            } else if !["published", "fitted", "derived", "assumed"].contains(&kind) {
                "it has to begin with published, fitted, derived or assumed"
            } else {
                continue;
            };
            return Err(ProfileError::Source {
                key: key.clone(),
                problem,
            });
        }
        Ok(())
    }

    /// The values whose source is `kind` (`assumed`, say), for a reader to know.
    pub fn values_from(&self, kind: &str) -> Vec<Provenance> {
        let found = self
            .source
            .iter()
            .filter(|(_, source)| source.starts_with(kind));
        found
            .map(|(key, source)| Provenance {
                key: key.clone(),
                source: source.clone(),
            })
            .collect()
    }

    /// User capacity in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        (self.drive.capacity_tb * TERABYTE).round() as u64
    }

    /// What the PCI Express link carries one way, in 10^9 bytes a second: 128b/130b coding up to
    /// generation 5, none to speak of in 6.
    pub fn link_gb_s(&self) -> f64 {
        let transfers = match self.link.pcie_generation {
            3 => 8.0 * 128.0 / 130.0,
            4 => 16.0 * 128.0 / 130.0,
            5 => 32.0 * 128.0 / 130.0,
            _ => 64.0,
        };
        transfers / 8.0 * f64::from(self.link.lanes)
    }

    /// The same drive in a slot of another generation: its sequential ceilings are clipped to
    /// what that link carries.
    pub fn in_slot(&self, pcie_generation: u32) -> Result<Profile, ProfileError> {
        let mut clipped = self.clone();
        clipped.link.pcie_generation = pcie_generation;
        let link = clipped.link_gb_s();
        let table = &mut clipped.link;
        table.sequential_read_gb_s = table.sequential_read_gb_s.min(link);
        table.sequential_write_gb_s = table.sequential_write_gb_s.min(link);
        clipped.validate()?;
        Ok(clipped)
    }

    /// One of `parts` equal parts of the drive's dies, with as much less of everything that is
    /// counted per second, and of the write buffer; what takes time takes as long as on the drive.
    /// The capacity stays: a capacity factor makes that smaller. A drive in miniature that is as
    /// fast as the whole one uses up its free flash, and a log on it its free segments, in less
    /// time than anything takes that goes by the clock; of a slice as small, none of that changes.
    pub fn slice(&self, parts: u32) -> Result<Profile, ProfileError> {
        let mut slice = self.clone();
        let parts = parts.max(1);
        let share = f64::from(parts);
        slice.nand.dies = (slice.nand.dies / parts).max(1);
        slice.nand.program_gb_s /= share;
        slice.link.sequential_read_gb_s /= share;
        slice.link.sequential_write_gb_s /= share;
        slice.controller.command_kiops /= share;
        slice.controller.buffer_pages = (slice.controller.buffer_pages / parts).max(1);
        slice.validate()?;
        Ok(slice)
    }

    /// The capacity factor at which a superblock has 2,048 pages: small enough for a study of
    /// seconds, and no different in write amplification (measured: 0.2%).
    pub fn study_scale(&self) -> f64 {
        let bytes = f64::from(self.nand.superblocks) * 2048.0 * PAGE_BYTES as f64;
        bytes / (self.nand.raw_tb * TERABYTE)
    }

    /// The flash at `scale` times the drive's capacity: the superblocks get smaller, their number
    /// stays.
    pub fn geometry(&self, scale: f64) -> Result<FlashGeometry, ProfileError> {
        let refuse = |reason: String| ProfileError::Scale { scale, reason };
        if !(scale.is_finite() && scale > 0.0 && scale <= 1.0) {
            return Err(refuse("it has to be above 0 and at most 1".into()));
        }
        let superblock_bytes =
            self.nand.raw_tb * TERABYTE * scale / f64::from(self.nand.superblocks);
        let pages = (superblock_bytes / PAGE_BYTES as f64).round();
        if pages < 16.0 {
            return Err(refuse("less than 16 pages in a superblock".into()));
        }
        let raw_pages = pages * f64::from(self.nand.superblocks);
        if raw_pages >= f64::from(u32::MAX) {
            return Err(refuse(format!(
                "{raw_pages:.0} pages of flash; 4294967294 can be counted"
            )));
        }
        // From the ratio, so that rounding the superblock does not change the spare.
        let logical = raw_pages * self.drive.capacity_tb / self.nand.raw_tb;
        let geometry = FlashGeometry {
            superblocks: self.nand.superblocks,
            pages_per_superblock: pages as u32,
            logical_pages: logical as u32,
            low_water: self.nand.low_water,
        };
        geometry
            .validate(2)
            .map_err(|error| self.no_spare(error.to_string()))?;
        Ok(geometry)
    }

    fn no_spare(&self, reason: String) -> ProfileError {
        let (capacity_tb, raw_tb) = (self.drive.capacity_tb, self.nand.raw_tb);
        ProfileError::NoSpare {
            capacity_tb,
            raw_tb,
            reason,
        }
    }

    /// Write amplification of uniform random writes in closed form, with `live_tb` mapped.
    pub fn write_amplification(&self, live_tb: f64) -> f64 {
        let share = theory::effective_share(self.nand.superblocks, self.nand.low_water, 2);
        theory::write_amplification(self.nand.raw_tb * share, live_tb)
    }

    /// What the drive is warranted for, and what that makes of its flash.
    pub fn endurance(&self) -> Endurance {
        Endurance::of(self)
    }

    /// Units that read independently.
    pub fn read_units(&self) -> u32 {
        self.nand.dies.saturating_mul(self.nand.plane_groups)
    }
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
