//! [`Load`]: what a host asks of a drive, in fio's words.

use serde::{Deserialize, Serialize};

use crate::error::ProfileError;
use crate::profile::PAGE_BYTES;

/// The order of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Uniform over the namespace, any block as often as any other.
    Random,
    /// Each job runs through its own equal part of the namespace, again and again.
    Sequential,
}

/// A closed loop of requests: `jobs` times `depth` of them are always outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// The order of addresses.
    pub pattern: Pattern,
    /// Reads among the requests, 0 to 100.
    pub read_percent: u8,
    /// Bytes in a request: a multiple of 4,096, at most 16 MiB.
    pub block_bytes: u32,
    /// Independent jobs.
    pub jobs: u32,
    /// Outstanding requests of one job.
    pub depth: u32,
}

/// The most requests outstanding at once that a study takes.
const OUTSTANDING_MAX: u32 = 65_536;

impl Load {
    /// A load by fio's name for it: `read`, `write`, `rw`, `randread`, `randwrite`, `randrw`;
    /// the mixed ones read `mix_percent` of the time.
    pub fn new(rw: &str, mix_percent: u8, block_bytes: u32) -> Result<Load, ProfileError> {
        let (pattern, read_percent) = match rw {
            "read" => (Pattern::Sequential, 100),
            "write" => (Pattern::Sequential, 0),
            "rw" | "readwrite" => (Pattern::Sequential, mix_percent),
            "randread" => (Pattern::Random, 100),
            "randwrite" => (Pattern::Random, 0),
            "randrw" => (Pattern::Random, mix_percent),
            _ => {
                let known = "read, write, rw, randread, randwrite, randrw";
                return Err(ProfileError::Load(format!(
                    "no load named {rw:?}; there are: {known}"
                )));
            }
        };
        let load = Load {
            pattern,
            read_percent,
            block_bytes,
            jobs: 1,
            depth: 1,
        };
        load.validate()?;
        Ok(load)
    }

    /// The same load with `jobs` jobs of `depth` requests each.
    pub fn with_depth(self, jobs: u32, depth: u32) -> Load {
        Load {
            jobs,
            depth,
            ..self
        }
    }

    /// Checks that there is such a load.
    pub fn validate(&self) -> Result<(), ProfileError> {
        let refuse = |what: String| Err(ProfileError::Load(what));
        let block = u64::from(self.block_bytes);
        if block == 0 || !block.is_multiple_of(PAGE_BYTES) || block > 16 << 20 {
            return refuse(format!(
                "block size of {block} bytes; it has to be a multiple of 4096, at most 16 MiB"
            ));
        }
        if self.read_percent > 100 {
            return refuse(format!("{} percent reads", self.read_percent));
        }
        let outstanding = u64::from(self.jobs) * u64::from(self.depth);
        if outstanding == 0 || outstanding > u64::from(OUTSTANDING_MAX) {
            return refuse(format!(
                "{outstanding} requests outstanding; it has to be from 1 to {OUTSTANDING_MAX}"
            ));
        }
        Ok(())
    }

    /// Requests outstanding at once.
    pub fn outstanding(&self) -> u32 {
        self.jobs * self.depth
    }

    /// Pages in a request.
    pub fn pages(&self) -> u32 {
        self.block_bytes / PAGE_BYTES as u32
    }

    /// Reads among the requests, 0 to 1.
    pub fn read_share(&self) -> f64 {
        f64::from(self.read_percent) / 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_loads_are_refused_by_name() {
        assert!(Load::new("trim", 0, 4096).is_err());
        assert!(Load::new("randrw", 101, 4096).is_err());
        assert!(Load::new("read", 0, 512).is_err());
        let load = Load::new("read", 0, 4096).unwrap();
        assert!(load.with_depth(0, 4).validate().is_err());
        assert!(load.with_depth(u32::MAX, u32::MAX).validate().is_err());
        assert!(load.with_depth(16, 32).validate().is_ok());
    }
}
