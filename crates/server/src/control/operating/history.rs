//! The history of figures, for those who may see it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use api::{Caller, ErrorBody, ErrorCode, History, HistoryKind, HistoryQuery, Name};

use crate::control::words::not_found;
use crate::control::{Control, Objects};
use crate::events::timestamp;
use crate::metrics::recorder::TIERS;

/// Objects that one answer may be about: as many as a page of a list shows.
const NAMES_MAX: usize = 100;

/// Points of all objects of an answer: some megabytes of text.
const POINTS_MAX: u64 = 40_000;

impl Control {
    /// Histories, as far as the caller may see the objects.
    pub async fn history(
        self: &Arc<Control>,
        caller: &Caller,
        query: &HistoryQuery,
    ) -> Result<History, ErrorBody> {
        let names = self.history_names(caller, query)?;
        let (tier, (first, count)) = span(query, names.len())?;
        // The disk may be slow: few threads wait for it, whoever asks.
        let _turn = self.figures.history_turn().await;
        let (control, kind) = (Arc::clone(self), query.kind);
        let read = tokio::task::spawn_blocking(move || {
            let recorder = control.figures().recorder();
            recorder.histories((kind, names), tier, (first, count))
        });
        let failed = |reason: String| {
            let message = format!("the history of figures cannot be read: {reason}");
            ErrorBody::new(ErrorCode::Internal, message)
        };
        let read = read
            .await
            .map_err(|panicked| failed(panicked.to_string()))?;
        let step_seconds = TIERS[tier].seconds;
        let ended = (u64::from(first) + 1) * u64::from(step_seconds);
        Ok(History {
            step_seconds,
            first: timestamp(SystemTime::UNIX_EPOCH + Duration::from_secs(ended)),
            objects: read.map_err(|error| failed(error.to_string()))?,
        })
    }

    /// The names asked for, all of which there are for the caller.
    fn history_names(&self, caller: &Caller, query: &HistoryQuery) -> Result<Vec<Name>, ErrorBody> {
        let texts = query.names.as_deref().unwrap_or_default();
        let texts: Vec<&str> = texts.split(',').filter(|text| !text.is_empty()).collect();
        let invalid = |message: String| ErrorBody::invalid("names", message);
        if query.kind == HistoryKind::Node {
            return match (&caller.tenant, texts.is_empty()) {
                (Some(_), _) => Err(of_others(caller)),
                (None, true) => Ok(vec![self.name().clone()]),
                (None, false) => Err(invalid("names for the node; allowed: none".into())),
            };
        }
        if !(1..=NAMES_MAX).contains(&texts.len()) {
            let message = format!("{} names; allowed: 1 to {NAMES_MAX}", texts.len());
            return Err(invalid(message));
        }
        let objects = self.objects.seen();
        let one = |text: &str| -> Result<Name, ErrorBody> {
            let name: Name = text.parse().map_err(|error| invalid(format!("{error}")))?;
            check(&objects, caller, query.kind, &name)?;
            Ok(name)
        };
        texts.into_iter().map(one).collect()
    }
}

/// Refuses what there is not, or not for the caller.
fn check(
    objects: &Objects,
    caller: &Caller,
    kind: HistoryKind,
    name: &Name,
) -> Result<(), ErrorBody> {
    let (word, there) = match kind {
        HistoryKind::Volume => ("volume", objects.volume_for(caller, name).is_some()),
        _ if caller.tenant.is_some() => return Err(of_others(caller)),
        HistoryKind::Pool => ("pool", objects.pools.contains_key(name)),
        HistoryKind::Drive => ("drive", objects.drives.contains_key(name)),
        HistoryKind::Node => ("node", true),
    };
    if there {
        Ok(())
    } else {
        Err(not_found(word, name))
    }
}

fn of_others(caller: &Caller) -> ErrorBody {
    let message = format!(
        "token {} is for a tenant, which sees histories of its volumes; this needs one without",
        caller.name
    );
    ErrorBody::new(ErrorCode::Forbidden, message)
}

/// The tier, its first interval to show, and how many.
fn span(query: &HistoryQuery, objects: usize) -> Result<(usize, (u32, u32)), ErrorBody> {
    let step = query.step.unwrap_or(TIERS[0].seconds);
    let tier = TIERS.iter().position(|tier| tier.seconds == step);
    let tier = tier.ok_or_else(|| {
        ErrorBody::invalid("step", format!("{step} seconds; allowed: 10, 60 or 900"))
    })?;
    let longest = TIERS[tier].seconds * TIERS[tier].intervals;
    let seconds = query.seconds.unwrap_or(longest);
    if !(step..=longest).contains(&seconds) {
        let message = format!("{seconds}; allowed with a step of {step}: {step} to {longest}");
        return Err(ErrorBody::invalid("seconds", message));
    }
    let count = seconds / step;
    if objects as u64 * u64::from(count) > POINTS_MAX {
        let message =
            format!("{objects} names of {count} points each; allowed: {POINTS_MAX} points in all");
        return Err(ErrorBody::invalid("names", message));
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs() / u64::from(step));
    // The interval that is under way has no record yet.
    let first = now.saturating_sub(u64::from(count));
    Ok((tier, (u32::try_from(first).unwrap_or(u32::MAX), count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(step: Option<u32>, seconds: Option<u32>) -> HistoryQuery {
        HistoryQuery {
            step,
            seconds,
            ..HistoryQuery::default()
        }
    }

    /// Each step goes as far back as its records do, and what goes beyond is refused with what is
    /// allowed.
    #[test]
    fn a_span_is_what_is_kept() {
        for (step, count) in [(10, 360), (60, 1440), (900, 2880)] {
            let (tier, (_, found)) = span(&query(Some(step), None), 1).unwrap();
            assert_eq!((TIERS[tier].seconds, found), (step, count));
            let longer = query(Some(step), Some(step * count + 1));
            assert_eq!(
                span(&longer, 1).unwrap_err().field.as_deref(),
                Some("seconds")
            );
        }
        let refused = span(&query(Some(11), None), 1).unwrap_err();
        assert_eq!(refused.message, "11 seconds; allowed: 10, 60 or 900");
        assert!(span(&query(Some(60), Some(3600)), 100).is_ok());
        let refused = span(&query(Some(900), None), 100).unwrap_err();
        assert_eq!(refused.field.as_deref(), Some("names"));
    }
}
