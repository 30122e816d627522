//! [`ScheduleRecord`]: when a schedule takes snapshots, and which of them stay. No I/O, no clock.
//!
//! Periods are those of UTC, so that a change to summer time neither skips one nor doubles it.

use std::collections::{BTreeMap, BTreeSet};

use api::{Keep, Name};
use serde::{Deserialize, Serialize};

use crate::events::time_at;

const HOUR_SECONDS: u64 = 60 * 60;
const DAY_SECONDS: u64 = 24 * HOUR_SECONDS;
const WEEK_SECONDS: u64 = 7 * DAY_SECONDS;

/// The first Monday was on January 5th, 1970: weeks begin three days before the first day.
const WEEK_OFFSET_SECONDS: u64 = 3 * DAY_SECONDS;

/// What is behind the volume's name in the name of a snapshot, such as `-2026-11-26t18.00`.
const SUFFIX_BYTES: usize = 17;

/// Names of volumes are no longer, or there is no room for the time in names of snapshots.
pub const VOLUME_NAME_BYTES_MAX: usize = 63 - SUFFIX_BYTES;

/// A schedule as it is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleRecord {
    /// Identity of the pool, in hexadecimal: it may go and come back under another name.
    pub pool: String,
    /// Its volumes, by their numbers in the pool, with the names that they had last.
    pub volumes: BTreeMap<u32, Name>,
    /// How many snapshots stay.
    pub keep: Keep,
    /// The tenant that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Name>,
    /// When snapshots were taken last, in seconds since 1970.
    #[serde(default)]
    pub last: Option<u64>,
    /// What it took, oldest first. Those of one instant are noted before they are taken, so that
    /// none is forgotten if the node dies in between.
    #[serde(default)]
    pub taken: Vec<Taken>,
    /// When those were noted of which it is not known yet whether they were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noted: Option<u64>,
}

/// Snapshots of one instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// When, in seconds since 1970.
    pub at: u64,
    /// Their names.
    pub snapshots: Vec<Name>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Period {
    Hour,
    Day,
    Week,
}

impl Period {
    /// Its number since 1970.
    fn number(self, seconds: u64) -> u64 {
        match self {
            Period::Hour => seconds / HOUR_SECONDS,
            Period::Day => seconds / DAY_SECONDS,
            Period::Week => seconds.saturating_add(WEEK_OFFSET_SECONDS) / WEEK_SECONDS,
        }
    }

    /// When the one after that of `seconds` begins.
    fn next(self, seconds: u64) -> u64 {
        let number = self.number(seconds).saturating_add(1);
        match self {
            Period::Hour => number.saturating_mul(HOUR_SECONDS),
            Period::Day => number.saturating_mul(DAY_SECONDS),
            Period::Week => number
                .saturating_mul(WEEK_SECONDS)
                .saturating_sub(WEEK_OFFSET_SECONDS),
        }
    }
}

/// Periods, and how many of each stay.
fn periods(keep: Keep) -> [(Period, u32); 3] {
    [
        (Period::Hour, keep.hourly),
        (Period::Day, keep.daily),
        (Period::Week, keep.weekly),
    ]
}

impl ScheduleRecord {
    /// The shortest period of which anything stays.
    fn period(&self) -> Period {
        let mut wanted = periods(self.keep).into_iter();
        let first = wanted.find(|(_, count)| *count > 0);
        // A schedule keeps something: `Keep::check`.
        first.map_or(Period::Week, |(period, _)| period)
    }

    /// Whether nothing was taken yet in the period of `now`. A clock that was put back counts as
    /// another period too: better one too many than none for as long as it was wrong.
    pub fn is_due(&self, now: u64) -> bool {
        let period = self.period();
        self.last
            .is_none_or(|last| period.number(last) != period.number(now))
    }

    /// When the next snapshots are due, seen from `now`.
    pub fn next(&self, now: u64) -> u64 {
        match self.is_due(now) {
            true => now,
            false => self.period().next(now),
        }
    }

    /// What would be taken at `now`: each volume's number, and what its snapshot is called.
    ///
    /// # Errors
    /// A volume has too long a name, which it got after the schedule was made.
    pub fn names(&self, now: u64) -> Result<Vec<(u32, Name)>, String> {
        let named = self.volumes.iter().map(|(number, volume)| {
            let name = snapshot_name(volume, now)?;
            Ok((*number, name))
        });
        named.collect()
    }

    /// What goes: in each of the newest periods the first snapshots stay, and so do the latest.
    pub fn expired(&self) -> Vec<Taken> {
        let mut stays: BTreeSet<u64> = BTreeSet::new();
        for (period, count) in periods(self.keep) {
            // The first of a period comes last, and takes the place of the others.
            let newest_first = self.taken.iter().rev().map(|taken| taken.at);
            let first_of: BTreeMap<u64, u64> =
                newest_first.map(|at| (period.number(at), at)).collect();
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            stays.extend(first_of.into_values().rev().take(count));
        }
        stays.extend(self.taken.last().map(|taken| taken.at));
        let goes = self.taken.iter().filter(|taken| !stays.contains(&taken.at));
        goes.cloned().collect()
    }

    /// Forgets what is no longer there, be it deleted by hand or never taken. What was noted and
    /// is there was taken, whether or not the node lived to say so.
    pub fn settle(&mut self, is_there: impl Fn(&Name) -> bool) {
        for taken in &mut self.taken {
            taken.snapshots.retain(&is_there);
        }
        self.taken.retain(|taken| !taken.snapshots.is_empty());
        if let Some(noted) = self.noted.take()
            && self.taken.iter().any(|taken| taken.at == noted)
        {
            self.last = Some(noted);
        }
    }

    /// Notes what is about to be taken.
    pub fn note(&mut self, at: u64, snapshots: Vec<Name>) {
        self.taken.push(Taken { at, snapshots });
        self.taken.sort_by_key(|taken| taken.at);
        self.noted = Some(at);
    }

    /// What was noted has been taken, or was not.
    pub fn confirm(&mut self, was_taken: bool) {
        let Some(noted) = self.noted.take() else {
            return;
        };
        match was_taken {
            true => self.last = Some(noted),
            false => self.taken.retain(|taken| taken.at != noted),
        }
    }
}

/// What the snapshot of a volume is called that is taken at `seconds`.
///
/// # Errors
/// The volume's name is too long.
pub fn snapshot_name(volume: &Name, seconds: u64) -> Result<Name, String> {
    let time = humantime::format_rfc3339_seconds(time_at(seconds)).to_string();
    // 2026-11-26T18:00:00Z, without its seconds, in what names may consist of.
    let minute = time.rsplit_once(':').map_or("", |(minute, _)| minute);
    let minute = minute.to_lowercase().replace(':', ".");
    let name = format!("{volume}-{minute}");
    name.parse().map_err(|_| {
        format!(
            "the name of volume {volume} has {} characters; allowed: {VOLUME_NAME_BYTES_MAX}, \
             so that names of snapshots have room for the time",
            volume.as_str().len()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Thursday, 18:07:30 UTC.
    const NOW: u64 = 1_795_716_450;

    fn record(hourly: u32, daily: u32, weekly: u32) -> ScheduleRecord {
        ScheduleRecord {
            pool: "0".repeat(32),
            volumes: BTreeMap::from([(1, "data".parse().unwrap()), (2, "log".parse().unwrap())]),
            keep: Keep {
                hourly,
                daily,
                weekly,
            },
            tenant: None,
            last: None,
            taken: Vec::new(),
            noted: None,
        }
    }

    /// Runs a schedule from `NOW` on, looking every `step` seconds; what stays at the end.
    fn run(record: &mut ScheduleRecord, step: u64, seconds: u64) -> Vec<u64> {
        for now in (NOW..NOW + seconds).step_by(usize::try_from(step).unwrap()) {
            if record.is_due(now) {
                let names = record.names(now).unwrap();
                record.note(now, names.into_iter().map(|(_, name)| name).collect());
                record.confirm(true);
            }
            for gone in record.expired() {
                record.taken.retain(|taken| taken.at != gone.at);
            }
        }
        record.taken.iter().map(|taken| taken.at).collect()
    }

    #[test]
    fn snapshots_are_named_by_their_volume_and_the_minute() {
        let names = record(1, 0, 0).names(NOW).unwrap();
        let names: Vec<String> = names.iter().map(|(_, name)| name.to_string()).collect();
        assert_eq!(names, ["data-2026-11-26t18.07", "log-2026-11-26t18.07"]);
        let longest: Name = "x".repeat(VOLUME_NAME_BYTES_MAX).parse().unwrap();
        assert_eq!(snapshot_name(&longest, NOW).unwrap().as_str().len(), 63);
        let longer: Name = "x".repeat(VOLUME_NAME_BYTES_MAX + 1).parse().unwrap();
        let refused = snapshot_name(&longer, NOW).unwrap_err();
        assert!(refused.contains("allowed: 46"), "{refused}");
    }

    #[test]
    fn periods_begin_with_the_hour_with_the_day_and_on_monday() {
        let monday = NOW - NOW % DAY_SECONDS - 3 * DAY_SECONDS;
        for (record, before, next) in [
            (record(3, 1, 1), NOW - NOW % HOUR_SECONDS, HOUR_SECONDS),
            (record(0, 2, 1), NOW - NOW % DAY_SECONDS, DAY_SECONDS),
            (record(0, 0, 4), monday, WEEK_SECONDS),
        ] {
            let taken_at = |at| ScheduleRecord {
                last: Some(at),
                ..record.clone()
            };
            assert!(record.is_due(NOW) && record.next(NOW) == NOW);
            assert!(taken_at(before - 1).is_due(NOW), "{:?}", record.keep);
            assert!(!taken_at(before).is_due(NOW), "{:?}", record.keep);
            assert_eq!(taken_at(NOW).next(NOW), before + next);
            assert!(taken_at(NOW + 20 * WEEK_SECONDS).is_due(NOW), "put back");
        }
    }

    #[test]
    fn a_month_of_hours_leaves_a_day_a_week_and_a_month() {
        let mut kept = record(24, 7, 4);
        let days = 45;
        let left = run(&mut kept, 600, days * DAY_SECONDS);
        let end = *left.last().unwrap();
        let newest: Vec<u64> = left.iter().rev().take(24).copied().collect();
        for (hours, at) in newest.iter().enumerate() {
            let ago = Period::Hour.number(end) - Period::Hour.number(*at);
            assert_eq!(ago, hours as u64, "every hour of a day");
        }
        let of = |period: Period| -> BTreeSet<u64> {
            left.iter().map(|at| period.number(*at)).collect()
        };
        for ago in 0..7 {
            let day = Period::Day.number(end) - ago;
            assert!(of(Period::Day).contains(&day), "{ago} days ago");
        }
        for ago in 0..4 {
            let week = Period::Week.number(end) - ago;
            assert!(of(Period::Week).contains(&week), "{ago} weeks ago");
        }
        // The first of today is among the hours, the first of this week among the days or hours.
        assert!(left.len() <= 24 + 7 + 4, "{} stay", left.len());
        assert!(left.len() >= 24 + 5 + 2, "{} stay", left.len());
    }

    #[test]
    fn a_node_that_was_away_keeps_what_it_has() {
        let mut kept = record(2, 2, 0);
        run(&mut kept, 600, 3 * DAY_SECONDS);
        let before = kept.taken.clone();
        assert_eq!(kept.expired(), [], "nothing goes while nothing comes");
        let later = NOW + 100 * DAY_SECONDS;
        assert!(kept.is_due(later));
        kept.note(later, vec!["data-later".parse().unwrap()]);
        let left = kept.taken.len() - kept.expired().len();
        assert!(left >= 3, "{left} of {before:?}");
    }

    #[test]
    fn fewer_to_keep_lets_the_oldest_go_and_the_newest_stays_whatever_is_kept() {
        let mut kept = record(10, 0, 0);
        run(&mut kept, 600, 20 * HOUR_SECONDS);
        assert_eq!(kept.taken.len(), 10);
        kept.keep.hourly = 3;
        let gone: Vec<u64> = kept.expired().iter().map(|taken| taken.at).collect();
        let oldest: Vec<u64> = kept.taken[..7].iter().map(|taken| taken.at).collect();
        assert_eq!(gone, oldest);
        kept.keep = Keep::default();
        assert_eq!(kept.expired().len(), 9);
    }

    #[test]
    fn what_was_noted_and_is_there_was_taken_and_what_is_gone_is_forgotten() {
        let mut kept = record(5, 0, 0);
        run(&mut kept, 600, 2 * HOUR_SECONDS);
        let (last, count) = (kept.last.unwrap(), kept.taken.len());
        // Noted, and the node died.
        let noted: Name = "data-noted".parse().unwrap();
        kept.note(last + HOUR_SECONDS, vec![noted.clone()]);
        let mut never_taken = kept.clone();
        never_taken.settle(|name| *name != noted);
        assert_eq!(
            (never_taken.last, never_taken.taken.len()),
            (Some(last), count)
        );
        let mut taken = kept.clone();
        taken.settle(|_| true);
        assert_eq!(taken.last, Some(last + HOUR_SECONDS));
        assert_eq!(taken.taken.len(), count + 1);
        kept.confirm(false);
        assert_eq!(
            (kept.last, kept.taken.len()),
            (Some(last), count),
            "refused"
        );
        kept.settle(|_| false);
        assert!(kept.taken.is_empty() && kept.last == Some(last), "by hand");
    }

    #[test]
    fn a_clock_that_was_put_back_makes_one_snapshot_and_not_one_at_each_look() {
        let mut kept = record(5, 0, 0);
        run(&mut kept, 600, HOUR_SECONDS);
        let ahead = NOW + 1000 * HOUR_SECONDS;
        kept.note(ahead, vec!["data-ahead".parse().unwrap()]);
        kept.confirm(true);
        let count = kept.taken.len();
        for look in 0..5 {
            let now = NOW + 2 * HOUR_SECONDS + look;
            kept.settle(|_| true);
            if kept.is_due(now) {
                kept.note(now, vec!["data-back".parse().unwrap()]);
                kept.confirm(true);
            }
        }
        assert_eq!(kept.taken.len(), count + 1);
    }
}
