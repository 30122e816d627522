//! Hosts: what they have to prove, by a call to [`Node`].

use std::sync::Arc;

use access::{HostKeys, Nqn, TlsKey};

use crate::error::NodeError;
use crate::node::Node;

impl Node {
    /// Changes what a host has to prove before it is served; `None`: nothing. A host with another
    /// secret than before is disconnected, so that it proves the new one.
    pub async fn set_host_keys(&self, host: &Nqn, keys: Option<HostKeys>) -> Result<(), NodeError> {
        let host = host.clone();
        self.run(|layout| async move { layout.set_host_keys(host, keys).await })
            .await
    }

    /// Changes a host's key for TLS; `None`: it needs none. A host with another key than before is
    /// disconnected.
    pub async fn set_tls_key(&self, host: &Nqn, key: Option<TlsKey>) -> Result<(), NodeError> {
        let host = host.clone();
        self.run(|layout| async move { layout.set_tls_key(host, key).await })
            .await
    }

    /// Which tenant a host belongs to; `None`: it is the node's own. Keys of a tenant's host count
    /// on what is the tenant's. To be said before the host has keys.
    pub async fn set_host_tenant(
        &self,
        host: &Nqn,
        tenant: Option<Arc<str>>,
    ) -> Result<(), NodeError> {
        let host = host.clone();
        self.run(|layout| async move { layout.set_host_tenant(host, tenant).await })
            .await
    }
}
