//! Checking pools, when somebody asks for it and when it is time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use api::{ErrorBody, ErrorCode, Job, JobKind, Name, SCRUB_INTERVAL_DAYS_MAX, Severity};
use node::{NodeError, PoolError, ScrubReport, VolumeId};

use super::losses::{self, Called};
use super::object;
use crate::control::words::refused;
use crate::control::{Control, Objects};
use crate::events::seconds;
use crate::state::ScrubRecord;

/// How often the node looks whether it is time for a scrub.
const LOOK_PERIOD: Duration = Duration::from_secs(60);

const DAY_SECONDS: u64 = 24 * 60 * 60;

impl ScrubRecord {
    /// Nothing is checked yet; the first scrub is due an interval after `time`.
    pub(super) fn counting_from(time: SystemTime) -> ScrubRecord {
        ScrubRecord {
            since: seconds(time),
            ..ScrubRecord::default()
        }
    }

    /// Whether it is time for the next one, be it for one that the node's end has cut short; never
    /// else where the interval is zero.
    fn is_due(&self, interval_days: u32, now: SystemTime) -> bool {
        let interval = u64::from(interval_days) * DAY_SECONDS;
        self.under_way || interval > 0 && seconds(now) >= self.since.saturating_add(interval)
    }

    /// Blocks of a volume that are lost, as far as the last scrub found.
    pub(in crate::control) fn lost_of(&self, volume: VolumeId) -> u64 {
        self.lost.get(&volume.0).copied().unwrap_or(0)
    }

    /// When everything had been checked for the last time.
    pub(super) fn ended(&self) -> Option<SystemTime> {
        let ended = Duration::from_secs(self.ended?);
        SystemTime::UNIX_EPOCH.checked_add(ended)
    }
}

/// Refuses an interval that is no useful one.
pub(in crate::control) fn check_interval_days(days: u32) -> Result<(), ErrorBody> {
    if days > SCRUB_INTERVAL_DAYS_MAX {
        let message = format!("{days}; allowed: 0 (never) to {SCRUB_INTERVAL_DAYS_MAX}");
        return Err(ErrorBody::invalid("scrub_interval_days", message));
    }
    Ok(())
}

impl Control {
    /// Begins to check everything in a pool.
    pub async fn scrub_pool(self: &Arc<Self>, name: &Name) -> Result<Job, ErrorBody> {
        let mut objects = self.objects.change().await;
        self.online_pool(&objects, name)?;
        self.check_idle(name)?;
        self.note_scrub(&mut objects, name, |record| record.under_way = true)
            .await;
        let (control, pool) = (Arc::clone(self), name.clone());
        Ok(self.run_job(JobKind::Scrub, name, async move {
            let report = control.node.scrub_pool(pool.as_str()).await;
            control.scrub_ended(&pool, &report).await;
            let report = report.map_err(|error| error.to_string())?;
            control.said(&pool, &report).await
        }))
    }

    /// Ends the scrub of a pool; the next one on schedule comes an interval later.
    pub async fn stop_scrub(&self, name: &Name) -> Result<(), ErrorBody> {
        let mut objects = self.objects.change().await;
        self.online_pool(&objects, name)?;
        if self.jobs.running(JobKind::Scrub, &object(name)).is_none() {
            let message = format!("no scrub runs on pool {name}");
            return Err(ErrorBody::new(ErrorCode::NotFound, message));
        }
        let stopped = self.node.stop_scrub(name.as_str()).await;
        stopped.map_err(|error| refused(&error))?;
        self.tell_pool(Severity::Info, name, "scrub stopped");
        let now = seconds(SystemTime::now());
        self.note_scrub(&mut objects, name, |record| {
            record.since = now;
            record.under_way = false;
        })
        .await;
        Ok(())
    }

    /// Checks every pool when it is time, one at a time, until the node stops.
    pub async fn scrub_on_schedule(self: Arc<Self>) {
        loop {
            if let Some((name, record)) = self.due_for_scrub().await
                && let Ok(job) = self.scrub_pool(&name).await
            {
                let message = match record.under_way {
                    true => format!(
                        "the scrub that the node's end cut short begins anew, job {}",
                        job.id
                    ),
                    false => format!("scheduled scrub begins, job {}", job.id),
                };
                self.tell_pool(Severity::Info, &name, &message);
            }
            tokio::time::sleep(LOOK_PERIOD).await;
        }
    }

    /// The pool that waits longest, if none is being checked, and what is known of its scrubs.
    async fn due_for_scrub(&self) -> Option<(Name, ScrubRecord)> {
        let (days, now) = (self.settings().scrub_interval_days, SystemTime::now());
        let objects = self.objects.seen();
        let scrubbed = |name| self.jobs.running(JobKind::Scrub, &object(name)).is_some();
        if objects.pools.keys().any(scrubbed) {
            return None;
        }
        let due = objects.pools.iter().filter(|(name, entry)| {
            let open = entry.offline.is_none();
            open && entry.record.scrub.is_due(days, now) && self.check_idle(name).is_ok()
        });
        let first = due.min_by_key(|(_, entry)| entry.record.scrub.since);
        first.map(|(name, entry)| (name.clone(), entry.record.scrub.clone()))
    }

    /// Counts the time to the next scrub from now; if this one failed, only a day of it is left.
    async fn scrub_ended(&self, name: &Name, outcome: &Result<ScrubReport, NodeError>) {
        let days = u64::from(self.settings().scrub_interval_days);
        let now = seconds(SystemTime::now());
        let lost = match outcome {
            Ok(report) => self.tell_lost(name, report).await,
            Err(_) => BTreeMap::new(),
        };
        let mut objects = self.objects.change().await;
        self.note_scrub(&mut objects, name, |record| match outcome {
            Ok(_) => {
                *record = ScrubRecord {
                    ended: Some(now),
                    since: now,
                    under_way: false,
                    lost,
                }
            }
            // Whoever stopped it has said so; when the node stops, it is still under way.
            Err(
                NodeError::Stopped
                | NodeError::Pool {
                    error: PoolError::ScrubStopped,
                    ..
                },
            ) => {}
            Err(_) => {
                record.under_way = false;
                record.since = now.saturating_sub(days.saturating_sub(1) * DAY_SECONDS);
            }
        })
        .await;
    }

    /// Tells of each volume that has lost blocks; returns how many.
    async fn tell_lost(&self, pool: &Name, report: &ScrubReport) -> BTreeMap<u32, u64> {
        if report.lost_blocks + report.lost_nodes == 0 {
            return BTreeMap::new();
        }
        let contents = self.node.pool_contents(pool.as_str()).await;
        let (volumes, _) = contents.unwrap_or_default();
        let lost = losses::by_volume(report, &volumes);
        for volume in &volumes {
            if let Some(blocks) = lost.get(&volume.id.0) {
                let message = format!(
                    "{blocks} blocks of 4 KiB are lost, as the scrub of pool {pool} found: its job \
                     says which"
                );
                let object = format!("volume/{}", volume.name);
                self.events.record(Severity::Error, &object, &message);
            }
        }
        lost
    }

    /// What a scrub found, as the outcome of its job.
    async fn said(&self, pool: &Name, report: &ScrubReport) -> Result<String, String> {
        let mut checked = format!(
            "{} stripes and {} nodes of the map checked, {} blocks repaired",
            report.stripes, report.nodes, report.repaired
        );
        if report.recounted > 0 {
            let freed = format!(", {} of lost nodes freed", report.recounted);
            checked.push_str(&freed);
        }
        let (blocks, nodes) = (report.lost_blocks, report.lost_nodes);
        if blocks + nodes == 0 {
            return Ok(checked);
        }
        let contents = self.node.pool_contents(pool.as_str()).await;
        // Names are all that is missing where the pool has just been closed.
        let (volumes, snapshots) = contents.unwrap_or_default();
        let called = Called::new(&volumes, &snapshots);
        Err(format!(
            "{checked}; {blocks} blocks and {nodes} nodes of the map are lost: {}",
            losses::in_words(report, &called)
        ))
    }

    async fn note_scrub(
        &self,
        objects: &mut Objects,
        name: &Name,
        change: impl FnOnce(&mut ScrubRecord),
    ) {
        let Some(entry) = objects.pools.get_mut(name) else {
            return;
        };
        let before = entry.surely_remembered();
        change(&mut entry.record.scrub);
        if let Err(error) = self.remember_pool(name, before, &entry.record).await {
            tracing::warn!(pool = %name, error = error.message, "when it was checked is not kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrub_is_due_an_interval_after_the_last_and_never_where_there_is_none() {
        let at = |days: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(days * DAY_SECONDS);
        let taken = ScrubRecord::counting_from(at(100));
        assert!(!taken.is_due(30, at(100)) && !taken.is_due(30, at(129)));
        assert!(taken.is_due(30, at(130)) && taken.is_due(1, at(101)));
        assert!(!taken.is_due(0, at(1_000_000)));
        assert!(
            ScrubRecord::default().is_due(30, at(100)),
            "kept by an earlier version"
        );
        assert!(!taken.is_due(30, at(1)), "the clock was put back");
        let cut_short = ScrubRecord {
            under_way: true,
            ..taken
        };
        assert!(cut_short.is_due(30, at(100)) && cut_short.is_due(0, at(100)));
    }
}
