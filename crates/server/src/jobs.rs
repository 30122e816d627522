//! [`Jobs`]: what takes long, how far it is, and how it ended.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use api::{Job, JobKind, JobState};

use crate::events::timestamp;

/// How many jobs are kept, running ones not counted.
const KEPT: usize = 256;

/// The latest jobs, oldest first.
#[derive(Debug, Default)]
pub struct Jobs {
    ring: Mutex<Ring>,
}

#[derive(Debug, Default)]
struct Ring {
    jobs: VecDeque<Job>,
    last_id: u64,
}

impl Jobs {
    /// A job that begins now.
    pub fn start(&self, kind: JobKind, object: &str) -> Job {
        let mut ring = self.ring();
        if kind == JobKind::Replicate {
            // One comes every few minutes: the latest of a volume is enough, and others stay.
            let before = |job: &Job| {
                job.kind == kind && job.object == object && job.state != JobState::Running
            };
            ring.jobs.retain(|job| !before(job));
        }
        ring.last_id += 1;
        let job = Job {
            id: ring.last_id,
            kind,
            object: object.to_owned(),
            state: JobState::Running,
            started: timestamp(SystemTime::now()),
            ended: None,
            percent: 0,
            message: None,
        };
        let over = |job: &Job| job.state != JobState::Running;
        if ring.jobs.len() >= KEPT
            && let Some(oldest) = ring.jobs.iter().position(over)
        {
            ring.jobs.remove(oldest);
        }
        ring.jobs.push_back(job.clone());
        job
    }

    /// Says how far a job is.
    pub fn progress(&self, id: u64, done: u64, total: u64) {
        if let Some(job) = self.ring().jobs.iter_mut().find(|job| job.id == id) {
            job.percent = (done.min(total) * 100 / total.max(1)) as u8;
        }
    }

    /// Says how a job ended.
    pub fn finish(&self, id: u64, outcome: Result<String, String>) {
        if let Some(job) = self.ring().jobs.iter_mut().find(|job| job.id == id) {
            job.ended = Some(timestamp(SystemTime::now()));
            match outcome {
                Ok(message) => {
                    job.percent = 100;
                    job.state = JobState::Done;
                    job.message = Some(message);
                }
                Err(message) => {
                    job.state = JobState::Failed;
                    job.message = Some(message);
                }
            }
        }
    }

    /// The job of this kind that runs on `object`.
    pub fn running(&self, kind: JobKind, object: &str) -> Option<u64> {
        let ring = self.ring();
        let found = ring
            .jobs
            .iter()
            .find(|job| job.kind == kind && job.object == object && job.state == JobState::Running);
        found.map(|job| job.id)
    }

    /// Every job that is kept, oldest first.
    pub fn all(&self) -> Vec<Job> {
        self.ring().jobs.iter().cloned().collect()
    }

    /// One job.
    pub fn get(&self, id: u64) -> Option<Job> {
        self.ring().jobs.iter().find(|job| job.id == id).cloned()
    }

    /// The ring is whole between any two statements, so a panic elsewhere does not spoil it.
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_runs_until_it_has_ended() {
        let jobs = Jobs::default();
        let job = jobs.start(JobKind::Scrub, "pool/p");
        assert_eq!(jobs.running(JobKind::Scrub, "pool/p"), Some(job.id));
        assert_eq!(jobs.running(JobKind::Rebuild, "pool/p"), None);
        jobs.progress(job.id, 1, 4);
        assert_eq!(jobs.get(job.id).unwrap().percent, 25);
        jobs.finish(job.id, Err("no".into()));
        let ended = jobs.get(job.id).unwrap();
        assert_eq!((ended.state, ended.percent), (JobState::Failed, 25));
        assert!(ended.ended.is_some() && jobs.running(JobKind::Scrub, "pool/p").is_none());
    }

    #[test]
    fn of_a_replication_the_latest_job_is_kept() {
        let jobs = Jobs::default();
        for object in ["replication/a", "replication/b", "replication/a"] {
            let job = jobs.start(JobKind::Replicate, object);
            jobs.finish(job.id, Ok(String::new()));
        }
        let kept: Vec<u64> = jobs.all().iter().map(|job| job.id).collect();
        assert_eq!(kept, [2, 3]);
    }

    #[test]
    fn running_jobs_are_never_forgotten() {
        let jobs = Jobs::default();
        let first = jobs.start(JobKind::Scrub, "pool/p");
        for _ in 0..KEPT + 9 {
            let job = jobs.start(JobKind::Rebuild, "pool/q");
            jobs.finish(job.id, Ok(String::new()));
        }
        assert_eq!(jobs.all().len(), KEPT);
        assert!(jobs.get(first.id).is_some());
    }
}
