//! [`Control`]: every change to a node goes through here, one at a time.
//!
//! A change is checked, done on the data path, made durable in the state, and only then answered;
//! a change that cannot be remembered is undone. What is shown comes from memory.
//!
//! Each noun has a folder: drives, pools, volumes, hosts, replications, tenants, and the node
//! itself as operators see it. What several of them say is in `words`.

mod catalogue;
mod drives;
mod hosts;
mod operating;
mod pools;
mod replications;
mod tenants;
mod volumes;
mod words;

use std::collections::BTreeMap;
use std::io;
use std::mem::take;
use std::path::Path;
use std::sync::{Arc, Mutex as BlockingMutex, PoisonError};
use std::time::{Duration, SystemTime};

use api::{
    Caller, ErrorBody, ErrorCode, Grant, HostKeySpec, HostSpec, Limits, Name, Severity, TlsKeySpec,
};
use node::{AnaGroupId, DriveFacts, Node, NodeError, NodeEvent, NodeSpec, RulesKeeper, Unkept};
use serde::Serialize;

use self::catalogue::{Catalogue, Shared};
use self::drives::administrators::change_in_words;
use self::hosts::events::HostEvents;
use self::hosts::refused::Refused;
use self::operating::audit::Unwritten;
pub use self::operating::ports::Reached;
use self::operating::ports::{self, Ports};
pub use self::operating::problems::Means;
use self::operating::problems::Problems;
use self::operating::settings::Settings;
use self::pools::{Looks, PoolEntry, Usages, events as pool_events};
use self::replications::replicating::Replicating;
use self::tenants::limits::Quality;
use self::volumes::schedules::ScheduleEntry;
pub use self::words::not_found;
use crate::config::Config;
use crate::events::Events;
use crate::jobs::Jobs;
use crate::logging::SetLogLevel;
use crate::metrics::Figures;
use crate::replications::ReplicationRecord;
use crate::rules;
use crate::state::{
    DriveRecord, Identity, Kind, PoolRecord, Remembered, State, StateError, VolumeRecord,
};
use crate::syslog::{Queue, Syslog};
use crate::tokens::TokenRecord;

/// A running node with everything it remembers.
pub struct Control {
    identity: Identity,
    started: SystemTime,
    cores: Vec<u32>,
    node: Node,
    state: Arc<State>,
    events: Arc<Events>,
    faults: Arc<Faults>,
    jobs: Arc<Jobs>,
    figures: Figures,
    quality: Quality,
    syslog: Arc<Syslog>,
    /// Until somebody delivers from it.
    syslog_queue: BlockingMutex<Option<Queue>>,
    objects: Catalogue<Objects>,
    usages: Usages,
    looks: Looks,
    settings: Settings,
    ports: Ports,
    tokens: Catalogue<BTreeMap<Name, TokenRecord>>,
    problems: Problems,
    refused: Arc<Refused>,
    unwritten: Arc<Unwritten>,
    replicating: Replicating,
}

/// Everything that exists, working or not.
#[derive(Clone, Default)]
struct Objects {
    drives: Shared<DriveEntry>,
    volumes: Shared<VolumeEntry>,
    pools: Shared<PoolEntry>,
    hosts: Shared<HostSpec>,
    host_keys: Shared<HostKeySpec>,
    tls_keys: Shared<TlsKeySpec>,
    /// Of tenants that have some.
    tenants: Shared<Limits>,
    /// Of tenants that have some, by pool.
    grants: Shared<BTreeMap<Name, Grant>>,
    schedules: Shared<ScheduleEntry>,
    replications: Shared<ReplicationRecord>,
}

impl Objects {
    /// A volume that a caller may know of.
    fn volume_for(&self, caller: &Caller, name: &Name) -> Option<&VolumeEntry> {
        let entry = self.volumes.get(name);
        entry.filter(|entry| caller.sees(entry.record.tenant.as_ref()))
    }

    /// ANA group of a volume: of the pool that holds it, be that open or not.
    fn group_of(&self, record: &VolumeRecord) -> AnaGroupId {
        let pool = record.place.pool().and_then(|pool| self.pools.get(pool));
        pool.map_or(AnaGroupId::POOLLESS, |pool| pool.record.group())
    }
}

#[derive(Clone)]
struct DriveEntry {
    record: DriveRecord,
    /// Why the drive is not open.
    offline: Option<String>,
}

#[derive(Clone)]
struct VolumeEntry {
    record: VolumeRecord,
    /// Why hosts cannot use the volume.
    offline: Option<String>,
    /// What its pool keeps about it cannot be read: the record has no identity, and nothing is
    /// written over what is there.
    unread: bool,
}

impl VolumeEntry {
    fn new(record: VolumeRecord, offline: Option<String>) -> VolumeEntry {
        VolumeEntry {
            record,
            offline,
            unread: false,
        }
    }

    /// Why hosts cannot use it: it is not served, or its pool went offline while it was open.
    fn why_offline(&self, objects: &Objects) -> Option<String> {
        let of_pool = || {
            let pool = self.record.place.pool()?;
            let reason = objects.pools.get(pool)?.why_offline()?;
            Some(format!("pool {pool} is offline: {reason}"))
        };
        self.offline.clone().or_else(of_pool)
    }
}

/// The latest failure of each drive that failed since the node started, and what became of drives
/// that hosts administer.
#[derive(Default)]
struct Faults {
    by_drive: BlockingMutex<BTreeMap<String, String>>,
    resized: BlockingMutex<BTreeMap<String, DriveFacts>>,
}

impl Control {
    /// Starts the data path and brings back everything remembered. What cannot come back is
    /// offline, with an event; only the data path itself or the state can fail the start. Hosts
    /// cannot connect before [`Control::listen`].
    pub async fn start(config: &Config, set_log_level: SetLogLevel) -> Result<Control, StartError> {
        let started = SystemTime::now();
        let state = Arc::new(config.open_state()?);
        let configured = config.node.name.clone();
        let identity = state.identity(|| configured.clone().unwrap_or_else(host_name))?;
        let (syslog, queue) = Syslog::new();
        let syslog = Arc::new(syslog);
        let events = Arc::new(Events::new(Arc::clone(&syslog)));
        if let Some(other) = configured.filter(|name| *name != identity.name) {
            tell_of_other_name(&events, &identity.name, &other);
        }
        let mut remembered = state.load()?;
        let existing = remembered.all_volumes();
        let existing = existing.map(|volume| (volume.nqn.as_str(), volume.nsid));
        rules::forget_others(&state, existing)?;
        let faults = Arc::new(Faults::default());
        let jobs = Arc::new(Jobs::default());
        let refused = Arc::new(Refused::default());
        let hosts = HostEvents::new(Arc::clone(&events), Arc::clone(&refused));
        let sink = event_sink(hosts, (&events, &faults, &jobs));
        let ports = Ports::new(config, state.paths()?);
        let node = Node::start(node_spec(config, &identity, &ports), sink).await?;
        let objects = remembered_objects(&mut remembered);
        let cores = config.node.cores.iter().map(|core| u32::from(*core));
        let objects = Catalogue::new(objects);
        let settings = Settings::new(config, state.settings()?, set_log_level);
        let control = Control {
            identity,
            started,
            cores: cores.collect(),
            node,
            state,
            events,
            faults,
            jobs,
            figures: Figures::recorded_in(&config.state_directory)?,
            quality: Quality::default(),
            syslog,
            syslog_queue: BlockingMutex::new(Some(queue)),
            objects,
            usages: Usages::default(),
            looks: Looks::default(),
            settings,
            ports,
            tokens: Catalogue::new(remembered.tokens),
            problems: Problems::default(),
            refused,
            unwritten: Arc::default(),
            replicating: Replicating::default(),
        };
        control.look_at_state();
        control.tell_if_begun_anew(&config.state_directory);
        let keeper = keeper(Arc::clone(&control.state));
        control.node.keep_rules(keeper).await?;
        let keys = (remembered.host_keys, remembered.tls_keys);
        control.restore_hosts(keys).await?;
        control.make_first_token(&config.state_directory).await?;
        control.take_admin_reset(&config.state_directory).await;
        control.restore_drives(remembered.drives).await;
        control.restore_volumes(remembered.volumes).await;
        let wait = Duration::from_secs(config.pools.drive_wait_seconds.into());
        control.restore_pools(remembered.pools, wait).await;
        control.restore_paths().await?;
        control.restore_all_administrators().await;
        Ok(control)
    }

    /// Lets hosts connect, now that every volume is there that they may ask for.
    pub async fn listen(&self) -> Result<(), StartError> {
        Ok(self.node.listen().await?)
    }

    /// The node underneath.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The node's name.
    pub fn name(&self) -> &Name {
        &self.identity.name
    }

    /// Sends events and audit lines to the syslog receiver, if there is one, until the node stops.
    pub async fn deliver_syslog(&self) {
        let queue = self.syslog_queue.lock();
        let queue = queue.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(queue) = queue {
            let settings = self.watch_settings();
            let tell = |said: &str| self.events.record(Severity::Warning, "node", said);
            self.syslog
                .deliver(self.name().as_str(), queue, settings, tell)
                .await;
        }
    }

    /// What happened.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Makes `record` durable.
    async fn remember(
        &self,
        kind: Kind,
        name: &Name,
        record: impl Serialize + Send + 'static,
    ) -> Result<(), ErrorBody> {
        let name = name.clone();
        self.with_state(move |state| state.put(kind, &name, &record))
            .await
    }

    /// Makes `records` durable, all or none.
    async fn remember_all(
        &self,
        kind: Kind,
        records: Vec<(Name, impl Serialize + Send + 'static)>,
    ) -> Result<(), ErrorBody> {
        self.with_state(move |state| {
            state.put_all(kind, records.iter().map(|(name, record)| (name, record)))
        })
        .await
    }

    /// Makes a pool durable, of whose volumes the state has those of `before`, if that is known.
    async fn remember_pool(
        &self,
        name: &Name,
        before: Option<PoolRecord>,
        now: &PoolRecord,
    ) -> Result<(), ErrorBody> {
        let (name, now) = (name.clone(), now.clone());
        self.with_state(move |state| state.put_pool(&name, before.as_ref(), &now))
            .await
    }

    /// Makes it durable that a pool and its volumes are gone.
    async fn forget_pool(&self, name: &Name) -> Result<(), ErrorBody> {
        let name = name.clone();
        self.with_state(move |state| state.remove_pool(&name)).await
    }

    /// Makes it durable that `name` is gone.
    async fn forget(&self, kind: Kind, name: &Name) -> Result<(), ErrorBody> {
        let name = name.clone();
        self.with_state(move |state| state.remove(kind, &name))
            .await
    }

    async fn with_state(
        &self,
        change: impl FnOnce(&State) -> Result<(), StateError> + Send + 'static,
    ) -> Result<(), ErrorBody> {
        if let Some(silence) = self.state.silence() {
            return Err(self.state_failed(silence));
        }
        let state = Arc::clone(&self.state);
        let done = tokio::task::spawn_blocking(move || change(&state)).await;
        self.look_at_state();
        match done {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.state_failed(&error.to_string())),
            Err(panicked) => Err(self.state_failed(&panicked.to_string())),
        }
    }

    /// Reads what the state says. The disk may take long.
    async fn read_state<T: Send + 'static>(
        &self,
        read: impl FnOnce(&State) -> Result<T, StateError> + Send + 'static,
    ) -> Result<T, String> {
        let state = Arc::clone(&self.state);
        let done = tokio::task::spawn_blocking(move || read(&state)).await;
        let done = done.map_err(|panicked| panicked.to_string())?;
        done.map_err(|error| error.to_string())
    }

    fn state_failed(&self, problem: &str) -> ErrorBody {
        let message = format!("the change could not be remembered and was undone: {problem}");
        // That no change can be is told once.
        if self.is_state_written() {
            self.events.record(Severity::Error, "node", &message);
        }
        ErrorBody::new(ErrorCode::Internal, message)
    }
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The state cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// What a host has to prove cannot be used.
    #[error("the {kind} of host {host}: {reason}")]
    Credential {
        /// Which of its credentials.
        kind: &'static str,
        /// The host.
        host: Name,
        /// What is wrong with it.
        reason: String,
    },
    /// The data path cannot run.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// There is no thread for the history of figures.
    #[error("starting a thread: {0}")]
    Thread(#[from] io::Error),
    /// The first token cannot be made.
    #[error("making the admin's token: {0}")]
    Token(String),
}

impl StartError {
    fn token(problem: impl std::fmt::Display) -> StartError {
        StartError::Token(problem.to_string())
    }
}

/// What is there whether or not drives are.
fn remembered_objects(remembered: &mut Remembered) -> Objects {
    Objects {
        hosts: take(&mut remembered.hosts).into(),
        tenants: take(&mut remembered.tenants).into(),
        grants: take(&mut remembered.grants).into(),
        schedules: volumes::schedules::restored(take(&mut remembered.schedules)).into(),
        replications: take(&mut remembered.replications).into(),
        ..Objects::default()
    }
}

fn node_spec(config: &Config, identity: &Identity, ports: &Ports) -> NodeSpec {
    let cores = match config.node.cores.as_slice() {
        [] => vec![None],
        cores => cores.iter().map(|core| Some(usize::from(*core))).collect(),
    };
    NodeSpec {
        uuid: identity.uuid,
        cores,
        ports: ports.specs(),
        map_cache_bytes: (config.pools.map_cache_mib as usize) << 20,
        controller_ids: config.nvme.controller_ids,
    }
}

/// Has rules of pools' volumes kept on the pools, and of others in the state.
fn keeper(state: Arc<State>) -> RulesKeeper {
    let looked_at = Arc::clone(&state);
    RulesKeeper {
        answers: Arc::new(move || match looked_at.silence() {
            None => Ok(()),
            Some(silence) => Err(Unkept::Failed(silence.to_owned())),
        }),
        on_node: Arc::new(move |nqn, nsid, kept| rules::keep(&state, nqn, nsid, kept)),
        in_pool: volumes::kept::with_rules,
    }
}

fn tell_of_other_name(events: &Events, name: &Name, configured: &Name) {
    let message = format!(
        "settings name the node {configured}, its volumes know it as {name}: the first name stays"
    );
    events.record(Severity::Warning, "node", &message);
}

fn event_sink(
    hosts: HostEvents,
    (events, faults, jobs): (&Arc<Events>, &Arc<Faults>, &Arc<Jobs>),
) -> node::EventSink {
    let (events, faults, jobs) = (Arc::clone(events), Arc::clone(faults), Arc::clone(jobs));
    Arc::new(move |event| match event {
        NodeEvent::Port { index, fault } => ports::tell(&events, index, fault),
        NodeEvent::DriveFailed {
            drive,
            error,
            failures,
        } => {
            let message = failures_in_words(failures, error);
            events.record(Severity::Error, &format!("drive/{drive}"), &message);
            faults.note(drive, message);
        }
        NodeEvent::Pool { pool, drive, event } => {
            pool_events::tell(&events, &jobs, &pool, drive.as_deref(), &event);
        }
        NodeEvent::PoolFailed { pool, fault } => pool_events::failed(&events, &jobs, &pool, &fault),
        NodeEvent::DriveLate {
            drive,
            late,
            completed,
        } => {
            let message = lateness_in_words(late, completed);
            events.record(Severity::Warning, &format!("drive/{drive}"), &message);
        }
        NodeEvent::NamespacesChanged {
            drive,
            facts,
            host,
            change,
            nsid,
        } => {
            let message = format!("{host} {}", change_in_words(change, nsid));
            events.record(Severity::Info, &format!("drive/{drive}"), &message);
            faults.note_resized(drive, facts);
        }
        NodeEvent::HostConnected {
            host,
            host_id,
            address,
            subsystem,
        } => hosts.connected(&host, host_id, address, &subsystem),
        NodeEvent::HostDisconnected {
            host,
            subsystem,
            reason,
        } => hosts.disconnected(&host, &subsystem, reason),
        NodeEvent::HostRefused {
            host,
            address,
            subsystem,
            served,
            reason,
            times,
        } => {
            let (host, subsystem) = (host.as_deref(), subsystem.as_deref());
            hosts.befell(served, (host, address), subsystem, (reason, times));
        }
        NodeEvent::ProtectionChanged {
            host,
            subsystem,
            nsid,
            protected,
        } => hosts.protection_changed(&host, &subsystem, nsid, protected),
    })
}

fn lateness_in_words(late: u64, completed: u64) -> String {
    format!(
        "{late} of {completed} requests took a tenth longer than the drive would, or more: this \
         machine is too slow for it without more dilation"
    )
}

fn failures_in_words(failures: u64, error: impl std::fmt::Display) -> String {
    match failures {
        1 => format!("I/O failed once with: {error}"),
        _ => format!("I/O failed {failures} times, the last time with: {error}"),
    }
}

impl Faults {
    fn note(&self, drive: String, message: String) {
        self.map().insert(drive, message);
    }

    fn of(&self, drive: &Name) -> Option<String> {
        self.map().get(drive.as_str()).cloned()
    }

    fn clear(&self, drive: &Name) {
        self.map().remove(drive.as_str());
    }

    fn note_resized(&self, drive: String, facts: DriveFacts) {
        let mut resized = self.resized.lock().unwrap_or_else(PoisonError::into_inner);
        resized.insert(drive, facts);
    }

    fn take_resized(&self) -> BTreeMap<String, DriveFacts> {
        let mut resized = self.resized.lock().unwrap_or_else(PoisonError::into_inner);
        take(&mut resized)
    }

    fn map(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.by_drive.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The machine's host name, made a [`Name`]: `DB-7.example` becomes `db-7.example`.
fn host_name() -> Name {
    let system = rustix::system::uname();
    let name: String = system
        .nodename()
        .to_string_lossy()
        .to_ascii_lowercase()
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '-'
            }
        })
        .skip_while(|c| !c.is_ascii_alphanumeric())
        .take(63)
        .collect();
    let name = if name.is_empty() {
        "node".to_owned()
    } else {
        name
    };
    name.parse()
        .expect("only allowed characters are left, and at least one")
}

/// A file's path as people gave it must not depend on where the node runs.
fn is_absolute(path: &str) -> bool {
    Path::new(path).is_absolute()
}
