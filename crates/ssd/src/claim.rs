//! [`EnduranceClaim`]: "with a smaller namespace, this drive wears like one sold for more drive
//! writes per day", examined.

use serde::Serialize;

use crate::error::ProfileError;
use crate::fit::{Figures, WriteFigure, solve};
use crate::profile::{Profile, TERABYTE};

/// What such a claim comes to. It takes the warranted writes as a budget of media writes; see
/// [`crate::Endurance`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EnduranceClaim {
    /// Drive writes per day of the smaller namespace that the warranted media writes allow.
    pub drive_writes_per_day: f64,
    /// The lowest and the highest over every cost of reading a page to be copied that the
    /// published figures leave open.
    pub range: (f64, f64),
    /// Cycles that the claimed drive writes per day take, over those warranted.
    pub cycles_ratio: f64,
    /// The namespace at which the claim is true, in 10^12 bytes.
    pub true_at_tb: f64,
}

/// Costs of reading a page to be copied, in programs, that the study considers: from none to the
/// one at which random and sequential writes share one budget.
const COPY_READ_SHARES: [f64; 5] = [0.0, 0.25, 0.5, 1.0, 1.86];

/// The smallest namespace that is looked at, in 10^12 bytes.
const SMALLEST_TB: f64 = 0.001;

impl EnduranceClaim {
    /// Examines the claim that `profile` with a namespace of `namespace_tb` stands `claimed` drive
    /// writes per day. `published` are its random-write figures, of which two leave the cost of
    /// copying open.
    pub fn examine(
        profile: &Profile,
        namespace_tb: f64,
        claimed: f64,
        published: &[WriteFigure],
    ) -> Result<EnduranceClaim, ProfileError> {
        let stands = |profile: &Profile, namespace_tb: f64| {
            let amplification = profile.write_amplification(namespace_tb);
            let endurance = profile.endurance();
            let live_bytes = namespace_tb * TERABYTE;
            endurance
                .at(live_bytes, amplification, 0.0)
                .drive_writes_per_day
        };
        let own = stands(profile, namespace_tb);
        let (mut lowest, mut highest) = (own, own);
        if published.len() > 1 {
            for copy_read_share in COPY_READ_SHARES {
                let value = stands(&refit(profile, copy_read_share, published)?, namespace_tb);
                (lowest, highest) = (lowest.min(value), highest.max(value));
            }
        }
        let (mut low, mut high) = (SMALLEST_TB, profile.drive.capacity_tb);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if stands(profile, middle) > claimed {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(EnduranceClaim {
            drive_writes_per_day: own,
            range: (lowest, highest),
            cycles_ratio: claimed / own,
            true_at_tb: low,
        })
    }
}

/// The profile that meets the published figures when reading a page to be copied costs
/// `copy_read_share`.
fn refit(
    profile: &Profile,
    copy_read_share: f64,
    published: &[WriteFigure],
) -> Result<Profile, ProfileError> {
    let figures = Figures {
        name: profile.drive.name.clone(),
        capacity_tb: profile.drive.capacity_tb,
        drive_writes_per_day: profile.endurance.drive_writes_per_day,
        warranty_years: profile.endurance.warranty_years,
        pcie_generation: profile.link.pcie_generation,
        lanes: profile.link.lanes,
        sequential_read_gb_s: profile.link.sequential_read_gb_s,
        sequential_write_gb_s: profile.link.sequential_write_gb_s,
        random_read_kiops: profile.controller.command_kiops,
        random_write: published.to_vec(),
        mix: Vec::new(),
        raw_tb: None,
        copy_read_share,
    };
    solve(&figures)
        .map(|(profile, _)| profile)
        .map_err(|error| ProfileError::Load(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_sold_for_one_write_a_day_stands_2_26_at_6_4_tb_not_3() {
        let profile = crate::profiles::named("cm7-r-7.68").unwrap();
        let figure = |namespace_tb, kiops| WriteFigure {
            namespace_tb,
            kiops,
        };
        let published = [figure(7.68, 309.0), figure(6.4, 582.0)];
        let claim = EnduranceClaim::examine(&profile, 6.4, 3.0, &published).unwrap();
        assert!(
            (claim.drive_writes_per_day - 2.26).abs() < 0.02,
            "{claim:?}"
        );
        assert!((claim.range.0 - 1.85).abs() < 0.02, "{claim:?}");
        assert!((claim.true_at_tb - 5.79).abs() < 0.02, "{claim:?}");
        // One figure leaves nothing to vary.
        let alone = EnduranceClaim::examine(&profile, 6.4, 3.0, &published[..1]).unwrap();
        assert_eq!(alone.range.0, alone.range.1);
    }
}
