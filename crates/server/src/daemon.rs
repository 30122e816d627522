//! The daemon's life: start, say where it serves, wait for a signal, stop cleanly.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::{ErrorBody, PortTransport, Severity};
use node::Asker;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::config::{Config, Protocol};
use crate::control::{Control, Reached, StartError};
use crate::develop::{Develop, UndoError};
use crate::endpoints::{Endpoints, from_here};
use crate::http::{Front, Rest, Tls, TlsError};
use crate::interfaces;
use crate::listening::Listening;
use crate::locked_memory::LockedMemory;
use crate::logging;
use crate::logging::SetLogLevel;
use crate::notify;
use crate::open_files;
use crate::replications::Replicator;
use crate::routes;

/// How far the control plane stands behind the data path: a tenth of a processor is its own where
/// others want all of it.
const CONTROL_NICENESS: i32 = 10;

/// The same where the data path has every processor to itself: a seventieth.
const CONTROL_NICENESS_WITHOUT_PROCESSOR: i32 = 19;

/// Threads that wait for the disk for the control plane: changes come one at a time, and reading
/// the audit log is the rest of it.
const WAITING_THREADS: usize = 4;

/// How long the end of the process waits for threads that wait for the disk.
const LEAVING: Duration = Duration::from_secs(2);

/// Why the daemon ended other than by a clean stop.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// The node does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The REST API cannot listen.
    #[error("REST API at {address}: {source}")]
    Listen {
        /// Where it should.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// HTTPS cannot be served.
    #[error("certificate of the REST API: {0}")]
    Certificate(#[from] TlsError),
    /// The development drives or volume cannot be made.
    #[error("making the development drives: {0}")]
    Populate(#[from] ErrorBody),
    /// What an unfinished first start made cannot be undone.
    #[error("undoing a first start that was not finished: {0}")]
    Undo(#[from] UndoError),
    /// The system refuses something a daemon cannot do without.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The clean stop did not end in time or not well.
    #[error("stopping: {0}")]
    Stop(String),
}

/// Runs a node until SIGTERM or SIGINT; `replicator` makes its copies on other nodes, `announce` is
/// called once everything listens.
pub fn run(
    config: &Config,
    set_log_level: SetLogLevel,
    develop: Option<&Develop>,
    replicator: Replicator,
    announce: impl FnOnce(&Started),
) -> Result<(), DaemonError> {
    abort_on_data_path_panic();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(WAITING_THREADS)
        .build()
        .map_err(system("starting the control plane"))?;
    let ended = runtime.block_on(serve(config, set_log_level, develop, replicator, announce));
    // What still waits for a disk or a name server must not keep a node that has stopped.
    runtime.shutdown_timeout(LEAVING);
    logging::flush();
    ended
}

/// A panic on a core takes its connections and volumes with it: the process ends, and whoever
/// started it starts it again, rather than limp on. A panic in a pool ends that pool alone. A panic
/// elsewhere fails one request.
fn abort_on_data_path_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if node::in_scope() {
            // The core goes on, so nothing may keep it: not even an unread standard error.
            tracing::error!("in a pool: {}", panic.to_string().replace('\n', " "));
            return;
        }
        let thread = std::thread::current();
        let name = thread.name().unwrap_or_default();
        let on_data_path = name.starts_with(node::CORE_THREAD_NAME);
        if on_data_path {
            // A standard error that nobody reads must not keep the process.
            let in_time = std::thread::Builder::new().spawn(|| {
                std::thread::sleep(LEAVING);
                std::process::abort();
            });
            drop(in_time);
        }
        report(panic);
        if on_data_path {
            logging::flush();
            std::process::abort();
        }
    }));
}

/// Requests to the API do not take processor time from the data path's threads, which are there
/// already: this thread, and those it starts from now on, come after them, and run on other
/// processors than theirs where there are any.
fn yield_to_the_data_path(cores: &[u16]) {
    let mut left = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    for core in cores {
        left.unset(usize::from(*core));
    }
    let niceness = match left.count() {
        0 => CONTROL_NICENESS_WITHOUT_PROCESSOR,
        _ => CONTROL_NICENESS,
    };
    if let Err(error) = rustix::process::setpriority_process(None, niceness) {
        tracing::warn!("the control plane runs at the data path's priority: {error}");
    }
    if left.count() > 0
        && let Err(error) = sched_setaffinity(None, &left)
    {
        tracing::warn!("the control plane runs on the data path's processors: {error}");
    }
}

/// A node that has started, as it is announced.
pub struct Started {
    /// Where programs on this machine reach it.
    pub endpoints: Endpoints,
    /// Where others reach the REST API.
    pub api: Vec<String>,
    /// Why they do not yet.
    pub api_problem: Option<String>,
    /// Where others reach NVMe/TCP.
    pub nvme: Vec<Reached>,
    /// What it serves.
    pub volumes: Vec<api::Volume>,
}

async fn serve(
    config: &Config,
    set_log_level: SetLogLevel,
    develop: Option<&Develop>,
    replicator: Replicator,
    announce: impl FnOnce(&Started),
) -> Result<(), DaemonError> {
    let mut signals = Signals::new().map_err(system("waiting for signals"))?;
    let address = config.api.listen.get_ref().0;
    let listening = Listening::start(address, &config.state_directory)
        .await
        .map_err(|source| DaemonError::Listen { address, source })?;
    let undone = develop.map_or(Ok(false), Develop::undo_unfinished)?;
    let control = Arc::new(Control::start(config, set_log_level).await?);
    warn_of_few_files(config, &control);
    tell_of_locked_memory(config, &control);
    tell_if_undone(undone, &control);
    if let Some(develop) = develop {
        develop.populate(&control).await?;
    }
    control.listen().await?;
    yield_to_the_data_path(&config.node.cores);
    tell_others(&control);
    work_by_itself(&control, replicator);
    let announcements = Announcements::begin(config, &control);
    let (scheme, tls) = security(config)?;
    let address = listening.address();
    let nvme = control.node().addresses().to_vec();
    let certificate = tls.as_ref().map(|tls| tls.fingerprint.clone());
    let endpoints = move |api| Endpoints::here(scheme, api, certificate.clone(), &nvme);
    let started = Started {
        endpoints: endpoints(address),
        api: reached_at(scheme, address),
        api_problem: listening.problem(),
        nvme: control.reached(&Asker::here(), None),
        volumes: control.volumes().await,
    };
    if started.api_problem.is_some() {
        // Better none than one of a process that has ended.
        Endpoints::remove(&config.state_directory);
    }
    let (listens, listening_at) = oneshot::channel();
    let rest = Rest::start(
        listener(listening, Arc::clone(&control), listens),
        Front::new(Arc::clone(&control), routes::router(Arc::clone(&control))),
        tls.map(|tls| tls.acceptor),
    );
    let directory = config.state_directory.clone();
    let retrying = retry(Arc::clone(&control), directory, listening_at, endpoints);
    let retrying = tokio::spawn(retrying);
    control.events().record(Severity::Info, "node", "serving");
    announce(&started);
    notify::ready();

    let name = signals.next().await;
    control
        .events()
        .record(Severity::Info, "node", &format!("stopping on {name}"));
    notify::stopping();
    let seconds = control.settings().shutdown_timeout_seconds;
    let timeout = Duration::from_secs(u64::from(seconds));
    tokio::select! {
        stopped = stop(rest, &control, announcements, timeout) => {
            retrying.abort();
            Endpoints::remove(&config.state_directory);
            stopped
        }
        name = signals.next() => Err(DaemonError::Stop(format!("cut short by a second {name}"))),
    }
}

/// The listener of the REST API, as soon as there is one; `listens` is told where.
async fn listener(
    listening: Listening,
    control: Arc<Control>,
    listens: oneshot::Sender<SocketAddr>,
) -> TcpListener {
    let before = listening.address();
    let listener = listening.listener(&control).await;
    // Nobody wants to know in a node that stops.
    let _ = listens.send(listener.local_addr().unwrap_or(before));
    listener
}

/// Tells in the state directory where the node is reached, once it is, and tries again whatever
/// cannot be written, until the node stops.
async fn retry(
    control: Arc<Control>,
    directory: PathBuf,
    listening_at: oneshot::Receiver<SocketAddr>,
    endpoints: impl Fn(SocketAddr) -> Endpoints,
) {
    let tell = async {
        if let Ok(address) = listening_at.await {
            let endpoints = endpoints(address);
            control.replicate_from(&endpoints);
            control.tell_endpoints(&directory, &endpoints).await;
        }
    };
    tokio::join!(tell, control.retry(&directory), control.watch_state());
}

fn tell_if_undone(undone: bool, control: &Control) {
    if undone {
        let message = "a first start that was not finished has been undone";
        control.events().record(Severity::Warning, "node", message);
    }
}

/// How the REST API is spoken to.
fn security(config: &Config) -> Result<(&'static str, Option<Tls>), TlsError> {
    if config.api.protocol == Protocol::Http {
        return Ok(("http", None));
    }
    let given = config.api.certificate_files();
    let tls = Tls::open(given.as_ref(), &config.state_directory)?;
    Ok(("https", Some(tls)))
}

/// The addresses of the REST API: all that this machine has, if it listens everywhere. IPv6
/// everywhere takes IPv4 too.
fn reached_at(scheme: &str, bound: SocketAddr) -> Vec<String> {
    let url = |address: SocketAddr| format!("{scheme}://{address}");
    if !bound.ip().is_unspecified() {
        return vec![url(bound)];
    }
    let mut all = interfaces::global_addresses_or_none();
    all.retain(|ip| bound.is_ipv6() || ip.is_ipv4());
    if all.is_empty() {
        return vec![url(from_here(bound))];
    }
    let at = |ip| url(SocketAddr::new(ip, bound.port()));
    all.into_iter().map(at).collect()
}

/// Raises the limit of open files as far as it goes, and says it where that is not far enough.
fn warn_of_few_files(config: &Config, control: &Control) {
    if let Some(problem) = open_files::raise(config.node.cores.len().max(1) as u64) {
        control.events().record(Severity::Warning, "node", &problem);
    }
}

/// Says how much memory RDMA locks, where a port needs it; too little of it is an event.
fn tell_of_locked_memory(config: &Config, control: &Control) {
    let mut ports = config.nvme.ports.iter();
    if !ports.any(|port| port.transport == PortTransport::Rdma) {
        return;
    }
    let locked = LockedMemory::of_this_process();
    tracing::info!("{locked}");
    if locked.is_too_little() {
        let said = format!("hosts over RDMA will be refused: {locked}");
        control.events().record(Severity::Warning, "node", &said);
    }
}

/// Does what a node does unasked, until it stops.
fn work_by_itself(control: &Arc<Control>, replicator: Replicator) {
    drop(tokio::spawn(Arc::clone(control).wait_for_drives()));
    drop(tokio::spawn(Arc::clone(control).scrub_on_schedule()));
    drop(tokio::spawn(Arc::clone(control).take_on_schedule()));
    drop(tokio::spawn(Arc::clone(control).replicate(replicator)));
}

/// Gathers figures, records them, and sends what the settings ask for to where they say.
fn tell_others(control: &Arc<Control>) {
    drop(tokio::spawn(Arc::clone(control).gather_figures()));
    drop(tokio::spawn(Arc::clone(control).record_figures()));
    drop(tokio::spawn(Arc::clone(control).push_figures()));
    let control = Arc::clone(control);
    drop(tokio::spawn(async move { control.deliver_syslog().await }));
}

/// What is announced to hosts, until it is ended; nothing where the settings do not ask for it.
struct Announcements {
    stopping: oneshot::Sender<()>,
    task: Option<JoinHandle<()>>,
}

impl Announcements {
    fn begin(config: &Config, control: &Arc<Control>) -> Announcements {
        let (stopping, ends) = oneshot::channel();
        let announce = || tokio::spawn(Arc::clone(control).announce(ends));
        Announcements {
            stopping,
            task: config.nvme.mdns.then(announce),
        }
    }

    async fn end(self) {
        drop(self.stopping);
        if let Some(task) = self.task {
            // What it was to tell has been told, or cannot be.
            let _ = task.await;
        }
    }
}

/// Stops taking requests, then the data path: everything acknowledged is on the drives after it.
async fn stop(
    rest: Rest,
    control: &Control,
    announcements: Announcements,
    timeout: Duration,
) -> Result<(), DaemonError> {
    announcements.end().await;
    control.stop_replicating(timeout).await;
    rest.stop(timeout).await;
    control
        .node()
        .shutdown(timeout)
        .await
        .map_err(|error| DaemonError::Stop(error.to_string()))?;
    // A disk that hangs must not keep a node that has stopped.
    let _ = tokio::time::timeout(LEAVING, control.leave_audit()).await;
    tracing::info!("stopped");
    Ok(())
}

fn system(doing: &'static str) -> impl Fn(io::Error) -> DaemonError {
    move |source| DaemonError::System { doing, source }
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    fn next(&mut self) -> impl Future<Output = &'static str> {
        let Signals {
            terminate,
            interrupt,
        } = self;
        async {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        }
    }
}
