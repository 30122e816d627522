//! [`Node`]: the handle that starts, commands and stops a data path.

mod hosts;
mod measure;
mod pools;
mod ports;
mod rules;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use access::{AllowedHosts, Nqn};
use nvme_target::rules::Rules;
use nvme_target::{AnaGroupId, Links, NodeIdentity, PathState};
use qos::Terms;
use reactor::cores::{CoreHandle, Cores, CoresConfig};
use reactor::{Reactor, ReactorConfig};

use self::ports::MissingPort;
use crate::core::Core;
use crate::error::NodeError;
use crate::layout::Layout;
use crate::spec::{
    Backing, DriveFacts, DriveSpec, EventSink, ManagedFacts, NamespacesFacts, NodeSpec,
    SessionFacts, VolumeSpec, discovery_nqn,
};
use crate::taking::Taking;
use crate::volume::remote::wire;

/// What the names of the threads that run cores start with.
pub const CORE_THREAD_NAME: &str = "flashyard-core";

/// Tells the nodes of one process apart; tests run several.
static NEXT_NODE: AtomicU64 = AtomicU64::new(0);

/// A running data path. Any thread may hold the handle and await its methods on any executor;
/// they run on the node's own cores, one after the other. Dropping the last handle stops the
/// cores without the courtesy of [`Node::shutdown`].
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

struct Inner {
    id: u64,
    first: CoreHandle,
    addresses: Vec<SocketAddr>,
    /// Ports at whose addresses nobody can listen yet.
    missing: Vec<MissingPort>,
    /// Taken by the shutdown that ends them.
    cores: Mutex<Option<Cores>>,
}

impl Node {
    /// Starts the cores that `spec` names and takes the addresses of its ports, where nobody
    /// listens until [`Node::listen`]; `events` is told what happens by itself.
    pub async fn start(spec: NodeSpec, events: EventSink) -> Result<Node, NodeError> {
        check_cpus(&spec.cores)?;
        let cores = Cores::start(CoresConfig {
            cpus: spec.cores.clone(),
            name: CORE_THREAD_NAME.to_owned(),
            reactor: ReactorConfig::default(),
        })?;
        Node::start_on(cores, &spec, events).await
    }

    /// Starts a node on cores that are there already, simulated ones for instance; `spec.cores`
    /// does not count.
    pub async fn start_on(
        cores: Cores,
        spec: &NodeSpec,
        events: EventSink,
    ) -> Result<Node, NodeError> {
        let id = NEXT_NODE.fetch_add(1, Ordering::Relaxed);
        let handles = cores.handles().to_vec();
        let first = handles.first().cloned().ok_or(NodeError::Stopped)?;
        let wirings = wire(handles.len()).into_iter().zip(wire(handles.len()));
        let identity = NodeIdentity {
            controller_ids: spec.controller_ids,
            discovery_nqn: Some(discovery_nqn(spec.uuid)),
        };
        let links = Links::of_node(handles.len(), &identity);
        for ((handle, wiring), links) in handles.iter().zip(wirings).zip(links) {
            let (key, events) = ((id, handle.index()), Arc::clone(&events));
            let pools = pool::Settings {
                map_cache_bytes: spec.map_cache_bytes,
                ..pool::Settings::default()
            };
            handle
                .submit(move || async move {
                    Core::start(key, links, wiring.into(), events, pools);
                })
                .await?;
        }
        let (layout, uuid) = (handles.clone(), spec.uuid);
        first
            .submit(move || async move { Layout::start(id, layout, uuid) })
            .await?;
        let mut addresses = Vec::with_capacity(spec.ports.len());
        let mut missing = Vec::new();
        for (index, port) in spec.ports.iter().enumerate() {
            let reserved = ports::reserve(id, &handles, *port).await?;
            let (address, missed) = (reserved.address, reserved.missing);
            addresses.push(address);
            missing
                .extend(missed.map(|missed| MissingPort::new(index, missed, Arc::clone(&events))));
        }
        let cores = Mutex::new(Some(cores));
        Ok(Node {
            inner: Arc::new(Inner {
                id,
                first,
                addresses,
                missing,
                cores,
            }),
        })
    }

    /// Lets hosts connect. For once every volume is there that hosts may ask for: to a host, one
    /// that is not served is one that is gone.
    pub async fn listen(&self) -> Result<(), NodeError> {
        self.run(|layout| async move { layout.open_ports().await })
            .await?;
        for port in &self.inner.missing {
            port.await_address(self.inner.id).await?;
        }
        Ok(())
    }

    /// Why nobody can connect through a port, by its place in the specification: its device is not
    /// there, for instance. It is tried again until it works.
    pub fn port_fault(&self, index: usize) -> Option<String> {
        let mut missing = self.inner.missing.iter();
        missing.find(|port| port.index() == index)?.fault()
    }

    /// Addresses and ports that serve hosts, in the order of the specification.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.inner.addresses
    }

    /// Opens a drive.
    pub async fn open_drive(&self, name: &str, spec: DriveSpec) -> Result<DriveFacts, NodeError> {
        let name = name.to_owned();
        self.run(|layout| async move { layout.open_drive(name, spec).await })
            .await
    }

    /// Flushes and closes a drive that no volume uses.
    pub async fn close_drive(&self, name: &str) -> Result<(), NodeError> {
        let name = name.to_owned();
        self.run(|layout| async move { layout.close_drive(name).await })
            .await
    }

    /// The namespaces of a drive whose namespaces can be managed.
    pub async fn namespaces(&self, drive: &str) -> Result<NamespacesFacts, NodeError> {
        let drive = drive.to_owned();
        self.run(|layout| async move { layout.namespaces_of(drive).await })
            .await
    }

    /// Attaches a namespace of an NVMe drive that no volume uses to this machine, or detaches it;
    /// gives what the drive is now.
    pub async fn set_namespace_attached(
        &self,
        drive: &str,
        nsid: u32,
        attached: bool,
    ) -> Result<DriveFacts, NodeError> {
        let drive = drive.to_owned();
        let work = move |layout: Rc<Layout>| async move {
            layout.set_namespace_attached(drive, nsid, attached).await
        };
        self.run(work).await
    }

    /// The namespaces of an emulated drive, and its health.
    pub async fn managed_facts(&self, drive: &str) -> Result<ManagedFacts, NodeError> {
        let drive = drive.to_owned();
        self.run(|layout| async move { layout.managed_facts(drive).await })
            .await
    }

    /// Creates a namespace on a drive that no volume uses; gives its identifier, and what the
    /// drive is now.
    pub async fn create_namespace(
        &self,
        drive: &str,
        request: ssd::NamespaceRequest,
    ) -> Result<(u32, DriveFacts), NodeError> {
        let drive = drive.to_owned();
        self.run(move |layout| async move { layout.create_namespace(drive, request).await })
            .await
    }

    /// Deletes a namespace, with its data, of a drive that no volume uses; gives what the drive
    /// is now.
    pub async fn delete_namespace(&self, drive: &str, nsid: u32) -> Result<DriveFacts, NodeError> {
        let drive = drive.to_owned();
        self.run(move |layout| async move { layout.delete_namespace(drive, nsid).await })
            .await
    }

    /// Lets these hosts, and no others, manage a drive's namespaces over NVMe, where they see it as
    /// the subsystem `nqn`.
    pub async fn set_administrators(
        &self,
        drive: &str,
        nqn: &Nqn,
        hosts: BTreeSet<Nqn>,
    ) -> Result<(), NodeError> {
        let (drive, nqn) = (drive.to_owned(), nqn.clone());
        self.run(|layout| async move { layout.set_administrators(drive, nqn, hosts).await })
            .await
    }

    /// Serves a volume; gives its capacity in bytes. A drive that it takes whole
    /// keeps its contents.
    pub async fn create_volume(&self, spec: VolumeSpec) -> Result<u64, NodeError> {
        self.create_volume_taking(spec, Taking::AsItIs).await
    }

    /// Serves a volume; gives its capacity in bytes. A drive that it takes whole is taken so.
    pub async fn create_volume_taking(
        &self,
        spec: VolumeSpec,
        taking: Taking,
    ) -> Result<u64, NodeError> {
        self.run(move |layout| async move { layout.create_volume(spec, taking).await })
            .await
    }

    /// Puts a volume on another backing while hosts stay connected; gives its capacity in bytes.
    /// Its rules stay as they are, unless it has these there.
    pub async fn set_backing(
        &self,
        volume: &str,
        backing: Backing,
        rules: Option<Arc<Rules>>,
    ) -> Result<u64, NodeError> {
        let volume = volume.to_owned();
        self.run(|layout| async move { layout.set_backing(volume, backing, rules).await })
            .await
    }

    /// Calls a volume otherwise from now on; hosts do not notice.
    pub async fn rename_volume(&self, from: &str, to: &str) -> Result<(), NodeError> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.run(|layout| async move { layout.rename_volume(from, to).await })
            .await
    }

    /// Stops serving a volume, after its I/O in flight.
    pub async fn delete_volume(&self, name: &str) -> Result<(), NodeError> {
        let name = name.to_owned();
        self.run(|layout| async move { layout.delete_volume(name).await })
            .await
    }

    /// Changes who may see a volume. Hosts that may see no volume of its subsystem any more are
    /// disconnected.
    pub async fn set_allowed_hosts(
        &self,
        nqn: &Nqn,
        nsid: u32,
        to: AllowedHosts,
    ) -> Result<(), NodeError> {
        let nqn = nqn.clone();
        self.run(move |layout| async move { layout.set_allowed_hosts(nqn, nsid, to).await })
            .await
    }

    /// Returns when hosts that may not see a volume can no longer change anything on it.
    ///
    /// # Errors
    /// [`NodeError::Unfenced`] when commands of theirs take long on their drive.
    pub async fn await_fence(&self, nqn: &Nqn, nsid: u32) -> Result<(), NodeError> {
        let nqn = nqn.clone();
        self.run(move |layout| async move { layout.await_fence(nqn, nsid).await })
            .await
    }

    /// Makes the port that is the `index`th of the specification a better or a worse path to
    /// everything behind it; connected hosts are told.
    pub async fn set_path_state(&self, index: usize, state: PathState) -> Result<(), NodeError> {
        self.run(move |layout| async move { layout.set_path_state(index, state).await })
            .await
    }

    /// Gives the ANA group of a pool a state of its own at a port, or the port's again; connected
    /// hosts that see a volume of it are told.
    pub async fn set_group_path_state(
        &self,
        index: usize,
        group: AnaGroupId,
        state: Option<PathState>,
    ) -> Result<(), NodeError> {
        self.run(
            move |layout| async move { layout.set_group_path_state(index, group, state).await },
        )
        .await
    }

    /// These terms hold for a namespace, on all cores together.
    pub async fn set_terms(&self, nqn: &Nqn, nsid: u32, terms: Terms) -> Result<(), NodeError> {
        let (nqn, terms) = (nqn.clone(), Arc::new(terms));
        self.run(move |layout| async move { layout.set_terms(nqn, nsid, terms).await })
            .await
    }

    /// Who is connected now.
    pub async fn sessions(&self) -> Result<Vec<SessionFacts>, NodeError> {
        self.run(|layout| async move { layout.sessions().await })
            .await
    }

    /// Stops accepting connections, lets I/O in flight end for at most `grace`, closes every
    /// connection, makes everything acknowledged durable, and ends the cores.
    pub async fn shutdown(&self, grace: Duration) -> Result<(), NodeError> {
        let done = self
            .run(move |layout| async move { layout.shutdown(grace).await })
            .await;
        let cores = self
            .inner
            .cores
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(cores) = cores {
            cores.stop();
        }
        done
    }

    /// Runs `work` on the first core.
    pub(crate) async fn run<T, W, F>(&self, work: W) -> Result<T, NodeError>
    where
        T: Send + 'static,
        W: FnOnce(Rc<Layout>) -> F + Send + 'static,
        F: Future<Output = Result<T, NodeError>> + 'static,
    {
        let id = self.inner.id;
        let submitted = self
            .inner
            .first
            .submit(move || async move { work(Layout::of(id)?).await });
        submitted.await?
    }
}

/// Refuses a machine on which a node cannot run on these CPUs.
///
/// # Errors
/// A CPU that is not there for this process, or why the event loop cannot run.
pub fn check_machine(cpus: &[usize]) -> Result<(), NodeError> {
    check_cpus(&cpus.iter().copied().map(Some).collect::<Vec<_>>())?;
    Reactor::io_uring(ReactorConfig::default())?;
    Ok(())
}

/// Refuses CPUs that the process may not run on.
fn check_cpus(cores: &[Option<usize>]) -> Result<(), NodeError> {
    let Ok(available) = rustix::thread::sched_getaffinity(None) else {
        // Pinning itself will say what is wrong.
        return Ok(());
    };
    let usable = |cpu: usize| cpu < rustix::thread::CpuSet::MAX_CPU && available.is_set(cpu);
    match cores.iter().flatten().find(|cpu| !usable(**cpu)) {
        None => Ok(()),
        Some(cpu) => {
            let all = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| usable(*cpu));
            let allowed: Vec<String> = all.map(|cpu| cpu.to_string()).collect();
            Err(NodeError::NoSuchCpu {
                cpu: *cpu,
                allowed: allowed.join(", "),
            })
        }
    }
}
