//! [`fit`]: a profile from the figures of a data sheet.
//!
//! Two random-write figures at two namespace sizes determine raw capacity and program rate; one
//! figure determines the rate for an assumed raw capacity. Mixes determine what a read that
//! interrupts a copy costs. Everything else is taken over or assumed, and says so.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::closed_form::{self, Demand};
use crate::error::FitError;
use crate::load::Load;
use crate::profile::{
    ControllerTable, DriveTable, EnduranceTable, LinkTable, NandTable, PAGE_BYTES, Profile,
    TERABYTE,
};
use crate::study::Study;

/// Raw over user capacity where nothing tells: what the CM7-R comes to, and consistent with the
/// ratio of random to sequential writes of four drives of one drive write per day.
const RAW_SHARE_ASSUMED: f64 = 1.17;

/// What a read that interrupts a copy costs where no mix tells: the CM7-R's.
const SUSPEND_COPY_ASSUMED_US: f64 = 191.0;

/// Published figures of one drive. Random figures are of 4 KiB requests, with enough of them
/// outstanding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// The drive's name.
    pub name: String,
    /// User capacity in 10^12 bytes.
    pub capacity_tb: f64,
    /// Drive writes per day over the warranty.
    pub drive_writes_per_day: f64,
    /// The warranty.
    pub warranty_years: f64,
    /// PCI Express generation.
    pub pcie_generation: u32,
    /// PCI Express lanes.
    #[serde(default = "four")]
    pub lanes: u32,
    /// Sequential read in 10^9 bytes a second.
    pub sequential_read_gb_s: f64,
    /// Sequential write in 10^9 bytes a second.
    pub sequential_write_gb_s: f64,
    /// Random reads, in thousands a second.
    pub random_read_kiops: f64,
    /// Random writes, at one or more namespace sizes.
    pub random_write: Vec<WriteFigure>,
    /// Random mixes, if there are any.
    #[serde(default)]
    pub mix: Vec<MixFigure>,
    /// Raw flash in 10^12 bytes, if known.
    pub raw_tb: Option<f64>,
    /// Program time that reading a page to be copied costs, if it is not to be 0.
    #[serde(default)]
    pub copy_read_share: f64,
}

fn four() -> u32 {
    4
}

/// Random writes at one namespace size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteFigure {
    /// The namespace in 10^12 bytes.
    pub namespace_tb: f64,
    /// Writes, in thousands a second.
    pub kiops: f64,
}

/// A random mix at one namespace size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixFigure {
    /// The namespace in 10^12 bytes.
    pub namespace_tb: f64,
    /// Reads in a hundred.
    pub read_percent: u8,
    /// Requests outstanding.
    pub outstanding: u32,
    /// Reads and writes, in thousands a second.
    pub kiops: f64,
}

/// How well one figure is met.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Residual {
    /// Which figure.
    pub figure: String,
    /// What was given.
    pub given: f64,
    /// What the fitted profile does, simulated.
    pub simulated: f64,
    /// Simulated over given, less 1.
    pub error: f64,
}

/// A profile, and how well it meets the figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fitted {
    /// The profile.
    pub profile: Profile,
    /// Each figure against the simulated one.
    pub residuals: Vec<Residual>,
    /// Constants that were free to be fitted.
    pub free_constants: u32,
}

/// Finds the free constants, and simulates every figure with them.
pub fn fit(figures: &Figures) -> Result<Fitted, FitError> {
    let (profile, free_constants) = solve(figures)?;
    let residuals = residuals(&profile, figures)?;
    Ok(Fitted {
        profile,
        residuals,
        free_constants,
    })
}

/// Finds the free constants with the closed form, and says how many there were.
pub(crate) fn solve(figures: &Figures) -> Result<(Profile, u32), FitError> {
    check(figures)?;
    let mut profile = template(figures);
    let mut free_constants = 1;
    let mut sizes: Vec<f64> = figures
        .random_write
        .iter()
        .map(|at| at.namespace_tb)
        .collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    if figures.raw_tb.is_none() && sizes.len() > 1 {
        let (low, high) = (figures.capacity_tb * 1.02, figures.capacity_tb * 2.0);
        profile.nand.raw_tb = minimise(low, high, |raw_tb| {
            let mut tried = profile.clone();
            tried.nand.raw_tb = raw_tb;
            tried.nand.program_gb_s = program_gb_s(&tried, figures);
            write_error(&tried, figures)
        });
        free_constants += 1;
        let said = "fitted: random writes at more than one namespace size";
        profile.source.insert("nand.raw_tb".into(), said.into());
    }
    profile.nand.program_gb_s = program_gb_s(&profile, figures);
    if !figures.mix.is_empty() {
        profile.nand.suspend_copy_us = minimise(profile.nand.read_us, 2000.0, |suspend_us| {
            let mut tried = profile.clone();
            tried.nand.suspend_copy_us = suspend_us;
            figures
                .mix
                .iter()
                .map(|mix| mix_error(&tried, mix).powi(2))
                .sum()
        });
        free_constants += 1;
        profile
            .source
            .insert("nand.suspend_copy_us".into(), "fitted: the mixes".into());
    }
    profile.validate()?;
    Ok((profile, free_constants))
}

fn check(figures: &Figures) -> Result<(), FitError> {
    if figures.random_write.is_empty() {
        return Err(FitError::Missing("a random-write figure"));
    }
    let rule = "it has to be above 0 and at most 100000";
    let writes = figures
        .random_write
        .iter()
        .map(|at| ("random_write.kiops", at.kiops));
    let mixes = figures.mix.iter().map(|at| ("mix.kiops", at.kiops));
    let read = ("random_read_kiops", figures.random_read_kiops);
    let capacity = ("capacity_tb", figures.capacity_tb);
    for (key, value) in writes.chain(mixes).chain([read, capacity]) {
        if !(value.is_finite() && value > 0.0 && value <= 1e5) {
            return Err(FitError::Figure { key, value, rule });
        }
    }
    let writes = figures
        .random_write
        .iter()
        .map(|at| ("random_write", at.namespace_tb));
    let mixes = figures.mix.iter().map(|at| ("mix", at.namespace_tb));
    for (key, value) in writes.chain(mixes) {
        if !(value > 0.0 && value <= figures.capacity_tb) {
            let rule = "its namespace has to be above 0 and at most the capacity";
            return Err(FitError::Figure { key, value, rule });
        }
    }
    for mix in &figures.mix {
        if !(1..=99).contains(&mix.read_percent) || mix.outstanding == 0 {
            let (value, rule) = (f64::from(mix.read_percent), "a mix reads 1 to 99 percent");
            return Err(FitError::Figure {
                key: "mix.read_percent",
                value,
                rule,
            });
        }
    }
    Ok(())
}

/// The profile before anything is fitted.
fn template(figures: &Figures) -> Profile {
    // Enough planes to sense half as much again as the drive is known to read.
    let read_us = 55.0;
    let needed = figures.random_read_kiops * 1e3 * read_us / 1e6 * 1.5;
    let plane_groups = ((needed / 128.0).ceil() as u32).clamp(2, 64);
    Profile {
        drive: DriveTable {
            name: figures.name.clone(),
            capacity_tb: figures.capacity_tb,
        },
        endurance: EnduranceTable {
            drive_writes_per_day: figures.drive_writes_per_day,
            warranty_years: figures.warranty_years,
        },
        link: LinkTable {
            pcie_generation: figures.pcie_generation,
            lanes: figures.lanes,
            sequential_read_gb_s: figures.sequential_read_gb_s,
            sequential_write_gb_s: figures.sequential_write_gb_s,
        },
        controller: ControllerTable {
            command_kiops: figures.random_read_kiops,
            read_overhead_us: 10.0,
            write_acknowledge_us: 8.0,
            buffer_pages: 12_288,
        },
        nand: NandTable {
            raw_tb: figures
                .raw_tb
                .unwrap_or(figures.capacity_tb * RAW_SHARE_ASSUMED),
            superblocks: 800,
            low_water: 2,
            dies: 128,
            plane_groups,
            page_kib: 16,
            read_us,
            program_gb_s: 1.0,
            copy_read_share: figures.copy_read_share,
            suspend_wait_us: 5.0,
            suspend_copy_us: SUSPEND_COPY_ASSUMED_US,
        },
        source: sources(figures),
    }
}

fn sources(figures: &Figures) -> BTreeMap<String, String> {
    let raw = if figures.raw_tb.is_some() {
        "published: given"
    } else {
        "assumed: 1.17 of the capacity"
    };
    let lines = [
        ("drive.capacity_tb", "published: given"),
        ("endurance.drive_writes_per_day", "published: given"),
        ("endurance.warranty_years", "published: given"),
        ("link.pcie_generation", "published: given"),
        ("link.lanes", "published: given"),
        ("link.sequential_read_gb_s", "published: given"),
        ("link.sequential_write_gb_s", "published: given"),
        (
            "controller.command_kiops",
            "published: random reads, taken as the controller's ceiling",
        ),
        ("controller.read_overhead_us", "assumed: as the CM7-R"),
        ("controller.write_acknowledge_us", "assumed: as the CM7-R"),
        ("controller.buffer_pages", "assumed: as the CM7-R"),
        ("nand.raw_tb", raw),
        ("nand.superblocks", "assumed: as the CM7-R"),
        ("nand.low_water", "assumed: as the CM7-R"),
        ("nand.dies", "assumed: as the CM7-R"),
        (
            "nand.plane_groups",
            "assumed: enough to sense half as much again as it reads",
        ),
        ("nand.page_kib", "assumed: as the CM7-R"),
        ("nand.read_us", "assumed: as the CM7-R"),
        ("nand.program_gb_s", "fitted: random writes"),
        ("nand.copy_read_share", "assumed"),
        ("nand.suspend_wait_us", "assumed: as the CM7-R"),
        ("nand.suspend_copy_us", "assumed: as the CM7-R"),
    ];
    lines
        .map(|(key, source)| (key.to_owned(), source.to_owned()))
        .into()
}

/// The program rate that a random-write figure asks for, as the geometric mean of all of them.
fn program_gb_s(profile: &Profile, figures: &Figures) -> f64 {
    let logarithms = figures.random_write.iter().map(|figure| {
        let copies = profile.write_amplification(figure.namespace_tb) - 1.0;
        let programs = 1.0 + copies * (1.0 + profile.nand.copy_read_share);
        (figure.kiops * 1e3 * PAGE_BYTES as f64 * programs / 1e9).ln()
    });
    (logarithms.sum::<f64>() / figures.random_write.len() as f64).exp()
}

fn write_error(profile: &Profile, figures: &Figures) -> f64 {
    let errors = figures.random_write.iter().map(|figure| {
        let copies = profile.write_amplification(figure.namespace_tb) - 1.0;
        let programs = 1.0 + copies * (1.0 + profile.nand.copy_read_share);
        let rate = profile.nand.program_gb_s * 1e9 / PAGE_BYTES as f64 / programs;
        (rate / (figure.kiops * 1e3)).ln().powi(2)
    });
    errors.sum()
}

fn mix_error(profile: &Profile, mix: &MixFigure) -> f64 {
    let demand = Demand {
        read_share: f64::from(mix.read_percent) / 100.0,
        pages: 1.0,
        outstanding: f64::from(mix.outstanding),
        write_amplification: profile.write_amplification(mix.namespace_tb),
    };
    (closed_form::iops(profile, &demand) / (mix.kiops * 1e3)).ln()
}

/// The argument between `low` and `high` at which `error`, which has one minimum, is least:
/// golden section.
fn minimise(mut low: f64, mut high: f64, error: impl Fn(f64) -> f64) -> f64 {
    let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
    for _ in 0..60 {
        let span = (high - low) * golden;
        let (left, right) = (high - span, low + span);
        if error(left) < error(right) {
            high = right
        } else {
            low = left
        }
    }
    (low + high) / 2.0
}

/// Every figure against a simulation of the fitted profile.
fn residuals(profile: &Profile, figures: &Figures) -> Result<Vec<Residual>, FitError> {
    let full = figures.capacity_tb;
    let load = |rw, mix, block| Load::new(rw, mix, block);
    let mut runs = vec![
        (
            "sequential read, GB/s".to_owned(),
            full,
            load("read", 0, 131_072)?.with_depth(1, 32),
        ),
        (
            "sequential write, GB/s".to_owned(),
            full,
            load("write", 0, 131_072)?.with_depth(1, 32),
        ),
        (
            "random read, K IOPS".to_owned(),
            full,
            load("randread", 0, 4096)?.with_depth(16, 32),
        ),
    ];
    let mut given = vec![
        figures.sequential_read_gb_s,
        figures.sequential_write_gb_s,
        figures.random_read_kiops,
    ];
    for figure in &figures.random_write {
        let name = format!("random write at {} TB, K IOPS", figure.namespace_tb);
        runs.push((
            name,
            figure.namespace_tb,
            load("randwrite", 0, 4096)?.with_depth(8, 4),
        ));
        given.push(figure.kiops);
    }
    for mix in &figures.mix {
        let reads = mix.read_percent;
        let name = format!(
            "{reads}/{} mix at {} TB, K IOPS",
            100 - reads,
            mix.namespace_tb
        );
        let load = load("randrw", reads, 4096)?.with_depth(1, mix.outstanding);
        runs.push((name, mix.namespace_tb, load));
        given.push(mix.kiops);
    }
    let mut residuals = Vec::new();
    for ((figure, namespace_tb, load), given) in runs.into_iter().zip(given) {
        let bytes = (namespace_tb * TERABYTE).round() as u64;
        let outcome = Study::new(profile, bytes, load).run(&mut |_| true)?;
        let Some(outcome) = outcome else { continue };
        let simulated = if figure.ends_with("GB/s") {
            outcome.bytes_per_second / 1e9
        } else {
            outcome.iops / 1e3
        };
        residuals.push(Residual {
            figure,
            given,
            simulated,
            error: simulated / given - 1.0,
        });
    }
    Ok(residuals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        toml::from_str(
            r#"
            name = "CM7-R"
            capacity_tb = 7.68
            drive_writes_per_day = 1
            warranty_years = 5
            pcie_generation = 5
            sequential_read_gb_s = 14.5
            sequential_write_gb_s = 7.1
            random_read_kiops = 2536
            random_write = [
                { namespace_tb = 7.68, kiops = 309 },
                { namespace_tb = 6.4, kiops = 582 },
            ]
            mix = [
                { namespace_tb = 7.68, read_percent = 70, outstanding = 64, kiops = 693 },
                { namespace_tb = 6.4, read_percent = 70, outstanding = 64, kiops = 1108 },
            ]
            "#,
        )
        .unwrap()
    }

    #[test]
    fn a_fit_to_the_published_figures_meets_them_and_finds_the_shipped_profile() {
        let fitted = fit(&figures()).unwrap();
        assert_eq!(fitted.free_constants, 3);
        let nand = &fitted.profile.nand;
        assert!((nand.raw_tb - 8.985).abs() < 0.02, "{}", nand.raw_tb);
        assert!(
            (nand.program_gb_s - 4.67).abs() < 0.02,
            "{}",
            nand.program_gb_s
        );
        assert!(
            (nand.suspend_copy_us - 191.0).abs() < 8.0,
            "{}",
            nand.suspend_copy_us
        );
        assert_eq!(fitted.residuals.len(), 7);
        for residual in &fitted.residuals {
            assert!(residual.error.abs() < 0.02, "{residual:?}");
        }
        assert_eq!(
            Profile::parse(&fitted.profile.to_toml()),
            Ok(fitted.profile)
        );
    }

    #[test]
    fn one_write_figure_leaves_the_raw_capacity_assumed_and_says_so() {
        let mut one = figures();
        one.random_write.truncate(1);
        one.mix.clear();
        let (profile, free_constants) = solve(&one).unwrap();
        assert_eq!(free_constants, 1);
        assert!(profile.source["nand.raw_tb"].starts_with("assumed"));
        assert!(profile.source["nand.suspend_copy_us"].starts_with("assumed"));
    }

    #[test]
    fn impossible_figures_are_refused_by_name() {
        let refused = |change: fn(&mut Figures)| {
            let mut figures = figures();
            change(&mut figures);
            solve(&figures).unwrap_err()
        };
        assert!(matches!(
            refused(|it| it.random_write.clear()),
            FitError::Missing(_)
        ));
        let figure = |error| assert!(matches!(error, FitError::Figure { .. }), "{error}");
        figure(refused(|it| it.random_write[0].kiops = 0.0));
        figure(refused(|it| it.random_write[0].kiops = f64::NAN));
        figure(refused(|it| it.random_write[0].namespace_tb = 8.0));
        figure(refused(|it| it.mix[0].read_percent = 100));
        figure(refused(|it| it.capacity_tb = -1.0));
        let profile = |error| assert!(matches!(error, FitError::Profile(_)), "{error}");
        profile(refused(|it| it.raw_tb = Some(7.0)));
        profile(refused(|it| it.sequential_read_gb_s = 99.0));
        profile(refused(|it| it.pcie_generation = 0));
    }
}
