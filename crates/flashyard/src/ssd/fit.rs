//! `flashyard ssd fit`

use std::path::PathBuf;

use clap::Args;
use ssd::{Figures, Fitted};

use super::{Error, assumed};
use crate::output::{Output, table};

/// Make a profile from the figures of a data sheet.
///
/// The figures are a TOML file: name, capacity_tb, drive_writes_per_day, warranty_years,
/// pcie_generation, sequential_read_gb_s, sequential_write_gb_s, random_read_kiops, and
/// random_write = [{ namespace_tb, kiops }, ...]; two namespace sizes determine the raw flash.
/// Optional: lanes, raw_tb, copy_read_share, mix = [{ namespace_tb, read_percent, outstanding,
/// kiops }, ...].
#[derive(Args)]
pub struct Fit {
    /// File of figures
    figures: String,
    /// Write the profile here
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

impl Fit {
    pub fn run(&self, output: Output) -> Result<(), Error> {
        let text = super::read(&self.figures)?;
        let figures: Figures =
            toml::from_str(&text).map_err(|error| Error::Figures(self.figures.clone(), error))?;
        let fitted = ssd::fit(&figures)?;
        if let Some(path) = &self.save {
            super::write(path, &fitted.profile.to_toml())?;
        }
        output.show(&fitted, people);
        Ok(())
    }
}

fn people(fitted: &Fitted) -> String {
    let rows = fitted.residuals.iter().map(|residual| {
        vec![
            residual.figure.clone(),
            format!("{:.1}", residual.given),
            format!("{:.1}", residual.simulated),
            format!("{:+.1}%", residual.error * 100.0),
        ]
    });
    let nand = &fitted.profile.nand;
    format!(
        "{}\n\n{}\n\nraw flash {:.3} TB, programs {:.3} GB/s, a copy interrupted costs {:.0} us\n\
         {} constants were free; the ceilings are met by construction.\n{}",
        fitted.profile.drive.name,
        table(&["figure", "given", "simulated", "error"], rows),
        nand.raw_tb,
        nand.program_gb_s,
        nand.suspend_copy_us,
        fitted.free_constants,
        assumed(&fitted.profile)
    )
}
