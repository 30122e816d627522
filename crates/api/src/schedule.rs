//! Schedules: snapshots that a node takes by itself, and how many of them it keeps.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ErrorBody, Name};

/// The most snapshots that a schedule keeps of one period.
pub const SCHEDULE_KEEP_MAX: u32 = 1000;

/// The most volumes that one schedule is for: all are taken at one instant.
pub const SCHEDULE_VOLUMES_MAX: usize = 256;

/// How many snapshots stay, by period, in UTC. The first snapshot of an hour, of a day and of a
/// week (from Monday on) is that period's; one snapshot may be all three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Keep {
    /// Hours of which the snapshot stays.
    #[serde(default)]
    #[schema(maximum = 1000)]
    pub hourly: u32,
    /// Days of which it stays.
    #[serde(default)]
    #[schema(maximum = 1000)]
    pub daily: u32,
    /// Weeks of which it stays.
    #[serde(default)]
    #[schema(maximum = 1000)]
    pub weekly: u32,
}

impl Keep {
    /// Refuses numbers that are out of bounds, and to keep nothing.
    ///
    /// # Errors
    /// They are; the field is named.
    pub fn check(self) -> Result<(), ErrorBody> {
        let Keep {
            hourly,
            daily,
            weekly,
        } = self;
        let all = [("hourly", hourly), ("daily", daily), ("weekly", weekly)];
        for (field, count) in all {
            if count > SCHEDULE_KEEP_MAX {
                let message = format!("{count}; allowed: 0 to {SCHEDULE_KEEP_MAX}");
                return Err(ErrorBody::invalid(format!("keep.{field}"), message));
            }
        }
        if all.iter().all(|(_, count)| *count == 0) {
            let message = "hourly, daily and weekly are all 0; allowed: at least one above";
            return Err(ErrorBody::invalid("keep", message));
        }
        Ok(())
    }
}

/// What a schedule takes and keeps; the body of `PUT /v1/schedules/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSpec {
    /// Volumes of one pool. Their snapshots are of one instant.
    pub volumes: Vec<Name>,
    /// How many snapshots stay.
    pub keep: Keep,
}

/// A schedule as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    /// Its name.
    pub name: Name,
    /// Its volumes.
    pub volumes: Vec<Name>,
    /// Their pool; nothing while it is not on this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Name>,
    /// How many snapshots stay.
    pub keep: Keep,
    /// The snapshots that it took and still keeps, oldest first.
    pub snapshots: Vec<Name>,
    /// When it took snapshots last, in UTC (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub last: Option<String>,
    /// When the next are due, in UTC (RFC 3339).
    #[schema(format = DateTime)]
    pub next: String,
    /// Why it does not take or delete what it should.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The tenant that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Name>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_keeps_something_and_not_too_much() {
        let keep = |hourly, daily, weekly| Keep {
            hourly,
            daily,
            weekly,
        };
        for good in [keep(24, 7, 4), keep(0, 0, 1), keep(1000, 1000, 1000)] {
            assert!(good.check().is_ok(), "{good:?}");
        }
        for (bad, field) in [
            (keep(0, 0, 0), "keep"),
            (keep(1001, 0, 0), "keep.hourly"),
            (keep(1, u32::MAX, 0), "keep.daily"),
            (keep(1, 0, 1001), "keep.weekly"),
        ] {
            let refusal = bad.check().unwrap_err();
            assert_eq!(refusal.field.as_deref(), Some(field), "{bad:?}");
        }
    }
}
