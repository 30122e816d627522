//! Hosts: what they have to prove, on every core.

use std::rc::Rc;
use std::sync::Arc;

use access::{HostKeys, Nqn, TlsKey};

use crate::core::Core;
use crate::error::NodeError;
use crate::layout::Layout;

impl Layout {
    /// Changes a host's key for TLS, on every core.
    pub async fn set_tls_key(&self, host: Nqn, key: Option<TlsKey>) -> Result<(), NodeError> {
        let work = move |core: Rc<Core>| {
            let (host, key) = (host.clone(), key.clone());
            async move {
                core.set_tls_key(&host, key);
                Ok(())
            }
        };
        self.everywhere(work).await
    }

    /// Which tenant a host belongs to, on every core.
    pub async fn set_host_tenant(
        &self,
        host: Nqn,
        tenant: Option<Arc<str>>,
    ) -> Result<(), NodeError> {
        let work = move |core: Rc<Core>| {
            let (host, tenant) = (host.clone(), tenant.clone());
            async move {
                core.set_host_tenant(&host, tenant);
                Ok(())
            }
        };
        self.everywhere(work).await
    }

    /// Changes what a host has to prove, on every core.
    pub async fn set_host_keys(&self, host: Nqn, keys: Option<HostKeys>) -> Result<(), NodeError> {
        let work = move |core: Rc<Core>| {
            let (host, keys) = (host.clone(), keys.clone());
            async move {
                core.set_host_keys(&host, keys);
                Ok(())
            }
        };
        self.everywhere(work).await
    }
}
