//! [`Port`]: an address that hosts connect to.

use std::net::SocketAddr;

use reactor::CancelOnDrop;

use crate::settings::PortSettings;

/// A port that is being listened on; dropping it stops that.
pub(crate) struct Port {
    pub settings: PortSettings,
    pub bound: SocketAddr,
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
