//! The drive model answers a question: how many random writes does a drive take, and how long does
//! it live, if a namespace leaves part of its flash free?

use ssd::{Fidelity, Load, Study, profiles};

fn main() -> anyhow::Result<()> {
    let profile = profiles::named("cm7-r-7.68")?;
    println!(
        "{}: random writes of 4 KiB, 32 outstanding",
        profile.drive.name
    );
    for terabytes in [7.68, 7.04, 6.4, 5.76] {
        let load = Load::new("randwrite", 0, 4096)?.with_depth(8, 4);
        let mut study = Study::new(&profile, (terabytes * 1e12) as u64, load);
        // Formulas: an answer at once. `Fidelity::Timeline` adds percentiles.
        study.fidelity = Fidelity::ClosedForm;
        let outcome = study.run(&mut |_| true)?;
        let Some(outcome) = outcome else { continue };
        println!(
            "{terabytes} TB: {:7.0} IOPS, write amplification {:.2}, {:.2} drive writes per day",
            outcome.iops,
            outcome.write_amplification.unwrap_or(1.0),
            outcome
                .endurance
                .map_or(0.0, |wear| wear.drive_writes_per_day),
        );
    }
    Ok(())
}
