//! What hosts have to prove, and on which subsystems.
//!
//! Keys of a host of the node's own people count everywhere. Those of a tenant's host count on what
//! belongs to the tenant, and for discovery, which names that. On other subsystems that are open to
//! any host they count for nothing: a tenant neither shuts its host out there, nor proves it there.
//! Where such a subsystem lists the host, it is as good as its key, so there the key is asked for.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use access::{HostKeys, Nqn, TlsKey};
use block::BlockDevice;

use crate::connect::IDENTIFIER_TAKEN;
use crate::home::Refusal;
use crate::identities::{Identities, Use};
use crate::per_core::Core;
use crate::reservation::HostId;

/// What each host has to prove, and which identifiers are in use.
pub(crate) struct Credentials {
    /// Whose host identifiers are, on all cores.
    pub identities: Identities,
    /// Hosts that have to authenticate.
    host_keys: RefCell<BTreeMap<Nqn, Arc<HostKeys>>>,
    /// Hosts that come under TLS.
    tls_keys: RefCell<BTreeMap<Nqn, Arc<TlsKey>>>,
    /// Tenants that hosts belong to.
    tenants: RefCell<BTreeMap<Nqn, Arc<str>>>,
}

impl Credentials {
    /// Hosts have nothing to prove yet.
    pub fn new(identities: Identities) -> Credentials {
        Credentials {
            identities,
            host_keys: RefCell::default(),
            tls_keys: RefCell::default(),
            tenants: RefCell::default(),
        }
    }

    /// Which tenant a host belongs to; `None`: to the node's own people.
    pub fn set_tenant(&self, host: &Nqn, tenant: Option<Arc<str>>) {
        set(&self.tenants, host, tenant);
    }

    /// Whether what the host has to prove has changed.
    pub fn set_host_keys(&self, host: &Nqn, keys: Option<HostKeys>) -> bool {
        set(&self.host_keys, host, keys.map(Arc::new))
    }

    /// Whether the host's key has changed.
    pub fn set_tls_key(&self, host: &Nqn, key: Option<TlsKey>) -> bool {
        set(&self.tls_keys, host, key.map(Arc::new))
    }

    /// Every key for TLS.
    pub fn tls_keys(&self) -> Vec<(Nqn, Arc<TlsKey>)> {
        let keys = self.tls_keys.borrow();
        let keys = keys.iter();
        keys.map(|(host, key)| (host.clone(), Arc::clone(key)))
            .collect()
    }
}

/// Whether that changes anything.
fn set<T: PartialEq>(map: &RefCell<BTreeMap<Nqn, T>>, host: &Nqn, to: Option<T>) -> bool {
    let mut map = map.borrow_mut();
    let changed = map.get(host) != to.as_ref();
    match to {
        Some(to) => map.insert(host.clone(), to),
        None => map.remove(host),
    };
    changed
}

impl<D: BlockDevice + 'static> Core<D> {
    /// What a host has to prove to authenticate with a subsystem, if it has to.
    pub fn host_keys(&self, host: &Nqn, subsystem: &Nqn) -> Option<Arc<HostKeys>> {
        let keys = self.credentials.host_keys.borrow().get(host).cloned();
        keys.filter(|_| self.keys_count(host, subsystem))
    }

    /// Takes a host identifier for a controller of a host, which may have `proven` who it is.
    pub fn take_identifier(
        &self,
        subsystem: &Nqn,
        id: HostId,
        host: (&Nqn, bool),
    ) -> Result<Use, Refusal> {
        let taken = self.credentials.identities.take(subsystem, id, host);
        taken.ok_or(IDENTIFIER_TAKEN)
    }

    /// Whether a host comes to a subsystem under TLS alone.
    pub fn is_under_tls(&self, host: &Nqn, subsystem: &Nqn) -> bool {
        let keys = self.credentials.tls_keys.borrow();
        keys.contains_key(host) && self.keys_count(host, subsystem)
    }

    /// Whether a host's keys count for a subsystem.
    pub fn keys_count(&self, host: &Nqn, subsystem: &Nqn) -> bool {
        let tenants = self.credentials.tenants.borrow();
        let Some(tenant) = tenants.get(host) else {
            return true;
        };
        if self.is_discovery(subsystem) {
            return true;
        }
        self.subsystem(subsystem).is_none_or(|subsystem| {
            subsystem.settings.tenant.as_ref() == Some(tenant) || subsystem.names(host)
        })
    }
}
