//! `flashyard snapshot send` and `volume receive`: copies of snapshots that leave the node.
//!
//! Data goes over NVMe/TCP or NVMe/RDMA, as a host has it, and everything else over the REST API.
//! Neither a snapshot nor a volume in use is touched: a clone is read, and a volume aside is
//! written.

mod aside;
mod error;
mod object;
mod onlooker;
mod receive;
mod replicate;
mod send;
mod transfer;

use api::PortTransport;
use clap::Args;
use client::Client;
use initiator::{ConnectOptions, Credentials, TargetAddress};
use uuid::Uuid;

pub use self::receive::Receive;
pub use self::replicate::replicate;
pub use self::send::SendSnapshot;

use self::aside::Aside;
use self::error::CopyError;
use crate::host_secrets::HostSecrets;
use crate::reach::{addresses_of, first_that_answers};

/// What names of things begin with that are there for one copy only.
const PREFIX: &str = "stream-";

/// As which host data is read and written.
#[derive(Args, Default)]
pub struct Access {
    /// Connect as this host of the node; otherwise one is made for the time, with a key of its own
    #[arg(long, value_name = "HOST")]
    host: Option<api::Name>,
    /// How data goes, by tcp or rdma [default: rdma where the node has no port of TCP]
    #[arg(long)]
    transport: Option<PortTransport>,
    #[command(flatten)]
    secrets: HostSecrets,
    /// What is made for the time is called so, and quietly left where it cannot be deleted: the
    /// next copy of this name begins with that.
    #[arg(skip)]
    called: Option<api::Name>,
    #[arg(skip)]
    tls: Tls,
}

/// Whether a host that is made connects under TLS.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Tls {
    /// Where the node serves nothing in the clear.
    #[default]
    IfNeeded,
    /// Where the node serves anything under TLS.
    IfServed,
    /// Or not at all.
    Always,
}

impl Tls {
    /// Whether it is so with a node.
    fn of(self, status: &api::Status) -> Result<bool, CopyError> {
        let under_tls = &status.nvme_tls_addresses;
        match self {
            Tls::IfNeeded => {
                let in_the_clear = |address| !under_tls.contains(address);
                Ok(!status.nvme_addresses.iter().any(in_the_clear))
            }
            Tls::Always if under_tls.is_empty() => {
                let message = "the node serves NVMe/TCP in the clear only; allowed: a port with \
                               TLS, or --in-the-clear";
                Err(CopyError::Refused(message.to_owned()))
            }
            Tls::IfServed | Tls::Always => Ok(!under_tls.is_empty()),
        }
    }
}

/// A host that may connect.
pub struct Connecting {
    name: api::Name,
    options: ConnectOptions,
    transport: PortTransport,
    tls: bool,
}

impl Access {
    /// The host that was named, or one that is made and goes with `aside`.
    fn host(&self, client: &Client, aside: &mut Aside) -> Result<Connecting, CopyError> {
        let Some(name) = &self.host else {
            if self.secrets.dhchap().0.is_some() || self.secrets.has_tls_key() {
                let message = "secrets are those of a host that --host names";
                return Err(CopyError::Refused(message.to_owned()));
            }
            return self.made(client, aside);
        };
        let mut options = ConnectOptions::new(client.host(name)?.nqn);
        self.secrets
            .apply(&mut options)
            .map_err(CopyError::Secret)?;
        let status = client.status()?;
        Ok(Connecting {
            name: name.clone(),
            options,
            transport: self.transport_to(&status),
            tls: self.secrets.has_tls_key(),
        })
    }

    /// A host that nobody else can be: it proves a secret, or connects under TLS.
    fn made(&self, client: &Client, aside: &mut Aside) -> Result<Connecting, CopyError> {
        let status = client.status()?;
        let transport = self.transport_to(&status);
        let in_the_clear = transport == PortTransport::Rdma && self.tls != Tls::Always;
        let tls = !in_the_clear && self.tls.of(&status)?;
        let nqn = format!("nqn.2014-08.org.nvmexpress:uuid:{}", Uuid::new_v4());
        let name = self.name()?;
        let mut options = ConnectOptions::new(&nqn);
        let spec = api::HostSpec { nqn, tenant: None };
        client.add_host(&name, &spec)?;
        aside.host = Some(name.clone());
        let unusable = |_| CopyError::Secret("the node made one that is none".to_owned());
        if tls {
            let made = client.generate_tls_key(&name, &api::TlsKeyRequest::default())?;
            options.tls_key = Some(made.key.reveal().parse().map_err(|_| unusable(()))?);
        } else {
            let made = client.generate_host_key(&name, &api::HostKeyRequest::default())?;
            let secret = made.secret.reveal().parse().map_err(|_| unusable(()))?;
            options.credentials = Some(Credentials::new(secret, None));
        }
        Ok(Connecting {
            name,
            options,
            transport,
            tls,
        })
    }

    /// How a node is reached: as it was told, or as it can be.
    fn transport_to(&self, status: &api::Status) -> PortTransport {
        let no_tcp = status.nvme_addresses.is_empty() && !status.nvme_rdma_addresses.is_empty();
        let usual = if no_tcp {
            PortTransport::Rdma
        } else {
            PortTransport::Tcp
        };
        self.transport.unwrap_or(usual)
    }

    /// What a host or a volume is called that is made for the time.
    fn name(&self) -> Result<api::Name, CopyError> {
        match &self.called {
            Some(name) => Ok(name.clone()),
            None => any_name(),
        }
    }

    /// What takes back what is made.
    fn aside(&self, client: &Client) -> Aside {
        Aside::new(client, self.called.is_some())
    }
}

/// A name that nothing has yet.
fn any_name() -> Result<api::Name, CopyError> {
    let random = Uuid::new_v4().simple().to_string();
    name(&format!("{PREFIX}{}", &random[..12]))
}

/// A name, which may come from a stream.
fn name(text: &str) -> Result<api::Name, CopyError> {
    text.parse()
        .map_err(|error: api::NameError| CopyError::Refused(error.to_string()))
}

/// Where the host finds a volume.
fn address(
    client: &Client,
    volume: &api::Volume,
    connecting: &Connecting,
) -> Result<TargetAddress, CopyError> {
    let Connecting { transport, tls, .. } = connecting;
    let status = client.status_for(&volume.name)?;
    let found = addresses_of(&status, volume, *transport, *tls)?;
    let none = || {
        let transport = transport.word().to_uppercase();
        CopyError::Refused(format!(
            "the node serves no NVMe/{transport} address for this host"
        ))
    };
    first_that_answers(found).ok_or_else(none)
}

/// Bytes for people.
fn size(bytes: u64) -> String {
    api::Size(bytes).to_string()
}
