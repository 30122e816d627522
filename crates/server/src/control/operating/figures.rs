//! What figures are gathered from.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use api::{GraphiteTarget, JobState, Name, Severity};
use node::NodeError;
use tokio::time::{Instant, Interval, MissedTickBehavior, sleep_until};

use crate::control::operating::problems::Means;
use crate::control::tenants::limits::{rates, tenant_rates};
use crate::control::{Control, Objects};
use crate::logging;
use crate::metrics::graphite::Receiver;
use crate::metrics::{Figures, Known, KnownLimits, KnownPool, KnownSchedule, KnownVolume, Sample};

/// How often figures are gathered.
const PERIOD: Duration = Duration::from_secs(1);

/// How often drives are asked for their health, and pools for what their volumes hold, in periods:
/// they answer slowly, and it changes slowly.
const HEALTH_PERIODS: u64 = 30;

fn ticks() -> Interval {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Gathering, recording and sending go on until the node stops.
impl Control {
    /// The node's figures.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Gathers figures.
    pub async fn gather_figures(self: Arc<Self>) {
        let mut ticks = ticks();
        let mut known = Known::default();
        for period in 0u64.. {
            ticks.tick().await;
            self.look_again(&mut known).await;
            if period % HEALTH_PERIODS == 1 {
                self.ask_health(&mut known).await;
                self.ask_space(&mut known).await;
            }
            match self.sample(&known).await {
                Ok(sample) => self.figures.add(Arc::new(sample)),
                // The node has stopped: there will be no more.
                Err(_) => return,
            }
        }
    }

    /// Records them.
    pub async fn record_figures(self: Arc<Self>) {
        let mut ticks = ticks();
        let mut before = None;
        loop {
            ticks.tick().await;
            let recorder = self.figures.recorder();
            self.note_problem(Means::History, recorder.problem());
            if let Ok(now) = self.figures.latest() {
                recorder.take(&mut before, now, self.name());
            }
        }
    }

    /// Sends them to the receiver that the settings name.
    pub async fn push_figures(self: Arc<Self>) {
        let mut settings = self.watch_settings();
        loop {
            let target = settings.borrow_and_update().graphite.clone();
            let ends = async { settings.wait_for(|it| it.graphite != target).await.is_err() };
            tokio::select! {
                ends = ends => if ends {
                    return;
                },
                () = self.push_figures_to(target.as_ref()) => {}
            }
        }
    }

    /// Sends them to one receiver for ever. That it takes none for a while, and that it takes some
    /// again, are events.
    async fn push_figures_to(&self, target: Option<&GraphiteTarget>) {
        let Some(target) = target else {
            return std::future::pending().await;
        };
        let period = Duration::from_secs(u64::from(target.interval_seconds));
        let mut receiver = Receiver::of(target);
        let mut next = Instant::now() + period;
        loop {
            sleep_until(next).await;
            next = Instant::now() + period;
            let Ok(sample) = self.figures.latest() else {
                continue;
            };
            let sending = receiver.send(self.name(), &sample, &self.figures.pushes);
            if let Some(told) = sending.await {
                self.events.record(Severity::Warning, "node", &told);
            }
        }
    }

    /// Brings up to date what is known of objects, unless one is being changed right now: figures
    /// do not wait for that.
    async fn look_again(&self, known: &mut Known) {
        let Some(mut objects) = self.objects.try_change() else {
            return;
        };
        self.look_at_pools(&mut objects).await;
        let health = std::mem::take(&mut known.health);
        let unique_bytes = Arc::clone(&known.unique_bytes);
        *known = known_of(&objects);
        let replications = objects.replications.iter();
        known.replications = replications
            .map(|(name, record)| (name.clone(), self.known_replication(name, record)))
            .collect();
        known.health = health;
        known.unique_bytes = unique_bytes;
        known
            .health
            .retain(|drive, _| known.drives.contains_key(drive));
    }

    /// Asks drives for their health; those that cannot tell have none.
    async fn ask_health(&self, known: &mut Known) {
        known.health.clear();
        for drive in known.drives.iter().filter(|(_, online)| **online) {
            if let Ok(health) = self.drive_health(drive.0).await {
                known.health.insert(drive.0.clone(), health);
            }
        }
    }

    /// Asks pools what their volumes hold alone, as of their last checkpoints.
    async fn ask_space(&self, known: &mut Known) {
        let mut unique_bytes = BTreeMap::new();
        for (name, pool) in &known.pools {
            if pool.facts.is_some()
                && let Ok((volumes, _)) = self.node.pool_contents(name.as_str()).await
            {
                let named = volumes.into_iter().filter_map(|volume| {
                    Some((volume.name.parse::<Name>().ok()?, volume.unique_bytes))
                });
                unique_bytes.extend(named);
            }
        }
        known.unique_bytes = Arc::new(unique_bytes);
    }

    /// Everything that is counted, now.
    async fn sample(&self, known: &Known) -> Result<Sample, NodeError> {
        let mut jobs = self.jobs.all();
        jobs.retain(|job| job.state == JobState::Running);
        Ok(Sample {
            time: SystemTime::now(),
            taken: Instant::now().into_std(),
            started: self.started,
            measures: self.node.measure().await?,
            known: known.clone(),
            jobs,
            events: self.events.counts(),
            syslog: self.syslog.counts(),
            graphite: self.figures.pushes.counts(),
            history: self.figures.recorder().counts(),
            log_left_out: logging::left_out(),
            state_written: self.is_state_written(),
            audit_unwritten: self.unwritten.counts(),
        })
    }
}

fn known_of(objects: &Objects) -> Known {
    let volumes = objects.volumes.iter().map(|(name, entry)| {
        let record = &entry.record;
        let volume = KnownVolume {
            nqn: record.nqn.clone(),
            nsid: record.nsid,
            capacity_bytes: record.capacity_bytes,
            online: entry.why_offline(objects).is_none(),
            pool: record.place.pool().cloned(),
            tenant: record.tenant.clone(),
            limits: KnownLimits {
                rates: rates(&record.limits, record.capacity_bytes),
                minimum_iops: record.limits.minimum_iops,
            },
        };
        (name.clone(), volume)
    });
    let pools = objects.pools.iter().map(|(name, entry)| {
        let pool = KnownPool {
            facts: entry.facts.clone().filter(|_| entry.offline.is_none()),
            members: entry.record.members.clone(),
        };
        (name.clone(), pool)
    });
    let tenant_rates = tenant_rates(objects);
    let tenants = objects.tenants.iter().map(|(name, limits)| {
        let known = KnownLimits {
            rates: tenant_rates.get(name).copied().unwrap_or_default(),
            minimum_iops: limits.minimum_iops,
        };
        (name.clone(), known)
    });
    let schedules = objects.schedules.iter().map(|(name, entry)| {
        let schedule = KnownSchedule {
            last: entry.record.last,
            has_problem: entry.problem.is_some(),
        };
        (name.clone(), schedule)
    });
    let drives = objects.drives.iter();
    Known {
        schedules: schedules.collect(),
        tenants: tenants.collect(),
        volumes: volumes.collect(),
        drives: drives
            .map(|(name, entry)| (name.clone(), entry.offline.is_none()))
            .collect(),
        pools: pools.collect(),
        ..Known::default()
    }
}
