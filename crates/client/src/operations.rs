//! One method per operation of the API.

use api::{
    AuditEntry, Caller, Drive, DriveHealth, DriveSpec, Event, Grant, Host, HostConnections,
    HostKey, HostKeyRequest, HostKeySpec, HostSpec, Limits, List, Metrics, Name, Namespace,
    NamespaceSpec, Namespaces, NewHostKey, NewTlsKey, Port, PortChange, Session, Settings,
    SettingsChange, Status, Tenant, TlsKeyRequest, TlsKeySpec, Token, TokenSpec, Volume,
    VolumeSpec,
};

use crate::{Client, ClientError};

impl Client {
    /// The node at a glance.
    pub fn status(&self) -> Result<Status, ClientError> {
        self.get("/v1/status")
    }

    /// The same, with its addresses in the order in which they are paths to a volume.
    pub fn status_for(&self, volume: &Name) -> Result<Status, ClientError> {
        self.get(&format!("/v1/status?volume={volume}"))
    }

    /// What the node does now and did lately, in intervals of this many seconds.
    pub fn metrics(&self, interval_seconds: u32) -> Result<Metrics, ClientError> {
        self.get(&format!("/v1/metrics?interval={interval_seconds}"))
    }

    /// The same and more as Prometheus reads it.
    pub fn figures(&self) -> Result<String, ClientError> {
        self.text("/metrics")
    }

    /// Every drive, by name.
    pub fn drives(&self) -> Result<List<Drive>, ClientError> {
        self.list("/v1/drives")
    }

    /// One drive.
    pub fn drive(&self, name: &Name) -> Result<Drive, ClientError> {
        self.get(&format!("/v1/drives/{name}"))
    }

    /// Makes the drive `name` be what `spec` says, and opens it.
    pub fn add_drive(&self, name: &Name, spec: &DriveSpec) -> Result<Drive, ClientError> {
        self.put(&format!("/v1/drives/{name}"), spec)
    }

    /// Closes and forgets a drive that no volume uses; its contents stay.
    pub fn remove_drive(&self, name: &Name) -> Result<(), ClientError> {
        self.delete_object(&format!("/v1/drives/{name}"))
    }

    /// Lets `host` manage a drive's namespaces over NVMe.
    pub fn grant_administration(&self, drive: &Name, host: &Name) -> Result<Drive, ClientError> {
        self.put_empty(&format!("/v1/drives/{drive}/administrators/{host}"))
    }

    /// No longer lets `host` manage a drive's namespaces; what it attached is detached.
    pub fn revoke_administration(&self, drive: &Name, host: &Name) -> Result<Drive, ClientError> {
        self.delete(&format!("/v1/drives/{drive}/administrators/{host}"))
    }

    /// The namespaces of a drive.
    pub fn namespaces(&self, drive: &Name) -> Result<Namespaces, ClientError> {
        self.get(&format!("/v1/drives/{drive}/namespaces"))
    }

    /// Creates a namespace on a drive that no volume uses.
    pub fn create_namespace(
        &self,
        drive: &Name,
        spec: &NamespaceSpec,
    ) -> Result<Namespace, ClientError> {
        self.post(&format!("/v1/drives/{drive}/namespaces"), spec)
    }

    /// Deletes a namespace, with its data, of a drive that no volume uses.
    pub fn delete_namespace(&self, drive: &Name, nsid: u32) -> Result<(), ClientError> {
        self.delete_object(&format!("/v1/drives/{drive}/namespaces/{nsid}"))
    }

    /// Attaches a namespace of an NVMe drive that no volume uses to the node's machine.
    pub fn attach_namespace(&self, drive: &Name, nsid: u32) -> Result<Namespace, ClientError> {
        self.put_empty(&format!("/v1/drives/{drive}/namespaces/{nsid}/attachment"))
    }

    /// Detaches it from there; its data stays.
    pub fn detach_namespace(&self, drive: &Name, nsid: u32) -> Result<(), ClientError> {
        self.delete_object(&format!("/v1/drives/{drive}/namespaces/{nsid}/attachment"))
    }

    /// The health of a drive that can tell.
    pub fn drive_health(&self, drive: &Name) -> Result<DriveHealth, ClientError> {
        self.get(&format!("/v1/drives/{drive}/health"))
    }

    /// Every volume, by name.
    pub fn volumes(&self) -> Result<List<Volume>, ClientError> {
        self.list("/v1/volumes")
    }

    /// One volume.
    pub fn volume(&self, name: &Name) -> Result<Volume, ClientError> {
        self.get(&format!("/v1/volumes/{name}"))
    }

    /// Makes the volume `name` be what `spec` says, and serves it.
    pub fn create_volume(&self, name: &Name, spec: &VolumeSpec) -> Result<Volume, ClientError> {
        self.put(&format!("/v1/volumes/{name}"), spec)
    }

    /// Stops serving a volume and forgets it; with `force` while hosts are connected.
    pub fn delete_volume(&self, name: &Name, force: bool) -> Result<(), ClientError> {
        self.delete_object(&format!("/v1/volumes/{name}?force={force}"))
    }

    /// Lets `host` (or `any`) see the volume.
    pub fn allow_host(&self, volume: &Name, host: &Name) -> Result<Volume, ClientError> {
        self.put_empty(&format!("/v1/volumes/{volume}/hosts/{host}"))
    }

    /// Hides the volume from `host` (or no longer shows it to `any`); ends sessions that rested
    /// on it, and answers once their last commands have ended.
    pub fn deny_host(&self, volume: &Name, host: &Name) -> Result<Volume, ClientError> {
        self.delete(&format!("/v1/volumes/{volume}/hosts/{host}"))
    }

    /// Limits what hosts do to the volume, or promises it a minimum.
    pub fn limit_volume(&self, name: &Name, limits: &Limits) -> Result<Volume, ClientError> {
        self.put(&format!("/v1/volumes/{name}/limits"), limits)
    }

    /// Every tenant that has limits, grants, volumes or hosts, by name.
    pub fn tenants(&self) -> Result<List<Tenant>, ClientError> {
        self.list("/v1/tenants")
    }

    /// Limits what a tenant's volumes do together.
    pub fn limit_tenant(&self, name: &Name, limits: &Limits) -> Result<Tenant, ClientError> {
        self.put(&format!("/v1/tenants/{name}/limits"), limits)
    }

    /// One tenant.
    pub fn tenant(&self, name: &Name) -> Result<Tenant, ClientError> {
        self.get(&format!("/v1/tenants/{name}"))
    }

    /// Lets a tenant's operators make volumes and snapshots in a pool, up to bounds.
    pub fn grant_pool(
        &self,
        tenant: &Name,
        pool: &Name,
        grant: &Grant,
    ) -> Result<Tenant, ClientError> {
        self.put(&format!("/v1/tenants/{tenant}/grants/{pool}"), grant)
    }

    /// Takes that back; what is there stays.
    pub fn revoke_pool(&self, tenant: &Name, pool: &Name) -> Result<(), ClientError> {
        self.delete_object(&format!("/v1/tenants/{tenant}/grants/{pool}"))
    }

    /// Addresses that serve NVMe/TCP, by number.
    pub fn ports(&self) -> Result<List<Port>, ClientError> {
        self.list("/v1/ports")
    }

    /// Makes a port a better or a worse path.
    pub fn change_port(&self, id: u16, change: &PortChange) -> Result<Port, ClientError> {
        self.patch(&format!("/v1/ports/{id}"), change)
    }

    /// Every host, by name.
    pub fn hosts(&self) -> Result<List<Host>, ClientError> {
        self.list("/v1/hosts")
    }

    /// One host.
    pub fn host(&self, name: &Name) -> Result<Host, ClientError> {
        self.get(&format!("/v1/hosts/{name}"))
    }

    /// How a host is connected, and how it connects.
    pub fn host_connections(&self, name: &Name) -> Result<HostConnections, ClientError> {
        self.get(&format!("/v1/hosts/{name}/connections"))
    }

    /// Makes the host `name` be what `spec` says.
    pub fn add_host(&self, name: &Name, spec: &HostSpec) -> Result<Host, ClientError> {
        self.put(&format!("/v1/hosts/{name}"), spec)
    }

    /// Forgets a host that no volume allows.
    pub fn remove_host(&self, name: &Name) -> Result<(), ClientError> {
        self.delete_object(&format!("/v1/hosts/{name}"))
    }

    /// A host's key, without its secrets.
    pub fn host_key(&self, host: &Name) -> Result<HostKey, ClientError> {
        self.get(&format!("/v1/hosts/{host}/key"))
    }

    /// Has a host prove the secret of `spec` from now on.
    pub fn set_host_key(&self, host: &Name, spec: &HostKeySpec) -> Result<HostKey, ClientError> {
        self.put(&format!("/v1/hosts/{host}/key"), spec)
    }

    /// Makes a new key for a host; its secrets are in the answer and never shown again.
    pub fn generate_host_key(
        &self,
        host: &Name,
        request: &HostKeyRequest,
    ) -> Result<NewHostKey, ClientError> {
        self.post(&format!("/v1/hosts/{host}/key"), request)
    }

    /// Asks nothing of a host any more.
    pub fn remove_host_key(&self, host: &Name) -> Result<(), ClientError> {
        self.delete_object(&format!("/v1/hosts/{host}/key"))
    }

    /// Has a host connect under TLS alone, with this key.
    pub fn set_tls_key(&self, host: &Name, spec: &TlsKeySpec) -> Result<Host, ClientError> {
        self.put(&format!("/v1/hosts/{host}/tls-key"), spec)
    }

    /// Makes a new TLS key for a host; it is in the answer and never shown again.
    pub fn generate_tls_key(
        &self,
        host: &Name,
        request: &TlsKeyRequest,
    ) -> Result<NewTlsKey, ClientError> {
        self.post(&format!("/v1/hosts/{host}/tls-key"), request)
    }

    /// Forgets a host's TLS key.
    pub fn remove_tls_key(&self, host: &Name) -> Result<(), ClientError> {
        self.delete_object(&format!("/v1/hosts/{host}/tls-key"))
    }

    /// Settings that change while the node runs.
    pub fn settings(&self) -> Result<Settings, ClientError> {
        self.get("/v1/settings")
    }

    /// Changes what `change` names, and keeps the rest.
    pub fn change_settings(&self, change: &SettingsChange) -> Result<Settings, ClientError> {
        self.patch("/v1/settings", change)
    }

    /// Whose token this client sends.
    pub fn myself(&self) -> Result<Caller, ClientError> {
        self.get("/v1/self")
    }

    /// Every token, by name.
    pub fn tokens(&self) -> Result<List<Token>, ClientError> {
        self.list("/v1/tokens")
    }

    /// Makes the token `name` be what `spec` says; a new one comes with its secret.
    pub fn create_token(&self, name: &Name, spec: &TokenSpec) -> Result<Token, ClientError> {
        self.put(&format!("/v1/tokens/{name}"), spec)
    }

    /// Makes a token worthless.
    pub fn revoke_token(&self, name: &Name) -> Result<(), ClientError> {
        self.delete_object(&format!("/v1/tokens/{name}"))
    }

    /// Changes after the one with the identifier `after`, made or refused, oldest first.
    pub fn audit(&self, after: u64) -> Result<List<AuditEntry>, ClientError> {
        self.list_after("/v1/audit", Some(after.to_string()))
    }

    /// Who is connected now.
    pub fn sessions(&self) -> Result<List<Session>, ClientError> {
        self.list("/v1/sessions")
    }

    /// Events with an identifier above `after`, oldest first.
    pub fn events(&self, after: u64) -> Result<List<Event>, ClientError> {
        self.list_after("/v1/events", Some(after.to_string()))
    }
}
