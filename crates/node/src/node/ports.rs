//! Ports of a node: who takes their addresses, and those whose addresses cannot be taken yet.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nvme_target::Transport;
use reactor::cores::CoreHandle;

use crate::core::Core;
use crate::error::NodeError;
use crate::spec::{EventSink, NodeEvent, PortSpec};

/// How often a port is tried again whose address cannot be taken.
const TRIED_EVERY: Duration = Duration::from_secs(5);

/// A port whose address is taken, or known to be that of a port.
pub(super) struct Reserved {
    pub address: SocketAddr,
    pub missing: Option<Missed>,
}

/// Who would take a port's connections, and why that cannot be yet.
pub(super) struct Missed {
    core: CoreHandle,
    fault: NodeError,
}

/// A port that serves nobody until its address can be taken.
pub(super) struct MissingPort {
    index: usize,
    core: CoreHandle,
    fault: Arc<Mutex<Option<String>>>,
    events: EventSink,
}

impl MissingPort {
    /// Tells of it.
    pub fn new(index: usize, missed: Missed, events: EventSink) -> MissingPort {
        let fault = Some(missed.fault.to_string());
        events(NodeEvent::Port {
            index,
            fault: fault.clone(),
        });
        MissingPort {
            index,
            core: missed.core,
            fault: Arc::new(Mutex::new(fault)),
            events,
        }
    }

    /// Its place in the specification.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Why nobody can connect to it.
    pub fn fault(&self) -> Option<String> {
        let fault = self.fault.lock();
        fault.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tries its core every few seconds, until it has the address or the node stops.
    pub async fn await_address(&self, id: u64) -> Result<(), NodeError> {
        let (index, fault) = (self.index, Arc::clone(&self.fault));
        let (key, events) = ((id, self.core.index()), Arc::clone(&self.events));
        let tries = move || async move {
            loop {
                reactor::sleep(TRIED_EVERY).await;
                // Without a core the node has stopped.
                let Ok(core) = Core::of(key) else {
                    return;
                };
                let still = core.open_known_port(index).err();
                let still = still.map(|error| error.to_string());
                let is_open = still.is_none();
                *fault.lock().unwrap_or_else(PoisonError::into_inner) = still;
                if is_open {
                    events(NodeEvent::Port { index, fault: None });
                    return;
                }
            }
        };
        let begin = move || async move { drop(reactor::spawn(tries())) };
        Ok(self.core.submit(begin).await?)
    }
}

/// Takes the address of `port` on every core; the kernel spreads connections over them.
pub(super) async fn reserve(
    id: u64,
    cores: &[CoreHandle],
    port: PortSpec,
) -> Result<Reserved, NodeError> {
    if port.transport == Transport::Rdma {
        return reserve_on_one(id, cores, port).await;
    }
    let shared = cores.len() > 1;
    let mut bound = port.listen;
    for core in cores {
        let key = (id, core.index());
        let port = PortSpec {
            listen: bound,
            ..port
        };
        let submitted =
            core.submit(move || async move { Core::of(key)?.reserve_port(port, shared).await });
        bound = submitted.await??;
    }
    Ok(Reserved {
        address: bound,
        missing: None,
    })
}

/// Takes the address of `port` on one core, which the port's number picks: no two can listen at the
/// same address of an RDMA device. The others know of it. Where there is no such device, or nothing
/// that reaches it, the node serves its other ports.
async fn reserve_on_one(
    id: u64,
    cores: &[CoreHandle],
    port: PortSpec,
) -> Result<Reserved, NodeError> {
    let chosen = usize::from(port.listen.port()) % cores.len().max(1);
    let (before, after) = cores.split_at(chosen);
    let (mut bound, mut missing) = (port.listen, None);
    for (place, core) in after.iter().chain(before).enumerate() {
        let key = (id, core.index());
        let port = PortSpec {
            listen: bound,
            ..port
        };
        let submitted = core.submit(move || async move {
            let core = Core::of(key)?;
            if place > 0 {
                core.know_port(port)?;
                return Ok((port.listen, None));
            }
            core.reserve_or_know_port(port).await
        });
        let reserved: Result<(SocketAddr, Option<NodeError>), NodeError> = submitted.await?;
        let (address, fault) = reserved?;
        bound = address;
        missing = missing.or(fault.map(|fault| Missed {
            core: core.clone(),
            fault,
        }));
    }
    Ok(Reserved {
        address: bound,
        missing,
    })
}
