//! [`Load`]: what a host asks of a drive, in fio's words.

use std::str::FromStr;

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

/// A part of the namespace, at its beginning, that is used more often than the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hot {
    /// Requests in a hundred that go there, 1 to 99.
    pub requests_percent: u8,
    /// Pages in a hundred that it has, 1 to 99.
    pub pages_percent: u8,
}

impl FromStr for Hot {
    type Err = String;

    /// As `90/10`: 90% of the requests to 10% of the namespace.
    fn from_str(text: &str) -> Result<Hot, String> {
        let percent = |text: &str| text.parse().ok().filter(|value| (1..=99).contains(value));
        let found = text
            .split_once('/')
            .and_then(|(requests, pages)| Some((percent(requests)?, percent(pages)?)));
        let (requests_percent, pages_percent) = found.ok_or(
            "two numbers from 1 to 99 with / between them, as 90/10: \
             90% of the requests to 10% of the namespace",
        )?;
        Ok(Hot {
            requests_percent,
            pages_percent,
        })
    }
}

impl Hot {
    /// How many of so many pages, or blocks, are hot: at least one, and not all.
    pub(crate) fn pages_of(self, pages: u32) -> u32 {
        let hot = u64::from(pages) * u64::from(self.pages_percent) / 100;
        (hot as u32).clamp(1, (pages - 1).max(1))
    }
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
    /// What random requests prefer; without it any block is as likely as any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot: Option<Hot>,
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
            hot: None,
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
        if self.hot.is_some() && self.pattern == Pattern::Sequential {
            return refuse("hot data: only random requests can prefer a part".to_owned());
        }
        let outstanding = u64::from(self.jobs) * u64::from(self.depth);
        if outstanding == 0 || outstanding > u64::from(OUTSTANDING_MAX) {
            return refuse(format!(
                "numjobs times iodepth is {outstanding} requests outstanding; it has to be from 1 \
                 to {OUTSTANDING_MAX}"
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
        let hot: Hot = "80/20".parse().unwrap();
        let hot = Load {
            hot: Some(hot),
            ..load
        };
        assert!(hot.validate().is_err());
        for text in ["", "80", "80/0", "100/10", "a/b", "80/20/0"] {
            assert!(text.parse::<Hot>().is_err(), "{text}");
        }
    }
}
