//! Loads on the drive model in virtual time.

use std::path::Path;

use ssd::{Load, Profile, ProfileError, Study};

use super::{LabError, Measured};
use crate::plan::{Case, Run, Target};

/// The profile that a target names, in its slot, and the part of it that the target is.
///
/// # Errors
/// When there is none, or no such part of it.
pub fn profile(target: &Target) -> Result<Profile, LabError> {
    let name = target.profile.as_deref().unwrap_or_default();
    let refused = |source| LabError::Model {
        workload: "any".to_owned(),
        target: target.name.clone(),
        source,
    };
    let profile = if name.ends_with(".toml") {
        let path = Path::new(name);
        let text = std::fs::read_to_string(path).map_err(|source| LabError::Profile {
            path: path.to_owned(),
            source,
        })?;
        Profile::parse(&text).map_err(refused)?
    } else {
        ssd::profiles::named(name).map_err(refused)?
    };
    let profile = match target.slot {
        Some(generation) => profile.in_slot(generation).map_err(refused)?,
        None => profile,
    };
    profile.slice(target.slice.unwrap_or(1)).map_err(refused)
}

/// Runs `case` on `target`; `None` when `progress` said to stop.
pub(crate) fn run(
    plan: &Run,
    target: &Target,
    case: &Case,
    repetition: u32,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<Option<Measured>, LabError> {
    let profile = profile(target)?;
    let refused = |source| LabError::Model {
        workload: case.name.clone(),
        target: target.name.clone(),
        source,
    };
    let study = study(plan, target, case, repetition, &profile).map_err(refused)?;
    let outcome = study.run(progress).map_err(refused)?;
    let load = study.load;
    let measured = |outcome| Measured::from_outcome(&outcome, load.block_bytes, load.read_share());
    Ok(outcome.map(measured))
}

fn study<'a>(
    plan: &Run,
    target: &Target,
    case: &Case,
    repetition: u32,
    profile: &'a Profile,
) -> Result<Study<'a>, ProfileError> {
    let workload = &case.workload;
    let words = workload.pattern.to_string();
    let load = Load::new(&words, workload.read_percent, workload.transfer_bytes)?
        .with_depth(workload.jobs, workload.depth);
    let bytes = target.namespace.unwrap_or(profile.capacity_bytes());
    let mut study = Study::new(profile, bytes, load);
    study.fidelity = plan.fidelity;
    study.scale *= plan.scale;
    study.passes = plan.passes;
    study.seed = plan.seed + u64::from(repetition);
    study.precondition = target.flash.unwrap_or(study.precondition);
    Ok(study)
}
