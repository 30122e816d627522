//! Copies of replications that are due: begun by the clock, on threads of their own, a few at once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as BlockingMutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use api::{Caller, JobKind, Name, Role, Severity, TokenSpec};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use uuid::Uuid;

use crate::control::Control;
use crate::control::replications::{named, object};
use crate::endpoints::Endpoints;
use crate::replications::{Copied, Order, Reach, ReplicationRecord, Replicator, Watch, pause};
use crate::tokens::{TokenRecord, hash};

/// As whom a copy asks this node; so the audit log has it.
const CALLER: &str = "replication";

/// Copies that are made at once: each takes some threads, and tens of MiB.
const AT_ONCE: usize = 2;

/// How long a stop waits for copies to take back what they have made.
const STOPS_WITHIN: Duration = Duration::from_secs(5);

/// Nothing is due for so long that it would not be looked at before.
const LOOKS_EVERY: Duration = Duration::from_secs(3600);

/// How replications stand; nothing of it outlives the process.
#[derive(Default)]
pub(in crate::control) struct Replicating {
    runs: BlockingMutex<BTreeMap<Name, Run>>,
    changed: Notify,
    /// How this node is reached, with a token that is not kept, and that token's hash.
    own: OnceLock<(Reach, String)>,
    is_stopping: AtomicBool,
}

#[derive(Default)]
struct Run {
    /// The job that copies now, and what ends it.
    job: Option<(u64, Arc<AtomicBool>)>,
    /// Why the last copy failed.
    problem: Option<String>,
    /// How many failed, one after the other.
    failures: u32,
    /// When the next copy is due; nothing: now, or once the one that is being made has ended.
    next: Option<Instant>,
}

impl Replicating {
    /// The job that copies now, and why the last copy failed.
    pub fn shown(&self, name: &Name) -> (Option<u64>, Option<String>) {
        let runs = self.runs();
        let run = runs.get(name);
        let job = run.and_then(|run| run.job.as_ref()).map(|(job, _)| *job);
        (job, run.and_then(|run| run.problem.clone()))
    }

    /// Has a copy begin as soon as it can, beside the one that is being made.
    pub fn hasten(&self, name: &Name) {
        if let Some(run) = self.runs().get_mut(name) {
            run.next = None;
        }
        self.changed.notify_one();
    }

    /// Ends the copy that is being made, if one is.
    pub fn stop(&self, name: &Name) {
        if let Some((_, stop)) = self.runs().get(name).and_then(|run| run.job.as_ref()) {
            stop.store(true, Ordering::Relaxed);
        }
        self.changed.notify_one();
    }

    /// Who asks with a secret of this hash, if that is a copy.
    pub fn admits(&self, hash: &str) -> Option<Caller> {
        let (_, own) = self.own.get()?;
        let caller = Caller {
            name: CALLER.parse().ok()?,
            role: Role::Operator,
            tenant: None,
        };
        (own == hash).then_some(caller)
    }

    fn is_running(&self) -> bool {
        self.runs().values().any(|run| run.job.is_some())
    }

    /// The map is whole between any two statements.
    fn runs(&self) -> MutexGuard<'_, BTreeMap<Name, Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Control {
    /// Lets copies be made, now that this node is reached there.
    pub fn replicate_from(&self, endpoints: &Endpoints) {
        let spec = TokenSpec {
            role: Role::Operator,
            tenant: None,
            expires: None,
        };
        match TokenRecord::new(&spec, SystemTime::now()) {
            Ok((_, token)) => {
                let hash = hash(token.reveal());
                let reach = Reach {
                    url: endpoints.api.clone(),
                    certificate: endpoints.certificate.clone(),
                    token,
                };
                // The node listens once in its life.
                let _ = self.replicating.own.set((reach, hash));
                self.replicating.changed.notify_one();
            }
            Err(error) => {
                self.events
                    .record(Severity::Error, "node", &format!("no replication: {error}"))
            }
        }
    }

    /// Makes copies when it is time, until the node stops.
    pub async fn replicate(self: Arc<Self>, replicator: Replicator) {
        while self.replicating.own.get().is_none() {
            self.replicating.changed.notified().await;
        }
        loop {
            let wait = self.begin_due(replicator);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.replicating.changed.notified() => {}
            }
        }
    }

    /// Has copies that are being made take back what they have made, and begins none.
    pub async fn stop_replicating(&self, timeout: Duration) {
        self.replicating.is_stopping.store(true, Ordering::Relaxed);
        for run in self.replicating.runs().values() {
            if let Some((_, stop)) = &run.job {
                stop.store(true, Ordering::Relaxed);
            }
        }
        let ended = async {
            while self.replicating.is_running() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        // What they leave is deleted by the first copy after the next start.
        let _ = tokio::time::timeout(timeout.min(STOPS_WITHIN), ended).await;
    }

    /// Begins what is due, the longest due first; how long until something else is.
    fn begin_due(self: &Arc<Self>, replicator: Replicator) -> Duration {
        let objects = self.objects.seen();
        let now = Instant::now();
        let mut runs = self.replicating.runs();
        runs.retain(|name, run| run.job.is_some() || objects.replications.contains_key(name));
        let mut wait = LOOKS_EVERY;
        let mut due = Vec::new();
        for (name, record) in objects.replications.iter() {
            let run = runs.entry(name.clone()).or_default();
            match run.next {
                _ if run.job.is_some() => {}
                Some(next) if next > now => wait = wait.min(next - now),
                next => due.push((next, name, record)),
            }
        }
        due.sort_by_key(|(next, ..)| *next);
        let running = runs.values().filter(|run| run.job.is_some()).count();
        let stopping = self.replicating.is_stopping.load(Ordering::Relaxed);
        // One that ends makes room, and has this looked at again.
        let room = if stopping {
            0
        } else {
            AT_ONCE.saturating_sub(running)
        };
        for (_, name, record) in due.into_iter().take(room) {
            let job = self.jobs.start(JobKind::Replicate, &object(name)).id;
            let stop = Arc::<AtomicBool>::default();
            if let Some(run) = runs.get_mut(name) {
                run.job = Some((job, Arc::clone(&stop)));
                run.next = Some(now + Duration::from_secs(record.spec.every_seconds.into()));
            }
            let watch = self.watch((name, record.volume), job, stop);
            let copying = Arc::clone(self).copy(name.clone(), record.clone(), watch, replicator);
            drop(tokio::spawn(copying));
        }
        wait
    }

    /// Makes one copy, and says what became of it.
    async fn copy(
        self: Arc<Self>,
        name: Name,
        record: ReplicationRecord,
        watch: Watch,
        replicator: Replicator,
    ) {
        let volume = record.volume;
        let outcome = match self.order(record) {
            Ok(order) => carried_out(replicator, order, watch.clone()).await,
            Err(problem) => Err(problem),
        };
        let outcome = match outcome {
            Ok(copied) => self.note_copied((&name, volume), copied).await,
            Err(problem) => Err(problem),
        };
        self.ended(&name, outcome.err(), watch.is_stopped());
        self.replicating.changed.notify_one();
    }

    fn ended(&self, name: &Name, problem: Option<String>, stopped: bool) {
        let mut runs = self.replicating.runs();
        let Some(run) = runs.get_mut(name) else {
            return;
        };
        if let Some((job, _)) = run.job.take() {
            let done = "the replica is up to date".to_owned();
            self.jobs.finish(job, problem.clone().map_or(Ok(done), Err));
        }
        if stopped {
            return;
        }
        match &problem {
            Some(problem) => {
                run.failures = run.failures.saturating_add(1);
                // A change while it was made is not kept waiting.
                if let Some(next) = &mut run.next {
                    *next = Instant::now() + pause(run.failures);
                }
                if run.problem.as_ref() != Some(problem) {
                    self.tell_replication(Severity::Warning, name, problem);
                }
            }
            None => {
                run.failures = 0;
                if run.problem.is_some() {
                    self.tell_replication(Severity::Info, name, "goes on");
                }
            }
        }
        run.problem = problem;
    }

    fn order(&self, record: ReplicationRecord) -> Result<Order, String> {
        let objects = self.objects.seen();
        let volume = named(&objects, record.volume);
        let volume =
            volume.ok_or_else(|| format!("volume {} is not on this node", record.spec.volume))?;
        let own = self.replicating.own.get();
        let token = record.spec.token.clone();
        // Both are there: the one before any copy begins, the other in each record.
        let (Some((own, _)), Some(token)) = (own, token) else {
            return Err("a token is missing".to_owned());
        };
        Ok(Order {
            own: own.clone(),
            target: Reach {
                url: record.spec.to.clone(),
                certificate: record.spec.certificate.clone(),
                token,
            },
            volume,
            record,
        })
    }

    fn watch(
        self: &Arc<Self>,
        (name, volume): (&Name, Uuid),
        job: u64,
        stop: Arc<AtomicBool>,
    ) -> Watch {
        let jobs = Arc::clone(&self.jobs);
        let (control, name, runtime) = (Arc::clone(self), name.clone(), Handle::current());
        Watch {
            stop,
            at: Arc::new(move |share| jobs.progress(job, (share * 1000.0) as u64, 1000)),
            note: Arc::new(move |snapshots: &[Name]| {
                runtime.block_on(control.note_snapshots((&name, volume), snapshots))
            }),
        }
    }
}

/// Makes a copy on a thread of its own.
async fn carried_out(replicator: Replicator, order: Order, watch: Watch) -> Result<Copied, String> {
    let (tell, told) = oneshot::channel();
    let thread = std::thread::Builder::new().name("replication".to_owned());
    let copying = move || {
        // Nobody wants to know in a node that stops.
        let _ = tell.send(replicator(&order, &watch));
    };
    let begun = thread.spawn(copying);
    begun.map_err(|error| format!("starting a thread: {error}"))?;
    let broken = |_| Err("it ended by a fault of its own, which the log has".to_owned());
    told.await.unwrap_or_else(broken)
}
