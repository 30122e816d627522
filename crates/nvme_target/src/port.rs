//! [`Port`]: an address that hosts connect to, and how good a path it is.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;
use rdma::Listener;
use reactor::net::BoundAddress;
use reactor::{CancelOnDrop, Task};

use crate::error::TargetError;
use crate::paths::{AnaGroupId, Changed, PathState, Paths};
use crate::per_core::Core;
use crate::rdma_port;
use crate::reach::{Asker, address_for};
use crate::session::Origin;
use crate::settings::{PortSettings, Transport};
use crate::target::Target;
use crate::tcp;

/// A port; dropping it gives its address back.
pub(crate) struct Port {
    pub settings: PortSettings,
    pub bound: SocketAddr,
    /// Shared with the connections made through it.
    pub paths: Rc<Paths>,
    pub door: Door,
}

/// Whether hosts can connect through a port.
pub(crate) enum Door {
    /// Not yet: the address is taken, and connections to it are refused.
    Reserved(Reserved),
    /// Connections are accepted for as long as this is there.
    Open {
        /// Accepts.
        _accepting: CancelOnDrop<()>,
    },
    /// Not here: the target stops, another core takes the connections, or the address cannot be
    /// taken yet.
    Closed,
}

/// An address that is taken.
pub(crate) enum Reserved {
    Tcp(BoundAddress),
    Rdma(Listener),
}

impl Reserved {
    fn take(settings: &PortSettings, timeout: Duration) -> io::Result<Reserved> {
        Ok(match settings.transport {
            Transport::Tcp => Reserved::Tcp(tcp::reserve(settings, timeout)?),
            Transport::Rdma => Reserved::Rdma(Listener::bind(settings.listen)?),
        })
    }

    fn local_address(&self) -> SocketAddr {
        match self {
            Reserved::Tcp(bound) => bound.local_address(),
            Reserved::Rdma(listener) => listener.local_address(),
        }
    }

    /// Listens, and accepts until cancelled.
    fn accept<D: BlockDevice + 'static>(
        self,
        core: &Rc<Core<D>>,
        origin: Origin,
    ) -> io::Result<Task<()>> {
        let core = Rc::clone(core);
        Ok(match self {
            Reserved::Tcp(bound) => reactor::spawn(tcp::accept(core, origin, bound.listen()?)),
            Reserved::Rdma(listener) => {
                listener.listen()?;
                reactor::spawn(rdma_port::accept(core, origin, listener))
            }
        })
    }
}

impl Port {
    /// The address that discovery reports to a host, if it can reach one.
    pub fn address_for(&self, host: &Asker) -> Option<SocketAddr> {
        address_for(self.bound, self.settings.advertise, host)
    }
}

impl<D: BlockDevice + 'static> Target<D> {
    /// Takes a port's address and listens there; returns the address it has got.
    pub fn add_port(&self, settings: PortSettings) -> Result<SocketAddr, TargetError> {
        let id = settings.id;
        let bound = self.reserve_port(settings)?;
        if let Err(error) = self.open_port(id) {
            self.0.ports.borrow_mut().remove(&id);
            return Err(error);
        }
        Ok(bound)
    }

    /// Takes a port's address; until [`Target::open_ports`] connections to it are refused, as if
    /// nobody was there. Returns the address it has got.
    pub fn reserve_port(&self, settings: PortSettings) -> Result<SocketAddr, TargetError> {
        let core = &self.0;
        if core.ports.borrow().contains_key(&settings.id) {
            return Err(TargetError::PortExists(settings.id));
        }
        let address = settings.listen;
        let reserved = Reserved::take(&settings, core.settings.network_timeout)
            .map_err(|source| TargetError::Bind { address, source })?;
        let bound = reserved.local_address();
        self.insert_port(settings, bound, Door::Reserved(reserved));
        Ok(bound)
    }

    /// Knows a port whose connections another core takes, or whose address cannot be taken yet.
    pub fn know_port(&self, settings: PortSettings) -> Result<(), TargetError> {
        if self.0.ports.borrow().contains_key(&settings.id) {
            return Err(TargetError::PortExists(settings.id));
        }
        let bound = settings.listen;
        self.insert_port(settings, bound, Door::Closed);
        Ok(())
    }

    fn insert_port(&self, settings: PortSettings, bound: SocketAddr, door: Door) {
        let port = Port {
            bound,
            paths: Rc::default(),
            door,
            settings,
        };
        self.0.ports.borrow_mut().insert(port.settings.id, port);
        self.0.discovery_changed();
    }

    /// Takes the address of a port that was only [known](Target::know_port), and listens there.
    pub fn open_known_port(&self, id: u16) -> Result<(), TargetError> {
        let core = &self.0;
        {
            let mut ports = core.ports.borrow_mut();
            let port = ports.get_mut(&id).ok_or(TargetError::UnknownPort(id))?;
            let address = port.settings.listen;
            let reserved = Reserved::take(&port.settings, core.settings.network_timeout)
                .map_err(|source| TargetError::Bind { address, source })?;
            port.bound = reserved.local_address();
            port.door = Door::Reserved(reserved);
        }
        self.open_port(id)
    }

    /// Listens on every port that was reserved.
    pub fn open_ports(&self) -> Result<(), TargetError> {
        let ids: Vec<u16> = self.0.ports.borrow().keys().copied().collect();
        ids.into_iter().try_for_each(|id| self.open_port(id))
    }

    /// Listens on a port, if it was reserved.
    fn open_port(&self, id: u16) -> Result<(), TargetError> {
        let core = &self.0;
        let mut ports = core.ports.borrow_mut();
        let port = ports.get_mut(&id).ok_or(TargetError::UnknownPort(id))?;
        match std::mem::replace(&mut port.door, Door::Closed) {
            Door::Reserved(reserved) => {
                let address = port.bound;
                let origin = Origin {
                    port_id: id,
                    paths: Rc::clone(&port.paths),
                    tls: port.settings.tls,
                    transport: port.settings.transport,
                };
                let accepting = reserved.accept(core, origin);
                let accepting =
                    accepting.map_err(|source| TargetError::Bind { address, source })?;
                port.door = Door::Open {
                    _accepting: accepting.cancel_on_drop(),
                };
            }
            other => port.door = other,
        }
        Ok(())
    }

    /// Stops listening on a port; connections made through it stay.
    pub fn remove_port(&self, id: u16) -> Result<(), TargetError> {
        let removed = self.0.ports.borrow_mut().remove(&id);
        removed.ok_or(TargetError::UnknownPort(id))?;
        self.0.discovery_changed();
        Ok(())
    }

    /// Makes a port a better or a worse path to every group that has no state of its own there.
    /// Connected hosts are told. In a state that refuses commands I/O in flight ends and no other
    /// begins. Hosts that were told of a persistent loss are disconnected when it ends: a
    /// controller does not leave that state (NVMe 2.1 §8.1.1.7).
    pub fn set_path_state(&self, port: u16, state: PathState) -> Result<(), TargetError> {
        self.change_paths(port, |paths| paths.set_common(state))
    }

    /// Gives a group a state of its own at a port, or that of the port again.
    pub fn set_group_path_state(
        &self,
        port: u16,
        group: AnaGroupId,
        state: Option<PathState>,
    ) -> Result<(), TargetError> {
        self.change_paths(port, |paths| paths.set_own(group, state))
    }

    fn change_paths(
        &self,
        id: u16,
        change: impl FnOnce(&Paths) -> Option<Changed>,
    ) -> Result<(), TargetError> {
        let ports = self.0.ports.borrow();
        let port = ports.get(&id).ok_or(TargetError::UnknownPort(id))?;
        if let Some(changed) = change(&port.paths) {
            self.0.path_changed(id, &changed);
        }
        Ok(())
    }
}
