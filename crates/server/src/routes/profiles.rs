//! `/v1/profiles`

use api::{Curve, CurvePoint, CurveQuery, DriveProfile, ErrorBody, ErrorCode, List, PageQuery};
use axum::Json;
use axum::extract::Path;
use ssd::{Fidelity, Load, Outcome, Profile, ProfileError, Study};

use super::extract::Parameters;
use super::{Answer, Refusal};

/// Drives whose model comes with the node, smallest name first
#[utoipa::path(get, path = "/v1/profiles", operation_id = "list_profiles", params(PageQuery),
    responses((status = OK, body = List<DriveProfile>), (status = "default", body = ErrorBody)))]
pub async fn list(Parameters(query): Parameters<PageQuery>) -> Answer<List<DriveProfile>> {
    let items: Result<Vec<DriveProfile>, ProfileError> = ssd::profiles::names()
        .map(|name| ssd::profiles::named(name).map(|profile| described(name, &profile)))
        .collect();
    let mut items = items.map_err(|error| refused(&error))?;
    items.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Json(List::page(items, &query, |item| item.name.clone())?))
}

/// What namespaces of several sizes make of a drive, by the model's closed form
#[utoipa::path(get, path = "/v1/profiles/{name}/curve", operation_id = "show_curve",
    params(("name" = String, Path, description = "The profile's name"), CurveQuery),
    responses((status = OK, body = Curve), (status = "default", body = ErrorBody)))]
pub async fn curve(
    Path(name): Path<String>,
    Parameters(query): Parameters<CurveQuery>,
) -> Answer<Curve> {
    let profile = ssd::profiles::named(&name).map_err(|error| refused(&error))?;
    let load = load_of(&query)?;
    let capacity = profile.capacity_bytes();
    let points: Result<Vec<CurvePoint>, ProfileError> = (0..query.points)
        .map(|index| point(&profile, load, size_at(capacity, index, query.points)))
        .collect();
    let points = points.map_err(|error| refused(&error))?;
    Ok(Json(Curve { points }))
}

/// Points that one curve may have: drawn, more would fall onto one another.
const POINTS: std::ops::RangeInclusive<u32> = 2..=101;

/// Requests outstanding that the model takes.
const OUTSTANDING: std::ops::RangeInclusive<u32> = 1..=4096;

const PERCENT: std::ops::RangeInclusive<u32> = 0..=100;

fn load_of(query: &CurveQuery) -> Result<Load, Refusal> {
    for (field, value, allowed) in [
        ("points", query.points, POINTS),
        ("outstanding", query.outstanding, OUTSTANDING),
        // Also where the load has no use for it.
        ("read_percent", query.read_percent.into(), PERCENT),
    ] {
        if !allowed.contains(&value) {
            let (least, most) = (allowed.start(), allowed.end());
            let message = format!("{value}; allowed: from {least} to {most}");
            return Err(ErrorBody::invalid(field, message).into());
        }
    }
    // What is left to be wrong.
    Load::new(query.rw.as_str(), query.read_percent, query.block_bytes)
        .map(|load| load.with_depth(1, query.outstanding))
        .map_err(|error| ErrorBody::invalid("block_bytes", error.to_string()).into())
}

/// One of `points` sizes over the upper half of `capacity`.
fn size_at(capacity: u64, index: u32, points: u32) -> u64 {
    let half = capacity / 2;
    let step = u128::from(capacity - half) * u128::from(index) / u128::from(points - 1);
    half + step as u64
}

fn point(profile: &Profile, load: Load, namespace_bytes: u64) -> Result<CurvePoint, ProfileError> {
    let mut study = Study::new(profile, namespace_bytes, load);
    study.fidelity = Fidelity::ClosedForm;
    let outcome = study.run(&mut |_| true)?;
    // The closed form does nothing that could be interrupted.
    let outcome = outcome.ok_or_else(|| ProfileError::Load("interrupted".to_owned()))?;
    Ok(shown(namespace_bytes, load, &outcome))
}

fn shown(namespace_bytes: u64, load: Load, outcome: &Outcome) -> CurvePoint {
    let endurance = outcome.endurance.as_ref();
    CurvePoint {
        namespace_bytes,
        iops: outcome.iops,
        // Little's law: what is outstanding is what arrives in the time that one of it takes.
        mean_latency_us: f64::from(load.outstanding()) / outcome.iops * 1e6,
        write_amplification: outcome.write_amplification,
        endurance_bytes: endurance.map(|endurance| endurance.host_bytes),
        drive_writes_per_day: endurance.map(|endurance| endurance.drive_writes_per_day),
        days_to_wear_out: endurance.map(|endurance| endurance.days_to_wear_out),
    }
}

fn described(name: &str, profile: &Profile) -> DriveProfile {
    DriveProfile {
        name: name.to_owned(),
        drive: profile.drive.name.clone(),
        capacity_bytes: profile.capacity_bytes(),
        drive_writes_per_day: profile.endurance.drive_writes_per_day,
        pcie_generation: profile.link.pcie_generation,
        assumed: assumed(profile),
    }
}

fn assumed(profile: &Profile) -> Vec<String> {
    let values = profile.values_from("assumed").into_iter();
    values.map(|value| value.key).collect()
}

fn refused(error: &ProfileError) -> Refusal {
    let code = match error {
        ProfileError::Unknown { .. } => ErrorCode::NotFound,
        _ => ErrorCode::InvalidArgument,
    };
    ErrorBody::new(code, error.to_string()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn random_writes(name: &str) -> Vec<CurvePoint> {
        let query = Parameters(CurveQuery::default());
        let answer = curve(Path(name.to_owned()), query).await;
        answer.expect("a shipped profile has a curve").0.points
    }

    #[tokio::test]
    async fn smaller_namespaces_write_faster_and_live_longer() {
        let points = random_writes("cm7-r-7.68").await;
        let (first, last) = (&points[0], &points[points.len() - 1]);
        assert_eq!(last.namespace_bytes, 7_680_000_000_000);
        assert!(first.iops > 1.5 * last.iops, "{first:?} {last:?}");
        assert!(first.mean_latency_us < last.mean_latency_us);
        assert!(first.write_amplification < last.write_amplification);
        assert!(first.endurance_bytes > last.endurance_bytes);
    }

    #[tokio::test]
    async fn what_the_model_does_not_take_is_refused_by_name() {
        let wrong = |change: fn(&mut CurveQuery)| {
            let mut query = CurveQuery::default();
            change(&mut query);
            load_of(&query).is_err()
        };
        assert!(wrong(|query| query.points = 1));
        assert!(wrong(|query| query.points = 102));
        assert!(wrong(|query| query.outstanding = 0));
        assert!(wrong(|query| query.read_percent = 101));
        assert!(wrong(|query| query.block_bytes = 0));
        let unknown = curve(Path("cm8".to_owned()), Parameters(CurveQuery::default())).await;
        assert!(unknown.is_err());
    }

    #[tokio::test]
    async fn every_shipped_profile_is_listed_and_has_a_curve() {
        let profiles = list(Parameters(PageQuery::default()))
            .await
            .expect("shipped profiles are sound")
            .0
            .items;
        assert_eq!(profiles.len(), ssd::profiles::names().count());
        for profile in profiles {
            assert_eq!(random_writes(&profile.name).await.len(), 33);
        }
    }
}
