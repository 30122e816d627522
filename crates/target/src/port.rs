//! [`Port`]: an address that hosts connect to, and [`PathState`]: how good a path it is.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

use nvme::log::AnaState;
use reactor::CancelOnDrop;

use crate::settings::PortSettings;

/// How good a port is as a path to the namespaces behind it: the state of the one ANA group as
/// hosts see it there (NVMe 2.0 §8.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathState {
    /// As good as any.
    #[default]
    Optimized,
    /// To be used where no optimized path is left.
    NonOptimized,
    /// Not to be used: hosts keep their connections, and their I/O goes another way or waits.
    Inaccessible,
}

impl PathState {
    /// As the ANA log says it.
    pub(crate) fn ana(self) -> AnaState {
        match self {
            PathState::Optimized => AnaState::OPTIMIZED,
            PathState::NonOptimized => AnaState::NON_OPTIMIZED,
            PathState::Inaccessible => AnaState::INACCESSIBLE,
        }
    }
}

/// A port that is being listened on; dropping it stops that.
pub(crate) struct Port {
    pub settings: PortSettings,
    pub bound: SocketAddr,
    /// Shared with the connections made through it.
    pub path: Rc<Cell<PathState>>,
    pub _accepting: CancelOnDrop<()>,
}

impl Port {
    /// The address that discovery reports to a host that reached us at `local`.
    pub fn advertised(&self, local: SocketAddr) -> SocketAddr {
        match self.settings.advertise {
            Some(address) => address,
            None if self.bound.ip().is_unspecified() && local.is_ipv4() == self.bound.is_ipv4() => {
                SocketAddr::new(local.ip(), self.bound.port())
            }
            None => self.bound,
        }
    }
}
