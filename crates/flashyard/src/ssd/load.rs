//! The options that describe a load and how it is studied, shared by `simulate` and `sweep`.

use api::Size;
use clap::{Args, ValueEnum};
use ssd::{Fidelity, Hot, Isolation, Load, Placement, Precondition, Profile, Study};

use super::Error;

/// Where there is no formula for the steady state it is reached by so many times what is measured.
const PLACED_WARM_UP: f64 = 8.0;

#[derive(Args)]
pub struct LoadOptions {
    /// read, write, rw, randread, randwrite or randrw
    #[arg(long, default_value = "randwrite")]
    rw: String,
    /// Reads in a hundred requests of rw and randrw
    #[arg(long, value_name = "PERCENT", default_value_t = 70)]
    rwmixread: u8,
    /// Bytes in a request; 4k is 4KiB
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = block_size)]
    bs: u32,
    /// Jobs
    #[arg(long, default_value_t = 8)]
    numjobs: u32,
    /// Requests that each job keeps outstanding
    #[arg(long, default_value_t = 4)]
    iodepth: u32,
    /// Hot data: percent of the requests to percent of the namespace, as 90/10
    #[arg(long, value_name = "REQUESTS/NAMESPACE")]
    hot: Option<Hot>,
    /// Reclaim-unit handles of Flexible Data Placement: hot data is written by the first, the
    /// rest of the namespace in equal parts by the others
    #[arg(long, value_name = "HANDLES", default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(1..))]
    reclaim_unit_handles: u8,
    /// How far data of different handles stays apart
    #[arg(long, value_enum, default_value_t = IsolationOption::Initially)]
    isolation: IsolationOption,
    /// How closely time is modelled
    #[arg(long, value_enum, default_value_t = FidelityOption::Timeline)]
    fidelity: FidelityOption,
    /// State of the flash before; by default the steady state of the load's pattern
    #[arg(long, value_enum)]
    precondition: Option<PreconditionOption>,
    /// How long to measure, in writes of the whole namespace
    #[arg(long, default_value_t = 1.0)]
    passes: f64,
    /// Warm-up before, as a share of that; 0 shows the start. By default 0.25, or 8 with hot data
    /// or several handles
    #[arg(long, value_name = "SHARE")]
    warm_up: Option<f64>,
    /// What is random follows from this number
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Put the drive into a slot of this PCI Express generation
    #[arg(long, value_name = "GENERATION")]
    slot: Option<u32>,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum FidelityOption {
    /// Formulas: at once, no percentiles
    ClosedForm,
    /// Page by page, one time per resource
    Timeline,
    /// Page by page, queues and events
    Event,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum IsolationOption {
    /// When written; cleaning mixes what it copies
    Initially,
    /// For good: cleaning copies the data of each handle by itself
    Persistently,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum PreconditionOption {
    /// Steady state of random writes, laid out at once
    SteadyRandom,
    /// Filled once, in order
    Sequential,
    /// Erased
    Purge,
    /// Filled, then written at random twice over
    Warmed,
}

impl FidelityOption {
    pub fn fidelity(self) -> Fidelity {
        match self {
            FidelityOption::ClosedForm => Fidelity::ClosedForm,
            FidelityOption::Timeline => Fidelity::Timeline,
            FidelityOption::Event => Fidelity::Event,
        }
    }
}

/// A size as fio takes it for `bs`: a bare `k` or `m` is binary.
fn block_size(text: &str) -> Result<u32, String> {
    let binary = match text.strip_suffix(['k', 'K']) {
        Some(number) => format!("{number}KiB"),
        None => match text.strip_suffix(['m', 'M']) {
            Some(number) => format!("{number}MiB"),
            None => text.to_owned(),
        },
    };
    let size: Size = binary
        .parse()
        .map_err(|error: api::SizeError| error.to_string())?;
    u32::try_from(size.bytes()).map_err(|_| "more than a request can have".to_owned())
}

impl LoadOptions {
    /// The drive as the options put it.
    pub fn placed(&self, profile: Profile) -> Result<Profile, Error> {
        Ok(match self.slot {
            Some(generation) => profile.in_slot(generation)?,
            None => profile,
        })
    }

    /// The study of this load on a namespace of `bytes`.
    pub fn study<'a>(&self, profile: &'a Profile, bytes: u64) -> Result<Study<'a>, Error> {
        let load = Load::new(&self.rw, self.rwmixread, self.bs)?;
        let load = Load {
            hot: self.hot,
            ..load.with_depth(self.numjobs, self.iodepth)
        };
        let mut study = Study::new(profile, bytes, load);
        study.placement = Placement {
            handles: self.reclaim_unit_handles,
            isolation: match self.isolation {
                IsolationOption::Initially => Isolation::Initially,
                IsolationOption::Persistently => Isolation::Persistently,
            },
        };
        if !study.is_uniform() {
            study.precondition = Precondition::Sequential;
            study.warm_up = PLACED_WARM_UP;
        }
        study.fidelity = self.fidelity.fidelity();
        study.passes = self.passes;
        study.warm_up = self.warm_up.unwrap_or(study.warm_up);
        study.seed = self.seed;
        study.precondition = match self.precondition {
            None => study.precondition,
            Some(PreconditionOption::SteadyRandom) => Precondition::SteadyRandom,
            Some(PreconditionOption::Sequential) => Precondition::Sequential,
            Some(PreconditionOption::Purge) => Precondition::Purge,
            Some(PreconditionOption::Warmed) => Precondition::Warmed,
        };
        Ok(study)
    }

    /// The load in one line.
    pub fn describe(&self, study: &Study) -> String {
        let load = study.load;
        let mix = match load.read_percent {
            0 | 100 => String::new(),
            reads => format!(" {reads}/{}", 100 - reads),
        };
        let hot = load.hot.map_or(String::new(), |hot| {
            let (requests, pages) = (hot.requests_percent, hot.pages_percent);
            format!(", {requests}% of them to {pages}%")
        });
        let placed = match study.placement.handles {
            1 => String::new(),
            handles => {
                let isolation = format!("{:?}", study.placement.isolation).to_lowercase();
                format!(", {handles} handles {isolation} isolated")
            }
        };
        format!(
            "{}{mix}{hot}, {} bytes, {} x {} outstanding, {:?} before, {:?} timing{placed}",
            self.rw, load.block_bytes, load.jobs, load.depth, study.precondition, study.fidelity
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_sizes_read_as_fio_reads_them() {
        assert_eq!(block_size("4k"), Ok(4096));
        assert_eq!(block_size("128KiB"), Ok(131_072));
        assert_eq!(block_size("1m"), Ok(1 << 20));
        assert!(block_size("4x").is_err());
        assert!(block_size("8GiB").is_err());
    }
}
