//! What drives and nodes tell of themselves before and after a load: SMART values, and counters.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::{Flash, Measured};
use crate::program::answer;

/// Bytes that one of NVMe's data units stands for: a thousand units of 512 bytes.
const DATA_UNIT_BYTES: u64 = 512_000;

/// A drive's SMART values (NVMe Base 2.0 §5.16.1.3), as far as loads change them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Smart {
    /// The drive, as whoever has it names it.
    pub drive: String,
    /// Media writes as percent of the warranted ones.
    pub percentage_used: u8,
    /// Thousands of 512-byte units read.
    pub data_units_read: u64,
    /// Thousands of 512-byte units written.
    pub data_units_written: u64,
    /// Read commands.
    pub host_read_commands: u64,
    /// Write commands.
    pub host_write_commands: u64,
    /// Media writes per host write over the drive's life, in thousandths, where that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub write_amplification_thousandths: Option<u64>,
    /// Requests completed, and those of them that an emulated drive completed late.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub completed: Option<(u64, u64)>,
}

/// What a node told at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeReading {
    /// Its drives.
    pub drives: Vec<Smart>,
    /// Its counters, by Prometheus' name and labels.
    pub counters: BTreeMap<String, f64>,
}

/// A drive before and after a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveDuring {
    /// Before.
    pub before: Smart,
    /// After.
    pub after: Smart,
}

/// What drives and node told of a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The drives.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub drives: Vec<DriveDuring>,
    /// By how much the node's counters grew, those that did.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub counters: BTreeMap<String, f64>,
}

impl Smart {
    /// Data units that the flash programmed over the drive's life.
    fn media_units(&self) -> Option<f64> {
        let thousandths = self.write_amplification_thousandths?;
        Some(self.data_units_written as f64 * thousandths as f64 / 1e3)
    }
}

impl DriveDuring {
    /// Bytes that the host wrote meanwhile.
    pub fn written_bytes(&self) -> u64 {
        let units = |smart: &Smart| smart.data_units_written;
        units(&self.after).saturating_sub(units(&self.before)) * DATA_UNIT_BYTES
    }

    /// Bytes that the host read meanwhile.
    pub fn read_bytes(&self) -> u64 {
        let units = |smart: &Smart| smart.data_units_read;
        units(&self.after).saturating_sub(units(&self.before)) * DATA_UNIT_BYTES
    }

    /// Bytes that the flash programmed meanwhile, where that is known.
    pub fn media_bytes(&self) -> Option<f64> {
        let units = self.after.media_units()? - self.before.media_units()?;
        Some(units.max(0.0) * DATA_UNIT_BYTES as f64)
    }
}

impl Observed {
    fn between(before: NodeReading, after: NodeReading) -> Observed {
        let pair = |after: Smart| {
            let before = before.drives.iter().find(|one| one.drive == after.drive);
            let before = before?.clone();
            Some(DriveDuring { before, after })
        };
        let grown = after.counters.into_iter().filter_map(|(name, value)| {
            let grown = value - before.counters.get(&name).copied().unwrap_or(0.0);
            (grown > 0.0).then_some((name, grown))
        });
        Observed {
            drives: after.drives.into_iter().filter_map(pair).collect(),
            counters: grown.collect(),
        }
    }

    /// What happened to the flash of all drives together, where they tell.
    pub fn flash(&self) -> Option<Flash> {
        let media: Option<f64> = self.drives.iter().map(DriveDuring::media_bytes).sum();
        let media = media.filter(|_| !self.drives.is_empty())?;
        let written: u64 = self.drives.iter().map(DriveDuring::written_bytes).sum();
        let sum = |of: fn(&(u64, u64)) -> u64| -> u64 {
            let of = |smart: &Smart| smart.completed.as_ref().map_or(0, of);
            let grown = |drive: &DriveDuring| of(&drive.after).saturating_sub(of(&drive.before));
            self.drives.iter().map(grown).sum()
        };
        let (completed, late) = (sum(|count| count.0), sum(|count| count.1));
        Some(Flash {
            write_amplification: if written > 0 {
                (media / written as f64).max(1.0)
            } else {
                1.0
            },
            late_percent: (completed > 0).then(|| 100.0 * late as f64 / completed as f64),
            ..Flash::default()
        })
    }
}

/// A load that is being watched, by whom to ask again when it has ended.
pub(super) struct Observation<'a> {
    begun: Option<(Ask<'a>, NodeReading)>,
}

/// Asks whoever is asked.
pub(super) type Ask<'a> = Box<dyn Fn() -> NodeReading + 'a>;

impl<'a> Observation<'a> {
    pub(super) fn begin(ask: Option<Ask<'a>>) -> Observation<'a> {
        Observation {
            begun: ask.map(|ask| {
                let before = ask();
                (ask, before)
            }),
        }
    }

    /// Adds what was found to what the load came to.
    pub(super) fn end(self, measured: &mut Measured) {
        let Some((ask, before)) = self.begun else {
            return;
        };
        let observed = Observed::between(before, ask());
        measured.flash = measured.flash.or_else(|| observed.flash());
        measured.observed = Some(observed).filter(|found| *found != Observed::default());
    }
}

/// The SMART values of those of the block devices that are NVMe drives of this machine; of others,
/// and without nvme-cli, there are none.
pub(super) fn attached(paths: &[PathBuf]) -> Vec<Smart> {
    let drives = paths.iter().filter(|path| {
        let name = path.to_string_lossy();
        name.starts_with("/dev/nvme")
    });
    let said_by = |device: &Path, path: &Path| {
        let mut command = Command::new("nvme");
        command
            .arg("smart-log")
            .arg(device)
            .arg("--output-format=json");
        smart_log(&path.display().to_string(), &answer(&mut command).ok()?)
    };
    // nvme-cli 3.1 asks by io_uring, which kernels take for controllers and not for disks.
    let of = |path: &PathBuf| {
        said_by(path, path)
            .or_else(|| said_by(&controller_of(path, Path::new("/sys/class/block"))?, path))
    };
    drives.filter_map(of).collect()
}

/// The controller of a disk, one of them if it has several, by what `sysfs` says of disks.
fn controller_of(disk: &Path, sysfs: &Path) -> Option<PathBuf> {
    let device = sysfs.join(disk.file_name()?).join("device");
    let device = device.canonicalize().ok()?;
    let below = std::fs::read_dir(&device).ok()?.flatten();
    let below = below.map(|entry| entry.file_name());
    let mut names: Vec<String> = below
        .chain(device.file_name().map(ToOwned::to_owned))
        .filter_map(|name| name.into_string().ok())
        .filter(|name| {
            let number = name.strip_prefix("nvme").unwrap_or_default();
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
        .collect();
    names.sort();
    Some(Path::new("/dev").join(names.first()?))
}

/// nvme-cli's answer. Its names have changed between versions, and its large numbers come as text
/// in some.
fn smart_log(drive: &str, text: &str) -> Option<Smart> {
    let log: serde_json::Value = serde_json::from_str(text).ok()?;
    let number = |names: &[&str]| {
        let value = names.iter().find_map(|name| log.get(name))?;
        let text = value.as_str().and_then(|text| text.parse().ok());
        value.as_u64().or(text)
    };
    Some(Smart {
        drive: drive.to_owned(),
        percentage_used: number(&["percentage_used", "percent_used"])?.min(255) as u8,
        data_units_read: number(&["data_units_read"])?,
        data_units_written: number(&["data_units_written"])?,
        host_read_commands: number(&["host_read_commands"])?,
        host_write_commands: number(&["host_write_commands"])?,
        write_amplification_thousandths: None,
        completed: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn smart(drive: &str, units: u64, thousandths: u64, completed: (u64, u64)) -> Smart {
        Smart {
            drive: drive.to_owned(),
            data_units_written: units,
            write_amplification_thousandths: Some(thousandths),
            completed: Some(completed),
            ..Smart::default()
        }
    }

    #[test]
    fn what_a_load_wrote_is_told_apart_from_the_drives_life() {
        let reading = |drives, counters: &[(&str, f64)]| NodeReading {
            drives,
            counters: counters
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect(),
        };
        let before = reading(
            vec![smart("a", 100, 1000, (10, 0)), smart("b", 0, 1000, (0, 0))],
            &[("reads", 5.0), ("errors", 1.0)],
        );
        let after = reading(
            vec![
                smart("a", 200, 2000, (20, 5)),
                smart("b", 100, 1000, (10, 0)),
                smart("new", 7, 1000, (1, 0)),
            ],
            &[("reads", 7.5), ("errors", 1.0)],
        );
        let observed = Observed::between(before, after);
        assert_eq!(observed.drives.len(), 2);
        assert_eq!(observed.drives[0].written_bytes(), 100 * DATA_UNIT_BYTES);
        // From 100 units at 1 to 200 at 2: 300 were programmed for 100.
        let flash = observed.flash().unwrap();
        assert_eq!(flash.write_amplification, 2.0);
        assert_eq!(flash.late_percent, Some(25.0));
        assert_eq!(
            observed.counters,
            BTreeMap::from([("reads".to_owned(), 2.5)])
        );
    }

    #[test]
    fn drives_that_do_not_tell_have_no_flash() {
        let silent = Smart {
            write_amplification_thousandths: None,
            ..smart("a", 1, 0, (0, 0))
        };
        let reading = || NodeReading {
            drives: vec![silent.clone()],
            ..NodeReading::default()
        };
        assert_eq!(Observed::between(reading(), reading()).flash(), None);
        assert_eq!(Observed::default().flash(), None);
    }

    /// Below a disk with several paths is its subsystem, and below that are the controllers.
    #[test]
    fn the_controller_of_a_disk_is_found_with_one_path_and_with_several() {
        let directory = tempfile::tempdir().unwrap();
        let sysfs = directory.path();
        for (disk, device) in [
            ("nvme0n1", "controllers/nvme0"),
            ("nvme3n1", "subsystems/nvme-subsys3"),
        ] {
            std::fs::create_dir_all(sysfs.join(disk)).unwrap();
            std::fs::create_dir_all(sysfs.join(device).join("power")).unwrap();
            let link = sysfs.join(disk).join("device");
            std::os::unix::fs::symlink(sysfs.join(device), link).unwrap();
        }
        for controller in ["nvme4", "nvme5", "nvme3n1"] {
            let below = sysfs.join("subsystems/nvme-subsys3").join(controller);
            std::fs::create_dir(below).unwrap();
        }
        let found = |disk: &str| controller_of(Path::new(disk), sysfs);
        assert_eq!(found("/dev/nvme0n1"), Some("/dev/nvme0".into()));
        assert_eq!(found("/dev/nvme3n1"), Some("/dev/nvme4".into()));
        assert_eq!(found("/dev/nvme9n1"), None);
    }

    #[test]
    fn nvme_clis_answers_are_read_old_and_new() {
        let old = r#"{"percent_used": 3, "data_units_read": "12", "data_units_written": "34",
            "host_read_commands": 5, "host_write_commands": 6}"#;
        let new = old
            .replace("percent_used", "percentage_used")
            .replace("\"12\"", "12");
        for text in [old, &new] {
            let smart = smart_log("/dev/nvme0n1", text).unwrap();
            assert_eq!((smart.percentage_used, smart.data_units_read), (3, 12));
            assert_eq!(smart.data_units_written, 34);
        }
        assert_eq!(smart_log("x", "{}"), None);
    }
}
